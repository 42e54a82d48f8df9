"""The search over orders, against the orders that it starts from and all others."""

from itertools import permutations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.planning.order_search import OrderSearch
from shared.planning.searches import Searches
from shared.scheduling.list_scheduling import (
    CappedSituation,
    FreeNodes,
    Planned,
    Wanted,
    list_schedule,
)

AMOUNTS = np.array([[16, 16], [0, 2]], dtype=np.int64)


def of(needs: tuple[int, ...], units: int, draw_mw: int, limit_s: float) -> Wanted:
    return Wanted(0, units, needs, draw_mw, limit_s, 1.0)


JOB = of((8, 0), 1, 100, 100.0)


def at(*waiting: Wanted, cap_mw: int = 100) -> CappedSituation:
    numbered = [job._replace(arrival=n) for n, job in enumerate(waiting)]
    return CappedSituation(0.0, cap_mw, FreeNodes.build(AMOUNTS), [], numbered)


def slowdown(situation: CappedSituation, starts: list[Planned]) -> float:
    """What all waits add to the bounded slowdowns (60 s) of jobs that run to their limits."""
    return sum(s / max(60.0, situation.waiting[place].limit_s) for s, place in starts)


def test_the_shorter_goes_first_under_a_cap() -> None:
    found = OrderSearch(Searches()).plan(at(JOB, JOB._replace(limit_s=60.0)))
    assert found == [(0.0, 1), (60.0, 0)]


def test_a_plan_is_found_again_and_newcomers_take_their_places() -> None:
    search, jobs = OrderSearch(Searches()), [JOB._replace(limit_s=300.0), JOB]
    search.plan(at(*jobs))
    found = search.plan(at(*jobs, JOB._replace(limit_s=200.0)))
    assert found == [(0.0, 1), (100.0, 2), (300.0, 0)]


def test_what_never_fits_is_left_out_and_nothing_that_waits_is_no_plan() -> None:
    assert OrderSearch(Searches()).plan(at(JOB._replace(draw_mw=101), JOB)) == [(0.0, 1)]
    assert OrderSearch(Searches()).plan(at()) == []


WANTED = st.builds(
    Wanted,
    arrival=st.just(0),
    units=st.integers(1, 3),
    needs=st.tuples(st.integers(1, 10), st.integers(0, 1)),
    draw_mw=st.integers(1, 100),
    limit_s=st.sampled_from([10.0, 100.0, 500.0, 2000.0]),
    weight=st.just(1.0),
)


@settings(deadline=None, max_examples=25)
@given(st.lists(WANTED, min_size=1, max_size=4))
@example([of((5, 0), 1, 28, 10.0), of((6, 1), 2, 19, 500.0), of((3, 1), 2, 74, 100.0)])
def test_it_is_no_dearer_than_by_walltime_and_no_cheaper_than_the_best_order(
    jobs: list[Wanted],
) -> None:
    situation = at(*jobs)
    found = slowdown(situation, list(OrderSearch(Searches()).plan(situation)))
    costs = {}
    for order in permutations(range(len(jobs))):
        schedule = list_schedule(situation, order)
        assert schedule is not None
        costs[order] = slowdown(situation, schedule.starts)
    by_walltime = sorted(range(len(jobs)), key=lambda n: (jobs[n].limit_s, n))
    assert min(costs.values()) - 1e-9 <= found <= costs[tuple(by_walltime)] + 1e-9
