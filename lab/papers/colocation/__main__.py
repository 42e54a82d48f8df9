"""`python -m lab.papers.colocation`: neighbours, on measured pairs."""

from pathlib import Path
from typing import Annotated

import typer

from cli.failures import ReportingGroup
from cli.main import Out
from lab.papers.colocation import groups
from lab.papers.colocation.run import of_zacarias, on_kernels, run
from lab.papers.options import Data, Into
from lab.papers.placement.markdown import write_tables
from lab.papers.published_data import DATA

app = typer.Typer(cls=ReportingGroup)


@app.callback(invoke_without_command=True)
def bench(
    data: Data = DATA,
    only_kernels: Annotated[
        bool, typer.Option(help="Only what was measured of Coplace's own kernels.")
    ] = False,
    only_models: Annotated[
        bool, typer.Option(help="Only the models of Zacarias et al.: twelve minutes of CPU.")
    ] = False,
    out: Out = Path("out/colocation"),
    into: Into = None,
) -> None:
    """Compare predictors of degradation, and policies that pair jobs by it."""
    out.mkdir(parents=True, exist_ok=True)
    spec = data / "colocation" / "spec2017"
    found = of_zacarias(spec) if only_models else on_kernels()
    if not only_kernels and not only_models:
        found |= run(spec, out / "colocation.png") | groups.run(out) | of_zacarias(spec)
    typer.echo(write_tables(found, out, into))


if __name__ == "__main__":
    app()
