"""Training: weights for the degradation of pairs, and trees in the open form."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared.models.forest import LEAF, Tree
from shared.numerics.linear import non_negative, total

Floats = NDArray[np.float64]


def open_tree(tree: Any) -> Tree:
    """Return scikit-learn's tree in the open form; what it keeps at leaves beside the value means
    nothing."""
    leaf = tree.children_left < 0
    return Tree(
        feature=np.where(leaf, LEAF, tree.feature).tolist(),
        threshold=np.where(leaf, 0.0, tree.threshold).tolist(),
        left=np.where(leaf, 0, tree.children_left).tolist(),
        right=np.where(leaf, 0, tree.children_right).tolist(),
        value=tree.value[:, 0, 0].tolist(),
    )


@dataclass(frozen=True, slots=True)
class TrainedWeights:
    """`residual` is the root mean square error of the slowdown over the rows."""

    weights: tuple[float, ...]
    residual: float


def train_weights(features: Floats, slowdown_ratio: Floats) -> TrainedWeights:
    """Train non-negative least squares of slowdown - 1 over `features`, shape (rows, columns).

    Non-negative, since a neighbour that moves more never helps.
    """
    weights = non_negative(features.T, slowdown_ratio - 1)
    error = 1 + total(features * weights, axis=1) - slowdown_ratio
    return TrainedWeights(tuple(weights.tolist()), float(np.sqrt(np.mean(np.square(error)))))
