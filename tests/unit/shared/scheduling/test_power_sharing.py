"""Watts shared by what runs."""

from functools import partial
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.simulation.eurora import Anybody
from lab.simulation.power_reduction import duration_ratio
from shared.scheduling.backfill import Backfill
from shared.scheduling.capacity import Capacity
from shared.scheduling.consumable import ConsumableScheduler
from shared.scheduling.power import Cap, Scope, Step
from shared.scheduling.power_sharing import (
    LATE_S,
    LEAST_MW,
    PowerSharing,
    Sharer,
    admitted_to_share_mw,
    level_shares,
)
from shared.scheduling.problem import CORES, Kind, NodeTable, Shape
from shared.scheduling.wait_queue import Entry, WaitQueue

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


NOW_S = 10.0
SHORT_ENDS_S = NOW_S + 30.0 + LATE_S


@pytest.mark.parametrize(
    ("falls", "jobs", "expected"),
    [
        ([], [(80, 30.0), (60, 30.0)], [(80_000, 40.0), (20_000, 100.0)]),
        ([], [(200, 30.0), (60, 30.0)], [(99_000, NOW_S + 30 * 200 / 99), (1_000, 1810.0)]),
        ([(45.0, 40)], [(80, 30.0), (60, 30.0)], [(80_000, 40.0), (20_000, 100.0)]),
        ([(SHORT_ENDS_S, 40)], [(80, 30.0), (60, 30.0)], [(80_000, 40.0), (20_000, 100.0)]),
        ([(30.0, 40)], [(78, 30.0), (60, 30.0)], [(39_000, 70.0), (1_000, 1810.0)]),
        ([(30.0, 50), (60.0, 20)], [(80, 30.0)], [(50_000, 58.0)]),
        ([(30.0, 50), (60.0, 20)], [(80, 40.0)], [(20_000, 170.0)]),
        ([(30.0, 0.5)], [(80, 30.0)], [(1_000, 2410.0)]),
    ],
    ids=[
        "what is left",
        "the least for who is behind",
        "a fall after an end",
        "a fall at an end",
        "a fall before",
        "slower up to the next fall",
        "slower beyond the next fall",
        "a fall below the least",
    ],
)
def test_who_keeps_a_share_has_what_is_left_now_and_at_each_fall_of_the_cap_while_it_runs(
    falls: list[tuple[float, float]],
    jobs: list[tuple[int, float]],
    expected: list[tuple[int, float]],
) -> None:
    """Jobs, of which each wants so many watts and takes so long with them, under 100 W."""
    steps: list[Step] = [(at_s, round(watts * 1000)) for at_s, watts in falls]
    cap = Cap(Scope.CLUSTER, "", ((-inf, 100_000), *steps))
    kind = Kind("", Shape((1,), exclusive=False, most_per_node=0))
    capacity = Capacity(NodeTable((CORES,), np.array([[16]])))
    scheduler = ConsumableScheduler(capacity, [], WaitQueue(), [kind], Anybody())
    sharers = [Sharer(1, watts * 1000, RATIO, limit_s) for watts, limit_s in jobs]
    entries = (((0, Entry(n, n, 1, 1e6, True, 0)),) for n in range(len(jobs)))
    easy = Backfill([scheduler], entries)
    under_test = PowerSharing(easy, sharers.__getitem__, cap, scheduler)
    for _ in jobs:
        under_test.arrive()
    assert under_test.wake_s(NOW_S) == inf, "nobody has a share yet"

    under_test.decide(NOW_S)
    late_s = LATE_S if falls else 0.0
    held = [scheduler.allocated[number] for number in range(len(jobs))]
    assert [each.draw_mw for each in held] == [mw for mw, _ in expected]
    assert [each.release_s for each in held] == [pytest.approx(s + late_s) for _, s in expected]
    assert under_test.given_mw == {number: mw for number, (mw, _) in enumerate(expected)}
    assert under_test.wake_s(NOW_S) == (falls[0][0] if falls else inf)
