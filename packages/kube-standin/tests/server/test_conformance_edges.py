"""Points of the conformance tests that belong to no kind of their own, as kube-apiserver has them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from kube_standin.features import EVERY_RELEASE
from tests.server.inprocess import Plane, running

PODS = "/api/v1/namespaces/default/pods"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with running(features=EVERY_RELEASE) as made:
        yield made


def test_put_may_leave_out_what_admission_filled_in(plane: Plane) -> None:
    """plugin/admission: Priority and DefaultTolerationSeconds keep it."""
    plane.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 1000})
    spec = {"priorityClassName": "high", "containers": [{"name": "c", "image": "i"}]}
    made = plane.create(PODS, {"metadata": {"name": "p"}, "spec": spec})
    sent = {**made, "spec": dict(made["spec"])}
    for name in ("priority", "preemptionPolicy", "tolerations"):
        assert sent["spec"].pop(name)
    answer = plane.ask(f"PUT {PODS}/p", sent)
    assert (answer.status, answer.json["spec"]) == (200, made["spec"])
    sent["spec"]["priority"] = 5
    assert plane.ask(f"PUT {PODS}/p", sent).status == 422


@pytest.mark.parametrize("group", ["", None, "rbac.authorization.k8s.io"])
def test_group_of_a_role_is_that_of_rbac(plane: Plane, group: str | None) -> None:
    named = {} if group is None else {"apiGroup": group}
    body = {
        "metadata": {"generateName": "b-"},
        "roleRef": {**named, "kind": "Role", "name": "r"},
        "subjects": [{**named, "kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}],
    }
    if plane.ask(f"GET {RBAC}/roles/r").status == 404:
        plane.create(f"{RBAC}/roles", {"metadata": {"name": "r"}})
    made = plane.create(f"{RBAC}/rolebindings", body)
    assert made["roleRef"]["apiGroup"] == made["subjects"][0]["apiGroup"] == "rbac.authorization.k8s.io"
    assert not made["subjects"][1].get("apiGroup")


EVENTS = "/api/v1/namespaces/default/events"


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("source=", ["neither"]),
        ("source=kubelet", ["old"]),
        ("source=new.example.com", ["young"]),
        ("source!=kubelet", ["neither", "young"]),
        ("reportingComponent=new.example.com", ["young"]),
        ("reportingComponent=", ["neither", "old"]),
        ("type=Warning,reason=R", ["young"]),
        ("involvedObject.name=p,involvedObject.kind=Pod,involvedObject.namespace=default", ["neither", "old", "young"]),
        ("involvedObject.uid=u", ["old"]),
        ("involvedObject.fieldPath=f,involvedObject.apiVersion=v1,involvedObject.resourceVersion=3", ["old"]),
    ],
)
def test_fields_of_events(plane: Plane, selector: str, names: list[str]) -> None:
    """registry/core/event: what reported an event stands in for its source."""
    if not plane.ask(f"GET {EVENTS}").json["items"]:
        pod = {"kind": "Pod", "namespace": "default", "name": "p"}
        more = {"uid": "u", "fieldPath": "f", "apiVersion": "v1", "resourceVersion": "3"}
        young = {"eventTime": "2026-01-01T00:00:00.000000Z", "action": "a", "reportingInstance": "i", "type": "Warning"}
        plane.create(
            EVENTS, {"metadata": {"name": "old"}, "involvedObject": {**pod, **more}, "source": {"component": "kubelet"}}
        )
        component = {"reportingComponent": "new.example.com", "reason": "R", **young}
        plane.create(EVENTS, {"metadata": {"name": "young"}, "involvedObject": pod, **component})
        plane.create(EVENTS, {"metadata": {"name": "neither"}, "involvedObject": pod})
    items = plane.ask(f"GET {EVENTS}?fieldSelector={selector}").json["items"]
    assert [item["metadata"]["name"] for item in items] == names


@pytest.mark.parametrize(
    ("path", "spec"),
    [
        (
            "authorization.k8s.io/v1/selfsubjectaccessreviews",
            {"resourceAttributes": {"verb": "get", "resource": "pods"}},
        ),
        (
            "authorization.k8s.io/v1/subjectaccessreviews",
            {"user": "u", "nonResourceAttributes": {"verb": "get", "path": "/"}},
        ),
        ("authentication.k8s.io/v1/tokenreviews", {"token": "t"}),
    ],
)
def test_reviews_are_no_tables(plane: Plane, path: str, spec: dict[str, object]) -> None:
    """e2e table_conversion.go; a client that would take the object too gets it."""
    refused = plane.ask(f"POST /apis/{path}", {"spec": spec}, accept=TABLE)
    assert refused.refusal[:2] == (406, "NotAcceptable")
    answer = plane.ask(f"POST /apis/{path}", {"spec": spec}, accept=f"{TABLE},application/json")
    assert (answer.status, answer.json["kind"].endswith("Review")) == (201, True)


@pytest.mark.parametrize(
    ("version", "code", "message"),
    [
        ("9223372036854775807", 409, "the object has been modified"),
        ("18446744073709551615", 409, "the object has been modified"),
        ("18446744073709551616", 500, 'strconv.ParseUint: parsing "18446744073709551616": value out of range'),
        ("1" * 40, 500, "value out of range"),
        ("x", 500, 'strconv.ParseUint: parsing "x": invalid syntax'),
    ],
)
def test_long_resource_versions_of_a_put(plane: Plane, version: str, code: int, message: str) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    if plane.ask(f"GET {path}/long").status == 404:
        plane.create(path, {"metadata": {"name": "long"}})
    answer = plane.ask(f"PUT {path}/long", {"metadata": {"name": "long", "resourceVersion": version}})
    assert answer.refusal[0] == code
    assert message in answer.refusal[2]


def test_workload_is_applied_twice_in_each_version(plane: Plane) -> None:
    base = "/apis/scheduling.k8s.io/{}/namespaces/default/workloads/w?fieldManager=m"
    spec = {"podGroupTemplates": [{"name": "a", "schedulingPolicy": {"gang": {"minCount": 2}}}]}
    codes = []
    for at in ("v1beta1", "v1beta1", "v1alpha3", "v1alpha2", "v1beta1"):
        body = {"apiVersion": f"scheduling.k8s.io/{at}", "kind": "Workload", "metadata": {"name": "w"}, "spec": spec}
        how = {"content_type": "application/apply-patch+yaml"}
        codes.append(plane.ask(f"PATCH {base.format(at)}", body, **how).status)
    assert codes == [201, 200, 200, 200, 200]


def test_continue_tokens_expire(plane: Plane) -> None:
    """e2e chunking.go: the answer has a token that goes on behind the last key, with what is there now."""
    plane.create("/api/v1/namespaces", {"metadata": {"name": "chunks"}})
    path = "/api/v1/namespaces/chunks/configmaps"
    for name in ("a", "b", "c"):
        plane.create(path, {"metadata": {"name": name}})
    first = plane.ask(f"GET {path}?limit=1").json
    token = first["metadata"]["continue"]
    plane.create(path, {"metadata": {"name": "aa"}})
    assert [item["metadata"]["name"] for item in plane.ask(f"GET {path}?limit=9&continue={token}").json["items"]] == [
        "b",
        "c",
    ]
    plane.store.expire_lists(plane.store.revision)
    expired = plane.ask(f"GET {path}?limit=1&continue={token}")
    assert expired.refusal[:2] == (410, "Expired")
    fresh = expired.json["metadata"]["continue"]
    rest = plane.ask(f"GET {path}?continue={fresh}").json
    assert [item["metadata"]["name"] for item in rest["items"]] == ["aa", "b", "c"]
    old = first["metadata"]["resourceVersion"]
    exact = plane.ask(f"GET {path}?resourceVersion={old}&resourceVersionMatch=Exact")
    assert exact.refusal == (410, "Expired", "The resourceVersion for the provided list is too old.")
    events = plane.watched(f"GET {path}?watch=true&timeoutSeconds=1&resourceVersion={old}")
    assert [event["object"]["metadata"]["name"] for event in events] == ["aa"], "watches go on"


def test_lists_expire_by_the_clock() -> None:
    """After five minutes at least, ten at most."""
    with running() as made:
        made.run(made.plane.start())
        made.create("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "a"}})
        at = made.store.revision
        line = f"GET /api/v1/configmaps?resourceVersion={at}&resourceVersionMatch=Exact"
        made.create("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "b"}})
        made.run(asyncio.sleep(299))
        assert made.ask(line).status == 200
        made.run(asyncio.sleep(302))
        assert made.ask(line).status == 410
