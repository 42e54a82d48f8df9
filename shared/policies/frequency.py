"""Which P-state a job should run at on a cluster.

D'Amico and Corbalan (2021), equation 4. As printed, E^2 / E_min is an energy and t^2 / t_min a
time: their sum has no unit. The distance here is the dimensionless one that the authors' own code
takes the minimum of (docs/adr/0003).
"""

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from shared.policies.projection import Projection
from shared.policies.spread import Quantile

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class FrequencyRule(StrEnum):
    """How a P-state is chosen from a projection."""

    NOMINAL = "nominal"
    MIN_RUNTIME = "min-runtime"
    MIN_ENERGY = "min-energy"
    MIN_DISTANCE = "min-distance"


class DistanceForm(StrEnum):
    """The forms that equation 4 has; the root over each changes no minimum."""

    NORMALISED = "normalised"  # (E / E_min)^2 + (w T / T_min)^2: the authors' code
    WEIGHT_OUTSIDE = "weight-outside"  # (E / E_min)^2 + w (T / T_min)^2
    PRINTED = "printed"  # E^2 / E_min + w T^2 / T_min: depends on the units of E and T


def distance(
    energy_j: Floats,
    time_s: Floats,
    t_weight: float,
    form: DistanceForm = DistanceForm.NORMALISED,
) -> Floats:
    """sqrt((E / E_min)^2 + (t_weight T / T_min)^2), the minima taken along the last axis.

    Equation 4 over P-states, equation 5 over clusters. NaN where an input is NaN.
    """
    # fmin passes over NaN, and unlike nanmin has nothing to say where all are.
    least_j = np.fmin.reduce(energy_j, axis=-1, keepdims=True)
    least_s = np.fmin.reduce(time_s, axis=-1, keepdims=True)
    if form is DistanceForm.PRINTED:
        squares = energy_j**2 / least_j + t_weight * time_s**2 / least_s
    else:
        weight = t_weight**2 if form is DistanceForm.NORMALISED else t_weight
        squares = (energy_j / least_j) ** 2 + weight * (time_s / least_s) ** 2
    return np.asarray(np.sqrt(squares), dtype=np.float64)


def choose_pstates(
    projection: Projection,
    rule: FrequencyRule,
    t_weight: float,
    form: DistanceForm = DistanceForm.NORMALISED,
    quantile: float = 0.5,
) -> Ints:
    """The chosen P-state of each signature, shape (signatures,); ties go to the lowest frequency.

    Compared are the quantiles of time and energy, at 0.5 the projections themselves. Each signature
    needs at least one projection, NOMINAL one at the highest P-state.
    """
    if rule is FrequencyRule.NOMINAL:
        return np.full(len(projection.time_s), len(projection.pstates_ghz) - 1, dtype=np.int64)
    cost = np.where(
        projection.available, _cost(projection.planned(quantile), rule, t_weight, form), np.inf
    )
    return np.asarray(cost.argmin(axis=1), dtype=np.int64)


def _cost(planned: Quantile, rule: FrequencyRule, t_weight: float, form: DistanceForm) -> Floats:
    if rule is FrequencyRule.MIN_RUNTIME:
        return planned.time_s
    if rule is FrequencyRule.MIN_ENERGY:
        return planned.energy_j
    return distance(planned.energy_j, planned.time_s, t_weight, form)
