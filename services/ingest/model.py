"""Envelopes to events: pure validation, no clock and no state."""

import re
from typing import Final, NamedTuple

from coplace.v1.authority_pb2 import AuthorityDeclared
from coplace.v1.ingest_service_pb2 import Envelope, PublishRequest, PublishStreamRequest
from google.protobuf.message import DecodeError, Message

from coplace_client.checks import require_text
from coplace_client.errors import RejectedError, Violations
from services.ingest.payloads import KINDS, PayloadKind
from shared.catalogue.contents.check import check_all_contents
from shared.catalogue.contents.compiled import YEAR_2000_US
from shared.catalogue.event import Event, Publish
from shared.catalogue.options import owners
from shared.catalogue.texts import MOST_TEXT_BYTES, require_short_texts
from shared.catalogue.times import times_us
from shared.catalogue.topics import Topics
from shared.catalogue.trace import job_traceparent
from shared.streams.stages.unit import EventTimeLimit

# What a record holds beside its value: key, headers and framing.
RECORD_OVERHEAD_BYTES: Final = 8_192
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


class _Latest(NamedTuple):
    """The latest time that an event may carry; of a command what the clock says, too."""

    latest_us: int
    now_us: int = 0

    def require_before(self, field: str, time_us: int) -> None:
        """Raise RejectedError for a later time."""
        if time_us <= self.latest_us:
            return
        problem = f"must not lie after the horizon of {self.latest_us} us, got {time_us} us"
        if self.now_us:
            problem = (
                f"lies {(time_us - self.now_us) / 1e6:.0f} s ahead of the clock here, commands may "
                f"lie {(self.latest_us - self.now_us) / 1e6:g} s ahead: set the clock of the "
                "machine that sends it right (NTP), then say it again"
            )
        raise RejectedError(field, problem)


class Intake:
    """Turns envelopes into events for the topics that keep them."""

    def __init__(
        self,
        topics: Topics,
        *,
        max_message_bytes: int = 1_048_576,
        ahead_us: int = EventTimeLimit().ahead_us,
        command_ahead_us: int = EventTimeLimit().command_ahead_us,
        of_site: str = "",
    ) -> None:
        self._topics = topics
        self._max_message_bytes = max_message_bytes
        self._ahead_us, self._command_ahead_us = ahead_us, command_ahead_us
        self._of_site = of_site

    def accept(self, envelope: Envelope, now_s: float) -> Publish:
        """Return the event to publish. Raises RejectedError, which names every violated field, for
        bad input."""
        self._check_size(envelope)
        name = envelope.WhichOneof("payload")
        if name is None:
            raise RejectedError("payload", f"must be one of {', '.join(KINDS)}")
        if self._of_site and isinstance(getattr(envelope, name), AuthorityDeclared):
            raise RejectedError(name, f"must be declared at the hub of the site {self._of_site}")
        kind, payload = KINDS[name], getattr(envelope, name)
        latest = self._latest(payload, now_s)
        wrong = Violations()
        try:
            _check_payload(payload, kind, latest)
        except RejectedError as error:
            wrong.add(error.inside(name))
        _check_attributes(envelope, latest, wrong)
        wrong.require_none()
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

    def latest_us(self, now_s: float) -> int:
        """Return the time behind which nothing can lie, us."""
        return round(now_s * 1e6) + self._ahead_us

    def _latest(self, payload: Message, now_s: float) -> "_Latest":
        now_us = round(now_s * 1e6)
        if payload.DESCRIPTOR.full_name in owners():
            return _Latest(now_us + self._command_ahead_us, now_us)
        return _Latest(self.latest_us(now_s))

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
    if not speaks_for(speaker, envelope.source):
        raise RejectedError(
            "source", f"must be {speaker!r} or below it, as the client certificate says"
        )


def speaks_for(speaker: str, source: str) -> bool:
    """Return whether a caller is the source, or what is below its name."""
    return source == speaker or source.startswith(f"{speaker}/")


def _check_payload(payload: Message, kind: PayloadKind, latest: _Latest) -> None:
    check_all_contents(payload)
    if payload.ByteSize() > MOST_TEXT_BYTES:
        require_short_texts(payload)
    kind.check(payload)
    wrong = Violations()
    for field, time_us in times_us(payload):
        wrong.check(latest.require_before, field, time_us)
    wrong.require_none()


def _check_attributes(envelope: Envelope, latest: _Latest, wrong: Violations) -> None:
    """Add what is wrong with an event, beside its payload."""
    wrong.check(_check_id, envelope.id)
    wrong.check(require_text, "source", envelope.source)
    wrong.check(_check_time, envelope.time_us, latest)


def _check_id(event_id: str) -> None:
    require_text("id", event_id, limit=1024)


def _check_time(time_us: int, latest: _Latest) -> None:
    if time_us < YEAR_2000_US:
        raise RejectedError("time_us", f"must not lie before 2000, got {time_us} us")
    latest.require_before("time_us", time_us)


def _traceparent(given: str, job_id: str) -> str:
    """As W3C Trace Context says, what cannot be parsed is ignored and a new trace begins."""
    if _TRACEPARENT.fullmatch(given):
        return given
    return job_traceparent(job_id) if job_id else ""
