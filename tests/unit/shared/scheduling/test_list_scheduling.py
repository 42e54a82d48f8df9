"""List schedules on nodes under a cap."""

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.scheduling.dispatch import Served
from shared.scheduling.engine import Engine
from shared.scheduling.list_scheduling import (
    CappedSituation,
    FreeNodes,
    ListSchedules,
    PlannedStarts,
    PriorityRule,
    Using,
    Wanted,
    list_schedule,
)
from shared.scheduling.power import Cap, PowerBudget, Scope, Step
from shared.scheduling.problem import Allocation, Shape, units_in
from shared.scheduling.wait_queue import Entry

# Two nodes of 16 cores, the second with two GPUs.
AMOUNTS = np.array([[16, 16], [0, 2]], dtype=np.int64)
JOB = Wanted(0, 1, (8, 0), 100, 10.0, 1.0)


def at(*waiting: Wanted, cap_mw: int = 1000, using: tuple[Using, ...] = ()) -> CappedSituation:
    free = FreeNodes.build(AMOUNTS)
    for each in using:
        nodes = free.take(each.needs, sum(each.allocation.units))
        assert nodes is not None
    return CappedSituation(0.0, cap_mw, free, using, waiting)


def starts(situation: CappedSituation, *order: int) -> dict[int, float]:
    found = list_schedule(situation, order or range(len(situation.waiting)))
    assert found is not None
    return {place: start_s for start_s, place in found.starts}


def test_a_job_starts_as_soon_as_its_units_and_watts_are_free_in_order() -> None:
    wide = JOB._replace(units=3)
    assert starts(at(wide, wide, JOB)) == {0: 0.0, 1: 10.0, 2: 0.0}
    assert starts(at(JOB, JOB, JOB, cap_mw=200)) == {0: 0.0, 1: 0.0, 2: 10.0}
    assert starts(at(JOB, JOB, cap_mw=100), 1, 0) == {1: 0.0, 0: 10.0}
    found = list_schedule(at(JOB._replace(draw_mw=1001), JOB), [0, 1])
    assert found is not None
    assert (found.starts, found.cost) == ([(0.0, 1)], inf), "what never fits starts never"


def test_what_runs_is_expected_at_its_limit_and_what_is_overdue_at_once() -> None:
    using = Using(7.0, 9, (16, 0), Allocation((0,), (1,)), 950)
    assert starts(at(JOB, using=(using,))) == {0: 7.0}
    assert starts(at(JOB, using=(using._replace(release_s=-5.0),))) == {0: 0.0}


def test_a_lower_step_ahead_leaves_what_those_who_still_run_then_do_not_draw() -> None:
    situation = at(JOB, JOB)._replace(steps=((5.0, 700), (10.0, 0), (30.0, 1000)))
    runs = Using(20.0, 9, (1, 0), Allocation((0,), (1,)), 600)
    assert starts(situation) == {0: 0.0, 1: 0.0}
    assert starts(situation._replace(using=(runs,))) == {0: 0.0, 1: 30.0}
    assert starts(situation._replace(using=(runs._replace(release_s=4.0),))) == {0: 0.0, 1: 0.0}
    longer = JOB._replace(limit_s=10.5)
    assert starts(situation._replace(waiting=(longer,))) == {0: 30.0}


def test_what_waits_costs_is_the_sum_of_weighted_waits_and_too_much_is_given_up() -> None:
    # Equation 2: 0 s and 10 s and 20 s with weights of 1, 24 and 2.
    jobs = JOB, JOB._replace(weight=24.0), JOB._replace(weight=2.0)
    situation, cost = at(*jobs, cap_mw=100), 24 * 10 + 2 * 20
    found = list_schedule(situation, [0, 1, 2])
    assert found is not None
    assert found.cost == cost
    assert list_schedule(situation, [0, 1, 2], below=cost) is None
    assert list_schedule(situation, [0, 1, 2], below=cost + 0.1) is not None


def test_units_go_to_nodes_with_less_free_and_what_was_given_back_is_as_it_was_before() -> None:
    free = FreeNodes.build(AMOUNTS)
    taken = [((8, 1), 1), ((4, 0), 1), ((4, 0), 4)]
    found = [free.take(needs, units) for needs, units in taken]
    # The second has 16 cores on the first node, 8 and a GPU on the other.
    assert found == [
        Allocation((1,), (1,)),
        Allocation((0,), (1,)),
        Allocation((0, 1), (3, 1)),
    ]
    for (needs, _), on in zip(taken, found, strict=True):
        assert on is not None
        free.give(needs, on)
    for name in ("_free", "_totals", "_left"):
        assert getattr(free, name) == getattr(FreeNodes.build(AMOUNTS), name)


def test_of_many_nodes_those_with_less_free_are_taken_first_and_of_equal_ones_the_first() -> None:
    free = FreeNodes.build(np.array([[16, 11, 13, 11, 5]], dtype=np.int64))
    assert free.take((4,), 1) == Allocation((4,), (1,))
    assert free.take((4,), 3) == Allocation((1, 3), (2, 1))
    assert free.take((4,), 3) == Allocation((2, 3), (2, 1))
    assert free.take((4,), 6) is None
    assert free.take((4,), 4) == Allocation((0, 2), (3, 1))


NEEDS = st.sampled_from([(4, 0), (8, 0), (7, 1), (1, 2), (0, 1)])


