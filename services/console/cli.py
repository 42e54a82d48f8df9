"""The `coplace` command line."""

from importlib.metadata import version
from typing import Annotated

import typer

from deploy.local.cli import app as local_app

app = typer.Typer(no_args_is_help=True, help="Place, power and price batch jobs across clusters.")
app.add_typer(local_app, name="local")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version("coplace"))
        raise typer.Exit


@app.callback()
def main(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Common options of every command."""
