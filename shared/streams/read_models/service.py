"""The life of a process that keeps a read model: topics in, rows in Redis out."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count
from typing import Final, Generic, TypeVar

import structlog
from kafka.errors import KafkaError
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from coplace_client.errors import RejectedError
from coplace_client.life import pause
from shared.catalogue.event import Event
from shared.catalogue.record import Record, TopicPartition
from shared.catalogue.topics import DLQ_PREFIX
from shared.process.crash import end_process
from shared.process.life import Process
from shared.process.redis_client import redis_client, wait_for_redis
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.faust_app import run_stateless, stateless_app
from shared.streams.on_kafka.publisher import KafkaPublisher
from shared.streams.on_kafka.waiting import wait_for_topics
from shared.streams.read_models.check import ReadModelCheck
from shared.streams.read_models.read_model import Applied, LostPositionError, Name, ReadModel
from shared.streams.stages.consistency import InconsistentError
from shared.streams.stages.consumption import is_later
from shared.streams.stages.dead_letters import dead_letter, quarantine
from shared.streams.stages.failures import Failures
from shared.streams.stages.hooks import Meter, Tally
from shared.streams.stages.provenance import LastRead
from shared.streams.stages.quarantine import Fault
from shared.streams.stages.stage import RELAXED_S
from shared.streams.telemetry import hooks_of

Entry = TypeVar("Entry")
# How soon a Redis that lost everything is noticed while nothing new arrives.
_WATCH_S: Final = 5.0
# Kafka is asked in every so many of these.
_KAFKA_EVERY: Final = 2
_LOOK_AGAIN_S: Final = 5.0
# What no record is to blame for.
_NO_RECORDS_FAULT: Final = (LostPositionError, RedisConnectionError, RedisTimeoutError, KafkaError)

_log = structlog.get_logger(__name__)


class Applier(Generic[Entry]):
    """Applies records to a read model, and remembers how far Redis must be.

    A failure is counted in Redis and ends the process; one that restarts did not cure is isolated
    as a unit's is (`GuardedUnit`): records are applied one at a time, and what fails alone is
    quarantined.

    `entry_of` is the entry in an event, None for one that changes nothing; it raises RejectedError
    for one that cannot be used. `check` raises InconsistentError when Redis does not follow from
    Kafka, `topic_id` is Kafka's of a topic.
    """

    def __init__(
        self,
        deployment: Deployment,
        name: str,
        model: ReadModel[Entry],
        entry_of: Callable[[Event], Entry | None],
        dead_letters: KafkaPublisher,
        check: Callable[[], Awaitable[None]],
        topic_id: Callable[[str], bytes],
    ) -> None:
        self._check_kafka = check
        self._topic_id = topic_id
        self._codec = deployment.codec
        self._clock = deployment.clock
        self._meter = deployment.hooks.meter
        self._name = name
        self._model = model
        self._entry_of = entry_of
        self._dead_letters = dead_letters
        self._quarantine_after = deployment.settings.quarantine_after
        self._applied: dict[TopicPartition, int] = {}
        self._failures: dict[TopicPartition, Failures] = {}
        self._careful: set[TopicPartition] = set()

    async def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return where to read on. Raises LostPositionError when Redis was reset under this
        process, and InconsistentError when Kafka was."""
        await self._check_kafka()
        found = await self._found(
            {partition: self._applied.get(partition, 0) for partition in partitions}
        )
        self._applied |= found
        for partition in partitions:
            self._failures[partition] = Failures(await self._model.failures(partition))
            if self._failures[partition].recur(self._quarantine_after):
                self._careful.add(partition)
        return found

    async def watch(self) -> None:
        """End the process when Redis was reset or Kafka replaced: the next one reads the topics
        again, or refuses to, although nothing new may ever arrive to bring it to light."""
        for number in count(1):
            await asyncio.sleep(_WATCH_S)
            try:
                await self.check()
                if number % _KAFKA_EVERY == 0:
                    await self._check_kafka()
            except (LostPositionError, InconsistentError, RedisError, KafkaError) as error:
                end_process(self._name, error)

    async def check(self) -> None:
        """Raise LostPositionError when Redis is behind what was applied when it was asked."""
        await self._found(dict(self._applied))

    async def _found(self, applied: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return Redis's positions, which may only be ahead of those that were `applied` before."""
        found = {partition: await self._model.position(partition) for partition in applied}
        for partition, position in found.items():
            if position < applied[partition]:
                raise LostPositionError(f"{partition} was applied to {applied[partition]}")
        return found

    async def apply(self, records: Sequence[Record]) -> None:
        """Apply a batch; what cannot be used becomes a dead letter first."""
        began_s, tally = time.monotonic(), Tally(records_in=len(records))
        by_partition: dict[TopicPartition, list[Record]] = defaultdict(list)
        for record in records:
            by_partition[record.partition].append(record)
        for partition, batch in by_partition.items():
            if failed := await self._failed(partition, batch, tally):
                await self._count(partition, failed, batch[-1].offset)
                if partition not in self._careful:
                    raise failed
                await self._isolate(partition, batch, tally)
            await self._forget_failures(partition)
        self._meter.batch(self._name, 0, tally, time.monotonic() - began_s)

    async def _failed(
        self, partition: TopicPartition, batch: Sequence[Record], tally: Tally
    ) -> Exception | None:
        """Apply a batch; what it failed at, unless that has nothing to do with its records."""
        tried = Tally()
        try:
            await self._apply_at(partition, batch, tried)
        except _NO_RECORDS_FAULT:
            raise
        except Exception as error:  # noqa: BLE001 what is unexpected is what this is for
            return error
        tally.add(tried)
        return None

    async def _count(self, partition: TopicPartition, error: Exception, offset: int) -> None:
        """Count a failure up to this offset. A Redis that takes no writes does not take this one
        either: that is never a record's fault."""
        failures = self._failures.setdefault(partition, Failures(None))
        failures.count(error, *partition, offset)
        await self._model.keep_failures(partition, failures.kept)

    async def _forget_failures(self, partition: TopicPartition) -> None:
        """Forget those whose partition is passed."""
        failures = self._failures.get(partition)
        if failures and failures.forget(lambda seen: seen.number < self._applied[partition]):
            await self._model.keep_failures(partition, failures.kept)

    async def _isolate(
        self, partition: TopicPartition, batch: Sequence[Record], tally: Tally
    ) -> None:
        """Apply a batch without the records that fail alone: these are dead letters first."""
        for record in batch:
            if failed := await self._failed(partition, [record], tally):
                fault = Fault.from_error(failed)
                letter = quarantine(record, fault, self._name, self._clock.now_us())
                await self._dead_letters.send_all([letter])
                await self._move(partition, record, [])
                tally.quarantined += 1
                tally.dead_letters += 1
                _log.error(
                    "quarantined", at=(*partition, record.offset), why=fault.what, exc_info=failed
                )

    async def _apply_at(
        self, partition: TopicPartition, batch: Sequence[Record], tally: Tally
    ) -> None:
        entries = [
            (record.offset, entry)
            for record in batch
            if (entry := await self._entry(record, tally)) is not None
        ]
        await self._move(partition, batch[-1], entries)

    async def _move(
        self, partition: TopicPartition, last: Record, entries: Sequence[tuple[int, Entry]]
    ) -> None:
        """Apply entries up to a record, and pass it."""
        following = max(self._applied.get(partition, 0), last.offset + 1)
        applied = Applied(self._topic_id(partition.topic), LastRead.from_record(last))
        await self._model.apply(
            partition, self._applied.get(partition, 0), following, entries, applied
        )
        self._applied[partition] = following

    async def _entry(self, record: Record, tally: Tally) -> Entry | None:
        if is_later(record):
            tally.skipped += 1
            return None
        try:
            return self._entry_of(self._codec.decode(record, of_any_count=True))
        except RejectedError as error:
            tally.dead_letters += 1
            letter = dead_letter(record, str(error), self._name, self._clock.now_us())
            await self._dead_letters.send_all([letter])
            return None


async def run_read_model(
    process: Process,
    name: str,
    create: Callable[[Redis, Name], ReadModel[Entry]],
    entry_of: Callable[[Event], Entry | None],
) -> None:
    """Keep a read model as a process's work."""
    deployment = Deployment.from_settings(process.settings, hooks_of(process.telemetry))
    redis = redis_client(process.settings)
    model = create(redis, deployment.name)
    topics = {*model.topics, *(DLQ_PREFIX + topic for topic in model.topics)}
    await wait_for_topics(process.settings, topics, process.readiness, process.stop)
    await wait_for_redis(process.settings, redis, process.readiness, process.stop)
    check = ReadModelCheck(deployment, name, model)
    await _wait_until_it_follows(name, check, process, deployment.hooks.meter)
    async with redis, KafkaPublisher(deployment, name) as dead_letters:
        applier = Applier(
            deployment,
            name,
            model,
            entry_of,
            dead_letters,
            check.check,
            lambda topic: check.topic_ids[topic],
        )
        handlers = dict.fromkeys(model.topics, applier.apply)
        app = stateless_app(deployment, name, handlers, applier.positions, RELAXED_S)
        watching = asyncio.create_task(applier.watch())
        deployment.hooks.meter.begin(name, 0)
        process.readiness.ready()
        await run_stateless(app, process.stop)
        watching.cancel()
        await asyncio.wait([watching])
        check.close()


async def _wait_until_it_follows(
    name: str, check: ReadModelCheck, process: Process, meter: Meter
) -> None:
    """Return when the read model follows from Kafka, or when the process shall stop: until then
    it stays up and says why it does not work."""
    while not process.stop.is_set():
        wrong = await check.differences()
        meter.refused(name, len(wrong))
        if not wrong:
            return
        error = InconsistentError(name, wrong)
        if str(error) not in process.readiness.waiting_for:
            _log.error("refused", found=[str(each) for each in wrong])
        process.readiness.refuse(str(error))
        await pause(process.stop, _LOOK_AGAIN_S)
