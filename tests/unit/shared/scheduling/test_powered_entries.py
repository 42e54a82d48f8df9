"""Blocks of a queue that lack power, against each of their entries asked by itself."""

from random import Random

from shared.scheduling.headroom import LeastHeadroom
from shared.scheduling.power import Budgets, Cap, PowerBudget, Scope
from shared.scheduling.powered_entries import PoweredEntries
from shared.scheduling.wait_queue import Entry, OtherMode, WaitQueue, order_of
from tests.support.seeds import of_each_seed
from tests.unit.shared.scheduling.systems import queue_of


def budgets(rng: Random) -> Budgets:
    """A cluster's and its site's, with steps, with jobs that run and with reservations."""
    found: list[PowerBudget] = []
    for scope in (Scope.CLUSTER, Scope.SITE):
        steps = [(hour * 3600.0, rng.randint(40, 120)) for hour in range(4)]
        budget = PowerBudget(Cap(scope, "name", tuple(steps)))
        budget.advance(0.0)
        for holder in range(rng.randint(0, 4)):
            budget.hold(10_000 + holder, rng.uniform(1, 9000), rng.randint(1, 20))
        found.append(budget)
    for arrival in rng.sample(range(300), 3):
        found[1].reserve(arrival, rng.uniform(0, 9000), rng.uniform(1, 5000), rng.randint(1, 60))
    return Budgets(found)


def queue(rng: Random) -> WaitQueue:
    found = WaitQueue()
    for arrival in range(300):
        slower = (OtherMode(rng.uniform(1, 9000), rng.randint(1, 90)),) * rng.randint(0, 1)
        power = rng.uniform(1, 9000), False, -1, rng.randint(1, 99), slower
        found.add(Entry(order_of(0, arrival, 0), arrival, 1, *power))
    for arrival in rng.sample(range(300), 60):
        found.remove(arrival)
    return found


def headroom(of: Budgets) -> LeastHeadroom:
    found = of.least_headroom
    assert found is not None
    return found


def has_power(of: Budgets, entry: Entry) -> bool:
    modes = [(entry.limit_s, entry.draw_mw), *entry.others]
    return any(of.has(draw_mw, limit_s, entry.arrival) for limit_s, draw_mw in modes)


@of_each_seed(range(40))
def test_a_block_that_is_passed_over_has_no_entry_with_power(seed: int) -> None:
    rng = Random(seed)
    waiting, of = queue(rng), budgets(rng)
    powered = PoweredEntries(waiting)
    powered.begin(0.0)
    passed = looked_at = 0
    for block in waiting.blocks:
        order = rng.choice(block.entries).order
        with_power = [e for e in block.entries if e.order >= order and has_power(of, e)]
        if not powered.has_any(block, order, headroom(of)):
            passed += 1
            assert not with_power
        looked_at += bool(with_power)
    assert passed + looked_at > 0


def waits(arrival: int, draw_mw: int) -> Entry:
    return Entry(order_of(0, arrival, 0), arrival, 1, 100.0, draw_mw=draw_mw)


def test_a_block_is_looked_at_for_who_has_power_or_reserved_the_watts() -> None:
    budget = PowerBudget(Cap(Scope.REGION, "", ((0.0, 10),)))
    budget.advance(0.0)
    waiting, of = queue_of([waits(0, 11)]), Budgets([budget])
    powered = PoweredEntries(waiting)
    powered.begin(0.0)
    assert not powered.has_any(waiting.blocks[0], 0, headroom(of))
    waiting.add(waits(1, 10))
    assert powered.has_any(waiting.blocks[0], 0, headroom(of))
    waiting.add(waits(2, 10))
    budget.reserve(1, 0.0, 100.0, 10)
    assert powered.has_any(waiting.blocks[0], 0, headroom(of))
    assert not powered.has_any(waiting.blocks[0], order_of(0, 2, 0), headroom(of))


def test_what_is_less_later_binds_nobody_who_ends_before() -> None:
    least = LeastHeadroom([(0.0, 9), (60.0, 4)], ())
    assert least.has(9, 0.0)
    assert least.has(9, 60.0)
    assert not least.has(9, 60.5)
    assert least.has(4, 60.5)
