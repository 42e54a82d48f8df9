"""Dispatchers under a cap on small instances, and on a published one."""

from collections.abc import Callable
from dataclasses import replace
from math import exp, inf, isclose, sqrt
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coplace_client.errors import UnusableError
from lab.papers.capping.caps import constant_cap
from lab.papers.published_data import DATA
from lab.simulation.capping import (
    AS_PREDICTED,
    CappingMethod,
    CappingRules,
    KeptFree,
    applies_within,
    cap_of,
    counting_deviations,
    impossible_under,
    leave_out,
    play_capped,
    priority_ranks,
    refusals,
    wait_weights,
    weighted_queue_time_s,
)
from lab.simulation.eurora import Draw, EuroraRun, figures_of, table_of
from lab.simulation.power_reduction import duration_ratio
from lab.workloads.eurora import (
    EuroraJob,
    EuroraUnit,
    expected_waits_s,
    read_jobs,
    read_machine,
    read_power_predictions,
    read_queues,
)
from shared.scheduling.power import Cap
from tests.support.data import needs_data
from tests.unit.lab.simulation.test_eurora import JOB, SMALL

# Whole instances take them minutes.
SOLVING = (CappingMethod.DEC, CappingMethod.DEC_RAPL, CappingMethod.HYBRID)


def rules_of(method: CappingMethod, cap: Cap, jobs: int, factor: float = 1.0) -> CappingRules:
    return CappingRules(method, cap, [3600.0] * jobs, [factor] * jobs)


def run_under(method: CappingMethod, cap: Cap, *jobs: EuroraJob, factor: float = 1.0) -> EuroraRun:
    rules = rules_of(method, cap, len(jobs), factor)
    run = play_capped(SMALL, jobs, rules)
    assert impossible_under(rules, run, SMALL) == []
    return run


def played(
    method: CappingMethod, cap_w: float, *jobs: EuroraJob, factor: float = 1.0
) -> tuple[EuroraRun, list[tuple[float, float]]]:
    """The run, and when each job starts and ends."""
    run = run_under(method, constant_cap(cap_w), *jobs, factor=factor)
    return run, [(placed.start_s, placed.end_s) for placed in run.placements]


def starts_s(method: CappingMethod, cap: Cap, *jobs: EuroraJob) -> list[float]:
    return [placed.start_s for placed in run_under(method, cap, *jobs).placements]


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
    # 100 W, and 90 W for the next at 0.9 of its clock.
    full = replace(JOB, power_w=100)
    run, times = played(CappingMethod.DVFS, 40, full)
    assert (times, run.draws[0]) == ([(0, 125)], (Draw(0.0, 40_000),)), "no cap lets it start else"
    run, times = played(CappingMethod.DVFS, 190, full, full)
    assert times == [(0, 50), (0, pytest.approx(50 / 0.9))]
    assert run.draws[1] == (Draw(0.0, 90_000),)


def test_a_job_starts_at_no_clock_at_which_it_takes_more_than_a_fifth_longer() -> None:
    full = replace(JOB, power_w=100)
    # 40 W are left for it, 0.4 of its clock: 2.5 times as long, or 1.15 times by a factor of 0.1.
    assert played(CappingMethod.DVFS, 140, full, full)[1] == [(0, 50), (50, 100)]
    assert played(CappingMethod.DVFS, 140, full, full, factor=0.1)[1] == [
        (0, 50),
        (0, pytest.approx(57.5)),
    ]


def test_simple_gives_what_is_left_and_never_more() -> None:
    run, times = played(CappingMethod.SIMPLE, 50, JOB, JOB, factor=0.5)
    # 10 of 40 W: 1 + 0.5 (4 - 1) = 2.5 times as long, though the first has ended after 50 s.
    assert times == [(0, 50), (0, 125)]
    assert run.draws[1] == (Draw(0.0, 10_000),)


def test_dynamic_shares_follow_what_runs() -> None:
    run, times = played(CappingMethod.DYN_SHARE, 60, JOB, replace(JOB, runtime_s=80.0))
    # 30 of 40 W each: 4/3 as long. At 200/3 s the first is over, and 30 s are left at full power.
    assert run.draws[1] == (Draw(0.0, 30_000), Draw(pytest.approx(200 / 3), 40_000))  # type: ignore[arg-type]
    assert times[0][1] == pytest.approx(200 / 3)
    assert times[1][1] == pytest.approx(200 / 3 + 30)
    # Three times the cap is admitted.
    _, times = played(CappingMethod.DYN_SHARE, 40, *[JOB] * 4, factor=0.0)
    assert [start_s for start_s, _ in times] == [0, 0, 0, 50]


