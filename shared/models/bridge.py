"""Projections between P-states that were never measured together, by way of others.

Equations 1 and 2 of D'Amico and Corbalan (2021) are linear in the metric and in TPI, and so are
two of them one after the other. The model has no equation for TPI: it counts as the same at every
P-state. The relative errors of the steps count as independent.
"""

import heapq
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from shared.domain.coefficients import Coefficients, Uncertainty

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Path = tuple[int, ...]
Cost = tuple[int, float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Bridge:
    """Coefficients whose gaps are filled where other P-states lead across.

    `is_indirect` (from, to) marks the filled pairs, `paths` their P-states from first to last.
    """

    coefficients: Coefficients
    is_indirect: Mask
    paths: dict[tuple[int, int], Path]


def bridge(coefficients: Coefficients) -> Bridge:
    """Fill each gap by the path with the fewest hops.

    Among those the one with the least variance of energy, where it is known, then the one with the
    shortest steps in frequency (least sum of squares).
    """
    variance = _energy_variance(coefficients)
    paths = {}
    for start in np.flatnonzero(~coefficients.available.all(axis=1)).tolist():
        for end, path in _shortest_paths(coefficients, variance, start).items():
            if not coefficients.available[start, end]:
                paths[start, end] = path
    is_indirect = np.zeros_like(coefficients.available)
    for pair in paths:
        is_indirect[pair] = True
    return Bridge(_filled(coefficients, paths, is_indirect), is_indirect, paths)


def _energy_variance(c: Coefficients) -> Floats:
    """Relative variance of what each pair says of energy; infinite where nothing is known."""
    if c.uncertainty is None:
        return np.full_like(c.a, np.inf)
    variance = np.square(c.uncertainty.time_sd) + np.square(c.uncertainty.power_sd)
    return np.where(np.isnan(variance), np.inf, variance)


def _shortest_paths(c: Coefficients, variance: Floats, start: int) -> dict[int, Path]:
    """Return shortest paths by Dijkstra's algorithm; their costs are compared part by part."""
    found: dict[int, Path] = {}
    waiting: list[tuple[Cost, Path]] = [((0, 0.0, 0.0), (start,))]
    while waiting:
        (hops, error, steps), path = heapq.heappop(waiting)
        here = path[-1]
        if here in found:
            continue
        found[here] = path
        for there in np.flatnonzero(c.available[here]).tolist():
            if there not in found:
                step = c.pstates_ghz[there] - c.pstates_ghz[here]
                cost = (hops + 1, error + float(variance[here, there]), steps + step * step)
                heapq.heappush(waiting, (cost, (*path, there)))
    del found[start]
    return found


def _filled(c: Coefficients, paths: dict[tuple[int, int], Path], is_indirect: Mask) -> Coefficients:
    matrices = {name: getattr(c, name).copy() for name in "abcdef"}
    for pair, path in paths.items():
        for names in ("abc", "def"):
            composed = _composed([getattr(c, name) for name in names], path)
            for name, value in zip(names, composed, strict=True):
                matrices[name][pair] = value
    return replace(
        c,
        **matrices,
        available=c.available | is_indirect,
        uncertainty=c.uncertainty and _combined(c.uncertainty, paths),
    )


def _combined(known: Uncertainty, paths: dict[tuple[int, int], Path]) -> Uncertainty:
    """Relative variances add up along a path; unknown where they are for one of its steps."""
    time_sd, power_sd = known.time_sd.copy(), known.power_sd.copy()
    for pair, path in paths.items():
        for sd in (time_sd, power_sd):
            sd[pair] = np.sqrt(sum(np.square(sd[step]) for step in pairwise(path)))
    return Uncertainty(time_sd, power_sd)


def _composed(matrices: list[Floats], path: Path) -> tuple[float, float, float]:
    """Return the factor of the metric, that of TPI and the constant of one equation along a
    path."""
    own, traffic, constant = 1.0, 0.0, 0.0
    for pair in pairwise(path):
        factor, added_traffic, added = (float(matrix[pair]) for matrix in matrices)
        own, traffic = own * factor, traffic * factor + added_traffic
        constant = constant * factor + added
    return own, traffic, constant
