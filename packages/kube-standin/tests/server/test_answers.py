"""Requests and their answers, without a socket: access, what each verb answers, and what goes wrong.

api.md 5.2: every refusal is a Status with kube-apiserver's code and reason; the order of the checks is its order, too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from kube_standin.errors import StatusError, not_found
from kube_standin.server.app import AppOptions, read_headers
from kube_standin.storage import StorageError
from tests.server.inprocess import Plane, running
from tests.server.live import config_map, pod

Json = dict[str, Any]
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MERGE, APPLY, JSON_PATCH = "application/merge-patch+json", "application/apply-patch+yaml", "application/json-patch+json"


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """With a config map `there`, a pod `there` and a deployment `there` that asks for two."""
    with running() as made:
        assert made.ask(f"POST {MAPS}", config_map("there")).status == 201
        assert made.ask(f"POST {PODS}", pod("there")).status == 201
        spec = {
            "replicas": 2,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        }
        assert made.ask(f"POST {DEPLOYMENTS}", {"metadata": {"name": "there"}, "spec": spec}).status == 201
        yield made


# -- access ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Bearer admin", 200),
        ("bearer   admin ", 200),
        ("Bearer wrong", 401),
        ("Basic admin", 401),
        ("admin", 401),
        ("", 401),
        (None, 401),
    ],
)
def test_tokens_that_are_accepted(plane: Plane, header: str | None, status: int) -> None:
    answer = plane.ask(f"GET {MAPS}", token=None, **({} if header is None else {"authorization": header}))
    assert answer.status == status
    if status == 401:
        assert answer.refusal == (401, "Unauthorized", "Unauthorized")
        assert answer.header("www-authenticate") == "Bearer"


def test_unknown_user_sees_health_and_version_where_anonymous_requests_are_allowed() -> None:
    with running(AppOptions(anonymous=True)) as plane:
        assert plane.ask("GET /version", token=None).status == 200
        assert plane.ask(f"GET {MAPS}", token=None).refusal[:2] == (403, "Forbidden")
        assert plane.ask("GET /version", token="wrong").status == 401


def test_rights_come_before_everything_else(plane: Plane) -> None:
    """A client without access does not learn whether the object exists."""
    for line in (f"POST {MAPS}", f"DELETE {MAPS}/there", "POST /apis/made.up/v1/things", f"PUT {MAPS}/there/made-up"):
        assert plane.ask(line, {}, token="reader").refusal[:2] == (403, "Forbidden")
    assert plane.ask(f"GET {MAPS}/there", token="reader").status == 200
    assert plane.ask("GET /apis/made.up/v1/things", token="reader").status == 404


def test_right_in_one_namespace_is_none_to_another(plane: Plane) -> None:
    """A user with all rights in a namespace reaches no other one by a path through it."""
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    role = {"metadata": {"name": "all"}, "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]}
    assert plane.ask(f"POST {rbac}/roles", role).status == 201
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "all"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}
    binding = {"metadata": {"name": "all"}, "roleRef": reference, "subjects": [subject]}
    assert plane.ask(f"POST {rbac}/rolebindings", binding).status == 201
    assert plane.ask("GET /api/v1/namespaces/default", impersonate_user="jane").status == 200
    assert plane.ask("GET /api/v1/namespaces/kube-node-lease", impersonate_user="jane").status == 403
    for method in ("GET", "DELETE"):
        line = f"{method} /api/v1/namespaces/default/namespaces/kube-node-lease"
        assert plane.ask(line, impersonate_user="jane").status == 404
    assert plane.ask("GET /api/v1/namespaces/kube-node-lease").json["metadata"].get("deletionTimestamp") is None


def test_headers_are_read_by_lower_case_name() -> None:
    scope = {"headers": [(b"a", b"1"), (b"b", b"\xe4"), (b"a", b"2")]}
    assert read_headers(scope) == {"a": "1,2", "b": "ä"}


# -- faults ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "status", "message", "logged"),
    [
        (StorageError("disk full"), 500, "Internal error occurred: disk full", "storage: disk full"),
        (RecursionError(), 400, "the request is nested too deeply", f"GET {MAPS}: nested too deeply"),
        (MemoryError(), 500, "Internal error occurred: out of memory", f"GET {MAPS}: out of memory"),
        (ValueError("boom"), 500, "Internal error occurred; see the server's log", f"GET {MAPS} failed"),
        (not_found("things", "", "x"), 404, 'things "x" not found', None),
    ],
)
def test_errors_of_every_kind_are_one_answer(
    plane: Plane,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fault: Exception,
    status: int,
    message: str,
    logged: str | None,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr(plane.store, "page", fail)
    code, reason, said = plane.ask(f"GET {MAPS}").refusal
    assert (code, said) == (status, message)
    assert reason == {500: "InternalError", 400: "BadRequest", 404: "NotFound"}[status]
    assert [record.getMessage() for record in caplog.records] == ([] if logged is None else [logged])
    monkeypatch.undo()
    assert plane.ask(f"GET {MAPS}").status == 200


def test_client_that_leaves_before_his_body_gets_no_answer_and_is_counted(plane: Plane) -> None:
    sent: list[object] = []

    async def send(message: object) -> None:
        sent.append(message)

    async def receive() -> Json:
        return {"type": "http.disconnect"}

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/v1/namespaces/default/secrets",
        "query_string": b"",
        "headers": [(b"authorization", b"Bearer admin")],
    }
    plane.run(plane.app(scope, receive, send))
    assert not sent
    answer = plane.ask("GET /metrics")
    assert (answer.status, answer.header("content-type")) == (200, "text/plain; version=0.0.4; charset=utf-8")
    metrics = answer.body.decode().splitlines()
    [counted] = [line for line in metrics if line.startswith("apiserver_request_total") and '"secrets"' in line]
    assert 'code="499"' in counted
    assert counted.endswith(" 1.0")


def test_other_events_of_asgi(plane: Plane) -> None:
    """A start and a stop are confirmed; what is neither these nor HTTP gets nothing."""
    sent: list[Json] = []
    events = iter([{"type": "lifespan.startup"}, {"type": "other"}, {"type": "lifespan.shutdown"}])

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Json:
        return next(events)

    plane.run(plane.app({"type": "lifespan"}, receive, send))
    assert [message["type"] for message in sent] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert next(events, None) is None
    sent.clear()
    plane.run(plane.app({"type": "websocket"}, receive, send))
    assert not sent


def test_answers_are_compressed_for_clients_that_accept_it(plane: Plane) -> None:
    path = "/openapi/v2"
    assert plane.ask(f"GET {path}").header("content-encoding") is None
    assert plane.ask(f"GET {path}", accept_encoding="br, gzip;q=0.5").header("content-encoding") == "gzip"
    assert plane.ask(f"GET {path}", accept_encoding="br").header("content-encoding") is None


@pytest.mark.parametrize("length", [None, "3000000", "x", "9" * 19])
def test_bodies_are_read_whatever_their_length_is_said_to_be(plane: Plane, length: str | None) -> None:
    headers = {} if length is None else {"content_length": length}
    answer = plane.ask(f"POST {MAPS}?dryRun=All", config_map("x"), **headers)
    assert answer.status == 201
    chunked = plane.ask(f"POST {MAPS}?dryRun=All", config_map("x"), transfer_encoding="chunked")
    assert chunked.status == 201
    far = plane.ask(f"POST {MAPS}?dryRun=All", config_map("x"), content_length="9" * 18)
    assert far.status == 413


@pytest.mark.parametrize(
    "asked",
    ["/api", "/apis", "/api/v1", "/apis/apps", f"{MAPS}/kube-root-ca.crt", MAPS, f"{MAPS}/none", "/api/v1/nothing"],
)
@pytest.mark.parametrize("form", ["", "Table", "PartialObjectMetadata"])
def test_answer_without_indentation_ends_with_a_line_break(plane: Plane, asked: str, form: str) -> None:
    """As the encoder of Go writes one: some clients compare the text of a refusal with the expected one."""
    accept = f"application/json;as={form};g=meta.k8s.io;v=v1,application/json" if form else "application/json"
    if form and asked == MAPS:
        accept = accept.replace("Metadata", "MetadataList")
    body = plane.ask(f"GET {asked}", accept=accept).body
    assert body.endswith(b"}\n")
    assert not body.endswith(b"\n\n")
    assert not plane.ask(f"GET {MAPS}?pretty=true").body.endswith(b"\n")


# -- writes ----------------------------------------------------------------------------------------------------


def test_create_is_answered_as_it_is_stored(plane: Plane) -> None:
    answer = plane.ask(f"POST {MAPS}", config_map("made", a="b"), user_agent="kubectl/v1.36")
    assert answer.status == 201
    made = answer.json
    assert list(made)[:2] == ["kind", "apiVersion"]
    assert made["data"] == {"a": "b"}
    assert made["metadata"]["managedFields"][0]["manager"] == "kubectl"
    assert plane.ask(f"GET {MAPS}/made").body == answer.body
    assert plane.ask(f"POST {MAPS}", config_map("made")).refusal == (
        409,
        "AlreadyExists",
        'configmaps "made" already exists',
    )
    pretty = plane.ask(f"POST {MAPS}?pretty=1&dryRun=All", config_map("other"))
    assert pretty.body.startswith(b'{\n  "kind": "ConfigMap"')
    packed = plane.ask(f"POST {MAPS}?dryRun=All", config_map("other"), accept="application/yaml")
    assert (packed.status, packed.header("content-type")) == (201, "application/yaml")
    partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    assert (
        plane.ask(f"POST {MAPS}?dryRun=All", config_map("other"), accept=partial).json["kind"]
        == "PartialObjectMetadata"
    )
    assert plane.ask(f"GET {MAPS}/other").status == 404


def test_put_of_what_is_not_there_makes_it_where_its_kind_allows(plane: Plane) -> None:
    lease = {"metadata": {"name": "l"}, "spec": {}}
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l"
    assert plane.ask(f"PUT {path}", lease).status == 201
    again = plane.ask(f"GET {path}").json
    assert plane.ask(f"PUT {path}", again).status == 200
    assert plane.ask(f"PUT {MAPS}/absent", config_map("absent")).status == 404


def test_each_verb_on_one_object() -> None:
    """interfaces.md 4.1."""
    with running() as plane:
        plane.ask(f"POST {MAPS}", config_map("m", a="1"))
        for line, body, headers, data in (
            (f"PUT {MAPS}/m", config_map("m", a="2"), {}, {"a": "2"}),
            (f"PATCH {MAPS}/m", {"data": {"b": "3"}}, {"content_type": MERGE}, {"a": "2", "b": "3"}),
            (
                f"PATCH {MAPS}/m",
                [{"op": "remove", "path": "/data/a"}],
                {"content_type": JSON_PATCH},
                {"b": "3"},
            ),
            (
                f"PATCH {MAPS}/m?fieldManager=me&force=true",
                config_map("m", b="4"),
                {"content_type": APPLY},
                {"b": "4"},
            ),
        ):
            answer = plane.ask(line, body, **headers)
            assert (answer.status, answer.json["data"]) == (200, data)
            assert plane.ask(f"GET {MAPS}/m").json == answer.json
        assert plane.ask(f"PATCH {MAPS}/new?fieldManager=me", config_map("new"), content_type=APPLY).status == 201
        refused = plane.ask(f"PATCH {MAPS}/m?fieldManager=me&force=true", config_map("m"), content_type=MERGE)
        assert refused.refusal[:2] == (422, "Invalid")
        refused = plane.ask(f"PATCH {MAPS}/m", config_map("m"), content_type=APPLY)
        assert "fieldManager: Required value" in refused.refusal[2]


def test_delete_answers() -> None:
    """A Status with the uid of what is gone, or the object, by its kind (kinds.returns_deleted)."""
    with running() as plane:
        uid = plane.ask(f"POST {MAPS}", config_map("m")).json["metadata"]["uid"]
        answer = plane.ask(f"DELETE {MAPS}/m", accept="application/yaml")
        assert answer.header("content-type") == "application/yaml"
        plane.ask(f"POST {MAPS}", config_map("m"))
        gone = plane.ask(f"DELETE {MAPS}/m").json
        assert (gone["kind"], gone["status"], gone["details"]["name"]) == ("Status", "Success", "m")
        assert gone["details"]["uid"] != uid
        assert gone["details"]["kind"] == "configmaps"
        plane.ask(f"POST {PODS}", pod("p"))
        gone = plane.ask(f"DELETE {PODS}/p").json
        assert (gone["kind"], gone["metadata"]["name"]) == ("Pod", "p")
        held = config_map("held")
        held["metadata"]["finalizers"] = ["a/b"]
        plane.ask(f"POST {MAPS}", held)
        waiting = plane.ask(f"DELETE {MAPS}/held").json
        assert (waiting["kind"], "deletionTimestamp" in waiting["metadata"]) == ("ConfigMap", True)
        assert plane.ask(f"DELETE {MAPS}/absent").refusal == (404, "NotFound", 'configmaps "absent" not found')


@pytest.mark.parametrize(
    ("body", "query", "status", "left"),
    [
        (None, "?gracePeriodSeconds=5", 200, 5),
        ({"gracePeriodSeconds": 7}, "", 200, 7),
        ({"gracePeriodSeconds": 7}, "?gracePeriodSeconds=5", 200, 7),
        ({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 7}, "", 200, 7),
        ({"kind": "Other"}, "", 400, None),
        ({"preconditions": {"uid": "other"}}, "", 409, None),
        (None, "?dryRun=All", 200, None),
        ({"dryRun": ["All"]}, "", 200, None),
        ({"dryRun": ["x"]}, "", 422, None),
        (None, "?propagationPolicy=x", 422, None),
    ],
)
def test_delete_options_of_requests(body: Json | None, query: str, status: int, left: int | None) -> None:
    """In its body or its query; the body counts."""
    with running() as plane:
        bound = pod("p")
        bound["spec"]["nodeName"] = "n"
        assert plane.ask(f"POST {PODS}", bound).status == 201
        assert plane.ask(f"DELETE {PODS}/p{query}", body).status == status
        assert plane.ask(f"GET {PODS}/p").json["metadata"].get("deletionGracePeriodSeconds") == left


@pytest.mark.parametrize(
    ("query", "gone"),
    [
        ("", "abc"),
        ("?labelSelector=x%3Dy", "a"),
        ("?fieldSelector=metadata.name%3Db", "b"),
        ("?labelSelector=x%3Dy&fieldSelector=metadata.name%3Db", ""),
        ("?limit=1&resourceVersion=1", "abc"),
        ("?dryRun=All", ""),
    ],
)
def test_delete_of_many_takes_what_is_selected(query: str, gone: str) -> None:
    """It answers the list of what there was; what is in other namespaces stays."""
    with running() as plane:
        for name in "abc":
            body = config_map(name)
            if name == "a":
                body["metadata"]["labels"] = {"x": "y"}
            plane.ask(f"POST {MAPS}", body)
        plane.ask("POST /api/v1/namespaces/kube-system/configmaps", config_map("a"))
        answer = plane.ask(f"DELETE {MAPS}{query}")
        assert (answer.status, answer.json["kind"]) == (200, "ConfigMapList")
        listed = [item["metadata"]["name"] for item in answer.json["items"]]
        assert listed == list("abc" if "dryRun" in query else gone)
        left = [item["metadata"]["name"] for item in plane.ask("GET /api/v1/configmaps").json["items"]]
        assert left == [*(name for name in "abc" if name not in gone), "a"]
        assert answer.json["metadata"].keys() == {"resourceVersion"}


def test_delete_of_many_goes_on_over_what_went_meanwhile(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """But not over any other refusal."""
    asked: list[str] = []

    def refuse(error: StatusError) -> None:
        def delete(kind: object, namespace: str, name: str, options: object) -> None:
            asked.append(name)
            raise error

        monkeypatch.setattr(plane.registry.deletion, "delete", delete)

    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    refuse(not_found("priorityclasses", "scheduling.k8s.io", "x"))
    assert plane.ask(f"DELETE {classes}").status == 200
    assert sorted(asked) == ["system-cluster-critical", "system-node-critical"]
    asked.clear()
    refuse(StatusError(409, "Conflict", "no"))
    assert plane.ask(f"DELETE {classes}").status == 409
    assert len(asked) == 1


def test_warnings_go_with_an_answer_and_with_a_refusal(plane: Plane) -> None:
    unknown = {**config_map("warned"), "made": "up"}
    answer = plane.ask(f"POST {MAPS}?dryRun=All", unknown)
    assert (answer.status, answer.header("warning")) == (201, '299 - "unknown field \\"made\\""')
    assert plane.ask(f"POST {MAPS}?dryRun=All&fieldValidation=Ignore", unknown).header("warning") is None
    strict = plane.ask(f"POST {MAPS}?dryRun=All&fieldValidation=Strict", unknown)
    assert (strict.status, strict.header("warning")) == (400, None)
    assert 'strict decoding error: unknown field "made"' in strict.refusal[2]
    unknown["metadata"]["labels"] = {"a b": "c"}
    refused = plane.ask(f"POST {MAPS}?dryRun=All", unknown)
    assert (refused.status, refused.header("warning")) == (422, '299 - "unknown field \\"made\\""')
    twice = plane.ask(f"POST {MAPS}?dryRun=All", raw=b'{"metadata":{"name":"x"},"data":{"a":"1","a":"2"}}')
    assert twice.header("warning") == '299 - "duplicate field \\"data.a\\""'
    review = {"spec": {"made": "up", "resourceAttributes": {"verb": "get", "resource": "pods"}}}
    answer = plane.ask("POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    assert (answer.status, answer.header("warning")) == (201, '299 - "unknown field \\"spec.made\\""')


@pytest.mark.parametrize(
    ("line", "body", "headers"),
    [
        (f"POST {MAPS}", config_map("new"), {}),
        (f"PUT {MAPS}/there", config_map("there", a="b"), {}),
        (f"PATCH {MAPS}/there", {"data": {"a": "b"}}, {"content_type": MERGE}),
        (f"PATCH {MAPS}/applied?fieldManager=me", config_map("applied"), {"content_type": APPLY}),
        (f"DELETE {MAPS}/there", None, {}),
        (f"DELETE {MAPS}", None, {}),
        (f"DELETE {PODS}", None, {}),
        (f"POST {PODS}/there/binding", {"target": {"name": "n"}}, {}),
        (f"POST {PODS}/there/eviction", {"metadata": {"name": "there"}}, {}),
        (f"PATCH {DEPLOYMENTS}/there/scale", {"spec": {"replicas": 7}}, {"content_type": MERGE}),
        (f"PUT {DEPLOYMENTS}/there/scale", {"spec": {"replicas": 7}}, {}),
    ],
)
def test_nothing_is_answered_that_is_not_durable(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, line: str, body: Any, headers: dict[str, str]
) -> None:
    """A write that the disk did not take is an error, by whatever verb; and nothing of it is there."""
    before = {path: plane.ask(f"GET {path}").json["items"] for path in (MAPS, PODS, DEPLOYMENTS)}

    def fail(rows: object) -> None:
        raise StorageError("disk full")

    monkeypatch.setattr(plane.store._log, "append", fail)
    answer = plane.ask(line, body, **headers)
    assert answer.refusal == (500, "InternalError", "Internal error occurred: disk full")
    monkeypatch.undo()
    assert {path: plane.ask(f"GET {path}").json["items"] for path in before} == before


@pytest.mark.parametrize(
    ("headers", "waits"),
    [
        ([(b"transfer-encoding", b"chunked")], True),
        ([(b"content-length", b"65537")], True),
        ([(b"content-length", b"65536")], False),
        ([], False),
    ],
)
def test_only_so_many_large_bodies_are_held_at_a_time(
    plane: Plane, headers: list[tuple[bytes, bytes]], waits: bool
) -> None:
    """Sixteen; a client that sends another one waits until one of them is read. Small ones do not wait."""

    async def run() -> tuple[int, int]:
        begun = 0
        on = asyncio.Event()
        codes: list[int] = []

        async def receive() -> Json:
            nonlocal begun
            begun += 1
            await on.wait()
            return {"type": "http.request", "body": json.dumps(config_map("x")).encode()}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                codes.append(message["status"])

        scope = {
            "type": "http",
            "method": "POST",
            "path": MAPS,
            "query_string": b"dryRun=All",
            "headers": [(b"authorization", b"Bearer admin"), *headers],
        }
        tasks = [asyncio.ensure_future(plane.app(scope, receive, send)) for _ in range(18)]
        for _ in range(5):
            await asyncio.sleep(0)
        first = begun
        on.set()
        await asyncio.gather(*tasks)
        assert codes == [201] * 18
        return first, begun

    assert plane.run(run()) == (16 if waits else 18, 18)


# -- subresources and reviews ----------------------------------------------------------------------------------


def test_binding_at_either_door(plane: Plane) -> None:
    target = {"target": {"kind": "Node", "name": "n"}}
    for name, line, body in (
        ("first", f"POST {PODS}/first/binding", target),
        ("second", "POST /api/v1/namespaces/default/bindings", {"metadata": {"name": "second"}, **target}),
    ):
        assert plane.ask(f"POST {PODS}", pod(name)).status == 201
        answer = plane.ask(line, body)
        assert (answer.status, answer.json["kind"], answer.json["status"]) == (201, "Status", "Success")
        assert plane.ask(f"GET {PODS}/{name}").json["spec"]["nodeName"] == "n"
    refused = plane.ask(f"POST {PODS}/there/binding", {"kind": "Pod", **target})
    assert refused.refusal == (400, "BadRequest", "the object provided is unrecognized (must be of type Binding)")


def test_eviction(plane: Plane) -> None:
    plane.ask(f"POST {PODS}", pod("evicted"))
    body = {"metadata": {"name": "evicted"}}
    assert plane.ask(f"POST {PODS}/evicted/eviction?dryRun=All", body).status == 201
    assert plane.ask(f"GET {PODS}/evicted").status == 200
    answer = plane.ask(f"POST {PODS}/evicted/eviction", body, accept="application/yaml")
    assert (answer.status, answer.header("content-type")) == (201, "application/yaml")
    assert plane.ask(f"GET {PODS}/evicted").status == 404


def test_token_is_given_and_reviewed(plane: Plane) -> None:
    assert plane.ask(f"POST {ACCOUNTS}", {"metadata": {"name": "robot"}}).status == 201
    answer = plane.ask(f"POST {ACCOUNTS}/robot/token", {"spec": {"expirationSeconds": 600}})
    assert (answer.status, answer.json["kind"]) == (201, "TokenRequest")
    token = answer.json["status"]["token"]
    review = plane.ask("POST /apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})
    assert (review.status, review.json["status"]["user"]["username"]) == (201, "system:serviceaccount:default:robot")


def test_identity_and_rights_of_a_user(plane: Plane) -> None:
    me = plane.ask("POST /apis/authentication.k8s.io/v1/selfsubjectreviews", {}, token="reader")
    assert (me.status, me.json["status"]["userInfo"]["username"]) == (201, "reader")
    access = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    for verb, allowed in (("get", True), ("create", False)):
        asked = {"verb": verb, "resource": "pods", "group": "", "namespace": "", "name": "p"}
        answer = plane.ask(access, {"spec": {"resourceAttributes": asked}}, token="reader").json
        assert answer["status"]["allowed"] is allowed
        # What is empty was not asked for, and is not said back.
        assert answer["spec"]["resourceAttributes"] == {"verb": verb, "resource": "pods", "name": "p"}
    nested = {"verb": "list", "resource": "pods", "labelSelector": {"rawSelector": ""}}
    answer = plane.ask(access, {"spec": {"resourceAttributes": nested}}).json
    assert "rawSelector" not in answer["spec"]["resourceAttributes"].get("labelSelector", {})
    pretty = plane.ask(f"{access}?pretty=1", {"spec": {"resourceAttributes": asked}}, accept="application/yaml")
    assert pretty.header("content-type") == "application/yaml"
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    assert plane.ask(access, {"spec": {"resourceAttributes": asked}}, accept=table).status == 406


def test_scale_is_read_and_written_in_every_way(plane: Plane) -> None:
    path = f"{DEPLOYMENTS}/there/scale"
    scale = plane.ask(f"GET {path}").json
    assert (scale["kind"], scale["spec"], scale["status"]["selector"]) == ("Scale", {"replicas": 2}, "a=b")
    scale["spec"]["replicas"] = 3
    answer = plane.ask(f"PUT {path}", scale)
    assert (answer.status, answer.json["kind"], answer.json["spec"]["replicas"]) == (200, "Scale", 3)
    for number, (content_type, patch) in enumerate(
        (
            (MERGE, {"spec": {"replicas": 4}}),
            ("application/strategic-merge-patch+json", {"spec": {"replicas": 5}}),
            (JSON_PATCH, [{"op": "replace", "path": "/spec/replicas", "value": 6}]),
        )
    ):
        answer = plane.ask(f"PATCH {path}", patch, content_type=content_type)
        assert (answer.status, answer.json["spec"]["replicas"]) == (200, 4 + number)
    assert plane.ask(f"GET {DEPLOYMENTS}/there").json["spec"]["replicas"] == 6
    dry = plane.ask(f"PATCH {path}?dryRun=All", {"spec": {"replicas": 9}}, content_type=MERGE)
    assert dry.json["spec"]["replicas"] == 9
    assert plane.ask(f"GET {path}").json["spec"]["replicas"] == 6
    packed = plane.ask(f"GET {path}", accept="application/yaml")
    assert (packed.header("content-type"), packed.body.startswith(b"apiVersion: autoscaling/v1\n")) == (
        "application/yaml",
        True,
    )
    refused = plane.ask(f"PATCH {path}", [{"op": "remove", "path": "/made/up"}], content_type=JSON_PATCH)
    assert refused.refusal[:2] == (422, "Invalid")
    applied = {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 4}}
    refused = plane.ask(f"PATCH {path}?fieldManager=me", applied, content_type=APPLY)
    assert refused.refusal[:2] == (409, "Conflict")
    answer = plane.ask(f"PATCH {path}?fieldManager=me&force=true", applied, content_type=APPLY)
    assert (answer.status, answer.json["spec"]["replicas"]) == (200, 4)
    for method, content_type in (("PUT", "application/json"), ("PATCH", MERGE)):
        refused = plane.ask(f"{method} {DEPLOYMENTS}/absent/scale", scale | {"metadata": {}}, content_type=content_type)
        assert refused.refusal == (404, "NotFound", 'deployments.apps "absent" not found')


def test_status_is_written_by_its_own_path(plane: Plane) -> None:
    path = f"{PODS}/there"
    changed = plane.ask(f"GET {path}").json
    changed["status"]["phase"] = "Running"
    changed["metadata"]["labels"] = {"new": "label"}
    assert plane.ask(f"PUT {path}", changed).json["status"]["phase"] == "Pending"
    changed = plane.ask(f"GET {path}").json
    changed["status"]["phase"] = "Running"
    changed["spec"]["nodeName"] = "n"
    after = plane.ask(f"PUT {path}/status", changed).json
    assert (after["status"]["phase"], after["spec"].get("nodeName")) == ("Running", None)
    after = plane.ask(f"PATCH {path}/status", {"status": {"message": "m"}}, content_type=MERGE).json
    assert after["status"]["message"] == "m"
