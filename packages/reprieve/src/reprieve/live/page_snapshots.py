"""Snapshots of the page for all watchers (page.md 7.3, 7.4): made once, encoded and compressed once.

Invariants: nothing is made while nothing is asked for; a snapshot is at least a second old, and fifty times as old as
making one took, before the next is made, so that it takes at most a fiftieth of a core; nothing here makes the
scheduling loop wait for more than the reading of the engine.
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
"""Of a core: what making snapshots may take."""
MOST_WATCHERS: Final = 100
MOST_READERS: Final = 16
"""Different rights of which the encoded form is kept."""
_LEVEL: Final = 1

ReadPage = Callable[[], Awaitable[PageDocument | None]]
"""Read the document from an engine at rest; None: it is busy."""


class BusyError(Exception):
    """There are as many watchers as there may be, or the scheduler decides without a pause."""


@dataclass(frozen=True, slots=True)
class EncodedPage:
    """The document as gzipped JSON, and its tag, which is another whenever the content is."""

    tag: str
    body: bytes


class PageSnapshots:
    """See the module docstring. `changed`: a value that differs whenever the engine's content may have changed."""

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
        """The server stops: watchers are to leave."""
        self.made = 0
        """How many were made."""
        self.seconds = 0.0
        """How long making them took, all together."""

    async def page(self, namespaces: frozenset[str] | None) -> EncodedPage:
        """Return the current page for a reader of these namespaces, None: of all. Raises BusyError."""
        async with self._lock:
            await self._renew()
            return await self._encode(namespaces)

    async def namespaces(self) -> list[str]:
        """Return the namespaces that the page names, sorted. Raises BusyError."""
        async with self._lock:
            await self._renew()
        return namespaces_of(self._document) if self._document is not None else []

    async def _renew(self) -> None:
        if self._document is not None and (self._clock() < self._due or self._changed() == self._seen):
            return
        began, seen = self._clock(), self._changed()
        document = await self._read()
        if document is None:
            if self._document is None:
                raise BusyError
            return
        self._document, self._seen = document, seen
        self._encoded.clear()
        await self._encode(None)
        took = self._clock() - began
        self.made += 1
        self.seconds += took
        self._due = began + max(LEAST_SECONDS, took / MOST_SHARE)

    async def _encode(self, namespaces: frozenset[str] | None) -> EncodedPage:
        known = self._encoded.get(namespaces)
        document = self._document
        if known is not None:
            self._encoded.move_to_end(namespaces)
            return known
        assert document is not None
        made = await asyncio.to_thread(encoded, document, namespaces)
        self._encoded[namespaces] = made
        if len(self._encoded) > MOST_READERS:
            self._encoded.popitem(last=False)
        return made

    # -- watchers ----------------------------------------------------------------------------------

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[Callable[[float], Awaitable[bool]]]:
        """Yield what waits for news for at most so many seconds, and returns whether there are. Raises BusyError."""
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
        """Let all watchers leave; there are no more."""
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
        """Make snapshots as long as there are watchers, when the last is old enough and something has changed."""
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
    """Return the namespaces that a document names, sorted."""
    if document.cluster is None:
        return []
    found = set(document.cluster.workloads.namespaces)
    found.update(item.namespace for item in document.queue)
    for record in document.records:
        found.add(record.entity.namespace)
        made = record.preemption
        units = (*made.evicted, *made.reprieved) if made is not None else ()
        found.update(unit.unit.partition("/")[0] for unit in units)
    return sorted(found)


def encoded(document: PageDocument, namespaces: frozenset[str] | None) -> EncodedPage:
    """Return a document as a reader of these namespaces gets it, None: of all."""
    shown = document if namespaces is None else visible(document, namespaces)
    body = msgspec.json.encode(shown)
    tag = hashlib.sha256(body).hexdigest()[:24]
    return EncodedPage(f'"{tag}"', gzip.compress(body, _LEVEL, mtime=0))
