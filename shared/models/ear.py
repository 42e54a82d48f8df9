"""EAR's energy model: power and time of a signature at every P-state of its node model.

D'Amico and Corbalan, "Energy hardware and workload aware job scheduling towards interconnected
HPC environments" (2021), equations 1 to 3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from coplace_client.errors import RejectedError
from coplace_client.signature import Signature
from shared.domain.coefficients import Coefficients
from shared.models.bridge import bridge
from shared.models.projection import Projection, Status, side_by_side
from shared.models.spread import Spread

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Values = TypeVar("Values", bound=np.generic)

# Signatures that are projected at a time: what is worked on then stays in a core's cache.
BLOCK: Final = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Metrics:
    """Signatures of one node model as columns, each of the shape (signatures,).

    `reference` is the index of the P-state that each was measured at; NaN is no signature.
    """

    time_s: Floats
    power_w: Floats
    cpi: Floats
    tpi: Floats
    reference: Ints

    @classmethod
    def from_signatures(
        cls, coefficients: Coefficients, signatures: Sequence[Signature | None]
    ) -> "Metrics":
        """Return columns of signatures that fit the coefficients, None where a job has no
        signature.

        Raises RejectedError for a signature of another node model, TPI scale or P-state table.
        """
        for signature in signatures:
            _check(coefficients, signature)
        rows = [_NO_ROW if s is None else (s.time_s, s.power_w, s.cpi, s.tpi) for s in signatures]
        time_s, power_w, cpi, tpi = np.array(rows, dtype=np.float64).reshape(-1, 4).T.copy()
        reference = [0 if s is None else coefficients.index_of(s.freq_ghz) for s in signatures]
        return cls(time_s, power_w, cpi, tpi, np.array(reference, dtype=np.int64))

    def block(self, part: slice) -> "Metrics":
        """Return some of the signatures, as views."""
        return Metrics(
            time_s=self.time_s[part],
            power_w=self.power_w[part],
            cpi=self.cpi[part],
            tpi=self.tpi[part],
            reference=self.reference[part],
        )


_NO_ROW: Final = (np.nan, np.nan, np.nan, np.nan)


def project(
    coefficients: Coefficients, signatures: Sequence[Signature], *, via_intermediate: bool = False
) -> Projection:
    """Project signatures of one node model, each from its own P-state, to all P-states.

    P' = a P + b TPI + c (equation 1), CPI' = d CPI + e TPI + f (2), T' = T CPI'/CPI f_ref/f (3).
    A pair that was never measured has no projection, unless `via_intermediate` asks for one by way
    of other P-states; nor has one that gives a time or power not above 0. How far the truth may be
    off is that of the coefficients.
    Raises RejectedError for a signature of another node model, TPI scale or P-state table.
    """
    metrics = Metrics.from_signatures(coefficients, signatures)
    return project_metrics(coefficients, metrics, via_intermediate=via_intermediate)


def project_onto_models(
    tables: Sequence[Coefficients], metrics: Sequence[Metrics], *, via_intermediate: bool = False
) -> Projection:
    """Project the same jobs on several node models: shape (jobs, node models, P-states).

    `metrics` are the jobs' signatures on each node model, NaN where a job has none there.
    """
    pairs = zip(tables, metrics, strict=True)
    return side_by_side(
        project_metrics(table, each, via_intermediate=via_intermediate) for table, each in pairs
    )


def project_metrics(
    coefficients: Coefficients, metrics: Metrics, *, via_intermediate: bool = False
) -> Projection:
    """Project columns of signatures; as `project`, shape (signatures, P-states)."""
    table, is_indirect = coefficients, np.zeros_like(coefficients.available)
    if via_intermediate:
        bridged = bridge(coefficients)
        table, is_indirect = bridged.coefficients, bridged.is_indirect
    shape = (len(table.pstates_ghz), len(metrics.reference))
    # P-states first: numpy's inner loops then run over the many signatures, not the few P-states.
    time_s, power_w = np.empty(shape), np.empty(shape)
    status = np.empty(shape, dtype=np.uint8)
    for begin in range(0, shape[1], BLOCK):
        part = slice(begin, begin + BLOCK)
        block = metrics.block(part)
        pairs = _pairs(block.reference)
        _project_power(table, block, pairs, power_w[:, part])
        _project_time(table, block, pairs, time_s[:, part])
        found = _status(table, is_indirect, pairs, time_s[:, part], power_w[:, part])
        status[:, part] = np.where(np.isnan(block.time_s), np.uint8(Status.NO_SIGNATURE), found)
        missing = status[:, part] > Status.VIA_INTERMEDIATE
        np.copyto(time_s[:, part], np.nan, where=missing)
        np.copyto(power_w[:, part], np.nan, where=missing)
    spread = Spread.from_coefficients(table, metrics.reference)
    return Projection(table.pstates_ghz, time_s.T, power_w.T, status.T, spread)


def _pairs(reference: Ints) -> Ints:
    """Return the rows of the coefficients to take: one for all where all were measured at one
    P-state."""
    return reference[:1] if (reference == reference[0]).all() else reference


def _project_power(c: Coefficients, block: Metrics, pairs: Ints, out: Floats) -> None:
    """Compute equation 1 in place: shape (P-states, signatures)."""
    np.multiply(_taken(c.a, pairs), block.power_w, out=out)
    out += _taken(c.b, pairs) * block.tpi
    out += _taken(c.c, pairs)


def _project_time(c: Coefficients, block: Metrics, pairs: Ints, out: Floats) -> None:
    """Compute equations 2 and 3 in place: shape (P-states, signatures)."""
    clocks_ghz = np.asarray(c.pstates_ghz)
    np.multiply(_taken(c.d, pairs), block.cpi, out=out)
    out += _taken(c.e, pairs) * block.tpi
    out += _taken(c.f, pairs)
    out /= block.cpi
    out *= block.time_s
    out *= clocks_ghz[pairs] / clocks_ghz[:, np.newaxis]


def _status(
    c: Coefficients, is_indirect: Mask, pairs: Ints, time_s: Floats, power_w: Floats
) -> NDArray[np.uint8]:
    origin = np.where(is_indirect, np.uint8(Status.VIA_INTERMEDIATE), np.uint8(Status.PROJECTED))
    origin[~c.available] = Status.NEVER_MEASURED
    origin = _taken(origin, pairs)
    is_positive = (time_s > 0) & (power_w > 0)
    usable = is_positive | (origin == Status.NEVER_MEASURED)
    return np.where(usable, origin, np.uint8(Status.NOT_ABOVE_ZERO))


def _taken(matrix: NDArray[Values], pairs: Ints) -> NDArray[Values]:
    """Return rows of a (from, to) matrix as columns: shape (to, pairs)."""
    return np.take(matrix.T, pairs, axis=1)


def _check(coefficients: Coefficients, signature: Signature | None) -> None:
    if signature is None:
        return
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
    """Return coefficients before any were learned: a P-state projects to itself alone."""
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
