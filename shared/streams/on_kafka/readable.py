"""Makes a Kafka library read whatever a broker holds.

aiokafka (loops, Faust) and kafka-python (command line, clients of resource managers) split what
they fetched by a class `MemoryRecords`. What neither can read would end every consumer at the same
offset for ever: a header name that is no UTF-8, a codec whose library is not there, a batch that
expands to more than there is memory. So theirs is replaced by one that reads these too.
"""

from collections.abc import Callable, Iterator
from typing import Any

from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.memory_records import MemoryRecords

from shared.streams.on_kafka.batches import escape_headers, expand_batches, split


def install() -> None:
    """Let all consumers of aiokafka in this process read so. May be called again."""
    fetcher.MemoryRecords = lambda data: ReadableRecords(
        MemoryRecords, data, CorruptRecordException
    )


class ReadableRecords:
    """Batches of one answer, as a library's `MemoryRecords` gives them; `corrupt` is what it raises
    for a record that it cannot read."""

    def __init__(
        self, library: Callable[[bytes], Any], data: bytes | memoryview, corrupt: type[Exception]
    ) -> None:
        plain = expand_batches(bytes(data))
        self._found = library(plain)
        self._batches = split(plain)
        self._corrupt = corrupt

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found, name)

    def __iter__(self) -> Iterator["ReadableBatch"]:
        while (batch := self.next_batch()) is not None:
            yield batch

    def next_batch(self) -> "ReadableBatch | None":
        """Return the next batch; None when there is none."""
        batch = self._found.next_batch()
        return None if batch is None else ReadableBatch(batch, next(self._batches), self._corrupt)


class ReadableBatch:
    """A library's batch. Its records are read at once, and once more, repaired, where that
    fails."""

    def __init__(self, batch: Any, raw: bytes, corrupt: type[Exception]) -> None:
        self._batch = batch
        self._raw = raw
        self._unreadable = ValueError, IndexError, corrupt
        self._records: Iterator[Any] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __iter__(self) -> "ReadableBatch":
        return self

    def __next__(self) -> Any:
        if self._records is None:
            self._records = iter(self._read())
        return next(self._records)

    def _read(self) -> list[Any]:
        try:
            return list(self._batch)
        except self._unreadable:
            return list(type(self._batch)(escape_headers(self._raw)))
