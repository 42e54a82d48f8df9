"""The predictor of job power: history, forests and their blend, with an upper bound.

It is online: what becomes known of a job counts for the next one. Forests are grown anew whenever
what is known has grown by a share, so that all training together costs a few times the last one.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lab.power_prediction.history import (
    FEATURES,
    PREDICTORS,
    PowerHistory,
    jobs_of_user,
    predictions,
)
from shared.numerics.elementary import exp, exps, log
from shared.power_prediction.blend import Blend, weighted_median
from shared.power_prediction.bound import AdaptiveBound, JobGroups, ScoreGroup
from shared.power_prediction.forests import FOREST_PREDICTORS, Forests, Trainer
from shared.power_prediction.submission import MeasuredPower, Submission

Floats = NDArray[np.float64]

# What a node is taken to draw where nothing at all is known, W.
FALLBACK_POWER_W: Final = 100.0
_FIRST_TRAINING: Final = 300
_GROWTH: Final = 1.3
# Older jobs are forgotten by the forests.
MOST_TRAINED_ON: Final = 60_000
ALL_PREDICTORS: Final = (*PREDICTORS, *FOREST_PREDICTORS)
# What each counts until it errs: forests more than single statistics, models of users, which know
# the submission alone, little.
_OF_FORESTS: Final = (3.0, 3.0, 8.0, 0.1, 0.1)
_MASSES: Final = np.array([*(1.0 for _ in PREDICTORS), *_OF_FORESTS])
# Of a statistic of a shape that is new, which a coarser one replaces.
_TRUST_IN_STAND_INS: Final = 0.1

NO_HISTORY: Final = "nothing known: the fallback"
UNUSABLE: Final = "no power, or none that a node can draw: not learned"


class PredictedPower(NamedTuple):
    """Mean power of one node over the job's life, and the bound of each alpha, W."""

    predicted_w: float
    upper_w: tuple[float, ...]


class Made(NamedTuple):
    """A prediction and what it came from; `said` are ALL_PREDICTORS, ln W, None without any, and
    `trust` how much each can know of the job."""

    job: Submission
    row: list[float]
    said: Floats | None
    trust: Floats
    spread_w: float
    group: ScoreGroup
    prediction: PredictedPower


class Reason(NamedTuple):
    """What made a prediction: what each predictor said and its share of the weight, the factor by
    which each feature moved what the extra trees say, and the newest similar jobs, (W, id), by
    shape."""

    said_w: dict[str, float]
    shares: dict[str, float]
    moved: dict[str, float]
    similar: dict[str, tuple[tuple[float, str], ...]]


