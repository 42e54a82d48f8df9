"""Dispatchers under a cap on small instances, and on a published one."""

from dataclasses import replace
from math import exp, isclose, sqrt
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.domain.cluster import NodeClass
from shared.domain.errors import UnusableError
from shared.models.power_reduction import duration_ratio
from shared.simulation.capping import (
    CappingMethod,
    CappingRules,
    KeptFree,
    counting_deviations,
    impossible_under,
    play_capped,
    priority_ranks,
    wait_weights,
    weighted_queue_time_s,
)
from shared.simulation.eurora import Draw, EuroraRun, figures_of, table_of
from shared.workloads.eurora import (
    EuroraJob,
    EuroraMachine,
    EuroraUnit,
    expected_waits_s,
    read_jobs,
    read_machine,
    read_power_predictions,
    read_queues,
)
from tests.support.data import DATA, needs_data

SMALL = EuroraMachine(16, (NodeClass(1, 32.0, (("mic", 2),)), NodeClass(1, 32.0, (("gpu", 2),))))
HALF = EuroraUnit(8, 4.0, ())
# Whole instances take them minutes.
SOLVING = (CappingMethod.DEC, CappingMethod.DEC_RAPL)
JOB = EuroraJob("a", "debug", 0.0, 1, HALF, 100.0, 50.0, 40)


def played(
    method: CappingMethod, cap_w: float, *jobs: EuroraJob, factor: float = 1.0
) -> tuple[EuroraRun, list[tuple[float, float]]]:
    """The run, and when each job starts and ends."""
    rules = CappingRules(method, cap_w, [3600.0] * len(jobs), [factor] * len(jobs))
    run = play_capped(SMALL, jobs, rules)
    assert impossible_under(rules, run, SMALL) == []
    return run, [(placed.start_s, placed.end_s) for placed in run.placements]


def test_list_scheduling_lets_the_shorter_pass_and_reserves_for_nobody() -> None:
    big = replace(JOB, power_w=80, walltime_s=200.0)
    _, times = played(CappingMethod.LS, 80, JOB, big, JOB, JOB, JOB)
    assert times == [(0, 50), (100, 150), (0, 50), (50, 100), (50, 100)]


def test_backfill_keeps_its_reservation_of_watts() -> None:
    big = replace(JOB, power_w=80, submit_s=1.0)
    late = replace(JOB, submit_s=2.0)
    short = replace(late, walltime_s=60.0)
    # The reservation is at 100 s, when the first may end: the late one would draw beyond it.
    assert played(CappingMethod.BF, 80, JOB, big, late)[1] == [(0, 50), (50, 100), (100, 150)]
    assert played(CappingMethod.BF, 80, JOB, big, short)[1] == [(0, 50), (52, 102), (2, 52)]


def test_a_lower_clock_lets_start_what_watts_alone_refuse() -> None:
    # 100 W and 40 W for the next at 0.4 of its clock, 250 s walltime: 50 s take 125 s.
    run, times = played(
        CappingMethod.DVFS, 140, replace(JOB, power_w=100), replace(JOB, power_w=100)
    )
    assert times == [(0, 50), (0, 125)]
    assert run.draws[1] == (Draw(0.0, 40_000),)


def test_simple_gives_what_is_left_and_never_more() -> None:
    run, times = played(CappingMethod.SIMPLE, 50, JOB, JOB, factor=0.5)
    # 10 of 40 W: 1 + 0.5 (4 - 1) = 2.5 times as long, though the first is gone after 50 s.
    assert times == [(0, 50), (0, 125)]
    assert run.draws[1] == (Draw(0.0, 10_000),)


def test_dynamic_shares_follow_what_runs() -> None:
    run, times = played(CappingMethod.DYN_SHARE, 60, JOB, replace(JOB, runtime_s=80.0))
    # 30 of 40 W each: 4/3 as long. At 200/3 s the first is over, and 30 s are left at full power.
    assert run.draws[1] == (Draw(0.0, 30_000), Draw(pytest.approx(200 / 3), 40_000))  # type: ignore[arg-type]
    assert times[0][1] == pytest.approx(200 / 3)
    assert times[1][1] == pytest.approx(200 / 3 + 30)


