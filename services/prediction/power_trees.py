"""Grows the trees of the predictor of job power, with scikit-learn's single trees."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from services.prediction.model import open_tree
from shared.models.forest import Forest, Tree
from shared.power_prediction.forests import NEW_USER, Forests, UserModel
from shared.power_prediction.submission import SUBMISSION_FEATURES, Submission

Floats = NDArray[np.float64]

_EXTRA_TREES: Final = 24
_ROUNDS: Final = 60
_RATE: Final = 0.12
_DEPTH: Final = 7
_USER_TREES: Final = 8
_USER_DEPTH: Final = 8
# Fewer jobs of a user are left to the model of new users.
_LEAST_OF_USER: Final = 10


def train_forests(jobs: Sequence[Submission], rows: Floats, log_w: Floats) -> Forests:
    """Extremely randomised trees and boosted ones over all rows, and a decision tree and a random
    forest of each user's submissions. Of one row all trees say its power."""
    submitted = rows[:, : len(SUBMISSION_FEATURES)]
    return Forests(_extra(rows, log_w), _boosted(rows, log_w), user_models(jobs, submitted, log_w))


def _extra(rows: Floats, log_w: Floats) -> Forest:
    """Geurts, Ernst and Wehenkel, "Extremely randomized trees", Machine Learning 63 (2006)."""
    trees = [_random_tree(rows, log_w, seed) for seed in range(_EXTRA_TREES)]
    return Forest.of([open_tree(tree.tree_) for tree in trees], features=rows.shape[1])


def _random_tree(rows: Floats, target: Floats, seed: int, **limits: Any) -> Any:
    from sklearn.tree import ExtraTreeRegressor

    given = {"min_samples_leaf": 3, "max_features": 0.2} | limits
    return ExtraTreeRegressor(random_state=seed, **given).fit(rows, target)


def _boosted(rows: Floats, log_w: Floats) -> Forest:
    """Least-squares boosting (Friedman, "Greedy function approximation", Annals of Statistics 29,
    2001, algorithm 2) of random trees. As a forest, whose trees are averaged, not added up."""
    start = float(np.add.reduce(log_w) / len(log_w))
    rest, trees = log_w - start, []
    for seed in range(_ROUNDS):
        tree = _random_tree(
            rows, rest, seed, max_depth=_DEPTH, min_samples_leaf=10, max_features=0.4
        )
        rest = rest - _RATE * tree.predict(rows)
        trees.append(_scaled(open_tree(tree.tree_), _ROUNDS * _RATE, start))
    return Forest.of(trees, features=rows.shape[1])


def _scaled(tree: Tree, by: float, start: float) -> Tree:
    return tree._replace(value=[start + by * value for value in tree.value])


def user_models(
    jobs: Sequence[Submission], submitted: Floats, target: Floats
) -> dict[tuple[str, str], UserModel]:
    """Each user's model of rows of submissions, and that of new users, which is of all jobs."""
    found = {(NEW_USER, NEW_USER): _user_model(submitted, target)}
    indexes: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, job in enumerate(jobs):
        indexes[(job.cluster, job.user)].append(index)
    for user, of_user in indexes.items():
        if len(of_user) >= _LEAST_OF_USER:
            found[user] = _user_model(submitted[of_user], target[of_user])
    return found


def _user_model(submitted: Floats, target: Floats) -> UserModel:
    """A tree of all jobs, and a forest of trees of as many drawn with replacement (Breiman,
    "Random forests", Machine Learning 45, 2001)."""
    draws = np.random.default_rng(0).integers(len(target), size=(_USER_TREES, len(target)))
    forest = [_user_tree(submitted[drawn], target[drawn], seed) for seed, drawn in enumerate(draws)]
    features = len(SUBMISSION_FEATURES)
    tree = _user_tree(submitted, target, 0)
    return UserModel(Forest.of([tree], features=features), Forest.of(forest, features=features))


def _user_tree(submitted: Floats, target: Floats, seed: int) -> Tree:
    from sklearn.tree import DecisionTreeRegressor

    tree = DecisionTreeRegressor(max_depth=_USER_DEPTH, min_samples_leaf=2, random_state=seed)
    return open_tree(tree.fit(submitted, target).tree_)
