"""The one event loop: jobs arrive, start when the dispatcher decides so, and end.

Simulations of logs and of deadlines, forecasts, quotes, evaluations of plans and what-if questions
on a record differ in their dispatcher, in when jobs arrive and in how long they run; not in this.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import inf

from shared.scheduling.dispatch import Dispatcher, Served
from shared.scheduling.progress import ENDED, Progress

# The end of a running job: when, the number of its cluster, and its holder.
End = tuple[float, int, int]


class Engine:
    """Moves a dispatcher from instant to instant: all ends come first, then all arrivals, then one
    decision.

    `arrive_s` are the times of arrivals, ascending; `runs_s` returns for how long an entry that
    starts will run undisturbed; `ends` are those of the running jobs at the begin. Where
    `ticks_per_s` are given all times are whole ticks: the ends of jobs that are slowed down are
    rounded, and at least a tick ahead. `now_s` is the instant of the last `step`, `ended` are the
    holders whose jobs ended then.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        arrive_s: Sequence[float],
        runs_s: Callable[[Served], float],
        begin_s: float,
        ends: Iterable[End] = (),
        ticks_per_s: int = 0,
    ) -> None:
        self.now_s, self.next_s = begin_s, begin_s
        self.ended: list[int] = []
        self._dispatcher, self._runs_s = dispatcher, runs_s
        self._ticks_per_s = ticks_per_s
        self._arrive_s = [*arrive_s, inf]
        self._arrived = 0
        self._ends = [*ends, (inf, -1, -1)]
        heapify(self._ends)
        # Progress of the jobs that are slowed down, and as of when.
        self._slowed: dict[int, tuple[Progress, float]] = {}

    @property
    def is_over(self) -> bool:
        """Return True when nothing will start any more."""
        if self.next_s == inf:
            return True
        return self._arrive_s[self._arrived] == inf and not self._dispatcher.waits

    def step(self) -> list[Served]:
        """Go to the next instant: return the entries that start."""
        dispatcher, ends, now_s = self._dispatcher, self._ends, self.next_s
        if self.ended:
            self.ended = []
        end_s, number, holder = ends[0]
        while end_s <= now_s:
            heappop(ends)
            dispatcher.end(number, holder)
            self.ended.append(holder)
            if self._slowed:
                self._slowed.pop(holder, None)
            end_s, number, holder = ends[0]
        while self._arrive_s[self._arrived] <= now_s:
            dispatcher.arrive()
            self._arrived += 1
        started = dispatcher.decide(now_s)
        for served in started:
            number, entry, _, _ = served
            heappush(ends, (now_s + self._runs_s(served), number, entry.arrival))
        if slowdowns := dispatcher.slowdowns():
            self._change(now_s, started, slowdowns)
        self.now_s = now_s
        end_s, _, _ = ends[0]
        arrive_s = self._arrive_s[self._arrived]
        if arrive_s < end_s:
            end_s = arrive_s
        self.next_s = min(end_s, dispatcher.wake_s(now_s))
        return started

    def _change(
        self, now_s: float, started: Iterable[Served], slowdowns: Mapping[int, float]
    ) -> None:
        """Make what a job has left of its run time take as long as its slowdown demands."""
        for served in started:
            _, entry, _, _ = served
            if entry.arrival in slowdowns:
                self._slowed[entry.arrival] = Progress(self._runs_s(served)), now_s
        for place, (end_s, number, holder) in enumerate(self._ends):
            if holder in slowdowns:
                progress, as_of_s = self._slowed.get(holder) or (Progress(end_s - now_s), now_s)
                progress.advance(self._rounded_s(now_s - as_of_s))
                progress.slowdown_ratio = slowdowns[holder]
                self._slowed[holder] = progress, now_s
                self._ends[place] = self._end_s(now_s, progress), number, holder
        heapify(self._ends)

    def _end_s(self, now_s: float, progress: Progress) -> float:
        """Return when a job ends: at once where it was ended, whatever ticks there are."""
        left_s, ticks = progress.remaining_s, self._ticks_per_s
        if not ticks or left_s == inf or progress.slowdown_ratio == ENDED:
            return now_s + left_s
        return self._rounded_s(now_s + max(self._rounded_s(left_s), 1 / ticks))

    def _rounded_s(self, seconds: float) -> float:
        """Return the nearest time in whole ticks."""
        ticks = self._ticks_per_s
        return round(seconds * ticks) / ticks if ticks else seconds
