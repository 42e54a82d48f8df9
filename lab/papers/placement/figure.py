"""Gains over Min_runtime as bars with their intervals, as figure 4 of the paper shows them."""

from pathlib import Path
from typing import Final

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from lab.papers.placement.intervals import gain
from lab.papers.placement.measures import GAINS
from lab.papers.placement.rows import MIN_RUNTIME, ROWS, WORKLOADS, Grid
from shared.process.pictures import save_png

_COLOURS: Final = mpl.colormaps["tab20"].colors  # type: ignore[attr-defined]


def draw(grid: Grid, path: Path) -> None:
    """Draw one panel a workload, one group a measure, one bar a row, as PNG."""
    rows = [row for row in ROWS if row != MIN_RUNTIME]
    width = 0.8 / len(rows)
    figure = Figure(figsize=(11, 11), layout="constrained")
    for axis, workload in zip(figure.subplots(len(WORKLOADS), 1), WORKLOADS, strict=True):
        baseline = grid.of(workload, MIN_RUNTIME)
        for place, row in enumerate(rows):
            found = [gain(grid.of(workload, row), baseline, m) for m in GAINS.values()]
            axis.bar(
                np.arange(len(GAINS)) + (place + 0.5) * width - 0.4,
                [each.mean for each in found],
                width,
                yerr=[each.half or 0.0 for each in found],
                label=row.label,
                color=_COLOURS[(2 * place) % 20 + (place >= 10)],
                capsize=2,
            )
        axis.axhline(0, color="black", linewidth=0.8)
        axis.set_xticks(range(len(GAINS)), list(GAINS))
        axis.set(title=f"workload {workload}", ylabel="saved over min-runtime, %", ylim=(-110, 40))
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    save_png(figure, path)
