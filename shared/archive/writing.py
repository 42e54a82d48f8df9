"""Writes the archive of one Kafka partition; what is there is all that it knows at its start."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NamedTuple, Self

from shared.archive.cutting import OpenFile
from shared.archive.errors import BrokenArchiveError
from shared.archive.index import NAME, Cut, FileEntry, Index, folder_of
from shared.archive.reading import read_file, read_index
from shared.archive.record import ArchivedRecord
from shared.archive.storage import Storage
from shared.catalogue.record import Record, TopicPartition
from shared.streams.stages.provenance import LastRead

_FULL: Final = ".parquet"


class Written(NamedTuple):
    """What one call wrote: records that are archived for the first time, full files, and bytes of
    all files."""

    records: int = 0
    files: int = 0
    bytes: int = 0


class PartitionArchive:
    """The files of one Kafka partition. `add` takes records, `write` puts files; a process that
    dies in between finds what `write` finished last."""

    def __init__(self, storage: Storage, index: Index, tail: Iterable[ArchivedRecord] = ()) -> None:
        self._storage = storage
        self.index = index
        self._open = OpenFile.after(index, index.full_until)
        self._open.extend(tail)
        self.last_record: ArchivedRecord | None = None
        self._full: list[tuple[FileEntry, bytes]] = []

    @classmethod
    def resume(
        cls, storage: Storage, topic: str, kafka_partition: int, topic_id: str, begins_at: int,
        cut: Cut | None = None,
    ) -> Self:  # fmt: skip
        """Return the archive of a Kafka partition behind its last file; where there is none it
        begins at `begins_at`, with an index that says so. Raises BrokenArchiveError."""
        index = read_index(storage, topic, kafka_partition)
        if index is None:
            _require_empty(storage, topic, kafka_partition)
            index = Index(topic, kafka_partition, topic_id, begins_at, cut or Cut())
            storage.write(index.path(NAME), index.to_bytes())
        _remove_leftovers(storage, index)
        tail = read_file(storage, index, index.tail) if index.tail else []
        found = cls(storage, index, tail)
        last = tail or (read_file(storage, index, index.files[-1]) if index.files else [])
        found.last_record = last[-1] if last else None
        return found

    @property
    def position(self) -> int:
        """Return the offset behind all that was taken."""
        return max(self._open.next_offset, self.index.complete_to)

    @property
    def last_read(self) -> LastRead | None:
        """Return what identifies the last record; None where no file holds one."""
        last = self.last_record
        if last is None:
            return None
        place = TopicPartition(last.topic, last.kafka_partition)
        record = Record(place, last.offset, last.key or b"", last.value, last.headers)
        return LastRead.from_record(record)

    @property
    def waiting(self) -> int:
        """Return how many records are in no file yet."""
        unwritten = sum(entry.records for entry, _ in self._full) + self._open.records
        return unwritten - (self.index.tail.records if self.index.tail else 0)

    @property
    def has_full(self) -> bool:
        """Return whether a full file waits to be written."""
        return bool(self._full)

    def add(self, records: Iterable[ArchivedRecord]) -> None:
        """Take records, in the order of their offsets; those that it has are passed over."""
        position, cut = self.position, self.index.cut
        for record in records:
            if record.offset < position:
                continue
            size_bytes = record.size_bytes
            end = self._open.end_before(record.offset, size_bytes, cut)
            if end is not None:
                self._full.append(self._open.to_file(end, is_full=True))
                self._open = OpenFile.after(self.index, end)
            self._open.append(record, size_bytes)
            position, self.last_record = record.offset + 1, record

    def end_at(self, to_offset: int) -> None:
        """End the file that is not full yet at an offset, where the archive that is compared with
        has a full one."""
        if self._open.records:
            self._full.append(self._open.to_file(to_offset, is_full=True))
            self._open = OpenFile.after(self.index, to_offset)

    def write(self, *, with_tail: bool = False, read_to: int = 0) -> Written:
        """Put full files, and the tail where this is wanted: files first, then the index that
        names them, and at last what it no longer names is deleted. With a tail `read_to` is behind
        what was read, and all that was taken is before it. Raises OSError."""
        tail, index, waiting = self.index.tail, self.index, self.waiting
        put = list(self._full)
        for entry, _ in self._full:
            index = index.with_file(entry)
        if with_tail and self._open.records and self._open.next_offset > index.ends_at:
            put.append(self._open.to_file(self._open.next_offset, is_full=False))
            index = replace(index, tail=put[-1][0])
        if with_tail and read_to > index.complete_to:
            index = replace(index, read_to=read_to)
        if index == self.index:
            return Written()
        for entry, data in put:
            self._storage.write(index.path(entry.name), data)
        self._put_index(index)
        full, self._full = len(self._full), []
        if tail is not None and tail != index.tail:
            self._storage.delete(index.path(tail.name))
        written = waiting - self.waiting
        return Written(written, full, sum(entry.bytes for entry, _ in put))

    def remove_before(self, time_ms: int) -> int:
        """Remove the full files at the beginning whose records are all older; return how many.
        Raises OSError."""
        old: list[FileEntry] = []
        for entry in self.index.files:
            if entry.last_time_ms >= time_ms:
                break
            old.append(entry)
        if old:
            self._put_index(self.index.without_before(old[-1].to_offset))
            for entry in old:
                self._storage.delete(self.index.path(entry.name))
        return len(old)

    def _put_index(self, index: Index) -> None:
        self._storage.write(index.path(NAME), index.to_bytes())
        self.index = index


def _require_empty(storage: Storage, topic: str, kafka_partition: int) -> None:
    """Files without an index are what is left of an archive: their place is not taken."""
    folder = folder_of(topic, kafka_partition)
    if any(name.endswith(_FULL) for name in storage.names(folder)):
        raise BrokenArchiveError(storage.where, f"{folder}/{NAME}", "is missing, files are there")


def _remove_leftovers(storage: Storage, index: Index) -> None:
    """A process that died between two steps leaves files that no index names: parts, tails, and
    full files that retention was about to remove. A full file behind the last is written anew."""
    named = {entry.name for entry in index.entries}
    first = f"{index.begins_at:020d}{_FULL}"
    for name in storage.names(folder_of(index.topic, index.kafka_partition)):
        is_left = name.startswith("_") or (name.endswith(_FULL) and name < first)
        if is_left and name not in named and name != NAME:
            storage.delete(index.path(name))
