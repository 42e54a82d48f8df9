from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.simulation.units import assign_units, runs
from shared.replay.played import Played
from tests.unit.lab.simulation.schedules import UNITS, schedules


@given(schedules())
def test_each_job_holds_as_many_units_as_it_takes_and_no_unit_is_held_twice_at_a_time(
    run: Played,
) -> None:
    for cluster in (0, 1):
        here = np.flatnonzero(run.schedule.cluster == cluster)
        start_s, end_s = run.schedule.start_s[here], run.schedule.end_s[here]
        held = assign_units(UNITS[cluster], run.used_units[here], start_s, end_s)
        assert [len(units) for units in held] == run.used_units[here].tolist()
        assert all(units == sorted(units) for units in held)
        for at in start_s:
            now = np.flatnonzero((start_s <= at) & (at < end_s))
            units = [unit for job in now for unit in held[job]]
            assert len(units) == len(set(units))
            assert all(0 <= unit < UNITS[cluster] for unit in units)


def test_the_lowest_free_units_are_taken_first() -> None:
    start_s, end_s = np.array([0.0, 0.0, 5.0]), np.array([5.0, 9.0, 9.0])
    assert assign_units(4, np.array([2, 1, 3]), start_s, end_s) == [[0, 1], [2], [0, 1, 3]]


def test_a_schedule_that_gives_out_more_than_there_is_is_refused() -> None:
    start_s, end_s = np.array([0.0, 4.0]), np.array([5.0, 9.0])
    with pytest.raises(ValueError, match="takes 2 of 1 free units at 4 s"):
        assign_units(3, np.array([2, 2]), start_s, end_s)


@given(st.sets(st.integers(0, 30), min_size=1))
def test_runs_hold_every_index_once_and_touch_nowhere(indices: set[int]) -> None:
    found = runs(sorted(indices))
    assert [i for first, count in found for i in range(first, first + count)] == sorted(indices)
    assert all(a + n < b for (a, n), (b, _) in pairwise(found))
