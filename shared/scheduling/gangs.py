"""Which nodes a gang takes, and what starts beside a gang that nodes are reserved for.

A node of a gang has no other job, so a job that lasts beyond the shadow time takes a node from a
reserved gang where it has anything of it. It starts where the gang still fits on the nodes that are
left: which of these are whose is open until then.
"""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np

from shared.domain.cluster import Cluster
from shared.domain.job import Job
from shared.scheduling.eligibility import NOTHING_REFUSED, NodeBits, RefusedToJob
from shared.scheduling.node_classes import EqualNodes, NodeClasses
from shared.scheduling.node_states import KnownStates
from shared.scheduling.part_matching import NodeGroup, match_parts, pins_of
from shared.scheduling.problem import (
    NodeTable,
    PartShape,
    kind_on,
    match_on,
    wanted_of,
    ways_of,
)

# More than a node can have of all resources: a node that boots is dearer, and more so a unit of a
# reservation.
_DEARER_BOOT: Final = 2**36
_DEARER: Final = 2**40


class GangChoice(NamedTuple):
    """Nodes that are as good, how many of these, and how many units on each at most; and the units
    that this costs a reservation."""

    taken: list[tuple[list[int], int, int]]
    lost: int


def nodes_of_parts(
    job: Job, cluster: Cluster, nodes: Sequence[int], refused: RefusedToJob = NOTHING_REFUSED
) -> list[list[int]]:
    """Return which of its nodes each part of a gang has, ascending; nothing where they are not such
    that each part may have its own."""
    table = NodeTable.build(cluster)
    kind = kind_on(job, cluster, table.names, refused)
    free = np.zeros_like(table.amounts)
    free[:, nodes] = table.amounts[:, nodes]
    for way in ways_of(kind) if kind is not None else ():
        alike = [PartShape(part.nodes, way.kind.shape) for part in job.parts]
        parts = way.kind.shape.parts or alike
        matched, groups = match_on(parts, free)
        if not matched.lacks:
            return _each_with_its_own(matched.taken, groups)
    return []


def _each_with_its_own(taken: list[list[int]], groups: list[list[int]]) -> list[list[int]]:
    """Return the nodes of each part, of which it takes so many of each group."""
    found: list[list[int]] = []
    given = [0] * len(groups)
    for counts in taken:
        own: list[int] = []
        for at, count in enumerate(counts):
            own += groups[at][given[at] : given[at] + count]
            given[at] += count
        found.append(sorted(own))
    return found


def of_gang(
    classes: NodeClasses,
    states: KnownStates,
    parts: Sequence[PartShape],
    reserved: Sequence[PartShape],
    lost: Sequence[int],
    levels: Sequence[int],
) -> GangChoice | None:
    """Return the nodes for the parts of a gang that cost a reservation least, of which a node of
    each class costs so many units, or that leave the parts of a `reserved` gang theirs; None where
    there are too few. Of those that are as good it takes nodes that have least beside cores and
    memory, behind those at lower `levels`, which are on sooner."""
    both = [*parts, *reserved]
    wanted = wanted_of(both)
    now = classes.groups_of(parts, [each.now for each in classes.all])
    then = classes.groups_of(reserved, [each.then for each in classes.all]) if reserved else now
    pools = _Pools()
    for at, each in enumerate(classes.all):
        fitting = now[at].parts | (then[at].parts << len(parts) if reserved else 0)
        named = sum(states.by_number[each.now].amounts[2:]) + _DEARER_BOOT * levels[at]
        pools.add((fitting, lost[at], named, pins_of(wanted, each.nodes[0])), each.nodes)
    found = pools.in_order()
    groups = [
        NodeGroup(nodes[0], len(nodes), fitting, _DEARER * costs + named)
        for (fitting, costs, named, _), nodes in found
    ]
    matched = match_parts([part.nodes for part in both], wanted, groups)
    if matched.lacks:
        return None
    taken: list[tuple[list[int], int, int]] = []
    total = 0
    for at, ((_, costs, _, _), nodes) in enumerate(found):
        count = sum([matched.taken[part][at] for part in range(len(parts))])
        if count:
            taken.append((nodes, count, 1))
            total += count * costs
    return GangChoice(taken, total)


