"""Which P-state a job should run at on a cluster.

D'Amico and Corbalan (2021), equation 4. As printed, E^2 / E_min is an energy and t^2 / t_min a
time: their sum has no unit. The text says that both are normalised to their minima, so the distance
here is that of the normalised values (docs/adr/0003).
"""

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from shared.policies.ear import Projection

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class FrequencyRule(StrEnum):
    """How a P-state is chosen from a projection."""

    NOMINAL = "nominal"
    MIN_RUNTIME = "min-runtime"
    MIN_ENERGY = "min-energy"
    MIN_DISTANCE = "min-distance"


def distance(energy_j: Floats, time_s: Floats, t_weight: float) -> Floats:
    """sqrt((E / E_min)^2 + t_weight (T / T_min)^2), the minima taken along the last axis.

    Equation 4 over P-states, equation 5 over clusters. NaN where an input is NaN.
    """
    # fmin passes over NaN, and unlike nanmin has nothing to say where all are.
    energy = energy_j / np.fmin.reduce(energy_j, axis=-1, keepdims=True)
    time = time_s / np.fmin.reduce(time_s, axis=-1, keepdims=True)
    return np.asarray(np.sqrt(energy**2 + t_weight * time**2), dtype=np.float64)


def choose_pstates(projection: Projection, rule: FrequencyRule, t_weight: float) -> Ints:
    """The chosen P-state of each signature, shape (signatures,); ties go to the lowest frequency.

    Each signature needs at least one projection, NOMINAL one at the highest P-state.
    """
    if rule is FrequencyRule.NOMINAL:
        return np.full(len(projection.time_s), len(projection.pstates_ghz) - 1, dtype=np.int64)
    cost = np.where(projection.available, _cost(projection, rule, t_weight), np.inf)
    return np.asarray(cost.argmin(axis=1), dtype=np.int64)


def _cost(projection: Projection, rule: FrequencyRule, t_weight: float) -> Floats:
    if rule is FrequencyRule.MIN_RUNTIME:
        return projection.time_s
    if rule is FrequencyRule.MIN_ENERGY:
        return projection.energy_j
    return distance(projection.energy_j, projection.time_s, t_weight)
