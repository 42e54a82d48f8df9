"""Exponentials, logarithms and quantiles of the normal distribution: the same on every processor.

Those of the C library take other instructions where a processor has them (fused multiply-add), and
numpy's come in a form of their own for AVX-512: the last digit depends on the machine. What is here
adds, multiplies and divides in one order. `exps` and `logs` take arrays, `exp` and `log` a number;
both give the same digits, within one unit in the last place of the true value.

The formulas are those of FDLIBM (e_exp.c, e_log.c; Sun Microsystems, 1993).
"""

import math
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Number = TypeVar("Number", float, Floats)

# ln 2 in two parts: the first has so few digits that a multiple of it is exact.
_LN2_HIGH: Final = 6.93147180369123816490e-01
_LN2_LOW: Final = 1.90821492927058770002e-10
LN2: Final = _LN2_HIGH + _LN2_LOW
_ROOT_HALF: Final = math.sqrt(0.5)
# Beyond these e^x is 0 or infinite.
_LEAST_EXPONENT: Final = -746.0
_MOST_EXPONENT: Final = 710.0


def exps(x: Floats) -> Floats:
    """Return e^x of each value; NaN stays NaN."""
    within = np.clip(x, _LEAST_EXPONENT, _MOST_EXPONENT)
    power_of_two = np.rint(within / LN2)
    rest = _exp_of_rest(within - power_of_two * _LN2_HIGH, power_of_two * _LN2_LOW)
    exponent = np.nan_to_num(power_of_two).astype(np.int32)
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.ldexp(rest, exponent), dtype=np.float64)


def exp(x: float) -> float:
    """Return e^x of one number; infinite where it is too large."""
    within = min(max(x, _LEAST_EXPONENT), _MOST_EXPONENT)
    if math.isnan(x):
        return x
    power_of_two = round(within / LN2)
    rest = _exp_of_rest(within - power_of_two * _LN2_HIGH, power_of_two * _LN2_LOW)
    try:
        return math.ldexp(rest, power_of_two)
    except OverflowError:
        return math.inf


def logs(x: Floats) -> Floats:
    """Return the natural logarithm of each value; NaN unless it is above 0 and finite."""
    is_number = (x > 0) & np.isfinite(x)
    fraction, exponent = np.frexp(np.where(is_number, x, 1.0))
    is_low = fraction < _ROOT_HALF
    found = _log_of_parts(np.where(is_low, 2 * fraction, fraction) - 1, 1.0 * (exponent - is_low))
    return np.where(is_number, found, np.nan)


def log(x: float) -> float:
    """Return the natural logarithm of one number; NaN unless it is above 0 and finite."""
    return _log_of_parts(*_parts(x))


def log2(x: float) -> float:
    """Return the logarithm to base 2 of one number; NaN unless it is above 0 and finite."""
    over_one, exponent = _parts(x)
    return exponent + _log_of_parts(over_one, 0.0) / LN2


def power(base: float, exponent: float) -> float:
    """Return `base`^`exponent` of a base above 0: e^(exponent ln base)."""
    return exp(exponent * log(base))


def _parts(x: float) -> tuple[float, float]:
    """Return f and n of x = (1 + f) 2^n, with 1 + f between the roots of a half and of 2."""
    if not 0 < x < math.inf:
        return math.nan, math.nan
    fraction, exponent = math.frexp(x)
    if fraction < _ROOT_HALF:
        fraction, exponent = 2 * fraction, exponent - 1
    return fraction - 1, float(exponent)


def _exp_of_rest(high: Number, low: Number) -> Number:
    """Return e^(high - low) for at most ln 2 / 2, by a rational approximation of Remez."""
    x = high - low
    square = x * x
    even = square * (-1.65339022054652515390e-06 + square * 4.13813679705723846039e-08)
    even = square * (6.61375632143793436117e-05 + even)
    even = square * (-2.77777777770155933842e-03 + even)
    odd = x - square * (1.66666666666666019037e-01 + even)
    return 1 - ((low - (x * odd) / (2 - odd)) - high)


def _log_of_parts(over_one: Number, exponent: Number) -> Number:
    """Return ln((1 + over_one) 2^exponent) for 1 + over_one between the roots of a half and of 2,
    by a polynomial of Remez in s = f / (2 + f)."""
    s = over_one / (2 + over_one)
    z = s * s
    w = z * z
    even = w * (
        3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01)
    )
    odd = 1.818357216161805012e-01 + w * 1.479819860511658591e-01
    odd = z * (6.666666666666735130e-01 + w * (2.857142874366239149e-01 + w * odd))
    half_square = 0.5 * over_one * over_one
    within = half_square - (s * (half_square + (odd + even)) + exponent * _LN2_LOW)
    return exponent * _LN2_HIGH - (within - over_one)
