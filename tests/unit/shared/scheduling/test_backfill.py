"""EASY backfill: examples of the rules, and random systems against a walk without shortcuts."""

from sys import maxsize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.scheduling.backfill import Dispatch, Start, schedule, serve
from shared.scheduling.dispatch import DONE
from shared.scheduling.easy import EasyScheduler
from shared.scheduling.load import ClusterState, Load, NodeSet
from shared.scheduling.power import Cap, PowerBudget, Scope
from shared.scheduling.wait_queue import Entry, OtherMode, WaitQueue, WaitQueues, order_of
from tests.unit.shared.scheduling.plain_easy import PlainCluster, plain_schedule


def entry(arrival: int, nodes: int, limit_s: float, *, rank: int = 0, tier: int = 0) -> Entry:
    return Entry(order_of(tier, arrival, rank), arrival, nodes, limit_s)


def run(loads: dict[str, Load], **entries: list[Entry]) -> Dispatch:
    return run_at(0.0, loads, entries)


def run_at(now_s: float, loads: dict[str, Load], entries: dict[str, list[Entry]]) -> Dispatch:
    queues = WaitQueues()
    for cluster, waiting in entries.items():
        queues.add(cluster, waiting)
    numbered = enumerate(loads.items())
    schedulers = {name: EasyScheduler(load, queues.queue(name), n) for n, (name, load) in numbered}
    return schedule(now_s, schedulers)


def state_before(plan: Dispatch, cluster: str, entry: Entry) -> ClusterState:
    scheduler = plan.schedulers[cluster]
    assert isinstance(scheduler, EasyScheduler)
    return scheduler.state_before(entry)


def started(plan: Dispatch) -> list[tuple[int, str]]:
    return [(s.entry.arrival, s.cluster) for s in plan.starts]


def test_a_short_job_backfills_before_a_blocked_one() -> None:
    load = Load(4, 1, [NodeSet(3, 100.0)])
    plan = run({"a": load}, a=[entry(1, 4, 50), entry(2, 1, 100), entry(3, 1, 10)])
    assert [(s.entry.arrival, s.backfilled) for s in plan.starts] == [(2, True)]
    assert plan.reservations()["a"].start_s == 100.0


def test_an_overdue_job_is_expected_to_end_now() -> None:
    plan = run({"a": Load(4, 0, [NodeSet(4, -50.0)])}, a=[entry(1, 2, 50)])
    assert plan.reservations()["a"].start_s == 0.0


def test_a_reservation_ends_when_its_job_starts_elsewhere() -> None:
    loads = {"a": Load(4, 2, [NodeSet(2, 10.0)]), "b": Load(4, 4)}
    waiting = {"a": [entry(1, 4, 50), entry(2, 2, 999)], "b": [entry(1, 4, 50, tier=1, rank=1)]}
    plan = run(loads, **waiting)
    assert started(plan) == [(1, "b"), (2, "a")]
    assert plan.reservations() == {}


def test_what_backfilled_before_a_reservation_ended_starts_once() -> None:
    loads = {"a": Load(4, 2, [NodeSet(2, 10.0)]), "b": Load(4, 4)}
    waiting = {"a": [entry(1, 4, 50), entry(2, 1, 9)], "b": [entry(1, 4, 50, tier=1, rank=1)]}
    assert started(run(loads, **waiting)) == [(2, "a"), (1, "b")]


# Random systems ---------------------------------------------------------------------------------

jobs = st.lists(
    st.tuples(
        st.integers(1, 6),  # nodes
        st.sampled_from([1.0, 2.0, 3.0, 5.0, 8.0]),  # limit_s on cluster a
        st.sampled_from([(0, 0), (0, 1), (1, 0), (0, None), (None, 0)]),  # tiers on a and b
    ),
    min_size=1,
    max_size=14,
)
sizes = st.tuples(st.integers(2, 8), st.integers(2, 8))
Jobs = list[tuple[int, float, tuple[int | None, int | None]]]


def entries_of(waiting: Jobs) -> dict[str, list[Entry]]:
    """Entries of each cluster; cluster b is half as fast."""
    made: dict[str, list[Entry]] = {"a": [], "b": []}
    for arrival, (nodes, limit_s, tiers) in enumerate(waiting):
        for cluster, tier, factor in (("a", tiers[0], 1), ("b", tiers[1], 2)):
            if tier is not None:
                rank = int(tier == 1 or (tiers == (0, 0) and cluster == "b"))
                made[cluster].append(entry(arrival, nodes, limit_s * factor, rank=rank, tier=tier))
    return made


class System:
    """Two clusters in which every job runs exactly as long as its limit."""

    def __init__(self, sizes: tuple[int, int], waiting: Jobs) -> None:
        self.now_s = 0.0
        self.sizes = dict(zip("ab", sizes, strict=True))
        self.entries = entries_of(waiting)
        self.running: list[tuple[Start, float]] = []  # start, end

    def loads(self) -> dict[str, Load]:
        found = {}
        for name, size in self.sizes.items():
            held = [NodeSet(s.entry.nodes, end_s) for s, end_s in self.running if s.cluster == name]
            found[name] = Load(size, size - sum(s.nodes for s in held), held)
        return found

    def plan(self) -> Dispatch:
        return run_at(self.now_s, self.loads(), self.entries)

    def apply(self, plan: Dispatch) -> None:
        for start in plan.starts:
            self.running.append((start, self.now_s + start.entry.limit_s))
        gone = {s.entry.arrival for s in plan.starts}
        self.entries = {
            c: [e for e in es if e.arrival not in gone] for c, es in self.entries.items()
        }

    def advance(self) -> bool:
        """Go on to the next end of a job; False when nothing runs."""
        if not self.running:
            return False
        self.now_s = min(end_s for _, end_s in self.running)
        self.running = [r for r in self.running if r[1] > self.now_s]
        return True


