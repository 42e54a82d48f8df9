"""A unit that no input stops for ever: what fails again after restarts is isolated.

The first failures end the process, as everything unexpected does: a restart cures what is not the
input's fault. Each is counted in the unit's own changelog, so that the count survives the process.
When one has happened often enough the next life is *careful*: it keeps the state and the records
that are not committed, so that on an exception fresh units can try the same again, each without
something else, until one passes. Nothing but the cause is left out. Where the end of a round fails
whatever is left out, the round itself is set aside: it ends with nothing decided, and the next one
decides of the same state.

A process that is killed, by a signal or for want of memory, counts nothing. So each life notes at
which records it begins, before it handles them, until they are passed. Where as many lives in a row
have begun, the next one does the work in a child process first, and only what kills one child after
the other is left out.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import structlog

from shared.catalogue.codec import Codec, is_barrier
from shared.catalogue.record import Record, TopicPartition
from shared.streams.stages.consistency import Inconsistency, InconsistentError
from shared.streams.stages.failures import DEFAULT_AFTER, Beginnings, Failures, Seen
from shared.streams.stages.hooks import Hooks
from shared.streams.stages.quarantine import At, Blame, Fault, culprits, identify
from shared.streams.stages.stage import Stage
from shared.streams.stages.trial_process import ChildDeath, Tell, death_of
from shared.streams.stages.unit import Commit, EventTimeLimit, Unit
from shared.streams.stages.unit_state import BEGINNINGS_KEY, FAILURES_KEY
from shared.streams.state.rows import UnreadableRowError

Build = Callable[[Mapping[str, bytes], Blame | None], Unit]

# Beyond so many causes of one round's failure it is not its input: the round is set aside.
_MOST_CULPRITS: Final = 100
# In place of the partition where a round is counted.
_ROUND: Final = TopicPartition("", 0)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Work:
    """What is tried: records that are not committed, and then perhaps the clock's round end."""

    records: Sequence[Record]
    now_us: int
    closes_round: bool


@dataclass(frozen=True, slots=True)
class _InHand:
    """What a unit was at: a record, or the end of a round with these suspects; neither where it
    died before its first."""

    record: At | None = None
    suspects: Sequence[str] = ()
    ending: int | None = None

    @classmethod
    def of(cls, unit: Unit) -> "_InHand":
        """Return what a unit is at now."""
        record = unit.at_record
        if record is None:
            return cls(suspects=unit.suspects, ending=unit.ending)
        return cls(identify(record))


@dataclass(frozen=True, slots=True)
class _Failed:
    """A trial that raised an error or killed its process."""

    error: Exception
    fault: Fault
    in_hand: _InHand


class DiedError(Exception):
    """What a unit has to do kills the process that does it."""


@dataclass(frozen=True, slots=True)
class _Passed:
    unit: Unit
    commit: Commit


