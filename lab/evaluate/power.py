"""Predictions of the jobs of a log, their scores and what made one of them."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from rich.box import MARKDOWN
from rich.table import Table

from cli.progress import progress_of
from coplace_client.errors import UnusableError
from lab.evaluate.scores import Jobs, columns, groups, score
from lab.power_prediction.learner import Made, PowerLearner, PredictedPower, Reason, replay
from services.prediction.power_trees import train_forests
from shared.numerics.elementary import log2
from shared.process.folders import write_csv

_SHOWN: Final = 5


class EvaluatedPower(NamedTuple):
    """One prediction a job, what was counted on the way, and the lines of an explanation."""

    predictions: list[PredictedPower]
    notes: list[str]
    explained: list[str]


def evaluated(jobs: Jobs, *, lag: int, alpha: float, explain: str | None = None) -> EvaluatedPower:
    """Play a log. Raises UnusableError for a job to explain that is not in it."""
    if explain is not None and all(job.job_id != explain for job, _ in jobs):
        raise UnusableError(f"no job of the log is called {explain!r}")
    learner, explained = PowerLearner(train_forests, (alpha,)), list[str]()

    def ask(asked: PowerLearner, made: Made) -> None:
        if made.job.job_id == explain:
            explained.extend(_lines(made, asked.reason(made)))

    with progress_of(len(jobs), "jobs") as tell:
        found = list(replay(learner, jobs, lag, tell, ask))
    notes = [f"{count} jobs: {what}" for what, count in sorted(learner.counted.items())]
    return EvaluatedPower(found, notes, explained)


def table(jobs: Jobs, predictions: Sequence[PredictedPower], first: int, alpha: float) -> Table:
    """Return a table with a row for each kind of jobs from the `first` on."""
    printed = Table(box=MARKDOWN)
    printed.add_column("jobs of the log")
    bound = f"at or below the {100 * (1 - alpha):g} % bound"
    for name in ("jobs", "mean absolute error", bound, "bound above prediction"):
        printed.add_column(name, justify="right")
    actual, predicted, upper = columns(jobs[first:], predictions[first:])
    for name, of in groups(jobs, first).items():
        found = score(actual, predicted, upper[:, 0], of)
        if found.jobs:
            printed.add_row(
                *(name, str(found.jobs), f"{found.mape_percent:.2f} %"),
                *(f"{found.covered_percent:.2f} %", f"{found.width_w:.1f} W"),
            )
    return printed


def write_predictions(path: Path, jobs: Jobs, predictions: Sequence[PredictedPower]) -> None:
    """Write job_id, actual_w, predicted_w, upper_w; the actual one is empty where nobody measured
    it."""
    rows = (
        (
            *(job.job_id, _known(outcome.node_power_w)),
            *(round(each.predicted_w, 3), round(each.upper_w[0], 3)),
        )
        for (job, outcome), each in zip(jobs, predictions, strict=True)
    )
    write_csv(path, ("job_id", "actual_w", "predicted_w", "upper_w"), rows)


def _known(power_w: float) -> float | str:
    return "" if math.isnan(power_w) else power_w


def _lines(made: Made, reason: Reason) -> Iterator[str]:
    """What made a prediction, the weightiest first."""
    yield f"{made.job.job_id}: {made.prediction.predicted_w:.1f} W is the weighted median of"
    for name, share in sorted(reason.shares.items(), key=lambda item: -item[1])[:_SHOWN]:
        yield f"  {100 * share:5.1f} %  {reason.said_w[name]:7.1f} W  {name}"
    yield "what moved the extra trees' power, as a factor:"
    moved = sorted(reason.moved.items(), key=lambda item: -abs(log2(item[1])))[:_SHOWN]
    for name, factor in moved:
        yield f"  {factor:5.3f}  {name}"
    yield "what similar jobs drew, the newest first:"
    for shape, newest in reason.similar.items():
        told = ", ".join(f"{job_id} {power_w:.1f} W" for power_w, job_id in newest[:_SHOWN])
        yield f"  same {shape}: {told or 'none'}"
