"""Envelopes to events: pure validation, no clock and no state."""

import re
from typing import Final

from coplace.v1.ingest_service_pb2 import Envelope, PublishRequest, PublishStreamRequest
from google.protobuf.message import DecodeError

from services.ingest.checks import Limits, time_us
from services.ingest.payloads import KINDS
from shared.domain.checks import require_text
from shared.domain.errors import RejectedError
from shared.messaging.event import Event, Publish
from shared.messaging.topics import Topics
from shared.messaging.trace import job_traceparent
from shared.messaging.unit import EventTimeLimit

# What a record holds beside its value: key, headers and framing.
RECORD_OVERHEAD_BYTES: Final = 8_192
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


class Intake:
    """Turns envelopes into events for the topics that keep them."""

    def __init__(
        self,
        topics: Topics,
        *,
        max_message_bytes: int = 1_048_576,
        ahead_us: int = EventTimeLimit().ahead_us,
    ) -> None:
        self._topics = topics
        self._max_message_bytes = max_message_bytes
        self._ahead_us = ahead_us

    def accept(self, envelope: Envelope, now_s: float) -> Publish:
        """The event to publish. Raises RejectedError, which names the field, for bad input."""
        limits = Limits(round(now_s * 1e6) + self._ahead_us, self._max_message_bytes)
        _check_size(envelope, limits)
        name = envelope.WhichOneof("payload")
        if name is None:
            raise RejectedError("payload", f"must be one of {', '.join(KINDS)}")
        kind, payload = KINDS[name], getattr(envelope, name)
        kind.check(name, payload, limits)
        _check_attributes(envelope, limits)
        return Publish(
            kind.topic,
            Event(
                id=envelope.id,
                source=envelope.source,
                time_us=envelope.time_us,
                key=self._topics.spec(kind.topic).key_of(payload),
                payload=payload,
                traceparent=_traceparent(envelope.traceparent, getattr(payload, "job_id", "")),
            ),
        )


def parse_envelope(request: type[PublishRequest | PublishStreamRequest], data: bytes) -> Envelope:
    """The envelope in a request. Raises RejectedError for what is no protobuf or no UTF-8."""
    try:
        return request.FromString(data).event
    except DecodeError:
        raise RejectedError("event", "must be a protobuf message with UTF-8 strings") from None


def check_source(envelope: Envelope, speaker: str) -> None:
    """Raise RejectedError unless the one who speaks is the source, or stands for it."""
    if envelope.source != speaker and not envelope.source.startswith(f"{speaker}/"):
        raise RejectedError(
            "source", f"must be {speaker!r} or below it, as the client certificate says"
        )


def _check_size(envelope: Envelope, limits: Limits) -> None:
    largest = limits.max_message_bytes - RECORD_OVERHEAD_BYTES
    if envelope.ByteSize() > largest:
        raise RejectedError("event", f"has {envelope.ByteSize()} bytes, the limit is {largest}")


def _check_attributes(envelope: Envelope, limits: Limits) -> None:
    require_text("id", envelope.id, limit=1024)
    require_text("source", envelope.source)
    time_us("time_us", envelope.time_us, limits)


def _traceparent(given: str, job_id: str) -> str:
    """As W3C Trace Context says, what cannot be parsed is ignored and a new trace begins."""
    if _TRACEPARENT.fullmatch(given):
        return given
    return job_traceparent(job_id) if job_id else ""
