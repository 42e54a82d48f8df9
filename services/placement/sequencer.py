"""Puts the events of a round into the one order in which placement takes them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.energy_pb2 import CoefficientsPublished, SignatureUpdated
from coplace.v1.jobs_pb2 import JobFinished, JobRequeued, JobStarted, JobSubmitted
from coplace.v1.prediction_pb2 import DegradationModelPublished, PowerModelPublished
from google.protobuf.message import Message

from services.placement.envelope import from_bytes, to_bytes
from shared.messaging.digest import require_sha256
from shared.messaging.event import Event, Publish
from shared.messaging.stage import AlreadyAppliedError, Round

OUTPUT: Final = "placement.inputs"
KEY: Final = "region"

# Of events of the same microsecond: first what is known, then what gives nodes back.
_KINDS: Final[tuple[type[Message], ...]] = (
    ClusterDeclared,
    CoefficientsPublished,
    SignatureUpdated,
    PowerModelPublished,
    DegradationModelPublished,
    JobFinished,
    JobRequeued,
    JobSubmitted,
    JobStarted,
)
_RANKS: Final = {kind.DESCRIPTOR.full_name: rank for rank, kind in enumerate(_KINDS)}


class Sequencer:
    """Holds the open round's events; at its end they go out by (event time, kind, id).

    Ids, times, sources, traces and payloads stay as they are. Copies within the round are dropped;
    those of earlier rounds go through, since placement's fold knows what it has applied.
    """

    def __init__(self, restored: Mapping[str, bytes]) -> None:
        self._events = {key: from_bytes(value) for key, value in restored.items()}
        self._saved = set(restored)

    def handle(self, event: Event) -> Iterable[Publish]:
        """Hold an event. Raises RejectedError for a model whose SHA-256 is not its content's."""
        if event.id in self._events:
            raise AlreadyAppliedError(event.id)
        payload = event.payload
        if isinstance(
            payload, CoefficientsPublished | PowerModelPublished | DegradationModelPublished
        ):
            require_sha256(payload)
        self._events[event.id] = event
        return ()

    def end_round(self, ended: Round) -> Iterable[Publish]:
        """The round's events in order."""
        events = sorted(self._events.values(), key=lambda e: (e.time_us, _RANKS[e.type], e.id))
        self._events = {}
        return [Publish(OUTPUT, replace(event, key=KEY)) for event in events]

    def changes(self) -> Mapping[str, bytes | None]:
        """Events held since the last call, and None for those that went out."""
        held = self._events.keys()
        changes: dict[str, bytes | None] = dict.fromkeys(sorted(self._saved - held))
        changes |= {key: to_bytes(self._events[key]) for key in sorted(held - self._saved)}
        self._saved = set(held)
        return changes
