"""Envelopes to events: pure validation, no clock and no state."""

import re
from typing import Final

from coplace.v1.authority_pb2 import AuthorityDeclared
from coplace.v1.ingest_service_pb2 import Envelope, PublishRequest, PublishStreamRequest
from google.protobuf.message import DecodeError, Message

from coplace_client.checks import require_text
from coplace_client.errors import RejectedError
from services.ingest.payloads import KINDS, PayloadKind
from shared.catalogue.contents.check import check_contents
from shared.catalogue.contents.compiled import YEAR_2000_US
from shared.catalogue.event import Event, Publish
from shared.catalogue.texts import MOST_TEXT_BYTES, require_short_texts
from shared.catalogue.times import times_us
from shared.catalogue.topics import Topics
from shared.catalogue.trace import job_traceparent
from shared.streams.stages.unit import EventTimeLimit

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
        of_site: str = "",
    ) -> None:
        self._topics = topics
        self._max_message_bytes = max_message_bytes
        self._ahead_us = ahead_us
        self._of_site = of_site

    def accept(self, envelope: Envelope, now_s: float) -> Publish:
        """Return the event to publish. Raises RejectedError, which names the field, for bad
        input."""
        self._check_size(envelope)
        name = envelope.WhichOneof("payload")
        if name is None:
            raise RejectedError("payload", f"must be one of {', '.join(KINDS)}")
        if self._of_site and isinstance(getattr(envelope, name), AuthorityDeclared):
            raise RejectedError(name, f"must be declared at the hub of the site {self._of_site}")
        kind, payload = KINDS[name], getattr(envelope, name)
        latest_us = round(now_s * 1e6) + self._ahead_us
        try:
            _check_payload(payload, kind, latest_us)
        except RejectedError as error:
            raise RejectedError(f"{name}.{error.field}", error.problem) from None
        _check_attributes(envelope, latest_us)
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

    def _check_size(self, envelope: Envelope) -> None:
        largest = self._max_message_bytes - RECORD_OVERHEAD_BYTES
        if envelope.ByteSize() > largest:
            raise RejectedError("event", f"has {envelope.ByteSize()} bytes, the limit is {largest}")


def parse_envelope(request: type[PublishRequest | PublishStreamRequest], data: bytes) -> Envelope:
    """Parse the envelope in a request. Raises RejectedError for what is not protobuf or not
    UTF-8."""
    try:
        return request.FromString(data).event
    except DecodeError:
        raise RejectedError("event", "must be a protobuf message with UTF-8 strings") from None


def check_source(envelope: Envelope, speaker: str) -> None:
    """Raise RejectedError unless the caller is the source, or speaks for it."""
    if envelope.source != speaker and not envelope.source.startswith(f"{speaker}/"):
        raise RejectedError(
            "source", f"must be {speaker!r} or below it, as the client certificate says"
        )


def _check_payload(payload: Message, kind: PayloadKind, latest_us: int) -> None:
    check_contents(payload)
    if payload.ByteSize() > MOST_TEXT_BYTES:
        require_short_texts(payload)
    kind.check(payload)
    for field, time_us in times_us(payload):
        _require_before(field, time_us, latest_us)


def _check_attributes(envelope: Envelope, latest_us: int) -> None:
    require_text("id", envelope.id, limit=1024)
    require_text("source", envelope.source)
    if envelope.time_us < YEAR_2000_US:
        raise RejectedError("time_us", f"must not lie before 2000, got {envelope.time_us} us")
    _require_before("time_us", envelope.time_us, latest_us)


def _require_before(field: str, time_us: int, latest_us: int) -> None:
    if time_us > latest_us:
        problem = f"must not lie after the horizon of {latest_us} us, got {time_us} us"
        raise RejectedError(field, problem)


def _traceparent(given: str, job_id: str) -> str:
    """As W3C Trace Context says, what cannot be parsed is ignored and a new trace begins."""
    if _TRACEPARENT.fullmatch(given):
        return given
    return job_traceparent(job_id) if job_id else ""
