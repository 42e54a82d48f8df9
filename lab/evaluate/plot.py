"""The picture of an evaluation: what was predicted against the meter, and the bound over time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.figure import Figure

from lab.evaluate.scores import Jobs, columns, score
from lab.power_prediction.learner import PredictedPower
from shared.process.pictures import save_png

_PARTS: Final = 50


def write_plot(path: Path, jobs: Jobs, predictions: Sequence[PredictedPower], alpha: float) -> None:
    """Draw as PNG the jobs whose power is usable."""
    actual, predicted, upper = columns(jobs, predictions)
    usable = np.flatnonzero([outcome.is_usable for _, outcome in jobs])
    figure = Figure(figsize=(14, 5), layout="constrained")
    scatter, errors, covered = figure.subplots(1, 3)
    scatter.plot(actual[usable], predicted[usable], ".", markersize=2, alpha=0.3)
    scatter.axline((0, 0), slope=1, color="grey", linewidth=0.8)
    scatter.set(title="power of a node, W", xlabel="measured", ylabel="predicted")
    parts = [part for part in np.array_split(usable, _PARTS) if len(part)]
    masks = [np.isin(np.arange(len(jobs)), part) for part in parts]
    scores = [score(actual, predicted, upper[:, 0], mask) for mask in masks]
    at = [float(part.mean()) for part in parts]
    errors.plot(at, [each.mape_percent for each in scores])
    errors.set(title="mean absolute error, %", xlabel="job of the test share", ylim=(0, None))
    covered.plot(at, [each.covered_percent for each in scores])
    covered.axhline(100 * (1 - alpha), color="grey", linewidth=0.8)
    covered.set(title="at or below the bound, %", xlabel="job of the test share")
    save_png(figure, path)
