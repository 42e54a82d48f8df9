"""A log in memory whose data somebody compacts, deletes or replaces, as Kafka and operators do."""

from collections.abc import Mapping

from shared.catalogue.record import TopicPartition
from shared.streams.in_memory.log import InMemoryLog, _Partition

Backup = Mapping[TopicPartition, _Partition]


class OperatedLog(InMemoryLog):
    """Does to its data what no stage does."""

    def compact(self, partition: TopicPartition) -> None:
        """Keep the newest committed record of each key; of a key whose newest is a tombstone keep
        nothing. What remains keeps its offset."""
        kept = self._partitions[partition]
        records = kept.read(0, len(kept.slots))
        newest = {record.key: record.offset for record in records}
        for record in records:
            if record.value is None or newest[record.key] != record.offset:
                kept.empty(record.offset)

    def delete_before(self, partition: TopicPartition, offset: int) -> None:
        """Forget what lies before an offset, as retention does; who reads from there begins at the
        first record that is left."""
        kept = self._partitions[partition]
        offset = max(min(offset, kept.stable_end), kept.first)
        del kept.slots[: offset - kept.first]
        kept.first = offset

    def recreate(self, topic: str) -> None:
        """Delete a topic and create an empty one of its name, as an operator can. Positions of
        groups go with the topic."""
        self._created[topic] += 1
        for partition in [partition for partition in self._partitions if partition.topic == topic]:
            del self._partitions[partition]
        for kept in (self._positions, self._commits):
            for key in [key for key in kept if key[1].topic == topic]:
                del kept[key]

    def grow(self, topic: str, kafka_partitions: int) -> None:
        """Give a topic more Kafka partitions, as an operator can."""
        self._kafka_partitions[topic] = kafka_partitions

    def backup(self, topic: str) -> Backup:
        """What the brokers' files hold of a topic now, but for what is undecided."""
        return {
            partition: _Partition(found.first, found.slots[: found.stable_end - found.first])
            for partition, found in self._partitions.items()
            if partition.topic == topic
        }

    def put_back(self, topic: str, backup: Backup) -> None:
        """Have a topic, under its id, be what it was. The brokers start anew for that: what was
        undecided is aborted."""
        for transactional_id in list(self._transactions):
            self._decide(transactional_id, is_committed=False)
        for partition in [partition for partition in self._partitions if partition.topic == topic]:
            del self._partitions[partition]
        for partition, was in backup.items():
            self._partitions[partition] = _Partition(was.first, list(was.slots))

    def set_position(self, group: str, partition: TopicPartition, offset: int) -> None:
        """Move a group's position alone, as an operator can."""
        self._positions[group, partition] = offset
        self._commits.pop((group, partition), None)

    def forget_positions(self, group: str) -> None:
        """Lose a group's positions, as Kafka does when they expire."""
        for kept in (self._positions, self._commits):
            for key in [key for key in kept if key[0] == group]:
                del kept[key]
