"""Timers run until they are cancelled, whatever else happens in that moment."""

from __future__ import annotations

import asyncio

import pytest

from reprieve.controlplane.clock import Clock
from reprieve.controlplane.controllers.timing import Timers


@pytest.mark.parametrize("turns", range(6))
def test_a_stop_is_heard_while_something_new_is_due(turns: int) -> None:
    """At whatever turn of the event loop after a new moment was set; whoever stops the timers waits for their end."""

    async def run() -> bool:
        timers = Timers(Clock())
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
