"""What `coplace simulate` prints and writes."""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Final

from rich.table import Table
from scipy.stats import t

from coplace_client.files import write_whole
from lab.simulation.files import write_all_of_jobs, write_summary
from lab.simulation.metrics import Summary
from shared.replay.played import JobIds, Played

JOBS: Final = "jobs"
MeasureOf = Callable[[Summary], float | None]

MEASURES: Final[Mapping[str, MeasureOf]] = {
    JOBS: lambda s: s.jobs,
    "makespan, h": lambda s: s.makespan_s / 3600,
    "mean response, h": lambda s: s.response_s.mean / 3600,
    "mean wait, h": lambda s: s.wait_s.mean / 3600,
    "99 % wait, h": lambda s: s.wait_s.p99 / 3600,
    "99.9 % wait, h": lambda s: s.wait_s.p999 / 3600,
    "longest wait, h": lambda s: s.wait_s.longest / 3600,
    "widest 1 % wait, h": lambda s: s.widest_wait_s / 3600,
    "promises kept, %": lambda s: _percent(s.promises_kept_share),
    "bounded slowdown, 10 s": lambda s: s.bounded_slowdown_10s.mean,
    "bounded slowdown, 60 s": lambda s: s.bounded_slowdown_60s.mean,
    "in use, %": lambda s: 100 * s.utilisation,
    "energy of jobs, MWh": lambda s: _mwh(s.busy_energy_j),
    "cost of energy, tariff's unit": lambda s: s.energy_cost,
    "idle energy, MWh": lambda s: _mwh(s.idle_energy_j),
    "sum of runtimes, h": lambda s: s.sum_runtime_s / 3600,
    "mean frequency, GHz": lambda s: s.mean_freq_ghz,
    "on their best cluster, %": lambda s: _percent(s.best_cluster_share),
    "highest draw, % of cap": lambda s: _percent(s.highest_of_cap),
    "above a cap, min": lambda s: None if s.above_cap_s is None else s.above_cap_s / 60,
}
CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One simulation: the `group` that its seeds form, its parameters, its results."""

    group: str
    parameters: Mapping[str, object]
    summary: Summary


def table(lines: Sequence[ComparisonRow], title: str) -> Table:
    """Return a table with a row for each group: the mean over its seeds, and the 95 % confidence
    interval of several."""
    shown = [name for name in MEASURES if _values(lines, name)]
    printed = Table(title=title)
    printed.add_column("")
    for name in shown:
        printed.add_column(name.replace(", ", "\n"), justify="right")
    for group, members in _grouped(lines):
        values = (_values(members, name) for name in shown)
        printed.add_row(group, *(_cell(each) for each in values))
    return printed


def write_comparison(folder: Path, lines: Sequence[ComparisonRow]) -> None:
    """Write comparison.csv, one line a simulation, and comparison.png, one bar a group."""
    from lab.simulation.plots import comparison

    rows = [dict(line.parameters) | _flat(line.summary) for line in lines]
    table = folder / "comparison.csv"
    with write_whole(table) as fresh, fresh.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    groups = _grouped(lines)
    measures = {
        name: {group: found for group, members in groups if (found := _values(members, name))}
        for name in MEASURES
        if name != JOBS and _values(lines, name)
    }
    comparison(measures, folder / "comparison.png")


def write_run(folder: Path, played: Played, job_id: JobIds, summary: Summary) -> None:
    """Write summary.json, jobs.csv and the pictures of one simulation: load.png, power.png where
    power is known, gantt.png where the jobs are so few that it shows something."""
    from lab.simulation import plots

    write_summary(folder / "summary.json", summary)
    write_all_of_jobs(folder / "jobs.csv", played, job_id)
    plots.load(played, folder / "load.png")
    knows_power = played.power_w.any() or played.fleet.idle_w.any()
    pictures = {
        "power.png": plots.power if knows_power else None,
        "gantt.png": plots.gantt if len(job_id) <= plots.LARGEST_GANTT else None,
    }
    for name, draw in pictures.items():
        if draw is None:  # one of an earlier run would be taken for this one's
            (folder / name).unlink(missing_ok=True)
        else:
            draw(played, folder / name)


def half_width(values: Sequence[float]) -> float:
    """Return half of the confidence interval of the mean of at least two values (Student's t)."""
    quantile = t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)
    return float(quantile * stdev(values) / sqrt(len(values)))


def _grouped(lines: Iterable[ComparisonRow]) -> list[tuple[str, list[ComparisonRow]]]:
    return [(group, list(members)) for group, members in groupby(lines, lambda line: line.group)]


def _values(lines: Iterable[ComparisonRow], measure: str) -> list[float]:
    found = (MEASURES[measure](line.summary) for line in lines)
    return [value for value in found if value is not None]


def _cell(values: Sequence[float]) -> str:
    if not values:
        return ""
    if all(isinstance(value, int) for value in values) and len(set(values)) == 1:
        return f"{values[0]:,}"
    if len(values) == 1:
        return f"{values[0]:,.2f}"
    return f"{fmean(values):,.2f} ± {half_width(values):,.2f}"


def _flat(summary: Summary) -> dict[str, object]:
    """All measures in one line, without those of single clusters."""
    return dict(_pairs(asdict(summary)))


def _pairs(values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from ((f"{name}_{part}", each) for part, each in value.items())
        elif name != "clusters":
            yield name, value


def _mwh(energy_j: float) -> float | None:
    """None for a log, whose power nobody said."""
    return energy_j / 3.6e9 or None


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
