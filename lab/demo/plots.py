"""Pictures of a run: who ran where, and what power it drew."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from coplace.v1.control_pb2 import (
    POWER_SCOPE_CLUSTER,
    POWER_SCOPE_REGION,
    ClusterDeclared,
    PowerCapDeclared,
)
from coplace.v1.placement_pb2 import (
    ACTION_KIND_END,
    ACTION_KIND_RESUME,
    ACTION_KIND_SET_PSTATE,
    ACTION_KIND_SUSPEND,
)
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from lab.demo.bands import Bands
from lab.demo.caps import Change, as_predicted, caps_in_force, metered, region_levels
from lab.demo.history import History
from lab.simulation.plots import PowerPanel, draw_boxes, draw_power
from lab.simulation.steps import Steps, stack
from lab.simulation.units import runs
from shared.catalogue.payloads.domain_types import cores_of
from shared.process.pictures import save_png

HOUR_US = 3.6e9
_DONE: Final = {
    (ACTION_KIND_SET_PSTATE, True): "clocked down",
    (ACTION_KIND_SUSPEND, True): "suspended",
    (ACTION_KIND_END, True): "ended",
    (ACTION_KIND_RESUME, False): "resumed",
    (ACTION_KIND_SET_PSTATE, False): "clocked up",
}


def gantt(history: History, path: Path) -> None:
    """Draw each cluster's nodes over time, a colour an application, as PNG."""
    apps = sorted({job.app_id for job in history.finished})
    colours = dict(zip(apps, mpl.colormaps["tab20"](np.linspace(0, 1, len(apps))), strict=True))
    begin_us = min(job.submitted_at_us for job in history.finished)
    figure = Figure(figsize=(14, 4 * len(history.clusters)), layout="constrained")
    axes = np.atleast_1d(figure.subplots(len(history.clusters), 1, sharex=True))
    for axis, cluster in zip(axes, history.clusters, strict=True):
        axis.set(title=f"{cluster.cluster} ({cluster.node_model})", ylabel="node")
        axis.set_ylim(0, cluster.nodes)
        _draw_jobs(axis, history, cluster, begin_us, colours)
    axes[-1].set_xlabel("hours since the first submission")
    patches = [Patch(color=colours[app], label=app or "no application") for app in apps]
    figure.legend(handles=patches, loc="outside lower center", ncols=8)
    save_png(figure, path)


def _draw_jobs(
    axis: Axes,
    history: History,
    cluster: ClusterDeclared,
    begin_us: int,
    colours: dict[str, np.ndarray],
) -> None:
    """Draw the jobs of one cluster; a job takes the share of a node's height that it has of its
    cores."""
    starts = history.starts()
    boxes, faces, bands = [], [], Bands()
    here = [job for job in history.finished if job.cluster == cluster.cluster]
    for job in sorted(here, key=lambda job: (job.started_at_us, job.job_id)):
        decision = starts[job.job_id, job.attempt]
        nodes = sorted(decision.node_indices)
        share = job.cores_per_node / cluster.cores_per_node
        beside = bands.place(nodes, share, job.started_at_us, job.ended_at_us)
        left, right = ((at - begin_us) / HOUR_US for at in (job.started_at_us, job.ended_at_us))
        for first, count in runs(nodes):
            low = first + count * beside
            boxes.append((left, right, low, low + count * share))
            faces.append(colours[job.app_id])
    draw_boxes(axis, boxes, faces)
    axis.set_xlim(0, _span_h(history, begin_us))


def _span_h(history: History, begin_us: int) -> float:
    return (max(job.ended_at_us for job in history.finished) - begin_us) / HOUR_US


def power(history: History, path: Path) -> None:
    """Draw the power of each cluster and of all over time as PNG, each under its cap."""
    begin_s = min(job.submitted_at_us for job in history.finished) / 1e6
    end_s = max(job.ended_at_us for job in history.finished) / 1e6
    drawn = {cluster.cluster: _drawn(history, cluster) for cluster in history.clusters}
    caps = {(cap.scope, cap.name): _steps(cap) for cap in caps_in_force(history.caps)}
    panels = [
        PowerPanel(
            name,
            {"jobs": jobs, "idle nodes and cores": idle},
            caps.get((POWER_SCOPE_CLUSTER, name)),
        )
        for name, (jobs, idle) in drawn.items()
    ]
    layers = {f"jobs on {name}": jobs for name, (jobs, _) in drawn.items()}
    layers["idle nodes and cores"] = Steps.sum_of([idle for _, idle in drawn.values()])
    panels.append(PowerPanel("region", layers, caps.get((POWER_SCOPE_REGION, ""))))
    draw_power(panels, (begin_s, end_s), path)


