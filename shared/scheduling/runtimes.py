"""Backfill by expected run times: as users ask, or as their last jobs ran (`user_runs.py`).

Tsafrir, Etsion and Feitelson (2007) take the shortest job first, and trust predictions for
reservations too. Here whatever starts keeps, by requests, what was promised to the first job that
waits, and predictions may let others pass only for a declared share of the machine
(docs/results/lookahead.md).
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from shared.domain.runtimes import PASSING_SHARE
from shared.scheduling.backfill_scheduler import BackfillScheduler, Turn
from shared.scheduling.dispatch import Served
from shared.scheduling.easy import EasyScheduler
from shared.scheduling.load import Load, Soonest
from shared.scheduling.pool import Discipline, Pool
from shared.scheduling.power import PowerBudget
from shared.scheduling.user_runs import (
    ExpectedRun,
    LastRuns,
    PassedJob,
    RunHistory,
    after_run,
    expected_run,
)
from shared.scheduling.wait_queue import Entry, WaitQueue

_NOBODY: Final = -1


class UserRuntimes:
    """The run history of a log; all columns are by job."""

    def __init__(
        self, user: Sequence[int], submit_s: Sequence[float], run_s: Sequence[float]
    ) -> None:
        self._user, self._submit_s, self._run_s = user, submit_s, run_s
        self._last_s: dict[int, LastRuns] = {}

    def submit_s(self, arrival: int) -> float:
        """Return when a job was submitted."""
        return self._submit_s[arrival]

    def expected(self, arrival: int) -> ExpectedRun:
        """Return what is expected of a job that is submitted now."""
        return expected_run(self._last_s.get(self._user[arrival], ()))

    def ended(self, holder: int) -> float:
        """Learn that a job ended: return for how long it ran."""
        user, run_s = self._user[holder], self._run_s[holder]
        self._last_s[user] = after_run(self._last_s.get(user, ()), run_s)
        return run_s


class Passed:
    """Unit-seconds that jobs took which passed the first that waits, since it was submitted.

    A job counts with its request until it has ended, then with what it took.
    """

    def __init__(self, jobs: Mapping[int, PassedJob] | None = None) -> None:
        self.jobs: dict[int, PassedJob] = dict(jobs or {})
        self._started = sorted([(each.start_s, job) for job, each in self.jobs.items()])
        # Where those that are counted begin, and what they took.
        self._first, self._counted_us = 0, sum([each.unit_us for each in self.jobs.values()])

    @property
    def oldest(self) -> int:
        """Return the job that started first."""
        _, job = self._started[0]
        return job

    def since(self, submit_s: float) -> float:
        """Return what was taken by jobs that started since then."""
        started, first = self._started, self._first
        while first < len(started) and started[first][0] < submit_s:
            self._counted_us -= self.jobs[started[first][1]].unit_us
            first += 1
        while first and started[first - 1][0] >= submit_s:
            first -= 1
            self._counted_us += self.jobs[started[first][1]].unit_us
        self._first = first
        return self._counted_us / 1e6

    def take(self, job: int, start_s: float, units: int, limit_s: float) -> PassedJob:
        """Count a job that starts: return how."""
        self.drop(job)
        taken = self.jobs[job] = PassedJob(start_s, units, _unit_us(units, limit_s))
        place = bisect_left(self._started, (start_s, job))
        self._started.insert(place, (start_s, job))
        self._count(place, taken.unit_us)
        self._first += place < self._first
        return taken

    def correct(self, job: int, run_s: float) -> PassedJob | None:
        """Count what a job really took, if it still counts: return how."""
        before = self.jobs.get(job)
        if before is None:
            return None
        after = self.jobs[job] = before._replace(unit_us=_unit_us(before.units, run_s))
        place = bisect_left(self._started, (before.start_s, job))
        self._count(place, after.unit_us - before.unit_us)
        return after

    def drop(self, job: int) -> None:
        """Count a job no more."""
        before = self.jobs.pop(job, None)
        if before is not None:
            place = bisect_left(self._started, (before.start_s, job))
            self._count(place, -before.unit_us)
            self._first -= place < self._first
            del self._started[place]

    def _count(self, place: int, unit_us: int) -> None:
        if place >= self._first:
            self._counted_us += unit_us


def _unit_us(units: int, seconds: float) -> int:
    return round(units * seconds * 1e6)


class PredictedScheduler(EasyScheduler):
    """A scheduler that lets the job that is predicted to be the shortest pass first. Jobs still end
    at their requests.

    What passes ends before the reservation by its request or takes what that leaves, as under EASY;
    or it will end before it unless it outlasts all of its user's last runs, and by all requests the
    reservation still begins by the time at which it first was to begin. So a wrong prediction never
    breaks that promise.

    What passes by its prediction may take `passing_share` of what the first that waits leaves of
    the cluster, since that was submitted. The rest goes by EASY. A job on all nodes leaves nothing:
    whatever passes holds it up, while a narrow one seldom needs the same nodes.
    """

    def __init__(
        self,
        load: Load,
        queue: WaitQueue,
        history: RunHistory,
        number: int = 0,
        budgets: Sequence[PowerBudget] = (),
        passing_share: float = PASSING_SHARE,
        passed: Passed | None = None,
        promised_s: Mapping[int, float] | None = None,
    ) -> None:
        super().__init__(load, queue, number=number, budgets=budgets)
        self._history, self._passing_share = history, passing_share
        self._expected: dict[int, tuple[float, float]] = {}
        # By arrival, the times by which jobs that were the first to wait were first to begin.
        self.promised_s: dict[int, float] = dict(promised_s or {})
        self._passed = Passed() if passed is None else passed
        # By arrival, what was predicted of those that passed by it; and who is about to.
        self.passed_s: dict[int, float] = {}
        self._passing_now, self._notes_passing = _NOBODY, False

    def add(self, entry: Entry) -> None:
        """Put an entry that arrived into the queue."""
        BackfillScheduler.add(self, entry)  # others may pass now that could not before
        self._expect(entry)

    def release(self, holder: int) -> None:
        """Free the nodes of a job, and learn for how long it ran."""
        super().release(holder)
        run_s = self._history.ended(holder)
        if run_s is not None:
            self._passed.correct(holder, run_s)

    def _cancel(self, order: int) -> None:
        self._passing_now = _NOBODY
        super()._cancel(order)

    def _start(self, entry: Entry) -> Served:
        arrival = entry.arrival
        self._notes_passing = arrival == self._passing_now
        if self._notes_passing:
            self._passing_now = _NOBODY
            self.passed_s[arrival], _ = self._expect(entry)
            self._passed.take(arrival, self._now_s, entry.nodes, entry.limit_s)
        self._expected.pop(arrival, None)
        self.promised_s.pop(arrival, None)
        served = super()._start(entry)
        self._notes_passing = False
        return served

    def _note(self, order: int) -> None:
        # What passes does so before all that is behind the first that waits, whatever its order.
        blocked = self._blocked
        super()._note(blocked.order if blocked is not None and self._notes_passing else order)

    def _reserve(self, entry: Entry, soonest: Soonest) -> None:
        self.promised_s.setdefault(entry.arrival, soonest.start_s)
        super()._reserve(entry, soonest)

    def _backfilling(self, order: int) -> Iterator[Turn]:
        if self._pauses:
            yield order  # what is reserved for here may start on the next cluster of its rank
        shadow_s, blocked = self.shadow_s, self._blocked
        yield from self._passing()
        if not self._may_any_start():
            return
        if blocked is not None and self.shadow_s > shadow_s:
            order = blocked.order + 1  # what was refused before may end by the later shadow time
        yield from EasyScheduler._backfilling(self, order)

    def _passing(self) -> Iterator[Entry]:
        """Yield the entries that pass by their predictions, the shortest first."""
        blocked = self._blocked
        assert blocked is not None
        since_s = self._history.submit_s(blocked.arrival)
        left_beside = self.total - blocked.nodes
        may_take = self._passing_share * left_beside * (self._now_s - since_s)
        left = may_take - self._passed.since(since_s)
        for _, _, first in sorted(self._candidates(blocked, left)):
            entry: Entry | None = first
            # Of an array as many tasks as pass; one that is no more there started elsewhere.
            while entry is not None and entry.arrival in self.queue:
                if entry.nodes * entry.limit_s > may_take - self._passed.since(since_s):
                    break
                delays = not self._fits_beside(entry)
                if delays and not self._keeps_promise(blocked, entry):
                    break
                self._passing_now = entry.arrival
                yield entry
                if self._passing_now == _NOBODY and delays:
                    self._forget_reservation()
                    self._block(blocked)
                self._passing_now = _NOBODY
                entry = entry.next_task() if entry.arrival not in self.queue else None

    def _expect(self, entry: Entry) -> tuple[float, float]:
        """Return for how long an entry is predicted to run, and at most, as of its arrival."""
        known = self._expected.get(entry.arrival)
        if known is None:
            expected = self._history.expected(entry.arrival)
            known = expected.predict_s(entry.limit_s), expected.careful_s(entry.limit_s)
            self._expected[entry.arrival] = known
        return known

    def _candidates(self, blocked: Entry, left: float) -> list[tuple[float, int, Entry]]:
        """Return the entries behind the first that waits whose nodes are free and that take no more
        unit-seconds than are left, with what they are sorted by."""
        free, behind = self.free, blocked.order
        return [
            (self._expect(entry)[0], entry.order, entry)
            for block in self.queue.blocks_from(behind)
            if block.least_nodes <= free and block.least_nodes * block.least_limit_s <= left
            for entry in block.entries
            if entry.nodes <= free and entry.nodes * entry.limit_s <= left and entry.order > behind
        ]

    def _fits_beside(self, entry: Entry) -> bool:
        """Return True where an entry can start now without delaying the reservation, by its
        request."""
        in_time = entry.nodes <= self.extra or self.end_s(entry) <= self.shadow_s
        return in_time and self._starting(entry) is not None

    def _keeps_promise(self, blocked: Entry, entry: Entry) -> bool:
        """Return True where an entry that starts now will end before the reservation, if it runs no
        longer than its user's others did, and by all requests the reservation still begins by the
        time at which it first was to begin."""
        _, careful_s = self._expect(entry)
        if self._now_s + careful_s > self.shadow_s:
            return False
        if entry.nodes > self.free or not self._has_power(entry):
            return False
        self.free -= entry.nodes
        self.releases.hold((self.end_s(entry), entry.arrival, entry.nodes))
        soonest = self._earliest(blocked, self._now_s)
        self.releases.release(entry.arrival)
        self.free += entry.nodes
        return soonest.start_s <= self.promised_s[blocked.arrival]


@dataclass(frozen=True, slots=True)
class PredictingPool(Pool):
    """A pool whose scheduler backfills by predictions, under EASY."""

    runtimes: UserRuntimes = field(kw_only=True)
    passing_share: float = field(default=PASSING_SHARE, kw_only=True)

    def scheduler(
        self, discipline: Discipline, number: int, budgets: Sequence[PowerBudget] = ()
    ) -> EasyScheduler:
        """Return a scheduler of the pool with nothing running and nothing waiting. Raises
        ValueError but for EASY."""
        if discipline is not Discipline.EASY:
            raise ValueError(f"{discipline} does not backfill by predictions: take easy")
        load = Load(self.units, self.units)
        by = number, budgets, self.passing_share
        return PredictedScheduler(load, WaitQueue(), self.runtimes, *by)
