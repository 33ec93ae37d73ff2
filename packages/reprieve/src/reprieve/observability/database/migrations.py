"""Versions of the schema: which one a database has, and moving it to another (history.md 2)."""

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
"""The version of a database without the tables."""
_VERSIONS: Final = "record_schema"
"""The table that has the version, and `version_table` of Alembic."""
_RENAME: Final = "ALTER TABLE {0} RENAME TO old_{0}"
_LOCK: Final = 0x7265_7072
"""Of PostgreSQL: one process changes the schema at a time."""


def version_of(connection: Connection) -> int:
    """Return the version of the schema. Raises RecordsError for one that this program does not know."""
    from sqlalchemy import inspect, text

    if not inspect(connection).has_table(_VERSIONS):
        return EMPTY
    found = connection.execute(text(f"SELECT version_num FROM {_VERSIONS}")).scalar_one_or_none()
    if found is None:
        return EMPTY
    if not found.isdecimal() or int(found) > NEWEST:
        raise RecordsError(
            f"the schema of the records has version {found}, and this reprieve knows versions up to {NEWEST}: "
            f"use a newer reprieve, or with that `reprieve records migrate --to {NEWEST}`"
        )
    return int(found)


def is_old_file(connection: Connection) -> bool:
    """Return whether an SQLite file is one that reprieve kept before its schema had versions."""
    from sqlalchemy import inspect

    tables = inspect(connection)
    return tables.has_table("record") and any(column["name"] == "latest" for column in tables.get_columns("record"))


def move(connection: Connection, to: int = NEWEST) -> int:
    """Bring the schema to a version; return the one before. In one transaction, alone. Raises RecordsError."""
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
    """Make the newest schema in an empty database, without Alembic, which takes longer to import."""
    from sqlalchemy import text

    METADATA.create_all(connection)
    connection.execute(text(f"CREATE TABLE IF NOT EXISTS {_VERSIONS} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
    connection.execute(text(f"INSERT INTO {_VERSIONS} VALUES ('{NEWEST}')"))


def _convert(connection: Connection) -> None:
    """Move the records of an old file to the newest schema."""
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
