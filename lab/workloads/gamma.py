"""The gamma distribution: the same digits on every processor."""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.numerics.elementary import exps, log, logs
from shared.numerics.normal import quantiles as normal_quantiles

Floats = NDArray[np.float64]

_EPSILON: Final = float(np.finfo(np.float64).eps)
# From here on four terms of Stirling's series are exact.
_LEAST_OF_STIRLING: Final = 20.0
# Halley's method converges cubically: from these starts it takes 3 to 6 steps.
_MOST_STEPS: Final = 20


def shares(shape: float, x: Floats) -> Floats:
    """Return the share of gamma(shape, 1) below each x of at least 0: P(a, x) = x^a e^-x / gamma(a
    + 1) (1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ...), NIST Handbook of Mathematical Functions,
    8.11.4."""
    term, n = np.ones_like(x), 0
    total = term.copy()
    while term.any():
        n += 1
        term = term * x / (shape + n)
        # Each sum ends by itself: no value depends on how many others there are.
        term = np.where(term > _EPSILON * total, term, 0.0)
        total += term
    return np.asarray(x / shape * _density(shape, x) * total)


def share(shape: float, x: float) -> float:
    """Return the share below one x."""
    return float(shares(shape, np.array([x]))[0])


def quantiles(shape: float, share: Floats) -> Floats:
    """Return the x that each share of gamma(shape, 1) lies below: Halley's method from Wilson and
    Hilferty's approximation (Press et al., "Numerical Recipes", 3rd edition, section 6.2.1)."""
    x, is_found = _start(shape, share), np.zeros(share.shape, dtype=np.bool_)
    for _ in range(_MOST_STEPS):
        newton = (shares(shape, x) - share) / _density(shape, x)
        bend = np.minimum(1.0, newton * ((shape - 1) / x - 1))
        found = x - newton / (1 - 0.5 * bend)
        found = np.where(found > 0, found, 0.5 * x)
        x, moved = np.where(is_found, x, found), np.abs(found - x)
        is_found |= moved <= 4 * _EPSILON * x
        if is_found.all():
            break
    return x


def _start(shape: float, share: Floats) -> Floats:
    least = np.maximum(share, np.finfo(np.float64).tiny)
    root = 1 - 1 / (9 * shape) + normal_quantiles(least) / (3 * math.sqrt(shape))
    # What the first term of the series alone would say: the better the nearer to 0.
    near_zero = exps((logs(least) + _log_gamma(shape + 1)) / shape)
    return np.maximum(shape * root * root * root, near_zero)


def _density(shape: float, x: Floats) -> Floats:
    """x^(a - 1) e^-x / gamma(a); 0 at 0, where a of at least 1 is of use."""
    inside = exps((shape - 1) * logs(x) - x - _log_gamma(shape))
    return np.where(x > 0, inside, 0.0)


def _log_gamma(x: float) -> float:
    """ln gamma(x) for x above 0, by Stirling's series of the first x + n that is large enough."""
    shifted, product = x, 1.0
    while shifted < _LEAST_OF_STIRLING:
        product *= shifted
        shifted += 1
    square = shifted * shifted
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / (1680 * square)) / square) / square) / shifted
    half_log_two_pi = 0.5 * log(2 * math.pi)
    return (shifted - 0.5) * log(shifted) - shifted + half_log_two_pi + series - log(product)
