"""What the archive needs of the log: Kafka's, or that of a test."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from shared.archive.record import ArchivedRecord
from shared.catalogue.record import TopicPartition
from shared.streams.stages.consistency import LogFacts
from shared.streams.stages.provenance import LastRead


class ArchivedLog(Protocol):
    """Topics, read committed."""

    async def facts(
        self,
        topics: Iterable[str],
        last_read: Mapping[TopicPartition, LastRead],
        partitions: Iterable[TopicPartition],
    ) -> LogFacts:
        """Return what the log holds now."""
        ...

    async def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions, each from a position on."""
        ...

    async def read(self) -> Mapping[TopicPartition, Sequence[ArchivedRecord]]:
        """Return what has come, in the order of offsets; wait a moment where nothing has. An offset
        that the log does not hold any more is an error."""
        ...

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset behind all that was read, ends of transactions too."""
        ...

    def behind(self) -> int:
        """Return how many offsets were not read yet, as far as is known."""
        ...
