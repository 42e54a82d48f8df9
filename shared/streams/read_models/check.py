"""Whether a read model in Redis follows from what Kafka holds."""

import asyncio
from collections.abc import Mapping
from typing import Any

from shared.catalogue.record import TopicPartition
from shared.catalogue.topics import Cleanup
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.facts import KafkaFacts
from shared.streams.read_models.read_model import ReadModel
from shared.streams.stages.consistency import (
    HOW_TO,
    Inconsistency,
    InconsistentError,
    LogFacts,
    missing,
    read_model_differences,
)
from shared.streams.stages.provenance import Provenance


class ReadModelCheck:
    """Compares the positions of a read model, and the records that it applied last, with Kafka."""

    def __init__(self, deployment: Deployment, name: str, model: ReadModel[Any]) -> None:
        self._deployment = deployment
        self._name = name
        self._model = model
        self._facts = KafkaFacts(deployment)
        self.topic_ids: Mapping[str, bytes] = {}

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Return every partition that the read model follows from, as declared."""
        topics = self._deployment.topics
        return tuple(
            partition for name in self._model.topics for partition in topics.partitions(name)
        )

    async def differences(self) -> list[Inconsistency]:
        """Return what does not follow from Kafka, with what to do. Raises KafkaError and
        RedisError."""
        known = await self._model.provenance(self.partitions)
        found = await asyncio.to_thread(self._found, known)
        self.topic_ids = {name: topic.topic_id for name, topic in found.topics.items()}
        absent = [missing(name) for name in self._model.topics if name not in found.topics]
        advice = f"`coplace restore rebuild {self._name}` makes it anew from Kafka, see {HOW_TO}"
        differences = read_model_differences(known, found, self._compacted)
        return absent + [Inconsistency(one.what, advice) for one in differences]

    async def check(self) -> None:
        """Raise InconsistentError when the read model must not be added to."""
        if wrong := await self.differences():
            raise InconsistentError(self._name, wrong)

    def close(self) -> None:
        """Disconnect from the topics that are looked at."""
        self._facts.close()

    def _found(self, known: Provenance) -> LogFacts:
        return self._facts.of_partitions(self._model.topics, known.last_read, known.positions)

    @property
    def _compacted(self) -> frozenset[str]:
        spec = self._deployment.topics.spec
        names = (name for name in self._model.topics if spec(name).cleanup is Cleanup.COMPACT)
        return frozenset(names)
