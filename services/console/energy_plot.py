"""The picture of a learning phase: what kernels did against what the model says of them."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from services.console.energy_learning import Learned
from shared.domain.signature import Signature
from shared.policies.ear import project

Floats = NDArray[np.float64]


def measured_against_predicted(found: Learned, path: Path) -> None:
    """Draw time, power and energy of each kernel at each P-state as PNG, predicted from the highest
    P-state that it ran at."""
    measured, predicted, clocks_ghz = _points(found)
    figure = Figure(figsize=(14, 5), layout="constrained")
    titles = ("time, s", "power, W", "energy, J")
    for axis, title, x, y in zip(figure.subplots(1, 3), titles, measured, predicted, strict=True):
        _draw(axis, title, x, y, clocks_ghz)
    figure.suptitle(f"{found.module}: {found.fit.kernels} kernels")
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _draw(axis: Axes, title: str, x: Floats, y: Floats, clocks_ghz: Floats) -> None:
    low, high = min(x.min(), y.min()), max(x.max(), y.max())
    axis.plot([low, high], [low, high], color="grey", linewidth=0.8)
    points = axis.scatter(x, y, c=clocks_ghz, cmap="viridis", s=14)
    axis.set(title=title, xlabel="measured", ylabel="predicted")
    axis.figure.colorbar(points, ax=axis, label="P-state, GHz")


def _points(found: Learned) -> tuple[Floats, Floats, Floats]:
    """Measured and predicted (time, power, energy) as (3, points), and each point's P-state."""
    table = found.coefficients
    kernels = [(runs, max(runs)) for _, runs in sorted(found.kernels.items())]
    references = [
        Signature(str(n), table.node_model, ghz, *runs[ghz], 0.0, table.tpi_scale)
        for n, (runs, ghz) in enumerate(kernels)
    ]
    projection = project(table, references)
    points = [
        (run.time_s, run.power_w, projection.time_s[n, at], projection.power_w[n, at], ghz)
        for n, (runs, reference_ghz) in enumerate(kernels)
        for ghz, run in runs.items()
        if ghz != reference_ghz and projection.available[n, at := table.index_of(ghz)]
    ]
    time_s, power_w, found_s, found_w, clocks_ghz = np.array(points).T
    measured = np.stack([time_s, power_w, time_s * power_w])
    return measured, np.stack([found_s, found_w, found_s * found_w]), clocks_ghz
