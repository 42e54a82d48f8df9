"""Jobs whose submitters wait for an answer: when those start that did not start at once."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import Final, NamedTuple

from coplace.v1.placement_pb2 import MISFIT_KIND_STARTS_TOO_LATE

from shared.domain.times import in_utc
from shared.placement.decide.waiting_jobs import WaitingJobs
from shared.placement.state.job_record import JobRecord
from shared.placement.state.job_table import JobTable
from shared.placement.state.misfit import Misfit
from shared.streams.state.state import State

# How far a forecast of a round looks ahead, in starts and in instants: as far as the seconds since
# the last one allow, but within these bounds. So who submits interactive jobs all the time makes no
# round wait for a long forecast.
_AHEAD_PER_S: Final = 10
_LEAST_AHEAD: Final = 100
_MOST_AHEAD: Final = 1000


class ExpectedStart(NamedTuple):
    """When a job is expected to start, infinite where that is not known; and a time before which it
    does not, infinite where it never does as everything is now."""

    start_s: float
    from_s: float

    @property
    def is_known(self) -> bool:
        """Return whether a start is expected."""
        return self.start_s < inf

    @property
    def words(self) -> str:
        """Return it in words."""
        if self.is_known:
            return f"expected to start {in_utc(self.start_s)}"
        before = f" before {in_utc(self.from_s)}" if self.from_s < inf else ""
        return f"no start is expected{before}"


NEVER: Final = ExpectedStart(inf, inf)


class LastForecast(NamedTuple):
    """When interactive jobs were last answered."""

    at_s: float


class InteractiveJobs:
    """Rejects interactive jobs that do not start in time, and says of the others when they do. What
    is expected is worked out in the round of the submission alone."""

    def __init__(self, state: State, table: JobTable, waiting_jobs: WaitingJobs) -> None:
        self._table, self._waiting_jobs = table, waiting_jobs
        self._last = state.value("interactive-forecast", LastForecast)

    def are_to_answer(self, touched: Iterable[JobRecord], now_s: float) -> list[JobRecord]:
        """Return the interactive jobs of these that wait and need an answer: nothing was published
        of them yet, or their time is over."""
        return [
            job
            for job in touched
            if job.job.is_interactive
            and job.waits
            and (not job.notice.verdict or job.job.starts_by_s <= now_s)
        ]

    def take_allowance(self, now_s: float) -> int:
        """Return how far the forecast of this round looks ahead: it is the last one from now on."""
        last = self._last.get()
        allowed = inf if last is None else _AHEAD_PER_S * (now_s - last.at_s)
        self._last.put(LastForecast(now_s))
        return int(min(max(allowed, _LEAST_AHEAD), _MOST_AHEAD))

    def answer(
        self,
        jobs: Sequence[JobRecord],
        now_s: float,
        expected: Callable[[JobRecord], ExpectedStart],
    ) -> Mapping[str, ExpectedStart]:
        """Reject those of these jobs that start too late; return by job when each is expected to
        start."""
        found = {job.job.job_id: expected(job) for job in jobs}
        for job in jobs:
            start, by_s = found[job.job.job_id], job.job.starts_by_s
            if start.from_s > by_s or by_s <= now_s:
                self._waiting_jobs.leave(job.job.job_id)
                self._table.reject(job, (too_late(job, start),))
        return found


def too_late(job: JobRecord, expected: ExpectedStart) -> Misfit:
    """Return why an interactive job does not wait any more that is expected to start then."""
    within_s, words = job.job.starts_within_s, expected.words
    said = f"is {words}" if expected.is_known else words
    reason = f"was to start within {within_s:g} s of its submission, and {said}"
    needed_s = expected.from_s - job.job.submit_s if expected.from_s < inf else 0.0
    counted = max(needed_s, 0.0), within_s if needed_s > 0 else 0.0
    return Misfit("", MISFIT_KIND_STARTS_TOO_LATE, reason, *counted)
