"""Logs of jobs and their mean node power, as CSV.

Columns: cluster, month_file, avg_power_per_node_w, job_id, nodes, cores, req_walltime_s, runtime_s,
user; and queue, gpus, accelerators and memory_bytes where there are any. All but the power may be
missing.
"""

import csv
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from coplace_client.errors import UnusableError
from shared.power_prediction.submission import MeasuredPower, Submission

POWER: Final = "avg_power_per_node_w"
_NUMBERS: Final = ("nodes", "cores", "req_walltime_s", "runtime_s", POWER)
_MOST_CHARACTERS: Final = 1024
_MONTHS: Final = 12


class PowerLog(NamedTuple):
    """The jobs in the order of their submission, and what a reader should know of the file."""

    jobs: list[tuple[Submission, MeasuredPower]]
    notes: list[str]


def read_log(path: Path) -> PowerLog:
    """Raises UnusableError for what is no such log."""
    rows = _in_order(_rows(path))
    jobs = [(_submission(row), _outcome(row)) for row in rows]
    missing = {
        name: count
        for name in _NUMBERS
        if (count := sum(math.isnan(_number(row, name)) for row in rows))
    }
    unusable = sum(not outcome.is_usable for _, outcome in jobs)
    notes = [f"{count} jobs have no usable {name}" for name, count in missing.items()]
    if unusable:
        notes.append(f"{unusable} jobs have no power that a node can draw: not learned, not scored")
    return PowerLog(jobs, notes)


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, restval="")
            if POWER not in (reader.fieldnames or ()):
                raise UnusableError(f"{path} has no column {POWER}: is it a log of powers?")
            rows = [{name: text for name, text in row.items() if name} for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise UnusableError(f"{path} is not CSV: {error}") from error
    if not rows:
        raise UnusableError(f"{path} has no jobs")
    return rows


def _in_order(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """By month and then job id, both numbers; as they come where these say nothing.

    Months have no year: the first is the one behind the longest run of months without jobs.
    """
    ids = [row.get("job_id", "") for row in rows]
    months = [row.get("month_file", "") for row in rows]
    if not all(re.fullmatch(r"\d{1,18}", each) for each in ids):
        return rows
    if not all(re.fullmatch(r"0?[1-9]|1[0-2]", each) for each in months):
        return sorted(rows, key=lambda row: int(row["job_id"]))
    first = _first_month({int(each) for each in months})
    return sorted(
        rows, key=lambda row: ((int(row["month_file"]) - first) % _MONTHS, int(row["job_id"]))
    )


def _first_month(months: set[int]) -> int:
    def empty_before(month: int) -> int:
        before = ((month - gap - 1) % _MONTHS + 1 for gap in range(1, _MONTHS))
        return next((gap for gap, each in enumerate(before) if each in months), _MONTHS)

    return max(sorted(months), key=empty_before)


def _submission(row: Mapping[str, str]) -> Submission:
    return Submission(
        job_id=_text(row, "job_id"),
        user=_text(row, "user"),
        nodes=_number(row, "nodes"),
        walltime_s=_number(row, "req_walltime_s"),
        cores=_number(row, "cores"),
        gpus=_number(row, "gpus", least=0),
        accelerators=_number(row, "accelerators", least=0),
        memory_bytes=_number(row, "memory_bytes"),
        queue=_text(row, "queue"),
        cluster=_text(row, "cluster"),
    )


def _outcome(row: Mapping[str, str]) -> MeasuredPower:
    return MeasuredPower(_number(row, POWER, least=-math.inf), _number(row, "runtime_s"))


def _text(row: Mapping[str, str], name: str) -> str:
    return (row.get(name) or "")[:_MOST_CHARACTERS]


def _number(row: Mapping[str, str], name: str, least: float = 1e-9) -> float:
    """NaN for what is missing, no number, not finite or below `least`."""
    try:
        value = float(row.get(name) or "nan")
    except ValueError:
        return math.nan
    return value if math.isfinite(value) and value >= least else math.nan
