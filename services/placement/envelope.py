"""Whole events as bytes of the changelog."""

from base64 import b64decode, b64encode
from typing import Any

import orjson

from shared.messaging.event import Event
from shared.messaging.schemas import MESSAGES


def to_bytes(event: Event) -> bytes:
    """JSON of the attributes, with the payload's protobuf in base64."""
    envelope = {
        "id": event.id,
        "source": event.source,
        "time_us": event.time_us,
        "key": event.key,
        "traceparent": event.traceparent,
        "type": event.type,
        "payload": b64encode(event.payload.SerializeToString(deterministic=True)).decode(),
    }
    return orjson.dumps(envelope)


def from_bytes(value: bytes) -> Event:
    """The event that `to_bytes` wrote."""
    envelope: dict[str, Any] = orjson.loads(value)
    message = MESSAGES[envelope.pop("type")]
    payload = message.FromString(b64decode(envelope.pop("payload")))
    return Event(payload=payload, **envelope)
