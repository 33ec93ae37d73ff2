"""The durable log of changes: one SQLite file in WAL mode, one row per change, nothing else.

The latest row of a key is the object's present state, so writing is one INSERT, and start-up is one scan in
revision order. Compaction deletes rows that a later row supersedes. Every row carries a CRC-32 of its body, and the
mark beside the file (``mark``) the sum of all rows.

Invariants: what ``append`` returned for survives the death of the process (kill -9), and a start that does not find
all of it reports that: by then the transaction is in the WAL file, and after it the mark was written. Against loss of
power ``synchronous=FULL`` is needed (parameter ``power_safe``); without it such a loss is noticed. A file that is
damaged, foreign or of a newer format is refused before anything is written to it.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import secrets
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from kube_standin.storage.mark import Contents, LogRow, Mark, digest_of
from kube_standin.storage.recovery import (
    FORMAT,
    DamagedError,
    Examined,
    StorageError,
    connect_arguments,
    create,
    examine,
    insert,
    mark_path,
    salvage,
)

__all__ = ["FORMAT", "CommitLog", "LogRow", "SqliteLog", "StorageError", "open_log"]

log = logging.getLogger("reprieve.apiserver")

CHECKPOINT_BYTES = 2 * 1024 * 1024
"""How much is appended before the WAL is copied back into the main file."""

WAL_BYTES = 8 * 1024 * 1024
"""How large the WAL may grow before it is started afresh."""

_PAGE = 4096
_COMMIT_BYTES = 3 * _PAGE
"""About what a commit adds to the WAL besides the bodies: the pages it touches are written whole."""


class CommitLog:
    """What the store needs of a log, and the log of ``:memory:``: it keeps nothing, so a process holds each object
    once.
    """

    compacted = 0
    """Changes up to this revision may be missing from :meth:`rows`."""

    def rows(self) -> Iterator[LogRow]:
        """Yield what is kept, in revision order."""
        return iter(())

    def append(self, rows: Sequence[LogRow]) -> None:
        """Make ``rows`` durable together; raises StorageError if that failed and nothing was written."""

    def compact(self, revision: int, superseded: Iterable[LogRow]) -> None:
        """Forget the given rows and remember that history starts after ``revision``."""

    def checkpoint_due(self) -> bool:
        """Return whether enough was appended to copy the WAL back."""
        return False

    def checkpoint(self) -> None:
        """Copy the WAL back into the file; may run in another thread."""

    def close(self) -> None:
        """Release the file."""


def open_log(path: str | Path, *, power_safe: bool = False, accept_loss: bool = False) -> CommitLog:
    """Open the log at ``path``; ``:memory:`` keeps none. Raises StorageError and leaves a refused file
    alone.

    With ``accept_loss`` a damaged log is replaced by what can be read of it (``recovery.salvage``).
    """
    if str(path) == ":memory:":
        return CommitLog()
    return SqliteLog(Path(path), power_safe=power_safe, accept_loss=accept_loss)


def _take_lock(path: Path) -> int:
    try:
        lock = os.open(f"{path}-lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageError(f"{path}: cannot be opened ({error.strerror})") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise StorageError(f"{path}: in use by another running server") from error
    return lock


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep every server off a data file. Raises StorageError if one runs on it."""
    lock = _take_lock(path)
    try:
        yield
    finally:
        os.close(lock)


