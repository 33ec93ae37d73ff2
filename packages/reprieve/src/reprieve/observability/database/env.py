"""Alembic's entry point. It uses the connection that `migrations.move` passes."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], version_table="record_schema")
with context.begin_transaction():
    context.run_migrations()
