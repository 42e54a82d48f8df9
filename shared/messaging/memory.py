"""A log in memory with what the design needs of Kafka: partitions, consumer groups, and
transactions in which a newer producer fences the older."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shared.messaging.record import NewRecord, Place, Record


class FencedError(Exception):
    """A newer producer of the same transactional id took over; this one must end."""


@dataclass(frozen=True, slots=True)
class ProducerEpoch:
    """Proof of who owns a transactional id."""

    transactional_id: str
    epoch: int


class InMemoryLog:
    """Records by place; positions and members by group."""

    def __init__(self) -> None:
        self._records: dict[Place, list[Record]] = defaultdict(list)
        self._positions: dict[tuple[str, Place], int] = {}
        self._epochs: dict[str, int] = defaultdict(int)
        self._members: dict[str, set[str]] = defaultdict(set)

    def append(self, records: NewRecord | Iterable[NewRecord]) -> None:
        """Append outside of any transaction."""
        for new in [records] if isinstance(records, NewRecord) else records:
            kept = self._records[new.place]
            kept.append(Record(new.place, len(kept), new.key, new.value, new.headers))

    def read(self, place: Place, from_offset: int = 0, limit: int = 500) -> Sequence[Record]:
        """At most `limit` records from an offset on."""
        return self._records[place][from_offset : from_offset + limit]

    def end_offset(self, place: Place) -> int:
        """The offset that the next record gets."""
        return len(self._records[place])

    def position(self, group: str, place: Place) -> int:
        """The offset from which a group reads on."""
        return self._positions.get((group, place), 0)

    def open_producer(self, transactional_id: str) -> ProducerEpoch:
        """Take a transactional id over; whoever had it before is fenced."""
        self._epochs[transactional_id] += 1
        return ProducerEpoch(transactional_id, self._epochs[transactional_id])

    def commit(
        self,
        producer: ProducerEpoch,
        records: Iterable[NewRecord],
        group: str,
        positions: Mapping[Place, int],
    ) -> None:
        """Append records and move a group's positions, both or neither.

        Raises FencedError when the producer was taken over.
        """
        if self._epochs[producer.transactional_id] != producer.epoch:
            raise FencedError(f"{producer.transactional_id} has a newer owner: end this worker")
        self.append(records)
        self._positions.update({(group, place): offset for place, offset in positions.items()})

    def join(self, group: str, member: str) -> None:
        """Become a member of a group."""
        self._members[group].add(member)

    def leave(self, group: str, member: str) -> None:
        """Leave a group, or be expelled from it when a session expires."""
        self._members[group].discard(member)

    def members(self, group: str) -> frozenset[str]:
        """Who shares a group's units."""
        return frozenset(self._members[group])
