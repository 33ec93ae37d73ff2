"""Interfaces of record stores, and the in-memory store. `database.store` uses a file or a database.

The in-memory store is limited by number of records and by bytes. At a limit, the oldest records superseded by a newer
record of the same entity are removed first. Only if there are none, the last records of entities are removed, oldest
first. So pending workloads can be explained regardless of other activity.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from reprieve.decisions.records import DecisionRecord, decode, encode

Name = tuple[str, str, str]
"""(kind, namespace, name)."""
Lost = Callable[[int], None]

MOST_FOUND: Final = 20
MOST_EVICTIONS: Final = 1_000
_MOST_PICTURES: Final = 4_096
NAME_BYTES: Final = 120
"""Approximate cost in bytes of an additional name for a record."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of the in-memory store."""

    records: int = 5_000
    bytes: int = 64 * 1024 * 1024


class RecordStore(Protocol):
    """Stores records. `put` with an existing id replaces that record."""

    def next_id(self) -> int:
        """Return a number higher than all previous ones."""

    def put(self, record: DecisionRecord, involved: Sequence[Name]) -> None:
        """Store a record under each of the names."""

    async def find(self, kind: str, namespace: str, name: str) -> list[DecisionRecord]:
        """Return up to `MOST_FOUND` records about an object, newest first, including all those stored before."""

    def close(self) -> None:
        """Write all waiting records. Nothing may be stored afterwards."""


class HistoryStore(RecordStore, Protocol):
    """Stores records and answers queries about the past."""

    async def evictions(self, since: float, until: float = math.inf) -> list[DecisionRecord]:
        """Return up to `MOST_EVICTIONS` preemptions in the period (seconds since 1970), newest first."""

    @property
    def pictures_lost(self) -> int:
        """Return the number of snapshots that could not be stored."""

    def put_picture(self, time: float, body: bytes) -> None:
        """Store a snapshot of the cluster at a time (seconds since 1970). Thread-safe."""

    async def picture(self, at: float) -> tuple[float, bytes] | None:
        """Return the last snapshot of the cluster taken no later than `at`, with its time."""


@dataclass(frozen=True, slots=True)
class _StoredBody:
    entity: Name
    body: bytes
    involved: tuple[Name, ...]

    @property
    def size(self) -> int:
        return len(self.body) + NAME_BYTES * len(self.involved)


class MemoryStore:
    """Stores the records of this process in memory."""

    def __init__(self, bounds: Bounds = Bounds()) -> None:
        self._bounds = bounds
        self._superseded: OrderedDict[int, _StoredBody] = OrderedDict()
        self._last: OrderedDict[int, _StoredBody] = OrderedDict()
        self._last_of: dict[Name, int] = {}
        self._by_name: dict[Name, dict[int, None]] = {}
        self._pictures: deque[tuple[float, bytes]] = deque()
        self._picture_bytes = 0
        self._lock = threading.Lock()
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
        entry = _StoredBody(entity, encode(record), tuple(involved))
        self._forget(record.id)
        before = self._last_of.get(entity)
        if before is not None and before < record.id:
            self._superseded[before] = self._last.pop(before)
        if before is not None and before > record.id:
            self._superseded[record.id] = entry
        else:
            self._last[record.id] = entry
            self._last_of[entity] = record.id
        self.bytes += entry.size
        for name in entry.involved:
            self._by_name.setdefault(name, {})[record.id] = None
        while len(self) > 1 and (len(self) > self._bounds.records or self.bytes > self._bounds.bytes):
            self._forget(next(iter(self._superseded or self._last)))

    async def evictions(self, since: float, until: float = math.inf) -> list[DecisionRecord]:
        """See `HistoryStore`."""
        ids = sorted((*self._last, *self._superseded), reverse=True)
        bodies = [(self._last.get(item) or self._superseded[item]).body for item in ids]
        # In a thread, as decoding all bodies may take long.
        return await asyncio.to_thread(_evictions, bodies, since, until)

    async def find(self, kind: str, namespace: str, name: str) -> list[DecisionRecord]:
        """See `RecordStore`."""
        ids = sorted(self._by_name.get((kind, namespace, name), ()), reverse=True)[:MOST_FOUND]
        return [decode((self._last.get(item) or self._superseded[item]).body) for item in ids]

    @property
    def pictures_lost(self) -> int:
        """Return 0, as snapshots are only removed for lack of memory."""
        return 0

    def put_picture(self, time: float, body: bytes) -> None:
        """See `HistoryStore`."""
        with self._lock:
            self._pictures.append((time, body))
            self._picture_bytes += len(body)
            while len(self._pictures) > _MOST_PICTURES or self._picture_bytes > self._bounds.bytes // 2:
                self._picture_bytes -= len(self._pictures.popleft()[1])

    async def picture(self, at: float) -> tuple[float, bytes] | None:
        """See `HistoryStore`."""
        with self._lock:
            return max((snapshot for snapshot in self._pictures if snapshot[0] <= at), default=None)

    def close(self) -> None:
        """Do nothing, as nothing waits to be written."""

    def _forget(self, number: int) -> None:
        entry = self._superseded.pop(number, None)
        if entry is None:
            entry = self._last.pop(number, None)
            if entry is None:
                return
            del self._last_of[entry.entity]
        self.bytes -= entry.size
        for name in entry.involved:
            ids = self._by_name[name]
            del ids[number]
            if not ids:
                del self._by_name[name]


def _evictions(bodies: Iterable[bytes], since: float, until: float) -> list[DecisionRecord]:
    """Return the records that preempt, in the given order (newest first)."""
    result = []
    for body in bodies:
        if b'"preemption":{' not in body:
            continue  # most attempts evict no pods: they are not worth reading
        record = decode(body)
        if record.preemption is not None and since <= datetime.fromisoformat(record.time).timestamp() <= until:
            result.append(record)
            if len(result) == MOST_EVICTIONS:
                break
    return result
