"""`coplace certificates`: who may come to the secure installation on this machine."""

from typing import Annotated

import typer

from cli.installation.cli import export_lines
from cli.installation.installation import Installation

app = typer.Typer(
    no_args_is_help=True,
    help="Credentials of a secure installation (`coplace up --secure`).",
)


@app.callback()
def of_installation() -> None:
    """Keeps `issue` a command of its own."""


@app.command()
def issue(
    name: Annotated[
        str,
        typer.Argument(help="Of the certificate and user: for a resource manager, its site."),
    ],
    role: Annotated[
        str, typer.Option(help="resource-manager, slurm, billing, or agent: gRPC alone.")
    ],
) -> None:
    """Give somebody a certificate, a user and a password, and print what their programs need."""
    for line in export_lines(Installation.last().issue(name, role)):
        typer.echo(line)
