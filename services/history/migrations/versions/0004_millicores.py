"""Thousandths of a core that charges are of. Those that are there already are of whole cores."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add a column."""
    column = sa.Column("millicores", sa.BigInteger(), nullable=False, server_default="0")
    op.add_column("charges", column)
