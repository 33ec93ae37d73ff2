"""The durable log of changes: one SQLite file in WAL mode, one row per change, nothing else.

The latest row of a key is the object's present state, so writing is one INSERT, and start-up is one scan in
revision order. Compaction deletes rows that a later row supersedes. Every row carries a CRC-32 of its body.

Invariant: what ``append`` returned for survives the death of the process (kill -9): the transaction is in
the WAL file by then. Against loss of power ``synchronous=FULL`` is needed (parameter ``power_safe``). A
file that is damaged, foreign or of a newer format is refused before anything is written to it.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

APPLICATION_ID = 0x52505256
"""SQLite application_id of our files: the letters RPRV."""

FORMAT = 1
"""user_version of the format this program reads and writes."""

CHECKPOINT_BYTES = 8 * 1024 * 1024
"""How much is appended before the WAL is copied back into the main file."""

WAL_BYTES = 32 * 1024 * 1024
"""How large the WAL may grow before it is started afresh."""

_PAGE = 4096

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


class StorageError(Exception):
    """The data file cannot be used or written; the text names the file and why."""


@dataclass(frozen=True)
class Row:
    """One change as it is kept: the body is JSON bytes; ``deleted`` marks the end of the object."""

    revision: int
    resource: str
    namespace: str
    name: str
    deleted: bool
    body: bytes


class Log(Protocol):
    """What the store needs of a log."""

    compacted: int
    """Changes up to this revision may be missing from :meth:`rows`."""

    def rows(self) -> Iterator[Row]:
        """Yield what is kept, in revision order."""

    def append(self, rows: Sequence[Row]) -> None:
        """Make ``rows`` durable together; raises StorageError if that failed and nothing was written."""

    def compact(self, revision: int, superseded: Iterable[int]) -> None:
        """Forget the given revisions and remember that history starts after ``revision``."""

    def checkpoint_due(self) -> bool:
        """Whether enough was appended to copy the WAL back."""

    def checkpoint(self) -> None:
        """Copy the WAL back into the file; may run in another thread."""

    def close(self) -> None:
        """Release the file."""


class VolatileLog:
    """The log of ``:memory:``: keeps nothing, so a process holds each object once."""

    compacted = 0

    def rows(self) -> Iterator[Row]:
        """Nothing was kept."""
        return iter(())

    def append(self, rows: Sequence[Row]) -> None:
        """Nothing to do."""

    def compact(self, revision: int, superseded: Iterable[int]) -> None:
        """Nothing to do."""

    def checkpoint_due(self) -> bool:
        """Never."""
        return False

    def checkpoint(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


def open_log(path: str | Path, *, power_safe: bool = False) -> Log:
    """Open the log at ``path``; ``:memory:`` keeps none. Raises StorageError and leaves a refused file
    alone.
    """
    if str(path) == ":memory:":
        return VolatileLog()
    return SqliteLog(Path(path), power_safe=power_safe)


def _uri(path: Path, mode: str) -> str:
    return f"file:{quote(str(path.absolute()))}?mode={mode}"


def _verify_header(path: Path) -> None:
    """Refuse what is no file of ours by reading its first 100 bytes only."""
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


def _verify_rows(path: Path) -> None:
    """Read everything once, read-only, and refuse a damaged file before the first write."""
    connection = sqlite3.connect(_uri(path, "ro"), uri=True, isolation_level=None)
    try:
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise StorageError(f"{path}: the data file is damaged ({verdict}); it was left as it is")
        for revision, crc, body in connection.execute("SELECT revision, crc, body FROM changes"):
            if zlib.crc32(body) != crc:
                raise StorageError(
                    f"{path}: the data file is damaged (checksum of revision {revision}); it was left as it is"
                )
    except sqlite3.Error as error:
        raise StorageError(f"{path}: the data file is damaged ({error}); it was left as it is") from error
    finally:
        connection.close()


def _connect_arguments(path: Path) -> dict[str, Any]:
    return {
        "database": _uri(path, "rw"),
        "uri": True,
        "isolation_level": None,
        "timeout": 30,
        "check_same_thread": False,
    }


def _create(path: Path) -> None:
    """Make an empty data file; it gets its name only when complete, so a death half-way leaves none."""
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(**_connect_arguments(draft))
    try:
        connection.executescript(_SCHEMA)
        connection.execute("INSERT INTO meta VALUES ('compacted', '0')")
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={FORMAT}")
    finally:
        connection.close()
    draft.rename(path)


class SqliteLog:
    """The log in a file; see the module for its promises. A second process on the same file is refused."""

    def __init__(self, path: Path, *, power_safe: bool = False) -> None:
        self.path = path
        self._appended = 0
        self._closed = False
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = self._take_lock()
        try:
            if path.exists():
                _verify_header(path)
                _verify_rows(path)
            else:
                _create(path)
            self._connection = sqlite3.connect(**_connect_arguments(path))
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute(f"PRAGMA synchronous={'FULL' if power_safe else 'NORMAL'}")
            self._connection.execute("PRAGMA wal_autocheckpoint=0")
            row = self._connection.execute("SELECT value FROM meta WHERE key='compacted'").fetchone()
            self.compacted = int(row[0])
            self._copier = sqlite3.connect(**_connect_arguments(path))
        except sqlite3.Error as error:
            self._unlock()
            raise StorageError(f"{path}: cannot be opened ({error})") from error
        except (StorageError, OSError):
            self._unlock()
            raise

    def _take_lock(self) -> int:
        try:
            lock = os.open(f"{self.path}-lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(f"{self.path}: cannot be opened ({error.strerror})") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            raise StorageError(f"{self.path}: in use by another running server") from error
        return lock

    def _unlock(self) -> None:
        os.close(self._lock)

    def rows(self) -> Iterator[Row]:
        """Yield every kept change in revision order."""
        cursor = self._connection.execute(
            "SELECT revision, resource, namespace, name, deleted, body FROM changes ORDER BY revision"
        )
        for revision, resource, namespace, name, deleted, body in cursor:
            yield Row(revision, resource, namespace, name, bool(deleted), body)

    def append(self, rows: Sequence[Row]) -> None:
        """Write ``rows`` in one transaction; on failure nothing of them is kept."""
        run = self._connection.execute
        try:
            run("BEGIN IMMEDIATE")
            self._connection.executemany(
                "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        row.revision,
                        row.resource,
                        row.namespace,
                        row.name,
                        row.deleted,
                        zlib.crc32(row.body),
                        row.body,
                    )
                    for row in rows
                ],
            )
            run("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                run("ROLLBACK")
            raise StorageError(f"{self.path}: cannot be written ({error})") from error
        self._appended += sum(len(row.body) for row in rows)

    def compact(self, revision: int, superseded: Iterable[int]) -> None:
        """Delete superseded rows and move the start of history, in one transaction."""
        run = self._connection.execute
        try:
            run("BEGIN IMMEDIATE")
            self._connection.executemany("DELETE FROM changes WHERE revision = ?", [(number,) for number in superseded])
            run("UPDATE meta SET value = ? WHERE key = 'compacted'", (str(revision),))
            run("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                run("ROLLBACK")
            raise StorageError(f"{self.path}: cannot be compacted ({error})") from error
        self.compacted = revision

    def checkpoint_due(self) -> bool:
        """Whether more than ``CHECKPOINT_BYTES`` were appended since the last copy."""
        return self._appended > CHECKPOINT_BYTES

    def checkpoint(self) -> None:
        """Copy the WAL back without hindering the writer; a busy WAL is copied next time."""
        self._appended = 0
        if self._closed:
            return
        try:
            _, frames, _ = self._copier.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            if frames * _PAGE > WAL_BYTES:
                # A writer that never pauses never lets the passive form start the WAL afresh. Almost all is
                # copied by now, so this holds up the writer for little more than one fsync.
                self._copier.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as error:
            raise StorageError(f"{self.path}: cannot be checkpointed ({error})") from error

    def close(self) -> None:
        """Fold the WAL into the file and release the lock."""
        if self._closed:
            return
        self._closed = True
        self._copier.close()
        self._connection.close()
        self._unlock()
