"""What roles and bindings allow over HTTP, what a refusal says, and what reviews answer about rights.

The rules themselves are tested without a server (`test_authorization`), here that requests are authorised by them.
Rules and texts: kube-apiserver 1.36 (RBAC, authorization.k8s.io reviews, impersonation).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kube_standin.admission_chain import User
from kube_standin.rights import Attributes
from kube_standin.write_options import WriteOptions
from tests.server.inprocess import Plane, running

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture
def plane() -> Iterator[Plane]:
    with running() as made:
        yield made


def grant(plane: Plane, rule: Json, *, namespace: str = "") -> None:
    """Give jane one rule, everywhere or in one namespace."""
    scope = f"/namespaces/{namespace}" if namespace else ""
    role, binding = ("Role", "RoleBinding") if namespace else ("ClusterRole", "ClusterRoleBinding")
    plane.create(f"{RBAC}{scope}/{role.lower()}s", {"metadata": {"name": "r"}, "rules": [rule]})
    group = "rbac.authorization.k8s.io"
    user = {"apiGroup": group, "kind": "User", "name": "jane"}
    body = {"metadata": {"name": "r"}, "roleRef": {"apiGroup": group, "kind": role, "name": "r"}, "subjects": [user]}
    plane.create(f"{RBAC}{scope}/{binding.lower()}s", body)


def may(plane: Plane, line: str, user: str = "jane", **more: str) -> bool:
    answer = plane.ask(line, impersonate_user=user, **more)
    assert answer.status in (200, 403, 404)
    return answer.status != 403


@pytest.mark.parametrize(
    ("rule", "allowed", "refused"),
    [
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
         [f"GET {PODS}/p"], [f"GET {PODS}", f"GET {PODS}/p/status", "GET /api/v1/namespaces/default/secrets/p",
                             "GET /apis/apps/v1/namespaces/default/deployments/p"]),
        ({"verbs": ["*"], "apiGroups": [""], "resources": ["pods/status"]},
         [f"GET {PODS}/p/status"], [f"GET {PODS}/p"]),
        ({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["*"]},
         ["GET /apis/apps/v1/namespaces/default/deployments/p"], [f"GET {PODS}/p"]),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["p"]},
         [f"GET {PODS}/p"], [f"GET {PODS}/q"]),
        ({"verbs": ["list"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["p"]},
         [f"GET {PODS}?fieldSelector=metadata.name%3Dp"],
         [f"GET {PODS}", f"GET {PODS}?fieldSelector=metadata.name!%3Dx%5C,metadata.name%3Dp"]),
        ({"verbs": ["get"], "nonResourceURLs": ["/metrics", "/openapi/*"]},
         ["GET /metrics", "GET /openapi/v2"], [f"GET {PODS}/p"]),
    ],
)  # fmt: skip
def test_rule_allows(plane: Plane, rule: Json, allowed: list[str], refused: list[str]) -> None:
    grant(plane, rule)
    assert [may(plane, line) for line in allowed] == [True] * len(allowed)
    assert [may(plane, line) for line in refused] == [False] * len(refused)
    assert not may(plane, allowed[0], "joe") or "/openapi" in allowed[0]


def test_role_counts_in_its_namespace(plane: Plane) -> None:
    grant(plane, {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}, namespace="default")
    assert may(plane, f"GET {PODS}")
    assert not may(plane, "GET /api/v1/pods")
    assert not may(plane, "GET /api/v1/namespaces/kube-system/pods")
    plane.ask(f"DELETE {RBAC}/namespaces/default/roles/r")
    assert not may(plane, f"GET {PODS}")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"GET {PODS}/p",
         'pods "p" is forbidden: User "jane" cannot get resource "pods" in API group "" in the namespace "default"'),
        ("GET /apis/apps/v1/deployments",
         'deployments.apps is forbidden: User "jane" cannot list resource "deployments" in API group "apps" at the '
         "cluster scope"),
        (f"POST {PODS}/p/binding",
         'pods "p" is forbidden: User "jane" cannot create resource "pods/binding" in API group "" in the namespace '
         '"default"'),
        ("GET /metrics", 'forbidden: User "jane" cannot get path "/metrics"'),
        ("POST /version", 'forbidden: User "jane" cannot post path "/version"'),
    ],
)  # fmt: skip
def test_refusal_names_user_verb_and_resource(plane: Plane, line: str, message: str) -> None:
    assert plane.ask(line, impersonate_user="jane").refusal == (403, "Forbidden", message)


def test_rules_one_has(plane: Plane) -> None:
    line = "POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    rule = {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}
    grant(plane, rule, namespace="default")
    for namespace, rules in (("default", [rule]), ("kube-system", [])):
        found = plane.ask(line, {"spec": {"namespace": namespace}}, impersonate_user="jane").json["status"]
        core = [one for one in found["resourceRules"] if one["apiGroups"] == [""]]
        assert (core, found["incomplete"]) == (rules, False)
        assert found["nonResourceRules"][0]["verbs"] == ["get"]
    everything = plane.ask(line, {"spec": {"namespace": "x"}}).json["status"]["resourceRules"]
    assert everything == [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    reading = plane.ask(line, {"spec": {"namespace": "x"}}, token="reader").json["status"]["resourceRules"]
    assert reading[:1] == [{"verbs": ["get", "list", "watch"], "apiGroups": ["*"], "resources": ["*"]}]


def test_rights_of_other_users_are_reviewed_by_name(plane: Plane) -> None:
    line = "POST /apis/authorization.k8s.io/v1/subjectaccessreviews"
    grant(plane, {"verbs": ["list"], "apiGroups": ["apps"], "resources": ["deployments"]}, namespace="default")
    asked = {"verb": "list", "group": "apps", "resource": "deployments", "namespace": "default"}
    for change, allowed in (
        ({}, True), ({"verb": "get"}, False), ({"group": ""}, False), ({"resource": "pods"}, False),
        ({"namespace": "x"}, False), ({"subresource": "scale"}, False),
    ):  # fmt: skip
        found = plane.ask(line, {"spec": {"user": "jane", "resourceAttributes": {**asked, **change}}})
        assert found.json["status"]["allowed"] is allowed, change
    reason = 'RBAC: allowed by RoleBinding "r/default" of Role "r" to User "jane"'
    assert plane.ask(line, {"spec": {"user": "jane", "resourceAttributes": asked}}).json["status"]["reason"] == reason
    about = {"user": "x", "nonResourceAttributes": {"verb": "get", "path": "/version"}}
    for groups, allowed in ((["system:authenticated"], True), ([], False)):
        assert plane.ask(line, {"spec": {**about, "groups": groups}}).json["status"]["allowed"] is allowed
    user = {"groups": ["system:masters"], "user": "x"}
    assert plane.ask(line, {"spec": {**user, "resourceAttributes": asked}}).json["status"]["allowed"] is True


@pytest.mark.parametrize(("key", "allowed"), [("team", True), ("other", False)])
def test_extra_that_impersonation_may_use(plane: Plane, key: str, allowed: bool) -> None:
    """Each part of an impersonation is a right of its own, that of an extra by its key."""
    group = "authentication.k8s.io"
    grant(plane, {"verbs": ["impersonate"], "apiGroups": [group], "resources": ["userextras/team"]})
    token = plane.plane.tokens
    token.add("jane", User("jane", ("system:authenticated",)))
    users = {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"]}
    plane.create(f"{RBAC}/clusterroles", {"metadata": {"name": "users"}, "rules": [users]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "users"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}
    plane.create(f"{RBAC}/clusterrolebindings", {
        "metadata": {"name": "users"}, "roleRef": reference, "subjects": [subject]})  # fmt: skip
    headers = {"impersonate_user": "joe", f"impersonate_extra_{key}": "x"}
    answer = plane.ask("POST /apis/authentication.k8s.io/v1/selfsubjectreviews", {}, token="jane", **headers)
    assert answer.status == (201 if allowed else 403)
    if allowed:
        info = answer.json["status"]["userInfo"]
        assert (info["username"], info["extra"]) == ("joe", {"team": ["x"]})


def test_rights_that_were_staged_and_taken_back_are_none(plane: Plane) -> None:
    """What was derived of a binding that could not be written is forgotten with it."""
    authorizer, registry, rbac = plane.plane.authorizer, plane.registry, "rbac.authorization.k8s.io"
    asked = Attributes("get", resource="pods", namespace="default")
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
    plane.create(f"{RBAC}/clusterroles", {"metadata": {"name": "r"}, "rules": [rule]})
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "r"},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": "jane"}],
    }
    kind = registry.kind(f"{rbac}/v1", "ClusterRoleBinding")
    assert not authorizer.decide(User("jane"), asked).allowed
    registry.create_now(kind, "", binding, WriteOptions(manager=""))
    assert authorizer.decide(User("jane"), asked).allowed
    plane.store.discard()
    assert not authorizer.decide(User("jane"), asked).allowed
