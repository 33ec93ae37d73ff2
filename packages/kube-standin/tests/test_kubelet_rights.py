"""What a kubelet may do: the node authorizer and NodeRestriction (interfaces.md 5.14)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kube_standin.admission_chain import User
from kube_standin.authorization import Authorizer
from kube_standin.rights import Attributes
from tests.server.inprocess import Json, Plane, running

NODES = ("system:nodes", "system:authenticated")
N1, UNNAMED, OTHER = User("system:node:n1", NODES), User("system:node:", NODES), User("system:node:n1", NODES[1:])
AS_N1 = {"impersonate_user": "system:node:n1", "impersonate_group": "system:nodes"}
SPACE = "/api/v1/namespaces/default"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


def pod(name: str, node: str, **spec: Any) -> Json:
    containers = [{"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": f"env-{name}", "optional": True}}]}]
    volumes = [
        {"name": "v", "secret": {"secretName": f"vol-{name}"}},
        {"name": "m", "projected": {"sources": [{"configMap": {"name": f"map-{name}"}}]}},
        {"name": "d", "persistentVolumeClaim": {"claimName": f"pvc-{name}"}},
        {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}},
    ]
    whole = {"nodeName": node, "containers": containers, "volumes": volumes, **spec}
    return {"metadata": {"name": name}, "spec": {**whole, "imagePullSecrets": [{"name": f"pull-{name}"}]}}


CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


@pytest.fixture
def plane() -> Iterator[Plane]:
    with running() as made:
        for name in ("n1", "n2"):
            made.create("/api/v1/nodes", {"metadata": {"name": name}})
            made.create(f"{SPACE}/serviceaccounts", {"metadata": {"name": f"sa-{name}"}})
            made.create(f"{SPACE}/pods", pod(f"p-{name}", name, serviceAccountName=f"sa-{name}"))
        reference = {"namespace": "default", "name": "pvc-p-n1"}
        volume = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "d", "volumeHandle": "h"},
        }
        made.create(
            "/api/v1/persistentvolumes", {"metadata": {"name": "pv"}, "spec": {**volume, "claimRef": reference}}
        )
        for name in ("n1", "n2"):
            attachment = {"attacher": "d", "nodeName": name, "source": {"persistentVolumeName": "pv"}}
            pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
            given = {"driver": "d.example.com", "nodeName": name, "pool": pool, "devices": [{"name": "d"}]}
            for path, begin, spec in (
                ("/apis/storage.k8s.io/v1/volumeattachments", "va", attachment),
                ("/apis/resource.k8s.io/v1/resourceslices", "slice", given),
            ):
                made.create(path, {"metadata": {"name": f"{begin}-{name}"}, "spec": spec})
        yield made


NONE = "no relationship found between node 'n1' and this object"


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (Attributes("get", "", "secrets", "", "default", "env-p-n1"), None),
        (Attributes("watch", "", "secrets", "", "default", "vol-p-n1"), None),
        (Attributes("get", "", "secrets", "", "default", "pull-p-n1"), None),
        (Attributes("get", "", "secrets", "", "default", "vol-p-n2"), NONE),
        (Attributes("get", "", "secrets", "", "kube-system", "vol-p-n1"), NONE),
        (Attributes("list", "", "secrets", "", "default"), "No Object name found"),
        (Attributes("list", "", "secrets"), "can only read namespaced object of this type"),
        (Attributes("update", "", "secrets", "", "default", "vol-p-n1"), "can only read resources of this type"),
        (Attributes("get", "", "configmaps", "", "default", "map-p-n1"), None),
        (Attributes("get", "", "configmaps", "", "default", "vol-p-n1"), NONE),
        (Attributes("get", "", "persistentvolumeclaims", "", "default", "pvc-p-n1"), None),
        (Attributes("get", "", "persistentvolumeclaims", "", "default", "p-n1-e"), None),
        (Attributes("patch", "", "persistentvolumeclaims", "status", "default", "pvc-p-n1"), None),
        (Attributes("list", "", "persistentvolumeclaims", "", "default"),
         "can only get individual resources of this type"),
        (Attributes("get", "", "persistentvolumes", "", "", "pv"), None),
        (Attributes("get", "", "persistentvolumes", "", "", "other"), NONE),
        (Attributes("create", "", "serviceaccounts", "token", "default", "sa-n1"), None),
        (Attributes("create", "", "serviceaccounts", "token", "default", "sa-n2"), NONE),
        (Attributes("get", "", "pods", "", "default", "p-n1"), None),
        (Attributes("get", "", "pods", "", "default", "p-n2"), NONE),
        (Attributes("list", "", "pods"), "can only list/watch pods with spec.nodeName field selector"),
        (Attributes("list", "", "pods", field_values=(("spec.nodeName", "n1"),)), None),
        (Attributes("list", "", "pods", field_values=(("spec.nodeName", "n2"),)),
         "can only list/watch pods with spec.nodeName field selector"),
        (Attributes("update", "", "pods", "", "default", "p-n1"), ""),
        (Attributes("patch", "", "pods", "status", "default", "p-n2"), None),
        (Attributes("get", "", "nodes", "", "", "n1"), None),
        (Attributes("get", "", "nodes", "", "", "n2"), "node 'n1' cannot read 'n2', only its own Node object"),
        (Attributes("list", "", "nodes"), "node 'n1' cannot read all nodes, only its own Node object"),
        (Attributes("watch", "", "nodes", field_values=(("metadata.name", "n1"),)), None),
        (Attributes("delete", "", "nodes", "", "", "n1"), ""),
        (Attributes("update", "coordination.k8s.io", "leases", "", "kube-node-lease", "n1"), None),
        (Attributes("update", "coordination.k8s.io", "leases", "", "kube-node-lease", "n2"),
         "can only access node lease with the same name as the requesting node"),
        (Attributes("get", "coordination.k8s.io", "leases", "", "default", "n1"),
         'can only access leases in the "kube-node-lease" system namespace'),
        (Attributes("update", "storage.k8s.io", "csinodes", "", "", "n2"),
         "can only access CSINode with the same name as the requesting node"),
        (Attributes("list", "resource.k8s.io", "resourceslices", field_values=(("spec.nodeName", "n1"),)), None),
        (Attributes("update", "resource.k8s.io", "resourceslices", "", "", "slice-n1"), None),
        (Attributes("update", "resource.k8s.io", "resourceslices", "", "", "slice-n2"), NONE),
        (Attributes("get", "storage.k8s.io", "volumeattachments", "", "", "va-n1"), None),
        (Attributes("get", "storage.k8s.io", "volumeattachments", "", "", "va-n2"), NONE),
        (Attributes("list", "", "services"), None),
        (Attributes("create", "", "services", "", "default"), ""),
    ],
)  # fmt: skip
def test_rights_of_a_kubelet(plane: Plane, asked: Attributes, why: str | None) -> None:
    """Its own objects, and what its pods refer to; anything else as the role system:node has it."""
    decision = Authorizer(plane.registry).decide(N1, asked)
    assert (decision.allowed, decision.reason) == (why is None, why or "")
    assert not Authorizer(plane.registry).decide(OTHER, asked).allowed


def test_refusal_says_why(plane: Plane) -> None:
    found = plane.ask(f"GET {SPACE}/secrets/x", **AS_N1)
    assert found.refusal == (
        403,
        "Forbidden",
        'secrets "x" is forbidden: User "system:node:n1" cannot get resource "secrets" in API group "" in the '
        f'namespace "default": {NONE}',
    )
    assert plane.ask("GET /api/v1/pods?fieldSelector=spec.nodeName%3Dn1", **AS_N1).status == 200


MIRROR = {"annotations": {"kubernetes.io/config.mirror": "x"}}
LABELS = "is not allowed to modify labels: "


@pytest.mark.parametrize(
    ("line", "body", "why"),
    [
        (f"PATCH {SPACE}/pods/p-n1/status", {"status": {"phase": "Running"}}, None),
        (f"PATCH {SPACE}/pods/p-n2/status", {"status": {"phase": "Running"}},
         'node "n1" can only update pod status for pods with spec.nodeName set to itself'),
        (f"DELETE {SPACE}/pods/p-n2", None, 'node "n1" can only delete pods with spec.nodeName set to itself'),
        (f"DELETE {SPACE}/pods/p-n1", None, None),
        (f"POST {SPACE}/pods", pod("m", "n1"),
         'pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods'),
        (f"POST {SPACE}/pods", {"metadata": {"name": "m", **MIRROR}, "spec": {"nodeName": "n2", "containers": [
            {"name": "c", "image": "i"}]}}, 'node "n1" can only create pods with spec.nodeName set to itself'),
        (f"POST {SPACE}/pods", {"metadata": {"name": "m", **MIRROR}, "spec": {"nodeName": "n1", "containers": [
            {"name": "c", "image": "i"}]}}, 'node "n1" can only create pods with an owner reference set to itself'),
        ("PATCH /api/v1/nodes/n2", {"metadata": {"labels": {"a": "b"}}},
         'node "n1" is not allowed to modify node "n2"'),
        ("PATCH /api/v1/nodes/n1", {"metadata": {"labels": {"a": "b", "kubernetes.io/os": "linux"}}}, None),
        ("PATCH /api/v1/nodes/n1", {"metadata": {"labels": {"x.node-restriction.kubernetes.io/a": "b"}}},
         f"{LABELS}x.node-restriction.kubernetes.io/a"),
        ("PATCH /api/v1/nodes/n1", {"metadata": {"labels": {"node.kubernetes.io/a": "b", "k8s.io/c": "d"}}},
         f"{LABELS}k8s.io/c"),
        ("PATCH /api/v1/nodes/n1", {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
         'node "n1" is not allowed to modify taints'),
        ("POST /api/v1/nodes", {"metadata": {"name": "n3"}}, 'node "n1" is not allowed to modify node "n3"'),
        (f"POST {LEASES}", {"metadata": {"name": "n1"}}, None),
        ("POST /apis/resource.k8s.io/v1/resourceslices", {"metadata": {"name": "s"}, "spec": {"driver": "d.example.com",
            "nodeName": "n2", "pool": {"name": "n2", "generation": 2, "resourceSliceCount": 1}}},
         "can only create ResourceSlice with the same NodeName as the requesting node"),
        (f"POST {LEASES}", {"metadata": {"name": "n2"}},
         "can only access node lease with the same name as the requesting node"),
    ],
)  # fmt: skip
def test_writes_of_a_kubelet(plane: Plane, line: str, body: Json | None, why: str | None) -> None:
    """NodeRestriction refuses by the content what the authorizer cannot see."""
    headers = {**AS_N1, "content_type": "application/merge-patch+json"} if line.startswith("PATCH") else AS_N1
    found = plane.ask(line, body, **headers)
    if why is None:
        assert found.status < 300, found.body
    else:
        assert found.status == 403
        assert found.refusal[2].endswith(f"is forbidden: {why}")


def test_user_that_names_no_node(plane: Plane) -> None:
    path = f"{SPACE}/pods/p-n1/status"
    unnamed = {**AS_N1, "impersonate_user": "system:node:", "content_type": "application/merge-patch+json"}
    found = plane.ask(f"PATCH {path}", {"status": {}}, **unnamed)
    assert found.refusal[2].endswith('could not determine node from user "system:node:"')
    assert not Authorizer(plane.registry).decide(UNNAMED, Attributes("get", "", "nodes", "", "", "n1")).allowed


def test_pods_are_followed_as_they_come_and_go(plane: Plane) -> None:
    """What the authorizer knows of a node's pods is what is committed, however they changed."""
    asked = Attributes("get", "", "secrets", "", "default", "late")
    allowed = plane.plane.authorizer.decide
    assert not allowed(N1, asked).allowed
    plane.create(f"{SPACE}/pods", pod("late", "n1", imagePullSecrets=None))
    late = Attributes("get", "", "secrets", "", "default", "vol-late")
    assert allowed(N1, late).allowed
    assert plane.plane.authorizer.at_present()(N1, late).allowed
    plane.ask(f"DELETE {SPACE}/pods/late", {"gracePeriodSeconds": 0})
    assert not allowed(N1, late).allowed
    plane.create(f"{SPACE}/pods", pod("late", "n2"))
    assert not allowed(N1, late).allowed
    plane.store.end_subscriptions("pods")
    plane.create(f"{SPACE}/pods", pod("other", "n1"))
    assert allowed(N1, Attributes("get", "", "secrets", "", "default", "vol-other")).allowed
    assert Authorizer(plane.registry).at_present()(N1, Attributes("get", "", "pods", "", "default", "other")).allowed


