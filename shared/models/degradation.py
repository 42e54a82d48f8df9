"""Slowdown of two jobs that share their nodes, from what each draws of the memory bandwidth.

A linear model over shares of the peak bandwidth: what a pair contends for first is memory
bandwidth (POPPA's and the bubble-up literature's finding), and two numbers that every signature
carries are enough to start with.
"""

from collections.abc import Sequence
from math import isnan
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shared.numerics.linear import total

Floats = NDArray[np.float64]

# The order of the weights in a published model.
FEATURES: Final = ("constant", "own_share", "other_share", "shares_product")

# What to publish while no pair has been measured: interference takes two that use bandwidth.
PRIOR_WEIGHTS: Final = (0.0, 0.0, 0.0, 1.0)


def pair_features(own_gbps: ArrayLike, other_gbps: ArrayLike, peak_gbps: float) -> Floats:
    """Return FEATURES of jobs beside co-runners, shape (..., 4); the inputs broadcast.

    Both bandwidths are those of signatures, of a node used whole: a job that shares uses half the
    cores, so it is taken to draw half of it.
    """
    own = np.asarray(own_gbps, dtype=np.float64) / (2 * peak_gbps)
    other = np.asarray(other_gbps, dtype=np.float64) / (2 * peak_gbps)
    own, other = np.broadcast_arrays(own, other)
    return np.stack([np.ones_like(own), own, other, own * other], axis=-1)


def slowdown_of_shares(weights: Sequence[float], own: float, other: float) -> float:
    """Return T_co / T_solo of a job that draws the share `own` of the peak bandwidth where its
    neighbours together draw the share `other`: with half of the cores each it is that of
    `pair_features`."""
    constant, by_own, by_other, by_both = weights
    slowdown = 1.0 + (constant + by_own * own + by_other * other + by_both * (own * other))
    return slowdown if isnan(slowdown) else max(1.0, slowdown)


def slowdown_ratio(weights: ArrayLike, features: Floats) -> Floats:
    """Return T_co / T_solo = max(1, 1 + weights . features), shape of `features` without its last
    axis.

    NaN where a feature is NaN: no signature, no prediction.
    """
    weighed = features * np.asarray(weights, dtype=np.float64)
    return np.maximum(1.0, 1.0 + total(weighed, axis=-1))
