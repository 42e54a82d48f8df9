"""Whole events as rows: an event that fits into a topic fits into the changelog too."""

from typing import Final, NamedTuple

from shared.catalogue.event import Event
from shared.catalogue.schemas import MESSAGES
from shared.streams.state.rows import Form, RowCodec


class _KeptEvent(NamedTuple):
    """An event whose payload is named by its type."""

    id: str
    source: str
    time_us: int
    key: str
    traceparent: str
    type: str
    payload: bytes


def _of_event(event: Event) -> _KeptEvent:
    payload = event.payload.SerializeToString(deterministic=True)
    attributes = event.id, event.source, event.time_us, event.key, event.traceparent
    return _KeptEvent(*attributes, event.type, payload)


def _to_event(kept: _KeptEvent) -> Event:
    payload = MESSAGES[kept.type].FromString(kept.payload)
    return Event(kept.id, kept.source, kept.time_us, kept.key, payload, kept.traceparent)


EVENTS: Final = RowCodec(Event, form=Form(_KeptEvent, _of_event, _to_event))