def beside_gang(
    classes: NodeClasses,
    own: Sequence[tuple[EqualNodes, int]],
    options: Sequence[tuple[int, EqualNodes, int]],
    reserved: Sequence[PartShape],
    count: int,
) -> GangChoice | None:
    """Return the nodes for so many units that leave a reserved gang its own, of classes with their
    place among the best and the units that fit on each; None where there are too few. `own` nodes,
    with the units on each, are taken already.

    Nodes that the gang can spare are a matroid, so taking those on which most units fit first finds
    enough where there are enough.
    """
    wanted = wanted_of(reserved)
    groups = classes.groups_of(reserved, [each.then for each in classes.all])
    left = _Left([part.nodes for part in reserved], wanted, groups)
    keys = {
        id(each): (group.parts, pins_of(wanted, group.first))
        for each, group in zip(classes.all, groups, strict=True)
    }
    for each, units in own:
        if left.take(keys[id(each)], 1) < 1:
            return None
        count -= units
    pools = _Pools()
    for place, each, units in options:
        fitting, pins = keys[id(each)]
        first = (1, -units) if fitting else (0, 0)
        pools.add((*first, place, units, fitting, pins), each.nodes)
    taken: list[tuple[list[int], int, int]] = []
    for (*_, units, fitting, pins), nodes in sorted(pools.in_order(), key=itemgetter(0)):
        if count <= 0:
            break
        spare = left.take((fitting, pins), min(len(nodes), -(-count // units)))
        if spare:
            taken.append((nodes, spare, units))
            count -= spare * units
    return GangChoice(taken, 0) if count <= 0 else None


class _Pools:
    """Nodes that are as good, whatever else distinguishes them: what is chosen must not depend on
    the classes, which are finer the longer a placement has lived."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, ...], list[int]] = {}

    def add(self, key: tuple[int, ...], nodes: Iterable[int]) -> None:
        """Put nodes to those of the same key."""
        self._nodes.setdefault(key, []).extend(nodes)

    def in_order(self) -> list[tuple[tuple[int, ...], list[int]]]:
        """Return the keys with their nodes, ascending by these."""
        found = [(key, sorted(nodes)) for key, nodes in self._nodes.items()]
        return sorted(found, key=itemgetter(1))


class _Left:
    """Nodes of which a reserved gang must get its own, by the parts that they fit, a bit each, and
    those that want them."""

    def __init__(
        self, counts: Sequence[int], wanted: Sequence[NodeBits], groups: Sequence[NodeGroup]
    ) -> None:
        self._counts, self._wanted = counts, wanted
        self._groups: dict[tuple[int, int], NodeGroup] = {}
        for group in groups:
            key = group.parts, pins_of(wanted, group.first)
            known = self._groups.get(key)
            more = 0 if known is None else known.nodes
            self._groups[key] = group._replace(nodes=group.nodes + more)

    def take(self, key: tuple[int, int], most: int) -> int:
        """Take so many nodes at most, as many as the gang can spare: return how many."""
        group = self._groups[key]
        least = 0 if group.parts else most
        while least < most:
            middle = (least + most + 1) // 2
            if self._fits(key, group.nodes - middle):
                least = middle
            else:
                most = middle - 1
        self._groups[key] = group._replace(nodes=group.nodes - most)
        return most

    def _fits(self, key: tuple[int, int], nodes: int) -> bool:
        """Return whether the gang fits with so many nodes of a key."""
        groups = self._groups | {key: self._groups[key]._replace(nodes=nodes)}
        return not match_parts(self._counts, self._wanted, list(groups.values())).lacks
