"""Schedulers under budgets of power: examples of the rules."""

from collections.abc import Callable, Iterable
from math import inf, nan

import numpy as np
import pytest

from shared.scheduling.backfill import serve
from shared.scheduling.capacity import AllocatedUnits, Capacity, Group
from shared.scheduling.consumable import ConsumableScheduler
from shared.scheduling.easy import EasyScheduler
from shared.scheduling.load import Load, NodeSet
from shared.scheduling.power import NO_CAP_MW, Budgets, Cap, PowerBudget, Scope, Step
from shared.scheduling.problem import Allocation, Kind, NodeTable, Shape
from shared.scheduling.sharing import Member
from shared.scheduling.wait_queue import Entry, OtherMode
from tests.unit.shared.scheduling.systems import queue_of


class _Alone:
    """Nobody has a neighbour."""

    def accepts_anyone(self, app: str) -> bool:
        """Whoever it is: nobody accepts anybody."""
        return False

    def cost(self, newcomer: Member, group: Group) -> float:
        """Infinite beside anybody."""
        return inf if group else 0.0

    def slowdown(self, one: Member, others: Group) -> float:
        """Not predicted."""
        return nan if others else 1.0

    def refusal(self, newcomer: Member, groups: Iterable[Group]) -> str:
        """The rule."""
        return "nobody shares nodes"


def entry(arrival: int, nodes: int, limit_s: float, watts: int) -> Entry:
    return Entry(arrival, arrival, nodes, limit_s, draw_mw=watts * 1000)


def budget(*steps: Step, is_shared: bool = False, base_mw: int = 0) -> PowerBudget:
    cap = Cap(Scope.REGION if is_shared else Scope.CLUSTER, "alpha", steps)
    return PowerBudget(cap, base_mw, is_shared=is_shared)


def flat(watts: int) -> PowerBudget:
    return budget((-inf, watts * 1000))


def counting(
    entries: list[Entry], *budgets: PowerBudget, nodes: int = 8, held: int = 0
) -> EasyScheduler:
    """By counting nodes, of which some are held until 100 s."""
    sets = [NodeSet(held, 100.0)] if held else []
    return EasyScheduler(Load(nodes, nodes - held, sets), queue_of(entries), 0, budgets)


def in_parts(
    entries: list[Entry], *budgets: PowerBudget, nodes: int = 8, held: int = 0
) -> ConsumableScheduler:
    """The same, by counting what is free on each node."""
    queue = queue_of(one._replace(kind=0, in_parts=True) for one in entries)
    capacity = Capacity(NodeTable(("cores",), np.full((1, nodes), 2)))
    kind = Kind("", Shape((2,), exclusive=True, most_per_node=1))
    on = Allocation(tuple(range(held)), (1,) * held)
    holds = [AllocatedUnits(100.0, 99, kind, on)] if held else []
    for each in holds:
        capacity.take(kind, each.allocation)
    return ConsumableScheduler(capacity, holds, queue, [kind], _Alone(), 0, budgets)


def started(of: EasyScheduler, now_s: float = 0.0) -> list[int]:
    return [served[1].arrival for served in of.pass_alone(now_s)]


def test_an_entry_that_is_refused_for_watts_says_how_many_there_are_until_others_end() -> None:
    waits = entry(1, 1, 50.0, 60)
    under_test = counting([entry(0, 1, 100.0, 60), waits], flat(100))
    assert started(under_test) == [0]
    [shortage] = under_test.shortages(waits)
    assert (shortage.needed_mw, shortage.available_mw) == (60_000, 40_000)
    assert (shortage.at_s, shortage.until_s) == (0.0, 100.0)
    assert started(under_test, 130.0) == [], "an overdue job draws until it ends"
    assert under_test.state.reservation == (1, 1, 130.0)
    under_test.release(0)
    assert started(under_test, 140.0) == [1]


def test_an_entry_that_no_cap_lets_start_blocks_nobody_and_says_so() -> None:
    waits = entry(0, 1, 50.0, 140)
    under_test = counting([waits, entry(1, 8, 100.0, 60), entry(2, 8, 9.0, 60)], flat(100))
    assert started(under_test) == [1]
    assert under_test.state.reservation == (2, 8, 100.0)
    [shortage] = under_test.shortages(waits)
    assert (shortage.available_mw, shortage.until_s) == (40_000, inf)


def test_what_starts_fits_under_a_lower_step_ahead_until_its_limit() -> None:
    steps = budget((-inf, 100_000), (60.0, 50_000))
    under_test = counting([entry(0, 1, 61.0, 60), entry(1, 1, 60.0, 60)], steps)
    assert started(under_test) == [1]

    idle = budget((-inf, 100_000), base_mw=50_000)
    assert started(counting([entry(0, 1, 50.0, 60), entry(1, 1, 50.0, 50)], idle)) == [1]


