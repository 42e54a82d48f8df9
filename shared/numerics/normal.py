"""The normal distribution: the same digits on every processor."""

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.numerics.elementary import logs

Floats = NDArray[np.float64]
_Polynomials = tuple[tuple[float, ...], tuple[float, ...]]

# Algorithm AS 241, PPND16, by M. J. Wichura, "The percentage points of the normal distribution",
# Applied Statistics 37(3), 1988: numerators and denominators, the highest power first.
_MIDDLE: Final = (
    (
        2509.0809287301226727,
        33430.575583588128105,
        67265.770927008700853,
        45921.953931549871457,
        13731.693765509461125,
        1971.5909503065514427,
        133.14166789178437745,
        3.387132872796366608,
    ),
    (
        5226.495278852854561,
        28729.085735721942674,
        39307.89580009271061,
        21213.794301586595867,
        5394.1960214247511077,
        687.1870074920579083,
        42.313330701600911252,
        1.0,
    ),
)
_NEAR: Final = (
    (
        7.7454501427834140764e-4,
        0.0227238449892691845833,
        0.24178072517745061177,
        1.27045825245236838258,
        3.64784832476320460504,
        5.7694972214606914055,
        4.6303378461565452959,
        1.42343711074968357734,
    ),
    (
        1.05075007164441684324e-9,
        5.475938084995344946e-4,
        0.0151986665636164571966,
        0.14810397642748007459,
        0.68976733498510000455,
        1.6763848301838038494,
        2.05319162663775882187,
        1.0,
    ),
)
_FAR: Final = (
    (
        2.01033439929228813265e-7,
        2.71155556874348757815e-5,
        0.0012426609473880784386,
        0.026532189526576123093,
        0.29656057182850489123,
        1.7848265399172913358,
        5.4637849111641143699,
        6.6579046435011037772,
    ),
    (
        2.04426310338993978564e-15,
        1.4215117583164458887e-7,
        1.8463183175100546818e-5,
        7.868691311456132591e-4,
        0.0148753612908506148525,
        0.13692988092273580531,
        0.59983220655588793769,
        1.0,
    ),
)


def quantiles(share: Floats) -> Floats:
    """Return the standard normal quantile of each share above 0 and below 1, to 16 digits."""
    off = share - 0.5
    inner = _ratio(off, _MIDDLE, 0.180625 - off * off)
    depth = np.sqrt(-logs(np.minimum(share, 1 - share)))
    outer = np.where(depth <= 5, _ratio(1.0, _NEAR, depth - 1.6), _ratio(1.0, _FAR, depth - 5))
    return np.where(np.abs(off) <= 0.425, inner, np.copysign(outer, off))


@lru_cache(maxsize=64)
def quantile(share: float) -> float:
    """Return the quantile of one share; plans ask for the same one again and again."""
    return float(quantiles(np.array([share]))[0])


def _ratio(times: Floats | float, polynomials: _Polynomials, x: Floats) -> Floats:
    numerator, denominator = (_polynomial(each, x) for each in polynomials)
    return np.asarray(times * numerator / denominator)


def _polynomial(coefficients: tuple[float, ...], x: Floats) -> Floats:
    value = np.zeros_like(x)
    for coefficient in coefficients:
        value = value * x + coefficient
    return value
