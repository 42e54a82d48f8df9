"""In whose name commands declare and order, and why."""

import getpass
import os
import socket
from typing import Annotated, Final

import typer

OPERATOR: Final = "operator"
# Short enough for an event's id, which begins with it.
_MOST_CHARACTERS: Final = 100


def who_does_it(told: str) -> str:
    """Return the identity that was given; by default, the name in the certificate that is shown,
    and without one the login name and the host, `user@host`."""
    if told != OPERATOR:
        return told
    from shared.process.certificates import common_name
    from shared.process.settings import settings

    certificate = settings().grpc_cert_file
    return (common_name(certificate) if certificate else "") or _logged_in()


def _logged_in() -> str:
    """As the environment says it, else the system; what no event can hold is left out."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        user = str(os.getuid())
    found = f"{user}@{socket.gethostname()}"
    return "".join(sign for sign in found if sign.isprintable())[:_MOST_CHARACTERS]


Source = Annotated[
    str,
    typer.Option(
        envvar="COPLACE_SOURCE",
        help="Who does it, as recorded. By default the common name of your certificate, without "
        "one user@host.",
        callback=who_does_it,
    ),
]
Reason = Annotated[str, typer.Option(help="Why: it is recorded and shown.")]
