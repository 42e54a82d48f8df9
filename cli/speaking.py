"""In whose name commands declare and order."""

from typing import Annotated, Final

import typer

OPERATOR: Final = "operator"


def who_does_it(told: str) -> str:
    """As told; whom the certificate names that is shown, where nobody was told."""
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
        help="Who does it: it is recorded. Else the common name of the certificate that is shown.",
        callback=who_does_it,
    ),
]
