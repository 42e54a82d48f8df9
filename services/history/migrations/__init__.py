"""The steps from one schema to the next, for Alembic."""