def test_dynamic_sharing_admits_three_times_the_cap() -> None:
    _, times = played(CappingMethod.DYN_SHARE, 40, *[JOB] * 4, factor=0.0)
    assert [start_s for start_s, _ in times] == [0, 0, 0, 50]


def test_the_rule_is_expected_wait_then_demand() -> None:
    wide = replace(JOB, units=3)
    short = replace(wide, walltime_s=30.0, runtime_s=30.0)
    jobs = [JOB, wide, short, JOB]
    # Of 32 cores, 64 GiB, 2 GPUs and 2 MICs: 8/32 + 4/64 a unit, times 100 s, 300 s, 90 s.
    assert priority_ranks(table_of(SMALL), jobs, [2.0, 1.0, 1.0, 2.0]) == [2, 1, 0, 3]


def test_equation_2_weighs_waits_by_what_was_expected() -> None:
    run, _ = played(CappingMethod.LS, 40, JOB, JOB)
    assert wait_weights([86400.0, 3600.0]) == [1.0, 24.0]
    assert weighted_queue_time_s(run, [86400.0, 3600.0]) == 24 * 50


def test_bounded_slowdown_counts_waiting_and_slowing_down() -> None:
    run, _ = played(CappingMethod.SIMPLE, 50, JOB, replace(JOB, submit_s=5.0), factor=0.5)
    assert figures_of(run).bounded_slowdown == pytest.approx((1 + 125 / 60) / 2)
    assert figures_of(run, 300.0).bounded_slowdown == 1.0


@pytest.mark.parametrize("method", list(CappingMethod))
def test_a_cap_of_nothing_names_the_first_job(method: CappingMethod) -> None:
    with pytest.raises(UnusableError, match=r"job a \(number 1 of 1\).*a cap of 0 W"):
        played(method, 0.0, JOB)


def test_a_job_that_no_cap_lets_start_is_named_with_it() -> None:
    hot = replace(JOB, job_id="hot", power_w=41)
    with pytest.raises(UnusableError, match=r"job hot \(number 2 of 2\) draws 41 W .* cap of 40 W"):
        played(CappingMethod.BF, 40.0, JOB, hot)


def test_a_job_beyond_the_machine_is_named() -> None:
    for method in CappingMethod:
        with pytest.raises(UnusableError, match="job a needs 5 units"):
            played(method, 400.0, replace(JOB, units=5))


UNITS = st.builds(
    EuroraUnit,
    st.integers(1, 16),
    st.sampled_from([0.5, 8.0, 32.0]),
    st.sampled_from([(), (("gpu", 1),), (("gpu", 2),), (("mic", 1),)]),
)


@st.composite
def instances(draw: st.DrawFn) -> list[EuroraJob]:
    jobs, submit_s = [], 0.0
    for number in range(draw(st.integers(1, 14))):
        submit_s += draw(st.sampled_from([0.0, 0.0, 1.0, 30.0]))
        walltime_s = float(draw(st.integers(1, 100)))
        jobs.append(
            EuroraJob(
                f"j{number}",
                "debug",
                submit_s,
                1,
                draw(UNITS),
                walltime_s,
                draw(st.integers(0, int(walltime_s))) * 1.0,
                draw(st.integers(1, 100)),
            )
        )
    return jobs


@settings(deadline=None)
@given(instances(), st.sampled_from(list(CappingMethod)), st.integers(0, 300), st.floats(0, 1))
def test_no_schedule_exceeds_a_cap_or_a_node(
    jobs: list[EuroraJob], method: CappingMethod, more_w: int, factor: float
) -> None:
    cap_w = max(job.power_w for job in jobs) + more_w
    waits_s = [(3600.0, 86400.0)[len(job.job_id) % 2] for job in jobs]
    rules = CappingRules(method, cap_w, waits_s, [factor] * len(jobs))
    run = play_capped(SMALL, jobs, rules)
    assert impossible_under(rules, run, SMALL) == []
    for job, placed in zip(run.jobs, run.placements, strict=True):
        slowest = duration_ratio(1 / job.power_w, factor)
        assert job.runtime_s - 1e-6 <= placed.end_s - placed.start_s
        assert placed.end_s - placed.start_s <= job.runtime_s * slowest + 1e-3
    assert figures_of(run).max_power_w <= cap_w


