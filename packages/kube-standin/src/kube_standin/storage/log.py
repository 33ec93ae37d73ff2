"""The durable log of changes: one SQLite file in WAL mode, one row per change, nothing else.

The latest row of a key is the object's current state, so writing is one INSERT, and start-up is one scan in revision
order. Compaction deletes rows that a later row supersedes. Every row has a CRC-32 of its body, and the mark next to the
file (``mark``) the sum of all rows.

Invariants: rows that ``append`` has returned for survive the death of the process (kill -9), and a start that does not
find all of them reports that: by then the transaction is in the WAL file, and after it the mark was written. Against
loss of power ``synchronous=FULL`` is needed (parameter ``power_safe``); without it such a loss is detected. A file that
is damaged, foreign or of a newer format is refused before anything is written to it.
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
    FileExamination,
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
"""Number of appended bytes before the WAL is copied back into the main file."""

WAL_BYTES = 8 * 1024 * 1024
"""Maximum size of the WAL before it is restarted."""

_PAGE = 4096
_COMMIT_BYTES = 3 * _PAGE
"""Approximate bytes that a commit adds to the WAL besides the bodies, because whole pages are written."""


class CommitLog:
    """The interface of logs, and the log of ``:memory:``, which keeps nothing, so that a process holds each object
    once.
    """

    compacted = 0
    """Changes up to this revision may be missing from :meth:`rows`."""

    def rows(self) -> Iterator[LogRow]:
        """Yield the stored rows, in revision order."""
        return iter(())

    def append(self, rows: Sequence[LogRow]) -> None:
        """Make ``rows`` durable together; raises StorageError if that fails and nothing is written."""

    def compact(self, revision: int, superseded: Iterable[LogRow]) -> None:
        """Delete the given rows and record that history starts after ``revision``."""

    def checkpoint_due(self) -> bool:
        """Return whether enough was appended to copy the WAL back."""
        return False

    def checkpoint(self) -> None:
        """Copy the WAL back into the file; may run in another thread."""

    def close(self) -> None:
        """Release the file."""


def open_log(path: str | Path, *, power_safe: bool = False, accept_loss: bool = False) -> CommitLog:
    """Open the log at ``path``; ``:memory:`` keeps none. Raises StorageError without changing a refused file.

    With ``accept_loss`` a damaged log is replaced by its readable part (``recovery.salvage``).
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
    """Lock a data file against servers. Raises StorageError if one runs on it."""
    lock = _take_lock(path)
    try:
        yield
    finally:
        os.close(lock)


class SqliteLog(CommitLog):
    """The log in a file; see the module for its guarantees. A second process on the same file is refused."""

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
                examined = self._sound(accept_loss)
                self._mark = Mark(mark_path(path))
                opened.callback(self._mark.close)
                self._connection = sqlite3.connect(**connect_arguments(path))
                opened.callback(self._connection.close)
                self._begin(examined, power_safe)
                self._copier = sqlite3.connect(**connect_arguments(path))
            except sqlite3.Error as error:
                raise StorageError(f"{path}: cannot be opened ({error})") from error
            opened.callback(self._copier.close)
            self._resources = opened.pop_all()

    def _sound(self, accept_loss: bool) -> FileExamination:
        """Return the content of the file, created if missing; refuse or salvage a damaged file."""
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

    def _first(self) -> FileExamination:
        """Create an empty data file; it is renamed when complete, so that a crash leaves no partial file."""
        draft = self.path.with_name(self.path.name + ".new")
        database = secrets.token_bytes(16)
        create(draft, database)
        with contextlib.closing(Mark(mark_path(self.path))) as mark:
            mark.write(database, 0, Contents())
        draft.rename(self.path)
        return FileExamination(database, Contents(), Contents(), 0)

    def _begin(self, examined: FileExamination, power_safe: bool) -> None:
        """Set up the connection and update the mark to the content of the file."""
        run = self._connection.execute
        run("PRAGMA journal_mode=WAL")
        run(f"PRAGMA synchronous={'FULL' if power_safe else 'NORMAL'}")
        run("PRAGMA wal_autocheckpoint=0")
        self._contents, self._top = examined.contents, examined.top
        self.compacted = examined.contents.compacted
        database = examined.database
        self._database = database if database is not None else secrets.token_bytes(16)
        self._mark.write(self._database, examined.top, self._contents)
        if database is None:  # a file of format 1; in format 2 it is compared with its mark
            run("BEGIN IMMEDIATE")
            run("INSERT OR REPLACE INTO meta VALUES ('database', ?)", (self._database.hex(),))
            run(f"PRAGMA user_version={FORMAT}")
            run("COMMIT")

    def rows(self) -> Iterator[LogRow]:
        """Yield every stored change in revision order."""
        cursor = self._connection.execute(
            "SELECT revision, resource, namespace, name, deleted, body FROM changes ORDER BY revision"
        )
        for revision, resource, namespace, name, deleted, body in cursor:
            yield LogRow(revision, resource, namespace, name, bool(deleted), body)

    def append(self, rows: Sequence[LogRow]) -> None:
        """Write ``rows`` in one transaction, then the mark; on failure none of them is stored."""
        summed = [(row, zlib.crc32(row.body)) for row in rows]
        self._commit("written", lambda: insert(self._connection, summed))
        self._note(rows[-1].revision, self._contents.plus(digest_of(row, crc) for row, crc in summed))
        self._appended += _COMMIT_BYTES + sum(len(row.body) for row in rows)

    def compact(self, revision: int, superseded: Iterable[LogRow]) -> None:
        """Delete superseded rows and move the start of history, in one transaction."""
        removed = list(superseded)
        before = self._contents
        after = before.minus(revision, (digest_of(row, zlib.crc32(row.body)) for row in removed))
        top = self._top

        def delete() -> None:
            run = self._connection
            done = run.executemany("DELETE FROM changes WHERE revision = ?", [(row.revision,) for row in removed])
            if done.rowcount != len(removed):
                raise sqlite3.DatabaseError(f"{len(removed)} rows should go, {done.rowcount} are there")
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
        """Run ``work`` in a transaction; raises StorageError, and then nothing was changed."""
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
        """Write the mark. If that fails, the file is ahead of it and nothing more is written; a restart repairs it."""
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
        """Copy the WAL back without blocking the writer; a busy WAL is copied next time."""
        if self._closed or not self._appended:
            return
        self._appended = 0
        try:
            _, frames, _ = self._copier.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            if frames * _PAGE > WAL_BYTES:
                # With a writer that never pauses, the passive form never restarts the WAL. Almost everything is copied
                # by now, so this blocks the writer for little more than one fsync.
                self._copier.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._mark.sync()  # after the log, which is now on disk up to the copied part
        except (sqlite3.Error, OSError) as error:
            raise StorageError(f"{self.path}: cannot be checkpointed ({error})") from error

    def close(self) -> None:
        """Merge the WAL into the file and release the lock."""
        if self._closed:
            return
        self._closed = True
        self._resources.close()
