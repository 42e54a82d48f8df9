"""What an application's own runs at two clocks or more say of it at the others.

T = a + b / f: what waits for memory does not follow the clock, the rest does. P = p + q f: over the
P-states of a node voltage and clock rise together. Both are fitted to the mean runs at each clock,
by relative errors. Two clocks give a line; how far the truth bends away from one is known
beforehand (BENDS), and clocks beyond the second may say that it does (docs/adr/0107).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isnan, sqrt
from statistics import median
from typing import Final, NamedTuple

import numpy as np

from coplace_client.signature import Signature
from shared.domain.pstates import same_ghz
from shared.models.projection import Projection, Status
from shared.models.spread import Spread
from shared.models.time_coefficient import MOST_RUNS

MIN_CLOCKS: Final = 2
# Clocks that are nearer than this, as a share, are one: a line through them says nothing.
_APART: Final = 0.02
# How far single runs lie from their own curve, as a share; it counts as much as PRIOR_COUNT clocks.
PRIOR_SPREAD: Final = 0.03
PRIOR_COUNT: Final = 2
# The standard deviations of the square terms of time (over 1 / f) and of power (over f), where 1 is
# the mean of the fitted clocks and values: power that goes with the square of the clock has 1/2.
_TIME_BEND: Final = 0.05
_POWER_BEND: Final = 0.3
# No number of runs says more than this, as a share.
LEAST_SD: Final = 0.005
# An estimate that may be off by more is none.
MOST_SD: Final = 0.25
# How far projections by coefficients are off where nobody has measured it. What is published of it
# counts as much as one clock at which they were compared.
UNKNOWN_SD: Final = 0.05
_PUBLISHED_COUNT: Final = 1
# With this many clocks one that lies off the curve of the others counts less (Huber).
_ROBUST_FROM: Final = 4
_ROUNDS: Final = 4
_HUBER: Final = 1.5
_TO_SD: Final = 1.4826
# Times of one input at two clocks lie between the same and their ratio, but for so much.
_ONE_INPUT: Final = 1.15

_Vector = tuple[float, float, float]
_Matrix = tuple[_Vector, _Vector, _Vector]


class ClockRuns(NamedTuple):
    """The mean of an application's runs at one clock: one node, one iteration."""

    ghz: float
    time_s: float
    power_w: float
    runs: int = 1


class Uncertain(NamedTuple):
    """A value, and its standard deviation as a share of it."""

    value: float
    sd: float


@dataclass(frozen=True, slots=True)
class OwnHistory:
    """Curves through an application's own runs: time over 1 / f, power over f."""

    _time: "_Curve"
    _power: "_Curve"

    @classmethod
    def fit(cls, known: Iterable[ClockRuns]) -> "OwnHistory | None":
        """Fit both; None where fewer than two clocks are known."""
        runs = sorted(known)
        if len(runs) < MIN_CLOCKS or runs[-1].ghz < runs[0].ghz * (1 + _APART):
            return None
        counts = [float(min(each.runs, MOST_RUNS)) for each in runs]
        times = [(1 / each.ghz, each.time_s) for each in runs]
        powers = [(each.ghz, each.power_w) for each in runs]
        return cls(_Curve.fit(times, counts, _TIME_BEND), _Curve.fit(powers, counts, _POWER_BEND))

    def time_s(self, ghz: float) -> Uncertain | None:
        """Return the time at a clock; None where the runs say too little of it."""
        return self._time.at(1 / ghz)

    def power_w(self, ghz: float) -> Uncertain | None:
        """Return the power at a clock; None where the runs say too little of it."""
        return self._power.at(ghz)


def blended(one: Uncertain | None, other: Uncertain | None) -> Uncertain | None:
    """Return the mean of two estimates, each weighted by how much is known: one over its
    variance."""
    if one is None or other is None:
        return one or other
    weights = [1 / (sd * sd) for sd in (max(one.sd, LEAST_SD), max(other.sd, LEAST_SD))]
    whole = weights[0] + weights[1]
    value = (weights[0] * one.value + weights[1] * other.value) / whole
    return Uncertain(value, sqrt(1 / whole))


