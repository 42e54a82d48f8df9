"""The waits of one log under EASY, as a row of a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.papers.placement import markdown
from lab.simulation.log import read_log
from lab.simulation.metrics import Summary, summarise
from lab.simulation.one_pool import PoolMachine, play_log
from lab.simulation.policy import SimulatedPolicy
from shared.domain.runtimes import Runtimes

_HEADER: Final = (
    *("log, run times", "jobs", "mean wait, h", "99 %, h", "99.9 %, h", "longest, h"),
    *("widest 1 %, h", "promises kept, %", "slowdown, 60 s"),
)


@dataclass(frozen=True, slots=True)
class WaitsRow:
    """One log by one expectation of run times."""

    log: str
    runtimes: Runtimes
    summary: Summary


def row_of(log: str, path: Path, runtimes: Runtimes) -> WaitsRow:
    """Play a log under EASY. Raises OSError or UnusableError for one that cannot be read."""
    logged = read_log(path)
    played = play_log(logged, PoolMachine(logged.procs), SimulatedPolicy.EASY, runtimes)
    return WaitsRow(log, runtimes, summarise(played))


def table(rows: Sequence[WaitsRow]) -> str:
    """Return the rows as Markdown."""
    return markdown.table(_HEADER, map(_cells, rows))


def _cells(row: WaitsRow) -> list[str]:
    summary = row.summary
    waits = summary.wait_s
    hours = waits.mean, waits.p99, waits.p999, waits.longest, summary.widest_wait_s
    kept = summary.promises_kept_share
    return [
        f"{row.log}, {row.runtimes}",
        f"{summary.jobs:,}",
        *(f"{seconds / 3600:.2f}" for seconds in hours),
        "" if kept is None else f"{100 * kept:.2f}",
        f"{summary.bounded_slowdown_60s.mean:.2f}",
    ]
