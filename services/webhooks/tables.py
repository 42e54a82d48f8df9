"""The tables. Each is read by its primary key or by an index below it.

Amounts are whole numbers of 0.000001 service unit, times microseconds since the epoch.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Row,
    Table,
    Text,
    select,
)

METADATA: Final = MetaData()
# Values of one question; SQLite takes 32,766.
_AT_ONCE: Final = 5_000


def _text(name: str, *, primary_key: bool = False) -> Column[str]:
    return Column(name, Text, primary_key=primary_key, nullable=False)


def _whole(name: str, *, primary_key: bool = False) -> Column[int]:
    return Column(name, BigInteger, primary_key=primary_key, nullable=False, autoincrement=False)


def _bytes(name: str) -> Column[bytes]:
    return Column(name, LargeBinary, nullable=False)


POSITIONS: Final = Table(
    "positions",
    METADATA,
    _text("topic", primary_key=True),
    _whole("kafka_partition", primary_key=True),
    _bytes("topic_id"),
    _whole("begins_at"),
    _whole("position"),
    _whole("last_offset"),
    _bytes("last_sha256"),
    sqlite_with_rowid=False,
)
# By what the key of the process is known again.
KEY_CHECK: Final = Table("key_check", METADATA, _text("check_value", primary_key=True))
WEBHOOKS: Final = Table(
    "webhooks",
    METADATA,
    _text("webhook_id", primary_key=True),
    _text("url"),
    _text("types"),  # JSON
    _text("user"),
    _text("account"),
    Column("region", Boolean, nullable=False),
    _text("owner"),
    _text("description"),
    _whole("budget_percent"),
    Column("state", Integer, nullable=False),
    _text("reason"),
    _whole("created_at_us"),
    _whole("delivered_at_us"),
    _whole("failing_since_us"),
    _whole("last_status"),
    _text("last_error"),
    _whole("secret_number"),
    _whole("old_secret_until_us"),
    sqlite_with_rowid=False,
)
Index("webhooks_by_owner", WEBHOOKS.c.owner)
# Of each webhook the events that it hears of.
DELIVERIES: Final = Table(
    "deliveries",
    METADATA,
    _text("delivery_id", primary_key=True),
    _text("webhook_id"),
    _text("type"),
    _whole("at_us"),
    _bytes("body"),
    Column("state", Integer, nullable=False),
    _whole("attempts"),
    # Of one that waits: when it is due. Else since when it is what it is.
    _whole("due_at_us"),
    _whole("last_status"),
    _text("last_error"),
    _whole("created_at_us"),
)
Index(
    "deliveries_by_webhook",
    *(DELIVERIES.c[name] for name in ("webhook_id", "state", "due_at_us", "delivery_id")),
)
Index("deliveries_by_state", DELIVERIES.c.state, DELIVERIES.c.due_at_us)
# Whose jobs are, as they were submitted first.
JOBS: Final = Table(
    "jobs",
    METADATA,
    _text("job_id", primary_key=True),
    _text("user"),
    _text("account"),
    _text("app_id"),
    _whole("nodes"),
    _whole("submitted_at_us"),
    _whole("heard_at_us"),
    Column("has_ended", Boolean, nullable=False),
    sqlite_with_rowid=False,
)
Index("jobs_by_age", JOBS.c.has_ended, JOBS.c.heard_at_us)
# What happened to jobs whose submission was not read yet.
EARLY: Final = Table(
    "early",
    METADATA,
    _text("event_id", primary_key=True),
    _text("job_id"),
    _text("type"),
    _whole("at_us"),
    _whole("written_at_us"),
    _whole("heard_at_us"),
    _bytes("run"),
)
Index("early_by_job", EARLY.c.job_id)
Index("early_by_age", EARLY.c.heard_at_us)
# The last revision of the charge of each run, and what it puts on accounts.
CHARGES: Final = Table(
    "charges",
    METADATA,
    _text("job_id", primary_key=True),
    _whole("attempt", primary_key=True),
    _whole("revision"),
    _text("amounts"),  # JSON
    sqlite_with_rowid=False,
)
# Sums may exceed 64 bits.
ACCOUNTS: Final = Table(
    "accounts",
    METADATA,
    _text("account", primary_key=True),
    _text("charged_micro_su"),
    _text("allocated_micro_su"),
    _text("allocation_id"),
    _whole("declared_at_us"),
    sqlite_with_rowid=False,
)
# Of which allocations it was said that they are used so far.
BUDGETS_REACHED: Final = Table(
    "budgets_reached",
    METADATA,
    _text("webhook_id", primary_key=True),
    _text("account", primary_key=True),
    _text("allocation_id", primary_key=True),
    sqlite_with_rowid=False,
)


def known_rows(connection: Connection, table: Table, values: Sequence[str]) -> Iterator[Row[Any]]:
    """Yield the rows of a table whose primary key begins with one of some values, or, of those that
    are early, whose jobs are among them."""
    column = table.c.job_id if table is EARLY else next(iter(table.primary_key))
    for start in range(0, len(values), _AT_ONCE):
        among = column.in_(values[start : start + _AT_ONCE])
        yield from connection.execute(select(table).where(among))
