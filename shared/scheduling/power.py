"""Budgets of power: the watts that a cluster, a site or the region may draw over time, and their
use.

Watts are counted as integer milliwatts, so that no order of sums changes a decision. What is
committed falls as jobs are expected to end; it rises where a reservation begins. So the least
headroom of an interval is at its start, at a step of the cap or where a reservation begins.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import pairwise
from math import inf
from sys import maxsize
from typing import Final, NamedTuple

from shared.scheduling.headroom import Headroom, LeastHeadroom

# A cap that is never reached: below it sums of draws stay small integers.
NO_CAP_MW: Final = 1 << 58

# Shortages that a budget keeps.
_MOST_SHORTAGES: Final = 1024

# A cap from a time on: (from_s, cap_mw). Before the first one there is none.
Step = tuple[float, int]
# What a job draws until it is expected to end: (release_s, holder, draw_mw).
_Draw = tuple[float, int, int]
# A step and a draw where there are none.
_NO_STEP: Final[Step] = (inf, 0)
_NOTHING: Final[_Draw] = (inf, -1, 0)


def milliwatts(watts: float) -> int:
    """Return the next integer of milliwatts."""
    return round(watts * 1000)


class Scope(StrEnum):
    """Scope of a cap."""

    CLUSTER = "cluster"
    SITE = "site"
    REGION = "region"


class Cap(NamedTuple):
    """A cap as it was declared: its scope, its steps in ascending order, by whom and why.

    A region has no name.
    """

    scope: Scope
    name: str
    steps: tuple[Step, ...]
    author: str = ""
    reason: str = ""

    @property
    def subject(self) -> str:
        """Return its scope, in words."""
        return f"the {self.scope}" if self.scope is Scope.REGION else f"{self.scope} {self.name}"

    @property
    def falls(self) -> bool:
        """Return True when one of its steps is lower than what is before it."""
        return any(more_mw < 0 for _, more_mw in self.changes)

    def limit_mw(self, time_s: float) -> int:
        """Return the cap at a time."""
        place = bisect_right(self.steps, (time_s, maxsize))
        if not place:
            return NO_CAP_MW
        _, cap_mw = self.steps[place - 1]
        return cap_mw

    @property
    def changes(self) -> list[Step]:
        """Return what each of its steps adds to what is before it."""
        caps_mw = [self.limit_mw(-inf), *[cap_mw for _, cap_mw in self.steps]]
        differences = [after - before for before, after in pairwise(caps_mw)]
        steps = zip(self.steps, differences, strict=True)
        return [(from_s, more_mw) for (from_s, _), more_mw in steps]

    def steps_after(self, time_s: float) -> list[Step]:
        """Return its steps from a time on."""
        return [(from_s, cap_mw) for from_s, cap_mw in self.steps if from_s > time_s]

    def next_step_s(self, time_s: float) -> float:
        """Return when it changes next; infinite if it does not."""
        return min([from_s for from_s, _ in self.steps_after(time_s)], default=inf)

    def less(self, base_mw: int) -> "Cap":
        """Return what it leaves beyond what is drawn whatever runs, at each step."""
        return self._replace(steps=tuple([(from_s, mw - base_mw) for from_s, mw in self.steps]))

    def times(self, count: int) -> "Cap":
        """Return so many times the cap, at each step."""
        steps = [(from_s, min(NO_CAP_MW, count * cap_mw)) for from_s, cap_mw in self.steps]
        return self._replace(steps=tuple(steps))


NO_CAP: Final = Cap(Scope.REGION, "", ())


class Shortage(NamedTuple):
    """A budget's refusal: a job needs so much over its whole limit, and there is less.

    `at_s` is the first moment of it with less, `available_mw` what there is then: below 0 where the
    cap is exceeded. `until_s` is when the budget alone would let it start, if limits hold: infinite
    where it never does. `reserved_for` is the arrival number of a job whose reservation it would
    take watts of, while it would fit beside all that runs; below 0 where it would not.
    """

    cap: Cap
    needed_mw: int
    available_mw: int
    at_s: float
    until_s: float
    reserved_for: int = -1


class PowerReservation(NamedTuple):
    """Watts that are reserved for a waiting job."""

    start_s: float
    end_s: float
    draw_mw: int

    def draws_at(self, time_s: float) -> bool:
        """Return True where they are reserved at a time."""
        return self.start_s <= time_s < self.end_s


class PowerBudget:
    """A cap over time and what is committed under it: idle power, running jobs, reservations.

    A job that runs past its expected release draws until it is released. For a reservation it is
    expected to end at any moment, as its nodes are.

    `now_s` only moves forward. A job reserves once, at the earliest start that it is given.
    `relieved` counts what may let start what was refused before, `changes` all that may change what
    there is. `withdrawn` is for the schedulers that share it: they count the reservations that one
    gave up while another was looking.
    """

    def __init__(self, cap: Cap, base_mw: int = 0, *, is_shared: bool = False) -> None:
        self.cap, self.base_mw, self.is_shared = cap, base_mw, is_shared
        self.now_s, self.drawn_mw, self._cap_mw = -inf, 0, cap.limit_mw(-inf)
        self.relieved = self.changes = self.withdrawn = 0
        self._cap_changes = cap.changes
        self._draws: list[_Draw] = []
        self._by_holder: dict[int, _Draw] = {}
        self._reserved: dict[int, PowerReservation] = {}
        # From now on: where the headroom may fall, how much it is there, the least until there.
        self._times_s: list[float] = []
        self._room_mw: list[int] = []
        self._least_mw: list[int] = []
        self._falls: list[Step] = []  # where that falls
        self._is_known = False
        self._ahead: Headroom | None = None
        # By draw and time, of jobs that have nothing of it.
        self._shortages: dict[tuple[int, float], Shortage | None] = {}

    # What is committed --------------------------------------------------------------------------

    def advance(self, now_s: float) -> None:
        """Go on to a time: a step that has come may be a relief, an overdue job draws on."""
        if now_s == self.now_s:
            return
        before_mw, self._cap_mw = self._cap_mw, self.cap.limit_mw(now_s)
        self.relieved += self._cap_mw > before_mw
        self.now_s = now_s
        self._forget()

    def hold(self, holder: int, release_s: float, draw_mw: int) -> None:
        """Commit the draw of a job until a time."""
        draw = release_s, holder, draw_mw
        insort(self._draws, draw)
        self._by_holder[holder] = draw
        self.drawn_mw += draw_mw
        self._take(-inf, release_s if release_s > self.now_s else inf, draw_mw)

    def release(self, holder: int) -> None:
        """Release the draw of a job."""
        draw = self._by_holder.pop(holder)
        del self._draws[bisect_left(self._draws, draw)]
        release_s, _, draw_mw = draw
        self.drawn_mw -= draw_mw
        self._take(-inf, release_s if release_s > self.now_s else inf, -draw_mw)
        self.relieved += 1

    def prolong(self, holder: int, release_s: float) -> None:
        """Expect a job to draw until another time."""
        _, _, draw_mw = self._by_holder[holder]
        self.release(holder)
        self.hold(holder, release_s, draw_mw)

    def reserve(self, arrival: int, start_s: float, duration_s: float, draw_mw: int) -> bool:
        """Keep watts for a waiting job, unless it has a reservation that is as early. Return True
        where they take the place of a later one, whose watts others may have now."""
        before = self._reserved.get(arrival)
        if before is not None and start_s >= before.start_s:
            return False
        self._reserved[arrival] = PowerReservation(start_s, start_s + duration_s, draw_mw)
        self._forget()
        return before is not None

    def give_up(self, arrival: int) -> None:
        """Give up what was reserved for a job, if anything."""
        if self._reserved.pop(arrival, None) is not None:
            self._forget()
            self.relieved += 1

    def reservation_of(self, arrival: int) -> PowerReservation | None:
        """Return what is reserved for a job: from when until when, and how much; None without."""
        return self._reserved.get(arrival)

    # What there is ------------------------------------------------------------------------------

    @property
    def cap_mw(self) -> int:
        """Return the cap now."""
        return self._cap_mw

    @property
    def undrawn_mw(self) -> int:
        """Return what is not drawn now, reserved or not; below 0 where the cap is exceeded."""
        return self._cap_mw - self.base_mw - self.drawn_mw

    def drawn_by(self) -> list[tuple[int, int]]:
        """Return the holders with what each draws: the largest first, then by number."""
        found = [(holder, draw_mw) for _, holder, draw_mw in self._draws]
        return sorted(found, key=lambda one: (-one[1], one[0]))

    @property
    def kept_for(self) -> Iterable[int]:
        """Return the arrival numbers of the jobs that have a reservation."""
        return self._reserved

    @property
    def headroom_mw(self) -> int:
        """Return what is neither drawn nor reserved now; below 0 where the cap is exceeded."""
        self._look()
        return self._room_mw[0]

    def has(self, draw_mw: int, until_s: float, arrival: int = -1) -> bool:
        """Return True where a job may draw so much from now until then."""
        if not self._is_known:
            self._look()
        if arrival in self._reserved:
            return self._least_without(until_s, self._reserved[arrival]) >= draw_mw
        if draw_mw > self._room_mw[0]:
            return False
        return self._least_mw[bisect_left(self._times_s, until_s, 1) - 1] >= draw_mw

    def points(self, until_s: float) -> list[Step]:
        """Return the headroom now, and until then wherever it may fall."""
        self._look()
        place = bisect_left(self._times_s, until_s, 1)
        return list(zip(self._times_s[:place], self._room_mw[:place], strict=True))

    def falls(self) -> list[Step]:
        """Return the headroom now, and wherever there is less than ever before from now on."""
        self._look()
        return self._falls

    def least_headroom_mw(self, from_s: float, until_s: float) -> int:
        """Return the least over an interval that begins now or later."""
        self._look()
        place = bisect_left(self._times_s, until_s, 1)
        if from_s <= self.now_s:
            return self._least_mw[place - 1]
        inside = self._room_mw[bisect_right(self._times_s, from_s) : place]
        return min([self._room_at(from_s), *inside])

    def earliest(self, draw_mw: int, duration_s: float, from_s: float, arrival: int = -1) -> float:
        """Return the first time from then on at which so much may be drawn for so long, if limits
        hold; infinite if there is none. The job's own reservation does not count against it."""
        room_mw = self._room_without(from_s, arrival)
        start_s = from_s if room_mw >= draw_mw else inf
        draws, place = self._draws, self._place_after(from_s)
        others, other = self._other_changes(from_s, arrival), 0
        while place < len(draws) or other < len(others):
            release_s, _, more_mw = draws[place] if place < len(draws) else _NOTHING
            time_s, less_mw = others[other] if other < len(others) else _NO_STEP
            if other == len(others) or (place < len(draws) and release_s <= time_s):
                time_s = release_s
                place += 1
            else:
                more_mw = -less_mw
                other += 1
            if start_s + duration_s <= time_s:
                return start_s
            room_mw += more_mw
            if room_mw < draw_mw:
                start_s = inf
            elif start_s == inf:
                start_s = time_s
        return start_s

    def shortage(self, draw_mw: int, until_s: float, arrival: int) -> Shortage | None:
        """Return why a job may not draw so much from now until then; None when it may."""
        if not self.is_shared or arrival in self._reserved or arrival in self._by_holder:
            return self._shortage(draw_mw, until_s, arrival)
        key = draw_mw, until_s  # clusters of one model ask alike, one after the other
        if key not in self._shortages:
            if len(self._shortages) == _MOST_SHORTAGES:
                self._shortages = {}
            self._shortages[key] = self._shortage(draw_mw, until_s, arrival)
        return self._shortages[key]

    def next_step_s(self) -> float:
        """Return when the cap changes next; infinite if it does not."""
        return self.cap.next_step_s(self.now_s)

    # How it is worked out -----------------------------------------------------------------------

    def _shortage(self, draw_mw: int, until_s: float, arrival: int) -> Shortage | None:
        own = self._reserved.get(arrival)
        draw = self._by_holder.get(arrival)  # it runs elsewhere by now
        release_s, _, drawn_mw = draw or _NOTHING
        self._look()
        last = bisect_left(self._times_s, until_s, 1)
        if own is None and draw is None and self._least_mw[last - 1] >= draw_mw:
            return None
        for place in range(last):
            time_s, room_mw = self._times_s[place], self._room_mw[place]
            own_mw = own.draw_mw if own and own.draws_at(time_s) else 0
            own_mw += drawn_mw if not place or time_s < release_s else 0
            if room_mw + own_mw < draw_mw:
                earliest_s = self._earliest_now(draw_mw, until_s - self.now_s, arrival)
                rival = self._rival(arrival, time_s, draw_mw - room_mw - own_mw)
                return Shortage(self.cap, draw_mw, room_mw + own_mw, time_s, earliest_s, rival)
        return None

    def _forget(self) -> None:
        self._is_known = False
        self._change()

    def _change(self) -> None:
        self.changes += 1
        self._ahead = None
        if self._shortages:
            self._shortages = {}

    def _earliest_now(self, draw_mw: int, duration_s: float, arrival: int) -> float:
        """Return the earliest time from now on, for one of many callers that ask before anything
        changes."""
        if arrival in self._reserved:
            return self.earliest(draw_mw, duration_s, self.now_s, arrival)
        if self._ahead is None:
            now_s = self.now_s
            changes = [(s, -less_mw) for s, less_mw in self._other_changes(now_s, arrival)]
            changes += [(s, mw) for s, _, mw in self._draws[self._place_after(now_s) :]]
            self._ahead = Headroom(now_s, self._room_without(now_s, arrival), changes)
        return self._ahead.earliest(draw_mw, duration_s)

    def _rival(self, arrival: int, time_s: float, missing_mw: int) -> int:
        """Return a job without whose reservation there would be enough at a time."""
        first, kept_mw = maxsize, 0
        for other, (start_s, end_s, draw_mw) in self._reserved.items():
            if other != arrival and start_s <= time_s < end_s:
                first = min(first, other)
                kept_mw += draw_mw
        return first if kept_mw >= missing_mw else -1

    def _look(self) -> None:
        """Work the headroom out anew where it is not known."""
        if self._is_known:
            return
        now_s = self.now_s
        ahead = [from_s for from_s, _ in self.cap.steps if from_s > now_s]
        ahead += [kept.start_s for kept in self._reserved.values() if kept.start_s > now_s]
        self._times_s = [now_s, *sorted(set(ahead))]
        self._room_mw = self._rooms_at(self._times_s)
        self._is_known = True
        self._run_down()

    def _rooms_at(self, times_s: list[float]) -> list[int]:
        """Return the headroom at ascending times."""
        found: list[int] = []
        drawn_mw, place = self.drawn_mw, self._place_after(self.now_s)
        for time_s, cap_mw in zip(times_s, _caps_at(self.cap.steps, times_s), strict=True):
            while place < len(self._draws):
                release_s, _, released_mw = self._draws[place]
                if release_s > time_s:
                    break
                drawn_mw -= released_mw
                place += 1
            found.append(cap_mw - self.base_mw - drawn_mw)
        for start_s, end_s, draw_mw in self._reserved.values():
            for at, time_s in enumerate(times_s):
                if start_s <= time_s < end_s:
                    found[at] -= draw_mw
        return found

    def _room_at(self, time_s: float) -> int:
        return self._rooms_at([time_s])[0]

    def _take(self, from_s: float, until_s: float, draw_mw: int) -> None:
        """Reduce the headroom where it is known, from now until then."""
        self._change()
        if not self._is_known:
            return
        for place in range(bisect_left(self._times_s, until_s, 1)):
            self._room_mw[place] -= draw_mw
        self._run_down()

    def _run_down(self) -> None:
        """Work out the least headroom until each point, it included."""
        least_mw, self._least_mw, self._falls = maxsize, [], []
        for place, room_mw in enumerate(self._room_mw):
            if room_mw < least_mw:
                least_mw = room_mw
                self._falls.append((self._times_s[place], room_mw))
            self._least_mw.append(least_mw)

    def _least_without(self, until_s: float, own: PowerReservation) -> int:
        """Return the least from now until then if a job's reservation were not."""
        return min(
            room_mw + (own.draw_mw if own.draws_at(time_s) else 0)
            for time_s, room_mw in self.points(until_s)
        )

    def _room_without(self, from_s: float, arrival: int) -> int:
        """Return the headroom at a time if a job's own reservation were not."""
        room_mw = self.cap.limit_mw(from_s) - self.base_mw - self.drawn_mw
        for _, _, draw_mw in self._draws[: self._place_after(from_s)]:
            room_mw += draw_mw
        for other, kept in self._reserved.items():
            if other != arrival and kept.draws_at(from_s):
                room_mw -= kept.draw_mw
        return room_mw

    def _place_after(self, time_s: float) -> int:
        """Return how many of the jobs that draw watts are expected to end by then."""
        return bisect_right(self._draws, (time_s, maxsize, 0))

    def _other_changes(self, from_s: float, arrival: int) -> list[Step]:
        """Return what headroom loses after a time by steps of the cap and by reservations, in the
        order of time; gains, below 0, come first."""
        found = [(step_s, -more_mw) for step_s, more_mw in self._cap_changes if step_s > from_s]
        for other, (start_s, end_s, draw_mw) in self._reserved.items():
            if other != arrival:
                if start_s > from_s:
                    found.append((start_s, draw_mw))
                if end_s > from_s:
                    found.append((end_s, -draw_mw))
        found.sort()
        return found


