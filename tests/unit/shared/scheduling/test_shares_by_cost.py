"""Watts where they take most off bounded slowdowns."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.simulation.power_reduction import duration_ratio
from shared.scheduling.power_sharing import LEAST_MW, Sharer
from shared.scheduling.shares_by_cost import shares_by_cost

RATIO = partial(duration_ratio, factor=0.5)


def shares(cap_mw: int, *jobs: tuple[int, float]) -> list[int]:
    """What each gets of these wants, in mW, and limits, in s."""
    sharers = {n: Sharer(1, mw, RATIO, limit_s) for n, (mw, limit_s) in enumerate(jobs)}
    given = shares_by_cost(sharers, cap_mw)
    return [given[n] for n in range(len(jobs))]


def holding(limit_s: float, *parts: float) -> Sharer:
    """A job that wants 40 W and holds so much of each resource."""
    return Sharer(1, 40_000, RATIO, limit_s, parts)


def worth(wanted_mw: int, limit_s: float, mw: int) -> float:
    """What it takes off bounded slowdowns each second."""
    return 1 / RATIO(mw / wanted_mw) / max(60.0, limit_s)


@pytest.mark.parametrize(
    ("cap_mw", "jobs", "expected"),
    [
        (100_000, [(40_000, 50.0), (60_000, 5_000.0)], [40_000, 60_000]),
        (60_000, [(40_000, 600.0), (40_000, 600.0)], [30_000, 30_000]),
        (60_000, [(40_000, 60.0), (40_000, 1.0)], [30_000, 30_000]),
        (2_000, [(40_000, 60.0), (40_000, 600.0)], [LEAST_MW, LEAST_MW]),
    ],
    ids=["enough", "alike", "below the threshold", "the least"],
)
def test_jobs_that_are_alike_get_as_much_and_all_what_they_want_if_there_is_enough(
    cap_mw: int, jobs: list[tuple[int, float]], expected: list[int]
) -> None:
    assert shares(cap_mw, *jobs) == expected


def test_who_is_over_soonest_has_all_and_who_lasts_longest_the_least() -> None:
    given_mw = shares(60_000, (40_000, 60.0), (40_000, 86_400.0), (40_000, 86_400.0))
    assert given_mw == pytest.approx([40_000, 10_000, 10_000], abs=1)
    assert shares(41_000, (40_000, 60.0), (40_000, 86_400.0)) == [40_000, LEAST_MW]


def test_a_watt_of_a_small_job_is_worth_more() -> None:
    small, large = shares(60_000, (20_000, 600.0), (80_000, 600.0))
    # (1/2 + 1/2 M) of both are as the roots of what they want, 1 to 2; small has all at 1.
    assert (small, large) == pytest.approx((20_000, 40_000), abs=1)


def test_who_holds_what_others_wait_for_gets_more_than_who_does_not() -> None:
    running = {0: holding(600.0, 0.5, 0.0), 1: holding(600.0, 0.0, 0.5)}
    assert shares_by_cost(running, 60_000) == {0: 30_000, 1: 30_000}
    waited_for = shares_by_cost(running, 60_000, [holding(600.0, 0.0, 0.1)])
    assert waited_for[0] < 30_000 < waited_for[1]


def test_a_second_is_worth_what_it_takes_off_the_job_and_off_all_behind_its_part() -> None:
    # 1/600 + 1/8 of three times 1/600 and 1/600 + 1/2 of it: as 11 to 20, so that the speeds'
    # (1/2 + 1/2 M) are as their roots.
    running = {0: holding(600.0, 0.125), 1: holding(600.0, 0.5)}
    given_mw = shares_by_cost(running, 55_000, [holding(600.0, 0.01)] * 3)
    speeds = [0.5 + 0.5 * mw / 40_000 for mw in given_mw.values()]
    assert speeds[1] / speeds[0] == pytest.approx((20 / 11) ** 0.5, abs=1e-4)


def test_of_several_resources_the_one_that_keeps_most_others_waiting_counts() -> None:
    waiting = [holding(600.0, 0.1, 0.0), holding(60.0, 0.0, 0.1)]
    both = shares_by_cost({0: holding(600.0, 0.5, 0.5), 1: holding(600.0)}, 60_000, waiting)
    one = shares_by_cost({0: holding(600.0, 0.0, 0.5), 1: holding(600.0)}, 60_000, waiting)
    other = shares_by_cost({0: holding(600.0, 0.5, 0.0), 1: holding(600.0)}, 60_000, waiting)
    assert both == one != other


def test_a_long_job_that_holds_the_nodes_is_not_held_back_while_many_wait() -> None:
    running = {0: holding(86_400.0, 0.9), 1: holding(600.0, 0.1)}
    assert shares_by_cost(running, 41_000)[0] == LEAST_MW
    given_mw = shares_by_cost(running, 41_000, [holding(60.0, 1.0)] * 10)
    assert given_mw[0] == pytest.approx(40_000, abs=1)


@given(
    st.lists(st.tuples(st.integers(1, 400), st.integers(1, 100_000)), min_size=2, max_size=12),
    st.floats(0, 1),
    st.data(),
)
def test_no_watt_is_worth_more_elsewhere(
    jobs: list[tuple[int, int]], between: float, data: st.DataObject
) -> None:
    wanted = [(watts * 1000, float(limit_s)) for watts, limit_s in jobs]
    most_mw, least_mw = sum(mw for mw, _ in wanted), LEAST_MW * len(wanted)
    cap_mw = least_mw + int(between * (most_mw - least_mw))
    given_mw = shares(cap_mw, *wanted)
    assert cap_mw - len(wanted) <= sum(given_mw) <= cap_mw
    assert all(LEAST_MW <= mw <= most for mw, (most, _) in zip(given_mw, wanted, strict=True))
    one, other = data.draw(st.permutations(range(len(wanted))))[:2]
    moved_mw = min(1000, given_mw[one] - LEAST_MW, wanted[other][0] - given_mw[other])
    before = worth(*wanted[one], given_mw[one]) + worth(*wanted[other], given_mw[other])
    after = worth(*wanted[one], given_mw[one] - moved_mw)
    after += worth(*wanted[other], given_mw[other] + moved_mw)
    # What was rounded down, some mW, is worth that much at most.
    steepest = max(RATIO(1.0) / 0.5 / mw / 60 for mw, _ in wanted)
    assert after <= before + len(wanted) * steepest


@pytest.mark.parametrize("limit_s", [1e-9, 1e9, 1e300])
def test_limits_of_no_size_have_shares(limit_s: float) -> None:
    given_mw = shares(60_000, (40_000, limit_s), (40_000, 600.0))
    assert sum(given_mw) <= 60_000
    assert min(given_mw) >= LEAST_MW
