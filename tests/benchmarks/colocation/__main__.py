"""`python -m tests.benchmarks.colocation`: neighbours, on measured pairs."""

from pathlib import Path
from typing import Annotated

import typer

from cli.failures import TellingGroup
from cli.main import Out
from shared.runtime.folders import written
from tests.benchmarks.colocation.run import run
from tests.benchmarks.placement.markdown import filled

app = typer.Typer(cls=TellingGroup)


@app.callback(invoke_without_command=True)
def bench(
    data: Annotated[
        Path,
        typer.Option(envvar="COPLACE_DATA", help="Folder of published data: colocation/ is read."),
    ] = Path("../shared/data"),
    out: Out = Path("out/colocation"),
    into: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Document to put the tables into."),
    ] = None,
) -> None:
    """Compare predictors of degradation, and policies that pair jobs by it."""
    out.mkdir(parents=True, exist_ok=True)
    found = run(data / "colocation" / "spec2017", out / "colocation.png")
    text = "\n\n".join(f"## {name}\n\n{shown}" for name, shown in found.items())
    with written(out / "tables.md") as path:
        path.write_text(text + "\n", encoding="utf-8")
    if into is not None:
        into.write_text(filled(into.read_text(encoding="utf-8"), found), encoding="utf-8")
    typer.echo(text)


if __name__ == "__main__":
    app()
