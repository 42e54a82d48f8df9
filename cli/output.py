"""How commands write what they list: for people, or for programs."""

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Final

import typer
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from cli.notes import TABLE_WIDTH

Value = str | int | float | None
Row = Mapping[str, Value]


class Output(StrEnum):
    """How an answer is written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


OutputName = Annotated[Output, typer.Option(help="table for people, json or csv for programs.")]
_NUMBERS: Final = ("nodes", "free", "running", "waiting", "place", "GHz", "pid", "port", "gRPC")
_UNITS: Final = (" W", " SU", " h")


def write(rows: Sequence[Row], columns: Sequence[str], output: Output) -> None:
    """Write rows as a table of these columns, or all their values as JSON lines or as CSV."""
    match output:
        case Output.TABLE:
            Console(width=TABLE_WIDTH).print(_table(rows, columns))
        case Output.JSON:
            for row in rows:
                typer.echo(json.dumps(dict(row)))
        case Output.CSV:
            names = list(rows[0]) if rows else list(columns)
            writer = csv.DictWriter(sys.stdout, names, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def _table(rows: Sequence[Row], columns: Sequence[str]) -> Table:
    found = Table(box=MARKDOWN)
    for name in columns:
        is_number = name in _NUMBERS or name.endswith(_UNITS)
        found.add_column(name, justify="right" if is_number else "left")
    for row in rows:
        found.add_row(*("" if row[name] is None else str(row[name]) for name in columns))
    return found
