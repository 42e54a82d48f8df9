"""Whole events as bytes of the changelog."""

from typing import Any

import orjson

from shared.catalogue.event import Event
from shared.catalogue.schemas import MESSAGES


def to_bytes(event: Event) -> bytes:
    """JSON of the attributes, a line break, and the payload's protobuf as it is: an event that
    fits into a topic must fit into the changelog too."""
    envelope = {
        "id": event.id,
        "source": event.source,
        "time_us": event.time_us,
        "key": event.key,
        "traceparent": event.traceparent,
        "type": event.type,
    }
    payload = event.payload.SerializeToString(deterministic=True)
    return orjson.dumps(envelope, option=orjson.OPT_APPEND_NEWLINE) + payload


def from_bytes(value: bytes) -> Event:
    """The event that `to_bytes` wrote."""
    attributes, _, payload = value.partition(b"\n")
    envelope: dict[str, Any] = orjson.loads(attributes)
    message = MESSAGES[envelope.pop("type")]
    return Event(payload=message.FromString(payload), **envelope)
