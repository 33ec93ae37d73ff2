"""The store against a plain model of history: lists as of any revision, watches, rollback, restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kube_standin.storage import (
    CommitLog,
    CompactedError,
    FutureRevisionError,
    MovedError,
    SqliteLog,
    StagedWrite,
    StorageError,
    Store,
    StoredObject,
    Subscription,
)
from kube_standin.storage.log import LogRow
from kube_standin.storage.model import as_object
from kube_standin.storage.store import COMPACT_STEP, StoreLimits

NAMES = ("a", "b", "c")
SPACES = ("", "ns1", "ns2")
State = dict[tuple[str, str], tuple[int, str]]


def body(name: str, value: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"v": value}}, "data": value}


def write(store: Store, space: str, name: str, value: str) -> StoredObject:
    return staged(store, space, name, value).state


def staged(store: Store, space: str, name: str, value: str) -> StagedWrite:
    return store.put("things", space, name, body(name, value), store.head("things", space, name))


class Model(RuleBasedStateMachine):
    """Random writes, compactions and watches; after each step every retained revision lists as the model says."""

    def __init__(self) -> None:
        super().__init__()
        self.store = Store()
        self.states: dict[int, State] = {1: {}}
        self.log: list[tuple[int, str, tuple[str, str], str]] = []
        self.watches: list[tuple[Subscription, int, list[tuple[str, int]]]] = []

    def _advance(self, kind: str, key: tuple[str, str], value: str) -> None:
        last = max(self.states)
        state = dict(self.states[last])
        if kind == "DELETED":
            del state[key]
        else:
            state[key] = (last + 1, value)
        self.states[last + 1] = state
        self.log.append((last + 1, kind, key, value))

    @rule(space=st.sampled_from(SPACES), name=st.sampled_from(NAMES), value=st.sampled_from("xyz"))
    def put(self, space: str, name: str, value: str) -> None:
        existed = (space, name) in self.states[max(self.states)]
        write(self.store, space, name, value)
        self._advance("MODIFIED" if existed else "ADDED", (space, name), value)

    @rule(space=st.sampled_from(SPACES), name=st.sampled_from(NAMES))
    def delete(self, space: str, name: str) -> None:
        current = self.states[max(self.states)].get((space, name))
        state = self.store.head("things", space, name)
        assert (state is None) == (current is None)
        if state is not None and current is not None:
            self.store.delete(state)
            self._advance("DELETED", (space, name), current[1])

    @rule()
    def commit(self) -> None:
        self.store.flush()

    @rule(back=st.integers(0, 6))
    def compact(self, back: int) -> None:
        self.store.flush()
        self.store.compact(self.store.revision - back)

    @rule(back=st.integers(0, 6))
    def watch(self, back: int) -> None:
        self.store.flush()
        since = self.store.revision - back
        if since < self.store.compacted:
            with pytest.raises(CompactedError):
                self.store.subscribe("things", since=since)
        else:
            self.watches.append((self.store.subscribe("things", since=since), since, []))

    @precondition(lambda self: self.watches)
    @invariant()
    def watchers_saw_every_change_once_in_order(self) -> None:
        self.store.flush()
        for subscription, since, seen in self.watches:
            seen.extend((event.type, event.state.revision) for event in subscription.take())
            assert seen == [(kind, revision) for revision, kind, _, _ in self.log if revision > since]

    @invariant()
    def every_retained_revision_lists_as_it_was(self) -> None:
        self.store.flush()
        for revision, state in self.states.items():
            if revision < self.store.compacted:
                with pytest.raises(CompactedError):
                    self.store.page("things", at=revision)
                continue
            page = self.store.page("things", at=revision)
            assert [(s.key, s.revision) for s in page.states] == sorted((k, v[0]) for k, v in state.items())
            assert page.revision == revision

    @invariant()
    def pages_add_up(self) -> None:
        whole = [s.key for s in self.store.page("things", "ns1").states]
        found: list[tuple[str, str]] = []
        after = None
        while True:
            page = self.store.page("things", "ns1", after=after, limit=1)
            found.extend(s.key for s in page.states)
            assert page.remaining == len(whole) - len(found)
            if not page.more:
                break
            after = page.states[-1].key
        assert found == whole


Model.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestModel = Model.TestCase


def test_write_must_build_on_the_newest_state() -> None:
    store = Store()
    first = write(store, "", "a", "x")
    second = store.put("things", "", "a", body("a", "y"), first).state
    with pytest.raises(MovedError):
        store.put("things", "", "a", body("a", "z"), first)
    with pytest.raises(MovedError):
        store.put("things", "", "a", body("a", "z"), None)
    with pytest.raises(MovedError):
        store.delete(first)
    store.delete(second)
    store.flush()
    assert store.get("things", "", "a") is None


def test_readers_see_only_what_is_committed_and_commit_nothing() -> None:
    log = RecordingLog()
    store = Store(log)
    first = write(store, "", "a", "x")
    write(store, "", "b", "x")
    store.flush()
    store.put("things", "", "a", body("a", "y"), first)
    write(store, "", "c", "y")
    second = store.head("things", "", "b")
    assert second is not None
    store.delete(second)
    watcher = store.subscribe("things")
    assert store.get("things", "", "a") is first
    assert store.get("things", "", "b") is second
    assert store.get("things", "", "c") is None
    for revision in (None, store.revision):
        assert store.page("things", at=revision).states == [first, second]
    assert [state.name for state in store.page("things", at=2).states] == ["a"]
    pages = [store.page("things", limit=1), store.page("things", after=("", "a"), limit=1)]
    assert [(page.states, page.more, page.remaining) for page in pages] == [([first], True, 1), ([second], False, 0)]
    store.compact(2)
    assert watcher.take() == []
    assert log.batches == [[2, 3]]
    store.flush()
    assert [(event.type, event.state.name) for event in watcher.take()] == [
        ("MODIFIED", "a"),
        ("ADDED", "c"),
        ("DELETED", "b"),
    ]
    assert [state.name for state in store.page("things").states] == ["a", "c"]


def test_namespace_is_listed_as_it_was_before_what_is_being_written() -> None:
    """Readers do not see what is staged, there or elsewhere; at an older revision they do not see later writes."""
    store = Store()
    first = {space: [write(store, space, name, "x") for name in ("going", "there")] for space in ("ns1", "ns2")}
    store.flush()
    before = store.revision
    for space, (going, _) in first.items():
        store.delete(going)
        write(store, space, "there", "y")
        write(store, space, "coming", "x")
    for committed in (False, True):
        for at in (before,) if committed else (None, before):
            for space, states in first.items():
                assert store.page("things", space, at=at).states == states
        store.flush()
    assert [state.key for state in store.page("things", "ns2").states] == [("ns2", "coming"), ("ns2", "there")]


class RecordingLog(CommitLog):
    """Notes the revisions of each transaction; fails when told to."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.broken = False

    def append(self, rows: Sequence[LogRow]) -> None:
        if self.broken:
            raise StorageError("disk full")
        self.batches.append([row.revision for row in rows])


