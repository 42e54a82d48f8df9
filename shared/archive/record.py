"""Records as an archive keeps them, and the digest of their contents."""

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from shared.catalogue.record import Headers

_PLACE: Final = Struct(">qq")
_LENGTH: Final = Struct(">q")
_MISSING: Final = _LENGTH.pack(-1)


class ArchivedRecord(NamedTuple):
    """A record of a topic, byte for byte; `timestamp_ms` is what Kafka has, -1 where it has
    none."""

    topic: str
    kafka_partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def size_bytes(self) -> int:
        """Return how much the record counts towards the size of a file."""
        headers = sum(len(name) + len(value) for name, value in self.headers)
        return _PLACE.size + len(self.key or b"") + len(self.value or b"") + headers


def digest_input(records: Iterable[ArchivedRecord]) -> bytes:
    """Return what the digest of contents hashes: offset, time, key, value, and the headers by
    count, name and value; each text behind its length, -1 for a missing one."""
    parts: list[bytes] = []
    for record in records:
        parts.append(_PLACE.pack(record.offset, record.timestamp_ms))
        parts += _framed(record.key)
        parts += _framed(record.value)
        parts.append(_LENGTH.pack(len(record.headers)))
        for name, value in record.headers:
            parts += _framed(name_bytes(name))
            parts += _framed(value)
    return b"".join(parts)


def name_bytes(name: str) -> bytes:
    """Return the bytes of a header's name, which need not be UTF-8."""
    return name.encode(errors="surrogateescape")


def name_of(text: bytes) -> str:
    """Return the header's name that has these bytes."""
    return text.decode(errors="surrogateescape")


def _framed(text: bytes | None) -> tuple[bytes, ...]:
    return (_MISSING,) if text is None else (_LENGTH.pack(len(text)), text)
