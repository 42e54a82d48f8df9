"""What is free on which nodes of a cluster, and who is on them."""

from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from shared.scheduling.problem import Allocation, Ints, Kind, NodeTable, Shape, units_in
from shared.scheduling.workload import Floats

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


@dataclass(frozen=True, slots=True, eq=False)
class Flat:
    """What several jobs hold, job after job: a column a node of theirs. `needs` is of the shape
    (resources, columns); `nodes` and `closed` are (columns,), the count of nodes and the time of
    each job (jobs,)."""

    held: list[Held]
    release_s: Floats
    counts: Ints
    nodes: Ints
    needs: Ints
    closed: Ints

    @classmethod
    def of(cls, held: list[Held], resources: int) -> "Flat":
        """In this order."""
        sizes = [len(each.allocation.nodes) for each in held]
        counts, size = np.array(sizes, dtype=np.int64), sum(sizes)
        nodes = np.fromiter(chain.from_iterable(h.allocation.nodes for h in held), np.int64, size)
        units = np.fromiter(chain.from_iterable(h.allocation.units for h in held), np.int64, size)
        needs = np.array([each.kind.shape.needs for each in held], dtype=np.int64)
        columns = np.repeat(needs.reshape(-1, resources).T, counts, axis=1)
        closed = np.array([each.kind.shape.exclusive for each in held], dtype=np.int64)
        release_s = np.array([each.release_s for each in held], dtype=np.float64)
        return cls(held, release_s, counts, nodes, columns * units, np.repeat(closed, counts))

    def joined(self, other: "Flat") -> "Flat":
        """These jobs and others, in the order in which they are expected to leave."""
        return Flat(
            self.held + other.held,
            np.concatenate((self.release_s, other.release_s)),
            np.concatenate((self.counts, other.counts)),
            np.concatenate((self.nodes, other.nodes)),
            np.concatenate((self.needs, other.needs), axis=1),
            np.concatenate((self.closed, other.closed)),
        ).in_order()

    def in_order(self) -> "Flat":
        """The same jobs in the order in which they are expected to leave."""
        order = np.argsort(self.release_s, kind="stable")
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        columns = np.argsort(np.repeat(rank, self.counts), kind="stable")
        return Flat(
            [self.held[place] for place in order.tolist()],
            self.release_s[order],
            self.counts[order],
            self.nodes[columns],
            self.needs[:, columns],
            self.closed[columns],
        )


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

    def give_first(self, flat: Flat, jobs: int) -> None:
        """The first of several jobs have left; what runs together is not told by it."""
        columns = int(flat.counts[:jobs].sum())
        nodes = flat.nodes[:columns]
        for row, needs in zip(self.free, flat.needs, strict=True):
            np.add.at(row, nodes, needs[:columns])
        np.subtract.at(self.holders, nodes, 1)
        np.subtract.at(self.closed, nodes, flat.closed[:columns])

    def part(self, kind: Kind, allocation: Allocation) -> None:
        """Where a job that has left was among others, these are what runs together."""
        if not kind.shape.exclusive:
            self._regroup(kind, allocation, -1)

    def units(self, shape: Shape, nodes: Ints | None = None) -> Ints:
        """How many units of a shape fit on each node beside whoever is there, or on these nodes
        alone: whom they accept as a neighbour is not asked."""
        at = slice(None) if nodes is None else nodes
        fitting = units_in(self.free[:, at], shape)
        fitting[(self.holders if shape.exclusive else self.closed)[at] > 0] = 0
        return fitting

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
