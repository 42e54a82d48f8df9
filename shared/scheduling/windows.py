"""Times in which nodes of a cluster are kept for the jobs of a reservation, or for nobody.

A job that is not of a reservation may not be on its nodes while it lasts, from the start of the job
to its limit. One that is of it is there and nowhere else, and within its time: see `is_within`. So
where a job may be follows from when it starts and when it ends at the latest: see `shut`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable
from itertools import accumulate, islice
from math import inf
from typing import Final, NamedTuple

from shared.scheduling.eligibility import NodeBits

# All nodes of any cluster.
_ALL: Final = -1
# How late a job as long as its reservation may start, and end. Rounds end after the begin, never at
# it.
MOST_LATE_S: Final = 120.0
# Times are declared in whole microseconds; sums of seconds are a little off.
_EXACT_S: Final = 1e-6
# First starts that are noted at once.
_MOST_NOTED: Final = 10_000


def late_start_s(from_s: float, until_s: float) -> float:
    """Return until when a job may start that is as long as its reservation: some time after the
    begin, in its first half."""
    return from_s + min(MOST_LATE_S, (until_s - from_s) / 2)


def is_within(from_s: float, until_s: float, start_s: float, end_s: float) -> bool:
    """Return whether a job may run from one time until another in a reservation of its own: it ends
    by the end, or starts about at the begin and takes no longer than the reservation."""
    if start_s < from_s or end_s <= until_s:
        return start_s >= from_s
    is_late = start_s > late_start_s(from_s, until_s)
    return not is_late and end_s - start_s <= until_s - from_s + _EXACT_S


class Window(NamedTuple):
    """Nodes of a cluster that are kept from a time until another, for the jobs that name it: none
    where it is a maintenance."""

    name: str
    from_s: float
    until_s: float
    nodes: NodeBits


class Maintained(NamedTuple):
    """So many nodes of a cluster, the last ones, that are kept for nobody."""

    from_s: float
    until_s: float
    units: int

    def window(self, number: int, units: int) -> Window:
        """Return it as a window on so many nodes, with a number for a name."""
        nodes = ((1 << self.units) - 1) << (units - self.units)
        return Window(f"{number}", self.from_s, self.until_s, nodes)


class Windows:
    """The windows of one cluster."""

    def __init__(self, windows: Iterable[Window] = ()) -> None:
        self.all = sorted(windows, key=lambda each: (each.from_s, each.until_s, each.name))
        self._by_name = {each.name: each for each in self.all}
        self._from_s = [each.from_s for each in self.all]
        # Up to each, the last end: it ascends.
        self._ended_s = list(accumulate([each.until_s for each in self.all], max))
        self._first_starts: dict[Hashable, tuple[float, float]] = {}

    @property
    def any(self) -> bool:
        """Return whether there are some."""
        return bool(self.all)

    def find(self, name: str) -> Window | None:
        """Return the window of this name; None where there is none."""
        return self._by_name.get(name)

    def begun_by(self, end_s: float) -> int:
        """Return how many begin before a time: of jobs of no reservation that start at the same
        time, those that end after as many may be on the same nodes."""
        return bisect_left(self._from_s, end_s)

    def shut(self, reservation: str, start_s: float, end_s: float) -> NodeBits:
        """Return the nodes on which a job may not be that would run from one time until another,
        of this reservation or, where that is empty, of none."""
        nodes = 0
        if reservation:
            own = self._by_name.get(reservation)
            if own is None or not is_within(own.from_s, own.until_s, start_s, end_s):
                return _ALL
        for each in islice(self.all, bisect_right(self._ended_s, start_s), None):
            if each.from_s >= end_s:
                break
            if start_s < each.until_s and each.name != reservation:
                nodes |= each.nodes
        return nodes

    def against(self, reservation: str, start_s: float, end_s: float) -> list[Window]:
        """Return the windows of others that overlap a time, by when they begin."""
        first, behind = bisect_right(self._ended_s, start_s), self.begun_by(end_s)
        return [
            each
            for each in self.all[first:behind]
            if start_s < each.until_s and each.name != reservation
        ]

    def opens_s(self, reservation: str, start_s: float, end_s: float) -> float:
        """Return when a job that would run from one time until another could first be on more
        nodes if it started later; infinite where it never could."""
        if reservation:
            own = self._by_name.get(reservation)
            if own is None:
                return inf
            first_s = max(start_s, own.from_s)
            if not is_within(own.from_s, own.until_s, first_s, first_s + (end_s - start_s)):
                return inf
            if start_s < own.from_s:
                return own.from_s
        ends_s = [each.until_s for each in self.against(reservation, start_s, end_s)]
        return min(ends_s, default=inf)

    def last_start_s(self, now_s: float, limit_s: float) -> float:
        """Return the next time, from now on, up to which a start ends before a window begins;
        infinite where none begins later."""
        first = bisect_left(self._from_s, now_s + limit_s - _EXACT_S)
        starts_s = (self._from_s[at] - limit_s for at in range(first, len(self._from_s)))
        return next((start_s for start_s in starts_s if start_s >= now_s), inf)

    def first_start_s(self, asked: Hashable, from_s: float) -> float | None:
        """Return the first start, from a time on, that was noted for what somebody asked; None
        where none was that still holds."""
        noted = self._first_starts.get(asked)
        return noted[1] if noted is not None and noted[0] <= from_s <= noted[1] else None

    def note_first_start(self, asked: Hashable, from_s: float, start_s: float) -> None:
        """Note the first start from a time on. It holds until then: windows are what they are."""
        if len(self._first_starts) >= _MOST_NOTED:
            self._first_starts.clear()
        self._first_starts[asked] = from_s, start_s

    def turns_within(self, after_s: float, until_s: float) -> bool:
        """Return whether some nodes are kept for others from a moment on, after a time and until
        another."""
        return any(
            after_s < each.from_s <= until_s or after_s < each.until_s <= until_s
            for each in self.all
        )

    def times_s(self) -> list[float]:
        """Return when one begins or ends."""
        return [time_s for each in self.all for time_s in (each.from_s, each.until_s)]


NO_WINDOWS: Final = Windows()
