"""Regression forests in an open array form, evaluated without the library that trained them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from shared.domain.errors import RejectedError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

LEAF = -1


class Tree(NamedTuple):
    """One tree; node 0 is the root, `feature` is -1 at a leaf, children stand after parents."""

    feature: Sequence[int]
    threshold: Sequence[float]
    left: Sequence[int]
    right: Sequence[int]
    value: Sequence[float]


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Trees side by side, each array of shape (trees, nodes of the largest)."""

    feature: Ints
    threshold: Floats
    left: Ints
    right: Ints
    value: Floats

    @classmethod
    def of(cls, trees: Sequence[Tree], *, features: int) -> Self:
        """Raises RejectedError for arrays that are no trees over `features` columns."""
        for tree in trees:
            _check(tree, features)
        width = max(len(tree.feature) for tree in trees)
        return cls(
            feature=_padded([tree.feature for tree in trees], width).astype(np.int64),
            threshold=_padded([tree.threshold for tree in trees], width),
            left=_padded([tree.left for tree in trees], width).astype(np.int64),
            right=_padded([tree.right for tree in trees], width).astype(np.int64),
            value=_padded([tree.value for tree in trees], width),
        )

    def predict(self, rows: Floats) -> Floats:
        """Mean over the trees of the leaves that the rows reach, shape (rows,).

        Rows are rounded to 32 bits first, as scikit-learn does before it compares.
        """
        trees, width = self.feature.shape
        rounded = rows.astype(np.float32).astype(np.float64).ravel()
        # A walk is one row in one tree: where its row begins, where its tree, and where it is.
        row = np.repeat(np.arange(len(rows)) * rows.shape[1], trees)
        root = np.tile(np.arange(trees) * width, len(rows))
        feature, threshold = self.feature.ravel(), self.threshold.ravel()
        left, right = self.left.ravel(), self.right.ravel()
        node = root.copy()
        while len(walking := np.flatnonzero(feature[node] != LEAF)):
            at = node[walking]
            goes_left = rounded[row[walking] + feature[at]] <= threshold[at]
            node[walking] = root[walking] + np.where(goes_left, left[at], right[at])
        values = self.value.ravel()[node].reshape(len(rows), trees)
        return np.asarray(values.mean(axis=1), dtype=np.float64)

    def contributions(self, row: Floats) -> Floats:
        """How far each column of a row moved what the forest says of it, shape (features,).

        Each split on the row's way moves the value from the node's to the child's; what all columns
        moved and the mean of the roots add up to the prediction (Saabas's decomposition). Values of
        inner nodes have to be the means of what is below them, as those of trained trees are.
        """
        rounded = row.astype(np.float32).astype(np.float64)
        moved = np.zeros(len(row))
        for tree in range(len(self.feature)):
            node = 0
            while (feature := self.feature[tree, node]) != LEAF:
                goes_left = rounded[feature] <= self.threshold[tree, node]
                child = (self.left if goes_left else self.right)[tree, node]
                moved[feature] += self.value[tree, child] - self.value[tree, node]
                node = child
        return moved / len(self.feature)


def _padded(rows: Sequence[Sequence[float]], width: int) -> Floats:
    table = np.zeros((len(rows), width))
    for index, row in enumerate(rows):
        table[index, : len(row)] = row
    return table


def _check(tree: Tree, features: int) -> None:
    size = len(tree.feature)
    if not size or any(len(column) != size for column in tree):
        raise RejectedError("trees", "must hold five arrays of the same length, at least 1")
    feature, left, right = map(np.asarray, (tree.feature, tree.left, tree.right))
    if feature.min() < LEAF or feature.max() >= features:
        raise RejectedError("trees.feature", f"must be -1 or one of the {features} columns")
    inner = np.flatnonzero(feature != LEAF)
    # A child after its parent rules out cycles, so that every walk ends.
    if any(((c[inner] <= inner) | (c[inner] >= size)).any() for c in (left, right)):
        raise RejectedError("trees", "must name children that stand after their parents")
    if not np.isfinite(tree.value).all():
        raise RejectedError("trees.value", "must be finite")
