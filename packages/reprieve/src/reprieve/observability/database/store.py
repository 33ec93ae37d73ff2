"""Decision records in a database or a file: written by a separate thread, spooled during outages (history.md).

Invariants: `put` returns immediately and never fails. A record may be written more than once but is stored once: of two
writes with the same id, the higher revision wins. Records that cannot be written now are spooled, and lost ones are
counted. Addresses, errors and log lines contain no passwords.
"""

from __future__ import annotations

import asyncio
import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from reprieve.decisions.records import DecisionRecord, decode
from reprieve.observability.database import queries
from reprieve.observability.database.files import refuse_unreadable, writing_engine
from reprieve.observability.database.location import (
    Address,
    RecordsAwayError,
    RecordsDatabase,
    RecordsError,
    engine_of,
    file_of,
    reason_of,
    shown,
)
from reprieve.observability.database.migrations import EMPTY, is_old_file, move, version_of
from reprieve.observability.database.spool import Spool, StoredRecord, stored
from reprieve.observability.store import Name

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

_BATCH: Final = 200
_QUEUE: Final = 20_000
_MOST_PICTURES: Final = 64
"""Maximum number of snapshots that wait to be written: they are large, and a later one serves as well."""
_EPOCH: Final = 1_577_836_800.0
"""2020-01-01, the start of the milliseconds in ids: they fit in 53 bits until 2037."""
_FLUSH_SECONDS: Final = 10.0
_SOON: Final = 1.0
_LONGEST_RETRY: Final = 30.0


