"""Pictures of a schedule: who ran where, what power was drawn, and policies side by side."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from shared.runtime.pictures import save_png
from shared.scheduling.workload import Floats
from shared.simulation.played import Played, Traits
from shared.simulation.steps import (
    change_times_s,
    idle_power_w,
    job_power_w,
    used_units,
)
from shared.simulation.units import assign_units, runs

HOUR_S: Final = 3600.0
# A Gantt chart of more jobs than this shows the first of them: no screen has as many pixels.
LARGEST_GANTT: Final = 10_000
# Up to so many jobs each box has a border and the chart the width of a screen.
FEW: Final = 1000
COLOURS: Final = mpl.colormaps["tab20"].colors  # type: ignore[attr-defined]


def gantt(played: Played, path: Path) -> None:
    """Draw each cluster's units over time as PNG, a colour an application.

    Jobs hold the lowest units that are free. Where applications are unknown neighbours in the
    queue differ in colour. Raises UnusableError where a schedule oversubscribes a cluster.
    """
    names = played.fleet.names
    figure = Figure(figsize=(14 if len(played.workload) <= FEW else 28, 4 * len(names)))
    figure.set_layout_engine("constrained")
    axes = np.atleast_1d(figure.subplots(len(names), 1, sharex=True))
    for index, (axis, name) in enumerate(zip(axes, names, strict=True)):
        title = name if len(played.workload) <= LARGEST_GANTT else f"{name}, the first jobs"
        axis.set(title=title, ylabel="unit", ylim=(0, played.fleet.units[index]))
        _draw_jobs(axis, played, index)
    axes[-1].set_xlabel("hours since the first submission")
    axes[-1].set_xlim(0, _shown_h(played))
    if played.traits is not None:
        figure.legend(handles=_patches(played.traits), loc="outside lower center", ncols=8)
    save_png(figure, path)


def power(played: Played, path: Path) -> None:
    """Draw power and utilisation over time as PNG: jobs of each cluster and what idles, stacked."""
    figure = Figure(figsize=(14, 8), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    time_s = change_times_s(played)
    hours = (time_s - time_s[0]) / HOUR_S
    layers, idle_w = {}, np.zeros(len(time_s))
    for index, name in enumerate(played.fleet.names):
        layers[f"jobs on {name}"] = job_power_w(played, index).at(time_s) / 1e3
        idle_w += idle_power_w(played, index, time_s)
        used = used_units(played, index).at(time_s) / played.fleet.units[index]
        bottom.plot(hours, 100 * used, label=name, drawstyle="steps-post", linewidth=0.8)
    layers["idle units"] = idle_w / 1e3
    top.stackplot(hours, *layers.values(), labels=list(layers), step="post")
    top.set(ylabel="power, kW", title="Power and utilisation over time")
    top.legend(loc="upper right", ncols=len(layers))
    bottom.set(xlabel="hours since the first submission", ylabel="units in use, %", ylim=(0, 105))
    bottom.legend(loc="upper right", ncols=len(played.fleet.names))
    save_png(figure, path)


def comparison(measures: Mapping[str, Mapping[str, Sequence[float]]], path: Path) -> None:
    """Draw bars as PNG: one panel a measure, one bar a case.

    `measures` holds for each measure and case the values of all seeds: the bar is their mean, the
    line on it goes from the least to the largest.
    """
    columns = min(3, len(measures))
    lines = -(-len(measures) // columns)
    bars = max(len(cases) for cases in measures.values())
    longest = max(len(case) for cases in measures.values() for case in cases)
    size = columns * (4 + longest / 12), lines * max(2, 1 + bars / 4)
    figure = Figure(figsize=size, layout="constrained")
    axes = np.atleast_1d(figure.subplots(lines, columns)).ravel()
    for axis, (measure, cases) in zip(axes, measures.items(), strict=False):
        _draw_bars(axis, measure, cases)
    for axis in axes[len(measures) :]:
        axis.set_axis_off()
    save_png(figure, path)


def _draw_bars(axis: Axes, measure: str, cases: Mapping[str, Sequence[float]]) -> None:
    means = np.array([np.mean(values) for values in cases.values()])
    low = means - [min(values) for values in cases.values()]
    high = [max(values) for values in cases.values()] - means
    faces = [COLOURS[2 * index % len(COLOURS)] for index in range(len(cases))]
    axis.barh(range(len(cases)), means, xerr=(low, high), color=faces, capsize=2)
    axis.set_yticks(range(len(cases)), list(cases))
    axis.invert_yaxis()
    axis.set_title(measure)


def _draw_jobs(axis: Axes, played: Played, cluster: int) -> None:
    """All boxes are one collection: thousands of artists of their own take seconds."""
    schedule, begin_s = played.schedule, played.workload.submit_s[0]
    here = np.flatnonzero((schedule.cluster == cluster) & (schedule.start_s <= _last_s(played)))
    start_s, end_s = schedule.start_s[here], schedule.end_s[here]
    held = assign_units(int(played.fleet.units[cluster]), played.used_units[here], start_s, end_s)
    colour = here if played.traits is None else played.traits.app[here]
    boxes, faces = [], []
    edges_h = zip((start_s - begin_s) / HOUR_S, (end_s - begin_s) / HOUR_S, strict=True)
    for (left, right), units, kind in zip(edges_h, held, colour.tolist(), strict=True):
        for first, count in runs(units):
            top = first + count
            boxes.append([(left, first), (right, first), (right, top), (left, top)])
            faces.append(COLOURS[kind % len(COLOURS)])
    border = 0.2 if len(played.workload) <= FEW else 0
    axis.add_collection(
        PolyCollection(boxes, facecolors=faces, edgecolors="white", linewidths=border)
    )


def _last_s(played: Played) -> float:
    """When the last job starts that a chart shows."""
    starts = played.schedule.start_s
    shown = min(LARGEST_GANTT, len(starts))
    return float(np.partition(starts, shown - 1)[shown - 1])


def _shown_h(played: Played) -> Floats:
    shown = played.schedule.start_s <= _last_s(played)
    span_s = played.schedule.end_s[shown].max() - played.workload.submit_s[0]
    return np.asarray(span_s / HOUR_S)


def _patches(traits: Traits) -> list[Patch]:
    return [
        Patch(color=COLOURS[index % len(COLOURS)], label=app)
        for index, app in enumerate(traits.apps)
    ]
