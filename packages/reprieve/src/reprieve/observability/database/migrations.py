"""Versions of the schema: the current version of a database, and migration to another (history.md 2)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from reprieve.decisions.records import decode
from reprieve.observability.database import queries
from reprieve.observability.database.location import RecordsError
from reprieve.observability.database.schema import METADATA
from reprieve.observability.database.spool import stored

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy import Connection

NEWEST: Final = 3
EMPTY: Final = 0
"""The version of a database without tables."""
_VERSIONS: Final = "record_schema"
"""The table that stores the version: Alembic's `version_table`."""
_RENAME: Final = "ALTER TABLE {0} RENAME TO old_{0}"
_LOCK: Final = 0x7265_7072
"""Key of PostgreSQL's advisory lock: only one process changes the schema at a time."""


def version_of(connection: Connection) -> int:
    """Return the schema version. Raises RecordsError for a version that this program does not know."""
    from sqlalchemy import inspect, text

    if not inspect(connection).has_table(_VERSIONS):
        return EMPTY
    number = connection.execute(text(f"SELECT version_num FROM {_VERSIONS}")).scalar_one_or_none()
    if number is None:
        return EMPTY
    if not number.isdecimal() or int(number) > NEWEST:
        raise RecordsError(
            f"the schema of the records has version {number}, and this reprieve knows versions up to {NEWEST}: "
            f"use a newer reprieve, or with that `reprieve records migrate --to {NEWEST}`"
        )
    return int(number)


def is_old_file(connection: Connection) -> bool:
    """Return whether this is an SQLite file from before the schema had versions."""
    from sqlalchemy import inspect

    tables = inspect(connection)
    return tables.has_table("record") and any(column["name"] == "latest" for column in tables.get_columns("record"))


def move(connection: Connection, to: int = NEWEST) -> int:
    """Migrate the schema in one transaction under a lock. Return the previous version. Raises RecordsError."""
    from sqlalchemy import text

    if not EMPTY <= to <= NEWEST:
        raise RecordsError(f"version {to} of the schema of the records is not known: {EMPTY} to {NEWEST} are")
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    before = version_of(connection)
    if before == EMPTY and is_old_file(connection):
        _convert(connection)
        return before
    if before == EMPTY and to == NEWEST:
        _create(connection)
    elif before != to:
        from alembic import command

        config = _config()
        config.attributes["connection"] = connection
        if to > before:
            command.upgrade(config, str(to))
        else:
            command.downgrade(config, str(to) if to else "base")
    return before


def _create(connection: Connection) -> None:
    """Create the newest schema in an empty database, without Alembic, because it is slow to import."""
    from sqlalchemy import text

    METADATA.create_all(connection)
    connection.execute(text(f"CREATE TABLE IF NOT EXISTS {_VERSIONS} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
    connection.execute(text(f"INSERT INTO {_VERSIONS} VALUES ('{NEWEST}')"))


def _convert(connection: Connection) -> None:
    """Migrate the records of an old file to the newest schema."""
    from sqlalchemy import text

    for statement in (
        "DROP INDEX record_age",
        "DROP INDEX involved_record",
        *map(_RENAME.format, ("record", "involved")),
    ):
        connection.execute(text(statement))
    _create(connection)
    rows = connection.execute(text("SELECT id, body FROM old_record ORDER BY id")).all()
    for number, body in rows:
        names = connection.execute(
            text("SELECT kind, namespace, name FROM old_involved WHERE record = :id"), {"id": number}
        )
        queries.write(connection, "", [stored(decode(body), [tuple(name) for name in names], revision=1)])
    for table in ("old_record", "old_involved"):
        connection.execute(text(f"DROP TABLE {table}"))


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
