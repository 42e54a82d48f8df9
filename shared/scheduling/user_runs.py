"""What the last runs of a user say of the next one. Not compiled: rows of state are read by their
types, which compiled tuples do not have.

D. Tsafrir, Y. Etsion, D. G. Feitelson, "Backfilling using system-generated predictions rather than
user runtime estimates", IEEE TPDS 18(6), 2007: the mean of the last two run times of the same user,
never above the request.
"""

from math import inf
from typing import Final, NamedTuple, Protocol

_LAST: Final = 2
# Of the same user, the runs that must all have been short enough where a start is risky.
_CAREFUL: Final = 8
_LEAST_S: Final = 1.0
# The last run times of a user, the newest last.
LastRuns = tuple[float, ...]


class ExpectedRun(NamedTuple):
    """What the last runs of a user said when a job was submitted: the mean of two, and the longest
    of eight, of as many as had ended."""

    mean_s: float
    longest_s: float

    def predict_s(self, requested_s: float) -> float:
        """Return for how long a job will run."""
        return min(self.mean_s, requested_s)

    def careful_s(self, requested_s: float) -> float:
        """Return for how long a job will run at most, unless it outlasts the user's last runs."""
        return min(self.longest_s, requested_s)


# Of a job of whose user too few have ended.
AS_REQUESTED: Final = ExpectedRun(inf, inf)


class PassedJob(NamedTuple):
    """What a job took that passed the first that waits: counted by its request until it ends, in
    whole unit-microseconds, so that sums do not depend on their order."""

    start_s: float
    units: int
    unit_us: int


class RunHistory(Protocol):
    """What backfill asks of jobs, by their arrival numbers."""

    def submit_s(self, arrival: int) -> float:
        """Return when a job was submitted."""

    def expected(self, arrival: int) -> ExpectedRun:
        """Return what is expected of a job since it was submitted."""

    def ended(self, holder: int) -> float | None:
        """Learn that a job ended: return for how long it ran, None where that is known
        elsewhere."""


def expected_run(last_s: LastRuns) -> ExpectedRun:
    """Return what a user's last runs say of the next."""
    if len(last_s) < _LAST:
        return AS_REQUESTED
    return ExpectedRun(max(sum(last_s[-_LAST:]) / _LAST, _LEAST_S), max(*last_s, _LEAST_S))


def after_run(last_s: LastRuns, run_s: float) -> LastRuns:
    """Return a user's last runs with one more that ended."""
    return (*last_s, run_s)[-_CAREFUL:]
