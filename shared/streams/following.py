"""Topics followed into a database that keeps the positions itself, in the transactions of its
rows."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Final, NamedTuple, Protocol

import structlog

from shared.catalogue.record import Record, TopicPartition
from shared.process.clock import now_us
from shared.streams.stages.consistency import (
    Inconsistency,
    InconsistentError,
    LogFacts,
    missing,
    read_model_differences,
)
from shared.streams.stages.provenance import LastRead, Provenance, TopicIdentity

_CHECKS_EACH_S: Final = 10.0

log = structlog.get_logger(__name__)


class PartitionPosition(NamedTuple):
    """How far a Kafka partition was applied, from where on, and of which topic; and what failed
    there, in a store that keeps it."""

    topic_id: bytes
    begins_at: int
    position: int
    last_read: LastRead | None
    failures: bytes = b""


class ReadBatch(NamedTuple):
    """Records of a Kafka partition, and the position behind them."""

    records: Sequence[Record]
    next_position: int


class TopicBatch(NamedTuple):
    """Records of a Kafka partition, read from a position on, and the position behind them."""

    partition: TopicPartition
    read_from: int
    records: Sequence[Record]
    next_position: int


class FollowedLog(Protocol):
    """The topics."""

    async def facts(
        self,
        topics: Iterable[str],
        last_read: Mapping[TopicPartition, LastRead],
        partitions: Iterable[TopicPartition],
    ) -> LogFacts:
        """Return what there is now."""
        ...

    async def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions, each from a position on."""
        ...

    async def read(self) -> Mapping[TopicPartition, ReadBatch]:
        """Return what has come; wait a moment where nothing has."""
        ...

    def behind(self) -> int:
        """Return how many offsets were not read yet."""
        ...


class PositionStore(Protocol):
    """A database of rows and of the positions that they were made from."""

    def positions(self) -> Mapping[TopicPartition, PartitionPosition]:
        """Return how far each Kafka partition was applied."""
        ...

    def begin(self, partition: TopicPartition, topic_id: bytes, begins_at: int) -> None:
        """Begin with a Kafka partition of which nothing was applied yet."""
        ...

    def apply(self, batches: Sequence[TopicBatch]) -> int:
        """Apply what was not applied yet, and return how many records these were."""
        ...


async def differences(
    log: FollowedLog,
    known: Mapping[TopicPartition, PartitionPosition],
    advice: str,
    *,
    fills_gaps: bool,
) -> list[Inconsistency]:
    """Return what a store was made from and Kafka does not have. One that fills gaps may have what
    Kafka has removed meanwhile from elsewhere."""
    last_read = {place: each.last_read for place, each in known.items() if each.last_read}
    found = await log.facts({place.topic for place in known}, last_read, known)
    reached = {place: each.position for place, each in known.items()}
    if fills_gaps:
        reached = {place: max(at, found.begins.get(place, 0)) for place, at in reached.items()}
    provenance = Provenance(
        topics={place.topic: TopicIdentity(each.topic_id, 0) for place, each in known.items()},
        positions=reached,
        last_read=last_read,
    )
    wrong = read_model_differences(provenance, found, frozenset())
    return [Inconsistency(what, advice) for what in dict.fromkeys(each.what for each in wrong)]


class TopicFollower:
    """The one that applies topics to a store. `advice` says what to do where the store does not
    follow from Kafka; `on_applied` hears of each batch how many records it had.
    A subclass that fills gaps says so, and fills them in `_reached`."""

    FILLS_GAPS: ClassVar = False

    def __init__(
        self,
        name: str,
        topics: Sequence[str],
        log: FollowedLog,
        store: PositionStore,
        advice: str,
        on_applied: Callable[[int], object],
    ) -> None:
        self._name, self._topics, self._log, self._store = name, topics, log, store
        self._advice, self._on_applied = advice, on_applied
        self.positions: dict[TopicPartition, int] = {}
        self._newest_ms = 0

    async def open(self) -> list[Inconsistency]:
        """Read on where the store is. Return what does not follow from Kafka: then nothing is
        written."""
        found = await self._log.facts(self._topics, {}, ())
        if absent := [missing(topic) for topic in self._topics if topic not in found.topics]:
            return absent
        known = await asyncio.to_thread(self._store.positions)
        if wrong := await self._differences(known):
            return wrong
        kept = await self._log.facts(self._topics, {}, self._partitions(found))
        await self._reach(kept, known)
        await self._log.assign(self.positions)
        return []

    async def run(self, stop: asyncio.Event) -> None:
        """Follow until `stop` is set. Raises InconsistentError where a topic was replaced."""
        checked_s = time.monotonic()
        while not stop.is_set():
            await self.step(await self._log.read())
            if time.monotonic() - checked_s >= _CHECKS_EACH_S:
                await self._check()
                checked_s = time.monotonic()

    async def step(self, found: Mapping[TopicPartition, ReadBatch]) -> None:
        """Apply what was read."""
        batches = [
            TopicBatch(place, self.positions[place], batch.records, batch.next_position)
            for place, batch in found.items()
        ]
        if not batches:
            return
        self._on_applied(await asyncio.to_thread(self._store.apply, batches))
        for batch in batches:
            self.positions[batch.partition] = batch.next_position
        if newest := [batch.records[-1].written_ms for batch in batches if batch.records]:
            self._newest_ms = max(newest)

    def lag_s(self) -> float:
        """Return how old the newest record is that was applied, 0 where none waits."""
        if not self._newest_ms or not self._log.behind():
            return 0.0
        return max(0.0, now_us() / 1e6 - self._newest_ms / 1e3)

    async def _reach(
        self, kept: LogFacts, known: Mapping[TopicPartition, PartitionPosition]
    ) -> None:
        """Find where to read on, and begin with what is new."""
        for place, begins_at in sorted(kept.begins.items()):
            topic_id, at = kept.topics[place.topic].topic_id, known.get(place)
            self.positions[place] = await self._reached(place, topic_id, begins_at, at)

    async def _reached(
        self,
        place: TopicPartition,
        topic_id: bytes,
        begins_at: int,
        known: PartitionPosition | None,
    ) -> int:
        """Return where to read on in a Kafka partition."""
        if known:
            return known.position
        if begins_at:
            log.warning("the beginning is not kept", at=(*place, begins_at))
        await asyncio.to_thread(self._store.begin, place, topic_id, begins_at)
        return begins_at

    async def _check(self) -> None:
        """Raises InconsistentError where a topic was replaced, or has more Kafka partitions: what
        starts anew reads these too."""
        known = await asyncio.to_thread(self._store.positions)
        if wrong := await self._differences(known):
            raise InconsistentError(self._name, wrong)
        found = await self._log.facts(self._topics, {}, ())
        is_larger = set(self._partitions(found)) - set(self.positions)
        if is_larger and (wrong := await self.open()):
            raise InconsistentError(self._name, wrong)

    async def _differences(
        self, known: Mapping[TopicPartition, PartitionPosition]
    ) -> list[Inconsistency]:
        return await differences(self._log, known, self._advice, fills_gaps=self.FILLS_GAPS)

    def _partitions(self, found: LogFacts) -> list[TopicPartition]:
        """All that there are, whatever is declared: a topic may grow."""
        return [
            TopicPartition(topic, number)
            for topic in self._topics
            for number in range(found.topics[topic].kafka_partitions)
        ]
