"""`coplace certificates`: who may connect to a secure installation."""

from pathlib import Path
from typing import Annotated

import typer

from cli.installation.cli import export_lines
from cli.installation.installation import Installation
from cli.security import Security
from cli.topics import Clients, named_clients
from shared.process.settings import settings

app = typer.Typer(
    no_args_is_help=True,
    help="Credentials of a secure installation: `coplace up --secure`, or containers.",
)


@app.command()
def issue(
    name: Annotated[
        str,
        typer.Argument(help="Name of the certificate and user; for a resource manager, its site."),
    ],
    role: Annotated[
        str, typer.Option(help="resource-manager, slurm, billing, or agent: gRPC alone.")
    ],
) -> None:
    """Give somebody a certificate, a user and a password, and print what their programs need."""
    for line in export_lines(Installation.last().issue(name, role)):
        typer.echo(line)


@app.command()
def hand_out(
    folder: Annotated[
        Path,
        typer.Argument(
            help="Folder to write to: all credentials in `credentials` below it, those of one "
            "holder in NAME."
        ),
    ],
    client: Clients = None,
) -> None:
    """Create the missing credentials of a deployment, and write those of each service and client
    into a folder of its own, for containers to mount."""
    security = Security(folder, settings().namespace)
    security.prepare()
    for name, role in named_clients(client).items():
        security.add_client(name, role)
    security.prepare()
    security.hand_out(folder)
    typer.echo(f"each holder's credentials are in {folder}/NAME")


@app.command()
def rotate(
    keep_old: Annotated[
        bool,
        typer.Option(
            "--keep-old",
            help="Accept the old authority too until the next call, so that new credentials can "
            "be handed out before.",
        ),
    ] = False,
    disconnect: Annotated[
        bool,
        typer.Option(
            "--disconnect",
            help="Restart each process in the end, one after another, so that no connection with"
            " old credentials is left.",
        ),
    ] = False,
) -> None:
    """Replace the authority, certificates and passwords while jobs run. After an interruption the
    next call goes on."""
    Installation.last().rotate(typer.echo, keep_old=keep_old, disconnect=disconnect)
