"""Pictures of a run: who ran where, and what power it drew."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from coplace.v1.control_pb2 import ClusterDeclared
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from cli.demo.bands import Bands
from cli.demo.history import History
from shared.messaging.domain_types import cores_of
from shared.runtime.pictures import save_png
from shared.simulation.units import runs

HOUR_US = 3.6e9


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
    cores.

    All boxes are one collection: thousands of artists of their own take seconds.
    """
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
            high = low + count * share
            boxes.append([(left, low), (right, low), (right, high), (left, high)])
            faces.append(colours[job.app_id])
    axis.add_collection(PolyCollection(boxes, facecolors=faces, linewidths=0))
    axis.set_xlim(0, _span_h(history, begin_us))


def _span_h(history: History, begin_us: int) -> float:
    return (max(job.ended_at_us for job in history.finished) - begin_us) / HOUR_US


def power(history: History, path: Path) -> None:
    """Draw the power of each cluster's jobs and of what idles over time, stacked, as PNG."""
    begin_us = min(job.submitted_at_us for job in history.finished)
    edges = np.unique([t for job in history.finished for t in (job.started_at_us, job.ended_at_us)])
    series, idle_w = {}, np.zeros(len(edges))
    for cluster in history.clusters:
        drawn_w, busy = _load(history, cluster.cluster, edges, cluster.cores_per_node)
        series[f"jobs on {cluster.cluster}"] = drawn_w / 1e3
        idle_w += (cluster.nodes - busy) * cluster.idle_power_w
    series["idle nodes and cores"] = idle_w / 1e3
    figure = Figure(figsize=(14, 4), layout="constrained")
    axis = figure.subplots()
    hours = (edges - begin_us) / HOUR_US
    axis.stackplot(hours, *series.values(), labels=list(series), step="post")
    axis.set(xlabel="hours since the first submission", ylabel="power, kW", title="Power over time")
    figure.legend(loc="outside lower center", ncols=len(series))
    save_png(figure, path)


def _load(
    history: History, cluster: str, edges: np.ndarray, cores: int
) -> tuple[np.ndarray, np.ndarray]:
    """Power of a cluster's jobs (W) and nodes in use (parts count as such) after each edge."""
    drawn_w, busy = np.zeros(len(edges)), np.zeros(len(edges))
    for job in history.finished:
        if job.cluster != cluster or job.ended_at_us <= job.started_at_us:
            continue
        first, last = np.searchsorted(edges, (job.started_at_us, job.ended_at_us))
        drawn_w[first:last] += job.energy_j / ((job.ended_at_us - job.started_at_us) / 1e6)
        busy[first:last] += cores_of(job) / cores
    return drawn_w, busy
