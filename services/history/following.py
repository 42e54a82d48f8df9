"""Follows topics into the database: from where it is, over what only the archive has, and on."""

import asyncio
import time
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final

import structlog

from services.history.applying import BatchApplier
from services.history.consistency import HOW_TO, NAME, differences
from services.history.facts import TOPICS
from services.history.log import Archive, FollowedLog, ReadBatch
from services.history.writing import Batch
from shared.archive.errors import ArchiveError
from shared.catalogue.record import TopicPartition
from shared.process.clock import now_us
from shared.streams.stages.consistency import Inconsistency, InconsistentError, LogFacts, missing

_AT_ONCE: Final = 5_000
_CHECKS_EACH_S: Final = 10.0

log = structlog.get_logger(__name__)


class Follower:
    """The one that writes to a database. `on_applied` hears of each batch how many records it
    had."""

    def __init__(
        self,
        topics: FollowedLog,
        applier: BatchApplier,
        archive: Archive | None,
        on_applied: Callable[[int], object],
    ) -> None:
        self._topics, self._applier, self._archive = topics, applier, archive
        self._writer = applier.writer
        self._on_applied = on_applied
        self.positions: dict[TopicPartition, int] = {}
        self._newest_ms = 0

    async def open(self) -> list[Inconsistency]:
        """Read on where the database is, what only the archive has first. Return what does not
        follow from Kafka: then nothing is written. Raises ArchiveError."""
        found = await self._topics.facts(TOPICS, {}, ())
        if absent := [missing(topic) for topic in TOPICS if topic not in found.topics]:
            return absent
        known = await asyncio.to_thread(self._writer.positions)
        if wrong := await differences(self._topics, known):
            return wrong
        places = _partitions(found)
        kept = await self._topics.facts(TOPICS, {}, places)
        begins = kept.begins
        for place in places:
            topic_id = found.topics[place.topic].topic_id
            if place not in known:
                start = self._start(place, topic_id, begins[place])
                await asyncio.to_thread(self._writer.begin, place, topic_id, start)
                position = start
            else:
                position = known[place].position
            if position < begins[place]:
                await self._fill(place, topic_id, position, begins[place])
                position = begins[place]
            self.positions[place] = position
        self._warn_of_unarchived(kept)
        await self._topics.assign(self.positions)
        return []

    async def run(self, stop: asyncio.Event) -> None:
        """Follow until `stop` is set. Raises InconsistentError where a topic was replaced."""
        checked_s = time.monotonic()
        while not stop.is_set():
            await self.step(await self._topics.read())
            if time.monotonic() - checked_s >= _CHECKS_EACH_S:
                await self._check()
                checked_s = time.monotonic()

    async def step(self, found: Mapping[TopicPartition, ReadBatch]) -> None:
        """Apply what was read."""
        batches = [
            Batch(place, self.positions[place], batch.records, batch.next_position)
            for place, batch in found.items()
        ]
        if not batches:
            return
        self._on_applied(await asyncio.to_thread(self._applier.apply, batches))
        for batch in batches:
            self.positions[batch.partition] = batch.next_position
        if newest := [batch.records[-1].written_ms for batch in batches if batch.records]:
            self._newest_ms = max(newest)

    def lag_s(self) -> float:
        """Return how old the newest record is that was applied, 0 where none waits."""
        if not self._newest_ms or not self._topics.behind():
            return 0.0
        return max(0.0, now_us() / 1e6 - self._newest_ms / 1e3)

    def _start(self, place: TopicPartition, topic_id: bytes, begins_at: int) -> int:
        """Return where to begin with a Kafka partition: where Kafka does, or the archive before."""
        archived = self._archive.begins_at(place, topic_id) if self._archive else None
        start = begins_at if archived is None else min(archived, begins_at)
        if start:
            log.warning("the beginning is kept nowhere", at=(*place, start))
        return start

    def _warn_of_unarchived(self, found: LogFacts) -> None:
        """Say which topics nobody has any more once Kafka has removed their records."""
        if self._archive is None:
            return
        for topic in TOPICS:
            places = [place for place in self.positions if place.topic == topic]
            topic_id = found.topics[topic].topic_id
            try:
                begins = [self._archive.begins_at(place, topic_id) for place in places]
            except ArchiveError:
                begins = []
            is_archived = any(each is not None for each in begins)
            if not is_archived and any(found.ends[place] for place in places):
                log.warning(
                    "not archived: built anew without it once Kafka removes it", topic=topic
                )

    async def _fill(
        self, place: TopicPartition, topic_id: bytes, position: int, until: int
    ) -> None:
        """Apply what Kafka has removed from a Kafka partition. Raises ArchiveError."""
        if self._archive is None or self._archive.begins_at(place, topic_id) is None:
            raise ArchiveError(
                f"{place.topic}/{place.kafka_partition} was applied to offset {position}, and "
                f"Kafka begins at {until}: set COPLACE_HISTORY_ARCHIVE to an archive that has what "
                f"is between, or build it anew without it ({HOW_TO})"
            )
        records = self._archive.records(place, position, until)
        log.info("read from the archive", at=(*place, position), until=until)
        while batch := await asyncio.to_thread(lambda: list(islice(records, _AT_ONCE))):
            following = batch[-1].offset + 1
            filled = [Batch(place, position, batch, following)]
            self._on_applied(await asyncio.to_thread(self._applier.apply, filled))
            position = following
        await asyncio.to_thread(self._writer.apply, [Batch(place, position, (), until)])

    async def _check(self) -> None:
        """Raises InconsistentError where a topic was replaced, or has more Kafka partitions: what
        starts anew reads these too."""
        known = await asyncio.to_thread(self._writer.positions)
        if wrong := await differences(self._topics, known):
            raise InconsistentError(NAME, wrong)
        found = await self._topics.facts(TOPICS, {}, ())
        is_larger = set(_partitions(found)) - set(self.positions)
        if is_larger and (wrong := await self.open()):
            raise InconsistentError(NAME, wrong)


def _partitions(found: LogFacts) -> list[TopicPartition]:
    """All that there are, whatever is declared: a topic may grow."""
    return [
        TopicPartition(topic, number)
        for topic in TOPICS
        for number in range(found.topics[topic].kafka_partitions)
    ]
