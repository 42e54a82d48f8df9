"""The log of decisions on Kafka."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.errors import OffsetOutOfRangeError
from google.protobuf.message import DecodeError

from services.watch.cursor import CursorCodec
from services.watch.log import DecisionBatch, LogBounds, OffsetGoneError
from services.watch.model import LoggedDecision
from shared.catalogue.record import TopicPartition, type_of
from shared.clients.decisions import DECISIONS
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.ends import EndsOfConsumer
from shared.streams.on_kafka.facts import KafkaFacts
from shared.streams.stages.consistency import LogFacts

_TYPE: Final = b"coplace.v1.PlacementDecided"
_POLL_MS: Final = 200
# So many at a time, so that others have their turn.
_MOST_RECORDS: Final = 500

log = logging.getLogger(__name__)


class KafkaDecisionLog:
    """The topic of decisions of one deployment; call `open` first."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._facts = KafkaFacts(deployment)
        self._topic = deployment.topics.partitions(DECISIONS)
        self._partitions = [
            KafkaPartition(deployment.name(DECISIONS), each.kafka_partition) for each in self._topic
        ]

    async def codec(self) -> CursorCodec:
        """Return the cursors of the topic as it is there."""
        found = await self._log_facts(())
        name, identity = self._deployment.name(DECISIONS), found.topics[DECISIONS]
        return CursorCodec(name, identity.topic_id, len(self._partitions))

    async def bounds(self) -> LogBounds:
        """Return what the log holds now."""
        found = await self._log_facts(self._topic)
        return LogBounds(self._in_order(found.begins), self._in_order(found.ends))

    async def starts(self, since_us: int) -> LogBounds:
        """Return where what was written since then begins, and where what is committed ends."""
        async with self._consumer() as consumer:
            ends = await consumer.end_offsets(self._partitions)
            times_ms = dict.fromkeys(self._partitions, since_us // 1_000)
            found = await consumer.offsets_for_times(times_ms)
        begins = [found[each].offset if found[each] else ends[each] for each in self._partitions]
        until = [ends[each] for each in self._partitions]
        return LogBounds(list(map(min, begins, until)), until)

    @asynccontextmanager
    async def reader(self, offsets: Sequence[int]) -> AsyncIterator["KafkaDecisionReader"]:
        """Open a reader from these offsets on."""
        async with self._consumer() as consumer:
            for partition, offset in zip(self._partitions, offsets, strict=True):
                consumer.seek(partition, offset)
            yield KafkaDecisionReader(self._deployment, consumer, self._partitions)

    @asynccontextmanager
    async def _consumer(self) -> AsyncIterator[AIOKafkaConsumer]:
        consumer = AIOKafkaConsumer(
            **self._deployment.connection,
            isolation_level="read_committed",
            enable_auto_commit=False,
            # An offset that was removed is no reason to continue elsewhere: nothing is left out.
            auto_offset_reset="none",
            max_partition_fetch_bytes=self._deployment.max_record_bytes,
        )
        consumer.assign(self._partitions)
        try:
            await consumer.start()
            yield consumer
        finally:
            await consumer.stop()

    async def _log_facts(self, partitions: Sequence[TopicPartition]) -> LogFacts:
        return await asyncio.to_thread(self._facts.of_partitions, (DECISIONS,), {}, partitions)

    def _in_order(self, found: Mapping[TopicPartition, int]) -> Sequence[int]:
        return [found[each] for each in self._topic]


class KafkaDecisionReader:
    """A consumer that is at its place."""

    def __init__(
        self,
        deployment: Deployment,
        consumer: AIOKafkaConsumer,
        partitions: Sequence[KafkaPartition],
    ) -> None:
        self._deployment = deployment
        self._consumer = consumer
        self._partitions = partitions
        self._target: Sequence[int] = ()
        self._ends: EndsOfConsumer | None = None

    async def read(self) -> DecisionBatch:
        """Return what has come; wait a moment where nothing has. Raises OffsetGoneError."""
        try:
            found = await self._consumer.getmany(timeout_ms=_POLL_MS, max_records=_MOST_RECORDS)
        except OffsetOutOfRangeError as error:
            raise OffsetGoneError(str(error)) from error
        decisions = [
            decision
            for records in found.values()
            for record in records
            if (decision := self._decision(record)) is not None
        ]
        # Behind the marks of transactions too, which are no records.
        offsets = [await self._consumer.position(each) for each in self._partitions]
        return DecisionBatch(decisions, offsets)

    async def has_reached(self, offsets: Sequence[int]) -> bool:
        """Return whether there is nothing more to read before these."""
        if self._ends is None or list(offsets) != list(self._target):
            self._target = list(offsets)
            ends = dict(zip(self._partitions, offsets, strict=True))
            self._ends = EndsOfConsumer(self._consumer, ends)
        return not await self._ends.are_ahead()

    def _decision(self, record: Any) -> LoggedDecision | None:
        """Beside decisions the topic has the barriers of rounds, and what is published of caps and
        promises."""
        if record.value is None or type_of(self._deployment.record(record)) != _TYPE:
            return None
        place = record.partition, record.offset, record.timestamp
        try:
            return LoggedDecision.from_bytes(*place, record.value)
        except DecodeError:
            log.error(
                "a decision cannot be read", extra={"at": f"{record.partition}/{record.offset}"}
            )
            return None
