"""`coplace models`: the versions of what prediction learned, as it published them."""

import json
from collections.abc import Iterable, Sequence
from typing import Annotated, Final, NamedTuple

import typer
from coplace.v1.prediction_pb2 import (
    DegradationModelPublished,
    NodePowerPublished,
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

Model = PowerModelPublished | DegradationModelPublished | NodePowerPublished
_TOPIC: Final = "prediction.models"
_COLUMNS: Final = ("version", "published", "learned from", "error on others", "newest", "sha256")


class Published(NamedTuple):
    """A version, and when it was published."""

    time_us: int
    model: Model


@app.command("list")
def list_models(output: OutputName = Output.TABLE) -> None:
    """One line a version, the oldest first: what it was learned from, and how wrong it was."""
    write(rows(published(_events())), _COLUMNS, output)


@app.command()
def show(
    version: Annotated[str, typer.Argument(help="As `coplace models list` names it.")],
) -> None:
    """Print a version as JSON: its parameters, without the nodes of trees."""
    typer.echo(text(chosen(published(_events()), version)))


def _events() -> Iterable[Event]:
    return KafkaTopics(Deployment.of(settings())).topic(_TOPIC)


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
    ]


def chosen(versions: Sequence[Published], version: str) -> Model:
    """Raises UnusableError for a version that was not published."""
    for _, model in reversed(versions):
        if model.version == version:
            return model
    raise UnusableError(f"there is no version {version!r}: `coplace models list` names them")


def text(model: Model) -> str:
    """JSON; of a forest how many nodes each tree has."""
    content = MessageToDict(model, preserving_proto_field_name=True)
    content["sha256"] = _sha256(model)
    if isinstance(model, PowerModelPublished):
        content["trees"] = [f"{len(tree.feature)} nodes" for tree in model.trees]
    return json.dumps(content, indent=2)


def _name(model: Model) -> str:
    return model.version.partition("@")[0]


def _learned_from(model: Model) -> str:
    match model:
        case PowerModelPublished():
            return f"{model.training_jobs} jobs"
        case DegradationModelPublished():
            return f"{model.training_pairs} pairs"
        case NodePowerPublished():
            return f"{model.training_readings} readings"


def _error(model: Model) -> str:
    """Of jobs that were held out; nothing where none were or where it is not known."""
    if isinstance(model, PowerModelPublished) and model.training_jobs:
        return f"{100 * model.holdout_mape:.2f} %"
    return ""


def _sha256(model: Model) -> str:
    """The one that its content has, and what it says of itself where that is another."""
    found = model_sha256(model)
    return found.hex() if found == model.sha256 else f"{found.hex()}, not {model.sha256.hex()}"