@settings(max_examples=300, deadline=None)
@given(sizes, jobs)
def test_the_pass_equals_a_walk_without_shortcuts_and_tells_what_stood_against_each_entry(
    size: tuple[int, int], waiting: Jobs
) -> None:
    system = System(size, waiting)
    for _ in range(6):
        loads, entries = system.loads(), system.entries
        plain = {name: PlainCluster(loads[name], sorted(entries[name])) for name in "ab"}
        expected = plain_schedule(system.now_s, plain)
        plan = system.plan()
        assert started(plan) == expected
        promised = {c: (r.arrival, r.start_s) for c, r in plan.reservations().items()}
        assert promised == {c: p.reservation[:2] for c, p in plain.items() if p.reservation}
        at = {start.entry.arrival: start.entry.order for start in plan.starts}
        for name, cluster in plain.items():
            for entry in entries[name]:
                if entry.order < at.get(entry.arrival, maxsize):
                    found = state_before(plan, name, entry)
                    kept = (*found.reservation[::2], found.extra) if found.reservation else None
                    assert (found.free, kept) == cluster.refused[entry.order]
        system.apply(plan)
        if not system.advance():
            break


def test_the_promise_that_kept_a_job_back_is_told_after_it_was_given_up() -> None:
    loads = {"a": Load(4, 2, [NodeSet(2, 10.0)]), "b": Load(1, 1), "c": Load(4, 4)}
    waiting = {
        "a": [entry(1, 4, 50), entry(2, 1, 99)],
        "b": [entry(2, 1, 99, rank=1)],
        "c": [entry(1, 4, 50, tier=1, rank=1)],
    }
    plan = run(loads, **waiting)
    assert started(plan) == [(2, "b"), (1, "c")]
    assert plan.reservations() == {}
    found = state_before(plan, "a", waiting["a"][1])
    assert found.reservation == (1, 4, 10.0)


def test_who_gets_a_turn_again_is_refused_by_what_is_free_then() -> None:
    queue, refused = WaitQueue(), Entry(1, 1, 2, 99.0)
    for each in (Entry(0, 0, 4, 50.0), refused, Entry(2, 2, 1, 5.0)):
        queue.add(each)
    scheduler = EasyScheduler(Load(4, 2, [NodeSet(2, 10.0)]), queue)
    scheduler.begin(0.0)
    scheduler.turn()
    while scheduler.next_order != DONE:
        scheduler.serve()
        scheduler.turn()
    assert scheduler.state_before(refused).free == 2
    scheduler.look_again()
    assert scheduler.state_before(refused).free == 1


@pytest.mark.parametrize("alone", [True, False])
def test_who_is_behind_a_reservation_that_is_cancelled_between_passes_gets_the_next(
    alone: bool,
) -> None:
    """A defect that random lives met once: nobody was looked at any more."""
    queue, other = WaitQueue(), EasyScheduler(Load(1, 1), WaitQueue(), 1)
    for order in range(3):
        queue.add(Entry(order, order, 4 - order, 10.0))
    scheduler = EasyScheduler(Load(4, 1, [NodeSet(3, 50.0)]), queue)
    schedulers = [scheduler] if alone else [scheduler, other]
    assert serve(schedulers, 0.0) == []
    scheduler.drop(0)
    assert serve(schedulers, 0.0) == []
    assert scheduler.reservation == (1, 3, 50.0)


def test_a_job_has_a_reservation_on_each_cluster_where_it_waits_first() -> None:
    loads = {"a": Load(4, 1, [NodeSet(3, 100.0)]), "b": Load(4, 1, [NodeSet(3, 50.0)])}
    plan = run(loads, a=[entry(1, 4, 50)], b=[entry(1, 4, 50, rank=1)])
    found = plan.reservations_of(1)
    assert {name: each.start_s for name, each in found.items()} == {"a": 100.0, "b": 50.0}
    assert plan.reservations_of(2) == {}


@pytest.mark.parametrize(("nodes", "starts"), [(2, [(2, 40.0)]), (3, [])])
def test_another_mode_passes_what_waits_on_the_nodes_that_stay_free_beside_it(
    nodes: int, starts: list[tuple[int, float]]
) -> None:
    """As asked for it has no power; in the other mode it would end behind the reservation."""
    budget = PowerBudget(Cap(Scope.CLUSTER, "a", ((0.0, 100),)))
    budget.advance(0.0)
    queue = WaitQueue()
    queue.add(entry(1, 6, 50))
    slower = OtherMode(40.0, 60)
    queue.add(entry(2, nodes, 20)._replace(draw_mw=110, others=(slower,)))
    load = Load(8, 4, [NodeSet(4, 30.0)])
    scheduler = EasyScheduler(load, queue, number=0, budgets=[budget])
    served = scheduler.pass_alone(0.0)
    assert [(each.arrival, each.limit_s) for _, each, _, _ in served] == starts
