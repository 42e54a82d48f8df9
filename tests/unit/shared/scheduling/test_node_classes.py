from math import inf
from random import Random

import numpy as np

from lab.simulation.eurora import Anybody
from shared.scheduling.capacity import AllocatedUnits, Capacity, Group
from shared.scheduling.node_classes import NodeClasses
from shared.scheduling.node_states import KnownStates, KnownWay
from shared.scheduling.problem import Allocation, Kind, NodeTable, Shape, units_in
from shared.scheduling.sharing import Member
from tests.support.seeds import of_each_seed

NAMES = ("cores", "memory_mib", "gpu")
KINDS = [
    Kind("", Shape((8, 0, 0), exclusive=True, most_per_node=1)),
    Kind("one", Shape((2, 30, 0), exclusive=False, most_per_node=0)),
    Kind("two", Shape((3, 10, 0), exclusive=False, most_per_node=2)),
    Kind("two", Shape((1, 10, 1), exclusive=False, most_per_node=1)),
]


class Differing(Anybody):
    """Jobs of one application do not go onto a node together."""

    def cost(self, newcomer: Member, group: Group) -> float:
        return inf if any(app == newcomer[0] for app, _ in group) else 0.0


def units_on(capacity: Capacity, kind: Kind) -> list[int]:
    """How many units fit on each node, node by node."""
    fitting = units_in(np.array(capacity.free), kind.shape)
    fitting[np.array(capacity.holders if kind.shape.exclusive else capacity.closed) > 0] = 0
    groups = [capacity.groups.by_number[number] for number in capacity.group]
    return [
        0 if not kind.shape.exclusive and any(app == kind.app for app, _ in group) else int(units)
        for units, group in zip(fitting, groups, strict=True)
    ]


def some_jobs(rng: Random, capacity: Capacity, count: int) -> list[AllocatedUnits]:
    held: list[AllocatedUnits] = []
    for holder in range(count):
        kind = rng.choice(KINDS)
        room = {node: units for node, units in enumerate(units_on(capacity, kind)) if units}
        chosen = sorted(rng.sample(sorted(room), rng.randint(0, len(room))))
        if chosen:
            units = tuple(rng.randint(1, room[node]) for node in chosen)
            job = AllocatedUnits(
                float(rng.randint(-2, 5)), holder, kind, Allocation(tuple(chosen), units)
            )
            capacity.take(kind, job.allocation)
            held.append(job)
    return held


def a_cluster(rng: Random) -> tuple[Capacity, list[AllocatedUnits]]:
    nodes = rng.randint(1, 12)
    amounts = np.array([[8] * nodes, [64] * nodes, [rng.randint(0, 1) for _ in range(nodes)]])
    capacity = Capacity(NodeTable(NAMES, amounts))
    return capacity, some_jobs(rng, capacity, 6)


def states_of(capacity: Capacity) -> KnownStates:
    return KnownStates(Differing(), capacity.groups)


def way_of(states: KnownStates, kind: Kind) -> KnownWay:
    [found] = states.ways(kind)
    return found


@of_each_seed(range(60))
def test_as_many_units_fit_as_node_by_node_whoever_came_before_or_since(seed: int) -> None:
    rng = Random(seed)
    capacity, held = a_cluster(rng)
    states = states_of(capacity)
    classes = NodeClasses(capacity, held, states)
    for job in [None, *some_jobs(rng, capacity.copy(), 3)]:
        if job is not None:
            capacity.take(job.kind, job.allocation)
            classes.take(job.kind, job.allocation, job.release_s)
        assert sorted(node for each in classes.all for node in each.nodes) == list(
            range(capacity.table.nodes)
        )
        for kind in KINDS:
            on = units_on(capacity, kind)
            assert classes.total(way_of(states, kind)) == sum(on)
            for each in classes.all:
                assert {on[node] for node in each.nodes} == {
                    states.units_in(states.units(kind), each.now)
                }


@of_each_seed(range(60))
def test_units_are_there_as_soon_as_enough_jobs_have_left(seed: int) -> None:
    rng = Random(seed)
    capacity, held = a_cluster(rng)
    states = states_of(capacity)
    classes = NodeClasses(capacity, held, states)
    for kind in KINDS:
        for count in (1, 5, 1000):
            found = classes.earliest(way_of(states, kind), count, 1.0)
            left, time_s = capacity.copy(), 1.0
            waiting = sorted(held, key=lambda job: job.release_s)
            while True:
                while waiting and waiting[0].release_s <= time_s:
                    left.give(waiting[0].kind, waiting.pop(0).allocation)
                on = units_on(left, kind)
                if sum(on) >= count or not waiting:
                    break
                time_s = waiting[0].release_s
            assert (found.start_s, found.units) == (time_s, sum(on))
            for each, state in zip(classes.all, found.states, strict=True):
                assert {on[node] for node in each.nodes} == {
                    states.units_in(states.units(kind), state)
                }


def test_nodes_of_one_job_are_one_class_until_another_takes_some_of_them() -> None:
    capacity = Capacity(NodeTable(NAMES, np.array([[8] * 6, [64] * 6, [0] * 6])))
    job = AllocatedUnits(9.0, 1, KINDS[1], Allocation((0, 1, 2, 3), (1, 1, 1, 1)))
    capacity.take(job.kind, job.allocation)
    classes = NodeClasses(capacity, [job], states_of(capacity))
    assert sorted(each.nodes for each in classes.all) == [[0, 1, 2, 3], [4, 5]]
    classes.take(KINDS[2], Allocation((2, 3, 4), (1, 2, 1)), 5.0)
    assert sorted(each.nodes for each in classes.all) == [[0, 1], [2], [3], [4], [5]]