@given(
    jobs=st.lists(
        st.tuples(st.integers(1, 5_000), st.floats(0, 0.5), st.booleans()), min_size=1, max_size=12
    ),
    cap_w=st.integers(500, 20_000),
    margin=st.floats(0, 0.3),
    risk=st.sampled_from([0.5, 0.3, 0.1, 0.01, 1e-5]),
)
def test_whoever_holds_what_jobs_count_as_holds_the_joint_quantile(
    jobs: list[tuple[int, float, bool]], cap_w: int, margin: float, risk: float
) -> None:
    known = [replace(JOB, job_id=str(n), power_w=watts) for n, (watts, _, _) in enumerate(jobs)]
    kept = KeptFree(margin, risk, [sd for _, sd, _ in jobs])
    try:
        counted, left_w = counting_deviations(known, cap_w, kept)
    except UnusableError:
        return  # nothing of the cap is left
    runs = [number for number, (_, _, is_running) in enumerate(jobs) if is_running]
    if sum(counted[number].power_w for number in runs) <= left_w:
        square = {n: exp(jobs[n][1] ** 2) for n in runs}
        is_counted = risk < 0.5
        deviation_w = sqrt(sum(jobs[n][0] ** 2 * square[n] * (square[n] - 1) for n in runs))
        together_w = sum(jobs[n][0] * (sqrt(square[n]) if is_counted else 1) for n in runs)
        together_w += NormalDist().inv_cdf(1 - risk) * deviation_w
        assert together_w <= cap_w * (1 - margin) + 1e-6


def test_a_full_machine_keeps_no_more_than_its_joint_quantile() -> None:
    """Where the cap is full of jobs that are alike the tangent touches the root."""
    known = [replace(JOB, job_id=str(n), power_w=10_000) for n in range(100)]
    kept = KeptFree(0.0, 0.05, [0.2] * 100)
    counted, left_w = counting_deviations(known, 250_000, kept)
    square, fit = exp(0.2**2), int(left_w // counted[0].power_w)

    def together_w(number: int) -> float:
        deviation_w = 10_000 * sqrt(number * square * (square - 1))
        return number * 10_000 * sqrt(square) + NormalDist().inv_cdf(0.95) * deviation_w

    assert together_w(fit) <= 250_000 < together_w(fit + 2)


def test_the_checker_sees_a_planted_overshoot() -> None:
    rules = CappingRules(CappingMethod.LS, 80.0, [3600.0] * 3, [1.0] * 3)
    run = play_capped(SMALL, [JOB, JOB, JOB], rules)
    early = replace(run.placements[2], start_s=0.0, end_s=50.0)
    planted = replace(
        run, placements=(*run.placements[:2], early), draws=(*run.draws[:2], run.draws[0])
    )
    assert any("120 W at 0.0 s" in each for each in impossible_under(rules, planted, SMALL))


@needs_data
@pytest.mark.parametrize("method", [m for m in CappingMethod if m not in SOLVING])
def test_a_published_instance_holds_half_of_its_power(method: CappingMethod) -> None:
    folder = DATA / "eurora"
    machine = read_machine(folder / "nodes_64.csv")
    power_w = read_power_predictions(folder / "power_predictions.csv")
    jobs = read_jobs(folder / "synthetic" / "rndm_50_300_3.log_crypt", power_w)
    waits_s = expected_waits_s(jobs, read_queues(folder / "queues.txt"))
    rules = CappingRules(method, 2400.0, waits_s, [0.5] * len(jobs))
    run = play_capped(machine, jobs, rules)
    assert impossible_under(rules, run, machine) == []
    assert isclose(figures_of(run).max_power_w, 2400.0, rel_tol=0.02)


def test_the_solver_s_plans_are_counted() -> None:
    rules = CappingRules(CappingMethod.DEC, 40.0, [86400.0, 3600.0], [0.0, 0.0])
    run = play_capped(SMALL, [replace(JOB, walltime_s=60.0), replace(JOB, job_id="b")], rules)
    assert impossible_under(rules, run, SMALL) == []
    assert run.searches.plans >= 1
    assert run.searches.unanswered == 0
