"""Alembic's entry point: it runs on the connection that `migrations.move` gives it."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], version_table="record_schema")
with context.begin_transaction():
    context.run_migrations()
