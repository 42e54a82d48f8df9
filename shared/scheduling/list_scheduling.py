"""List schedules: jobs in an order, each started as soon as it fits beside those before it.

Serial in time: at each instant at which something ends, the waiting jobs are looked at in their
order and each that fits starts; no job has a reservation. Priority-rule-based scheduling of Haupt
(1989), as Borghesi and others, "Scheduling-based power capping in high performance computing
systems" (2018), section 4.2, use it. A search plays thousands of orders a second, so that free
amounts are plain integers here, and not the arrays of `capacity.py`.
"""

from bisect import insort
from collections.abc import Collection, Iterator, Sequence
from math import inf
from typing import Final, NamedTuple, Protocol

from shared.scheduling.dispatch import Dispatcher, Served
from shared.scheduling.power import PowerBudget, Step
from shared.scheduling.problem import Allocation, Ints
from shared.scheduling.wait_queue import Entry

# Free amounts of nodes are compared as the sum of its shares of each resource, in such parts.
_PARTS: Final = 10_000
# More units than any job has.
_ANY_UNITS: Final = 2**60


class Wanted(NamedTuple):
    """The request of a waiting job: `units` of `needs` each, `draw_mw` in all, for `limit_s`.

    A second of waiting costs `weight`.
    """

    arrival: int
    units: int
    needs: tuple[int, ...]
    draw_mw: int
    limit_s: float
    weight: float


class Using(NamedTuple):
    """Units allocated to a running job until `release_s` at the latest."""

    release_s: float
    arrival: int
    needs: tuple[int, ...]
    allocation: Allocation
    draw_mw: int


class Fits:
    """Counts of units of certain needs that fit on each node, and on all nodes together, as of so
    many of the changes of nodes."""

    def __init__(self, needs: tuple[int, ...], counts: list[int], total: int, seen: int) -> None:
        self.needs, self.counts, self.total, self.seen = needs, counts, total, seen