class PowerLearner:
    """Predicts jobs when they come and learns what they drew when that is known."""

    def __init__(self, train: Trainer, alphas: Sequence[float] = (0.1,)) -> None:
        self._train = train
        self._history = PowerHistory()
        self._blend = Blend(_MASSES)
        self._groups = JobGroups()
        self.bounds = [AdaptiveBound(alpha) for alpha in alphas]
        self._forests: Forests | None = None
        self._known: deque[tuple[Submission, list[float], float]] = deque(maxlen=MOST_TRAINED_ON)
        self._known_since_start = 0
        self._trained_on = 0
        self.trainings = 0
        self.counted: Counter[str] = Counter()

    def submit(self, job: Submission) -> list[float]:
        """Return the features of a job of what is known now."""
        return self._history.submit(job)

    def predict(self, jobs: Sequence[Submission], rows: Sequence[Sequence[float]]) -> Floats | None:
        """Return what the forests say of jobs, shape (jobs, FOREST_PREDICTORS); None while there
        are none. They say it of many jobs at once faster than of one after the other."""
        if self._forests is None or not jobs:
            return None
        users = [(job.cluster, job.user) for job in jobs]
        return self._forests.predict(users, np.array(rows, dtype=np.float64))

    def decide(self, job: Submission, row: list[float], of_forests: Floats | None) -> Made:
        """Return the prediction of a job and its bounds, of what predictors were worth until
        now."""
        said, trust = _said(row, of_forests)
        if said is None:
            self.counted[NO_HISTORY] += 1
            predicted_w = highest_said_w = FALLBACK_POWER_W
        else:
            predicted_w = exp(weighted_median(said, self._blend.weights(job, trust)))
            highest_said_w = exp(float(np.sort(said)[_NEARLY_HIGHEST]))
        spread_w = highest_said_w - predicted_w
        group = self._groups.of(job.cluster, spread_w, jobs_of_user(row))
        highest_w = self._groups.highest_w(job.cluster)
        bounds_w = (each.upper_w(predicted_w, group) for each in self.bounds)
        upper_w = tuple(max(predicted_w, min(each, highest_w)) for each in bounds_w)
        return Made(job, row, said, trust, spread_w, group, PredictedPower(predicted_w, upper_w))

    def know(self, job: Submission, outcome: MeasuredPower) -> None:
        """Remember what a job drew: the history of later jobs."""
        log_w = log(outcome.node_power_w) if outcome.is_usable else math.nan
        self._history.learn(job, log_w, outcome.runtime_s)

    def judge(self, made: Made, outcome: MeasuredPower) -> None:
        """Hold a prediction to what the job drew."""
        if not outcome.is_usable:
            self.counted[UNUSABLE] += 1
            return
        power_w, log_w = outcome.node_power_w, log(outcome.node_power_w)
        if made.said is not None:
            self._blend.learn(made.job, made.said, log_w)
        predicted_w, upper_w = made.prediction
        for bound, limit_w in zip(self.bounds, upper_w, strict=True):
            bound.learn(power_w - predicted_w, made.group, is_above=power_w > limit_w)
        self._groups.learn(made.job.cluster, made.spread_w, power_w)
        self._known.append((made.job, made.row, log_w))
        self._known_since_start += 1

    @property
    def is_due(self) -> bool:
        """Return whether what is known has grown enough to grow trees anew."""
        least = max(_FIRST_TRAINING, _GROWTH * self._trained_on)
        return self._known_since_start >= least

    def train(self) -> None:
        """Grow the forests anew, of the newest jobs whose power is known."""
        users = [(job.cluster, job.user) for job, _, _ in self._known]
        rows = np.array([row for _, row, _ in self._known], dtype=np.float64)
        self._forests = self._train(users, rows, np.array([log_w for _, _, log_w in self._known]))
        self._trained_on = self._known_since_start
        self.trainings += 1

    def reason(self, made: Made) -> Reason:
        """Return what made a prediction, of what is known now."""
        said_w: dict[str, float] = {}
        shares: dict[str, float] = {}
        if made.said is not None:
            said_w = dict(zip(ALL_PREDICTORS, exps(made.said).tolist(), strict=True))
            weights = self._blend.weights(made.job, made.trust)
            shares = dict(zip(ALL_PREDICTORS, weights.tolist(), strict=True))
        moved: dict[str, float] = {}
        if self._forests is not None:
            log_moved = self._forests.extra.contributions(np.array(made.row))
            moved = dict(zip(FEATURES, exps(log_moved).tolist(), strict=True))
        similar = {
            shape: tuple((exp(log_w), job_id) for log_w, job_id in newest)
            for shape, newest in self._history.similar(made.job).items()
        }
        return Reason(said_w, shares, moved, similar)


def _said(row: list[float], of_forests: Floats | None) -> tuple[Floats | None, Floats]:
    """ALL_PREDICTORS, ln W, and the trust in each. Without forests the user's mean replaces
    them."""
    of_history = predictions(row)
    if of_history is None:
        return None, np.ones(len(ALL_PREDICTORS))
    values, knows = of_history
    if of_forests is None:
        of_forests = np.full(len(FOREST_PREDICTORS), values[_USERS_MEAN])
        knows = [*knows, *(knows[_USERS_MEAN] for _ in FOREST_PREDICTORS)]
    else:
        knows = [*knows, *(True for _ in FOREST_PREDICTORS)]
    trust = np.where(knows, 1.0, _TRUST_IN_STAND_INS)
    return np.concatenate([values, of_forests]), trust


# What nine of ten predictors say at most.
_NEARLY_HIGHEST: Final = round(0.9 * (len(ALL_PREDICTORS) - 1))
_USERS_MEAN: Final = PREDICTORS.index("user: mean of about 5")


def replay(
    learner: PowerLearner,
    log_of_jobs: Sequence[tuple[Submission, MeasuredPower]],
    lag: int,
    tell: Callable[[int], object] = lambda _: None,
    ask: Callable[[PowerLearner, Made], object] = lambda *_: None,
) -> Iterator[PredictedPower]:
    """Predict jobs in the order of their submission; what a job drew is known from the `lag`-th job
    behind it on, since it was still running before. `tell` gets how many are done, `ask` each
    prediction while the learner knows what it was made of."""
    made: deque[Made] = deque()
    for first in range(0, len(log_of_jobs), lag):
        jobs = [job for job, _ in log_of_jobs[first : first + lag]]
        rows = []
        for at, job in enumerate(jobs, start=first):
            if at >= lag:
                learner.know(*log_of_jobs[at - lag])
            rows.append(learner.submit(job))
        of_forests = learner.predict(jobs, rows)
        for index, job in enumerate(jobs):
            if first + index >= lag:
                learner.judge(made.popleft(), log_of_jobs[first + index - lag][1])
            said = None if of_forests is None else of_forests[index]
            each = learner.decide(job, rows[index], said)
            made.append(each)
            ask(learner, each)
            yield each.prediction
        tell(first + len(jobs))
        if learner.is_due:
            learner.train()
