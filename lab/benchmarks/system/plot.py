"""Latency and CPU over the rate of submissions, as a picture."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lab.benchmarks.system.run import Measured
from lab.benchmarks.system.step import MOST_P99_S, Seen
from shared.process.pictures import save_png


def draw(measured: Measured, path: Path) -> None:
    """Draw the steps of both ladders as PNG."""
    figure = Figure(figsize=(12, 5), layout="constrained")
    latency, cpu = figure.subplots(1, 2)
    _draw_latency(latency, measured.waiting, "all wait", "C0")
    _draw_latency(latency, measured.flowing, "all start", "C1")
    latency.axhline(MOST_P99_S * 1e3, color="grey", linestyle=":", label="limit of p99")
    latency.set(xlabel="jobs submitted a second", ylabel="submission to outcome, ms", yscale="log")
    latency.legend()
    _draw_cpu(cpu, measured.waiting, measured.cores)
    save_png(figure, path)


def _draw_latency(axis: Axes, steps: Sequence[Seen], label: str, colour: str) -> None:
    rates_per_s = [seen.rate_per_s for seen in steps]
    axis.plot(rates_per_s, [seen.p50_ms for seen in steps], f"{colour}o-", label=f"{label}: p50")
    axis.plot(rates_per_s, [seen.p99_ms for seen in steps], f"{colour}o--", label=f"{label}: p99")


def _draw_cpu(axis: Axes, steps: Sequence[Seen], cores: int) -> None:
    """What each process used, one bar a rate, all waiting."""
    labels = [f"{seen.rate_per_s:.0f}" for seen in steps]
    bottom = np.zeros(len(steps))
    for name in steps[0].cpu_share:
        shares = np.array([seen.cpu_share[name] for seen in steps])
        axis.bar(labels, shares, bottom=bottom, label=name)
        bottom += shares
    axis.axhline(cores, color="grey", linestyle=":", label="all there are")
    axis.set(xlabel="jobs submitted a second, all wait", ylabel="cores in use")
    axis.legend(loc="center left", bbox_to_anchor=(1, 0.5))
