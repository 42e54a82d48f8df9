"""What Alembic runs: within the transaction of who asks for it."""

from alembic import context

from services.webhooks.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
with context.begin_transaction():
    context.run_migrations()
