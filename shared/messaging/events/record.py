"""Records as a log keeps them: bytes at a partition."""

from dataclasses import dataclass, field
from typing import NamedTuple

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
    """Bytes found at a partition, and when they were written, as the log says (0: it does not)."""

    partition: TopicPartition
    offset: int
    key: bytes
    value: bytes | None
    headers: Headers = ()
    written_ms: int = field(default=0, compare=False)
