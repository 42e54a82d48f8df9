"""Follows topics into the database: from where it is, over what only the archive has, and on."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final, Protocol

import structlog

from services.history.applying import BatchApplier
from services.history.facts import TOPICS
from shared.archive.errors import ArchiveError
from shared.catalogue.record import Record, TopicPartition
from shared.streams.following import FollowedLog, PartitionPosition, TopicBatch, TopicFollower
from shared.streams.stages.consistency import LogFacts

NAME: Final = "history"
HOW_TO: Final = "docs/how-to/history.md, 'When it refuses'"
ADVICE: Final = f"build the database anew: `coplace history rebuild` ({HOW_TO})"
_AT_ONCE: Final = 5_000

log = structlog.get_logger(__name__)


class Archive(Protocol):
    """What topics have not any more."""

    def begins_at(self, partition: TopicPartition, topic_id: bytes) -> int | None:
        """Return the first offset that is kept of a Kafka partition, None where nothing is. Raises
        ArchiveError where it is of another topic."""
        ...

    def records(self, partition: TopicPartition, from_offset: int, until: int) -> Iterator[Record]:
        """Yield the records from an offset up to, not including, another one."""
        ...


class Follower(TopicFollower):
    """The one that writes to a database, what only the archive has first: opening it raises
    ArchiveError. `on_applied` hears of each batch how many records it had."""

    FILLS_GAPS = True

    def __init__(
        self,
        topics: FollowedLog,
        applier: BatchApplier,
        archive: Archive | None,
        on_applied: Callable[[int], object],
    ) -> None:
        super().__init__(NAME, TOPICS, topics, applier, ADVICE, on_applied)
        self._archive = archive

    async def _reach(
        self, kept: LogFacts, known: Mapping[TopicPartition, PartitionPosition]
    ) -> None:
        await super()._reach(kept, known)
        self._warn_of_unarchived(kept)

    async def _reached(
        self,
        place: TopicPartition,
        topic_id: bytes,
        begins_at: int,
        known: PartitionPosition | None,
    ) -> int:
        """Begin where Kafka does, or the archive before, and fill what Kafka has removed."""
        start = begins_at
        if self._archive and not known:
            archived = self._archive.begins_at(place, topic_id)
            start = begins_at if archived is None else min(archived, begins_at)
        position = await super()._reached(place, topic_id, start, known)
        if position < begins_at:
            await self._fill(place, topic_id, position, begins_at)
        return max(position, begins_at)

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
            filled = [TopicBatch(place, position, batch, following)]
            self._on_applied(await asyncio.to_thread(self._store.apply, filled))
            position = following
        await asyncio.to_thread(self._store.apply, [TopicBatch(place, position, (), until)])
