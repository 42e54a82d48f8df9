"""A forest over the columns of two things, of all pairs of them, without a row of any pair."""

import numpy as np
from numpy.typing import NDArray

from shared.models.forest import LEAF, Forest

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def all_pairs(forest: Forest, first: Floats, second: Floats) -> Floats:
    """Return what the forest says of each row of `first` beside each of `second`, shape (first,
    second).

    Its columns are those of `first` and then those of `second`. Each split asks one of the two, so
    that a leaf is a set of rows of one times a set of rows of the other.
    """
    asked, others = _rounded(first), _rounded(second)
    total = np.zeros((len(first), len(second)))
    of_tree = np.empty_like(total)
    for tree in range(len(forest.feature)):
        _fill(of_tree, forest, tree, asked, others)
        total += of_tree
    return total / len(forest.feature)


def _rounded(rows: Floats) -> Floats:
    """Return columns in the precision in which scikit-learn compares."""
    return np.ascontiguousarray(rows.T.astype(np.float32).astype(np.float64))


def _fill(into: Floats, forest: Forest, tree: int, first: Floats, second: Floats) -> None:
    """Write the leaf's value of one tree for each pair; `first` and `second` are columns."""
    feature, threshold, left, right, value = (
        part[tree].tolist()
        for part in (forest.feature, forest.threshold, forest.left, forest.right, forest.value)
    )
    # By one index numpy writes a leaf twice as fast as by two.
    flat, pitch = into.reshape(-1), into.shape[1]
    waiting = [(0, np.arange(into.shape[0]), np.arange(pitch))]
    while waiting:
        node, rows, columns = waiting.pop()
        if not rows.size or not columns.size:
            continue
        at = feature[node]
        if at == LEAF:
            flat[rows[:, np.newaxis] * pitch + columns] = value[node]
        elif at < len(first):
            goes_left = first[at][rows] <= threshold[node]
            waiting.append((left[node], rows[goes_left], columns))
            waiting.append((right[node], rows[~goes_left], columns))
        else:
            goes_left = second[at - len(first)][columns] <= threshold[node]
            waiting.append((left[node], rows, columns[goes_left]))
            waiting.append((right[node], rows, columns[~goes_left]))
