"""Watches and informers: what comes out whatever the connection does (Kubernetes API concepts, "Efficient detection
of changes", "Streaming lists")."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from reprieve.api.objects import Pod
from reprieve.client.errors import ApiError
from reprieve.client.informer import Change, Informer, InformerOptions
from reprieve.client.pacing import BackoffPolicy

from .clock import FakeClock, until
from .informing import Observed, informing
from .scripted import (
    PODS,
    Json,
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

EMPTY = lines(bookmark(1, end=True), then="silence")
SILENT = lines(then="silence")


@dataclass(frozen=True)
class Case:
    replies: tuple[Reply, ...]
    changes: list[str]
    revision: str
    asked: tuple[dict[str, str], ...] = ()
    """Parts of the queries, request by request."""


FIRST = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}

NOT_YET = bookmark(4, end=True)
NOT_YET["object"]["metadata"]["annotations"] = {"k8s.io/initial-events-end": "false"}

CASES: dict[str, Case] = {
    "WatchList: everything there is, then changes": Case(
        (
            lines(
                event("ADDED", pod("a", 3)),
                event("ADDED", pod("b", 2)),
                bookmark(5, end=True),
                event("MODIFIED", pod("a", 6)),
                event("DELETED", pod("b", 7)),
                event("ADDED", pod("c", 8)),
                bookmark(9),
                then="silence",
            ),
        ),
        ["added a@3", "added b@2", "updated a@6", "deleted b@7", "added c@8"],
        "9",
        (FIRST,),
    ),
    "changes while everything is sent are folded in": Case(
        (
            lines(
                event("ADDED", pod("a", 3)),
                event("MODIFIED", pod("a", 4)),
                event("ADDED", pod("b", 2)),
                event("DELETED", pod("b", 5)),
                bookmark(5, end=True),
                then="silence",
            ),
        ),
        ["added a@4"],
        "5",
    ),
    "a server without WatchList is listed": Case(
        (status(422, "Invalid"), answer(page([pod("a", 3)], 4)), lines(event("ADDED", pod("b", 5)), then="silence")),
        ["added a@3", "added b@5"],
        "5",
        (FIRST, {"limit": "500"}, {"resourceVersion": "4", "watch": "true"}),
    ),
    "a server that takes WatchList for a bad request is listed": Case(
        (status(400, "BadRequest"), answer(page([], 4)), SILENT),
        [],
        "4",
    ),
    "a first watch cut in the middle begins anew": Case(
        (
            lines(event("ADDED", pod("a", 3)), then="cut"),
            lines(event("ADDED", pod("b", 4)), bookmark(5, end=True), then="silence"),
        ),
        ["added b@4"],
        "5",
        (FIRST, FIRST),
    ),
    "a watch that ends resumes": Case(
        (
            lines(bookmark(5, end=True), event("ADDED", pod("a", 6))),
            lines(event("MODIFIED", pod("a", 7)), then="silence"),
        ),
        ["added a@6", "updated a@7"],
        "7",
        (FIRST, {"resourceVersion": "6", "allowWatchBookmarks": "true"}),
    ),
    "a watch that is cut resumes after the last bookmark": Case(
        (lines(bookmark(5, end=True), bookmark(40), then="cut"), SILENT),
        [],
        "40",
        (FIRST, {"resourceVersion": "40"}),
    ),
    "what is sent twice is reported once": Case(
        (
            lines(bookmark(5, end=True), event("ADDED", pod("a", 6)), event("MODIFIED", pod("a", 7)), then="cut"),
            lines(
                event("MODIFIED", pod("a", 7)), event("ADDED", pod("a", 6)), event("ADDED", pod("b", 8)), then="silence"
            ),
        ),
        ["added a@6", "updated a@7", "added b@8"],
        "8",
    ),
    "half a line is no event": Case(
        (
            lines(bookmark(5, end=True), b'{"type":"ADDED","object":{"metadata":{"name":"a","re', then="cut"),
            lines(event("ADDED", pod("a", 6)), then="silence"),
        ),
        ["added a@6"],
        "6",
        (FIRST, {"resourceVersion": "5"}),
    ),
    "a line in pieces is one event": Case(
        (
            lines(
                bookmark(5, end=True),
                b'{"type":"ADDED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a",',
                b'"namespace":"default","resourceVersion":"6"}}}',
                b"\n\n",
                then="silence",
            ),
        ),
        ["added a@6"],
        "6",
    ),
    "410 starts over, what was missed becomes changes": Case(
        (
            lines(
                event("ADDED", pod("gone", 2)),
                event("ADDED", pod("same", 3)),
                event("ADDED", pod("other", 4)),
                bookmark(5, end=True),
            ),
            lines(gone()),
            lines(
                event("ADDED", pod("same", 3)),
                event("ADDED", pod("other", 44)),
                event("ADDED", pod("new", 45)),
                bookmark(50, end=True),
                then="silence",
            ),
        ),
        ["added gone@2", "added same@3", "added other@4", "deleted gone@2", "updated other@44", "added new@45"],
        "50",
        (FIRST, {"resourceVersion": "5"}, FIRST),
    ),
    "410 as an answer starts over too": Case(
        (lines(bookmark(5, end=True)), status(410, "Gone"), lines(bookmark(9, end=True), then="silence")),
        [],
        "9",
        (FIRST, {"resourceVersion": "5"}, FIRST),
    ),
    "another object of the same name is another object": Case(
        (
            lines(event("ADDED", pod("a", 2, uid="1")), bookmark(5, end=True)),
            lines(gone()),
            lines(event("ADDED", pod("a", 9, uid="2")), bookmark(9, end=True), then="silence"),
        ),
        ["added a@2", "deleted a@2", "added a@9"],
        "9",
    ),
    "a server restored from a backup is behind: start over": Case(
        (
            lines(event("ADDED", pod("a", 99)), bookmark(100, end=True)),
            status(504, "Timeout", "Too large resource version: 100, current: 40"),
            lines(
                event("ADDED", pod("a", 30)), bookmark(40, end=True), event("MODIFIED", pod("a", 41)), then="silence"
            ),
        ),
        ["added a@99", "updated a@30", "updated a@41"],
        "41",
        (FIRST, {"resourceVersion": "100"}, FIRST),
    ),
    "garbage cuts the watch; garbage again is gone around": Case(
        (
            lines(event("ADDED", pod("a", 2)), bookmark(5, end=True), b"<html>\n", then="silence"),
            lines(b'{"type":"ADDED"}\n', then="silence"),
            lines(b'{"type":"WHAT","object":{}}\n', then="silence"),
            lines(event("ADDED", pod("a", 2)), bookmark(9, end=True), then="silence"),
        ),
        ["added a@2"],
        "9",
        (FIRST, {"resourceVersion": "5"}, FIRST, FIRST),
    ),
    "garbage after something that could be read is the first again": Case(
        (
            lines(bookmark(5, end=True), b"<html>\n", then="silence"),
            lines(event("ADDED", pod("a", 6)), b"<html>\n", then="silence"),
            SILENT,
        ),
        ["added a@6"],
        "6",
        (FIRST, {"resourceVersion": "5"}, {"resourceVersion": "6"}),
    ),
    "a deletion that is repeated, or older than what is known, is nothing": Case(
        (
            lines(bookmark(5, end=True), event("ADDED", pod("a", 6)), then="cut"),
            lines(event("DELETED", pod("a", 4)), event("ADDED", pod("b", 7)), then="silence"),
        ),
        ["added a@6", "added b@7"],
        "7",
    ),
    "bookmarks do not lead back": Case(
        (lines(bookmark(9, end=True), bookmark(7), event("ADDED", pod("a", 8)), bookmark(10), then="silence"),),
        [],
        "10",
    ),
    "a deletion before everything was sent, of what was never sent": Case(
        (lines(event("DELETED", pod("a", 3)), event("ADDED", pod("b", 4)), bookmark(5, end=True), then="silence"),),
        ["added b@4"],
        "5",
    ),
    "a bookmark before everything was sent ends nothing": Case(
        (lines(event("ADDED", pod("a", 3)), bookmark(4), bookmark(5, end=True), then="silence"),),
        ["added a@3"],
        "5",
    ),
    "a mark that the end has not come ends nothing": Case(
        (
            lines(
                event("ADDED", pod("a", 3)), NOT_YET, event("ADDED", pod("b", 4)), bookmark(5, end=True), then="silence"
            ),
        ),
        ["added a@3", "added b@4"],
        "5",
    ),
    "a first watch that ends before everything was sent is no WatchList": Case(
        (lines(event("ADDED", pod("a", 3))), answer(page([pod("a", 3)], 4)), SILENT),
        ["added a@3"],
        "4",
        (FIRST, {"limit": "500"}, {"resourceVersion": "4"}),
    ),
    "a server that was listed once is listed again": Case(
        (
            status(422, "Invalid"),
            answer(page([pod("a", 3)], 4)),
            lines(gone()),
            answer(page([pod("a", 5)], 6)),
            SILENT,
        ),
        ["added a@3", "updated a@5"],
        "6",
        (FIRST, {"limit": "500"}, {"resourceVersion": "4"}, {"limit": "500"}, {"resourceVersion": "6"}),
    ),
    "a list without a revision is asked for again": Case(
        (
            status(422, "Invalid"),
            answer({"metadata": {}, "items": []}),
            answer(page([pod("a", 3)], 4)),
            SILENT,
        ),
        ["added a@3"],
        "4",
        (FIRST, {"limit": "500"}, {"limit": "500"}, {"resourceVersion": "4"}),
    ),
    "a bad request later is no reason to list": Case(
        (lines(bookmark(5, end=True)), status(400, "BadRequest"), status(422, "Invalid"), SILENT),
        [],
        "5",
        (FIRST, {"resourceVersion": "5"}, {"resourceVersion": "5"}, {"resourceVersion": "5"}),
    ),
    "an event without a revision cuts the watch": Case(
        (
            lines(bookmark(5, end=True), event("ADDED", {"metadata": {"name": "a"}}), then="silence"),
            lines(event("ADDED", pod("a", 6)), then="silence"),
        ),
        ["added a@6"],
        "6",
        (FIRST, {"resourceVersion": "5"}),
    ),
    "refusals and cuts are tried again": Case(
        (status(500), status(429, retry_after=3), cut, status(503), lines(bookmark(5, end=True), then="silence")),
        [],
        "5",
        (FIRST, FIRST, FIRST, FIRST, FIRST),
    ),
    "a deletion of something unknown is nothing": Case(
        (lines(bookmark(5, end=True), event("DELETED", pod("a", 6)), then="silence"),),
        [],
        "6",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_informer(name: str) -> None:
    case = CASES[name]

    async def run() -> None:
        async with informing(*case.replies) as observed:
            await until(lambda: observed.informer.revision == case.revision and observed.changes == case.changes)
            await until(lambda: len(observed.server.seen) >= len(case.asked))
            assert observed.informer.synced
            for query, part in zip(observed.queries(), case.asked, strict=False):
                assert part.items() <= query.items()
            kept = {f"{item.name}@{item.metadata.resource_version}" for item in observed.informer.objects.values()}
            reported: dict[str, str] = {}
            for change in observed.changes:
                what, _, which = change.partition(" ")
                reported.pop(which.split("@")[0], None)
                if what != "deleted":
                    reported[which.split("@")[0]] = which
            assert kept == set(reported.values())

    asyncio.run(run())


def test_a_silent_connection_is_cut_and_resumed() -> None:
    """Nothing in 180 s: the connection may be dead without anybody saying so. Bytes start the count anew."""
    more = asyncio.Event

    async def run() -> None:
        released = more()
        first = lines(bookmark(5, end=True), then="silence", hold=released.wait())
        async with informing(first, lines(event("ADDED", pod("a", 6)), then="silence")) as observed:
            await until(lambda: observed.informer.synced and observed.clock.sleeping)
            observed.clock.advance(179.0)
            assert len(observed.server.seen) == 1
            observed.clock.advance(1.5)
            await until(lambda: observed.changes == ["added a@6"])
            assert observed.queries()[1]["resourceVersion"] == "5"
            assert "silent for 180 s" in observed.trouble[0]
            released.set()

    asyncio.run(run())


def test_a_server_that_ignores_sendinitialevents_is_listed() -> None:
    """Older servers send what there is and then nothing: the end of the first events never comes."""

    async def run() -> None:
        first = lines(event("ADDED", pod("a", 3)), then="silence")
        async with informing(first, answer(page([pod("a", 3)], 4)), SILENT) as observed:
            await until(lambda: observed.server.seen and observed.clock.sleeping)
            assert not observed.informer.synced

            def later() -> bool:
                """Its silence begins with the last it sent, which may be on its way."""
                observed.clock.advance(1.0)
                return observed.informer.revision == "4"

            await until(later)
            assert observed.changes == ["added a@3"]
            assert "limit" in observed.queries()[1]

    asyncio.run(run())


def test_an_informer_that_may_not_read_ends_with_the_refusal() -> None:
    """403 before the first objects ends the informer: waiting would hide a missing role."""

    async def run() -> None:
        async with informing(status(403, "Forbidden", "pods is forbidden")) as observed:
            assert observed.task is not None
            with pytest.raises(ApiError, match="forbidden"):
                await observed.task

    asyncio.run(run())


def test_a_role_lost_later_is_waited_for() -> None:
    async def run() -> None:
        async with informing(lines(bookmark(5, end=True)), status(403, "Forbidden"), SILENT) as observed:
            await until(lambda: len(observed.server.seen) == 3)
            assert "403" in observed.trouble[0]

    asyncio.run(run())


def backs_off(observed: Observed) -> bool:
    """It waits before it asks again; whoever guards a stream that is open sleeps as well, but for longer."""
    return any(seconds < InformerOptions().first_silence for seconds in observed.clock.slept)


def test_short_empty_watches_do_not_become_a_storm() -> None:
    async def run() -> None:
        async with informing(lines(bookmark(5, end=True)), lines(), instant=0.0) as observed:
            await until(lambda: backs_off(observed))
            assert len(observed.server.seen) == 2
            observed.clock.advance(60.0)
            await until(lambda: len(observed.server.seen) == 3)

    asyncio.run(run())


def test_410_again_and_again_is_not_a_storm() -> None:
    async def run() -> None:
        replies = (lines(bookmark(5, end=True)), lines(gone()), lines(gone()), lines(gone()))
        async with informing(*replies, instant=0.0) as observed:
            await until(lambda: backs_off(observed))
            assert len(observed.server.seen) == 3

    asyncio.run(run())


def test_410_while_everything_is_sent_is_not_a_storm_either() -> None:
    """What was sent before it is no sign that it goes better: the second start over waits."""

    async def run() -> None:
        first = lines(event("ADDED", pod("a", 3)), gone())
        async with informing(first, instant=0.0) as observed:
            await until(lambda: backs_off(observed))
            assert len(observed.server.seen) == 2

    asyncio.run(run())


def test_410_after_an_event_starts_over_at_once() -> None:
    """Restarts are counted from the last word of the server: each of these is the first."""

    async def run() -> None:
        replies = [lines(bookmark(revision, end=True), gone()) for revision in (5, 6, 7)]
        async with informing(*replies, lines(bookmark(8, end=True), then="silence"), instant=0.0) as observed:
            await until(lambda: observed.informer.revision == "8")
            assert not backs_off(observed)
            assert observed.trouble == []

    asyncio.run(run())


@pytest.mark.parametrize(("lasted", "pause"), [(0.9, True), (1.0, False), (1.1, False)])
def test_a_short_watch_without_events_is_followed_by_a_pause(lasted: float, pause: bool) -> None:
    async def run() -> None:
        released = asyncio.Event()
        silent = lines(then="silence", hold=released.wait())
        async with informing(lines(bookmark(5, end=True)), silent, SILENT, instant=0.0) as observed:
            await until(lambda: len(observed.server.seen) == 2 and observed.clock.sleeping)
            observed.clock.advance(lasted)
            released.set()
            await until(lambda: backs_off(observed) if pause else len(observed.server.seen) == 3)
            assert backs_off(observed) is pause

    asyncio.run(run())


@pytest.mark.parametrize("code", [401, 403])
def test_an_informer_that_may_not_read_ends_with_either_code(code: int) -> None:
    async def run() -> None:
        async with informing(status(code, "No", "not for you")) as observed:
            assert observed.task is not None
            with pytest.raises(ApiError, match="not for you"):
                await observed.task

    asyncio.run(run())


def test_an_item_of_a_list_that_cannot_be_read_stays_as_it_was() -> None:
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


def test_an_unreadable_object_is_deleted_as_it_was_last_seen() -> None:
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
def test_an_object_that_cannot_be_read_while_everything_is_sent(known: bool) -> None:
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


def test_what_the_handler_raises_ends_the_informer() -> None:
    async def run() -> None:
        def refuse(_: Change[Pod]) -> None:
            raise ValueError("no")

        stream = lines(event("ADDED", pod("a", 3)), bookmark(5, end=True), then="silence")
        async with scripted(stream) as server, client_of(server) as client:
            with pytest.raises(ValueError, match="no"):
                await Informer(client, PODS, Pod, refuse).run()

    asyncio.run(run())


def test_selectors_and_namespaces_are_requested() -> None:
    async def run() -> None:
        async with scripted(EMPTY) as server, client_of(server) as client:
            informer = Informer(client, PODS, Pod, namespace="team", labels="a=b", fields="spec.nodeName=")
            task = asyncio.create_task(informer.run())
            await informer.wait_synced()
            task.cancel()
            request = server.seen[0]
        assert request.path == "/api/v1/namespaces/team/pods"
        assert (request.query["labelSelector"], request.query["fieldSelector"]) == ("a=b", "spec.nodeName=")
        assert 300 <= int(request.query["timeoutSeconds"]) <= 600

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
    ],
)
def test_what_a_resumed_stream_repeats_is_not_reported_again(known: str, sent: str, reported: int) -> None:
    """An object that cannot be read is reported for each revision once."""
    broken = pod("a", 1)
    broken["spec"] = {"containers": "none"}
    broken["metadata"]["resourceVersion"] = sent
    end = bookmark(1, end=True)
    end["object"]["metadata"]["resourceVersion"] = known
    last = pod("last", 99)

    async def run() -> None:
        first = lines(end)
        second = lines(event("MODIFIED", broken), event("ADDED", last), then="silence")
        async with informing(first, second) as observed:
            await until(lambda: observed.changes)
            assert observed.changes == ["added last@99"]
            assert len(observed.trouble) == reported

    asyncio.run(run())


@pytest.mark.parametrize(
    ("refusal", "waited"),
    [
        (status(500), 0.1),
        (status(503), 0.1),
        (status(500, retry_after=0), 0.1),
        (status(429, retry_after=3), 3.0),
        (status(503, retry_after=1), 1.0),
    ],
)
def test_how_long_an_informer_waits_after_a_refusal(refusal: Reply, waited: float) -> None:
    """Its own back-off, or as long as the server wishes where that is longer."""

    async def run() -> None:
        backoff = BackoffPolicy(initial=0.1, maximum=1.0, jitter=0.0)
        replies = (refusal, refusal, lines(bookmark(5, end=True), then="silence"))
        async with informing(*replies, backoff=backoff) as observed:
            await until(lambda: observed.informer.synced)
            waits = [seconds for seconds in observed.clock.slept if seconds < InformerOptions().first_silence]
            assert waits == [waited, max(waited, 0.2)]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("between", "waits"),
    [
        (bookmark(6), [0.1, 0.1]),  # after an event: from the start
        (None, [0.1, 0.2]),
    ],
)
def test_the_back_off_begins_anew_after_an_event(between: Json | None, waits: list[float]) -> None:
    async def run() -> None:
        backoff = BackoffPolicy(initial=0.1, maximum=1.0, jitter=0.0)
        sent = () if between is None else (between,)
        second = lines(*sent, b"", then="cut")
        replies = (lines(bookmark(5, end=True)), status(500), second, lines(bookmark(9), then="silence"))
        async with informing(*replies, backoff=backoff) as observed:
            await until(lambda: observed.informer.revision == "9")
            assert [seconds for seconds in observed.clock.slept if seconds < 15.0] == waits

    asyncio.run(run())


@pytest.mark.parametrize("code", [400, 422])
def test_a_list_that_is_a_bad_request_is_not_a_storm(code: int) -> None:
    """There is no third way to ask."""

    async def run() -> None:
        async with informing(status(code, "Bad"), instant=0.0, watch_list=False) as observed:
            await until(lambda: backs_off(observed))
            assert len(observed.server.seen) == 1
            assert f"pods: watching again: {observed.server.url}/api/v1/pods: no ({code} Bad)" in observed.trouble

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
def test_the_owner_is_notified_of_answers_and_cuts_and_once_that_everything_is_there(watch_list: bool) -> None:
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
def test_whatever_cannot_be_read_is_reported_wherever_it_comes(watch_list: bool) -> None:
    """In a list or a watch; its owner is notified where it is known whose it is."""
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


def test_the_times_of_an_informer() -> None:
    """client-go's reflector: 0.8 s to 30 s of back-off, watches of five to ten minutes, a pause after less than 1 s."""
    found = InformerOptions()
    assert found.watch_list
    assert (found.silence, found.first_silence, found.shortest_watch, found.quick) == (180.0, 20.0, 300.0, 1.0)
    assert (found.backoff.initial, found.backoff.maximum, found.backoff.factor) == (0.8, 30.0, 2.0)
