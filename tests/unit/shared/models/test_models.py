"""Published models: which arrays are no forest, and the slowdown of pairs."""

import numpy as np
import pytest

from coplace_client.errors import RejectedError
from shared.models.degradation import (
    PRIOR_WEIGHTS,
    pair_features,
    slowdown_of_shares,
    slowdown_ratio,
)
from shared.models.forest import Forest, Tree

STUMP = Tree([0, -1, -1], [0.5, 0.0, 0.0], [1, 0, 0], [2, 0, 0], [0.0, 100.0, 200.0])


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (STUMP._replace(feature=[3, -1, -1]), "columns"),
        (STUMP._replace(left=[0, 0, 0]), "after their parents"),
        (STUMP._replace(right=[3, 0, 0]), "after their parents"),
        (STUMP._replace(value=[1.0]), "same length"),
        (STUMP._replace(value=[0.0, float("nan"), 1.0]), "finite"),
        (Tree([], [], [], [], []), "at least 1"),
    ],
)
def test_arrays_that_are_no_tree_are_rejected(broken: Tree, problem: str) -> None:
    with pytest.raises(RejectedError, match=problem):
        Forest.from_trees([STUMP, broken], features=2)


def test_slowdown_is_never_below_1_and_grows_with_what_both_draw() -> None:
    features = pair_features(np.array([0.0, 100.0, 200.0]), 200.0, 200.0)
    assert features[2].tolist() == [1.0, 0.5, 0.5, 0.25]
    assert slowdown_ratio(PRIOR_WEIGHTS, features).tolist() == [1.0, 1.125, 1.25]
    assert slowdown_ratio((-1.0, 0, 0, 0), features).tolist() == [1.0, 1.0, 1.0]


def test_one_slowdown_is_that_of_the_arrays() -> None:
    weights = (0.01, 0.2, 0.3, 0.6)
    features = pair_features(150.0, 90.0, 200.0)
    found = slowdown_of_shares(weights, 150.0 / 400, 90.0 / 400)
    assert found == pytest.approx(float(slowdown_ratio(weights, features)), rel=1e-15)
    assert slowdown_of_shares((-1.0, 0, 0, 0), 0.5, 0.5) == 1.0
    assert np.isnan(slowdown_of_shares(weights, np.nan, 0.5))
