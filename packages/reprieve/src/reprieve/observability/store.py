"""What keeps decision records, and the store in memory; `database.store` keeps them in a file or a database.

Bounds in memory: a number of records and a number of bytes.  When one is reached, the oldest records that a newer
record of the same entity supersedes are removed first.  Only when there are none of these are last records of entities
removed, the oldest first.  So pending workloads can be explained however much else happens.
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

    async def evictions(self, since: float, until: float = math.inf) -> list[DecisionRecord]:
        """Records of preemptions in that time (seconds since 1970), newest first; no more than `MOST_EVICTIONS`."""

    @property
    def pictures_lost(self) -> int:
        """How many pictures could not be kept."""

    def put_picture(self, time: float, body: bytes) -> None:
        """Keep a picture of the cluster at a time (seconds since 1970). Thread-safe."""

    async def picture(self, at: float) -> tuple[float, bytes] | None:
        """The last picture of the cluster up to a time, and its time."""


@dataclass(frozen=True, slots=True)
class _Kept:
    entity: Name
    body: bytes
    involved: tuple[Name, ...]

    @property
    def size(self) -> int:
        return len(self.body) + NAME_BYTES * len(self.involved)


class MemoryStore:
    """Records of this process only."""

    def __init__(self, bounds: Bounds = Bounds()) -> None:
        self._bounds = bounds
        self._superseded: OrderedDict[int, _Kept] = OrderedDict()
        self._last: OrderedDict[int, _Kept] = OrderedDict()
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

    async def evictions(self, since: float, until: float = math.inf) -> list[DecisionRecord]:
        """See `HistoryStore`."""
        ids = sorted((*self._last, *self._superseded), reverse=True)
        bodies = [(self._last.get(item) or self._superseded[item]).body for item in ids]
        return await asyncio.to_thread(
            _evictions, bodies, since, until
        )  # they may be as many bytes as there is room for

    async def find(self, kind: str, namespace: str, name: str) -> list[DecisionRecord]:
        """See `RecordStore`."""
        ids = sorted(self._by_name.get((kind, namespace, name), ()), reverse=True)[:MOST_FOUND]
        return [decode((self._last.get(item) or self._superseded[item]).body) for item in ids]

    @property
    def pictures_lost(self) -> int:
        """Return 0: they are kept until there is no room."""
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
            return max((found for found in self._pictures if found[0] <= at), default=None)

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


def _evictions(bodies: Iterable[bytes], since: float, until: float) -> list[DecisionRecord]:
    """Of records, newest first, those that preempt."""
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
