"""Puts the events of a round into the one order in which placement takes them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from coplace.v1.jobs_pb2 import JobSubmitted

from shared.catalogue.digest import Model, require_sha256
from shared.catalogue.event import Event, Publish
from shared.catalogue.options import ranks
from shared.domain.natural_order import NaturalKey, natural
from shared.streams.stages.stage import AlreadyAppliedError, Round
from shared.streams.state.events import EVENTS
from shared.streams.state.state import State

OUTPUT: Final = "placement.inputs"
KEY: Final = "region"

# Of events of the same microsecond: first what is known, then what gives nodes back.
_RANKS: Final = ranks()
CONSUMES: Final = frozenset(_RANKS)


class Sequencer:
    """Holds the open round's events; at its end they go out by (event time, kind, sequence, id),
    numbers in sequences and ids as numbers. Submissions of one time that their resource manager
    gave no sequence go first.

    An event of a job never comes before its submission: resource managers that count whole
    seconds end a short job in the second in which it came.

    Ids, times, sources, traces and payloads stay as they are. Copies within the round are dropped;
    those of earlier rounds go through, since placement's fold knows what it has applied.
    """

    def __init__(self, restored: Mapping[str, bytes]) -> None:
        self._state = State(restored)
        # Whoever writes an event chooses its id: the table separates it from what units write.
        self._events = self._state.table("held", EVENTS)
        self._state.require_all_read()

    def handle(self, event: Event) -> Iterable[Publish]:
        """Hold an event. Raises RejectedError for a model whose SHA-256 is not its content's."""
        if event.id in self._events:
            raise AlreadyAppliedError(event.id)
        payload = event.payload
        if isinstance(payload, Model):
            require_sha256(payload)
        self._events.put(event.id, event)
        return ()

    def end_round(self, ended: Round) -> Iterable[Publish]:
        """Return the round's events in order."""
        events = _in_order([*self._events.values()])
        self._events.clear()
        return [Publish(OUTPUT, replace(event, key=KEY)) for event in events]

    def changes(self) -> Mapping[str, bytes | None]:
        """Return events held since the last call, and None for those that went out."""
        return self._state.changes()


def _in_order(events: Collection[Event]) -> list[Event]:
    """By (event time, kind, sequence, id), but what happened to a job behind its submission."""
    came_us: dict[str, int] = {}
    for event in events:
        if isinstance(event.payload, JobSubmitted):
            job_id = event.payload.job_id
            came_us[job_id] = min(event.time_us, came_us.get(job_id, event.time_us))

    def order(event: Event) -> tuple[int, bool, int, NaturalKey, NaturalKey]:
        earliest_us = came_us.get(getattr(event.payload, "job_id", ""), 0)
        is_submission = isinstance(event.payload, JobSubmitted)
        waits = event.time_us <= earliest_us and not is_submission
        time_us, rank = max(event.time_us, earliest_us), _RANKS[event.type]
        sequence = event.payload.sequence if isinstance(event.payload, JobSubmitted) else ""
        return time_us, waits, rank, natural(sequence), natural(event.id)

    return sorted(events, key=order)
