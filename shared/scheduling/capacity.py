"""Free amounts on the nodes of a cluster, and the jobs on each node."""

from collections.abc import Iterable
from typing import NamedTuple

from shared.scheduling.problem import Allocation, Kind, NodeTable

# Applications with their thousandths of a core on one node, ascending: one pair a job.
Group = tuple[tuple[str, int], ...]
# The number of the group of an empty node.
NOBODY = 0


def remove_member(group: Group, member: tuple[str, int]) -> Group:
    """Return the group without one of its members."""
    place = group.index(member)
    return group[:place] + group[place + 1 :]


class Groups:
    """Numbers of groups of jobs on a node: nodes with the same number have the same group."""

    def __init__(self) -> None:
        self.by_number: list[Group] = [()]
        self._numbers: dict[Group, int] = {(): NOBODY}

    def __len__(self) -> int:
        return len(self.by_number)

    def copy(self) -> "Groups":
        """Return a copy with the same numbers, which is added to by itself."""
        other = Groups()
        other.by_number, other._numbers = self.by_number.copy(), self._numbers.copy()
        return other

    def number(self, group: Group) -> int:
        """Return the number of a group, a new one where it was not seen before."""
        number = self._numbers.setdefault(group, len(self.by_number))
        if number == len(self.by_number):
            self.by_number.append(group)
        return number

    def add_member(self, number: int, member: tuple[str, int]) -> int:
        """Return the number of the group with one more member."""
        return self.number(tuple(sorted((*self.by_number[number], member))))

    def remove_member(self, number: int, member: tuple[str, int]) -> int:
        """Return the number of the group without one of its members."""
        return self.number(remove_member(self.by_number[number], member))


class AllocatedUnits(NamedTuple):
    """Units allocated to a job until `release_s` at the latest, infinite where they are never
    expected back; `holder` is its arrival number."""

    release_s: float
    holder: int
    kind: Kind
    allocation: Allocation
    draw_mw: int = 0


class Capacity:
    """Free amounts of each resource on each node, `free[resource][node]`.

    `holders` counts the jobs with units on each node, and `closed` those of them that accept no
    neighbour; `group` is the number of the group on each node. An amount below 0 is free where a
    resource manager overcommitted. Most jobs have few nodes, for which lists, compiled, take less
    time than arrays.
    """

    def __init__(
        self, table: NodeTable, groups: Groups | None = None, like: "Capacity | None" = None
    ) -> None:
        """Allocate nothing, or all that is allocated in another one that it is `like`."""
        self.table, self.groups = table, groups or Groups()
        none = [0] * table.nodes
        self.free: list[list[int]] = table.amounts.tolist() if like is None else _copy(like.free)
        self.holders: list[int] = none if like is None else like.holders.copy()
        self.closed: list[int] = none.copy() if like is None else like.closed.copy()
        self.group: list[int] = none.copy() if like is None else like.group.copy()

    def copy(self, *, is_separate: bool = False) -> "Capacity":
        """Return a copy, which is changed by itself. A separate one numbers groups by itself too:
        it may be used in another thread."""
        return Capacity(self.table, self.groups.copy() if is_separate else self.groups, self)

    def lack(self, nodes: Iterable[int]) -> None:
        """Take all resources off such nodes, which get no more jobs from now on."""
        amounts = self.table.amounts.copy()
        for node in nodes:
            for row, free in enumerate(self.free):
                free[node] -= int(amounts[row, node])
            amounts[:, node] = 0
        self.table = NodeTable(self.table.names, amounts)

    def take(self, kind: Kind, allocation: Allocation) -> None:
        """Allocate units to a job on these nodes."""
        self._change(kind, allocation, 1)

    def give(self, kind: Kind, allocation: Allocation) -> None:
        """Free the units of a job."""
        self._change(kind, allocation, -1)

    def is_shared(self, nodes: tuple[int, ...]) -> bool:
        """Return True where more than one job has units on one of these nodes."""
        holders = self.holders
        return any(holders[node] > 1 for node in nodes)

    def is_overcommitted(self, nodes: Iterable[int]) -> bool:
        """Return True where more is allocated on one of these nodes than there is, or a job has a
        neighbour there that is to be alone."""
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
        """Renumber groups: nodes with the same group that get as many units have the same one
        afterwards."""
        change = self.groups.add_member if sign > 0 else self.groups.remove_member
        nodes, units = allocation
        group, after = self.group, dict[tuple[int, int], int]()
        for place in range(len(nodes)):
            node, count = nodes[place], units[place]
            before = group[node]
            number = after.get((before, count))
            if number is None:
                member = kind.app, count * kind.shape.millicores
                number = after[before, count] = change(before, member)
            group[node] = number


def _copy(rows: list[list[int]]) -> list[list[int]]:
    return [row.copy() for row in rows]
