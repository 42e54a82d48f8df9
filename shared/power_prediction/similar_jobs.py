"""What placement evaluates before a job starts: what similar jobs drew, as tables of rows.

Who learns publishes rows and who evaluates folds them; both run this code on equal tables, and on
the same trees. All powers are those of a node used whole. Where they are logarithms, they are
natural ones of W.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared.numerics.elementary import exp, log
from shared.power_prediction.blend import Context, shares_of, weighted_median
from shared.power_prediction.bound import FEW_JOBS, SPREAD_GROUPS, Margin
from shared.power_prediction.forests import FOREST_PREDICTORS, MEAN_OF_BOTH
from shared.power_prediction.kinds import (
    MEMORIES,
    MOST_NEWEST,
    SHAPES,
    STATISTICS,
    Key,
    KindOfJob,
    SimilarPower,
)
from shared.power_prediction.trees import PowerTrees, row_of, user_of

Floats = NDArray[np.float64]

# Versions of the tables are named by it and the number of the newest row.
HISTORY: Final = "power-history"
_MEAN_20, _MEAN_5, _MEAN_2, _MEDIAN_3, _MEDIAN_8, _LAST = range(len(STATISTICS))
_OF_USER: Final = SHAPES.index("user")
# The statistics that predict, by shape.
_PREDICTING: Final = (
    *((0, statistic) for statistic in (_MEAN_5, _MEAN_2, _MEDIAN_3, _LAST)),
    *((1, statistic) for statistic in (_MEAN_5, _MEDIAN_8, _LAST)),
    *((2, statistic) for statistic in (_MEAN_20, _MEAN_5, _MEDIAN_8, _LAST)),
    *((3, statistic) for statistic in (_MEAN_20, _MEAN_5, _MEDIAN_8)),
    *((4, statistic) for statistic in (_MEAN_20, _MEAN_5)),
    (5, _MEAN_20),
)
PREDICTORS: Final = (
    *(f"{SHAPES[s]}: {STATISTICS[n]}" for s, n in _PREDICTING),
    *FOREST_PREDICTORS,
)
# What each counts until it errs: trees more than single statistics, models of users, which know the
# submission alone, little.
_MASSES: Final = np.array([*(1.0 for _ in _PREDICTING), 3.0, 3.0, 8.0, 0.1, 0.1])
# What trees say that is compared between versions.
TREES_SAY: Final = len(_PREDICTING) + MEAN_OF_BOTH
# For what jobs have in common it is kept how wrong each predictor was of late.
CONTEXTS: Final[Mapping[int, Context]] = {
    0: Context(SHAPES[0], 0.8, 1.0),
    2: Context(SHAPES[2], 0.9, 0.3),
    4: Context(SHAPES[4], 0.95, 0.3),
    5: Context(SHAPES[5], 0.999, 0.003),
}
# A statistic of a shape that is new counts so much; the next coarser shape replaces it.
_TRUST_IN_STAND_INS: Final = 0.1
_NEARLY_HIGHEST: Final = round(0.9 * (len(PREDICTORS) - 1))
_NEARLY_HIGHEST_OF_HISTORY: Final = round(0.9 * (len(_PREDICTING) - 1))
# Kinds of jobs that finished longest ago are dropped.
MOST_KINDS: Final = 5_000
_MEANING: Final = (
    *(SHAPES, MEMORIES, MOST_NEWEST, PREDICTORS, sorted(CONTEXTS.items())),
    *(SPREAD_GROUPS, FEW_JOBS, MOST_KINDS),
)
# Of what rows and predictors mean: rows of another origin would be taken for something else.
ORIGIN: Final = sha256(repr(_MEANING).encode()).digest()


class PowerBound(NamedTuple):
    """Of all jobs on a node model at a P-state: the highest power of the newest ones, the limits
    between groups, and each group's margin, at the share `alpha` of jobs that may lie above."""

    alpha: float
    highest_w: float
    spreads_w: tuple[float, ...]
    margins: tuple[Margin, ...]

    def upper_w(self, predicted_w: float, group: int) -> float:
        """Return the bound of a prediction, W."""
        margin = self.margins[group]
        upper_w = predicted_w + margin.above_w + margin.above_share * predicted_w
        return max(predicted_w, min(upper_w, self.highest_w))


class PowerUpdate(NamedTuple):
    """Rows that replace those of the same subjects with lower numbers; `similar` of each of SHAPES,
    None where the kind has none."""

    number: int
    kind: KindOfJob
    similar: tuple[SimilarPower | None, ...]
    bound: PowerBound


