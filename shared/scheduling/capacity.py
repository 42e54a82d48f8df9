"""What is free on which nodes of a cluster, and who is on them."""

from typing import NamedTuple

import numpy as np

from shared.scheduling.problem import Allocation, Ints, Kind, NodeTable

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
    """What is free of each resource on each node, (resources, nodes), and how many jobs hold units
    there: `holders`, and of them those that accept nobody beside them, `closed`, (nodes,).

    What a resource manager gave out beyond what there is leaves less than nothing.
    """

    def __init__(self, table: NodeTable, groups: Groups | None = None) -> None:
        self.table = table
        self.free: Ints = table.amounts.copy()
        self.holders: Ints = np.zeros(table.nodes, dtype=np.int64)
        self.closed: Ints = np.zeros(table.nodes, dtype=np.int64)
        self.group: Ints = np.zeros(table.nodes, dtype=np.int64)
        self.groups = groups or Groups()

    def copy(self, *, apart: bool = False) -> "Capacity":
        """The same, to be changed by itself; numbers of groups are shared, but with who is `apart`:
        in another thread."""
        other = Capacity.__new__(Capacity)
        other.table, other.groups = self.table, self.groups.copy() if apart else self.groups
        other.free, other.holders = self.free.copy(), self.holders.copy()
        other.closed, other.group = self.closed.copy(), self.group.copy()
        return other

    def take(self, kind: Kind, allocation: Allocation) -> None:
        """A job has units on these nodes from now on."""
        self._change(kind, allocation, 1)

    def give(self, kind: Kind, allocation: Allocation) -> None:
        """A job has left."""
        self._change(kind, allocation, -1)

    def _change(self, kind: Kind, allocation: Allocation, sign: int) -> None:
        nodes, units = allocation
        if not nodes:
            return
        at = as_index(nodes)
        more: Ints | int = sign * units[0]
        if units.count(units[0]) < len(units):
            more = sign * np.array(units, dtype=np.int64)
        for row, need in zip(self.free, kind.shape.needs, strict=True):
            if need:
                row[at] -= need * more
        self.holders[at] += sign
        if kind.shape.exclusive:
            self.closed[at] += sign
        else:
            self._regroup(kind, at, units, sign)

    def _regroup(self, kind: Kind, at: Ints | slice, units: tuple[int, ...], sign: int) -> None:
        """Nodes that had the same group and get as many units have the same one after it."""
        change = self.groups.joined if sign > 0 else self.groups.left
        before = list(zip(self.group[at].tolist(), units, strict=True))
        after = {
            (number, count): change(number, (kind.app, count * kind.shape.needs[0]))
            for number, count in dict.fromkeys(before)
        }
        self.group[at] = [after[key] for key in before]


def as_index(nodes: tuple[int, ...]) -> Ints | slice:
    """Ascending nodes as an index into what there is of each: most are neighbours."""
    if nodes and nodes[-1] - nodes[0] == len(nodes) - 1:
        return slice(nodes[0], nodes[-1] + 1)
    return np.array(nodes, dtype=np.int64)
