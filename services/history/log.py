"""Where records come from."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from shared.catalogue.record import Record, TopicPartition
from shared.streams.stages.consistency import LogFacts
from shared.streams.stages.provenance import LastRead


class ReadBatch(NamedTuple):
    """Records of a Kafka partition, and the position behind them."""

    records: Sequence[Record]
    next_position: int


class FollowedLog(Protocol):
    """The topics."""

    async def facts(
        self,
        topics: Iterable[str],
        last_read: Mapping[TopicPartition, LastRead],
        partitions: Iterable[TopicPartition],
    ) -> LogFacts:
        """Return what there is now."""
        ...

    async def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions, each from a position on."""
        ...

    async def read(self) -> Mapping[TopicPartition, ReadBatch]:
        """Return what has come; wait a moment where nothing has."""
        ...

    def behind(self) -> int:
        """Return how many offsets were not read yet."""
        ...


class Archive(Protocol):
    """What topics have not any more."""

    def begins_at(self, partition: TopicPartition, topic_id: bytes) -> int | None:
        """Return the first offset that is kept of a Kafka partition, None where nothing is. Raises
        ArchiveError where it is of another topic."""
        ...

    def records(self, partition: TopicPartition, from_offset: int, until: int) -> Iterator[Record]:
        """Yield the records from an offset up to, not including, another one."""
        ...
