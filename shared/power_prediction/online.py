"""Learns the power of jobs as they end, and says which rows changed: `similar_jobs` evaluates them.

What is predicted when a job starts is compared with what it drew: the predictors' losses and the
adaptive bound (`bound`) follow. All that is known is in updates, judged predictions and progress,
so that a learner that is made of them goes on as the one that lived.
"""

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from shared.numerics.elementary import exp, log
from shared.power_prediction.blend import losses_of
from shared.power_prediction.bound import (
    SPREAD_GROUPS,
    AdaptiveBound,
    Newest,
    ScoreGroup,
)
from shared.power_prediction.forests import User
from shared.power_prediction.kinds import NONE, Key, KindOfJob, SimilarPower
from shared.power_prediction.similar_jobs import (
    CONTEXTS,
    TREES_SAY,
    PowerAtStart,
    PowerBound,
    PowerTables,
    PowerUpdate,
)

# Of the newest predictions that were compared with what jobs drew.
MOST_JUDGED: Final = 10_000
_NEWEST_POWERS: Final = 5_000
_NEWEST_SPREADS: Final = 2_000
_RECENT: Final = 500
# An update names no more of the jobs that it was learned from.
MOST_JOBS_NAMED: Final = 32


class EndedJob(NamedTuple):
    """A job that ended, what a node of it drew (W, as if used whole), and what was predicted when
    it started; None where nothing was."""

    job_id: str
    kind: KindOfJob
    power_w: float
    predicted: PowerAtStart | None


class JudgedPrediction(NamedTuple):
    """A prediction held to what the job drew, W. `number` counts them; `row` are the features from
    which trees learn, empty where they do not, `trees` the version of those that predicted, empty
    without any, and `trees_log_w` what they said, or what was taken in their place."""

    number: int
    where: str
    group: int
    spread_w: float
    predicted_w: float
    power_w: float
    is_above: bool
    user: str = ""
    row: str = ""
    trees: str = ""
    trees_log_w: float = 0.0

    @property
    def error(self) -> float:
        """Return how far the prediction was off, as a share of what was drawn."""
        return abs(self.predicted_w / self.power_w - 1)

    @property
    def trees_error(self) -> float:
        """Return how far off trees were, or what replaced them."""
        return abs(exp(self.trees_log_w) / self.power_w - 1)

    @property
    def of_user(self) -> User:
        """Return the user whose model learns from it."""
        return self.where, self.user

    @property
    def of_group(self) -> ScoreGroup:
        """Return the group whose scores are taken to be alike."""
        return _group(self.where, self.group)


class LearnerProgress(NamedTuple):
    """How many jobs were learned from and how many predictions judged; the level of the bound, and
    the share for which it holds."""

    learned: int = 0
    judged: int = 0
    level: float = math.nan
    alpha: float = math.nan


class RecentScores(NamedTuple):
    """Of the newest predictions: mean absolute error as a share, and the share above the bound."""

    error: float
    above_share: float


@dataclass(frozen=True, slots=True)
class TaughtKind:
    """One kind's new rows, and the jobs that taught them: (id, W)."""

    update: PowerUpdate
    jobs: tuple[tuple[str, float], ...]


@dataclass(slots=True)
class Lesson:
    """What a round taught: rows to publish, predictions that were judged, kinds that were
    dropped."""

    taught: list[TaughtKind] = field(default_factory=list)
    judged: list[JudgedPrediction] = field(default_factory=list)
    forgotten: list[KindOfJob] = field(default_factory=list)