def test_a_step_up_starts_what_waited_for_it_and_is_the_promise() -> None:
    under_test = counting([entry(0, 1, 50.0, 60)], budget((-inf, 10_000), (70.0, 100_000)))
    assert started(under_test) == []
    assert under_test.state.reservation == (0, 1, 70.0)
    assert started(under_test, 69.0) == []
    assert started(under_test, 70.0) == [0]


def test_a_shared_budget_holds_for_all_schedulers_and_reserves_once_at_the_earliest() -> None:
    """Job 1 waits on both: for 100 s on the first, for 40 s on the second. The watts are kept from
    40 s on, so that job 2 may have those that it leaves at 100 s."""
    region = budget((-inf, 100_000), is_shared=True)
    both = entry(1, 4, 30.0, 60)
    queues = queue_of([both, entry(2, 1, 40.0, 60), entry(3, 1, 60.0, 45)]), queue_of([both])
    held, soon = (Load(4, 1, [NodeSet(3, end_s, draw_mw=20_000)]) for end_s in (100.0, 40.0))
    schedulers = [
        EasyScheduler(held, queues[0], 0, [region]),
        EasyScheduler(soon, queues[1], 1, [region]),
    ]
    assert [served[1].arrival for served in serve(schedulers, 0.0)] == [2]
    assert [a.state.reservation for a in schedulers] == [(1, 4, 100.0), (1, 4, 40.0)]
    assert region.least_headroom_mw(0.0, 40.0) == 0
    assert region.least_headroom_mw(40.0, 70.0) == 20_000
    assert region.least_headroom_mw(70.0, 100.0) == 80_000


def test_watts_that_a_sooner_reservation_elsewhere_leaves_let_others_start_at_once() -> None:
    """Job 1 is kept 80 W on the first scheduler, so that job 2 behind it on the second has too few;
    then it is kept 20 W on the third, sooner."""
    region = budget((-inf, 100_000), is_shared=True)
    waiting = [
        [Entry(1, 1, 4, 500.0, draw_mw=80_000)],
        [Entry(2, 3, 4, 500.0, draw_mw=10_000), Entry(3, 2, 1, 500.0, draw_mw=60_000)],
        [Entry(5, 1, 4, 100.0, draw_mw=20_000)],
    ]
    held = [(4, 2, 200.0), (5, 3, 900.0), (4, 2, 100.0)]
    loads = [Load(nodes, 2, [NodeSet(taken, end_s)]) for nodes, taken, end_s in held]
    schedulers = [
        EasyScheduler(load, queue_of(entries), number, [region])
        for number, (load, entries) in enumerate(zip(loads, waiting, strict=True))
    ]
    assert [served[1].arrival for served in serve(schedulers, 0.0)] == [2]
    assert region.reservation_of(1) == (100.0, 200.0, 20_000)


def test_a_candidate_whose_watts_another_scheduler_took_is_refused_and_reserves_nothing() -> None:
    """Both candidates were looked up while 50 W were left: the second one finds none."""
    region = budget((-inf, 100_000), is_shared=True)
    schedulers = []
    for number in range(2):
        queue = queue_of([entry(number, 4, 500.0, 10), entry(2 + number, 1, 50.0, 50)])
        load = Load(4, 1, [NodeSet(3, 100.0, draw_mw=25_000)])
        schedulers.append(EasyScheduler(load, queue, number, [region]))
    assert [served[1].arrival for served in serve(schedulers, 0.0)] == [2]
    assert [a.state.reservation for a in schedulers] == [(0, 4, 100.0), (1, 4, 100.0)]


def test_what_a_promise_held_that_is_given_up_goes_to_another_scheduler_at_once() -> None:
    """Job 1 is promised 90 W on the first scheduler until it starts on the second one, where it
    draws 10 W: job 2, on the third one, then has its watts."""
    region = budget((-inf, 100_000), is_shared=True)
    waiting = [
        Entry(1, 1, 4, 500.0, draw_mw=90_000),
        Entry(5, 1, 4, 500.0, draw_mw=10_000),
        Entry(3, 2, 1, 500.0, draw_mw=80_000),
    ]
    loads = [Load(4, 1, [NodeSet(3, 100.0)]), Load(4, 4), Load(4, 4)]
    schedulers = [
        EasyScheduler(load, queue_of([one]), number, [region])
        for number, (load, one) in enumerate(zip(loads, waiting, strict=True))
    ]
    assert [served[1].arrival for served in serve(schedulers, 0.0)] == [1, 2]


def slower(limit_s: float, watts: int) -> OtherMode:
    return OtherMode(limit_s, watts * 1000)


Make = Callable[..., EasyScheduler | ConsumableScheduler]
both = pytest.mark.parametrize("make", [counting, in_parts])


