"""Pictures of the cluster at preemptions, and the page at a past time (page.md 11).

Invariants: every preemption has a picture, unless the store loses some or there are more pods than the page shows. A
picture has the changes since the previous one; after many of these a full one is taken. Full pictures use at most a
fiftieth of a core. Encoding a picture does not delay the scheduling loop.
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
"""The largest share of a core that full pictures may use."""
FEW_CHANGES: Final = 32
MOST_CHANGES: Final = 1_000
"""Pictures of changes after a full one: if a full one is due, and the limit. All are read for one moment."""
_LEVEL: Final = 1
_ROUNDED: Final = 0.001
"""Seconds by which the time of a record may differ from that of its picture, due to rounding."""
_APART: Final = 1e-6
"""Seconds between pictures of the same moment."""


class PageHistory:
    """The pictures of one cluster. `clock`: increasing seconds; `latest`: the newest record of a pending entity."""

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
        """Take a picture of an engine. The scheduling loop calls it after each preemption."""
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
        """Return whether a picture of changes is enough: it has predecessors, not too many, and none is lost."""
        few = self._since_whole < FEW_CHANGES or (began < self._due and self._since_whole < MOST_CHANGES)
        return few and lost == self._lost and math.isfinite(self._last)

    def _keep(self, picture: Picture, now: float) -> None:
        self._store.put_picture(now, zlib.compress(msgspec.json.encode(picture), _LEVEL))

    async def page(self, at: float) -> PageDocument | None:
        """Return the page at a time (seconds since 1970): the last picture until then, and the earlier preemptions.

        None if there is no picture so old, or a part of it is not stored. Raises RecordsAwayError.
        """
        stored = await self._store.picture(at + _ROUNDED)
        if stored is None:
            return None
        time = stored[0]
        pictures = [await asyncio.to_thread(_decoded, stored[1])]
        while (after := pictures[-1].after) is not None:
            stored = await self._store.picture(after)
            if stored is None or stored[0] != after:
                return None
            pictures.append(await asyncio.to_thread(_decoded, stored[1]))
        decisions = await self._store.evictions(0.0, at + _ROUNDED)
        return await asyncio.to_thread(_past, time, pictures, decisions)


def _decoded(body: bytes) -> Picture:
    text = zlib.decompress(body)
    try:
        return msgspec.json.decode(text, type=Picture)
    except msgspec.ValidationError:  # of a version without the queue
        return Picture(cluster=msgspec.json.decode(text, type=ClusterTables))


def _past(time: float, pictures: list[Picture], decisions: list[DecisionRecord]) -> PageDocument:
    picture = merged(pictures)
    document = PageDocument(
        time=readable_time(time),
        cluster=picture.cluster,
        queue=picture.queue,
        queue_total=picture.queue_total,
        reservations=picture.reservations,
        past=True,
    )
    return with_decisions(document, decisions)
