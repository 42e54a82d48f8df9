"""Lanes under budgets of power: examples of the rules."""

from math import inf

import numpy as np
import pytest

from shared.models.degradation import PRIOR_WEIGHTS
from shared.scheduling.easy import serve
from shared.scheduling.lane import Lane
from shared.scheduling.load import Load, NodeSet
from shared.scheduling.pairing import Pairing
from shared.scheduling.power import NO_CAP_MW, Cap, PowerBudget, Scope, Step
from shared.scheduling.queue import Entry, Line

PAIRING = Pairing(np.array([1.0]), 100.0, PRIOR_WEIGHTS, 1.25)
NAMES = {number: f"job-{number}" for number in range(10)}


def entry(
    arrival: int, nodes: int, limit_s: float, watts: int, *, shareable: bool = False
) -> Entry:
    app = 0 if shareable else -1
    return Entry(arrival, arrival, nodes, limit_s, shareable, app, watts * 1000)


def budget(*steps: Step, is_shared: bool = False, base_mw: int = 0) -> PowerBudget:
    cap = Cap(Scope.REGION if is_shared else Scope.CLUSTER, "alpha", steps)
    return PowerBudget(cap, base_mw, is_shared=is_shared)


def flat(watts: int) -> PowerBudget:
    return budget((-inf, watts * 1000))


def lane(entries: list[Entry], *budgets: PowerBudget, nodes: int = 8, number: int = 0) -> Lane:
    line = Line()
    for one in entries:
        line.add(one)
    return Lane(Load(nodes, nodes), line, PAIRING, number, NAMES, budgets)


def started(of: Lane, now_s: float = 0.0) -> list[int]:
    return [served[1].arrival for served in of.pass_alone(now_s)]


def test_an_entry_that_is_refused_for_watts_says_how_many_there_are() -> None:
    waits = entry(1, 1, 50.0, 60)
    under_test = lane([entry(0, 1, 100.0, 60), waits], flat(100))
    assert started(under_test) == [0]
    [shortage] = under_test.shortages(waits)
    assert (shortage.needed_mw, shortage.available_mw) == (60_000, 40_000)
    assert (shortage.at_s, shortage.until_s) == (0.0, 100.0)


def test_an_entry_that_no_cap_lets_start_blocks_nobody_and_says_so() -> None:
    waits = entry(0, 1, 50.0, 140)
    under_test = lane([waits, entry(1, 8, 100.0, 60), entry(2, 8, 9.0, 60)], flat(100))
    assert started(under_test) == [1]
    assert under_test.standing.reservation == (2, 8, 100.0)
    [shortage] = under_test.shortages(waits)
    assert (shortage.available_mw, shortage.until_s) == (40_000, inf)


def test_a_guest_that_ends_before_its_host_leaves_it_alone_on_its_nodes() -> None:
    pair = [entry(0, 2, 100.0, 60, shareable=True), entry(1, 2, 50.0, 30, shareable=True)]
    under_test = lane(pair, flat(100), nodes=2)
    assert started(under_test) == [0, 1]
    under_test.release(1)
    assert under_test.free == 0
    under_test.add(entry(2, 2, 60.0, 41, shareable=True))
    assert started(under_test, 10.0) == []
    under_test.add(entry(3, 2, 60.0, 40, shareable=True))
    assert started(under_test, 10.0) == [3]
    under_test.release(0)
    assert under_test.free == 0
    under_test.release(3)
    assert under_test.free == 2


def test_a_guest_stays_on_the_nodes_of_a_host_that_ends_first_and_may_be_joined() -> None:
    pair = [entry(0, 2, 100.0, 60, shareable=True), entry(1, 2, 150.0, 30, shareable=True)]
    under_test = lane(pair, nodes=2)
    assert started(under_test) == [0, 1]
    under_test.release(0)
    assert under_test.free == 0
    under_test.add(entry(2, 2, 60.0, 0, shareable=True))
    [served] = under_test.pass_alone(20.0)
    assert served[2] is not None
    assert served[2].host == "job-1"
    under_test.release(1)
    under_test.release(2)
    assert under_test.free == 2


def test_a_job_that_has_ended_cannot_be_joined() -> None:
    under_test = lane([entry(0, 2, 100.0, 0, shareable=True)])
    assert started(under_test) == [0]
    under_test.release(0)
    under_test.add(entry(1, 2, 60.0, 0, shareable=True))
    [served] = under_test.pass_alone(10.0)
    assert served[2] is None


def test_a_join_takes_no_watts_that_are_reserved() -> None:
    """140 W are promised at 100 s: a guest of 60 W until 1,000 s would make that impossible."""
    queue = [
        entry(0, 1, 100.0, 60),
        entry(1, 1, 1000.0, 60, shareable=True),
        entry(2, 1, 50.0, 140),
        entry(3, 1, 1000.0, 60, shareable=True),
        entry(4, 1, 100.0, 60, shareable=True),
    ]
    under_test = lane(queue, flat(200))
    assert started(under_test) == [0, 1, 4]
    assert under_test.standing.reservation == (2, 1, 100.0)


