"""Regression trees as messages, and back: who grew them evaluates what it published."""

from collections.abc import Iterator

import numpy as np
from coplace.v1.prediction_pb2 import RegressionTrees

from coplace_client.errors import RejectedError
from shared.models.forest import LEAF, Forest, Tree


def pack(forest: Forest) -> RegressionTrees:
    """Pack the trees of a forest; values and thresholds are rounded to 32 bits, the latter down, so
    that rows, which have as many, go the same ways. Inner nodes have to come before their
    children."""
    message = RegressionTrees()
    for number in range(len(forest.feature)):
        order = list(_depth_first(forest, number))
        place = {node: at for at, node in enumerate(order)}
        message.sizes.append(len(order))
        for at, node in enumerate(order):
            feature = int(forest.feature[number, node])
            message.feature.append(feature + 1)
            message.value.append(float(forest.value[number, node]))
            if feature != LEAF:
                message.threshold.append(_down(forest.threshold[number, node]))
                message.right.append(place[int(forest.right[number, node])] - at)
    return message


def forest_of(message: RegressionTrees, features: int) -> Forest:
    """Raises RejectedError for what are no trees over so many columns."""
    feature = np.array(message.feature, dtype=np.int64) - 1
    inner = np.flatnonzero(feature != LEAF)
    sizes = list(message.sizes)
    is_whole = sum(sizes) == len(feature) == len(message.value) and sizes and all(sizes)
    if not is_whole or not len(message.threshold) == len(message.right) == len(inner):
        raise RejectedError("trees", "must hold as many of everything as there are nodes")
    threshold, right = np.zeros(len(feature)), np.zeros(len(feature), dtype=np.int64)
    threshold[inner], right[inner] = message.threshold, message.right
    value, edges = np.array(message.value), np.cumsum([0, *sizes])
    trees = []
    for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        at, here = np.arange(end - start), slice(start, end)
        is_leaf = feature[here] == LEAF
        trees.append(
            Tree(
                feature=feature[here].tolist(),
                threshold=threshold[here].tolist(),
                left=np.where(is_leaf, 0, at + 1).tolist(),
                right=np.where(is_leaf, 0, at + right[here]).tolist(),
                value=value[here].tolist(),
            )
        )
    return Forest.from_trees(trees, features=features)


def _down(threshold: float) -> float:
    """Return the greatest number of 32 bits that is not greater."""
    rounded = np.float32(threshold)
    return float(np.nextafter(rounded, np.float32(-np.inf)) if rounded > threshold else rounded)


def _depth_first(forest: Forest, number: int) -> Iterator[int]:
    left = [0]
    while left:
        node = left.pop()
        yield node
        if forest.feature[number, node] != LEAF:
            left += [int(forest.right[number, node]), int(forest.left[number, node])]
