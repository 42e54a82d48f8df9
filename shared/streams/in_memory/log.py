"""A log in memory with what the design needs of Kafka: partitions, consumer groups, transactions
whose records nobody sees before they are committed and in which a newer producer fences the older,
compaction and retention. `tests/contract` holds it to a real broker."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from shared.catalogue.record import NewRecord, Record, TopicPartition
from shared.streams.stages.provenance import TopicIdentity


class FencedError(Exception):
    """A newer producer of the same transactional id took over; this one must end."""


@dataclass(frozen=True, slots=True)
class ProducerEpoch:
    """Proof of who owns a transactional id."""

    transactional_id: str
    epoch: int


@dataclass(slots=True)
class _Partition:
    """Slots from the offset `first` on. One is empty where a record was aborted or compacted away,
    and where a transaction ended: Kafka writes a marker there, which nobody is handed.

    `open` has the offset at which each undecided transaction began.
    """

    first: int = 0
    slots: list[Record | None] = field(default_factory=list)
    open: dict[str, int] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.first + len(self.slots)

    @property
    def stable_end(self) -> int:
        return min(self.open.values()) if self.open else self.end

    def append(self, new: NewRecord) -> Record:
        record = Record(new.partition, self.end, new.key, new.value, new.headers)
        self.slots.append(record)
        return record

    def read(self, from_offset: int, limit: int) -> list[Record]:
        begin, end = max(from_offset, self.first) - self.first, self.stable_end - self.first
        slots = map(self.slots.__getitem__, range(begin, end))
        return list(islice(filter(None, slots), limit))

    def empty(self, offset: int) -> None:
        if offset >= self.first:
            self.slots[offset - self.first] = None


@dataclass(slots=True)
class _Transaction:
    """What was sent, with the partition that took it: its topic may be another one by the end."""

    sent: list[tuple[_Partition, Record]] = field(default_factory=list)
    partitions: list[_Partition] = field(default_factory=list)
    positions: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)
    commits: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)


class InMemoryLog:
    """Records by partition; positions and members by group. Whoever reads, reads what is
    committed."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, _Partition] = defaultdict(_Partition)
        self._created: dict[str, int] = defaultdict(int)
        self._kafka_partitions: dict[str, int] = {}
        self._positions: dict[tuple[str, TopicPartition], int] = {}
        self._commits: dict[tuple[str, TopicPartition], int] = {}
        self._epochs: dict[str, int] = defaultdict(int)
        self._transactions: dict[str, _Transaction] = {}
        self._members: dict[str, set[str]] = defaultdict(set)

    def append(self, records: NewRecord | Iterable[NewRecord]) -> None:
        """Append outside of any transaction."""
        for new in [records] if isinstance(records, NewRecord) else records:
            self._partitions[new.partition].append(new)

    def read(
        self, partition: TopicPartition, from_offset: int = 0, limit: int = 500
    ) -> Sequence[Record]:
        """Read at most `limit` committed records from an offset on, none of them behind one whose
        transaction is undecided. Offsets have gaps."""
        return self._partitions[partition].read(from_offset, limit)

    def partitions(self) -> Sequence[TopicPartition]:
        """Return every partition that was written to or read."""
        return sorted(self._partitions)

    def begin_offset(self, partition: TopicPartition) -> int:
        """Return the first offset that was not deleted."""
        return self._partitions[partition].first

    def end_offset(self, partition: TopicPartition) -> int:
        """Return the offset that the next record gets."""
        return self._partitions[partition].end

    def position(self, group: str, partition: TopicPartition) -> int:
        """Return the offset from which a group reads on."""
        return self._positions.get((group, partition), 0)

    def committed(self, group: str, partition: TopicPartition) -> int | None:
        """Return the position that a group has committed; None when it has none."""
        return self._positions.get((group, partition))

    def commits(self, group: str, partition: TopicPartition) -> int | None:
        """Return the number of the commit that moved a group's position last; None when it is
        unknown."""
        return self._commits.get((group, partition))

    def open_producer(self, transactional_id: str) -> ProducerEpoch:
        """Take a transactional id over: whoever had it before is fenced, and what it left open is
        aborted."""
        self._decide(transactional_id, is_committed=False)
        self._epochs[transactional_id] += 1
        return ProducerEpoch(transactional_id, self._epochs[transactional_id])

    def begin(self, producer: ProducerEpoch) -> None:
        """Begin a transaction. Like the steps that follow it raises FencedError when the producer
        was taken over."""
        self._require_owner(producer)
        self._transactions[producer.transactional_id] = _Transaction()

    def send(self, producer: ProducerEpoch, records: Iterable[NewRecord]) -> None:
        """Append records that are seen when the transaction is committed, or never."""
        transaction = self._open_transaction(producer)
        for new in records:
            partition = self._partitions[new.partition]
            if producer.transactional_id not in partition.open:
                partition.open[producer.transactional_id] = partition.end
                transaction.partitions.append(partition)
            transaction.sent.append((partition, partition.append(new)))

    def send_positions(
        self,
        producer: ProducerEpoch,
        group: str,
        positions: Mapping[TopicPartition, int],
        commits: int | None = None,
    ) -> None:
        """Move a group's positions when the transaction is committed; the number of the commit goes
        with them as metadata."""
        transaction = self._open_transaction(producer)
        moved = {(group, partition): offset for partition, offset in positions.items()}
        transaction.positions.update(moved)
        if commits is not None:
            transaction.commits.update(dict.fromkeys(moved, commits))

    def end(self, producer: ProducerEpoch, *, is_committed: bool = True) -> None:
        """Commit the transaction, or abort it."""
        self._open_transaction(producer)
        self._decide(producer.transactional_id, is_committed=is_committed)

    def commit(
        self,
        producer: ProducerEpoch,
        records: Iterable[NewRecord],
        group: str,
        positions: Mapping[TopicPartition, int],
    ) -> None:
        """Commit one whole transaction: append records and move a group's positions, both or
        neither."""
        self.begin(producer)
        self.send(producer, records)
        self.send_positions(producer, group, positions)
        self.end(producer)

    def identity(self, topic: str, declared: int) -> TopicIdentity:
        """Return which topic has this name now; it has as many Kafka partitions as declared, if it
        did not grow."""
        topic_id = f"{topic}#{self._created[topic]}".encode()
        return TopicIdentity(topic_id, self._kafka_partitions.get(topic, declared))

    def join(self, group: str, member: str) -> None:
        """Become a member of a group."""
        self._members[group].add(member)

    def leave(self, group: str, member: str) -> None:
        """Leave a group, or be expelled from it when a session expires."""
        self._members[group].discard(member)

    def members(self, group: str) -> frozenset[str]:
        """Return the members that share a group's units."""
        return frozenset(self._members[group])

    def _require_owner(self, producer: ProducerEpoch) -> None:
        if self._epochs[producer.transactional_id] != producer.epoch:
            raise FencedError(f"{producer.transactional_id} has a newer owner: end this worker")

    def _open_transaction(self, producer: ProducerEpoch) -> _Transaction:
        self._require_owner(producer)
        if producer.transactional_id not in self._transactions:
            raise FencedError(f"the transaction of {producer.transactional_id} was ended")
        return self._transactions[producer.transactional_id]

    def _decide(self, transactional_id: str, *, is_committed: bool) -> None:
        transaction = self._transactions.pop(transactional_id, None)
        if transaction is None:
            return
        if is_committed:
            self._positions.update(transaction.positions)
            self._commits.update(transaction.commits)
        for partition in transaction.partitions:
            del partition.open[transactional_id]
            partition.slots.append(None)
        if not is_committed:
            for partition, record in transaction.sent:
                partition.empty(record.offset)
