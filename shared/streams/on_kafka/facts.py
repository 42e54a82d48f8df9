"""What Kafka says of a unit's topics and partitions."""

import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from kafka import KafkaAdminClient, KafkaConsumer
from kafka import TopicPartition as KafkaPartition
from kafka.admin import OffsetSpec

from shared.catalogue.record import TopicPartition
from shared.streams.on_kafka.admin import admin_client, when_coordinated
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.plain_consumer import plain_consumer
from shared.streams.stages.consistency import LogFacts, UnitPartitions
from shared.streams.stages.provenance import LastRead, Provenance, TopicIdentity, content_sha256

_POLL_MS: Final = 200
# A record that was compacted away is not awaited for longer.
_POLLS: Final = 25
_FETCH_BYTES: Final = 65_536


class KafkaFacts:
    """Asks Kafka, one question at a time; call it from a thread, it waits for answers."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._one_at_a_time = threading.Lock()
        self._admin: KafkaAdminClient | None = None

    def of(self, unit: UnitPartitions, provenance: Provenance | None) -> LogFacts:
        """Return all that `shared.streams.stages.consistency` compares. Raises KafkaError."""
        with self._one_at_a_time:
            return self._of(unit, provenance)

    def of_partitions(
        self,
        topics: Iterable[str],
        last_read: Mapping[TopicPartition, LastRead],
        partitions: Iterable[TopicPartition],
    ) -> LogFacts:
        """Return what a read model compares, which has no group. Raises KafkaError."""
        with self._one_at_a_time:
            return self._log(topics, last_read, partitions)

    def close(self) -> None:
        """Disconnect; who asks again connects anew."""
        with self._one_at_a_time:
            if self._admin is not None:
                self._admin.close()
                self._admin = None

    @property
    def _client(self) -> KafkaAdminClient:
        if self._admin is None:
            self._admin = admin_client(self._deployment)
        return self._admin

    def _of(self, unit: UnitPartitions, provenance: Provenance | None) -> LogFacts:
        known = provenance or Provenance()
        group = self._deployment.name(unit.stage)
        wanted = {self._named(partition): partition for partition in unit.inputs}
        positions = {
            partition: found
            for named, found in self._offsets_of(group).items()
            if (partition := wanted.get(named)) is not None and found.offset >= 0
        }
        # Positions before ends: these only grow meanwhile.
        log = self._log(unit.kafka_partitions, known.last_read, {*unit.inputs, *known.written_to})
        numbers = [int(found.metadata) for found in positions.values() if found.metadata]
        return LogFacts(
            topics=log.topics,
            begins=log.begins,
            ends=log.ends,
            sha256=log.sha256,
            committed={partition: found.offset for partition, found in positions.items()},
            commits=max(numbers, default=None),
            told=None if provenance or positions else self._told(unit, log.topics),
        )

    def _told(
        self, unit: UnitPartitions, topics: Mapping[str, TopicIdentity]
    ) -> TopicPartition | None:
        """Return where a unit that looks new once wrote."""
        there = [
            partition
            for partition in unit.outputs
            if partition.topic in topics
            and partition.kafka_partition < topics[partition.topic].kafka_partitions
        ]
        begins = self._offsets(there, OffsetSpec.EARLIEST)
        ends = self._offsets(there, OffsetSpec.LATEST)
        filled = {partition for partition in there if begins[partition] < ends[partition]}
        return self._first_of(unit, filled, ends) if filled else None

    def _first_of(
        self,
        unit: UnitPartitions,
        filled: set[TopicPartition],
        ends: Mapping[TopicPartition, int],
    ) -> TopicPartition | None:
        consumer = self._consumer(isolation_level="read_committed")
        left, idle = {self._named(partition): partition for partition in filled}, 0
        try:
            consumer.assign(list(left))
            consumer.seek_to_beginning(*left)
            while left and idle < _POLLS:
                polled = consumer.poll(timeout_ms=_POLL_MS)
                idle = 0 if polled else idle + 1
                for named, records in polled.items():
                    if any(unit.wrote(self._deployment.record(record)) for record in records):
                        return left[named]
                read = [at for at, p in left.items() if consumer.position(at) >= ends[p]]
                for named in read:
                    del left[named]
                    consumer.pause(named)
        finally:
            consumer.close()
        return None

    def _offsets_of(self, group: str) -> Mapping[KafkaPartition, Any]:
        found: Mapping[KafkaPartition, Any] = when_coordinated(
            lambda: self._client.list_group_offsets([group])
        )[group]
        return found

    def _log(
        self,
        topics: Iterable[str],
        last_read: Mapping[TopicPartition, LastRead],
        partitions: Iterable[TopicPartition],
    ) -> LogFacts:
        found = self._topics(topics)
        there = [
            partition
            for partition in {*partitions, *last_read}
            if partition.topic in found
            and partition.kafka_partition < found[partition.topic].kafka_partitions
        ]
        begins = self._offsets(there, OffsetSpec.EARLIEST)
        ends = self._offsets(there, OffsetSpec.LATEST)
        wanted = {
            partition: last.offset
            for partition, last in last_read.items()
            if begins.get(partition, 0) <= last.offset < ends.get(partition, 0)
        }
        return LogFacts(found, begins, ends, self._sha256(wanted))

    def _topics(self, topics: Iterable[str]) -> dict[str, TopicIdentity]:
        described = self._client.describe_topics([self._deployment.name(name) for name in topics])
        return {
            self._deployment.topic_of(topic["name"]): TopicIdentity(
                _bytes(topic["topic_id"]), len(topic["partitions"])
            )
            for topic in described
            if not topic["error_code"]
        }

    def _offsets(
        self, partitions: Iterable[TopicPartition], spec: OffsetSpec
    ) -> dict[TopicPartition, int]:
        wanted = {self._named(partition): partition for partition in partitions}
        if not wanted:
            return {}
        found = self._client.list_partition_offsets(dict.fromkeys(wanted, spec))
        return {wanted[partition]: at.offset for partition, at in found.items()}

    def _sha256(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, bytes | None]:
        """Return the hashes of the records at these offsets; None where there is none."""
        found: dict[TopicPartition, bytes | None] = dict.fromkeys(wanted)
        if not wanted:
            return found
        consumer = self._consumer()
        try:
            self._read(consumer, wanted, found)
        finally:
            consumer.close()
        return found

    def _consumer(self, **settings: Any) -> KafkaConsumer:
        return plain_consumer(
            self._deployment,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=_FETCH_BYTES,
            **settings,
        )

    def _read(
        self,
        consumer: KafkaConsumer,
        wanted: Mapping[TopicPartition, int],
        found: dict[TopicPartition, Any],
    ) -> None:
        open_at = {self._named(partition): partition for partition in wanted}
        consumer.assign(list(open_at))
        for named, partition in open_at.items():
            consumer.seek(named, wanted[partition])
        for _ in range(_POLLS):
            for named, records in consumer.poll(timeout_ms=_POLL_MS, max_records=1).items():
                partition = open_at.pop(named)
                if records[0].offset == wanted[partition]:
                    found[partition] = content_sha256(self._deployment.record(records[0]))
                consumer.pause(named)
            if not open_at:
                return

    def _named(self, partition: TopicPartition) -> KafkaPartition:
        return KafkaPartition(self._deployment.name(partition.topic), partition.kafka_partition)


def _bytes(topic_id: str | None) -> bytes:
    """A broker older than 2.8 knows none."""
    return UUID(topic_id).bytes if topic_id else b""
