"""Topics as a door reads them: from their beginning or a time on, up to now, and on."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final, Self

import structlog
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPartition

from coplace_client.errors import RejectedError
from shared.authority.table import TableInForce
from shared.catalogue.event import Event
from shared.catalogue.record import Record, TopicPartition, type_of
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.ends import EndsOfConsumer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TOPIC: Final = "authority"
_POLL_MS: Final = 200
# Kafka answers as soon as there is something; a question for the end waits behind this at most.
# A transaction that its writer left open hides what comes behind it until Kafka ends it.
_PATIENCE_S: Final = 10.0

log = structlog.get_logger(__name__)


class Followed:
    """Records of some topics whose events are of the `kinds`, folded as they are committed.

    `since_us` says from which time on, by topic; the others are read from their beginning.
    """

    def __init__(
        self,
        deployment: Deployment,
        topics: Sequence[str],
        kinds: Collection[str],
        fold: Callable[[Event], None],
        since_us: Mapping[str, int],
    ) -> None:
        self._deployment = deployment
        self._kinds = frozenset(kind.encode() for kind in kinds)
        self._fold = fold
        self._since_us = since_us
        self.topics = topics
        self._partitions = [
            partition for topic in topics for partition in deployment.topics.partitions(topic)
        ]
        self._moved = asyncio.Condition()
        committed = {**deployment.connection, "isolation_level": "read_committed"}
        # Has a connection of its own: behind a fetch an answer waits until that is answered.
        self._asking = AIOKafkaConsumer(**committed, enable_auto_commit=False)
        self._consumer = AIOKafkaConsumer(
            **committed,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=deployment.max_record_bytes,
        )

    async def start(self) -> None:
        """Read all that is committed now."""
        await self._consumer.start()
        await self._asking.start()
        kafka_partitions = [self._known(partition) for partition in self._partitions]
        self._consumer.assign(kafka_partitions)
        await self._consumer.seek_to_beginning(*kafka_partitions)
        await self._skip()
        ends = await self._ends(kafka_partitions)
        while await ends.are_ahead():
            await self._read()

    async def run(self) -> None:
        """Follow what comes, until cancelled."""
        while True:
            await self._read()

    async def stop(self) -> None:
        """Disconnect from the topic that is followed."""
        await self._asking.stop()
        await self._consumer.stop()

    async def caught_up(self, partitions: Sequence[TopicPartition] = ()) -> None:
        """Return when what is committed now is folded, while `run` goes on. Raises TimeoutError
        where that takes too long."""
        kafka_partitions = [self._known(each) for each in partitions or self._partitions]
        async with asyncio.timeout(_PATIENCE_S):
            ends = await self._ends(kafka_partitions)
            async with self._moved:
                while await ends.are_ahead():
                    await self._moved.wait()

    async def _ends(self, partitions: Sequence[KafkaPartition]) -> EndsOfConsumer:
        return EndsOfConsumer(self._consumer, await self._asking.end_offsets(partitions))

    async def _skip(self) -> None:
        """Leave out what is older than wanted."""
        times_ms = {
            self._known(partition): self._since_us[partition.topic] // 1000
            for partition in self._partitions
            if partition.topic in self._since_us
        }
        if not times_ms:
            return
        for partition, found in (await self._asking.offsets_for_times(times_ms)).items():
            if found is None:
                await self._consumer.seek_to_end(partition)
            else:
                self._consumer.seek(partition, found.offset)

    async def _read(self) -> None:
        for records in (await self._consumer.getmany(timeout_ms=_POLL_MS)).values():
            for record in map(self._deployment.record, records):
                if type_of(record) in self._kinds:
                    self._take(record)
        async with self._moved:
            self._moved.notify_all()

    def _take(self, record: Record) -> None:
        """What cannot be used is a dead letter to who acts on it, and nothing to us."""
        try:
            self._fold(self._deployment.codec.decode(record, of_any_count=True))
        except RejectedError as error:
            place = f"{record.partition.topic}/{record.partition.kafka_partition}/{record.offset}"
            log.warning("left out", record=place, problem=str(error))

    def _known(self, partition: TopicPartition) -> KafkaPartition:
        return KafkaPartition(self._deployment.name(partition.topic), partition.kafka_partition)


@asynccontextmanager
async def table_followed(
    deployment: Deployment, table: TableInForce, crash: Callable[[Exception], object]
) -> "AsyncIterator[Followed]":
    """Follow the table in force, as it is now and as it becomes meanwhile."""
    kinds = deployment.topics.spec(TOPIC).messages
    followed = Followed(deployment, [TOPIC], kinds, table.fold, {})
    async with following(followed, crash):
        yield followed


@asynccontextmanager
async def following(
    followed: Followed, crash: Callable[[Exception], object]
) -> "AsyncIterator[None]":
    """Read up to now what is followed, and read on meanwhile; the process that cannot read it any
    more ends."""
    await followed.start()
    running = asyncio.create_task(_run(followed, crash))
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait([running])
        await followed.stop()


class FollowedWhenNeeded:
    """Topics that are read from when they are first needed; `begin` says which. A context."""

    def __init__(self, begin: Callable[[], Followed], crash: Callable[[Exception], object]) -> None:
        self._begin = begin
        self._crash = crash
        self._stack = AsyncExitStack()
        self._starting: asyncio.Task[Followed] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._stack.aclose()

    @property
    def is_read(self) -> bool:
        """Return whether somebody has asked for it, and it was read up to then."""
        return self._starting is not None and self._starting.done()

    async def ready(self) -> Followed:
        """Return what is followed, read up to now at the first call."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        return await asyncio.shield(self._starting)

    async def _start(self) -> Followed:
        followed = self._begin()
        await self._stack.enter_async_context(following(followed, self._crash))
        log.info("read up to now", topics=followed.topics)
        return followed


async def _run(followed: Followed, crash: Callable[[Exception], object]) -> None:
    try:
        await followed.run()
    except Exception as error:  # noqa: BLE001 the process ends here, whatever it was
        crash(error)
