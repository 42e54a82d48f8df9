"""Changes with what was before and after, and what happens to jobs between submission and end.

All rows are made anew at the next start, from topics and archive.
"""

import sqlalchemy as sa
from alembic import op

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add tables and columns, and empty what is there."""
    for table in ("accounts", "charges", "clusters", "postings", "runs"):
        op.execute(f"DELETE FROM {table}")
    op.drop_table("positions")
    op.create_table(
        "positions",
        sa.Column("topic", TEXT, nullable=False),
        sa.Column("kafka_partition", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("topic_id", sa.LargeBinary(), nullable=False),
        sa.Column("begins_at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("last_offset", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("last_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("failures", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("topic", "kafka_partition"),
        sqlite_with_rowid=False,
    )
    op.drop_table("audit")
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
        sa.Column("published", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_with_rowid=False,
    )
    op.create_index("audit_by_action", "audit", ["action", "at_us", "id"])
    op.create_index("audit_by_refused", "audit", ["refused", "at_us", "id"])
    op.create_index("audit_by_time", "audit", ["at_us", "id"])
    op.create_index("audit_by_who", "audit", ["who", "at_us", "id"])
    op.create_table(
        "changes",
        sa.Column("event_id", TEXT, nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("subject", TEXT, nullable=False),
        sa.Column("sequence", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("who", TEXT, nullable=False),
        sa.Column("action", TEXT, nullable=False),
        sa.Column("declared", TEXT, nullable=False),
        sa.Column("before", TEXT, nullable=False),
        sa.Column("after", TEXT, nullable=False),
        sa.Column("result", sa.Integer(), nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("event_id", "number"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "changes_by_subject", "changes", ["subject", "sequence", "at_us", "event_id", "number"]
    )
    op.create_table(
        "outcomes",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("result", sa.Integer(), nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "stories",
        sa.Column("job_id", TEXT, nullable=False),
        sa.Column("event_id", TEXT, nullable=False),
        sa.Column("at_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("attempt", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("event", sa.Integer(), nullable=False),
        sa.Column("details", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "event_id"),
        sqlite_with_rowid=False,
    )
