"""Run by Alembic for every command: the connection comes from `runtime.storage.sql.migrate`."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=None,
    transaction_per_migration=False,
)
context.run_migrations()
