"""Applies records of topics: whose jobs are, what accounts are charged, and the deliveries to make.

All of that and the positions behind it are one transaction: a kill loses nothing, and a copy makes
no other delivery.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import structlog
from sqlalchemy import delete

from coplace_client.errors import RejectedError
from services.webhooks.applying import AppliedEvents
from services.webhooks.facts import KINDS
from services.webhooks.posting import Outbox, PostingLimits
from services.webhooks.tables import ACCOUNTS, CHARGES, EARLY, JOBS, POSITIONS
from shared.catalogue.codec import Codec
from shared.catalogue.event import Event
from shared.catalogue.record import Record, TopicPartition, type_of
from shared.sql.positions import PositionRows, fresh_records
from shared.sql.sqlite import SqliteDatabase
from shared.streams.following import PartitionPosition, TopicBatch

_ROWS: Final = PositionRows(POSITIONS)

log = structlog.get_logger(__name__)


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
            return _ROWS.known(connection)

    def begin(self, partition: TopicPartition, topic_id: bytes, begins_at: int) -> None:
        """Begin with a Kafka partition of which nothing was applied yet."""
        with self._database.transaction() as connection:
            _ROWS.begin(connection, partition, topic_id, begins_at)

    def apply(self, batches: Sequence[TopicBatch]) -> int:
        """Apply what was not applied yet, and return how many records these were. Raises
        LostRowsError."""
        with self._database.transaction() as connection:
            known, found = _ROWS.known(connection), list[tuple[Event, int]]()
            applied = 0
            for batch in batches:
                position = known[batch.partition]
                fresh = fresh_records(batch, position)
                found += self._decoded(fresh)
                applied += len(fresh)
                _ROWS.move(connection, batch, position, fresh)
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


def read_anew(database: SqliteDatabase) -> None:
    """Forget what was read of topics: the next process reads them from the beginning. Webhooks and
    their deliveries stay, so nothing that was delivered is delivered again, but for what is older
    than rows of delivered ones are kept: that is posted again, with the same id."""
    with database.transaction() as connection:
        for table in (POSITIONS, JOBS, EARLY, CHARGES, ACCOUNTS):
            connection.execute(delete(table))
