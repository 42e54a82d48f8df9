"""`coplace openapi`: what REST answers, without a server."""

import json
from pathlib import Path
from typing import Annotated

import typer

from coplace_client.files import write_whole
from services.rest.openapi import document
from services.rest.routes import routes

Out = Annotated[Path, typer.Option(help="Folder of the file that is written.")]


def openapi(out: Out = Path("out")) -> None:
    """Write the OpenAPI document of what REST answers."""
    with write_whole(out / "openapi.json") as fresh:
        fresh.write_text(f"{json.dumps(document(routes()), indent=2)}\n", encoding="utf-8")
    typer.echo(out / "openapi.json")
