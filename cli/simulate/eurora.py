"""`coplace simulate --eurora`: instances of the Eurora supercomputer under EASY, without a cap."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from cli.telling import TABLE_WIDTH
from shared.domain.errors import UnusableError
from shared.runtime.user_files import lines
from shared.simulation.eurora import (
    EuroraFigures,
    figures_of,
    impossible_in,
    play_eurora,
)
from shared.workloads.eurora import EuroraMachine, read_jobs, read_machine, read_power_predictions

_NODES: Final = "nodes_64.csv"
_POWER: Final = "power_predictions.csv"
_RESULTS: Final = "pa_hpc_sim_results.csv"
# The published methods without a cap: backfill, and list scheduling.
_METHODS: Final = ("BF", "LS")


@dataclass(frozen=True, slots=True)
class _Compared:
    """One row: an instance as played here, or by the authors' simulator."""

    instance: str
    by: str
    figures: EuroraFigures


def run(path: Path) -> None:
    """Play an instance, or all in a folder, print them beside the published results, and check each
    schedule. Raises OSError, and UnusableError for what cannot be played or came out impossible."""
    instances = sorted(path.glob("**/*.log_crypt")) if path.is_dir() else [path]
    if not instances:
        raise UnusableError(f"{path} holds no instance: give a file, or a folder of *.log_crypt")
    folder = _folder_of(instances[0])
    machine = read_machine(folder / _NODES)
    power_w = read_power_predictions(folder / _POWER)
    published = _published(folder / _RESULTS)
    rows = [
        row
        for instance in instances
        for row in (_played(instance, machine, power_w), *published.get(instance.name, ()))
    ]
    Console(width=TABLE_WIDTH).print(_table(rows))


def _folder_of(instance: Path) -> Path:
    """Where the machine of an instance is described: in its folder or above."""
    for folder in instance.resolve().parents:
        if (folder / _NODES).exists():
            return folder
    raise UnusableError(f"no {_NODES} beside {instance} or above it: keep the published folders")


def _played(instance: Path, machine: EuroraMachine, power_w: Mapping[str, float]) -> _Compared:
    played = play_eurora(machine, read_jobs(instance, power_w))
    if wrong := impossible_in(played, machine):
        raise UnusableError(f"the schedule of {instance} is impossible: {wrong[0]}")
    return _Compared(instance.name, "EASY, here", figures_of(played))


def _published(path: Path) -> dict[str, list[_Compared]]:
    """Results without a cap by instance; none where there is no such file."""
    found: dict[str, list[_Compared]] = {}
    if not path.exists():
        return found
    for row in csv.DictReader(lines(path)):
        if row["cap_pct"] == "100" and row["method"] in _METHODS:
            figures = EuroraFigures(
                float(row["bsld"]),
                float(row["makespan_s"]),
                float(row["queue_time_s"]),
                round(float(row["max_power_w"])),
            )
            compared = _Compared(row["instance"], f"{row['method']}, published", figures)
            found.setdefault(row["instance"], []).append(compared)
    return found


def _table(rows: list[_Compared]) -> Table:
    table = Table(title="Eurora without a cap; each schedule was checked")
    table.add_column("instance")
    table.add_column("by")
    for column in ("bounded slowdown", "makespan, s", "queue time, s", "highest power, W"):
        table.add_column(column, justify="right")
    for row in rows:
        figures = row.figures
        table.add_row(
            row.instance,
            row.by,
            f"{figures.bounded_slowdown:.3f}",
            f"{figures.makespan_s:,.0f}",
            f"{figures.queue_time_s:,.0f}",
            f"{figures.max_power_w:,}",
        )
    return table
