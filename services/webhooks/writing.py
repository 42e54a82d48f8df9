"""Applies records of topics: whose jobs are, what accounts are charged, and the deliveries to make.

All of that and the positions behind it are one transaction: a kill loses nothing, and a copy makes
no other delivery.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import structlog
from sqlalchemy import Connection, delete, select, update

from coplace_client.errors import RejectedError
from services.webhooks.applying import AppliedEvents
from services.webhooks.facts import KINDS
from services.webhooks.posting import Outbox, PostingLimits
from services.webhooks.tables import ACCOUNTS, CHARGES, EARLY, JOBS, POSITIONS
from shared.catalogue.codec import Codec
from shared.catalogue.event import Event
from shared.catalogue.record import Record, TopicPartition, type_of
from shared.sql.sqlite import SqliteDatabase
from shared.streams.following import PartitionPosition, TopicBatch
from shared.streams.stages.provenance import LastRead

_NO_SHA256: Final = b""

log = structlog.get_logger(__name__)


class ReplacedDatabaseError(Exception):
    """The database is behind what this process wrote: it was replaced meanwhile."""


class TopicWriter:
    """Applies records to the database."""

    def __init__(
        self,
        database: SqliteDatabase,
        codec: Codec,
        limits: PostingLimits,
        now_us: Callable[[], int],
    ) -> None:
        self._database, self._codec = database, codec
        self._limits, self._now_us = limits, now_us

    def positions(self) -> Mapping[TopicPartition, PartitionPosition]:
        """Return how far each Kafka partition was applied."""
        with self._database.transaction() as connection:
            return _positions(connection)

    def begin(self, partition: TopicPartition, topic_id: bytes, begins_at: int) -> None:
        """Begin with a Kafka partition of which nothing was applied yet."""
        row = {
            **partition._asdict(),
            "topic_id": topic_id,
            "begins_at": begins_at,
            "position": begins_at,
            "last_offset": -1,
            "last_sha256": _NO_SHA256,
        }
        with self._database.transaction() as connection:
            connection.execute(POSITIONS.insert(), row)

    def apply(self, batches: Sequence[TopicBatch]) -> int:
        """Apply what was not applied yet, and return how many records these were. Raises
        ReplacedDatabaseError."""
        with self._database.transaction() as connection:
            known, found = _positions(connection), list[tuple[Event, int]]()
            applied = 0
            for batch in batches:
                position = known[batch.partition]
                if position.position < batch.read_from:
                    problem = f"{batch.partition} was applied to {position.position}"
                    raise ReplacedDatabaseError(f"{problem}, and read from {batch.read_from}")
                fresh = [each for each in batch.records if each.offset >= position.position]
                found += self._decoded(fresh)
                applied += len(fresh)
                _move(connection, batch, position, fresh)
            if found:
                outbox = Outbox(connection, self._limits, self._now_us)
                AppliedEvents(connection, outbox, found).apply()
                outbox.write()
        return applied

    def _decoded(self, records: Iterable[Record]) -> Iterable[tuple[Event, int]]:
        """Yield events and when they were written. What cannot be used is a dead letter to who acts
        on it, and nothing to us."""
        for record in records:
            if record.value is None or type_of(record) not in KINDS:
                continue
            try:
                yield self._codec.decode(record, of_any_count=True), record.written_ms * 1_000
            except RejectedError as error:
                log.warning("left out", at=(*record.partition, record.offset), problem=str(error))


def _positions(connection: Connection) -> Mapping[TopicPartition, PartitionPosition]:
    return {
        TopicPartition(row.topic, row.kafka_partition): PartitionPosition(
            row.topic_id,
            row.begins_at,
            row.position,
            LastRead(row.last_offset, row.last_sha256) if row.last_sha256 else None,
        )
        for row in connection.execute(select(POSITIONS))
    }


def _move(
    connection: Connection, batch: TopicBatch, known: PartitionPosition, fresh: Sequence[Record]
) -> None:
    values: dict[str, Any] = {"position": max(known.position, batch.next_position)}
    if fresh:
        last = LastRead.from_record(fresh[-1])
        values |= {"last_offset": last.offset, "last_sha256": last.sha256}
    place = batch.partition
    where = POSITIONS.c.topic == place.topic, POSITIONS.c.kafka_partition == place.kafka_partition
    connection.execute(update(POSITIONS).where(*where).values(values))


def read_anew(database: SqliteDatabase) -> None:
    """Forget what was read of topics: the next process reads them from the beginning. Webhooks and
    their deliveries stay, so nothing that was delivered is delivered again, but for what is older
    than rows of delivered ones are kept: that is posted again, with the same id."""
    with database.transaction() as connection:
        for table in (POSITIONS, JOBS, EARLY, CHARGES, ACCOUNTS):
            connection.execute(delete(table))
