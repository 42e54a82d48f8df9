"""Tasks with deadlines: how they are drawn, and what is measured of a run."""

import pytest

from lab.simulation.deadlines import CoreUsage, drawn_tasks, mean_usage, play_deadlines
from shared.scheduling.slack import UnitInterference, unaware


def test_deadlines_lie_between_1_2_and_2_run_times_behind_the_arrival() -> None:
    alone_s = [100.0, 300.0]
    arrive_s, tasks = drawn_tasks(alone_s, 2000, 0.5, seed=3)
    timed = zip(arrive_s, tasks, strict=True)
    factors = [(task.deadline_s - at_s) / alone_s[task.app] for at_s, task in timed]
    assert arrive_s[0] == 0.0
    assert arrive_s == sorted(arrive_s)
    assert arrive_s[-1] / 1999 == pytest.approx(0.5, rel=0.1)
    assert min(factors) == pytest.approx(1.2, abs=0.01)
    assert max(factors) == pytest.approx(2.0, abs=0.01)
    assert sum(task.app for task in tasks) == pytest.approx(1000, rel=0.1)


def test_each_task_is_met_missed_or_unassigned() -> None:
    actual = UnitInterference([50.0], 2)
    actual.set(0, [0], 0.6)
    timed = drawn_tasks([50.0], 300, 4.0, seed=1)
    naive = play_deadlines(timed, 5, unaware([50.0], 2), actual)
    aware = play_deadlines(timed, 5, actual, actual)
    for run in naive, aware:
        assert run.met + run.missed + run.unassigned == 300
        assert run.usage[-1][1:] == (0, 0)
        assert max(each.cores for each in run.usage) <= 10
    assert naive.missed > 0
    assert aware.missed == 0
    assert aware.met > naive.met
    none = play_deadlines(drawn_tasks([50.0], 0, 1.0, seed=0), 1, actual, actual)
    assert (none.met, none.missed, none.unassigned, none.usage) == (0, 0, 0, ())


def test_means_are_over_time_and_of_active_nodes_only_while_there_are_any() -> None:
    steps = [(0.0, 2, 1), (10.0, 6, 2), (20.0, 0, 0), (25.0, 8, 2)]
    found = mean_usage([CoreUsage(*step) for step in steps], nodes=2, cores=4, until_s=30.0)
    assert found.cores == pytest.approx((10 * 2 + 10 * 6 + 5 * 8) / 30 / 8)
    assert found.nodes == pytest.approx((10 * 1 + 15 * 2) / 30 / 2)
    assert found.cores_of_active == pytest.approx((10 * 0.5 + 10 * 0.75 + 5 * 1.0) / 25)
