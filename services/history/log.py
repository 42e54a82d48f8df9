"""Where records come from."""

from collections.abc import Iterator
from typing import Protocol

from shared.catalogue.record import Record, TopicPartition
from shared.streams.following import FollowedLog, ReadBatch

__all__ = ["Archive", "FollowedLog", "ReadBatch"]


class Archive(Protocol):
    """What topics have not any more."""

    def begins_at(self, partition: TopicPartition, topic_id: bytes) -> int | None:
        """Return the first offset that is kept of a Kafka partition, None where nothing is. Raises
        ArchiveError where it is of another topic."""
        ...

    def records(self, partition: TopicPartition, from_offset: int, until: int) -> Iterator[Record]:
        """Yield the records from an offset up to, not including, another one."""
        ...
