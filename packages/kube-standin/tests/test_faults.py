"""Injected faults over HTTP, and the endpoints that inject them.

What clients of other libraries make of them is in clients/test_faults.py.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
import urllib.request
from collections.abc import Iterator

import pytest

from kube_standin import ApiServer
from kube_standin.faults import MOST_FAULTS, FaultTable, MatchedRequest, RequestPattern
from kube_standin.server.control_plane import ServeOptions, serving
from tests.calls import CONTROLS, MAPS, Json, ask, call, config_map, names
from tests.waiting import DEADLINE, eventually


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with ApiServer(controllers="none", clock="simulated", test_controls=True) as api:
        yield api


@pytest.fixture
def api(server: ApiServer) -> Iterator[ApiServer]:
    state = server.snapshot()
    yield server
    server.faults.clear()
    server.restore(state)


def request(**fields: str) -> MatchedRequest:
    values = dict.fromkeys(("verb", "group", "resource", "subresource", "namespace", "name", "user"), "")
    return MatchedRequest(**{**values, "verb": "update", "group": "apps", "resource": "deployments", **fields})


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ({}, True),
        ({"verb": "update", "resource": "deployments"}, True),
        ({"resource": "deployments.apps"}, True),
        ({"resource": "deployments.batch"}, False),
        ({"resource": "deployments/status"}, False),
        ({"verb": "create"}, False),
        ({"namespace": "other"}, False),
        ({"name": "x"}, False),
        ({"user": "somebody"}, False),
    ],
)
def test_pattern_means_requests(pattern: dict[str, str], meant: bool) -> None:
    assert RequestPattern(**pattern).matches(request()) is meant
    assert not RequestPattern(**pattern).matches(request(subresource="scale", resource="pods"))


def test_subresource_is_meant_by_its_name() -> None:
    status = request(subresource="status")
    assert RequestPattern(resource="deployments/status").matches(status)
    assert RequestPattern(subresource="*").matches(status)
    assert RequestPattern(subresource="*").matches(request())
    assert not RequestPattern().matches(status)


def test_answer_for_the_next_requests(api: ApiServer) -> None:
    call(api, MAPS, config_map("a"))
    with api.faults.answer(409, verb="update", resource="configmaps", times=2) as fault:
        for _ in range(2):
            code, status, _ = ask(api, f"{MAPS}/a", config_map("a", b="c"), "PUT")
            assert (code, status["reason"]) == (409, "Conflict")
            assert status["message"].startswith('Operation cannot be fulfilled on configmaps "a": the object has been')
        assert ask(api, f"{MAPS}/a", config_map("a", b="c"), "PUT")[0] == 200
        assert fault.count == 2
    assert not len(api.faults)


@pytest.mark.parametrize(
    ("code", "reason"),
    [(400, "BadRequest"), (429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable"),
     (504, "Timeout"), (418, "")],
)  # fmt: skip
def test_answers_have_the_reason_of_their_code(api: ApiServer, code: int, reason: str) -> None:
    with api.faults.answer(code, resource="configmaps"):
        found, status, headers = ask(api, MAPS)
        assert (found, status["code"], status.get("reason", "")) == (code, code, reason)
        assert headers.get("Retry-After", headers.get("retry-after")) == ("1" if code == 429 else None)
        assert ask(api, "/api/v1/pods")[0] == 200
    assert ask(api, MAPS)[0] == 200


def test_retry_after_and_message(api: ApiServer) -> None:
    with api.faults.answer(503, retry_after=2.5, message="be patient"):
        _, status, headers = ask(api, MAPS)
    assert (status["message"], status["details"]["retryAfterSeconds"]) == ("be patient", 3)
    assert {name.lower(): value for name, value in headers.items()}["retry-after"] == "3"


def test_refused_write_is_not_done(api: ApiServer) -> None:
    with api.faults.answer(500, verb="create", namespace="default", user="admin", times=1):
        assert ask(api, MAPS, config_map("b"))[0] == 500
        assert "b" not in names(api, MAPS)
        assert ask(api, MAPS, config_map("b"))[0] == 201


def test_delay(api: ApiServer) -> None:
    with api.faults.delay(0.3, verb="list", resource="configmaps"), api.faults.answer(404, verb="list"):
        began = time.monotonic()
        assert ask(api, MAPS)[0] == 404
        assert time.monotonic() - began >= 0.3


def test_reset_connection(api: ApiServer) -> None:
    """Python's ssl reports a reset as an end of file."""
    with api.faults.reset(resource="configmaps", times=1), pytest.raises(OSError, match=r"reset by peer|closed conn"):
        ask(api, MAPS)
    assert ask(api, MAPS)[0] == 200


