"""The decisions of placement since this process was stopped, and those that come."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPartition
from coplace.v1.placement_pb2 import PlacementDecided

from shared.messaging.on_kafka.deployment import Deployment
from shared.messaging.stages.hooks import Backlog

TOPIC: Final = "placement.decisions"
_TYPE: Final = PlacementDecided.DESCRIPTOR.full_name.encode()
_POLL_MS: Final = 200
_FETCH_WAIT_MS: Final = 100
_BATCH: Final = 500

Obey = Callable[[PlacementDecided], Awaitable[None]]


class DecisionFollower:
    """Reads as the consumer group of one resource manager. A position is committed behind what was
    obeyed, so that a process that was killed reads some decisions again."""

    def __init__(self, deployment: Deployment, name: str) -> None:
        self._partitions = [
            KafkaPartition(deployment.name(TOPIC), each.kafka_partition)
            for each in deployment.topics.partitions(TOPIC)
        ]
        self._consumer = AIOKafkaConsumer(
            **deployment.connection,
            group_id=deployment.name(f"resource-manager.{name}"),
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=_FETCH_WAIT_MS,
            max_partition_fetch_bytes=deployment.max_record_bytes,
        )
        # When each was written, in ms since 1970.
        self._in_hand: Sequence[int] = ()

    def backlog(self) -> Backlog:
        """What has come and is not obeyed yet: while an API server does not answer, it waits."""
        in_hand = self._in_hand
        age_s = time.time() - min(in_hand) / 1e3 if in_hand else 0.0
        return Backlog(len(in_hand), max(0.0, age_s))

    async def run(self, obey: Obey) -> None:
        """Obey what was decided and what will be, until cancelled: of a job in order, of several
        jobs at once."""
        self._consumer.assign(self._partitions)
        await self._consumer.start()
        try:
            while True:
                found = await self._consumer.getmany(timeout_ms=_POLL_MS, max_records=_BATCH)
                records = [record for each in found.values() for record in each]
                self._in_hand = [record.timestamp for record in records]
                await asyncio.gather(*(_in_order(each, obey) for each in _by_job(records)))
                self._in_hand = ()
                if records:
                    await self._consumer.commit()
        finally:
            await self._consumer.stop()


def _by_job(records: Iterable[object]) -> Iterable[Sequence[PlacementDecided]]:
    decisions: defaultdict[str, list[PlacementDecided]] = defaultdict(list)
    for record in records:
        if dict(record.headers).get("ce_type") == _TYPE:  # type: ignore[attr-defined]
            decision = PlacementDecided.FromString(record.value)  # type: ignore[attr-defined]
            decisions[decision.job_id].append(decision)
    return decisions.values()


async def _in_order(decisions: Sequence[PlacementDecided], obey: Obey) -> None:
    for decision in decisions:
        await obey(decision)