def test_the_hybrid_that_shares_admits_three_times_the_cap_and_lets_the_shorter_run() -> None:
    short = replace(JOB, walltime_s=60.0, runtime_s=20.0)
    run, times = played(CappingMethod.HYBRID_RAPL, 40, JOB, short, JOB, JOB, factor=0.5)
    assert [start_s for start_s, _ in times] == [0, 0, 0, pytest.approx(times[1][1])]
    # A second of 60 s is worth more than one of 100 s.
    assert run.draws[1][0].draw_mw > run.draws[0][0].draw_mw == run.draws[2][0].draw_mw


def test_while_a_job_waits_for_nodes_what_holds_more_of_them_has_more_watts() -> None:
    large = replace(JOB, units=3)
    run, times = played(CappingMethod.HYBRID_RAPL, 60, large, JOB, JOB, factor=0.5)
    assert [start_s for start_s, _ in times] == [0, 0, pytest.approx(times[0][1])]
    assert run.draws[0][0].draw_mw > run.draws[1][0].draw_mw
    alone, _ = played(CappingMethod.HYBRID_RAPL, 60, large, JOB, factor=0.5)
    assert alone.draws[0][0].draw_mw == alone.draws[1][0].draw_mw


def test_the_hybrid_moves_single_jobs_where_less_is_waited_then() -> None:
    short = replace(JOB, walltime_s=20.0, runtime_s=10.0)
    large, small = replace(JOB, power_w=70), replace(JOB, power_w=30)
    assert played(CappingMethod.HYBRID, 80, large, short, short, small)[1] == [
        (50, 100),
        (10, 20),
        (0, 10),
        (0, 50),
    ]


def test_the_hybrid_that_shares_refuses_what_draws_more_than_three_times_the_cap() -> None:
    played(CappingMethod.HYBRID_RAPL, 40, replace(JOB, power_w=120))
    with pytest.raises(UnusableError, match=r"job a \(number 1 of 1\) draws 40.334 W at least"):
        played(CappingMethod.HYBRID_RAPL, 40, replace(JOB, power_w=121))


def test_the_rule_is_expected_wait_then_demand() -> None:
    wide = replace(JOB, units=3)
    short = replace(wide, walltime_s=30.0, runtime_s=30.0)
    jobs = [JOB, wide, short, JOB]
    # Of 32 cores, 64 GiB, 2 GPUs and 2 MICs: 8/32 + 4/64 a unit, times 100 s, 300 s, 90 s.
    assert priority_ranks(table_of(SMALL), jobs, [2.0, 1.0, 1.0, 2.0]) == [2, 1, 0, 3]


def test_equation_2_weights_waits_by_what_was_expected() -> None:
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


def test_all_jobs_that_no_cap_lets_start_are_reported_and_the_others_are_played() -> None:
    jobs = [replace(JOB, power_w=41), JOB, replace(JOB, power_w=90), replace(JOB, job_id="b")]
    rules = CappingRules(
        CappingMethod.BF, constant_cap(40.0), [1.0, 2.0, 3.0, 4.0], [0.1, 0.2, 0.3, 0.4]
    )
    why = "draws {} W at least under bf: a cap of 40 W never lets it start"
    above = dict(refusals(rules, jobs))
    assert above == {0: why.format(41), 2: why.format(90)}
    left = leave_out(rules, above)
    assert (left.waits_s, left.factors) == ([2.0, 4.0], [0.2, 0.4])
    run = play_capped(SMALL, [jobs[1], jobs[3]], left)
    assert [placed.start_s for placed in run.placements] == [0, 50]


@pytest.mark.parametrize(
    ("from_s", "until_s", "holds"),
    [
        (0.0, 10.0, False),
        (0.0, 10.5, True),
        (20.0, 30.0, False),
        (19.5, 30.0, True),
        (0.0, 100.0, True),
        (30.0, 100.0, False),
    ],
)
def test_a_cap_holds_where_a_period_is(from_s: float, until_s: float, holds: bool) -> None:
    cap = cap_of((10.0, 80.0), (20.0, inf))
    assert applies_within(cap, from_s, until_s) is holds
    assert applies_within(constant_cap(80.0), from_s, until_s)
    assert not applies_within(constant_cap(inf), from_s, until_s)


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


# Many of them fit, so that watts alone are short.
TINY = EuroraUnit(1, 0.5, ())
MOST_UNITS, MOST_TO_SOLVE = 6, 4


