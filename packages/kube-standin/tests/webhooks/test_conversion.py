"""Conversion webhooks of custom resources: what is sent, what may come back, and where objects are converted.

Rules and texts: k8s.io/apiextensions-apiserver (conversion/webhook_converter), e2e crd_conversion_webhook.go.
"""

from __future__ import annotations

import asyncio
import base64
import json
import urllib.request
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.server.definitions import CRDS, Json, definition, fields, place, version, widget
from tests.server.live import Live, live
from tests.webhooks.answering import Hooks, hooks, http

TEXT = {"type": "string"}
HOST = version("v1", fields(hostPort=TEXT), selectableFields=[{"jsonPath": ".hostPort"}])
SELECTABLE = [{"jsonPath": ".host"}, {"jsonPath": ".port"}]
PARTS = version("v2", fields(host=TEXT, port=TEXT), storage=False, selectableFields=SELECTABLE)


def swapped(obj: Json, to: str) -> Json:
    """As the webhook of the conformance tests: one field in v1, two in v2."""
    out = {**obj, "apiVersion": to}
    if to.endswith("v2"):
        host, _, port = out.pop("hostPort", "").partition(":")
        out |= {"host": host, "port": port}
    else:
        out["hostPort"] = f"{out.pop('host', '')}:{out.pop('port', '')}"
    return out


def answer(body: Json, **response: Any) -> bytes:
    request = body["request"]
    converted = [swapped(obj, request["desiredAPIVersion"]) for obj in request["objects"]]
    made = {"uid": request["uid"], "convertedObjects": converted, "result": {"status": "Success"}, **response}
    return json.dumps({"apiVersion": body["apiVersion"], "kind": "ConversionReview", "response": made}).encode()


class Converter:
    """A webhook in a thread of its own; ``change`` may spoil its answers."""

    def __init__(self, running: Hooks) -> None:
        self.running = running
        self.change: Callable[[Json], bytes] = answer

    @property
    def calls(self) -> list[Json]:
        return [body["request"] for body in self.running.bodies]


@pytest.fixture(scope="module")
def server() -> Iterator[Live]:
    with live() as running:
        yield running


@pytest.fixture(scope="module")
def converter(server: Live, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Converter]:
    """A webhook on the loop of the server, and a definition that names it."""
    box: dict[str, Any] = {}

    @asynccontextmanager
    async def serve(directory: Path) -> AsyncIterator[Converter]:
        async def respond(body: bytes, writer: asyncio.StreamWriter) -> None:
            writer.write(http(box["converter"].change(json.loads(body))))

        async with hooks(directory, respond) as running:
            yield Converter(running)

    context = serve(tmp_path_factory.mktemp("hooks"))
    box["converter"] = on_loop(server, context.__aenter__())
    webhook = {"clientConfig": box["converter"].running.config(), "conversionReviewVersions": ["v2", "v1"]}
    conversion = {"strategy": "Webhook", "webhook": webhook}
    code, made, _ = server.request("POST", CRDS, definition(HOST, PARTS, conversion=conversion))
    assert code == 201, made
    yield box["converter"]
    on_loop(server, context.__aexit__(None, None, None))


