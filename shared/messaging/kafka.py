"""Runs stages on Kafka, one transaction a batch, crash only.

A process is a member of one consumer group for each of its stages. Units overlap: while one waits
for its transaction, the others process.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition

from shared.messaging.assignors import KeyedUnits, SingleUnit
from shared.messaging.crash import end_process
from shared.messaging.deployment import Deployment
from shared.messaging.hooks import Hooks
from shared.messaging.kafka_unit import KafkaUnit
from shared.messaging.record import Record
from shared.messaging.stage import Stage
from shared.messaging.transactions import RETRY_BACKOFF_MS, topic_partition
from shared.messaging.unit import unit_count
from shared.runtime.settings import Settings

_POLL_MS = 200
_FETCH_WAIT_MS = 200
_BEATS_A_SESSION = 5
# A rebalance waits for every member's running batch; a round's decision may take this long.
_MAX_BATCH_MS = 300_000

_log = structlog.get_logger(__name__)


async def run_stages(
    stages: Sequence[Stage],
    settings: Settings,
    stop: asyncio.Event,
    hooks: Hooks | None = None,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Run stages until `stop` is set; `on_ready` is called when all have read their state.

    Anything that goes wrong ends the process: see `shared.messaging.crash`.
    """
    deployment = Deployment.of(settings, hooks)
    opening = {stage.name for stage in stages}

    def opened(name: str) -> None:
        opening.discard(name)
        if not opening:
            on_ready()

    members = [StageMember(deployment, stage, opened) for stage in stages]
    await asyncio.gather(*(_run_member(member, stop) for member in members))


async def _run_member(member: "StageMember", stop: asyncio.Event) -> None:
    try:
        await member.run(stop)
    except Exception as error:  # noqa: BLE001 the process ends here, whatever it was
        end_process(f"stage {member.stage.name}", error)


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

    async def run(self, stop: asyncio.Event) -> None:
        """Join the group, serve its units, leave it when `stop` is set."""
        self._consumer = self._new_consumer()
        await self._consumer.start()
        topics = [self._deployment.name(topic) for topic in self.stage.inputs]
        self._consumer.subscribe(topics, listener=self)
        self._deployment.hooks.meter.watch_lag(self.stage.name, self._lag_records)
        while not stop.is_set():
            if self._opened != self._generation:
                await self._open_units(self._generation)
            self._hold_back()
            fetched = await self._consumer.getmany(timeout_ms=_POLL_MS)
            # Records that came before the units were ready are read again: positions are set then.
            if self._opened == self._generation:
                self._hand_out(fetched)
        await self._close_units()
        await self._consumer.stop()

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Give the units up after the batches that run. Called by the client."""
        self._generation += 1
        self._assigned = frozenset()
        await self._close_units()

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Note what to open; the client hands out records meanwhile. Called by the client."""
        self._generation += 1
        self._assigned = frozenset(self._assignor.unit_of(found.partition) for found in assigned)

    async def _open_units(self, generation: int) -> None:
        opened = await asyncio.gather(
            *(
                KafkaUnit.open(self._deployment, self.stage, number)
                for number in sorted(self._assigned)
            )
        )
        for unit in opened:
            await unit.read_committed(self._consumer)
        if generation == self._generation:
            self._begin(opened)
            self._opened = generation
        else:
            await asyncio.gather(*(unit.discard() for unit in opened))

    def _begin(self, opened: Sequence[KafkaUnit]) -> None:
        for unit in opened:
            for place, offset in unit.committed.items():
                self._consumer.seek(topic_partition(self._deployment, place), offset)
            number = unit.unit.number
            self._units[number] = unit
            self._tasks[number] = asyncio.create_task(self._run_unit(unit))
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

    def _lag_records(self) -> int:
        """What Kafka had at the last fetch beyond what was committed. The marker that ends a
        transaction counts, so that one a place may remain at rest."""
        ends = (
            (self._consumer.last_stable_offset(topic_partition(self._deployment, place)), offset)
            for unit in self._units.values()
            for place, offset in unit.committed.items()
        )
        return sum(max(end - offset, 0) for end, offset in ends if end is not None)

    def _hand_out(self, fetched: Mapping[TopicPartition, Sequence[object]]) -> None:
        by_unit: dict[int, list[Record]] = defaultdict(list)
        for partition, records in fetched.items():
            number = self._assignor.unit_of(partition.partition)
            by_unit[number] += map(self._deployment.record, records)
        for number, batch in by_unit.items():
            self._units[number].receive(batch)

    def _hold_back(self) -> None:
        full = {
            topic_partition(self._deployment, place)
            for unit in self._units.values()
            for place in unit.full
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
            auto_offset_reset="earliest",
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=session_ms // _BEATS_A_SESSION,
            max_poll_interval_ms=_MAX_BATCH_MS,
            retry_backoff_ms=RETRY_BACKOFF_MS,
            fetch_max_wait_ms=_FETCH_WAIT_MS,
            max_partition_fetch_bytes=self._deployment.max_record_bytes,
        )
