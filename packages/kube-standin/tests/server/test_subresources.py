"""Subresources that do something beside writing the object: binding, eviction and token.

Rules and texts: kube-apiserver 1.36 (registry/core/pod, registry/core/serviceaccount).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kube_standin.clock import parse_stamp
from tests.server.inprocess import Answer, Plane, running
from tests.server.live import pod

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
MERGE = "application/merge-patch+json"


@pytest.fixture
def plane() -> Iterator[Plane]:
    with running() as made:
        yield made


def status(plane: Plane, path: str, patch: Json) -> None:
    answer = plane.ask(f"PATCH {path}/status", {"status": patch}, content_type=MERGE)
    assert answer.status == 200, answer.body


# -- binding ---------------------------------------------------------------------------------------------------

CONFLICT = 'Operation cannot be fulfilled on pods/binding "p": '
NODE = {"target": {"kind": "Node", "name": "n"}}


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ({"metadata": {"name": "x"}, **NODE}, 400, "name in URL does not match name in Binding object"),
        ({"metadata": {"namespace": "x"}, **NODE}, 400,
         "the namespace of the provided object does not match the namespace sent on the request"),
        ({"target": {"kind": "Pod", "name": "n"}}, 500,
         'target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"'),
        ({"target": {"kind": "Node"}}, 500, "target.name: Required value"),
        ({}, 500, "target.name: Required value"),
    ],
)  # fmt: skip
def test_bindings_that_are_refused(plane: Plane, body: Json, code: int, message: str) -> None:
    plane.create(PODS, pod("p"))
    answer = plane.ask(f"POST {PODS}/p/binding", body)
    assert (answer.status, answer.json["message"]) == (code, message)
    assert "nodeName" not in plane.ask(f"GET {PODS}/p").json["spec"]


def test_pods_that_cannot_be_bound(plane: Plane) -> None:
    assert plane.ask(f"POST {PODS}/p/binding", NODE).refusal == (404, "NotFound", 'pods "p" not found')
    gated = pod("p")
    gated["spec"]["schedulingGates"] = [{"name": "a/b"}]
    plane.create(PODS, gated)
    refused = plane.ask(f"POST {PODS}/p/binding", NODE)
    assert refused.refusal == (409, "Conflict", f"{CONFLICT}pod p has non-empty .spec.schedulingGates")
    assert plane.ask(f"PATCH {PODS}/p", {"spec": {"schedulingGates": None}}, content_type=MERGE).status == 200
    for what, given in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        refused = plane.ask(f"POST {PODS}/p/binding", {"metadata": {what: "5"}, **NODE})
        code, reason, message = refused.refusal
        assert (code, reason) == (409, "Conflict")
        assert f"Precondition failed: {given} in precondition: 5, {given} in object meta: " in message
    assert plane.ask(f"POST {PODS}/p/binding", NODE).status == 201
    refused = plane.ask(f"POST {PODS}/p/binding", NODE)
    assert refused.refusal == (409, "Conflict", f'{CONFLICT}pod p is already assigned to node "n"')
    held = pod("q")
    held["metadata"]["finalizers"] = ["a/b"]
    plane.create(PODS, held)
    plane.ask(f"DELETE {PODS}/q")
    refused = plane.ask(f"POST {PODS}/q/binding", NODE)
    assert refused.refusal[2].endswith("pod q is being deleted, cannot be assigned to a host")


def test_binding_sets_the_node_and_what_it_brings(plane: Plane) -> None:
    """Labels and annotations are merged; the nomination goes; the condition tells since when."""
    body = pod("p")
    body["metadata"] |= {"labels": {"a": "1", "b": "2"}, "annotations": {"c": "3"}}
    found = plane.create(PODS, body)["metadata"]
    status(plane, f"{PODS}/p", {"nominatedNodeName": "other"})
    plane.clock.forward(5)
    version = plane.ask(f"GET {PODS}/p").json["metadata"]["resourceVersion"]
    brought = {
        "name": "p", "namespace": "default", "uid": found["uid"], "resourceVersion": version,
        "labels": {"b": "new"}, "annotations": {"d": "4"},
    }  # fmt: skip
    dry = plane.ask(f"POST {PODS}/p/binding?dryRun=All", {"metadata": brought, "target": {"name": "n"}})
    assert dry.status == 201
    assert plane.ask(f"GET {PODS}/p").json["metadata"]["resourceVersion"] == version
    answer = plane.ask(f"POST {PODS}/p/binding", {"metadata": brought, "target": {"name": "n"}})
    success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    assert (answer.status, answer.json) == (201, success)
    after = plane.ask(f"GET {PODS}/p").json
    assert after["spec"]["nodeName"] == "n"
    assert after["metadata"]["labels"] == {"a": "1", "b": "new"}
    assert after["metadata"]["annotations"] == {"c": "3", "d": "4"}
    assert "nominatedNodeName" not in after["status"]
    [condition] = [one for one in after["status"]["conditions"] if one["type"] == "PodScheduled"]
    assert (condition["status"], condition["lastTransitionTime"]) == ("True", plane.clock.stamp())


# -- eviction --------------------------------------------------------------------------------------------------

REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


def running_pod(plane: Plane, name: str = "p", ready: bool = True, phase: str = "Running") -> None:
    body = pod(name)
    body["metadata"]["labels"] = {"a": "b"}
    body["spec"]["nodeName"] = "n"
    plane.create(PODS, body)
    condition = {"type": "Ready", "status": str(ready)}
    status(plane, f"{PODS}/{name}", {"phase": phase, "conditions": [condition]})


def budget(plane: Plane, name: str = "b", allowed: int = 1, observed: int = 1, policy: str = "", **more: Any) -> None:
    spec: Json = {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}
    if policy:
        spec["unhealthyPodEvictionPolicy"] = policy
    plane.create(BUDGETS, {"metadata": {"name": name}, "spec": spec})
    whole = {"disruptionsAllowed": allowed, "observedGeneration": observed, "currentHealthy": 2, "desiredHealthy": 1,
             "expectedPods": 2}  # fmt: skip
    status(plane, f"{BUDGETS}/{name}", {**whole, **more})


def evict(plane: Plane, name: str = "p", query: str = "", **options: Any) -> Answer:
    return plane.ask(f"POST {PODS}/{name}/eviction{query}", {"metadata": {"name": name}, **options})


def test_eviction_takes_a_disruption_from_the_budget_and_marks_the_pod(plane: Plane) -> None:
    for name in ("p", "q"):
        running_pod(plane, name)
    budget(plane, allowed=2)
    assert evict(plane, query="?dryRun=All").status == 201
    assert plane.ask(f"GET {BUDGETS}/b").json["status"]["disruptionsAllowed"] == 2
    assert evict(plane).status == 201
    after = plane.ask(f"GET {BUDGETS}/b").json["status"]
    assert (after["disruptionsAllowed"], after["disruptedPods"]) == (1, {"p": plane.clock.stamp()})
    assert not [one for one in after.get("conditions", ()) if one["type"] == "DisruptionAllowed"]
    gone = plane.ask(f"GET {PODS}/p").json
    assert gone["metadata"]["deletionGracePeriodSeconds"] == 30
    [condition] = [one for one in gone["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "True", "EvictionByEvictionAPI", "Eviction API: evicting")  # fmt: skip
    assert evict(plane, "q").status == 201
    after = plane.ask(f"GET {BUDGETS}/b").json["status"]
    assert (after["disruptionsAllowed"], set(after["disruptedPods"])) == (0, {"p", "q"})
    [condition] = [one for one in after["conditions"] if one["type"] == "DisruptionAllowed"]
    assert (condition["status"], condition["reason"], condition["observedGeneration"]) == (
        "False", "InsufficientPods", 1)  # fmt: skip


@pytest.mark.parametrize(
    ("given", "code", "cause", "retry"),
    [
        ({"allowed": 0, "currentHealthy": 1}, 429,
         "The disruption budget b needs 1 healthy pods and has 1 currently", None),
        ({"allowed": 0}, 429, "The disruption budget b does not allow evicting pods currently", None),
        ({"observed": 0}, 429, "The disruption budget b is still being processed by the server.", "10"),
        ({"allowed": 1, "disruptedPods": {f"x{n}": "2026-01-01T00:00:00Z" for n in range(2001)}}, 403, None, None),
        ({"allowed": 1, "disruptedPods": {f"x{n}": "2026-01-01T00:00:00Z" for n in range(2000)}}, 201, None, None),
    ],
)  # fmt: skip
def test_budget_does_not_allow(plane: Plane, given: Json, code: int, cause: str | None, retry: str | None) -> None:
    running_pod(plane)
    budget(plane, **given)
    answer = evict(plane)
    assert answer.status == code
    if code == 429:
        assert answer.refusal == (429, "TooManyRequests", REFUSED)
        assert answer.json["details"]["causes"] == [{"reason": "DisruptionBudget", "message": cause}]
        assert (answer.header("retry-after"), answer.json["details"].get("retryAfterSeconds")) == (
            retry, None if retry is None else int(retry))  # fmt: skip
    gone = "deletionTimestamp" in plane.ask(f"GET {PODS}/p").json["metadata"]
    assert gone is (code == 201)


@pytest.mark.parametrize(
    ("policy", "healthy", "desired", "goes"),
    [
        ("", 1, 1, True),
        ("IfHealthyBudget", 0, 1, False),
        ("IfHealthyBudget", 2, 1, True),
        ("IfHealthyBudget", 0, 0, False),
        ("AlwaysAllow", 0, 1, True),
    ],
)
def test_pod_that_is_not_ready_may_go_by_its_policy(
    plane: Plane, policy: str, healthy: int, desired: int, goes: bool
) -> None:
    running_pod(plane, ready=False)
    budget(plane, allowed=0, policy=policy, currentHealthy=healthy, desiredHealthy=desired)
    assert evict(plane).status == (201 if goes else 429)


@pytest.mark.parametrize("ready", [True, False])
@pytest.mark.parametrize(
    ("written", "code", "cause"),
    [
        (None, 429, "The disruption budget b is still being processed by the server."),
        ({}, 429, "The disruption budget b is still being processed by the server."),
        ({"disruptionsAllowed": 1}, 429, "The disruption budget b is still being processed by the server."),
        ({"observedGeneration": 1}, 429, "The disruption budget b needs 0 healthy pods and has 0 currently"),
        ({"observedGeneration": 1, "currentHealthy": 1}, 429,
         "The disruption budget b does not allow evicting pods currently"),
        ({"observedGeneration": 1, "disruptionsAllowed": 1}, 201, None),
    ],
)  # fmt: skip
def test_status_fields_left_out_are_zero(
    plane: Plane, written: Json | None, code: int, cause: str | None, ready: bool
) -> None:
    """A budget has numbers that no client has to write; evictions are answered all the same (api.md 5.2)."""
    running_pod(plane, ready=ready)
    budget(plane)
    found = plane.ask(f"GET {BUDGETS}/b").json
    del found["status"]
    if written is not None:
        found["status"] = written
    assert plane.ask(f"PUT {BUDGETS}/b/status", found).status == 200
    answer = evict(plane)
    assert answer.status == code
    assert [one["message"] for one in answer.json.get("details", {}).get("causes", ())] == ([cause] if cause else [])


def test_budget_without_a_selector_is_for_no_pod(plane: Plane) -> None:
    """Nor does it hide one that is."""
    running_pod(plane)
    plane.create(BUDGETS, {"metadata": {"name": "a"}, "spec": {"minAvailable": 1}})
    budget(plane, allowed=0)
    assert evict(plane).status == 429
    plane.ask(f"DELETE {BUDGETS}/b")
    assert evict(plane).status == 201


@pytest.mark.parametrize(("phase", "code"), [("Pending", 201), ("Succeeded", 201), ("Failed", 201), ("Running", 429)])
def test_pod_that_does_not_run_bypasses_budgets(plane: Plane, phase: str, code: int) -> None:
    running_pod(plane, phase=phase)
    budget(plane, allowed=0)
    assert evict(plane).status == code


def test_evictions_that_are_refused_before_any_budget(plane: Plane) -> None:
    assert evict(plane, "absent").refusal == (404, "NotFound", 'pods "absent" not found')
    running_pod(plane)
    wrong = plane.ask(f"POST {PODS}/p/eviction", {"metadata": {"name": "x"}})
    assert wrong.refusal == (400, "BadRequest", "name in URL does not match name in Eviction object")
    stale = evict(plane, deleteOptions={"preconditions": {"resourceVersion": "5"}})
    assert stale.refusal[:2] == (409, "Conflict")
    current = plane.ask(f"GET {PODS}/p").json["metadata"]["resourceVersion"]
    for name in ("b", "c"):
        budget(plane, name)
    assert evict(plane).refusal[0] == 500
    assert "more than one PodDisruptionBudget" in evict(plane).json["message"]
    plane.ask(f"DELETE {BUDGETS}/c")
    options = {"gracePeriodSeconds": 5, "preconditions": {"resourceVersion": current}}
    assert evict(plane, deleteOptions=options).status == 201
    assert plane.ask(f"GET {PODS}/p").json["metadata"]["deletionGracePeriodSeconds"] == 5


# -- tokens ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "lasts"),
    [
        ({}, 3600),
        ({"expirationSeconds": 600}, 600),
        ({"expirationSeconds": 2**32}, 2**32),
        ({"expirationSeconds": 0}, 3600),
    ],
)
def test_how_long_a_token_lasts(plane: Plane, spec: Json, lasts: int) -> None:
    plane.create(ACCOUNTS, {"metadata": {"name": "robot"}})
    answer = plane.ask(f"POST {ACCOUNTS}/robot/token", {"spec": spec})
    assert (answer.status, answer.json["spec"]["expirationSeconds"]) == (201, lasts)
    assert answer.json["spec"]["audiences"] == ["https://kubernetes.default.svc"]
    assert parse_stamp(answer.json["status"]["expirationTimestamp"])


@pytest.mark.parametrize(
    ("spec", "code", "message"),
    [
        ({"expirationSeconds": 599}, 422, "may not specify a duration less than 10 minutes"),
        ({"expirationSeconds": 2**32 + 1}, 422, "may not specify a duration larger than 2^32 seconds"),
        ({"audiences": ["a"] * 65}, 422, "spec.audiences: Too many: 65: must have at most 64 items"),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "x"}}, 404, 'pods "x" not found'),
        ({"boundObjectRef": {"kind": "Job", "apiVersion": "batch/v1", "name": "x"}}, 400,
         "cannot bind token to object of type batch/v1, Kind=Job"),
        ({"boundObjectRef": {"kind": "Other", "apiVersion": "v1", "name": "x"}}, 400,
         "cannot bind token to object of type /v1, Kind=Other"),
    ],
)  # fmt: skip
def test_tokens_that_are_not_given(plane: Plane, spec: Json, code: int, message: str) -> None:
    plane.create(ACCOUNTS, {"metadata": {"name": "robot"}})
    answer = plane.ask(f"POST {ACCOUNTS}/robot/token", {"spec": spec})
    assert answer.status == code
    assert answer.json["message"].endswith(message)
    assert plane.ask(f"POST {ACCOUNTS}/absent/token", {"spec": {}}).status == 404
    assert plane.ask(f"POST {ACCOUNTS}/robot/token", {"spec": {"audiences": ["a"] * 64}}).status == 201


def test_token_ends_with_what_it_is_bound_to(plane: Plane) -> None:
    plane.create(ACCOUNTS, {"metadata": {"name": "robot"}})
    uid = plane.create("/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}})["metadata"]["uid"]
    reference = {"kind": "Secret", "apiVersion": "v1", "name": "s"}
    stale = plane.ask(f"POST {ACCOUNTS}/robot/token", {"spec": {"boundObjectRef": {**reference, "uid": "x"}}})
    assert stale.refusal[:2] == (409, "Conflict")
    spec = {"boundObjectRef": {**reference, "uid": uid}}
    token = plane.ask(f"POST {ACCOUNTS}/robot/token", {"spec": spec}).json["status"]["token"]
    assert plane.ask("GET /version", token=token).status == 200
    plane.ask("DELETE /api/v1/namespaces/default/secrets/s")
    assert plane.ask("GET /version", token=token).status == 401
    other = pod("p")
    other["spec"]["serviceAccountName"] = "other"
    plane.create(ACCOUNTS, {"metadata": {"name": "other"}})
    plane.create(PODS, other)
    bound = {"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p"}}}
    assert "different serviceaccount name" in plane.ask(f"POST {ACCOUNTS}/robot/token", bound).refusal[2]
    token = plane.ask(f"POST {ACCOUNTS}/other/token", bound).json["status"]["token"]
    assert plane.ask("GET /version", token=token).status == 200
    plane.ask(f"DELETE {ACCOUNTS}/other")
    assert plane.ask("GET /version", token=token).status == 401


def test_unobserved_budget_is_still_being_processed(plane: Plane) -> None:
    running_pod(plane)
    plane.create(BUDGETS, {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {}}})
    answer = evict(plane)
    assert answer.refusal == (429, "TooManyRequests", REFUSED)
    [cause] = answer.json["details"]["causes"]
    assert cause["message"] == "The disruption budget b is still being processed by the server."
    assert "deletionTimestamp" not in plane.ask(f"GET {PODS}/p").json["metadata"]