def modes_of(
    of: EasyScheduler | ConsumableScheduler, now_s: float = 0.0
) -> list[tuple[int, float, int]]:
    return [(e.arrival, e.limit_s, e.draw_mw // 1000) for _, e, *_ in of.pass_alone(now_s)]


@both
def test_an_entry_that_watts_refuse_starts_in_the_first_of_its_other_modes_that_fits(
    make: Make,
) -> None:
    waits = entry(0, 1, 50.0, 140)._replace(others=(slower(60.0, 110), slower(80.0, 90)))
    assert modes_of(make([waits], flat(100))) == [(0, 80.0, 90)]
    assert modes_of(make([waits], flat(110))) == [(0, 60.0, 110)]
    assert modes_of(make([waits], flat(140))) == [(0, 50.0, 140)]


@both
def test_a_faster_mode_ends_before_a_lower_step(make: Make) -> None:
    waits = entry(0, 1, 50.0, 60)._replace(others=(slower(40.0, 90),))
    assert modes_of(make([waits], budget((-inf, 100_000), (45.0, 10_000)))) == [(0, 40.0, 90)]


@both
def test_another_mode_delays_no_reservation_of_nodes_or_watts(make: Make) -> None:
    """Job 1 would last beyond 100 s in its slower mode, when job 0 needs all nodes."""
    first = entry(0, 8, 50.0, 60)
    waits = entry(1, 1, 90.0, 140)._replace(others=(slower(110.0, 90),))
    assert modes_of(make([first, waits], flat(100), held=4)) == []
    again = waits._replace(others=(slower(99.0, 90),))
    assert modes_of(make([first, again], flat(100), held=4)) == [(1, 99.0, 90)]
    # Where nodes refuse an entry, not watts, no other mode is tried.
    late = entry(1, 1, 120.0, 40)._replace(others=(slower(90.0, 50),))
    assert modes_of(make([first, late], flat(200), held=4)) == []


@both
def test_the_reservation_is_in_the_mode_that_may_start_first(make: Make) -> None:
    steps = budget((-inf, 50_000), (30.0, 90_000), (70.0, 200_000))
    waits = entry(0, 1, 50.0, 140)._replace(others=(slower(80.0, 90),))
    under_test = make([waits], steps)
    assert modes_of(under_test) == []
    assert under_test.reservation == (0, 1, 30.0)
    assert steps.reservation_of(0) == (30.0, 110.0, 90_000)
    assert modes_of(under_test, 30.0) == [(0, 80.0, 90)]


@pytest.mark.parametrize("until_s", [10.0, 60.0, inf])
def test_a_budget_without_a_step_has_no_cap(until_s: float) -> None:
    unlimited = budget()
    unlimited.advance(0.0)
    assert unlimited.least_headroom_mw(0.0, until_s) == NO_CAP_MW
    assert unlimited.has(10**12, until_s, 1)
    assert unlimited.next_step_s() == inf


def test_what_holds_nodes_draws_nothing_unless_it_is_said() -> None:
    assert started(counting([entry(0, 4, 50.0, 100)], flat(100), held=4)) == [0]


def test_what_is_held_reserved_and_given_back_is_counted_to_the_milliwatt() -> None:
    under_test = flat(100)
    under_test.advance(0.0)
    assert under_test.points(inf) == [(0.0, 100_000)]
    under_test.hold(7, 50.0, 30_001)
    assert under_test.points(inf) == [(0.0, 69_999)]
    under_test.release(7)
    assert under_test.points(inf) == [(0.0, 100_000)]
    under_test.reserve(5, 10.0, 10.0, 40_000)
    assert under_test.points(inf) == [(0.0, 100_000), (10.0, 60_000)]
    assert under_test.points(10.0) == [(0.0, 100_000)]
    under_test.advance(15.0)
    assert under_test.points(inf) == [(15.0, 60_000)]


@pytest.mark.parametrize("asks", [1, 9])
def test_a_reservation_stands_against_all_others_while_it_lasts_and_not_against_its_own(
    asks: int,
) -> None:
    under_test = flat(100)
    under_test.advance(0.0)
    under_test.reserve(5, 10.0, 10.0, 40_000)
    assert under_test.shortage(100_000, 30.0, 5) is None
    shortage = under_test.shortage(70_000, 30.0, asks)
    assert shortage is not None
    assert (shortage.at_s, shortage.available_mw, shortage.until_s) == (10.0, 60_000, 20.0)
    assert shortage.reserved_for == 5
    for from_s, expected_s in ((0.0, 20.0), (15.0, 20.0), (20.0, 20.0), (25.0, 25.0)):
        assert under_test.earliest(70_000, 30.0, from_s, asks) == expected_s
        assert under_test.earliest(100_000, 30.0, from_s, 5) == from_s


def test_who_has_no_number_has_no_reservation() -> None:
    under_test = flat(100)
    budgets = Budgets([under_test])
    budgets.begin(0.0)
    for arrival in range(2):
        under_test.reserve(arrival, 10.0, 10.0, 40_000)
        assert not budgets.has(70_000, 30.0)
        assert not under_test.has(70_000, 30.0)
        assert under_test.earliest(70_000, 30.0, 0.0) == 20.0
        assert budgets.has(70_000, 30.0, arrival)
        under_test.give_up(arrival)