def fitting(unit: EuroraUnit) -> int:
    """How many of them the empty machine holds."""
    each = [dict(node_class.resources) for node_class in SMALL.node_classes]
    return sum(
        min(
            16 // unit.cores,
            int(32.0 // unit.memory_gib),
            *(has.get(name, 0) // count for name, count in unit.resources),
        )
        for has in each
    )


@st.composite
def instances(draw: st.DrawFn) -> list[EuroraJob]:
    jobs, submit_s = [], 0.0
    units = UNITS if draw(st.booleans()) else st.just(TINY)
    to_the_end = draw(st.booleans())
    for number in range(draw(st.integers(1, 10))):
        submit_s += draw(st.sampled_from([0.0, 0.0, 1.0, 30.0]))
        walltime_s = float(draw(st.integers(1, 100)))
        unit = draw(units)
        count = draw(st.integers(1, min(MOST_UNITS, fitting(unit))))
        run_s = walltime_s if to_the_end else draw(st.integers(0, int(walltime_s))) * 1.0
        placed = (f"j{number}", "debug", submit_s, count, unit)
        jobs.append(EuroraJob(*placed, walltime_s, run_s, draw(st.integers(count, 100))))
    return jobs


@st.composite
def caps(draw: st.DrawFn) -> Callable[[float], Cap]:
    """Steps above what is drawn most by one job, and below it too, but for the last one; nothing
    before the first, or some."""
    steps = sorted(draw(st.dictionaries(STEPS_S, MORE_W, max_size=5)).items())
    first = [(-inf, draw(MORE_W))] if draw(st.booleans()) or not steps else []
    last_w = draw(st.integers(0, 300))

    def above(most_w: float) -> Cap:
        *before, (last_s, _) = [*first, *steps]
        higher = [(from_s, max(0.0, most_w + more_w)) for from_s, more_w in before]
        return cap_of(*higher, (last_s, most_w + last_w))

    return above


STEPS_S = st.one_of(st.integers(0, 150).map(float), st.floats(0, 1000))
MORE_W = st.one_of(st.integers(-100, 0), st.integers(0, 300), st.just(inf))


@settings(max_examples=30)
@given(instances(), st.sampled_from(SOLVING), caps(), st.floats(0, 1))
def test_no_schedule_exceeds_a_cap_or_a_node(
    jobs: list[EuroraJob], solving: CappingMethod, above: Callable[[float], Cap], factor: float
) -> None:
    cap = above(max(job.power_w for job in jobs))
    waits_s = [(3600.0, 86400.0)[len(job.job_id) % 2] for job in jobs]
    quick = [method for method in CappingMethod if method not in SOLVING]
    for method in [*quick, solving] if len(jobs) <= MOST_TO_SOLVE else quick:
        rules = CappingRules(method, cap, waits_s, [factor] * len(jobs))
        run = play_capped(SMALL, jobs, rules)
        assert impossible_under(rules, run, SMALL) == [], method
        for job, placed in zip(run.jobs, run.placements, strict=True):
            slowest = duration_ratio(1 / job.power_w, factor)
            assert job.runtime_s - 1e-6 <= placed.end_s - placed.start_s
            assert placed.end_s - placed.start_s <= job.runtime_s * slowest + 1e-3


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
        counted, [left_w] = counting_deviations(known, [cap_w], kept)
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
    counted, [left_w] = counting_deviations(known, [250_000], kept)
    square, fit = exp(0.2**2), int(left_w // counted[0].power_w)

    def together_w(number: int) -> float:
        deviation_w = 10_000 * sqrt(number * square * (square - 1))
        return number * 10_000 * sqrt(square) + NormalDist().inv_cdf(0.95) * deviation_w

    assert together_w(fit) <= 250_000 < together_w(fit + 2)


def test_the_checker_sees_a_planted_overshoot() -> None:
    rules = rules_of(CappingMethod.LS, constant_cap(80.0), 3)
    run = play_capped(SMALL, [JOB, JOB, JOB], rules)
    early = replace(run.placements[2], start_s=0.0, end_s=50.0)
    planted = replace(
        run, placements=(*run.placements[:2], early), draws=(*run.draws[:2], run.draws[0])
    )
    assert any("120 W at 0.0 s" in each for each in impossible_under(rules, planted, SMALL))


def test_the_checker_sees_a_step_that_nobody_looked_at() -> None:
    flat = rules_of(CappingMethod.LS, constant_cap(80.0), 2)
    run = play_capped(SMALL, [JOB, JOB], flat)
    falling = replace(flat, cap=cap_of((-inf, 80.0), (20.0, 60.0), (30.0, 80.0)))
    assert impossible_under(falling, run, SMALL) == ["80 W at 20.0 s: the cap is 60 W"]
    ended = replace(flat, cap=cap_of((-inf, 80.0), (50.0, 0.0)))
    assert impossible_under(ended, run, SMALL) == []


@pytest.mark.parametrize("method", sorted(AS_PREDICTED))
def test_what_starts_fits_under_the_steps_ahead(method: CappingMethod) -> None:
    cap, brief = cap_of((-inf, 80.0), (60.0, 40.0)), replace(JOB, walltime_s=60.0)
    assert starts_s(method, cap, JOB, JOB) == [0, 50]
    assert starts_s(method, cap, JOB, brief) == [0, 0]


@pytest.mark.parametrize("method", list(CappingMethod))
def test_jobs_start_when_the_cap_lets_them(method: CappingMethod) -> None:
    cap = cap_of((-inf, 0.0), (70.0, 40.0))
    assert starts_s(method, cap, JOB) == [70]
    assert starts_s(method, cap_of((0.0, 0.0), (70.0, inf)), JOB) == [70]


@pytest.mark.parametrize("method", list(CappingMethod))
def test_a_job_that_no_time_of_the_cap_is_long_enough_for_is_named(method: CappingMethod) -> None:
    cap = cap_of((-inf, 400.0), (99.0, 0.0))
    with pytest.raises(UnusableError, match=r"job a .* a cap of 400 W, 0 W from 99 s on never"):
        starts_s(method, cap, JOB)


def test_shares_follow_a_cap_that_falls_and_returns() -> None:
    cap = cap_of((-inf, 80.0), (20.0, 40.0), (60.0, 80.0))
    run = run_under(CappingMethod.DYN_SHARE, cap, JOB, JOB)
    assert run.draws[0] == (Draw(0.0, 40_000), Draw(20.0, 20_000), Draw(60.0, 40_000))
    # 20 s and 40 s at half of the pace: 10 s are left.
    assert [placed.end_s for placed in run.placements] == pytest.approx([70.0, 70.0])


@pytest.mark.parametrize(
    ("method", "least_w", "expected"),
    [
        (CappingMethod.SIMPLE, 1.0, [0, 100]),
        (CappingMethod.SIMPLE, 2.0, [0, 0]),
        # It counts as 13.3 W, a third of what it wants.
        (CappingMethod.DYN_SHARE, 13.3, [160, 160]),
        (CappingMethod.DYN_SHARE, 20.0, [0, 100]),
    ],
)
def test_who_may_last_longer_for_want_of_watts_is_admitted_for_so_long(
    method: CappingMethod, least_w: float, expected: list[float]
) -> None:
    # Two of them on half of their power last 200 s, and at 150 s there is little for both.
    cap = cap_of((-inf, 40.0), (150.0, least_w), (160.0, 40.0))
    assert starts_s(method, cap, *[replace(JOB, runtime_s=100.0)] * 2) == expected


def test_a_share_for_life_is_what_the_lowest_step_leaves() -> None:
    run = run_under(CappingMethod.SIMPLE, cap_of((-inf, 80.0), (60.0, 50.0)), JOB, JOB)
    assert list(run.draws) == [(Draw(0.0, 40_000),), (Draw(0.0, 10_000),)]


def test_the_solver_s_plans_are_counted() -> None:
    run, _ = played(CappingMethod.DEC, 40.0, replace(JOB, walltime_s=60.0), JOB, factor=0.0)
    assert run.searches.plans >= 1
    assert run.searches.unanswered == 0


@needs_data
@pytest.mark.parametrize("method", [m for m in CappingMethod if m not in SOLVING])
def test_a_published_instance_holds_half_of_its_power(method: CappingMethod) -> None:
    folder = DATA / "eurora"
    machine = read_machine(folder / "nodes_64.csv")
    power_w = read_power_predictions(folder / "power_predictions.csv").found
    jobs = read_jobs(folder / "synthetic" / "rndm_50_300_3.log_crypt", power_w)
    waits_s = expected_waits_s(jobs, read_queues(folder / "queues.txt"))
    rules = CappingRules(method, constant_cap(2400.0), waits_s, [0.5] * len(jobs))
    run = play_capped(machine, jobs, rules)
    assert impossible_under(rules, run, machine) == []
    assert isclose(figures_of(run).max_power_w, 2400.0, rel_tol=0.02)