def test_question_costs_the_pods_of_one_node(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods of other nodes are neither listed nor decoded again."""
    asked = Attributes("get", "", "secrets", "", "default", "vol-p-n1")
    assert plane.plane.authorizer.decide(N1, asked).allowed
    monkeypatch.setattr(plane.store, "heads", lambda *_: pytest.fail("listed"))
    monkeypatch.setattr(plane.store, "page", lambda *_: pytest.fail("listed"))
    assert plane.plane.authorizer.decide(N1, asked).allowed


def token(pod_name: str = "p-n1", uid: str | None = None, **spec: Any) -> Json:
    reference = {"apiVersion": "v1", "kind": "Pod", "name": pod_name, **({"uid": uid} if uid else {})}
    return {"spec": {"boundObjectRef": reference, **spec}}


NO_AUDIENCE = (
    'audience "{}" not found in pod spec volume, system:node:n1 is not authorized to request tokens for this audience'
)


def test_tokens_of_a_kubelet_are_bound_to_its_pods(plane: Plane) -> None:
    """interfaces.md 5.14: by UID, and for an audience that a volume of the pod names."""
    path = f"POST {SPACE}/serviceaccounts/sa-n1/token"
    sources = [{"serviceAccountToken": {"path": "t", "audience": "vault"}}]
    volumes = [
        {"name": "t", "projected": {"sources": [*sources, {"serviceAccountToken": {"path": "d"}}]}},
        {"name": "c", "csi": {"driver": "inline.example.com"}},
        {"name": "p", "persistentVolumeClaim": {"claimName": "pvc-p-n1"}},
    ]
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    plane.create(claims, {"metadata": {"name": "pvc-p-n1"}, "spec": {**CLAIM, "volumeName": "pv"}})
    for name, audience in (("inline.example.com", "inline"), ("d", "claimed")):
        spec = {"tokenRequests": [{"audience": audience}]}
        plane.create("/apis/storage.k8s.io/v1/csidrivers", {"metadata": {"name": name}, "spec": spec})
    made = plane.create(f"{SPACE}/pods", pod("mine", "n1", serviceAccountName="sa-n1", volumes=volumes))
    uid = made["metadata"]["uid"]
    other = plane.create(f"{SPACE}/pods", pod("far", "n2", serviceAccountName="sa-n1"))["metadata"]["uid"]
    for body, why in (
        ({"spec": {}}, "node requested token not bound to a pod"),
        ({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "s"}}},
         "node requested token not bound to a pod"),
        (token("mine"), "node requested token with a pod binding without a uid"),
        (token("mine", "x"), "the UID in the bound object reference (x) does not match the UID in record. The object "
         "might have been deleted and then recreated"),
        (token("far", other), "node requested token bound to a pod scheduled on a different node"),
        (token("mine", uid, audiences=["a", "b"]), "node may only request 0 or 1 audiences"),
        (token("mine", uid, audiences=["else"]), NO_AUDIENCE.format("else")),
    ):  # fmt: skip
        refused = plane.ask(path, body, **AS_N1)
        assert refused.refusal == (403, "Forbidden", f'serviceaccounts "sa-n1" is forbidden: {why}')
    assert plane.ask(path, token("none", "x"), **AS_N1).refusal[:2] == (404, "NotFound")
    for audiences in ([], ["vault"], ["inline"], ["claimed"]):
        assert plane.ask(path, token("mine", uid, audiences=audiences), **AS_N1).status == 201
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rules = [{"verbs": ["request-serviceaccounts-token-audience"], "apiGroups": [""], "resources": ["else"]}]
    plane.create(f"{rbac}/clusterroles", {"metadata": {"name": "audience"}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "audience"}
    subjects = [{"kind": "Group", "name": "system:nodes"}]
    bound = {"metadata": {"name": "audience"}, "roleRef": reference, "subjects": subjects}
    plane.create(f"{rbac}/clusterrolebindings", bound)
    assert plane.ask(path, token("mine", uid, audiences=["else"]), **AS_N1).status == 201
    assert plane.ask(path, {"spec": {}}).status == 201, "other users may request any token"
