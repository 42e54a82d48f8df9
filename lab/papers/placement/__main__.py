"""`python -m lab.papers.placement`: EAMC against the paper's figures, and real logs."""

from pathlib import Path
from typing import Annotated

import typer

from cli.failures import ReportingGroup
from cli.main import Out
from lab.papers.options import Data, Into
from lab.papers.placement.run import Options, Part, run
from lab.papers.published_data import DATA

app = typer.Typer(cls=ReportingGroup)


@app.callback(invoke_without_command=True)
def bench(
    data: Data = DATA,
    seeds: Annotated[int, typer.Option(min=1, max=1_000, help="Workloads of each kind.")] = 10,
    claim_seeds: Annotated[
        int, typer.Option(min=1, max=1_000, help="Workloads of each kind beside the paper.")
    ] = 12,
    only: Annotated[list[Part] | None, typer.Option(help="Part to play; again; else all.")] = None,
    resume: Annotated[
        bool, typer.Option(help="Play only what is not in claims.jsonl yet, of the same code.")
    ] = False,
    out: Out = Path("out/placement"),
    into: Into = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; as many as cores if not said.")
    ] = None,
) -> None:
    """Compare EAMC with the paper's figures, and play real logs under EASY."""
    parts = tuple(only or Part)
    options = Options(data, seeds, claim_seeds, out, into, workers, parts, resume)
    for name, table in run(options).items():
        typer.echo(f"\n{name}\n\n{table}")
    typer.echo(f"\ntables.md, the figure and CSV files are in {out}")


if __name__ == "__main__":
    app()
