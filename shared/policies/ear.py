"""EAR's energy model: power and time of a signature at every P-state of its node model.

D'Amico and Corbalan, "Energy hardware and workload aware job scheduling towards interconnected
HPC environments" (2021), equations 1 to 3.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shared.domain.coefficients import Coefficients
from shared.domain.errors import RejectedError
from shared.domain.signature import Signature

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """Signatures over P-states: arrays of shape (signatures, P-states), NaN where none exists."""

    pstates_ghz: tuple[float, ...]
    time_s: Floats
    power_w: Floats

    @property
    def available(self) -> NDArray[np.bool_]:
        """Where a projection exists."""
        return ~np.isnan(self.time_s)

    @property
    def energy_j(self) -> Floats:
        """E = P T of one node over one iteration, J."""
        return self.power_w * self.time_s

    def only(self, rows: NDArray[np.bool_]) -> "Projection":
        """The projections of some signatures, shape (signatures,)."""
        return Projection(self.pstates_ghz, self.time_s[rows], self.power_w[rows])

    def onto(self, pstates_ghz: tuple[float, ...]) -> "Projection":
        """The same over another table of P-states: NaN where this one has no such frequency."""
        column = _columns_of(self.pstates_ghz, pstates_ghz)
        known = column >= 0
        return Projection(
            pstates_ghz=pstates_ghz,
            time_s=np.where(known, self.time_s[:, column], np.nan),
            power_w=np.where(known, self.power_w[:, column], np.nan),
        )


def project(coefficients: Coefficients, signatures: Sequence[Signature]) -> Projection:
    """Project signatures of one node model, each from its own P-state, to all P-states.

    P' = a P + b TPI + c (equation 1), CPI' = d CPI + e TPI + f (2), T' = T CPI'/CPI f_ref/f (3).
    A pair that was never measured, or that gives a time or power not above 0, has no projection.
    Raises RejectedError for a signature of another node model, TPI scale or P-state table.
    """
    for signature in signatures:
        _check(coefficients, signature)
    reference = [coefficients.index_of(s.freq_ghz) for s in signatures]
    time_s, power_w, cpi, tpi, ref_ghz = _columns(signatures)
    c = coefficients
    projected_w = c.a[reference] * power_w + c.b[reference] * tpi + c.c[reference]
    projected_cpi = c.d[reference] * cpi + c.e[reference] * tpi + c.f[reference]
    projected_s = time_s * (projected_cpi / cpi) * (ref_ghz / np.asarray(c.pstates_ghz))
    exists = c.available[reference] & (projected_w > 0) & (projected_s > 0)
    return Projection(
        pstates_ghz=c.pstates_ghz,
        time_s=np.where(exists, projected_s, np.nan),
        power_w=np.where(exists, projected_w, np.nan),
    )


def _columns_of(table: tuple[float, ...], wanted: tuple[float, ...]) -> NDArray[np.int64]:
    """Index in `table` of each wanted frequency, -1 where it has none."""
    same = np.isclose(np.asarray(wanted)[:, np.newaxis], np.asarray(table), rtol=0, atol=1e-6)
    return np.where(same.any(axis=1), same.argmax(axis=1), -1)


def _columns(signatures: Sequence[Signature]) -> tuple[Floats, ...]:
    """Time, power, CPI, TPI and frequency as columns, each of shape (signatures, 1)."""
    rows = [(s.time_s, s.power_w, s.cpi, s.tpi, s.freq_ghz) for s in signatures]
    table = np.array(rows, dtype=np.float64).reshape(-1, 5)
    return tuple(table[:, column, np.newaxis] for column in range(5))


def _check(coefficients: Coefficients, signature: Signature) -> None:
    if signature.node_model != coefficients.node_model:
        raise RejectedError(
            "node_model",
            f"{signature.node_model} cannot use coefficients of {coefficients.node_model}",
        )
    if signature.tpi_scale != coefficients.tpi_scale:
        raise RejectedError(
            "tpi_scale",
            f"{signature.tpi_scale} of {signature.app_id} is not the scale that the coefficients "
            f"{coefficients.version} were learned with, {coefficients.tpi_scale}: measure again",
        )


def unlearned(node_model: str, tpi_scale: str, pstates_ghz: tuple[float, ...]) -> Coefficients:
    """Coefficients before any were learned: a P-state projects to itself alone."""
    identity = np.eye(len(pstates_ghz))
    zero = np.zeros_like(identity)
    return Coefficients(
        node_model=node_model,
        version="",
        tpi_scale=tpi_scale,
        pstates_ghz=pstates_ghz,
        a=identity,
        b=zero,
        c=zero,
        d=identity,
        e=zero,
        f=zero,
        available=identity.astype(np.bool_),
    )
