"""Means with confidence intervals, and gains of one policy over another on the same seeds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from lab.simulate.report import half_width
from lab.simulation.metrics import Summary

Measure = Callable[[Summary], float]


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over seeds and half of its 95 % confidence interval; none of one seed."""

    mean: float
    half: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> "Interval":
        """Return the interval of at least one value."""
        return cls(fmean(values), half_width(values) if len(values) > 1 else None)

    def shown(self, digits: int) -> str:
        """Format the interval as tables have it."""
        mean = f"{self.mean:,.{digits}f}"
        return mean if self.half is None else f"{mean} ± {self.half:.{digits}f}"


def interval(summaries: Sequence[Summary], measure: Measure) -> Interval:
    """Return the interval of a measure over seeds."""
    return Interval.of([measure(summary) for summary in summaries])


def gains(ours: Sequence[Summary], theirs: Sequence[Summary], measure: Measure) -> list[float]:
    """Return by how much a measure is below that of another policy, in percent of the other's,
    paired: the same seed is the same jobs."""
    pairs = zip(ours, theirs, strict=True)
    return [100 * (1 - measure(our) / measure(their)) for our, their in pairs]


def gain(ours: Sequence[Summary], theirs: Sequence[Summary], measure: Measure) -> Interval:
    """Return the interval of the gains of all seeds."""
    return Interval.of(gains(ours, theirs, measure))
