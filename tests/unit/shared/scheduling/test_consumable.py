"""Clusters whose nodes are given out in parts: examples, and random systems against plain rules."""

from collections.abc import Iterable, Sequence
from math import inf
from random import Random

import numpy as np

from shared.scheduling.backfill import serve
from shared.scheduling.capacity import NOBODY, AllocatedUnits, Capacity, Group
from shared.scheduling.consumable import ConsumableScheduler
from shared.scheduling.easy import EasyScheduler
from shared.scheduling.load import Load, NodeSet, Reservation
from shared.scheduling.node_states import MOST_KEPT, KnownStates, NodeState
from shared.scheduling.power import Cap, PowerBudget, Scope
from shared.scheduling.problem import Allocation, Kind, NodeTable, Shape, units_in
from shared.scheduling.sharing import Member
from shared.scheduling.wait_queue import Entry, WaitQueue, order_of
from tests.support.seeds import of_each_seed
from tests.unit.shared.scheduling.systems import Pairs, queue_of

CORES, MEMORY = 4, 64
SEEDS = range(300)


def whole(app: int = 0) -> Kind:
    return Kind(str(app), Shape((CORES, 0), exclusive=True, most_per_node=1))


def part(cores: int, *, memory: int = 0, app: int = 0, most: int = 0, gpus: int = 0) -> Kind:
    return Kind(str(app), Shape((cores, memory, gpus), exclusive=False, most_per_node=most))


def table(nodes: int, gpu_nodes: int = 0) -> NodeTable:
    gpus = [2 if node < gpu_nodes else 0 for node in range(nodes)]
    return NodeTable(
        ("cores", "memory_mib", "gpu"),
        np.array([[CORES] * nodes, [MEMORY] * nodes, gpus], dtype=np.int64),
    )


def scheduler(
    kinds: list[Kind],
    entries: list[Entry],
    *,
    nodes: int = 4,
    gpu_nodes: int = 0,
    held: list[AllocatedUnits] | None = None,
    refused: set[tuple[str, str]] | None = None,
    budgets: Sequence[PowerBudget] = (),
) -> ConsumableScheduler:
    capacity = Capacity(table(nodes, gpu_nodes))
    for each in held or []:
        capacity.take(each.kind, each.allocation)
    queue, neighbours = queue_of(entries), Pairs(*(refused or ()))
    return ConsumableScheduler(capacity, held or [], queue, kinds, neighbours, budgets=budgets)


def entry(arrival: int, kind: int, units: int, limit_s: float) -> Entry:
    return Entry(order_of(0, arrival, 0), arrival, units, limit_s, kind=kind)


def started(made: ConsumableScheduler, now_s: float = 0.0) -> dict[int, Allocation]:
    found = {}
    for _, served, allocation, _ in made.pass_alone(now_s):
        assert isinstance(allocation, Allocation)
        found[served.arrival] = allocation
    return found


def test_units_of_several_jobs_fill_a_node_but_where_each_wants_its_own_or_memory_binds() -> None:
    found = started(scheduler([part(1)], [entry(1, 0, 3, 9), entry(2, 0, 1, 9)], nodes=1))
    assert found == {1: Allocation((0,), (3,)), 2: Allocation((0,), (1,))}
    found = started(scheduler([part(1, most=1)], [entry(1, 0, 3, 9)]))
    assert found == {1: Allocation((0, 1, 2), (1, 1, 1))}
    made = scheduler([part(1, memory=40)], [entry(1, 0, 1, 9), entry(2, 0, 1, 9)], nodes=1)
    assert started(made).keys() == {1}
    assert made.units_now(entry(2, 0, 1, 9)) == 0


def test_jobs_without_gpus_leave_the_nodes_that_have_them_and_who_fits_nowhere_just_waits() -> None:
    made = scheduler(
        [part(1, gpus=3), part(1)], [entry(1, 0, 1, 9), entry(2, 1, 1, 9)], gpu_nodes=4
    )
    assert started(made).keys() == {2}
    assert made.reservation is None
    kinds = [part(4), part(1, gpus=1)]
    found = started(scheduler(kinds, [entry(1, 0, 2, 9), entry(2, 1, 2, 9)], nodes=3, gpu_nodes=1))
    assert found == {1: Allocation((1, 2), (1, 1)), 2: Allocation((0,), (2,))}


