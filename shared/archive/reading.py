"""Reads an archive: records in the order of offsets, checked on the way."""

from collections.abc import Iterator
from hashlib import sha256
from typing import NamedTuple

from shared.archive.errors import ArchiveBeginsLaterError, BrokenArchiveError, NotArchivedError
from shared.archive.index import NAME, FileEntry, Index, folder_of
from shared.archive.record import ArchivedRecord
from shared.archive.storage import Storage, open_storage


class ArchivedRange(NamedTuple):
    """Which topic an archive is of (Kafka's id, in hexadecimal digits), and which offsets it holds:
    from `begins_at` up to, not including, `ends_at`."""

    topic_id: str
    begins_at: int
    ends_at: int


def archived_range(where: str, topic: str, kafka_partition: int) -> ArchivedRange:
    """Return what an archive holds of a Kafka partition. Raises ArchiveError."""
    index = require_index(open_storage(where), topic, kafka_partition)
    return ArchivedRange(index.topic_id, index.begins_at, index.complete_to)


def read_archive(
    where: str, topic: str, kafka_partition: int, from_offset: int = 0
) -> Iterator[ArchivedRecord]:
    """Yield the records of a Kafka partition from an offset on; what was archived when this is
    called.

    Raises NotArchivedError, ArchiveBeginsLaterError where the beginning is not kept, and
    BrokenArchiveError for a file that is not as it was written.
    """
    storage = open_storage(where)
    index = require_index(storage, topic, kafka_partition)
    if from_offset < index.begins_at:
        place = f"{topic}/{kafka_partition}"
        raise ArchiveBeginsLaterError(place, from_offset, index.begins_at)
    return _records(storage, index, from_offset)


def read_index(storage: Storage, topic: str, kafka_partition: int) -> Index | None:
    """Return the index of a Kafka partition; None where there is none. Raises
    BrokenArchiveError."""
    path = f"{folder_of(topic, kafka_partition)}/{NAME}"
    try:
        index = Index.from_bytes(storage.read(path))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise BrokenArchiveError(storage.where, path, str(error)) from None
    if (index.topic, index.kafka_partition) != (topic, kafka_partition):
        problem = f"is the index of {index.topic}/{index.kafka_partition}"
        raise BrokenArchiveError(storage.where, path, problem)
    return index


def require_index(storage: Storage, topic: str, kafka_partition: int) -> Index:
    """Return the index of a Kafka partition. Raises NotArchivedError and BrokenArchiveError."""
    index = read_index(storage, topic, kafka_partition)
    if index is None:
        raise NotArchivedError(storage.where, topic, kafka_partition)
    return index


def read_file(storage: Storage, index: Index, entry: FileEntry) -> list[ArchivedRecord]:
    """Return the records of one file. Raises BrokenArchiveError unless it is as the index says."""
    from shared.archive.table import from_parquet

    path = index.path(entry.name)
    try:
        data = storage.read(path)
    except FileNotFoundError:
        raise BrokenArchiveError(storage.where, path, "is missing") from None
    if sha256(data).hexdigest() != entry.sha256:
        problem = (
            f"has another SHA-256 than {NAME} beside it ({len(data)} bytes, {entry.bytes} there)"
        )
        raise BrokenArchiveError(storage.where, path, problem)
    try:
        records = list(from_parquet(data, index.topic))
    except ValueError as error:
        raise BrokenArchiveError(storage.where, path, str(error)) from None
    if problem := _misplaced(index, entry, records):
        raise BrokenArchiveError(storage.where, path, problem)
    return records


def _records(storage: Storage, index: Index, from_offset: int) -> Iterator[ArchivedRecord]:
    """The tail is replaced while this reads: what it was is then a part of what is there."""
    for entry in index.entries:
        if entry.to_offset <= from_offset:
            continue
        for record in _of_entry(storage, index, entry):
            if record.offset >= from_offset:
                yield record


def _of_entry(storage: Storage, index: Index, entry: FileEntry) -> list[ArchivedRecord]:
    try:
        return read_file(storage, index, entry)
    except BrokenArchiveError:
        if entry != index.tail:
            raise
        now = require_index(storage, index.topic, index.kafka_partition)
        later = [
            each
            for each in now.entries
            if each.to_offset > entry.from_offset and each.from_offset < entry.to_offset
        ]
        if entry in later or not later:
            raise
    found = (record for each in later for record in read_file(storage, now, each))
    return [each for each in found if entry.from_offset <= each.offset < entry.to_offset]


def _misplaced(index: Index, entry: FileEntry, records: list[ArchivedRecord]) -> str:
    """Return what is wrong with the records of a file, in words; empty where nothing is."""
    if len(records) != entry.records:
        return f"has {len(records)} records, {NAME} says {entry.records}"
    before = entry.from_offset - 1
    for record in records:
        if record.kafka_partition != index.kafka_partition:
            return f"has a record of Kafka partition {record.kafka_partition}"
        if not before < record.offset < entry.to_offset:
            return f"has the offset {record.offset} behind {before}"
        before = record.offset
    return ""
