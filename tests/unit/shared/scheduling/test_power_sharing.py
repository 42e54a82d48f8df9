"""Watts shared by what runs."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.simulation.power_reduction import duration_ratio
from shared.scheduling.power_sharing import (
    LEAST_MW,
    Sharer,
    admitted_to_share_mw,
    level_shares,
)

RATIO = partial(duration_ratio, factor=1.0)


def shares(cap_mw: int, *wanted: tuple[int, int]) -> list[int]:
    sharers = {n: Sharer(units, mw, RATIO, 1.0) for n, (units, mw) in enumerate(wanted)}
    given = level_shares(sharers, cap_mw)
    return [given[n] for n in range(len(wanted))]


@pytest.mark.parametrize(
    ("cap_mw", "wanted", "expected"),
    [
        (100_000, [(1, 40_000), (2, 60_000)], [40_000, 60_000]),
        # 30 W a unit would be even; the first needs 10 of it, the other two share 80 W.
        (90_000, [(1, 10_000), (1, 60_000), (1, 80_000)], [10_000, 40_000, 40_000]),
        (90_000, [(2, 160_000), (1, 80_000)], [60_000, 30_000]),
        (3_500, [(60, 600_000), (1, 40_000), (1, 40_000)], [1_500, 1_000, 1_000]),
    ],
    ids=["enough", "one needs less", "by units", "the least"],
)
def test_a_job_has_a_share_for_each_of_its_units_and_what_it_does_not_need_the_others_get(
    cap_mw: int, wanted: list[tuple[int, int]], expected: list[int]
) -> None:
    assert shares(cap_mw, *wanted) == expected


def test_jobs_are_admitted_up_to_three_times_the_cap() -> None:
    assert admitted_to_share_mw(90_001) == 30_000
    assert admitted_to_share_mw(1_500) == LEAST_MW


@given(
    st.lists(st.tuples(st.integers(1, 64), st.integers(1, 400)), min_size=1, max_size=40),
    st.integers(0, 20_000_000),
)
def test_shares_of_admitted_jobs_never_come_to_more_than_the_cap(
    jobs: list[tuple[int, int]], more_mw: int
) -> None:
    wanted = [(units, units * watts * 1000) for units, watts in jobs]
    cap_mw = sum(admitted_to_share_mw(mw) for _, mw in wanted) + more_mw
    given_mw = shares(cap_mw, *wanted)
    assert sum(given_mw) <= cap_mw
    assert all(LEAST_MW <= mw <= most for mw, (_, most) in zip(given_mw, wanted, strict=True))
    if sum(mw for _, mw in wanted) <= cap_mw:
        assert given_mw == [mw for _, mw in wanted]
    else:
        assert sum(given_mw) >= cap_mw - len(wanted)  # nothing is left but what was rounded
