"""`python -m tests.benchmarks.pricing`: shutters, quotes and a ledger, held to what is true."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from cli.failures import TellingGroup
from cli.main import Out
from tests.benchmarks.placement.markdown import table, write_tables
from tests.benchmarks.pricing import ledger, pairs, quotes, streams

app = typer.Typer(cls=TellingGroup)


@app.callback(invoke_without_command=True)
def bench(
    seconds: Annotated[
        float, typer.Option(min=2, help="Each pair is shuttered for so long.")
    ] = 6.0,
    charges: Annotated[
        int, typer.Option(min=1_000, help="How many the ledger is made of.")
    ] = 1_000_000,
    jobs: Annotated[
        int, typer.Option(min=100, help="How many are quoted before they come.")
    ] = 1_000,
    only_ledger: Annotated[bool, typer.Option(help="Nothing of shutters and quotes.")] = False,
    only_quotes: Annotated[bool, typer.Option(help="Nothing of shutters and the ledger.")] = False,
    out: Out = Path("out/pricing"),
    into: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Document to put the tables into."),
    ] = None,
) -> None:
    """Hold slowdowns by shutters to the true ones, quotes to what came, and a ledger of many
    charges to itself."""
    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, str] = {}
    if not only_quotes:
        found["ledger"] = _shown(ledger.rows(charges))
    if not only_ledger:
        found["quotes"] = _shown(quotes.rows(jobs))
    if not (only_ledger or only_quotes):
        found |= {name: _shown(rows) for name, rows in streams.tables()}
        real = list(pairs.measured(seconds))
        found |= {
            "pairs": _shown(pairs.rows(real)),
            "pairs-errors": _shown(pairs.summary(real)),
            "pairs-prices": _shown(pairs.prices(real)),
        }
    typer.echo(write_tables(found, out, into))


def _shown(rows: Sequence[Mapping[str, str]]) -> str:
    return table(list(rows[0]), [list(row.values()) for row in rows])


if __name__ == "__main__":
    app()
