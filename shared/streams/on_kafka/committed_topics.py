"""Topics on Kafka as those read them that keep positions of their own: no group, committed records
alone, each Kafka partition from a position on."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Self

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPartition

from shared.catalogue.record import TopicPartition
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.facts import KafkaFacts
from shared.streams.stages.consistency import LogFacts
from shared.streams.stages.provenance import LastRead

_MOST_RECORDS: Final = 5_000
# How long a look at the topics may take where nothing comes.
_POLL_MS: Final = 500


class CommittedTopics:
    """The topics of one deployment. Who reads says what it makes of the consumer's records."""

    def __init__(self, deployment: Deployment, consumer: AIOKafkaConsumer) -> None:
        self._deployment = deployment
        self._facts = KafkaFacts(deployment)
        self._consumer = consumer
        self._behind = 0

    @classmethod
    @asynccontextmanager
    async def connected(cls, deployment: Deployment) -> AsyncIterator[Self]:
        """Connect."""
        consumer = AIOKafkaConsumer(
            **deployment.connection,
            isolation_level="read_committed",
            enable_auto_commit=False,
            # An offset that was removed is no reason to continue elsewhere: nothing is left out.
            auto_offset_reset="none",
            max_partition_fetch_bytes=deployment.max_record_bytes,
        )
        found = cls(deployment, consumer)
        try:
            await consumer.start()
            yield found
        finally:
            await consumer.stop()
            await asyncio.to_thread(found._facts.close)

    async def facts(
        self,
        topics: Iterable[str],
        last_read: Mapping[TopicPartition, LastRead],
        partitions: Iterable[TopicPartition],
    ) -> LogFacts:
        """Return what Kafka holds now."""
        return await asyncio.to_thread(self._facts.of_partitions, topics, last_read, partitions)

    async def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions, each from a position on."""
        named = {self._named(each): position for each, position in positions.items()}
        self._consumer.assign(list(named))
        for each, position in named.items():
            self._consumer.seek(each, position)

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset behind all that was read of a Kafka partition, markers of transactions
        too."""
        return int(await self._consumer.position(self._named(partition)))

    def behind(self) -> int:
        """Return how many offsets were not read yet."""
        return self._behind

    async def _polled(self) -> Mapping[TopicPartition, Sequence[Any]]:
        """Return the consumer's records that have come; wait a moment where nothing has."""
        found = await self._consumer.getmany(timeout_ms=_POLL_MS, max_records=_MOST_RECORDS)
        self._behind = sum([await self._left(each) for each in self._consumer.assignment()])
        return {
            TopicPartition(self._deployment.topic_of(each.topic), each.partition): records
            for each, records in found.items()
        }

    async def _left(self, partition: KafkaPartition) -> int:
        """The end is known once something was answered."""
        end = self._consumer.last_stable_offset(partition)
        return max(end - await self._consumer.position(partition), 0) if end else 0

    def _named(self, partition: TopicPartition) -> KafkaPartition:
        return KafkaPartition(self._deployment.name(partition.topic), partition.kafka_partition)
