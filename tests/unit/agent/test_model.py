"""Whom to shutter, how long and how often: algorithm 3, equations 9 and 10."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coplace_agent.model import (
    IntervalLog,
    OverheadBudget,
    ProgressReading,
    Rates,
    Timing,
    adapted,
    dilation_ratio,
    least_period_s,
    next_in_turn,
    paused_share,
    rate,
    relative,
    tellable,
)

WANTED = Timing(0.0032, 1, 0.2)
BUDGET = OverheadBudget(0.01, 0.0008, 2.0)


def test_equation_9_of_two_jobs_at_the_papers_own_timing() -> None:
    # 1 x 3.2 ms of 2 x (9.6 ms + 200 ms)
    assert paused_share(2, 0.0032, 0.2) == pytest.approx(3.2 / 419.2)


def test_equation_10_as_the_paper_writes_it_out() -> None:
    jobs, shutter_s, period_s = 4, 0.0256, 0.2
    written_out = (
        jobs * (3 * shutter_s + period_s) / (2 * jobs * shutter_s + jobs * period_s + shutter_s)
    )
    assert dilation_ratio(jobs, shutter_s, period_s) == pytest.approx(written_out)
    assert dilation_ratio(2, 0.0032, 0.2) - 1 == pytest.approx(0.00769, abs=5e-6)


def test_a_job_alone_is_never_stopped() -> None:
    assert paused_share(1, 0.0032, 0.2) == 0
    assert adapted(WANTED, 1, 0.001, BUDGET) == WANTED


def test_what_is_within_the_budget_is_not_changed() -> None:
    assert adapted(WANTED, 2, 0.0002, BUDGET) == WANTED


def test_a_longer_period_pays_for_more_jobs() -> None:
    found = adapted(WANTED, 8, 0.0002, BUDGET)
    # (7 / (8 x 0.01 / 1.01) - 3) x 3.4 ms
    assert (found.measurement_s, found.measurements) == (0.0032, 1)
    assert found.period_s == pytest.approx((7 * 1.01 / 0.08 - 3) * 0.0034)


def test_shorter_measurements_pay_where_the_period_may_not_grow() -> None:
    found = adapted(WANTED, 8, 0.0002, OverheadBudget(0.01, 0.0008, 0.2))
    assert found.period_s == pytest.approx(0.2)
    assert 0.0008 < found.measurement_s < 0.0032


def test_the_budget_holds_where_both_bounds_are_reached() -> None:
    found = adapted(WANTED, 8, 0.0002, OverheadBudget(0.001, 0.0008, 0.2))
    assert found.measurement_s == 0.0008
    assert found.period_s == pytest.approx((7 * 1.001 / 0.008 - 3) * 0.001)


@given(
    jobs=st.integers(1, 200),
    measurements=st.integers(1, 10),
    measurement_s=st.floats(1e-4, 1),
    period_s=st.floats(1e-3, 10),
    cost_s=st.floats(0, 0.1),
    overhead=st.floats(1e-4, 0.3),
    least_s=st.floats(1e-4, 0.01),
    most_s=st.floats(1e-3, 10),
)
def test_whatever_is_wanted_the_budget_holds_and_nothing_shrinks_below_its_bound(
    jobs: int,
    measurements: int,
    measurement_s: float,
    period_s: float,
    cost_s: float,
    overhead: float,
    least_s: float,
    most_s: float,
) -> None:
    wanted = Timing(measurement_s, measurements, period_s)
    found = adapted(wanted, jobs, cost_s, OverheadBudget(overhead, least_s, most_s))
    shutter_s = measurements * found.measurement_s + cost_s
    assert dilation_ratio(jobs, shutter_s, found.period_s) <= 1 + overhead * (1 + 1e-9)
    assert min(least_s, measurement_s) <= found.measurement_s <= measurement_s
    assert found.period_s >= period_s
    assert found.measurements == measurements


@given(jobs=st.integers(1, 200), pause_s=st.floats(1e-6, 1), overhead=st.floats(1e-4, 0.3))
def test_a_pause_of_any_length_is_paid_for_by_the_period_behind_it(
    jobs: int, pause_s: float, overhead: float
) -> None:
    period_s = least_period_s(jobs, pause_s, overhead)
    assert dilation_ratio(jobs, pause_s, period_s) <= 1 + overhead * (1 + 1e-9)


def test_jobs_take_turns_whoever_comes_and_goes() -> None:
    order, last = [], ""
    for jobs in (["a", "c"], ["a", "c"], ["a", "c"], ["a", "b", "c"], ["b"], ["b", "c"]):
        last = next_in_turn(last, jobs)
        order.append(last)
    assert order == ["a", "c", "a", "b", "b", "c"]


def test_a_rate_is_progress_by_time_and_nothing_where_no_time_went_by() -> None:
    assert rate(ProgressReading(10, 1), ProgressReading(16, 3)) == 3
    assert rate(ProgressReading(10, 1), ProgressReading(16, 1)) == 0


def test_heartbeats_are_reported_by_their_median_while_others_were_paused() -> None:
    found = relative([Rates(80, 100, 82), Rates(160, 200, 160), Rates(40, 50, 40)])
    assert found[0] == Rates(0.8, 1.0, 0.82)
    assert found[1].during == 2.0


def test_shutters_without_progress_are_not_reported() -> None:
    assert relative([Rates(1, 0, 1)]) == []
    good = Rates(0.8, 1.0, 0.8)
    assert tellable([good, Rates(0, 1, 1), Rates(1, 1, -3), Rates(1, math.nan, 1)]) == [good]


def test_an_interval_ends_when_somebody_comes_and_when_it_is_long_enough() -> None:
    log = IntervalLog(longest_s=60, most_shutters=100)
    shutter = Rates(1, 2, 1)
    assert log.beside(["a", "b"], 1_000_000, 50.0) == []
    log.add("a", shutter)
    [first] = log.beside(["a", "b", "c"], 999, 55.0)  # the wall clock went back
    assert (first.job, first.co_runners, first.shutters) == ("a", ("b",), [shutter])
    assert (first.began_at_us, first.ended_at_us) == (1_000_000, 6_000_000)
    log.add("c", shutter)
    [long] = log.beside(["a", "b", "c"], 7_000_000, 115.0)
    # It began no earlier than what was published before had ended.
    assert (long.job, long.co_runners) == ("c", ("a", "b"))
    assert (long.began_at_us, long.ended_at_us) == (6_000_000, 66_000_000)
    assert log.beside(["a", "b", "c"], 8_000_000, 116.0) == []


@given(
    st.lists(st.tuples(st.sets(st.sampled_from("abcd")), st.integers(-3, 3)), max_size=30),
)
def test_each_shutter_is_published_once_and_intervals_of_a_job_never_overlap(
    runs: list[tuple[set[str], int]],
) -> None:
    log = IntervalLog(longest_s=5, most_shutters=3)
    told, added = [], 0
    for now, (jobs, off_us) in enumerate([*runs, (set(), 0)]):
        told += log.beside(sorted(jobs), now * 1_000_000 + off_us, float(now))
        if len(jobs) > 1:
            added += 1
            log.add(min(jobs), Rates(1, 2, added))
    shutters = [each.after for interval in told for each in interval.shutters]
    assert sorted(shutters) == list(range(1, added + 1))
    for one in told:
        assert one.job not in one.co_runners
        for other in told:
            if one is not other and one.job == other.job:
                apart = (one.ended_at_us <= other.began_at_us, other.ended_at_us <= one.began_at_us)
                assert any(apart)
