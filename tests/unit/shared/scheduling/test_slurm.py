"""Slurm's backfill."""

from dataclasses import replace
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.scheduling.load import Load
from shared.scheduling.pool import Discipline, Pool
from shared.scheduling.power import Cap, PowerBudget, Scope
from shared.scheduling.slurm import SlurmBackfill, SlurmScheduler
from shared.scheduling.timeline import play
from shared.scheduling.wait_queue import WaitQueue
from tests.unit.shared.scheduling.plain_one_pool import PlainJob
from tests.unit.shared.scheduling.plain_slurm import starts_s
from tests.unit.shared.scheduling.systems import one_pool

NODES = 8
OFTEN = SlurmBackfill(interval_s=1.0)


def played(jobs: list[PlainJob], rules: SlurmBackfill) -> list[float]:
    """When each job starts, by the engine."""
    found = play([Pool(NODES, slurm=rules)], one_pool(jobs), Discipline.SLURM)
    return [*map(float, found.start_s)]


@st.composite
def logs(draw: st.DrawFn) -> list[PlainJob]:
    """Jobs that end before their limits, by submission."""
    jobs, submit_s = [], 0.0
    for _ in range(draw(st.integers(1, 14))):
        submit_s += draw(st.integers(0, 40))
        limit_s = draw(st.integers(1, 100))
        run_s = draw(st.integers(1, limit_s))
        jobs.append(PlainJob(submit_s, draw(st.integers(1, NODES)), float(limit_s), float(run_s)))
    return jobs


@given(
    logs(),
    st.builds(
        SlurmBackfill,
        depth=st.integers(1, 6),
        window_s=st.sampled_from([20.0, 90.0, 1e5]),
        interval_s=st.sampled_from([1.0, 7.0, 60.0]),
        records=st.sampled_from([0, 1, 2, 3, 5]),
    ),
)
def test_jobs_start_when_the_plain_rules_say(jobs: list[PlainJob], rules: SlurmBackfill) -> None:
    assert played(jobs, rules) == starts_s(jobs, NODES, rules)


def test_what_delays_the_second_reservation_is_not_backfilled() -> None:
    """EASY would start it: it delays only the second that waits."""
    jobs = [
        PlainJob(0.0, 6, 100.0, 100.0),
        PlainJob(1.0, 8, 50.0, 50.0),  # at 100
        PlainJob(2.0, 2, 97.0, 97.0),  # beside the first, until 99
        PlainJob(3.0, 2, 98.0, 98.0),  # would end at 101
    ]
    assert played(jobs, OFTEN) == [0.0, 100.0, 2.0, 150.0]


def test_only_the_first_jobs_are_looked_at_for_backfill_and_at_its_interval() -> None:
    first, wide = PlainJob(0.0, 6, 100.0, 100.0), PlainJob(1.0, 8, 50.0, 50.0)
    small = PlainJob(2.0, 2, 10.0, 10.0)
    jobs = [first, wide, wide, small]
    assert played(jobs, SlurmBackfill(depth=3, interval_s=1.0))[3] == 2.0
    assert played(jobs, SlurmBackfill(depth=2, interval_s=1.0))[3] == 200.0
    assert played([first, wide, small], SlurmBackfill(interval_s=30.0))[2] == 30.0


def test_a_look_ends_when_its_table_of_reservations_is_full() -> None:
    first, wide = PlainJob(0.0, 6, 100.0, 100.0), PlainJob(1.0, 8, 50.0, 50.0)
    jobs = [first, wide, wide, PlainJob(2.0, 2, 10.0, 10.0)]
    assert played(jobs, SlurmBackfill(interval_s=1.0, records=4))[3] == 2.0
    assert played(jobs, SlurmBackfill(interval_s=1.0, records=3))[3] == 200.0


@pytest.mark.parametrize("wrong", [{"depth": 0}, {"window_s": 0.0}, {"interval_s": -1.0}])
def test_parameters_below_their_bounds_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be above 0"):
        SlurmBackfill(**wrong)  # type: ignore[arg-type]


@given(logs(), st.sampled_from([100, 150, 220]), st.sampled_from([450, 900, 1500]))
def test_the_cap_of_a_cluster_holds_and_every_job_starts(
    log: list[PlainJob], watts: int, cap_w: int
) -> None:
    """Each node that is used draws so much, as many as the cap has watts for."""
    jobs = [job._replace(units=min(job.units, cap_w // watts)) for job in log]
    work = one_pool(jobs)
    work = replace(work, power_w=work.units.astype(np.float64) * watts)
    rules = SlurmBackfill(interval_s=7.0, records=5)
    start_s = play([Pool(NODES, float(cap_w), slurm=rules)], work, Discipline.SLURM).start_s
    drawn = [
        change
        for job, at_s in zip(jobs, start_s.tolist(), strict=True)
        for change in ((at_s, job.units * watts), (at_s + job.run_s, -job.units * watts))
    ]
    assert max(accumulate(w for _, w in sorted(drawn))) <= cap_w


def test_the_main_scheduler_counts_no_watts_that_backfill_reserved() -> None:
    jobs = [
        PlainJob(0.0, 1, 1.0, 1.0),
        PlainJob(1.0, 8, 100.0, 50.0),  # until 51, and expected until 101
        PlainJob(2.0, 4, 10.0, 1.0),  # planned at 101
        PlainJob(3.0, 5, 60.0, 60.0),  # planned at 111
        PlainJob(4.0, 4, 10.0, 10.0),  # planned at 101, beside the first
    ]
    capped = Pool(3 * NODES, NODES * 100.0, slurm=SlurmBackfill(interval_s=30.0))
    found = play([capped], one_pool(jobs), Discipline.SLURM).start_s
    assert found.tolist() == [0.0, 1.0, 51.0, 52.0, 112.0]


def test_a_cap_of_several_clusters_is_refused() -> None:
    region = PowerBudget(Cap(Scope.REGION, "", ((0.0, 5),)), is_shared=True)
    with pytest.raises(ValueError, match="take easy"):
        SlurmScheduler(Load(NODES, NODES), WaitQueue(), OFTEN, budgets=[region])
