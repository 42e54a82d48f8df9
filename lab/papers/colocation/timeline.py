"""How the first jobs of a queue run on one server under each policy, as a picture (figure 9 of
Zacarias et al.): in an order of high degradation and in one of low."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lab.papers.colocation.queues import Queue, at_level, first_of, matchings
from shared.colocation.makespan import ServerRun, fifo, fifo_shared, paired
from shared.process.pictures import save_png

JOBS: Final = 10
_SHOWN: Final = ("Distributed Intensity", "blossom, predicted")
_LEVELS: Final = ("high", "low")
_HALVES: Final = 2
# Shorter runs, as a part of all that is shown, are too narrow for a number.
_READABLE: Final = 0.012


def write_timeline(path: Path, drawn: Sequence[Queue]) -> None:
    """Draw the first queue of which there are enough jobs in both orders."""
    orders = (
        [at_level(queue, level, number) for level in _LEVELS] for number, queue in enumerate(drawn)
    )
    by_level = next(each for each in orders if all(len(queue.apps) >= JOBS for queue in each))
    figure = Figure(figsize=(13, 7), layout="constrained")
    shown = [first_of(queue, JOBS) for queue in by_level]
    kinds = sorted({app for queue in shown for app in queue.apps})
    colors = {app: colormaps["tab10"](number) for number, app in enumerate(kinds)}
    for axes, level, queue in zip(figure.subplots(2, 1), _LEVELS, shown, strict=True):
        _draw(axes, queue, colors)
        axes.set(title=f"{level} degradation between neighbours in the order of arrival")
    save_png(figure, path)


def runs(queue: Queue) -> Iterator[tuple[str, list[ServerRun]]]:
    """Yield runs by policy, on one server."""
    yield "FIFO", fifo(queue.alone_s)
    yield "FIFO shared", list(fifo_shared(queue.alone_s, queue.measured))
    for name, matching in matchings(queue):
        if name in _SHOWN:
            yield name, paired(queue.alone_s, queue.measured, matching)


def halves(found: Sequence[ServerRun]) -> dict[int, int]:
    """Return which half of the server each job has, the first that is free; by job."""
    free_s, taken = [0.0] * _HALVES, {}
    for run in sorted(found, key=lambda run: run.begin_s):
        half = next(h for h, from_s in enumerate(free_s) if from_s <= run.begin_s + 1e-6)
        free_s[half], taken[run.job] = run.end_s, half
    return taken


def _draw(axes: Axes, queue: Queue, colors: Mapping[str, tuple[float, ...]]) -> None:
    policies, readable_s = [], _READABLE * float(queue.alone_s.sum())
    for row, (name, found) in enumerate(runs(queue)):
        policies.append(name)
        half = halves(found)
        for run in found:
            app = queue.apps[run.job]
            at, lasts_s = row + 0.4 * half[run.job], run.end_s - run.begin_s
            axes.barh(
                *(at, lasts_s, 0.36, run.begin_s),
                color=colors[app],
                edgecolor="black",
                linewidth=0.6,
            )
            if lasts_s > readable_s:
                axes.text(run.begin_s + lasts_s / 2, at, str(run.job), ha="center", va="center")
        end_s = max(run.end_s for run in found)
        axes.text(end_s, row + 0.2, f"  {end_s:,.0f} s", va="center")
    for app in sorted(set(queue.apps)):
        axes.barh(0, 0, color=colors[app], label=app)
    axes.set_yticks([row + 0.2 for row in range(len(policies))], policies)
    axes.invert_yaxis()
    axes.margins(x=0.08)
    axes.set_xlabel("s; jobs are numbered in the order of arrival")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