class GuardedUnit:
    """One unit over its failures. `build` makes a unit of a state and of what to leave out.

    What `process` and `close_round` raise is answered by the driver: `is_careful` False, it makes
    `counted(error)` durable and ends the process; True, it goes on with what `isolate` returns.
    Before either it makes durable what `begin` and `begin_round` return, if that is anything.
    """

    def __init__(self, build: Build, restored: Mapping[str, bytes], after: int) -> None:
        self._build = build
        self._failures = Failures(restored.get(FAILURES_KEY))
        self._beginnings = Beginnings(restored.get(BEGINNINGS_KEY), after)
        self._after = after
        self.is_careful = self._failures.recur(after) or self._beginnings.are_fatal
        self._state = dict(restored) if self.is_careful else {}
        self._uncommitted: list[Record] = []
        self._work = _Work((), 0, closes_round=False)
        self._set_aside: Mapping[int, Fault] = {}
        self.unit = build(restored, None)

    def begin(self, records: Sequence[Record]) -> Commit:
        """Return the note that this life begins at the first of these records."""
        return self._note(_first(records))

    def begin_round(self) -> Commit:
        """Return the note that this life begins with the round that is open."""
        return self._note({_ROUND: self.unit.next_round})

    def process(self, records: Sequence[Record], now_us: int = 0) -> Commit:
        """Process records, as `Unit.process` does."""
        if self.is_careful:
            self._uncommitted += records
            self._work = _Work(self._uncommitted, now_us, closes_round=False)
        return self._done(_first(records), lambda: self.unit.process(records, now_us))

    def close_round(self, now_us: int) -> Commit:
        """Close the open round, as `Unit.close_round` does."""
        self._work = _Work(self._uncommitted, now_us, closes_round=True)
        at_round = {_ROUND: self.unit.next_round}
        return self._done(at_round, lambda: self.unit.close_round(now_us))

    def counted(self, error: Exception) -> Commit:
        """Return the failure, one time more, as the changelog keeps it. It is known how this life
        ends."""
        self._failures.count(error, *self._where())
        return Commit(changelog={FAILURES_KEY: self._failures.kept, BEGINNINGS_KEY: None})

    def isolate(self, error: Exception) -> Commit:
        """Do what failed without what made it fail, and log what that was.

        Raises the error where nothing that could be left out makes a difference: neither a record,
        nor a subject, nor a round as a whole.
        """
        blame = Blame()
        while isinstance(tried := self._try(blame), _Failed):
            blamed = self._blame(blame, tried)
            if len(blamed) == len(blame):
                where = {"stage": self.unit.stage.name, "unit": self.unit.number}
                _log.error("fails whatever is left out: go back a release, or report it", **where)
                raise tried.error from error
            blame = blamed
        self.unit = tried.unit
        self.unit.go_on()
        self._set_aside = blame.rounds
        tried.commit.tally.quarantined += len(blame.subjects) + len(blame.rounds)
        self._alarm(error, blame)
        return self._settled(tried.commit, is_isolated=True)

    def _note(self, begins: Mapping[TopicPartition, int]) -> Commit:
        if self._after == 0 or not self._beginnings.begin(begins):
            return Commit()
        return Commit(changelog={BEGINNINGS_KEY: self._beginnings.kept})

    def _done(self, begins: Mapping[TopicPartition, int], work: Callable[[], Commit]) -> Commit:
        """Do the work; where lives may have ended, a copy of this process does it first. Raises
        DiedError when the copy is killed."""
        if self._beginnings.may_be_fatal(begins) and (death := death_of(_quietly(work))):
            raise _died(death)
        return self._settled(work())

    def _alarm(self, error: Exception, blame: Blame) -> None:
        log = _log.bind(stage=self.unit.stage.name, unit=self.unit.number)
        if not blame:
            log.error("failed, and passed when tried again", exc_info=error)
        for (partition, offset), fault in blame.records.items():
            where = {"topic": partition.topic, "kafka_partition": partition.kafka_partition}
            log.error("quarantined", **where, offset=offset, why=fault.what, stack=fault.digest)
        for subject, fault in blame.subjects.items():
            log.error("held back", subject=subject, why=fault.what, stack=fault.digest)
        for number, fault in blame.rounds.items():
            what = "set aside: nothing was decided in this round"
            log.error(what, round=number, why=fault.what, stack=fault.digest)
        faults = (blame.records, blame.subjects, blame.rounds)
        for fault in {fault for blamed in faults for fault in blamed.values()}:
            log.error("what was isolated failed here", digest=fault.digest, stack=fault.stack)

    def _where(self) -> tuple[str, int, int]:
        record = self.unit.read_record
        if self.unit.at_record is None or record is None:
            return "", 0, self.unit.next_round
        return record.partition.topic, record.partition.kafka_partition, record.offset

    def _settled(self, commit: Commit, *, is_isolated: bool = False) -> Commit:
        """Follow a commit, which is durable or the last thing that this process did."""
        if self._failures or self._beginnings:
            self._forget(commit, is_isolated=is_isolated)
        if self.is_careful:
            for key, value in commit.changelog.items():
                _apply(self._state, key, value)
            self._uncommitted = [
                record
                for record in self._uncommitted
                if record.offset >= commit.positions.get(record.partition, 0)
            ]
        return commit

    def _forget(self, commit: Commit, *, is_isolated: bool) -> None:
        def is_passed(seen: Seen) -> bool:
            if is_isolated or not seen.topic:
                return is_isolated or seen.number < self.unit.next_round
            return (
                commit.positions.get(TopicPartition(seen.topic, seen.kafka_partition), 0)
                > seen.number
            )

        if self._failures.forget(is_passed):
            commit.changelog[FAILURES_KEY] = self._failures.kept
        if self._beginnings.forget(is_passed):
            commit.changelog[BEGINNINGS_KEY] = self._beginnings.kept

    def _try(self, blame: Blame) -> _Passed | _Failed:
        """The work without something, where lives may have ended in child processes first: who
        kills one of these by mistake leaves nothing out."""
        if self._beginnings.are_fatal and (killed := self._killed(blame)):
            return killed
        return self._tried(blame)

    def _killed(self, blame: Blame) -> _Failed | None:
        """Return how the trial kills its process, None when it does not each time."""
        death = death_of(lambda tell: self._tried(blame, tell), self._after)
        if death is None:
            return None
        in_hand = death.last_told if isinstance(death.last_told, _InHand) else _InHand()
        return _Failed(_died(death), Fault.from_death(death.how, death.stack), in_hand)

    def _tried(self, blame: Blame, tell: Tell | None = None) -> _Passed | _Failed:
        """Do the work on a fresh unit, record by record, so that one that fails is known."""
        unit, total = self._build(self._state, blame), Commit()
        if tell is not None:
            unit.taken_in_hand = lambda: tell(_InHand.of(unit))
        try:
            for record in self._work.records:
                total.add(unit.process([record], self._work.now_us))
            if self._work.closes_round:
                total.add(unit.close_round(self._work.now_us))
        except Exception as error:  # noqa: BLE001 what is unexpected is what this is for
            return _Failed(error, Fault.from_error(error), _InHand.of(unit))
        return _Passed(unit, total)

    def _blame(self, blame: Blame, failed: _Failed) -> Blame:
        in_hand, fault = failed.in_hand, failed.fault
        if in_hand.record is not None:
            return blame.with_records([in_hand.record], fault)
        if in_hand.ending is None:
            return blame
        if self._fails_on(blame, in_hand.ending, fault):
            return blame.with_round(in_hand.ending, fault)
        found = self._blame_for_round(blame, in_hand.suspects, fault)
        if len(found) == len(blame):
            return blame.with_round(in_hand.ending, fault)
        return found

    def _fails_on(self, blame: Blame, number: int, fault: Fault) -> bool:
        """Return whether the round before was set aside for the same: no search for a cause in each
        round."""
        before = blame.rounds.get(number - 1) or self._set_aside.get(number - 1)
        return before is not None and before.digest == fault.digest

    def _blame_for_round(self, blame: Blame, suspects: Sequence[str], fault: Fault) -> Blame:
        """The fewest of the events since the last commit, or of what the round deals with; no more
        than before where none of them makes a difference.

        Events that were committed before cannot be taken back, and with one event many subjects may
        fail; where it takes as many of the one as of the other, a subject that is held is reported
        of where it is asked about."""
        events = [
            identify(record)
            for record in self._work.records
            if not is_barrier(record) and identify(record) not in blame.records
        ]

        def fails_without_events(left_out: Sequence[At]) -> bool:
            return isinstance(self._try(blame.with_records(left_out, fault)), _Failed)

        def fails_without_subjects(left_out: Sequence[str]) -> bool:
            return isinstance(self._try(blame.with_subjects(left_out, fault)), _Failed)

        found = culprits(events, fails_without_events, _MOST_CULPRITS)
        most = len(found) if found else _MOST_CULPRITS
        held = culprits(suspects, fails_without_subjects, most)
        if held is not None:
            return blame.with_subjects(held, fault)
        return blame.with_records(found or [], fault)


