"""Where decision records are kept: bounded, in memory or in an SQLite file that survives restarts and kill -9.

Bounds: a number of records and a number of bytes.  When one is reached, the oldest records that a newer record of the
same entity supersedes are removed first.  Only when there are none of these are last records of entities removed, the
oldest first.  So pending workloads can be explained however much else happens.

The file is written by one thread in batches (WAL, synchronous NORMAL: what was committed survives the process, a power
cut may cost the last moments), so the scheduling loop never waits for a disk.

Invariants: `put` returns at once and does not fail; a file that is broken is set aside and a new one begun, one that
was something else before is refused; a record is in the file whole or not at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol

from reprieve.decisions.records import DecisionRecord, decode, encode
from reprieve.observability.database.location import RecordsDatabase

Name = tuple[str, str, str]
"""(kind, namespace, name)."""
Trouble = Callable[[str], None]
Lost = Callable[[int], None]

MOST_FOUND: Final = 20
MOST_EVICTIONS: Final = 1_000
_VERSION: Final = 1
_BATCH: Final = 200
_QUEUE: Final = 10_000
_NAME_BYTES: Final = 120
"""What finding a record by one more name costs, about."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is kept."""

    records: int = 5_000
    bytes: int = 64 * 1024 * 1024


class RecordStore(Protocol):
    """What keeps records. `put` with an id that is there replaces that record."""

    def next_id(self) -> int:
        """Return a number above all given out before."""

    def put(self, record: DecisionRecord, involved: Sequence[Name]) -> None:
        """Keep a record, to be found under each of the names."""

    async def find(self, kind: str, namespace: str, name: str) -> list[DecisionRecord]:
        """Records about an object, newest first, at most `MOST_FOUND`; those put before this call are there."""

    def close(self) -> None:
        """Write what is not written. Nothing may be put afterwards."""


class HistoryStore(RecordStore, Protocol):
    """What keeps records and answers for the past."""

    async def evictions(self, since: float) -> list[DecisionRecord]:
        """Records of preemptions from then on (seconds since 1970), newest first; no more than `MOST_EVICTIONS`."""


def open_store(
    path: Path | RecordsDatabase | None,
    *,
    bounds: Bounds = Bounds(),
    trouble: Trouble = lambda _: None,
    lost: Lost = lambda _: None,
) -> HistoryStore:
    """Return a store in a database or a file, or in memory where there is none.

    From any thread `trouble` is called with what went wrong, and `lost` with how many records were lost by it.
    Raises OSError where the file cannot be opened or made, or is something else, and RecordsError for a database that
    cannot be used (`reprieve.observability.database`).
    """
    if isinstance(path, RecordsDatabase):
        from reprieve.observability.database.store import DatabaseStore

        return DatabaseStore(path, trouble=trouble, lost=lost)
    return MemoryStore(bounds) if path is None else FileStore(path, bounds, trouble=trouble, lost=lost)


# -- in memory -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Kept:
    entity: Name
    body: bytes
    involved: tuple[Name, ...]

    @property
    def size(self) -> int:
        return len(self.body) + _NAME_BYTES * len(self.involved)


class MemoryStore:
    """Records of this process only."""

    def __init__(self, bounds: Bounds = Bounds()) -> None:
        self._bounds = bounds
        self._superseded: OrderedDict[int, _Kept] = OrderedDict()
        self._last: OrderedDict[int, _Kept] = OrderedDict()
        self._last_of: dict[Name, int] = {}
        self._by_name: dict[Name, dict[int, None]] = {}
        self._id = 0
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._superseded) + len(self._last)

    def next_id(self) -> int:
        """See `RecordStore`."""
        self._id += 1
        return self._id

    def put(self, record: DecisionRecord, involved: Sequence[Name]) -> None:
        """See `RecordStore`."""
        entity = (record.entity.kind, record.entity.namespace, record.entity.name)
        kept = _Kept(entity, encode(record), tuple(involved))
        self._forget(record.id)
        before = self._last_of.get(entity)
        if before is not None and before < record.id:
            self._superseded[before] = self._last.pop(before)
        if before is not None and before > record.id:
            self._superseded[record.id] = kept
        else:
            self._last[record.id] = kept
            self._last_of[entity] = record.id
        self.bytes += kept.size
        for name in kept.involved:
            self._by_name.setdefault(name, {})[record.id] = None
        while len(self) > 1 and (len(self) > self._bounds.records or self.bytes > self._bounds.bytes):
            self._forget(next(iter(self._superseded or self._last)))

    async def evictions(self, since: float) -> list[DecisionRecord]:
        """Records of preemptions from then on (seconds since 1970), newest first; no more than `MOST_EVICTIONS`."""
        ids = sorted((*self._last, *self._superseded), reverse=True)
        bodies = [(self._last.get(item) or self._superseded[item]).body for item in ids]
        return await asyncio.to_thread(_evictions, bodies, since)  # they may be as many bytes as there is room for

    async def find(self, kind: str, namespace: str, name: str) -> list[DecisionRecord]:
        """See `RecordStore`."""
        ids = sorted(self._by_name.get((kind, namespace, name), ()), reverse=True)[:MOST_FOUND]
        return [decode((self._last.get(item) or self._superseded[item]).body) for item in ids]

    def close(self) -> None:
        """Nothing is left to do."""

    def _forget(self, number: int) -> None:
        kept = self._superseded.pop(number, None)
        if kept is None:
            kept = self._last.pop(number, None)
            if kept is None:
                return
            del self._last_of[kept.entity]
        self.bytes -= kept.size
        for name in kept.involved:
            ids = self._by_name[name]
            del ids[number]
            if not ids:
                del self._by_name[name]