class DatabaseStore:
    """See the module docstring.

    `retry`: seconds until the first retry during an outage, doubled each time. `retain_every`: seconds between two
    retention runs. Raises RecordsError if the database answers but cannot be used, for a bad address, and for a file
    that cannot be created. A database that does not answer is retried.
    """

    def __init__(
        self,
        database: RecordsDatabase,
        *,
        trouble: Callable[[str], None] = lambda text: None,
        lost: Callable[[int], None] = lambda count: None,
        retry: float = 0.5,
        retain_every: float = 600.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.database = database
        self._trouble = trouble
        self._lost = lost
        self._first_retry = retry
        self._clock = clock
        self._engine = writing_engine(database.address, trouble)
        self._spool = Spool(database.spool_directory, database.spool_bytes, lost=self._lost)
        self._waiting: deque[StoredRecord] = deque()
        self._pictures: deque[tuple[float, bytes]] = deque(maxlen=_MOST_PICTURES)
        self._changed = threading.Condition()
        self._closing = False
        self._put = 0
        self._done = 0
        self.pictures_lost = 0
        self._instance = random.SystemRandom().getrandbits(6)
        self._id = 0
        self._revision = 0
        self._prepared = False
        self._away = ""
        """Why the database is unavailable; empty if it answers."""
        self._retry, self._next_try = retry, 0.0
        self._retain_every = retain_every
        self._next_retention = time.monotonic() + retain_every
        try:
            self._prepare()
        except RecordsAwayError as error:
            self._is_away(error)
        except RecordsError:
            self._engine.dispose()
            raise
        self._thread = threading.Thread(target=self._run, name="decision-records", daemon=True)
        self._thread.start()

    # -- reprieve.observability.store.RecordStore ------------------------------------------------------

    def next_id(self) -> int:
        """Return a number higher than all previous ones, here or in processes that ended earlier."""
        milliseconds = int((self._clock() - _EPOCH) * 1000)
        self._id = max(self._id + 64, (milliseconds << 14) | self._instance)
        return self._id

    def put(self, record: DecisionRecord, involved: Sequence[Name]) -> None:
        """Store a record under each of the names."""
        self._revision = max(self._revision + 1, int(self._clock() * 1_000_000))
        row = stored(record, involved, self._revision)
        with self._changed:
            self._put += 1
            if self._closing:
                self._done += 1
                self._lost(1)
                return
            self._waiting.append(row)
            if len(self._waiting) > _QUEUE:
                self._waiting.popleft()
                self._done += 1
                self._lost(1)
            self._changed.notify_all()

    async def find(self, kind: str, namespace: str, name: str) -> list[DecisionRecord]:
        """Return records about an object, newest first. Raises RecordsAwayError."""
        return await asyncio.to_thread(self._read, queries.find, (kind, namespace, name))

    async def evictions(self, since: float, until: float = math.inf) -> list[DecisionRecord]:
        """Return records of preemptions in the period (seconds since 1970), newest first. Raises RecordsAwayError."""
        return await asyncio.to_thread(self._read, queries.evictions, (since, until))

    def put_picture(self, time: float, body: bytes) -> None:
        """Store a snapshot of the cluster. It is lost if the database is unavailable or too slow."""
        with self._changed:
            self.pictures_lost += len(self._pictures) == _MOST_PICTURES
            self._pictures.append((time, body))
            self._changed.notify_all()

    async def picture(self, at: float) -> tuple[float, bytes] | None:
        """Return the last snapshot of the cluster taken no later than `at`, with its time. Raises RecordsAwayError."""

        def read(connection: Connection) -> tuple[float, bytes] | None:
            return queries.picture(connection, self.database.cluster, at)

        result: tuple[float, bytes] | None = await asyncio.to_thread(self._read_raw, read)
        return result

    def close(self) -> None:
        """Write all waiting records to the database or the spool. Nothing may be stored afterwards."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        self._engine.dispose()

    # -- for operators ---------------------------------------------------------------------------------

    @property
    def spooled(self) -> int:
        """Return the number of records that wait on disk."""
        return self._spool.records

    @property
    def away(self) -> str:
        """Return why the database is unavailable; empty if it answers."""
        return self._away

    def flush(self, seconds: float = _FLUSH_SECONDS) -> bool:
        """Wait until earlier records are in the database, spooled or lost. Return whether that happened in time."""
        with self._changed:
            wanted = self._put
            return self._changed.wait_for(lambda: self._done >= wanted, seconds)

    # -- the thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._pictures or self._closing, self._idle_seconds())
                batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _BATCH))]
                ends = self._closing and not self._waiting
            if self._handle(batch) and ends and not self._waiting:
                return

    def _idle_seconds(self) -> float:
        """Return the maximum number of seconds to wait for work."""
        ends = self._next_retention
        if self._away or self._spool.records:
            ends = min(ends, self._next_try)
        return max(0.01, ends - time.monotonic())

    def _handle(self, batch: list[StoredRecord]) -> bool:
        """Write a batch or spool it. Return whether one of them succeeded."""
        try:
            if self._away and time.monotonic() < self._next_try:
                raise RecordsAwayError(self._away)
            self._prepare()
            while (spooled := self._spool.oldest()) is not None:
                self._write(spooled)
                self._spool.sent()
            if batch:
                self._write(batch)
            while self._pictures:
                self._write_picture(*self._pictures.popleft())
            if time.monotonic() >= self._next_retention:
                self._retain()
        except (RecordsAwayError, RecordsError) as error:
            self._is_away(error)
            self.pictures_lost += len(self._pictures)
            self._pictures.clear()
            return self._keep(batch)
        if self._away:
            self._trouble("decision records are written to the database again")
        self._away, self._retry = "", self._first_retry
        self._finished(len(batch))
        return True

    def _write_picture(self, at: float, body: bytes) -> None:
        cluster = self.database.cluster
        try:
            self._in_database(lambda connection: queries.write_picture(connection, cluster, at, body))
        except (RecordsAwayError, RecordsError):
            self.pictures_lost += 1
            raise

    def _keep(self, batch: list[StoredRecord]) -> bool:
        """Spool a batch. If that fails, the batch waits in memory."""
        try:
            if batch:
                self._spool.add(batch)
        except OSError as error:
            self._trouble(f"decision records cannot be spooled to {self.database.spool_directory}: {error.strerror}")
            with self._changed:
                if not self._closing:
                    self._waiting.extendleft(reversed(batch))
                    self._changed.wait(min(1.0, self._retry))
                    return False
            self._lost(len(batch))
        self._finished(len(batch))
        return True

    def _finished(self, count: int) -> None:
        with self._changed:
            self._done += count
            self._changed.notify_all()

    def _is_away(self, error: Exception) -> None:
        """Report each new reason once, and set the time of the next attempt."""
        if time.monotonic() >= self._next_try:
            self._next_try = time.monotonic() + self._retry
            self._retry = min(2 * self._retry, _LONGEST_RETRY)
        text = str(error)
        if text != self._away:
            self._away = text
            where = self.database.spool_directory
            self._trouble(f"decision records are spooled to {where}: {self.database}: {text}")

    # -- the database ----------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Migrate the schema to the newest version, once. Raises RecordsError, RecordsAwayError."""
        if not self._prepared:
            self._in_database(lambda connection: move(connection))
            self._prepared = True

    def _write(self, rows: Sequence[StoredRecord]) -> None:
        """Write a batch. If the database rejects its data, write each record separately."""
        from sqlalchemy.exc import DataError, IntegrityError

        cluster = self.database.cluster
        try:
            self._in_database(lambda connection: queries.write(connection, cluster, rows))
        except (DataError, IntegrityError) as error:
            if len(rows) == 1:
                self._trouble(f"decision record {rows[0].id} is rejected: {reason_of(error, self._engine.url)}")
                self._lost(1)
                return
            for row in rows:
                self._write([row])

    def _retain(self) -> None:
        """Delete expired records: some now, and the rest soon."""
        self._next_retention = time.monotonic() + self._retain_every
        deleted = self._in_database(lambda connection: queries.retain(connection, self.database, self._clock()))
        self._in_database(lambda connection: queries.retain_pictures(connection, self.database, self._clock()))
        if deleted >= queries.AT_ONCE:
            self._next_retention = time.monotonic() + _SOON

    def _read(self, query: Callable[[Connection, str | None, Any], list[bytes]], argument: Any) -> list[DecisionRecord]:
        cluster = self.database.cluster
        return [decode(body) for body in self._read_raw(lambda connection: query(connection, cluster, argument))]

    def _read_raw(self, read: Callable[[Connection], Any]) -> Any:
        self.flush()
        if self._away:
            raise RecordsAwayError(self._away)
        return self._in_database(read)

    def _in_database(self, act: Callable[[Connection], Any]) -> Any:
        return in_database(self._engine, act)


def in_database(engine: Engine, act: Callable[[Connection], Any]) -> Any:
    """Run a function in one transaction. Raises RecordsAwayError, and the exceptions of `act`."""
    from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError

    try:
        with engine.begin() as connection:
            return act(connection)
    except (DataError, IntegrityError):
        raise
    except SQLAlchemyError as error:
        raise RecordsAwayError(reason_of(error, engine.url)) from None


class DatabaseReader:
    """Reads records directly from a database or file, for one cluster or all (`cluster` None). It never writes.

    Raises RecordsError for a bad address.
    """

    def __init__(self, address: Address, cluster: str | None = None) -> None:
        self._engine = engine_of(address, writes=False)
        self._place = shown(address)
        self._cluster = cluster

    def find(self, kind: str, namespace: str, name: str) -> list[DecisionRecord]:
        """See `DatabaseStore.find`. Raises RecordsAwayError, RecordsError."""
        return self._read(queries.find, (kind, namespace, name))

    def evictions(self, since: float) -> list[DecisionRecord]:
        """See `DatabaseStore.evictions`. Raises RecordsAwayError, RecordsError."""
        return self._read(queries.evictions, (since, math.inf))

    def _read(self, query: Callable[[Connection, str | None, Any], list[bytes]], argument: Any) -> list[DecisionRecord]:
        def read(connection: Connection) -> list[bytes]:
            if version_of(connection) == EMPTY:
                if is_old_file(connection):
                    convert = f"`reprieve records migrate --records {self._place}`"
                    raise RecordsError(f"{self._place}: a file of an older reprieve; {convert} converts it")
                raise RecordsError(f"{self._place} has no decision records: has a scheduler used it yet?")
            return query(connection, self._cluster, argument)

        file = file_of(self._engine.url)
        try:
            if file is not None:
                refuse_unreadable(file)
            return [decode(body) for body in in_database(self._engine, read)]
        finally:
            self._engine.dispose()
