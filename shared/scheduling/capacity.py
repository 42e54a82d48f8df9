"""What is free on which nodes of a cluster, and who is on them."""

from collections.abc import Iterable
from typing import NamedTuple

from shared.scheduling.problem import Allocation, Kind, NodeTable

# Applications with their cores on one node, ascending: one pair a job.
Group = tuple[tuple[str, int], ...]
# The number of the group of an empty node.
NOBODY = 0


def without(group: Group, member: tuple[str, int]) -> Group:
    """The group without one of its members."""
    place = group.index(member)
    return group[:place] + group[place + 1 :]


class Groups:
    """Numbers for what runs together on a node: nodes with the same number have the same group."""

    def __init__(self) -> None:
        self.of: list[Group] = [()]
        self._numbers: dict[Group, int] = {(): NOBODY}

    def __len__(self) -> int:
        return len(self.of)

    def copy(self) -> "Groups":
        """The same numbers, to be added to by itself."""
        other = Groups()
        other.of, other._numbers = self.of.copy(), self._numbers.copy()
        return other

    def number(self, group: Group) -> int:
        """The number of a group, a new one where it was not seen before."""
        number = self._numbers.setdefault(group, len(self.of))
        if number == len(self.of):
            self.of.append(group)
        return number

    def joined(self, number: int, member: tuple[str, int]) -> int:
        """The group with one more member."""
        return self.number(tuple(sorted((*self.of[number], member))))

    def left(self, number: int, member: tuple[str, int]) -> int:
        """The group without one of its members."""
        return self.number(without(self.of[number], member))


class Held(NamedTuple):
    """What a job holds until `release_s` at the latest, infinite where nobody expects it back;
    `holder` is its arrival number."""

    release_s: float
    holder: int
    kind: Kind
    allocation: Allocation
    draw_mw: int = 0


class Capacity:
    """What is free of each resource on each node, `free[resource][node]`, and how many jobs hold
    units there: `holders`, and of them those that accept nobody beside them, `closed`, by node. So
    is `group`, the number of the group that is there.

    What a resource manager gave out beyond what there is leaves less than nothing. Most jobs
    have few nodes, for which lists, compiled, take less time than arrays.
    """

    def __init__(
        self, table: NodeTable, groups: Groups | None = None, like: "Capacity | None" = None
    ) -> None:
        """Nothing is held, or all that is with another one that it is `like`."""
        self.table, self.groups = table, groups or Groups()
        none = [0] * table.nodes
        self.free: list[list[int]] = table.amounts.tolist() if like is None else _copy(like.free)
        self.holders: list[int] = none if like is None else like.holders.copy()
        self.closed: list[int] = none.copy() if like is None else like.closed.copy()
        self.group: list[int] = none.copy() if like is None else like.group.copy()

    def copy(self, *, apart: bool = False) -> "Capacity":
        """The same, to be changed by itself; numbers of groups are shared, but with who is `apart`:
        in another thread."""
        return Capacity(self.table, self.groups.copy() if apart else self.groups, self)

    def lack(self, nodes: Iterable[int]) -> None:
        """Such nodes, to which nobody adds from now on, have nothing."""
        amounts = self.table.amounts.copy()
        for node in nodes:
            for row, free in enumerate(self.free):
                free[node] -= int(amounts[row, node])
            amounts[:, node] = 0
        self.table = NodeTable(self.table.names, amounts)

    def take(self, kind: Kind, allocation: Allocation) -> None:
        """A job has units on these nodes from now on."""
        self._change(kind, allocation, 1)

    def give(self, kind: Kind, allocation: Allocation) -> None:
        """A job has left."""
        self._change(kind, allocation, -1)

    def is_shared(self, nodes: tuple[int, ...]) -> bool:
        """Whether more than one job has units on one of these nodes."""
        holders = self.holders
        return any(holders[node] > 1 for node in nodes)

    def is_overcommitted(self, nodes: Iterable[int]) -> bool:
        """Whether more was given out on one of these nodes than there is, or somebody is beside one
        who is to be alone."""
        return any(
            (self.closed[node] and self.holders[node] > 1)
            or min(row[node] for row in self.free) < 0
            for node in nodes
        )

    def _change(self, kind: Kind, allocation: Allocation, sign: int) -> None:
        nodes, units = allocation
        for row, need in enumerate(kind.shape.needs):
            if need:
                free, less = self.free[row], sign * need
                for place in range(len(nodes)):
                    free[nodes[place]] -= less * units[place]
        holders = self.holders
        for place in range(len(nodes)):
            holders[nodes[place]] += sign
        if not kind.shape.exclusive:
            self._regroup(kind, allocation, sign)
            return
        closed = self.closed
        for place in range(len(nodes)):
            closed[nodes[place]] += sign

    def _regroup(self, kind: Kind, allocation: Allocation, sign: int) -> None:
        """Nodes that had the same group and get as many units have the same one after it."""
        change = self.groups.joined if sign > 0 else self.groups.left
        nodes, units = allocation
        group, after = self.group, dict[tuple[int, int], int]()
        for place in range(len(nodes)):
            node, count = nodes[place], units[place]
            before = group[node]
            number = after.get((before, count))
            if number is None:
                member = kind.app, count * kind.shape.cores
                number = after[before, count] = change(before, member)
            group[node] = number


def _copy(rows: list[list[int]]) -> list[list[int]]:
    return [row.copy() for row in rows]
