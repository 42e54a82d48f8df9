"""The SHA-256 by which everyone recognises the content of a published model."""

from copy import deepcopy
from hashlib import sha256

from coplace.v1.energy_pb2 import CoefficientsPublished
from coplace.v1.prediction_pb2 import (
    DegradationModelPublished,
    NodePowerPublished,
    PairTreesChosen,
    PairTreesPublished,
    PowerHistoryUpdated,
    PowerModelPublished,
    PowerTreesChosen,
    PowerTreesPublished,
)

from coplace_client.errors import RejectedError

Model = (
    CoefficientsPublished
    | PowerModelPublished
    | PowerHistoryUpdated
    | PowerTreesPublished
    | PowerTreesChosen
    | PairTreesPublished
    | PairTreesChosen
    | DegradationModelPublished
    | NodePowerPublished
)


def model_sha256(model: Model) -> bytes:
    """Return the SHA-256 of the model's deterministic serialisation, its own `sha256` field left
    out."""
    content = deepcopy(model)
    content.ClearField("sha256")
    return sha256(content.SerializeToString(deterministic=True)).digest()


def require_sha256(model: Model) -> None:
    """Raise RejectedError unless the model's `sha256` is that of its content."""
    found = model_sha256(model)
    if model.sha256 != found:
        raise RejectedError(
            "sha256",
            f"of {model.version} must be {found.hex()}, the content's, got {model.sha256.hex()}",
        )
