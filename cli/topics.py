"""`coplace topics` and `coplace tail`: create topics, list them, read them."""

from typing import Annotated

import orjson
import typer

from cli import completion
from shared.domain.errors import RejectedError
from shared.messaging.clients import Reader
from shared.messaging.codec import Codec
from shared.messaging.deployment import Deployment
from shared.messaging.event_json import plain
from shared.messaging.record import Record
from shared.messaging.topics import load_topics
from shared.runtime.settings import settings

app = typer.Typer(no_args_is_help=True, help="Create and list the topics.")


@app.command()
def create() -> None:
    """Create every topic, dead-letter queue and changelog that does not exist yet."""
    from cli.stages import create_topics

    for name in create_topics(Deployment.of(settings())):
        typer.echo(f"created {name}")


@app.command("list")
def list_topics() -> None:
    """One line a topic: name, Kafka partitions, what it holds."""
    for spec in load_topics().values():
        typer.echo(f"{spec.name}\t{spec.kafka_partitions}\t{spec.description}")


def tail(
    topic: Annotated[
        str,
        typer.Argument(help="As `coplace topics list` names it.", autocompletion=completion.topics),
    ],
    follow: Annotated[bool, typer.Option(help="Go on with what comes.")] = False,
) -> None:
    """Print a topic's events as JSON lines, from its start, and what is wrong with the rest."""
    deployment = Deployment.of(settings())
    with Reader(deployment, deployment.topics.partitions(topic)) as reader:
        for record in reader.to_end():
            typer.echo(_line(deployment.codec, record))
        while follow:
            for record in reader.poll():
                typer.echo(_line(deployment.codec, record))


def _line(codec: Codec, record: Record) -> str:
    try:
        return orjson.dumps(plain(codec.decode(record))).decode()
    except RejectedError as error:
        topic, kafka_partition = record.partition
        where = f"{topic}/{kafka_partition}/{record.offset}"
        return orjson.dumps({"rejected": where, "problem": str(error)}).decode()
