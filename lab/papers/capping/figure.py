"""The picture: bounded slowdowns by cap, a panel a set."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lab.papers.capping.instances import CAPS_PCT
from lab.papers.capping.tables import Row
from shared.process.pictures import save_png

_PUBLISHED: Final[Mapping[str, str]] = {"LS": "tab:blue", "BF": "tab:orange"}


def write_figure(path: Path, rows: Sequence[Row], contenders: Sequence[str]) -> None:
    """Draw lines of the contenders, dotted ones of what was published."""
    groups = list(dict.fromkeys(row.group for row in rows))
    figure = Figure(figsize=(4.2 * len(groups), 4.2), layout="constrained")
    panels = figure.subplots(1, len(groups), squeeze=False)[0]
    for axes, group in zip(panels, groups, strict=True):
        _panel(axes, [row for row in rows if row.group == group], contenders)
        axes.set_title(group)
    panels[0].set_ylabel("mean bounded slowdown, 60 s")
    panels[-1].legend(fontsize="small")
    save_png(figure, path)


def _panel(axes: Axes, rows: Sequence[Row], contenders: Sequence[str]) -> None:
    for name in contenders:
        means = [row.mean(name, "bounded_slowdown") for row in rows]
        axes.plot([row.cap_pct for row in rows], means, marker="o", label=name)
    for name, colour in _PUBLISHED.items():
        known = [(row.cap_pct, mean) for row in rows if (mean := row.published(name)) is not None]
        if known:
            axes.plot(*zip(*known, strict=True), ":", color=colour, label=f"{name}, published")
    axes.set_yscale("log")
    axes.set_xticks(CAPS_PCT)
    axes.invert_xaxis()
    axes.set_xlabel("cap, % of the power without one")
