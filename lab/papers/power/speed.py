"""What the predictor costs on many jobs: CPU time of one core, and memory."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import psutil

from lab.papers.power.generated import generated
from lab.power_prediction.learner import PowerLearner
from services.prediction.power_trees import train_forests

_LAG = 50
_ASKED = 10_000


class Speed(NamedTuple):
    """CPU seconds, and bytes that the process grew by."""

    jobs: int
    history_s: float
    training_s: float
    update_s: float
    asked: int
    forests_s: float
    prediction_s: float
    grown_bytes: int


class _Clock:
    def __init__(self) -> None:
        self.spent_s = 0.0

    @contextmanager
    def runs(self) -> Iterator[None]:
        """CPU time of what happens meanwhile."""
        began = time.process_time()
        yield
        self.spent_s += time.process_time() - began


def measured(jobs: int) -> Speed:
    """Learn a generated log from nothing, grow the trees once, then predict and update."""
    log = [(each.job, each.outcome) for each in generated(3, jobs, users=600)]
    grown = psutil.Process().memory_info().rss
    learner = PowerLearner(train_forests)
    history, training, update, forests, whole = (_Clock() for _ in range(5))
    with history.runs():
        for job, outcome in log:
            made = learner.decide(job, learner.submit(job), None)
            learner.know(job, outcome)
            learner.judge(made, outcome)
    with training.runs():
        learner.train()
    grown = psutil.Process().memory_info().rss - grown
    asked = log[-_ASKED:]
    with whole.runs():
        rows = [learner.submit(job) for job, _ in asked]
    with forests.runs():
        said = learner.predict([job for job, _ in asked], rows)
    assert said is not None
    with whole.runs():
        made_now = [
            learner.decide(job, row, each)
            for (job, _), row, each in zip(asked, rows, said, strict=True)
        ]
    with update.runs():
        for each, (job, outcome) in zip(made_now, asked, strict=True):
            learner.know(job, outcome)
            learner.judge(each, outcome)
    return Speed(
        *(jobs, history.spent_s, training.spent_s, update.spent_s / len(asked), len(asked)),
        forests.spent_s,
        whole.spent_s + forests.spent_s,
        grown,
    )


def warm() -> None:
    """Load what trains before anything is measured."""
    learner = PowerLearner(train_forests)
    for each in generated(1, 20):
        learner.judge(learner.decide(each.job, learner.submit(each.job), None), each.outcome)
    learner.train()
