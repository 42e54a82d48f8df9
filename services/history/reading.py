"""What is asked of the tables. Filters compare whole texts: no sign in them means anything else."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from coplace.v1.history_service_pb2 import (
    ListAuditRequest,
    ListChargesRequest,
    ListRunsRequest,
    ShowStatementRequest,
)
from sqlalchemy import (
    LABEL_STYLE_TABLENAME_PLUS_COL,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Row,
    Table,
    Tuple,
    and_,
    func,
    literal,
    select,
    tuple_,
)

from services.history.changes import entry_id
from services.history.model import RunRow
from services.history.story import StoryRow
from services.history.tables import (
    ACCOUNTS,
    AUDIT,
    CHANGES,
    CHARGES,
    CLUSTERS,
    POSTINGS,
    RUNS,
    STORIES,
)
from shared.process.pages import PageKey

# Sums are taken in two parts, each of which fits into 64 bits for as many rows as there can be.
_PART: Final = 10**9
_STATEMENT_KEY: Final = ("booked_at_us", "job_id", "attempt", "by_revision", "number")


class Sums(NamedTuple):
    """Sums over postings, 0.000001 service unit, and how many they are."""

    amount_micro_su: int
    in_full_micro_su: int
    lines: int


class StatementRows(NamedTuple):
    """What a statement is made of: what was posted before the period, all within, and a page of
    that: each posting with its charge."""

    before: Sums
    within: Sums
    lines: Sequence[Row[Any]]


class HistoryReader:
    """Answers from the tables; each answer is from one state of them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def runs(self, asked: ListRunsRequest, behind: PageKey | None, most: int) -> list[RunRow]:
        """Return a page of runs, the newest submission first."""
        where = _equal(RUNS, user=asked.user, account=asked.account, cluster=asked.cluster)
        where += _within(RUNS.c.submitted_at_us, asked.from_us, asked.until_us)
        if asked.states:
            where.append(RUNS.c.state.in_(sorted(set(asked.states))))
        key = "submitted_at_us", "job_id", "attempt"
        return [RunRow._make(row) for row in self._newest(RUNS, where, key, behind, most)]

    def job(self, job_id: str) -> tuple[list[RunRow], dict[str, str]]:
        """Return the runs of a job, and the sites of their clusters."""
        query = select(RUNS).where(RUNS.c.job_id == job_id).order_by(RUNS.c.attempt)
        with self._engine.begin() as connection:
            rows = [RunRow._make(row) for row in connection.execute(query)]
            return rows, _sites(connection, [row.cluster for row in rows])

    def charges_of(self, job_id: str) -> Sequence[Row[Any]]:
        """Return the charges of a job."""
        own = select(CHARGES).where(CHARGES.c.job_id == job_id)
        query = own.order_by(CHARGES.c.attempt, CHARGES.c.revision)
        with self._engine.begin() as connection:
            return connection.execute(query).all()

    def stories_of(self, job_id: str) -> list[StoryRow]:
        """Return what happened to a job between its submission and its end."""
        query = select(STORIES).where(STORIES.c.job_id == job_id)
        with self._engine.begin() as connection:
            return [StoryRow._make(row) for row in connection.execute(query)]

    def site(self, cluster: str) -> str:
        """Return the site of a cluster, empty where it is not declared."""
        with self._engine.begin() as connection:
            return _sites(connection, [cluster]).get(cluster, "")

    def charges(
        self, asked: ListChargesRequest, behind: PageKey | None, most: int
    ) -> Sequence[Row[Any]]:
        """Return a page of charges, those booked last first."""
        where = _equal(CHARGES, user=asked.user, account=asked.account, cluster=asked.cluster)
        where += _within(CHARGES.c.booked_at_us, asked.from_us, asked.until_us)
        key = "booked_at_us", "job_id", "attempt", "revision"
        return self._newest(CHARGES, where, key, behind, most)

    def accounts(self, behind: PageKey | None, most: int) -> Sequence[Row[Any]]:
        """Return a page of accounts, by name."""
        query = select(ACCOUNTS).order_by(ACCOUNTS.c.account).limit(most)
        if behind is not None:
            query = query.where(ACCOUNTS.c.account > behind[0])
        with self._engine.begin() as connection:
            return connection.execute(query).all()

    def account(self, account: str) -> Row[Any] | None:
        """Return an account, None where nothing is known of it."""
        query = select(ACCOUNTS).where(ACCOUNTS.c.account == account)
        with self._engine.begin() as connection:
            return connection.execute(query).first()

    def statement(
        self, asked: ShowStatementRequest, behind: PageKey | None, most: int
    ) -> StatementRows:
        """Return what a statement is made of."""
        own = _equal(POSTINGS, account=asked.account, user=asked.user)
        booked = POSTINGS.c.booked_at_us
        within = [*own, *_within(booked, asked.from_us, asked.until_us)]
        key = [POSTINGS.c[name] for name in _STATEMENT_KEY]
        page = select(POSTINGS, CHARGES).join_from(
            POSTINGS,
            CHARGES,
            and_(*(POSTINGS.c[name] == CHARGES.c[name] for name in ("job_id", "attempt")))
            & (POSTINGS.c.revision == CHARGES.c.revision),
        )
        page = page.where(*within).order_by(*key).limit(most)
        if behind is not None:
            page = page.where(tuple_(*key) > _row(key, behind))
        page = page.set_label_style(LABEL_STYLE_TABLENAME_PLUS_COL)
        with self._engine.begin() as connection:
            before = (
                _sums(connection, [*own, booked < asked.from_us])
                if asked.from_us
                else Sums(0, 0, 0)
            )
            return StatementRows(before, _sums(connection, within), connection.execute(page).all())

    def audit(
        self, asked: ListAuditRequest, behind: PageKey | None, most: int
    ) -> Sequence[Row[Any]]:
        """Return a page of the audit, the newest first."""
        where = _equal(AUDIT, who=entry_id(asked.who), action=asked.action)
        where += _within(AUDIT.c.at_us, asked.from_us, asked.until_us)
        if asked.refused:
            where.append(AUDIT.c.refused.is_(True))
        if asked.subject:
            of_subject = select(CHANGES.c.event_id).where(CHANGES.c.subject == asked.subject)
            where.append(AUDIT.c.id.in_(of_subject))
        return self._newest(AUDIT, where, ("at_us", "id"), behind, most)

    def changes(self, entries: Sequence[str]) -> Mapping[str, list[Row[Any]]]:
        """Return what entries of the audit set, by their ids."""
        query = select(CHANGES).where(CHANGES.c.event_id.in_(entries))
        found: dict[str, list[Row[Any]]] = defaultdict(list)
        with self._engine.begin() as connection:
            for row in connection.execute(query.order_by(CHANGES.c.event_id, CHANGES.c.number)):
                found[row.event_id].append(row)
        return found

    def _newest(
        self,
        table: Table,
        where: Sequence[ColumnElement[bool]],
        key: Sequence[str],
        behind: PageKey | None,
        most: int,
    ) -> Sequence[Row[Any]]:
        columns = [table.c[name] for name in key]
        query = select(table).where(*where).order_by(*(each.desc() for each in columns))
        if behind is not None:
            query = query.where(tuple_(*columns) < _row(columns, behind))
        with self._engine.begin() as connection:
            return connection.execute(query.limit(most)).all()


