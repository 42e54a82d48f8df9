"""DEC on small situations, against the list schedule and against all orders."""

from itertools import permutations
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ortools.sat.python import cp_model

from shared.planning.decomposition import DecompositionPlanner, _hinted_s, _mapped, _model
from shared.planning.searches import Searches
from shared.scheduling.list_scheduling import (
    CappedSituation,
    FreeNodes,
    ListSchedule,
    PriorityRule,
    Using,
    Wanted,
    list_schedule,
)

# Two nodes of 16 cores, the second with two GPUs.
AMOUNTS = np.array([[16, 16], [0, 2]], dtype=np.int64)
JOB = Wanted(0, 1, (8, 0), 100, 10.0, 1.0)


def at(*waiting: Wanted, cap_mw: int = 1000, held: Wanted | None = None) -> CappedSituation:
    free, using = FreeNodes.build(AMOUNTS), list[Using]()
    if held is not None:
        allocation = free.take(held.needs, held.units)
        assert allocation is not None
        using = [Using(held.limit_s, 99, held.needs, allocation, held.draw_mw)]
    numbered = [job._replace(arrival=n) for n, job in enumerate(waiting)]
    return CappedSituation(0.0, cap_mw, free, using, numbered)


def cheapest(situation: CappedSituation, searches: Searches | None = None) -> ListSchedule:
    rule = PriorityRule(range(len(situation.waiting)))
    return DecompositionPlanner(rule, searches or Searches(), limit_s=0.2).schedule(situation)


def test_a_long_job_waits_where_that_costs_less() -> None:
    long = JOB._replace(limit_s=100.0)
    searches = Searches()
    found = cheapest(at(long, JOB, JOB, cap_mw=100), searches)
    # In the order of arrivals 100 s and 110 s are waited, the shorter first 10 s and 20 s.
    assert found.starts == [(0.0, 1), (10.0, 2), (20.0, 0)] or found.starts == [
        (0.0, 2),
        (10.0, 1),
        (20.0, 0),
    ]
    assert found.cost == 30.0
    assert searches == Searches(plans=1, unanswered=0, improved=1)


def test_weights_of_equation_2_come_before_length() -> None:
    found = cheapest(at(JOB, JOB._replace(limit_s=100.0, weight=24.0), cap_mw=100))
    assert found.starts == [(0.0, 1), (100.0, 0)]


def test_what_the_pool_has_but_no_node_is_fed_back() -> None:
    # 7 of 16 cores are free on each node, 14 in the pool: 8 fit the pool and no node.
    situation = at(JOB, held=JOB._replace(units=2, needs=(9, 0), limit_s=7.0))
    assert _mapped(situation, [0.0]) == (None, (0, (-1,)))
    rule = PriorityRule([0])
    listed = list_schedule(situation, [0])
    assert listed is not None
    dec = DecompositionPlanner(rule, Searches())
    assert dec.solved(situation, listed, []) == [0.0]
    assert dec.solved(situation, listed, [(0, (-1,))]) == [7.0]
    assert cheapest(situation).starts == [(7.0, 0)]


def test_jobs_that_share_no_node_are_distinguished_by_either_end() -> None:
    # 9 and 8 cores: never on one node, though the pool of both nodes holds three.
    jobs = JOB._replace(needs=(9, 0)), JOB._replace(needs=(9, 0)), JOB._replace(needs=(14, 0))
    found = cheapest(at(*jobs))
    assert found.cost == 10.0


def test_a_search_goes_on_where_the_last_one_ended() -> None:
    jobs = [JOB._replace(limit_s=limit_s) for limit_s in (30.0, 20.0, 10.0)]
    searches = Searches()
    dec = DecompositionPlanner(PriorityRule(range(3)), searches, rounds=1)
    assert [place for _, place in dec.plan(at(*jobs, cap_mw=100))] == [2, 1, 0]
    dec.solved = lambda *_: None  # type: ignore[method-assign]
    assert [place for _, place in dec.plan(at(*jobs, cap_mw=100))] == [2, 1, 0]
    assert searches == Searches(plans=2, unanswered=1, improved=2)


