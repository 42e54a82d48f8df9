"""Options that several benchmarks share."""

from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[
    Path,
    typer.Option(envvar="COPLACE_DATA", help="Folder of published data, as in ../shared/data."),
]
Into = Annotated[
    Path | None, typer.Option(exists=True, dir_okay=False, help="Document to put the tables into.")
]
InstanceNames = Annotated[
    list[str] | None, typer.Option("--instance", help="Part of the names of instances; again.")
]
Caps = Annotated[
    list[int] | None,
    typer.Option("--cap", help="Of full power, %; again; else 100, 75, 50, 30."),
]
