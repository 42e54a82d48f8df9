"""Expected run times of jobs: as their users ask, or as their users' last jobs ran.

D. Tsafrir, Y. Etsion, D. G. Feitelson, "Backfilling using system-generated predictions rather than
user runtime estimates", IEEE TPDS 18(6), 2007: the mean of the last two run times of the same user,
never above the request. They use it for running jobs too, and raise it when it is outlived; here a
running job is expected to need all that it asked for (docs/lookahead.md).
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from shared.scheduling.dispatch import Served
from shared.scheduling.easy import EasyScheduler
from shared.scheduling.load import Load
from shared.scheduling.pool import Discipline, Pool
from shared.scheduling.power import PowerBudget
from shared.scheduling.wait_queue import Entry, WaitQueue

_LAST: Final = 2
_LEAST_S: Final = 1.0


class Runtimes(StrEnum):
    """Expectations of backfilling."""

    REQUESTED = "requested"
    PREDICTED = "predicted"


class UserRuntimes:
    """Predictions from jobs that have ended; all columns are by job."""

    def __init__(
        self, user: Sequence[int], requested_s: Sequence[float], run_s: Sequence[float]
    ) -> None:
        self._user, self._requested_s, self._run_s = user, requested_s, run_s
        self._last_s: dict[int, list[float]] = defaultdict(list)

    def predict_s(self, job: int) -> float:
        """Return the mean of the user's last two run times, the request where fewer have ended."""
        last_s = self._last_s[self._user[job]]
        requested_s = self._requested_s[job]
        if len(last_s) < _LAST:
            return requested_s
        return min(max(sum(last_s) / _LAST, _LEAST_S), requested_s)

    def requested_s(self, job: int) -> float:
        """Return the user's request."""
        return self._requested_s[job]

    def ended(self, job: int) -> None:
        """Learn for how long a job ran."""
        last_s = self._last_s[self._user[job]]
        last_s.append(self._run_s[job])
        del last_s[:-_LAST]


class PredictedScheduler(EasyScheduler):
    """A scheduler that backfills by predictions and reserves by requests, at which jobs still
    end.

    The shadow time counts on what runs to give back at its request. A job that is backfilled as
    ending by then may run longer than predicted: the reservation waits for it at most until its
    request ends.
    """

    def __init__(
        self, load: Load, runtimes: UserRuntimes, number: int, budgets: Sequence[PowerBudget]
    ) -> None:
        super().__init__(load, WaitQueue(), number=number, budgets=budgets)
        self._runtimes = runtimes

    def add(self, entry: Entry) -> None:
        """Put an entry that arrived into the queue: while it waits its limit is the predicted run
        time."""
        super().add(entry._replace(limit_s=self._runtimes.predict_s(entry.arrival)))

    def release(self, holder: int) -> None:
        """Free the nodes of a job, and learn for how long it ran."""
        super().release(holder)
        self._runtimes.ended(holder)

    def _act(self, entry: Entry) -> Served | None:
        served = super()._act(entry)
        if served is not None:
            _, holder, nodes = self.releases.release(entry.arrival)
            release_s = self._now_s + self._runtimes.requested_s(holder)
            self.releases.hold((release_s, holder, nodes))
            self.budgets.prolong(holder, release_s)
        return served


@dataclass(frozen=True, slots=True)
class PredictingPool(Pool):
    """A pool whose scheduler backfills by predictions, under EASY."""

    runtimes: UserRuntimes = field(kw_only=True)

    def scheduler(
        self, discipline: Discipline, number: int, budgets: Sequence[PowerBudget] = ()
    ) -> EasyScheduler:
        """Return a scheduler of the pool with nothing running and nothing waiting. Raises
        ValueError but for EASY."""
        if discipline is not Discipline.EASY:
            raise ValueError(f"{discipline} does not backfill by predictions: take easy")
        return PredictedScheduler(Load(self.units, self.units), self.runtimes, number, budgets)
