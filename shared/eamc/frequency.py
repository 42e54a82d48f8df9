"""Which P-state a job should run at on a cluster.

D'Amico and Corbalan (2021), equation 4. As printed, E^2 / E_min is an energy and t^2 / t_min a
time: their sum has no unit. How it can be read, and what follows: docs/adr/0003.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.domain.eamc_policy import Reading
from shared.models.projection import Projection
from shared.models.spread import Quantile

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# What a lower P-state draws of the one before it, at most, to be one more mode.
_WORTH_IT: Final = 0.9
_MEDIAN: Final = 0.5


class FrequencyRule(StrEnum):
    """How a P-state is chosen from a projection."""

    NOMINAL = "nominal"
    MIN_RUNTIME = "min-runtime"
    MIN_ENERGY = "min-energy"
    MIN_DISTANCE = "min-distance"


@dataclass(frozen=True, slots=True)
class Weighing:
    """How energy and time are weighted: `t_weight` is the w of equations 4 and 5 as read."""

    t_weight: float = 1.0
    reading: Reading = Reading.DIMENSIONLESS


EVEN: Final = Weighing()


def distance(energy_j: Floats, time_s: Floats, weighing: Weighing = EVEN) -> Floats:
    """Return the root of what a reading says, the minima taken along the last axis.

    Equation 4 over P-states, equation 5 over clusters. NaN where an input is NaN.
    """
    # fmin passes over NaN, and unlike nanmin has nothing to say where all are.
    least_j = np.fmin.reduce(energy_j, axis=-1, keepdims=True)
    least_s = np.fmin.reduce(time_s, axis=-1, keepdims=True)
    weight = weighing.t_weight
    if weighing.reading is Reading.PRINTED:
        squares = np.square(energy_j) / least_j + weight * np.square(time_s) / least_s
    elif weighing.reading is Reading.AUTHORS:
        squares = np.square(energy_j / least_j) + np.square(weight * time_s / least_s)
    else:
        squares = np.square(energy_j / least_j) + weight * np.square(time_s / least_s)
    return np.asarray(np.sqrt(squares), dtype=np.float64)


def choose_pstates(
    projection: Projection,
    rule: FrequencyRule,
    weighing: Weighing = EVEN,
    quantile: float = 0.5,
) -> Ints:
    """Choose the P-state of each signature, shape (signatures,); ties go to the lowest frequency.

    Compared are the quantiles of time and energy, at 0.5 the projections themselves. Each signature
    needs at least one projection, NOMINAL one at the highest P-state.
    """
    if rule is FrequencyRule.NOMINAL:
        return np.full(len(projection.time_s), len(projection.pstates_ghz) - 1, dtype=np.int64)
    planned = projection.planned(quantile)
    cost = np.where(projection.available, _cost(planned, rule, weighing), np.inf)
    return np.asarray(cost.argmin(axis=1), dtype=np.int64)


def _cost(planned: Quantile, rule: FrequencyRule, weighing: Weighing) -> Floats:
    if rule is FrequencyRule.MIN_RUNTIME:
        return planned.time_s
    if rule is FrequencyRule.MIN_ENERGY:
        return planned.energy_j
    return distance(planned.energy_j, planned.time_s, weighing)


def worth_choosing(projection: Projection, app: int) -> list[int]:
    """Return the P-states that cost least at some price of time over energy, the fastest first.

    They are the corners of the lower convex hull of (time, energy).
    """
    time_s = projection.time_s[app]
    energy_j = time_s * projection.power_w[app]
    known = np.flatnonzero(projection.available[app])
    kept: list[int] = []
    for pstate in known[np.lexsort((energy_j[known], time_s[known]))].tolist():
        if kept and energy_j[pstate] >= energy_j[kept[-1]]:
            continue
        while len(kept) > 1 and _is_above(time_s, energy_j, kept[-2], kept[-1], pstate):
            kept.pop()
        kept.append(pstate)
    return kept


def slower_pstates(
    by_cost: Iterable[int],
    own: int,
    time_s: Sequence[float],
    draw: Callable[[int], float],
    most_slowdown: float,
) -> Iterator[int]:
    """Yield the lower P-states at which a job may start where a cap of power refuses its own: those
    that take at most `most_slowdown` times as long, in this order, each of which draws a tenth less
    than the one before it at least (ADR 0032)."""
    most = draw(own)
    for pstate in by_cost:
        if pstate < own and time_s[pstate] / time_s[own] <= most_slowdown:
            drawn = draw(pstate)
            if drawn <= _WORTH_IT * most:
                most = drawn
                yield pstate


def pstates_by_cost(
    projection: Projection, app: int, rule: FrequencyRule, weighing: Weighing = EVEN
) -> list[int]:
    """Return the P-states that have a projection, in the order in which a rule would choose
    them."""
    by = FrequencyRule.MIN_RUNTIME if rule is FrequencyRule.NOMINAL else rule
    cost = _cost(projection.planned(_MEDIAN), by, weighing)[app]
    known: list[int] = np.flatnonzero(projection.available[app]).tolist()
    return sorted(known, key=lambda pstate: float(cost[pstate]))


def _is_above(x: Floats, y: Floats, left: int, middle: int, right: int) -> bool:
    """Return whether the point in the middle lies on or above the line between the others."""
    rise, run = y[right] - y[left], x[right] - x[left]
    return bool((y[middle] - y[left]) * run >= rise * (x[middle] - x[left]))
