"""Applies records of topics: whose jobs are, what accounts are charged, and the deliveries to make.

All of that and the positions behind it are one transaction: a kill loses nothing, and a copy makes
no other delivery.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import orjson
import structlog
from coplace.v1.accounts_pb2 import AllocationDeclared
from coplace.v1.history_service_pb2 import Account, Run
from coplace.v1.jobs_pb2 import JobFinished, JobRequeued, JobSubmitted
from coplace.v1.pricing_pb2 import ChargeMade
from coplace.v1.webhook_service_pb2 import BudgetReached
from sqlalchemy import Connection, delete, select, update
from sqlalchemy.dialects.sqlite import insert

from coplace_client.errors import RejectedError
from services.webhooks.facts import KINDS, JobEvent, JobOwner, amounts_micro_su, job_event
from services.webhooks.posting import Outbox, PostingLimits
from services.webhooks.tables import (
    ACCOUNTS,
    BUDGETS_REACHED,
    CHARGES,
    EARLY,
    JOBS,
    POSITIONS,
)
from shared.catalogue.codec import Codec
from shared.catalogue.event import Event
from shared.catalogue.payloads.tariffs import allocated_su
from shared.catalogue.record import Record, TopicPartition, type_of
from shared.catalogue.webhook_types import BUDGET_REACHED
from shared.domain.money import micro_units, su_text
from shared.sql.sqlite import SqliteDatabase
from shared.streams.following import PartitionPosition, TopicBatch
from shared.streams.stages.provenance import LastRead

# Values of one question; SQLite takes 32,766.
_AT_ONCE: Final = 5_000
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
                _Applying(connection, outbox, found).apply()
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


class _Applying:
    """Events of one transaction, with the rows that these concern in memory."""

    def __init__(
        self, connection: Connection, outbox: Outbox, events: Sequence[tuple[Event, int]]
    ) -> None:
        self._connection, self._outbox, self._events = connection, outbox, events
        self._written_us = max(written_us for _, written_us in events)
        payloads = [event.payload for event, _ in events]
        self._job_ids = list(
            dict.fromkeys(each.job_id for each in payloads if hasattr(each, "job_id"))
        )
        self._jobs = {row.job_id: row._asdict() for row in _known(connection, JOBS, self._job_ids)}
        self._changed_jobs: set[str] = set()
        self._early = list[tuple[JobEvent, int]]()

    def apply(self) -> None:
        """Apply them."""
        charges = list[ChargeMade]()
        allocations = list[tuple[AllocationDeclared, str]]()
        for event, written_us in self._events:
            match event.payload:
                case JobSubmitted() as job:
                    self._submit(job)
                case ChargeMade() as charge:
                    charges.append(charge)
                case AllocationDeclared() as allocation:
                    allocations.append((allocation, event.id))
                case payload:
                    self._happen(payload, written_us)
        self._write_jobs()
        self._write_early()
        if charges or allocations:
            _UsedBudgets(self._connection, self._outbox, self._written_us).apply(
                charges, allocations
            )

    def _submit(self, job: JobSubmitted) -> None:
        """A later submission is of an attempt; its owner is that of the first."""
        owner = JobOwner.from_submission(job)._asdict()
        known = self._jobs.setdefault(job.job_id, {"job_id": job.job_id, **owner})
        known |= {"heard_at_us": self._outbox.now_us, "has_ended": False}
        self._changed_jobs.add(job.job_id)

    def _happen(self, payload: Any, written_us: int) -> None:
        row = self._jobs.get(payload.job_id)
        if row is not None and isinstance(payload, JobFinished | JobRequeued):
            row |= {"heard_at_us": self._outbox.now_us}
            row |= {"has_ended": isinstance(payload, JobFinished)}
            self._changed_jobs.add(payload.job_id)
        found = job_event(payload)
        if found is not None:
            self._hear(found, written_us)

    def _hear(self, found: JobEvent, written_us: int) -> None:
        known = found.completed(self._owner(found.run.job_id))
        if known is None:
            self._early.append((found, written_us))
            return
        run = known.run
        hearers = self._outbox.hearers.of(
            known.type, user=run.user, account=run.account, written_us=written_us
        )
        self._outbox.post(hearers, known.event_id, known.type, known.at_us, run)

    def _owner(self, job_id: str) -> JobOwner | None:
        row = self._jobs.get(job_id)
        return JobOwner(*(row[name] for name in JobOwner._fields)) if row else None

    def _write_jobs(self) -> None:
        rows = [self._jobs[job_id] for job_id in self._changed_jobs]
        if rows:
            query = insert(JOBS)
            changed = {name: query.excluded[name] for name in ("heard_at_us", "has_ended")}
            query = query.on_conflict_do_update(index_elements=["job_id"], set_=changed)
            self._connection.execute(query, rows)

    def _write_early(self) -> None:
        """Keep what nobody is known to have submitted, and take up what was kept of those that are
        known now: topics are read in any order."""
        waiting, self._early = self._early, []
        for found, written_us in waiting:
            self._hear(found, written_us)
        for row in list(_known(self._connection, EARLY, self._job_ids)):
            if row.job_id in self._jobs:
                run = Run.FromString(row.run)
                self._hear(JobEvent(row.event_id, row.type, row.at_us, run), row.written_at_us)
                self._connection.execute(delete(EARLY).where(EARLY.c.event_id == row.event_id))
        rows = [
            {
                "event_id": found.event_id,
                "job_id": found.run.job_id,
                "type": found.type,
                "at_us": found.at_us,
                "written_at_us": written_us,
                "heard_at_us": self._outbox.now_us,
                "run": found.run.SerializeToString(),
            }
            for found, written_us in self._early
        ]
        if rows:
            self._connection.execute(insert(EARLY).on_conflict_do_nothing(), rows)


class _UsedBudgets:
    """What accounts are charged and may spend, and who hears that a budget is used so far."""

    def __init__(self, connection: Connection, outbox: Outbox, written_us: int) -> None:
        self._connection, self._outbox, self._written_us = connection, outbox, written_us

    def apply(
        self,
        charges: Sequence[ChargeMade],
        allocations: Sequence[tuple[AllocationDeclared, str]],
    ) -> None:
        """Apply charges and allocations."""
        owed = self._owed(charges)
        names = [*owed, *(declared.account for declared, _ in allocations)]
        query = list(dict.fromkeys(names))
        rows = {row.account: row._asdict() for row in _known(self._connection, ACCOUNTS, query)}
        for account, micro_su in owed.items():
            row = rows.setdefault(account, _no_account(account))
            row["charged_micro_su"] = str(int(row["charged_micro_su"]) + micro_su)
        for declared, event_id in allocations:
            row = rows.setdefault(declared.account, _no_account(declared.account))
            _allocate(row, declared, event_id)
        if rows:
            query_ = insert(ACCOUNTS)
            changed = {each.name: query_.excluded[each.name] for each in ACCOUNTS.columns}
            query_ = query_.on_conflict_do_update(index_elements=["account"], set_=changed)
            self._connection.execute(query_, list(rows.values()))
        at_us = max((charge.charged_at_us for charge in charges), default=0)
        for row in rows.values():
            self._hear(row, at_us or self._outbox.now_us)

    def _owed(self, charges: Sequence[ChargeMade]) -> dict[str, int]:
        """Return what the charges change of each account: a revision replaces the one before."""
        job_ids = list(dict.fromkeys(charge.job_id for charge in charges))
        known = {
            (row.job_id, row.attempt): (row.revision, orjson.loads(row.amounts))
            for row in _known(self._connection, CHARGES, job_ids)
        }
        owed, changed = dict[str, int](), set[tuple[str, int]]()
        for charge in charges:
            key = charge.job_id, charge.attempt
            revision, before = known.get(key, (0, {}))
            if charge.revision <= revision:
                continue
            try:
                amounts = amounts_micro_su(charge)
            except RejectedError as error:
                log.warning("left out", charge=key, problem=str(error))
                continue
            for account in {**before, **amounts}:
                change = amounts.get(account, 0) - before.get(account, 0)
                owed[account] = owed.get(account, 0) + change
            known[key] = charge.revision, amounts
            changed.add(key)
        if changed:
            rows = [
                {
                    "job_id": key[0],
                    "attempt": key[1],
                    "revision": known[key][0],
                    "amounts": orjson.dumps(known[key][1]).decode(),
                }
                for key in changed
            ]
            query = insert(CHARGES)
            values = {name: query.excluded[name] for name in ("revision", "amounts")}
            query = query.on_conflict_do_update(index_elements=["job_id", "attempt"], set_=values)
            self._connection.execute(query, rows)
        return owed

    def _hear(self, row: Mapping[str, Any], at_us: int) -> None:
        account, charged = row["account"], int(row["charged_micro_su"])
        if not row["allocation_id"] or charged <= 0:
            return
        allocated = int(row["allocated_micro_su"])
        hearers = self._outbox.hearers.of(
            BUDGET_REACHED, account=account, written_us=self._written_us
        )
        for hearer in hearers:
            percent = hearer.budget_percent
            if charged * 100 < allocated * percent:
                continue
            said = {
                "webhook_id": hearer.webhook_id,
                "account": account,
                "allocation_id": row["allocation_id"],
            }
            query = insert(BUDGETS_REACHED).values(said).on_conflict_do_nothing()
            if self._connection.execute(query).rowcount:
                name = f"{BUDGET_REACHED}/{account}/{row['allocation_id']}/{percent}"
                of = Account(
                    account=account, charged_su=su_text(charged), allocated_su=su_text(allocated)
                )
                data = BudgetReached(account=of, percent=percent)
                self._outbox.post([hearer], name, BUDGET_REACHED, at_us, data)


def _no_account(account: str) -> dict[str, Any]:
    return {
        "account": account,
        "charged_micro_su": "0",
        "allocated_micro_su": "0",
        "allocation_id": "",
        "declared_at_us": 0,
    }


def _allocate(row: dict[str, Any], declared: AllocationDeclared, event_id: str) -> None:
    """The newest declaration counts."""
    stamp = row["declared_at_us"], row["allocation_id"]
    if (declared.declared_at_us, event_id) > stamp:
        row["allocated_micro_su"] = str(micro_units(Decimal(allocated_su(declared))))
        row["allocation_id"], row["declared_at_us"] = event_id, declared.declared_at_us


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


def _known(connection: Connection, table: Any, values: Sequence[str]) -> Iterable[Any]:
    """Yield the rows of a table of jobs or accounts that are of some of them."""
    column = table.c["account" if table is ACCOUNTS else "job_id"]
    for start in range(0, len(values), _AT_ONCE):
        among = column.in_(values[start : start + _AT_ONCE])
        yield from connection.execute(select(table).where(among))


def read_anew(database: SqliteDatabase) -> None:
    """Forget what was read of topics: the next process reads them from the beginning. Webhooks and
    their deliveries stay, so nothing that was delivered is delivered again."""
    with database.transaction() as connection:
        for table in (POSITIONS, JOBS, EARLY, CHARGES, ACCOUNTS):
            connection.execute(delete(table))
