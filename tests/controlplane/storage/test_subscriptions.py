"""What a watcher is told of what is written: in time, within its bounds, and never half."""

from __future__ import annotations

import asyncio

from tests.waiting import DEADLINE

from reprieve.controlplane.storage import Store, Stored, Subscription
from reprieve.controlplane.storage.model import Change


def stored(*names: str) -> list[Stored]:
    store = Store()
    return [store.put("things", "", name, {"metadata": {"name": name}}, None).state for name in names]


def subscription(events: int = 100) -> Subscription:
    return Subscription("things", None, None, 0, limit_events=events, limit_bytes=1 << 20)


def added(states: list[Stored]) -> list[Change]:
    return [Change("ADDED", state, None) for state in states]


def test_a_watcher_that_is_full_is_told_so_once_and_given_nothing_more() -> None:
    """What would come after a gap is of no use: it lists again."""
    watcher = subscription(events=2)
    overflows: list[bool] = []
    watcher.on_overflow = lambda: overflows.append(watcher.overflowed)
    states = stored("a", "b", "c", "d", "e", "f", "g")
    watcher.offer(added(states[:2]))
    assert not watcher.overflowed
    watcher.offer(added(states[2:6]))
    watcher.offer(added(states[6:]))
    assert overflows == [True]
    assert watcher.take() == []


def test_changes_that_are_older_than_a_watch_are_not_shown() -> None:
    watcher = subscription()
    first, second = stored("a", "b")
    watcher.revision = first.revision
    watcher.offer(added([first, second]))
    watcher.offer(added([second]))
    assert [event.state.name for event in watcher.take()] == ["b"]


def test_waiting_ends_with_the_first_change_or_when_its_time_is_over() -> None:
    async def run() -> None:
        watcher = subscription()
        assert not await watcher.wait(0.0)
        for limit in (None, DEADLINE):
            waiting = asyncio.create_task(watcher.wait(limit))
            await asyncio.sleep(0)
            assert not waiting.done()
            watcher.offer(added(stored("a")) if limit is None else added(stored("a", "b")))
            async with asyncio.timeout(DEADLINE):
                assert await waiting
            assert watcher.take()
        watcher.offer(added(stored("a", "b", "c")))
        assert await watcher.wait(0.0)

    asyncio.run(run())
