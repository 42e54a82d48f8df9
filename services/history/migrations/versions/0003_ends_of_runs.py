"""How runs ended. Of those that are there already nothing is known of it."""

import sqlalchemy as sa
from alembic import op

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add columns."""
    op.add_column("runs", sa.Column("ended_as", TEXT, nullable=False, server_default=""))
    for name in ("exit_code", "signal"):
        op.add_column("runs", sa.Column(name, sa.Integer(), nullable=False, server_default="0"))
