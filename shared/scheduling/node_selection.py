"""Selection of nodes, as Slurm calls it: which nodes the units of a job take, and whether that
leaves what is reserved.

Units are counted a class of equal nodes at a time, and anew where something was taken since.
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from sys import maxsize
from typing import NamedTuple

from shared.scheduling.capacity import NOBODY, AllocatedUnits, Capacity, Group
from shared.scheduling.eligibility import NodeBits, Where
from shared.scheduling.gangs import GangChoice, beside_gang, of_gang
from shared.scheduling.node_classes import NO_STATE, EqualNodes, NodeClasses
from shared.scheduling.node_states import KnownStates, KnownWay, UnitsAnywhere, surplus, units_of
from shared.scheduling.problem import (
    UNKNOWN,
    Allocation,
    Kind,
    NodeTable,
    Shape,
    gang_without,
    held_by,
    most_of_gang,
    without,
)
from shared.scheduling.sharing import Neighbours
from shared.scheduling.windows import NO_WINDOWS, Windows
from shared.scheduling.workload import Floats


class CountedUnits:
    """Count of the units of a kind that fit in the place where most do, as of a number of
    changes."""

    def __init__(self, changes: int, total: int) -> None:
        self.changes, self.total = changes, total


class Shadow:
    """Units in a place that are reserved at a time; `extra` more fit then than are reserved."""

    def __init__(self, start_s: float, place: KnownWay, extra: int) -> None:
        self.start_s, self.place, self.extra = start_s, place, extra


# The order in which a kind takes nodes: reserved units that are lost for each of its own, how far
# they are from running jobs, amounts that it does not need there, the cost to the neighbours.
_Preference = tuple[float, int, int, float]


class _Option(NamedTuple):
    """A class of nodes with the units that fit on each, and the reserved units that these cost."""

    node_class: EqualNodes
    units: int
    lost: int


class NodeSelection:
    """The nodes of one cluster by the kinds of jobs that fit on them.

    `known` has the count of each kind, as of some change. A kind that had no room before changes
    that only took has none now.
    """

    def __init__(
        self,
        capacity: Capacity,
        allocated: Mapping[int, AllocatedUnits],
        kinds: Sequence[Kind],
        neighbours: Neighbours,
        factors: Floats,
        states: KnownStates | None = None,
        windows: Windows = NO_WINDOWS,
        asleep: Sequence[NodeBits] = (),
    ) -> None:
        """Nodes of the sets that are `asleep` are taken behind all others, those of the first set
        before those of the next."""
        self._asleep, self._asleep_bits = asleep, 0
        for nodes in asleep:
            self._asleep_bits |= nodes
        self._capacity, self._allocated, self._kinds = capacity, allocated, kinds
        self._taken: list[AllocatedUnits] = []  # what the capacity does not have yet
        self._states = states or KnownStates(neighbours, capacity.groups)
        self._states.count(capacity.table)
        self._states.distinguish(kinds, capacity.table.nodes)
        if windows.any:
            kept = [window.nodes for window in windows.all]
            self._states.likeness.distinguish_sets(kept, capacity.table.nodes)
        if asleep:
            self._states.likeness.distinguish_sets(asleep, capacity.table.nodes)
        # Kinds without the nodes that windows shut to them, and their numbers, below 0.
        self._less: list[tuple[int, NodeBits]] = []
        self._numbers_less: dict[tuple[int, NodeBits], int] = {}
        self._shapes_less: dict[int, Shape] = {}
        self._places: dict[int, list[KnownWay]] = {}
        self._everywhere = (1 << capacity.table.nodes) - 1
        self._is_even = not len(factors) or bool((factors == factors[0]).all())
        self._factors: list[float] = [] if self._is_even else factors.tolist()
        self._classes: NodeClasses | None = None
        self.changes = 0  # how often something was taken
        self.known: dict[int, CountedUnits] = {}
        # Of each kind by number how many units fit at most, as far as it was counted.
        self._most_of_kinds: list[int] = []
        # The classes on which units fit, best first, beside the present reservation or none.
        self._choices: dict[tuple[UnitsAnywhere, bool], tuple[int, list[list[_Option]]]] = {}
        # The fewest units of a kind that the present reservation refused, and the most that it
        # allows since a number of changes.
        self._refused: dict[int, int] = {}
        self._allowed: dict[int, tuple[int, int]] = {}

    @property
    def capacity(self) -> Capacity:
        """Return what is free now. A pass asks its classes; what it took is put into the capacity
        when somebody asks here."""
        for allocated in self._taken:
            self._capacity.take(allocated.kind, allocated.allocation)
        self._taken.clear()
        return self._capacity

    @property
    def table(self) -> NodeTable:
        """Return the resources of the nodes."""
        return self._capacity.table

    @property
    def states(self) -> KnownStates:
        """Return the states of nodes, by number."""
        return self._states

    @property
    def classes(self) -> NodeClasses:
        """Return the nodes by the jobs on them, as of now."""
        if self._classes is None:
            self._classes = NodeClasses(self.capacity, self._allocated.values(), self._states)
        return self._classes

    def take(self, allocated: AllocatedUnits, shadow: Shadow | None) -> None:
        """Allocate units to a job; where it lasts beyond the shadow time, they are taken of what is
        free then too."""
        self.changes += 1
        _, _, kind, allocation, _ = allocated
        taken = self.classes.take(kind, allocation, allocated.release_s)
        self._taken.append(allocated)
        for each, units in taken if shadow is not None else ():
            assert shadow is not None
            before, place = each.then, shadow.place
            of_job = self._states.units_of_job(kind, units)
            each.then = self._states.add_units(before, of_job)
            # What starts beside a gang was chosen to leave it all.
            if not place.parts and place.has(each.nodes[0]):
                left = self._states.units_in(place.anywhere, each.then)
                less = self._states.units_in(place.anywhere, before) - left
                shadow.extra -= len(each.nodes) * less

    def count_anew(self) -> None:
        """Forget the counts of all kinds: units were released."""
        self.known.clear()
        self._most_of_kinds.clear()
        self.regroup()

    def regroup(self) -> None:
        """Forget the classes: a job is expected to leave at another time."""
        self._classes = None
        self._choices.clear()

    def forget_choices(self) -> None:
        """Forget choices of nodes: there is another reservation or none, or time has passed."""
        self._choices.clear()
        self._refused.clear()
        self._allowed.clear()

    def reserve(self, then: Sequence[int]) -> None:
        """Note a reservation, at whose time the classes are in these states."""
        for each, state in zip(self.classes.all, then, strict=True):
            each.then = state

    def may_fit(self, number: int, units: int) -> bool:
        """Return False where a kind was counted and has no room now. A gang was counted before the
        last changes, which only took, and has too few nodes without a job where it was not: no
        matching need find out."""
        counted = self.known.get(number)
        if counted is None:
            places = self.ways(number)
            return not places[0].parts or any(
                units <= self.classes.idle_within(place) for place in places
            )
        if units > counted.total or counted.changes == self.changes:
            return units <= counted.total
        return bool(self.ways(number)[0].parts) or units <= self.counted(number).total

    def may_fit_somewhere(self, number: int, units: int) -> bool:
        """Return False when so many units of a kind do not fit, on nodes that windows
        shut to it neither. Counted once, since until something is released there is only less."""
        counted = self.known.get(number)
        return units <= (self.counted(number) if counted is None else counted).total

    def may_fit_beyond(self, number: int, units: int) -> bool:
        """Return False when the present reservation has refused as many: see `fits_beyond`."""
        return units < self._refused.get(number, maxsize)

    def counted(self, number: int) -> CountedUnits:
        """Return how many units of a kind fit now: counted anew where something changed since."""
        counted = self.known.get(number)
        if counted is None or counted.changes != self.changes:
            places = self.ways(number)
            total = self.classes.total(places[0])
            for place in places[1:]:
                total = max(total, self.classes.total(place))
            counted = self.known[number] = CountedUnits(self.changes, total)
            if number >= 0:
                self.most_of_kinds()[number] = total
        return counted

    def most_of_kinds(self) -> list[int]:
        """Return of each kind by number how many units fit at most: as many as were counted."""
        uncounted = len(self._kinds) - len(self._most_of_kinds)
        if uncounted > 0:
            self._most_of_kinds += [maxsize] * uncounted
        return self._most_of_kinds

    def ways(self, number: int) -> list[KnownWay]:
        """Return the places of a kind. One that came later may distinguish nodes that were
        alike."""
        found = self._places.get(number)
        if found is None:
            found = self._places[number] = self._find_ways(number)
        return found

    def _find_ways(self, number: int) -> list[KnownWay]:
        if number >= 0:
            if self._states.distinguish(self._kinds, self.table.nodes):
                self.regroup()
            return self._states.ways_of_number(number)
        of, shut = self._less[-1 - number]
        kind, whole = self._kinds[of], self.ways(of)
        if kind.shape.parts:
            return self._states.ways(self._kind_without(kind, shut))
        return [self._states.without(place, shut, self._everywhere) for place in whole]

    def shape_of(self, number: int) -> Shape:
        """Return the shape of a kind."""
        if number >= 0:
            return self._kinds[number].shape
        found = self._shapes_less.get(number)
        if found is None:
            of, shut = self._less[-1 - number]
            found = self._shapes_less[number] = self._kind_without(self._kinds[of], shut).shape
        return found

    def without(self, number: int, shut: NodeBits) -> int:
        """Return the number of a kind without some nodes. The sets of windows and those of the kind
        distinguish nodes already."""
        if not shut:
            return number
        key = number, shut
        found = self._numbers_less.get(key)
        if found is None:
            found = number
            if any(place.nodes < 0 or place.nodes & shut for place in self.ways(number)):
                self._less.append(key)
                found = -len(self._less)
            self._numbers_less[key] = found
        return found

    def has_units_awake(self, number: int, units: int) -> bool:
        """Return whether so many units of a kind fit now on nodes that are not asleep."""
        if not self._asleep_bits:
            return True
        of, shut = (number, 0) if number >= 0 else self._less[-1 - number]
        return units <= self.counted(self.without(of, shut | self._asleep_bits)).total

    def is_asleep(self, nodes: Sequence[int]) -> bool:
        """Return whether one of these nodes is asleep."""
        return any((self._asleep_bits >> node) & 1 for node in nodes)

    def _kind_without(self, kind: Kind, shut: NodeBits) -> Kind:
        if kind.shape.parts:
            return gang_without(kind, shut, self.table.nodes)
        places = kind.shape.where or (Where(self._everywhere),)
        left = tuple([without(each, shut) for each in places])
        return kind._replace(shape=kind.shape._replace(where=left))

    def most_units(self, number: int) -> int:
        """Return how many units of a kind fit when nothing runs, in the place where most do."""
        return max([self.most_units_of(place) for place in self.ways(number)])

    def most_units_of(self, place: KnownWay) -> int:
        """Return how many units fit in one place when nothing runs."""
        if place.most_as_of != self._states.tables:
            place.most, place.most_as_of = self._most_when_empty(place), self._states.tables
        return place.most

    def _most_when_empty(self, place: KnownWay) -> int:
        if place.parts:
            return most_of_gang(place.kind.shape, self.table.amounts)
        states, shape, total = self._states, place.anywhere.kind.shape, 0
        for each in self.classes.within(place):
            units = units_of(states.by_number[each.now].amounts, shape)
            if not units and (place.wanted >> each.nodes[0]) & 1:
                return 0
            total += len(each.nodes) * units
        return total

    def units_beside_anyone(self, number: int) -> int:
        """Return how many units of a kind would fit if every job accepted every neighbour."""
        places = self.ways(number)
        return max([self.classes.total(place, beside_anyone=True) for place in places])

    def groups_beside(self, shape: Shape) -> list[Group]:
        """Return the groups of jobs beside which a unit of a shape would fit."""
        states = self._states
        there = [states.by_number[each.now] for each in self.classes.all]
        numbers = sorted({s.group for s in there if states.units_beside_anyone(shape, s)})
        return [states.groups.by_number[number] for number in numbers if number != NOBODY]

    def fits_beyond(self, number: int, count: int, shadow: Shadow) -> bool:
        """Return True when so many units that last beyond the shadow time leave what is reserved.

        A refused count stays refused while the reservation lasts: a start takes more from the
        reservation than it lets others take less.
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
        """Return how many reserved units are lost where a kind takes the nodes that cost fewest, in
        the place where that is least."""
        return min([self._least_lost_in(place, count, shadow) for place in self.ways(number)])

    def _least_lost_in(self, place: KnownWay, count: int, shadow: Shadow) -> int:
        """Return how many reserved units are lost in one place of a kind; more than there are where
        it does not fit."""
        if place.parts or shadow.place.parts:
            choice = self._choice_with_gangs(place, count, shadow)
            return maxsize if choice is None else choice.lost
        lost = 0
        if place.wanted:
            if self.classes.total(place) < count:
                return maxsize
            for _, option, units in self._on_wanted(place, count):
                lost += self._lost(place.anywhere, option, units, shadow)
                count -= units
            if not count:
                return lost
        for options in self._choice(place, shadow):
            fitting = sum([len(each.node_class.nodes) * each.units for each in options])
            if fitting >= count:
                return lost + self._least_lost_of(options, place.anywhere, count, shadow)
            lost += sum([len(each.node_class.nodes) * each.lost for each in options])
            count -= fitting
        return maxsize

    def _least_lost_of(
        self, options: list[_Option], units: UnitsAnywhere, count: int, shadow: Shadow
    ) -> int:
        """Return how many reserved units are lost where all options are as good, so that the order
        of nodes matters."""
        lost = 0
        if len(options) == 1:
            option = options[0]
            full = (count - 1) // option.units
            rest = count - full * option.units
            return full * option.lost + self._lost(units, option.node_class, rest, shadow)
        for _, option in self._in_order(options, count):
            if option.units >= count:
                return lost + self._lost(units, option.node_class, count, shadow)
            lost += option.lost
            count -= option.units
        return maxsize

    def allocation(self, number: int, count: int, shadow: Shadow | None) -> tuple[Kind, Allocation]:
        """Return the nodes for so many units of a kind, and what the job is on them; where they
        last beyond the shadow time, those that cost its reservation least. Of places that are as
        good it is the first."""
        places = self.ways(number)
        place = places[0] if len(places) == 1 else self._best_way(places, count, shadow)
        taken = sorted(self._taken_in(place, count, shadow))
        nodes = tuple([node for node, _ in taken])
        return held_by(places, nodes), Allocation(nodes, tuple([units for _, units in taken]))

    def _taken_in(
        self, place: KnownWay, count: int, shadow: Shadow | None
    ) -> list[tuple[int, int]]:
        """Return the nodes for so many units in a place, with the units on each."""
        if place.parts or (shadow is not None and shadow.place.parts):
            return self._with_gangs(place, count, shadow)
        taken: list[tuple[int, int]] = []
        if place.wanted:
            taken = [(node, units) for node, _, units in self._on_wanted(place, count)]
            count -= sum([units for _, units in taken])
        return taken + self._on_best(place, count, shadow) if count > 0 else taken

    def _choice_with_gangs(
        self, place: KnownWay, count: int, shadow: Shadow | None
    ) -> GangChoice | None:
        """Return the classes of which a gang takes nodes in one of its places, or a job beside a
        gang that nodes are reserved for; None where it does not fit so."""
        classes = self.classes
        reserved = shadow.place.parts if shadow is not None else ()
        if place.parts:
            lost = [
                0 if shadow is None or reserved else self._lost(place.anywhere, each, 1, shadow)
                for each in classes.all
            ]
            levels = [self.level(each.nodes[0]) for each in classes.all]
            return of_gang(classes, self._states, place.parts, reserved, lost, levels)
        if place.wanted and classes.total(place) < count:
            return None
        wanted = [(each, u) for _, each, u in self._on_wanted(place, count)] if place.wanted else []
        order = [
            (at, option.node_class, option.units)
            for at, options in enumerate(self._choice(place, shadow))
            for option in options
        ]
        return beside_gang(classes, wanted, order, reserved, count)

    def _with_gangs(
        self, place: KnownWay, count: int, shadow: Shadow | None
    ) -> list[tuple[int, int]]:
        """Return the nodes of such a choice, with the units on each."""
        choice = self._choice_with_gangs(place, count, shadow)
        if choice is None:
            raise ValueError("so many units do not fit")
        taken: list[tuple[int, int]] = []
        if place.wanted:
            taken = [(node, units) for node, _, units in self._on_wanted(place, count)]
            count -= sum([units for _, units in taken])
        for nodes, spare, units in choice.taken:
            for node in self._best_of(nodes)[:spare]:
                taken.append((node, min(units, count)))
                count -= units
        return taken

    def _on_best(self, place: KnownWay, count: int, shadow: Shadow | None) -> list[tuple[int, int]]:
        """Return the nodes for so many units in a place, best first, with the units on each."""
        taken: list[tuple[int, int]] = []
        for options in self._choice(place, shadow):
            for node, option in self._in_order(options, count):
                taken.append((node, min(option.units, count)))
                count -= option.units
                if count <= 0:
                    return taken
        raise ValueError("so many units do not fit")

    def _best_way(self, places: list[KnownWay], count: int, shadow: Shadow | None) -> KnownWay:
        """Return the place in which so many units fit and cost the reservation least; of these the
        one whose nodes run jobs soonest."""
        best, least = places[0], (maxsize, 0)
        for place in places:
            if self.classes.total(place) >= count:
                lost = 0 if shadow is None else self._least_lost_in(place, count, shadow)
                if lost < maxsize and (found := (lost, self._latest(place, count, shadow))) < least:
                    best, least = place, found
        if least[0] == maxsize:
            raise ValueError("so many units do not fit")
        return best

    def _latest(self, place: KnownWay, count: int, shadow: Shadow | None) -> int:
        """Return how far the last of the nodes for so many units is from running jobs."""
        if not self._asleep:
            return 0
        return max([self.level(node) for node, _ in self._taken_in(place, count, shadow)])

    def _on_wanted(self, place: KnownWay, count: int) -> list[tuple[int, EqualNodes, int]]:
        """Return the wanted nodes of a place, ascending, with what so many units take of each: as
        many as fit, and one at least on each that follows."""
        found = sorted(
            [
                (node, number)
                for number, each in enumerate(self.classes.all)
                if (place.wanted >> each.nodes[0]) & 1
                for node in each.nodes
            ]
        )
        taken, left = [], len(found)
        for node, number in found:
            left -= 1
            each = self.classes.all[number]
            units = min(self._states.units_in(place.anywhere, each.now), count - left)
            taken.append((node, each, units))
            count -= units
        return taken

    def _in_order(self, options: list[_Option], count: int) -> list[tuple[int, _Option]]:
        """Return nodes that are as good for a kind, enough for so many units: those that draw least
        first, by index."""
        if len(options) == 1 and self._is_even:
            option = options[0]
            return [(node, option) for node in option.node_class.nodes[: -(-count // option.units)]]
        nodes = [(node, option) for option in options for node in option.node_class.nodes]
        if len(options) > 1:
            nodes.sort(key=itemgetter(0))
        if not self._is_even:
            nodes.sort(key=self._factor)
        return nodes

    def _best_of(self, nodes: list[int]) -> list[int]:
        """Return nodes, those that draw least first, by index."""
        return nodes if self._is_even else sorted(nodes, key=self._factors.__getitem__)

    def _factor(self, each: tuple[int, _Option]) -> float:
        """Return what a node draws in proportion to others."""
        node, _ = each
        return self._factors[node]

    def _choice(self, place: KnownWay, shadow: Shadow | None) -> list[list[_Option]]:
        """Return the classes on which units fit in a place, but wanted nodes, in the order in which
        they are taken."""
        nodes = place.nodes & ~place.wanted
        if nodes < 0:
            return self._ordered(place.anywhere, shadow)
        return [
            within
            for options in self._ordered(place.anywhere, shadow)
            if (within := [each for each in options if each.node_class.bits & nodes])
        ]

    def _ordered(self, units: UnitsAnywhere, shadow: Shadow | None) -> list[list[_Option]]:
        """Return the classes on which units fit, best first, those together that are as good: that
        cost the reservation least, that have least of what the kind does not need, with the
        neighbours that suit it best."""
        key = units, shadow is not None
        changes, choice = self._choices.get(key, (-1, []))
        if changes != self.changes:
            choice = self._order(units, shadow)
            self._choices[key] = self.changes, choice
        return choice

    def _order(self, units: UnitsAnywhere, shadow: Shadow | None) -> list[list[_Option]]:
        found: dict[_Preference, list[_Option]] = {}
        states, kind = self._states, units.kind
        for each in self.classes.open:
            count = states.units_in(units, each.now)
            if count:
                lost = 0 if shadow is None else self._lost(units, each, count, shadow)
                state = states.by_number[each.now]
                cost = states.cost(kind, count, state.group)
                level = self.level(each.nodes[0])
                preference = lost / count, level, surplus(state, kind.shape), cost
                found.setdefault(preference, []).append(_Option(each, count, lost))
        return [found[preference] for preference in sorted(found)]

    def level(self, node: int) -> int:
        """Return how far a node is from running jobs; 0: it is on."""
        for at, nodes in enumerate(self._asleep):
            if (nodes >> node) & 1:
                return at + 1
        return 0

    def best_first(
        self, units: UnitsAnywhere, most: Mapping[int, int], on: Sequence[int]
    ) -> list[int]:
        """Return nodes on which so many units of a kind fit at most, and that are in such states,
        in the order in which they are taken where nothing is reserved."""
        alike: dict[tuple[int, int, int], list[int]] = {}
        for node, count in most.items():
            alike.setdefault((on[node], count, self.level(node)), []).append(node)
        found: dict[tuple[int, int, float], list[int]] = {}
        for (number, count, level), nodes in alike.items():
            state = self._states.by_number[number]
            cost = self._states.cost(units.kind, count, state.group)
            found.setdefault((level, surplus(state, units.kind.shape), cost), []).extend(nodes)
        return [node for each in sorted(found) for node in self._best_of(sorted(found[each]))]

    def _lost(self, units: UnitsAnywhere, on: EqualNodes, count: int, shadow: Shadow) -> int:
        """Return the units of the reserved shape that are lost at its time where so many are
        taken beyond it."""
        assert on.then != NO_STATE
        states, reserved = self._states, shadow.place
        if not reserved.has(on.nodes[0]):
            return 0
        before = states.units_in(reserved.anywhere, on.then)
        if not before:
            return 0
        then = states.add_units(on.then, states.of_job(units, count))
        after = states.units_in(reserved.anywhere, then)
        if not after and (reserved.wanted >> on.nodes[0]) & 1:
            return UNKNOWN  # the reserved job needs this very node
        return max(0, before - after)
