"""Versions of trees of power as messages, and back: who grew them evaluates what it published."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from coplace.v1.prediction_pb2 import (
    PowerTreesChosen,
    PowerTreesPublished,
    UserPowerTrees,
)

from coplace_client.errors import RejectedError
from shared.catalogue.digest import require_sha256
from shared.catalogue.payloads.regression_trees import forest_of, pack
from shared.power_prediction.forests import NEW_USER, Forests, User, UserModel
from shared.power_prediction.trees import FEATURES, SUBMITTED, TREES_ORIGIN, PowerTrees

# Models of users, those of the most jobs first, as many as fit into a message beside the others.
MOST_OF_USERS_BYTES: Final = 262_144


def with_models_of_users(
    message: PowerTreesPublished, users: Sequence[tuple[User, UserModel]]
) -> None:
    """Add the model of new users, and of the others in this order as many as fit."""
    room_bytes = MOST_OF_USERS_BYTES
    for (where, user), model in sorted(users, key=lambda each: each[0] != NEW_USER):
        tree, forest = pack(model.tree), pack(model.forest)
        of_user = UserPowerTrees(where=where, user=user, tree=tree, forest=forest)
        room_bytes -= of_user.ByteSize()
        if room_bytes < 0:
            return
        message.users.append(of_user)


def trees_of(message: PowerTreesPublished) -> PowerTrees:
    """Return the trees that evaluate a version. Raises RejectedError for one that means something
    else here, whose SHA-256 is not its content's, or that is not trees."""
    if message.origin != TREES_ORIGIN:
        raise RejectedError(
            "origin", f"of {message.version} must be {TREES_ORIGIN.hex()}, that of this version"
        )
    require_sha256(message)
    users = {
        (each.where, each.user): UserModel(
            forest_of(each.tree, len(SUBMITTED)), forest_of(each.forest, len(SUBMITTED))
        )
        for each in message.users
    }
    if NEW_USER not in users:
        raise RejectedError("users", "must hold the model of new users")
    extra, boosted = (forest_of(each, len(FEATURES)) for each in (message.extra, message.boosted))
    return PowerTrees(message.version, Forests(extra, boosted, users, len(SUBMITTED)))


def chosen_trees(message: PowerTreesChosen) -> PowerTrees | None:
    """Return the trees that are in force, None where none are. Raises RejectedError as
    `trees_of`."""
    if not message.version:
        return None
    if message.trees.version != message.version:
        raise RejectedError("trees", f"must be {message.version}, got {message.trees.version}")
    return trees_of(message.trees)


def data_sha256(users: Sequence[User], rows: Sequence[str], powers_w: Sequence[float]) -> bytes:
    """Return the SHA-256 of the jobs that trees were grown of."""
    jobs = list(zip(users, rows, powers_w, strict=True))
    return sha256(repr(jobs).encode()).digest()