def on_loop(server: Live, work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run_coroutine_threadsafe(work, server.loop).result(10)


@pytest.fixture(autouse=True)
def fresh(server: Live, converter: Converter) -> None:
    converter.change = answer
    for item in server.request("GET", place())[1]["items"]:
        assert server.request("DELETE", place(item["metadata"]["name"]))[0] == 200
    converter.running.bodies.clear()


def test_object_is_converted_as_it_is_read(server: Live, converter: Converter) -> None:
    made = server.request("POST", place(), widget("w", hostPort="h:1"))[1]
    assert converter.calls == [], "it is stored and answered in one version"
    code, found, _ = server.request("GET", place("w", at="v2"))
    assert (code, found["host"], found["port"]) == (200, "h", "1")
    assert "hostPort" not in found
    assert found["metadata"] == made["metadata"]
    [call] = converter.calls
    assert call["desiredAPIVersion"] == "stable.example.com/v2"
    assert call["objects"] == [made]


def test_object_is_converted_as_it_is_written(server: Live, converter: Converter) -> None:
    code, made, _ = server.request("POST", place(at="v2"), widget("w", "v2", host="h", port="2"))
    assert (code, made["host"], made["port"], made["apiVersion"]) == (201, "h", "2", "stable.example.com/v2")
    assert server.request("GET", place("w"))[1]["hostPort"] == "h:2"
    headers = {"Content-Type": "application/merge-patch+json"}
    code, patched, _ = server.request("PATCH", place("w", at="v2"), {"port": "3"}, headers=headers)
    assert (code, patched["port"], patched["metadata"]["generation"]) == (200, "3", 2)
    assert server.request("GET", place("w"))[1]["hostPort"] == "h:3"
    patched["host"] = "other"
    assert server.request("PUT", place("w", at="v2"), patched)[0] == 200
    assert server.request("GET", place("w"))[1]["hostPort"] == "other:3"
    assert server.request("DELETE", place("w", at="v2"))[0] == 200
    assert server.request("GET", place("w"))[0] == 404


def test_object_changed_in_another_version_is_validated_in_its_own(server: Live, converter: Converter) -> None:
    """interfaces.md 6.3: the patch of a webhook for v1 reaches a write of v2, which is checked and answered as v2."""

    def admit(body: Json) -> bytes:
        if body["kind"] == "ConversionReview":
            return answer(body)
        assert body["request"]["object"]["hostPort"] == "h:2"
        patch = base64.b64encode(json.dumps([{"op": "replace", "path": "/hostPort", "value": "h:9"}]).encode())
        response = {"uid": body["request"]["uid"], "allowed": True, "patchType": "JSONPatch", "patch": patch.decode()}
        return json.dumps({"apiVersion": body["apiVersion"], "kind": "AdmissionReview", "response": response}).encode()

    converter.change = admit
    rules = [{"apiGroups": ["stable.example.com"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["*"]}]
    webhook = {"name": "m.example.com", "clientConfig": converter.running.config(), "rules": rules}
    webhook |= {"sideEffects": "None", "admissionReviewVersions": ["v1"]}
    configurations = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    made = server.request("POST", configurations, {"metadata": {"name": "m"}, "webhooks": [webhook]})
    assert made[0] == 201, made
    try:
        code, found, _ = server.request("POST", place(at="v2"), widget("w", "v2", host="h", port="2"))
        assert (code, found["apiVersion"]) == (201, "stable.example.com/v2")
        assert (found["host"], found["port"], "hostPort" in found) == ("h", "9", False)
        assert server.request("GET", place("w"))[1]["hostPort"] == "h:9"
    finally:
        assert server.request("DELETE", f"{configurations}/m")[0] == 200


def test_list_is_one_call(server: Live, converter: Converter) -> None:
    for name in ("a", "b"):
        assert server.request("POST", place(), widget(name, hostPort=f"{name}:1"))[0] == 201
    items = server.request("GET", place(at="v2"))[1]["items"]
    assert [item["host"] for item in items] == ["a", "b"]
    assert [len(call["objects"]) for call in converter.calls] == [2]
    headers = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    rows = server.request("GET", place(at="v2"), headers=headers)[1]["rows"]
    assert [row["cells"][0] for row in rows] == ["a", "b"]


def test_watch_shows_converted_objects(server: Live, converter: Converter) -> None:
    server.request("POST", place(), widget("w", hostPort="h:1"))
    code, raw, _ = server.request("GET", f"{place(at='v2')}?watch=true&timeoutSeconds=1")
    assert code == 200
    text = raw.decode() if isinstance(raw, bytes) else json.dumps(raw)
    event = json.loads(text.splitlines()[0])
    assert (event["type"], event["object"]["host"]) == ("ADDED", "h")


def watched(server: Live, query: str, at: str = "v2") -> list[tuple[str, str]]:
    """The type and name of each event of a second."""
    headers = {"Authorization": f"Bearer {server.server.keys.admin_token}"}
    path = f"{server.url}{place(at=at)}?watch=true&timeoutSeconds=1&{query}"
    with urllib.request.urlopen(urllib.request.Request(path, headers=headers), context=server.context) as stream:
        events = [json.loads(line) for line in stream]
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


def test_field_selectors_compare_the_version_that_is_asked_for(server: Live, converter: Converter) -> None:
    """crd_selectable_fields.go, "MUST list and watch custom resources matching the field selector"."""
    since = server.request("GET", place())[1]["metadata"]["resourceVersion"]
    for name, host, port in (("a", "host1", "80"), ("b", "host1", "8080"), ("c", "host2", "")):
        assert server.request("POST", place(at="v2"), widget(name, "v2", host=host, port=port))[0] == 201

    def listed(selector: str, at: str = "v2", more: str = "") -> list[str]:
        items = server.request("GET", f"{place(at=at)}?fieldSelector={selector}{more}")[1]["items"]
        return [item["metadata"]["name"] for item in items]

    assert listed("host=host1") == ["a", "b"]
    assert listed("host=host1,port!=80") == ["b"]
    assert listed("metadata.name=a,host=host2") == []
    assert listed("hostPort=host1:8080", at="v1") == ["b"]
    assert listed("host=host1", more="&limit=1") == ["a"]
    middle = server.request("GET", place())[1]["metadata"]["resourceVersion"]
    assert server.request("DELETE", f"{place(at='v2')}?fieldSelector=host=host1,port=80")[0] == 200
    found = server.request("GET", place("b", at="v2"))[1]
    assert server.request("PUT", place("b", at="v2"), {**found, "host": "host2"})[0] == 200
    assert listed("host=host1") == []
    came, went = [("ADDED", "a"), ("ADDED", "b")], [("DELETED", "a"), ("DELETED", "b")]
    assert watched(server, f"resourceVersion={since}&fieldSelector=host=host1") == [*came, *went]
    assert watched(server, f"resourceVersion={middle}&fieldSelector=host=host1") == went
    assert watched(server, "fieldSelector=host=host2") == [("ADDED", "b"), ("ADDED", "c")]
    assert watched(server, f"resourceVersion={since}&fieldSelector=hostPort=host1:80", "v1") == [came[0], went[0]]


def objects(change: Callable[[Json], object]) -> Callable[[Json], bytes]:
    """An answer of which each object is changed in place."""

    def spoil(body: Json) -> bytes:
        review = json.loads(answer(body))
        for obj in review["response"]["convertedObjects"]:
            change(obj)
        return json.dumps(review).encode()

    return spoil


SUBJECT = "conversion webhook for stable.example.com/v1, Kind=Widget "
INVALID = "returned invalid converted object at index 0: "


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda body: answer(body, result={"status": "Failure", "message": "no way"}), "failed: no way"),
        (lambda body: answer(body, result={}), "failed: response.result.status was '', not 'Success'"),
        (lambda body: answer(body, uid="other"), 'got "other"'),
        (lambda body: answer(body, convertedObjects=[]), "returned 0 objects, expected 1"),
        (
            lambda body: b'{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"}',
            "failed: no response provided",
        ),
        (lambda body: b'{"apiVersion":"v1","kind":"Pod"}', "got v1, Kind=Pod"),
        (lambda body: b"nothing", "failed: the response is not JSON"),
        (objects(lambda obj: obj.update(apiVersion="stable.example.com/v3")), "invalid groupVersion (expected "),
        (objects(lambda obj: obj.update(kind="Other")), INVALID + "invalid kind (expected Widget, received Other)"),
        (objects(lambda obj: obj.pop("metadata")), INVALID + "missing metadata in converted object"),
        (objects(lambda obj: obj["metadata"].update(name="x")), INVALID + "must have the same name: w != x"),
        (objects(lambda obj: obj["metadata"].update(namespace="x")), "must have the same namespace: default != x"),
        (objects(lambda obj: obj["metadata"].update(uid="x")), "must have the same UID: "),
        (objects(lambda obj: obj["metadata"].update(labels={"a": 1})), "metadata.labels[a] must be a string"),
        (objects(lambda obj: obj["metadata"].update(labels={"a": "-"})), "metadata.labels: Invalid value"),
    ],
)
def test_answers_that_are_refused(
    server: Live, converter: Converter, change: Callable[[Json], bytes], text: str
) -> None:
    """Reads and writes are refused with the reason; nothing is changed."""
    server.request("POST", place(), widget("w", hostPort="h:1"))
    converter.change = change
    for line in (place("w", at="v2"), place(at="v2")):
        code, status, _ = server.request("GET", line)
        assert code == 500
        assert status["message"].startswith(SUBJECT)
        assert text in status["message"]
    assert server.request("POST", place(at="v2"), widget("new", "v2", host="h"))[0] == 500
    assert server.request("GET", place("new"))[0] == 404
    assert server.request("GET", place("w"))[0] == 200


