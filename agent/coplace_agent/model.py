"""Decisions of the agent: which job to shutter next, how long and how often, and what to publish of
it."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import NamedTuple

from coplace_client.bounds import IPC


class ProgressReading(NamedTuple):
    """A counter of progress, and of what it is measured against: instructions and cycles, or
    heartbeats and seconds."""

    progress: float
    base: float


def rate(begin: ProgressReading, end: ProgressReading) -> float:
    """Return the progress between two readings by what it is measured against; 0 where nothing of
    that went by, as of a job that slept."""
    base = end.base - begin.base
    return (end.progress - begin.progress) / base if base > 0 else 0.0


class Rates(NamedTuple):
    """One shutter: the mean rates of a job before, during and after its co-runners were paused."""

    before: float
    during: float
    after: float

    @classmethod
    def of(cls, windows: Sequence[Sequence[float]]) -> "Rates":
        """Return the means of the K measurements in each of the three windows."""
        return cls(*(fmean(window) for window in windows))


def next_in_turn(previous: str, jobs: Sequence[str]) -> str:
    """Return the next job round robin (algorithm 3, line 10), over jobs that come and go: the next
    after the previous in the order of their ids. `jobs` are sorted and not empty."""
    return jobs[bisect_right(jobs, previous) % len(jobs)]


def paused_share(jobs: int, shutter_s: float, period_s: float) -> float:
    """Return equation 9: the share of its time that each of n jobs is stopped, (n - 1) S / (n (3 S
    + P)), of shutters of S in all, what it costs to make one included."""
    return (jobs - 1) * shutter_s / (jobs * (3 * shutter_s + period_s))


def dilation_ratio(jobs: int, shutter_s: float, period_s: float) -> float:
    """Return equation 10: the runtime with shutters over that without, beside jobs that do not
    disturb."""
    return 1 / (1 - paused_share(jobs, shutter_s, period_s))


@dataclass(frozen=True, slots=True)
class Timing:
    """How long one measurement lasts (S), how many make up a window (K), and how long all jobs run
    undisturbed between two shutters (P)."""

    measurement_s: float
    measurements: int
    period_s: float


@dataclass(frozen=True, slots=True)
class OverheadBudget:
    """By how much shutters may lengthen runs (0.01: by 1 %), and how far S and P give way."""

    overhead: float
    least_measurement_s: float
    most_period_s: float


def least_period_s(jobs: int, shutter_s: float, overhead: float) -> float:
    """Solve equations 9 and 10 for P: return from which on a shutter of S keeps within the
    overhead."""
    share = overhead / (1 + overhead)
    return max(0.0, shutter_s * ((jobs - 1) / (jobs * share) - 3))


def adapted(wanted: Timing, jobs: int, cost_s: float, budget: OverheadBudget) -> Timing:
    """Return the wanted S and P where equation 10 keeps them within the budget; else a longer P, up
    to its bound; then a shorter S, down to its own; then as long a P as it takes.

    `cost_s` is how long co-runners are paused beyond the measurements, to signal and wait for them.
    """
    a_second_s = least_period_s(jobs, 1.0, budget.overhead)
    most_period_s = max(budget.most_period_s, wanted.period_s)
    measurement_s = wanted.measurement_s
    if a_second_s * (wanted.measurements * measurement_s + cost_s) > most_period_s:
        fitting_s = (most_period_s / a_second_s - cost_s) / wanted.measurements
        measurement_s = max(min(budget.least_measurement_s, measurement_s), fitting_s)
    shutter_s = wanted.measurements * measurement_s + cost_s
    return Timing(measurement_s, wanted.measurements, max(wanted.period_s, a_second_s * shutter_s))


@dataclass(slots=True)
class Interval:
    """A job's time beside the same co-runners, and its shutters in it. Its end is its begin and the
    time that passed, so that no step of the clock turns it round."""

    job: str
    co_runners: tuple[str, ...]
    began_at_us: int
    began_s: float
    ended_s: float
    shutters: list[Rates]

    @property
    def ended_at_us(self) -> int:
        """Return its end by the clock that gave its begin."""
        return self.began_at_us + round((self.ended_s - self.began_s) * 1e6)


class IntervalLog:
    """The open interval of each job. Each shutter is in one interval, each interval is given out
    once, and those of a job do not overlap: none begins before what was given out has ended, though
    the wall clock went more slowly than time, or back."""

    def __init__(self, longest_s: float, most_shutters: int) -> None:
        self._longest_s = longest_s
        self._most_shutters = most_shutters
        self._open: dict[str, Interval] = {}
        self._told_until_us = 0

    def beside(self, jobs: Sequence[str], now_us: int, now_s: float) -> list[Interval]:
        """Note that these run together from now on, where they did not already: returns the
        intervals that ended by that or are as long as one may be, and have shutters. `now_s` is of
        a clock that never steps."""
        together = {job: tuple(sorted(set(jobs) - {job})) for job in jobs} if len(jobs) > 1 else {}
        ended = []
        for job, interval in list(self._open.items()):
            if together.get(job) != interval.co_runners or self._is_full(interval, now_s):
                ended.append(self._open.pop(job))
                ended[-1].ended_s = now_s
        found = [interval for interval in ended if interval.shutters]
        self._told_until_us = max(
            (self._told_until_us, *(interval.ended_at_us for interval in found))
        )
        begin_us = max(now_us, self._told_until_us)
        for job in together.keys() - self._open.keys():
            self._open[job] = Interval(job, together[job], begin_us, now_s, now_s, [])
        return found

    def add(self, job: str, shutter: Rates) -> None:
        """Add one more shutter of a job that was said to run beside others."""
        self._open[job].shutters.append(shutter)

    def _is_full(self, interval: Interval, now_s: float) -> bool:
        is_long = now_s - interval.began_s >= self._longest_s
        return is_long or len(interval.shutters) >= self._most_shutters


def relative(shutters: Sequence[Rates]) -> list[Rates]:
    """Scale rates by the level of their own source, the median rate during shutters: so that delta,
    0.05 of IPC in the paper, is 5 % of what this source shows alone."""
    level = median(shutter.during for shutter in shutters)
    return [Rates(*(each / level for each in shutter)) for shutter in shutters] if level else []


def tellable(shutters: Sequence[Rates]) -> list[Rates]:
    """Return the shutters that a consumer takes: without progress in one of its windows a shutter
    shows nothing, as of a job that waits, or whose heartbeats have longer pauses than a window is
    long."""
    return [shutter for shutter in shutters if all(IPC.has(value) for value in shutter)]
