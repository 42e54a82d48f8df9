"""The picture of a learning phase: what kernels did against what the model says of them."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from cli.energy.learning import Learned
from coplace_client.signature import Signature
from shared.models.ear import project
from shared.process.folders import path_within
from shared.process.pictures import save_png

Floats = NDArray[np.float64]


def write_plot(found: Learned, folder: Path) -> Path:
    """Draw time, power and energy of each kernel at each P-state as PNG, predicted from the highest
    P-state that it ran at and that leads to others; its path."""
    measured, predicted, clocks_ghz = _points(found)
    figure = Figure(figsize=(14, 5), layout="constrained")
    titles = ("time, s", "power, W", "energy, kJ")
    for axis, title, x, y in zip(figure.subplots(1, 3), titles, measured, predicted, strict=True):
        _draw(axis, title, x, y, clocks_ghz)
    figure.suptitle(f"{found.module}: {found.fit.kernels} kernels")
    path = path_within(folder, f"{found.module}_fit.png")
    save_png(figure, path)
    return path


def _draw(axis: Axes, title: str, x: Floats, y: Floats, clocks_ghz: Floats) -> None:
    low, high = min(x.min(), y.min()), max(x.max(), y.max())
    axis.plot([low, high], [low, high], color="grey", linewidth=0.8)
    points = axis.scatter(x, y, c=clocks_ghz, cmap="viridis", s=14)
    axis.set(title=title, xlabel="measured", ylabel="predicted")
    axis.figure.colorbar(points, ax=axis, label="P-state, GHz")


def _points(found: Learned) -> tuple[Floats, Floats, Floats]:
    """Measured and predicted (time, power, energy) as (3, points), and each point's P-state."""
    points = [point for name in sorted(found.kernels) for point in _points_of(found, name)]
    time_s, power_w, found_s, found_w, clocks_ghz = np.array(points).T
    measured = np.stack([time_s, power_w, time_s * power_w / 1e3])
    return measured, np.stack([found_s, found_w, found_s * found_w / 1e3]), clocks_ghz


def _points_of(found: Learned, kernel: str) -> Iterator[tuple[float, ...]]:
    """One kernel at the P-states that the highest usable one leads to."""
    table, runs = found.coefficients, found.kernels[kernel]
    for ghz in sorted(runs, reverse=True):
        reference = Signature(
            kernel, table.node_model, ghz, *runs[ghz], mem_gbps=0.0, tpi_scale=table.tpi_scale
        )
        projection = project(table, [reference])
        reached = {to: table.index_of(to) for to in runs if to != ghz}
        usable = {to: at for to, at in reached.items() if projection.available[0, at]}
        for to, at in usable.items():
            measured = runs[to].time_s, runs[to].power_w
            yield (*measured, projection.time_s[0, at], projection.power_w[0, at], to)
        if usable:
            return
