"""The picture of the first answer: three figures of each run, and power over time under caps."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from coplace.v1.control_pb2 import POWER_SCOPE_REGION
from coplace.v1.jobs_pb2 import JobFinished
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lab.demo.caps import caps_in_force, metered, region_levels
from lab.demo.comparison import PRINTED, RunFigures, ShownFigure, change_percent
from lab.demo.history import History
from lab.simulation.steps import Steps
from shared.process.pictures import save_png

_COLOURS: Final = ("mediumseagreen", "yellowgreen", "darkgray", "lightgray")
# Power changes with each start and end: the means over so many equal spans are shown.
_SPANS: Final = 250


def draw(
    history: History,
    figures: Sequence[RunFigures],
    capped: Sequence[JobFinished],
    plain: Sequence[JobFinished],
    path: Path,
) -> None:
    """Draw the figures of all runs, and the power of two of them, as PNG."""
    figure = Figure(figsize=(13, 7), layout="constrained")
    grid = figure.add_gridspec(2, len(PRINTED), height_ratios=(1, 1.4))
    for place, shown in enumerate(PRINTED):
        axis = figure.add_subplot(grid[0, place])
        _bars(axis, shown, figures)
        axis.set_yticks(range(len(figures)), [e.name for e in figures] if place == 0 else [])
    figure.suptitle("percent: against EASY, cluster of submission; shorter bars are better")
    runs = {figures[1].name: capped, figures[2].name: plain}
    _power(figure.add_subplot(grid[1, :]), history, runs)
    save_png(figure, path)


def _bars(axis: Axes, shown: ShownFigure, figures: Sequence[RunFigures]) -> None:
    """Draw a bar of each run with its value in it, the first on top."""
    values, places = [shown.of(each) for each in figures], range(len(figures))
    axis.barh(places, values, color=_COLOURS)
    base = figures[2]
    for place, run in zip(places, figures, strict=True):
        text = shown.text(shown.of(run))
        if run is not base:
            text = f"{text}  {change_percent(shown, run, base):+.1f} %"
        axis.annotate(text, (0, place), (5, 0), textcoords="offset points", va="center")
    axis.set_xticks([])
    axis.set_title(shown.name, fontsize="medium")
    axis.invert_yaxis()


def _power(axis: Axes, history: History, runs: Mapping[str, Sequence[JobFinished]]) -> None:
    """Draw what the region drew by the meters, idle nodes included, and its cap."""
    jobs = [job for finished in runs.values() for job in finished]
    begin_s = min(job.submitted_at_us for job in jobs) / 1e6
    end_s = max(job.ended_at_us for job in jobs) / 1e6
    edges_s = np.linspace(begin_s, end_s, _SPANS + 1)
    for (name, finished), colour in zip(runs.items(), _COLOURS[1:3], strict=True):
        drawn = region_levels(history.clusters, finished, metered)
        times_s = np.array([-np.inf, *(time_us / 1e6 for time_us, _ in drawn)])
        steps = Steps(times_s, np.array([0.0, *(level_w for _, level_w in drawn)]))
        kw = steps.means(edges_s) / 1e3
        axis.stairs(kw, (edges_s - begin_s) / 3600, color=colour, label=name, linewidth=1.5)
    for cap in caps_in_force(history.caps):
        if cap.scope == POWER_SCOPE_REGION:
            at_h = [(step.from_us / 1e6 - begin_s) / 3600 for step in cap.steps]
            kw_of = [s.watts / 1e3 if s.HasField("watts") else np.nan for s in cap.steps]
            axis.step(
                at_h,
                kw_of,
                "r--",
                where="post",
                label="cap of the region, which EASY does not know",
            )
    axis.set_xlim(0, (end_s - begin_s) / 3600)
    axis.set(xlabel="hours since the first submission", ylabel="power of the region, kW")
    axis.legend(loc="upper right")
