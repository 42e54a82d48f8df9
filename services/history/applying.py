"""Applies batches so that no record stops what follows.

A failure is counted in the database and ends the process; one that restarts did not cure is
isolated: records are applied one at a time, and what fails alone is quarantined.
"""

from collections.abc import Callable, Sequence
from typing import Final

import structlog
from kafka.errors import KafkaError
from sqlalchemy.exc import InterfaceError, OperationalError

from services.history.writing import HistoryWriter
from shared.catalogue.record import Record, TopicPartition
from shared.sql.positions import LostRowsError
from shared.streams.following import TopicBatch
from shared.streams.stages.failures import Failures
from shared.streams.stages.quarantine import Fault

# What no record is to blame for, but for values that are larger than PostgreSQL takes.
_NO_RECORDS_FAULT: Final = (LostRowsError, OperationalError, InterfaceError, KafkaError)
_PROGRAM_LIMIT_EXCEEDED: Final = "54"

log = structlog.get_logger(__name__)

OnQuarantined = Callable[[Record, Fault], object]


class BatchApplier:
    """Applies batches by a writer. `on_quarantined` hears of a record before it is passed; `after`
    so many failures at a place it is, 0: never."""

    def __init__(self, writer: HistoryWriter, after: int, on_quarantined: OnQuarantined) -> None:
        self._writer, self._after, self._on_quarantined = writer, after, on_quarantined
        self.positions, self.begin = writer.positions, writer.begin

    def apply(self, batches: Sequence[TopicBatch]) -> int:
        """Apply what was not applied yet, and return how many records these were. Raises what it
        fails at unless that has failed too often."""
        try:
            return self._writer.apply(batches)
        except Exception as error:
            if not _may_be_records_fault(error):
                raise
            # Each Kafka partition is tried by itself.
            return sum(map(self._apply_alone, batches))

    def _apply_alone(self, batch: TopicBatch) -> int:
        try:
            return self._writer.apply([batch])
        except Exception as error:
            if not _may_be_records_fault(error) or not self._recurs(batch, error):
                raise
            self._isolate(batch)
            return len(batch.records)

    def _recurs(self, batch: TopicBatch, error: Exception) -> bool:
        place: TopicPartition = batch.partition
        failures = Failures(self.positions()[place].failures)
        failures.count(error, *place, batch.next_position - 1)
        self._writer.keep_failures(place, failures.kept or b"")
        return failures.recur(self._after)

    def _isolate(self, batch: TopicBatch) -> None:
        position = batch.read_from
        for record in batch.records:
            one = TopicBatch(batch.partition, position, [record], record.offset + 1)
            try:
                self._writer.apply([one])
            except Exception as error:
                if not _may_be_records_fault(error):
                    raise
                fault = Fault.from_error(error)
                self._on_quarantined(record, fault)
                self._writer.pass_over(one)
                log.error("quarantined", at=(*batch.partition, record.offset), why=fault.what)
            position = record.offset + 1
        self._writer.apply([TopicBatch(batch.partition, position, (), batch.next_position)])


def _may_be_records_fault(error: Exception) -> bool:
    if isinstance(error, OperationalError):
        state = getattr(error.orig, "sqlstate", None) or ""
        return str(state).startswith(_PROGRAM_LIMIT_EXCEEDED)
    return not isinstance(error, _NO_RECORDS_FAULT)
