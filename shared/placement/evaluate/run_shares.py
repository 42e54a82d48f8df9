"""The share of their limits that jobs ran for: what the run of the next one is expected by."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from shared.domain.job import Job
from shared.placement.state.job_allocation import JobAllocation
from shared.placement.state.job_record import JobRecord
from shared.scheduling.run_share import expected_end_s

# The fewest of which the least and the most leave 5 % each to the next one: 1 of 20.
LEAST_JOBS: Final = 19
MOST_JOBS: Final = 1_000
_OUTSIDE: Final = 0.05


class RunShares(NamedTuple):
    """Low, middle and high of what past jobs ran for, as shares of the limits that they had without
    the allowance for neighbours; of how many jobs, and what these have in common.

    Of n jobs that are exchangeable with the next one, that runs for less than the k-th shortest
    with a probability of at most k / (n + 1): low and high leave 5 % each.
    """

    low: float
    middle: float
    high: float
    jobs: int
    alike: str


UNKNOWN: Final = RunShares(0.0, 1.0, 1.0, 0, "")


class ExpectedRuns(NamedTuple):
    """The share of their limits that the jobs of a region are taken to run for. At the `least`
    those that ran for longer end now."""

    share: float
    is_least: bool = False

    def end_s(self, now_s: float, placed: JobAllocation) -> float:
        """Return when a job ends that runs."""
        since_s, limit_s = placed.since_s, placed.limit_s
        if self.is_least:
            return max(since_s + self.share * limit_s, now_s)
        return expected_end_s(self.share, now_s, since_s, limit_s)


TO_THEIR_LIMITS: Final = ExpectedRuns(1.0)


def run_shares(job: Job, past: Iterable[JobRecord], max_slowdown: float) -> RunShares:
    """Return the shares of the jobs of the same user and application where there are enough, else
    of the same user, else of all."""
    ran = [one for one in past if one.life.ran is not None]
    for alike, is_alike in _LIKENESSES.items():
        shares = sorted(_share(one, max_slowdown) for one in ran if is_alike(one.job, job))
        if len(shares) >= LEAST_JOBS:
            return _of(shares, alike)
    return UNKNOWN


def region_shares(past: Iterable[JobRecord]) -> RunShares:
    """Return the shares of all jobs, of the limits that they had."""
    ran = (one.life.ran for one in past)
    shares = sorted(each for each in ran if each is not None)
    return _of(shares, "region") if len(shares) >= LEAST_JOBS else UNKNOWN


def _share(one: JobRecord, max_slowdown: float) -> float:
    """Return the share without the worst slowdown, for which the limit of a shareable job holds."""
    assert one.life.ran is not None
    return one.life.ran * max_slowdown if one.job.shareable else one.life.ran


def _of(shares: Sequence[float], alike: str) -> RunShares:
    outside = int(_OUTSIDE * (len(shares) + 1)) - 1
    middle = shares[len(shares) // 2]
    return RunShares(shares[outside], middle, shares[-1 - outside], len(shares), alike)


_LIKENESSES: Final[dict[str, Callable[[Job, Job], bool]]] = {
    "user and application": lambda one, job: (
        bool(job.app_id) and (one.user, one.app_id) == (job.user, job.app_id)
    ),
    "user": lambda one, job: one.user == job.user,
    "region": lambda _one, _job: True,
}
