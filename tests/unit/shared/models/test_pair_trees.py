"""Trees of pairs: leaves that both can reach say what a row of the pair would."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesRegressor

from coplace_client.errors import RejectedError
from services.prediction.model import open_tree
from shared.models.forest import Forest, Tree
from shared.models.pair_forest import all_pairs
from shared.models.pair_trees import (
    COLUMNS,
    MOST_DEPTH,
    RISING,
    UNIT,
    PairTrees,
    Side,
    row_of_pair,
)

SIDES = st.builds(Side, *(st.floats(0, 2) for _ in Side._fields))


def grown(seed: int, trees: int = 4) -> Forest:
    rng = np.random.default_rng(seed)
    rows, excess = rng.uniform(0, 2, (60, len(COLUMNS))), rng.uniform(0, 3, 60)
    forest = ExtraTreesRegressor(
        n_estimators=trees, max_depth=5, monotonic_cst=RISING, random_state=seed % 1000
    ).fit(rows, excess)
    found = [open_tree(each.tree_) for each in forest.estimators_]
    rounded = [
        each._replace(
            value=(np.rint(np.array(each.value) / UNIT) * UNIT).tolist(),
            # What rows are rounded to, too: else none lies on a threshold.
            threshold=np.array(each.threshold).astype(np.float32).tolist(),
        )
        for each in found
    ]
    return Forest.from_trees(rounded, features=len(COLUMNS))


def edges(forest: Forest) -> list[Side]:
    """Jobs that lie on the thresholds of the first splits."""
    width, found = len(Side._fields), []
    for feature, threshold in zip(forest.feature[:, 0], forest.threshold[:, 0], strict=True):
        columns = [1.0] * width
        columns[int(feature) % width] = float(threshold)
        found.append(Side(*columns))
    return found


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(SIDES, min_size=2, max_size=6))
def test_a_pair_is_said_to_cost_what_its_row_and_all_pairs_say(
    seed: int, sides: list[Side]
) -> None:
    forest = grown(seed)
    # On thresholds themselves, too.
    sides = [*sides, *edges(forest)]
    trees = PairTrees("pair-trees@1", forest)
    table = np.array(sides)
    of_all = all_pairs(forest, table, table)
    for at, one in enumerate(sides):
        by_row = forest.predict(np.array([row_of_pair(one, other) for other in sides]))
        suffers, presses = trees.among(one, trees.reached(sides))
        # Sums are exact: in any order.
        assert suffers == by_row.tolist() == of_all[at].tolist()
        assert presses == of_all[:, at].tolist()
        assert suffers == [trees.excess(one, other) for other in sides]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), SIDES, SIDES, st.floats(1, 4))
def test_more_cores_of_either_never_cost_less(
    seed: int, own: Side, other: Side, times: float
) -> None:
    trees = PairTrees("pair-trees@1", grown(seed))

    def wider(side: Side) -> Side:
        shares = side.bandwidth_share * times, side.core_share * times
        return side._replace(bandwidth_share=shares[0], core_share=shares[1])

    least = trees.excess(own, other)
    assert trees.excess(wider(own), other) >= least
    assert trees.excess(own, wider(other)) >= least
    assert trees.among(own, trees.reached([])) == ([], [])


LEAF = Tree([-1], [0.0], [0], [0], [0.5])
DEEP = MOST_DEPTH + 2
CHAIN = Tree(
    [0] * DEEP + [-1] * (DEEP + 1),
    [0.0] * (2 * DEEP + 1),
    [*range(1, DEEP + 1)] + [0] * (DEEP + 1),
    [*range(DEEP + 1, 2 * DEEP + 1)] + [0] * (DEEP + 1),
    [0.0] * (2 * DEEP + 1),
)


@pytest.mark.parametrize(
    ("trees", "problem"),
    [
        ([LEAF] * 3, "power of two"),
        ([LEAF] * 128, "power of two"),
        ([LEAF._replace(value=[-UNIT])], "multiples"),
        ([LEAF._replace(value=[UNIT / 2])], "multiples"),
        ([LEAF._replace(value=[16.0])], "multiples"),
        # Both children are one node: not a tree, and twice as many walks a level.
        ([Tree([0, -1], [0.0, 0.0], [1, 0], [1, 0], [0.0, 0.0])], "must be trees"),
        ([CHAIN], "one below the other"),
    ],
)
def test_what_cannot_be_added_up_exactly_or_is_no_tree_is_refused(
    trees: list[Tree], problem: str
) -> None:
    with pytest.raises(RejectedError, match=problem):
        PairTrees("pair-trees@1", Forest.from_trees(trees, features=len(COLUMNS)))
