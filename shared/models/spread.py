"""How far the truth may be from a projection.

Assumed: what is measured over what is projected has a normal logarithm of mean 0. To first order
that is a normal relative error, but no quantile of a time or of a power is ever below 0, and what
is multiplied (E = P T, one projection after another) has exactly the root of the sum of squares
(docs/adr/0014). Errors of power and of time count as independent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from coplace_client.errors import RejectedError
from shared.domain.coefficients import Coefficients
from shared.numerics.elementary import exp, exps
from shared.numerics.normal import quantile as normal_quantile

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


def moments(sd: float) -> tuple[float, float]:
    """Return mean and variance of what is projected as 1, by its relative standard deviation: the
    projection is the median, and errors upwards are larger than errors downwards."""
    square = exp(sd * sd)
    return sqrt(square), square * (square - 1)


def _stretch(sd: Floats, quantile: float) -> Floats:
    if not 0 < quantile < 1:
        raise RejectedError("quantile", f"must be above 0 and below 1, got {quantile}")
    exponent = normal_quantile(quantile) * sd
    return exps(exponent) if exponent.any() else exponent + 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """How many times their projections the quantiles of time, power and energy are, arrays of one
    shape. That of energy is not the product of the other two: the errors of power and of time
    seldom have their worst together."""

    time: Floats
    power: Floats
    energy: Floats

    @classmethod
    def from_deviations(cls, time_sd: Floats, power_sd: Floats, quantile: float) -> "Stretch":
        """Return the stretch from relative standard deviations; NaN where one of them is."""
        energy_sd = np.sqrt(power_sd * power_sd + time_sd * time_sd)
        return cls(*(_stretch(sd, quantile) for sd in (time_sd, power_sd, energy_sd)))

    @classmethod
    def planned(cls, time_sd: Floats, power_sd: Floats, quantile: float) -> "Stretch":
        """Return the stretch as `of` does; what has no interval counts as it is projected."""
        return cls.from_deviations(np.nan_to_num(time_sd), np.nan_to_num(power_sd), quantile)

    def taken(self, row: Ints) -> "Stretch":
        """Return the rows of each signature."""
        return Stretch(self.time[row], self.power[row], self.energy[row])


@dataclass(frozen=True, slots=True, eq=False)
class Quantile:
    """One quantile of time, power and energy."""

    time_s: Floats
    power_w: Floats
    energy_j: Floats

    @classmethod
    def stretch(cls, time_s: Floats, power_w: Floats, stretch: Stretch) -> "Quantile":
        """Return projections times their stretch."""
        return cls(
            time_s=time_s * stretch.time,
            power_w=power_w * stretch.power,
            energy_j=power_w * time_s * stretch.energy,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Relative standard deviations of projections, NaN where none is known.

    All signatures of one P-state have the same: `time_sd` and `power_sd` have the shape (rows,
    P-states), and `row` (...) says which row holds for each signature.
    """

    time_sd: Floats
    power_sd: Floats
    row: Ints

    @classmethod
    def from_coefficients(cls, coefficients: Coefficients, reference: Ints) -> "Spread":
        """Return the spread of signatures measured at the P-states `reference`."""
        known = coefficients.uncertainty
        if known is None:
            return cls.unknown(len(coefficients.pstates_ghz), reference.shape)
        return cls(known.time_sd, known.power_sd, reference)

    @classmethod
    def unknown(cls, pstates: int, shape: tuple[int, ...]) -> "Spread":
        """Return the spread of signatures of which nothing says how well they are projected."""
        none = np.full((1, pstates), np.nan)
        return cls(none, none, np.zeros(shape, dtype=np.int64))

    def only(self, rows: Mask) -> "Spread":
        """Return the spread of some signatures, shape (signatures,)."""
        return Spread(self.time_sd, self.power_sd, self.row[rows])

    def onto(self, column: Ints) -> "Spread":
        """Return the spread over other P-states, each taken from a column of this one; -1 is
        none."""
        known = column >= 0
        time_sd, power_sd = (
            np.where(known, sd[:, column], np.nan) for sd in (self.time_sd, self.power_sd)
        )
        return Spread(time_sd, power_sd, self.row)


def stacked(several: Sequence[Spread]) -> Spread:
    """Stack spreads of the same jobs on several node models; rows get the shape (jobs, node
    models)."""
    first_row = np.cumsum([0, *(len(each.time_sd) for each in several)])
    rows = [each.row + begin for each, begin in zip(several, first_row.tolist(), strict=False)]
    return Spread(
        time_sd=np.concatenate([each.time_sd for each in several]),
        power_sd=np.concatenate([each.power_sd for each in several]),
        row=np.stack(rows, axis=1),
    )