def test_what_starts_fits_under_a_lower_step_ahead_until_its_limit() -> None:
    steps = budget((-inf, 100_000), (60.0, 50_000))
    under_test = lane([entry(0, 1, 61.0, 60), entry(1, 1, 60.0, 60)], steps)
    assert started(under_test) == [1]


def test_a_step_up_starts_what_waited_for_it_and_is_the_promise() -> None:
    under_test = lane([entry(0, 1, 50.0, 60)], budget((-inf, 10_000), (70.0, 100_000)))
    assert started(under_test) == []
    assert under_test.standing.reservation == (0, 1, 70.0)
    assert started(under_test, 69.0) == []
    assert started(under_test, 70.0) == [0]


def test_idle_power_is_of_the_budget() -> None:
    under_test = lane(
        [entry(0, 1, 50.0, 60), entry(1, 1, 50.0, 50)], budget((-inf, 100_000), base_mw=50_000)
    )
    assert started(under_test) == [1]


def test_an_overdue_job_draws_until_it_ends() -> None:
    under_test = lane([entry(0, 1, 50.0, 60), entry(1, 1, 50.0, 60)], flat(100))
    assert started(under_test) == [0]
    assert started(under_test, 80.0) == []
    assert under_test.standing.reservation == (1, 1, 80.0)
    under_test.release(0)
    assert started(under_test, 90.0) == [1]


def test_a_shared_budget_holds_for_all_lanes_and_reserves_once_at_the_earliest() -> None:
    """Job 1 waits on both: for 100 s on the first, for 40 s on the second. The watts are kept from
    40 s on, so that job 2 may have those that it leaves at 100 s."""
    region = budget((-inf, 100_000), is_shared=True)
    line, other = Line(), Line()
    for one in (entry(1, 4, 30.0, 60), entry(2, 1, 40.0, 60), entry(3, 1, 60.0, 45)):
        line.add(one)
    other.add(Entry(1, 1, 4, 30.0, draw_mw=60_000))
    held = Load(4, 1, [NodeSet(3, 100.0, draw_mw=20_000)])
    soon = Load(4, 1, [NodeSet(3, 40.0, draw_mw=20_000)])
    lanes = [
        Lane(held, line, None, 0, NAMES, [region]),
        Lane(soon, other, None, 1, NAMES, [region]),
    ]
    assert [served[1].arrival for served in serve(lanes, 0.0)] == [2]
    assert [a.standing.reservation for a in lanes] == [(1, 4, 100.0), (1, 4, 40.0)]
    assert region.least_headroom_mw(0.0, 40.0) == 0
    assert region.least_headroom_mw(40.0, 70.0) == 20_000
    assert region.least_headroom_mw(70.0, 100.0) == 80_000


def test_a_candidate_that_loses_its_watts_to_another_lane_is_refused_and_reserves_nothing() -> None:
    """Both candidates were looked up while 50 W were left: the second one finds none."""
    region = budget((-inf, 100_000), is_shared=True)
    lines = [Line(), Line()]
    for number, line in enumerate(lines):
        line.add(entry(number, 4, 500.0, 10))
        line.add(entry(2 + number, 1, 50.0, 50))
    lanes = [
        Lane(Load(4, 1, [NodeSet(3, 100.0, draw_mw=25_000)]), line, None, number, NAMES, [region])
        for number, line in enumerate(lines)
    ]
    assert [served[1].arrival for served in serve(lanes, 0.0)] == [2]
    assert [a.standing.reservation for a in lanes] == [(0, 4, 100.0), (1, 4, 100.0)]


def test_what_a_promise_held_that_is_given_up_goes_to_another_lane_at_once() -> None:
    """Job 1 is promised 90 W on the first lane until it starts on the second one, where it draws
    10 W: job 2, on the third one, then has its watts."""
    region = budget((-inf, 100_000), is_shared=True)
    lines = [Line(), Line(), Line()]
    lines[0].add(Entry(1, 1, 4, 500.0, draw_mw=90_000))
    lines[1].add(Entry(5, 1, 4, 500.0, draw_mw=10_000))
    lines[2].add(Entry(3, 2, 1, 500.0, draw_mw=80_000))
    loads = [Load(4, 1, [NodeSet(3, 100.0)]), Load(4, 4), Load(4, 4)]
    lanes = [
        Lane(load, line, None, number, NAMES, [region])
        for number, (load, line) in enumerate(zip(loads, lines, strict=True))
    ]
    assert [served[1].arrival for served in serve(lanes, 0.0)] == [1, 2]


@pytest.mark.parametrize("until_s", [10.0, 60.0, inf])
def test_a_budget_without_a_step_has_no_cap(until_s: float) -> None:
    unlimited = budget()
    unlimited.advance(0.0)
    assert unlimited.least_headroom_mw(0.0, until_s) == NO_CAP_MW
    assert unlimited.has(10**12, until_s, 1)
    assert unlimited.next_step_s() == inf