def test_nobody_comes_beside_a_job_that_is_to_be_alone() -> None:
    alone = Kind("0", Shape((1, 0, 0), exclusive=True, most_per_node=0))
    found = started(scheduler([alone, part(1)], [entry(1, 0, 2, 9), entry(2, 1, 1, 9)], nodes=1))
    assert found == {1: Allocation((0,), (2,))}


def test_neighbours_that_do_not_go_together_get_nodes_of_their_own() -> None:
    kinds = [part(1, app=0), part(1, app=1)]
    waiting = [entry(1, 0, 1, 9), entry(2, 1, 1, 9)]
    assert started(scheduler(kinds, waiting, nodes=1, refused={("0", "1")})).keys() == {1}
    found = started(scheduler(kinds, waiting, nodes=2, refused={("0", "1")}))
    assert found == {1: Allocation((0,), (1,)), 2: Allocation((1,), (1,))}


def test_a_reservation_keeps_the_nodes_that_it_counts_on() -> None:
    """Node 0 is free and half of node 1: the wide job needs both, whole, at 100 s."""
    held = [AllocatedUnits(100.0, 9, part(2), Allocation((1,), (1,)))]
    kinds = [part(2), part(4, most=1), part(2)]
    waiting = [entry(1, 1, 2, 50), entry(2, 2, 1, 200), entry(3, 2, 1, 90)]
    made = scheduler(kinds, waiting, nodes=2, held=held)
    assert started(made).keys() == {3}
    assert made.reservation is not None
    assert made.reservation.start_s == 100.0
    nowhere = [part(4, most=1, gpus=1), part(2)]
    waiting = [entry(1, 0, 1, 50), entry(2, 1, 1, 500)]
    made = scheduler(nowhere, waiting, nodes=3, gpu_nodes=0, held=held)
    assert started(made) == {2: Allocation((1,), (1,))}, "no GPU anywhere: nothing is reserved"


def test_what_lasts_beyond_a_reservation_goes_where_it_takes_the_least_of_it() -> None:
    """3 cores are free on node 0, on node 1 5 and GPUs that it does not need; the wide job needs 4
    of each at 100 s, so that one of 5 is left."""
    held = [AllocatedUnits(100.0, 9, part(1), Allocation((0,), (1,)))]
    nodes = NodeTable(("cores", "memory_mib", "gpu"), np.array([[4, 5], [0, 0], [0, 2]]))
    capacity, kinds = Capacity(nodes), [part(4), part(1)]
    capacity.take(held[0].kind, held[0].allocation)
    waiting = [entry(1, 0, 2, 50), entry(2, 1, 1, 500), entry(3, 1, 1, 500), entry(4, 1, 1, 90)]
    made = ConsumableScheduler(capacity, held, queue_of(waiting), kinds, Pairs())
    found = started(made)
    assert found == {2: Allocation((1,), (1,)), 4: Allocation((0,), (1,))}
    assert made.reservation == Reservation(1, 2, 100.0)


def test_why_nobody_is_a_neighbour_is_asked_of_those_beside_whom_there_is_room() -> None:
    class Asked(Pairs):
        def refusal(self, newcomer: Member, groups: Iterable[Group]) -> str:
            return f"{newcomer} {list(groups)}"

    capacity, kinds = Capacity(table(4)), [part(2, app=1), part(1, app=2), part(4, app=3)]
    held = [AllocatedUnits(9.0, n, kinds[n], Allocation((n,), (1,))) for n in range(3)]
    for each in held:
        capacity.take(each.kind, each.allocation)
    made = ConsumableScheduler(capacity, held, WaitQueue(), kinds, Asked())
    assert made.why_no_neighbour(entry(5, 0, 1, 9)) == "('1', 2) [(('1', 2),), (('2', 1),)]"
    assert made.why_no_neighbour(entry(6, 2, 1, 9)) == "('3', 4) []"


