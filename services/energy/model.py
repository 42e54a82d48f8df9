"""EAR's learning phase: the coefficients of every ordered pair of P-states, by least squares.

D'Amico and Corbalan, "Energy hardware and workload aware job scheduling towards interconnected
HPC environments" (2021), equations 1 and 2; the time residual is that of equation 3.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared.domain.coefficients import MOST_SD, Uncertainty
from shared.numerics.linear import decompose, total

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

# Three coefficients go through any three kernels: the fourth is the first that can contradict.
MIN_KERNELS: Final = 4
# Singular values below this share of the largest are rounding: the columns have length 1.
TOLERANCE: Final = 1e-9


class KernelRun(NamedTuple):
    """One kernel at one P-state; `power_w` of one node used whole."""

    time_s: float
    power_w: float
    cpi: float
    tpi: float


class _Tables(NamedTuple):
    """Runs as arrays of shape (kernels, P-states), NaN where a kernel did not run."""

    time_s: Floats
    power_w: Floats
    cpi: Floats
    tpi: Floats


@dataclass(frozen=True, slots=True, eq=False)
class PairErrors:
    """How well each (from, to) pair fits its own kernels; NaN where the pair has no coefficients.

    Root mean squares of relative errors: `power` and `time` of the fit itself, `power_left_out`
    and `time_left_out` of the prediction of each kernel by a fit without it (infinite where the
    others alone do not determine the coefficients). `kernels` counts those that ran at both.
    """

    kernels: Ints
    power: Floats
    time: Floats
    power_left_out: Floats
    time_left_out: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Coefficients of every (from, to) pair, and how well they fit their own kernels.

    `power` and `cpi` have the shape (from, to, 3): the factor of the metric itself, that of TPI,
    the constant, hence (a, b, c) and (d, e, f). The residuals are root mean squares of relative
    errors over all pairs of different P-states; 0 when there is none. `errors` has those of each
    pair, None where the coefficients were not learned here.
    """

    pstates_ghz: tuple[float, ...]
    power: Floats
    cpi: Floats
    available: Mask
    power_residual: float
    time_residual: float
    kernels: int
    errors: PairErrors | None = None

    @property
    def uncertainty(self) -> Uncertainty | None:
        """Return how far projections may be off: the errors of kernels left out, which the fit has
        not seen, unknown where the other kernels do not determine them; None where nothing was
        learned here."""
        if self.errors is None:
            return None
        return Uncertainty(
            *map(_as_deviation, (self.errors.time_left_out, self.errors.power_left_out))
        )


def fit(pstates_ghz: Sequence[float], kernels: Mapping[str, Mapping[float, KernelRun]]) -> Fit:
    """Fit ordinary least squares over the kernels that ran at both P-states of a pair.

    P' = a P + b TPI + c and CPI' = d CPI + e TPI + f. A P-state projects to itself as it is. A pair
    with fewer than MIN_KERNELS, or whose kernels are too much alike to determine the coefficients,
    is not available.
    """
    measured = _tables(pstates_ghz, kernels)
    ran = ~np.isnan(measured.power_w)
    both = ran[:, :, np.newaxis] & ran[:, np.newaxis, :]
    power = _least_squares(measured.power_w, measured.tpi, both)
    cpi = _least_squares(measured.cpi, measured.tpi, both)
    enough = both.sum(axis=0) >= MIN_KERNELS
    available = enough & power.is_determined & cpi.is_determined
    _project_to_themselves(power.coefficients, cpi.coefficients, available)
    counted = both & available & ~np.eye(len(pstates_ghz), dtype=np.bool_)
    fitted = (
        _applied(power.coefficients, measured.power_w, measured.tpi),
        _applied(cpi.coefficients, measured.cpi, measured.tpi),
    )
    power_error, time_error = _relative_errors(pstates_ghz, measured, *fitted)
    left_out = _relative_errors(pstates_ghz, measured, power.left_out, cpi.left_out)
    return Fit(
        pstates_ghz=tuple(pstates_ghz),
        power=power.coefficients,
        cpi=cpi.coefficients,
        available=available,
        power_residual=_rms(power_error, counted),
        time_residual=_rms(time_error, counted),
        kernels=len(kernels),
        errors=PairErrors(
            both.sum(axis=0),
            *(_rms_of_pairs(error, counted) for error in (power_error, time_error, *left_out)),
        ),
    )


def _relative_errors(
    pstates_ghz: Sequence[float], measured: _Tables, power_w: Floats, cpi: Floats
) -> tuple[Floats, Floats]:
    """Of power and, by equation 3, of time, where `power_w` and `cpi` are what is projected of each
    kernel from one P-state to another: shape (kernels, from, to)."""
    power_error = power_w / measured.power_w[:, np.newaxis, :] - 1
    clocks = np.divide.outer(pstates_ghz, pstates_ghz)
    slowdown = cpi / measured.cpi[:, :, np.newaxis] * clocks
    before_s, after_s = measured.time_s[:, :, np.newaxis], measured.time_s[:, np.newaxis, :]
    return power_error, slowdown * before_s / after_s - 1


