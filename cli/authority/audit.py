"""`coplace audit`: who said and asked what, and what was refused."""

from collections.abc import Iterator
from typing import Annotated, Final

import typer
from coplace.v1.authority_pb2 import AccessAudited

from cli.authority.file import actions
from cli.known import require_known
from cli.output import Output, OutputName, Row, write
from cli.times import format_utc, time_us
from coplace_client.errors import RejectedError
from shared.authority.door import AUDIT
from shared.process.settings import settings
from shared.streams.on_kafka.clients import Reader
from shared.streams.on_kafka.deployment import Deployment

_COLUMNS: Final = ("at", "who", "action", "about", "verdict", "reason")


def audit(
    who: Annotated[str, typer.Option(help="Only of this identity.")] = "",
    action: Annotated[str, typer.Option(help="Only of this payload or RPC.")] = "",
    refused: Annotated[bool, typer.Option("--refused", help="Only what was refused.")] = False,
    since: Annotated[str, typer.Option(metavar="TIME", help="Only from then on.")] = "",
    output: OutputName = Output.TABLE,
) -> None:
    """List who declared, ordered and was refused what, oldest first, as Kafka has it; where a
    history runs, `coplace history audit` says what was before and after."""
    try:
        since_us = time_us(since) if since else 0
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    kept = list(read_audit(Deployment.from_settings(settings())))
    if who:
        require_known("identity on record", who, {each.who for each in kept})
    if action:
        require_known("action", action, {*actions(), *(each.action for each in kept)})
    found = [
        row(each)
        for each in kept
        if who in ("", each.who)
        and action in ("", each.action)
        and (each.refused or not refused)
        and each.at_us >= since_us
    ]
    write(found, _COLUMNS, output)


def read_audit(deployment: Deployment) -> Iterator[AccessAudited]:
    """Yield every record of the audit. Raises KafkaError."""
    with Reader(deployment, deployment.topics.partitions(AUDIT)) as reader:
        for record in reader.to_end():
            try:
                event = deployment.codec.decode(record, of_any_count=True)
            except RejectedError:
                continue
            if isinstance(event.payload, AccessAudited):
                yield event.payload


def row(found: AccessAudited) -> Row:
    """Return a record of the audit by columns."""
    return {
        "at": format_utc(found.at_us),
        "who": found.who,
        "action": found.action,
        "about": found.about,
        "verdict": "refused" if found.refused else "allowed",
        "reason": found.reason,
        "event": found.event_id,
        "door": found.door,
        "version": found.version,
    }
