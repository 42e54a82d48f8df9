"""The profile of a cluster in parts: the state of each node from now on, a step function of time.

On which nodes at least one unit of a kind fits, at least two and so on, are sets of nodes. What
fits throughout a time is what these have in common over its steps.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import inf
from typing import Final, NamedTuple

from shared.scheduling.eligibility import NodeBits, node_set
from shared.scheduling.node_selection import NodeSelection
from shared.scheduling.node_states import KnownWay, UnitsAnywhere
from shared.scheduling.part_matching import NodeGroup, match_parts, pins_of
from shared.scheduling.problem import Allocation, Kind, PartShape, wanted_of
from shared.scheduling.windows import Windows

# More units of one job are on no node.
_MOST_ON_NODE: Final = 4096
# Nodes on which at least one unit fits, at least two and so on.
_AtLeast = list[NodeBits]


class Gap(NamedTuple):
    """Where and from when on units fit as long as they last: in a place, the nodes on
    which at least one fits throughout, at least two and so on. Of a gang it has the nodes."""

    start_s: float
    step: int
    place: KnownWay
    at_least: _AtLeast


class UnitsProfile:
    """Steps of constant states of all nodes; the last one never ends. It begins with nodes as they
    are, or as a copy of another one that it is `like`."""

    def __init__(
        self, now_s: float, nodes: NodeSelection, like: "UnitsProfile | None" = None
    ) -> None:
        self._nodes, self._states = nodes, nodes.states
        # By step: when it begins, the state of each node, the nodes whose state may be another one
        # than before it, and what fits.
        self._times_s = [now_s]
        self._on = [[0] * nodes.table.nodes]
        self._changed: list[NodeBits] = [0]
        self._fitting: list[dict[UnitsAnywhere, _AtLeast]] = [{}]
        if like is not None:
            self._times_s, self._changed = like._times_s.copy(), like._changed.copy()
            self._on = [on.copy() for on in like._on]
            self._fitting = [_copied(fitting) for fitting in like._fitting]
            return
        for each in nodes.classes.all:
            for node in each.nodes:
                self._on[0][node] = each.now

    def copy(self) -> "UnitsProfile":
        """Return a copy, which is changed by itself."""
        return UnitsProfile(self._times_s[0], self._nodes, self)

    def let_leave(self, overdue_s: float) -> None:
        """Have the jobs that run leave when they are expected to, and those past their limits at a
        time."""
        classes, now_s = self._nodes.classes.all, self._times_s[0]
        leaving = sorted(
            [
                (part.release_s if part.release_s > now_s else overdue_s, number, place)
                for number, each in enumerate(classes)
                for place, part in enumerate(each.parts)
                if part.release_s < inf
            ]
        )
        then = [each.now for each in classes]
        for release_s, number, place in leaving:
            if release_s > self._times_s[-1]:
                self._times_s.append(release_s)
                self._on.append(self._on[-1].copy())
                self._changed.append(0)
                self._fitting.append({})
            each, on = classes[number], self._on[-1]
            after = self._states.remove_units(then[number], each.parts[place].of_job)
            then[number] = after
            for node in each.nodes:
                on[node] = after
            self._changed[-1] |= node_set(each.nodes)

    def cut(self, time_s: float) -> int:
        """Return the step that begins at a time, made if there is none."""
        step = bisect_left(self._times_s, time_s)
        if step == len(self._times_s) or self._times_s[step] != time_s:
            self._times_s.insert(step, time_s)
            self._on.insert(step, self._on[step - 1].copy())
            self._changed.insert(step, 0)
            self._fitting.insert(step, _copied(self._fitting[step - 1]))
        return step

    def take(self, start_s: float, end_s: float, kind: Kind, allocation: Allocation) -> None:
        """Have less free in between."""
        first = self.cut(start_s)
        last = self.cut(end_s) if end_s < inf else len(self._times_s)
        nodes, counts = allocation
        of_job = {units: self._states.units_of_job(kind, units) for units in set(counts)}
        for step in range(first, last):
            on, changes = self._on[step], dict[tuple[int, int], NodeBits]()
            for place in range(len(nodes)):
                node = nodes[place]
                before = on[node]
                after = on[node] = self._states.add_units(before, of_job[counts[place]])
                changes[before, after] = changes.get((before, after), 0) | (1 << node)
            for units, at_least in self._fitting[step].items():
                for (before, after), bits in changes.items():
                    self._note(at_least, bits, units, before, after)
        taken = node_set(nodes)
        self._changed[first] |= taken
        if end_s < inf:
            self._changed[last] |= taken

    def state_at(self, node: int, time_s: float) -> int:
        """Return the state of a node at a time."""
        return self._on[bisect_right(self._times_s, time_s) - 1][node]

    def _note(
        self, at_least: _AtLeast, nodes: NodeBits, units: UnitsAnywhere, before: int, after: int
    ) -> None:
        """Note what fits on nodes whose state was another one."""
        had = min(self._states.units_in(units, before), _MOST_ON_NODE)
        fits = min(self._states.units_in(units, after), _MOST_ON_NODE)
        for count in range(fits, had):
            at_least[count] &= ~nodes
        while len(at_least) < fits:
            at_least.append(0)
        for count in range(had, fits):
            at_least[count] |= nodes

    def _fits(self, step: int, units: UnitsAnywhere) -> _AtLeast:
        """Return the nodes on which at least one unit fits in a step, at least two and so on."""
        known = step
        while known > 0 and units not in self._fitting[known]:
            known -= 1
        found = self._fitting[known].get(units)
        if found is None:
            found = self._fitting[0][units] = self._fit_first(units)
        while known < step:
            known += 1
            before, after, found = self._on[known - 1], self._on[known], found.copy()
            for node in _members(self._changed[known]):
                if before[node] != after[node]:
                    self._note(found, 1 << node, units, before[node], after[node])
            self._fitting[known][units] = found
        return found

    def _fit_first(self, units: UnitsAnywhere) -> _AtLeast:
        alike: dict[int, list[int]] = {}
        for node, state in enumerate(self._on[0]):
            alike.setdefault(state, []).append(node)
        found: _AtLeast = []
        for state, nodes in alike.items():
            fits = min(self._states.units_in(units, state), _MOST_ON_NODE)
            there = node_set(nodes) if fits else 0
            while len(found) < fits:
                found.append(0)
            for count in range(fits):
                found[count] |= there
        return found

    # When there is room -------------------------------------------------------------------------

    def earliest(
        self,
        place: KnownWay,
        count: int,
        lasts_s: float,
        from_s: float,
        windows: Windows,
        reservation: str,
    ) -> Gap | None:
        """Return the first room, from a time on, for so many units in a place that last for so
        long, on nodes that no window shuts to them; None where there never is."""
        step, none = bisect_right(self._times_s, from_s) - 1, (None, 0)
        while step < len(self._times_s):
            start_s = max(self._times_s[step], from_s)
            end_s, nodes = start_s + lasts_s, place.nodes
            if windows.any:
                nodes &= ~windows.shut(reservation, start_s, end_s)
            found, behind = none
            if not nodes:
                behind = step + 1
            elif place.parts:
                found, behind = self._gang_throughout(place.parts, nodes, step, end_s)
            else:
                found, behind = self._throughout(place, nodes, count, step, end_s)
            if found is not None:
                return Gap(start_s, step, place, found)
            step = behind
        return None

    def _throughout(
        self, place: KnownWay, nodes: NodeBits, count: int, step: int, end_s: float
    ) -> tuple[_AtLeast | None, int]:
        """Return the nodes on which units fit from a step until a time; where these are too few,
        None and the next step from which they may."""
        at, found = step, [each & nodes for each in self._fits(step, place.anywhere)[:count]]
        while _are_enough(found, place.wanted, count):
            at += 1
            if at == len(self._times_s) or self._times_s[at] >= end_s:
                return found, step
            there = self._fits(at, place.anywhere)
            found = [both & each for both, each in zip(found, there, strict=False)]
        there = [each & place.nodes for each in self._fits(at, place.anywhere)[:count]]
        return None, (step if _are_enough(there, place.wanted, count) else at) + 1

    def _gang_throughout(
        self, parts: Sequence[PartShape], nodes: NodeBits, step: int, end_s: float
    ) -> tuple[_AtLeast | None, int]:
        """Return the nodes of a gang from a step until a time; None and the next step where it does
        not fit."""
        all_units = [self._states.units(Kind("", part.shape)) for part in parts]
        found, at = [nodes] * len(parts), step
        while at == step or (at < len(self._times_s) and self._times_s[at] < end_s):
            for number, units in enumerate(all_units):
                there = self._fits(at, units)
                found[number] &= there[0] if there else 0
                if found[number].bit_count() < parts[number].nodes:
                    return None, step + 1
            at += 1
        gang = self._matched(parts, found)
        return ([gang], step) if gang else (None, step + 1)

    def _matched(self, parts: Sequence[PartShape], fitting: Sequence[NodeBits]) -> NodeBits:
        """Return the nodes that the parts of a gang take, of those that fit each; none where they
        do not fit at once."""
        wanted, anywhere = wanted_of(parts), 0
        for nodes in fitting:
            anywhere |= nodes
        alike: dict[tuple[int, int, int], list[int]] = {}
        for node in _members(anywhere):
            key = pins_of(fitting, node), pins_of(wanted, node), self._nodes.level(node)
            alike.setdefault(key, []).append(node)
        groups = [NodeGroup(n[0], len(n), fits, cost) for (fits, _, cost), n in alike.items()]
        matched = match_parts([part.nodes for part in parts], wanted, groups)
        if matched.lacks:
            return 0
        taken = [sum(counts) for counts in zip(*matched.taken, strict=True)]
        each = zip(alike.values(), taken, strict=True)
        return node_set(sorted([node for nodes, count in each for node in nodes[:count]]))

    # Which nodes --------------------------------------------------------------------------------

    def allocation(self, gap: Gap, count: int) -> Allocation:
        """Return the nodes for so many units that have room, best first."""
        found, place = gap.at_least, gap.place
        if place.parts:
            nodes = tuple(_members(found[0]))
            return Allocation(nodes, (1,) * len(nodes))
        most: dict[int, int] = {}
        for units, bits in enumerate(found):
            for node in _members(bits):
                most[node] = units + 1
        taken: dict[int, int] = {}
        wanted = _members(place.wanted)
        for place_of, node in enumerate(wanted):  # one at least on each that follows
            taken[node] = min(most.pop(node), count - (len(wanted) - 1 - place_of))
            count -= taken[node]
        on = self._on[gap.step]
        if count:
            for node in self._nodes.best_first(place.anywhere, most, on):
                taken[node] = min(most[node], count)
                count -= taken[node]
                if not count:
                    break
        nodes = tuple(sorted(taken))
        return Allocation(nodes, tuple([taken[node] for node in nodes]))


def _are_enough(at_least: _AtLeast, wanted: NodeBits, count: int) -> bool:
    """Return whether so many units fit, one on each wanted node among them."""
    if not at_least or wanted & ~at_least[0]:
        return False
    for nodes in at_least:
        count -= nodes.bit_count()
    return count <= 0


def _copied(fitting: dict[UnitsAnywhere, _AtLeast]) -> dict[UnitsAnywhere, _AtLeast]:
    return {units: at_least.copy() for units, at_least in fitting.items()}


def _members(nodes: NodeBits) -> list[int]:
    """Return the nodes of a set, ascending."""
    found = []
    while nodes:
        lowest = nodes & -nodes
        found.append(lowest.bit_length() - 1)
        nodes ^= lowest
    return found
