"""States of nodes, and what fits on a node in each: most nodes of a cluster are in the same few, so
that it is worked out once for all of them."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from math import inf
from typing import Final, NamedTuple

import numpy as np

from shared.scheduling.capacity import NOBODY, Groups
from shared.scheduling.eligibility import NodeBits, members
from shared.scheduling.problem import UNKNOWN, Kind, NodeTable, Shape, Way, ways_of
from shared.scheduling.sharing import Neighbours

# What is kept of one cluster: some 4 MiB.
MOST_KEPT: Final = 20_000
# A place is worth so many of these.
_PLACE: Final = 3
# Sets of nodes that jobs named; most of these jobs may have ended.
_MOST_SETS: Final = 4_000
# Jobs that share a node: what is kept of its groups grows with their square, and jobs of
# thousandths of a core are cheap to make.
MOST_JOBS: Final = 1_024


class NodeState(NamedTuple):
    """Free and total amounts of each resource of a node, how many jobs have units there, how many
    of them accept no neighbour, and the number of the group that they are; and the first of the
    nodes that are alike to jobs which say where they may be."""

    free: tuple[int, ...]
    amounts: tuple[int, ...]
    holders: int
    closed: int
    group: int
    like: int = 0


def units_of(free: tuple[int, ...], shape: Shape) -> int:
    """Return how many units of a shape fit into what is free: as `units_in`, of one node."""
    needs, most = shape.needs, shape.most_per_node
    fitting = UNKNOWN
    for place in range(len(needs)):
        need = needs[place]
        if need:
            fitting = min(fitting, free[place] // need)
    return max(0, min(fitting, most) if most else fitting)


def surplus(state: NodeState, shape: Shape) -> int:
    """Return what a node has of named resources that a shape does not need, so that jobs that need
    them still have them."""
    idle = [state.amounts[row] for row in range(2, len(shape.needs)) if not shape.needs[row]]
    return sum(idle)


def may_be_on(shape: Shape, node: int) -> bool:
    """Return whether a node is in some place of a shape."""
    where = shape.where
    return not where or any((each.nodes >> node) & 1 for each in where)


class Likeness:
    """Which nodes are alike to all jobs that say where they may be: they are distinguished by the
    sets of nodes that these name, and no further. Once distinguished they stay so."""

    def __init__(self) -> None:
        # The first of those that are like each node; empty while all are.
        self.first: list[int] = []
        self._sets: set[int] = set()
        # Numbers of nodes that are alike and have as much of everything, as of a table.
        self._alike: list[int] = []
        self._table: NodeTable | None = None

    @property
    def sets(self) -> int:
        """Return by how many sets of nodes they are distinguished."""
        return len(self._sets)

    def distinguish(self, kinds: Iterable[Kind], nodes: int) -> bool:
        """Distinguish nodes as these kinds do; True where that changed something."""
        named = [each for kind in kinds for each in _sets_of(kind.shape)]
        return self.distinguish_sets(named, nodes)

    def distinguish_sets(self, named: Iterable[int], nodes: int) -> bool:
        """Distinguish nodes as these sets do; True where that changed something."""
        unseen = [each for each in named if each not in self._sets]
        if not unseen:
            return False
        numbers = np.array(self.first or [0] * nodes, dtype=np.int64)
        for each in dict.fromkeys(unseen):
            self._sets.add(each)
            _, first, of = np.unique(
                2 * numbers + members(each, nodes), return_index=True, return_inverse=True
            )
            numbers = first[of]
        self.first, self._table = numbers.tolist(), None
        return True

    def alike(self, table: NodeTable) -> list[int]:
        """Return the same number for nodes that are alike and have as much of everything."""
        if table is not self._table:
            self._table = table
            rows = [*table.amounts.tolist(), self.first or [0] * table.nodes]
            numbers: dict[tuple[int, ...], int] = {}
            self._alike = [
                numbers.setdefault(column, len(numbers)) for column in zip(*rows, strict=True)
            ]
        return self._alike


def _sets_of(shape: Shape) -> list[int]:
    where = shape.where
    sets = [each.nodes for each in where] + [each.wanted for each in where if each.wanted]
    for part in shape.parts:
        sets += _sets_of(part.shape)
    return sets


class UnitsOfJob:
    """So many units of a kind, of one job, on a node; and the states of nodes with and without
    them, as far as somebody asked, by the number of the state before."""

    def __init__(self, kind: Kind, units: int) -> None:
        self.kind, self.units = kind, units
        self.added: dict[int, int] = {}
        self.removed: dict[int, int] = {}


class UnitsAnywhere:
    """Units of a kind wherever it may be, beside such neighbours as it and they accept, or
    `beside_anyone`: how many fit on a node by the number of its state, as far as somebody asked."""

    def __init__(self, kind: Kind, *, beside_anyone: bool) -> None:
        self.kind, self.beside_anyone = kind, beside_anyone
        self.fitting: dict[int, int] = {}
        # What a job has of a node, by how many of them.
        self.of_job: dict[int, UnitsOfJob] = {}


class KnownWay(Way):
    """One of the places where jobs of a kind may be, with what is kept of it.

    `anywhere` is its kind without the place, which all places of such units share, and
    `beside_anyone` the same if every job accepted every neighbour.
    """

    def __init__(self, way: Way, anywhere: UnitsAnywhere, beside_anyone: UnitsAnywhere) -> None:
        super().__init__(way.kind, way.held, way.nodes, way.wanted)
        self.parts = way.kind.shape.parts
        self.anywhere, self.beside_anyone = anywhere, beside_anyone
        # What is left of it without some nodes, by these.
        self.less: dict[NodeBits, KnownWay] = {}
        # How many units fit when nothing runs, as of a number of tables.
        self.most, self.most_as_of = 0, 0

    def has(self, node: int) -> bool:
        """Return whether a node is there."""
        return self.nodes < 0 or bool((self.nodes >> node) & 1)


class KnownStates:
    """Numbers of states. What fits in each, and the state after a job started or ended, is kept: it
    is the same as long as the policy of neighbours is, from pass to pass. So are the places of
    jobs: jobs that ask for the same share one."""

    def __init__(self, neighbours: Neighbours, groups: Groups) -> None:
        self.by_number: list[NodeState] = []
        self.groups, self.neighbours = groups, neighbours
        self.likeness = Likeness()
        self._found = 0
        self._numbers: dict[NodeState, int] = {}
        self._units: dict[tuple[Kind, bool], UnitsAnywhere] = {}
        self._costs: dict[tuple[str, int, int], float] = {}
        self._units_of_jobs: dict[tuple[Kind, int], UnitsOfJob] = {}
        self._places: dict[Kind, list[KnownWay]] = {}
        # What the nodes have, and how often that was another table.
        self._table: NodeTable | None = None
        self.tables = 0
        # The kinds by whose numbers these are, and how many of them distinguish nodes.
        self._kinds: Sequence[Kind] = ()
        self._distinguished = 0
        self._by_kind: dict[int, list[KnownWay]] = {}

    @property
    def is_full(self) -> bool:
        """Return True when more is kept than it is worth: begin anew."""
        is_fine = self.likeness.sets > _MOST_SETS
        return is_fine or self._found + len(self._costs) > MOST_KEPT

    def number(self, state: NodeState) -> int:
        """Return the number of a state, a new one where it was not seen before."""
        number = self._numbers.setdefault(state, len(self.by_number))
        if number == len(self.by_number):
            self.by_number.append(state)
        return number

    def units_of_job(self, kind: Kind, units: int) -> UnitsOfJob:
        """Return so many units of a kind, of one job: the same ones whoever asks."""
        key = kind, units
        found = self._units_of_jobs.get(key)
        if found is None:
            found = self._units_of_jobs[key] = UnitsOfJob(kind, units)
            self._found += 1
        return found

    def of_job(self, units: UnitsAnywhere, count: int) -> UnitsOfJob:
        """Return so many of these units, of one job."""
        found = units.of_job.get(count)
        if found is None:
            found = units.of_job[count] = self.units_of_job(units.kind, count)
        return found

    def add_units(self, number: int, of_job: UnitsOfJob) -> int:
        """Return the state with the units of one more job."""
        found = of_job.added.get(number, -1)
        if found < 0:
            changed = self._changed(self.by_number[number], of_job.kind, of_job.units, 1)
            found = of_job.added[number] = self.number(changed)
            self._found += 1
        return found

    def remove_units(self, number: int, of_job: UnitsOfJob) -> int:
        """Return the state without the units of a job."""
        found = of_job.removed.get(number, -1)
        if found < 0:
            changed = self._changed(self.by_number[number], of_job.kind, of_job.units, -1)
            found = of_job.removed[number] = self.number(changed)
            self._found += 1
        return found

    def distinguish(self, kinds: Sequence[Kind], nodes: int) -> bool:
        """Distinguish nodes as kinds do, of which there are ever more; True where that changed
        something."""
        if kinds is not self._kinds:
            self._kinds, self._distinguished = kinds, 0
            self._by_kind.clear()
        if self._distinguished == len(kinds):
            return False
        unseen, self._distinguished = kinds[self._distinguished :], len(kinds)
        return self.likeness.distinguish(unseen, nodes)

    def count(self, table: NodeTable) -> None:
        """Note what the nodes have: of drained ones that never return it is nothing."""
        if table is not self._table:
            self._table, self.tables = table, self.tables + 1

    def ways_of_number(self, number: int) -> list[KnownWay]:
        """Return the places of the kind of a number, of those that distinguish nodes."""
        found = self._by_kind.get(number)
        if found is None:
            found = self._by_kind[number] = self.ways(self._kinds[number])
        return found

    def ways(self, kind: Kind) -> list[KnownWay]:
        """Return the places of a kind."""
        found = self._places.get(kind)
        if found is None:
            found = self._places[kind] = [self._known_way(way) for way in ways_of(kind)]
        return found

    def without(self, place: KnownWay, shut: NodeBits, everywhere: NodeBits) -> KnownWay:
        """Return a place without some nodes: empty where one of them is wanted. The same one where
        none of them is there."""
        if not (place.nodes < 0 or place.nodes & shut):
            return place
        found = place.less.get(shut)
        if found is None:
            nodes = (everywhere if place.nodes < 0 else place.nodes) & ~shut
            nodes = 0 if place.wanted & ~nodes else nodes
            way = Way(place.kind, place.held, nodes, place.wanted)
            found = place.less[shut] = KnownWay(way, place.anywhere, place.beside_anyone)
            self._found += _PLACE
        return found

    def _known_way(self, way: Way) -> KnownWay:
        self._found += _PLACE
        shape = way.kind.shape
        kind = way.kind._replace(shape=shape._replace(where=())) if shape.where else way.kind
        anywhere = self.units(kind)
        if shape.exclusive:  # which has no neighbours
            return KnownWay(way, anywhere, anywhere)
        return KnownWay(way, anywhere, self.units(kind, beside_anyone=True))

    def units_in(self, units: UnitsAnywhere, number: int) -> int:
        """Return how many units fit on a node that is in a state."""
        found = units.fitting.get(number, -1)
        return found if found >= 0 else self._find_units(units, number)

    def _changed(self, state: NodeState, kind: Kind, units: int, sign: int) -> NodeState:
        free, amounts, holders, closed, group, like = state
        shape = kind.shape
        more = sign * units
        free = tuple([amount - more * need for amount, need in zip(free, shape.needs, strict=True)])
        if shape.exclusive:
            return NodeState(free, amounts, holders + sign, closed + sign, group, like)
        member = kind.app, units * shape.millicores
        change = self.groups.add_member if sign > 0 else self.groups.remove_member
        return NodeState(free, amounts, holders + sign, closed, change(group, member), like)

    def units(self, kind: Kind, *, beside_anyone: bool = False) -> UnitsAnywhere:
        """Return units of a kind: the same ones whoever asks."""
        key = kind, beside_anyone
        found = self._units.get(key)
        if found is None:
            found = self._units[key] = UnitsAnywhere(kind, beside_anyone=beside_anyone)
        return found

    def _find_units(self, of: UnitsAnywhere, number: int) -> int:
        state, kind = self.by_number[number], of.kind
        units = self.units_beside_anyone(kind.shape, state)
        has_say = not (of.beside_anyone or kind.shape.exclusive)
        if units and state.group != NOBODY and has_say:
            units = self._accepted(kind, units, state.group)
        of.fitting[number] = units
        self._found += 1
        return units

    def units_beside_anyone(self, shape: Shape, state: NodeState) -> int:
        """Return how many units of a shape fit if all jobs accept all neighbours but those that are
        to be alone."""
        if (state.holders if shape.exclusive else state.closed) > 0:
            return 0
        if state.holders >= MOST_JOBS:
            return 0
        if shape.where and not may_be_on(shape, state.like):
            return 0
        return units_of(state.free, shape)

    def _accepted(self, kind: Kind, units: int, group: int) -> int:
        """Return the most of these units that a group accepts by its own slowdown."""
        if not self.neighbours.accepts_anyone(kind.app):
            return 0
        counts = range(1, units + 1)
        return bisect_left(counts, 1, key=lambda count: self._refuses(kind, count, group))

    def _refuses(self, kind: Kind, units: int, group: int) -> bool:
        return self.cost(kind, units, group) == inf

    def cost(self, kind: Kind, units: int, group: int) -> float:
        """Return the cost to all on a node if so many units of a kind join; infinite where they
        must not, and on an empty node, which is the last choice."""
        if kind.shape.exclusive or group == NOBODY:
            return inf
        newcomer = kind.app, units * kind.shape.millicores
        key = *newcomer, group
        found = self._costs.get(key)
        if found is None:
            found = self._costs[key] = self.neighbours.cost(newcomer, self.groups.by_number[group])
        return found
