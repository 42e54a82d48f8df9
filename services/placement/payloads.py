"""Events that placement alone reads as domain types. All raise RejectedError, naming the field."""

from dataclasses import dataclass

import numpy as np
from coplace.v1.energy_pb2 import CoefficientsPublished, SignatureUpdated
from coplace.v1.prediction_pb2 import DegradationModelPublished, PowerModelPublished

from shared.domain.coefficients import Coefficients
from shared.domain.errors import RejectedError
from shared.domain.signature import Signature
from shared.policies import degradation as pair_model
from shared.policies import power_model as power
from shared.policies.forest import Forest, Tree


@dataclass(frozen=True, slots=True)
class Degradation:
    """A published degradation model."""

    version: str
    weights: tuple[float, ...]


def signatures(message: SignatureUpdated) -> tuple[Signature, ...]:
    """The AppDB's row, ascending by frequency."""
    if not message.at:
        raise RejectedError("at", f"of {message.app_id} must hold at least one P-state")
    return tuple(
        Signature(
            app_id=message.app_id,
            node_model=message.node_model,
            freq_ghz=at.freq_ghz,
            time_s=at.time_s,
            power_w=at.power_w,
            cpi=at.cpi,
            tpi=at.tpi,
            mem_gbps=at.mem_gbps,
            tpi_scale=message.tpi_scale,
            count=at.count,
        )
        for at in sorted(message.at, key=lambda at: at.freq_ghz)
    )


def coefficients(message: CoefficientsPublished) -> Coefficients:
    """The matrices of a node model."""
    count = len(message.pstates_ghz)

    def matrix(field: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        values = np.array(getattr(message, field), dtype=np.float64)
        if values.size != count * count:
            raise RejectedError(field, f"must hold {count * count} values, got {values.size}")
        return values.reshape(count, count)

    a, b, c, d, e, f = (matrix(field) for field in "abcdef")
    return Coefficients(
        node_model=message.node_model,
        version=message.version,
        tpi_scale=message.tpi_scale,
        pstates_ghz=tuple(message.pstates_ghz),
        a=a,
        b=b,
        c=c,
        d=d,
        e=e,
        f=f,
        available=matrix("available").astype(np.bool_),
    )


def power_model(message: PowerModelPublished) -> power.PowerModel:
    """The forest, or the fallback while there is none."""
    _require_features(message.features, power.FEATURES)
    trees = [Tree(t.feature, t.threshold, t.left, t.right, t.value) for t in message.trees]
    forest = Forest.of(trees, features=len(power.FEATURES)) if trees else None
    return power.PowerModel(message.version, forest, dict(message.fallback_power_w))


def degradation(message: DegradationModelPublished) -> Degradation:
    """The weights of the pair model."""
    _require_features(message.features, pair_model.FEATURES)
    if len(message.weights) != len(message.features) or not np.isfinite(message.weights).all():
        raise RejectedError("weights", "must be one finite number a feature")
    return Degradation(message.version, tuple(message.weights))


def _require_features(published: object, expected: tuple[str, ...]) -> None:
    if tuple(published) != expected:  # type: ignore[arg-type]
        raise RejectedError("features", f"must be {expected}: publish a model of this version")
