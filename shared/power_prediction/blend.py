"""One prediction out of several: the median, each weighted by how wrong it was of late.

Weights fall exponentially with the sum of recent losses, as in Cesa-Bianchi and Lugosi,
"Prediction, Learning, and Games" (2006), section 2.2, with losses that are forgotten. They are kept
for the job's shape, for its user's jobs on as many nodes, for its user and for everybody: who was
right for this user's jobs of this shape counts most, and the coarser ones where these are few.
"""

from collections.abc import Hashable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared.numerics.elementary import exps
from shared.power_prediction.submission import Submission

Floats = NDArray[np.float64]

# Losses are relative errors; none counts more than this.
_MOST_LOSS: Final = 1.5
_RATE: Final = 3.0
MOST_CONTEXTS: Final = 50_000


class Context(NamedTuple):
    """Losses of one kind of jobs: what stays of them with each job, and how much they count."""

    name: str
    kept_share: float
    counts: float


CONTEXTS: Final = (
    Context("user, queue, nodes, walltime", 0.8, 1.0),
    Context("user, nodes", 0.9, 0.3),
    Context("user", 0.95, 0.3),
    Context("all", 0.999, 0.003),
)


class Blend:
    """A weighted median of predictors, each of which counts as `masses` says until it errs."""

    def __init__(self, masses: Floats) -> None:
        self._masses = masses
        self._losses: list[dict[Hashable, Floats]] = [{} for _ in CONTEXTS]

    def weights(self, job: Submission, trust: Floats) -> Floats:
        """Return the share of each predictor for a job, shape (predictors,); `trust` is a factor of
        each that the job itself gives."""
        total = np.zeros(len(self._masses))
        for context, table, key in zip(CONTEXTS, self._losses, _keys(job), strict=True):
            losses = table.get(key)
            if losses is not None:
                total = total + context.counts * losses
        return shares_of(total, self._masses * trust)

    def learn(self, job: Submission, predicted: Floats, log_w: float) -> None:
        """Learn how wrong each predictor was about a job, all in log W."""
        loss = losses_of(predicted, log_w)
        for context, table, key in zip(CONTEXTS, self._losses, _keys(job), strict=True):
            before = table.pop(key, None)
            table[key] = loss if before is None else context.kept_share * before + loss
            if len(table) > MOST_CONTEXTS:
                del table[next(iter(table))]


def shares_of(losses: Floats, masses: Floats) -> Floats:
    """Return each predictor's share, by the sum of its recent losses and what it counts without
    any."""
    weights = masses * exps(-_RATE * (losses - losses.min()))
    return np.asarray(weights / weights.sum())


def losses_of(predicted: Floats, log_w: float) -> Floats:
    """Return how wrong each predictor was about a job, all in ln W."""
    return np.minimum(np.abs(exps(predicted - log_w) - 1), _MOST_LOSS)


def weighted_median(values: Floats, weights: Floats) -> float:
    """Return the least value that at least half of the weight lies at or below."""
    order = values.argsort(kind="stable")
    below = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(below, below[-1] / 2)])


def _keys(job: Submission) -> tuple[Hashable, ...]:
    user = (job.cluster, job.user)
    # The text of a number that is missing is always the same; the number is never.
    nodes = str(job.nodes)
    return (*user, job.queue, nodes, str(job.walltime_s)), (*user, nodes), user, job.cluster
