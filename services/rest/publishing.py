"""Events out of requests: a payload as JSON, and what CloudEvents has beside it as headers.

https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/http-protocol-binding.md
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from coplace.v1.ingest_service_pb2 import Envelope

from coplace_client.errors import RejectedError
from services.rest.reading import Wrongs
from services.rest.routes import Locations, Route
from shared.catalogue.codec import parse_time
from shared.catalogue.guards import PAYLOADS
from shared.catalogue.options import owners

ID: Final = "Ce-Id"
SOURCE: Final = "Ce-Source"
TIME: Final = "Ce-Time"
KEY: Final = "Idempotency-Key"
TRACEPARENT: Final = "traceparent"
# What ingest calls the attributes of an envelope.
HEADERS: Final[Mapping[str, str]] = {
    "id": ID,
    "source": SOURCE,
    "time_us": TIME,
    "traceparent": TRACEPARENT,
}
_MOST_HEADER: Final = 1_024
_KEY_TEXT: Final = re.compile(r'"?([ !#-\[\]-~]{1,256})"?')


@dataclass(frozen=True, slots=True)
class EventHeaders:
    """The headers of a request that say what its event is; empty where they are missing."""

    by_name: Mapping[str, str]

    def text(self, name: str, wrongs: Wrongs) -> str:
        """Return a header as CloudEvents writes it, with what is no ASCII percent-encoded."""
        shown = self.by_name.get(name.lower(), "")
        try:
            text = unquote_to_bytes(shown.encode("ascii")).decode()
        except UnicodeError:
            wrongs.add(name, "must be ASCII: other signs are percent-encoded UTF-8")
            return ""
        if len(text) > _MOST_HEADER:
            wrongs.add(name, f"must have at most {_MOST_HEADER} characters, got {len(text)}")
            return ""
        return text


def write_attributes(
    envelope: Envelope, payload: str, headers: EventHeaders, now_us: int, wrongs: Wrongs
) -> None:
    """Write what the headers say of an event. Its id is the caller's, or made of the key by which
    the caller knows the request again: a copy of it has the same id, and harms nobody."""
    envelope.source = headers.text(SOURCE, wrongs)
    if not envelope.source:
        wrongs.add(SOURCE, "must name who says it: the identity of the token, or below it")
    envelope.time_us = _time_us(headers, now_us, wrongs)
    envelope.traceparent = headers.text(TRACEPARENT, wrongs)
    envelope.id = headers.text(ID, wrongs) or _id_by_key(envelope.source, payload, headers, wrongs)


def _id_by_key(source: str, payload: str, headers: EventHeaders, wrongs: Wrongs) -> str:
    found = _KEY_TEXT.fullmatch(headers.by_name.get(KEY.lower(), ""))
    if found is None:
        wrongs.add(KEY, "must be 1 to 256 characters of ASCII, the same when it is sent again")
        return ""
    return f"{source}/{PAYLOADS[payload].full_name}/{found[1]}"


def _time_us(headers: EventHeaders, now_us: int, wrongs: Wrongs) -> int:
    text = headers.text(TIME, wrongs)
    try:
        return parse_time(text) if text else now_us
    except RejectedError as error:
        wrongs.add(TIME, error.problem)
        return now_us


def location_of(envelope: Envelope, payload: str, locations: Locations) -> str:
    """Return where it can be asked what came of an event: of a command its outcome, of another
    fact of a job that job; empty of others."""
    if PAYLOADS[payload].full_name in owners():
        return locations.outcome.path_of(event_id=envelope.id)
    job_id: str = getattr(getattr(envelope, payload), "job_id", "")
    return locations.job.path_of(job_id=job_id) if job_id else ""


def request_name(route: Route, field: str) -> str:
    """Return what a field that a service names is called in the request."""
    name = field.removeprefix("event.")
    if route.payload:
        if name in HEADERS:
            return HEADERS[name]
        name = "" if name == route.payload else name.removeprefix(f"{route.payload}.")
    return re.sub(r"_([a-z0-9])", lambda found: found[1].upper(), name)
