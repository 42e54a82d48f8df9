"""Versions of trees of power as messages, and back: who grew them evaluates what it published."""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Final

import numpy as np
from coplace.v1.prediction_pb2 import (
    PowerTreesChosen,
    PowerTreesPublished,
    RegressionTrees,
    UserPowerTrees,
)

from shared.domain.errors import RejectedError
from shared.messaging.digest import require_sha256
from shared.models.forest import LEAF, Forest, Tree
from shared.power_prediction.forests import NEW_USER, Forests, User, UserModel
from shared.power_prediction.trees import FEATURES, SUBMITTED, TREES_ORIGIN, PowerTrees

# Models of users, those of the most jobs first, as many as fit into a message beside the others.
MOST_OF_USERS_BYTES: Final = 262_144


def packed(forest: Forest) -> RegressionTrees:
    """The trees of a forest; powers and thresholds are rounded to 32 bits, the latter down, so that
    rows, which have as many, go the same ways. Inner nodes have to stand before their children."""
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


def with_models_of_users(
    message: PowerTreesPublished, users: Sequence[tuple[User, UserModel]]
) -> None:
    """That of new users, and of the others in this order as many as fit."""
    room_bytes = MOST_OF_USERS_BYTES
    for (where, user), model in sorted(users, key=lambda each: each[0] != NEW_USER):
        tree, forest = packed(model.tree), packed(model.forest)
        of_user = UserPowerTrees(where=where, user=user, tree=tree, forest=forest)
        room_bytes -= of_user.ByteSize()
        if room_bytes < 0:
            return
        message.users.append(of_user)


def trees_of(message: PowerTreesPublished) -> PowerTrees:
    """What evaluates a version. Raises RejectedError for one that means something else here, whose
    SHA-256 is not its content's, or that is no trees."""
    if message.origin != TREES_ORIGIN:
        raise RejectedError(
            "origin", f"of {message.version} must be {TREES_ORIGIN.hex()}, that of this version"
        )
    require_sha256(message)
    users = {
        (each.where, each.user): UserModel(
            _forest(each.tree, len(SUBMITTED)), _forest(each.forest, len(SUBMITTED))
        )
        for each in message.users
    }
    if NEW_USER not in users:
        raise RejectedError("users", "must hold the model of new users")
    extra, boosted = (_forest(each, len(FEATURES)) for each in (message.extra, message.boosted))
    return PowerTrees(message.version, Forests(extra, boosted, users, len(SUBMITTED)))


def chosen_trees(message: PowerTreesChosen) -> PowerTrees | None:
    """The trees that are in force, None where none are. Raises RejectedError as `trees_of`."""
    if not message.version:
        return None
    if message.trees.version != message.version:
        raise RejectedError("trees", f"must be {message.version}, got {message.trees.version}")
    return trees_of(message.trees)


def data_sha256(users: Sequence[User], rows: Sequence[str], powers_w: Sequence[float]) -> bytes:
    """Of the jobs that trees were grown of."""
    jobs = list(zip(users, rows, powers_w, strict=True))
    return sha256(repr(jobs).encode()).digest()


def _down(threshold: float) -> float:
    """The greatest number of 32 bits that is not greater."""
    rounded = np.float32(threshold)
    return float(np.nextafter(rounded, np.float32(-np.inf)) if rounded > threshold else rounded)


def _depth_first(forest: Forest, number: int) -> Iterator[int]:
    left = [0]
    while left:
        node = left.pop()
        yield node
        if forest.feature[number, node] != LEAF:
            left += [int(forest.right[number, node]), int(forest.left[number, node])]


def _forest(message: RegressionTrees, features: int) -> Forest:
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
    return Forest.of(trees, features=features)
