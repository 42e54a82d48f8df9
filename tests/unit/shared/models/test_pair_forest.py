"""A forest of all pairs says what the same forest says of each pair's row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesRegressor

from services.prediction.model import open_tree
from shared.models.forest import LEAF, Forest, Tree
from shared.models.pair_forest import all_pairs


@given(
    seed=st.integers(0, 10_000),
    jobs=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    columns=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    values=st.integers(2, 5),
)
def test_all_pairs_are_what_scikit_learn_says_of_their_rows(
    seed: int, jobs: tuple[int, int], columns: tuple[int, int], values: int
) -> None:
    rng = np.random.default_rng(seed)
    # Few values, so that rows are often exactly where they were split.
    learned = rng.integers(values, size=(30, sum(columns))) / 3
    trained = ExtraTreesRegressor(n_estimators=3, random_state=seed).fit(learned, rng.random(30))
    forest = Forest.from_trees(
        [open_tree(e.tree_) for e in trained.estimators_], features=learned.shape[1]
    )
    first, second = (
        rng.integers(values, size=(n, width)) / 3 for n, width in zip(jobs, columns, strict=True)
    )
    rows = np.array([[*a, *b] for a in first for b in second])
    said = all_pairs(forest, first, second)
    assert said.ravel() == pytest.approx(trained.predict(rows), rel=1e-12)
    assert said.ravel() == pytest.approx(forest.predict(rows), rel=1e-12)


def test_a_tree_of_one_leaf_says_it_of_all_pairs_and_nothing_of_none() -> None:
    forest = Forest.from_trees([Tree([LEAF], [0.0], [0], [0], [0.25])], features=2)
    assert all_pairs(forest, np.zeros((2, 1)), np.zeros((3, 1))).tolist() == [[0.25] * 3] * 2
    assert all_pairs(forest, np.zeros((0, 1)), np.zeros((3, 1))).shape == (0, 3)
