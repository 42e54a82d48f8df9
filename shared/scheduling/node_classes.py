"""The nodes of a cluster in classes: on those of one the same jobs have as many units each, so that
they are alike now and at any time.

Five to fifty classes represent hundreds of nodes, since most jobs have many.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from shared.scheduling.capacity import AllocatedUnits, Capacity
from shared.scheduling.eligibility import NodeBits, node_set
from shared.scheduling.load import Soonest
from shared.scheduling.node_states import (
    KnownStates,
    KnownWay,
    NodeState,
    UnitsAnywhere,
    UnitsOfJob,
)
from shared.scheduling.part_matching import MatchedParts, NodeGroup, match_parts, pins_of
from shared.scheduling.problem import Allocation, Kind, PartShape, wanted_of

# The state of a class at the shadow time while there is none.
NO_STATE: Final = -1


class Part(NamedTuple):
    """The units of a job on each node of a class, until it is expected to leave."""

    release_s: float
    of_job: UnitsOfJob


class EqualNodes:
    """Nodes, ascending, with the jobs that have units of each of them; the numbers of their state
    now and at the shadow time. As a set they are known where they took more jobs at first."""

    def __init__(self, nodes: list[int], parts: list[Part], now: int, then: int) -> None:
        self.nodes, self.parts = nodes, parts
        self.now, self.then = now, then
        self.bits: NodeBits = 0


class NodeClasses:
    """The classes of a cluster, split where a job takes some nodes of one."""

    def __init__(
        self, capacity: Capacity, allocated: Iterable[AllocatedUnits], states: KnownStates
    ) -> None:
        self._states = states
        # The number of the class of each node.
        self._class_of = states.likeness.alike(capacity.table).copy()
        self.all: list[EqualNodes] = []
        self._build(allocated)
        self._set_states(capacity)
        # Those that took more jobs at first: on most nodes of a busy cluster is a job that accepts
        # no neighbour. Of them the nodes that have no job.
        self.open: list[EqualNodes] = []
        self._idle: NodeBits = 0
        self._note_open()
        # On which nodes as many units fit, of those units that were asked about.
        self._fitting: dict[UnitsAnywhere, dict[int, NodeBits]] = {}
        # When jobs leave their classes, by time: (release_s, class, place among its parts).
        self._releases: list[tuple[float, int, int]] | None = None
        self._leaving: _Leaving | None = None

    def _build(self, allocated: Iterable[AllocatedUnits]) -> None:
        of = self._class_of
        parts: list[list[Part]] = [[] for _ in range(max(of, default=0) + 1)]
        for each in allocated:
            numbers: dict[tuple[int, int], int] = {}
            nodes, counts = each.allocation
            before, units, number = -1, 0, -1  # of the node before: most are as it is
            part: Part | None = None
            for place in range(len(nodes)):
                node = nodes[place]
                if part is None or counts[place] != units:
                    before, units = -1, counts[place]
                    part = Part(each.release_s, self._states.units_of_job(each.kind, units))
                if of[node] != before:
                    before = of[node]
                    number = numbers.setdefault((before, units), len(parts))
                    if number == len(parts):
                        parts.append([*parts[before], part])
                of[node] = number
        self._gather(parts)

    def _gather(self, parts: list[list[Part]]) -> None:
        """Give those classes new numbers that still have nodes."""
        numbers: dict[int, int] = {}
        before, number, nodes = -1, -1, list[int]()
        for node, of in enumerate(self._class_of):
            if of != before:
                before, number = of, numbers.setdefault(of, len(self.all))
                if number == len(self.all):
                    self.all.append(EqualNodes([], parts[of], NO_STATE, NO_STATE))
                nodes = self.all[number].nodes
            nodes.append(node)
            self._class_of[node] = number

    def _set_states(self, capacity: Capacity) -> None:
        like = self._states.likeness.first
        first = [each.nodes[0] for each in self.all]
        amounts = capacity.table.amounts[:, first].T.tolist()
        for place, each in enumerate(self.all):
            node = first[place]
            state = NodeState(
                tuple([row[node] for row in capacity.free]),
                tuple(amounts[place]),
                capacity.holders[node],
                capacity.closed[node],
                capacity.group[node],
                like[node] if like else 0,
            )
            each.now = self._states.number(state)

    def _note_open(self) -> None:
        for each in self.all:
            state = self._states.by_number[each.now]
            if not state.closed:
                each.bits = node_set(each.nodes)
                self.open.append(each)
                if not state.holders:
                    self._idle |= each.bits

    def take(
        self, kind: Kind, allocation: Allocation, release_s: float
    ) -> list[tuple[EqualNodes, int]]:
        """Allocate units to a job: return its classes with the units on each of their nodes."""
        self._releases = self._leaving = None
        found: list[tuple[EqualNodes, int]] = []
        for (number, units), nodes in self._by_class(allocation).items():
            each = self.all[self._split(number, nodes)]
            before, of_job = each.now, self._states.units_of_job(kind, units)
            each.parts = [*each.parts, Part(release_s, of_job)]
            each.now = self._states.add_units(before, of_job)
            if each.bits:
                self._fit_anew(each, before)
            found.append((each, units))
        return found

    def _fit_anew(self, each: EqualNodes, before: int) -> None:
        """Note what fits on the nodes of a class, whose state was another one before."""
        self._idle &= ~each.bits
        for units, nodes in self._fitting.items():
            had = self._states.units_in(units, before)
            if had:
                nodes[had] &= ~each.bits
            fits = self._states.units_in(units, each.now)
            if fits:
                nodes[fits] = nodes.get(fits, 0) | each.bits

    def within(self, place: KnownWay) -> list[EqualNodes]:
        """Return the classes that are in a place."""
        return [each for each in self.all if place.has(each.nodes[0])]

    def idle_within(self, place: KnownWay) -> int:
        """Return how many nodes of a place have no job."""
        return (self._idle & place.nodes).bit_count()

    def _by_class(self, allocation: Allocation) -> dict[tuple[int, int], list[int]]:
        found: dict[tuple[int, int], list[int]] = {}
        nodes, counts = allocation
        of, units, same = -1, 0, list[int]()
        for place in range(len(nodes)):
            node = nodes[place]
            if self._class_of[node] != of or counts[place] != units:
                of, units = self._class_of[node], counts[place]
                same = found.setdefault((of, units), [])
            same.append(node)
        return found

    def _split(self, number: int, nodes: list[int]) -> int:
        """Return the number of the class that these nodes of one are from now on."""
        before = self.all[number]
        if len(nodes) == len(before.nodes):
            return number
        leaving = set(nodes)
        before.nodes = [node for node in before.nodes if node not in leaving]
        for node in nodes:
            self._class_of[node] = len(self.all)
        split = EqualNodes(nodes, before.parts, before.now, before.then)
        self.all.append(split)
        if before.bits:
            split.bits = node_set(nodes)
            before.bits ^= split.bits
            self.open.append(split)
        return len(self.all) - 1

    def total(self, place: KnownWay, *, beside_anyone: bool = False) -> int:
        """Return how many units fit in a place now, beside the neighbours that they may have or
        beside anyone: none where a wanted node takes none."""
        if place.parts:
            return self.matched(place.parts).nodes
        units = place.beside_anyone if beside_anyone else place.anywhere
        total, lacking = self._totals(place, units)
        return 0 if lacking else total

    def matched(self, parts: Sequence[PartShape]) -> MatchedParts:
        """Return the nodes that the parts of a gang, each in one place, have at once now."""
        return _Gang(parts, self._states).matched(self._while_leaving(), 0)

    def groups_of(self, parts: Sequence[PartShape], states: Sequence[int]) -> list[NodeGroup]:
        """Return the classes, which are in such states, as the parts of a gang may have them."""
        gang = _Gang(parts, self._states)
        return [
            NodeGroup(each.nodes[0], len(each.nodes), gang.fitting(state))
            for each, state in zip(self.all, states, strict=True)
        ]

    def _totals(self, place: KnownWay, units: UnitsAnywhere) -> tuple[int, int]:
        """Return how many units fit in a place now, and how many wanted nodes take none."""
        nodes, lacking, total = place.nodes, place.wanted, 0
        for count, fitting in self._nodes_fitting(units).items():
            total += count * (fitting & nodes).bit_count()
            if lacking:
                lacking &= ~fitting
        return total, lacking.bit_count() if lacking else 0

    def _nodes_fitting(self, units: UnitsAnywhere) -> dict[int, NodeBits]:
        """Return the nodes on which as many units fit now, by how many."""
        found = self._fitting.get(units)
        if found is None:
            found = self._fitting[units] = {}
            for each in self.open:
                count = self._states.units_in(units, each.now)
                if count:
                    found[count] = found.get(count, 0) | each.bits
        return found

    def earliest(self, place: KnownWay, count: int, from_s: float) -> Soonest:
        """Return when, from a time on, so many units will fit in a place, or all jobs have left:
        what is overdue is expected back at any moment."""
        if place.parts:
            return self.earliest_of_gang([place.parts], from_s)
        return self._earliest_of_units(place, count, from_s)

    def _earliest_of_units(self, place: KnownWay, count: int, from_s: float) -> Soonest:
        states, wanted = self._states, place.wanted
        then, units = [each.now for each in self.all], place.anywhere
        total, lacking = self._totals(place, units)
        is_there = [place.has(each.nodes[0]) for each in self.all]
        releases, gone, time_s = self._in_order(), 0, from_s
        while True:
            while gone < len(releases):
                release_s, number, at = releases[gone]
                if release_s > time_s:
                    break
                each, before = self.all[number], then[number]
                after = then[number] = states.remove_units(before, each.parts[at].of_job)
                gone += 1
                if not is_there[number]:
                    continue
                had, fits = states.units_in(units, before), states.units_in(units, after)
                total += len(each.nodes) * (fits - had)
                if wanted and (wanted >> each.nodes[0]) & 1:
                    lacking += len(each.nodes) * (int(not fits) - int(not had))
            is_enough = total >= count and not lacking
            if is_enough or gone == len(releases):
                return Soonest(time_s, total, then, fits=is_enough)
            time_s, _, _ = releases[gone]

    def earliest_of_gang(self, choices: Sequence[Sequence[PartShape]], from_s: float) -> Soonest:
        """Return when, from a time on, all parts of a gang will fit at once, or all jobs have left;
        in the first of these choices of places where that is soonest.

        Nodes of a gang have no neighbours, so that more of it fits the more jobs have left: a
        bisection finds how many must have. Of most choices it is asked only whether they fit before
        the best of those before them does.
        """
        leaving, releases = self._while_leaving(), self._in_order()
        overdue = leaving.by(from_s)
        best, way = -1, 0
        for at, parts in enumerate(choices):
            gang = _Gang(parts, self._states)
            if best < 0:
                gone = gang.least_gone(leaving, overdue, len(releases))
            elif best > overdue:
                gone = gang.fewer_gone(leaving, overdue, leaving.before(releases[best - 1][0]))
            else:
                break
            if gone >= 0:
                best, way = gone, at
        fits, gone = best >= 0, best if best >= 0 else len(releases)
        time_s = releases[gone - 1][0] if gone > overdue else from_s
        gone = leaving.by(time_s)
        units = _Gang(choices[way], self._states).matched(leaving, gone).nodes
        soonest = Soonest(time_s, units, leaving.states(gone), fits=fits)
        soonest.way = way
        return soonest

    def _while_leaving(self) -> "_Leaving":
        if self._leaving is None:
            self._leaving = _Leaving(self.all, self._in_order(), self._states)
        return self._leaving

    def _in_order(self) -> list[tuple[float, int, int]]:
        if self._releases is None:
            self._releases = sorted(
                [
                    (part.release_s, number, place)
                    for number, each in enumerate(self.all)
                    for place, part in enumerate(each.parts)
                ]
            )
        return self._releases


class _Leaving:
    """The states of nodes while jobs leave their classes, by how often one has left one."""

    def __init__(
        self,
        classes: Sequence[EqualNodes],
        releases: Sequence[tuple[float, int, int]],
        states: KnownStates,
    ) -> None:
        self._classes, self._releases, self._states = classes, releases, states
        self._then = [each.now for each in classes]
        self._changes: list[tuple[int, int, int]] = []  # class, state before, state after
        # A node that is in each state at some time: of those in one the same fits.
        self.first: dict[int, int] = {}
        now: dict[int, int] = {}
        for each in classes:
            self.first.setdefault(each.now, each.nodes[0])
            now[each.now] = now.get(each.now, 0) + len(each.nodes)
        self._nodes: dict[int, dict[int, int]] = {0: now}

    def by(self, time_s: float) -> int:
        """Return how many have left by a time."""
        return bisect_right(self._releases, time_s, key=itemgetter(0))

    def before(self, time_s: float) -> int:
        """Return how many have left before a time."""
        return bisect_left(self._releases, time_s, key=itemgetter(0))

    def nodes(self, gone: int) -> dict[int, int]:
        """Return how many nodes are in each state once so many have left."""
        found = self._nodes.get(gone)
        if found is None:
            self._leave(gone)
            known = max([each for each in self._nodes if each < gone])
            found = dict(self._nodes[known])
            for number, before, after in self._changes[known:gone]:
                nodes = len(self._classes[number].nodes)
                found[before] -= nodes
                found[after] = found.get(after, 0) + nodes
            found = {state: nodes for state, nodes in found.items() if nodes}
            self._nodes[gone] = found
        return found

    def states(self, gone: int) -> list[int]:
        """Return the state of each class once so many have left."""
        self._leave(gone)
        found = [each.now for each in self._classes]
        for number, _, after in self._changes[:gone]:
            found[number] = after
        return found

    def _leave(self, gone: int) -> None:
        for _, number, place in self._releases[len(self._changes) : gone]:
            each, before = self._classes[number], self._then[number]
            of_job = each.parts[place].of_job
            after = self._then[number] = self._states.remove_units(before, of_job)
            self.first.setdefault(after, each.nodes[0])
            self._changes.append((number, before, after))


class _Gang:
    """Parts, each in one place, and which of them fit on nodes in each state that was asked
    about."""

    def __init__(self, parts: Sequence[PartShape], states: KnownStates) -> None:
        self._states = states
        self._counts, self._wanted = [part.nodes for part in parts], wanted_of(parts)
        self._units = [states.units(Kind("", part.shape)) for part in parts]
        self._keys: dict[int, tuple[int, int]] = {}

    def fitting(self, state: int) -> int:
        """Return which parts fit on a node in a state, a bit each."""
        found, bit = 0, 1
        for units in self._units:
            if self._states.units_in(units, state):
                found |= bit
            bit <<= 1
        return found

    def matched(self, leaving: _Leaving, gone: int) -> MatchedParts:
        """Return the nodes that the parts have at once after so many have left."""
        groups: dict[tuple[int, int], NodeGroup] = {}
        for state, nodes in leaving.nodes(gone).items():
            key = self._keys.get(state)
            if key is None:
                key = self.fitting(state), pins_of(self._wanted, leaving.first[state])
                self._keys[state] = key
            same = groups.get(key)
            more = nodes if same is None else nodes + same.nodes
            groups[key] = NodeGroup(leaving.first[state], more, key[0])
        return match_parts(self._counts, self._wanted, list(groups.values()))

    def least_gone(self, leaving: _Leaving, least: int, most: int) -> int:
        """Return how many must have left at least, between these; below 0 where they do not fit
        then either. Looks at no more of them than twice as many as must."""
        begin, step = least, 1
        while self.matched(leaving, least).lacks:
            if least == most:
                return -1
            begin, least, step = least + 1, min(most, least + step), 2 * step
        return self._between(leaving, begin, least)

    def fewer_gone(self, leaving: _Leaving, least: int, most: int) -> int:
        """Return how many must have left at least, between these; below 0 where they do not fit
        then either. Looks at once whether they do."""
        return -1 if self.matched(leaving, most).lacks else self._between(leaving, least, most)

    def _between(self, leaving: _Leaving, least: int, most: int) -> int:
        while least < most:
            middle = (least + most) // 2
            if self.matched(leaving, middle).lacks:
                least = middle + 1
            else:
                most = middle
        return least
