"""Expected run times of jobs: as their users ask, or as their users' last jobs ran.

D. Tsafrir, Y. Etsion, D. G. Feitelson, "Backfilling using system-generated predictions rather than
user runtime estimates", IEEE TPDS 18(6), 2007: the mean of the last two run times of the same user,
never above the request; and backfill takes the shortest job first. They trust predictions for
reservations too. Here whatever starts keeps, by requests, what was promised to the first job that
waits, and predictions may let others pass only for a declared share of the machine
(docs/lookahead.md).
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from shared.scheduling.backfill_scheduler import BackfillScheduler, Turn
from shared.scheduling.dispatch import Served
from shared.scheduling.easy import EasyScheduler
from shared.scheduling.load import Load, Soonest
from shared.scheduling.pool import Discipline, Pool
from shared.scheduling.power import PowerBudget
from shared.scheduling.wait_queue import Entry, WaitQueue

_LAST: Final = 2
# Of the same user, the runs that must all have been short enough where a start is risky.
_CAREFUL: Final = 8
_LEAST_S: Final = 1.0
# How much longer jobs may wait, as a share, since predictions let others pass them.
PASSING_SHARE: Final = 0.05


class Runtimes(StrEnum):
    """Expectations of backfilling."""

    REQUESTED = "requested"
    PREDICTED = "predicted"


class UserRuntimes:
    """Predictions from jobs that have ended; all columns are by job."""

    def __init__(
        self,
        user: Sequence[int],
        submit_s: Sequence[float],
        requested_s: Sequence[float],
        run_s: Sequence[float],
    ) -> None:
        self._user, self._requested_s, self._run_s = user, requested_s, run_s
        self._submit_s = submit_s
        self._last_s: dict[int, list[float]] = defaultdict(list)

    def predict_s(self, job: int) -> float:
        """Return the mean of the user's last two run times, the request where fewer have ended."""
        last_s, requested_s = self._last_s[self._user[job]], self._requested_s[job]
        if len(last_s) < _LAST:
            return requested_s
        return min(max(sum(last_s[-_LAST:]) / _LAST, _LEAST_S), requested_s)

    def careful_s(self, job: int) -> float:
        """Return the longest of the user's last eight run times, of as many as have ended; the
        request where these are fewer than two."""
        last_s, requested_s = self._last_s[self._user[job]], self._requested_s[job]
        return requested_s if len(last_s) < _LAST else min(max(*last_s, _LEAST_S), requested_s)

    def submit_s(self, job: int) -> float:
        """Return when a job was submitted."""
        return self._submit_s[job]

    def run_s(self, job: int) -> float:
        """Return for how long a job ran, which is known when it has ended."""
        return self._run_s[job]

    def ended(self, job: int) -> None:
        """Learn for how long a job ran."""
        last_s = self._last_s[self._user[job]]
        last_s.append(self._run_s[job])
        del last_s[:-_CAREFUL]


class Passed:
    """Unit-seconds that jobs took which passed the first that waits, since it was submitted.

    A job counts with its request until it has ended, then with what it took.
    """

    def __init__(self) -> None:
        self._started: deque[tuple[float, int]] = deque()
        self._unit_s: dict[int, float] = {}
        self._total_unit_s = 0.0

    def since(self, submit_s: float) -> float:
        """Return what was taken by jobs that started since then; later questions ask for later
        times, or get less than there was."""
        while self._started and self._started[0][0] < submit_s:
            _, job = self._started.popleft()
            self._total_unit_s -= self._unit_s.pop(job)
        return self._total_unit_s

    def take(self, job: int, start_s: float, unit_s: float) -> None:
        """Count a job that starts."""
        self._started.append((start_s, job))
        self._unit_s[job] = unit_s
        self._total_unit_s += unit_s

    def correct(self, job: int, unit_s: float) -> None:
        """Count what a job really took, if it still counts."""
        if job in self._unit_s:
            self._total_unit_s += unit_s - self._unit_s[job]
            self._unit_s[job] = unit_s


