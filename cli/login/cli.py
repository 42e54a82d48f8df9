"""`coplace login|logout`: sign in at the identity provider that the region declares."""

import asyncio
from pathlib import Path
from typing import Annotated, Final

import typer
from coplace.v1.ingest_service_pb2 import ShowIssuerRequest
from coplace.v1.ingest_service_pb2_grpc import IngestServiceStub

from cli.asking import Ingest
from cli.login.device_grant import (
    SCOPE,
    DeviceCode,
    PollClock,
    Provider,
    TokenGrant,
    begin,
    confirmed,
)
from cli.login.session import Session
from cli.times import format_utc
from coplace_client.calls import calling
from coplace_client.channels import GrpcFiles
from coplace_client.errors import UnusableError
from shared.authority.issuer import Issuer
from shared.process.settings import settings

_WITHIN_S: Final = 10.0

CLOCK: Final = PollClock()


def login(
    ingest: Ingest = "127.0.0.1:50051",
    client_id: Annotated[
        str, typer.Option(help="As which client, in place of the one that the region declares.")
    ] = "",
    scope: Annotated[
        str, typer.Option(help="What to ask for, in place of what the region declares.")
    ] = "",
    token: Annotated[
        bool,
        typer.Option(
            "--token", help="Print the token of the present login, renewed; do not sign in."
        ),
    ] = False,
) -> None:
    """Sign in at the identity provider that the region declares, by a code in any browser. Every
    command shows the token from then on, and renews it."""
    authority = _authority()
    session = Session(authority)
    if token:
        if not session.is_signed_in:
            raise UnusableError("nobody is signed in: run `coplace login`")
        session.renew()
        typer.echo(session.token_file.read_text().strip())
        return
    issuer = _issuer(ingest, authority)
    client = client_id or issuer.client_id
    if not client:
        raise UnusableError(
            f"{issuer.url}: no client is declared as which people sign in: say --client-id, or set "
            "client_id of `issuer` in the table of authority"
        )
    provider, tokens = asyncio.run(_sign_in(issuer, client, scope or issuer.scope or SCOPE))
    found = session.keep(provider, tokens)
    until = format_utc(round(found.expires_at_s * 1e6))
    renewing = "it is renewed" if found.renews else "it is not renewed: the provider gave no more"
    typer.echo(f"you are {found.who}; the token is valid until {until}, {renewing}")


def logout() -> None:
    """Delete the token of the login, and revoke its renewal at the provider."""
    session = Session(_authority())
    if not session.is_signed_in:
        typer.echo("nobody is signed in")
        return
    problem = session.forget()
    typer.echo("signed out")
    if problem:
        typer.echo(f"the provider may still renew the login: {problem}", err=True)


def _authority() -> Path:
    found = settings().grpc_ca_file
    if found is None:
        raise UnusableError(
            "COPLACE_GRPC_CA_FILE is not set: a token is shown over TLS alone, to services whose "
            "certificates that file's authority signs (docs/how-to/oidc.md)"
        )
    return found


def _issuer(ingest: str, authority: Path) -> Issuer:
    """Ask the region at whom people sign in. Raises UnusableError where at nobody."""
    with calling(ingest, GrpcFiles(authority)) as channel:
        answer = IngestServiceStub(channel).ShowIssuer(ShowIssuerRequest(), timeout=_WITHIN_S)
    if not answer.HasField("issuer"):
        raise UnusableError(
            f"{ingest}: the region declares no issuer, at whom people could sign in: an operator "
            "declares one (docs/how-to/oidc.md), or use a token (`coplace tokens issue`)"
        )
    return Issuer.from_message(answer.issuer)


async def _sign_in(issuer: Issuer, client_id: str, scope: str) -> tuple[Provider, TokenGrant]:
    provider = await Provider.discover(issuer, client_id)
    code = await begin(provider, scope)
    for line in _directions(code):
        typer.echo(line, err=True)
    return provider, await confirmed(provider, code, CLOCK)


def _directions(code: DeviceCode) -> list[str]:
    found = [f"open {code.page} and type the code {code.user_code}"]
    if code.page_with_code:
        found.append(f"or open {code.page_with_code}, and compare the code")
    return [*found, f"waiting for at most {code.expires_in_s:.0f} s"]
