"""Events as plain JSON: what `coplace tail` prints, and files that keep a topic."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import Message

from coplace_client.errors import RejectedError
from coplace_client.files import write_whole
from shared.catalogue.codec import format_time, parse_time
from shared.catalogue.event import Event
from shared.catalogue.schemas import MESSAGES


class UnknownKindError(RejectedError):
    """An event of a kind that this version does not have: a newer one wrote it."""

    def __init__(self, kind: str) -> None:
        super().__init__("type", f"{kind[:80]!r} is not known to this version")
        self.kind = kind


def plain(event: Event) -> dict[str, object]:
    """Return an event as data that JSON can hold; `event_of` makes the same event of it again."""
    return {
        "id": event.id,
        "type": event.type,
        "source": event.source,
        "time": format_time(event.time_us),
        "key": event.key,
        "traceparent": event.traceparent,
        "data": data_of(event.payload),
    }


def event_of(fields: Mapping[str, Any]) -> Event:
    """Read the event that `plain` wrote. Raises RejectedError, which names what is wrong, of which
    UnknownKindError is for a kind of event that this version does not have.

    Fields that this version does not know are dropped, as a reader of the topic ignores them.
    """
    text = {name: _text(fields, name) for name in ("id", "type", "source", "time")}
    if text["type"] not in MESSAGES:
        raise UnknownKindError(text["type"])
    payload, data = MESSAGES[text["type"]](), fields.get("data")
    if not isinstance(data, dict):
        raise RejectedError("data", f"must be an object, got {str(data)[:40]!r}")
    try:
        ParseDict(data, payload, ignore_unknown_fields=True)
    except (ParseError, AttributeError, TypeError, ValueError, RecursionError) as error:
        problem = f"is no {text['type']}: {' '.join(str(error).split())[:200]}"
        raise RejectedError("data", problem) from error
    return Event(
        id=text["id"],
        source=text["source"],
        time_us=parse_time(text["time"]),
        key=_text(fields, "key", empty=True),
        payload=payload,
        traceparent=_text(fields, "traceparent", empty=True),
    )


def write_events(path: Path, events: Iterable[Event]) -> None:
    """Write events, one a line. Raises OSError."""
    with write_whole(path) as fresh, fresh.open("wb") as file:
        for event in events:
            file.write(orjson.dumps(plain(event), option=orjson.OPT_APPEND_NEWLINE))


def data_of(payload: Message, *, with_defaults: bool = False) -> dict[str, Any]:
    """Return a message's fields in their order, those of 0 and empty ones too where asked to; maps
    by their keys, since protobuf has no order of these that would be the same in another
    process."""
    data: dict[str, Any] = MessageToDict(
        payload,
        preserving_proto_field_name=True,
        always_print_fields_with_no_presence=with_defaults,
    )
    for field, value in payload.ListFields():
        kind = field.message_type
        if kind is not None and kind.GetOptions().map_entry:
            data[field.name] = dict(sorted(data[field.name].items()))
        elif kind is not None and kind.file.package == payload.DESCRIPTOR.file.package:
            found = [
                data_of(each, with_defaults=with_defaults)
                for each in (value if field.is_repeated else [value])
            ]
            data[field.name] = found if field.is_repeated else found[0]
    return data


def _text(fields: Mapping[str, Any], name: str, *, empty: bool = False) -> str:
    value = fields.get(name, "" if empty else None)
    if not isinstance(value, str) or not (value or empty):
        raise RejectedError(name, f"must be a text, got {str(value)[:40]!r}")
    return value