class PowerAtStart(NamedTuple):
    """What a node will draw, W: the mean and the bound that a share `alpha` of jobs exceeds; what
    each of PREDICTORS said (ln W), by how much they disagree upwards (W), and the group whose
    margin counted; the features of the job, and the version of the trees, empty without any."""

    predicted_w: float
    upper_w: float
    alpha: float
    said: tuple[float, ...]
    spread_w: float
    group: int
    row: str
    trees: str

    def with_accelerators(self, accelerators_w: float) -> "PowerAtStart":
        """Return what the same job draws with accelerators of so much thermal design power, of
        which nothing was measured (Borghesi et al. 2018, section 4.1): trees do not learn from
        it."""
        said = tuple(log(exp(each) + accelerators_w) for each in self.said)
        power_w = self.predicted_w + accelerators_w, self.upper_w + accelerators_w
        return PowerAtStart(*power_w, self.alpha, said, self.spread_w, self.group, "", "")


class _PowerRow(NamedTuple):
    """The newest row of a subject, and its number."""

    number: int
    similar: SimilarPower


class PowerTables:
    """The newest row of each subject; of at most so many kinds of jobs."""

    def __init__(self, most_kinds: int = MOST_KINDS) -> None:
        self._most_kinds = most_kinds
        self._rows: dict[Key, _PowerRow] = {}
        self._bounds: dict[str, tuple[int, PowerBound]] = {}
        self._kinds: dict[KindOfJob, int] = {}
        self._predicted: dict[KindOfJob, PowerAtStart | None] = {}
        self.number = 0
        self.trees: PowerTrees | None = None

    def __len__(self) -> int:
        return len(self._kinds)

    def fold(self, update: PowerUpdate) -> list[KindOfJob]:
        """Take rows in, in any order; returns the kinds that were dropped."""
        number, kind = update.number, update.kind
        self.number = max(self.number, number)
        for key, similar in zip(kind.subjects(), update.similar, strict=True):
            if key is not None and similar is not None and number > self._number_of(key):
                self._rows[key] = _PowerRow(number, similar)
        if number > self._bounds.get(kind.where, (0, None))[0]:
            self._bounds[kind.where] = number, update.bound
        self._kinds[kind] = max(number, self._kinds.get(kind, 0))
        self._predicted.clear()
        return self._make_room()

    def similar(self, key: Key | None) -> SimilarPower | None:
        """Return the row of a shape."""
        row = None if key is None else self._rows.get(key)
        return row.similar if row else None

    def finest_shape(self, kind: KindOfJob) -> str:
        """Return the finest of SHAPES of which jobs are known; empty where none is."""
        found = zip(SHAPES, kind.subjects(), strict=True)
        return next((shape for shape, key in found if self.similar(key)), "")

    def take_trees(self, trees: PowerTrees | None) -> None:
        """Use these trees from now on, too; None: no trees."""
        if trees is not self.trees:
            self.trees = trees
            self._predicted.clear()

    def predict(self, kind: KindOfJob) -> PowerAtStart | None:
        """Predict a kind of jobs; None where nothing is known of its node model at its P-state."""
        return self.predict_all([kind])[0]

    def predict_all(self, kinds: Sequence[KindOfJob]) -> list[PowerAtStart | None]:
        """Predict several kinds: trees say it of many at once faster than of one after the
        other."""
        if len(self._predicted) >= _MOST_REMEMBERED:
            self._predicted.clear()
        new = dict.fromkeys(kind for kind in kinds if kind not in self._predicted)
        told_by = {kind: self.told_by(kind) for kind in new}
        asked = list(dict.fromkeys(each for each in told_by.values() if each is not None))
        said = dict(zip(asked, self._predict(asked), strict=True))
        self._predicted |= {kind: _of(kind, by, said) for kind, by in told_by.items()}
        return [self._predicted[kind] for kind in kinds]

    def told_by(self, kind: KindOfJob) -> KindOfJob | None:
        """Return the kind whose rows predict a kind of jobs; None where nothing is known of its
        node model at its P-state. Its own; but until enough jobs with such accelerators ended,
        those of the same job without, to which the declared power of its accelerators is added."""
        own, bare = kind.subjects()[-1], kind._replace(accelerators_w=0.0)
        count = row.jobs if (row := self.similar(own)) else 0
        if count < FEW_JOBS and self.similar(bare.subjects()[-1]):
            return bare
        return kind if count else None

    def shares(self, kind: KindOfJob) -> tuple[float, ...]:
        """Return how much each of PREDICTORS counts for a kind of jobs of which something is
        known."""
        rows = self._similar_of(self.told_by(kind) or kind)
        return tuple(_shares(rows, _of_history(rows)[1], has_trees=self.trees is not None).tolist())

    def _similar_of(self, kind: KindOfJob) -> list[SimilarPower | None]:
        return [self.similar(key) for key in kind.subjects()]

    def _predict(self, kinds: Sequence[KindOfJob]) -> list[PowerAtStart]:
        """Of kinds of which something is known."""
        similar = [self._similar_of(kind) for kind in kinds]
        rows = [row_of(*each) for each in zip(kinds, similar, strict=True)]
        of_trees: Sequence[Floats | None] = [None] * len(kinds)
        if self.trees is not None and kinds:
            of_trees = list(self.trees.said([user_of(kind) for kind in kinds], rows))
        return [self._blend(*each) for each in zip(kinds, similar, rows, of_trees, strict=True)]

    def _blend(
        self,
        kind: KindOfJob,
        similar: Sequence[SimilarPower | None],
        row: str,
        of_trees: Floats | None,
    ) -> PowerAtStart:
        said, trust = _of_history(similar)
        shares = _shares(similar, trust, has_trees=of_trees is not None)
        if of_trees is None:
            # What trees are to be better than.
            of_trees = np.full(len(FOREST_PREDICTORS), weighted_median(said, shares[: len(said)]))
            highest = np.sort(said)[_NEARLY_HIGHEST_OF_HISTORY]
        else:
            highest = np.sort(np.concatenate([said, of_trees]))[_NEARLY_HIGHEST]
        said = np.concatenate([said, of_trees])
        predicted_w = exp(weighted_median(said, shares))
        spread_w = exp(float(highest)) - predicted_w
        bound = self._bounds[kind.where][1]
        of_user = similar[_OF_USER]
        group = _group(bound, spread_w, of_user.jobs if of_user else 0)
        upper_w = bound.upper_w(predicted_w, group)
        says, trees = tuple(said.tolist()), self.trees.version if self.trees else ""
        return PowerAtStart(predicted_w, upper_w, bound.alpha, says, spread_w, group, row, trees)

    def _number_of(self, key: Key) -> int:
        row = self._rows.get(key)
        return row.number if row else 0

    def _make_room(self) -> list[KindOfJob]:
        """With the oldest kinds go the rows that no other has replaced since: a tenth of all, so
        that this is rare."""
        if len(self._kinds) <= self._most_kinds:
            return []
        by_age = sorted(self._kinds, key=self._kinds.__getitem__)
        gone = by_age[: len(by_age) - self._most_kinds * 9 // 10]
        for kind in gone:
            number = self._kinds.pop(kind)
            for key in kind.subjects():
                if key is not None and self._number_of(key) == number:
                    del self._rows[key]
            if self._bounds.get(kind.where, (0, None))[0] == number:
                del self._bounds[kind.where]
        return gone


_MOST_REMEMBERED: Final = 10_000


def _of(
    kind: KindOfJob, told_by: KindOfJob | None, said: Mapping[KindOfJob, PowerAtStart]
) -> PowerAtStart | None:
    """Return a kind's prediction out of those of the kinds that predict it."""
    if told_by is None:
        return None
    if told_by == kind:
        return said[kind]
    return said[told_by].with_accelerators(kind.accelerators_w)


def _of_history(rows: Sequence[SimilarPower | None]) -> tuple[Floats, Floats]:
    """Return what the statistics among PREDICTORS say, ln W, and the trust in each; the mean of
    about 5 of the finest shape that is known replaces those that are not."""
    of_shapes = [row.statistics() if row else None for row in rows]
    stand_in = next(each[_MEAN_5] for each in of_shapes if each is not None)
    said, trust = [], []
    for shape, statistic in _PREDICTING:
        of_shape = of_shapes[shape]
        said.append(stand_in if of_shape is None else of_shape[statistic])
        trust.append(_TRUST_IN_STAND_INS if of_shape is None else 1.0)
    return np.array(said), np.array(trust)


def _shares(rows: Sequence[SimilarPower | None], trust: Floats, *, has_trees: bool) -> Floats:
    """Of each of PREDICTORS; trees that there are none of have no share."""
    of_trees = np.full(len(FOREST_PREDICTORS), float(has_trees))
    return shares_of(_losses(rows), _MASSES * np.concatenate([trust, of_trees]))


def _losses(rows: Sequence[SimilarPower | None]) -> Floats:
    """Return how wrong each predictor was of late for such jobs."""
    losses = np.zeros(len(PREDICTORS))
    for shape, context in CONTEXTS.items():
        row = rows[shape]
        if row is not None and row.losses:
            losses = losses + context.counts * np.array(row.losses)
    return losses


def _group(bound: PowerBound, spread_w: float, jobs_of_user: int) -> int:
    """Its number: the fifths, and behind them the users of few jobs."""
    if jobs_of_user < FEW_JOBS:
        return SPREAD_GROUPS
    return sum(limit_w < spread_w for limit_w in bound.spreads_w)
