"""`coplace tokens issue|list|revoke`."""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from cli.asking import Ingest, publish
from cli.authority import declared
from cli.output import Output, OutputName, write
from cli.speaking import OPERATOR, Source
from cli.times import clock_us, format_utc
from coplace_client.errors import RejectedError, UnusableError
from coplace_client.facts import fact
from coplace_client.files import write_whole
from shared.authority.table import AuthorityTable, message_of
from shared.authority.tokens import BearerToken, digest_of, fresh_token
from shared.process.settings import settings
from shared.streams.on_kafka.deployment import Deployment

app = typer.Typer(
    no_args_is_help=True,
    help="Tokens, which identify a client that shows no certificate.",
)

_DAY_US: Final = 86_400_000_000
_COLUMNS: Final = ("token", "who", "issued", "expires", "state")


@app.command()
def issue(
    who: Annotated[str, typer.Argument(help="As the table of authority names it.")],
    file: Annotated[Path, typer.Argument(help="Where the token goes, for its owner alone.")],
    days: Annotated[
        float, typer.Option(min=0.001, max=3_650, help="Time for which it is valid.")
    ] = 90.0,
    ingest: Ingest = "127.0.0.1:50051",
    source: Source = OPERATOR,
) -> None:
    """Make a token, declare whom it identifies, and print what their programs need."""
    table, now_us, token = _table(), clock_us(), fresh_token()
    known = BearerToken(digest_of(token), who, now_us, now_us + round(days * _DAY_US))
    with write_whole(file) as fresh:
        fresh.touch(mode=0o600)
        fresh.write_text(token + "\n")
        _declare(table, [*table.tokens.every, known], f"token for {who}", ingest, source)
    for name, value in _environment(who, file).items():
        typer.echo(f"export {name}={shlex.quote(value)}")
    typer.echo(
        f"token {known.name} of {who} is valid until {format_utc(known.expires_at_us)}", err=True
    )


@app.command("list")
def list_tokens(output: OutputName = Output.TABLE) -> None:
    """List the tokens, with whom each identifies, and until when."""
    now_us = clock_us()
    rows = [
        {
            "token": one.name,
            "who": one.who,
            "issued": format_utc(one.issued_at_us),
            "expires": format_utc(one.expires_at_us),
            "state": _state(one, now_us),
        }
        for one in _table().tokens.every
    ]
    write(rows, _COLUMNS, output)


@app.command()
def revoke(
    which: Annotated[
        str, typer.Argument(metavar="TOKEN|WHO", help="One as listed, or all of somebody's.")
    ],
    ingest: Ingest = "127.0.0.1:50051",
    source: Source = OPERATOR,
) -> None:
    """Revoke a token, or all of an identity, at once and in open calls too."""
    table, now_us = _table(), clock_us()
    gone = {one.name for one in table.tokens.every if which in (one.name, one.who)}
    if not gone:
        raise UnusableError(f"{which[:80]!r} is neither a token nor an owner of one: see `list`")
    left = [
        replace(one, revoked_at_us=one.revoked_at_us or now_us) if one.name in gone else one
        for one in table.tokens.every
    ]
    _declare(table, left, f"{which} revoked", ingest, source)
    for name in sorted(gone):
        typer.echo(f"token {name} is revoked")


def _environment(who: str, file: Path) -> Mapping[str, str]:
    """What programs of theirs need, as far as it is known here."""
    addresses = {
        f"COPLACE_{process}_ADDRESS": os.environ[f"COPLACE_{process}_TOKEN_ADDRESS"]
        for process in ("INGEST", "PLACEMENT", "ENERGY", "WATCH")
        if f"COPLACE_{process}_TOKEN_ADDRESS" in os.environ
    }
    authority = settings().grpc_ca_file
    return {
        "COPLACE_GRPC_TOKEN_FILE": str(file.absolute()),
        **({"COPLACE_GRPC_CA_FILE": str(authority)} if authority else {}),
        "COPLACE_SOURCE": who,
        **addresses,
    }


def _table() -> AuthorityTable:
    found = declared.read_table_in_force(Deployment.from_settings(settings())).now
    if found is None:
        raise UnusableError(
            "no table of authority is declared, which says who is who: `coplace authority set FILE`"
        )
    return found


def _declare(
    before: AuthorityTable, tokens: Sequence[BearerToken], reason: str, ingest: str, source: str
) -> None:
    """The table in force with these tokens, as its next version."""
    now_us = clock_us()
    kept = [one for one in tokens if one.is_worth_keeping(now_us)]
    table = message_of(before.version + 1, before.bindings, reason, now_us, kept, before.issuer)
    try:
        AuthorityTable.from_message(table)
    except RejectedError as error:
        raise UnusableError(str(error)) from error
    publish(ingest, fact(source, table, f"{table.version}/{now_us}", now_us))


def _state(token: BearerToken, now_us: int) -> str:
    if token.revoked_at_us:
        return f"revoked at {format_utc(token.revoked_at_us)}"
    return "counts" if now_us < token.expires_at_us else "has expired"
