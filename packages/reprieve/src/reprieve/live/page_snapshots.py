"""Snapshots of the page for all watchers (page.md 7.3, 7.4): created, encoded and compressed once for all.

Invariants: snapshots are created only on request. A new one is created when the last one is at least a second old, and
fifty times as old as its creation took, so that snapshots use at most a fiftieth of a core. The scheduling loop waits
only for the reading of the engine.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import msgspec

from reprieve.page.documents import PageDocument
from reprieve.page.rights import visible

LEAST_SECONDS: Final = 1.0
MOST_SHARE: Final = 0.02
"""The largest share of a core that snapshots may use."""
MOST_WATCHERS: Final = 100
MOST_READERS: Final = 16
"""The number of different access rights for which the encoded form is cached."""
_LEVEL: Final = 1

ReadPage = Callable[[], Awaitable[PageDocument | None]]
"""Reads the document from an engine at rest; None: the engine is busy."""


class BusyError(Exception):
    """Raised if the limit of watchers is reached, or the scheduler decides without a pause."""


@dataclass(frozen=True, slots=True)
class EncodedPage:
    """The document as gzipped JSON, and its tag, which changes with the content."""

    tag: str
    body: bytes


class PageSnapshots:
    """The snapshots of one engine. `changed`: a value that differs whenever the engine's content may have changed."""

    def __init__(self, read: ReadPage, changed: Callable[[], Hashable], clock: Callable[[], float]) -> None:
        self._read = read
        self._changed = changed
        self._clock = clock
        self._document: PageDocument | None = None
        self._seen: Hashable = None
        self._due = float("-inf")
        self._encoded: OrderedDict[frozenset[str] | None, EncodedPage] = OrderedDict()
        self._lock = asyncio.Lock()
        self._watchers = 0
        self._news = asyncio.Condition()
        self._follower: asyncio.Task[None] | None = None
        self.closed = False
        """Whether the server stops: watchers then disconnect."""
        self.made = 0
        """The number of snapshots created."""
        self.seconds = 0.0
        """The total time for creating snapshots, in seconds."""

    async def page(self, namespaces: frozenset[str] | None) -> EncodedPage:
        """Return the current page for a reader of these namespaces, None: of all. Raises BusyError."""
        async with self._lock:
            await self._renew()
            return await self._encode(namespaces)

    async def namespaces(self) -> list[str]:
        """Return the namespaces in the page, sorted. Raises BusyError."""
        async with self._lock:
            await self._renew()
        return namespaces_of(self._document) if self._document is not None else []

    async def _renew(self) -> None:
        if self._document is not None and (self._clock() < self._due or self._changed() == self._seen):
            return
        began, version = self._clock(), self._changed()
        document = await self._read()
        if document is None:
            if self._document is None:
                raise BusyError
            return
        self._document, self._seen = document, version
        self._encoded.clear()
        await self._encode(None)
        took = self._clock() - began
        self.made += 1
        self.seconds += took
        self._due = began + max(LEAST_SECONDS, took / MOST_SHARE)

    async def _encode(self, namespaces: frozenset[str] | None) -> EncodedPage:
        cached = self._encoded.get(namespaces)
        document = self._document
        if cached is not None:
            self._encoded.move_to_end(namespaces)
            return cached
        assert document is not None
        page = await asyncio.to_thread(encoded, document, namespaces)
        self._encoded[namespaces] = page
        if len(self._encoded) > MOST_READERS:
            self._encoded.popitem(last=False)
        return page

    # -- watchers ----------------------------------------------------------------------------------

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[Callable[[float], Awaitable[bool]]]:
        """Yield a function that waits some seconds for a new page and returns whether it came. Raises BusyError."""
        if self.closed or self._watchers >= MOST_WATCHERS:
            raise BusyError
        self._watchers += 1
        if self._follower is None:
            self._follower = asyncio.create_task(self._follow(), name="page")
        try:
            yield self._wait
        finally:
            self._watchers -= 1
            if not self._watchers and self._follower is not None:
                self._follower.cancel()
                self._follower = None

    async def close(self) -> None:
        """Disconnect all watchers and refuse new ones."""
        self.closed = True
        async with self._news:
            self._news.notify_all()

    async def _wait(self, seconds: float) -> bool:
        async with self._news:
            try:
                async with asyncio.timeout(seconds):
                    await self._news.wait()
            except TimeoutError:
                return False
        return True

    async def _follow(self) -> None:
        """Create snapshots while there are watchers, when the last is old enough and the engine has changed."""
        while True:
            await asyncio.sleep(max(LEAST_SECONDS, self._due - self._clock()))
            before = self.made
            async with self._lock:
                try:
                    await self._renew()
                except BusyError:
                    continue
            if self.made != before:
                async with self._news:
                    self._news.notify_all()


def namespaces_of(document: PageDocument) -> list[str]:
    """Return the namespaces in a document, sorted."""
    if document.cluster is None:
        return []
    namespaces = set(document.cluster.workloads.namespaces)
    namespaces.update(item.namespace for item in document.queue)
    for record in document.records:
        namespaces.add(record.entity.namespace)
        preemption = record.preemption
        units = (*preemption.evicted, *preemption.reprieved) if preemption is not None else ()
        namespaces.update(unit.unit.partition("/")[0] for unit in units)
    return sorted(namespaces)


def encoded(document: PageDocument, namespaces: frozenset[str] | None) -> EncodedPage:
    """Return a document for a reader of these namespaces, None: of all."""
    shown = document if namespaces is None else visible(document, namespaces)
    body = msgspec.json.encode(shown)
    tag = hashlib.sha256(body).hexdigest()[:24]
    return EncodedPage(f'"{tag}"', gzip.compress(body, _LEVEL, mtime=0))
