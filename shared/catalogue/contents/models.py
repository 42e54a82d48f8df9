"""What each field of a published model must be."""

from collections.abc import Mapping
from math import isfinite
from typing import Final

from coplace.v1.energy_pb2 import CoefficientsDeclared, CoefficientsPublished
from coplace.v1.prediction_pb2 import (
    DegradationModelPublished,
    NodePowerPublished,
    PairTreesChosen,
    PairTreesJudged,
    PairTreesPublished,
    PowerHistoryUpdated,
    PowerModelPublished,
    PowerTreesChosen,
    PowerTreesJudged,
    PowerTreesPublished,
    RegressionTrees,
)
from google.protobuf.message import Message

from coplace_client.bounds import LENGTHS, NODE_POWER_W
from coplace_client.checks import require_text
from coplace_client.errors import RejectedError
from shared.catalogue.field_checks import (
    Check,
    each,
    each_of_any,
    fields,
    if_known,
    quantity,
    text,
    text_or_empty,
    time_us,
)
from shared.catalogue.payloads.domain_types import MOST_VERSION


def _version(value: str) -> None:
    require_text("", value, limit=MOST_VERSION)


def _powers(by_node_model: Mapping[str, float]) -> None:
    LENGTHS["fallback_power_w"].require("", len(by_node_model))
    for node_model, power_w in by_node_model.items():
        text(node_model)
        NODE_POWER_W.require("", power_w)


def _trees(message: RegressionTrees) -> None:
    LENGTHS["trees"].require("sizes", len(message.sizes))
    for name in ("feature", "threshold", "right", "value"):
        LENGTHS["tree_nodes"].require(name, len(getattr(message, name)))
    for name in ("threshold", "value"):
        if not all(map(isfinite, getattr(message, name))):
            raise RejectedError(name, "must be finite")


_PUBLISHED_TREES: Final[Mapping[str, Check]] = {
    "version": _version,
    "extra": _trees,
    "boosted": _trees,
    "users": each(
        "tree_users",
        fields({"where": text_or_empty, "user": text_or_empty, "tree": _trees, "forest": _trees}),
    ),
}

_PUBLISHED_PAIR_TREES: Final[Mapping[str, Check]] = {
    "version": _version,
    "trees": _trees,
    "unseen_error": quantity("losses"),
    "unseen_error_of_weights": quantity("losses"),
}


def _chosen_trees(message: PowerTreesChosen | PairTreesChosen) -> None:
    """None come with the word that none are in force."""
    is_of_pairs = isinstance(message, PairTreesChosen)
    if message.HasField("trees"):
        published = _PUBLISHED_PAIR_TREES if is_of_pairs else _PUBLISHED_TREES
        fields({"trees": fields(published)})(message)


_JUDGED: Final[Mapping[str, Check]] = {
    "version": _version,
    "in_force": text_or_empty,
    "error": quantity("losses"),
    "error_in_force": quantity("losses"),
}

_CHOSEN_TREES: Final = fields(
    {"version": text_or_empty, "who": text, "reason": text_or_empty}, _chosen_trees
)

MODELS: Final[Mapping[type[Message], Check]] = {
    CoefficientsPublished: fields(
        {
            "node_model": text,
            "version": _version,
            "tpi_scale": text_or_empty,
            "pstates_ghz": each_of_any("pstates_ghz", quantity("pstates_ghz")),
            **{name: each_of_any("coefficients", quantity("coefficient")) for name in "abcdef"},
        }
    ),
    CoefficientsDeclared: fields(
        {
            "node_model": text,
            "tpi_scale": text,
            "pstates_ghz": each("pstates_ghz", quantity("pstates_ghz")),
            **{name: each("coefficients", quantity("coefficient")) for name in "abcdef"},
            "reason": text_or_empty,
            "declared_at_us": time_us,
        }
    ),
    PowerModelPublished: fields(
        {
            "version": _version,
            "trees": each_of_any(
                "trees", fields({"value": each("trees.value", quantity("samples.power_w"))})
            ),
            "fallback_power_w": _powers,
        },
    ),
    PowerHistoryUpdated: fields(
        {
            "version": _version,
            "number": quantity("number"),
            "node_model": text,
            "freq_ghz": quantity("freq_ghz"),
            "user": text,
            "app_id": text_or_empty,
            "size": text,
            "walltime_s": quantity("walltime_s"),
            "accelerators_w": if_known("accelerators_w"),
            "similar": each(
                "similar",
                fields(
                    {
                        "mean_log_w": each_of_any("mean_log_w", quantity("log_w")),
                        "newest_log_w": each_of_any("newest_log_w", quantity("log_w")),
                        "losses": each_of_any("losses", quantity("losses")),
                    }
                ),
            ),
            "alpha": quantity("alpha"),
            "highest_power_w": if_known("power_w"),
            "spreads_w": each_of_any("spreads_w", quantity("above_w")),
            "margins": each(
                "margins",
                fields({"above_w": quantity("above_w"), "above_share": quantity("above_share")}),
            ),
            "job_ids": each_of_any("job_ids", text),
            "powers_w": each_of_any("job_ids", quantity("power_w")),
        }
    ),
    PowerTreesPublished: fields(_PUBLISHED_TREES),
    PowerTreesJudged: fields(_JUDGED),
    PowerTreesChosen: _CHOSEN_TREES,
    PairTreesPublished: fields(_PUBLISHED_PAIR_TREES),
    PairTreesJudged: fields({**_JUDGED, "error_of_weights": quantity("losses")}),
    PairTreesChosen: _CHOSEN_TREES,
    DegradationModelPublished: fields(
        {"version": _version, "weights": each_of_any("coefficients", quantity("coefficient"))}
    ),
    NodePowerPublished: fields(
        {"version": _version, "factors": each_of_any("nodes", quantity("factors"))}
    ),
}
