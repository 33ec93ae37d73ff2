"""Every preemption has a picture of the cluster and the queue (page.md 11, history.md 6)."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Sequence

import msgspec

from reprieve.decisions.records import DecisionRecord
from reprieve.live import page_history
from reprieve.live.page_history import PageHistory
from reprieve.observability.store import MemoryStore
from reprieve.page.documents import PageDocument
from reprieve.page.pictures import Picture
from tests.building import World, node, pod


def nothing(key: str) -> DecisionRecord | None:
    return None


class CountingStore(MemoryStore):
    """A store that says which pictures are of everything; `lost` pictures are not kept."""

    def __init__(self) -> None:
        super().__init__()
        self.whole: list[bool] = []
        self.lost = 0

    @property
    def pictures_lost(self) -> int:
        return self.lost

    def put_picture(self, time: float, body: bytes) -> None:
        self.whole.append(msgspec.json.decode(zlib.decompress(body), type=Picture).after is None)
        super().put_picture(time, body)


class Past:
    """Pods that come one by one; a picture after each."""

    def __init__(self) -> None:
        self.world = World(node("n1", gpu=9), node("n2", gpu=9), pod("waits", gpu=99))
        self.store = CountingStore()
        self.clock = 0.0
        self.history = PageHistory(self.store, lambda: self.clock, nothing)
        self.pods = 0

    async def take(self, now: float) -> None:
        self.pods += 1
        self.world.engine.set(pod(f"p{self.pods}", gpu=1, node=f"n{1 + self.pods % 2}"), self.world.now)
        self.history.take(self.world.engine, now)
        while self.history._encoding:
            await asyncio.wait(self.history._encoding)

    async def names(self, at: float) -> Sequence[str] | None:
        page = await self.history.page(at)
        return None if page is None or page.cluster is None else sorted(page.cluster.pods.names)


def test_every_preemption_has_its_picture() -> None:
    """page.md 11.4: of what has changed, however short a time ago the last one was; two of one moment as well."""

    async def run() -> None:
        past = Past()
        for at in (10.0, 11.0, 11.0, 11.5, 13.0):
            await past.take(at)
        assert past.store.whole == [True, False, False, False, False]
        assert await past.names(9.0) is None
        assert await past.names(10.0) == ["p1", "waits"]
        assert await past.names(11.0) == ["p1", "p2", "p3", "waits"]
        assert await past.names(12.9) == ["p1", "p2", "p3", "p4", "waits"]
        assert await past.names(99.0) == ["p1", "p2", "p3", "p4", "p5", "waits"]

    asyncio.run(run())


def test_past_has_its_queue() -> None:
    """page.md 11.1: what waited, in its order, with its reason."""

    async def run() -> PageDocument | None:
        past = Past()
        await past.take(10.0)
        past.world.engine.set(pod("later", gpu=99, priority=5), past.world.now)
        await past.take(11.0)
        assert [item.name for item in (await past.history.page(10.0) or PageDocument()).queue] == ["waits"]
        return await past.history.page(11.0)

    page = asyncio.run(run())
    assert page is not None
    assert ([item.name for item in page.queue], page.queue_total) == (["later", "waits"], 2)
    assert page.sentences["queue"] == "At 1970-01-01T00:00:11Z: 2 pending workloads: 2 Active."


def test_pictures_of_everything_come_in_their_turn() -> None:
    """page.md 11.4: after 32 of changes where a fiftieth of a core allows it, after 1,000 in any case."""

    async def run() -> None:
        past = Past()
        for at in range(page_history.FEW_CHANGES + 2):
            await past.take(float(at))
        assert [at for at, whole in enumerate(past.store.whole) if whole] == [0, page_history.FEW_CHANGES + 1]
        past.history._due = float("inf")
        past.history._since_whole = page_history.MOST_CHANGES - 1
        for at in range(100, 103):
            await past.take(float(at))
        assert past.store.whole[-3:] == [False, True, False]

    asyncio.run(run())


def test_lost_picture_is_not_built_upon() -> None:
    """page.md 11.4: the next one is of everything, not before a fiftieth of a core allows it."""

    async def run() -> None:
        past = Past()
        await past.take(1.0)
        past.store.lost, past.history._due = 1, 5.0
        await past.take(2.0)
        assert past.store.whole == [True]
        past.clock = 6.0
        await past.take(3.0)
        await past.take(4.0)
        assert past.store.whole == [True, True, False]
        past.store._pictures.remove(max(past.store._pictures, key=lambda kept: kept[0] == 3.0))
        assert await past.names(4.0) is None  # a part of it is away
        assert await past.names(2.0) == ["p1", "waits"]

    asyncio.run(run())
