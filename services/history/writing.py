"""Writes facts and the positions behind them, in one transaction: copies, kills and restarts apply
nothing twice."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import structlog
from coplace.v1.accounts_pb2 import AccountStanding
from coplace.v1.placement_pb2 import PlacementDecided
from sqlalchemy import Connection, Engine, Row, Table, and_, bindparam, literal, select, tuple_

from coplace_client.errors import RejectedError
from services.history.auditing import AuditRow, changed
from services.history.changes import ChangeRow, OutcomeRow, followed
from services.history.charges import ChargeRow, PostingRow, postings
from services.history.facts import KINDS, Facts, newer_outcome
from services.history.model import RunKey, RunRow, fold_runs, tasks_of
from services.history.story import StoryRow
from services.history.tables import (
    ACCOUNTS,
    AUDIT,
    CHANGES,
    CHARGES,
    CLUSTERS,
    OUTCOMES,
    POSITIONS,
    POSTINGS,
    RUNS,
    STORIES,
)
from shared.catalogue.codec import Codec
from shared.catalogue.record import Record, TopicPartition, type_of
from shared.sql.positions import PositionRows, fresh_records, position_behind
from shared.streams.following import PartitionPosition, TopicBatch
from shared.streams.stages.failures import Failures

# Values of one question; SQLite takes 32,766.
_AT_ONCE: Final = 5_000
_NOTHING: Final = b""
_ROWS: Final = PositionRows(POSITIONS)
_PLACE: Final = ("sequence", "at_us", "event_id", "number")

log = structlog.get_logger(__name__)


class Rejected(NamedTuple):
    """A record that cannot be used, and why."""

    record: Record
    reason: str


OnRejected = Callable[[Sequence[Rejected]], object]


class HistoryWriter:
    """Applies records; one at a time may write to a database. `on_rejected` hears of records that
    cannot be used before they are passed."""

    def __init__(
        self, engine: Engine, codec: Codec, on_rejected: OnRejected = lambda _rejected: None
    ) -> None:
        self._engine = engine
        self._codec = codec
        self._on_rejected = on_rejected

    def positions(self) -> Mapping[TopicPartition, PartitionPosition]:
        """Return how far each Kafka partition was applied."""
        with self._engine.begin() as connection:
            return _ROWS.known(connection)

    def begin(self, partition: TopicPartition, topic_id: bytes, begins_at: int) -> None:
        """Begin with a Kafka partition of which nothing was applied yet."""
        with self._engine.begin() as connection:
            _ROWS.begin(connection, partition, topic_id, begins_at, failures=_NOTHING)

    def apply(self, batches: Sequence[TopicBatch]) -> int:
        """Apply what was not applied yet, and return how many records these were. Raises
        LostRowsError."""
        with self._engine.begin() as connection:
            known, facts, applied = _ROWS.known(connection, locked=True), Facts(), 0
            for batch in batches:
                fresh = fresh_records(batch, known[batch.partition])
                self._add(facts, fresh)
                applied += len(fresh)
                _move(connection, batch, known[batch.partition], fresh)
            _write(connection, facts)
        return applied

    def pass_over(self, batch: TopicBatch) -> None:
        """Apply nothing of a batch and go on behind it. Raises LostRowsError."""
        with self._engine.begin() as connection:
            known = _ROWS.known(connection, locked=True)[batch.partition]
            _move(connection, batch, known, fresh_records(batch, known))

    def keep_failures(self, partition: TopicPartition, failures: bytes) -> None:
        """Keep what failed in a Kafka partition for the next process."""
        with self._engine.begin() as connection:
            _ROWS.change(connection, partition, {"failures": failures})

    def _add(self, facts: Facts, records: Iterable[Record]) -> None:
        rejected = []
        for record in records:
            if record.value is None or type_of(record) not in KINDS:
                continue
            try:
                facts.add(self._codec.decode(record, of_any_count=True), record)
            except RejectedError as error:
                rejected.append(Rejected(record, str(error)))
                log.warning("left out", at=(*record.partition, record.offset), problem=str(error))
        if rejected:
            self._on_rejected(rejected)


def _move(
    connection: Connection, batch: TopicBatch, known: PartitionPosition, fresh: Sequence[Record]
) -> None:
    """Go behind a batch, with what failed in front of it forgotten."""
    position, failures = position_behind(batch, known), Failures(known.failures)
    failures.forget(lambda seen: seen.number < position)
    _ROWS.move(connection, batch, known, fresh, failures=failures.kept or _NOTHING)


def _write(connection: Connection, facts: Facts) -> None:
    if facts.runs:
        _write_runs(connection, facts)
    if facts.charges:
        _write_charges(connection, facts.charges)
    if facts.standings:
        _write_standings(connection, facts.standings)
    if facts.sites:
        rows = [{"cluster": cluster, "site": site} for cluster, site in facts.sites.items()]
        _upsert(connection, CLUSTERS, rows, "cluster")
    if facts.changes or facts.outcomes:
        _write_changes(connection, facts.changes, facts.outcomes)
    if facts.audited:
        found = _known(connection, AUDIT, "id", list(facts.audited))
        fresh, others = changed({row.id: AuditRow._make(row) for row in found}, facts.audited)
        _insert(connection, AUDIT, [row._asdict() for row in fresh])
        _update(connection, AUDIT, [row._asdict() for row in others], ("id",))
    if facts.stories:
        _write_stories(connection, facts.stories)


def _write_changes(
    connection: Connection,
    told: Mapping[str, Sequence[ChangeRow]],
    outcomes: Mapping[str, OutcomeRow],
) -> None:
    """Write what is new, and follow each subject from the first place on where something is."""
    fresh_outcomes = _write_outcomes(connection, outcomes)
    known = {row.event_id for row in _changes(connection, list(told))}
    fresh = [row for id_, rows in told.items() if id_ not in known for row in rows]
    _insert(connection, CHANGES, [row._asdict() for row in fresh])
    first: dict[str, ChangeRow] = {}
    for row in [*fresh, *_changes(connection, fresh_outcomes)]:
        other = first.setdefault(row.subject, row)
        first[row.subject] = min(other, row, key=lambda one: one.order)
    for row in first.values():
        _follow(connection, row)


def _follow(connection: Connection, first: ChangeRow) -> None:
    of_subject = select(CHANGES).where(CHANGES.c.subject == first.subject)
    columns = [CHANGES.c[name] for name in _PLACE]
    place = tuple_(
        *(literal(each, column.type) for each, column in zip(first.order, columns, strict=True))
    )
    newest = of_subject.order_by(*(each.desc() for each in columns)).limit(1)
    before = connection.execute(newest.where(tuple_(*columns) < place)).first()
    later = connection.execute(of_subject.where(tuple_(*columns) >= place).order_by(*columns))
    rows = [ChangeRow._make(row) for row in later]
    known = _known(connection, OUTCOMES, "id", [row.event_id for row in rows])
    outcomes = {row.id: OutcomeRow._make(row) for row in known}
    found = followed(before.after if before else "", rows, outcomes)
    others = [row._asdict() for row, old in zip(found, rows, strict=True) if row != old]
    _update(connection, CHANGES, others, ("event_id", "number"))


def _changes(connection: Connection, event_ids: Sequence[str]) -> list[ChangeRow]:
    return [ChangeRow._make(row) for row in _known(connection, CHANGES, "event_id", event_ids)]


def _write_outcomes(connection: Connection, told: Mapping[str, OutcomeRow]) -> list[str]:
    """Return the ids of commands of which something else is known than before."""
    found = _known(connection, OUTCOMES, "id", list(told))
    known = {row.id: OutcomeRow._make(row) for row in found}
    rows = {id_: newer_outcome(known.get(id_), outcome) for id_, outcome in told.items()}
    others = [row for id_, row in rows.items() if row != known.get(id_)]
    _upsert(connection, OUTCOMES, [row._asdict() for row in others], "id", known)
    return [row.id for row in others]


def _write_stories(connection: Connection, told: Mapping[str, Mapping[str, StoryRow]]) -> None:
    found = _known(connection, STORIES, "job_id", list(told))
    known = {(row.job_id, row.event_id) for row in found}
    rows = (row for lines in told.values() for row in lines.values())
    fresh = [row._asdict() for row in rows if (row.job_id, row.event_id) not in known]
    _insert(connection, STORIES, fresh)


def _write_runs(connection: Connection, facts: Facts) -> None:
    every = [fact for facts_of_job in facts.runs.values() for fact in facts_of_job]
    arrays = {fact.array_job_id for fact in every if isinstance(fact, PlacementDecided)} - {""}
    found = list(_known(connection, RUNS, "job_id", sorted({*facts.runs, *arrays})))
    for array_id in tasks_of(every):
        # Its tasks, which may have been decided before it was read.
        is_behind, is_before = RUNS.c.job_id > f"{array_id}_", RUNS.c.job_id < f"{array_id}_:"
        found += connection.execute(select(RUNS).where(is_behind, is_before))
    known: dict[RunKey, RunRow] = {row.key: row for row in map(RunRow._make, found)}
    rows = fold_runs(known.values(), every)
    _insert(connection, RUNS, [row._asdict() for key, row in rows.items() if key not in known])
    changed = [row._asdict() for key, row in rows.items() if key in known and row != known[key]]
    _update(connection, RUNS, changed, ("job_id", "attempt"))


def _write_charges(connection: Connection, told: Mapping[str, Sequence[ChargeRow]]) -> None:
    """Post what is new; where a revision comes late, also what those around it post anew."""
    known: dict[RunKey, dict[int, ChargeRow]] = defaultdict(dict)
    for found in _known(connection, CHARGES, "job_id", list(told)):
        row = ChargeRow(*tuple(found))
        known[row.job_id, row.attempt][row.revision] = row
    fresh: dict[RunKey, dict[int, ChargeRow]] = defaultdict(dict)
    for charge in (charge for charges in told.values() for charge in charges):
        key = charge.job_id, charge.attempt
        if charge.revision not in known[key]:
            fresh[key].setdefault(charge.revision, charge)
    rows = [row for revisions in fresh.values() for row in revisions.values()]
    _insert(connection, CHARGES, [_charge_values(row) for row in rows])
    removed: list[PostingRow] = []
    added: list[PostingRow] = []
    for key, revisions in fresh.items():
        old = set(postings(known[key].values()))
        new = set(postings((known[key] | revisions).values()))
        removed += old - new
        added += new - old
    _post(connection, removed, added)


def _post(connection: Connection, removed: list[PostingRow], added: list[PostingRow]) -> None:
    if removed:
        keys = [column.name for column in POSTINGS.primary_key]
        where = and_(*(POSTINGS.c[name] == bindparam(f"key_{name}") for name in keys))
        values = [{f"key_{name}": getattr(row, name) for name in keys} for row in removed]
        connection.execute(POSTINGS.delete().where(where), values)
    _insert(connection, POSTINGS, [row._asdict() for row in added])
    owed: Counter[str] = Counter()
    for row in added:
        owed[row.account] += row.amount_micro_su
    for row in removed:
        owed[row.account] -= row.amount_micro_su
    _add_to_accounts(connection, owed)


def _charge_values(row: ChargeRow) -> dict[str, Any]:
    values = row._asdict()
    del values["finished"]
    return values


def _add_to_accounts(connection: Connection, owed: Mapping[str, int]) -> None:
    known = {row.account: row for row in _known(connection, ACCOUNTS, "account", list(owed))}
    rows = [
        _account(account, known.get(account))
        | {"charged_micro_su": str(_charged(known.get(account)) + micro_su)}
        for account, micro_su in owed.items()
    ]
    _upsert(connection, ACCOUNTS, rows, "account", known)


def _charged(row: Row[Any] | None) -> int:
    return int(row.charged_micro_su) if row is not None else 0


def _write_standings(connection: Connection, told: Mapping[str, AccountStanding]) -> None:
    known = {row.account: row for row in _known(connection, ACCOUNTS, "account", list(told))}
    rows = [
        _account(account, known.get(account))
        | {
            "number": standing.number,
            "standing": standing.standing,
            "allocated_su": standing.allocated_su,
            "reserved_su": standing.reserved_su,
            "changed_at_us": standing.changed_at_us,
        }
        for account, standing in told.items()
        if account not in known or standing.number > known[account].number
    ]
    _upsert(connection, ACCOUNTS, rows, "account", known)


def _account(account: str, known: Row[Any] | None) -> dict[str, Any]:
    if known is not None:
        return dict(known._mapping)
    return {
        "account": account,
        "charged_micro_su": "0",
        "number": 0,
        "standing": 0,
        "allocated_su": "",
        "reserved_su": "",
        "changed_at_us": 0,
    }


def _known(
    connection: Connection, table: Table, column: str, values: Sequence[str]
) -> Iterator[Row[Any]]:
    """Yield the rows that have one of some values."""
    for start in range(0, len(values), _AT_ONCE):
        among = table.c[column].in_(values[start : start + _AT_ONCE])
        yield from connection.execute(select(table).where(among))


def _insert(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        connection.execute(table.insert(), rows)


def _update(
    connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]], key: Sequence[str]
) -> None:
    if not rows:
        return
    where = and_(*(table.c[name] == bindparam(f"key_{name}") for name in key))
    values: dict[str, Any] = {name: bindparam(name) for name in rows[0] if name not in key}
    told = [
        {(f"key_{name}" if name in key else name): value for name, value in row.items()}
        for row in rows
    ]
    connection.execute(table.update().where(where).values(values), told)


def _upsert(
    connection: Connection,
    table: Table,
    rows: Sequence[Mapping[str, Any]],
    key: str,
    known: Iterable[str] | None = None,
) -> None:
    if known is None:
        found = _known(connection, table, key, [row[key] for row in rows])
        known = {getattr(row, key) for row in found}
    there = set(known)
    _insert(connection, table, [row for row in rows if row[key] not in there])
    _update(connection, table, [row for row in rows if row[key] in there], (key,))
