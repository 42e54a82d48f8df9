"""`python -m lab.papers.power`: power before the start, on a real and a generated log."""

from pathlib import Path
from typing import Annotated

import typer

from cli.failures import ReportingGroup
from cli.main import Out
from lab.papers.options import Data, Into
from lab.papers.placement.markdown import write_tables
from lab.papers.power.run import run
from lab.papers.published_data import DATA

app = typer.Typer(cls=ReportingGroup)


@app.callback(invoke_without_command=True)
def bench(
    data: Data = DATA,
    jobs: Annotated[int, typer.Option(min=100, help="Of the generated log.")] = 20_000,
    speed_jobs: Annotated[int, typer.Option(min=100, help="That the speed is measured on.")] = (
        100_000
    ),
    out: Out = Path("out/power"),
    into: Into = None,
) -> None:
    """Compare the predictor of job power with simpler ones."""
    out.mkdir(parents=True, exist_ok=True)
    found = run(data / "power" / "emmy.csv", jobs, speed_jobs, out / "power-prediction.png")
    typer.echo(write_tables(found, out, into))


if __name__ == "__main__":
    app()
