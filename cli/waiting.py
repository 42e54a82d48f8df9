"""How long commands wait for the owner of what they declare or order."""

from typing import Annotated, Final

import typer

WAIT_S: Final = 10.0
_MOST_WAIT_S: Final = 600.0

Wait = Annotated[
    float,
    typer.Option(
        "--wait",
        metavar="SECONDS",
        min=0.0,
        max=_MOST_WAIT_S,
        help="How long to wait until it is in force; then the exit status is 3: accepted, not "
        "yet in force.",
    ),
]
