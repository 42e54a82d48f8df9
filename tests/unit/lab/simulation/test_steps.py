from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.simulation.metrics import summarise
from lab.simulation.steps import (
    Steps,
    idle_power_w,
    job_power_w,
    stack,
    used_units,
    waited_units,
)
from shared.replay.played import Played
from tests.unit.lab.simulation.schedules import UNITS, played, schedules


@settings(max_examples=50)
@given(schedules())
def test_the_units_in_use_are_those_of_the_jobs_that_run_then(run: Played) -> None:
    schedule, units = run.schedule, run.workload.units[:, 0]
    for cluster, total in enumerate(UNITS):
        here = schedule.cluster == cluster
        steps = used_units(run, here)
        for at in np.arange(-1, 200, 0.5):
            runs_then = (schedule.start_s <= at) & (at < schedule.end_s)
            assert steps.at(np.array([at]))[0] == units[runs_then & here].sum()
        assert steps.value.max() <= total


@settings(max_examples=50)
@given(schedules())
def test_units_are_waited_for_from_the_submission_to_the_start(run: Played) -> None:
    submit_s, start_s = run.workload.submit_s, run.schedule.start_s
    units = run.workload.units[:, 0]
    steps = waited_units(run, np.ones(len(units), dtype=np.bool_))
    for at in np.arange(-1, 200, 0.5):
        waits_then = (submit_s <= at) & (at < start_s)
        assert steps.at(np.array([at]))[0] == units[waits_then].sum()


@given(schedules())
def test_the_area_under_the_power_is_the_energy(run: Played) -> None:
    summary = summarise(run)
    span_s = np.array([run.workload.submit_s[0], run.schedule.end_s.max()])
    busy = sum(job_power_w(run, cluster).means(span_s)[0] for cluster in (0, 1))
    idle = sum(idle_power_w(run, cluster).means(span_s)[0] for cluster in (0, 1))
    assert busy * np.diff(span_s)[0] == pytest.approx(summary.busy_energy_j)
    assert idle * np.diff(span_s)[0] == pytest.approx(summary.idle_energy_j)


TIMES = st.integers(0, 60)
SPANS = st.lists(st.tuples(TIMES, TIMES, st.integers(0, 9)), max_size=8)


@given(SPANS, st.lists(TIMES, min_size=2, max_size=9, unique=True))
def test_means_and_highest_values_are_those_of_each_second(
    spans: list[tuple[int, int, int]], edges: list[int]
) -> None:
    held = [(min(a, b), max(a, b), amount) for a, b, amount in spans]
    start, end, amount = (
        np.array(each, dtype=float) for each in zip((0, 0, 0), *held, strict=True)
    )
    steps, edges_s = stack(start, end, amount), np.sort(np.array(edges, dtype=float))
    each_s = [sum(n for a, b, n in held if a <= second < b) for second in range(61)]
    spans_of = [each_s[int(a) : int(b)] for a, b in pairwise(edges_s)]
    assert steps.means(edges_s) == pytest.approx([np.mean(each) for each in spans_of])
    assert steps.highest(edges_s).tolist() == [max(each) for each in spans_of]


def test_steps_are_added_at_all_their_times() -> None:
    first = stack(np.array([0.0]), np.array([10.0]), np.array([1.0]))
    second = stack(np.array([5.0]), np.array([20.0]), np.array([2.0]))
    total = Steps.sum_of([first, second])
    assert total.at(np.array([0.0, 5, 10, 20])).tolist() == [1, 3, 2, 0]


def test_what_ends_and_what_starts_at_an_instant_do_not_overlap() -> None:
    steps = used_units(played([(0, 0, 10, 8, 0), (0, 10, 5, 8, 0)]), np.array([True, True]))
    assert steps.time_s.tolist() == [-np.inf, 0, 10, 15]
    assert steps.value.tolist() == [0, 8, 8, 0]
