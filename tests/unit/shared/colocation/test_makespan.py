"""How long queues take: run times that follow the neighbour."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.colocation.makespan import fifo, fifo_shared, makespan_s, paired

NONE = np.zeros((3, 3))


def test_a_job_runs_at_full_speed_once_its_neighbour_has_ended() -> None:
    alone_s = np.array([100.0, 30.0])
    slowed = np.array([[0.0, 1.0], [0.5, 0.0]])
    # 45 s together, in which the first does 22.5 of its 100; the rest alone.
    assert makespan_s(paired(alone_s, slowed, [(0, 1)])) == pytest.approx(45 + 77.5)
    assert makespan_s(fifo_shared(alone_s, slowed)) == pytest.approx(45 + 77.5)


def test_jobs_that_may_not_share_run_one_after_the_other() -> None:
    alone_s, never = np.array([10.0, 20.0]), np.full((2, 2), np.nan)
    assert makespan_s(paired(alone_s, never, [(0, 1)])) == 30.0
    assert makespan_s(fifo_shared(alone_s, never)) == pytest.approx(30.0)


def test_half_a_server_that_is_free_takes_the_next_job() -> None:
    alone_s = np.array([100.0, 40.0, 60.0])
    assert makespan_s(fifo_shared(alone_s, NONE)) == pytest.approx(100.0)
    assert makespan_s(paired(alone_s, NONE, [(0, 1)])) == pytest.approx(160.0)


def test_servers_take_work_as_they_are_free() -> None:
    assert makespan_s(fifo(np.array([50.0, 20.0, 20.0, 30.0]), 2)) == 70.0
    assert makespan_s(fifo_shared(np.array([50.0, 20.0, 20.0]), NONE, 3)) == pytest.approx(50.0)


@given(
    times=st.lists(st.floats(1, 1000), min_size=1, max_size=8),
    degradation=st.floats(-0.2, 3.0),
    servers=st.integers(1, 3),
)
def test_sharing_is_between_all_at_once_and_all_slowed_down(
    times: list[float], degradation: float, servers: int
) -> None:
    alone_s = np.array(times)
    slowed = np.full((len(times), len(times)), degradation)
    found = makespan_s(fifo_shared(alone_s, slowed, servers))
    assert found >= alone_s.max() * (1 - 1e-9)
    assert found <= alone_s.sum() * (1 + max(degradation, 0)) * (1 + 1e-9)
    assert makespan_s(paired(alone_s, slowed, [], servers)) == makespan_s(fifo(alone_s, servers))


@given(
    times=st.lists(st.sampled_from([1.0, 2.0, 7.5, 100.0]), min_size=2, max_size=7),
    shares=st.lists(st.sampled_from([0.0, 0.3, 1.5, np.nan]), min_size=49, max_size=49),
    servers=st.integers(1, 3),
)
def test_each_job_runs_once_and_no_server_has_three(
    times: list[float], shares: list[float], servers: int
) -> None:
    alone_s = np.array(times)
    slowed = np.array(shares).reshape(7, 7)[: len(times), : len(times)]
    matching = [(job, job + 1) for job in range(0, len(times) - 1, 2)]
    for runs in (
        [*fifo_shared(alone_s, slowed, servers)],
        paired(alone_s, slowed, matching, servers),
    ):
        assert sorted(run.job for run in runs) == [*range(len(times))]
        for run in runs:
            assert run.end_s - run.begin_s >= times[run.job] * (1 - 1e-9)
            there = [r for r in runs if r.server == run.server]
            at_once = [r for r in there if r.begin_s <= run.begin_s < r.end_s - 1e-6]
            assert len(at_once) <= 2
