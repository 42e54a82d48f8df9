"""Pictures of a schedule: who ran where, what was in use and waited for, what power was drawn, and
policies side by side."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from lab.simulation.steps import (
    Steps,
    idle_power_w,
    job_power_w,
    power_w,
    used_units,
    waited_units,
)
from lab.simulation.units import assign_units, runs
from shared.process.pictures import save_png
from shared.replay.played import Played, Traits
from shared.scheduling.workload import Floats, Mask

HOUR_S: Final = 3600.0
# A Gantt chart of more jobs shows nothing: boxes are thinner than a pixel.
LARGEST_GANTT: Final = 2000
# Up to so many jobs each box has a border.
FEW: Final = 1000
COLOURS: Final = mpl.colormaps["tab20"].colors  # type: ignore[attr-defined]
# A curve of more changes is drawn as the means over so many equal spans.
_SPANS: Final = 1000
# Days are shown from here on.
_LONG_H: Final = 240.0
_HIGHEST: Final[Mapping[str, Any]] = {"color": "tab:red", "linewidth": 0.5, "label": "highest draw"}
_CAP: Final[Mapping[str, Any]] = {
    "color": "black",
    "linestyle": "--",
    "linewidth": 1,
    "label": "cap",
}


@dataclass(frozen=True, slots=True, eq=False)
class PowerPanel:
    """What is drawn of power under one cap, in W: `layers` by name from the bottom up, and the
    cap on all of them, where there is one."""

    title: str
    layers: Mapping[str, Steps]
    cap: Steps | None = None


def gantt(played: Played, path: Path) -> None:
    """Draw each cluster's units over time as PNG, a colour an application.

    Jobs hold the lowest units that are free. Where applications are unknown neighbours in the
    queue differ in colour. Raises UnusableError where a schedule oversubscribes a cluster.
    """
    names = played.fleet.names
    figure = Figure(figsize=(14, 4 * len(names)), layout="constrained")
    axes = np.atleast_1d(figure.subplots(len(names), 1, sharex=True))
    for index, (axis, name) in enumerate(zip(axes, names, strict=True)):
        axis.set(title=name, ylabel="unit", ylim=(0, played.fleet.units[index]))
        _draw_jobs(axis, played, index)
    axes[-1].set_xlabel("hours since the first submission")
    axes[-1].set_xlim(0, played.makespan_s / HOUR_S)
    if played.traits is not None:
        figure.legend(handles=_patches(played.traits), loc="outside lower center", ncols=8)
    save_png(figure, path)


def load(played: Played, path: Path) -> None:
    """Draw as PNG how many units of each cluster are in use, and how many are waited for, by size
    of job, over time."""
    names, classes = played.fleet.names, list(_sizes(played))
    figure = Figure(figsize=(14, 3 * (len(names) + 1)), layout="constrained")
    *clusters, waiting = figure.subplots(len(names) + 1, 1, sharex=True)
    edges_s, unit, unit_s = _span(played.workload.submit_s[0], played.schedule.end_s.max())
    colours = [*mpl.colormaps["viridis"](np.linspace(0, 1, len(classes)))]
    for index, (axis, name) in enumerate(zip(clusters, names, strict=True)):
        here = played.schedule.cluster == index
        layers = [used_units(played, of & here) for _, of in classes]
        _stack(axis, edges_s, unit_s, layers, colours)
        axis.axhline(float(played.fleet.units[index]), color="black", linewidth=0.8)
        axis.set(title=f"{name}: in use of {played.fleet.units[index]:,} units", ylabel="units")
    _stack(waiting, edges_s, unit_s, [waited_units(played, of) for _, of in classes], colours)
    waiting.set(title="waited for", ylabel="units", xlabel=f"{unit} since the first submission")
    patches = [
        Patch(color=colour, label=label)
        for colour, (label, _) in zip(colours, classes, strict=True)
    ]
    figure.legend(handles=patches, loc="outside lower center", ncols=8, title="units of a job")
    save_png(figure, path)


def power(played: Played, path: Path) -> None:
    """Draw the power of each cluster over time as PNG, under its cap: jobs, and what idles; and
    that of the clusters under each cap over several, on each other."""
    begin_s, end_s = played.workload.submit_s[0], played.schedule.end_s.max()
    draw_power(list(_panels(played)), (float(begin_s), float(end_s)), path)


def draw_power(panels: Sequence[PowerPanel], span_s: tuple[float, float], path: Path) -> None:
    """Draw panels of power below each other as PNG, from the first submission to the last end."""
    figure = Figure(figsize=(14, max(4, 3 * len(panels))), layout="constrained")
    axes = np.atleast_1d(figure.subplots(len(panels), 1, sharex=True))
    edges_s, unit, unit_s = _span(*span_s)
    for axis, panel in zip(axes, panels, strict=True):
        layers = [Steps(each.time_s, each.value / 1e3) for each in panel.layers.values()]
        _stack(axis, edges_s, unit_s, layers, COLOURS, list(panel.layers))
        _draw_cap(axis, panel, (edges_s, unit_s))
        axis.set(title=panel.title, ylabel="power, kW")
        axis.legend(loc="upper left", bbox_to_anchor=(1, 1))
    axes[-1].set_xlabel(f"{unit} since the first submission")
    save_png(figure, path)


def _panels(played: Played) -> Iterator[PowerPanel]:
    fleet = played.fleet
    for index, name in enumerate(fleet.names):
        layers = {"jobs": job_power_w(played, index)}
        if fleet.idle_w[index]:
            layers["idle units"] = idle_power_w(played, index)
        cap_w = fleet.cap_w[index]
        cap = None if cap_w == inf else Steps(np.array([-inf]), np.array([cap_w]))
        yield PowerPanel(name, layers, cap)
    for shared in fleet.shared_caps:
        layers = {fleet.names[index]: power_w(played, [index]) for index in shared.clusters}
        cap = Steps(np.array([-inf]), np.array([shared.cap_w]))
        yield PowerPanel(shared.subject, layers, cap)


def _draw_cap(axis: Axes, panel: PowerPanel, span: tuple[Floats, float]) -> None:
    """The cap, and the highest draw under it in each span, which means hide."""
    if panel.cap is None:
        return
    edges_s, unit_s = span
    at = (edges_s - edges_s[0]) / unit_s
    under = Steps.sum_of([*panel.layers.values()])
    highest_kw = under.highest(edges_s) / 1e3
    axis.step(at, np.append(highest_kw, highest_kw[-1]), where="post", **_HIGHEST)
    cap_kw = panel.cap.at(edges_s) / 1e3
    axis.step(at, cap_kw, where="post", **_CAP)


def _span(begin_s: float, end_s: float) -> tuple[Floats, str, float]:
    """The edges of the spans that are drawn, and what their axis counts: its name, its seconds."""
    edges_s = np.linspace(begin_s, end_s, _SPANS + 1)
    is_long = end_s - begin_s > _LONG_H * HOUR_S
    return (edges_s, "days", 24 * HOUR_S) if is_long else (edges_s, "hours", HOUR_S)


def _stack(
    axis: Axes,
    edges_s: Floats,
    unit_s: float,
    layers: Sequence[Steps],
    colours: Sequence[Any],
    labels: Sequence[str] = (),
) -> None:
    """The mean of each layer over each span, on those below it."""
    means = [each.means(edges_s) for each in layers]
    at = (edges_s - edges_s[0]) / unit_s
    drawn = [np.append(each, each[-1]) for each in means]
    axis.stackplot(at, *drawn, labels=labels, colors=colours, step="post", linewidth=0)
    axis.set_xlim(0, at[-1])


def _sizes(played: Played) -> Iterator[tuple[str, Mask]]:
    """Classes of sizes that jobs have, up to 1, 4, 16 units and so on: what, and which jobs."""
    units, least, most = played.used_units, 1, 1
    while least <= units.max():
        of = (least <= units) & (units <= most)
        if of.any():
            last = min(most, int(units.max()))
            yield (f"{least:,}" if least == last else f"{least:,} to {last:,}"), of
        least, most = most + 1, 4 * most


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
    schedule, begin_s = played.schedule, played.workload.submit_s[0]
    here = np.flatnonzero(schedule.cluster == cluster)
    start_s, end_s = schedule.start_s[here], schedule.end_s[here]
    held = assign_units(int(played.fleet.units[cluster]), played.used_units[here], start_s, end_s)
    colour = here if played.traits is None else played.traits.app[here]
    boxes, faces = [], []
    edges_h = zip((start_s - begin_s) / HOUR_S, (end_s - begin_s) / HOUR_S, strict=True)
    for (left, right), units, kind in zip(edges_h, held, colour.tolist(), strict=True):
        for first, count in runs(units):
            boxes.append((left, right, first, first + count))
            faces.append(COLOURS[kind % len(COLOURS)])
    draw_boxes(axis, boxes, faces, border=0.2 if len(played.workload) <= FEW else 0)


def draw_boxes(
    axis: Axes, boxes: Sequence[tuple[float, ...]], faces: Sequence[Any], border: float = 0
) -> None:
    """Draw boxes, each by its left, right, lower and upper edge, with a white border.

    All are one collection: thousands of artists of their own take seconds.
    """
    corners = [
        [(left, low), (right, low), (right, high), (left, high)] for left, right, low, high in boxes
    ]
    axis.add_collection(
        PolyCollection(corners, facecolors=faces, edgecolors="white", linewidths=border)
    )


def _patches(traits: Traits) -> list[Patch]:
    return [
        Patch(color=COLOURS[index % len(COLOURS)], label=app)
        for index, app in enumerate(traits.apps)
    ]
