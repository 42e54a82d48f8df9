"""Clusters whose running jobs share the watts of a cap: power limits of nodes, as RAPL sets them.

Jobs start by EASY, admitted on a part of what they draw at full power; their share of the cap slows
them down. Simple: Bodas and others, "Simple power-aware scheduler to limit power consumption by HPC
system within a budget" (2014): a job is given what is left when it starts, and keeps it. DynShare:
Ellsworth and others, "Dynamic power sharing for higher job throughput" (2015): what some nodes do
not need the others have, at any moment. Both as Borghesi and others (2018), section 5, use them,
with the power-based admission of section 5.2.2.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from shared.scheduling.consumable import ConsumableScheduler
from shared.scheduling.dispatch import Dispatcher, Served
from shared.scheduling.power import NO_CAP_MW, Cap
from shared.scheduling.wait_queue import Entry

# No job gets by on less: the lower bound of the paper's experiments, 1 W.
LEAST_MW: Final = 1000
# Jobs are admitted until they would draw so many times the cap at full power.
ADMITTED_TIMES: Final = 3
# How much later than they should jobs may end, since their slowdowns are rounded.
LATE_S: Final = 0.001


class Sharer(NamedTuple):
    """A job that shares: its units, what it draws at full power, how many times as long it takes
    with a part of that, of (0, 1], how long it takes at full power at most, and its parts of what
    all nodes have of each resource."""

    units: int
    wanted_mw: int
    duration_ratio: Callable[[float], float]
    limit_s: float
    parts: tuple[float, ...] = ()

    def lasts_s(self, mw: int) -> float:
        """Return how long it takes with so much at most."""
        return self.limit_s * self.duration_ratio(mw / self.wanted_mw)


def admitted_to_share_mw(wanted_mw: int) -> int:
    """Return what a job counts as under the cap when jobs that would draw three times it are
    admitted."""
    return max(LEAST_MW, wanted_mw // ADMITTED_TIMES)


def level_shares(sharers: Mapping[int, Sharer], cap_mw: int) -> dict[int, int]:
    """Return each job's watts, by holder, where units draw what they want up to one level.

    The cap is divided evenly among all units; what those below the level leave the others share,
    and no job gets less than the least. Rounded down, so that the sum is never above the cap.
    """
    left_mw, given = cap_mw, dict[int, int]()
    units_left = 0
    for sharer in sharers.values():
        units_left += sharer.units
    # Jobs that want least of a unit first: their rest raises the level of all behind them.
    order = sorted(sharers, key=lambda h: (sharers[h].wanted_mw / sharers[h].units, h))
    floors_mw = LEAST_MW * len(order)
    for holder in order:
        sharer = sharers[holder]
        floors_mw -= LEAST_MW
        even_mw = min(left_mw * sharer.units // units_left, left_mw - floors_mw)
        given[holder] = mw = min(sharer.wanted_mw, max(LEAST_MW, even_mw))
        left_mw -= mw
        units_left -= sharer.units
    return given


# Each job's watts, by holder, of so many mW.
Shares = Callable[[Mapping[int, Sharer], int], dict[int, int]]


class PowerSharing(Dispatcher):
    """A dispatcher of one cluster, whose jobs share a cap: see Dispatcher.

    Its entries draw what they are admitted on. Under a cap that falls they have to be admitted for
    as long as they may take with the least, since shares may fall to it and jobs cannot end sooner.
    Shares follow the running jobs and the cap, as `shares` divides it. Where `scheduler` is given,
    which is notified of each job's draw, every job keeps the share that it starts with. `given_mw`
    has the watts of each running job.
    """

    def __init__(
        self,
        admitting: Dispatcher,
        sharer: Callable[[int], Sharer],
        cap: Cap,
        scheduler: ConsumableScheduler | None = None,
        shares: Shares = level_shares,
    ) -> None:
        self.given_mw: dict[int, int] = {}
        self._admitting, self._scheduler = admitting, scheduler
        self._sharer, self._cap, self._shares = sharer, cap, shares
        self._late_s = LATE_S if cap.falls else 0.0
        # When jobs that keep their shares end at the latest.
        self._until_s: dict[int, float] = {}
        self._sharers: dict[int, Sharer] = {}
        self._slowdowns: dict[int, float] = {}
        self._changed: dict[int, float] = {}

    @property
    def waits(self) -> bool:
        """Return True while anything waits."""
        return self._admitting.waits

    def arrive(self) -> None:
        """Take the next of the arrivals."""
        self._admitting.arrive()

    def end(self, number: int, holder: int) -> None:
        """Free the job's nodes and watts for others."""
        self._admitting.end(number, holder)
        del self._sharers[holder], self.given_mw[holder], self._slowdowns[holder]
        self._until_s.pop(holder, None)

    def decide(self, now_s: float) -> list[Served]:
        """Return what is admitted; then give watts to the running jobs."""
        started = self._admitting.decide(now_s)
        for _, entry, _, _ in started:
            self._sharers[entry.arrival] = self._sharer(entry.arrival)
        if self._scheduler is None:
            given = self._shares(self._sharers, self._cap.limit_mw(now_s))
        else:
            entries = [entry for _, entry, _, _ in started]
            given = self._shares_at_start(self._scheduler, entries, now_s)
        self._changed = self._new_slowdowns(given)
        self._slowdowns.update(self._changed)
        self.given_mw = given
        return started

    def wake_s(self, now_s: float) -> float:
        """Return when the admitting dispatcher is to be asked again, or running jobs have another
        cap to share."""
        wake_s = self._admitting.wake_s(now_s)
        return min(wake_s, self._cap.next_step_s(now_s)) if self.given_mw else wake_s

    def slowdowns(self) -> Mapping[int, float]:
        """Return the slowdowns of jobs that get more or less than before."""
        return self._changed

    def _new_slowdowns(self, given: Mapping[int, int]) -> dict[int, float]:
        found: dict[int, float] = {}
        for holder, mw in given.items():
            if mw != self.given_mw.get(holder):
                sharer = self._sharers[holder]
                slowdown_ratio = sharer.duration_ratio(mw / sharer.wanted_mw)
                if slowdown_ratio != self._slowdowns.get(holder):
                    found[holder] = slowdown_ratio
        return found

    def _shares_at_start(
        self, scheduler: ConsumableScheduler, started: list[Entry], now_s: float
    ) -> dict[int, int]:
        """Return the shares of before, and for each job that starts, in order, what it wants of
        what is left, but what those behind it need at least; that is its draw from now on."""
        given = self.given_mw.copy()
        for behind, entry in zip(range(len(started) - 1, -1, -1), started, strict=True):
            sharer = self._sharers[entry.arrival]
            mw = self._kept_mw(given, LEAST_MW * behind, sharer, now_s)
            until_s = now_s + sharer.lasts_s(mw) + self._late_s
            given[entry.arrival], self._until_s[entry.arrival] = mw, until_s
            scheduler.redraw(entry.arrival, until_s, mw)
        return given

    def _kept_mw(
        self, given: Mapping[int, int], behind_mw: int, sharer: Sharer, now_s: float
    ) -> int:
        """Return what a job that starts wants of what is left, now and while it runs: less makes it
        last longer, so that more steps of the cap are ahead."""
        mw = min(sharer.wanted_mw, self._cap.limit_mw(now_s) - sum(given.values()) - behind_mw)
        while self._cap.falls:
            until_s = now_s + sharer.lasts_s(mw) + self._late_s
            left_mw = self._least_left_mw(given, now_s, until_s) - behind_mw
            if left_mw >= mw or mw <= LEAST_MW:
                break
            mw = max(LEAST_MW, left_mw)
        return mw

    def _least_left_mw(self, given: Mapping[int, int], now_s: float, until_s: float) -> int:
        """Return what is left at any step of the cap between two times."""
        least_mw = NO_CAP_MW
        for from_s, cap_mw in self._cap.steps_after(now_s):
            if from_s < until_s:
                drawn_mw = sum([mw for h, mw in given.items() if self._until_s[h] > from_s])
                least_mw = min(least_mw, cap_mw - drawn_mw)
        return least_mw