class PredictedScheduler(EasyScheduler):
    """A scheduler that lets the job that is predicted to be the shortest pass first. Jobs still end
    at their requests.

    What passes ends before the reservation by its request or takes what that leaves, as under EASY;
    or it will end before it unless it outlasts all of its user's last runs, and by all requests the
    reservation still begins by the time at which it first was to begin. So a wrong prediction never
    breaks that promise.

    What passes by its prediction may take `passing_share` of the cluster, since the first that
    waits was submitted. The rest goes by EASY. So predictions make nobody wait much longer than
    by that share.
    """

    def __init__(
        self,
        load: Load,
        runtimes: UserRuntimes,
        number: int,
        budgets: Sequence[PowerBudget],
        passing_share: float = PASSING_SHARE,
    ) -> None:
        super().__init__(load, WaitQueue(), number=number, budgets=budgets)
        self._runtimes, self._passing_share = runtimes, passing_share
        self._predicted_s: dict[int, float] = {}
        self._careful_s: dict[int, float] = {}
        self._promised_s: dict[int, float] = {}
        self._units: dict[int, int] = {}
        self._passed = Passed()

    def add(self, entry: Entry) -> None:
        """Put an entry that arrived into the queue."""
        BackfillScheduler.add(self, entry)  # others may pass now that could not before
        self._predicted_s[entry.arrival] = self._runtimes.predict_s(entry.arrival)
        self._careful_s[entry.arrival] = self._runtimes.careful_s(entry.arrival)

    def release(self, holder: int) -> None:
        """Free the nodes of a job, and learn for how long it ran."""
        super().release(holder)
        self._runtimes.ended(holder)
        if units := self._units.pop(holder, 0):
            self._passed.correct(holder, units * self._runtimes.run_s(holder))

    def _start(self, entry: Entry) -> Served:
        del self._predicted_s[entry.arrival], self._careful_s[entry.arrival]
        self._promised_s.pop(entry.arrival, None)
        return super()._start(entry)

    def _reserve(self, entry: Entry, soonest: Soonest) -> None:
        self._promised_s.setdefault(entry.arrival, soonest.start_s)
        super()._reserve(entry, soonest)

    def _backfilling(self, order: int) -> Iterator[Turn]:
        yield from self._passing()
        if self._may_any_start():
            yield from EasyScheduler._backfilling(self, order)

    def _passing(self) -> Iterator[Entry]:
        """Yield the entries that pass by their predictions, the shortest first."""
        blocked = self._blocked
        assert blocked is not None
        since_s = self._runtimes.submit_s(blocked.arrival)
        may_take = self._passing_share * self.total * (self._now_s - since_s)
        left = may_take - self._passed.since(since_s)
        for _, _, entry in sorted(self._candidates(blocked)):
            unit_s = entry.nodes * entry.limit_s
            delays = not self._fits_beside(entry)
            if unit_s > left or (delays and not self._keeps_promise(blocked, entry)):
                continue
            left -= unit_s
            self._passed.take(entry.arrival, self._now_s, unit_s)
            self._units[entry.arrival] = entry.nodes
            yield entry
            if delays:
                self._forget_reservation()
                self._block(blocked)

    def _candidates(self, blocked: Entry) -> list[tuple[float, int, Entry]]:
        """Return the entries behind the first that waits whose nodes are free, with what they are
        sorted by."""
        return [
            (self._predicted_s[entry.arrival], entry.order, entry)
            for block in self.queue.blocks_from(blocked.order)
            if block.least_nodes <= self.free
            for entry in block.entries
            if entry.nodes <= self.free and entry.order > blocked.order
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
        if self._now_s + self._careful_s[entry.arrival] > self.shadow_s:
            return False
        if entry.nodes > self.free or not self._has_power(entry):
            return False
        self.free -= entry.nodes
        self.releases.hold((self.end_s(entry), entry.arrival, entry.nodes))
        soonest = self._earliest(blocked, self._now_s)
        self.releases.release(entry.arrival)
        self.free += entry.nodes
        return soonest.start_s <= self._promised_s[blocked.arrival]


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
        return PredictedScheduler(load, self.runtimes, number, budgets, self.passing_share)
