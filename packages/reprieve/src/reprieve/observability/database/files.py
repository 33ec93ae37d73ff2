"""The SQLite database file of decision records. Only its owner can read it.

Invariant: a corrupt file is renamed and a new one is created; a file of another kind is never changed.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reprieve.observability.database.location import Address, RecordsError, engine_of, file_of

if TYPE_CHECKING:
    from sqlalchemy import Engine

_MAGIC: Final = b"SQLite format 3\0"


def writing_engine(address: Address, trouble: Callable[[str], None]) -> Engine:
    """Return an engine for writing, as `engine_of` does; an SQLite file is prepared first. Raises RecordsError."""
    engine = engine_of(address)
    file = file_of(engine.url)
    try:
        if file is not None:
            make_ready(file, trouble)
    except OSError as error:
        raise RecordsError(f"{file}: {error.strerror}") from None
    return engine


def make_ready(path: Path, trouble: Callable[[str], None]) -> None:
    """Create a writable file and its directory. `trouble` reports a corrupt file that was renamed.

    Raises OSError if that is impossible, and RecordsError if the file has other content.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        refuse_foreign(path)
    except sqlite3.OperationalError:
        pass  # in use, or on a disk that fails: the store tries again
    except sqlite3.DatabaseError as error:
        aside = path.with_name(f"{path.name}.broken")
        trouble(f"{path}: {error}; set aside as {aside.name}")
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        os.replace(path, aside)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def refuse_foreign(path: Path) -> None:
    """Raise RecordsError if the file is something else: a text file, or the database of another program.

    Raises sqlite3.DatabaseError for a corrupt file. A missing file is accepted.
    """
    try:
        with path.open("rb") as file:
            begins = file.read(512)
    except FileNotFoundError:
        return
    if not begins:
        return
    if begins.isascii() and not begins.startswith(_MAGIC) and b"\0" not in begins:
        raise RecordsError(f"{path}: not a file of decision records")
    reading = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    with contextlib.closing(reading) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if tables and not tables & {"record", "record_schema"}:
        raise RecordsError(f"{path}: not a file of decision records: a database of something else")


def refuse_unreadable(path: Path) -> None:
    """Raise RecordsError for a file that is missing, corrupt or has other content."""
    try:
        path.stat()
        refuse_foreign(path)
    except (OSError, sqlite3.DatabaseError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise RecordsError(f"{path}: not a file of decision records: {why}") from None
