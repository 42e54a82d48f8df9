"""Cases of arrivals are what they say."""

from statistics import fmean

import pytest

from lab.papers.capping.arrivals import Arrivals, Case, drawn
from lab.workloads.eurora import EuroraJob, EuroraMachine, EuroraUnit
from shared.domain.cluster import NodeClass

MACHINE = EuroraMachine(16, (NodeClass(4, 32.0, ()),))
POOL = [EuroraJob("a", "debug", 7.0, 2, EuroraUnit(8, 1.0, ()), 60.0, 30.0, 80)]


@pytest.mark.parametrize(
    ("arrivals", "mean"),
    [(Arrivals.UNIFORM, 50.0), (Arrivals.LEFT_SKEWED, 25.0), (Arrivals.BURSTS, 45.0)],
)
def test_jobs_come_within_their_window_in_order(arrivals: Arrivals, mean: float) -> None:
    hot, jobs = drawn(Case(2_000, 100.0, arrivals), POOL, MACHINE)
    times_s = [job.submit_s - 1.0 for job in jobs]
    assert (hot, len(jobs), times_s) == (0, 2_000, sorted(times_s))
    assert times_s[0] >= 0
    assert times_s[-1] <= 100
    assert fmean(times_s) == pytest.approx(mean, abs=2.0)
    assert len({job.job_id for job in jobs}) == 2_000


def test_a_hot_start_asks_for_its_share_before_the_first_comes() -> None:
    hot, jobs = drawn(Case(5, 100.0, hot_share=0.7), POOL, MACHINE)
    # 44.8 of 64 cores, 16 a job.
    assert hot == 3
    assert [job.submit_s for job in jobs[:3]] == [0.0] * 3
    assert all(job.submit_s >= 1 for job in jobs[3:])