def _caps_at(steps: Sequence[Step], times_s: Iterable[float]) -> list[int]:
    """Return a cap at ascending times."""
    found: list[int] = []
    step, cap_mw = 0, NO_CAP_MW
    for time_s in times_s:
        while step < len(steps):
            from_s, step_mw = steps[step]
            if from_s > time_s:
                break
            step, cap_mw = step + 1, step_mw
        found.append(cap_mw)
    return found


class Budgets:
    """The budgets of the jobs on one cluster: the cluster's own, its site's, the region's. `any` is
    False where there is none, and nothing has to be asked.

    Clusters that share a budget begin anew with every pass: what one of them gives back another one
    may take.
    """

    def __init__(self, budgets: Iterable[PowerBudget]) -> None:
        self._each = tuple(budgets)
        self.any = bool(self._each)
        self._shared = tuple(budget for budget in self._each if budget.is_shared)
        self._relieved = self._withdrawn = 0
        # What there is, as of so many changes.
        self._least, self._changes = LeastHeadroom((), ()), -1

    def __iter__(self) -> Iterator[PowerBudget]:
        return iter(self._each)

    def begin(self, now_s: float) -> bool:
        """Begin a pass; return True when watts may have been released since the last one did."""
        for budget in self._each:
            budget.advance(now_s)
        relieved = sum(budget.relieved for budget in self._each)
        is_relieved = bool(self._shared) or relieved != self._relieved
        self._relieved = relieved
        self._withdrawn = self._all_withdrawn()
        return is_relieved

    @property
    def is_relieved(self) -> bool:
        """Return True when watts of other clusters too were given up since the pass began. They may
        be what kept an entry from starting: another pass may start it."""
        return self._all_withdrawn() != self._withdrawn

    @property
    def undrawn_mw(self) -> int:
        """Return what an entry may draw at most, whatever is reserved."""
        undrawn_mw = NO_CAP_MW
        for budget in self._each:
            undrawn_mw = min(undrawn_mw, budget.undrawn_mw)
        return undrawn_mw

    @property
    def least_headroom(self) -> LeastHeadroom | None:
        """Return what is left under all of them; None where there is none."""
        if not self.any:
            return None
        changes = self._all_changes()
        if changes != self._changes:
            points = [fall for budget in self._each for fall in budget.falls()]
            self._least, self._changes = LeastHeadroom(points, self.kept_for()), changes
        return self._least

    def _all_changes(self) -> int:
        changes = 0
        for budget in self._each:
            changes += budget.changes
        return changes

    def has(self, draw_mw: int, until_s: float, arrival: int = -1) -> bool:
        """Return True when no budget is exceeded and no reservation there is delayed."""
        if self._all_changes() == self._changes and arrival not in self._least.kept_for:
            return self._least.has(draw_mw, until_s)
        return all(budget.has(draw_mw, until_s, arrival) for budget in self._each)

    def earliest(self, draw_mw: int, duration_s: float, from_s: float, arrival: int) -> float:
        """Return the first time, from one on, at which the budgets have the watts one after the
        other, if limits hold: ask again from there until it stays."""
        start_s = from_s
        for budget in self._each:
            start_s = budget.earliest(draw_mw, duration_s, start_s, arrival)
        return start_s

    def shortages(self, draw_mw: int, until_s: float, arrival: int) -> list[Shortage]:
        """Return the shortage of each budget that does not let a job start now."""
        found = [budget.shortage(draw_mw, until_s, arrival) for budget in self._each]
        return [shortage for shortage in found if shortage is not None]

    def hold(self, holder: int, release_s: float, draw_mw: int) -> None:
        """Commit the draw of a job until a time."""
        for budget in self._each:
            budget.hold(holder, release_s, draw_mw)

    def release(self, holder: int) -> None:
        """Release the draw of a job."""
        for budget in self._each:
            budget.release(holder)

    def prolong(self, holder: int, release_s: float) -> None:
        """Expect a job to draw until another time."""
        for budget in self._each:
            budget.prolong(holder, release_s)

    def reserve(self, arrival: int, start_s: float, duration_s: float, draw_mw: int) -> bool:
        """Keep watts for a waiting job; return True where some take the place of later ones."""
        has_moved = False
        for budget in self._each:
            has_moved |= budget.reserve(arrival, start_s, duration_s, draw_mw)
        return has_moved

    def give_up(self, arrival: int) -> None:
        """Give up what was reserved for a job."""
        for budget in self._each:
            budget.give_up(arrival)

    def kept_for(self) -> set[int]:
        """Return the arrival numbers of the jobs that have a reservation under any of them."""
        return {arrival for budget in self._each for arrival in budget.kept_for}

    def withdraw(self) -> None:
        """Count a reservation that is given up while others look: see `is_relieved`."""
        for budget in self._each:
            budget.withdrawn += 1

    def _all_withdrawn(self) -> int:
        return sum(budget.withdrawn for budget in self._shared)
