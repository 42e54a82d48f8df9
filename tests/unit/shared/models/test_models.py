"""Evaluating published models: forests, slowdown of pairs."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

from coplace_client.errors import RejectedError
from shared.models.degradation import (
    PRIOR_WEIGHTS,
    pair_features,
    slowdown_of_shares,
    slowdown_ratio,
)
from shared.models.forest import Forest, Tree
from shared.scheduling.sharing import Contention

STUMP = Tree([0, -1, -1], [0.5, 0.0, 0.0], [1, 0, 0], [2, 0, 0], [0.0, 100.0, 200.0])


def test_a_forest_says_what_the_library_that_trained_it_says() -> None:
    rng = np.random.default_rng(3)
    rows, target = rng.random((200, 4)), rng.random(200)
    trained = RandomForestRegressor(n_estimators=7, random_state=0).fit(rows, target)
    trees = [
        Tree(
            np.where(t.children_left == -1, -1, t.feature).tolist(),
            t.threshold.tolist(),
            t.children_left.tolist(),
            t.children_right.tolist(),
            t.value[:, 0, 0].tolist(),
        )
        for t in (estimator.tree_ for estimator in trained.estimators_)
    ]
    new = rng.random((50, 4))
    assert Forest.of(trees, features=4).predict(new) == pytest.approx(trained.predict(new))


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
        Forest.of([STUMP, broken], features=2)


def test_slowdown_is_never_below_1_and_grows_with_what_both_draw() -> None:
    features = pair_features(np.array([0.0, 100.0, 200.0]), 200.0, 200.0)
    assert features[2].tolist() == [1.0, 0.5, 0.5, 0.25]
    assert slowdown_ratio(PRIOR_WEIGHTS, features).tolist() == [1.0, 1.125, 1.25]
    assert slowdown_ratio((-1.0, 0, 0, 0), features).tolist() == [1.0, 1.0, 1.0]


def contention(weights: tuple[float, ...] | None) -> Contention:
    """Nodes of 48 cores and 200 GB/s."""
    return Contention({"calm": 10.0, "loud": 200.0}, 200.0, 48, weights, 1.25)


def test_neighbours_are_accepted_when_all_slowdowns_are_predicted_and_small() -> None:
    # What the other draws counts: the one that draws little suffers beside the one that draws much.
    rule = contention((0.0, 0.0, 0.6, 0.0))
    calm, loud, unknown = ("calm", 24), ("loud", 24), ("unknown", 24)
    assert rule.slowdown(calm, (loud,)) == pytest.approx(1.3)
    assert rule.slowdown(loud, (calm,)) == pytest.approx(1.015)
    assert rule.cost(calm, (calm,)) == pytest.approx(2 * 1.015)
    assert np.isinf([rule.cost(calm, (loud,)), rule.cost(unknown, (calm,))]).all()


def test_what_several_neighbours_draw_adds_up_by_their_cores() -> None:
    rule = contention((0.0, 0.0, 0.6, 0.0))
    quarter = ("loud", 12)
    assert rule.slowdown(("calm", 24), (quarter, quarter)) == pytest.approx(1.3)
    assert rule.slowdown(("calm", 24), (quarter,)) == pytest.approx(1.15)
    assert np.isfinite(rule.cost(("calm", 24), (quarter,)))
    assert np.isinf(rule.cost(quarter, (("calm", 24), quarter)))


def test_without_a_degradation_model_nobody_shares() -> None:
    rule = contention(None)
    assert np.isnan(rule.slowdown(("calm", 24), (("calm", 24),)))
    assert np.isinf(rule.cost(("calm", 24), (("calm", 24),)))
    assert rule.cost(("calm", 24), ()) == 0.0


def test_one_slowdown_is_that_of_the_arrays() -> None:
    weights = (0.01, 0.2, 0.3, 0.6)
    features = pair_features(150.0, 90.0, 200.0)
    found = slowdown_of_shares(weights, 150.0 / 400, 90.0 / 400)
    assert found == pytest.approx(float(slowdown_ratio(weights, features)), rel=1e-15)
    assert slowdown_of_shares((-1.0, 0, 0, 0), 0.5, 0.5) == 1.0
    assert np.isnan(slowdown_of_shares(weights, np.nan, 0.5))
