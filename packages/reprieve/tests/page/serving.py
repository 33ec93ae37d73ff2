"""A server of the page over an engine of its own, in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from reprieve.decisions.records import DecisionRecord
from reprieve.live.http_endpoint import Health, Server, ServingOptions
from reprieve.live.page_history import PageHistory
from reprieve.live.page_plans import PagePlans
from reprieve.live.page_routes import PageRoutes
from reprieve.live.page_snapshots import PageSnapshots
from reprieve.observability.metrics import Metrics
from reprieve.observability.recorder import RecordKeeper
from reprieve.observability.store import MemoryStore
from reprieve.page.builder import document_of
from reprieve.page.documents import PageDocument
from reprieve.scheduling.engine import Engine
from tests.building import Item, World


@dataclass
class ServedWorld:
    """`url` of the page; `change` is run in the thread of the server."""

    url: str
    world: World
    keeper: RecordKeeper
    snapshots: PageSnapshots
    _loop: asyncio.AbstractEventLoop

    def change(self, call: Callable[[], object]) -> None:
        """Change the engine between two snapshots, and decide what follows."""

        async def run() -> None:
            call()
            self.decide()

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(30)

    def decide(self) -> None:
        """Run cycles, and record their decisions; nothing is carried out."""
        world = self.world
        while (decision := world.engine.step(world.now).decision) is not None:
            self.keeper.decided(decision, seconds=0.0, now=world.now)


async def ended(server: Server) -> None:
    """Stop, and wait for what it leaves."""
    await server.stop()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.wait(left, timeout=10) if left else None


@contextmanager
def served(
    *items: Item | Sequence[Item],
    plans: PagePlans | None = None,
    shown: Callable[[PageDocument], PageDocument] = lambda document: document,
    engine: Engine | None = None,
    now: float | None = None,
) -> Iterator[ServedWorld]:
    """Serve a world in which everything is decided. `shown`: what a reader gets of the document.

    `engine`: instead of one that is checked after every step, which takes too long for large clusters.
    """
    world, store = World(*items), MemoryStore()
    if engine is not None:
        world.engine = engine  # type: ignore[assignment]
    if now is not None:
        world.virtual.now = now
    keeper = RecordKeeper(store)
    keeper.attach(world.engine)
    loop = asyncio.new_event_loop()
    past = PageHistory(store, loop.time, keeper.latest)
    keeper.preempted = past.take

    async def read() -> PageDocument:
        records: list[DecisionRecord] = await store.evictions(0.0)
        return shown(document_of(world.engine, world.now, keeper.latest, records))

    def changed() -> tuple[int, ...]:
        return world.engine.attempts, world.engine.cluster.touched.total, world.engine.cluster.nodes.static_version

    snapshots = PageSnapshots(read, changed, loop.time)
    server = Server(
        ServingOptions(port=0),
        metrics=Metrics(process=False),
        health=Health(),
        page=PageRoutes(snapshots, plans, past),
    )
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(30)
        made = ServedWorld(f"{server.url}/ui/", world, keeper, snapshots, loop)
        made.change(lambda: None)
        yield made
    finally:
        asyncio.run_coroutine_threadsafe(ended(server), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