def test_writes_of_one_turn_are_one_transaction() -> None:
    log = RecordingLog()
    store = Store(log)

    async def one(name: str) -> None:
        await staged(store, "", name, "x").ticket.settled()

    async def all_at_once() -> None:
        await asyncio.gather(*(one(f"n{index}") for index in range(10)))

    asyncio.run(all_at_once())
    assert log.batches == [list(range(2, 12))]


def test_failed_commit_is_told_and_undone() -> None:
    asyncio.run(fail_and_go_on())


async def fail_and_go_on() -> None:
    log = RecordingLog()
    store = Store(log)
    await staged(store, "", "kept", "x").ticket.settled()
    undone: list[int] = []
    store.undone.append(lambda: undone.append(store.revision))
    watcher = store.subscribe("things")
    log.broken = True
    refused = [staged(store, "", "kept", "y").ticket, staged(store, "", "new", "y").ticket]
    assert store.get("things", "", "new") is None
    with pytest.raises(StorageError, match="disk full"):
        await refused[0].settled()
    log.broken = False
    assert undone == [2]
    assert store.head("things", "", "new") is None
    kept = store.get("things", "", "kept")
    assert kept is not None
    assert kept.decode()["data"] == "x"
    again = staged(store, "", "new", "z")
    await again.ticket.settled()
    with pytest.raises(StorageError, match="disk full"):  # raised for the late waiter alone
        await refused[1].settled()
    assert again.state.revision == 3
    assert [event.state.name for event in watcher.take()] == ["new"]


@pytest.mark.parametrize("look", ["get", "page", "subscribe", "compact", "flush"])
def test_refusal_reaches_the_writer_whatever_happens_before_it_waits(look: str) -> None:
    """Between a write and the wait for it other tasks may read the store, or commit: the ticket keeps the verdict."""

    async def run() -> None:
        log = RecordingLog()
        store = Store(log)
        log.broken = True
        ticket = staged(store, "", "a", "x").ticket
        match look:
            case "get":
                store.get("things", "", "a")
            case "page":
                store.page("things")
            case "subscribe":
                store.subscribe("things")
            case "compact":
                store.compact(1)
            case _:
                store.flush()
        with pytest.raises(StorageError, match="disk full"):
            await ticket.settled()
        assert store.head("things", "", "a") is None

    asyncio.run(run())