class FreeNodes:
    """Free amounts of each resource on each node."""

    def __init__(
        self, free: list[list[int]], totals: list[int], left: list[int], parts: list[int]
    ) -> None:
        self._free, self._totals, self._left = free, totals, left
        # The part that one of each resource is of a node that has most of it.
        self._parts = parts
        # By needs: what was known when it was copied, which nothing changes, and what it has
        # become; a node is looked at again once it has changed since, which most have not.
        self._known: dict[tuple[int, ...], Fits] = {}
        self._fits: dict[tuple[int, ...], Fits] = {}
        self._changed: list[int] = []

    @classmethod
    def build(cls, amounts: Ints) -> "FreeNodes":
        """Return nodes on which nothing runs, by what they have: (resources, nodes)."""
        parts = [_PARTS // max(1, most) for most in amounts.max(axis=1).tolist()]
        free: list[list[int]] = amounts.T.tolist()
        left = [_parts_of(node, parts) for node in free]
        return cls(free, amounts.sum(axis=1).tolist(), left, parts)

    def copy(self) -> "FreeNodes":
        """Return a copy, which is changed by itself."""
        if self._changed or self._fits:
            for needs in {**self._known, **self._fits}:
                self._known[needs] = fits = self.fits(needs)
                self._refresh(fits)
            self._fits, self._changed = {}, []
        free = [node.copy() for node in self._free]
        copied = FreeNodes(free, self._totals.copy(), self._left.copy(), self._parts)
        copied._known = self._known
        return copied

    def units_of(self, needs: tuple[int, ...]) -> int:
        """Return how many units of such needs all nodes take now. It is known to copies from then
        on."""
        fits = self.fits(needs)
        self._refresh(fits)
        return fits.total

    @property
    def totals(self) -> Sequence[int]:
        """Return what is free of each resource on all nodes together."""
        return self._totals

    def fits(self, needs: tuple[int, ...]) -> Fits:
        """Return the counts of such needs, for `take_as`."""
        fits = self._fits.get(needs)
        if fits is None:
            known = self._known.get(needs)
            if known is None:
                counts = [_units_on(node, needs) for node in self._free]
                fits = Fits(needs, counts, sum(counts), len(self._changed))
            else:
                fits = Fits(needs, known.counts.copy(), known.total, 0)
            self._fits[needs] = fits
        return fits

    def take(self, needs: tuple[int, ...], units: int) -> Allocation | None:
        """Allocate nodes to a job; return None where its units do not fit.

        Nodes with less free are taken first, so that what is free stays together.
        """
        return self.take_as(self.fits(needs), units)

    def take_as(self, fits: Fits, units: int) -> Allocation | None:
        """Allocate nodes to a job whose counts were looked up; return None where its units do not
        fit."""
        totals = self._totals
        for resource, need in enumerate(fits.needs):
            if need * units > totals[resource]:
                return None
        if fits.seen < len(self._changed):
            self._refresh(fits)
        if fits.total < units:
            return None
        left, counts = self._left, fits.counts
        nodes = len(counts)
        # By what is left on them, of these in their order.
        fitting = [left[node] * nodes + node for node in range(nodes) if counts[node]]
        fitting.sort()
        chosen: list[tuple[int, int]] = []
        missing = units
        for key in fitting:
            node = key % nodes
            taken = min(counts[node], missing)
            chosen.append((node, taken))
            missing -= taken
            if not missing:
                break
        chosen.sort()
        allocation = Allocation(tuple([n for n, _ in chosen]), tuple([u for _, u in chosen]))
        self._change(fits.needs, allocation, 1)
        return allocation

    def give(self, needs: tuple[int, ...], allocation: Allocation) -> None:
        """Free the units of a job."""
        self._change(needs, allocation, -1)

    def _refresh(self, fits: Fits) -> None:
        """Count anew on the nodes that changed since."""
        changed, seen, needs = self._changed, fits.seen, fits.needs
        counts, free, total = fits.counts, self._free, fits.total
        fits.seen = len(changed)
        if fits.seen - seen > len(counts):
            changed, seen = list(range(len(counts))), 0
        for place in range(seen, len(changed)):
            node = changed[place]
            count = _units_on(free[node], needs)
            total += count - counts[node]
            counts[node] = count
        fits.total = total

    def _change(self, needs: tuple[int, ...], allocation: Allocation, sign: int) -> None:
        parts = sign * _parts_of(needs, self._parts)
        nodes, counts = allocation
        totals = self._totals
        for place in range(len(nodes)):
            node, units = nodes[place], sign * counts[place]
            free = self._free[node]
            for resource, need in enumerate(needs):
                free[resource] -= need * units
                totals[resource] -= need * units
            self._left[node] -= parts * counts[place]
            self._changed.append(node)


def _units_on(free: list[int], needs: tuple[int, ...]) -> int:
    """Return how many units of such needs fit into what is free on a node."""
    count = _PARTS
    for resource, need in enumerate(needs):
        if need:
            count = min(count, free[resource] // need)
            if count <= 0:
                return 0
    return count


def _parts_of(amounts: Sequence[int], parts: list[int]) -> int:
    """Return amounts of resources as one number."""
    total = 0
    for resource, amount in enumerate(amounts):
        total += amount * parts[resource]
    return total


# The start of a waiting job: when, and its place among them.
Planned = tuple[float, int]


class CappedSituation(NamedTuple):
    """The start of a plan: free nodes, running and waiting jobs under one cap, which has `steps`
    ahead, ascending."""

    now_s: float
    cap_mw: int
    free: FreeNodes
    using: Sequence[Using]
    waiting: Sequence[Wanted]
    steps: Sequence[Step] = ()


class ListSchedule(NamedTuple):
    """Starts of waiting jobs, by their places there, in the order in which they take their nodes,
    and the cost of all waits."""

    starts: list[Planned]
    cost: float


def list_schedule(
    at: CappedSituation, order: Sequence[int], below: float = inf, until_s: float = inf
) -> ListSchedule | None:
    """Return one list schedule of a situation: see `ListSchedules.play`."""
    return ListSchedules(at).play(order, below, until_s)


class ListSchedules:
    """List schedules of one situation; each look-up is made once for all of them."""

    def __init__(self, at: CappedSituation) -> None:
        self.at = at
        self.units = [job.units for job in at.waiting]
        self.draws_mw = [job.draw_mw for job in at.waiting]
        self.limits_s = [job.limit_s for job in at.waiting]
        self.weights = [job.weight for job in at.waiting]
        # By place the number of its needs, and the needs by number.
        numbers: dict[tuple[int, ...], int] = {}
        self.kinds = [numbers.setdefault(job.needs, len(numbers)) for job in at.waiting]
        self.needs = list(numbers)
        for needs in self.needs:
            at.free.units_of(needs)
        # Running jobs, by their ends, with their places, counted down from -1.
        ends = [(each.release_s, each.arrival, -1 - n) for n, each in enumerate(at.using)]
        self.ends = sorted(ends)

    def play(
        self, order: Sequence[int], below: float = inf, until_s: float = inf
    ) -> ListSchedule | None:
        """Return the list schedule of jobs in an order of their places among the waiting; None
        where it costs no less than `below`.

        Overdue jobs are expected to end at once. A job that never fits, or only after `until_s`,
        does not start, and the cost of that is infinite.
        """
        playing = _Playing(self, order)
        while True:
            playing.start()
            if not playing.pending:
                return playing.result(below)
            now_s = playing.next_s()
            if now_s == inf or now_s > until_s:
                return ListSchedule(playing.starts, inf) if below == inf else None
            if playing.least_cost(now_s) >= below:
                return None
            playing.end(now_s)


class _Playing:
    """A list schedule while it is played."""

    def __init__(self, of: ListSchedules, order: Sequence[int]) -> None:
        at = of.at
        self.pending, self.starts = list(order), list[Planned]()
        self._of, self._free = of, at.free.copy()
        self._fits = [self._free.fits(needs) for needs in of.needs]
        self._cap_mw, self._steps, self._passed = at.cap_mw, list(at.steps), 0
        # Watts left now, and at each step ahead.
        self._room_mw = at.cap_mw - sum([each.draw_mw for each in at.using])
        self._rooms_mw = [cap_mw - _drawn_mw(at.using, from_s) for from_s, cap_mw in at.steps]
        # Running jobs, by their ends; so many of these have ended. Started jobs have their nodes.
        self._ends, self._ended = of.ends.copy(), 0
        self._allocated: dict[int, Allocation] = {}
        self._from_s = self._now_s = at.now_s
        self._cost, self._weight = 0.0, sum([of.weights[p] for p in self.pending])

    def start(self) -> None:
        """Start all that fits now, in the order."""
        of, left = self._of, list[int]()
        all_kinds, all_units, draws_mw, fits = of.kinds, of.units, of.draws_mw, self._fits
        # From how many units on each kind is refused: what is free only gets less.
        refused = [_ANY_UNITS] * len(fits)
        for place in self.pending:
            if draws_mw[place] > self._room_mw:
                left.append(place)
                continue
            kind, units = all_kinds[place], all_units[place]
            if units >= refused[kind] or not self._has_power_later(place):
                left.append(place)
                continue
            allocation = self._free.take_as(fits[kind], units)
            if allocation is None:
                refused[kind] = units
                left.append(place)
                continue
            self._begin(place, allocation)
        self.pending = left

    def next_s(self) -> float:
        """Return when something ends or the cap changes; infinite where nothing does."""
        next_s = inf
        if self._ended < len(self._ends):
            end_s, _, _ = self._ends[self._ended]
            next_s = max(self._now_s, end_s)
        if self._passed < len(self._steps):
            step_s, _ = self._steps[self._passed]
            next_s = min(next_s, step_s)
        return next_s

    def end(self, now_s: float) -> None:
        """Free the nodes of the jobs that have ended by then, and take over the cap of then."""
        self._now_s = now_s
        while self._passed < len(self._steps):
            from_s, cap_mw = self._steps[self._passed]
            if from_s > now_s:
                break
            self._room_mw += cap_mw - self._cap_mw
            self._cap_mw = cap_mw
            self._passed += 1
        while self._ended < len(self._ends):
            end_s, _, place = self._ends[self._ended]
            if end_s > now_s:
                break
            self._give_back(place)
            self._ended += 1

    def least_cost(self, now_s: float) -> float:
        """Return the cost if all that still waits starts then."""
        return self._cost + self._weight * (now_s - self._from_s)

    def result(self, below: float) -> ListSchedule | None:
        """Return the schedule; None where it is not cheap enough."""
        return ListSchedule(self.starts, self._cost) if self._cost < below else None

    def _give_back(self, place: int) -> None:
        of = self._of
        if place < 0:
            using = of.at.using[-1 - place]
            self._free.give(using.needs, using.allocation)
            self._room_mw += using.draw_mw
        else:
            self._free.give(of.needs[of.kinds[place]], self._allocated[place])
            self._room_mw += of.draws_mw[place]

    def _has_power_later(self, place: int) -> bool:
        """Return True when it may draw what it does at each step of the cap before its limit."""
        draw_mw, release_s = self._of.draws_mw[place], self._now_s + self._of.limits_s[place]
        for ahead in range(self._passed, len(self._steps)):
            from_s, _ = self._steps[ahead]
            if from_s >= release_s:
                return True
            if draw_mw > self._rooms_mw[ahead]:
                return False
        return True

    def _begin(self, place: int, allocation: Allocation) -> None:
        of = self._of
        draw_mw, weight = of.draws_mw[place], of.weights[place]
        self.starts.append((self._now_s, place))
        self._room_mw -= draw_mw
        self._weight -= weight
        self._cost += weight * (self._now_s - self._from_s)
        release_s = self._now_s + of.limits_s[place]
        for ahead in range(self._passed, len(self._steps)):
            from_s, _ = self._steps[ahead]
            if from_s >= release_s:
                break
            self._rooms_mw[ahead] -= draw_mw
        self._allocated[place] = allocation
        end = release_s, of.at.waiting[place].arrival, place
        insort(self._ends, end, lo=self._ended)


def _drawn_mw(using: Sequence[Using], time_s: float) -> int:
    """Return the draw, at a time, of the jobs that run beyond it."""
    return sum([each.draw_mw for each in using if each.release_s > time_s])


class StartPlanner(Protocol):
    """Plans when jobs of a situation start, in the order of their starts, and of those that start
    at once in the order of taking their nodes. A job that is left out starts in a later plan."""

    def plan(self, at: CappedSituation) -> Sequence[Planned]: ...


class PriorityRule:
    """List scheduling by a rank of jobs that never changes, by arrival number; least first."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self._ranks = ranks

    def order(self, at: CappedSituation) -> list[int]:
        """Return the places of the waiting jobs, best first."""
        keyed = [(self._ranks[job.arrival], place) for place, job in enumerate(at.waiting)]
        return [place for _, place in sorted(keyed)]

    def plan(self, at: CappedSituation) -> Sequence[Planned]:
        """Return what starts now; all else is planned anew when something happens."""
        found = list_schedule(at, self.order(at), until_s=at.now_s)
        assert found is not None
        return found.starts

    def schedule(self, at: CappedSituation) -> ListSchedule:
        """Return the whole list schedule."""
        found = list_schedule(at, self.order(at))
        assert found is not None
        return found


class PlannedStarts(Dispatcher):
    """One cluster under one cap, planned anew whenever anything happened: see Dispatcher.

    Of a plan only what starts at once is started, on nodes with little left, as Borghesi and others
    (2018) do. The cap holds for every plan: a job that does not fit under it over its whole limit,
    or on the nodes, waits for the next plan. `arrivals` are the jobs by arrival number.
    """

    def __init__(
        self,
        amounts: Ints,
        budget: PowerBudget,
        arrivals: Iterator[tuple[Entry, Wanted]],
        planner: StartPlanner,
    ) -> None:
        self._free, self._budget, self._planner = FreeNodes.build(amounts), budget, planner
        self._arrivals = arrivals
        self._waiting: dict[int, tuple[Entry, Wanted]] = {}
        self._using: dict[int, Using] = {}
        self._next_s, self._is_new = inf, False

    @property
    def waits(self) -> bool:
        """Return True while anything waits."""
        return bool(self._waiting)

    @property
    def waiting(self) -> Collection[int]:
        """Return the arrival numbers of the waiting jobs, in the order of their arrival."""
        return self._waiting.keys()

    def arrive(self) -> None:
        """Take the next of the arrivals."""
        entry, wanted = next(self._arrivals)
        self._waiting[entry.arrival] = entry, wanted

    def end(self, number: int, holder: int) -> None:
        """Free the nodes of a job."""
        using = self._using.pop(holder)
        self._free.give(using.needs, using.allocation)
        self._budget.release(holder)

    def decide(self, now_s: float) -> list[Served]:
        """Return what the plan starts now."""
        self._budget.advance(now_s)
        self._next_s = inf
        if not self._waiting:
            return []
        waiting = [wanted for _, wanted in self._waiting.values()]
        using = list(self._using.values())
        cap_mw, steps = self._budget.cap_mw, self._budget.cap.steps_after(now_s)
        at = CappedSituation(now_s, cap_mw, self._free, using, waiting, steps)
        started: list[Served] = []
        for start_s, place in self._planner.plan(at):
            if start_s > now_s:
                # An overdue job ends at some moment, which is when all is planned anew.
                is_overdue = any(each.release_s <= now_s for each in using)
                self._next_s = inf if is_overdue else start_s
                break
            if (served := self._started(waiting[place].arrival, now_s)) is not None:
                started.append(served)
        return started

    def wake_s(self, now_s: float) -> float:
        """Return when the plan starts something next, or the cap changes."""
        return min(self._next_s, self._budget.next_step_s()) if self._waiting else inf

    def _started(self, arrival: int, now_s: float) -> Served | None:
        entry, wanted = self._waiting[arrival]
        if not self._budget.has(wanted.draw_mw, now_s + wanted.limit_s):
            return None
        allocation = self._free.take(wanted.needs, wanted.units)
        if allocation is None:
            return None
        del self._waiting[arrival]
        release_s = now_s + wanted.limit_s
        self._using[arrival] = Using(release_s, arrival, wanted.needs, allocation, wanted.draw_mw)
        self._budget.hold(arrival, release_s, wanted.draw_mw)
        return 0, entry, allocation, False
