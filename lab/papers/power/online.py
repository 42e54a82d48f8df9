"""The learner of the service prediction on a log: what it would have published for placement."""

import math
from collections import deque
from collections.abc import Callable, Iterator

from lab.evaluate.scores import Jobs
from lab.power_prediction.learner import FALLBACK_POWER_W, PredictedPower
from services.prediction.tree_versions import TreeVersions
from shared.power_prediction.kinds import KindOfJob
from shared.power_prediction.online import EndedJob, OnlineLearner
from shared.power_prediction.similar_jobs import PowerAtStart
from shared.power_prediction.submission import Submission
from shared.streams.stages.stage import Round
from shared.streams.state.state import State

_FREQ_GHZ = 2.2


def replayed(
    jobs: Jobs, lag: int, alpha: float, tell: Callable[[int], object], *, grows_trees: bool
) -> Iterator[PredictedPower]:
    """Start each job when it comes, and ends when the `lag`-th behind it does: a round each. Queues
    take the place of applications. Without trees, what similar jobs drew is all that predicts."""
    learner, versions = OnlineLearner(alpha), TreeVersions(State({}))
    running: deque[tuple[EndedJob, bool]] = deque()
    for number, (job, outcome) in enumerate(jobs):
        if len(running) == lag:
            ended, is_usable = running.popleft()
            lesson = learner.learn([ended] if is_usable else [], learner.tables.number + 1)
            if grows_trees:
                versions.end_round(lesson.judged, learner, Round(number, number + 1))
        kind = kind_of(job)
        predicted = learner.tables.predict(kind)
        ended = EndedJob(job.job_id, kind, outcome.node_power_w, predicted)
        running.append((ended, outcome.is_usable))
        tell(number + 1)
        yield _told(predicted)


def kind_of(job: Submission) -> KindOfJob:
    """Return the kind of a job of a log; an unknown number of nodes or walltime is a kind of its
    own."""
    nodes = f"{job.nodes:.0f} units" if math.isfinite(job.nodes) else "unknown"
    walltime_s = job.walltime_s if math.isfinite(job.walltime_s) else 0.0
    return KindOfJob(job.cluster, _FREQ_GHZ, job.user, job.queue, nodes, walltime_s)


def _told(predicted: PowerAtStart | None) -> PredictedPower:
    if predicted is None:
        return PredictedPower(FALLBACK_POWER_W, (2 * FALLBACK_POWER_W,))
    return PredictedPower(predicted.predicted_w, (predicted.upper_w,))
