"""Simpler predictors, under the same rule of what is known when."""

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lab.evaluate.scores import Jobs
from lab.power_prediction.learner import Made
from services.prediction.power_trees import user_models
from shared.power_prediction.blend import Blend, weighted_median
from shared.power_prediction.forests import NEW_USER
from shared.power_prediction.submission import Submission, submission_row

Floats = NDArray[np.float64]

_ALPHA: Final = 0.3
# The ten: of the same shape and of the same nodes all that the learner uses, and one more.
_TEN: Final = tuple(range(10))


def global_mean(jobs: Jobs, first: int, lag: int) -> Floats:
    """Return the mean of the training share, W, for each job."""
    usable = [o.node_power_w for _, o in jobs[: first - lag] if o.is_usable]
    return np.full(len(jobs), float(np.mean(usable)))


def user_forest(jobs: Jobs, first: int, lag: int) -> Floats:
    """Predict by Borghesi et al. (2018), section 4.1: a random forest a user, trained once, of the
    training share; one for all where the user is new."""
    known = [(job, o.node_power_w) for job, o in jobs[: first - lag] if o.is_usable]
    rows = np.array([submission_row(job) for job, _ in known])
    users = [(job.cluster, job.user) for job, _ in known]
    models = user_models(users, rows, np.array([w for _, w in known]))
    said: dict[tuple[object, ...], float] = {}
    found = []
    for job, _ in jobs:
        user, row = (job.cluster, job.user), submission_row(job)
        if (key := (user, *row)) not in said:
            model = models.get(user) or models[NEW_USER]
            said[key] = float(model.forest.predict(np.array([row]))[0])
        found.append(said[key])
    return np.array(found)


def exponential_mean(jobs: Jobs, lag: int) -> Floats:
    """Predict by the powers of the user's jobs with as many nodes and the same walltime, else of
    the user's, else of all."""
    means: dict[Hashable, float] = {}
    found = []
    for at, (job, _) in enumerate(jobs):
        if at >= lag:
            known, outcome = jobs[at - lag]
            if outcome.is_usable:
                for key in _keys(known):
                    before = means.get(key, outcome.node_power_w)
                    means[key] = before + _ALPHA * (outcome.node_power_w - before)
        found.append(next((means[key] for key in _keys(job) if key in means), 100.0))
    return np.array(found)


def _keys(job: Submission) -> tuple[Hashable, ...]:
    return (job.user, job.nodes, job.walltime_s), job.user, ""


def weighted_median_of_ten(jobs: Jobs, made: Sequence[Made], lag: int) -> Floats:
    """Predict by ten of the history's predictors, by their recent error for this user and shape."""
    blend, found = Blend(np.ones(len(_TEN))), []
    for at, each in enumerate(made):
        if at >= lag:
            before, outcome = made[at - lag], jobs[at - lag][1]
            if before.said is not None and outcome.is_usable:
                log_w = float(np.log(outcome.node_power_w))
                blend.learn(before.job, before.said[list(_TEN)], log_w)
        if each.said is None:
            found.append(each.prediction.predicted_w)
        else:
            said = each.said[list(_TEN)]
            found.append(
                float(np.exp(weighted_median(said, blend.weights(each.job, np.ones(len(_TEN))))))
            )
    return np.array(found)


def said_by(made: Sequence[Made], index: int) -> Floats:
    """Return what one of the learner's predictors said of each job, W."""
    said = (m.prediction.predicted_w if m.said is None else np.exp(m.said[index]) for m in made)
    return np.array([float(each) for each in said])
