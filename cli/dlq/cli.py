"""`coplace dlq`: what could not be used, why, and the way back."""

from typing import Annotated, Final

import typer
from coplace.v1.control_pb2 import DeadLetter
from google.protobuf.json_format import MessageToJson

from cli import completion
from cli.dlq.dead_letters import DeadLetters, LetterKind, kind_of
from coplace_client.numbers import whole_number
from shared.process.settings import settings
from shared.streams.on_kafka.deployment import Deployment

app = typer.Typer(no_args_is_help=True, help="List, show and replay dead letters.")

# Enough to distinguish defects.
_SHOWN_DIGEST: Final = 12

PartitionText = Annotated[
    str, typer.Argument(help="topic/kafka_partition/offset, as list prints it")
]


def _letters() -> DeadLetters:
    return DeadLetters(Deployment.from_settings(settings()))


@app.command("list")
def list_letters(
    topic: Annotated[
        str, typer.Argument(help="One topic only.", autocompletion=completion.topics)
    ] = "",
    kind: Annotated[
        LetterKind | None,
        typer.Option(help="refused: bad input; quarantined: a defect of the stage."),
    ] = None,
) -> None:
    """List dead letters, one a line: place, stage, kind (with the stack's digest), reason."""
    letters = _letters()
    for name in [topic] if topic else sorted(letters.deployment.topics.specs):
        for letter in letters.of(name):
            if kind in (None, kind_of(letter)):
                typer.echo(_line(letter))


def _line(letter: DeadLetter) -> str:
    place = f"{letter.topic}/{letter.kafka_partition}/{letter.offset}"
    digest = f" {letter.stack_digest[:_SHOWN_DIGEST]}" if letter.stack_digest else ""
    # A reason may repeat what the record said: it stays on its line.
    reason = " ".join(letter.reason.split())
    return f"{place}\t{letter.stage}\t{kind_of(letter)}{digest}\t{reason}"


@app.command()
def show(place: PartitionText) -> None:
    """Show one letter in full, as JSON; bytes are base64."""
    typer.echo(MessageToJson(_letters().one(*_parsed(place)), preserving_proto_field_name=True))


@app.command()
def replay(place: PartitionText) -> None:
    """Append the original record to its topic again."""
    letters = _letters()
    letters.replay(letters.one(*_parsed(place)))
    typer.echo(f"appended the record of {place} again")


def _parsed(place: str) -> tuple[str, int, int]:
    try:
        topic, kafka_partition, offset = place.split("/")
        return topic, whole_number(kafka_partition), whole_number(offset)
    except ValueError as error:
        wanted = "a place is topic/kafka_partition/offset, as in jobs.events/2/17"
        raise typer.BadParameter(wanted) from error
