"""Records as a log keeps them: bytes at a partition."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from coplace_client.errors import RejectedError

# The header of a record in place of an unreadable batch, with the reason.
UNREADABLE: Final = "coplace_unreadable"
Headers = tuple[tuple[str, bytes], ...]


class TopicPartition(NamedTuple):
    """One Kafka partition of one topic (names without the namespace)."""

    topic: str
    kafka_partition: int


@dataclass(frozen=True, slots=True)
class NewRecord:
    """Bytes to append at a partition; a value of None is a tombstone."""

    partition: TopicPartition
    key: bytes
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Record:
    """Bytes of a partition, and when they were written, as the log says (0: it does not)."""

    partition: TopicPartition
    offset: int
    key: bytes
    value: bytes | None
    headers: Headers = ()
    written_ms: int = field(default=0, compare=False)


def type_of(record: Record) -> bytes:
    """Return the CloudEvents type that a record's header names; empty where none does. Of several
    the last counts, as where headers are read by name."""
    return next((value for name, value in reversed(record.headers) if name == "ce_type"), b"")


def require_readable(headers: Mapping[str, bytes]) -> None:
    """Raise RejectedError for the record in place of an unreadable batch."""
    if UNREADABLE in headers:
        raise RejectedError("batch", headers[UNREADABLE].decode(errors="replace"))
