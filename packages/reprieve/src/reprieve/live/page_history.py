"""Pictures of the cluster at preemptions, and the page as of a time in the past (page.md 11).

Invariants: every preemption has a picture, unless the store loses some or there are more pods than the page shows. A
picture has what has changed since the one before; one of everything is taken when there are many of these, and takes at
most a fiftieth of a core. Encoding one does not hold up the scheduling loop.
"""

from __future__ import annotations

import asyncio
import math
import zlib
from collections.abc import Callable
from typing import Final

import msgspec

from kube_rules.durations import readable_time
from reprieve.decisions.records import DecisionRecord
from reprieve.observability.store import HistoryStore
from reprieve.page.builder import with_decisions
from reprieve.page.documents import ClusterTables, PageDocument
from reprieve.page.pictures import Picture, PictureTaker, merged
from reprieve.page.queue_view import LatestRecord
from reprieve.scheduling.engine import Engine

MOST_SHARE: Final = 0.02
"""Of a core: what taking pictures of everything may take."""
FEW_CHANGES: Final = 32
MOST_CHANGES: Final = 1_000
"""Pictures of changes after one of everything, where its turn has come and where not: all are read for a moment."""
_LEVEL: Final = 1
_ROUNDED: Final = 0.001
"""Seconds: the time of a record is that of its picture, rounded."""
_APART: Final = 1e-6
"""Seconds between pictures of one moment."""


class PageHistory:
    """See the module docstring. `clock`: seconds that grow; `latest`: the newest record of what waits."""

    def __init__(self, store: HistoryStore, clock: Callable[[], float], latest: LatestRecord) -> None:
        self._store = store
        self._clock = clock
        self._latest = latest
        self._taker: PictureTaker | None = None
        self._due = -math.inf
        self._last = -math.inf
        self._since_whole = 0
        self._lost = 0
        self._encoding: set[asyncio.Future[None]] = set()

    def take(self, engine: Engine, now: float) -> None:
        """Take a picture of an engine. Called on the scheduling loop after each preemption."""
        if self._taker is None:
            self._taker = PictureTaker(engine, self._latest)
        began, lost = self._clock(), self._store.pictures_lost
        picture = None
        if self._continues(began, lost):
            picture = self._taker.changed(self._last)
            self._since_whole += 1
        if picture is None:
            if began < self._due and (lost != self._lost or not self._taker.tells_changes):
                return
            picture, self._since_whole, self._lost = self._taker.whole(), 0, lost
            self._due = began + (self._clock() - began) / MOST_SHARE
        self._last = max(now, self._last + _APART)
        encoding = asyncio.get_running_loop().run_in_executor(None, self._keep, picture, self._last)
        self._encoding.add(encoding)
        encoding.add_done_callback(self._encoding.discard)

    def _continues(self, began: float, lost: int) -> bool:
        """Return whether a picture of changes is wanted: there are some before it, not too many, all of them kept."""
        few = self._since_whole < FEW_CHANGES or (began < self._due and self._since_whole < MOST_CHANGES)
        return few and lost == self._lost and math.isfinite(self._last)

    def _keep(self, picture: Picture, now: float) -> None:
        self._store.put_picture(now, zlib.compress(msgspec.json.encode(picture), _LEVEL))

    async def page(self, at: float) -> PageDocument | None:
        """Return the page as of a time (seconds since 1970): the last picture up to then, and the preemptions before.

        None where there is none so old, or a part of it is not kept. Raises RecordsAwayError.
        """
        found = await self._store.picture(at + _ROUNDED)
        if found is None:
            return None
        time = found[0]
        pictures = [await asyncio.to_thread(_decoded, found[1])]
        while (after := pictures[-1].after) is not None:
            found = await self._store.picture(after)
            if found is None or found[0] != after:
                return None
            pictures.append(await asyncio.to_thread(_decoded, found[1]))
        decisions = await self._store.evictions(0.0, at + _ROUNDED)
        return await asyncio.to_thread(_past, time, pictures, decisions)


def _decoded(body: bytes) -> Picture:
    text = zlib.decompress(body)
    try:
        return msgspec.json.decode(text, type=Picture)
    except msgspec.ValidationError:  # of a version without the queue
        return Picture(cluster=msgspec.json.decode(text, type=ClusterTables))


def _past(time: float, pictures: list[Picture], decisions: list[DecisionRecord]) -> PageDocument:
    seen = merged(pictures)
    document = PageDocument(
        time=readable_time(time),
        cluster=seen.cluster,
        queue=seen.queue,
        queue_total=seen.queue_total,
        reservations=seen.reservations,
        past=True,
    )
    return with_decisions(document, decisions)
