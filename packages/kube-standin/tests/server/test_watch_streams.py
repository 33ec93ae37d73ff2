"""Watches, by a clock that does not wait: how they begin, what they show in which form, when they end.

Rules: kube-apiserver 1.36 (resourceVersion and sendInitialEvents of a watch, bookmarks, 410 as an ERROR event).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import parse_qsl

import pytest

from kube_standin.features import EVERY_RELEASE
from kube_standin.registry import WriteOptions
from kube_standin.server.app import AppOptions
from kube_standin.server.negotiation import PLAIN
from kube_standin.server.query import watch_options
from kube_standin.server.watch_streams import INITIAL_EVENTS_END, WatchPace, WatchStream, WatchTimes
from kube_standin.storage import Store
from kube_standin.storage.store import StoreLimits
from tests.server.inprocess import Plane, Watch, running
from tests.server.live import config_map

MAPS = "/api/v1/namespaces/default/configmaps"
Json = dict[str, Any]


@pytest.fixture
def plane() -> Iterator[Plane]:
    with running(features=EVERY_RELEASE) as made:
        yield made


def make(plane: Plane, *names: str, **labels: str) -> list[int]:
    """Create config maps; their revisions."""
    found = []
    for name in names:
        body = config_map(name)
        if labels:
            body["metadata"]["labels"] = labels
        answer = plane.ask(f"POST {MAPS}", body)
        assert answer.status == 201
        found.append(int(answer.json["metadata"]["resourceVersion"]))
    return found


def told(events: list[Json]) -> list[tuple[str, str]]:
    """The type and the name of each event; for a bookmark whether it ends the initial list."""
    return [
        (event["type"], event["object"]["metadata"].get("name") or str(sorted(event["object"]["metadata"])))
        for event in events
    ]


BOOKMARK = ("BOOKMARK", "['resourceVersion']")
END = ("BOOKMARK", "['annotations', 'resourceVersion']")
ADDED = [("ADDED", "a"), ("ADDED", "b")]
INITIAL = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
NONE = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
MARKS = "allowWatchBookmarks=true"


@pytest.mark.parametrize(
    ("query", "begins"),
    [
        ("", ADDED),
        ("resourceVersion=0", ADDED),
        (MARKS, ADDED),
        (INITIAL, ADDED),
        (f"{INITIAL}&{MARKS}", [*ADDED, END]),
        (f"{INITIAL}&{MARKS}&resourceVersion={{0}}", [*ADDED, END]),
        (f"{INITIAL}&resourceVersion={{0}}", ADDED),
        (NONE, []),
        (f"{NONE}&{MARKS}", []),
        (f"{NONE}&resourceVersion={{0}}", [("ADDED", "b")]),
        ("resourceVersion={0}", [("ADDED", "b")]),
        (f"resourceVersion={{0}}&{MARKS}", [("ADDED", "b")]),
        ("resourceVersion={1}", []),
        ("labelSelector=x%3Dy", []),
        ("fieldSelector=metadata.name%3Db", [("ADDED", "b")]),
    ],
)
def test_how_a_watch_begins(plane: Plane, query: str, begins: list[tuple[str, str]]) -> None:
    """With the present, with what came after a revision, or with nothing; then what comes."""
    revisions = make(plane, "a", "b")

    async def run() -> list[Json]:
        async with plane.watching(f"GET {MAPS}?watch=1&timeoutSeconds=5&{query.format(*revisions)}") as watch:
            start = await watch.start()
            headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-cache, private")]
            assert (start["status"], start["headers"][:2]) == (200, headers)  # the flow of the request comes after
            seen = [await watch.event() for _ in begins]
            body = config_map("b", more="data")
            body["metadata"]["labels"] = {"x": "y"}
            assert (await plane.asked(f"PUT {MAPS}/b", body)).status == 200
            return [*seen, *await watch.rest()]

    seen = told(plane.run(run()))
    assert seen[: len(begins)] == begins
    assert seen[len(begins) :] == [("ADDED" if "labelSelector" in query else "MODIFIED", "b")]


def test_end_of_the_beginning_is_marked_with_its_revision(plane: Plane) -> None:
    make(plane, "a")
    *_, mark = plane.watched(f"GET {MAPS}?watch=1&timeoutSeconds=1&{INITIAL}&{MARKS}")
    assert mark == {
        "type": "BOOKMARK",
        "object": {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {
                "resourceVersion": str(plane.store.revision),
                "annotations": {INITIAL_EVENTS_END: "true"},
            },
        },
    }


def streamed(plane: Plane, writes: Callable[[], Coroutine[Any, Any, None]]) -> list[Json]:
    """The events of a watch with initial events and bookmarks, beside which ``writes`` runs once it is subscribed."""

    async def run() -> list[Json]:
        kind = plane.registry.kind("v1", "ConfigMap")
        options = watch_options({**dict(parse_qsl(f"{INITIAL}&{MARKS}")), "timeoutSeconds": "5"})
        stream = WatchStream(
            plane.registry, plane.app.renderer, kind, None, options, PLAIN, {}, WatchTimes(), WatchPace(0.01)
        )
        sent: list[bytes] = []
        writing: list[asyncio.Task[None]] = []

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":  # the stream subscribes in this turn, and sends in the next
                writing.append(asyncio.create_task(writes()))
            sent.append(message.get("body", b""))

        await stream.run(send, asyncio.Event())
        await asyncio.gather(*writing)
        return [json.loads(line) for line in b"".join(sent).splitlines()]

    return plane.run(run())


def commit(plane: Plane, name: str) -> None:
    """Create a config map, committed at once."""
    plane.registry.create_now(plane.registry.kind("v1", "ConfigMap"), "default", config_map(name), WriteOptions())
    plane.store.flush()


def test_change_before_the_state_is_sent_comes_after_the_end_of_the_beginning(plane: Plane) -> None:
    """interfaces.md 4.6: it is not in the state, and its revision is higher than that of the mark."""
    [shown] = make(plane, "a")

    async def write() -> None:
        commit(plane, "b")

    events = streamed(plane, write)
    assert told(events) == [("ADDED", "a"), END, ("ADDED", "b")]
    revisions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert revisions == [shown, shown, shown + 1]


def test_no_change_beside_a_watch_that_begins_is_lost_to_an_informer(plane: Plane) -> None:
    """interfaces.md 4.6: whichever turn of the loop commits a change, it is part of the state that the mark ends, or an
    event of a higher revision than the mark and all before it; an informer drops every other event as known.
    """
    make(plane, *(f"old-{number:02}" for number in range(20)))
    names = [f"new-{number:02}" for number in range(30)]

    async def write() -> None:
        for name in names:
            commit(plane, name)
            await asyncio.sleep(0)

    known, passed = set(), None
    for event in streamed(plane, write):
        metadata = event["object"]["metadata"]
        if passed is None and event["type"] == "BOOKMARK":
            passed = int(metadata["resourceVersion"])
        elif passed is None:
            known.add(metadata["name"])
        elif int(metadata["resourceVersion"]) > passed:
            passed = int(metadata["resourceVersion"])
            known.add(metadata["name"])
    assert known.issuperset(names)


@pytest.mark.parametrize(
    ("seconds", "query", "marks"),
    [
        (59, MARKS, 0),
        (61, MARKS, 1),
        (179, MARKS, 2),
        (181, MARKS, 3),
        (181, "", 0),
    ],
)
def test_bookmark_each_minute_for_watches_that_ask_for_it(plane: Plane, seconds: int, query: str, marks: int) -> None:
    make(plane, "a")
    events = plane.watched(f"GET {MAPS}?watch=1&resourceVersion=1&timeoutSeconds={seconds}&{query}")
    assert told(events) == [("ADDED", "a"), *[BOOKMARK] * marks]
    assert all(event["object"]["metadata"]["resourceVersion"] == str(plane.store.revision) for event in events[1:])


@pytest.mark.parametrize(("query", "least", "most"), [("&timeoutSeconds=7", 7, 7), ("", 1800, 3600)])
def test_when_a_watch_ends(plane: Plane, query: str, least: float, most: float) -> None:
    """When its time is over; what says none gets between half an hour and an hour, by chance."""
    lasted = []
    for _ in range(1 if query else 8):
        began = plane.runner.get_loop().time()
        assert plane.watched(f"GET {MAPS}?watch=1{query}") == []
        lasted.append(plane.runner.get_loop().time() - began)
    assert all(least - 0.01 <= one <= most + 0.01 for one in lasted)
    assert query or len({round(one) for one in lasted}) > 1, "not all of them at the same moment"


def test_watch_ends_on_time_while_events_come(plane: Plane) -> None:
    async def run() -> int:
        async with plane.watching(f"GET {MAPS}?watch=1&timeoutSeconds=5") as watch:
            await watch.start()
            rest = asyncio.ensure_future(watch.rest())
            for number in range(10):
                await plane.asked(f"POST {MAPS}", config_map(f"m{number}"))
                await asyncio.sleep(1)
            assert rest.done()
            return len(await rest)

    assert 4 <= plane.run(run()) <= 6


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io"


def test_events_in_each_form(plane: Plane) -> None:
    make(plane, "a")
    line = f"GET {MAPS}?watch=1&timeoutSeconds=61&{INITIAL}&{MARKS}"
    plain, end, mark = plane.watched(line)
    assert plain["object"] == plane.ask(f"GET {MAPS}/a").json
    partial, partial_end, partial_mark = plane.watched(line, accept=PARTIAL)
    head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1beta1"}
    assert partial == {"type": "ADDED", "object": {**head, "metadata": plain["object"]["metadata"]}}
    assert partial_end["object"] == {**end["object"], **head}
    assert partial_mark["object"] == {**mark["object"], **head}
    table, table_mark = plane.watched(f"GET {MAPS}?watch=1&timeoutSeconds=61&{MARKS}", accept=TABLE)
    revision = str(plane.store.revision)
    assert (table["object"]["kind"], table["object"]["metadata"]) == ("Table", {"resourceVersion": revision})
    inner = {**mark["object"], "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    assert table_mark["object"] == {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": revision},
        "columnDefinitions": None,
        "rows": [{"cells": [], "object": inner}],
    }


def test_first_table_has_the_columns(plane: Plane) -> None:
    """And no other (recorded 603); each row's revision is that of its event."""
    revisions = make(plane, "a", "b")

    async def run() -> list[Json]:
        async with plane.watching(f"GET {MAPS}?watch=1&timeoutSeconds=5", accept=TABLE) as watch:
            await watch.start()
            first = [await watch.event(), await watch.event()]
            await plane.asked(f"POST {MAPS}", config_map("c"))
            await plane.asked(f"POST {MAPS}", config_map("d"))
            return [*first, await watch.event(), await watch.event()]

    events = plane.run(run())
    tables = [event["object"] for event in events]
    assert [[row["cells"][0] for row in table["rows"]] for table in tables] == [["a"], ["b"], ["c"], ["d"]]
    assert [column["name"] for column in tables[0]["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert [table["columnDefinitions"] for table in tables[1:]] == [None] * 3
    assert [int(table["metadata"]["resourceVersion"]) for table in tables[:2]] == revisions
    for include, kind in (("Object", "ConfigMap"), ("None", None)):
        first = plane.watched(f"GET {MAPS}?watch=1&timeoutSeconds=1&includeObject={include}", accept=TABLE)[0]
        [row] = first["object"]["rows"]
        assert (row["object"] and row["object"]["kind"]) == kind


def test_watchers_of_other_forms_and_versions_do_not_share_lines(plane: Plane) -> None:
    """The bytes of an event are shared only by watchers that see it in the same form."""
    groups = "/apis/scheduling.k8s.io/{}/namespaces/default/podgroups?watch=1&timeoutSeconds=5"
    queries = [
        ("v1beta1", {}, "scheduling.k8s.io/v1beta1"),
        ("v1alpha2", {}, "scheduling.k8s.io/v1alpha2"),
        ("v1beta1", {"accept": PARTIAL}, "meta.k8s.io/v1beta1"),
        ("v1beta1", {"accept": PARTIAL.replace("v=v1beta1", "v=v1")}, "meta.k8s.io/v1"),
        ("v1beta1", {"accept": TABLE}, "meta.k8s.io/v1"),
        ("v1beta1", {}, "scheduling.k8s.io/v1beta1"),
    ]

    async def run() -> list[str]:
        async with AsyncExitStack() as stack:
            watches = [
                await stack.enter_async_context(plane.watching(f"GET {groups.format(version)}", **headers))
                for version, headers, _ in queries
            ]
            for watch in watches:
                await watch.start()
            spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
            url = groups.format("v1beta1").partition("?")[0]
            assert (await plane.asked(f"POST {url}", {"metadata": {"name": "g"}, "spec": spec})).status == 201
            return [(await watch.event())["object"]["apiVersion"] for watch in watches]

    assert plane.run(run()) == [version for _, _, version in queries]


def test_old_path_watches_one_object(plane: Plane) -> None:
    make(plane, "a", "b")
    line = "GET /api/v1/watch/namespaces/default/configmaps{}?timeoutSeconds=1"
    assert told(plane.watched(line.format("/a"))) == [("ADDED", "a")]
    assert told(plane.watched(line.format(""))) == ADDED
    assert told(plane.watched("GET /api/v1/watch/configmaps?timeoutSeconds=1")) == ADDED
    assert told(plane.watched("GET /api/v1/watch/namespaces/kube-system/configmaps?timeoutSeconds=1")) == []
    assert told(plane.watched("GET /api/v1/watch/namespaces/default?timeoutSeconds=1")) == [("ADDED", "default")]


def test_watch_of_everything_is_of_the_namespace_a_selector_names(plane: Plane) -> None:
    make(plane, "a")
    line = "GET /api/v1/configmaps?watch=1&timeoutSeconds=1&fieldSelector=metadata.namespace%3D{}"
    assert told(plane.watched(line.format("default"))) == [("ADDED", "a")]
    assert plane.watched(line.format("kube-system")) == []


def test_forgotten_revision_ends_a_watch_with_the_reason(plane: Plane) -> None:
    make(plane, "a")
    now = plane.store.revision
    plane.store.compact(now)
    [event] = plane.watched(f"GET {MAPS}?watch=1&resourceVersion={now - 1}")
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert event["object"]["message"] == f"too old resource version: {now - 1} ({now})"
    assert plane.watched(f"GET {MAPS}?watch=1&resourceVersion={now}&timeoutSeconds=1") == []


def test_slow_watch_ends_with_an_error() -> None:
    with running(store=Store(limits=StoreLimits(watch_events=2))) as plane:
        kind = plane.registry.kind("v1", "ConfigMap")

        async def run() -> list[Json]:
            async with plane.watching(f"GET {MAPS}?watch=1&resourceVersion=1") as watch:
                await watch.start()
                for name in "abc":
                    plane.registry.create_now(kind, "default", config_map(name), WriteOptions())
                await plane.store.ticket.settled()
                return await watch.rest()

        [event] = plane.run(run())
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        assert (
            event["object"]["message"] == f"too old resource version: {plane.store.revision} ({plane.store.revision})"
        )
        assert not plane.store._subscriptions["configmaps"]


def test_client_that_does_not_read_has_some_seconds_to_begin() -> None:
    """Then it is cut off; it holds up no other client."""
    times = WatchTimes(farewell=10.0)
    with running(AppOptions(times=times), Store(limits=StoreLimits(watch_events=2))) as plane:

        async def run() -> float:
            loop = asyncio.get_running_loop()
            full = asyncio.Event()
            never = asyncio.Event()

            async def send(message: Any) -> None:
                if message["type"] == "http.response.body" and message["body"]:
                    full.set()
                    await never.wait()

            async def receive() -> Json:
                await never.wait()
                raise AssertionError

            scope = {
                "type": "http",
                "method": "GET",
                "path": MAPS,
                "query_string": b"watch=1&resourceVersion=1",
                "headers": [(b"authorization", b"Bearer admin")],
            }
            watch = asyncio.ensure_future(plane.app(scope, receive, send))
            await plane.asked(f"POST {MAPS}", config_map("first"))
            await full.wait()
            for name in "abc":
                await plane.asked(f"POST {MAPS}", config_map(name))
            began = loop.time()
            await watch
            return loop.time() - began

        assert plane.run(run()) == pytest.approx(10.0, abs=0.1)
        assert not plane.store._subscriptions["configmaps"]


def test_client_that_leaves_ends_his_watch(plane: Plane) -> None:
    async def run() -> None:
        async with plane.watching(f"GET {MAPS}?watch=1") as watch:
            await watch.start()
            await plane.asked(f"POST {MAPS}", config_map("a"))
            await watch.event()
            assert len(plane.store._subscriptions["configmaps"]) == 1
        assert asyncio.all_tasks() == {asyncio.current_task()}, "no task runs for it"

    plane.run(run())
    plane.watched(f"GET {MAPS}?watch=1&timeoutSeconds=1")
    assert not plane.store._subscriptions["configmaps"]


def test_events_that_come_together_go_out_together(plane: Plane) -> None:
    """The first ones at once; then so many hundredths of a second later all that came meanwhile, in one piece."""

    async def run() -> list[int]:
        async with plane.watching(f"GET {MAPS}?watch=1&resourceVersion=1&timeoutSeconds=5") as watch:
            await watch.start()
            await asyncio.gather(*(plane.asked(f"POST {MAPS}", config_map(f"m{number}")) for number in range(40)))
            await watch.rest()
            return [piece.count(b"\n") for piece in watch.pieces if piece]

    pieces = plane.run(run())
    assert sum(pieces) == 40
    assert len(pieces) < 40


def test_busy_watch_shows_a_change_before_a_quiet_one_shows_a_later_one(plane: Plane) -> None:
    """Or a client acts on the status of a set before it has seen the pod that the status counts."""
    secrets = "/api/v1/namespaces/default/secrets"
    seen: list[str] = []

    async def see(watch: Watch, name: str) -> None:
        await watch.event()
        seen.append(name)

    async def run() -> None:
        since = "watch=1&resourceVersion=1&timeoutSeconds=5"
        async with plane.watching(f"GET {MAPS}?{since}") as busy, plane.watching(f"GET {secrets}?{since}") as quiet:
            await asyncio.gather(busy.start(), quiet.start())
            for number in range(20):
                await plane.asked(f"POST {MAPS}", config_map(f"m{number}"))
                await busy.event()
            await plane.asked(f"POST {MAPS}", config_map("first"))
            await plane.asked(f"POST {secrets}", {"metadata": {"name": "second"}})
            await asyncio.gather(see(busy, "first"), see(quiet, "second"))

    plane.run(run())
    assert seen == ["first", "second"]


def test_few_events_do_not_wait_for_others(plane: Plane) -> None:
    """Controllers act on what they have seen: after a pause every event goes out at once, then some wait."""

    async def run() -> list[float]:
        now, delays = asyncio.get_running_loop().time, []
        async with plane.watching(f"GET {MAPS}?watch=1&resourceVersion=1&timeoutSeconds=5") as watch:
            await watch.start()
            for number in range(20):
                await asyncio.sleep(0.001)
                begins = now()  # of a clock that only timers advance
                await plane.asked(f"POST {MAPS}", config_map(f"m{number}"))
                await watch.event()
                delays.append(now() - begins)
        return delays

    delays = plane.run(run())
    assert not any(delays[:9])
    assert any(delays)


def test_many_events_go_out_in_pieces_of_some_size(plane: Plane) -> None:
    """32 KiB or more each, so that a large beginning is neither one write nor thousands (interfaces.md 5.7)."""
    for number in range(8):
        assert plane.ask(f"POST {MAPS}", config_map(f"m{number}", pad="x" * 12_000)).status == 201

    async def run() -> list[int]:
        async with plane.watching(f"GET {MAPS}?watch=1&timeoutSeconds=1") as watch:
            await watch.start()
            await watch.rest()
            return [piece.count(b"\n") for piece in watch.pieces]

    assert plane.run(run()) == [3, 3, 2]


def test_unexpected_fault_breaks_a_watch_off(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The answer has begun: it ends without its last piece, and the log has why."""

    def fail(*_: object) -> None:
        raise RuntimeError("boom")

    make(plane, "a")
    monkeypatch.setattr(WatchStream, "_encoded", fail)

    async def run() -> None:
        async with plane.watching(f"GET {MAPS}?watch=1") as watch:
            await watch.start()

    plane.run(run())
    assert [record.getMessage() for record in caplog.records if record.exc_info] == [f"watch {MAPS} failed"]


def test_watch_is_refused_before_it_begins(plane: Plane) -> None:
    assert plane.ask(f"GET {MAPS}?watch=1&labelSelector=a%3D%3D%3Db").status == 400
    for bad in ("x", "-1", "1.5", "0x1", "9" * 20, str(2**64), "9" * 400, "%D9%A3"):
        code, reason, message = plane.ask(f"GET {MAPS}?watch=1&resourceVersion={bad}").refusal
        assert (code, reason) == (400, "BadRequest")
        assert message.startswith("invalid resource version: resourceVersion: Invalid value")
        assert len(message) < 400
    assert plane.ask(f"GET {MAPS}?watch=1&includeObject=x", accept=TABLE).status == 400
    assert plane.ask(f"GET {MAPS}?watch=1", accept="text/html").status == 406
    assert plane.ask("GET /api/v1/namespaces/default/bindings?watch=1").status == 405


def test_watch_from_a_revision_to_come_waits_for_it(plane: Plane) -> None:
    """The largest revision there may be is one (recorded 598)."""
    assert plane.watched(f"GET {MAPS}?watch=1&resourceVersion={2**64 - 1}&timeoutSeconds=1") == []


def test_watch_from_a_revision_to_come_has_no_marks_before_it(plane: Plane) -> None:
    """interfaces.md 4.4: a bookmark of a lower revision would turn the watch back."""
    ahead = plane.store.revision + 1
    assert plane.watched(f"GET {MAPS}?watch=1&resourceVersion={ahead}&timeoutSeconds=150&{MARKS}") == []


def test_state_of_a_revision_to_come_is_waited_for_a_while() -> None:
    """interfaces.md 4.4: then the watch ends with the reason. What comes meanwhile begins it."""
    with running(AppOptions(future_wait=3.0)) as plane:
        make(plane, "a")
        now = plane.store.revision
        began = plane.runner.get_loop().time()
        line = f"GET {MAPS}?watch=1&timeoutSeconds=1&{INITIAL}&resourceVersion="
        [event] = plane.watched(f"{line}{now + 1}")
        assert plane.runner.get_loop().time() - began == pytest.approx(3.0)
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 504, "Timeout")
        assert event["object"]["message"] == f"Timeout: Too large resource version: {now + 1}, current: {now}"
        assert event["object"]["details"] == {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        }

        async def met() -> list[Json]:
            async with plane.watching(f"{line}{now + 1}") as watch:
                await watch.start()
                await plane.asked(f"POST {MAPS}", config_map("b"))
                return await watch.rest()

        assert told(plane.run(met())) == [("ADDED", "a"), ("ADDED", "b")]


def test_bytes_sent_are_counted(plane: Plane) -> None:
    """Events with those of the beginning, without bookmarks; the watch itself once it has ended."""
    make(plane, "a", "b")
    before = plane.ask("GET /metrics").body.decode()
    assert 'apiserver_watch_events_total{group="",resource="configmaps",version="v1"}' not in before

    async def run() -> None:
        line = f"GET {MAPS}?watch=1&timeoutSeconds=100&{INITIAL}&{MARKS}"
        async with plane.watching(line) as watch:
            await watch.start()
            await plane.asked(f"POST {MAPS}", config_map("c"))
            await watch.rest()

    plane.run(run())
    after = plane.ask("GET /metrics").body.decode()
    assert 'apiserver_watch_events_total{group="",resource="configmaps",version="v1"} 3.0' in after
