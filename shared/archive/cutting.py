"""The file that is not full yet, and where it ends: a function of the records alone."""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from shared.archive.index import Cut, FileEntry, Index
from shared.archive.record import ArchivedRecord, digest_input
from shared.archive.table import WRITER, to_batch, to_parquet

# Columns take half the memory of records; so many records become columns at once.
_AT_ONCE = 1_024


class OpenFile:
    """Takes the records of one Kafka partition from an offset on, in their order."""

    def __init__(self, topic: str, kafka_partition: int, topic_id: str, from_offset: int) -> None:
        self.from_offset = from_offset
        self.next_offset = from_offset
        self._described = {
            "topic": topic,
            "kafka_partition": str(kafka_partition),
            "topic_id": topic_id,
        }
        self._rows: list[ArchivedRecord] = []
        self._batches: list[Any] = []
        self._digest = sha256()
        self._times_ms: tuple[int, int] | None = None
        self._size_bytes = 0
        self.records = 0

    @classmethod
    def after(cls, index: Index, offset: int) -> "OpenFile":
        """Return the file that begins at an offset of the Kafka partition of an index."""
        return cls(index.topic, index.kafka_partition, index.topic_id, offset)

    def end_before(self, offset: int, size_bytes: int, cut: Cut) -> int | None:
        """Return the offset at which the file ends, if a record of this offset and size does not
        belong into it: the beginning of that record's window, or its own offset where the file
        would be too large."""
        if not self.records:
            return None
        window = offset // cut.window_offsets
        if window > (self.next_offset - 1) // cut.window_offsets:
            return window * cut.window_offsets
        return offset if self._size_bytes + size_bytes > cut.most_bytes else None

    def append(self, record: ArchivedRecord, size_bytes: int) -> None:
        """Take the next record, which has this size."""
        self._rows.append(record)
        self._size_bytes += size_bytes
        self.records += 1
        self.next_offset = record.offset + 1
        if len(self._rows) == _AT_ONCE:
            self._to_columns()

    def extend(self, records: Iterable[ArchivedRecord]) -> None:
        """Take several."""
        for record in records:
            self.append(record, record.size_bytes)

    def to_file(self, to_offset: int, *, is_full: bool) -> tuple[FileEntry, bytes]:
        """Return the file up to an offset, and how the index describes it. What is not full may go
        on afterwards."""
        self._to_columns()
        first_ms, last_ms = self._times_ms or (0, 0)
        name = f"{self.from_offset:020d}"
        data = to_parquet(
            self._batches,
            {
                **self._described,
                "from_offset": str(self.from_offset),
                "to_offset": str(to_offset),
                "records_sha256": self._digest.hexdigest(),
            },
        )
        entry = FileEntry(
            # Readers of whole folders pass over names with an underscore: a tail is soon replaced.
            name=f"{name}.parquet" if is_full else f"_tail-{name}-{to_offset:020d}",
            from_offset=self.from_offset,
            to_offset=to_offset,
            records=self.records,
            first_time_ms=first_ms,
            last_time_ms=last_ms,
            bytes=len(data),
            sha256=sha256(data).hexdigest(),
            records_sha256=self._digest.hexdigest(),
            writer=WRITER,
        )
        return entry, data

    def _to_columns(self) -> None:
        if not self._rows:
            return
        times = [record.timestamp_ms for record in self._rows]
        first_ms, last_ms = self._times_ms or (times[0], times[0])
        self._times_ms = (min(first_ms, *times), max(last_ms, *times))
        self._digest.update(digest_input(self._rows))
        self._batches.append(to_batch(self._rows))
        self._rows = []
