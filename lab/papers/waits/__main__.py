"""`python -m lab.papers.waits`: waits under EASY, by requests and by predicted run times."""

from pathlib import Path
from typing import Annotated

import typer

from cli.failures import ReportingGroup
from cli.main import Out
from cli.progress import progress_of
from lab.papers.options import Data, Into
from lab.papers.placement.logs import LOGS
from lab.papers.placement.markdown import write_tables
from lab.papers.published_data import DATA
from lab.papers.waits.rows import row_of, table
from shared.domain.runtimes import Runtimes

app = typer.Typer(cls=ReportingGroup)
Swf = Annotated[
    list[Path] | None, typer.Option(exists=True, dir_okay=False, help="Another log; again.")
]


@app.callback(invoke_without_command=True)
def bench(
    data: Data = DATA, swf: Swf = None, out: Out = Path("out/waits"), into: Into = None
) -> None:
    """Play logs under EASY by requests and by predicted run times."""
    logs = {path.name: path for path in swf or []}
    logs = logs or {log: data / "swf" / name for log, name in LOGS.items()}
    cases = [(log, runtimes) for log in logs for runtimes in Runtimes]
    rows = []
    with progress_of(len(cases), "simulations") as done:
        for log, runtimes in cases:
            rows.append(row_of(log, logs[log], runtimes))
            done(len(rows))
    typer.echo(write_tables({"waits": table(rows)}, out, into))


if __name__ == "__main__":
    app()
