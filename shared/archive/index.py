"""The index of a Kafka partition in an archive: JSON, one line a file."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Self

FORMAT: Final = 1
NAME: Final = "_index.json"


@dataclass(frozen=True, slots=True)
class Cut:
    """Where files end: at multiples of `window_offsets`, and before the record that would carry a
    file over `most_bytes`."""

    window_offsets: int = 32_768
    most_bytes: int = 33_554_432


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file: it holds all committed records from `from_offset` up to, not including,
    `to_offset`. Times are the earliest and the latest of its records, as Kafka has them."""

    name: str
    from_offset: int
    to_offset: int
    records: int
    first_time_ms: int
    last_time_ms: int
    bytes: int
    sha256: str
    records_sha256: str
    writer: str


@dataclass(frozen=True, slots=True)
class Index:
    """What an archive holds of one Kafka partition. `begins_at` moves where retention removes
    files; the tail is the file that is not full yet. `read_to` is also behind what is no record,
    ends of transactions: nothing before it is missing."""

    topic: str
    kafka_partition: int
    topic_id: str
    begins_at: int
    cut: Cut = Cut()
    files: tuple[FileEntry, ...] = ()
    tail: FileEntry | None = None
    read_to: int = 0
    format: int = FORMAT

    @property
    def entries(self) -> tuple[FileEntry, ...]:
        """Return all files, the tail last."""
        return self.files if self.tail is None else (*self.files, self.tail)

    @property
    def ends_at(self) -> int:
        """Return the offset behind all that is archived."""
        return self.entries[-1].to_offset if self.entries else self.begins_at

    @property
    def complete_to(self) -> int:
        """Return the offset before which nothing is missing."""
        return max(self.read_to, self.ends_at)

    @property
    def full_until(self) -> int:
        """Return the offset behind the last full file."""
        return self.files[-1].to_offset if self.files else self.begins_at

    def with_file(self, entry: FileEntry) -> Self:
        """Return the index with one more full file; the tail was a part of it."""
        return replace(self, files=(*self.files, entry), tail=None)

    def without_before(self, offset: int) -> Self:
        """Return the index without the full files that end there or before."""
        kept = tuple(each for each in self.files if each.to_offset > offset)
        return replace(self, files=kept, begins_at=max(self.begins_at, offset))

    def path(self, name: str) -> str:
        """Return the path of a file of this Kafka partition in the archive."""
        return f"{folder_of(self.topic, self.kafka_partition)}/{name}"

    def to_bytes(self) -> bytes:
        """Return the index as its file has it."""
        head = {
            "format": self.format,
            "topic": self.topic,
            "kafka_partition": self.kafka_partition,
            "topic_id": self.topic_id,
            "cut": asdict(self.cut),
            "begins_at": self.begins_at,
            "ends_at": self.ends_at,
            "read_to": self.complete_to,
        }
        lines = [f" {json.dumps(name)}: {json.dumps(value)},\n" for name, value in head.items()]
        files = ",\n".join(f"  {json.dumps(asdict(each))}" for each in self.files)
        tail = json.dumps(None if self.tail is None else asdict(self.tail))
        listed = f"[\n{files}\n ]" if files else "[]"
        return ("{\n" + "".join(lines) + f' "tail": {tail},\n "files": {listed}\n}}\n').encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Parse the file of an index. Raises ValueError for what is none of this format."""
        try:
            found = json.loads(data)
            if found["format"] != FORMAT:
                raise ValueError(f"has format {found['format']}, this version reads {FORMAT}")
            index = cls(
                topic=found["topic"],
                kafka_partition=found["kafka_partition"],
                topic_id=found["topic_id"],
                begins_at=found["begins_at"],
                cut=Cut(**found["cut"]),
                files=tuple(map(_entry, found["files"])),
                tail=None if found["tail"] is None else _entry(found["tail"]),
                # Indexes of before it was there have none.
                read_to=found.get("read_to", 0),
            )
        except (KeyError, TypeError, json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"is not an index: {error}") from None
        if problem := _gap(index):
            raise ValueError(problem)
        return index


def folder_of(topic: str, kafka_partition: int) -> str:
    """Return the folder of a Kafka partition in an archive."""
    return f"{topic}/{kafka_partition}"


def _entry(found: Mapping[str, Any]) -> FileEntry:
    return FileEntry(**found)


def _gap(index: Index) -> str:
    """Return where files do not follow each other, in words; empty where they do."""
    at = index.begins_at
    for each in index.entries:
        if each.from_offset != at or each.to_offset <= at:
            return (
                f"has a gap: {each.name} begins at {each.from_offset}, the one before ends at {at}"
            )
        at = each.to_offset
    return ""
