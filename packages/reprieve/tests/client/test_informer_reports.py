"""What the owner of an informer is notified of: answers, cuts, and objects that cannot be read (api.md 5.1)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from kube_rules.objects import Pod
from reprieve.client.informer import Informer, InformerOptions
from tests.client.clock import FakeClock, until
from tests.client.informing import informing
from tests.client.scripted import (
    PODS,
    Reply,
    answer,
    bookmark,
    client_of,
    cut,
    event,
    gone,
    lines,
    page,
    pod,
    scripted,
    status,
)

SILENT = lines(then="silence")


def test_item_of_a_list_that_cannot_be_read_stays_as_it_was() -> None:
    """It is reported with its metadata; one that was never seen is left out."""
    broken, unknown = pod("a", 7), pod("b", 8)
    broken["spec"] = unknown["spec"] = {"containers": "none"}
    reported: list[str] = []

    async def run() -> None:
        replies = (
            answer(page([pod("a", 3)], 5)),
            lines(gone()),
            answer(page([broken, unknown, pod("c", 9)], 10)),
            SILENT,
        )
        async with scripted(*replies) as server, client_of(server) as client:
            informer = Informer(
                client,
                PODS,
                Pod,
                options=InformerOptions(watch_list=False),
                on_trouble=lambda _: None,
                on_unreadable=lambda meta, error: reported.append(f"{meta.key}: {error.path}"),
            )
            task = asyncio.create_task(informer.run())
            await until(lambda: informer.revision == "10")
            task.cancel()
            found = {key: item.metadata.resource_version for key, item in informer.objects.items()}
        assert found == {"default/a": "3", "default/c": "9"}
        assert reported == ["default/a: spec.containers", "default/b: spec.containers"]

    asyncio.run(run())


def test_unreadable_object_is_deleted_as_it_was_last_seen() -> None:
    broken = pod("a", 7)
    broken["spec"] = {"containers": "none"}

    async def run() -> None:
        stream = lines(event("ADDED", pod("a", 3)), bookmark(5, end=True), event("DELETED", broken), then="silence")
        async with informing(stream) as observed:
            await until(lambda: observed.changes == ["added a@3", "deleted a@3"])
            assert not observed.informer.objects

    asyncio.run(run())


def test_one_object_that_cannot_be_read_spoils_nothing() -> None:
    """It is reported by name and kept as it was."""
    broken = pod("a", 7)
    broken["spec"] = {"containers": "none"}

    async def run() -> None:
        stream = lines(
            event("ADDED", pod("a", 3)),
            bookmark(5, end=True),
            event("MODIFIED", broken),
            event("ADDED", pod("b", 8)),
            then="silence",
        )
        async with informing(stream) as observed:
            await until(lambda: observed.changes == ["added a@3", "added b@8"])
            assert 'Pod "default/a": spec.containers' in observed.trouble[0]
            assert observed.informer.objects["default/a"].metadata.resource_version == "3"

    asyncio.run(run())


@pytest.mark.parametrize("known", [False, True])
def test_object_that_cannot_be_read_while_everything_is_sent(known: bool) -> None:
    """It is reported, and its owner notified; what was known of it before a restart stays, and nothing else is lost."""
    broken = pod("b", 7)
    broken["spec"] = {"containers": "none"}
    first = lines(event("ADDED", pod("a", 3)), event("ADDED", pod("b", 4)), bookmark(5, end=True), then="end")
    again = lines(
        event("ADDED", pod("a", 3)),
        event("ADDED", broken),
        event("ADDED", pod("c", 8)),
        event("ADDED", pod("d", 9)),
        event("DELETED", pod("d", 10)),
        bookmark(11, end=True),
        then="silence",
    )

    async def run() -> None:
        before = [first, lines(gone())] if known else []
        unreadable: list[str] = []
        trouble: list[str] = []
        async with scripted(*before, again) as server, client_of(server, clock=FakeClock(instant=60.0)) as client:
            informer = Informer(
                client,
                PODS,
                Pod,
                on_trouble=trouble.append,
                on_unreadable=lambda meta, error: unreadable.append(f"{meta.key} {error.path}"),
            )
            task = asyncio.create_task(informer.run())
            await until(lambda: informer.revision == "11")
            task.cancel()
        assert sorted(informer.objects) == ["default/a", *(["default/b"] if known else []), "default/c"]
        assert unreadable == ["default/b spec.containers"]
        assert [
            text for text in trouble if text.startswith("left out: ") and 'Pod "default/b": spec.containers' in text
        ]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("known", "sent", "reported"),
    [
        ("7", "7", 0),
        ("7", "6", 0),
        ("7", "8", 1),
        ("9", "10", 1),  # as numbers, not as text
        ("10", "9", 0),
        ("x7", "x7", 0),
        ("x7", "x6", 1),  # opaque revisions have no order: only what is the same has been seen
        ("7", "x7", 1),
        ("x7", "7", 1),
        ("07", "7", 0),
        ("9" * 5000, "8" * 5000, 0),  # more digits than Python reads as a number
        ("9" * 5000, "1" * 5001, 1),
    ],
    ids=lambda value: str(value)[:10],
)
def test_events_that_a_resumed_stream_repeats_are_not_reported_again(known: str, sent: str, reported: int) -> None:
    """An object that cannot be read is reported for each revision once."""
    broken = pod("a", 1)
    broken["spec"] = {"containers": "none"}
    broken["metadata"]["resourceVersion"] = sent
    end = bookmark(1, end=True)
    end["object"]["metadata"]["resourceVersion"] = known
    newest = "9" * 5002
    last = pod("last", 99)
    last["metadata"]["resourceVersion"] = newest

    async def run() -> None:
        first = lines(end)
        second = lines(event("MODIFIED", broken), event("ADDED", last), then="silence")
        async with informing(first, second) as observed:
            await until(lambda: observed.changes)
            assert observed.changes == [f"added last@{newest}"]
            assert len(observed.trouble) == reported

    asyncio.run(run())


@dataclass
class Notified:
    """What the owner of an informer is notified of, by callback."""

    changes: list[str] = field(default_factory=list)
    synced: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    cuts: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)


async def notified(until_revision: str, *replies: Reply, **options: Any) -> Notified:
    found = Notified()
    async with scripted(*replies) as server, client_of(server, clock=FakeClock(instant=15.0)) as client:
        informer = Informer(
            client,
            PODS,
            Pod,
            lambda change: found.changes.append(f"{change.kind.value} {change.object.name}"),
            options=InformerOptions(**options),
            on_synced=lambda: found.synced.append(informer.revision or ""),
            on_answer=lambda: found.answers.append(informer.revision or ""),
            on_cut=lambda error: found.cuts.append(type(error).__name__),
            on_trouble=found.trouble.append,
            on_unreadable=lambda meta, error: found.unreadable.append(f"{meta.key} {error.path}"),
        )
        assert (informer.revision, informer.synced, dict(informer.objects)) == (None, False, {})
        task = asyncio.create_task(informer.run())
        await until(lambda: informer.revision == until_revision)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert informer.synced
        with pytest.raises(TypeError):
            informer.objects["a"] = None  # type: ignore[index]
    return found


@pytest.mark.parametrize("watch_list", [True, False], ids=["WatchList", "list"])
def test_owner_is_notified_of_answers_and_cuts_and_once_that_everything_is_there(watch_list: bool) -> None:
    """A start over, as after 410, is no cut: nothing was wrong with the connection."""

    def everything(revision: int) -> list[Reply]:
        if watch_list:
            return [lines(bookmark(revision, end=True))]
        return [answer(page([], revision)), lines(bookmark(revision))]

    async def run() -> Notified:
        last = lines(bookmark(20), then="silence")
        return await notified(
            "20", status(501), *everything(5), lines(gone()), *everything(9), cut, last, watch_list=watch_list
        )

    found = asyncio.run(run())
    assert found.synced == ["5"]
    # The first with nothing known; then the watch that is refused with 410, which is answered; and so on.
    assert found.answers == (["", "5", "", "9"] if watch_list else ["", "5", "5", "", "9", "9"])
    assert found.cuts[0] == "ApiError"
    assert set(found.cuts[1:]) <= {"UnreachableError"}
    assert found.trouble == []


@pytest.mark.parametrize("watch_list", [True, False], ids=["WatchList", "list"])
def test_objects_that_cannot_be_read_are_reported(watch_list: bool) -> None:
    """In a list or a watch; its owner is notified where it is known."""
    broken = pod("b", 7)
    broken["spec"] = {"containers": "none"}
    nobodys = {**pod("c", 8), "metadata": "none"}

    async def run() -> Notified:
        first = [lines(event("ADDED", pod("a", 3)), event("ADDED", broken), bookmark(9, end=True))]
        if not watch_list:
            first = [answer(page([pod("a", 3), broken, nobodys], 9))]
        changed = pod("a", 10)
        changed["spec"] = {"containers": "none"}
        last = lines(event("MODIFIED", changed), event("DELETED", changed | {"metadata": pod("a", 11)["metadata"]}))
        return await notified("12", *first, last, lines(bookmark(12), then="silence"), watch_list=watch_list)

    found = asyncio.run(run())
    assert found.changes == ["added a", "deleted a"]
    assert found.unreadable == ["default/b spec.containers", "default/a spec.containers"]
    reported = [text.partition(":")[0] for text in found.trouble]
    assert reported == ["left out", *([] if watch_list else ["left out"]), "not updated"]
    assert found.cuts == []
