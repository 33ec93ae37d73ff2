"""Facts of conformance specs of sig-node, sig-auth, sig-api-machinery and sig-storage that need no process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.inprocess import Plane, running

Json = dict[str, Any]
CORE = "/api/v1/namespaces/default"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
POD: Json = {"spec": {"containers": [{"name": "c", "image": "i:1"}], "terminationGracePeriodSeconds": 0}}


@pytest.fixture
def plane() -> Iterator[Plane]:
    with running() as made:
        yield made


def patched(plane: Plane, path: str, change: Json, how: str = STRATEGIC, code: int = 200) -> Json:
    answer = plane.ask(f"PATCH {path}", change, content_type=how)
    assert answer.status == code, answer.body
    found: Json = answer.json
    return found


def put(plane: Plane, path: str, obj: Json, code: int = 200) -> Json:
    answer = plane.ask(f"PUT {path}", obj)
    assert answer.status == code, answer.body
    found: Json = answer.json
    return found


def test_lifecycle_of_a_pod_and_its_status(plane: Plane) -> None:
    """pods.go: patched by label and image, its status by a client, deleted by label."""
    plane.create(f"{CORE}/pods", {"metadata": {"name": "p", "labels": {"static": "true"}}, **POD})
    change = {
        "metadata": {"labels": {"test-pod": "patched"}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i:2"}]},
    }
    found = patched(plane, f"{CORE}/pods/p", change)
    assert (found["metadata"]["labels"]["test-pod"], found["spec"]["containers"][0]["image"]) == ("patched", "i:2")
    status = plane.ask(f"GET {CORE}/pods/p/status").json
    status["status"]["conditions"] = [{"type": "Ready", "status": "False", "lastTransitionTime": None}]
    assert put(plane, f"{CORE}/pods/p/status", status)["status"]["conditions"][0]["status"] == "False"
    assert patched(plane, f"{CORE}/pods/p/status", {"status": {"message": "Patched"}}, MERGE)["status"]["message"]
    assert plane.ask(f"DELETE {CORE}/pods?labelSelector=static%3Dtrue", {"gracePeriodSeconds": 0}).status == 200
    assert plane.ask(f"GET {CORE}/pods/p").status == 404


def test_pod_updates_that_are_allowed(plane: Plane) -> None:
    """pods.go: labels, and activeDeadlineSeconds where it was unset or is shortened."""
    plane.create(f"{CORE}/pods", {"metadata": {"name": "p", "labels": {"time": "old"}}, **POD})
    for seconds, code in ((30, 200), (5, 200), (30, 422)):
        patched(plane, f"{CORE}/pods/p", {"spec": {"activeDeadlineSeconds": seconds}}, MERGE, code)
    assert plane.ask(f"GET {CORE}/pods?labelSelector=time%3Dold").json["items"]


def test_ephemeral_containers_are_added_and_changed_by_their_subresource(plane: Plane) -> None:
    """ephemeral_containers.go: by strategic patch, and replaced as a whole by PUT where they only grow."""
    plane.create(f"{CORE}/pods", {"metadata": {"name": "p"}, **POD})
    one = {"name": "debugger", "image": "i", "stdin": True}
    path = f"{CORE}/pods/p/ephemeralcontainers"
    found = patched(plane, path, {"spec": {"ephemeralContainers": [one]}})
    assert found["spec"]["ephemeralContainers"][0]["terminationMessagePolicy"] == "File"
    found["spec"]["ephemeralContainers"].append({"name": "second", "image": "i", "stdin": True})
    assert len(put(plane, path, found)["spec"]["ephemeralContainers"]) == 2
    current = plane.ask(f"GET {CORE}/pods/p").json
    current["spec"]["ephemeralContainers"].pop()
    put(plane, path, current, 422)


@pytest.mark.parametrize(("plural", "field"), [("configmaps", "data"), ("secrets", "stringData")])
def test_immutable_objects_change_in_nothing_but_metadata(plane: Plane, plural: str, field: str) -> None:
    """configmap_volume.go, secrets_volume.go: and the mark itself cannot be taken back."""
    path = f"{CORE}/{plural}/a"
    made = plane.create(f"{CORE}/{plural}", {"metadata": {"name": "a"}, field: {"data-1": "value-1"}})
    made = put(plane, path, {**made, "data": {**made["data"], "data-2": "dmFsdWU="}})
    made = put(plane, path, {**made, "immutable": True})
    put(plane, path, {**made, "data": {"data-3": "dmFsdWU="}}, 422)
    put(plane, path, {key: value for key, value in made.items() if key != "immutable"}, 422)
    put(plane, path, {**made, "immutable": False}, 422)
    labelled = {**made, "metadata": {**made["metadata"], "labels": {"label1": "value1"}}}
    assert put(plane, path, labelled)["metadata"]["labels"] == {"label1": "value1"}
    assert plane.ask(f"DELETE {path}").status == 200


@pytest.mark.parametrize("plural", ["configmaps", "secrets"])
def test_keys_of_data_are_checked(plane: Plane, plural: str) -> None:
    """configmap.go, secrets.go: an empty key is refused; all namespaces are listed by label."""
    answer = plane.ask(f"POST {CORE}/{plural}", {"metadata": {"name": "a"}, "data": {"": "dmFsdWU="}})
    assert answer.refusal[:2] == (422, "Invalid")
    plane.create(f"{CORE}/{plural}", {"metadata": {"name": "b", "labels": {"testsecret": "true"}}})
    patched(plane, f"{CORE}/{plural}/b", {"metadata": {"labels": {"testsecret": "false"}}, "data": {"k": "dg=="}})
    assert len(plane.ask(f"GET /api/v1/{plural}?labelSelector=testsecret%3Dfalse").json["items"]) == 1
    assert plane.ask(f"DELETE {CORE}/{plural}?labelSelector=testsecret%3Dfalse").status == 200


def test_node_leases_keep_every_field(plane: Plane) -> None:
    """lease.go: create, update with a later time, patch, and deletion by label."""
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    spec = {
        "holderIdentity": "holder", "leaseDurationSeconds": 30, "leaseTransitions": 0,
        "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:05.123456Z",
    }  # fmt: skip
    made = plane.create(path, {"metadata": {"name": "l", "labels": {"deletecollection": "true"}}, "spec": spec})
    assert made["spec"] == spec
    changed = {"holderIdentity": "holder2", "leaseDurationSeconds": 60, "leaseTransitions": 1}
    assert put(plane, f"{path}/l", {**made, "spec": {**spec, **changed}})["spec"] == {**spec, **changed}
    assert patched(plane, f"{path}/l", {"spec": {"leaseDurationSeconds": 35}})["spec"]["leaseDurationSeconds"] == 35
    plane.ask(f"DELETE {path}?labelSelector=deletecollection%3Dtrue")
    assert not plane.ask(f"GET {path}").json["items"]


def test_namespace_is_finalized_and_has_conditions_of_clients(plane: Plane) -> None:
    """namespace.go: a finalizer through /finalize, conditions through /status, by patch and by update."""
    plane.create("/api/v1/namespaces", {"metadata": {"name": "n"}})
    path = "/api/v1/namespaces/n"
    found = plane.ask(f"GET {path}").json
    found["spec"]["finalizers"].append("e2e.example.com/fakeFinalizer")
    assert put(plane, f"{path}/finalize", found)["spec"]["finalizers"] == [
        "kubernetes", "e2e.example.com/fakeFinalizer",
    ]  # fmt: skip
    found = plane.ask(f"GET {path}").json
    found["spec"]["finalizers"] = ["kubernetes"]
    assert put(plane, f"{path}/finalize", found)["spec"]["finalizers"] == ["kubernetes"]
    condition = {"type": "StatusPatch", "status": "True", "reason": "E2E", "message": "Patched by an e2e test"}
    assert (
        patched(plane, f"{path}/status", {"status": {"conditions": [condition]}}, MERGE)["status"]["phase"] == "Active"
    )
    found = plane.ask(f"GET {path}/status").json
    found["status"]["conditions"].append({**condition, "type": "StatusUpdate"})
    assert [one["type"] for one in put(plane, f"{path}/status", found)["status"]["conditions"]] == [
        "StatusPatch", "StatusUpdate",
    ]  # fmt: skip


@pytest.mark.parametrize("path", ["/api", "/apis"])
@pytest.mark.parametrize("version", ["v2", "v2beta1"])
def test_aggregated_discovery_is_negotiated(plane: Plane, path: str, version: str) -> None:
    """aggregated_discovery.go: the form asked for, or the older one where a client asks for that."""
    accept = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    answer = plane.ask(f"GET {path}", accept=f"{accept},application/json")
    if version == "v2":
        assert answer.header("content-type") == accept
        assert (answer.json["kind"], answer.json["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    else:
        assert answer.json["kind"] in ("APIGroupDiscoveryList", "APIVersions", "APIGroupList")


def test_version_of_the_server_has_numbers(plane: Plane) -> None:
    """server_version.go: major and minor are digits."""
    found = plane.ask("GET /version").json
    assert (found["major"].isdigit(), found["minor"].isdigit()) == (True, True)


def test_service_account_is_changed_and_its_token_reviewed(plane: Plane) -> None:
    """service_accounts.go: the lifecycle, automountServiceAccountToken, and a token that names its pod."""
    path = f"{CORE}/serviceaccounts"
    made = plane.create(path, {"metadata": {"name": "s", "labels": {"test": "static"}}})
    assert put(plane, f"{path}/s", {**made, "automountServiceAccountToken": True})["automountServiceAccountToken"]
    assert patched(plane, f"{path}/s", {"automountServiceAccountToken": False})["automountServiceAccountToken"] is False
    assert len(plane.ask("GET /api/v1/serviceaccounts?labelSelector=test%3Dstatic").json["items"]) == 1
    pod = plane.create(f"{CORE}/pods", {"metadata": {"name": "p"}, "spec": {**POD["spec"], "serviceAccountName": "s"}})
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": pod["metadata"]["uid"]}
    token = plane.create(f"{path}/s/token", {"spec": {"boundObjectRef": bound}})["status"]["token"]
    review = plane.create("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})["status"]
    user = review["user"]
    assert (review["authenticated"], user["username"]) == (True, "system:serviceaccount:default:s")
    assert user["uid"] == made["metadata"]["uid"]
    assert {"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"} <= set(user["groups"])
    assert user["extra"]["authentication.kubernetes.io/pod-name"] == ["p"]
    assert user["extra"]["authentication.kubernetes.io/pod-uid"] == [pod["metadata"]["uid"]]
    plane.ask(f"DELETE {CORE}/pods/p", {"gracePeriodSeconds": 0})
    again = plane.create("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})["status"]
    assert not again.get("authenticated"), "it ends with its pod"
    plane.ask(f"DELETE {path}?labelSelector=test%3Dstatic")
    assert plane.ask(f"GET {path}/s").status == 404


def test_reviews_of_subjects(plane: Plane) -> None:
    """subjectreviews.go: of a namespace and of the cluster, for an account without rights."""
    attributes = {"group": "apps", "namespace": "default", "verb": "list", "resource": "deployments"}
    body = {"spec": {"user": "system:serviceaccount:default:e2e", "resourceAttributes": attributes}}
    for path in ("subjectaccessreviews", "namespaces/default/localsubjectaccessreviews"):
        start = "/apis/authorization.k8s.io/v1/"
        found = plane.create(
            f"{start}{path}", {"metadata": {"namespace": "default"} if "local" in path else {}, **body}
        )
        assert found["status"]["allowed"] is False


def test_volume_and_claim_are_changed_and_have_conditions(plane: Plane) -> None:
    """persistent_volumes.go: the lifecycle of both, and their statuses by patch and by update."""
    volume = {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "e2e",
        "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/tmp/e2e"},
    }  # fmt: skip
    claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": "e2e", "resources": {"requests": {"storage": "1Gi"}}}
    plane.create("/api/v1/persistentvolumes", {"metadata": {"name": "v", "labels": {"e": "v"}}, "spec": volume})
    plane.create(f"{CORE}/persistentvolumeclaims", {"metadata": {"name": "c", "labels": {"e": "c"}}, "spec": claim})
    for path in ("/api/v1/persistentvolumes/v", f"{CORE}/persistentvolumeclaims/c"):
        assert patched(plane, path, {"metadata": {"labels": {"patched": "yes"}}})["metadata"]["labels"]["patched"]
        found = plane.ask(f"GET {path}").json
        found["metadata"]["labels"]["updated"] = "yes"
        assert put(plane, path, found)["metadata"]["labels"]["updated"] == "yes"
    condition = {"type": "StatusPatched", "status": "True", "reason": "E2E patchStatus", "message": "Set from test"}
    path = f"{CORE}/persistentvolumeclaims/c/status"
    assert patched(plane, path, {"status": {"conditions": [condition]}}, MERGE)["status"]["conditions"][0]["reason"]
    found = plane.ask(f"GET {path}").json
    found["status"]["conditions"].append({**condition, "type": "StatusUpdated"})
    assert len(put(plane, path, found)["status"]["conditions"]) == 2
    path = "/api/v1/persistentvolumes/v/status"
    assert patched(plane, path, {"status": {"message": "StatusPatched", "reason": "E2E"}}, MERGE)["status"]["message"]
    for line in (
        f"DELETE {CORE}/persistentvolumeclaims?labelSelector=e%3Dc",
        "DELETE /api/v1/persistentvolumes?labelSelector=e%3Dv",
    ):
        assert plane.ask(line).status == 200


def test_chunks_of_a_list_count_what_remains(plane: Plane) -> None:
    """chunking.go: the same resourceVersion in every chunk, and what remains; the whole list at once."""
    path = f"{CORE}/podtemplates"
    template = {"metadata": {"labels": {"a": "b"}}, **POD}
    for number in range(40):
        plane.create(path, {"metadata": {"name": f"template-{number:04}"}, "template": template})
    names, token, version = [], "", None
    while True:
        found = plane.ask(f"GET {path}?limit=17&continue={token}").json
        names += [item["metadata"]["name"] for item in found["items"]]
        version = version or found["metadata"]["resourceVersion"]
        assert found["metadata"]["resourceVersion"] == version
        token = found["metadata"].get("continue", "")
        if not token:
            assert "remainingItemCount" not in found["metadata"]
            break
        assert found["metadata"]["remainingItemCount"] == 40 - len(names)
    assert names == [f"template-{number:04}" for number in range(40)]
    assert len(plane.ask(f"GET {path}").json["items"]) == 40


def test_unknown_runtime_class_is_refused(plane: Plane) -> None:
    """runtimeclass.go: 403 for a pod of a class that does not exist, also if it was deleted."""
    spec = {**POD["spec"], "runtimeClassName": "gone"}
    assert plane.ask(f"POST {CORE}/pods", {"metadata": {"name": "p"}, "spec": spec}).refusal[:2] == (403, "Forbidden")
    path = "/apis/node.k8s.io/v1/runtimeclasses"
    body = {"metadata": {"name": "gone"}, "handler": "h", "overhead": {"podFixed": {"cpu": "10m", "memory": "1Mi"}}}
    plane.create(path, body)
    made = plane.create(f"{CORE}/pods", {"metadata": {"name": "p"}, "spec": spec})
    assert made["spec"]["overhead"] == {"cpu": "10m", "memory": "1Mi"}
    plane.ask(f"DELETE {path}/gone")
    assert plane.ask(f"POST {CORE}/pods", {"metadata": {"name": "q"}, "spec": spec}).status == 403


def test_events_in_both_groups(plane: Plane) -> None:
    """events.go, core_events.go: patched, updated with a series, listed everywhere, deleted by label."""
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    body = {
        "metadata": {"name": "e", "labels": {"testevent-set": "true"}}, "eventTime": "2026-01-01T00:00:00.000001Z",
        "reason": "Test", "action": "Do", "note": "This is e", "type": "Normal",
        "reportingController": "test-controller", "reportingInstance": "test-node",
        "regarding": {"kind": "Event", "name": "e", "namespace": "default"},
    }  # fmt: skip
    made = plane.create(path, body)
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}}
    assert patched(plane, f"{path}/e", series)["series"]["count"] == 2
    found = plane.ask(f"GET {path}/e").json
    found["series"] = {"count": 100, "lastObservedTime": "2026-01-01T00:02:00.000000Z"}
    assert put(plane, f"{path}/e", found)["series"]["count"] == 100
    assert found["eventTime"] == made["eventTime"]
    everywhere = plane.ask("GET /api/v1/events?labelSelector=testevent-set%3Dtrue").json["items"]
    assert [item["message"] for item in everywhere] == ["This is e"]
    assert plane.ask(f"DELETE {CORE}/events?labelSelector=testevent-set%3Dtrue").status == 200
    assert plane.ask(f"GET {path}/e").status == 404


def test_service_has_a_status_of_clients(plane: Plane) -> None:
    """service.go: an address of a load balancer by patch, a condition by update, and the lists of all namespaces."""
    spec = {"type": "LoadBalancer", "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 80}]}
    plane.create(f"{CORE}/services", {"metadata": {"name": "s", "labels": {"static": "true"}}, "spec": spec})
    path = f"{CORE}/services/s"
    change = {
        "metadata": {"annotations": {"patchedstatus": "true"}},
        "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.1"}]}},
    }
    found = patched(plane, f"{path}/status", change, MERGE)
    assert found["status"]["loadBalancer"]["ingress"] == [{"ip": "203.0.113.1", "ipMode": "VIP"}]
    assert found["metadata"]["annotations"]["patchedstatus"] == "true"
    found = plane.ask(f"GET {path}/status").json
    condition = {"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "Set from e2e test",
                 "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
    found["status"]["conditions"] = [condition]
    assert put(plane, f"{path}/status", found)["status"]["conditions"] == [condition]
    assert patched(plane, path, {"metadata": {"labels": {"test-service": "patched"}}})["metadata"]["labels"][
        "test-service"
    ]
    assert len(plane.ask("GET /api/v1/services?labelSelector=test-service%3Dpatched").json["items"]) == 1
    assert plane.ask(f"DELETE {CORE}/services?labelSelector=static%3Dtrue").status == 200