# -- in a file -------------------------------------------------------------------------------------

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS record (
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    latest INTEGER NOT NULL, size INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS record_age ON record (latest, id);
CREATE INDEX IF NOT EXISTS record_entity ON record (kind, namespace, name, latest);
CREATE TABLE IF NOT EXISTS involved (
    kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, record INTEGER NOT NULL,
    PRIMARY KEY (kind, namespace, name, record)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS involved_record ON involved (record);
"""
_MAGIC: Final = b"SQLite format 3\0"
_Put = tuple[int, Name, bytes, tuple[Name, ...]]


class FileStore:
    """Records in an SQLite file that only its owner may read."""

    def __init__(
        self,
        path: Path,
        bounds: Bounds = Bounds(),
        *,
        trouble: Trouble = lambda _: None,
        lost: Lost = lambda _: None,
    ) -> None:
        self._path = path
        self._bounds = bounds
        self._trouble = trouble
        self._lost = lost
        self._waiting: deque[_Put] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._put = 0
        self._done = 0
        self.dropped = 0
        """Records that could not be kept."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._connection = _open(path, trouble)
        self._id = int(self._connection.execute("SELECT coalesce(max(id), 0) FROM record").fetchone()[0])
        count, size = self._connection.execute("SELECT count(*), coalesce(sum(size), 0) FROM record").fetchone()
        self._count, self._bytes = int(count), int(size)
        self._thread = threading.Thread(target=self._run, name="decision-records", daemon=True)
        self._thread.start()

    def next_id(self) -> int:
        """See `RecordStore`."""
        self._id += 1
        return self._id

    def put(self, record: DecisionRecord, involved: Sequence[Name]) -> None:
        """See `RecordStore`. Where the disk does not keep up the oldest that wait are dropped, and counted."""
        entity = (record.entity.kind, record.entity.namespace, record.entity.name)
        item = (record.id, entity, encode(record), tuple(involved))
        with self._changed:
            if self._closing:
                self._drop(1)
                return
            self._waiting.append(item)
            self._put += 1
            if len(self._waiting) > _QUEUE:
                self._waiting.popleft()
                self._done += 1
                self._drop(1)
            self._changed.notify_all()

    async def find(self, kind: str, namespace: str, name: str) -> list[DecisionRecord]:
        """See `RecordStore`."""
        return await asyncio.to_thread(self._find, (kind, namespace, name))

    def flush(self) -> None:
        """Wait until what was put before is in the file or given up."""
        with self._changed:
            wanted = self._put
            self._changed.wait_for(lambda: self._done >= wanted)

    def close(self) -> None:
        """See `RecordStore`."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        self._connection.close()

    async def evictions(self, since: float) -> list[DecisionRecord]:
        """Records of preemptions from then on (seconds since 1970), newest first; no more than `MOST_EVICTIONS`."""
        await asyncio.to_thread(self.flush)
        return await asyncio.to_thread(evictions_in_file, self._path, since)

    def _find(self, name: Name) -> list[DecisionRecord]:
        self.flush()
        return find_in_file(self._path, *name)

    def _run(self) -> None:
        failing, lost = "", 0  # reported once, not with every batch: a full disk stays full for long
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                if not self._waiting:
                    return
                batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _BATCH))]
            try:
                with self._connection:
                    self._write(batch)
            except sqlite3.Error as error:
                self._drop(len(batch))
                lost += len(batch)
                self._recount()
                if str(error) != failing:
                    failing = str(error)
                    self._trouble(f"decision records are not kept: {failing}")
            else:
                if failing:
                    self._trouble(f"decision records are kept again; lost: {lost}")
                failing, lost = "", 0
            with self._changed:
                self._done += len(batch)
                self._changed.notify_all()

    def _drop(self, count: int) -> None:
        with self._changed:
            self.dropped += count
        self._lost(count)

    def _write(self, batch: Sequence[_Put]) -> None:
        connection = self._connection
        for number, entity, body, involved in batch:
            self._delete([number])
            newer = connection.execute(
                "SELECT 1 FROM record WHERE kind = ? AND namespace = ? AND name = ? AND latest = 1 AND id > ?",
                (*entity, number),
            ).fetchone()
            if newer is None:
                connection.execute(
                    "UPDATE record SET latest = 0 WHERE kind = ? AND namespace = ? AND name = ? AND latest = 1", entity
                )
            size = len(body) + _NAME_BYTES * len(involved)
            connection.execute(
                "INSERT INTO record (id, kind, namespace, name, latest, size, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (number, *entity, newer is None, size, body),
            )
            connection.executemany(
                "INSERT INTO involved (kind, namespace, name, record) VALUES (?, ?, ?, ?)",
                [(*name, number) for name in involved],
            )
            self._count += 1
            self._bytes += size
        bounds = self._bounds
        while self._count > 1 and (self._count > bounds.records or self._bytes > bounds.bytes):
            too_many = max(1, self._count - bounds.records)
            rows = connection.execute("SELECT id FROM record ORDER BY latest, id LIMIT ?", (too_many,)).fetchall()
            self._delete([row[0] for row in rows])

    def _delete(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            row = self._connection.execute("SELECT size FROM record WHERE id = ?", (number,)).fetchone()
            if row is not None:
                self._connection.execute("DELETE FROM involved WHERE record = ?", (number,))
                self._connection.execute("DELETE FROM record WHERE id = ?", (number,))
                self._count -= 1
                self._bytes -= row[0]

    def _recount(self) -> None:
        """After a batch that was taken back."""
        with contextlib.suppress(sqlite3.Error):
            row = self._connection.execute("SELECT count(*), coalesce(sum(size), 0) FROM record").fetchone()
            self._count, self._bytes = int(row[0]), int(row[1])


def _open(path: Path, trouble: Trouble) -> sqlite3.Connection:
    _refuse_foreign(path)
    try:
        return _connect(path)
    except sqlite3.OperationalError as error:  # in use, or on a disk that fails: not ours to move away
        raise OSError(f"{path}: {error}") from None
    except sqlite3.DatabaseError as error:
        aside = path.with_name(f"{path.name}.broken")
        trouble(f"{path}: {error}; set aside as {aside.name}")
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        os.replace(path, aside)
        return _connect(path)


def _refuse_foreign(path: Path) -> None:
    """Raise OSError for a file named by mistake: a text file, or the database of another program."""
    try:
        with path.open("rb") as file:
            begins = file.read(512)
    except FileNotFoundError:
        return
    if begins.startswith(_MAGIC):
        with contextlib.suppress(sqlite3.DatabaseError), _reading(path) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if tables and "record" not in tables:
                raise OSError(f"{path}: a database, but not of decision records")
    elif begins and begins.isascii() and b"\0" not in begins:
        raise OSError(f"{path}: not a file of decision records")


def _connect(path: Path) -> sqlite3.Connection:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    connection = sqlite3.connect(path, check_same_thread=False)
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, _VERSION):
            raise sqlite3.DatabaseError(f"of another version ({version})")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.executescript(_SCHEMA)
        connection.execute(f"PRAGMA user_version = {_VERSION}")
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        yield connection
    finally:
        connection.close()


def find_in_file(path: Path, kind: str, namespace: str, name: str) -> list[DecisionRecord]:
    """Records about an object in a file that may be in use, newest first.

    Raises sqlite3.Error where there is no such file or it is not one of ours.
    """
    with _reading(path) as connection:
        rows = connection.execute(
            "SELECT body FROM record JOIN involved ON involved.record = record.id "
            "WHERE involved.kind = ? AND involved.namespace = ? AND involved.name = ? ORDER BY id DESC LIMIT ?",
            (kind, namespace, name, MOST_FOUND),
        ).fetchall()
    return [decode(row[0]) for row in rows]


def evictions_in_file(path: Path, since: float) -> list[DecisionRecord]:
    """Records of preemptions from then on (seconds since 1970), in a file that may be in use, newest first.

    No more than `MOST_EVICTIONS`. Raises sqlite3.Error where there is no such file or it is not one of ours.
    """
    with _reading(path) as connection:
        rows = connection.execute("SELECT body FROM record ORDER BY id DESC")
        return _evictions((row[0] for row in rows), since)


def _evictions(bodies: Iterable[bytes], since: float) -> list[DecisionRecord]:
    """Of records, newest first, those that preempt."""
    result = []
    for body in bodies:
        if b'"preemption":{' not in body:
            continue  # most attempts evict no pods: they are not worth reading
        record = decode(body)
        if record.preemption is not None and datetime.fromisoformat(record.time).timestamp() >= since:
            result.append(record)
            if len(result) == MOST_EVICTIONS:
                break
    return result
