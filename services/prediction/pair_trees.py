"""Grows trees of pairs, with scikit-learn's single trees."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import product
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.prediction.model import open_tree, train_weights
from shared.models.degradation import slowdown_of_shares
from shared.models.forest import Forest, Tree
from shared.models.pair_trees import COLUMNS, MOST_EXCESS, RISING, UNIT, Side, row_of_pair

Floats = NDArray[np.float64]

TREES: Final = 16
LEAVES: Final = 48
LEAST_OF_LEAF: Final = 3
# Applications of a node model, those measured last, whose unmeasured pairs are learned as weights
# say them.
MOST_BELIEVED: Final = 40
# Parts of the pairs of applications, of which each is held out in turn.
FOLDS: Final = 5


class PairExample(NamedTuple):
    """What the shutters of one interval said of a job beside one other."""

    node_model: str
    apps: tuple[str, str]
    own: Side
    other: Side
    slowdown_ratio: float

    @property
    def bandwidth_shares(self) -> tuple[float, float]:
        """Return what weights of degradation need: shares of the peak bandwidth."""
        return self.own.bandwidth_share, self.other.bandwidth_share


Predict = Callable[[Sequence[PairExample]], Floats]


def grow(examples: Sequence[PairExample]) -> Forest:
    """Grow extremely randomised trees (Geurts, Ernst and Wehenkel, Machine Learning 63, 2006) of
    T_co / T_alone - 1, whose sums are exact, and which never fall where a share rises. Of pairs
    that nobody measured they learn what weights say, each as often as makes a leaf."""
    examples = [*examples, *LEAST_OF_LEAF * prior_examples(examples)]
    rows = np.array([row_of_pair(each.own, each.other) for each in examples])
    excess = np.array([each.slowdown_ratio for each in examples]) - 1
    return Forest.from_trees(
        [_tree(rows, excess, seed) for seed in range(TREES)], features=len(COLUMNS)
    )


def prior_examples(examples: Sequence[PairExample]) -> list[PairExample]:
    """Return what weights say of pairs of which none of the examples is: of few applications trees
    know each pair that they saw, and nothing of others."""
    sides: dict[str, dict[str, Side]] = defaultdict(dict)
    for each in examples:
        known = sides[each.node_model]
        for app, side in zip(each.apps, (each.own, each.other), strict=True):
            known.pop(app, None)
            known[app] = side
    measured, weights = {each[:2] for each in examples}, _weights(examples)
    found = []
    for node_model, known in sides.items():
        newest = list(known)[-MOST_BELIEVED:]
        for apps in product(newest, newest):
            if (node_model, apps) not in measured:
                own, other = known[apps[0]], known[apps[1]]
                said = slowdown_of_shares(weights, own.bandwidth_share, other.bandwidth_share)
                found.append(PairExample(node_model, apps, own, other, said))
    return found


def _tree(rows: Floats, excess: Floats, seed: int) -> Tree:
    from sklearn.tree import ExtraTreeRegressor

    tree = ExtraTreeRegressor(
        random_state=seed,
        max_features=1.0,
        max_leaf_nodes=LEAVES,
        max_depth=12,
        min_samples_leaf=LEAST_OF_LEAF,
        monotonic_cst=RISING,
    )
    found = open_tree(tree.fit(rows, excess).tree_)
    values = np.clip(np.array(found.value), 0.0, MOST_EXCESS)
    return found._replace(value=(np.rint(values / UNIT) * UNIT).tolist())


def unseen_errors(examples: Sequence[PairExample]) -> tuple[float, float]:
    """Return the mean absolute error of T_co / T_alone of pairs of applications that are held out
    in turn, in both directions: by trees, and by weights of the same examples. 0 of fewer pairs
    than parts."""
    pairs = sorted({_unordered(each) for each in examples})
    if len(pairs) < FOLDS:
        return 0.0, 0.0
    fold = {pair: number % FOLDS for number, pair in enumerate(pairs)}
    totals = [0.0, 0.0]
    for number in range(FOLDS):
        learned = [each for each in examples if fold[_unordered(each)] != number]
        held_out = [each for each in examples if fold[_unordered(each)] == number]
        actual = [each.slowdown_ratio for each in held_out]
        for place, predict in enumerate((_by_trees(learned), _by_weights(learned))):
            off = zip(predict(held_out).tolist(), actual, strict=True)
            totals[place] += sum(abs(said - was) for said, was in off)
    return totals[0] / len(examples), totals[1] / len(examples)


def _unordered(example: PairExample) -> tuple[str, ...]:
    return tuple(sorted(example.apps))


def _by_trees(learned: Sequence[PairExample]) -> Predict:
    forest = grow(learned)
    return lambda asked: (
        1 + forest.predict(np.array([row_of_pair(each.own, each.other) for each in asked]))
    )


def _by_weights(learned: Sequence[PairExample]) -> Predict:
    weights = _weights(learned)
    return lambda asked: np.array(
        [slowdown_of_shares(weights, *each.bandwidth_shares) for each in asked]
    )


def _weights(learned: Sequence[PairExample]) -> tuple[float, ...]:
    shares = [each.bandwidth_shares for each in learned]
    features = np.array([[1.0, own, other, own * other] for own, other in shares])
    ratios = np.array([each.slowdown_ratio for each in learned])
    return train_weights(features, ratios).weights
