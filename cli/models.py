"""`coplace models`: the versions of what prediction learned, as it published them, and which of
them is in force."""

import json
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Annotated, Any, Final, NamedTuple

import typer
from coplace.v1.control_pb2 import ModelPinned, ModelRolledBack
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.prediction_pb2 import (
    DegradationModelPublished,
    NodePowerPublished,
    PairTreesChosen,
    PairTreesJudged,
    PairTreesPublished,
    PowerHistoryUpdated,
    PowerModelPublished,
    PowerTreesChosen,
    PowerTreesJudged,
    PowerTreesPublished,
)
from google.protobuf.json_format import MessageToDict

from cli.asking import Ingest
from cli.kafka_topics import KafkaTopics
from cli.known import require_known
from cli.notes import utc
from cli.outcomes import order, tell
from cli.output import Output, OutputName, Row, write
from cli.speaking import Reason, Source
from cli.times import clock_us
from cli.waiting import WAIT_S, Wait
from coplace_client.errors import UnusableError
from shared.catalogue.digest import model_sha256
from shared.catalogue.event import Event
from shared.domain.model_names import PAIR_TREES, TREES
from shared.process.settings import settings
from shared.streams.on_kafka.deployment import Deployment

app = typer.Typer(
    no_args_is_help=True, help="The versions of learned models, and which is in force."
)

Model = (
    PowerModelPublished
    | PowerHistoryUpdated
    | PowerTreesPublished
    | DegradationModelPublished
    | PairTreesPublished
    | NodePowerPublished
)
Judged = PowerTreesJudged | PairTreesJudged
Chosen = PowerTreesChosen | PairTreesChosen
Trees = Judged | Chosen
_TOPICS: Final = ("prediction.models", "prediction.power")
_ALL_LISTED: Final = "`coplace models list` names all"
_OF_TREES: Final = (TREES, PAIR_TREES)
_COLUMNS: Final = ("version", "published", "learned from", "error on others", "state", "sha256")


OfTrees = Annotated[str, typer.Option("--model", help="power-trees or pair-trees.")]


class Published(NamedTuple):
    """A version, and when it was published."""

    time_us: int
    model: Model


@app.command("list")
def list_models(output: OutputName = Output.TABLE) -> None:
    """List versions, one a line, the oldest first: what it was learned from, and how wrong it was.
    Of what similar jobs drew, which every finished job changes, the newest version alone. The
    newest of a model is what placement evaluates; of trees, what is in force."""
    events = list(_events())
    write(rows(list_published(events), list_tree_events(events)), _COLUMNS, output)


@app.command()
def show(
    version: Annotated[str, typer.Argument(help="As `coplace models list` names it.")],
) -> None:
    """Print a version as JSON: its parameters."""
    typer.echo(text(choose_model(list_published(_events()), version)))