def test_reset_is_one_of_tcp() -> None:
    async def received() -> bytes:
        async with serving(ServeOptions(tls=False)) as server:
            server.faults.reset()
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            head = f"GET {MAPS} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {server.keys.admin_token}\r\n\r\n"
            writer.write(head.encode())
            try:
                return await reader.read()
            finally:
                writer.close()

    with pytest.raises(ConnectionResetError):
        asyncio.run(received())


class WatchReader:
    """An open watch: its events as they come."""

    def __init__(self, api: ApiServer, query: str = "") -> None:
        opened = urllib.request.Request(
            f"{api.url}{MAPS}?watch=1&allowWatchBookmarks=true{query}", headers={"Authorization": f"Bearer {api.token}"}
        )
        context = ssl.create_default_context(cafile=str(api.ca))
        self._answer = urllib.request.urlopen(opened, context=context, timeout=DEADLINE)

    def next(self) -> Json | None:
        line = self._answer.readline()
        if not line:
            self._answer.close()
            return None
        event: Json = json.loads(line)
        return event


INITIAL = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"


def test_watches_are_dropped_or_expire(api: ApiServer) -> None:
    for expected in (None, 410):
        watch = WatchReader(api, INITIAL)
        event = watch.next()
        while event is not None and event["type"] != "BOOKMARK":
            event = watch.next()
        assert api.drop_watches("pods") == api.expire_watches("configmaps", user="somebody") == 0
        ended = api.drop_watches("configmaps") if expected is None else api.expire_watches()
        assert ended == 1
        last = watch.next()
        assert (last and last["object"]["code"]) == expected
        assert last is None or watch.next() is None


def test_watches_that_begin_with_410_or_without_bookmarks(api: ApiServer) -> None:
    with api.faults.gone(resource="configmaps", times=1):
        watch = WatchReader(api)
        event = watch.next()
        assert event is not None
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
        assert watch.next() is None
    with api.faults.withhold_bookmarks():
        watch = WatchReader(api, INITIAL + "&timeoutSeconds=1")
        types = []
        while (event := watch.next()) is not None:
            types.append(event["type"])
        assert "BOOKMARK" not in types


@pytest.mark.parametrize(
    ("action", "arguments", "why"),
    [
        ("answer", {"code": 200}, "400 to 599"),
        ("answer", {"code": 429, "retry_after": -1}, "retry_after: expected 0 to 3600 seconds"),
        ("delay", {"seconds": 1e9}, "seconds: expected 0 to 3600 seconds"),
        ("delay", {"seconds": float("nan")}, "seconds"),
        ("reset", {"times": 0}, "times: expected a number of requests above 0"),
        ("reset", {"verb": "PUT"}, "verb: expected get, list"),
        ("gone", {"kind": "Pod"}, "unknown argument kind"),
    ],
)
def test_arguments_that_make_no_sense(action: str, arguments: Json, why: str) -> None:
    table = FaultTable()
    with pytest.raises((ValueError, TypeError), match=why):
        getattr(table, action)(**arguments)
    assert not len(table)


def test_number_of_faults_is_bounded() -> None:
    table = FaultTable()
    for _ in range(MOST_FAULTS):
        table.reset()
    with pytest.raises(ValueError, match="1000 faults already"):
        table.reset()


# -- over HTTP ---------------------------------------------------------------------------------------------------------


def test_faults_over_http(api: ApiServer) -> None:
    asked = {"action": "answer", "code": 429, "retryAfter": 7, "verb": "list", "resource": "configmaps", "times": 1}
    code, made, _ = ask(api, f"{CONTROLS}/faults", asked)
    assert (code, made["code"], made["retryAfter"], made["count"]) == (201, 429, 7.0, 0)
    assert call(api, f"{CONTROLS}/faults")["items"] == [made]
    assert ask(api, MAPS)[0] == 429
    assert call(api, f"{CONTROLS}/faults")["items"] == []
    second = call(api, f"{CONTROLS}/faults", {"action": "withhold-bookmarks"})
    assert call(api, f"{CONTROLS}/faults/{second['id']}", method="DELETE")["items"] == []
    assert ask(api, f"{CONTROLS}/faults/{second['id']}", method="DELETE")[0] == 404
    call(api, f"{CONTROLS}/faults", {"action": "reset", "resource": "pods"})
    assert call(api, f"{CONTROLS}/faults", method="DELETE")["items"] == []


