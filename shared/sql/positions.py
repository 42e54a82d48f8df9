"""Rows that say how far topics were applied to a database, which change with what they are of."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Column, Connection, MetaData, Table, select, update

from shared.catalogue.record import Record, TopicPartition
from shared.sql.columns import binary, text, whole
from shared.streams.following import PartitionPosition, TopicBatch
from shared.streams.stages.provenance import LastRead

_NO_SHA256: Final = b""


class LostRowsError(Exception):
    """The database is behind what this process wrote: it was replaced meanwhile."""


def position_table(metadata: MetaData, *others: Column[bytes]) -> Table:
    """Return the table of positions, with further columns."""
    return Table(
        "positions",
        metadata,
        text("topic", primary_key=True),
        whole("kafka_partition", primary_key=True),
        binary("topic_id"),
        whole("begins_at"),
        whole("position"),
        whole("last_offset"),
        binary("last_sha256"),
        *others,
        sqlite_with_rowid=False,
    )


class PositionRows:
    """The positions in a table. A column `failures` is of one that keeps what failed."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def known(
        self, connection: Connection, *, locked: bool = False
    ) -> Mapping[TopicPartition, PartitionPosition]:
        """Return how far each Kafka partition was applied. Locked ones nobody else writes until the
        transaction ends."""
        query = select(self._table)
        rows = connection.execute(query.with_for_update() if locked else query)
        return {
            TopicPartition(row.topic, row.kafka_partition): PartitionPosition(
                row.topic_id,
                row.begins_at,
                row.position,
                LastRead(row.last_offset, row.last_sha256) if row.last_sha256 else None,
                *([row.failures] if "failures" in self._table.c else []),
            )
            for row in rows
        }

    def begin(
        self,
        connection: Connection,
        partition: TopicPartition,
        topic_id: bytes,
        begins_at: int,
        **others: bytes,
    ) -> None:
        """Begin with a Kafka partition of which nothing was applied yet; `others` are values of
        further columns."""
        row = {
            **partition._asdict(),
            "topic_id": topic_id,
            "begins_at": begins_at,
            "position": begins_at,
            "last_offset": -1,
            "last_sha256": _NO_SHA256,
            **others,
        }
        connection.execute(self._table.insert(), row)

    def move(
        self,
        connection: Connection,
        batch: TopicBatch,
        known: PartitionPosition,
        fresh: Sequence[Record],
        **others: bytes,
    ) -> None:
        """Put a position behind a batch, of which some records were not applied before."""
        values: dict[str, Any] = {"position": position_behind(batch, known), **others}
        if fresh:
            last = LastRead.from_record(fresh[-1])
            values |= {"last_offset": last.offset, "last_sha256": last.sha256}
        self.change(connection, batch.partition, values)

    def change(
        self, connection: Connection, partition: TopicPartition, values: Mapping[str, Any]
    ) -> None:
        """Change columns of a Kafka partition's row."""
        column, (topic, number) = self._table.c, partition
        where = column.topic == topic, column.kafka_partition == number
        connection.execute(update(self._table).where(*where).values(values))


def position_behind(batch: TopicBatch, known: PartitionPosition) -> int:
    """Return the position once a batch was applied: never one that lies before what is known."""
    return max(known.position, batch.next_position)


def fresh_records(batch: TopicBatch, known: PartitionPosition) -> Sequence[Record]:
    """Return the records that were not applied yet. Raises LostRowsError."""
    if known.position < batch.read_from:
        problem = f"{batch.partition} was applied to {known.position}"
        raise LostRowsError(f"{problem}, and read from {batch.read_from}")
    return [each for each in batch.records if each.offset >= known.position]
