"""What a budget of power has left over time, for whoever asks often while nothing changes."""

from bisect import bisect_left
from collections.abc import Iterable
from math import inf


class Headroom:
    """What nobody draws and nobody reserved from a time on, if limits hold: an amount from each of
    the ascending times until the next.

    From one fall to the next there is ever more, so that what is enough at some time stays so.
    """

    def __init__(self, from_s: float, room_mw: int, changes: Iterable[tuple[float, int]]) -> None:
        """`changes` are what comes (or goes, below 0) at which time after `from_s`."""
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
        """The first time with so much for so long; infinite if there is none."""
        times_s, room_mw, place, start_s = self._times_s, self._room_mw, 0, inf
        for end in [*self._falls, len(times_s)]:
            if start_s + duration_s <= times_s[place]:
                return start_s
            if start_s == inf or room_mw[place] < draw_mw:
                found = bisect_left(room_mw, draw_mw, place, end)
                start_s = times_s[found] if found < end else inf
            place = end
        return start_s
