"""Bayesian optimisation of hyper-parameters: the next trial is where a Gaussian process over those
before expects most improvement (Jones, Schonlau and Welch, J. Global Optimization 13, 1998, eq. 15;
Snoek, Larochelle and Adams, NIPS 2012).

A space is a mapping of a name to what it may be: a point of the unit cube means one of each.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from shared.colocation.measured import Floats

Parameters = dict[str, Any]

# Trials drawn at random before anything is known.
FIRST: Final = 8
# Points that the expected improvement is asked of before each trial.
_ASKED: Final = 512


@dataclass(frozen=True, slots=True)
class Between:
    """A number from `least` to `most`, by the logarithm where their ratio is what counts."""

    least: float
    most: float
    by_ratio: bool = True
    whole: bool = False

    def at(self, share: float) -> float | int:
        """Return the value at a share of the way, 0 to 1."""
        if self.by_ratio:
            found = float(np.exp(np.log(self.least) + share * np.log(self.most / self.least)))
        else:
            found = self.least + share * (self.most - self.least)
        return round(found) if self.whole else found


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of some choices, that have no order."""

    choices: Sequence[Any]

    def at(self, share: float) -> Any:
        """Return the choice at a share of the way, 0 to 1."""
        return self.choices[min(int(share * len(self.choices)), len(self.choices) - 1)]


Space = Mapping[str, Between | OneOf]


class Best(NamedTuple):
    """The trial with the greatest value."""

    parameters: Parameters
    value: float


def maximised(
    value_of: Callable[[Parameters], float], space: Space, trials: int, seed: int
) -> Best:
    """Return the best of so many trials. A value that is not finite counts as the worst of the
    others."""
    rng = np.random.default_rng(seed)
    points, values = np.empty((0, len(space))), np.empty(0)
    for trial in range(trials):
        asked = rng.uniform(size=(1 if trial < FIRST else _ASKED, len(space)))
        point = asked[0] if trial < FIRST else asked[_improvement(space, points, values, asked)]
        points = np.vstack([points, point])
        values = np.append(values, value_of(_parameters(space, point)))
    best = int(_filled(values).argmax())
    return Best(_parameters(space, points[best]), float(values[best]))


def _parameters(space: Space, point: Floats) -> Parameters:
    return {name: of.at(float(at)) for (name, of), at in zip(space.items(), point, strict=True)}


def _filled(values: Floats) -> Floats:
    finite = np.isfinite(values)
    return np.where(finite, values, values[finite].min() if finite.any() else 0.0)


def _improvement(space: Space, points: Floats, values: Floats, asked: Floats) -> int:
    """Return which of the points has the largest expected improvement, E max(f - best, 0) of a
    Gaussian process whose lengths and noise are the likeliest. Values below the median count as it:
    how bad the bad are is nothing to learn."""
    from scipy.stats import norm
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import Matern, WhiteKernel
    from threadpoolctl import threadpool_limits

    filled = _filled(values)
    known = np.maximum(filled, np.median(filled))
    columns = _columns(space, np.vstack([points, asked]))
    kernel = Matern(np.ones(columns.shape[1]), (0.1, 10.0), nu=2.5) + WhiteKernel(1e-2, (1e-4, 1))
    process = GaussianProcessRegressor(kernel, normalize_y=True)
    # The matrices are small, and the sum of several threads would be another one.
    with threadpool_limits(1), warnings.catch_warnings(action="ignore"):  # lengths at bounds
        process.fit(columns[: len(points)], known)
        mean, deviation = process.predict(columns[len(points) :], return_std=True)
    above = mean - known.max()
    standard = above / np.maximum(deviation, 1e-12)
    return int((above * norm.cdf(standard) + deviation * norm.pdf(standard)).argmax())


def _columns(space: Space, points: Floats) -> Floats:
    """Points as the process sees them: a column a number, and one for each choice."""
    found = []
    for of, column in zip(space.values(), points.T, strict=True):
        if isinstance(of, Between):
            found.append(column)
        else:
            found += [np.array([of.at(at) == each for at in column]) for each in of.choices]
    return np.stack(found, axis=1).astype(np.float64)
