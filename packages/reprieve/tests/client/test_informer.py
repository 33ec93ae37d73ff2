"""Watches and informers: what comes out whatever the connection does (Kubernetes API concepts, "Efficient detection
of changes", "Streaming lists")."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from kube_rules.objects import Pod
from reprieve.client.errors import ApiError
from reprieve.client.informer import Change, Informer
from tests.client.clock import until
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
    "a first watch cut in the middle begins again": Case(
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
def test_informer(name: str) -> None:
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


@pytest.mark.parametrize("code", [401, 403])
def test_informer_that_may_not_read_ends_with_the_refusal(code: int) -> None:
    """Before the first objects: waiting would hide a missing role."""

    async def run() -> None:
        async with informing(status(code, "No", "not for you")) as observed:
            assert observed.task is not None
            with pytest.raises(ApiError, match="not for you"):
                await observed.task

    asyncio.run(run())


def test_handler_error_ends_the_informer() -> None:
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
