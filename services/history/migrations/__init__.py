"""How the schema came to be what it is, for Alembic."""
