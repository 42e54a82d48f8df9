"""`python -m lab.papers.pricing`: shutters, quotes and charges, compared with what is true."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import structlog
import typer

from cli.failures import ReportingGroup
from cli.main import Out
from lab.papers.options import Into
from lab.papers.placement.markdown import table, write_tables
from lab.papers.pricing import charges as many_charges
from lab.papers.pricing import overhead, pairs, quotes, streams

Rows = Sequence[Mapping[str, str]]


class Part(StrEnum):
    """What can be compared with the truth alone."""

    CHARGES = "charges"
    QUOTES = "quotes"
    STREAMS = "streams"
    PAIRS = "pairs"
    OVERHEAD = "overhead"


app = typer.Typer(cls=ReportingGroup)


@app.callback(invoke_without_command=True)
def bench(
    seconds: Annotated[
        float, typer.Option(min=2, help="Each pair is shuttered for so long.")
    ] = 6.0,
    overhead_seconds: Annotated[
        float, typer.Option(min=2, help="So long jobs run with the agent, and as long without.")
    ] = 40.0,
    charges: Annotated[
        int, typer.Option(min=1_000, help="Jobs of the played charges.")
    ] = 1_000_000,
    jobs: Annotated[
        int, typer.Option(min=100, help="How many are quoted before they come.")
    ] = 1_000,
    only: Annotated[
        list[Part] | None, typer.Option(help="These parts alone; may be said again.")
    ] = None,
    out: Out = Path("out/pricing"),
    into: Into = None,
) -> None:
    """Compare slowdowns by shutters with the true ones, quotes with results, and deliveries of many
    charges with each other."""
    out.mkdir(parents=True, exist_ok=True)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    parts: Mapping[Part, Callable[[], Iterable[tuple[str, Rows]]]] = {
        Part.CHARGES: lambda: [("charges", many_charges.rows(charges))],
        Part.QUOTES: lambda: [("quotes", quotes.rows(jobs))],
        Part.STREAMS: streams.tables,
        Part.PAIRS: lambda: pairs.tables(seconds),
        Part.OVERHEAD: lambda: [("overhead", list(overhead.rows(overhead_seconds)))],
    }
    chosen = [parts[part]() for part in only or parts]
    found = {name: _shown(rows) for tables in chosen for name, rows in tables}
    typer.echo(write_tables(found, out, into))


def _shown(rows: Rows) -> str:
    return table(list(rows[0]), [list(row.values()) for row in rows])


if __name__ == "__main__":
    app()