def falling_cap(history: History, path: Path) -> None:
    """Draw as PNG how the region kept to the cap that fell last, from an hour before to an hour
    after it: predicted, metered, and what was done to jobs that ran. Nothing but axes where it has
    none."""
    figure = Figure(figsize=(12, 5), layout="constrained")
    axis = figure.subplots()
    declared = [cap for cap in history.caps if cap.scope == POWER_SCOPE_REGION]
    if declared:
        begin_us, end_us = (declared[-1].steps[i].from_us for i in (0, -1))
        _draw_levels(axis, history, declared, begin_us)
        _draw_actions(axis, history, begin_us)
        axis.set_xlim(-1, (end_us - begin_us) / HOUR_US + 1)
        axis.legend(loc="upper left", bbox_to_anchor=(1, 1))
    axis.set(xlabel="hours since the cap fell", ylabel="power of the region, kW")
    save_png(figure, path)


def _draw_levels(
    axis: Axes, history: History, declared: Sequence[PowerCapDeclared], begin_us: int
) -> None:
    [merged] = caps_in_force(declared)
    caps = [
        (step.from_us, step.watts if step.HasField("watts") else np.nan) for step in merged.steps
    ]
    run = history.clusters, history.finished
    lines: tuple[tuple[str, list[Change], dict[str, Any]], ...] = (
        ("cap", caps, {"color": "black", "linestyle": "--"}),
        ("predicted", region_levels(*run, as_predicted(history)), {"color": "tab:blue"}),
        ("metered", region_levels(*run, metered), {"color": "tab:red"}),
    )
    for label, levels, style in lines:
        hours = [(time_us - begin_us) / HOUR_US for time_us, _ in levels]
        axis.step(
            hours, [w / 1e3 for _, w in levels], where="post", label=label, linewidth=1, **style
        )


def _draw_actions(axis: Axes, history: History, begin_us: int) -> None:
    """Draw below the curves a row of marks for each measure and for its reversal, when done."""
    done_h: dict[tuple[int, bool], list[float]] = {kind: [] for kind in _DONE}
    for decided, done_us in history.done_actions():
        action = decided.action
        kind = action.kind, bool(action.power.shortages)
        done_h.setdefault(kind, []).append((done_us - begin_us) / HOUR_US)
    low_kw = sum(each.nodes * each.idle_power_w for each in history.clusters) / 1e3
    taken = [(_DONE[kind], hours) for kind, hours in done_h.items() if hours and kind in _DONE]
    for row, (label, hours) in enumerate(taken):
        height_kw = low_kw * (1 - 0.08 * row)
        axis.plot(hours, [height_kw] * len(hours), "|", label=label, markersize=9)


def _drawn(history: History, cluster: ClusterDeclared) -> tuple[Steps, Steps]:
    """Power of a cluster's jobs, and of its nodes that idle, parts of nodes too (W)."""
    here = [
        job
        for job in history.finished
        if job.cluster == cluster.cluster and job.started_at_us < job.ended_at_us
    ]
    start_s = np.array([job.started_at_us / 1e6 for job in here])
    end_s = np.array([job.ended_at_us / 1e6 for job in here])
    energy_j = np.array([job.energy_j for job in here])
    nodes = np.array([float(cores_of(job)) / cluster.cores_per_node for job in here])
    busy = stack(start_s, end_s, nodes)
    idle_w = (cluster.nodes - busy.value) * cluster.idle_power_w
    return stack(start_s, end_s, energy_j / (end_s - start_s)), Steps(busy.time_s, idle_w)


def _steps(cap: PowerCapDeclared) -> Steps:
    """A cap over time; where there is none, its curve has a gap."""
    watts = [step.watts if step.HasField("watts") else np.nan for step in cap.steps]
    return Steps(
        np.array([-np.inf, *(step.from_us / 1e6 for step in cap.steps)]),
        np.array([np.nan, *watts]),
    )
