"""Nodes of a pool that are there for nobody for a time, under the disciplines that know it."""

from random import Random

import numpy as np
import pytest

from shared.scheduling.pool import Discipline, Pool
from shared.scheduling.timeline import play
from shared.scheduling.windows import Maintained
from shared.scheduling.workload import Schedule, Workload

KNOWING = (Discipline.FCFS, Discipline.EASY, Discipline.CONSERVATIVE)


def workload(*jobs: tuple[float, int, float], share: float = 1.0) -> Workload:
    """Jobs by submission, units and limit, which run for a share of it."""
    submit_s = np.array([job[0] for job in jobs])
    units = np.array([[job[1]] for job in jobs])
    limit_s = np.array([[job[2]] for job in jobs])
    order = np.arange(len(jobs))[:, np.newaxis]
    return Workload(submit_s, order, units, limit_s, limit_s * share, np.zeros_like(limit_s))


def played(pool: Pool, jobs: Workload, discipline: Discipline) -> Schedule:
    return play([pool], jobs, discipline)


@pytest.mark.parametrize("discipline", KNOWING)
def test_a_job_that_ends_as_the_maintenance_begins_starts_before_and_a_longer_one_behind(
    discipline: Discipline,
) -> None:
    pool = Pool(4, maintained=(Maintained(100.0, 150.0, 4),))
    found = played(pool, workload((0.0, 4, 100.0), (100.0, 1, 1.0)), discipline)
    assert found.start_s.tolist() == [0.0, 150.0]
    found = played(pool, workload((0.0, 4, 100.5)), discipline)
    assert found.start_s.tolist() == [150.0]


@pytest.mark.parametrize("discipline", [Discipline.EASY, Discipline.CONSERVATIVE])
def test_short_jobs_fill_the_time_before_a_maintenance_that_the_first_waits_for(
    discipline: Discipline,
) -> None:
    pool = Pool(4, maintained=(Maintained(100.0, 150.0, 4),))
    found = played(pool, workload((0.0, 4, 120.0), (1.0, 2, 90.0), (2.0, 2, 200.0)), discipline)
    assert found.start_s.tolist() == [150.0, 1.0, 270.0]


@pytest.mark.parametrize("discipline", [Discipline.FCFS, Discipline.EASY, Discipline.CONSERVATIVE])
def test_nodes_that_are_not_maintained_go_on(discipline: Discipline) -> None:
    pool = Pool(4, maintained=(Maintained(10.0, 1000.0, 3),))
    found = played(pool, workload((0.0, 1, 500.0), (0.0, 2, 50.0)), discipline)
    assert found.start_s.tolist() == [0.0, 1000.0]


@pytest.mark.parametrize("discipline", KNOWING)
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_there_are_never_more_units_in_use_than_are_there(
    discipline: Discipline, share: float
) -> None:
    for seed in range(20):
        rng = Random(f"maintained {seed}")
        windows = tuple(
            Maintained(from_s, from_s + rng.randint(1, 80), rng.randint(1, 6))
            for from_s in (rng.randint(0, 200) for _ in range(rng.randint(1, 3)))
        )
        jobs = sorted(
            (float(rng.randint(0, 200)), rng.randint(1, 6), float(rng.randint(1, 60)))
            for _ in range(30)
        )
        pool = Pool(6, maintained=windows)
        found = played(pool, workload(*jobs, share=share), discipline)
        limits_s = [limit_s for _, _, limit_s in jobs]
        for start_s, (submit_s, _, _) in zip(found.start_s, jobs, strict=True):
            assert start_s >= submit_s
            used = sum(
                units
                for (_, units, _), from_s, until_s in zip(
                    jobs, found.start_s, found.end_s, strict=True
                )
                if from_s <= start_s < until_s
            )
            assert used + _maintained(windows, start_s) <= 6
        for window in windows:
            for start_s, limit_s, (_, units, _) in zip(found.start_s, limits_s, jobs, strict=True):
                overlaps = start_s < window.until_s and start_s + limit_s > window.from_s
                assert not overlaps or units <= 6 - window.units


def _maintained(windows: tuple[Maintained, ...], at_s: float) -> int:
    """How many of the last units are maintained at a time: windows overlap on these."""
    return max((each.units for each in windows if each.from_s <= at_s < each.until_s), default=0)
