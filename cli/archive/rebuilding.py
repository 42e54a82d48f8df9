"""Builds an archive anew from Kafka, up to where another one ends, and compares the two."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from coplace_client.errors import UnusableError
from services.archive.adapters import KafkaLog
from shared.archive.index import FileEntry, Index
from shared.archive.reading import require_index
from shared.archive.record import ArchivedRecord
from shared.archive.storage import LocalFolder, Storage
from shared.archive.verifying import archived_partitions
from shared.archive.writing import PartitionArchive
from shared.catalogue.record import TopicPartition
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.stages.consistency import LogFacts

_STALLED_S: Final = 30.0


class Sameness(StrEnum):
    """How a file compares with that of the archive that was built anew."""

    SAME = "same bytes"
    SAME_RECORDS = "same records, written by another pyarrow"
    DIFFERENT = "different"
    GONE = "not compared: Kafka does not have its records any more"


class Comparison(NamedTuple):
    """One file of the archive, and how it compares."""

    path: str
    entry: FileEntry
    sameness: Sameness


class CannotRebuildError(UnusableError):
    """Kafka does not have what the archive was made from."""


OnRecords = Callable[[int], object]


def archived_records(storage: Storage) -> int:
    """Return how many records an archive holds. Raises ArchiveError."""
    indexes = (require_index(storage, *place) for place in archived_partitions(storage))
    return sum(entry.records for index in indexes for entry in index.entries)


def rebuild(
    deployment: Deployment, storage: Storage, target: Path, on_records: OnRecords
) -> list[Comparison]:
    """Build all Kafka partitions of an archive anew below `target`, and compare each file.
    `on_records` hears how many records have come. Raises ArchiveError, CannotRebuildError and what
    Kafka says."""
    if target.exists() and any(target.iterdir()):
        raise CannotRebuildError(f"{target} is not empty: choose a new folder")
    indexes = [require_index(storage, *place) for place in archived_partitions(storage)]
    rebuilt = asyncio.run(_rebuild(deployment, indexes, LocalFolder(target), on_records))
    for each in rebuilt:
        each.finish()
    return [line for each in rebuilt for line in each.comparisons()]


async def _rebuild(
    deployment: Deployment, indexes: Sequence[Index], fresh: Storage, on_records: OnRecords
) -> "list[_Rebuilt]":
    async with KafkaLog.connected(deployment) as kafka:
        places = [_place(index) for index in indexes]
        found = await kafka.facts({index.topic for index in indexes}, {}, places)
        rebuilt = [_Rebuilt(index, found, fresh) for index in indexes]
        open_ones = {each.place: each for each in rebuilt if each.is_behind}
        if open_ones:
            await kafka.assign({place: each.position for place, each in open_ones.items()})
        records = 0
        while open_ones:
            async with asyncio.timeout(_STALLED_S):
                records += await _next(kafka, open_ones)
            on_records(records)
    return rebuilt


async def _next(kafka: KafkaLog, open_ones: "dict[TopicPartition, _Rebuilt]") -> int:
    """Take what comes next, and return how many records it was; those that are complete leave."""
    while True:
        batch = await kafka.read()
        for place, records in batch.items():
            if place in open_ones:
                await asyncio.to_thread(open_ones[place].take, records)
        done = [
            place
            for place, each in open_ones.items()
            if await kafka.position(place) >= each.index.complete_to
        ]
        for place in done:
            del open_ones[place]
        if batch or done:
            return sum(map(len, batch.values()))


class _Rebuilt:
    """One Kafka partition, from the first file of which Kafka still has all records."""

    def __init__(self, index: Index, found: LogFacts, target: Storage) -> None:
        self.index, self.place = index, _place(index)
        identity = found.topics.get(index.topic)
        if identity is None or identity.topic_id.hex() != index.topic_id:
            raise CannotRebuildError(
                f"the archive is of another topic {index.topic} than Kafka has: it was deleted and "
                "created again, or it is another Kafka; the archive is what is left of it"
            )
        if found.ends[self.place] < index.complete_to:
            raise CannotRebuildError(
                f"{index.topic}/{index.kafka_partition} ends at {found.ends[self.place]}, the "
                f"archive at {index.complete_to}: Kafka is older than the archive"
            )
        begins = found.begins[self.place]
        starts = [each.from_offset for each in index.entries if each.from_offset >= begins]
        start = min(starts, default=index.complete_to)
        self._archive = PartitionArchive.resume(
            target, *self.place, index.topic_id, start, index.cut
        )

    @property
    def position(self) -> int:
        return self._archive.position

    @property
    def is_behind(self) -> bool:
        return self.position < self.index.complete_to

    def take(self, records: Sequence[ArchivedRecord]) -> None:
        self._archive.add(each for each in records if each.offset < self.index.complete_to)
        self._archive.write()

    def finish(self) -> None:
        """Write what is left as the archive has it: a tail, or a full file."""
        if self.index.tail is None:
            self._archive.end_at(self.index.ends_at)
        self._archive.write(with_tail=True, read_to=self.index.complete_to)

    def comparisons(self) -> Iterator[Comparison]:
        fresh = {entry.name: entry for entry in self._archive.index.entries}
        begins_at = self._archive.index.begins_at
        for entry in self.index.entries:
            path = self.index.path(entry.name)
            yield Comparison(path, entry, _sameness(entry, fresh.get(entry.name), begins_at))


def _sameness(entry: FileEntry, fresh: FileEntry | None, begins_at: int) -> Sameness:
    if fresh == entry:
        return Sameness.SAME
    if entry.to_offset <= begins_at:
        return Sameness.GONE
    if fresh is None or fresh.records_sha256 != entry.records_sha256:
        return Sameness.DIFFERENT
    is_of_another = fresh.writer != entry.writer and fresh.to_offset == entry.to_offset
    return Sameness.SAME_RECORDS if is_of_another else Sameness.DIFFERENT


def _place(index: Index) -> TopicPartition:
    return TopicPartition(index.topic, index.kafka_partition)
