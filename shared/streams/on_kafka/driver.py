"""Runs stages on Kafka, one transaction a batch, crash only.

A process is a member of one consumer group for each of its stages. Units overlap: while one waits
for its transaction, the others process.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.errors import NoOffsetForPartitionError, OffsetOutOfRangeError

from coplace_client.life import pause
from shared.catalogue.record import Record, TopicPartition
from shared.process.crash import end_process
from shared.process.settings import Settings
from shared.streams.on_kafka.assignors import KeyedUnits, SingleUnit
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.facts import KafkaFacts
from shared.streams.on_kafka.transactions import RETRY_BACKOFF_MS, topic_partition
from shared.streams.on_kafka.unit import KafkaUnit
from shared.streams.stages.consistency import InconsistentError, UnitPartitions, check_at_work
from shared.streams.stages.hooks import Backlog, Hooks, Meter
from shared.streams.stages.provenance import Provenance, TopicIdentity
from shared.streams.stages.stage import Stage
from shared.streams.stages.unit import unit_count

_POLL_MS = 200
# A stage without work looks up less often whether it shall stop or has other partitions.
_QUIET_POLL_MS = 1_000
_QUIET_POLLS = 10
_BEATS_A_SESSION = 5
# A rebalance waits for every member's running batch; a round's decision may take this long.
_MAX_BATCH_MS = 300_000
# How soon it is noticed that a topic was replaced under running units.
_CHECK_S = 10.0
# A refused stage looks again: what an operator repairs goes on by itself.
_LOOK_AGAIN_S = 5.0

_log = structlog.get_logger(__name__)


async def run_stages(
    stages: Sequence[Stage],
    settings: Settings,
    stop: asyncio.Event,
    hooks: Hooks | None = None,
    on_ready: Callable[[], None] = lambda: None,
    on_refused: Callable[[str], None] = lambda _why: None,
) -> None:
    """Run stages until `stop` is set; `on_ready` is called when all have read their state.

    A stage whose state does not belong to what Kafka holds is refused: `on_refused` gets the
    reason, the other stages go on, and it is tried again. Anything else that goes wrong ends the
    process: see `shared.process.crash`."""
    deployment = Deployment.from_settings(settings, hooks)
    told = _Told([stage.name for stage in stages], deployment.hooks.meter, on_ready, on_refused)
    runs = (_run_stage(deployment, stage, stop, told) for stage in stages)
    await asyncio.gather(*runs)


class _Told:
    """The stages that are open or refused, as the process reports them."""

    def __init__(
        self,
        stages: Iterable[str],
        meter: Meter,
        on_ready: Callable[[], None],
        on_refused: Callable[[str], None],
    ) -> None:
        self._opening = set(stages)
        self._meter = meter
        self._refused: dict[str, str] = {}
        self._on_ready = on_ready
        self._on_refused = on_refused

    def opened(self, stage: str) -> None:
        """Report that all units of a stage that this process runs are at work."""
        self._opening.discard(stage)
        self._refused.pop(stage, None)
        self._meter.refused(stage, 0)
        self._tell()

    def refused(self, stage: str, error: InconsistentError) -> None:
        """Report that a stage must not work."""
        if self._refused.get(stage) != str(error):
            _log.error("refused", stage=stage, found=[str(each) for each in error.found])
        self._refused[stage] = str(error)
        self._meter.refused(stage, len(error.found))
        self._tell()

    def _tell(self) -> None:
        if self._refused:
            self._on_refused("; ".join(self._refused.values()))
        elif not self._opening:
            self._on_ready()


async def _run_stage(
    deployment: Deployment, stage: Stage, stop: asyncio.Event, told: _Told
) -> None:
    """Run one member after the other, each until it is refused."""
    while not stop.is_set():
        member = StageMember(deployment, stage, told.opened)
        try:
            await member.run(stop)
        except InconsistentError as error:
            told.refused(stage.name, error)
            await pause(stop, _LOOK_AGAIN_S)
        except Exception as error:  # noqa: BLE001 the process ends here, whatever it was
            end_process(f"stage {stage.name}", error)


class StageMember(ConsumerRebalanceListener):  # type: ignore[misc]
    """This process's part in the consumer group of one stage."""

    def __init__(
        self,
        deployment: Deployment,
        stage: Stage,
        opened: Callable[[str], None] = lambda _name: None,
    ) -> None:
        unit_count(stage, deployment.topics)
        self.stage = stage
        self._tell_opened = opened
        self._deployment = deployment
        self._assignor = SingleUnit if stage.single else KeyedUnits
        self._units: dict[int, KafkaUnit] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._assigned: frozenset[int] = frozenset()
        self._generation = 0
        self._opened = 0
        self._consumer: AIOKafkaConsumer = None
        self._facts = KafkaFacts(deployment)
        self._topics: Mapping[str, TopicIdentity] = {}
        self._checking: asyncio.Task[None] | None = None
        self._next_check_s = 0.0
        self._quiet_polls = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Join the group, serve its units, leave it when `stop` is set.

        Raises InconsistentError, without any unit at work, when a unit must not go on.
        """
        self._consumer = self._new_consumer()
        await self._consumer.start()
        topics = [self._deployment.name(topic) for topic in self.stage.inputs]
        self._consumer.subscribe(topics, listener=self)
        self._deployment.hooks.meter.watch_backlog(self.stage.name, self._backlog)
        try:
            while not stop.is_set():
                await self._step()
        finally:
            await self._leave()

    async def _step(self) -> None:
        if self._opened != self._generation:
            await self._open_units(self._generation)
        self._check_at_times()
        self._hold_back()
        fetched = await self._fetch()
        # Records that came before the units were ready are read again: positions are set then.
        if self._opened == self._generation:
            self._hand_out(fetched)

    async def _fetch(self) -> Mapping[KafkaPartition, Sequence[object]]:
        """Return the records that came. A position that Kafka does not have is no place to go on
        from: never is one taken from anywhere else, as the client would by `auto_offset_reset`."""
        timeout_ms = _QUIET_POLL_MS if self._quiet_polls > _QUIET_POLLS else _POLL_MS
        try:
            found: Mapping[KafkaPartition, Sequence[object]] = await self._consumer.getmany(
                timeout_ms=timeout_ms
            )
        except (NoOffsetForPartitionError, OffsetOutOfRangeError) as error:
            # The client may say so later of partitions that it has given up since.
            if self._opened != self._generation or self._owned.isdisjoint(_without_position(error)):
                return {}
            await self._check()
            raise
        self._quiet_polls = 0 if found or self._consumer.paused() else self._quiet_polls + 1
        return found

    @property
    def _owned(self) -> set[KafkaPartition]:
        """Return the partitions of the units at work."""
        committed = (partition for unit in self._units.values() for partition in unit.committed)
        return {topic_partition(self._deployment, partition) for partition in committed}

    def _check_at_times(self) -> None:
        """Look beside the work whether data were replaced under it; raise what does not fit."""
        if self._checking is not None and self._checking.done():
            checked, self._checking = self._checking, None
            checked.result()
        now_s = time.monotonic()
        if self._checking is None and now_s >= self._next_check_s:
            self._next_check_s = now_s + _CHECK_S
            self._checking = asyncio.create_task(self._check())

    async def _check(self) -> None:
        """Ask Kafka once for all units. Also without any: who loses a topic is assigned none of it
        any more."""
        stage = UnitPartitions.from_stage(self.stage, 0, self._deployment.topics)
        units = [(unit.partitions, unit.provenance) for unit in self._units.values()]
        found = await asyncio.to_thread(
            self._facts.of_partitions,
            stage.kafka_partitions,
            {partition: last for _, known in units for partition, last in known.last_read.items()},
            {
                partition
                for _, known in units
                for partition in (*known.positions, *known.written_to)
            },
        )
        self._topics = self._topics or found.topics
        for partitions, known in [(stage, Provenance(topics=self._topics)), *units]:
            if wrong := check_at_work(partitions, known, found):
                raise InconsistentError(partitions.name, wrong)

    async def _leave(self) -> None:
        if self._checking is not None:
            await asyncio.wait([self._checking])
        await self._close_units()
        await self._consumer.stop()
        await asyncio.to_thread(self._facts.close)

    async def on_partitions_revoked(self, revoked: Iterable[KafkaPartition]) -> None:
        """Give the units up after the batches that run. Called by the client."""
        self._generation += 1
        self._assigned = frozenset()
        await self._close_units()

    async def on_partitions_assigned(self, assigned: Iterable[KafkaPartition]) -> None:
        """Note what to open; the client hands out records meanwhile. Called by the client."""
        self._generation += 1
        self._assigned = frozenset(self._assignor.unit_of(found.partition) for found in assigned)

    async def _open_units(self, generation: int) -> None:
        numbers = sorted(self._assigned)
        results = await asyncio.gather(*map(self._open_unit, numbers), return_exceptions=True)
        opened = [found for found in results if isinstance(found, KafkaUnit)]
        if failed := [found for found in results if isinstance(found, BaseException)]:
            await asyncio.gather(*(unit.discard() for unit in opened))
            raise _most_telling(failed)
        if generation == self._generation:
            self._begin(opened)
            self._opened = generation
        else:
            await asyncio.gather(*(unit.discard() for unit in opened))

    async def _open_unit(self, number: int) -> KafkaUnit:
        return await KafkaUnit.open(self._deployment, self.stage, number, self._facts)

    def _begin(self, opened: Sequence[KafkaUnit]) -> None:
        for unit in opened:
            for partition, offset in unit.committed.items():
                self._consumer.seek(topic_partition(self._deployment, partition), offset)
            number = unit.unit.number
            self._units[number] = unit
            self._tasks[number] = asyncio.create_task(self._run_unit(unit))
            self._deployment.hooks.meter.begin(self.stage.name, number, self._published)
        self._tell_opened(self.stage.name)
        _log.info("units ready", stage=self.stage.name, units=sorted(self._units))

    async def _run_unit(self, unit: KafkaUnit) -> None:
        try:
            await unit.run()
        except Exception as error:  # noqa: BLE001 the process ends here, whatever it was
            end_process(f"unit {unit.unit.number} of stage {self.stage.name}", error)

    async def _close_units(self) -> None:
        units, self._units = self._units, {}
        tasks, self._tasks = self._tasks, {}
        await asyncio.gather(*(unit.close(tasks[number]) for number, unit in units.items()))

    @property
    def _published(self) -> list[str]:
        """Return the types of events that may go out."""
        topics = (self._deployment.topics.spec(topic) for topic in self.stage.outputs)
        return sorted({message for topic in topics for message in topic.messages})

    def _backlog(self) -> Backlog:
        """Return what Kafka had at the last fetch beyond what was committed."""
        units = list(self._units.values())
        oldest = [unit.oldest.written_ms for unit in units if unit.oldest is not None]
        now_ms = self._deployment.clock.now_us() / 1e3
        age_s = max(0.0, now_ms - min(oldest)) / 1e3 if oldest else 0.0
        return Backlog(sum(map(self._lag_of, units)), age_s)

    def _lag_of(self, unit: KafkaUnit) -> int:
        """Return the lag of a unit without markers: the marker that ends a transaction is no
        record, and behind a unit at rest it is alone, since records are fetched at once."""
        ahead = (
            end - offset
            for partition, offset in unit.committed.items()
            if (end := self._end_of(partition)) is not None and end > offset
        )
        return sum(each for each in ahead if each > 1 or not unit.is_at_rest)

    def _end_of(self, partition: TopicPartition) -> int | None:
        end: int | None = self._consumer.last_stable_offset(
            topic_partition(self._deployment, partition)
        )
        return end

    def _hand_out(self, fetched: Mapping[KafkaPartition, Sequence[object]]) -> None:
        by_unit: dict[int, list[Record]] = defaultdict(list)
        for partition, records in fetched.items():
            number = self._assignor.unit_of(partition.partition)
            by_unit[number] += map(self._deployment.record, records)
        for number, batch in by_unit.items():
            self._units[number].receive(batch)

    def _hold_back(self) -> None:
        full = {
            topic_partition(self._deployment, partition)
            for unit in self._units.values()
            for partition in unit.full
        }
        paused = self._consumer.paused()
        if full - paused:
            self._consumer.pause(*(full - paused))
        if paused - full:
            self._consumer.resume(*(paused - full))

    def _new_consumer(self) -> AIOKafkaConsumer:
        session_ms = int(self._deployment.settings.session_timeout_s * 1000)
        return AIOKafkaConsumer(
            **self._deployment.connection,
            group_id=self._deployment.name(self.stage.name),
            group_instance_id=self._deployment.settings.worker or None,
            partition_assignment_strategy=[self._assignor],
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="none",
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=session_ms // _BEATS_A_SESSION,
            max_poll_interval_ms=_MAX_BATCH_MS,
            retry_backoff_ms=RETRY_BACKOFF_MS,
            max_partition_fetch_bytes=self._deployment.max_record_bytes,
            **self._deployment.fetching(self.stage.late_s),
        )


def _without_position(
    error: NoOffsetForPartitionError | OffsetOutOfRangeError,
) -> list[KafkaPartition]:
    """Return the partitions that an error of the client is about."""
    (about,) = error.args
    return [*about] if isinstance(about, dict) else [about]


def _most_telling(failed: Sequence[BaseException]) -> BaseException:
    """Return, of what went wrong with several units, all that does not fit, unless one broke."""
    inconsistent = [error for error in failed if isinstance(error, InconsistentError)]
    broken = [error for error in failed if not isinstance(error, InconsistentError)]
    if broken:
        return broken[0]
    owners = ", ".join(error.owner for error in inconsistent)
    return InconsistentError(owners, [each for error in inconsistent for each in error.found])
