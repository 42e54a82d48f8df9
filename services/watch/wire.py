"""Messages as they are sent, put together of bytes that are there. Pure."""

from typing import Final

from coplace.v1.watch_service_pb2 import WatchDecisionsResponse

_DELIMITED: Final = 2


def _tag(field: str) -> bytes:
    number = WatchDecisionsResponse.DESCRIPTOR.fields_by_name[field].number
    return varint(number << 3 | _DELIMITED)


def varint(number: int) -> bytes:
    """Return a whole number as protobuf writes it."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


_DECISION: Final = _tag("decision")
_CURSOR: Final = _tag("cursor")


def response(payload: bytes | None, cursor: str) -> bytes:
    """Return a WatchDecisionsResponse with the decision of these bytes, as they are."""
    at = cursor.encode()
    behind = b"".join((_CURSOR, varint(len(at)), at))
    if payload is None:
        return behind
    return b"".join((_DECISION, varint(len(payload)), payload, behind))
