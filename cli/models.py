"""`coplace models`: the versions of what prediction learned, as it published them."""

import json
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Annotated, Final, NamedTuple

import typer
from coplace.v1.prediction_pb2 import (
    DegradationModelPublished,
    NodePowerPublished,
    PowerHistoryUpdated,
    PowerModelPublished,
)
from google.protobuf.json_format import MessageToDict

from cli.kafka_topics import KafkaTopics
from cli.output import Output, OutputName, Row, write
from cli.telling import utc
from shared.domain.errors import UnusableError
from shared.messaging.deployment import Deployment
from shared.messaging.digest import model_sha256
from shared.messaging.event import Event
from shared.runtime.settings import settings

app = typer.Typer(no_args_is_help=True, help="The versions of learned models.")

Model = PowerModelPublished | PowerHistoryUpdated | DegradationModelPublished | NodePowerPublished
_TOPICS: Final = ("prediction.models", "prediction.power")
_COLUMNS: Final = ("version", "published", "learned from", "error on others", "newest", "sha256")


class Published(NamedTuple):
    """A version, and when it was published."""

    time_us: int
    model: Model


@app.command("list")
def list_models(output: OutputName = Output.TABLE) -> None:
    """One line a version, the oldest first: what it was learned from, and how wrong it was. Of what
    similar jobs drew, which every finished job changes, the newest version alone."""
    write(rows(published(_events())), _COLUMNS, output)


@app.command()
def show(
    version: Annotated[str, typer.Argument(help="As `coplace models list` names it.")],
) -> None:
    """Print a version as JSON: its parameters."""
    typer.echo(text(chosen(published(_events()), version)))


def _events() -> Iterable[Event]:
    topics = KafkaTopics(Deployment.of(settings()))
    return chain.from_iterable(map(topics.topic, _TOPICS))


def published(events: Iterable[Event]) -> list[Published]:
    """The versions in the order of their publication; copies of one are one."""
    found: dict[tuple[str, bytes], Published] = {}
    for event in events:
        if isinstance(event.payload, Model):
            key = event.payload.version, event.payload.sha256
            found.setdefault(key, Published(event.time_us, event.payload))
    return sorted(found.values(), key=lambda each: (each.time_us, each.model.version))


def rows(versions: Sequence[Published]) -> list[Row]:
    """All that is told of each. The newest of each model is the one that placement evaluates."""
    newest = {_name(model): model for _, model in versions}
    return [
        {
            "version": model.version,
            "published": utc(time_us),
            "learned from": _learned_from(model),
            "error on others": _error(model),
            "newest": "newest" if newest[_name(model)] is model else "",
            "sha256": _sha256(model),
        }
        for time_us, model in versions
        if newest[_name(model)] is model or not isinstance(model, PowerHistoryUpdated)
    ]


def chosen(versions: Sequence[Published], version: str) -> Model:
    """Raises UnusableError for a version that was not published."""
    for _, model in reversed(versions):
        if model.version == version:
            return model
    raise UnusableError(f"there is no version {version!r}: `coplace models list` names them")


def text(model: Model) -> str:
    """JSON."""
    content = MessageToDict(model, preserving_proto_field_name=True)
    content["sha256"] = _sha256(model)
    if isinstance(model, PowerHistoryUpdated):
        content["origin"] = model.origin.hex()
    return json.dumps(content, indent=2)


def _name(model: Model) -> str:
    return model.version.partition("@")[0]


def _learned_from(model: Model) -> str:
    match model:
        case PowerModelPublished():
            return "newest readings"
        case PowerHistoryUpdated():
            return f"{model.learned_jobs} jobs"
        case DegradationModelPublished():
            return f"{model.training_pairs} pairs"
        case NodePowerPublished():
            return f"{model.training_readings} readings"


def _error(model: Model) -> str:
    """Of the newest predictions, each made before the job was learned from; nothing where it is not
    known."""
    if isinstance(model, PowerHistoryUpdated) and model.recent_error:
        return f"{100 * model.recent_error:.2f} %"
    return ""


def _sha256(model: Model) -> str:
    """The one that its content has, and what it says of itself where that is another."""
    found = model_sha256(model)
    return found.hex() if found == model.sha256 else f"{found.hex()}, not {model.sha256.hex()}"
