"""Follows what placement decides, as a resource manager that obeys it."""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPartition
from coplace.v1.placement_pb2 import PlacementDecided
from google.protobuf.message import DecodeError

from shared.catalogue.record import type_of
from shared.clients.asked import is_asked
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.stages.hooks import Backlog

DECISIONS: Final = "placement.decisions"
_TYPE: Final = PlacementDecided.DESCRIPTOR.full_name.encode()
_POLL_MS: Final = 200

log = logging.getLogger(__name__)
Obey = Callable[[Sequence[PlacementDecided]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ResourceManager:
    """Who obeys: its `name` is among all resource managers its own, and says which decisions it has
    obeyed before; on its `clusters` of the `site` nobody else does."""

    name: str
    site: str
    clusters: frozenset[str]

    def is_asked(self, decision: PlacementDecided) -> bool:
        """Return whether it is to obey a decision."""
        return is_asked(decision, self.site, self.clusters)


class DecisionFollower:
    """The decisions since this resource manager was stopped, and those that come. Its position is
    committed behind what was obeyed, so that one that was killed reads some decisions again: up to
    `at_once` of them."""

    def __init__(self, deployment: Deployment, manager: ResourceManager, at_once: int) -> None:
        self._manager, self._at_once = manager, at_once
        self._partitions = [
            KafkaPartition(deployment.name(DECISIONS), each.kafka_partition)
            for each in deployment.topics.partitions(DECISIONS)
        ]
        self._consumer = AIOKafkaConsumer(
            **deployment.connection,
            group_id=deployment.name(f"resource-manager.{manager.name}"),
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_partition_fetch_bytes=deployment.max_record_bytes,
        )
        # When each was written, in ms since 1970.
        self._in_hand: Sequence[int] = ()

    def backlog(self) -> Backlog:
        """Return what has come and is not obeyed yet: while a resource manager does not answer, it
        waits."""
        in_hand = self._in_hand
        age_s = time.time() - min(in_hand) / 1e3 if in_hand else 0.0
        return Backlog(len(in_hand), max(0.0, age_s))

    async def run(self, obey: Obey) -> None:
        """Let decisions be obeyed, those made and those to come, until cancelled; of a job in
        order. Raises KafkaError where Kafka is not there to begin with."""
        self._consumer.assign(self._partitions)
        try:
            await self._consumer.start()
            while True:
                await self._obeyed(obey)
        finally:
            await self._consumer.stop()

    async def _obeyed(self, obey: Obey) -> None:
        found = await self._consumer.getmany(timeout_ms=_POLL_MS, max_records=self._at_once)
        records = [record for each in found.values() for record in each]
        self._in_hand = [record.timestamp for record in records]
        await obey([each for record in records for each in self._decisions(record)])
        self._in_hand = ()
        if records:
            await self._consumer.commit()

    def _decisions(self, record: Any) -> Sequence[PlacementDecided]:
        """The one that a record is, where this resource manager is asked; beside decisions the
        topic has the barriers of rounds, and what is published of caps and promises."""
        if record.value is None or type_of(record) != _TYPE:
            return ()
        try:
            decision = PlacementDecided.FromString(record.value)
        except DecodeError:
            log.error(
                "a decision cannot be read", extra={"at": f"{record.partition}/{record.offset}"}
            )
            return ()
        return (decision,) if self._manager.is_asked(decision) else ()
