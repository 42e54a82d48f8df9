"""The archive over a log in memory, with clocks that a test turns."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from opentelemetry.metrics import NoOpMeter

from services.archive.archiver import Archiver
from services.archive.meter import ArchiveMeter
from shared.archive.reading import read_archive
from shared.archive.record import ArchivedRecord
from shared.archive.storage import LocalFolder, Storage
from shared.catalogue.record import NewRecord, Record, TopicPartition
from shared.streams.in_memory.facts import facts_of_partitions
from shared.streams.stages.consistency import Inconsistency, LogFacts
from shared.streams.stages.provenance import LastRead, Provenance
from tests.support.operated_log import OperatedLog

CHARGES = "prices.charges"
JOBS = "jobs.events"
DAY_MS = 86_400_000


class MemoryLog:
    """What the archive needs of a log, as `KafkaLog` has it."""

    def __init__(self, log: OperatedLog, kafka_partitions: int) -> None:
        self.log = log
        self._kafka_partitions = kafka_partitions
        self.positions: dict[TopicPartition, int] = {}
        self.written_ms = 0

    async def facts(
        self,
        topics: Iterable[str],
        last_read: Mapping[TopicPartition, LastRead],
        partitions: Iterable[TopicPartition],
    ) -> LogFacts:
        """What the log holds now."""
        declared = dict.fromkeys(topics, self._kafka_partitions)
        known = Provenance(last_read=last_read)
        return facts_of_partitions(self.log, declared, known, partitions)

    async def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read from these on."""
        self.positions = dict(positions)

    async def read(self) -> Mapping[TopicPartition, Sequence[ArchivedRecord]]:
        """All that has come."""
        found = {
            place: [archived(each, self.written_ms) for each in self.log.read(place, at)]
            for place, at in self.positions.items()
        }
        for place, records in found.items():
            if records:
                self.positions[place] = records[-1].offset + 1
        return {place: records for place, records in found.items() if records}

    async def position(self, partition: TopicPartition) -> int:
        """Behind what was read; ends of transactions are passed once all is."""
        position = self.positions[partition]
        return position if self.log.read(partition, position, 1) else self.log.end_offset(partition)

    def behind(self) -> int:
        """How much was not read."""
        return sum(self.log.end_offset(place) - at for place, at in self.positions.items())


def archived(record: Record, written_ms: int) -> ArchivedRecord:
    """A record of the log in memory, which knows no times."""
    place = *record.partition, record.offset
    return ArchivedRecord(*place, written_ms, record.key, record.value, record.headers)


class Region:
    """A log, a folder, and the archiver that lives now."""

    def __init__(self, folder: Path, topics: Sequence[str] = (CHARGES, JOBS)) -> None:
        self.log = OperatedLog()
        self.kafka = MemoryLog(self.log, 2)
        self.storage: Storage = LocalFolder(folder)
        self.topics = topics
        self.now_s = 0.0
        self.now_ms = 0
        self.retention_days = 0.0
        self.compacted: frozenset[str] = frozenset()
        self.archiver = self.new()

    def new(self) -> Archiver:
        """An archiver that has just started."""
        return Archiver(
            *(self.kafka, self.storage, self.topics, ArchiveMeter(NoOpMeter("test"), self.topics)),
            compacted=self.compacted,
            tail_s=60.0,
            retention_days=self.retention_days,
            monotonic_s=lambda: self.now_s,
            now_ms=lambda: self.now_ms,
        )

    async def restart(self) -> list[Inconsistency]:
        """End the process as a kill does, and start another one."""
        self.archiver = self.new()
        return await self.archiver.open()

    async def step(self, after_s: float = 0.0) -> None:
        """Let the archiver take what has come, some time later."""
        self.now_s += after_s
        await self.archiver.step(await self.kafka.read())

    def append(self, topic: str, kafka_partition: int, *values: bytes) -> None:
        """Append records."""
        place = TopicPartition(topic, kafka_partition)
        self.log.append(NewRecord(place, b"key", value) for value in values)

    def values(self, topic: str, kafka_partition: int) -> list[bytes | None]:
        """What the archive holds."""
        where = self.storage.where
        return [each.value for each in read_archive(where, topic, kafka_partition)]
