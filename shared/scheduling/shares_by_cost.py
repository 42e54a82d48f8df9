"""Watts of a cap where they take most off bounded slowdowns.

A job that gets the part M of its power does 1 / (1 + F (1/M - 1)) = M / (M + F (1 - M)) of its work
a second: Borghesi and others, "Scheduling-based power capping in high performance computing
systems" (2018), section 5.1.1. Its last watts speed it up least, and a second of its work takes 1 /
max(60 s, limit) off its bounded slowdown if it runs to its limit. It takes as much again off the
jobs that wait for nodes: a job that has a part of a resource and is over a second sooner brings all
jobs that need that resource forward by this part of a second. The sum of all that is greatest where
one more watt is worth as much to each job that has neither the least nor all.
"""

from collections.abc import Iterable, Mapping
from math import sqrt
from typing import Final, NamedTuple

from shared.models.bounded_slowdown import bounded_length_s
from shared.scheduling.power_sharing import LEAST_MW, Sharer

# F of a job of which no more is known: the paper sees 0.5 to 0.6 in the mean (section 5.2).
_FACTOR: Final = 0.5


class _Taker(NamedTuple):
    """A job that draws what it wants at a level of 1 / `root`: M = (level root - F) / (1 - F)."""

    wanted_mw: int
    least_mw: int
    root: float

    def drawn_mw(self, level: float) -> int:
        """Return what it draws at a level, rounded down."""
        part = (level * self.root - _FACTOR) / (1 - _FACTOR)
        return min(self.wanted_mw, max(self.least_mw, int(part * self.wanted_mw)))

    @property
    def bends(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return where it begins to draw more than the least and where it has all, and by how much
        its slope changes there."""
        slope = self.wanted_mw * self.root / (1 - _FACTOR)
        least = self.least_mw / self.wanted_mw
        return ((_FACTOR + (1 - _FACTOR) * least) / self.root, slope), (1 / self.root, -slope)


def shares_by_cost(
    sharers: Mapping[int, Sharer], cap_mw: int, waiting: Iterable[Sharer] = ()
) -> dict[int, int]:
    """Return each job's watts, by holder, so that the least is left of the slowdowns, those of the
    jobs that are `waiting` for nodes included.

    No job gets less than the least. Rounded down, so that the sum is never above the cap.
    """
    wanted = {holder: sharer.wanted_mw for holder, sharer in sharers.items()}
    if sum(wanted.values()) <= cap_mw:
        return wanted
    prices = _prices(waiting)
    takers = {holder: _taker(sharer, prices) for holder, sharer in sharers.items()}
    level, given, left_mw = _level(list(takers.values()), cap_mw), dict[int, int](), cap_mw
    floors_mw = sum(taker.least_mw for taker in takers.values())
    for holder, taker in takers.items():
        floors_mw -= taker.least_mw
        # The rest decides where digits alone made the sum greater.
        given[holder] = mw = min(taker.drawn_mw(level), max(taker.least_mw, left_mw - floors_mw))
        left_mw -= mw
    return given


def _taker(sharer: Sharer, prices: Mapping[int, float]) -> _Taker:
    priced = [part * prices.get(resource, 0.0) for resource, part in enumerate(sharer.parts)]
    worth = _FACTOR * (_a_second_of(sharer) + max(priced, default=0.0))
    least_mw = min(sharer.wanted_mw, LEAST_MW)
    return _Taker(sharer.wanted_mw, least_mw, sqrt(worth / sharer.wanted_mw))


def _prices(waiting: Iterable[Sharer]) -> dict[int, float]:
    """Return what a second of all of a resource takes off the jobs that wait for some of it, by
    resource."""
    prices: dict[int, float] = {}
    for sharer in waiting:
        for resource, part in enumerate(sharer.parts):
            if part:
                prices[resource] = prices.get(resource, 0.0) + _a_second_of(sharer)
    return prices


def _a_second_of(sharer: Sharer) -> float:
    """Return what a second takes off a job's bounded slowdown if it runs to its limit."""
    return 1 / bounded_length_s(sharer.limit_s)


def _level(takers: list[_Taker], cap_mw: int) -> float:
    """Return the level at which all draw the cap together; 0 where the least of all is as much."""
    level, slope, drawn_mw = 0.0, 0.0, float(sum(taker.least_mw for taker in takers))
    for at, change in sorted(bend for taker in takers for bend in taker.bends):
        if drawn_mw + slope * (at - level) >= cap_mw:
            break
        drawn_mw += slope * (at - level)
        level, slope = at, slope + change
    return level + (cap_mw - drawn_mw) / slope if slope > 0 else level
