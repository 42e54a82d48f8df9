"""Coefficients of the energy model as messages have them. Adapters do not import it, nor numpy.

All raise RejectedError, which names the field.
"""

import numpy as np
from coplace.v1.energy_pb2 import CoefficientsDeclared, CoefficientsPublished

from coplace_client.checks import require_text
from coplace_client.errors import RejectedError
from shared.catalogue.payloads.domain_types import MOST_VERSION
from shared.domain.coefficients import Coefficients, Matrix, Uncertainty


def coefficients_of(message: CoefficientsPublished) -> Coefficients:
    """Return the matrices of a node model."""
    require_text("version", message.version, limit=MOST_VERSION)
    deviations = [_matrix(message, name) for name in ("time_sd", "power_sd") if message.time_sd]
    uncertainty = Uncertainty(*deviations) if deviations else None
    return _coefficients(message, message.version, uncertainty)


def declared_coefficients_of(message: CoefficientsDeclared) -> Coefficients:
    """Return the coefficients that an operator declared, which say nothing of their errors."""
    return _coefficients(message, "declared", None)


def _coefficients(
    message: CoefficientsPublished | CoefficientsDeclared,
    version: str,
    uncertainty: Uncertainty | None,
) -> Coefficients:
    a, b, c, d, e, f = (_matrix(message, field) for field in "abcdef")
    return Coefficients(
        node_model=message.node_model,
        version=version,
        tpi_scale=message.tpi_scale,
        pstates_ghz=tuple(message.pstates_ghz),
        a=a,
        b=b,
        c=c,
        d=d,
        e=e,
        f=f,
        available=_matrix(message, "available").astype(np.bool_),
        uncertainty=uncertainty,
    )


def _matrix(message: CoefficientsPublished | CoefficientsDeclared, field: str) -> Matrix:
    """Return a matrix of all pairs of P-states."""
    count = len(message.pstates_ghz)
    values = np.array(getattr(message, field), dtype=np.float64)
    if values.size != count * count:
        raise RejectedError(field, f"must hold {count * count} values, got {values.size}")
    return values.reshape(count, count)
