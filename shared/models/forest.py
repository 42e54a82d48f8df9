"""Regression forests in an open array form, evaluated without the library that trained them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from coplace_client.errors import RejectedError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

LEAF = -1
# Rows of a block, and its part of each tree, stay in a processor's cache.
_ROWS_AT_ONCE: Final = 2048
# Walks that have ended are left out of the next steps every so often.
_STEPS_AT_ONCE: Final = 4


class Tree(NamedTuple):
    """One tree; node 0 is the root, `feature` is -1 at a leaf, children come after parents."""

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
    _steps: "_Steps" = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_steps", _Steps.of(self))

    @classmethod
    def from_trees(cls, trees: Sequence[Tree], *, features: int) -> Self:
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
        """Return the mean over the trees of the leaves that the rows end in, shape (rows,).

        Rows are rounded to 32 bits first, as scikit-learn does before it compares.
        """
        rounded = rows.astype(np.float32)
        # What is unknown is not at most a threshold, and so goes right.
        rounded[np.isnan(rounded)] = np.inf
        values = np.empty((len(rows), len(self.feature)))
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            block = slice(first, first + _ROWS_AT_ONCE)
            values[block] = self._steps.values(rounded[block]).T
        return np.asarray(values.mean(axis=1), dtype=np.float64)

    def contributions(self, row: Floats) -> Floats:
        """Return how far each column of a row moved what the forest says of it, shape (features,).

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


class _Steps(NamedTuple):
    """Nodes of all trees one behind the other, each counting twice: at 2 n what node n compares,
    at 2 n and 2 n + 1 twice the node that is left or right of it; a leaf stays where it is."""

    feature: Ints
    threshold: NDArray[np.float32]
    child: Ints
    value: Floats
    roots: Ints

    @classmethod
    def of(cls, forest: Forest) -> "_Steps":
        """Of a forest. A row of 32 bits is at most a threshold where it is at most the next lower
        number of 32 bits."""
        trees, width = forest.feature.shape
        roots, own = np.arange(trees) * width, np.arange(trees * width)
        is_leaf = forest.feature.ravel() == LEAF
        children = [(roots[:, np.newaxis] + each).ravel() for each in (forest.left, forest.right)]
        threshold = forest.threshold.ravel()
        lower = threshold.astype(np.float32)
        lower = np.where(lower > threshold, np.nextafter(lower, np.float32(-np.inf)), lower)
        child = np.column_stack([np.where(is_leaf, own, each) for each in children])
        feature = np.where(is_leaf, 0, forest.feature.ravel())
        return cls(
            feature=np.repeat(feature, 2),
            threshold=np.repeat(lower, 2),
            child=2 * child.ravel(),
            value=np.repeat(forest.value.ravel(), 2),
            roots=2 * roots,
        )

    def values(self, rows: NDArray[np.float32]) -> Floats:
        """Return the values of the leaves that rows reach, shape (trees, rows): a walk is one row
        in one tree."""
        count, columns = rows.shape
        flat = rows.ravel()
        node = np.repeat(self.roots, count)
        row = np.tile(np.arange(count) * columns, len(self.roots))
        found = np.empty(len(node))
        walk = np.arange(len(node))
        while len(walk):
            before = node
            for _ in range(_STEPS_AT_ONCE):
                before = node
                compared = flat.take(row + self.feature.take(node))
                node = self.child.take(node + (compared > self.threshold.take(node)))
            has_ended = node == before
            found[walk[has_ended]] = self.value.take(node[has_ended])
            goes_on = ~has_ended
            node, row, walk = node[goes_on], row[goes_on], walk[goes_on]
        return found.reshape(len(self.roots), count)


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
        raise RejectedError("trees", "must name children that come after their parents")
    if not np.isfinite(tree.value).all():
        raise RejectedError("trees.value", "must be finite")