class OnlineLearner:
    """The trainer's side of the tables."""

    def __init__(
        self,
        alpha: float,
        updates: Iterable[PowerUpdate] = (),
        judged: Iterable[JudgedPrediction] = (),
        progress: LearnerProgress | None = None,
    ) -> None:
        self.tables = PowerTables()
        for update in updates:
            self.tables.fold(update)
        self._bound = AdaptiveBound(alpha)
        before = progress or LearnerProgress()
        if before.alpha == alpha:
            self._bound.level = before.level
        self._spreads_w: defaultdict[str, Newest] = defaultdict(lambda: Newest(_NEWEST_SPREADS))
        self._powers_w: defaultdict[str, Newest] = defaultdict(lambda: Newest(_NEWEST_POWERS))
        self._judged: deque[JudgedPrediction] = deque()
        self._recent: deque[JudgedPrediction] = deque(maxlen=_RECENT)
        for each in sorted(judged):
            self._remember(each)
        self.progress = before._replace(level=self._bound.level, alpha=alpha)

    @property
    def scores(self) -> RecentScores:
        """Return the scores of the newest predictions; 0 of none."""
        count = max(1, len(self._recent))
        error = math.fsum(each.error for each in self._recent) / count
        return RecentScores(error, sum(each.is_above for each in self._recent) / count)

    @property
    def examples(self) -> list[JudgedPrediction]:
        """Return the newest jobs from which trees can learn, in the order of their numbers."""
        return [each for each in self._judged if each.row]

    def learn(self, ended: Sequence[EndedJob], number: int) -> Lesson:
        """Take in the jobs of a round, in their order; the rows' numbers begin with `number`."""
        lesson = Lesson()
        rows: dict[Key, SimilarPower] = {}
        jobs: dict[KindOfJob, list[tuple[str, float]]] = {}
        for each in ended:
            self._add(each, rows)
            jobs.setdefault(each.kind, []).append((each.job_id, each.power_w))
            if each.predicted is not None:
                lesson.judged.append(self._judge(each, each.predicted))
        for at, (kind, of_kind) in enumerate(jobs.items()):
            similar = tuple(rows[key] if key is not None else None for key in kind.subjects())
            update = PowerUpdate(number + at, kind, similar, self._bound_of(kind.where))
            lesson.taught.append(TaughtKind(update, tuple(of_kind[-MOST_JOBS_NAMED:])))
            lesson.forgotten += self.tables.fold(update)
        learned = self.progress.learned + len(ended)
        self.progress = self.progress._replace(learned=learned, level=self._bound.level)
        return lesson

    def _add(self, ended: EndedJob, rows: dict[Key, SimilarPower]) -> None:
        log_w = log(ended.power_w)
        losses = (
            None if ended.predicted is None else losses_of(np.array(ended.predicted.said), log_w)
        )
        for shape, key in enumerate(ended.kind.subjects()):
            if key is None:
                continue
            before = rows.get(key) or self.tables.similar(key) or NONE
            row = before.with_power(log_w)
            if losses is not None and shape in CONTEXTS:
                row = row.with_losses(CONTEXTS[shape], losses)
            rows[key] = row

    def _judge(self, ended: EndedJob, predicted: PowerAtStart) -> JudgedPrediction:
        number = self.progress.judged + 1
        self.progress = self.progress._replace(judged=number)
        judged = JudgedPrediction(
            number=number,
            where=ended.kind.where,
            group=predicted.group,
            spread_w=predicted.spread_w,
            predicted_w=predicted.predicted_w,
            power_w=ended.power_w,
            is_above=ended.power_w > predicted.upper_w,
            user=ended.kind.user,
            row=predicted.row,
            trees=predicted.trees,
            trees_log_w=predicted.said[TREES_SAY],
        )
        self._bound.follow(is_above=judged.is_above)
        self._remember(judged)
        return judged

    def _remember(self, judged: JudgedPrediction) -> None:
        """Forget the oldest."""
        self._bound.remember(judged.power_w - judged.predicted_w, judged.of_group, judged.number)
        self._spreads_w[judged.where].add(judged.spread_w, judged.number)
        self._powers_w[judged.where].add(judged.power_w, judged.number)
        self._recent.append(judged)
        self._judged.append(judged)
        if len(self._judged) > MOST_JUDGED:
            oldest = self._judged.popleft()
            self._bound.forget(oldest.of_group, oldest.number)
            for windows in (self._spreads_w, self._powers_w):
                windows[oldest.where].forget(oldest.number)

    def _bound_of(self, where: str) -> PowerBound:
        powers_w = self._powers_w[where]
        highest_w = powers_w.quantile(1.0) if len(powers_w) else math.inf
        margins = (self._bound.margin(_group(where, at)) for at in range(SPREAD_GROUPS + 1))
        cuts_w = self._spreads_w[where].cuts(SPREAD_GROUPS)
        return PowerBound(self._bound.alpha, highest_w, cuts_w, tuple(margins))


def _group(where: str, number: int) -> ScoreGroup:
    return ScoreGroup(where, str(number))
