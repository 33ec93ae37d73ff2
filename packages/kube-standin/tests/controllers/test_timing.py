"""Timers run until they are cancelled, whatever else happens in that moment; syncs that take long rest in between."""

from __future__ import annotations

import asyncio

import pytest

from kube_standin.clock import ServerClock
from kube_standin.controllers.reconciler import Controller
from kube_standin.controllers.timers import ControllerTimers
from tests.controllers.world import World


@pytest.mark.parametrize("turns", range(6))
def test_stop_is_heard_while_something_new_is_due(turns: int) -> None:
    """At whatever turn of the event loop after a new moment was set; stopping the timers waits for their end."""

    async def run() -> bool:
        timers = ControllerTimers(ServerClock())
        task = asyncio.create_task(timers.run())
        for _ in range(10):
            await asyncio.sleep(0)
        timers.after(1000.0, lambda: None)
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task}, timeout=10.0)
        heard = task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return heard

    assert asyncio.run(run())


class Slow(Controller):
    """Each sync of a key takes `takes` seconds, and after more than one second rests four times as long."""

    name = "slow"
    takes = 0.0

    def connect(self) -> None:
        """Nothing is watched."""
        self.synced: list[float] = []

    def reconcile(self, key: str) -> None:
        """Let the time pass."""
        with self.resting(key, 4, 1.0) as rested:
            if rested:
                self.synced.append(self.context.clock.monotonic())
                self.context.clock.forward(self.takes)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("takes", "after"), [(0.0, 0.0), (1.0, 1.0), (2.0, 10.0)])
def test_sync_that_takes_long_is_not_repeated_at_once(takes: float, after: float) -> None:
    """Pods that change all the time do not keep the server busy with their budget; another key need not wait."""
    world = World(())
    slow = world.controllers.running["slow"] = Slow(world.controllers.context)
    slow.takes = takes
    slow.queue("a")
    world.settle()
    slow.queue("a")
    world.forward(60)
    [first, second] = slow.synced
    assert second - first == after
    slow.queue("b")
    before = world.set_clock.monotonic()
    world.settle()
    assert slow.synced[2:] == [before]