def test_clock_watches_and_snapshots_over_http(api: ApiServer) -> None:
    before = api.now
    assert call(api, f"{CONTROLS}/clock") == {"now": before.isoformat(), "simulated": True}
    made = call(api, f"{CONTROLS}/snapshots", {})
    call(api, MAPS, config_map("late"))
    call(api, f"{CONTROLS}/clock", {"advance": "1h30m"})
    assert (api.now - before).total_seconds() == 5400
    watch = WatchReader(api, INITIAL)
    assert watch.next() is not None
    assert call(api, f"{CONTROLS}/watches", {"action": "drop", "resource": "configmaps"}) == {"ended": 1}
    assert call(api, f"{CONTROLS}/snapshots")["items"] == [made]
    call(api, f"{CONTROLS}/snapshots/{made['name']}/restore", {})
    assert "late" not in names(api, MAPS)
    assert api.now == before
    call(api, f"{CONTROLS}/snapshots/{made['name']}", method="DELETE")
    assert call(api, f"{CONTROLS}/snapshots")["items"] == []
    eventually(lambda: watch.next() is None, "the end of the watch")


@pytest.mark.parametrize(
    ("path", "body", "why"),
    [
        ("clock", {"advance": "soon"}, "a duration like"),
        ("clock", {"advance": "90000000000000h"}, "are too many"),
        ("clock", {"advance": "-1s"}, "0 to 366 days"),
        ("clock", {"set": "1s"}, "unknown field"),
        ("clock", [], "Expected `object`"),
        ("faults", {"action": "explode"}, "expected one of answer, delay"),
        ("faults", {"action": ["answer"]}, "expected one of answer, delay"),
        ("faults", {"action": "answer"}, "code"),
        ("faults", {"action": "answer", "code": "409"}, "code: Expected `int`"),
        ("faults", {"action": "reset", "table": "x"}, "unknown argument table"),
        ("watches", {"action": "pause"}, "expected drop or expire"),
    ],
)
def test_bodies_that_make_no_sense_over_http(api: ApiServer, path: str, body: Json, why: str) -> None:
    code, status, _ = ask(api, f"{CONTROLS}/{path}", body)
    assert code == 400, status
    assert why in status["message"]
    assert f"{CONTROLS}/{path}" in status["message"]


def test_snapshots_over_http_are_bounded(api: ApiServer) -> None:
    made = [call(api, f"{CONTROLS}/snapshots", {})["name"] for _ in range(16)]
    assert ask(api, f"{CONTROLS}/snapshots", {})[0] == 400
    for name in made:
        call(api, f"{CONTROLS}/snapshots/{name}", method="DELETE")


def test_only_cluster_administrators_may_use_them(api: ApiServer) -> None:
    rule: Json = {"nonResourceURLs": ["*"], "verbs": ["*"]}
    role: Json = {"metadata": {"name": "all"}, "rules": [rule]}
    call(api, "/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
    binding: Json = {
        "metadata": {"name": "all"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "all"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"}],
    }
    call(api, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    for headers in ({"Impersonate-User": "eve"}, {"Impersonate-User": "mallory"}):
        code, status, _ = ask(api, f"{CONTROLS}/clock", **headers)
        assert (code, status["reason"]) == (403, "Forbidden")
    assert ask(api, f"{CONTROLS}/clock", Authorization="Bearer wrong")[0] == 401


def test_unknown_paths_and_methods(api: ApiServer) -> None:
    assert ask(api, f"{CONTROLS}/other")[0] == 404
    assert ask(api, f"{CONTROLS}/snapshots/99/restore", {})[0] == 404
    for path in ("clock", "faults", "watches"):
        assert ask(api, f"{CONTROLS}/{path}", {}, "PUT")[0] == 405


def test_they_are_off_by_default(kube_api: ApiServer) -> None:
    assert ask(kube_api, f"{CONTROLS}/clock")[0] == 404
    assert ask(kube_api, f"{CONTROLS}/faults", {"action": "reset"})[0] == 405


def test_real_clock_is_not_set_over_http() -> None:
    with ApiServer(controllers="none", test_controls=True) as api:
        code, status, _ = ask(api, f"{CONTROLS}/clock", {"advance": "1s"})
        assert (code, status["message"]) == (
            409, "the server has the real clock: start it with a simulated clock to set the time",
        )  # fmt: skip
        assert call(api, f"{CONTROLS}/clock")["simulated"] is False