@given(st.lists(st.tuples(st.booleans(), NEEDS, st.integers(1, 4)), max_size=30), st.data())
def test_what_is_known_of_free_nodes_is_what_counting_them_anew_says(
    steps: list[tuple[bool, tuple[int, int], int]], data: st.DataObject
) -> None:
    free, amounts = FreeNodes.build(AMOUNTS), AMOUNTS.copy()
    jobs: list[tuple[tuple[int, int], Allocation]] = []
    for is_start, asked, units in steps:
        needs, sign = asked, -1
        if is_start or not jobs:
            fits = int(units_in(amounts, Shape(needs, False, 0)).sum()) >= units
            on = free.take(needs, units)
            assert (on is not None) == fits
            if on is None:
                continue
            jobs.append((needs, on))
        else:
            (needs, on), sign = jobs.pop(data.draw(st.integers(0, len(jobs) - 1))), 1
            free.give(needs, on)
        for node, count in zip(*on, strict=True):
            amounts[:, node] += sign * count * np.array(needs)
        known = data.draw(st.sampled_from([free, free.copy()]))
        # Whoever has a copy of it goes on by itself.
        free = data.draw(st.sampled_from([free, free.copy()]))
        for each in (needs, (4, 0)):
            assert known.units_of(each) == int(units_in(amounts, Shape(each, False, 0)).sum())


def test_a_schedule_leaves_nothing_behind_for_the_next() -> None:
    jobs = JOB._replace(units=3), JOB, JOB._replace(needs=(8, 1), limit_s=5.0), JOB
    using = Using(7.0, 9, (16, 0), Allocation((0,), (1,)), 0)
    schedules, orders = ListSchedules(at(*jobs, using=(using,))), ([0, 1, 2, 3], [3, 2, 1, 0])
    first = [schedules.play(order) for order in orders]
    assert first == [schedules.play(order) for order in orders]
    assert first == [list_schedule(at(*jobs, using=(using,)), order) for order in orders]
    assert first[0] != first[1]


def test_a_rule_plans_what_starts_at_once_and_no_more() -> None:
    jobs = [JOB._replace(arrival=n) for n in range(3)]
    assert PriorityRule([2, 0, 1]).plan(at(*jobs, cap_mw=200)) == [(0.0, 1), (0.0, 2)]


WANTED = st.builds(
    Wanted,
    arrival=st.just(0),
    units=st.integers(1, 4),
    needs=st.tuples(st.integers(1, 16), st.integers(0, 2)),
    draw_mw=st.integers(1, 100),
    limit_s=st.sampled_from([1.0, 2.0, 5.0]),
    weight=st.integers(1, 9).map(float),
)


@given(st.lists(WANTED, max_size=12), st.data())
def test_no_list_schedule_takes_more_than_there_is_and_none_idles_for_nothing(
    jobs: list[Wanted], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(jobs))))
    found = list_schedule(at(*jobs, cap_mw=100), order)
    assert found is not None
    assert found.cost == inf or found.cost == pytest.approx(
        sum(jobs[place].weight * start_s for start_s, place in found.starts)
    )
    for now_s in {start_s for start_s, _ in found.starts}:
        on = [jobs[p] for s, p in found.starts if s <= now_s < s + jobs[p].limit_s]
        assert sum(job.draw_mw for job in on) <= 100
        assert sum(job.units * job.needs[0] for job in on) <= 32
        assert sum(job.units * job.needs[1] for job in on) <= 2
    alone = {p for p, job in enumerate(jobs) if FreeNodes.build(AMOUNTS).take(job.needs, job.units)}
    assert {place for _, place in found.starts} == alone


@given(
    st.lists(WANTED, min_size=1, max_size=10),
    st.lists(st.tuples(st.integers(1, 20), st.integers(0, 150)), max_size=3),
    st.data(),
)
def test_no_start_exceeds_a_cap_that_changes_ahead(
    jobs: list[Wanted], changes: list[tuple[int, int]], data: st.DataObject
) -> None:
    jobs = [j for j in jobs if FreeNodes.build(AMOUNTS).take(j.needs, j.units) is not None]
    at_s = sorted({after for after, _ in changes})
    lowered = [(float(s), cap) for s, (_, cap) in zip(at_s, changes, strict=False)]
    steps: tuple[Step, ...] = ((-inf, 120), *lowered, (30.0, 120))
    cap = Cap(Scope.CLUSTER, "c", steps)
    run_s = [data.draw(st.sampled_from([0.5, 1.0])) * job.limit_s for job in jobs]

    def runs_s(served: Served) -> float:
        return run_s[served[1].arrival]

    arrivals = (
        (Entry(n, n, job.units, job.limit_s), job._replace(arrival=n)) for n, job in enumerate(jobs)
    )
    rule = PriorityRule(data.draw(st.permutations(range(len(jobs)))))
    dispatcher = PlannedStarts(AMOUNTS, PowerBudget(cap), arrivals, rule)
    engine = Engine(dispatcher, [0.0] * len(jobs), runs_s, 0.0)
    start_s: dict[int, float] = {}
    while not engine.is_over:
        for _, entry, _, _ in engine.step():
            start_s[entry.arrival] = engine.now_s
    assert len(start_s) == len(jobs)
    for time_s in {*start_s.values(), *(from_s for from_s, _ in steps[1:])}:
        on = [n for n, s in start_s.items() if s <= time_s < s + run_s[n]]
        assert sum(jobs[n].draw_mw for n in on) <= cap.limit_mw(time_s)