class SqliteLog(CommitLog):
    """The log in a file; see the module for its promises. A second process on the same file is refused."""

    def __init__(self, path: Path, *, power_safe: bool = False, accept_loss: bool = False) -> None:
        self.path = path
        self._power_safe = power_safe
        self._appended = 0
        self._closed = False
        self._failed: StorageError | None = None
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with contextlib.ExitStack() as opened:
            lock = _take_lock(path)
            opened.callback(os.close, lock)
            try:
                found = self._sound(accept_loss)
                self._mark = Mark(mark_path(path))
                opened.callback(self._mark.close)
                self._connection = sqlite3.connect(**connect_arguments(path))
                opened.callback(self._connection.close)
                self._begin(found, power_safe)
                self._copier = sqlite3.connect(**connect_arguments(path))
            except sqlite3.Error as error:
                raise StorageError(f"{path}: cannot be opened ({error})") from error
            opened.callback(self._copier.close)
            self._opened = opened.pop_all()

    def _sound(self, accept_loss: bool) -> Examined:
        """Return what the file holds, made new if there is none; refuse or salvage one that is not whole."""
        path = self.path
        marked = Mark.read(mark_path(path))
        try:
            if path.exists():
                return examine(path, marked)
            beside = path.with_name(path.name + "-wal")
            if beside.exists() or (marked is not None and marked.revision):
                witness = beside if beside.exists() else mark_path(path)
                raise DamagedError(f"{path}: missing, though {witness.name} is there; --accept-loss starts without it")
        except DamagedError as error:
            if not accept_loss:
                raise
            log.warning("%s", error)
            log.warning("%s", salvage(path, marked, secrets.token_bytes(16)))
            return examine(path, Mark.read(mark_path(path)))
        return self._first()

    def _first(self) -> Examined:
        """Make an empty data file; it gets its name only when complete, so a death half-way leaves none."""
        draft = self.path.with_name(self.path.name + ".new")
        database = secrets.token_bytes(16)
        create(draft, database)
        with contextlib.closing(Mark(mark_path(self.path))) as mark:
            mark.write(database, 0, Contents())
        draft.rename(self.path)
        return Examined(database, Contents(), Contents(), 0)

    def _begin(self, found: Examined, power_safe: bool) -> None:
        """Set the connection up and bring the mark in line with what was found."""
        run = self._connection.execute
        run("PRAGMA journal_mode=WAL")
        run(f"PRAGMA synchronous={'FULL' if power_safe else 'NORMAL'}")
        run("PRAGMA wal_autocheckpoint=0")
        self._contents, self._top = found.contents, found.top
        self.compacted = found.contents.compacted
        database = found.database
        self._database = database if database is not None else secrets.token_bytes(16)
        self._mark.write(self._database, found.top, self._contents)
        if database is None:  # a file of format 1; in format 2 it is compared with its mark
            run("BEGIN IMMEDIATE")
            run("INSERT OR REPLACE INTO meta VALUES ('database', ?)", (self._database.hex(),))
            run(f"PRAGMA user_version={FORMAT}")
            run("COMMIT")

    def rows(self) -> Iterator[LogRow]:
        """Yield every kept change in revision order."""
        cursor = self._connection.execute(
            "SELECT revision, resource, namespace, name, deleted, body FROM changes ORDER BY revision"
        )
        for revision, resource, namespace, name, deleted, body in cursor:
            yield LogRow(revision, resource, namespace, name, bool(deleted), body)

    def append(self, rows: Sequence[LogRow]) -> None:
        """Write ``rows`` in one transaction, then the mark; on failure nothing of them is kept."""
        summed = [(row, zlib.crc32(row.body)) for row in rows]
        self._commit("written", lambda: insert(self._connection, summed))
        self._note(rows[-1].revision, self._contents.plus(digest_of(row, crc) for row, crc in summed))
        self._appended += _COMMIT_BYTES + sum(len(row.body) for row in rows)

    def compact(self, revision: int, superseded: Iterable[LogRow]) -> None:
        """Delete superseded rows and move the start of history, in one transaction."""
        gone = list(superseded)
        before = self._contents
        after = before.minus(revision, (digest_of(row, zlib.crc32(row.body)) for row in gone))
        top = self._top

        def delete() -> None:
            run = self._connection
            done = run.executemany("DELETE FROM changes WHERE revision = ?", [(row.revision,) for row in gone])
            if done.rowcount != len(gone):
                raise sqlite3.DatabaseError(f"{len(gone)} rows should go, {done.rowcount} are there")
            run.execute("UPDATE meta SET value = ? WHERE key = 'compacted'", (str(revision),))

        self._note(top, before, after)
        try:
            self._commit("compacted", delete)
        except StorageError:
            self._note(top, before)
            raise
        self._note(top, after)
        self._appended += _COMMIT_BYTES
        self.compacted = revision

    def _commit(self, done: str, work: Callable[[], None]) -> None:
        """Do ``work`` in a transaction; raises StorageError, and then nothing was changed."""
        if self._failed is not None:
            raise self._failed
        run = self._connection.execute
        try:
            run("BEGIN IMMEDIATE")
            work()
            run("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                run("ROLLBACK")
            raise StorageError(f"{self.path}: cannot be {done} ({error})") from error

    def _note(self, revision: int, contents: Contents, after: Contents | None = None) -> None:
        """Write the mark. If that fails, the file is ahead of it and nothing more is written: a start puts it right."""
        try:
            self._mark.write(self._database, revision, contents, after)
            if self._power_safe:
                self._mark.sync()
        except OSError as error:
            self._failed = StorageError(f"{self._mark.path}: cannot be written ({error.strerror}); nothing more is")
            raise self._failed from error
        self._contents, self._top = contents, revision

    def checkpoint_due(self) -> bool:
        """Return whether more than ``CHECKPOINT_BYTES`` were appended since the last copy."""
        return self._appended > CHECKPOINT_BYTES

    def checkpoint(self) -> None:
        """Copy the WAL back without hindering the writer; a busy WAL is copied next time."""
        if self._closed or not self._appended:
            return
        self._appended = 0
        try:
            _, frames, _ = self._copier.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            if frames * _PAGE > WAL_BYTES:
                # A writer that never pauses never lets the passive form start the WAL afresh. Almost all is
                # copied by now, so this holds up the writer for little more than one fsync.
                self._copier.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._mark.sync()  # after the log, which is on disk by now up to where it was copied
        except (sqlite3.Error, OSError) as error:
            raise StorageError(f"{self.path}: cannot be checkpointed ({error})") from error

    def close(self) -> None:
        """Fold the WAL into the file and release the lock."""
        if self._closed:
            return
        self._closed = True
        self._opened.close()
