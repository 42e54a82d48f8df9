"""The first tables."""

import sqlalchemy as sa
from alembic import op

# As in the tables: byte by byte.
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "accounts",
        sa.Column("account", TEXT, nullable=False),
        sa.Column("charged_micro_su", TEXT, nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("standing", sa.Integer(), nullable=False),
        sa.Column("allocated_su", TEXT, nullable=False),
        sa.Column("reserved_su", TEXT, nullable=False),
        sa.Column("changed_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("account"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "audit",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("who", TEXT, nullable=False),
        sa.Column("action", TEXT, nullable=False),
        sa.Column("about", TEXT, nullable=False),
        sa.Column("refused", sa.Boolean(), nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.Column("event_id", TEXT, nullable=False),
        sa.Column("door", TEXT, nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_with_rowid=False,
    )
    op.create_index("audit_by_action", "audit", ["action", "at_us", "id"], unique=False)
    op.create_index("audit_by_refused", "audit", ["refused", "at_us", "id"], unique=False)
    op.create_index("audit_by_time", "audit", ["at_us", "id"], unique=False)
    op.create_index("audit_by_who", "audit", ["who", "at_us", "id"], unique=False)
    op.create_table(
        "charges",
        sa.Column("job_id", TEXT, nullable=False),
        sa.Column("attempt", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("user", TEXT, nullable=False),
        sa.Column("account", TEXT, nullable=False),
        sa.Column("cluster", TEXT, nullable=False),
        sa.Column("price_micro_su", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("in_full_micro_su", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("reason", sa.Integer(), nullable=False),
        sa.Column("cores", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("runtime_s", sa.Double(), nullable=False),
        sa.Column("started_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("ended_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("charged_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("booked_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("tariff", TEXT, nullable=False),
        sa.Column("currency", TEXT, nullable=False),
        sa.Column("su_cost", TEXT, nullable=False),
        sa.Column("surcharges", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "attempt", "revision"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "charges_by_account",
        "charges",
        ["account", "booked_at_us", "job_id", "attempt", "revision"],
        unique=False,
    )
    op.create_index(
        "charges_by_cluster",
        "charges",
        ["cluster", "booked_at_us", "job_id", "attempt", "revision"],
        unique=False,
    )
    op.create_index(
        "charges_by_time",
        "charges",
        ["booked_at_us", "job_id", "attempt", "revision"],
        unique=False,
    )
    op.create_index(
        "charges_by_user",
        "charges",
        ["user", "booked_at_us", "job_id", "attempt", "revision"],
        unique=False,
    )
    op.create_table(
        "clusters",
        sa.Column("cluster", TEXT, nullable=False),
        sa.Column("site", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("cluster"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "positions",
        sa.Column("topic", TEXT, nullable=False),
        sa.Column("kafka_partition", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("topic_id", sa.LargeBinary(), nullable=False),
        sa.Column("begins_at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("last_offset", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("last_sha256", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("topic", "kafka_partition"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "postings",
        sa.Column("account", TEXT, nullable=False),
        sa.Column("booked_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("job_id", TEXT, nullable=False),
        sa.Column("attempt", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("by_revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("user", TEXT, nullable=False),
        sa.Column("amount_micro_su", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("in_full_micro_su", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("is_reversal", sa.Boolean(), nullable=False),
        sa.Column("is_adjustment", sa.Boolean(), nullable=False),
        sa.Column("co_runner_job_id", TEXT, nullable=False),
        sa.PrimaryKeyConstraint(
            "account", "booked_at_us", "job_id", "attempt", "by_revision", "number"
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "runs",
        sa.Column("job_id", TEXT, nullable=False),
        sa.Column("attempt", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("state", sa.Integer(), nullable=False),
        sa.Column("owner_rank", sa.Integer(), nullable=False),
        sa.Column("user", TEXT, nullable=False),
        sa.Column("account", TEXT, nullable=False),
        sa.Column("app_id", TEXT, nullable=False),
        sa.Column("submitted_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("place_rank", sa.Integer(), nullable=False),
        sa.Column("cluster", TEXT, nullable=False),
        sa.Column("nodes", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("freq_ghz", sa.Double(), nullable=False),
        sa.Column("started_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("node_names", TEXT, nullable=False),
        sa.Column("verdict", sa.Integer(), nullable=False),
        sa.Column("decided_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.Column("requeued_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("requeue_reason", TEXT, nullable=False),
        sa.Column("outcome", sa.Integer(), nullable=False),
        sa.Column("ended_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("energy_j", sa.Double(), nullable=False),
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("price_micro_su", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("in_full_micro_su", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "attempt"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "runs_by_account", "runs", ["account", "submitted_at_us", "job_id", "attempt"], unique=False
    )
    op.create_index(
        "runs_by_cluster", "runs", ["cluster", "submitted_at_us", "job_id", "attempt"], unique=False
    )
    op.create_index(
        "runs_by_state", "runs", ["state", "submitted_at_us", "job_id", "attempt"], unique=False
    )
    op.create_index("runs_by_time", "runs", ["submitted_at_us", "job_id", "attempt"], unique=False)
    op.create_index(
        "runs_by_user", "runs", ["user", "submitted_at_us", "job_id", "attempt"], unique=False
    )
