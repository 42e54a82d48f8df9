"""What Kafka says of a unit's topics and places."""

import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import OffsetSpec

from shared.messaging.admin import admin_client, when_coordinated
from shared.messaging.consistency import LogFacts, UnitPlaces
from shared.messaging.deployment import Deployment
from shared.messaging.provenance import LastRead, Provenance, TopicIdentity, content_sha256
from shared.messaging.record import Place

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

    def of(self, unit: UnitPlaces, provenance: Provenance | None) -> LogFacts:
        """All that `shared.messaging.consistency` compares. Raises KafkaError."""
        with self._one_at_a_time:
            return self._of(unit, provenance or Provenance())

    def of_places(
        self, topics: Iterable[str], last_read: Mapping[Place, LastRead], places: Iterable[Place]
    ) -> LogFacts:
        """The same without a group: what a read model compares. Raises KafkaError."""
        with self._one_at_a_time:
            return self._log(topics, last_read, places)

    def close(self) -> None:
        """Disconnect."""
        with self._one_at_a_time:
            if self._admin is not None:
                self._admin.close()
                self._admin = None

    @property
    def _client(self) -> KafkaAdminClient:
        if self._admin is None:
            self._admin = admin_client(self._deployment)
        return self._admin

    def _of(self, unit: UnitPlaces, known: Provenance) -> LogFacts:
        group = self._deployment.name(unit.stage)
        wanted = {self._partition(place): place for place in unit.inputs}
        positions = {
            place: found
            for partition, found in self._offsets_of(group).items()
            if (place := wanted.get(partition)) is not None and found.offset >= 0
        }
        # Positions before ends: these only grow meanwhile.
        log = self._log(unit.kafka_partitions, known.last_read, {*unit.inputs, *known.written_to})
        numbers = [int(found.metadata) for found in positions.values() if found.metadata]
        return LogFacts(
            topics=log.topics,
            begins=log.begins,
            ends=log.ends,
            sha256=log.sha256,
            committed={place: found.offset for place, found in positions.items()},
            commits=max(numbers, default=None),
        )

    def _offsets_of(self, group: str) -> Mapping[TopicPartition, Any]:
        found: Mapping[TopicPartition, Any] = when_coordinated(
            lambda: self._client.list_group_offsets([group])
        )[group]
        return found

    def _log(
        self, topics: Iterable[str], last_read: Mapping[Place, LastRead], places: Iterable[Place]
    ) -> LogFacts:
        found = self._topics(topics)
        there = [
            place
            for place in {*places, *last_read}
            if place.topic in found and place.kafka_partition < found[place.topic].kafka_partitions
        ]
        begins = self._offsets(there, OffsetSpec.EARLIEST)
        ends = self._offsets(there, OffsetSpec.LATEST)
        wanted = {
            place: last.offset
            for place, last in last_read.items()
            if begins.get(place, 0) <= last.offset < ends.get(place, 0)
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

    def _offsets(self, places: Iterable[Place], spec: OffsetSpec) -> dict[Place, int]:
        wanted = {self._partition(place): place for place in places}
        if not wanted:
            return {}
        found = self._client.list_partition_offsets(dict.fromkeys(wanted, spec))
        return {wanted[partition]: at.offset for partition, at in found.items()}

    def _sha256(self, wanted: Mapping[Place, int]) -> dict[Place, bytes | None]:
        """Of the records at these offsets; None where there is none."""
        found: dict[Place, bytes | None] = dict.fromkeys(wanted)
        if not wanted:
            return found
        consumer = KafkaConsumer(
            **self._deployment.connection,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=_FETCH_BYTES,
        )
        try:
            self._read(consumer, wanted, found)
        finally:
            consumer.close()
        return found

    def _read(
        self, consumer: KafkaConsumer, wanted: Mapping[Place, int], found: dict[Place, Any]
    ) -> None:
        open_at = {self._partition(place): place for place in wanted}
        consumer.assign(list(open_at))
        for partition, place in open_at.items():
            consumer.seek(partition, wanted[place])
        for _ in range(_POLLS):
            for partition, records in consumer.poll(timeout_ms=_POLL_MS, max_records=1).items():
                place = open_at.pop(partition)
                if records[0].offset == wanted[place]:
                    found[place] = content_sha256(self._deployment.record(records[0]))
                consumer.pause(partition)
            if not open_at:
                return

    def _partition(self, place: Place) -> TopicPartition:
        return TopicPartition(self._deployment.name(place.topic), place.kafka_partition)


def _bytes(topic_id: str | None) -> bytes:
    """A broker older than 2.8 knows none."""
    return UUID(topic_id).bytes if topic_id else b""
