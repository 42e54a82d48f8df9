"""The rules of the core, written as plainly as they are said: EASY backfill over several clusters,
units on nodes, neighbours, budgets of power over time.

Everything is worked out anew for each question, on lists of jobs, nodes and intervals. It is slow
on purpose, and takes nothing from the code that it checks.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import inf
from typing import NamedTuple

# Applications with their cores on a node.
Members = tuple[tuple[str, int | Fraction], ...]
# By resource: whole numbers but for cores, of which there are parts.
Needs = tuple[tuple[str, int | Fraction], ...]
# Licences with how many of each.
Counts = tuple[tuple[str, int], ...]
_MOST_UNITS = 64


class Place(NamedTuple):
    """Nodes, on which all of a job is; on each of the `wanted` ones is some of it, and where it is
    `alone` nobody else."""

    nodes: frozenset[int]
    wanted: frozenset[int]
    alone: bool


_LeftOf = Callable[[Sequence[Place]], tuple[Place, ...]]


def _met(places: Sequence[Place]) -> tuple[Place, ...]:
    """Those of these places that have all that is wanted."""
    return tuple(place for place in places if place.wanted <= place.nodes)


def _emptied(places: Sequence[Place]) -> tuple[Place, ...]:
    """These places, without a node where one that is wanted is missing."""
    return tuple(
        place if place.wanted <= place.nodes else place._replace(nodes=frozenset())
        for place in places
    )


class Window(NamedTuple):
    """Nodes that are kept for a time, for the jobs of a user that name its number."""

    number: int
    from_s: float
    until_s: float
    nodes: frozenset[int]
    user: int

    def meets(self, start_s: float, end_s: float) -> bool:
        """Whether some of this time is some of that."""
        return start_s < self.until_s and end_s > self.from_s

    def holds(self, start_s: float, end_s: float) -> bool:
        """Whether a job of it may run then. One that starts in the first two minutes, and the first
        half, may take as long as it lasts."""
        length_s = self.until_s - self.from_s
        may_be_late = start_s - self.from_s <= min(120.0, length_s / 2)
        is_short = may_be_late and end_s - start_s <= length_s + 1e-6
        return self.from_s <= start_s and (end_s <= self.until_s or is_short)


class Shape(NamedTuple):
    """What one unit of a job needs on a cluster, by resource; on a node go `most` units, 0 is any
    number, and where it is `alone` nobody else. The job is in one of its `places`; None is
    anywhere. Of a gang that is a node; each of its `parts` takes so many of a shape of its own."""

    app: str
    needs: Needs
    alone: bool
    most: int
    places: tuple[Place, ...] | None = None
    parts: "tuple[tuple[int, Shape], ...]" = ()

    def within(self) -> "list[Shape]":
        """The shape in each of its places: of a gang in each choice of them."""
        if self.parts:
            each = [[(count, one) for one in part.within()] for count, part in self.parts]
            return [self._replace(parts=parts) for parts in product(*each)]
        if self.places is None:
            return [self]
        return [
            self._replace(alone=self.alone or place.alone, places=(place,)) for place in self.places
        ]

    def on(self, nodes: Iterable[int]) -> "Shape":
        """The shape as it is held on these nodes: alone where all its places that have them are
        so."""
        if self.parts:
            return self._replace(parts=())
        has = set(nodes)
        found = [one for one in self.within() if one.places is None or has <= one.places[0].nodes]
        return min(found, key=lambda one: one.alone, default=self)._replace(places=None)

    @property
    def wanted(self) -> frozenset[int]:
        """Nodes that it must have, of the one place where it is."""
        return self.places[0].wanted if self.places else frozenset()

    def may_be_on(self, node: int) -> bool:
        """Whether a node is in one of its places."""
        return self.places is None or any(node in place.nodes for place in self.places)

    @property
    def cores(self) -> int | Fraction:
        """Of one unit."""
        return dict(self.needs)["cores"]


def any_shape() -> Shape:
    """That of a job that has no nodes, or keeps those that it has."""
    return Shape("", (("cores", 0),), False, 0)


class Stay(NamedTuple):
    """A job on nodes of a cluster: how many units on which, until when, and what it draws."""

    arrival: int
    shape: Shape
    units: tuple[tuple[int, int], ...]
    release_s: float
    draw_mw: int
    licences: Counts = ()


class Waiting(NamedTuple):
    """A job that waits for a cluster, at its place in the one queue."""

    order: int
    arrival: int
    cluster: str
    units: int
    limit_s: float
    draw_mw: int
    shape: Shape
    others: tuple[tuple[float, int], ...] = ()  # limit and draw of the modes that it may start in
    reservation: int = -1
    licences: Counts = ()

    def modes(self) -> "list[Waiting]":
        """The entry in its own mode, and in the others."""
        return [self, *(self._replace(limit_s=s, draw_mw=mw, others=()) for s, mw in self.others)]


class Promise(NamedTuple):
    """Units that are reserved for a job at a time."""

    arrival: int
    units: int
    start_s: float


class Start(NamedTuple):
    """A start as it was decided; `units` by node, empty where nodes were only counted."""

    arrival: int
    cluster: str
    draw_mw: int
    units: tuple[tuple[int, int], ...]


@dataclass
class Nodes:
    """A cluster: what each node has, who is there, and who accepts whom."""

    has: Sequence[Mapping[str, int]]
    accepts: Callable[[Members], bool]
    stays: list[Stay] = field(default_factory=list)
    windows: Sequence[Window] = ()

    def open_to(self, entry: Waiting, start_s: float) -> Shape:
        """As `_open_to`: a gang in each of its parts."""
        if entry.shape.parts:
            return self._each_part(entry, lambda one: self._open_to(one, start_s, _emptied))
        return self._open_to(entry, start_s, _met)

    def _open_to(self, entry: Waiting, start_s: float, left_of: _LeftOf) -> Shape:
        """The shape of an entry that starts then, on nodes on which it runs into nothing that is
        kept for others; if it is of a reservation, on the nodes of that, within its time."""
        end_s = start_s + entry.limit_s
        places = entry.shape.places
        if places is None:
            if not self.windows:
                return entry.shape
            places = (Place(frozenset(range(len(self.has))), frozenset(), False),)
        shut = {
            node
            for window in self.windows
            if window.number != entry.reservation and window.meets(start_s, end_s)
            for node in window.nodes
        }
        own = frozenset[int](range(len(self.has)))
        if entry.reservation >= 0:
            within = [w for w in self.windows if w.number == entry.reservation]
            within = [w for w in within if w.holds(start_s, end_s)]
            own = within[0].nodes if within else frozenset()
        left = [place._replace(nodes=(place.nodes & own) - shut) for place in places]
        return entry.shape._replace(places=left_of(left))

    def _each_part(self, entry: Waiting, shape_of: Callable[[Waiting], Shape]) -> Shape:
        """A gang of parts that may be on fewer nodes."""
        parts = [(n, shape_of(entry._replace(shape=part))) for n, part in entry.shape.parts]
        return entry.shape._replace(parts=tuple(parts))

    def apart_from_others(self, entry: Waiting) -> Shape:
        """As `_apart_from_others`: a gang in each of its parts."""
        if entry.shape.parts:
            return self._each_part(entry, lambda one: self._apart_from_others(one, _emptied))
        return self._apart_from_others(entry, _met)

    def _apart_from_others(self, entry: Waiting, left_of: _LeftOf) -> Shape:
        """The shape of an entry on the nodes of its own reservation, whatever is kept for
        others."""
        own = [w for w in self.windows if w.number == entry.reservation]
        if not own:
            return entry.shape
        everywhere = Place(frozenset(range(len(self.has))), frozenset(), False)
        places = (everywhere,) if entry.shape.places is None else entry.shape.places
        left = [place._replace(nodes=place.nodes & own[0].nodes) for place in places]
        return entry.shape._replace(places=left_of(left))

    def awaits(self, entry: Waiting, now_s: float) -> bool:
        """Whether the reservation of an entry has not begun."""
        return any(w.number == entry.reservation and now_s < w.from_s for w in self.windows)

    def on(self, node: int, stays: Iterable[Stay]) -> list[tuple[Stay, int]]:
        """Those of these stays that have units there, with how many."""
        return [(stay, n) for stay in stays for at, n in stay.units if at == node]

    def takes(self, shape: Shape, count: int, node: int, stays: Iterable[Stay]) -> bool:
        """Whether so many units fit onto a node beside these."""
        there = self.on(node, stays)
        if not shape.may_be_on(node):
            return False
        if (shape.most and count > shape.most) or (shape.alone and there):
            return False
        if any(stay.shape.alone for stay, _ in there):
            return False
        for name, need in shape.needs:
            used = sum(dict(stay.shape.needs).get(name, 0) * n for stay, n in there)
            if need and used + need * count > self.has[node].get(name, 0):
                return False
        members = [(stay.shape.app, stay.shape.cores * n) for stay, n in there]
        return not there or self.accepts((*members, (shape.app, shape.cores * count)))

    def room(self, shape: Shape, stays: Sequence[Stay]) -> list[int]:
        """How many units fit on each node beside these stays."""
        return [self._room(shape, node, stays) for node in range(len(self.has))]

    def _room(self, shape: Shape, node: int, stays: Sequence[Stay]) -> int:
        count = 0
        while count < _MOST_UNITS and self.takes(shape, count + 1, node, stays):
            count += 1
        return count

    def at(self, time_s: float) -> list[Stay]:
        """Who is there then if all leave at their limits; who is overdue may leave at once."""
        return [stay for stay in self.stays if stay.release_s > time_s]

    def total(self, shape: Shape, stays: Sequence[Stay]) -> int:
        """How many units fit beside these stays in the place where most do: none where a node that
        the job must have takes none."""
        return max((self._total(one, stays) for one in shape.within()), default=0)

    def _total(self, shape: Shape, stays: Sequence[Stay]) -> int:
        if shape.parts:
            return self.at_once(shape, stays, range(len(self.has)))
        room = self.room(shape, stays)
        return sum(room) if all(room[node] for node in shape.wanted) else 0

    def at_once(self, gang: Shape, stays: Sequence[Stay], among: Iterable[int]) -> int:
        """How many of these nodes the parts of a gang, each in one place, have at once. By Hall's
        theorem they lack as many as those parts do that lack most together."""
        nodes, parts = set(among), range(len(gang.parts))
        fit = [
            {n for n, units in enumerate(self.room(part, stays)) if units and n in nodes}
            for _, part in gang.parts
        ]
        wanted = [part.wanted for _, part in gang.parts]
        own = [
            fit[p] - set[int]().union(*(w for q, w in enumerate(wanted) if q != p)) for p in parts
        ]
        lacks = 0
        for some in range(1 << len(parts)):
            taken = [p for p in parts if some >> p & 1]
            have = len(set[int]().union(*(own[p] for p in taken)))
            lacks = max(lacks, sum(gang.parts[p][0] for p in taken) - have)
        if any(not wanted[p] <= own[p] for p in parts):
            lacks = max(lacks, 1)
        return sum(count for count, _ in gang.parts) - lacks

    def most(self, shape: Shape) -> int:
        """How many units fit when nobody is there."""
        return self.total(shape, [])

    def units_beside_anyone(self, shape: Shape) -> int:
        """How many would fit now if everybody accepted everybody."""
        return Nodes(self.has, lambda _: True).total(shape, self.stays)

    def faults(self) -> Iterator[str]:
        """Nodes that hold more than they have, and neighbours that do not go together."""
        for stay in self.stays:
            others = [other for other in self.stays if other is not stay]
            for node, count in stay.units:
                if not self.takes(stay.shape, count, node, others):
                    yield f"node {node} cannot hold {stay} beside {others}"


class Kept(NamedTuple):
    """Watts, or licences, that are reserved under a budget."""

    begin_s: float
    end_s: float
    draw_mw: int


@dataclass
class Budget:
    """A cap of some clusters, as steps (from_s, mW or None), and what idles under it; of a licence
    how many there are."""

    name: str
    clusters: frozenset[str]
    steps: Sequence[tuple[float, int | None]]
    idle_mw: int
    kept: dict[int, Kept] = field(default_factory=dict)
    licence: str = ""

    def of(self, job: "Stay | Waiting") -> int:
        """What a job takes under it."""
        return dict(job.licences).get(self.licence, 0) if self.licence else job.draw_mw

    def cap_mw(self, time_s: float) -> float:
        """The cap at a time; infinite before the first step."""
        caps = [cap for from_s, cap in self.steps if from_s <= time_s]
        return inf if not caps or caps[-1] is None else caps[-1]

    def is_in_force(self, time_s: float) -> bool:
        """Whether there is a cap then or later."""
        later = (cap for from_s, cap in self.steps if from_s > time_s)
        return self.cap_mw(time_s) < inf or any(cap is not None for cap in later)

    def left_mw(self, time_s: float, stays: Iterable[Stay], but: int = -1) -> float:
        """What is left at a time beside these and all that is reserved, but for one job."""
        drawn = sum(map(self.of, stays))
        kept = sum(
            one.draw_mw
            for arrival, one in self.kept.items()
            if arrival != but and one.begin_s <= time_s < one.end_s
        )
        return self.cap_mw(time_s) - self.idle_mw - drawn - kept

    def keep(self, arrival: int, kept: Kept) -> bool:
        """Reserve for a job, unless what it has is as early. True where it had something later."""
        known = self.kept.get(arrival)
        if known is not None and kept.begin_s >= known.begin_s:
            return False
        self.kept[arrival] = kept
        return known is not None

    def drops(self, from_s: float, until_s: float) -> list[float]:
        """The times of an interval at which less may be left than before."""
        times = {from_s, *(s for s, _ in self.steps), *(one.begin_s for one in self.kept.values())}
        return sorted(s for s in times if from_s <= s < until_s)


class Lack(NamedTuple):
    """A budget that does not let a job start: at which time, and what there is then."""

    budget: str
    at_s: float
    left_mw: float
    until_s: float


@dataclass
class Refused:
    """How a cluster was when the turn of an entry came last: units free for it, and the promise
    with what it leaves over."""

    free: int
    promise: Promise | None
    extra: int


@dataclass
class Region:
    """Clusters and budgets at an instant, and what waits. `promised` are the watts with what is
    promised of units."""

    now_s: float
    clusters: Mapping[str, Nodes]
    budgets: Sequence[Budget]
    waiting: Sequence[Waiting]
    licences: Sequence[Budget] = ()
    promises: dict[str, Promise] = field(default_factory=dict)
    promised: dict[str, Kept] = field(default_factory=dict)
    reserved: dict[str, Shape] = field(default_factory=dict)
    refused: dict[tuple[int, str], Refused] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def over(self, cluster: str) -> list[Budget]:
        """The budgets that a cluster is under."""
        return [budget for budget in self.budgets if cluster in budget.clusters]

    def licences_of(self, entry: Waiting) -> list[Budget]:
        """The licences that an entry needs."""
        return [b for b in self.licences if entry.cluster in b.clusters and b.of(entry)]

    # What may start -----------------------------------------------------------------------------

    def starting(self, entry: Waiting) -> Waiting | None:
        """The entry in the mode in which it may start now: in another than its own only where watts
        alone refuse that."""
        stands = self.why_not(entry)
        if not stands:
            return entry
        if stands & {"room", "promise"}:
            return None
        return next((mode for mode in entry.modes() if not self.why_not(mode)), None)

    def why_not(self, entry: Waiting) -> set[str]:
        """What keeps an entry from starting now: `room`, `promise` and names of budgets."""
        nodes, found = self.clusters[entry.cluster], set[str]()
        if nodes.total(nodes.open_to(entry, self.now_s), nodes.stays) < entry.units:
            found.add("room")
        if not self.leaves_promise(entry):
            found.add("promise")
        return found | {lack.budget for lack in [*self.lacks(entry), *self.unlicensed(entry)]}

    def lacks(self, entry: Waiting) -> list[Lack]:
        """The budgets that are short at some time until the limit of an entry that starts now."""
        return [lack for budget in self.over(entry.cluster) for lack in self._lack(budget, entry)]

    def unlicensed(self, entry: Waiting) -> list[Lack]:
        """The licences that are short then."""
        return [lack for one in self.licences_of(entry) for lack in self._lack(one, entry)]

    def _lack(self, budget: Budget, entry: Waiting) -> list[Lack]:
        for time_s in budget.drops(self.now_s, self.now_s + entry.limit_s):
            left_mw = budget.left_mw(time_s, self._drawing(budget, time_s), entry.arrival)
            if left_mw < budget.of(entry):
                until_s = self._earliest(entry, [budget], room=False)
                return [Lack(budget.name, time_s, left_mw, until_s)]
        return []

    def _drawing(self, budget: Budget, time_s: float, *, overdue: bool = True) -> list[Stay]:
        """The jobs that draw at a time if limits hold; an overdue one goes on, or is to end."""
        return [
            stay
            for name in budget.clusters
            for stay in self.clusters[name].stays
            if stay.release_s > time_s or (overdue and stay.release_s <= self.now_s)
        ]

    # Watts alone ---------------------------------------------------------------------------------

    def has(self, arrival: int, cluster: str, duration_s: float, draw_mw: int) -> bool:
        """Whether a job may draw so much from now on without that a cap is exceeded or a
        reservation of another one delayed."""
        return all(
            budget.left_mw(time_s, self._drawing(budget, time_s), arrival) >= draw_mw
            for budget in self.over(cluster)
            for time_s in {self.now_s, *budget.drops(self.now_s, self.now_s + duration_s)}
        )

    def earliest_watts(self, arrival: int, cluster: str, duration_s: float, draw_mw: int) -> float:
        """The first time at which it may; infinite if there is none."""
        entry = Waiting(0, arrival, cluster, 0, duration_s, draw_mw, any_shape())
        return self._earliest(entry, self.over(cluster), room=False)

    def promised_watts(self) -> Iterator[tuple[str, int, Kept]]:
        """What is reserved of watts with the units that are promised on each cluster, also where no
        cap is in force. A budget of several clusters has one reservation of a job, the first of
        those that begin soonest."""
        for cluster, promise in sorted(self.promises.items()):
            in_force = [b for b in self.over(cluster) if b.is_in_force(self.now_s)]
            found = [b.kept.get(promise.arrival) for b in in_force] or [self.promised[cluster]]
            kept = [one for one in found if one is not None and one.begin_s == promise.start_s]
            if kept:
                yield cluster, promise.arrival, kept[0]

    def replace(self, cluster: str, arrival: int, release_s: float, draw_mw: int) -> None:
        """A job is there until another time, and draws something else."""
        stays = self.clusters[cluster].stays
        [at] = [place for place, stay in enumerate(stays) if stay.arrival == arrival]
        stays[at] = stays[at]._replace(release_s=release_s, draw_mw=draw_mw)

    def expect(self, cluster: str, arrival: int, release_s: float) -> None:
        """A suspended job is there until then, and draws what it may draw by now."""
        [stay] = [stay for stay in self.clusters[cluster].stays if stay.arrival == arrival]
        self.replace(cluster, arrival, release_s, stay.draw_mw)

    # Nodes ---------------------------------------------------------------------------------------

    def leaves_promise(self, entry: Waiting) -> bool:
        """Whether an entry that starts now has ended when what is promised begins, or can take
        nodes that leave enough for it."""
        promise = self.promises.get(entry.cluster)
        if promise is None or promise.arrival == entry.arrival:
            return True
        if self.now_s + entry.limit_s <= promise.start_s:
            return True
        return self._least_lost(entry, promise) <= self.extra(entry.cluster, promise)

    def extra(self, cluster: str, promise: Promise) -> int:
        """Units beyond those that are promised, of their shape and at their time."""
        nodes = self.clusters[cluster]
        reserved = self.reserved[cluster]
        return nodes.total(reserved, nodes.at(promise.start_s)) - promise.units

    def _least_lost(self, entry: Waiting, promise: Promise) -> float:
        """The fewest promised units that an entry which lasts beyond their time can take away."""
        places = self.clusters[entry.cluster].open_to(entry, self.now_s).within()
        return min((self._least_lost_in(one, entry, promise) for one in places), default=inf)

    def _least_lost_in(self, shape: Shape, entry: Waiting, promise: Promise) -> float:
        nodes, reserved = self.clusters[entry.cluster], self.reserved[entry.cluster]
        if shape.parts or reserved.parts:
            return self._least_lost_with_gangs(shape, entry, promise)
        then = nodes.at(promise.start_s)
        before, room = nodes.room(reserved, then), nodes.room(shape, nodes.stays)
        held = shape._replace(places=None)
        least = {0: 0.0}  # promised units that are lost, by units placed on the nodes so far
        for node, most in enumerate(room):
            after = {} if node in shape.wanted else dict(least)
            for count in range(1, most + 1):
                stay = Stay(entry.arrival, held, ((node, count),), inf, 0)
                left = nodes._room(reserved, node, [*then, stay])
                lost = inf if node in reserved.wanted and not left else before[node] - left
                for placed, so_far in least.items():
                    total = so_far + lost
                    if total < after.get(placed + count, inf):
                        after[placed + count] = total
            least = after
        return least.get(entry.units, inf)

    def _least_lost_with_gangs(self, shape: Shape, entry: Waiting, promise: Promise) -> float:
        """The same where the entry or the reserved entry is a gang: all sets of nodes are tried."""
        nodes, reserved = self.clusters[entry.cluster], self.reserved[entry.cluster]
        then, count = nodes.at(promise.start_s), len(nodes.has)
        before, room = nodes.room(reserved, then), nodes.room(shape, nodes.stays)
        least = inf
        for some in range(1 << count):
            taken = [node for node in range(count) if some >> node & 1]
            if shape.parts:
                fits = len(taken) == entry.units == nodes.at_once(shape, nodes.stays, taken)
            else:
                most = sum(room[node] for node in taken)
                fits = all(room[node] for node in taken) and shape.wanted <= set(taken)
                fits = fits and len(taken) <= entry.units <= most
            if not fits:
                continue
            if reserved.parts:
                left = [node for node in range(count) if node not in taken]
                lost = 0.0 if nodes.at_once(reserved, then, left) >= promise.units else inf
            else:
                lost = sum((float(before[n]) for n in taken), 0.0)
                lost = inf if reserved.wanted & set(taken) else lost
            least = min(least, lost)
        return least

    # Reservations -------------------------------------------------------------------------------

    def _earliest(self, entry: Waiting, budgets: Sequence[Budget], *, room: bool) -> float:
        """The first time at which an entry could start, if limits hold; infinite if there is none.
        Only when something ends can more be possible than before."""
        nodes = self.clusters[entry.cluster]
        times = {self.now_s, *(stay.release_s for stay in nodes.stays)}
        times |= {s for window in nodes.windows for s in (window.from_s, window.until_s)}
        for budget in budgets:
            times |= {s for s, _ in budget.steps} | {one.end_s for one in budget.kept.values()}
            times |= {s.release_s for name in budget.clusters for s in self.clusters[name].stays}
        for time_s in sorted(s for s in times if s >= self.now_s):
            if room and not self._has_room(nodes, entry, time_s):
                continue
            if all(self._has_then(budget, entry, time_s) for budget in budgets):
                return time_s
        return inf

    def _has_room(self, nodes: Nodes, entry: Waiting, start_s: float) -> bool:
        return nodes.total(nodes.open_to(entry, start_s), nodes.at(start_s)) >= entry.units

    def _has_then(self, budget: Budget, entry: Waiting, start_s: float) -> bool:
        return all(
            budget.left_mw(s, self._drawing(budget, s, overdue=False), entry.arrival)
            >= budget.of(entry)
            for s in budget.drops(start_s, start_s + entry.limit_s)
        )

    def _reserve(self, entry: Waiting, visited: dict[str, int]) -> None:
        over, nodes = self.over(entry.cluster), self.clusters[entry.cluster]
        budgets = [*over, *self.licences_of(entry)]
        if nodes.awaits(entry, self.now_s):
            return
        places = entry.shape.within()
        start_s, number, place = min(
            (self._earliest(mode._replace(shape=shape), budgets, room=True), number, place)
            for number, mode in enumerate(entry.modes())
            for place, shape in enumerate(places)
        )
        if start_s == inf:
            return
        entry = entry.modes()[number]
        found = nodes.open_to(entry._replace(shape=places[place]), start_s)
        self.reserved[entry.cluster] = found
        self.promises[entry.cluster] = Promise(entry.arrival, entry.units, start_s)
        kept = Kept(start_s, start_s + entry.limit_s, entry.draw_mw)
        self.promised[entry.cluster] = kept
        moved = [
            budget.keep(entry.arrival, kept._replace(draw_mw=budget.of(entry)))
            for budget in budgets
            if budget.is_in_force(self.now_s)  # what nobody caps any more is nothing to give back
        ]
        for cluster in self.promises if any(moved) else ():
            if cluster != entry.cluster:
                visited[cluster] = self._promised_order(cluster)

    def _promised_order(self, cluster: str) -> int:
        """The place of the job that has the promise of a cluster: those behind it get their turn
        again where what is promised elsewhere takes less than it did."""
        promised = self.promises[cluster].arrival, cluster
        return next(e.order for e in self._all if (e.arrival, e.cluster) == promised)

    # A pass -------------------------------------------------------------------------------------

    def check(self, starts: Sequence[Start]) -> None:
        """One pass over the queue, in which these start. What differs from the rules is a fault.

        Of units of which several go onto a node the choice of nodes is greedy (ADR 0026): one that
        may start need not.
        """
        self._all, left = list(self.waiting), list(starts)
        visited: dict[str, int] = dict.fromkeys(self.clusters, -1)
        while turns := [e for e in self.waiting if e.order > visited[e.cluster]]:
            entry = min(turns)
            visited[entry.cluster] = entry.order
            nodes = self.clusters[entry.cluster]
            if entry.units > nodes.most(entry.shape):
                continue
            self._note(entry)
            mode = self.starting(entry)
            starts_now = bool(left) and left[0][:2] == (entry.arrival, entry.cluster)
            if starts_now and mode is None:
                self.faults.append(f"{entry} starts in spite of {sorted(self.why_not(entry))}")
            if not starts_now and mode is not None and self._must_start(mode):
                self.faults.append(f"{entry} does not start, and nothing is in its way")
            if starts_now:
                self._start(mode or entry, left.pop(0), visited)
            elif entry.cluster not in self.promises:
                self._reserve(entry, visited)
        if left:
            self.faults.append(f"started, though their turn never came: {left}")

    def _must_start(self, entry: Waiting) -> bool:
        promise = self.promises.get(entry.cluster)
        return (
            promise is None
            or entry.shape.most == 1
            or (self.now_s + entry.limit_s <= promise.start_s)
        )

    def _note(self, entry: Waiting) -> None:
        nodes, promise = self.clusters[entry.cluster], self.promises.get(entry.cluster)
        free = nodes.total(nodes.open_to(entry, self.now_s), nodes.stays)
        extra = self.extra(entry.cluster, promise) if promise else 0
        self.refused[entry.arrival, entry.cluster] = Refused(free, promise, extra)

    def _start(self, entry: Waiting, start: Start, visited: dict[str, int]) -> None:
        nodes = self.clusters[entry.cluster]
        units = start.units or self._any_nodes(entry)
        end_s = self.now_s + entry.limit_s
        open_to = nodes.open_to(entry, self.now_s)
        self.faults += _misplaced(
            entry._replace(shape=open_to), [node for node, _ in units], nodes.has
        )
        held = entry.shape.on(node for node, _ in units)
        stay = Stay(entry.arrival, held, units, end_s, entry.draw_mw, entry.licences)
        nodes.stays.append(stay)
        got = start.draw_mw, sum(count for _, count in units)
        if got != (entry.draw_mw, entry.units):
            self.faults.append(f"{entry} starts as {start}")
        self.faults += nodes.faults()
        promise = self.promises.get(entry.cluster)
        if promise and self.extra(entry.cluster, promise) < 0:
            self.faults.append(f"{entry} takes on {units} what {promise} counts on")
        self.waiting = [e for e in self.waiting if e.arrival != entry.arrival]
        self._give_up(entry.arrival, visited)

    def _any_nodes(self, entry: Waiting) -> tuple[tuple[int, int], ...]:
        nodes = self.clusters[entry.cluster]
        shape = nodes.open_to(entry, self.now_s)
        free = [node for node, units in enumerate(nodes.room(shape, nodes.stays)) if units]
        return tuple((node, 1) for node in free[: entry.units])

    def _give_up(self, arrival: int, visited: dict[str, int]) -> None:
        """What was promised to a job that starts is free: those behind it get their turn again."""
        for cluster, promise in list(self.promises.items()):
            if promise.arrival == arrival:
                visited[cluster] = self._promised_order(cluster)
                del self.promises[cluster]
                for budget in [*self.over(cluster), *self.licences]:
                    budget.kept.pop(arrival, None)


def _misplaced(
    entry: Waiting, nodes: Sequence[int], has: Sequence[Mapping[str, int]]
) -> Iterator[str]:
    """Nodes that are no place of an entry's."""
    got = frozenset(nodes)
    if entry.shape.parts:
        empty = Nodes(has, lambda _: True)
        ways = entry.shape.within()
        if not any(empty.at_once(one, [], got) == entry.units for one in ways):
            yield f"{entry} starts on {sorted(got)}, which do not fit its parts"
    if entry.shape.places is None:
        return
    if not any(one.wanted <= got <= one.nodes for one in entry.shape.places):
        yield f"{entry} starts on {sorted(got)}, where it may not be"
