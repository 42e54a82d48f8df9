"""How long an application takes on one node model against another.

D'Amico and Corbalan (2021), section 3.3: `time_coefficient`, the seventh parameter, is the ratio
of two runtimes and is learned by running the application on both. Until then it is estimated from
hardware; how, and how far off that is, is our own (docs/energy.md has the figures).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, sqrt
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from shared.models.projection import Projection
from shared.numerics.elementary import exp, logs

Floats = NDArray[np.float64]
Number = TypeVar("Number", float, Floats)

# How far one run's time is from the mean run's, as a share, where nobody has counted: runs of one
# application on one node model differ by a few percent.
RUN_SPREAD: Final = 0.05
# A mean that forgets with a weight of 0.1 is worth 2 / 0.1 - 1 runs, however many there were.
MOST_RUNS: Final = 19
# One application cannot say how much applications differ.
MIN_APPS: Final = 2


@dataclass(frozen=True, slots=True)
class Hardware:
    """A node; `peak_bandwidth_gbps` 0 where nobody knows it."""

    cores: int
    nominal_ghz: float
    peak_bandwidth_gbps: float = 0.0

    @property
    def rate(self) -> float:
        """Return cores x GHz: cycles that the node has, in 1e9 a second."""
        return self.cores * self.nominal_ghz


class AppTime(NamedTuple):
    """An application on a node model at its nominal P-state: the mean of `runs` runs.

    `clock_share` is the share of its time that a slower clock stretches, 1 where it is not known.
    """

    time_s: float
    clock_share: float = 1.0
    runs: int = 1


class TimeCoefficient(NamedTuple):
    """T(model) / T(reference); `relative_error` is its standard error as a share of it, infinite
    where it is unknown; `is_measured` says that the application ran on both."""

    value: float
    relative_error: float
    is_measured: bool


AppTimes = Mapping[str, AppTime]


def clock_shares(projection: Projection) -> Floats:
    """Return the share of each signature's time that follows the clock, shape (signatures,).

    From the lowest P-state f with a projection: (T(f) / T_nom - 1) / (f_nom / f - 1), from 0 (all
    of it waits for memory) to 1; 1 where there is no other P-state than the nominal one, the last.
    """
    clocks_ghz = np.asarray(projection.pstates_ghz)
    lowest = projection.available.argmax(axis=1)
    stretch = projection.time_s[np.arange(len(lowest)), lowest] / projection.time_s[:, -1] - 1
    slower = clocks_ghz[-1] / clocks_ghz[lowest] - 1
    share = np.divide(stretch, slower, out=np.ones_like(stretch), where=slower > 0)
    return np.asarray(np.clip(share, 0.0, 1.0), dtype=np.float64)


class TimeCoefficients:
    """The time coefficients of one node model against a reference."""

    def __init__(
        self, reference: Hardware, model: Hardware, on_reference: AppTimes, on_model: AppTimes
    ) -> None:
        self._reference, self._model = reference, model
        self._on_reference, self._on_model = on_reference, on_model
        self._both = sorted(on_reference.keys() & on_model.keys())
        here_s, share, here_runs = _columns(on_reference, self._both)
        there_s, _, there_runs = _columns(on_model, self._both)
        # Positive where an application gains less from this hardware than expected.
        self._residuals = logs(there_s / here_s) - logs(self._promised(share))
        self._weights = _weight(here_runs, there_runs)
        self._correction = exp(_weighted_median(self._residuals, self._weights))

    def of(self, app_id: str) -> TimeCoefficient:
        """Return the coefficient of an application, and how sure it is."""
        here, there = self._on_reference.get(app_id), self._on_model.get(app_id)
        if here is None or there is None:
            return TimeCoefficient(self.ratio(app_id), self._error, is_measured=False)
        spread = RUN_SPREAD * sqrt(1 / min(here.runs, MOST_RUNS) + 1 / min(there.runs, MOST_RUNS))
        return TimeCoefficient(self.ratio(app_id), spread, is_measured=True)

    def ratio(self, app_id: str) -> float:
        """Return T(model) / T(reference): measured, or else what hardware lets expect, corrected.

        An application that ran nowhere counts as one that follows the clock.
        """
        here, there = self._on_reference.get(app_id), self._on_model.get(app_id)
        if here is not None and there is not None:
            return there.time_s / here.time_s
        known = here or there
        return float(self._promised(known.clock_share if known else 1.0) * self._correction)

    def left_out(self) -> dict[str, float]:
        """Return log(measured / estimated) of each application that ran on both, estimated as if it
        had run on the reference only; empty with fewer than MIN_APPS."""
        if len(self._both) < MIN_APPS:
            return {}
        return {app_id: self._left_out(i) for i, app_id in enumerate(self._both)}

    def _left_out(self, i: int) -> float:
        others = _weighted_median(np.delete(self._residuals, i), np.delete(self._weights, i))
        return float(self._residuals[i] - others)

    @cached_property
    def _error(self) -> float:
        return _root_mean_square(self.left_out())

    def _promised(self, clock_share: Number) -> Number:
        """Return what hardware lets expect: time that follows the clock goes by cores x GHz, the
        rest by memory bandwidth."""
        cycles = self._reference.rate / self._model.rate
        here, there = self._reference.peak_bandwidth_gbps, self._model.peak_bandwidth_gbps
        traffic = here / there if here and there else cycles
        return clock_share * cycles + (1 - clock_share) * traffic


def _columns(times: AppTimes, apps: Sequence[str]) -> Floats:
    """Return time, clock share and runs of applications, shape (3, applications)."""
    rows = [times[app_id] for app_id in apps]
    # Column by column: numpy takes ten times as long to read tuples.
    columns = zip(*rows, strict=True) if rows else [()] * len(AppTime._fields)
    return np.array([np.array(column, dtype=np.float64) for column in columns])


def _weight(here_runs: Floats, there_runs: Floats) -> Floats:
    """Return n m / (n + m): what a ratio of means of n and of m runs is worth."""
    n, m = np.minimum(here_runs, MOST_RUNS), np.minimum(there_runs, MOST_RUNS)
    return np.asarray(n * m / (n + m), dtype=np.float64)


def _weighted_median(values: Floats, weights: Floats) -> float:
    """Return the value that half of the weight lies below; between two where it divides evenly; 0
    of nothing. A median, since an application of its own kind must not move the others'."""
    if not values.size:
        return 0.0
    order = values.argsort(kind="stable")
    ascending, reached = values[order], weights[order].cumsum()
    half = reached[-1] / 2
    low = ascending[np.searchsorted(reached, half * (1 - 1e-9))]
    high = ascending[np.searchsorted(reached, half * (1 + 1e-9), side="right")]
    return float((low + high) / 2)


def _root_mean_square(errors: Mapping[str, float]) -> float:
    return sqrt(sum(e * e for e in errors.values()) / len(errors)) if errors else inf
