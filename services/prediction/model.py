"""Training: a regression forest for node power, weights for the degradation of pairs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from shared.models.forest import LEAF, Tree
from shared.numerics.linear import non_negative, total

Floats = NDArray[np.float64]

TREES: Final = 20
MAX_DEPTH: Final = 6
RANDOM_STATE: Final = 0  # of the trees' splits: the same rows make the same forest
HOLDOUT_SHARE: Final = 0.2


@dataclass(frozen=True, slots=True)
class TrainedForest:
    """`holdout_mape` is the mean absolute error, as a share, on rows that were held out."""

    trees: tuple[Tree, ...]
    holdout_mape: float


def load_library() -> None:
    """Load what trains, which takes seconds: the first training need not wait for it then."""
    import sklearn.ensemble  # noqa: F401


def train_forest(features: Floats, power_w: Floats) -> TrainedForest:
    """Extremely randomised trees (Geurts, Ernst, Wehenkel 2006) over rows in the order of time.

    `features` has the shape (rows, columns). The error is what a forest of the first four fifths
    makes on the last fifth: that is how a forest is used. All rows train the published one.
    """
    first = len(power_w) - max(1, round(HOLDOUT_SHARE * len(power_w)))
    predicted = _fitted(features[:first], power_w[:first]).predict(features[first:])
    mape = float(np.mean(np.abs(predicted / power_w[first:] - 1)))
    forest = _fitted(features, power_w)
    return TrainedForest(tuple(open_tree(e.tree_) for e in forest.estimators_), mape)


def _fitted(features: Floats, power_w: Floats) -> Any:
    # Imported when it is needed: it takes longer than everything else at start-up together.
    from sklearn.ensemble import ExtraTreesRegressor

    forest = ExtraTreesRegressor(
        n_estimators=TREES, max_depth=MAX_DEPTH, random_state=RANDOM_STATE, n_jobs=1
    )
    return forest.fit(features, power_w)


def open_tree(tree: Any) -> Tree:
    """scikit-learn's tree in the open form; what it keeps at leaves beside the value means
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
    """Non-negative least squares of slowdown - 1 over `features`, shape (rows, columns).

    Non-negative, since a neighbour that moves more never helps.
    """
    weights = non_negative(features.T, slowdown_ratio - 1)
    error = 1 + total(features * weights, axis=1) - slowdown_ratio
    return TrainedWeights(tuple(weights.tolist()), float(np.sqrt(np.mean(np.square(error)))))


def shutter_slowdown(shutters: Sequence[tuple[float, float, float]]) -> float:
    """T_co / T_solo of an interval from the IPC (before, during, after) of its shutters.

    The co-runner is paused during a shutter, so the IPC during it is the solo one.
    """
    before, during, after = np.mean(np.asarray(shutters, dtype=np.float64), axis=0)
    return float(during / ((before + after) / 2))