def test_nobody_searches_where_nothing_fits_now() -> None:
    searches = Searches()
    dec = DecompositionPlanner(PriorityRule(range(2)), searches)
    full = at(JOB._replace(limit_s=20.0), JOB, cap_mw=100, held=JOB)
    assert dec.plan(full) == [(10.0, 0), (30.0, 1)]
    assert searches == Searches()
    assert dec.schedule(full).starts == [(10.0, 1), (20.0, 0)]  # who wants the whole plan gets it


def test_what_never_fits_leaves_the_list_schedule() -> None:
    situation = at(JOB._replace(draw_mw=1001), JOB)
    assert cheapest(situation).starts == [(0.0, 1)]


WANTED = st.builds(
    Wanted,
    arrival=st.just(0),
    units=st.integers(1, 3),
    needs=st.tuples(st.integers(1, 10), st.integers(0, 1)),
    draw_mw=st.integers(1, 100),
    limit_s=st.sampled_from([1.0, 2.0, 5.0, 9.0]),
    weight=st.sampled_from([1.0, 4.0, 24.0]),
)


@settings(deadline=None, max_examples=25)
@given(st.lists(WANTED, min_size=1, max_size=6), st.one_of(st.none(), WANTED))
def test_no_single_solve_is_above_the_list_schedule_and_all_of_it_can_be(
    jobs: list[Wanted], held: Wanted | None
) -> None:
    if held is not None and FreeNodes.build(AMOUNTS).take(held.needs, held.units) is None:
        held = None
    situation = at(*jobs, cap_mw=100, held=held)
    listed = list_schedule(situation, range(len(jobs)))
    assert listed is not None
    found = cheapest(situation)
    assert found.cost <= listed.cost
    assert found == cheapest(situation)  # the same twice
    assert sorted(place for _, place in found.starts) == sorted(p for _, p in listed.starts)
    for now_s in {start_s for start_s, _ in found.starts}:
        on = [jobs[p] for s, p in found.starts if s <= now_s < s + jobs[p].limit_s]
        held_on = [each for each in situation.using if now_s < each.release_s]
        assert sum(j.draw_mw for j in on) + sum(each.draw_mw for each in held_on) <= 100
        for resource, most in enumerate((32, 2)):
            used = sum(j.units * j.needs[resource] for j in on)
            used += sum(h.needs[resource] * sum(h.allocation.units) for h in held_on)
            assert used <= most


FRACTIONS = st.floats(0.1, 9.0).map(lambda limit_s: round(limit_s, 2))


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(WANTED, FRACTIONS), min_size=3, max_size=6),
    FRACTIONS,
    st.lists(st.tuples(FRACTIONS, st.sampled_from([60, 100])), max_size=2),
)
def test_the_schedule_that_it_starts_from_is_a_solution_of_the_model(
    jobs: list[tuple[Wanted, float]], held_s: float, steps: list[tuple[float, int]]
) -> None:
    waiting = [job._replace(limit_s=limit_s) for job, limit_s in jobs]
    situation = at(*waiting, cap_mw=100, held=JOB._replace(limit_s=held_s, draw_mw=30))
    situation = situation._replace(steps=sorted(dict(steps).items()))
    listed = list_schedule(situation, range(len(jobs)))
    assert listed is not None
    hinted_s = _hinted_s(situation, listed) if 0 < listed.cost < inf else {}
    if len(hinted_s) < len(jobs):
        return  # all starts now, or somebody never
    model, starts = _model(situation, hinted_s, [])
    for place, start in enumerate(starts):
        model.add(start == hinted_s[place])
    assert cp_model.CpSolver().solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE)


@pytest.mark.parametrize("cap_mw", [100, 200])
def test_few_jobs_get_the_best_of_all_orders(cap_mw: int) -> None:
    jobs = [
        JOB._replace(limit_s=limit_s, weight=weight)
        for limit_s, weight in [(9.0, 1.0), (3.0, 4.0), (7.0, 24.0), (1.0, 1.0)]
    ]
    situation = at(*jobs, cap_mw=cap_mw)
    costs = [list_schedule(situation, order) for order in permutations(range(4))]
    assert cheapest(situation).cost == min(each.cost for each in costs if each)
