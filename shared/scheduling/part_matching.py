"""Which nodes the parts of a gang take: as many as there are, at the least cost.

Each node is of one part, and a part may have the nodes that fit it. That is a matching of nodes and
places of parts. The sets of nodes that can be matched are a matroid (Edmonds and Fulkerson 1965),
so taking nodes in the order of their costs, each where it can be matched beside those before it,
finds as many as can be, and of those the cheapest. Nodes that are alike are counted, not listed.
"""

from collections.abc import Sequence
from typing import NamedTuple


class NodeGroup(NamedTuple):
    """So many nodes that are alike, `first` among them: they fit `parts`, a bit each, and each of
    them costs so much."""

    first: int
    nodes: int
    parts: int
    cost: int = 0


class MatchedParts(NamedTuple):
    """How many nodes of each group each part takes, `taken[part][group]`; all of them, and what
    they cost. `lacks` is how many nodes more the parts want."""

    taken: list[list[int]]
    nodes: int
    cost: int
    lacks: int


def match_parts(
    counts: Sequence[int], wanted: Sequence[int], groups: Sequence[NodeGroup]
) -> MatchedParts:
    """Return as many nodes as there are for parts that take so many, at the least cost.

    Each part has all nodes that it has `wanted`, a set of them: where some part lacks one, it lacks
    one at least in all.
    """
    pins = [pins_of(wanted, group.first) for group in groups]
    order = sorted(
        range(len(groups)), key=lambda at: (not pins[at], groups[at].cost, groups[at].first)
    )
    lacking, masks = list(counts), [group.parts for group in groups]
    taken = [[0] * len(groups) for _ in counts]
    pinned = nodes = cost = 0
    for at in order:
        left = groups[at].nodes
        if pins[at]:
            masks[at] &= pins[at] & -pins[at]  # the first part that wants it
            pinned += left if masks[at] else 0
        while left and (path := _path(masks, taken, lacking, at)):
            moved = min(left, _along(taken, lacking, path))
            for part, group in path:
                taken[part][group] += moved
            for (_, group), (part, _) in zip(path[1:], path, strict=False):
                taken[part][group] -= moved
            last, _ = path[-1]
            lacking[last] -= moved
            left -= moved
            nodes += moved
            cost += moved * groups[at].cost
    lacks = max(sum(lacking), int(pinned < sum([each.bit_count() for each in wanted])))
    return MatchedParts(taken, sum(counts) - lacks, cost, lacks)


def pins_of(wanted: Sequence[int], node: int) -> int:
    """Return which parts want a node, a bit each."""
    found = 0
    for part, nodes in enumerate(wanted):
        found |= ((nodes >> node) & 1) << part
    return found


def _path(
    masks: Sequence[int], taken: list[list[int]], lacking: list[int], first: int
) -> list[tuple[int, int]]:
    """Return parts, each with the group of which it takes a node: the first of a new group, each
    other one of the part before it; the last one lacks nodes. Empty where none gets more."""
    through: dict[int, tuple[int, int]] = {}
    ahead = [(part, -1, first) for part in range(len(lacking)) if (masks[first] >> part) & 1]
    unmet = ~masks[first]
    for part, before, group in ahead:
        through[part] = before, group
        if lacking[part]:
            return _path_to(part, through)
        for number, count in enumerate(taken[part]):
            if count:
                others = masks[number] & unmet
                unmet &= ~others
                if others:
                    ahead += [
                        (other, part, number)
                        for other in range(len(lacking))
                        if (others >> other) & 1
                    ]
    return []


def _path_to(part: int, through: dict[int, tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the path that ends at a part."""
    before, group = through[part]
    path = [(part, group)]
    while before >= 0:
        part = before
        before, group = through[part]
        path.append((part, group))
    return path[::-1]


def _along(taken: list[list[int]], lacking: list[int], path: list[tuple[int, int]]) -> int:
    """Return how many nodes can change along a path."""
    last, _ = path[-1]
    given = [taken[part][group] for (_, group), (part, _) in zip(path[1:], path, strict=False)]
    return min([lacking[last], *given])
