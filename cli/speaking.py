"""In whose name commands declare and order."""

from typing import Annotated, Final

import typer

OPERATOR: Final = "operator"


def who_does_it(told: str) -> str:
    """Return the identity that was given; by default, the name in the certificate that is shown."""
    if told != OPERATOR:
        return told
    from shared.process.certificates import common_name
    from shared.process.settings import settings

    certificate = settings().grpc_cert_file
    return (common_name(certificate) if certificate else "") or told


Source = Annotated[
    str,
    typer.Option(
        envvar="COPLACE_SOURCE",
        help="Who does it, as recorded. By default the common name of your certificate.",
        callback=who_does_it,
    ),
]
