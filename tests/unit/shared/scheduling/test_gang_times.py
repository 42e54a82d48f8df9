"""When the parts of a gang fit at once, against a plain search: node by node, release by release,
choice by choice."""

from collections.abc import Sequence
from random import Random

import numpy as np

from lab.simulation.eurora import Anybody
from shared.scheduling.capacity import AllocatedUnits, Capacity
from shared.scheduling.eligibility import Where
from shared.scheduling.node_classes import NodeClasses
from shared.scheduling.node_states import KnownStates
from shared.scheduling.part_matching import MatchedParts, NodeGroup, match_parts
from shared.scheduling.problem import Allocation, Kind, NodeTable, PartShape, Shape, wanted_of
from tests.support.seeds import of_each_seed

NAMES = ("cores", "memory_mib", "gpu")
HELD = [
    Kind("", Shape((8, 0, 0), exclusive=True, most_per_node=1)),
    Kind("one", Shape((2, 30, 0), exclusive=False, most_per_node=0)),
]
NEEDS = [(8, 0, 0), (8, 40, 0), (8, 0, 1)]
FROM_S = 1.0

_Choice = list[PartShape]


def choices_of(rng: Random, nodes: int) -> list[_Choice]:
    """Choices of places for the same parts, some of which may want nodes."""
    counts = [rng.randint(1, 3) for _ in range(rng.randint(1, 3))]
    needs = [rng.choice(NEEDS) for _ in counts]
    free = rng.sample(range(nodes), nodes)
    wanted = [1 << free.pop() if free and rng.random() < 0.2 else 0 for _ in counts]
    found: list[_Choice] = []
    for _ in range(rng.randint(1, 4)):
        places = [rng.getrandbits(nodes) | want for want in wanted]
        shapes = [
            Shape(need, True, 1, (Where(place, want),))
            for need, place, want in zip(needs, places, wanted, strict=True)
        ]
        found.append([PartShape(*each) for each in zip(counts, shapes, strict=True)])
    return found


def some_jobs(rng: Random, capacity: Capacity) -> list[AllocatedUnits]:
    held: list[AllocatedUnits] = []
    for holder in range(rng.randint(0, 10)):
        kind = rng.choice(HELD)
        exclusive = kind.shape.exclusive
        room = [
            node
            for node in range(capacity.table.nodes)
            if not (capacity.holders if exclusive else capacity.closed)[node]
            and all(
                row[node] >= need for row, need in zip(capacity.free, kind.shape.needs, strict=True)
            )
        ]
        chosen = tuple(sorted(rng.sample(room, rng.randint(0, min(3, len(room))))))
        if chosen:
            allocation = Allocation(chosen, (1,) * len(chosen))
            job = AllocatedUnits(float(rng.randint(-2, 9)), holder, kind, allocation)
            capacity.take(kind, allocation)
            held.append(job)
    return held


def matched_on(capacity: Capacity, parts: _Choice) -> MatchedParts:
    """What fits of the parts where a group is a node."""
    groups: list[NodeGroup] = []
    for node in range(capacity.table.nodes):
        fitting = 0
        for number, (_, shape) in enumerate(parts):
            enough = all(
                row[node] >= need for row, need in zip(capacity.free, shape.needs, strict=True)
            )
            if enough and not capacity.holders[node] and (shape.where[0].nodes >> node) & 1:
                fitting |= 1 << number
        groups.append(NodeGroup(node, 1, fitting))
    return match_parts([part.nodes for part in parts], wanted_of(parts), groups)


def plainly(
    capacity: Capacity, held: Sequence[AllocatedUnits], parts: _Choice
) -> tuple[float, MatchedParts]:
    """When the parts fit in their places, or all jobs have left."""
    left, time_s = capacity.copy(), FROM_S
    waiting = sorted(held, key=lambda job: job.release_s)
    while True:
        while waiting and waiting[0].release_s <= time_s:
            left.give(waiting[0].kind, waiting.pop(0).allocation)
        found = matched_on(left, parts)
        if not found.lacks or not waiting:
            return time_s, found
        time_s = waiting[0].release_s


@of_each_seed(range(300))
def test_a_gang_fits_when_a_search_through_all_releases_and_choices_finds_that_it_does(
    seed: int,
) -> None:
    rng = Random(seed)
    nodes = rng.randint(2, 9)
    gpus = [rng.randint(0, 1) for _ in range(nodes)]
    capacity = Capacity(NodeTable(NAMES, np.array([[8] * nodes, [64] * nodes, gpus])))
    choices, held = choices_of(rng, nodes), some_jobs(rng, capacity)
    states = KnownStates(Anybody(), capacity.groups)
    states.likeness.distinguish_sets(
        [
            named
            for parts in choices
            for part in parts
            for named in (part.shape.where[0].nodes, part.shape.where[0].wanted)
        ],
        nodes,
    )
    classes = NodeClasses(capacity, held, states)
    for parts in choices:
        assert classes.matched(parts).nodes == matched_on(capacity, parts).nodes
    found = classes.earliest_of_gang(choices, FROM_S)
    alone = [plainly(capacity, held, parts) for parts in choices]
    fitting = [(time_s, at) for at, (time_s, each) in enumerate(alone) if not each.lacks]
    if fitting:
        assert found.fits
        assert (found.start_s, found.way) == min(fitting)
        assert found.units == alone[found.way][1].nodes
    else:
        assert not found.fits
        assert (found.start_s, found.units) == (alone[0][0], alone[0][1].nodes)
    by_then = capacity.copy()
    for job in held:
        if job.release_s <= found.start_s:
            by_then.give(job.kind, job.allocation)
    for each, state in zip(classes.all, found.states, strict=True):
        free = {tuple(row[node] for row in by_then.free) for node in each.nodes}
        assert free == {states.by_number[state].free}