@app.command()
def pin(
    version: Annotated[str, typer.Argument(help="Of trees, as the list names it.")],
    reason: Reason = "",
    ingest: Ingest = "127.0.0.1:50051",
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Put a version into force from the end of the round on; it stays, whatever would be better.
    The newest five can be."""
    model = _known(_name(choose_model(list_published(_events()), version)))
    done = order(ingest, pin_event(version, reason, source, clock_us(), model), wait)
    typer.echo(f"{version} stays until it is unpinned")
    tell(done)


@app.command()
def unpin(
    model: OfTrees = TREES,
    reason: Reason = "",
    ingest: Ingest = "127.0.0.1:50051",
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Let a better version replace the one in force again."""
    done = order(ingest, pin_event("", reason, source, clock_us(), _known(model)), wait)
    typer.echo("the next better version takes its place")
    tell(done)


@app.command()
def rollback(
    model: OfTrees = TREES,
    reason: Reason = "",
    ingest: Ingest = "127.0.0.1:50051",
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Put the version into force that was before the present one; before the first one, none. A
    later one replaces it once it is better."""
    now_us = clock_us()
    back = ModelRolledBack(model=_known(model), reason=reason, rolled_back_at_us=now_us)
    event = _envelope(back.DESCRIPTOR.full_name, source, now_us, model_rolled_back=back)
    done = order(ingest, event, wait)
    typer.echo("the version before is in force again")
    tell(done)


def _known(model: str) -> str:
    """Raises UnusableError for one of which several versions are not kept."""
    if model not in _OF_TREES:
        raise UnusableError(f"no versions of {model} are kept: give {' and '.join(_OF_TREES)}")
    return model


def pin_event(version: str, reason: str, source: str, now_us: int, model: str) -> Envelope:
    """Return the event that pins a version; an empty one unpins."""
    order = ModelPinned(model=model, version=version, reason=reason, pinned_at_us=now_us)
    return _envelope(order.DESCRIPTOR.full_name, source, now_us, model_pinned=order)


def _envelope(name: str, source: str, now_us: int, **payload: Any) -> Envelope:
    return Envelope(id=f"{source}/{name}/{now_us}", source=source, time_us=now_us, **payload)


def _events() -> Iterable[Event]:
    topics = KafkaTopics(Deployment.from_settings(settings()))
    return chain.from_iterable(map(topics.topic, _TOPICS))


def list_published(events: Iterable[Event]) -> list[Published]:
    """Return the versions in the order of their publication; copies of one are one."""
    found: dict[tuple[str, bytes], Published] = {}
    for event in events:
        if isinstance(event.payload, Model):
            key = event.payload.version, event.payload.sha256
            found.setdefault(key, Published(event.time_us, event.payload))
    return sorted(found.values(), key=lambda each: (each.time_us, each.model.version))


def list_tree_events(events: Iterable[Event]) -> list[Trees]:
    """Return what became of versions of trees, in the order of the events."""
    told = [(event.time_us, event.payload) for event in events if isinstance(event.payload, Trees)]
    return [payload for _, payload in sorted(told, key=lambda each: each[0])]


def rows(versions: Sequence[Published], told: Sequence[Trees] = ()) -> list[Row]:
    """Return a row for each version."""
    newest = {_name(model): model for _, model in versions}
    return [
        {
            "version": model.version,
            "published": utc(time_us),
            "learned from": _learned_from(model),
            "error on others": _error(model, told),
            "state": _state(model, told, is_newest=newest[_name(model)] is model),
            "sha256": _sha256(model),
        }
        for time_us, model in versions
        if newest[_name(model)] is model or not isinstance(model, PowerHistoryUpdated)
    ]


def choose_model(versions: Sequence[Published], version: str) -> Model:
    """Raises UnusableError for a version that was not published."""
    require_known("version", version, (model.version for _, model in versions), _ALL_LISTED)
    return next(model for _, model in reversed(versions) if model.version == version)


def text(model: Model) -> str:
    """Return the message as JSON, with the SHA-256 of its content and where it came from."""
    content = MessageToDict(model, preserving_proto_field_name=True)
    content["sha256"] = _sha256(model)
    if isinstance(model, PowerTreesPublished | PairTreesPublished):
        content["data_sha256"] = model.data_sha256.hex()
    if isinstance(model, PowerHistoryUpdated | PowerTreesPublished | PairTreesPublished):
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
        case PowerTreesPublished():
            return f"{model.trained_jobs} jobs"
        case PairTreesPublished():
            return f"{model.trained_intervals} intervals"
        case DegradationModelPublished():
            return f"{model.training_pairs} pairs"
        case NodePowerPublished():
            return f"{model.training_readings} readings"


def _state(model: Model, told: Sequence[Trees], *, is_newest: bool) -> str:
    """Whether placement evaluates it; of trees, what they are instead."""
    if not isinstance(model, PowerTreesPublished | PairTreesPublished):
        return "newest" if is_newest else ""
    kind = PowerTreesChosen if isinstance(model, PowerTreesPublished) else PairTreesChosen
    choices = [each for each in told if isinstance(each, kind)]
    if choices and choices[-1].version == model.version:
        return f"in force{', pinned' if choices[-1].is_pinned else ''}: {choices[-1].reason}"
    if any(each.version == model.version for each in choices):
        return "was in force"
    return "not better" if _judged(model, told) else "in the shadow" if is_newest else ""


def _judged(model: Model, told: Sequence[Trees]) -> Judged | None:
    found = [each for each in told if isinstance(each, Judged)]
    return next((each for each in found if each.version == model.version), None)


def _error(model: Model, told: Sequence[Trees]) -> str:
    """Of the newest predictions, each made before the job was learned from; of trees, of the jobs
    or intervals for which they were in the shadow, beside what was in force; nothing where it is
    not known."""
    if judged := _judged(model, told):
        return f"{100 * judged.error:.2f} %, not {100 * judged.error_in_force:.2f} %"
    if isinstance(model, PowerHistoryUpdated) and model.recent_error:
        return f"{100 * model.recent_error:.2f} %"
    return ""


def _sha256(model: Model) -> str:
    """The one that its content has, and what it says of itself where that is another."""
    found = model_sha256(model)
    return found.hex() if found == model.sha256 else f"{found.hex()}, not {model.sha256.hex()}"
