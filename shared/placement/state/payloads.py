"""Events that placement alone reads as domain types. All raise RejectedError, naming the field."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from coplace.v1.prediction_pb2 import (
    DegradationModelPublished,
    NodePowerPublished,
)

from coplace_client.bounds import NODE_FACTOR
from coplace_client.checks import require_text
from coplace_client.errors import RejectedError
from shared.catalogue.payloads.domain_types import MOST_VERSION
from shared.domain.node import NodeNames
from shared.models import degradation as pair_model


@dataclass(frozen=True, slots=True)
class Degradation:
    """A published degradation model."""

    version: str
    weights: tuple[float, ...]


def degradation(message: DegradationModelPublished) -> Degradation:
    """Return the weights of a published pair model."""
    require_text("version", message.version, limit=MOST_VERSION)
    _require_features(message.features, pair_model.FEATURES)
    if len(message.weights) != len(message.features) or not np.isfinite(message.weights).all():
        raise RejectedError("weights", "must be one finite number a feature")
    return Degradation(message.version, tuple(message.weights))


def node_factors(
    message: NodePowerPublished, names: Mapping[str, NodeNames]
) -> Mapping[str, Mapping[int, float]]:
    """Return what nodes draw against the mean node, by cluster and index; `names` of declared
    clusters. Nodes that no cluster has count for nothing: a cluster may be declared anew at any
    time."""
    if not len(message.clusters) == len(message.nodes) == len(message.factors):
        raise RejectedError("factors", "must be as many as nodes and clusters")
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for cluster, node, factor in zip(message.clusters, message.nodes, message.factors, strict=True):
        NODE_FACTOR.require("factors", factor)
        index = names[cluster].find(node) if cluster in names else None
        if index is not None:
            found[cluster][index] = factor
    return found


def _require_features(published: object, expected: tuple[str, ...]) -> None:
    if tuple(published) != expected:  # type: ignore[arg-type]
        raise RejectedError("features", f"must be {expected}: publish a model of this version")
