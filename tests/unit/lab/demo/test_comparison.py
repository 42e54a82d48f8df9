"""The figures of the first answer: what is compared, what became worse, and what follows."""

from dataclasses import replace

import pytest
from coplace.v1.control_pb2 import (
    POWER_SCOPE_REGION,
    ClusterDeclared,
    PowerCapDeclared,
    PowerCapStep,
)
from coplace.v1.jobs_pb2 import JobFinished

from coplace_client.errors import UnusableError
from lab.demo.comparison import (
    ComparedRun,
    RunFigures,
    advice,
    ended_later,
    figures_of,
    rows,
    worse,
)

HOUR_US = 3_600_000_000
CLUSTER = ClusterDeclared(cluster="p1", nodes=2, cores_per_node=4, idle_power_w=100.0)
EASY = RunFigures(
    name="EASY, cluster of submission",
    jobs=10,
    energy_j=3.6e9,
    mean_response_s=3600.0,
    p95_response_s=7200.0,
    price_su=1000.0,
    mean_wait_s=60.0,
    p95_wait_s=600.0,
    makespan_s=36_000.0,
    energy_with_idle_j=7.2e9,
    above_cap_s=0.0,
)
FREE = replace(EASY, name="EASY, first free cluster", mean_response_s=3000.0)


def job(number: int, submitted_h: float, started_h: float, ended_h: float) -> JobFinished:
    """One core pair of p1 that draws 1 MJ."""
    times = (round(hour * HOUR_US) for hour in (submitted_h, started_h, ended_h))
    submitted_us, started_us, ended_us = times
    return JobFinished(
        job_id=f"n/p1/{number}/0",
        cluster="p1",
        nodes=1,
        cores=2,
        cores_per_node=2,
        submitted_at_us=submitted_us,
        started_at_us=started_us,
        ended_at_us=ended_us,
        energy_j=1e6,
    )


def test_a_run_has_the_sums_and_means_of_its_jobs() -> None:
    jobs = [job(1, 1, 1, 2), job(2, 1, 2, 4)]
    found = figures_of(ComparedRun("run", jobs, 7.0), [CLUSTER], [])
    assert (found.jobs, found.energy_j, found.price_su) == (2, 2e6, 7.0)
    assert (found.mean_response_s, found.mean_wait_s) == (2 * 3600, 0.5 * 3600)
    assert found.p95_response_s == pytest.approx(2.95 * 3600 - 0.05 * 3600)
    assert found.makespan_s == 3 * 3600
    # Two nodes idle for three hours, less half of one for the three hours of the jobs.
    assert found.energy_with_idle_j == pytest.approx(2e6 + (2 * 3 - 0.5 * 3) * 100 * 3600)


def test_a_run_that_exceeds_a_cap_says_for_how_long() -> None:
    cap = PowerCapDeclared(
        scope=POWER_SCOPE_REGION,
        steps=[PowerCapStep(from_us=1, watts=250.0)],
        declared_at_us=1,
    )
    drawn_w = 1e6 / 3600
    assert 200 + drawn_w - 50 > 250
    found = figures_of(ComparedRun("run", [job(1, 1, 1, 2)], 0.0), [CLUSTER], [cap])
    assert found.above_cap_s == 3600


def test_a_run_without_an_end_is_named() -> None:
    with pytest.raises(UnusableError, match="run: no job ended"):
        figures_of(ComparedRun("run", [], 0.0), [CLUSTER], [])


def test_each_figure_that_is_worse_is_named_and_no_other() -> None:
    coplace = replace(EASY, name="Coplace", energy_j=3.0e9, makespan_s=39_600.0, price_su=1000.4)
    assert worse(coplace, EASY) == ["makespan 11.00 h, not 10.00 h (+10.0 %)"]
    assert worse(EASY, EASY) == []


def test_jobs_that_end_later_are_counted() -> None:
    run = [job(1, 0, 0, 2), job(2, 0, 0, 1), job(3, 0, 0, 3), job(4, 0, 0, 9)]
    base = [job(1, 0, 0, 1), job(2, 0, 0, 2), job(3, 0, 0, 1)]
    assert ended_later(run, base) == "2 of 3 jobs end later, by 90.0 min in the median"
    assert ended_later(base, base) == "no job ends later"


def test_advice_follows_from_energy_and_response() -> None:
    better = replace(EASY, energy_j=3.24e9, mean_response_s=2900.0)
    capped = replace(better, mean_response_s=3190.0)
    told = advice(better, capped, [EASY, FREE])
    assert "at least 10.0 % less energy" in told
    assert "a cap of power costs response, here 10 %" in told
    assert "more" not in told
    dearer = advice(replace(better, price_su=1020.0), None, [EASY, FREE])
    assert "they cost up to 2.0 % more" in dearer
    slower = advice(replace(better, mean_response_s=3300.0), None, [EASY, FREE])
    assert "against EASY, first free cluster a job saves 10.0 kWh and ends 5 min later" in slower
    assert advice(EASY, None, [EASY, FREE]).startswith("keep plain EASY")


def test_a_row_has_the_printed_figures() -> None:
    [row] = rows([EASY])
    assert row == ["EASY, cluster of submission", "1.000 MWh", "1.00 h", "2.00 h", "1,000 SU"]
