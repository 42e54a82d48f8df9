"""Versions of trees of pairs as messages, and back: who grew them evaluates what it published."""

from coplace.v1.prediction_pb2 import PairTreesChosen, PairTreesPublished

from coplace_client.errors import RejectedError
from shared.catalogue.digest import require_sha256
from shared.catalogue.payloads.regression_trees import forest_of
from shared.models.pair_trees import COLUMNS, PAIRS_ORIGIN, PairTrees


def pair_trees_of(message: PairTreesPublished) -> PairTrees:
    """Return the trees that evaluate a version. Raises RejectedError for one that means something
    else here, whose SHA-256 is not its content's, or that is not trees."""
    if message.origin != PAIRS_ORIGIN:
        raise RejectedError(
            "origin", f"of {message.version} must be {PAIRS_ORIGIN.hex()}, that of this version"
        )
    require_sha256(message)
    return PairTrees(message.version, forest_of(message.trees, len(COLUMNS)))


def chosen_pair_trees(message: PairTreesChosen) -> PairTrees | None:
    """Return the trees that are in force, None where none are. Raises RejectedError as
    `pair_trees_of`."""
    if not message.version:
        return None
    if message.trees.version != message.version:
        raise RejectedError("trees", f"must be {message.version}, got {message.trees.version}")
    return pair_trees_of(message.trees)
