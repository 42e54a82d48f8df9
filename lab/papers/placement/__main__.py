"""`python -m lab.papers.placement`: EAMC against the paper's figures, and real logs."""

from pathlib import Path
from typing import Annotated

import typer

from cli.failures import ReportingGroup
from cli.main import Out
from lab.papers.options import Data, Into
from lab.papers.placement.run import Options, run
from lab.papers.published_data import DATA

app = typer.Typer(cls=ReportingGroup)


@app.callback(invoke_without_command=True)
def bench(
    data: Data = DATA,
    seeds: Annotated[int, typer.Option(min=1, max=1_000, help="Workloads of each kind.")] = 10,
    out: Out = Path("out/placement"),
    into: Into = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; as many as cores if not said.")
    ] = None,
) -> None:
    """Compare EAMC with the paper's figures, and play real logs under EASY."""
    for name, table in run(Options(data, seeds, out, into, workers)).items():
        typer.echo(f"\n{name}\n\n{table}")
    typer.echo(f"\ntables.md, the figure and CSV files are in {out}")


if __name__ == "__main__":
    app()
