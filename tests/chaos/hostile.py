"""What should never be accepted, and what may be but is extreme: at the door of ingest, and
straight into topics. It speaks of subjects of its own, since whoever may forge facts about a job
may end it."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, Final

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobSubmitted
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from shared.catalogue.event import Event, Publish
from shared.catalogue.record import NewRecord
from shared.streams.stages.stage import Processor, Stage
from tests.chaos.places import OF_PLACES
from tests.chaos.start_terms import START_TERMS
from tests.support.deaths import die

if TYPE_CHECKING:
    from tests.chaos.world import World

_NUMBERS: Final = (0, 1, -1, 2**31 - 1, 2**32 - 1, 2**63 - 1, -(2**63), 10**15)
_FLOATS: Final = (0.0, -1.0, 1e-9, 1e-300, 1e9, 1e15, 1e300, math.inf, math.nan)
_TEXTS: Final = ("", " ", "\n", "\x00", "a" * 257, "a" * 5_000, "ü" * 256, "../..", "a|b/c")
_TOPICS: Final = (
    "jobs.events",
    "commands",
    "telemetry.signatures",
    "telemetry.nodes",
    "telemetry.shutters",
    "energy.signatures",
    "energy.coefficients",
    "prediction.models",
    "prediction.power",
    "prediction.readings",
    "prices.charges",
)
# Of these nobody could know that it is not meant: tariffs and accounts of others, and what managers
# say of the clusters and jobs of a list.
_OF_OTHERS: Final = (
    *("tariff_declared", "allocation_declared", "period_closed", "reprice_asked"),
    *("manager_alive", "jobs_reordered", "node_power_declared"),
)
_POISON: Final = "poison of "
_DEADLY: Final = "death of "
_FAILING: Final = ("placement.sequencer", "placement", "pricing", "prediction", "energy.advisor")
# Fields that say of whom a fact is.
_SUBJECTS: Final = ("job_id", "cluster", "node", "name")
_MOST_SUBJECTS: Final = 3


def fragile(stage: Stage) -> Stage:
    """The stage with two bugs that poisoned submissions find: one raises an error, one kills."""
    if stage.name not in _FAILING:
        return stage

    def create(number: int, restored: Mapping[str, bytes]) -> Processor:
        processor = stage.create(number, restored)
        right = processor.handle

        def handle(event: Event) -> Iterable[Publish]:
            submitted = event.payload
            user = submitted.user if isinstance(submitted, JobSubmitted) else ""
            if user == _POISON + stage.name:
                raise ValueError("a bug in the processor")
            if user == _DEADLY + stage.name:
                die()
            return right(event)

        processor.handle = handle  # type: ignore[method-assign]
        return processor

    return replace(stage, create=create)


def at_the_door(world: "World") -> None:
    """A fact that was taken before, of another subject, with some fields out of all bounds."""
    if not _distortable(world):
        return
    envelope, _ = _distorted(world)
    envelope.id = f"hostile/{world.clock.now_us}/{world.events}"
    if world.rng.random() < 0.1:
        envelope.time_us = world.rng.choice(_NUMBERS)
    world.network.send(envelope)


def into_a_topic(world: "World") -> None:
    """A record that nobody can use."""
    rng = world.rng
    place = rng.choice(world.codec.topics.partitions(rng.choice(_TOPICS)))
    found = world.log.read(place, max(0, world.log.end_offset(place) - 20), 20)
    like = rng.choice(found) if found else None
    headers = like.headers if like else ()
    value = bytes(rng.randrange(256) for _ in range(rng.choice([0, 1, 10, 100])))
    spoilt = rng.choice(
        [
            NewRecord(place, b"hostile", value, headers),
            NewRecord(place, b"\xff\xfe", value),
            NewRecord(place, b"hostile", None, headers),
            NewRecord(place, b"hostile", value, (("ce_type", b"\xff"), ("ce_id", b"x"))),
            NewRecord(place, b"hostile", like.value if like else b"", headers),
        ]
    )
    world.log.append(spoilt)


def past_the_door(world: "World") -> None:
    """A well-formed record of an extreme fact, which ingest never saw."""
    if not _distortable(world):
        return
    _, payload = _distorted(world)
    kind = payload.DESCRIPTOR.full_name
    topics = [t for t in _TOPICS if kind in world.codec.topics.spec(t).messages]
    topic = world.rng.choice(topics)
    key = world.codec.topics.spec(topic).key_of(payload)
    event_id = f"straight/{world.clock.now_us}/{world.events}"
    event = Event(event_id, "hostile", world.clock.now_us, key, payload)
    try:
        world.log.append(world.codec.encode(Publish(topic, event)))
    except ValueError:
        return  # not even a record


def _distortable(world: "World") -> list[Envelope]:
    """What was sent, but for what is said of others by no subject."""
    return [sent for sent in world.network.sent if sent.WhichOneof("payload") not in _OF_OTHERS]


def _distorted(world: "World") -> tuple[Envelope, Message]:
    """A fact that was sent before, of another subject and out of bounds; and its payload."""
    envelope = Envelope()
    envelope.CopyFrom(world.rng.choice(_distortable(world)))
    payload: Message = getattr(envelope, envelope.WhichOneof("payload") or "")
    for _ in range(world.rng.randint(1, 3)):
        _distort(payload, world)
    _disown(payload, world.rng)
    return envelope, payload


def _distort(message: Message, world: "World") -> None:
    rng = world.rng
    kind = message.DESCRIPTOR
    field: Any = rng.choice([f for f in kind.fields if not is_later(kind.name, f.name, world)])
    value = _extreme(field, rng)
    if value is None:
        return
    try:
        if field.is_repeated:
            del getattr(message, field.name)[:]
            getattr(message, field.name).extend([value] * rng.choice([0, 1, 3, 200]))
        else:
            setattr(message, field.name, value)
    except (ValueError, TypeError):
        return  # protobuf itself does not hold it


def is_later(message: str, field: str, world: "World") -> bool:
    """Whether a field came after seeds that are recorded, which distort those of before alone."""
    is_of_starts, is_of_places = f"{message}.{field}" in START_TERMS, field in OF_PLACES
    return (is_of_starts and not world.scale.timed) or (is_of_places and not world.scale.has_places)


def _extreme(field: FieldDescriptor, rng: Random) -> Any:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING:
            return rng.choice(_TEXTS)
        case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
            return rng.choice(_FLOATS)
        case FieldDescriptor.CPPTYPE_MESSAGE:
            return None
        case FieldDescriptor.CPPTYPE_BOOL:
            return True
        case _:
            return rng.choice(_NUMBERS)


def _disown(message: Message, rng: Random) -> None:
    for field in message.DESCRIPTOR.fields:
        if field.name in _SUBJECTS:
            setattr(message, field.name, f"hostile-{rng.randrange(_MOST_SUBJECTS)}")


def poison(world: "World") -> None:
    """A submission that a stage fails over whenever it meets it: see `fragile`."""
    _submit(world, _POISON)


def deadly(world: "World") -> None:
    """A submission that kills the process of a stage whenever it meets it: see `fragile`."""
    _submit(world, _DEADLY)


def _submit(world: "World", bug: str) -> None:
    stage = world.rng.choice(_FAILING)
    job_id = f"hostile-poison/{world.events}/{world.clock.now_us}"
    submitted = JobSubmitted(
        job_id=job_id,
        attempt=1,
        user=f"{bug}{stage}",
        account="nobody",
        nodes=1,
        walltime_s=60.0,
        reference_cluster="alpha",
        submitted_at_us=world.clock.now_us,
    )
    event_id = f"hostile/{job_id}"
    envelope = Envelope(id=event_id, source="hostile", time_us=world.clock.now_us)
    envelope.job_submitted.CopyFrom(submitted)
    world.network.send(envelope)
