"""Versions of the schema: which one a database has, and moving it to another (history.md 2)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from reprieve.observability.database.location import RecordsError

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy import Connection

NEWEST: Final = 2
EMPTY: Final = 0
"""The version of a database without the tables."""
_LOCK: Final = 0x7265_7072
"""Of PostgreSQL: one process changes the schema at a time."""


def version_of(connection: Connection) -> int:
    """Return the version of the schema. Raises RecordsError for one that this program does not know."""
    from alembic.runtime.migration import MigrationContext

    context = MigrationContext.configure(connection, opts={"version_table": "record_schema"})
    found = context.get_current_revision()
    if found is None:
        return EMPTY
    if not found.isdecimal() or int(found) > NEWEST:
        raise RecordsError(
            f"the schema of the records has version {found}, and this reprieve knows versions up to {NEWEST}: "
            f"use a newer reprieve, or with that `reprieve records migrate --to {NEWEST}`"
        )
    return int(found)


def move(connection: Connection, to: int = NEWEST) -> int:
    """Bring the schema to a version; return the one before. In one transaction, alone. Raises RecordsError."""
    from alembic import command
    from sqlalchemy import text

    if not EMPTY <= to <= NEWEST:
        raise RecordsError(f"version {to} of the schema of the records is not known: {EMPTY} to {NEWEST} are")
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    before = version_of(connection)
    if before != to:
        config = _config()
        config.attributes["connection"] = connection
        if to > before:
            command.upgrade(config, str(to))
        else:
            command.downgrade(config, str(to) if to else "base")
    return before


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
