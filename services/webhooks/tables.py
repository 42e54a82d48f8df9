"""The tables. Each is read by its primary key or by an index below it.

Amounts are whole numbers of 0.000001 service unit, times microseconds since the epoch.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import (
    Connection,
    Index,
    MetaData,
    Row,
    Table,
    select,
)

from shared.sql.columns import binary, flag, small, text, whole
from shared.sql.positions import position_table

METADATA: Final = MetaData()
# Values of one question; SQLite takes 32,766.
_AT_ONCE: Final = 5_000
POSITIONS: Final = position_table(METADATA)
# By what the key of the process is known again.
KEY_CHECK: Final = Table("key_check", METADATA, text("check_value", primary_key=True))
WEBHOOKS: Final = Table(
    "webhooks",
    METADATA,
    text("webhook_id", primary_key=True),
    text("url"),
    text("types"),  # JSON
    text("user"),
    text("account"),
    flag("region"),
    text("owner"),
    text("description"),
    whole("budget_percent"),
    small("state"),
    text("reason"),
    whole("created_at_us"),
    whole("delivered_at_us"),
    whole("failing_since_us"),
    whole("last_status"),
    text("last_error"),
    whole("secret_number"),
    whole("old_secret_until_us"),
    sqlite_with_rowid=False,
)
Index("webhooks_by_owner", WEBHOOKS.c.owner)
# Of each webhook the events that it hears of.
DELIVERIES: Final = Table(
    "deliveries",
    METADATA,
    text("delivery_id", primary_key=True),
    text("webhook_id"),
    text("type"),
    whole("at_us"),
    binary("body"),
    small("state"),
    whole("attempts"),
    # Of one that waits: when it is due. Else since when it is what it is.
    whole("due_at_us"),
    whole("last_status"),
    text("last_error"),
    whole("created_at_us"),
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
    text("job_id", primary_key=True),
    text("user"),
    text("account"),
    text("app_id"),
    whole("nodes"),
    whole("submitted_at_us"),
    whole("heard_at_us"),
    flag("has_ended"),
    sqlite_with_rowid=False,
)
Index("jobs_by_age", JOBS.c.has_ended, JOBS.c.heard_at_us)
# What happened to jobs whose submission was not read yet.
EARLY: Final = Table(
    "early",
    METADATA,
    text("event_id", primary_key=True),
    text("job_id"),
    text("type"),
    whole("at_us"),
    whole("written_at_us"),
    whole("heard_at_us"),
    binary("run"),
)
Index("early_by_job", EARLY.c.job_id)
Index("early_by_age", EARLY.c.heard_at_us)
# The last revision of the charge of each run, and what it puts on accounts.
CHARGES: Final = Table(
    "charges",
    METADATA,
    text("job_id", primary_key=True),
    whole("attempt", primary_key=True),
    whole("revision"),
    text("amounts"),  # JSON
    sqlite_with_rowid=False,
)
# Sums may exceed 64 bits.
ACCOUNTS: Final = Table(
    "accounts",
    METADATA,
    text("account", primary_key=True),
    text("charged_micro_su"),
    text("allocated_micro_su"),
    text("allocation_id"),
    whole("declared_at_us"),
    sqlite_with_rowid=False,
)
# Of which allocations it was said that they are used so far.
BUDGETS_REACHED: Final = Table(
    "budgets_reached",
    METADATA,
    text("webhook_id", primary_key=True),
    text("account", primary_key=True),
    text("allocation_id", primary_key=True),
    sqlite_with_rowid=False,
)


def known_rows(connection: Connection, table: Table, values: Sequence[str]) -> Iterator[Row[Any]]:
    """Yield the rows of a table whose primary key begins with one of some values, or, of those that
    are early, whose jobs are among them."""
    column = table.c.job_id if table is EARLY else next(iter(table.primary_key))
    for start in range(0, len(values), _AT_ONCE):
        among = column.in_(values[start : start + _AT_ONCE])
        yield from connection.execute(select(table).where(among))
