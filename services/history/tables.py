"""The tables. Each is read by its primary key or by an index below it: no answer goes through all
rows.

Texts are compared byte by byte, in each database. Amounts are whole numbers of 0.000001 service
unit, times microseconds since the epoch. Rows have no number of their own: tables that were built
anew are equal to the first.
"""

from typing import Final

from sqlalchemy import (
    Index,
    MetaData,
    Table,
)

from shared.sql.columns import binary, flag, real, small, text, whole
from shared.sql.positions import position_table

METADATA: Final = MetaData()
# What failed there, and how often: what restarts do not cure is quarantined.
POSITIONS: Final = position_table(METADATA, binary("failures"))
CLUSTERS: Final = Table(
    "clusters",
    METADATA,
    text("cluster", primary_key=True),
    text("site"),
    sqlite_with_rowid=False,
)
RUNS: Final = Table(
    "runs",
    METADATA,
    text("job_id", primary_key=True),
    whole("attempt", primary_key=True),
    small("state"),
    small("owner_rank"),
    text("user"),
    text("account"),
    text("app_id"),
    whole("submitted_at_us"),
    small("place_rank"),
    text("cluster"),
    whole("nodes"),
    real("freq_ghz"),
    whole("started_at_us"),
    text("node_names"),
    small("verdict"),
    whole("decided_at_us"),
    text("reason"),
    whole("requeued_at_us"),
    text("requeue_reason"),
    small("outcome"),
    whole("ended_at_us"),
    real("energy_j"),
    whole("revision"),
    whole("price_micro_su"),
    whole("in_full_micro_su"),
    text("ended_as"),
    small("exit_code"),
    small("signal"),
    Index("runs_by_time", "submitted_at_us", "job_id", "attempt"),
    Index("runs_by_user", "user", "submitted_at_us", "job_id", "attempt"),
    Index("runs_by_account", "account", "submitted_at_us", "job_id", "attempt"),
    Index("runs_by_cluster", "cluster", "submitted_at_us", "job_id", "attempt"),
    Index("runs_by_state", "state", "submitted_at_us", "job_id", "attempt"),
    sqlite_with_rowid=False,
)
CHARGES: Final = Table(
    "charges",
    METADATA,
    text("job_id", primary_key=True),
    whole("attempt", primary_key=True),
    whole("revision", primary_key=True),
    text("user"),
    text("account"),
    text("cluster"),
    whole("price_micro_su"),
    whole("in_full_micro_su"),
    small("reason"),
    whole("cores"),
    real("runtime_s"),
    whole("started_at_us"),
    whole("ended_at_us"),
    whole("charged_at_us"),
    whole("booked_at_us"),
    text("tariff"),
    text("currency"),
    text("su_cost"),
    text("surcharges"),
    whole("millicores"),
    Index("charges_by_time", "booked_at_us", "job_id", "attempt", "revision"),
    Index("charges_by_user", "user", "booked_at_us", "job_id", "attempt", "revision"),
    Index("charges_by_account", "account", "booked_at_us", "job_id", "attempt", "revision"),
    Index("charges_by_cluster", "cluster", "booked_at_us", "job_id", "attempt", "revision"),
    sqlite_with_rowid=False,
)
POSTINGS: Final = Table(
    "postings",
    METADATA,
    text("account", primary_key=True),
    whole("booked_at_us", primary_key=True),
    text("job_id", primary_key=True),
    whole("attempt", primary_key=True),
    whole("by_revision", primary_key=True),
    whole("number", primary_key=True),
    whole("revision"),
    text("user"),
    whole("amount_micro_su"),
    whole("in_full_micro_su"),
    flag("is_reversal"),
    flag("is_adjustment"),
    text("co_runner_job_id"),
    sqlite_with_rowid=False,
)
# Sums of an account may need more than 64 bits: they are texts of whole numbers. What pricing
# publishes of it are decimals as it has them.
ACCOUNTS: Final = Table(
    "accounts",
    METADATA,
    text("account", primary_key=True),
    text("charged_micro_su"),
    whole("number"),
    small("standing"),
    text("allocated_su"),
    text("reserved_su"),
    whole("changed_at_us"),
    sqlite_with_rowid=False,
)
AUDIT: Final = Table(
    "audit",
    METADATA,
    text("id", primary_key=True),
    whole("at_us"),
    text("who"),
    text("action"),
    text("about"),
    flag("refused"),
    text("reason"),
    text("event_id"),
    text("door"),
    whole("version"),
    # It was published: its time is that of the event.
    flag("published"),
    Index("audit_by_time", "at_us", "id"),
    Index("audit_by_who", "who", "at_us", "id"),
    Index("audit_by_action", "action", "at_us", "id"),
    Index("audit_by_refused", "refused", "at_us", "id"),
    sqlite_with_rowid=False,
)
# What each command sets.
CHANGES: Final = Table(
    "changes",
    METADATA,
    text("event_id", primary_key=True),
    whole("number", primary_key=True),
    text("subject"),
    whole("sequence"),
    whole("at_us"),
    text("who"),
    text("action"),
    text("declared"),
    text("before"),
    text("after"),
    small("result"),
    text("reason"),
    Index("changes_by_subject", "subject", "sequence", "at_us", "event_id", "number"),
    sqlite_with_rowid=False,
)
OUTCOMES: Final = Table(
    "outcomes",
    METADATA,
    text("id", primary_key=True),
    small("result"),
    text("reason"),
    sqlite_with_rowid=False,
)
STORIES: Final = Table(
    "stories",
    METADATA,
    text("job_id", primary_key=True),
    text("event_id", primary_key=True),
    whole("at_us"),
    whole("attempt"),
    small("event"),
    text("details"),
    sqlite_with_rowid=False,
)