def _row(columns: Sequence[Column[Any]], values: PageKey) -> Tuple:
    """Values of the columns' types: PostgreSQL compares no others."""
    return tuple_(*(literal(value, of.type) for of, value in zip(columns, values, strict=True)))


def _equal(table: Table, **wanted: str) -> list[ColumnElement[bool]]:
    return [table.c[name] == value for name, value in wanted.items() if value]


def _within(column: Any, from_us: int, until_us: int) -> list[ColumnElement[bool]]:
    found = [column >= from_us] if from_us else []
    return [*found, column < until_us] if until_us else found


def _sums(connection: Connection, where: Sequence[ColumnElement[bool]]) -> Sums:
    columns = POSTINGS.c.amount_micro_su, POSTINGS.c.in_full_micro_su
    parts = [func.sum(part) for column in columns for part in (column // _PART, column % _PART)]
    row = connection.execute(select(func.count(), *parts).where(*where)).one()
    lines, *found = (int(each or 0) for each in row)
    return Sums(found[0] * _PART + found[1], found[2] * _PART + found[3], lines)


def _sites(connection: Connection, clusters: Sequence[str]) -> dict[str, str]:
    query = select(CLUSTERS).where(CLUSTERS.c.cluster.in_(set(clusters)))
    return {row.cluster: row.site for row in connection.execute(query)}
