"""Runs stages over the log in memory, in one thread and always in the same order."""

from collections.abc import Callable, Sequence

from shared.catalogue.codec import Codec
from shared.catalogue.record import Record
from shared.catalogue.topics import Topics
from shared.streams.in_memory.facts import facts_in_memory
from shared.streams.in_memory.log import InMemoryLog
from shared.streams.in_memory.transactions import MemoryTransactions, restore
from shared.streams.stages.assignment import assign_units
from shared.streams.stages.consistency import (
    InconsistentError,
    UnitPartitions,
    ahead_of_clock,
    check_at_work,
    open_unit,
)
from shared.streams.stages.failures import DEFAULT_AFTER
from shared.streams.stages.guarded_unit import guarded
from shared.streams.stages.hooks import Hooks
from shared.streams.stages.provenance import split_state
from shared.streams.stages.stage import Stage
from shared.streams.stages.unit import Commit, EventTimeLimit, unit_count
from shared.streams.stages.unit_state import closed_at_us

BATCH_RECORDS = 500


class EmbeddedUnit:
    """A unit that reads from and commits to the log in memory. `now_us` is the wall clock, 0 in an
    emulated run.

    Raises InconsistentError when the state does not belong to what the log holds.
    """

    def __init__(
        self,
        log: InMemoryLog,
        stage: Stage,
        number: int,
        codec: Codec,
        limit: EventTimeLimit,
        hooks: Hooks,
        quarantine_after: int,
        now_us: int,
    ) -> None:
        self._log = log
        self._group = stage.name
        self._hooks = hooks
        self._transactions = MemoryTransactions(log, stage, number, hooks.step)
        self._partitions = UnitPartitions.from_stage(stage, number, codec.topics)
        provenance, state = split_state(restore(log, self._partitions.changelog))
        found = facts_in_memory(log, self._partitions, provenance)
        opens_at = open_unit(self._partitions, provenance, bool(state), found)
        self._next, self._transactions.provenance = opens_at
        self._check_clock(closed_at_us(state), now_us, limit.round_ahead_us)
        self._guard = guarded(stage, number, state, codec, limit, hooks, quarantine_after)

    def step(self, now_us: int = 0) -> bool:
        """Process what is there; return False when there was nothing."""
        records = self._receive()
        if not records:
            return False
        self._begin(self._guard.begin(records))
        self._hooks.step.reached("received")
        self._do(lambda: self._guard.process(records, now_us))
        return True

    def close_round(self, now_us: int) -> None:
        """End the round of a stage whose rounds a clock closes."""
        self._begin(self._guard.begin_round())
        self._do(lambda: self._guard.close_round(now_us))

    def give_up(self) -> None:
        """Release the unit, which is not used any more."""
        self._guard.unit.stage.given_up(self._guard.unit.number)

    def _begin(self, note: Commit) -> None:
        if not note.is_empty:
            self._transactions.commit(note)

    def _do(self, work: Callable[[], Commit]) -> None:
        try:
            commit = work()
        except Exception as error:
            if not self._guard.is_careful:
                self._transactions.commit(self._guard.counted(error))
                raise
            commit = self._guard.isolate(error)
        self._finish(commit)

    def _receive(self) -> list[Record]:
        records: list[Record] = []
        held = self._guard.unit.held
        for partition, offset in self._next.items():
            if partition not in held and self._log.end_offset(partition) > offset:
                found = self._log.read(partition, offset, BATCH_RECORDS)
                self._next[partition] = found[-1].offset + 1 if found else offset
                records += found
        return records

    def _finish(self, commit: Commit) -> None:
        if commit.is_empty:
            return
        self._hooks.step.reached("handled")
        self._transactions.commit(commit)
        self._hooks.step.reached("committed")
        self._hooks.meter.batch(self._group, self._guard.unit.number, commit.tally, 0.0)

    def check(self) -> None:
        """Raise InconsistentError when data were replaced under the unit."""
        known = self._transactions.provenance
        found = facts_in_memory(self._log, self._partitions, known)
        if wrong := check_at_work(self._partitions, known, found):
            raise InconsistentError(self._partitions.name, wrong)

    def _check_clock(self, closed_us: int, now_us: int, tolerance_us: int) -> None:
        if now_us and (wrong := ahead_of_clock(closed_us, now_us, tolerance_us)):
            raise InconsistentError(self._partitions.name, wrong)


class EmbeddedRuntime:
    """One member of the consumer groups of its stages."""

    def __init__(
        self,
        log: InMemoryLog,
        stages: Sequence[Stage],
        topics: Topics | None = None,
        *,
        codec: Codec | None = None,
        member: str = "0",
        limit: EventTimeLimit | None = None,
        hooks: Hooks | None = None,
        quarantine_after: int = DEFAULT_AFTER,
    ) -> None:
        self._log = log
        self._quarantine_after = quarantine_after
        self._codec = codec or Codec(topics or Topics())
        self._stages = {stage.name: stage for stage in stages}
        self._counts = {stage.name: unit_count(stage, self._codec.topics) for stage in stages}
        self._member = member
        self._limit = limit or EventTimeLimit()
        self._hooks = hooks or Hooks()
        self._units: dict[tuple[str, int], EmbeddedUnit] = {}
        self._seen_members: dict[str, frozenset[str]] = {}
        for name in self._stages:
            log.join(name, member)

    def step(self, now_us: int = 0) -> bool:
        """Process one batch of every unit that this member runs; return False when there was
        nothing to do."""
        self._follow_assignment(now_us)
        return sum([unit.step(now_us) for unit in self._units.values()]) > 0

    def run_until_quiet(self, now_us: int = 0) -> None:
        """Process until no unit has anything more."""
        while self.step(now_us):
            pass

    def check(self) -> None:
        """Raise InconsistentError when data were replaced under a unit of this member."""
        for unit in self._units.values():
            unit.check()

    def close_rounds(self, stage: str, now_us: int) -> None:
        """End the round of every unit of a stage whose rounds a clock closes."""
        self._follow_assignment(now_us)
        for (name, _), unit in self._units.items():
            if name == stage:
                unit.close_round(now_us)

    def leave(self) -> None:
        """Hand this member's units to the others."""
        for name in self._stages:
            self._log.leave(name, self._member)
        for unit in self._units.values():
            unit.give_up()
        self._units.clear()

    def _follow_assignment(self, now_us: int) -> None:
        for name in self._stages:
            members = self._log.members(name)
            if members != self._seen_members.get(name):
                self._seen_members[name] = members
                self._take_units(name, members, now_us)

    def _take_units(self, name: str, members: frozenset[str], now_us: int) -> None:
        owners = assign_units(self._counts[name], members) if members else {}
        for number in range(self._counts[name]):
            if owners.get(number) != self._member:
                unit = self._units.pop((name, number), None)
                if unit is not None:
                    unit.give_up()
            elif (name, number) not in self._units:
                self._units[name, number] = self._open(name, number, now_us)

    def _open(self, name: str, number: int, now_us: int) -> EmbeddedUnit:
        stage = self._stages[name]
        return EmbeddedUnit(
            self._log,
            stage,
            number,
            self._codec,
            self._limit,
            self._hooks,
            self._quarantine_after,
            now_us,
        )