def test_labels_and_annotations_may_change_and_nothing_else_of_metadata(server: Live, converter: Converter) -> None:
    made = server.request("POST", place(), {**widget("w"), "metadata": {"name": "w", "labels": {"a": "1"}}})[1]
    new = {"labels": {"b": "2"}, "annotations": {"c": "3"}, "generation": 7, "finalizers": ["example.com/x"]}
    converter.change = objects(lambda obj: obj["metadata"].update(new))
    found = server.request("GET", place("w", at="v2"))[1]["metadata"]
    assert (found["labels"], found["annotations"]) == ({"b": "2"}, {"c": "3"})
    assert (found["generation"], found.get("finalizers")) == (made["metadata"]["generation"], None)


def test_webhook_that_does_not_answer(server: Live, converter: Converter) -> None:
    server.request("POST", place(), widget("w"))
    dead = {"url": "https://127.0.0.1:1/x", "caBundle": converter.running.bundle}
    name = f"{CRDS}/widgets.stable.example.com"
    headers = {"Content-Type": "application/merge-patch+json"}
    good = server.request("GET", name)[1]["spec"]["conversion"]
    patch = {"spec": {"conversion": {"webhook": {"clientConfig": dead}}}}
    assert server.request("PATCH", name, patch, headers=headers)[0] == 200
    code, status, _ = server.request("GET", place("w", at="v2"))
    assert code == 500
    assert status["message"].startswith(f'{SUBJECT}failed: Post "https://127.0.0.1:1/x?timeout=30s": ')
    assert server.request("GET", place("w"))[0] == 200
    assert server.request("PATCH", name, {"spec": {"conversion": good}}, headers=headers)[0] == 200
    assert server.request("GET", place("w", at="v2"))[0] == 200
