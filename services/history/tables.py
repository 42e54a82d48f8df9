"""The tables. Each is read by its primary key or by an index below it: no answer goes through all
rows.

Texts are compared byte by byte, in each database. Amounts are whole numbers of 0.000001 service
unit, times microseconds since the epoch. Rows have no number of their own: tables that were built
anew are equal to the first.
"""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

METADATA: Final = MetaData()


# PostgreSQL would compare by the language of the database.
_TEXT: Final = Text().with_variant(Text(collation="C"), "postgresql")


def _text(name: str, *, primary_key: bool = False) -> Column[str]:
    return Column(name, _TEXT, primary_key=primary_key, nullable=False)


def _whole(name: str, *, primary_key: bool = False) -> Column[int]:
    return Column(name, BigInteger, primary_key=primary_key, nullable=False, autoincrement=False)


def _real(name: str) -> Column[float]:
    return Column(name, Double, nullable=False)


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False)


POSITIONS: Final = Table(
    "positions",
    METADATA,
    _text("topic", primary_key=True),
    _whole("kafka_partition", primary_key=True),
    Column("topic_id", LargeBinary, nullable=False),
    _whole("begins_at"),
    _whole("position"),
    _whole("last_offset"),
    Column("last_sha256", LargeBinary, nullable=False),
    # What failed there, and how often: what restarts do not cure is quarantined.
    Column("failures", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
CLUSTERS: Final = Table(
    "clusters",
    METADATA,
    _text("cluster", primary_key=True),
    _text("site"),
    sqlite_with_rowid=False,
)
RUNS: Final = Table(
    "runs",
    METADATA,
    _text("job_id", primary_key=True),
    Column("attempt", BigInteger, primary_key=True, autoincrement=False),
    Column("state", Integer, nullable=False),
    Column("owner_rank", Integer, nullable=False),
    _text("user"),
    _text("account"),
    _text("app_id"),
    _whole("submitted_at_us"),
    Column("place_rank", Integer, nullable=False),
    _text("cluster"),
    _whole("nodes"),
    _real("freq_ghz"),
    _whole("started_at_us"),
    _text("node_names"),
    Column("verdict", Integer, nullable=False),
    _whole("decided_at_us"),
    _text("reason"),
    _whole("requeued_at_us"),
    _text("requeue_reason"),
    Column("outcome", Integer, nullable=False),
    _whole("ended_at_us"),
    _real("energy_j"),
    _whole("revision"),
    _whole("price_micro_su"),
    _whole("in_full_micro_su"),
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
    _text("job_id", primary_key=True),
    _whole("attempt", primary_key=True),
    _whole("revision", primary_key=True),
    _text("user"),
    _text("account"),
    _text("cluster"),
    _whole("price_micro_su"),
    _whole("in_full_micro_su"),
    Column("reason", Integer, nullable=False),
    _whole("cores"),
    _real("runtime_s"),
    _whole("started_at_us"),
    _whole("ended_at_us"),
    _whole("charged_at_us"),
    _whole("booked_at_us"),
    _text("tariff"),
    _text("currency"),
    _text("su_cost"),
    _text("surcharges"),
    Index("charges_by_time", "booked_at_us", "job_id", "attempt", "revision"),
    Index("charges_by_user", "user", "booked_at_us", "job_id", "attempt", "revision"),
    Index("charges_by_account", "account", "booked_at_us", "job_id", "attempt", "revision"),
    Index("charges_by_cluster", "cluster", "booked_at_us", "job_id", "attempt", "revision"),
    sqlite_with_rowid=False,
)
POSTINGS: Final = Table(
    "postings",
    METADATA,
    _text("account", primary_key=True),
    _whole("booked_at_us", primary_key=True),
    _text("job_id", primary_key=True),
    _whole("attempt", primary_key=True),
    _whole("by_revision", primary_key=True),
    _whole("number", primary_key=True),
    _whole("revision"),
    _text("user"),
    _whole("amount_micro_su"),
    _whole("in_full_micro_su"),
    _flag("is_reversal"),
    _flag("is_adjustment"),
    _text("co_runner_job_id"),
    sqlite_with_rowid=False,
)
# Sums of an account may need more than 64 bits: they are texts of whole numbers. What pricing
# publishes of it are decimals as it has them.
ACCOUNTS: Final = Table(
    "accounts",
    METADATA,
    _text("account", primary_key=True),
    _text("charged_micro_su"),
    _whole("number"),
    Column("standing", Integer, nullable=False),
    _text("allocated_su"),
    _text("reserved_su"),
    _whole("changed_at_us"),
    sqlite_with_rowid=False,
)
AUDIT: Final = Table(
    "audit",
    METADATA,
    _text("id", primary_key=True),
    _whole("at_us"),
    _text("who"),
    _text("action"),
    _text("about"),
    _flag("refused"),
    _text("reason"),
    _text("event_id"),
    _text("door"),
    _whole("version"),
    # It was published: its time is that of the event.
    _flag("published"),
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
    _text("event_id", primary_key=True),
    _whole("number", primary_key=True),
    _text("subject"),
    _whole("sequence"),
    _whole("at_us"),
    _text("who"),
    _text("action"),
    _text("declared"),
    _text("before"),
    _text("after"),
    Column("result", Integer, nullable=False),
    _text("reason"),
    Index("changes_by_subject", "subject", "sequence", "at_us", "event_id", "number"),
    sqlite_with_rowid=False,
)
OUTCOMES: Final = Table(
    "outcomes",
    METADATA,
    _text("id", primary_key=True),
    Column("result", Integer, nullable=False),
    _text("reason"),
    sqlite_with_rowid=False,
)
STORIES: Final = Table(
    "stories",
    METADATA,
    _text("job_id", primary_key=True),
    _text("event_id", primary_key=True),
    _whole("at_us"),
    _whole("attempt"),
    Column("event", Integer, nullable=False),
    _text("details"),
    sqlite_with_rowid=False,
)
