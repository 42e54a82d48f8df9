"""Where a unit's state comes from, as its changelog says beside the state itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Final, Self

from coplace.v1.control_pb2 import PlaceProvenance, StateProvenance, TopicProvenance

from shared.catalogue.record import Record, TopicPartition

PROVENANCE_KEY: Final = "coplace.v1.StateProvenance"
FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class TopicIdentity:
    """Which topic has a name, and how many Kafka partitions: a topic that was deleted and created
    again has another `topic_id`."""

    topic_id: bytes
    kafka_partitions: int


@dataclass(frozen=True, slots=True)
class LastRead:
    """The record of a partition that was read last: what must still be there."""

    offset: int
    sha256: bytes

    @classmethod
    def from_record(cls, record: Record) -> Self:
        """Return what identifies a record."""
        return cls(record.offset, content_sha256(record))


@dataclass(frozen=True, slots=True)
class Provenance:
    """What a state was made from: identities of topics, positions, last records, own outputs."""

    commits: int = 0
    format: int = FORMAT
    topics: Mapping[str, TopicIdentity] = field(default_factory=dict)
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    last_read: Mapping[TopicPartition, LastRead] = field(default_factory=dict)
    written_to: Mapping[TopicPartition, int] = field(default_factory=dict)
    expired: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Positions that the group has lost: the next commit restores them. No part of what is kept."""

    def after(
        self,
        positions: Mapping[TopicPartition, int],
        last_read: Mapping[TopicPartition, Record],
        written_to: Mapping[TopicPartition, int],
    ) -> Self:
        """Return the provenance of the state after one more commit."""
        read = {partition: LastRead.from_record(record) for partition, record in last_read.items()}
        return replace(
            self,
            commits=self.commits + 1,
            positions={**self.positions, **positions},
            last_read={**self.last_read, **read},
            written_to={**self.written_to, **written_to},
            expired={},
        )

    def to_commit(self, moved: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return what a commit that moves these positions reports to the group: where none moves,
        one once more to carry the commit's number."""
        return {**self.expired, **moved} or dict(sorted(self.positions.items())[:1])

    def has(self, partition: TopicPartition) -> bool:
        """Return whether a partition belongs to the topics that are compared: dead letters do
        not."""
        return partition.topic in self.topics

    def change(self) -> dict[str, bytes | None]:
        """Return what a commit writes to the changelog beside the state."""
        return {PROVENANCE_KEY: self.to_bytes()}

    def to_bytes(self) -> bytes:
        """Return its form in the changelog."""
        partitions: dict[str, list[PlaceProvenance]] = {topic: [] for topic in self.topics}
        for partition in sorted({*self.positions, *self.written_to}):
            partitions[partition.topic].append(self._partition_of(partition))
        topics = [
            TopicProvenance(
                topic=name,
                topic_id=found.topic_id,
                kafka_partitions=found.kafka_partitions,
                places=partitions[name],
            )
            for name, found in self.topics.items()
        ]
        message = StateProvenance(format=self.format, commits=self.commits, topics=topics)
        return message.SerializeToString()

    @classmethod
    def from_bytes(cls, value: bytes) -> Self:
        """Parse what `to_bytes` made."""
        message = StateProvenance.FromString(value)
        found = [
            (TopicPartition(t.topic, p.kafka_partition), p)
            for t in message.topics
            for p in t.places
        ]
        return cls(
            commits=message.commits,
            format=message.format,
            topics={t.topic: TopicIdentity(t.topic_id, t.kafka_partitions) for t in message.topics},
            positions={partition: p.position for partition, p in found if p.HasField("position")},
            last_read={
                partition: LastRead(p.last_read_offset, p.last_read_sha256)
                for partition, p in found
                if p.last_read_sha256
            },
            written_to={partition: p.written_to for partition, p in found if p.written_to},
        )

    def _partition_of(self, partition: TopicPartition) -> PlaceProvenance:
        last = self.last_read.get(partition)
        return PlaceProvenance(
            kafka_partition=partition.kafka_partition,
            position=self.positions.get(partition),
            last_read_offset=last.offset if last else 0,
            last_read_sha256=last.sha256 if last else b"",
            written_to=self.written_to.get(partition, 0),
        )


def content_sha256(record: Record) -> bytes:
    """Return the first 8 bytes of the SHA-256 of a record's key, headers and value, lengths
    included."""
    parts = [record.key, record.value or b""]
    for name, value in record.headers:
        parts += (name.encode(errors="surrogateescape"), value)
    lengths = ",".join([str(len(part)) for part in parts]).encode()
    return sha256(b"".join([lengths, *parts])).digest()[:8]


def split_state(restored: Mapping[str, bytes]) -> tuple[Provenance | None, dict[str, bytes]]:
    """Split a changelog into its provenance, None when it has none, and the state beside it."""
    state = dict(restored)
    value = state.pop(PROVENANCE_KEY, None)
    return (None if value is None else Provenance.from_bytes(value)), state
