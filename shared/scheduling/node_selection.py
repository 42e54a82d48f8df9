"""Which nodes the units of a job take, and whether that leaves what is reserved: what Slurm calls
the selection of nodes.

Units are counted a kind at a time, on all nodes, and anew where something changed since.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from sys import maxsize
from typing import Final

import numpy as np

from shared.scheduling.capacity import NOBODY, Capacity
from shared.scheduling.load import Reservation
from shared.scheduling.problem import Allocation, Ints, Kind, units_in
from shared.scheduling.sharing import Neighbours
from shared.scheduling.workload import Floats

# Steps after which the units of a shape are counted on all nodes anew, not on the changed ones.
_MANY_CHANGES: Final = 16


@dataclass(slots=True)
class CountedUnits:
    """How many units of a kind fit on each node, and in all, as of a number of changes."""

    changes: int
    on: Ints
    total: int


@dataclass(frozen=True, slots=True, eq=False)
class _Choice:
    """Nodes in the order in which a kind takes them, with the units that fit on each, and what
    taking so many costs the reservation: sums along the order."""

    nodes: Ints
    units: Ints
    sum_units: Ints
    sum_lost: Ints


@dataclass(slots=True)
class Shadow:
    """The reservation, and what is free at its time of all that is not taken beyond it."""

    reservation: Reservation
    kind: Kind
    capacity: Capacity
    units: Ints
    extra: int


class NodeSelection:
    """The nodes of one cluster by what kinds of jobs fit on them.

    `known` is what was counted of each kind, as of some change; what it had no room for before
    changes that only took there is no room for now.
    """

    def __init__(
        self,
        capacity: Capacity,
        kinds: Sequence[Kind],
        neighbours: Neighbours,
        factors: Floats,
    ) -> None:
        self._capacity, self._kinds = capacity, kinds
        self._neighbours, self._factors = neighbours, factors
        self.known: dict[int, CountedUnits] = {}
        # Nodes of each change; what was counted before a change is counted anew there.
        self._changed_nodes: list[Ints] = []
        self._choices: dict[tuple[int, bool], tuple[int, _Choice]] = {}
        # The fewest units of a kind that the standing reservation refused, and the most that it
        # allows since a number of changes.
        self._refused: dict[int, int] = {}
        self._allowed: dict[int, tuple[int, int]] = {}

    @property
    def changes(self) -> int:
        """How often something was taken."""
        return len(self._changed_nodes)

    def took(self, nodes: Ints) -> None:
        """Something was taken on these nodes."""
        self._changed_nodes.append(nodes)

    def count_anew(self) -> None:
        """Something came back."""
        self.known.clear()

    def forget_choices(self) -> None:
        """There is another reservation or none, or time has passed."""
        self._choices.clear()
        self._refused.clear()
        self._allowed.clear()

    def may_fit(self, number: int, units: int) -> bool:
        """False when even before the last changes, which only took, there was no room."""
        counted = self.known.get(number)
        return counted is None or units <= counted.total

    def may_fit_beyond(self, number: int, units: int) -> bool:
        """False when the standing reservation has refused as many: see `fits_beyond`."""
        return units < self._refused.get(number, maxsize)

    def counted(self, number: int) -> CountedUnits:
        """How many units of a kind fit now: counted anew where something changed since."""
        changes, counted = self.changes, self.known.get(number)
        if counted is None or changes - counted.changes > _MANY_CHANGES:
            kind = self._kinds[number]
            on = self.accepted(kind, self._capacity.units(kind.shape), self._capacity.group)
            counted = self.known[number] = CountedUnits(changes, on, int(on.sum()))
        elif counted.changes < changes:
            kind = self._kinds[number]
            nodes = np.concatenate(self._changed_nodes[counted.changes :])
            fitting = self._capacity.units(kind.shape, nodes)
            counted.on[nodes] = self.accepted(kind, fitting, self._capacity.group[nodes])
            counted.total, counted.changes = int(counted.on.sum()), changes
        return counted

    def accepted(self, kind: Kind, units: Ints, group: Ints) -> Ints:
        """As many of these units a node as its neighbours allow: none where they do not."""
        if kind.shape.exclusive or not group.any():
            return units
        beside = (units > 0) & (group != NOBODY)
        if not self._neighbours.accepts_anyone(kind.app):
            units[beside] = 0
            return units
        for number in np.unique(group[beside]).tolist():
            there = beside & (group == number)
            units[there] = self._most_accepted(kind, units[there], number)
        return units

    def _most_accepted(self, kind: Kind, units: Ints, number: int) -> Ints:
        members, cores = self._capacity.groups.of[number], kind.shape.needs[0]
        counts = range(1, int(units.max(initial=0)) + 1)
        accepted = bisect_left(
            counts,
            1,
            key=lambda count: self._neighbours.cost((kind.app, count * cores), members) == inf,
        )
        return np.minimum(units, accepted)

    def fits_beyond(self, number: int, count: int, shadow: Shadow) -> bool:
        """True when so many units that last beyond the shadow time leave what is reserved.

        Whoever was refused stays refused while the reservation stands: what a start takes from the
        reservation is more than what others then need take less.
        """
        if count >= self._refused.get(number, maxsize):
            return False
        changes, most = self._allowed.get(number, (-1, 0))
        if changes == self.changes and count <= most:
            return True
        fits = self._least_lost(number, count, shadow) <= shadow.extra
        if fits:
            self._allowed[number] = self.changes, count
        else:
            self._refused[number] = count
        return fits

    def _least_lost(self, number: int, count: int, shadow: Shadow) -> int:
        """How many reserved units go where a kind takes the nodes that cost fewest."""
        choice = self._choice(number, shadow)
        if not len(choice.nodes) or count > choice.sum_units[-1]:
            return maxsize
        last = int(np.searchsorted(choice.sum_units, count))
        before = int(choice.sum_lost[last - 1]) if last else 0
        rest = count - (int(choice.sum_units[last - 1]) if last else 0)
        node = choice.nodes[last : last + 1]
        lost = self._lost(self._kinds[number], node, np.array([rest], dtype=np.int64), shadow)
        return before + int(lost.sum())

    def allocation(self, number: int, count: int, shadow: Shadow | None) -> Allocation:
        """The nodes that so many units of a kind take; where they last beyond the shadow time,
        those that cost its reservation least."""
        choice = self._choice(number, shadow)
        last = int(np.searchsorted(choice.sum_units, count))
        units = choice.units[: last + 1].copy()
        units[last] -= int(choice.sum_units[last]) - count
        nodes = choice.nodes[: last + 1]
        ascending = np.argsort(nodes, kind="stable")
        return Allocation(tuple(nodes[ascending].tolist()), tuple(units[ascending].tolist()))

    def _choice(self, number: int, shadow: Shadow | None) -> _Choice:
        """The nodes on which a kind fits, best first: those that cost the reservation least, that
        have least of what the kind does not need, with the neighbours that suit it best, that draw
        least, by index."""
        changes, key = self.changes, (number, shadow is not None)
        known = self._choices.get(key)
        if known is None or known[0] != changes:
            self._choices[key] = known = changes, self._ordered(number, shadow)
        return known[1]

    def _ordered(self, number: int, shadow: Shadow | None) -> _Choice:
        kind, on = self._kinds[number], self.counted(number).on
        nodes = np.flatnonzero(on)
        units = on[nodes]
        lost = np.zeros(len(nodes), dtype=np.int64)
        if shadow is not None:
            lost = self._lost(kind, nodes, units, shadow)
        company, surplus = self._company(kind, nodes, units), self._surplus(kind, nodes)
        order = np.lexsort((nodes, self._factors[nodes], company, surplus, lost / units))
        lost = lost[order]
        return _Choice(nodes[order], units[order], units[order].cumsum(), lost.cumsum())

    def _lost(self, kind: Kind, nodes: Ints, units: Ints, shadow: Shadow) -> Ints:
        """Units of the reserved shape that are gone at its time where these are taken beyond it."""
        reserved = shadow.kind
        needs = np.array(kind.shape.needs, dtype=np.int64)
        free = shadow.capacity.free[:, nodes] - needs[:, np.newaxis] * units
        left = units_in(free, reserved.shape)
        if reserved.shape.exclusive or kind.shape.exclusive:
            left[:] = 0
        else:
            left = self._accepted_after(shadow, kind, left, nodes, units)
        return shadow.units[nodes] - np.minimum(left, shadow.units[nodes])

    def _accepted_after(
        self, shadow: Shadow, kind: Kind, left: Ints, nodes: Ints, units: Ints
    ) -> Ints:
        """What is left of the reserved kind beside a newcomer that its neighbours accept."""
        capacity, cores = shadow.capacity, kind.shape.needs[0]
        before = list(zip(capacity.group[nodes].tolist(), units.tolist(), strict=True))
        after = {
            (number, count): capacity.groups.joined(number, (kind.app, count * cores))
            for number, count in set(before)
        }
        group = np.array([after[key] for key in before], dtype=np.int64)
        return self.accepted(shadow.kind, left, group)

    def _surplus(self, kind: Kind, nodes: Ints) -> Ints:
        """What a node has of named resources that the kind does not need, so that those who need
        them find them free."""
        amounts, needs = self._capacity.table.amounts, kind.shape.needs
        idle = [amounts[row, nodes] for row in range(2, len(needs)) if not needs[row]]
        return sum(idle, np.zeros(len(nodes), dtype=np.int64))

    def _company(self, kind: Kind, nodes: Ints, units: Ints) -> Floats:
        """What it costs all on each node if the kind comes; an empty node is the last choice."""
        cost = np.full(len(nodes), inf)
        if kind.shape.exclusive:
            return cost
        group, cores = self._capacity.group[nodes], kind.shape.needs[0]
        for number, count in {*zip(group.tolist(), units.tolist(), strict=True)}:
            if number != NOBODY:
                members = self._capacity.groups.of[number]
                there = (group == number) & (units == count)
                cost[there] = self._neighbours.cost((kind.app, count * cores), members)
        return cost
