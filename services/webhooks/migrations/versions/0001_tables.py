"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "accounts",
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("charged_micro_su", sa.Text(), nullable=False),
        sa.Column("allocated_micro_su", sa.Text(), nullable=False),
        sa.Column("allocation_id", sa.Text(), nullable=False),
        sa.Column("declared_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("account"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "budgets_reached",
        sa.Column("webhook_id", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("allocation_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("webhook_id", "account", "allocation_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "charges",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("amounts", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "attempt"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "deliveries",
        sa.Column("delivery_id", sa.Text(), nullable=False),
        sa.Column("webhook_id", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("state", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("due_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("last_status", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("last_error", sa.Text(), nullable=False),
        sa.Column("created_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("delivery_id"),
    )
    op.create_index("deliveries_by_state", "deliveries", ["state", "due_at_us"], unique=False)
    op.create_index(
        "deliveries_by_webhook",
        "deliveries",
        ["webhook_id", "state", "due_at_us", "delivery_id"],
        unique=False,
    )
    op.create_table(
        "early",
        sa.Column("event_id", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("written_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("heard_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("run", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("event_id"),
    )
    op.create_index("early_by_age", "early", ["heard_at_us"], unique=False)
    op.create_index("early_by_job", "early", ["job_id"], unique=False)
    op.create_table(
        "jobs",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("app_id", sa.Text(), nullable=False),
        sa.Column("nodes", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("submitted_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("heard_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("has_ended", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("job_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("jobs_by_age", "jobs", ["has_ended", "heard_at_us"], unique=False)
    op.create_table(
        "key_check",
        sa.Column("check_value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("check_value"),
    )
    op.create_table(
        "positions",
        sa.Column("topic", sa.Text(), nullable=False),
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
        "webhooks",
        sa.Column("webhook_id", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("types", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("region", sa.Boolean(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("budget_percent", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("state", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("delivered_at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("failing_since_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("last_status", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("last_error", sa.Text(), nullable=False),
        sa.Column("secret_number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("old_secret_until_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("webhook_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("webhooks_by_owner", "webhooks", ["owner"], unique=False)
