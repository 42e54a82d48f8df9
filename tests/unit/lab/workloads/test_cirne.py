import csv
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from lab.workloads.cirne import SIZE_DECAY, cirne_jobs
from lab.workloads.rigid import RigidJobs

SAMPLE_DAY_S = 24.4


@pytest.fixture(scope="module")
def jobs() -> RigidJobs:
    return cirne_jobs(1)


@pytest.fixture(scope="module")
def sample(data_dir: Path) -> dict[str, np.ndarray]:
    """The published 200 jobs of the authors' own program, by column."""
    with (data_dir / "eamc" / "cirne.10n.maxjob8n.anl.200.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = ("submit_s", "duration_s", "wclimit_min", "tasks")
    return {name: np.array([float(row[name]) for row in rows]) for name in names}


def first_harmonic(time_s: np.ndarray, day_s: float) -> float:
    return float(2 * abs(np.exp(2j * np.pi * time_s / day_s).mean()))


def test_five_thousand_jobs_are_those_that_the_paper_states(jobs: RigidJobs) -> None:
    assert len(jobs) == 5000
    assert jobs.nodes.mean() == pytest.approx(18.29, abs=5 * jobs.nodes.std() / np.sqrt(5000))
    assert jobs.run_s.mean() == pytest.approx(3.65 * 3600)
    weights = SIZE_DECAY ** np.arange(8)
    assert weights @ 2.0 ** np.arange(8) / weights.sum() == pytest.approx(18.29, abs=0.01)
    assert set(jobs.nodes.tolist()) == {1, 2, 4, 8, 16, 32, 64, 128}
    # The makespan may be 10 to 15 days.
    assert 9 < jobs.nodes @ jobs.run_s / 86400 / 1024 < 12
    small, large = jobs.run_s[jobs.nodes <= 4].mean(), jobs.run_s[jobs.nodes >= 32].mean()
    assert large < 0.8 * small
    assert (jobs.requested_s >= jobs.run_s).all()
    assert (jobs.requested_s % 60 == 0).all()


def test_the_same_seed_makes_the_same_jobs_and_another_others(jobs: RigidJobs) -> None:
    again, other = cirne_jobs(1), cirne_jobs(2)
    for name in ("submit_s", "nodes", "run_s", "requested_s"):
        assert np.array_equal(getattr(jobs, name), getattr(again, name))
        assert not np.array_equal(getattr(jobs, name), getattr(other, name))


def test_fewer_jobs_come_at_the_same_rate() -> None:
    assert cirne_jobs(1, 500).submit_s[-1] == pytest.approx(0.8 * 86400, rel=0.05)


@pytest.mark.parametrize(("jobs", "nodes"), [(0, 8), (5, 0)])
def test_a_workload_of_nothing_is_refused(jobs: int, nodes: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        cirne_jobs(1, jobs, nodes)


def test_the_sizes_are_distributed_as_in_the_sample(sample: dict[str, np.ndarray]) -> None:
    assert set(sample["tasks"]) == {1, 2, 4, 8}
    weights = SIZE_DECAY ** np.arange(4)
    counts = [(sample["tasks"] == 2**power).sum() for power in range(4)]
    # The sample has more single nodes and fewer pairs than a geometric series: that it fits in
    # the mean of the logarithm is what SIZE_DECAY rests on.
    mean = np.arange(4) @ weights / weights.sum()
    assert np.arange(4) @ counts / 200 == pytest.approx(mean, abs=0.05)


def test_the_runtimes_over_their_mean_are_close_to_those_of_the_sample(
    sample: dict[str, np.ndarray], jobs: RigidJobs
) -> None:
    theirs = sample["duration_s"] / sample["duration_s"].mean()
    ours = jobs.run_s / jobs.run_s.mean()
    assert stats.ks_2samp(theirs, ours).statistic < 0.15


def test_the_share_of_a_request_that_is_used_is_that_of_the_sample(
    sample: dict[str, np.ndarray], jobs: RigidJobs
) -> None:
    theirs = sample["duration_s"] / (60 * sample["wclimit_min"])
    assert theirs.max() <= 1
    assert (jobs.run_s / jobs.requested_s).mean() == pytest.approx(theirs.mean(), abs=0.03)


def test_the_arrivals_rise_and_fall_with_the_day_as_in_the_sample(
    sample: dict[str, np.ndarray], jobs: RigidJobs
) -> None:
    theirs = first_harmonic(sample["submit_s"], SAMPLE_DAY_S)
    assert first_harmonic(jobs.submit_s, 86400) == pytest.approx(theirs, abs=0.02)
    busiest = np.histogram(jobs.submit_s % 86400 / 3600, bins=24)[0].argmax()
    assert abs(int(busiest) - 14) <= 1
