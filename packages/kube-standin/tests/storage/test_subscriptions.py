"""What a watcher receives of each write: in time, within its bounds, and never half."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable

import pytest

from kube_standin.storage import Store, StoredObject, Subscription
from kube_standin.storage.model import StoredChange
from tests.waiting import DEADLINE


def stored(*names: str) -> list[StoredObject]:
    store = Store()
    return [store.put("things", "", name, {"metadata": {"name": name}}, None).state for name in names]


def subscription(events: int = 100, size: int = 1 << 20) -> Subscription:
    return Subscription("things", None, None, 0, limit_events=events, limit_bytes=size)


def added(states: list[StoredObject]) -> list[StoredChange]:
    return [StoredChange("ADDED", state, None) for state in states]


def test_watcher_that_is_full_is_told_so_once_and_given_nothing_more() -> None:
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


def test_watcher_has_room_for_its_bytes_and_not_for_one_more() -> None:
    """What was taken does not count any more."""
    states = stored("a", "b", "c", "d")
    two = len(states[0].raw) + len(states[1].raw)
    watcher = subscription(size=two)
    watcher.offer(added(states[:2]))
    assert len(watcher.take()) == 2
    watcher.offer(added(states[2:]))
    assert not watcher.overflowed
    tight = subscription(size=two - 1)
    tight.offer(added(states[:1]))
    assert not tight.overflowed
    tight.offer(added(states[1:2]))
    assert tight.overflowed


def test_changes_that_are_older_than_a_watch_are_not_shown() -> None:
    watcher = subscription()
    first, second = stored("a", "b")
    watcher.revision = first.revision
    watcher.offer(added([first, second]))
    watcher.offer(added([second]))
    assert [event.state.name for event in watcher.take()] == ["b"]


def resumed(
    count: int, match: Callable[[StoredObject], bool] | None = None, pad: int = 0
) -> tuple[Store, Subscription]:
    """A store of so many changes and a watch of them all."""
    store = Store()
    for number in range(count):
        body = {"metadata": {"name": f"n{number}"}, "pad": "x" * pad}
        store.put("things", "", f"n{number}", body, None)
    store.flush()
    return store, store.subscribe("things", since=1, match=match)


def test_past_is_looked_at_as_it_is_taken() -> None:
    """interfaces.md 5.7: a watch from an old revision costs nothing before its client reads."""
    looked_at: list[str] = []

    def match(state: StoredObject) -> bool:
        looked_at.append(state.name)
        return state.name.endswith("7")

    store, watcher = resumed(2000, match)
    assert not looked_at
    assert watcher.pending
    watcher.take(1 << 20)
    assert len(looked_at) <= 500
    store.put("things", "", "live7", {"metadata": {"name": "live7"}}, None)
    store.flush()
    seen: list[str] = []
    while watcher.pending:
        before = len(looked_at)
        seen += [event.state.name for event in watcher.take(1 << 20)]
        assert len(looked_at) <= before + 501
    assert seen[-2:] == ["n1997", "live7"]
    assert seen == [f"n{number}" for number in range(500, 2000) if number % 10 == 7] + ["live7"]


def test_some_is_taken_and_the_rest_stays() -> None:
    _, watcher = resumed(10, pad=1000)
    assert [len(watcher.take(2500)) for _ in range(4)] == [3, 3, 3, 1]
    assert not watcher.pending
    live = subscription()
    states = stored("a", "b", "c")
    live.offer(added(states))
    assert [event.state.name for event in live.take(len(states[0].raw) + 1)] == ["a", "b"]
    assert live.pending
    assert [event.state.name for event in live.take()] == ["c"]
    assert not live.pending


@pytest.mark.parametrize("taken", [0, 3, 10])
def test_history_that_is_forgotten_is_kept_for_no_watcher(taken: int) -> None:
    """interfaces.md 5.7: it lists again; what it had taken before is not asked for again."""
    store, watcher = resumed(10, pad=1000)
    overflows: list[bool] = []
    watcher.on_overflow = lambda: overflows.append(True)
    for _ in range(taken):
        watcher.take(1)
    store.compact(store.revision - 5)
    assert watcher.overflowed is (taken < 5)
    assert len(overflows) == (taken < 5)
    assert len(watcher.take()) == (0 if taken < 5 else 10 - taken)


def test_change_that_waits_for_its_watcher_is_forgotten_with_the_history() -> None:
    store = Store()
    watcher = store.subscribe("things")
    store.put("things", "", "a", {"metadata": {"name": "a"}}, None)
    store.flush()
    store.put("others", "", "b", {"metadata": {"name": "b"}}, None)
    store.flush()
    store.compact(store.revision - 2)
    assert not watcher.overflowed
    store.compact(store.revision - 1)
    assert watcher.overflowed


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


def test_watches_end_for_one_resource_or_all() -> None:
    """A definition that goes ends those of its own; a server that stops ends every one."""
    store = Store()
    watchers = {resource: [store.subscribe(resource) for _ in range(2)] for resource in ("a", "b", "c")}

    def ended() -> set[str]:
        states = {resource: {one.closed for one in of} for resource, of in watchers.items()}
        assert all(len(closed) == 1 for closed in states.values()), "all of a resource or none"
        return {resource for resource, closed in states.items() if closed == {True}}

    store.end_subscriptions("b")
    assert ended() == {"b"}
    store.end_subscriptions("nobody")
    assert ended() == {"b"}
    store.end_subscriptions()
    assert ended() == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "n"),
        ("metadata.namespace", "ns"),
        ("spec.nodeName", "x"),
        ("spec.number", "5"),
        ("spec.on", "true"),
        ("spec.off", "false"),
        ("spec.absent", ""),
        ("spec.unschedulable", "false"),
        ("spec.hostNetwork", "false"),
        ("spec.nodeName.deeper", ""),
        ("absent.deeper", ""),
    ],
)
def test_field_selector_compares(path: str, value: str) -> None:
    """Texts; what is not there is empty, a boolean that is not there is none that is true."""
    spec = {"nodeName": "x", "number": 5, "on": True, "off": False}
    body = {"metadata": {"name": "n", "namespace": "ns", "labels": {"a": "b"}}, "spec": spec}
    state = StoredObject("things", "ns", "n", 1, json.dumps(body).encode())
    assert [state.field(path), state.field(path)] == [value, value]
    assert (state.labels, state.labels) == ({"a": "b"}, {"a": "b"})
    bare = StoredObject("things", "ns", "n", 1, b'{"metadata":{"name":"n"}}')
    assert bare.labels == {}
    bare.remember(body, ((path, tuple(path.split("."))),))
    assert (bare.labels, bare.field(path)) == ({"a": "b"}, value)


def test_watch_that_ended_is_given_up() -> None:
    """Clients come and go for months."""

    def kept() -> int:
        return sum(type(each) is Subscription for each in gc.get_objects())

    store, before = Store(), kept()
    for _ in range(3):
        watcher = store.subscribe("things")
        store.unsubscribe(watcher)
        store.unsubscribe(watcher)  # harmless
    assert watcher.closed
    assert kept() == before + 1, "the one that this test holds"
