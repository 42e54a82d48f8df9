"""Takes records from the log into files, and removes files that are old."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import structlog

from services.archive.log import ArchivedLog
from services.archive.meter import ArchiveMeter
from shared.archive.consistency import differences
from shared.archive.record import ArchivedRecord
from shared.archive.storage import Storage
from shared.archive.writing import PartitionArchive, Written
from shared.catalogue.record import TopicPartition
from shared.streams.stages.consistency import Inconsistency, InconsistentError, LogFacts, missing

NAME: Final = "archive"
_DAY_MS: Final = 86_400_000
_REMOVES_EACH_S: Final = 3_600.0

log = structlog.get_logger(__name__)


class Archiver:
    """One process archives all Kafka partitions of its topics. What it knows it reads from its
    files when it starts; `monotonic_s` and `now_ms` decide when tails are written and old files
    removed, never what is in a file."""

    def __init__(
        self,
        kafka: ArchivedLog,
        storage: Storage,
        topics: Sequence[str],
        meter: ArchiveMeter,
        *,
        compacted: frozenset[str],
        tail_s: float,
        retention_days: float,
        monotonic_s: Callable[[], float],
        now_ms: Callable[[], int],
    ) -> None:
        self._kafka, self._storage, self._topics, self._meter = kafka, storage, topics, meter
        self._compacted = compacted
        self._tail_s, self._retention_days = tail_s, retention_days
        self._monotonic_s, self._now_ms = monotonic_s, now_ms
        self.archives: dict[TopicPartition, PartitionArchive] = {}
        self._tails_at_s = self._removed_at_s = monotonic_s()

    @property
    def waiting(self) -> int:
        """Return how many records are in no file yet."""
        return sum(each.waiting for each in self.archives.values())

    async def open(self) -> list[Inconsistency]:
        """Read on behind the last file of each Kafka partition. Return what does not follow from
        Kafka: then nothing is to be written. Raises ArchiveError for files that are damaged."""
        found = await self._kafka.facts(self._topics, {}, ())
        if absent := [missing(topic) for topic in self._topics if topic not in found.topics]:
            return absent
        places = _partitions(found)
        begins = (await self._kafka.facts(self._topics, {}, places)).begins
        for place in places:
            if place not in self.archives:
                self.archives[place] = await asyncio.to_thread(
                    PartitionArchive.resume,
                    *(self._storage, *place, found.topics[place.topic].topic_id.hex()),
                    begins[place],
                )
        wrong = await self._differences()
        if not wrong:
            await self._kafka.assign({each: of.position for each, of in self.archives.items()})
        return wrong

    async def run(self, stop: asyncio.Event) -> None:
        """Archive until `stop` is set. Raises InconsistentError where a topic was replaced, OSError
        where the storage fails."""
        await self._remove_old()
        while not stop.is_set():
            await self.step(await self._kafka.read())
        await self._write(with_tails=True)

    async def step(self, found: Mapping[TopicPartition, Sequence[ArchivedRecord]]) -> None:
        """Take records, and write what is due."""
        for place, records in found.items():
            await asyncio.to_thread(self.archives[place].add, records)
        now_s = self._monotonic_s()
        with_tails = now_s - self._tails_at_s >= self._tail_s
        if with_tails or any(each.has_full for each in self.archives.values()):
            await self._write(with_tails=with_tails)
        if with_tails:
            self._tails_at_s = now_s
        if now_s - self._removed_at_s >= _REMOVES_EACH_S:
            await self._remove_old()

    async def _write(self, *, with_tails: bool) -> None:
        """What was read before Kafka says that the topic is the same is of that topic."""
        if await self._has_grown():
            await self._require_open()
        for place, archive in self.archives.items():
            read_to = await self._kafka.position(place) if with_tails else 0
            written = await asyncio.to_thread(
                partial(archive.write, with_tail=with_tails, read_to=read_to)
            )
            if written != Written():
                self._meter.wrote(place.topic, written)
                log.info("archived", topic=place.topic, kafka_partition=place.kafka_partition,
                         records=written.records, files=written.files)  # fmt: skip

    async def _has_grown(self) -> bool:
        """Return whether a topic has more Kafka partitions than it had. Raises
        InconsistentError."""
        found = await self._kafka.facts(self._topics, {}, self.archives)
        if wrong := differences(self.archives.values(), found, self._compacted, by_record=False):
            raise InconsistentError(NAME, wrong)
        return len(_partitions(found)) > len(self.archives)

    async def _require_open(self) -> None:
        if wrong := await self.open():
            raise InconsistentError(NAME, wrong)

    async def _differences(self) -> list[Inconsistency]:
        last = {
            place: archive.last_read
            for place, archive in self.archives.items()
            if archive.last_read is not None
        }
        found = await self._kafka.facts(self._topics, last, self.archives)
        return differences(self.archives.values(), found, self._compacted)

    async def _remove_old(self) -> None:
        self._removed_at_s = self._monotonic_s()
        if not self._retention_days:
            return
        before_ms = self._now_ms() - round(self._retention_days * _DAY_MS)
        for place, archive in self.archives.items():
            if removed := await asyncio.to_thread(archive.remove_before, before_ms):
                self._meter.removed(place.topic, removed)
                log.info("removed old files", topic=place.topic,
                         kafka_partition=place.kafka_partition, files=removed)  # fmt: skip


def _partitions(found: LogFacts) -> list[TopicPartition]:
    """All that there are, whatever is declared: a topic may grow."""
    return [
        TopicPartition(topic, number)
        for topic, identity in found.topics.items()
        for number in range(identity.kafka_partitions)
    ]
