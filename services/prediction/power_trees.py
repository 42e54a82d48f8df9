"""Grows the trees of the predictor of job power, with scikit-learn's single trees."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.prediction.model import open_tree
from shared.models.forest import Forest, Tree
from shared.power_prediction.forests import NEW_USER, Forests, User, UserModel
from shared.power_prediction.submission import SUBMISSION_FEATURES

Floats = NDArray[np.float64]


class Growth(NamedTuple):
    """How many trees, and how deep: None is down to leaves of three jobs. Of users, those with the
    fewest jobs are left to the model of new users."""

    extra_trees: int = 24
    extra_depth: int | None = None
    rounds: int = 60
    depth: int = 7
    user_trees: int = 8
    user_depth: int = 8
    least_of_user: int = 10


WHOLE: Final = Growth()
_RATE: Final = 0.12


def train_forests(
    users: Sequence[User],
    rows: Floats,
    log_w: Floats,
    growth: Growth = WHOLE,
    submitted: int = len(SUBMISSION_FEATURES),
) -> Forests:
    """Train extremely randomised trees and boosted ones over all rows, and a decision tree and a
    random forest of each user's submissions, the first columns. Of one row all trees say its
    power."""
    of_users = user_models(users, rows[:, :submitted], log_w, growth)
    extra, boosted = _extra(rows, log_w, growth), _boosted(rows, log_w, growth)
    return Forests(extra, boosted, of_users, submitted)


def _extra(rows: Floats, log_w: Floats, growth: Growth) -> Forest:
    """Geurts, Ernst and Wehenkel, "Extremely randomized trees", Machine Learning 63 (2006)."""
    depth = growth.extra_depth
    trees = [_random_tree(rows, log_w, seed, max_depth=depth) for seed in range(growth.extra_trees)]
    return Forest.from_trees([open_tree(tree.tree_) for tree in trees], features=rows.shape[1])


def _random_tree(rows: Floats, target: Floats, seed: int, **limits: Any) -> Any:
    from sklearn.tree import ExtraTreeRegressor

    given = {"min_samples_leaf": 3, "max_features": 0.2} | limits
    return ExtraTreeRegressor(random_state=seed, **given).fit(rows, target)


def _boosted(rows: Floats, log_w: Floats, growth: Growth) -> Forest:
    """Least-squares boosting (Friedman, "Greedy function approximation", Annals of Statistics 29,
    2001, algorithm 2) of random trees. As a forest, whose trees are averaged, not added up."""
    start = float(np.add.reduce(log_w) / len(log_w))
    rest, trees = log_w - start, []
    limits = {"max_depth": growth.depth, "min_samples_leaf": 10, "max_features": 0.4}
    for seed in range(growth.rounds):
        tree = _random_tree(rows, rest, seed, **limits)
        rest = rest - _RATE * tree.predict(rows)
        trees.append(_scaled(open_tree(tree.tree_), growth.rounds * _RATE, start))
    return Forest.from_trees(trees, features=rows.shape[1])


def _scaled(tree: Tree, by: float, start: float) -> Tree:
    return tree._replace(value=[start + by * value for value in tree.value])


def user_models(
    users: Sequence[User], submitted: Floats, target: Floats, growth: Growth = WHOLE
) -> dict[User, UserModel]:
    """Train each user's model of rows of submissions, and that of new users, which is of all
    jobs."""
    found = {NEW_USER: _user_model(submitted, target, growth)}
    indexes: dict[User, list[int]] = defaultdict(list)
    for index, user in enumerate(users):
        indexes[user].append(index)
    for user, of_user in indexes.items():
        if len(of_user) >= growth.least_of_user:
            found[user] = _user_model(submitted[of_user], target[of_user], growth)
    return found


def _user_model(submitted: Floats, target: Floats, growth: Growth) -> UserModel:
    """A tree of all jobs, and a forest of trees of as many drawn with replacement (Breiman,
    "Random forests", Machine Learning 45, 2001)."""
    shape = growth.user_trees, len(target)
    draws = np.random.default_rng(0).integers(len(target), size=shape)
    depth = growth.user_depth
    forest = [
        _user_tree(submitted[drawn], target[drawn], seed, depth) for seed, drawn in enumerate(draws)
    ]
    features = submitted.shape[1]
    tree = _user_tree(submitted, target, 0, depth)
    return UserModel(
        Forest.from_trees([tree], features=features), Forest.from_trees(forest, features=features)
    )


def _user_tree(submitted: Floats, target: Floats, seed: int, depth: int) -> Tree:
    from sklearn.tree import DecisionTreeRegressor

    tree = DecisionTreeRegressor(max_depth=depth, min_samples_leaf=2, random_state=seed)
    return open_tree(tree.fit(submitted, target).tree_)
