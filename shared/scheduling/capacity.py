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
        nodes = np.array(allocation.nodes, dtype=np.int64)
        units = np.array(allocation.units, dtype=np.int64)
        needs = np.array(kind.shape.needs, dtype=np.int64)
        self.free[:, nodes] -= sign * needs[:, np.newaxis] * units
        self.holders[nodes] += sign
        if kind.shape.exclusive:
            self.closed[nodes] += sign
        else:
            self._regroup(kind, allocation, sign)

    def _regroup(self, kind: Kind, allocation: Allocation, sign: int) -> None:
        """Nodes that had the same group and get as many units have the same one after it."""
        after: dict[tuple[int, int], int] = {}
        change = self.groups.joined if sign > 0 else self.groups.left
        for node, units in zip(allocation.nodes, allocation.units, strict=True):
            key = int(self.group[node]), units
            if key not in after:
                after[key] = change(key[0], (kind.app, units * kind.shape.needs[0]))
            self.group[node] = after[key]