def test_what_is_known_of_states_is_full_once_more_is_kept_than_it_is_worth() -> None:
    known = KnownStates(Pairs(), Capacity(table(1)).groups)
    empty = known.number(NodeState((CORES, MEMORY, 0), (CORES, MEMORY, 0), 0, 0, NOBODY))
    for app in range(MOST_KEPT // 5):
        kind = part(1, app=app)
        of_job = known.units_of_job(kind, 1)
        joined = known.add_units(empty, of_job)
        assert known.remove_units(joined, of_job) == empty
        assert known.units_in(known.units(kind), empty) == CORES
        known.cost(kind, 1, known.by_number[joined].group)
    assert not known.is_full
    known.units_in(known.units(part(2)), empty)
    assert known.is_full


def test_a_small_job_at_the_end_of_a_long_queue_of_wide_ones_starts() -> None:
    held = [AllocatedUnits(100.0, 9, part(2), Allocation((0,), (1,)))]
    waiting = [*(entry(arrival, 0, 1, 200) for arrival in range(1, 600)), entry(600, 1, 1, 50)]
    made = scheduler([part(CORES), part(1)], waiting, nodes=1, held=held)
    assert started(made).keys() == {600}
    assert made.reservation == Reservation(1, 1, 100.0)


def watts(arrival: int, limit_s: float, draw_w: int, kind: int = 0) -> Entry:
    order = order_of(0, arrival, 0)
    return Entry(order, arrival, 1, limit_s, kind=kind, draw_mw=draw_w * 1000)


def flat(cap_w: int) -> PowerBudget:
    return PowerBudget(Cap(Scope.CLUSTER, "alpha", ((-inf, cap_w * 1000),)))


def test_a_guest_that_ends_before_its_host_leaves_it_alone_on_its_node() -> None:
    pair = [watts(1, 100.0, 60), watts(2, 50.0, 30)]
    made = scheduler([part(2)], pair, nodes=1, budgets=[flat(100)])
    assert started(made).keys() == {1, 2}
    made.release(2)
    made.add(watts(3, 60.0, 41))
    assert started(made, 10.0) == {}
    made.add(watts(4, 30.0, 40))
    assert started(made, 10.0).keys() == {4}
    made.release(1)
    made.release(4)
    assert made.capacity.free[0][0] == CORES


def test_a_join_takes_no_watts_that_are_reserved() -> None:
    """140 W are promised at 100 s: a guest of 60 W until 1,000 s would make that impossible."""
    kinds = [part(2), Kind("", Shape((CORES, 0, 0), exclusive=True, most_per_node=1))]
    queue = [
        watts(1, 100.0, 60, 1),
        watts(2, 1000.0, 60),
        watts(3, 50.0, 140, 1),
        watts(4, 1000.0, 60),
        watts(5, 100.0, 60),
    ]
    made = scheduler(kinds, queue, budgets=[flat(200)])
    assert started(made).keys() == {1, 2, 5}
    assert made.reservation == (3, 1, 100.0)


def random_kind(rng: Random) -> Kind:
    app = str(rng.randrange(3))
    if rng.random() < 0.3:
        return Kind(app, Shape((CORES, 0, 0), exclusive=True, most_per_node=1))
    most = rng.choice([0, 1, 1, 2])
    gpus = rng.choice([0, 0, 0, 1])
    shape = Shape((rng.randint(1, CORES), rng.choice([0, 10, 33]), gpus), rng.random() < 0.2, most)
    return Kind(app, shape)


def units_on(capacity: Capacity, shape: Shape) -> list[int]:
    """How many units fit on each node beside whoever is there."""
    fitting = units_in(np.array(capacity.free), shape)
    fitting[np.array(capacity.holders if shape.exclusive else capacity.closed) > 0] = 0
    return [int(units) for units in fitting]


def random_case(seed: int) -> ConsumableScheduler:
    """Some jobs that run, and some that wait."""
    rng = Random(seed)
    nodes, gpu_nodes = rng.randint(1, 6), rng.randint(0, 2)
    kinds = [random_kind(rng) for _ in range(6)]
    refused = {
        pair for pair in [("0", "1"), ("1", "1"), ("1", "2"), ("2", "2")] if rng.random() < 0.3
    }
    capacity, held = Capacity(table(nodes, gpu_nodes)), list[AllocatedUnits]()
    for holder in range(-1, -1 - rng.randint(0, 8), -1):
        kind = rng.choice(kinds)
        room = {n: u for n, u in enumerate(units_on(capacity, kind.shape)) if u}
        chosen = sorted(rng.sample(sorted(room), rng.randint(0, len(room))))
        if chosen:
            allocation = Allocation(tuple(chosen), tuple(rng.randint(1, room[n]) for n in chosen))
            held.append(
                AllocatedUnits(float(rng.choice([-5, 10, 20, 40, 80])), holder, kind, allocation)
            )
            capacity.take(kind, allocation)
    waiting = [
        entry(arrival, rng.randrange(6), rng.randint(1, 5), float(rng.choice([5, 15, 30, 100])))
        for arrival in range(1, rng.randint(2, 14))
    ]
    return scheduler(kinds, waiting, nodes=nodes, gpu_nodes=gpu_nodes, held=held, refused=refused)


@of_each_seed(SEEDS)
def test_whole_nodes_start_as_they_do_by_counting(seed: int) -> None:
    rng = Random(seed)
    nodes = rng.randint(1, 12)
    held: list[AllocatedUnits] = []
    sets, free = list[NodeSet](), list(range(nodes))
    while free and rng.random() < 0.7:
        took = tuple(sorted(rng.sample(free, rng.randint(1, len(free)))))
        free = [node for node in free if node not in took]
        release_s = float(rng.choice([-5, 10, 20, 40, 80]))
        held.append(
            AllocatedUnits(release_s, -1 - len(held), whole(), Allocation(took, (1,) * len(took)))
        )
        sets.append(NodeSet(len(took), release_s))
    waiting = [
        entry(arrival, 0, rng.randint(1, nodes), float(rng.choice([5, 15, 30, 100])))
        for arrival in range(1, rng.randint(2, 20))
    ]
    simple = EasyScheduler(Load(nodes, len(free), sets), queue_of(waiting))
    amounts = np.array([[CORES] * nodes, [MEMORY] * nodes], dtype=np.int64)
    capacity = Capacity(NodeTable(("cores", "memory_mib"), amounts))
    for job in held:
        capacity.take(job.kind, job.allocation)
    made = ConsumableScheduler(capacity, held, queue_of(waiting), [whole()], Pairs())
    expected = [(e.arrival, backfilled) for _, e, _, backfilled in serve([simple], 0.0)]
    assert [(e.arrival, b) for _, e, _, b in serve([made], 0.0)] == expected
    assert made.reservation == simple.state.reservation


def made_anew(made: ConsumableScheduler, states: KnownStates | None = None) -> ConsumableScheduler:
    """The same jobs run and wait; `states` are known from passes before."""
    queue, held = queue_of(made.queue), list(made.allocated.values())
    capacity = made.capacity.copy()
    return ConsumableScheduler(capacity, held, queue, made.kinds, made.neighbours, states=states)


@of_each_seed(SEEDS)
def test_a_scheduler_that_lives_on_starts_what_one_made_anew_starts(seed: int) -> None:
    rng = Random(seed)
    made = random_case(seed)
    kept = KnownStates(made.neighbours, made.capacity.groups)
    now_s, arrival = 0.0, 100
    for _ in range(6):
        again = [made_anew(made), made_anew(made, kept)]
        starts = started(made, now_s)
        for other in again:
            assert started(other, now_s) == starts
            assert other.reservation == made.reservation
        now_s += rng.choice([1.0, 7.0, 20.0])
        for holder in sorted(made.allocated):
            if made.allocated[holder].release_s <= now_s or rng.random() < 0.1:
                made.release(holder)
        for _ in range(rng.randint(0, 3)):
            arrival += 1
            made.add(entry(arrival, rng.randrange(6), rng.randint(1, 5), 30.0))


def test_small_units_on_large_nodes_ask_few_questions_about_neighbours() -> None:
    """Of 1,000 units that fit beside a job its policy accepts 300: searched by halving."""

    class Few(Pairs):
        asked = 0

        def cost(self, newcomer: Member, group: Group) -> float:
            self.asked += 1
            return inf if group and newcomer[1] > 300 else 0.0

    neighbours = Few()
    amounts = np.array([[1001], [MEMORY], [0]], dtype=np.int64)
    capacity = Capacity(NodeTable(("cores", "memory_mib", "gpu"), amounts))
    held = AllocatedUnits(9.0, -1, part(1), Allocation((0,), (1,)))
    capacity.take(held.kind, held.allocation)
    one = ConsumableScheduler(capacity, [held], WaitQueue(), [part(1, app=1)], neighbours)
    assert one.units_now(entry(1, 0, 1, 9)) == 300
    assert neighbours.asked <= 11


def test_who_accepts_nobody_is_asked_about_no_group_and_gets_what_is_empty() -> None:
    class Alone(Pairs):
        def accepts_anyone(self, app: str) -> bool:
            return app != "1"

        def cost(self, newcomer: Member, group: Group) -> float:
            assert newcomer[0] != "1"
            return 0.0

    capacity = Capacity(table(3))
    held = AllocatedUnits(9.0, -1, part(1), Allocation((0, 1), (1, 1)))
    capacity.take(held.kind, held.allocation)
    kinds = [part(1, app=1), part(1, app=2)]
    one = ConsumableScheduler(capacity, [held], WaitQueue(), kinds, Alone())
    assert one.units_now(entry(1, 0, 1, 9)) == CORES
    assert one.units_now(entry(1, 1, 1, 9)) == 3 * CORES - 2


def test_what_is_apart_numbers_groups_by_itself() -> None:
    capacity = Capacity(table(2))
    other = capacity.copy(is_separate=True)
    capacity.take(part(1, app=1), Allocation((0,), (1,)))
    other.take(part(2, app=2), Allocation((0,), (1,)))
    assert capacity.groups.by_number[capacity.group[0]] == (("1", 1),)
    assert other.groups.by_number[int(other.group[0])] == (("2", 2),)
    assert len(capacity.groups) == 2


def test_units_that_are_never_back_are_promised_to_nobody_and_keep_nobody_back() -> None:
    """Neither on nodes that are counted; whether there are caps or not."""
    one, never = Kind("0", Shape((1, 0, 0), exclusive=True, most_per_node=1)), [(1, inf), (2, inf)]
    entries = [entry(11, 0, 3, 9), entry(12, 0, 2, 9), entry(13, 0, 1, 99)]
    for caps in ([], [Cap(Scope.REGION, "", ((0.0, 1),))]):
        held = [AllocatedUnits(s, n, one, Allocation((n,), (1,))) for n, s in [*never, (3, 50.0)]]
        parts = scheduler([one], entries, held=held, budgets=[*map(PowerBudget, caps)])
        load = Load(4, 1, [NodeSet(1, s) for _, s in [*never, (3, 50.0)]])
        counted = EasyScheduler(load, queue_of(entries), budgets=[*map(PowerBudget, caps)])
        for made in (parts, counted):
            assert [served[1].arrival for served in made.pass_alone(0.0)] == []
            assert made.reservation == Reservation(12, 2, 50.0)
            assert not made.expects_nodes(entries[0])
            assert made.expects_nodes(entries[1])
            made.drop(12)
            assert [served[1].arrival for served in made.pass_alone(1.0)] == [13]


def test_a_job_that_is_to_run_for_ever_from_now_on_holds_its_nodes_for_ever() -> None:
    held = [AllocatedUnits(9.0, -1, part(1), Allocation((0,), (1,)))]
    made = scheduler([part(CORES)], [entry(1, 0, 1, 9.0)], nodes=1, held=held)
    assert not made.is_any_allocated_for_ever
    made.redraw(-1, inf, 0)
    assert made.is_any_allocated_for_ever
    assert not started(made)
    assert made.reservation is None