def judged(published_sd: float, errors: Sequence[float]) -> float:
    """Return the deviation of projections by coefficients for one application: as published, NaN
    where nobody knows, and by how far they were off at the clocks that it ran at, as shares."""
    prior = UNKNOWN_SD if isnan(published_sd) else published_sd
    square = _PUBLISHED_COUNT * prior * prior + sum(error * error for error in errors)
    return sqrt(square / (_PUBLISHED_COUNT + len(errors)))


def with_history(
    projection: Projection,
    references: Sequence[Signature | None],
    known: Sequence[Sequence[Signature]],
) -> Projection:
    """Return projections blended with the applications' own histories, shape (applications,
    P-states). `references` are what was projected, None where nothing was; `known` has the means of
    each application at all its clocks.

    An application that ran at one clock stays as it is projected, and so does each at the P-state
    that it is projected from.
    """
    said = [
        None if reference is None else _said(tuple(means), reference, projection.pstates_ghz)
        for reference, means in zip(references, known, strict=True)
    ]
    if all(each is None for each in said):
        return projection
    time_s, power_w = projection.time_s.copy(), projection.power_w.copy()
    time_sd, power_sd = projection.time_sd, projection.power_sd
    for row, (history, start) in enumerate(zip(said, references, strict=True)):
        if history is None or start is None:
            continue
        measured = _measured(projection.pstates_ghz, known[row], start.freq_ghz)
        for of, own, values, deviations in (
            ("time_s", history[0], time_s[row], time_sd[row]),
            ("power_w", history[1], power_w[row], power_sd[row]),
        ):
            errors = [
                float(values[column]) / getattr(mean, of) - 1
                for column, mean in measured.items()
                if not isnan(values[column])
            ]
            for column, estimate in enumerate(own):
                value, sd = float(values[column]), float(deviations[column])
                projected = None if isnan(value) else Uncertain(value, judged(sd, errors))
                found = blended(estimate, projected)
                if same_ghz(projection.pstates_ghz[column], start.freq_ghz):
                    deviations[column] = 0.0
                elif found is not None:
                    values[column], deviations[column] = found
    missing = np.isnan(time_s) | np.isnan(power_w)
    time_s[missing] = power_w[missing] = np.nan
    found_now = ~missing & ~projection.available
    return replace(
        projection,
        time_s=time_s,
        power_w=power_w,
        status=np.where(found_now, np.uint8(Status.PROJECTED), projection.status),
        spread=Spread(time_sd, power_sd, np.arange(len(known))),
    )


# New coefficients come more often than an application runs at new clocks.
@lru_cache(maxsize=16_384)
def _said(
    means: tuple[Signature, ...], reference: Signature, pstates_ghz: tuple[float, ...]
) -> tuple[list[Uncertain | None], list[Uncertain | None]] | None:
    """Return what an application's own history says of time and power at each P-state."""
    history = OwnHistory.fit(_comparable(means, reference)) if len(means) >= MIN_CLOCKS else None
    if history is None:
        return None
    times = [history.time_s(ghz) for ghz in pstates_ghz]
    return times, [history.power_w(ghz) for ghz in pstates_ghz]


def _comparable(means: Iterable[Signature], reference: Signature) -> Iterator[ClockRuns]:
    """Yield the runs at each clock. A time that no change of the clock explains is that of another
    input: cycles per instruction then say how long the reference's would have taken."""
    for mean in means:
        clocks = reference.freq_ghz / mean.freq_ghz
        low, high = sorted((reference.time_s, reference.time_s * clocks))
        time_s = mean.time_s
        if not low / _ONE_INPUT <= time_s <= high * _ONE_INPUT and reference.cpi > 0:
            time_s = reference.time_s * (mean.cpi / reference.cpi) * clocks
        yield ClockRuns(mean.freq_ghz, time_s, mean.power_w, mean.count)


def _measured(
    pstates_ghz: Sequence[float], means: Iterable[Signature], reference_ghz: float
) -> dict[int, Signature]:
    """Return the means at P-states other than the reference, by their columns."""
    return {
        column: mean
        for mean in means
        for column, ghz in enumerate(pstates_ghz)
        if same_ghz(ghz, mean.freq_ghz) and not same_ghz(ghz, reference_ghz)
    }


