"""One unit on Kafka: a task that processes what its inbox holds and commits it."""

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from shared.catalogue.record import Record, TopicPartition
from shared.domain.rounds import RoundSource
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.facts import KafkaFacts
from shared.streams.on_kafka.transactions import Transactions, read_changelog
from shared.streams.stages.consistency import (
    InconsistentError,
    UnitPartitions,
    ahead_of_clock,
    open_unit,
)
from shared.streams.stages.guarded_unit import GuardedUnit, guarded
from shared.streams.stages.provenance import Provenance, split_state
from shared.streams.stages.stage import Stage
from shared.streams.stages.unit import Commit, Unit
from shared.streams.stages.unit_state import BEGINNINGS_KEY, closed_at_us

BATCH_RECORDS = 500
INBOX_RECORDS = 2_000
# Work without outputs is nobody's to wait for: it may share its transaction with what follows.
_LINGER_S = 0.25
# So often a clock closes rounds in which nothing comes and nothing is due.
_QUIET_ROUND_S = 1.0


def _check_clock(
    deployment: Deployment, partitions: UnitPartitions, state: Mapping[str, bytes]
) -> None:
    """Raise InconsistentError when the state was dragged along by a clock that was wrong."""
    if deployment.settings.is_emulated:
        return
    now_us, tolerance_us = deployment.clock.now_us(), deployment.limit.round_ahead_us
    if wrong := ahead_of_clock(closed_at_us(state), now_us, tolerance_us):
        raise InconsistentError(partitions.name, wrong)


class Committer(Protocol):
    """Writes what a unit did: see `Transactions`."""

    provenance: Provenance

    async def commit(self, commit: Commit) -> None:
        """Write outputs, state changes and positions, all or nothing."""
        ...

    async def close(self) -> None:
        """Disconnect from where commits go."""
        ...


