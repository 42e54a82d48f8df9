"""Grows the forests of the degradation of pairs, with scikit-learn."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from services.prediction.model import open_tree
from shared.models.forest import Forest

Floats = NDArray[np.float64]

TREES: Final = 30


def train_extra_trees(
    rows: Floats, value: Floats, *, seed: int = 0, of_rest: bool = False
) -> Forest:
    """Train extremely randomised trees (Geurts, Ernst and Wehenkel, Machine Learning 63, 2006),
    down to single rows. Each split tries all columns; of what an estimate leaves, 40 % of them."""
    from sklearn.ensemble import ExtraTreesRegressor

    columns = 0.4 if of_rest else 1.0
    forest = ExtraTreesRegressor(
        n_estimators=TREES, max_features=columns, random_state=seed, n_jobs=1
    ).fit(rows, value)
    return Forest.from_trees(
        [open_tree(e.tree_) for e in forest.estimators_], features=rows.shape[1]
    )
