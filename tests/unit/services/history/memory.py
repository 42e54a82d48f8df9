"""The history over a log in memory, with archive files beside it."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from services.history.adapters import ArchiveFiles
from services.history.applying import BatchApplier
from services.history.database import Database, migrate, open_database
from services.history.facts import TOPICS
from services.history.following import Follower
from services.history.writing import HistoryWriter, Rejected
from shared.archive.record import ArchivedRecord
from shared.archive.storage import LocalFolder
from shared.archive.writing import PartitionArchive
from shared.catalogue.record import NewRecord, Record, TopicPartition
from shared.streams.following import ReadBatch
from shared.streams.in_memory.facts import facts_of_partitions
from shared.streams.stages.consistency import LogFacts
from shared.streams.stages.provenance import LastRead, Provenance
from shared.streams.stages.quarantine import Fault
from tests.support.operated_log import OperatedLog
from tests.unit.services.history.made import CODEC, FactLog

AFTER = 3


class RemovedOffsetError(Exception):
    """As Kafka says it: the offset is not there any more."""


class MemoryTopics:
    """What the history needs of topics, as `FollowedTopics` has it."""

    def __init__(self, log: OperatedLog) -> None:
        self.log = log
        self.counts = {topic: CODEC.topics.kafka_partitions(topic) for topic in TOPICS}
        self.positions: dict[TopicPartition, int] = {}

    async def facts(
        self,
        topics: Iterable[str],
        last_read: Mapping[TopicPartition, LastRead],
        partitions: Iterable[TopicPartition],
    ) -> LogFacts:
        """What the log holds now."""
        declared = {topic: self.counts[topic] for topic in topics}
        return facts_of_partitions(self.log, declared, Provenance(last_read=last_read), partitions)

    async def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read from these on."""
        self.positions = dict(positions)

    async def read(self) -> Mapping[TopicPartition, ReadBatch]:
        """All that has come. Raises RemovedOffsetError."""
        found = {}
        for place, position in self.positions.items():
            if position < self.log.begin_offset(place):
                raise RemovedOffsetError(place)
            # Behind ends of transactions too.
            if (end := self.log.end_offset(place)) > position:
                found[place] = ReadBatch(self.log.read(place, position, 1_000), end)
                self.positions[place] = end
        return found

    def behind(self) -> int:
        """How much was not read."""
        return sum(self.log.end_offset(place) - at for place, at in self.positions.items())


class Region:
    """A log, an archive of it, and the process that keeps the history in a database."""

    def __init__(self, database: Database, archive: Path) -> None:
        self.log, self.folder = OperatedLog(), archive
        self.topics = MemoryTopics(self.log)
        self.engine = open_database(database, writes=True)
        migrate(database, self.engine)
        self.rejected: list[Rejected] = []
        self.quarantined: list[Record] = []
        self.follower = self.new()

    def new(self, archive: bool = True) -> Follower:
        """A process that has just started."""
        writer = HistoryWriter(self.engine, CODEC, self.rejected.extend)
        applier = BatchApplier(writer, AFTER, self._quarantine)
        files = ArchiveFiles(str(self.folder)) if archive else None
        self.follower = Follower(self.topics, applier, files, lambda _records: None)
        return self.follower

    def _quarantine(self, record: Record, _fault: Fault) -> None:
        self.quarantined.append(record)

    def append(self, facts: FactLog) -> None:
        """Append what topics say, as one transaction."""
        producer = self.log.open_producer("test")
        self.log.begin(producer)
        for records in facts.records.values():
            self.log.send(
                producer,
                [NewRecord(each.partition, each.key, each.value, each.headers) for each in records],
            )
        self.log.end(producer)

    async def step(self) -> None:
        """Apply all that has come."""
        await self.follower.step(await self.topics.read())

    async def archive(self, place: TopicPartition) -> None:
        """Archive a Kafka partition."""
        found = await self.topics.facts([place.topic], {}, [place])
        topic_id = found.topics[place.topic].topic_id.hex()
        made = PartitionArchive.resume(
            LocalFolder(self.folder), *place, topic_id, found.begins[place]
        )
        made.add(
            ArchivedRecord(*place, each.offset, 0, each.key, each.value, each.headers)
            for each in self.log.read(place, made.position, 1_000)
        )
        made.write(with_tail=True, read_to=self.log.end_offset(place))
