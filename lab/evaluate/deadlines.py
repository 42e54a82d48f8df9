"""Results of slack-based scheduling with deadlines on groups that were measured, with what is
learned from others: Dauwe et al. (2016), section 6."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.box import MARKDOWN
from rich.table import Table

from cli.progress import progress_of
from coplace_client.errors import UnusableError
from lab.evaluate.group_features import FEATURE_SETS, FEATURES, Floats, GroupRun, features
from lab.evaluate.group_files import GroupFiles
from lab.evaluate.groups import ratio_margin, train_ratio_networks, train_time_network
from lab.simulation.deadlines import DeadlineRun, drawn_tasks, mean_usage, play_deadlines
from shared.process.pictures import save_png
from shared.scheduling.slack import UnitInterference, unaware

NAIVE: Final = "naive"
AWARE: Final = "aware"
MARGIN: Final = "aware, ratios with a margin"
PERFECT: Final = "perfect prediction"
# Every group of so many applications is measured and tabled: more than these are no experiment.
_MOST_APPS: Final = 8


class DeadlineSetting(NamedTuple):
    """Nodes alike with so many cores each, and how many tasks come."""

    nodes: int
    cores: int
    tasks: int
    seed: int


# What neighbours cost by each heuristic; that of PERFECT is the truth.
Beliefs = Mapping[str, UnitInterference]


class DeadlineRuns(NamedTuple):
    """Of one mean time between arrivals: the last arrival, and the result of each heuristic."""

    interarrival_s: float
    last_arrival_s: float
    by_heuristic: dict[str, DeadlineRun]


def beliefs(learned: GroupFiles, measured: GroupFiles, cores: int, seed: int) -> Beliefs:
    """Return the beliefs: the targets of `measured` are the applications that come, at its highest
    frequency.

    The aware one learns run times, as the paper has it. With a margin, T_co / T_alone is learned,
    and believed to be longer by the error that predictions of held out runs had: consolidation
    takes nodes on which the slack that is left is less than that.

    Raises UnusableError where one of their groups was not measured.
    """
    freq_ghz = max(run.freq_ghz for run in measured.runs)
    apps = sorted({run.target for run in measured.runs if run.freq_ghz == freq_ghz})
    if len(apps) > _MOST_APPS:
        raise UnusableError(f"{len(apps)} applications in all groups: at most {_MOST_APPS}")
    groups = [
        GroupRun(target, others, freq_ghz, np.nan, np.nan)
        for target in apps
        for many in range(1, cores)
        for others in combinations_with_replacement(apps, many)
    ]
    asked = features(groups, measured.alone)[:, : FEATURE_SETS["F"]]
    group_alone_s = asked[:, FEATURES.index("baseExTime")]
    measured_s = _measured_s(measured.runs, groups)
    longer = 1 + ratio_margin(learned, seed)
    ratios = {
        AWARE: train_time_network(learned, seed)(asked) / group_alone_s,
        MARGIN: longer * train_ratio_networks(learned, seed)(asked),
        PERFECT: measured_s / group_alone_s,
    }
    alone_s = [measured.alone[app, freq_ghz].time_s for app in apps]
    found = {NAIVE: unaware(alone_s, cores)}
    for name, slowdowns in ratios.items():
        found[name] = UnitInterference(alone_s, cores)
        for group, slowdown in zip(groups, slowdowns.tolist(), strict=True):
            others = [apps.index(app) for app in group.neighbours]
            found[name].set(apps.index(group.target), others, slowdown - 1)
    return found


def _measured_s(runs: Iterable[GroupRun], groups: Sequence[GroupRun]) -> Floats:
    """The mean run time of each group; raises UnusableError for one that nobody measured."""
    found: dict[tuple[str, tuple[str, ...], float], list[float]] = {}
    for run in runs:
        key = run.target, tuple(sorted(run.neighbours)), run.freq_ghz
        found.setdefault(key, []).append(run.time_s)
    for group in groups:
        if group[:3] not in found:
            beside = "+".join(group.neighbours)
            raise UnusableError(f"{group.target} beside {beside} was not measured")
    return np.array([np.mean(found[group[:3]]) for group in groups])


def played(
    believed: Beliefs, setting: DeadlineSetting, interarrivals_s: Sequence[float]
) -> list[DeadlineRuns]:
    """Play all heuristics on the same tasks, at each mean time between arrivals."""
    found = []
    actual = believed[PERFECT]
    with progress_of(len(interarrivals_s) * len(believed), "simulations") as tell:
        for interarrival_s in interarrivals_s:
            timed = drawn_tasks(actual.alone_s, setting.tasks, interarrival_s, setting.seed)
            runs = DeadlineRuns(interarrival_s, timed.arrive_s[-1], {})
            found.append(runs)
            for name, of in believed.items():
                run = play_deadlines(timed, setting.nodes, of, actual)
                runs.by_heuristic[name] = run
                tell((len(found) - 1) * len(believed) + len(runs.by_heuristic))
    return found


HEADER: Final = (
    "1/λ, s", "heuristic", "met, %", "missed, %", "unassigned, %", "CU, %", "NU, %", "CUAN, %",
)  # fmt: skip


def rows(found: Iterable[DeadlineRuns], setting: DeadlineSetting) -> list[list[str]]:
    """Return outcomes of tasks, and means over time until the last arrival."""
    return [
        [
            f"{runs.interarrival_s:g}",
            name,
            *(f"{100 * share:.1f}" for share in _shares(run, setting, runs.last_arrival_s)),
        ]
        for runs in found
        for name, run in runs.by_heuristic.items()
    ]


def _shares(run: DeadlineRun, setting: DeadlineSetting, until_s: float) -> list[float]:
    outcomes = [count / setting.tasks for count in (run.met, run.missed, run.unassigned)]
    return [*outcomes, *mean_usage(run.usage, setting.nodes, setting.cores, until_s)]


def deadline_table(found: Iterable[DeadlineRuns], setting: DeadlineSetting) -> Table:
    """Return the runs as a table, a row each."""
    table = Table(box=MARKDOWN)
    for place, name in enumerate(HEADER):
        table.add_column(name, justify="right" if place > 1 else "left")
    for row in rows(found, setting):
        table.add_row(*row)
    return table


def write_plot(path: Path, found: Sequence[DeadlineRuns], setting: DeadlineSetting) -> None:
    """Plot outcomes, and node and core utilization over time, a row each mean time between arrivals
    (figures 5 and 6)."""
    figure = Figure(figsize=(18, 3.4 * len(found) + 0.6), layout="constrained")
    for axes, runs in zip(figure.subplots(len(found), 4, squeeze=False), found, strict=True):
        _plot_outcomes(axes[0], runs, setting.tasks)
        for name, run in runs.by_heuristic.items():
            time_s = [each.time_s for each in run.usage]
            for axis, (what, share) in zip(axes[1:], _usage(run, setting).items(), strict=True):
                axis.step(time_s, 100 * share, where="post", label=name, linewidth=1.0)
                axis.set(title=what, xlabel="s", ylabel="%", ylim=(0, 104))
    handles, labels = axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    save_png(figure, path)


def _usage(run: DeadlineRun, setting: DeadlineSetting) -> dict[str, Floats]:
    """Shares at each change."""
    cores = np.array([each.cores for each in run.usage]) / setting.cores
    nodes = np.array([each.nodes for each in run.usage])
    return {
        "nodes": nodes / setting.nodes,
        "cores": cores / setting.nodes,
        "cores of active nodes": cores / np.maximum(nodes, 1),
    }


def _plot_outcomes(axis: Axes, runs: DeadlineRuns, tasks: int) -> None:
    begin = np.zeros(len(runs.by_heuristic))
    for what in "met", "missed", "unassigned":
        share = [100 * getattr(run, what) / tasks for run in runs.by_heuristic.values()]
        axis.barh(list(runs.by_heuristic), share, left=begin, label=what, height=0.6)
        begin += share
    axis.set(title=f"tasks, 1/λ = {runs.interarrival_s:g} s", xlabel="%")
    axis.invert_yaxis()
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3, frameon=False)
