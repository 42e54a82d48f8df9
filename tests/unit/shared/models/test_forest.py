"""Forests are evaluated many walks at once, as if each row went down each tree alone."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.models import forest
from shared.models.forest import LEAF, Forest, Tree

COLUMNS = 3
# Between two numbers of 32 bits, and at them.
THRESHOLDS = st.sampled_from([0.0, 0.1, float(np.float32(0.1)), 0.1 + 1e-12, -1.5, 1e30]) | (
    st.floats(-2, 2)
)
CELLS = st.sampled_from([0.0, 0.1, -1.5, np.nan, np.inf, -np.inf, 1e300]) | st.floats(-2, 2)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Nodes that were split one after the other, in any order."""
    nodes: list[list[Any]] = [[LEAF, 0.0, 0, 0, draw(st.floats(-9, 9))]]
    for _ in range(draw(st.integers(0, 9))):
        leaves = [at for at, node in enumerate(nodes) if node[0] == LEAF]
        split = draw(st.sampled_from(leaves))
        column, threshold = draw(st.integers(0, COLUMNS - 1)), draw(THRESHOLDS)
        nodes[split][:4] = [column, threshold, len(nodes), len(nodes) + 1]
        nodes += [[LEAF, 0.0, 0, 0, draw(st.floats(-9, 9))] for _ in range(2)]
    return Tree(*map(list, zip(*nodes, strict=True)))


def walked(tree: Tree, row: list[float]) -> float:
    """One row down one tree, of 32 bits as scikit-learn compares it."""
    node = 0
    with np.errstate(over="ignore"):
        rounded = np.array(row).astype(np.float32).astype(np.float64)
    while tree.feature[node] != LEAF:
        goes_left = rounded[tree.feature[node]] <= tree.threshold[node]
        node = (tree.left if goes_left else tree.right)[node]
    return tree.value[node]


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@settings(max_examples=60)
@given(
    st.lists(trees(), min_size=1, max_size=5),
    st.lists(st.lists(CELLS, min_size=COLUMNS, max_size=COLUMNS), max_size=12),
    st.integers(1, 5),
)
def test_each_row_reaches_the_leaves_that_it_reaches_alone(
    grown: list[Tree], rows: list[list[float]], at_once: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(forest, "_ROWS_AT_ONCE", at_once)
        found = Forest.from_trees(grown, features=COLUMNS).predict(
            np.array(rows).reshape(-1, COLUMNS)
        )
    expected = [np.mean([walked(tree, row) for tree in grown]) for row in rows]
    assert found.tolist() == expected
