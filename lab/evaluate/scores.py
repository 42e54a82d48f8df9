"""How good predictions of power were."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lab.power_prediction.learner import PredictedPower
from shared.power_prediction.submission import MeasuredPower, Submission

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Jobs = Sequence[tuple[Submission, MeasuredPower]]

FIFTHS = 5
_FIRST_JOBS = 10


class Score(NamedTuple):
    """Of some jobs: mean absolute percent error, the share at or below the bound, and how far the
    bound lies above the prediction in the mean."""

    jobs: int
    mape_percent: float
    covered_percent: float
    width_w: float


def score(actual_w: Floats, predicted_w: Floats, upper_w: Floats, of: Mask) -> Score:
    """Score the jobs that are `True`; NaN where there are none."""
    if not of.any():
        return Score(0, np.nan, np.nan, np.nan)
    actual, predicted, upper = actual_w[of], predicted_w[of], upper_w[of]
    return Score(
        int(of.sum()),
        100 * float(np.mean(np.abs(predicted - actual) / actual)),
        100 * float(np.mean(actual <= upper)),
        float(np.mean(upper - predicted)),
    )


def first_of_test(jobs: int, train_share: float) -> int:
    """Return how many of so many jobs are in the training share: whole ones, 0.7 of 10 are 7."""
    return int(jobs * train_share + 1e-9)


def groups(jobs: Jobs, first: int) -> dict[str, Mask]:
    """Return kinds of the jobs from the `first` on, whose power is usable: all, fifths, of users
    who had no job before, and each user's first ten of the log."""
    usable = np.array([outcome.is_usable for _, outcome in jobs[first:]], dtype=np.bool_)
    fifth = np.arange(len(usable)) * FIFTHS // max(1, len(usable))
    earlier = {(job.cluster, job.user) for job, _ in jobs[:first]}
    is_new = np.array([(j.cluster, j.user) not in earlier for j, _ in jobs[first:]], dtype=np.bool_)
    parts = {f"fifth {n + 1}": usable & (fifth == n) for n in range(FIFTHS)}
    return {
        "all of the test share": usable,
        **parts,
        "of users without earlier jobs": usable & is_new,
        "first ten jobs of each user": usable & _are_first(jobs)[first:],
    }


def _are_first(jobs: Jobs) -> Mask:
    counted: Counter[tuple[str, str]] = Counter()
    found = []
    for job, _ in jobs:
        found.append(counted[job.cluster, job.user] < _FIRST_JOBS)
        counted[job.cluster, job.user] += 1
    return np.array(found, dtype=np.bool_)


def columns(jobs: Jobs, predictions: Sequence[PredictedPower]) -> tuple[Floats, Floats, Floats]:
    """Return actual power (jobs,), predicted power (jobs,) and bounds (jobs, alphas), W."""
    actual = np.array([outcome.node_power_w for _, outcome in jobs])
    predicted = np.array([each.predicted_w for each in predictions])
    return actual, predicted, np.array([each.upper_w for each in predictions])