@dataclass(frozen=True, slots=True)
class _Curve:
    """y / y0 = c0 + c1 u + c2 u^2 with u = x / x0 - 1, and the covariance of the three."""

    x0: float
    y0: float
    coefficients: _Vector
    covariance: _Matrix

    @classmethod
    def fit(
        cls, points: Sequence[tuple[float, float]], counts: Sequence[float], bend: float
    ) -> "_Curve":
        """Fit by least squares of relative errors; single runs differ by PRIOR_SPREAD until
        they show otherwise, and of four points and more, those off the others' curve count less."""
        x0 = sum(x for x, _ in points) / len(points)
        y0 = sum(y for _, y in points) / len(points)
        rows = [(_row(x / x0 - 1), y / y0) for x, y in points]
        shares, spread = [1.0] * len(rows), PRIOR_SPREAD
        coefficients, covariance = _solved(rows, counts, spread, bend)
        for _ in range(_ROUNDS if len(rows) > MIN_CLOCKS else 1):
            errors = [_dot(coefficients, x) / y - 1 for x, y in rows]
            if len(rows) >= _ROBUST_FROM:
                limit = _HUBER * max(_TO_SD * median(map(abs, errors)), LEAST_SD)
                shares = [1.0 if abs(e) <= limit else limit / abs(e) for e in errors]
            weights = [share * count for share, count in zip(shares, counts, strict=True)]
            squares = sum(w * e * e for w, e in zip(weights, errors, strict=True))
            prior = PRIOR_COUNT * PRIOR_SPREAD * PRIOR_SPREAD
            spread = sqrt((prior + squares) / (PRIOR_COUNT + len(rows) - MIN_CLOCKS))
            coefficients, covariance = _solved(rows, weights, spread, bend)
        return cls(x0, y0, coefficients, covariance)

    def at(self, x: float) -> Uncertain | None:
        """Return the value at a place; None where it may be too far off, or is not above 0."""
        row = _row(x / self.x0 - 1)
        value = _dot(self.coefficients, row)
        if value <= 0:
            return None
        variance = sum(row[i] * _dot(self.covariance[i], row) for i in range(3))
        sd = sqrt(variance / (value * value) + LEAST_SD * LEAST_SD)
        return Uncertain(value * self.y0, sd) if sd <= MOST_SD else None


def _solved(
    rows: Sequence[tuple[_Vector, float]], weights: Sequence[float], spread: float, bend: float
) -> tuple[_Vector, _Matrix]:
    """Solve the normal equations of relative errors, with a square term of the deviation `bend`;
    the coefficients and their covariance."""
    normal = [[0.0] * 3 for _ in range(3)]
    normal[2][2] = 1 / (bend * bend)
    right = [0.0] * 3
    for (x, y), weight in zip(rows, weights, strict=True):
        w = weight / (spread * y * spread * y)
        for i in range(3):
            right[i] += w * x[i] * y
            for j in range(3):
                normal[i][j] += w * x[i] * x[j]
    covariance = _inverse(normal)
    return (
        (_dot(covariance[0], right), _dot(covariance[1], right), _dot(covariance[2], right)),
        covariance,
    )


def _inverse(m: Sequence[Sequence[float]]) -> _Matrix:
    """Invert a symmetric matrix by its cofactors."""

    def minor(i: int, j: int) -> float:
        (a, b), (c, d) = (
            [m[row][column] for column in range(3) if column != j] for row in range(3) if row != i
        )
        return (a * d - b * c) * (1 - 2 * ((i + j) % 2))

    determinant = sum(m[0][j] * minor(0, j) for j in range(3))
    first, second, third = (
        (minor(0, i) / determinant, minor(1, i) / determinant, minor(2, i) / determinant)
        for i in range(3)
    )
    return first, second, third


def _row(u: float) -> _Vector:
    return 1.0, u, u * u


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return left[0] * right[0] + left[1] * right[1] + left[2] * right[2]