def refusals(found: Fit) -> dict[tuple[float, float], str]:
    """Return why each pair (from, to), GHz, that is not available could not be learned."""
    if found.errors is None:
        return {}
    clocks_ghz, counts = found.pstates_ghz, found.errors.kernels
    return {
        (clocks_ghz[i], clocks_ghz[j]): _refusal(int(counts[i, j]))
        for i, j in np.argwhere(~found.available).tolist()
    }


def _refusal(kernels: int) -> str:
    if kernels < MIN_KERNELS:
        return (
            f"{kernels} kernels ran at both P-states, at least {MIN_KERNELS} are needed: "
            "measure more kernels"
        )
    return (
        f"the design of {kernels} kernels is singular: they are too much alike to determine "
        "the coefficients, add kernels that use memory more or less than these"
    )


def _tables(
    pstates_ghz: Sequence[float], kernels: Mapping[str, Mapping[float, KernelRun]]
) -> _Tables:
    missing = KernelRun(*[np.nan] * len(KernelRun._fields))
    rows = [[runs.get(f, missing) for f in pstates_ghz] for _, runs in sorted(kernels.items())]
    table = np.array(rows, dtype=np.float64).reshape(len(rows), len(pstates_ghz), len(missing))
    return _Tables(*np.moveaxis(table, -1, 0))


class _Solved(NamedTuple):
    """Coefficients (from, to, 3), where they are determined (from, to), and the prediction of
    each kernel by the others (kernels, from, to)."""

    coefficients: Floats
    is_determined: Mask
    left_out: Floats


def _least_squares(metric: Floats, tpi: Floats, both: Mask) -> _Solved:
    """Least squares of metric' over [metric, TPI, 1], for all pairs of P-states at once.

    Rows of kernels that did not run at both P-states are 0, which leaves them without a say.
    Columns are brought to length 1 first: TPI is a thousand times smaller than power.
    """
    columns = np.stack([metric, tpi, np.ones_like(metric)])
    design = np.where(both, columns[..., np.newaxis], 0.0)
    target = np.where(both, metric[:, np.newaxis, :], 0.0)
    length = np.sqrt(total(np.square(design), axis=1))
    length = np.where(length > 0, length, 1.0)
    found = decompose(design / length[:, np.newaxis])
    coefficients = found.solved(target, TOLERANCE) / length
    fitted, leverage = found.fitted(target, TOLERANCE), found.leverage(TOLERANCE)
    return _Solved(
        coefficients=np.moveaxis(coefficients, 0, -1).copy(),
        is_determined=found.rank(TOLERANCE) == len(columns),
        left_out=_left_out(target, fitted, leverage),
    )


def _left_out(target: Floats, fitted: Floats, leverage: Floats) -> Floats:
    """What a fit without a kernel predicts for it: y - (y - y_fit) / (1 - h).

    h is the kernel's element on the diagonal of the hat matrix X (X'X)^-1 X' (Allen, "The
    relationship between variable selection and data augmentation", Technometrics 1974); where it
    is 1 only that kernel determines a coefficient.
    """
    share = 1 - leverage
    is_needed = share < TOLERANCE
    predicted = target - (target - fitted) / np.where(is_needed, 1.0, share)
    return np.where(is_needed, np.inf, predicted)


def _project_to_themselves(power: Floats, cpi: Floats, available: Mask) -> None:
    same = np.arange(len(available))
    power[same, same] = cpi[same, same] = (1.0, 0.0, 0.0)
    available[same, same] = True
    power[~available] = cpi[~available] = 0.0


def _applied(coefficients: Floats, metric: Floats, tpi: Floats) -> Floats:
    """The projection of every kernel over every pair, shape (kernels, from, to)."""
    own, traffic, constant = np.moveaxis(coefficients, -1, 0)
    return np.asarray(own * metric[:, :, np.newaxis] + traffic * tpi[:, :, np.newaxis] + constant)


def _rms_of_pairs(error: Floats, counted: Mask) -> Floats:
    """Over the kernels of each pair, shape (from, to)."""
    count = counted.sum(axis=0)
    square = np.square(np.where(counted, error, 0.0))
    mean = square.sum(axis=0) / np.where(count > 0, count, 1)
    return np.where(count > 0, np.sqrt(mean), np.nan)


def _as_deviation(left_out: Floats) -> Floats:
    """A P-state projects to itself as it is."""
    deviation = np.where(np.isfinite(left_out), np.minimum(left_out, MOST_SD), np.nan)
    np.fill_diagonal(deviation, 0.0)
    return deviation


def _rms(error: Floats, counted: Mask) -> float:
    return float(np.sqrt(np.mean(np.square(error[counted])))) if counted.any() else 0.0
