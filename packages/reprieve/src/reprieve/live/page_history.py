"""Pictures of the cluster at preemptions, and the page as of a time in the past (page.md 11).

Invariant: taking pictures costs at most a fiftieth of a core, as snapshots of the page do; encoding one does not hold
up the scheduling loop.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from typing import Final

import msgspec

from kube_rules.durations import readable_time
from reprieve.decisions.records import DecisionRecord
from reprieve.observability.store import HistoryStore
from reprieve.page.builder import with_decisions
from reprieve.page.cluster_tables import tables_of
from reprieve.page.documents import ClusterTables, PageDocument
from reprieve.scheduling.engine import Engine

MOST_SHARE: Final = 0.02
"""Of a core: what taking pictures may take."""
_LEVEL: Final = 1
_ROUNDED: Final = 0.001
"""Seconds: the time of a record is that of its picture, rounded."""


class PageHistory:
    """See the module docstring. `clock`: seconds that grow."""

    def __init__(self, store: HistoryStore, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._due = float("-inf")
        self._encoding: set[asyncio.Future[None]] = set()

    def take(self, engine: Engine, now: float) -> None:
        """Take a picture of an engine, unless the last one was too short a time ago. Called on the scheduling loop."""
        began = self._clock()
        if began < self._due:
            return
        tables = tables_of(engine)
        self._due = began + (self._clock() - began) / MOST_SHARE
        encoding = asyncio.get_running_loop().run_in_executor(None, self._keep, tables, now)
        self._encoding.add(encoding)
        encoding.add_done_callback(self._encoding.discard)

    def _keep(self, tables: ClusterTables, now: float) -> None:
        self._store.put_picture(now, zlib.compress(msgspec.json.encode(tables), _LEVEL))

    async def page(self, at: float) -> PageDocument | None:
        """Return the page as of a time (seconds since 1970): the last picture up to then, and the preemptions before.

        None where there is none so old. Raises RecordsAwayError.
        """
        found = await self._store.picture(at + _ROUNDED)
        if found is None:
            return None
        time, body = found
        decisions = await self._store.evictions(0.0, at + _ROUNDED)
        return await asyncio.to_thread(_past, time, body, decisions)


def _past(time: float, body: bytes, decisions: list[DecisionRecord]) -> PageDocument:
    tables = msgspec.json.decode(zlib.decompress(body), type=ClusterTables)
    return with_decisions(PageDocument(time=readable_time(time), cluster=tables, past=True), decisions)
