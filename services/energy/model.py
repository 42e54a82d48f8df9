"""EAR's learning phase: the coefficients of every ordered pair of P-states, by least squares.

D'Amico and Corbalan, "Energy hardware and workload aware job scheduling towards interconnected
HPC environments" (2021), equations 1 and 2; the time residual is that of equation 3.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Three coefficients go through any three kernels: the fourth is the first that can contradict.
MIN_KERNELS: Final = 4


class KernelRun(NamedTuple):
    """One kernel at one P-state; `power_w` of one node used whole."""

    time_s: float
    power_w: float
    cpi: float
    tpi: float


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Coefficients of every (from, to) pair, and how well they fit their own kernels.

    `power` and `cpi` have the shape (from, to, 3): the factor of the metric itself, that of TPI,
    the constant, hence (a, b, c) and (d, e, f). The residuals are root mean squares of relative
    errors over all pairs of different P-states; 0 when there is none.
    """

    pstates_ghz: tuple[float, ...]
    power: Floats
    cpi: Floats
    available: Mask
    power_residual: float
    time_residual: float
    kernels: int


def fit(pstates_ghz: Sequence[float], kernels: Mapping[str, Mapping[float, KernelRun]]) -> Fit:
    """Ordinary least squares over the kernels that ran at both P-states of a pair.

    P' = a P + b TPI + c and CPI' = d CPI + e TPI + f. A P-state projects to itself as it is. A pair
    with fewer than MIN_KERNELS, or whose kernels are too much alike to tell the coefficients
    apart, is not available.
    """
    time_s, power_w, cpi, tpi = _tables(pstates_ghz, kernels)
    ran = ~np.isnan(power_w)
    both = ran[:, :, np.newaxis] & ran[:, np.newaxis, :]
    power, power_determined = _least_squares(power_w, tpi, both)
    cycles, cpi_determined = _least_squares(cpi, tpi, both)
    enough = both.sum(axis=0) >= MIN_KERNELS
    available = enough & power_determined & cpi_determined
    _project_to_themselves(power, cycles, available)
    counted = both & available & ~np.eye(len(pstates_ghz), dtype=np.bool_)
    time_from_to = time_s[:, :, np.newaxis] / time_s[:, np.newaxis, :]
    clocks = np.divide.outer(pstates_ghz, pstates_ghz)
    cpi_ratio = _applied(cycles, cpi, tpi) / cpi[:, :, np.newaxis]
    return Fit(
        pstates_ghz=tuple(pstates_ghz),
        power=power,
        cpi=cycles,
        available=available,
        power_residual=_rms(_applied(power, power_w, tpi) / power_w[:, np.newaxis, :] - 1, counted),
        time_residual=_rms(time_from_to * cpi_ratio * clocks - 1, counted),
        kernels=len(kernels),
    )


def _tables(
    pstates_ghz: Sequence[float], kernels: Mapping[str, Mapping[float, KernelRun]]
) -> tuple[Floats, Floats, Floats, Floats]:
    """Time, power, CPI and TPI, each (kernels, P-states), NaN where a kernel did not run."""
    missing = KernelRun(*[np.nan] * len(KernelRun._fields))
    rows = [[runs.get(f, missing) for f in pstates_ghz] for _, runs in sorted(kernels.items())]
    table = np.array(rows, dtype=np.float64).reshape(-1, len(pstates_ghz), len(missing))
    return table[..., 0], table[..., 1], table[..., 2], table[..., 3]


def _least_squares(metric: Floats, tpi: Floats, both: Mask) -> tuple[Floats, Mask]:
    """Coefficients (from, to, 3) of metric' over [metric, TPI, 1], and where they are determined.

    Rows of kernels that did not run at both P-states are 0, which leaves them without a say.
    Columns are brought to length 1 first: TPI is a thousand times smaller than power.
    """
    columns = np.stack([metric, tpi, np.ones_like(metric)], axis=-1)
    design = np.where(both[..., np.newaxis], columns[:, :, np.newaxis, :], 0.0)
    design = np.moveaxis(design, 0, 2)
    target = np.moveaxis(np.where(both, metric[:, np.newaxis, :], 0.0), 0, 2)
    length = np.linalg.norm(design, axis=2, keepdims=True)
    scaled = design / np.where(length > 0, length, 1.0)
    solved = np.linalg.pinv(scaled, rcond=1e-9) @ target[..., np.newaxis]
    coefficients = solved[..., 0] / np.where(length > 0, length, 1.0)[..., 0, :]
    return coefficients, np.linalg.matrix_rank(scaled, tol=1e-9) == columns.shape[-1]


def _project_to_themselves(power: Floats, cpi: Floats, available: Mask) -> None:
    same = np.arange(len(available))
    power[same, same] = cpi[same, same] = (1.0, 0.0, 0.0)
    available[same, same] = True
    power[~available] = cpi[~available] = 0.0


def _applied(coefficients: Floats, metric: Floats, tpi: Floats) -> Floats:
    """The projection of every kernel over every pair, shape (kernels, from, to)."""
    own, traffic, constant = np.moveaxis(coefficients, -1, 0)
    return np.asarray(own * metric[:, :, np.newaxis] + traffic * tpi[:, :, np.newaxis] + constant)


def _rms(error: Floats, counted: Mask) -> float:
    return float(np.sqrt(np.mean(error[counted] ** 2))) if counted.any() else 0.0
