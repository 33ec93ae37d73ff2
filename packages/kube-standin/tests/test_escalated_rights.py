"""Rights that may be granted, and those that may not (interfaces.md 5)."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from kube_standin.admission_chain import AdmissionRequest, Operation, User
from kube_standin.errors import StatusError
from kube_standin.escalation import EscalationCheck, missing_rights
from tests.recorded.shapes import shape
from tests.test_authorization import GETS_PODS, JANE, MASTER, RBAC, Json, Rights, path, rule

WRITER = rule("roles clusterroles rolebindings clusterrolebindings", "get create update", RBAC)


class Grants(Rights):
    """Roles and bindings that are written by users, with the check on what they give away."""

    def __init__(self) -> None:
        super().__init__()
        self.check = EscalationCheck(self.authorizer)

    def write(
        self, user: User, kind: str, new: Json, old: Json | None = None, operation: Operation = "CREATE", **more: Any
    ) -> None:
        row = shape(f"{RBAC}/v1", kind)
        assert row.resource in self.check.kinds
        namespace = "default" if row.namespaced else ""
        new = {"metadata": {"name": "n"}, **new}
        name = new["metadata"].get("name", "")
        registry = self.plane.registry
        self.check.mutate(
            AdmissionRequest(operation, row, namespace, name, "", new, old, user, False, registry, **more)
        )

    def refusal(self, *write: Any, **more: Any) -> str:
        with pytest.raises(StatusError) as refused:
            self.write(*write, **more)
        return refused.value.message


@pytest.fixture
def grants() -> Grants:
    return Grants()


def to(role: str, kind: str = "ClusterRole") -> Json:
    return {"roleRef": {"apiGroup": RBAC, "kind": kind, "name": role}, "subjects": []}


@pytest.mark.parametrize(
    ("given", "kind", "operation", "written"),
    [
        (None, "ClusterRole", "CREATE", {"rules": []}),
        (None, "ClusterRole", "CREATE", {"rules": None}),
        (None, "ClusterRole", "CREATE", {"rules": [rule(verbs="")]}),
        (rule("*", "*"), "Role", "CREATE", {"rules": [rule()]}),
        (rule("clusterroles", "escalate", RBAC), "ClusterRole", "CREATE", {"rules": [rule()]}),
        (rule("clusterroles", "escalate", RBAC, "n"), "ClusterRole", "UPDATE", {"rules": [rule()]}),
        (rule("clusterroles", "bind", RBAC, "strong"), "ClusterRoleBinding", "CREATE", to("strong")),
        (rule("roles", "bind", RBAC), "RoleBinding", "CREATE", to("strong", "Role")),
        (rule("secrets"), "ClusterRoleBinding", "CREATE", to("strong")),
        (None, "ClusterRoleBinding", "CREATE", to("empty")),
        (None, "ClusterRoleBinding", "CREATE", to("strong", "Other")),
        (None, "ClusterRoleBinding", "CREATE", {}),
    ],
)
def test_rights_that_may_be_granted(
    grants: Grants, given: Json | None, kind: str, operation: Operation, written: Json
) -> None:
    """What one holds, and what `escalate` on roles or `bind` on a role allows; validation refuses what is no role."""
    grants.role("strong", rule("secrets"))
    grants.role("strong", rule("secrets"), namespace="default")
    grants.role("empty")
    if given is not None:
        grants.grant(given)
    grants.write(JANE, kind, written, {"metadata": {"name": "n"}} if operation == "UPDATE" else None, operation)


NOT_HELD = 'user "jane" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'


GETS_SECRETS = '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}'


@pytest.mark.parametrize(
    ("given", "kind", "operation", "written", "message"),
    [
        (None, "ClusterRole", "CREATE", {"rules": [rule()]}, NOT_HELD + GETS_PODS),
        (None, "Role", "UPDATE", {"rules": [rule("secrets"), rule()]}, f"{NOT_HELD}{GETS_PODS}\n{GETS_SECRETS}"),
        (rule("clusterroles", "escalate", RBAC, "n"), "ClusterRole", "CREATE", {"rules": [rule()]},
         NOT_HELD + GETS_PODS),
        (rule("clusterroles", "escalate", RBAC, "m"), "ClusterRole", "UPDATE", {"rules": [rule()]},
         NOT_HELD + GETS_PODS),
        (rule("clusterroles", "escalate", RBAC), "Role", "CREATE", {"rules": [rule()]}, NOT_HELD + GETS_PODS),
        (rule("clusterroles", "bind", RBAC, "other"), "ClusterRoleBinding", "CREATE", to("strong"),
         NOT_HELD + GETS_SECRETS),
        (rule("clusterroles", "bind", RBAC), "RoleBinding", "CREATE", to("strong", "Role"), NOT_HELD + GETS_SECRETS),
        (None, "RoleBinding", "UPDATE", to("strong"), NOT_HELD + GETS_SECRETS),
    ],
)  # fmt: skip
def test_rights_that_may_not_be_granted(
    grants: Grants, given: Json | None, kind: str, operation: Operation, written: Json, message: str
) -> None:
    """A create has no name yet that a right could be limited to; all that is missing is named, in order."""
    grants.role("strong", rule("secrets"))
    grants.role("strong", rule("secrets"), namespace="default")
    if given is not None:
        grants.grant(given)
    old = {"metadata": {"name": "n"}} if operation == "UPDATE" else None
    row = shape(f"{RBAC}/v1", kind)
    assert grants.refusal(JANE, kind, written, old, operation) == f'{row.resource} "n" is forbidden: {message}'
    grants.write(MASTER, kind, written, old, operation)
    grants.write(JANE, kind, written, old, "DELETE")


def test_binding_to_a_role_that_is_not_there_is_refused(grants: Grants) -> None:
    assert grants.refusal(JANE, "ClusterRoleBinding", to("gone")) == f'clusterroles.{RBAC} "gone" not found'
    assert grants.refusal(JANE, "RoleBinding", to("gone", "Role")) == f'roles.{RBAC} "gone" not found'


GATHERS: Json = {"aggregationRule": {"clusterRoleSelectors": []}}


@pytest.mark.parametrize(
    ("given", "old", "new", "allowed"),
    [
        ((), {}, {}, True),
        ((), {}, GATHERS, False),
        ((), GATHERS, {}, False),
        ((path("*", "*"),), {}, GATHERS, False),
        ((rule("*", "*", "*"),), {}, GATHERS, True),
        ((rule("clusterroles", "escalate", RBAC),), {}, GATHERS, True),
    ],
)
def test_aggregation_rule_needs_everything(
    grants: Grants, given: tuple[Json, ...], old: Json, new: Json, allowed: bool
) -> None:
    """It can gather any rule, so that writing or deleting one needs the right to escalate."""
    if given:
        grants.grant(*given)
    before = {"metadata": {"name": "n", "labels": {"a": "b"}}, **old}
    if allowed:
        grants.write(JANE, "ClusterRole", new, before, "UPDATE")
    else:
        why = "must have cluster-admin privileges to use an aggregationRule"
        assert grants.refusal(JANE, "ClusterRole", new, before, "UPDATE").endswith(why)
    if new and not allowed:
        assert grants.refusal(JANE, "ClusterRole", new).endswith(why)


@pytest.mark.parametrize(
    ("changed", "allowed"),
    [
        ({}, True),
        ({"finalizers": ["a/b"]}, True),
        ({"ownerReferences": [{"uid": "u"}], "managedFields": []}, True),
        ({"labels": {"a": "b"}}, False),
    ],
)
def test_garbage_collection_fields_may_be_changed(grants: Grants, changed: Json, allowed: bool) -> None:
    old = {"metadata": {"name": "n", "finalizers": ["x/y"], "managedFields": [{}]}, "rules": [rule()]}
    new = {"metadata": {"name": "n", **changed}, "rules": [rule()]}
    if allowed:
        grants.write(JANE, "ClusterRole", new, old, "UPDATE")
    else:
        assert NOT_HELD in grants.refusal(JANE, "ClusterRole", new, old, "UPDATE")
    assert NOT_HELD in grants.refusal(JANE, "ClusterRole", {**new, "rules": [rule(verbs="list")]}, old, "UPDATE")


@pytest.mark.parametrize(("number", "last"), [(499, ""), (500, ""), (501, "and 1 more"), (510, "and 10 more")])
def test_five_hundred_missing_rules_are_named(grants: Grants, number: int, last: str) -> None:
    """And a name is written as it is, whatever its letters."""
    wanted = [rule(f"r{index:03}") for index in range(number)]
    message = grants.refusal(User("jürgen", ("ä",)), "ClusterRole", {"rules": wanted})
    assert 'user "jürgen" (groups=["ä"]) is attempting' in message
    lines = message.splitlines()[1:]
    shown = '{{APIGroups:[""], Resources:["r{:03}"], Verbs:["get"]}}'
    assert (lines[0], lines[-1]) == (shown.format(0), last or shown.format(number - 1))
    assert lines[-2] == (shown.format(499) if last else shown.format(number - 2))


def test_long_word_of_many_missing_rules_is_not_written_out_in_each(grants: Grants) -> None:
    """A role of a megabyte does not become a refusal of gigabytes on its way to four thousand characters."""
    wanted = {**rule(), "resources": [f"r{index}" for index in range(1000)], "verbs": ["v" * 1_000_000]}
    tracemalloc.start()
    try:
        message = grants.refusal(JANE, "ClusterRole", {"rules": [wanted]})
        assert tracemalloc.get_traced_memory()[1] < 50 * 1024 * 1024
    finally:
        tracemalloc.stop()
    assert len(message) <= 4096
    assert "vvv...vvv" in message


@pytest.mark.parametrize(("number", "broken_down"), [(4999, True), (5000, True), (5001, False)])
def test_up_to_five_thousand_atomic_rules_are_compared_one_by_one(number: int, broken_down: bool) -> None:
    """Beyond, a rule that only several together cover is not covered."""
    names = [f"r{index}" for index in range(number)]
    halves = [{**rule(), "resources": names[::2]}, {**rule(), "resources": names[1::2]}]
    assert len(missing_rights(halves, [{**rule(), "resources": names}])) == (0 if broken_down else 1)
