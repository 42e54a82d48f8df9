"""The headroom of a budget of power over time, for callers that ask often while nothing changes."""

from bisect import bisect_left
from collections.abc import Iterable
from math import inf
from sys import maxsize


class Headroom:
    """Watts that are neither drawn nor reserved from a time on, if limits hold: an amount from each
    of the ascending times until the next.

    From one fall to the next there is ever more, so that an amount that is enough at some time
    stays so.
    """

    def __init__(self, from_s: float, room_mw: int, changes: Iterable[tuple[float, int]]) -> None:
        """Take as `changes` the amounts that come (or go, below 0) at times after `from_s`."""
        times_s, rooms_mw = [from_s], [room_mw]
        for time_s, more_mw in sorted(changes):
            if time_s > times_s[-1]:
                times_s.append(time_s)
                rooms_mw.append(rooms_mw[-1])
            rooms_mw[-1] += more_mw
        self._times_s, self._room_mw = times_s, rooms_mw
        places = range(1, len(rooms_mw))
        self._falls = [place for place in places if rooms_mw[place] < rooms_mw[place - 1]]

    def earliest(self, draw_mw: int, duration_s: float) -> float:
        """Return the first time with so much for so long; infinite if there is none."""
        times_s, room_mw, place, start_s = self._times_s, self._room_mw, 0, inf
        for end in [*self._falls, len(times_s)]:
            if start_s + duration_s <= times_s[place]:
                return start_s
            if start_s == inf or room_mw[place] < draw_mw:
                found = bisect_left(room_mw, draw_mw, place, end)
                start_s = times_s[found] if found < end else inf
            place = end
        return start_s


class LeastHeadroom:
    """The least that several budgets have from now until some time, for callers that ask thousands
    of times while nothing changes. It is not for the jobs with a reservation there, `kept_for`,
    whose own watts it counts as taken."""

    def __init__(self, points: Iterable[tuple[float, int]], kept_for: Iterable[int]) -> None:
        """Take as `points` the headroom of each budget now, the first, and wherever it may have
        less."""
        self.kept_for = frozenset(kept_for)
        ordered = sorted(points)
        times_s = [first_s for first_s, _ in ordered[:1]] or [-inf]
        least_mw = [maxsize]
        for time_s, room_mw in ordered:
            if room_mw < least_mw[-1]:
                if time_s > times_s[-1]:
                    times_s.append(time_s)
                    least_mw.append(room_mw)
                least_mw[-1] = room_mw
        self._times_s, self._least_mw = times_s, least_mw

    def has(self, draw_mw: int, until_s: float) -> bool:
        """Return True where so much may be drawn from now until then."""
        if draw_mw > self._least_mw[0]:
            return False
        return draw_mw <= self._least_mw[bisect_left(self._times_s, until_s, 1) - 1]

    def has_any(self, draws: list[tuple[float, int]], from_s: float) -> bool:
        """Return True where one of these may be drawn from then on, each for so long: durations,
        with draws that descend."""
        times_s, least_mw = self._times_s, self._least_mw
        until, now_mw = len(times_s) - 1, least_mw[0]
        for place in range(len(draws) - 1, -1, -1):
            duration_s, draw_mw = draws[place]
            if draw_mw > now_mw:
                return False
            while until and times_s[until] >= from_s + duration_s:
                until -= 1
            if draw_mw <= least_mw[until]:
                return True
        return False