def test_answer_without_a_write_waits_for_what_it_was_read_from() -> None:
    async def run() -> None:
        log = RecordingLog()
        store = Store(log)
        assert store.ticket.done
        log.broken = True
        first = staged(store, "", "a", "x").ticket
        assert store.ticket is first
        assert not first.done
        with pytest.raises(StorageError):
            await store.ticket.settled()
        assert store.ticket.done
        await store.ticket.settled()

    asyncio.run(run())


def test_history_is_bounded_in_changes_and_bytes() -> None:
    store = Store(limits=StoreLimits(history_changes=100, history_bytes=10**9))
    for number in range(2000):
        write(store, "", f"n{number % 7}", str(number))
        store.flush()
    assert store.revision - store.compacted < 100 + 513
    assert {name: len(kept) for name, kept in store._by_resource.items()} == {"things": len(store._history)}
    small = Store(limits=StoreLimits(history_changes=10**6, history_bytes=20_000))
    for number in range(500):
        write(small, "", "a", "x" * 200 + str(number))
        small.flush()
    assert (small.revision - small.compacted) * 250 < 20_000 * 1.2


def test_history_is_kept_up_to_its_bytes() -> None:
    """At the bound nothing is forgotten; beyond it an eighth more than what is over: not something at every write."""

    def written(number: int, limits: StoreLimits) -> tuple[Store, list[int]]:
        store, sizes = Store(limits=limits), []
        for _ in range(number):
            sizes.append(len(write(store, "", "a", "x").raw))
            store.flush()
        return store, sizes

    plenty = StoreLimits(history_changes=10**6, history_bytes=10**9)
    _, sizes = written(17, plenty)
    bound = StoreLimits(history_changes=10**6, history_bytes=sum(sizes[:16]))
    store, _ = written(16, bound)
    assert len(store.subscribe("things", since=1).take()) == 16
    store, _ = written(17, bound)
    kept = len(store.subscribe("things", since=store.compacted).take())
    assert kept == max(n for n in range(17) if sum(sizes[17 - n :]) <= bound.history_bytes * 7 // 8)


def test_slow_watcher_overflows_alone() -> None:
    store = Store(limits=StoreLimits(watch_events=10))
    slow, quick = store.subscribe("things"), store.subscribe("things")
    seen = 0
    for number in range(50):
        write(store, "", "a", str(number))
        store.flush()
        seen += len(quick.take())
    assert slow.overflowed
    assert slow.take() == []
    assert (seen, quick.overflowed) == (50, False)


def test_selector_turns_changes_into_comings_and_goings() -> None:
    """README "Behaviours that surprise": leaving a selection is DELETED with the old state and the new revision."""
    store = Store()
    watcher = store.subscribe("things", match=lambda state: state.labels.get("v") == "in")
    for value in ("out", "in", "in", "out"):
        write(store, "", "a", value)
    state = store.head("things", "", "a")
    assert state is not None
    store.delete(state)
    store.flush()
    events = [(event.type, event.state.revision, event.state.decode()["data"]) for event in watcher.take()]
    assert events == [("ADDED", 3, "in"), ("MODIFIED", 4, "in"), ("DELETED", 5, "in")]


def test_revisions_that_cannot_be_shown_are_named() -> None:
    """Clients know these texts of kube-apiserver: with the first a watch is begun again, with the second it waits."""
    store = Store()
    for value in "abc":
        write(store, "", "a", value)
    store.flush()
    store.compact(3)
    assert [state.revision for state in store.page("things", at=3).states] == [3]
    assert [state.revision for state in store.page("things", at=4).states] == [4]
    for ask in (lambda: store.page("things", at=2), lambda: store.subscribe("things", since=2)):
        with pytest.raises(CompactedError) as old:
            ask()
        assert str(old.value) == "too old resource version: 2 (3)"
        assert (old.value.requested, old.value.compacted) == (2, 3)
    with pytest.raises(FutureRevisionError) as early:
        store.page("things", at=5)
    assert str(early.value) == "Too large resource version: 5, current: 4"
    assert (early.value.requested, early.value.current) == (5, 4)


def test_newest_states_are_those_staged_by_key() -> None:
    store = Store()
    assert list(store.heads("absent")) == list(store.heads("absent", "ns1")) == []
    for space, name in (("ns2", "a"), ("ns1", "b"), ("ns1", "a"), ("ns10", "a")):
        write(store, space, name, "x")
    assert [state.key for state in store.heads("things")] == [
        ("ns1", "a"), ("ns1", "b"), ("ns10", "a"), ("ns2", "a")]  # fmt: skip
    assert [state.key for state in store.heads("things", "ns1")] == [("ns1", "a"), ("ns1", "b")]
    for state in list(store.heads("things")):
        store.delete(state)
    assert not list(store.heads("things"))
    assert not store.resources()
    assert store.count("things") == 0


def test_body_is_kept_without_its_kind_and_wears_its_revision() -> None:
    """One object is served in several versions: the server adds the kind to each answer."""
    store = Store()
    given = {"kind": "Thing", "apiVersion": "v1", **body("a", "1")}
    state = store.put("things", "", "a", given, None).state
    kept = {"metadata": {"name": "a", "labels": {"v": "1"}, "resourceVersion": "2"}, "data": "1"}
    assert msgspec.json.decode(state.raw) == state.decode() == kept
    shown = as_object("Thing", "v2", state)
    assert shown == {"kind": "Thing", "apiVersion": "v2", **kept}
    assert list(shown)[:2] == ["kind", "apiVersion"]
    gone = store.delete(state, {"kind": "Thing", "apiVersion": "v1", **body("a", "2")}).state
    assert msgspec.json.decode(gone.raw) == {
        "metadata": {"name": "a", "labels": {"v": "2"}, "resourceVersion": "3"}, "data": "2"}  # fmt: skip


@pytest.mark.parametrize("in_a_loop", [True, False])
def test_end_commits_what_is_staged_and_ends_every_watch(in_a_loop: bool, tmp_path: Path) -> None:
    store = Store(SqliteLog(tmp_path / "state.db"))
    watches = [store.subscribe(resource) for resource in ("things", "others")]

    async def end() -> None:
        write(store, "", "a", "1")
        await store.aclose()

    if in_a_loop:
        asyncio.run(end())
    else:
        write(store, "", "a", "1")
        store.close()
    assert [watch.closed for watch in watches] == [True, True]
    again = Store(SqliteLog(tmp_path / "state.db"))
    assert [state.name for state in again.page("things").states] == ["a"]
    again.close()


def test_staged_writes_may_be_taken_back_as_a_whole() -> None:
    """Listeners that derived state from it are called once; with nothing staged none is called, and nothing changes."""
    store, told = Store(), list[int]()
    store.undone.append(lambda: told.append(store.revision))
    kept = write(store, "", "a", "1")
    store.flush()
    store.discard()
    assert told == []
    assert (store.ticket.done, store.ticket.error) == (True, None)
    staged(store, "", "b", "1")
    ticket = store.delete(kept).ticket
    store.discard()
    assert told == [2]
    assert (ticket.done, str(ticket.error)) == (True, "the writes were taken back")
    assert list(store.heads("things")) == [kept]
    assert store.ticket.error is None
    assert write(store, "", "b", "2").revision == 3
    store.flush()
    assert [state.name for state in store.page("things").states] == ["a", "b"]


@pytest.mark.parametrize(("changes", "kept"), [(100 + COMPACT_STEP, 100 + COMPACT_STEP), (101 + COMPACT_STEP, 100)])
def test_history_is_cut_to_its_limit_where_it_is_a_step_beyond_it(changes: int, kept: int) -> None:
    """Not at every write: that would cost one deletion in the log each."""
    store = Store(limits=StoreLimits(history_changes=100, history_bytes=10**9))
    for number in range(changes):
        write(store, "", "a", str(number))
        store.flush()
    oldest = store.revision - kept
    events = store.subscribe("things", since=oldest).take()
    assert [event.state.revision for event in events] == list(range(oldest + 1, store.revision + 1))
    if kept < changes:
        with pytest.raises(CompactedError):
            store.subscribe("things", since=oldest - 1)


def test_restart_keeps_objects_history_and_revisions(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store = Store(SqliteLog(path))
    for name in NAMES:
        write(store, "ns1", name, "1")
    gone = write(store, "ns1", "b", "2")
    store.delete(gone)
    store.flush()
    store.compact(3)
    before = store.revision
    store.close()
    again = Store(SqliteLog(path))
    assert again.revision == before
    assert [s.name for s in again.page("things").states] == ["a", "c"]
    assert [s.name for s in again.page("things", at=4).states] == ["a", "b", "c"]
    watcher = again.subscribe("things", since=4)
    assert [(e.type, e.state.name) for e in watcher.take()] == [("MODIFIED", "b"), ("DELETED", "b")]
    with pytest.raises(CompactedError):
        again.subscribe("things", since=2)
    assert write(again, "ns1", "d", "1").revision == before + 1
    again.close()


def test_revisions_do_not_go_back_when_everything_is_deleted_and_compacted(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store = Store(SqliteLog(path))
    store.delete(write(store, "", "a", "1"))
    store.flush()
    store.compact(store.revision)
    last = store.revision
    store.close()
    again = Store(SqliteLog(path))
    assert write(again, "", "b", "1").revision == last + 1
    again.close()
