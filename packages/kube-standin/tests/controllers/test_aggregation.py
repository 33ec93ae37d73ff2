"""ClusterRoles that collect the rules of others, and those of every cluster (interfaces.md 5.13)."""

from __future__ import annotations

import pytest

from kube_standin.admission_chain import User
from kube_standin.authorization import Authorizer
from kube_standin.rights import Attributes
from tests.controllers.world import Json, World

RBAC = "rbac.authorization.k8s.io/v1"


def role(name: str, *verbs: str, labels: Json | None = None, selects: Json | None = None) -> Json:
    made: Json = {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name, "labels": labels or {}}}
    if selects is not None:
        made["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": selects}]}
    else:
        made["rules"] = [rule(verb) for verb in verbs]
    return made


def rule(verb: str) -> Json:
    return {"verbs": [verb], "apiGroups": ["example.com"], "resources": ["widgets"]}


def rules(world: World, name: str) -> list[Json]:
    found: list[Json] = world.settle().get(RBAC, "ClusterRole", name, "").get("rules") or []
    return found


@pytest.fixture
def world() -> World:
    return World(("clusterrole-aggregation",))


def test_rules_of_selected_roles_are_collected(world: World) -> None:
    """Each rule once, in the order of the names; a role that is collected itself is followed."""
    world.create(role("all", selects={"to": "all"}))
    assert rules(world, "all") == []
    world.create(role("b", "list", "get", labels={"to": "all"}))
    world.create(role("a", "get", labels={"to": "all"}))
    world.create(role("other", "delete", labels={"to": "none"}))
    assert rules(world, "all") == [rule("get"), rule("list")]
    world.create(role("more", selects={"to": "more"}, labels={"to": "all"}))
    world.create(role("z", "watch", labels={"to": "more"}))
    assert rules(world, "all") == [rule("get"), rule("list"), rule("watch")]
    world.delete(RBAC, "ClusterRole", "b", ns="")
    assert rules(world, "all") == [rule("get"), rule("watch")]
    world.patch(RBAC, "ClusterRole", "all", {"rules": [rule("escalate")]}, ns="")
    assert rules(world, "all") == [rule("get"), rule("watch")]


def test_roles_that_collect_each_other_come_to_rest(world: World) -> None:
    world.create(role("p", selects={"to": "p"}, labels={"to": "q"}))
    world.create(role("q", selects={"to": "q"}, labels={"to": "p"}))
    world.create(role("a", "get", labels={"to": "p"}))
    world.create(role("b", "list", labels={"to": "q"}))
    assert sorted(map(str, rules(world, "p"))) == sorted(map(str, rules(world, "q"))) != []
    revision = world.store.revision
    world.forward(60)
    assert world.store.revision == revision


@pytest.mark.parametrize(
    ("bound", "allowed", "refused"),
    [
        (
            "view",
            ["get pods", "list ingresses.networking.k8s.io"],
            ["get secrets", "create pods", "get roles.rbac.authorization.k8s.io"],
        ),
        (
            "edit",
            ["get secrets", "create pods", "get pods", "delete jobs.batch"],
            ["create roles.rbac.authorization.k8s.io"],
        ),
        ("admin", ["create roles.rbac.authorization.k8s.io", "create pods", "get pods"], ["create nodes", "get nodes"]),
        ("cluster-admin", ["create nodes", "delete widgets.example.com"], []),
    ],
)
def test_roles_of_every_cluster(world: World, bound: str, allowed: list[str], refused: list[str]) -> None:
    """A user that is bound to one of them in a namespace holds what its name promises."""
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": bound}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}]
    binding = {"apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": "b"}, "roleRef": reference}
    world.settle().create({**binding, "subjects": subjects})
    authorizer = Authorizer(world.registry)

    def may(text: str) -> bool:
        verb, _, resource = text.partition(" ")
        plural, _, group = resource.partition(".")
        return authorizer.decide(User("ann"), Attributes(verb, group, plural, namespace="default")).allowed

    assert [text for text in allowed if not may(text)] == []
    assert [text for text in refused if may(text)] == []


SCHEDULER, MANAGER = User("system:kube-scheduler"), User("system:kube-controller-manager")
KUBELET = User("system:node:n1", ("system:nodes", "system:authenticated"))


def account(name: str) -> User:
    return User(f"system:serviceaccount:kube-system:{name}", ("system:serviceaccounts", "system:authenticated"))


@pytest.mark.parametrize(
    ("user", "verb", "resource", "namespace", "allowed"),
    [
        (SCHEDULER, "create", "pods/binding", "default", True),
        (SCHEDULER, "patch", "persistentvolumeclaims", "default", True),
        (SCHEDULER, "create", "pods", "default", False),
        (SCHEDULER, "get", "leases.coordination.k8s.io", "kube-system", True),
        (SCHEDULER, "list", "leases.coordination.k8s.io", "default", False),
        (MANAGER, "list", "widgets.example.com", "default", True),
        (MANAGER, "delete", "pods", "default", False),
        (account("job-controller"), "create", "pods", "default", True),
        (account("job-controller"), "update", "pods", "default", False),
        (account("horizontal-pod-autoscaler"), "update", "widgets/scale.example.com", "default", True),
        (account("token-cleaner"), "delete", "secrets", "kube-system", True),
        (account("token-cleaner"), "delete", "secrets", "default", False),
        (KUBELET, "get", "nodes", "", False),
    ],
)
def test_components_hold_their_roles(
    world: World, user: User, verb: str, resource: str, namespace: str, allowed: bool
) -> None:
    """interfaces.md 5.13: bound as in every cluster; system:node has no subjects."""
    whole, _, group = resource.partition(".")
    plural, _, part = whole.partition("/")
    asked = Attributes(verb, group, plural, part, namespace)
    assert Authorizer(world.settle().registry).decide(user, asked).allowed is allowed
