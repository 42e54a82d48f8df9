import numpy as np
import pytest
from hypothesis import given

from shared.simulation.metrics import summarise
from shared.simulation.played import Played
from shared.simulation.steps import (
    change_times_s,
    idle_power_w,
    job_power_w,
    used_units,
)
from tests.unit.shared.simulation.schedules import UNITS, played, schedules


@given(schedules())
def test_the_units_in_use_are_those_of_the_jobs_that_run_then(run: Played) -> None:
    schedule, units = run.schedule, run.workload.units[:, 0]
    for cluster, total in enumerate(UNITS):
        steps = used_units(run, cluster)
        for at in np.arange(-1, 200, 0.5):
            runs_then = (schedule.start_s <= at) & (at < schedule.end_s)
            here = schedule.cluster == cluster
            assert steps.at(np.array([at]))[0] == units[runs_then & here].sum()
        assert steps.value.max() <= total


@given(schedules())
def test_the_area_under_the_power_is_the_energy(run: Played) -> None:
    summary = summarise(run)
    times = change_times_s(run)
    widths = np.diff(times)
    busy = sum(job_power_w(run, cluster).at(times)[:-1] @ widths for cluster in (0, 1))
    idle = sum(idle_power_w(run, cluster, times)[:-1] @ widths for cluster in (0, 1))
    assert busy == pytest.approx(summary.busy_energy_j)
    assert idle == pytest.approx(summary.idle_energy_j)


def test_what_ends_and_what_starts_at_an_instant_do_not_overlap() -> None:
    steps = used_units(played([(0, 0, 10, 8, 0), (0, 10, 5, 8, 0)]), 0)
    assert steps.time_s.tolist() == [-np.inf, 0, 10, 15]
    assert steps.value.tolist() == [0, 8, 8, 0]
