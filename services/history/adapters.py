"""The topics on Kafka, and the archive in files."""

from collections.abc import Iterator, Mapping
from itertools import takewhile

from aiokafka import AIOKafkaConsumer

from services.history.log import ReadBatch
from shared.archive.errors import ArchiveError, NotArchivedError
from shared.archive.reading import archived_range, read_archive
from shared.catalogue.record import Record, TopicPartition
from shared.streams.on_kafka.committed_topics import CommittedTopics
from shared.streams.on_kafka.deployment import Deployment


class FollowedTopics(CommittedTopics):
    """The topics of one deployment, whose records are answered within a second."""

    POLL_MS = 200
    FETCH_WAIT_MS = 100

    def __init__(self, deployment: Deployment, consumer: AIOKafkaConsumer) -> None:
        super().__init__(deployment, consumer)
        self._positions: dict[TopicPartition, int] = {}

    async def read(self) -> Mapping[TopicPartition, ReadBatch]:
        """Return what has come; wait a moment where nothing has."""
        found = await self._polled()
        batches = {}
        for named in self._consumer.assignment():
            place = TopicPartition(self._deployment.topic_of(named.topic), named.partition)
            records = [self._deployment.record(one) for one in found.get(place, ())]
            # Behind ends of transactions too: Kafka may begin there once all records are removed.
            position = await self.position(place)
            if position != self._positions.get(place):
                batches[place] = ReadBatch(records, position)
                self._positions[place] = position
        return batches

    async def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions, each from a position on."""
        await super().assign(positions)
        self._positions = dict(positions)


class ArchiveFiles:
    """An archive in a folder or an object store."""

    def __init__(self, where: str) -> None:
        self._where = where

    def begins_at(self, partition: TopicPartition, topic_id: bytes) -> int | None:
        """Return the first offset that is kept of a Kafka partition, None where nothing is. Raises
        ArchiveError where it is of another topic."""
        try:
            found = archived_range(self._where, *partition)
        except NotArchivedError:
            return None
        if found.topic_id != topic_id.hex():
            raise ArchiveError(
                f"{self._where} is of another topic {partition.topic} than Kafka has: it was "
                "deleted and created again, or the archive is of another region"
            )
        return found.begins_at

    def records(self, partition: TopicPartition, from_offset: int, until: int) -> Iterator[Record]:
        """Yield the records from an offset up to, not including, another one. Raises
        ArchiveError."""
        if archived_range(self._where, *partition).ends_at < until:
            raise ArchiveError(
                f"{self._where} ends before offset {until} of {partition.topic}/"
                f"{partition.kafka_partition}, where Kafka begins: records between are lost"
            )
        every = read_archive(self._where, *partition, from_offset)
        for found in takewhile(lambda each: each.offset < until, every):
            key, written_ms = found.key or b"", max(found.timestamp_ms, 0)
            yield Record(partition, found.offset, key, found.value, found.headers, written_ms)
