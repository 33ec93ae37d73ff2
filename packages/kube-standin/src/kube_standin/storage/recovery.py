"""Checks of a log before writing: whether it is ours and complete, and the recovery of a damaged one.

``examine`` reads a data file once, read-only, and refuses one that is foreign, of a newer format, damaged, or that
contains less than its mark has acknowledged. ``salvage`` is for users that accept the loss: the readable part goes into
a new file, and the damaged files are kept next to it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kube_standin.storage.mark import Contents, LogRow, Mark, MarkSlot, digest_of

APPLICATION_ID = 0x52505256
"""SQLite application_id of our files: the letters RPRV."""

FORMAT = 2
"""user_version of the format that this program writes; it also reads format 1 (without a mark)."""

_SCHEMA = """
CREATE TABLE changes (
    revision INTEGER PRIMARY KEY,
    resource TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    deleted INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
"""
_COLUMNS = "revision, resource, namespace, name, deleted, body, crc"
_GO_ON = "--accept-loss recovers what can be read"
_LEFT = f"the file was not changed; {_GO_ON}"


class StorageError(Exception):
    """The data file cannot be used or written; the text names the file and the reason."""


class DamagedError(StorageError):
    """The data file is incomplete; its readable part can be salvaged."""


@dataclass(frozen=True)
class FileExamination:
    """The content of a data file. ``marked`` are the contents up to the revision of the mark.

    ``database`` is the identity of the file (None before format 2), ``top`` its last known revision.
    """

    database: bytes | None
    contents: Contents
    marked: Contents
    top: int


def mark_path(path: Path) -> Path:
    """Return the path of the mark of a data file."""
    return path.with_name(path.name + "-mark")


def _wal(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def connect_arguments(path: Path, *, reading: bool = False) -> dict[str, Any]:
    """Return the arguments of ``sqlite3.connect`` for a data file; ``reading`` leaves no files next to it."""
    mode = "rw"
    if reading:
        # Without a write-ahead log there is nothing else to read, and none may be created.
        mode = "ro" if _wal(path).exists() else "ro&immutable=1"
    return {
        "database": f"file:{quote(str(path.absolute()))}?mode={mode}",
        "uri": True,
        "isolation_level": None,
        "timeout": 30,
        "check_same_thread": False,
    }


def create(
    path: Path, database: bytes, compacted: int = 0, fill: Callable[[sqlite3.Connection], None] | None = None
) -> None:
    """Create a data file at ``path``, completely on disk on return; ``fill`` may insert rows."""
    for stale in (path, path.with_name(path.name + "-journal")):
        stale.unlink(missing_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(**connect_arguments(path))
    try:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("BEGIN")
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute("INSERT INTO meta VALUES ('compacted', ?)", (str(compacted),))
        connection.execute("INSERT INTO meta VALUES ('database', ?)", (database.hex(),))
        if fill is not None:
            fill(connection)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={FORMAT}")
        connection.execute("COMMIT")
    finally:
        connection.close()


def insert(connection: sqlite3.Connection, rows: list[tuple[LogRow, int]]) -> None:
    """Insert rows with the checksums of their bodies."""
    connection.executemany(
        "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(row.revision, row.resource, row.namespace, row.name, row.deleted, crc, row.body) for row, crc in rows],
    )


def _verify_header(path: Path) -> int:
    """Refuse a foreign file by reading only its first 100 bytes; return its format."""
    with path.open("rb") as file:
        header = file.read(100)
    if not header.startswith(b"SQLite format 3\x00") or len(header) < 100:
        raise StorageError(f"{path}: not a data file of this program (no SQLite database)")
    application = int.from_bytes(header[68:72], "big")
    version = int.from_bytes(header[60:64], "big")
    if application != APPLICATION_ID:
        raise StorageError(f"{path}: a SQLite database, but not one of this program")
    if version > FORMAT:
        raise StorageError(f"{path}: written by a newer version (format {version}, this one reads up to {FORMAT})")
    return version


def examine(path: Path, marked: MarkSlot | None) -> FileExamination:
    """Read everything once, read-only, and compare it with the mark; raises StorageError or DamagedError."""
    try:
        version = _verify_header(path)
    except StorageError as error:
        if marked is None or "newer version" in str(error):
            raise
        raise DamagedError(f"{error}; its mark says that it was one; {_LEFT}") from error
    until = marked.revision if marked is not None and version > 1 else 0
    try:
        with contextlib.closing(sqlite3.connect(**connect_arguments(path, reading=True))) as connection:
            examined = _read_all(path, connection, until, version)
    except sqlite3.Error as error:
        raise _damaged(path, str(error)) from error
    if version > 1:
        _hold_against(path, examined, marked)
    return examined


def _read_all(path: Path, connection: sqlite3.Connection, until: int, version: int) -> FileExamination:
    verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if verdict != "ok":
        raise _damaged(path, verdict)
    meta = dict(connection.execute("SELECT key, value FROM meta").fetchall())
    compacted = _number(path, meta)
    database = _identity(path, meta) if version > 1 else None
    digests: list[int] = []
    later: list[int] = []
    top = compacted
    for *columns, crc in connection.execute(f"SELECT {_COLUMNS} FROM changes ORDER BY revision"):
        row = LogRow(*columns)
        if zlib.crc32(row.body) != crc:
            raise _damaged(path, f"checksum of revision {row.revision}")
        (digests if row.revision <= until else later).append(digest_of(row, crc))
        top = max(top, row.revision)
    marked = Contents(compacted).plus(digests)
    return FileExamination(database, marked.plus(later), marked, top)


def _number(path: Path, meta: dict[str, str]) -> int:
    """Return the start of the history."""
    value = meta.get("compacted")
    if value is None or not (value.isascii() and value.isdigit() and len(value) < 19):
        raise _damaged(path, f"compacted in its table meta is {'missing' if value is None else repr(value)}")
    return int(value)


def _identity(path: Path, meta: dict[str, str]) -> bytes:
    try:
        identity = bytes.fromhex(meta.get("database", ""))
    except ValueError:
        identity = b""
    if len(identity) != 16:
        raise _damaged(path, "its identity in its table meta is missing or broken")
    return identity


def _hold_against(path: Path, data: FileExamination, marked: MarkSlot | None) -> None:
    if marked is None:
        raise DamagedError(
            f"{mark_path(path)}: missing or damaged, so it is unknown whether {path.name} holds everything that was "
            f"acknowledged; the file was not changed; --accept-loss recovers what is there"
        )
    if data.database != marked.database:
        raise _damaged(path, f"{mark_path(path).name} and {path.name} or {path.name}-wal are of different servers")
    if data.marked in (marked.contents, marked.after):
        return
    wal = _wal(path)
    if wal.exists() and wal.stat().st_size:
        cause = f"{wal.name} or {path.name} was damaged, cut short or replaced"
    else:
        cause = f"{wal.name} is missing or empty, or an older {path.name} was put in place"
    raise DamagedError(
        f"{path}: acknowledged writes are missing (up to revision {marked.revision} it must hold "
        f"{marked.contents.rows} changes, but only {data.marked.rows} can be read, up to revision {data.top}): "
        f"{cause}; {_LEFT}"
    )


def _damaged(path: Path, why: str) -> DamagedError:
    files = f" or {_wal(path).name}" if _wal(path).exists() else ""
    return DamagedError(f"{path}: the data file{files} is damaged ({why}); {_LEFT}")


# -- going on with what is left


def _readable(path: Path) -> Iterator[tuple[LogRow, int]]:
    """Yield the readable rows: from the front to the first damage, then from the back."""
    seen: set[int] = set()
    for order in ("ASC", "DESC"):
        try:
            with contextlib.closing(sqlite3.connect(**connect_arguments(path, reading=True))) as connection:
                for *columns, crc in connection.execute(f"SELECT {_COLUMNS} FROM changes ORDER BY revision {order}"):
                    row = LogRow(*columns)
                    if row.revision in seen:
                        break
                    seen.add(row.revision)
                    if zlib.crc32(row.body) == crc:
                        yield row, crc
        except (sqlite3.Error, TypeError):
            continue


def salvage(path: Path, marked: MarkSlot | None, database: bytes) -> str:
    """Copy the readable part of a damaged log into a new file and set the old files aside; return a report.

    Only the newest state of each object is kept. Revisions continue after everything that was acknowledged, and the
    history starts there, so a client that saw lost changes must list again.
    """
    newest: dict[tuple[str, str, str], tuple[LogRow, int]] = {}
    top = marked.revision if marked is not None else 0
    if path.exists():
        for row, crc in _readable(path):
            top = max(top, row.revision)
            key = (row.resource, row.namespace, row.name)
            if key not in newest or newest[key][0].revision < row.revision:
                newest[key] = (row, crc)
    newest_rows = sorted((pair for pair in newest.values() if not pair[0].deleted), key=lambda pair: pair[0].revision)
    draft = path.with_name(path.name + ".new")
    create(draft, database, top, lambda connection: insert(connection, newest_rows))
    aside = _put_aside(path)
    os.replace(draft, path)
    contents = Contents(top).plus(digest_of(row, crc) for row, crc in newest_rows)
    mark = Mark(mark_path(path))
    try:
        mark.write(database, top, contents)
        mark.sync()
    finally:
        mark.close()
    return f"{path}: loss accepted, {len(newest_rows)} objects are left; what was there is kept as {', '.join(aside)}"


def _put_aside(path: Path) -> list[str]:
    """Keep the damaged files under new names; the write-ahead log is moved away."""
    files = [file for suffix in ("", "-wal", "-mark") if (file := path.with_name(path.name + suffix)).exists()]
    number = 1
    while any(file.with_name(f"{file.name}.damaged-{number}").exists() for file in files):
        number += 1
    for file in files:
        os.link(file, file.with_name(f"{file.name}.damaged-{number}"))
    for suffix in ("-wal", "-shm", "-mark"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    return [f"{file.name}.damaged-{number}" for file in files]