def guarded(
    stage: Stage,
    number: int,
    restored: Mapping[str, bytes],
    codec: Codec,
    limit: EventTimeLimit,
    hooks: Hooks,
    after: int = DEFAULT_AFTER,
) -> GuardedUnit:
    """Return one unit of a stage, as drivers run it. Raises InconsistentError for a state that
    another release wrote."""

    def build(state: Mapping[str, bytes], blame: Blame | None) -> Unit:
        return Unit(stage, number, state, codec, limit, hooks, blame)

    try:
        return GuardedUnit(build, restored, after)
    except UnreadableRowError as error:
        unreadable = Inconsistency(error.what, error.advice.replace("STAGE", stage.name))
        raise InconsistentError(f"{stage.name}/{number}", [unreadable]) from error


def _first(records: Sequence[Record]) -> dict[TopicPartition, int]:
    """Return the first offset of each partition."""
    return {record.partition: record.offset for record in reversed(records)}


def _quietly(work: Callable[[], Commit]) -> Callable[[Tell], None]:
    """Work whose exceptions are met when it is done in earnest."""

    def tried(_tell: Tell) -> None:
        with suppress(Exception):
            work()

    return tried


def _died(death: ChildDeath) -> DiedError:
    return DiedError(f"the process that tried it died: {death.how}")


def _apply(state: dict[str, bytes], key: str, value: bytes | None) -> None:
    if value is None:
        state.pop(key, None)
    else:
        state[key] = value
