"""The topics on Kafka, and the archive in files."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import takewhile
from typing import Final, Self

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPartition

from services.history.log import ReadBatch
from shared.archive.errors import ArchiveError, NotArchivedError
from shared.archive.reading import archived_range, read_archive
from shared.catalogue.record import Record, TopicPartition
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.facts import KafkaFacts
from shared.streams.stages.consistency import LogFacts
from shared.streams.stages.provenance import LastRead

_POLL_MS: Final = 200
_FETCH_WAIT_MS: Final = 100
_MOST_RECORDS: Final = 5_000


class FollowedTopics:
    """The topics of one deployment."""

    def __init__(self, deployment: Deployment, consumer: AIOKafkaConsumer) -> None:
        self._deployment = deployment
        self._facts = KafkaFacts(deployment)
        self._consumer = consumer
        self._behind = 0

    @classmethod
    @asynccontextmanager
    async def connected(cls, deployment: Deployment) -> AsyncIterator[Self]:
        """Connect."""
        consumer = AIOKafkaConsumer(
            **deployment.connection,
            isolation_level="read_committed",
            enable_auto_commit=False,
            # An offset that was removed is no reason to continue elsewhere: nothing is left out.
            auto_offset_reset="none",
            fetch_max_wait_ms=_FETCH_WAIT_MS,
            max_partition_fetch_bytes=deployment.max_record_bytes,
        )
        found = cls(deployment, consumer)
        try:
            await consumer.start()
            yield found
        finally:
            await consumer.stop()
            await asyncio.to_thread(found._facts.close)

    async def facts(
        self,
        topics: Iterable[str],
        last_read: Mapping[TopicPartition, LastRead],
        partitions: Iterable[TopicPartition],
    ) -> LogFacts:
        """Return what Kafka holds now."""
        return await asyncio.to_thread(self._facts.of_partitions, topics, last_read, partitions)

    async def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions, each from a position on."""
        named = {self._named(each): position for each, position in positions.items()}
        self._consumer.assign(list(named))
        for each, position in named.items():
            self._consumer.seek(each, position)

    async def read(self) -> Mapping[TopicPartition, ReadBatch]:
        """Return what has come; wait a moment where nothing has."""
        found = await self._consumer.getmany(timeout_ms=_POLL_MS, max_records=_MOST_RECORDS)
        self._behind = sum([await self._left(each) for each in self._consumer.assignment()])
        return {
            TopicPartition(self._deployment.topic_of(each.topic), each.partition): ReadBatch(
                [self._deployment.record(record) for record in records],
                records[-1].offset + 1,
            )
            for each, records in found.items()
            if records
        }

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset behind all that was read of a Kafka partition, markers of transactions
        too."""
        return int(await self._consumer.position(self._named(partition)))

    def behind(self) -> int:
        """Return how many offsets were not read yet."""
        return self._behind

    async def _left(self, partition: KafkaPartition) -> int:
        """The end is known once something was answered."""
        end = self._consumer.last_stable_offset(partition)
        return max(end - await self._consumer.position(partition), 0) if end else 0

    def _named(self, partition: TopicPartition) -> KafkaPartition:
        return KafkaPartition(self._deployment.name(partition.topic), partition.kafka_partition)


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