class KafkaUnit:
    """A unit's inbox, its processor and its transactions."""

    def __init__(
        self,
        deployment: Deployment,
        unit: GuardedUnit,
        transactions: Committer,
        committed: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        self._guard = unit
        self._deployment = deployment
        self._transactions = transactions
        self._inbox: list[Record] = []
        self._filled = asyncio.Event()
        self._closing = False
        self._pending = Commit()
        self._began_s = 0.0
        self._has_ended_round = False
        self._is_clocked = self.unit.stage.rounds is RoundSource.CLOCK
        self._round_began_s = time.monotonic()
        self._next_round_s = self._round_began_s if self._is_clocked else math.inf
        self._late_s = self.unit.stage.late_s
        self.committed: dict[TopicPartition, int] = dict(committed or {})

    @classmethod
    async def open(
        cls, deployment: Deployment, stage: Stage, number: int, facts: KafkaFacts
    ) -> "KafkaUnit":
        """Take the unit over: first end its former owner's transactions, then read its state.

        Raises InconsistentError when the state does not belong to what Kafka holds.
        """
        transactions = Transactions(deployment, stage, number)
        await transactions.open()
        try:
            restored = await read_changelog(deployment, TopicPartition(stage.changelog, number))
            provenance, state = split_state(restored)
            partitions = UnitPartitions.from_stage(stage, number, deployment.topics)
            found = await asyncio.to_thread(facts.of, partitions, provenance)
            committed, transactions.provenance = open_unit(
                partitions, provenance, bool(state), found
            )
            _check_clock(deployment, partitions, state)
            unit = guarded(
                stage,
                number,
                state,
                deployment.codec,
                deployment.limit,
                deployment.hooks,
                deployment.settings.quarantine_after,
            )
        except InconsistentError:
            await transactions.close()
            raise
        return cls(deployment, unit, transactions, committed)

    @property
    def unit(self) -> Unit:
        """Return the unit at work; another one after something was isolated."""
        return self._guard.unit

    @property
    def partitions(self) -> UnitPartitions:
        """Return what it works with."""
        return UnitPartitions.from_stage(self.unit.stage, self.unit.number, self._deployment.topics)

    @property
    def provenance(self) -> Provenance:
        """Return the provenance of its state at the last commit."""
        return self._transactions.provenance

    def receive(self, records: Iterable[Record]) -> None:
        """Put records into the inbox."""
        self._inbox += records
        self._filled.set()

    @property
    def oldest(self) -> Record | None:
        """Return the record that was written first, of those received and not processed; None at
        rest."""
        oldest = [*self._inbox[:1], *self.unit.heads]
        return min(oldest, key=lambda record: record.written_ms, default=None)

    @property
    def is_at_rest(self) -> bool:
        """Return whether all that was received is committed."""
        return self.oldest is None and self._pending.is_empty

    @property
    def full(self) -> frozenset[TopicPartition]:
        """Return partitions to fetch nothing more from: all while the inbox is full, else those
        that are held for the others of their round and have records waiting."""
        if len(self._inbox) >= INBOX_RECORDS:
            return frozenset(self.unit.partitions)
        return self.unit.crowded(BATCH_RECORDS)

    async def run(self) -> None:
        """Process and commit until `close`. A round that is due goes before what waits, or a
        saturated unit would never close one."""
        while not self._closing:
            if time.monotonic() >= self._next_round_s:
                await self._close_round()
            elif self._inbox:
                await self._process(self._take())
            else:
                await self._wait()
            if self._is_due:
                await self._flush()

    async def close(self, running: asyncio.Task[None]) -> None:
        """End after the batch that runs; what was not committed is read again by the next owner."""
        self._closing = True
        self._filled.set()
        await running
        await self.discard()

    async def discard(self) -> None:
        """Release the unit at its stage, and close its transactions."""
        self.unit.stage.given_up(self.unit.number)
        await self._transactions.close()

    async def _wait(self) -> None:
        """Wait until there are records or something else may be due."""
        self._filled.clear()
        wait_s = self._next_round_s - time.monotonic()
        if not self._pending.is_empty:
            wait_s = min(wait_s, self._began_s + self._lingers_s - time.monotonic())
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s if wait_s < math.inf else None):
                await self._filled.wait()

    async def _close_round(self) -> None:
        self._round_began_s, now_us = time.monotonic(), self._deployment.clock.now_us()
        await self._begin(self._guard.begin_round())
        await self._merge(lambda: self._guard.close_round(now_us))
        self._has_ended_round = True
        self._next_round_s = self._round_began_s + self._quiet_round_s(now_us)

    def _quiet_round_s(self, now_us: int) -> float:
        """Return how long the round that begins now lasts if nothing comes."""
        if not self._pending.is_empty:
            return self._period_s
        due_us = self.unit.due_us
        left_s = (due_us - now_us) / 1e6 if due_us else math.inf
        return max(self._period_s, min(left_s, _QUIET_ROUND_S))

    @property
    def _period_s(self) -> float:
        return max(self._deployment.settings.round_period_s, self._late_s)

    def _take(self) -> Sequence[Record]:
        batch, self._inbox = self._inbox[:BATCH_RECORDS], self._inbox[BATCH_RECORDS:]
        return batch

    async def _process(self, batch: Sequence[Record]) -> None:
        await self._begin(self._guard.begin(batch))
        self._deployment.hooks.step.reached("received")
        if self._is_clocked:
            self._next_round_s = min(self._next_round_s, self._round_began_s + self._period_s)
        now = self._wall_clock_us()
        await self._merge(lambda: self._guard.process(batch, now))

    async def _begin(self, note: Commit) -> None:
        """Keep where this life begins, before it does."""
        if note.is_empty:
            return
        if not self._pending.is_empty:
            await self._flush()
        await self._transactions.commit(note)

    def _wall_clock_us(self) -> int:
        """Virtual time has none. In production it counts for stages that go by barriers too: after
        idle days the last barrier is old, and the first event of a new day does not lie ahead."""
        return 0 if self._deployment.settings.is_emulated else self._deployment.clock.now_us()

    async def _merge(self, work: Callable[[], Commit]) -> None:
        try:
            commit = work()
        except Exception as error:  # noqa: BLE001 what is unexpected is what the guard is for
            commit = await self._isolate(error)
        if self._pending.is_empty:
            self._began_s = time.monotonic()
        self._pending.add(commit)

    async def _isolate(self, error: Exception) -> Commit:
        """Let the failure end the process, or do without what made it. In a thread: the group's
        heartbeats go on while a large state is built anew."""
        if not self._guard.is_careful:
            await self._transactions.commit(self._guard.counted(error))
            raise error
        return await asyncio.to_thread(self._guard.isolate, error)

    @property
    def _is_due(self) -> bool:
        """Return whether the pending commit should wait for nothing more. One that passes where
        this life began does not: a process killed soon behind it would begin there for ever."""
        if BEGINNINGS_KEY in self._pending.changelog:
            return True
        if self._pending.tally.records_in >= BATCH_RECORDS:
            return True
        lingered = time.monotonic() - self._began_s >= self._lingers_s
        return lingered and not self._pending.is_empty

    @property
    def _lingers_s(self) -> float:
        """Return how long the pending commit waits for more: with outputs not at all, but for those
        of a relaxed stage, which wait for the end of their round."""
        if not self._pending.outputs:
            return max(_LINGER_S, self._late_s)
        return 0.0 if self._has_ended_round else self._late_s

    async def _flush(self) -> None:
        self._deployment.hooks.step.reached("handled")
        commit, self._pending, self._has_ended_round = self._pending, Commit(), False
        await self._transactions.commit(commit)
        self.committed |= commit.positions
        duration_s = time.monotonic() - self._began_s
        self._deployment.hooks.meter.batch(
            self.unit.stage.name, self.unit.number, commit.tally, duration_s
        )
