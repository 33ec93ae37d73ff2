"""No user grants by RBAC a right that the user does not hold (kube-apiserver 1.36, registry/rbac)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from kube_standin import escalation
from kube_standin.escalation import MOST_ATOMS, Rule, missing_rights
from tests.server.live import Live, live

Json = dict[str, Any]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"


def rule(groups: str = "", resources: str = "pods", verbs: str = "get", names: str = "") -> Json:
    """A rule from words: `rule("apps", "deployments scale", "get list")`; `-` is the core group."""
    out = {"apiGroups": [g.replace("-", "") for g in groups.split() or [""]], "resources": resources.split()}
    if names:
        out["resourceNames"] = names.split()
    return out | {"verbs": verbs.split()}


def path(urls: str, verbs: str = "get") -> Json:
    return {"nonResourceURLs": urls.split(), "verbs": verbs.split()}


COVERING: dict[str, tuple[list[Json], list[Json], list[str]]] = {
    "the same": ([rule()], [rule()], []),
    "nothing is asked": ([], [], []),
    "nothing is held": ([], [rule()], ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}']),
    "a rule without verbs grants nothing": ([], [rule(verbs="")], []),
    "by several rules together": (
        [rule(verbs="get"), rule(verbs="list"), rule("apps", "deployments", "get list")],
        [rule("- apps", "pods deployments", "get list")],
        [
            '{APIGroups:[""], Resources:["deployments"], Verbs:["get" "list"]}',
            '{APIGroups:["apps"], Resources:["pods"], Verbs:["get" "list"]}',
        ],
    ),
    "any verb": ([rule(verbs="*")], [rule(verbs="get escalate *")], []),
    "every verb there is, one by one, is not any verb": (
        [rule(verbs="get list watch create update patch delete")],
        [rule(verbs="*")],
        ['{APIGroups:[""], Resources:["pods"], Verbs:["*"]}'],
    ),
    "any group": ([rule("*")], [rule("- apps example.com")], []),
    "any group asked": ([rule("-")], [rule("*")], ['{APIGroups:["*"], Resources:["pods"], Verbs:["get"]}']),
    "any resource": ([rule(resources="*")], [rule(resources="pods pods/log nodes *")], []),
    "any resource asked": ([rule()], [rule(resources="*")], ['{APIGroups:[""], Resources:["*"], Verbs:["get"]}']),
    "a subresource of all": ([rule(resources="*/scale")], [rule("-", "pods/scale deployments/scale")], []),
    "a subresource of all is not the resource": (
        [rule(resources="*/scale")],
        [rule(resources="pods pods/log")],
        [
            '{APIGroups:[""], Resources:["pods"], Verbs:["get"]}',
            '{APIGroups:[""], Resources:["pods/log"], Verbs:["get"]}',
        ],
    ),
    "a resource is not its subresources": (
        [rule()],
        [rule(resources="pods/exec")],
        ['{APIGroups:[""], Resources:["pods/exec"], Verbs:["get"]}'],
    ),
    "one name of all": ([rule()], [rule(names="a b")], []),
    "all of one name": ([rule(names="a")], [rule()], ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}']),
    "names of several rules": (
        [rule(names="a"), rule(names="b")],
        [rule(names="a b c")],
        ['{APIGroups:[""], Resources:["pods"], ResourceNames:["c"], Verbs:["get"]}'],
    ),
    "a path": ([path("/healthz")], [path("/healthz")], []),
    "a path under a star": ([path("/healthz/*")], [path("/healthz/ping /healthz/*")], []),
    "a path beside a star": (
        [path("/healthz/*")],
        [path("/healthz /metrics")],
        ['{NonResourceURLs:["/healthz"], Verbs:["get"]}', '{NonResourceURLs:["/metrics"], Verbs:["get"]}'],
    ),
    "any path": ([path("*", "*")], [path("/a /b*", "get post")], []),
    "resources are no paths": ([rule("*", "*", "*")], [path("*")], ['{NonResourceURLs:["*"], Verbs:["get"]}']),
    "paths are no resources": (
        [path("*", "*")],
        [rule()],
        ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'],
    ),
}


@pytest.mark.parametrize("case", COVERING)
def test_rules_cover(case: str) -> None:
    owned, wanted, missing = COVERING[case]
    assert [str(one) for one in missing_rights(owned, wanted)] == missing


def test_role_of_a_million_combinations_is_judged_at_once() -> None:
    """It is not broken down: a rule that covers it as a whole does, and a refusal names it as a whole."""
    many = [f"r{number}" for number in range(100)]
    huge = {"apiGroups": many, "resources": many, "verbs": many}
    assert len(many) ** 3 > MOST_ATOMS
    started = time.process_time()
    assert missing_rights([rule(), rule("*", "*", "*")], [huge] * 100) == []
    assert [one.verbs for one in missing_rights([rule()] * 50, [huge] * 100)] == [tuple(many)] * 100
    assert time.process_time() - started < 5


@pytest.fixture(scope="module")
def plane() -> Iterator[Live]:
    with live() as running:
        made = running.request("POST", f"{RBAC}/clusterroles", role("everything", EVERYTHING))
        assert made[0] == 201
        yield running


class Subject:
    """A user with the given rules in `default` (and the cluster), acting over HTTP."""

    made = 0

    def __init__(self, plane: Live, *rules: Json, cluster: bool = True) -> None:
        Subject.made += 1
        self.plane = plane
        self.name = f"jane{Subject.made}"
        base = RBAC if cluster else f"{RBAC}/namespaces/default"
        roles, bindings = ("clusterroles", "clusterrolebindings") if cluster else ("roles", "rolebindings")
        role: Json = {"metadata": {"name": self.name}, "rules": list(rules)}
        assert plane.request("POST", f"{base}/{roles}", role)[0] == 201
        binding = {
            "metadata": {"name": self.name},
            "roleRef": {"kind": "ClusterRole" if cluster else "Role", "name": self.name, "apiGroup": GROUP},
            "subjects": [{"kind": "User", "name": self.name, "apiGroup": GROUP}],
        }
        assert plane.request("POST", f"{base}/{bindings}", binding)[0] == 201

    def send(self, method: str, where: str, body: Any = None, content: str = "application/json") -> tuple[int, Json]:
        headers = {"Impersonate-User": self.name, "Content-Type": content}
        status, answer, _ = self.plane.request(method, f"{RBAC}{where}", body, headers=headers)
        return status, answer


WRITER = rule(GROUP, "roles clusterroles rolebindings clusterrolebindings", "get list create update patch delete")
EVERYTHING = rule("*", "*", "*")


def role(name: str, *rules: Json, kind: str = "ClusterRole", **more: Any) -> Json:
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name}, "rules": list(rules), **more}


def binding(name: str, to: str, user: str, kind: str = "ClusterRoleBinding", role_kind: str = "ClusterRole") -> Json:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": {"kind": role_kind, "name": to, "apiGroup": GROUP},
        "subjects": [{"kind": "User", "name": user, "apiGroup": GROUP}],
    }


def test_writer_of_roles_and_bindings_gains_nothing(plane: Live) -> None:
    """By every kind and every verb that writes."""
    jane = Subject(plane, WRITER)
    user = f'user "{jane.name}" (groups=["system:authenticated"])'
    denied = f"{user} is attempting to grant RBAC permissions not currently held"
    missing = '\n{APIGroups:["*"], Resources:["*"], Verbs:["*"]}'
    for plural, kind in (("clusterroles", "ClusterRole"), ("namespaces/default/roles", "Role")):
        bare, name = plural.rpartition("/")[2], f"evil{Subject.made}"
        status, answer = jane.send("POST", f"/{plural}", role(name, EVERYTHING, kind=kind))
        assert (status, answer["reason"]) == (403, "Forbidden")
        assert answer["message"] == f'{bare}.{GROUP} "{name}" is forbidden: {denied}:{missing}'
        assert jane.send("POST", f"/{plural}", role(name, WRITER, kind=kind))[0] == 201
        widened = role(name, WRITER, EVERYTHING, kind=kind)
        for method, where, content in (
            ("PUT", name, "application/json"),
            ("PATCH", name, "application/merge-patch+json"),
            ("PATCH", name, "application/strategic-merge-patch+json"),
            ("PATCH", f"{name}?fieldManager=m&force=true", "application/apply-patch+yaml"),
            ("PATCH", f"new{name}?fieldManager=m", "application/apply-patch+yaml"),
        ):
            body = widened if not where.startswith("new") else widened | {"metadata": {"name": where.partition("?")[0]}}
            status, answer = jane.send(method, f"/{plural}/{where}", body, content)
            assert (status, denied in answer["message"]) == (403, True), (method, where, answer)
        patch = [{"op": "add", "path": "/rules/-", "value": EVERYTHING}]
        assert jane.send("PATCH", f"/{plural}/{name}", patch, "application/json-patch+json")[0] == 403
    for plural, kind in (
        ("clusterrolebindings", "ClusterRoleBinding"),
        ("namespaces/default/rolebindings", "RoleBinding"),
    ):
        bare = plural.rpartition("/")[2]
        evil = binding("evil", "everything", jane.name, kind)
        status, answer = jane.send("POST", f"/{plural}", evil)
        assert (status, answer["message"]) == (403, f'{bare}.{GROUP} "evil" is forbidden: {denied}:{missing}')
        where = f"/{plural}/evil?fieldManager=m"
        assert jane.send("PATCH", where, evil, "application/apply-patch+yaml")[0] == 403
        status, answer = jane.send("POST", f"/{plural}", binding("b", "no-such-role", jane.name, kind))
        assert (status, answer["message"]) == (404, f'clusterroles.{GROUP} "no-such-role" not found')


def test_binding_of_others_with_a_part_in_it(plane: Live) -> None:
    """Adding oneself to the subjects of a binding of a stronger role is granting it; its labels are not nothing."""
    jane = Subject(plane, WRITER)
    strong = f"strong{Subject.made}"
    assert plane.request("POST", f"{RBAC}/clusterroles", role(strong, EVERYTHING))[0] == 201
    assert plane.request("POST", f"{RBAC}/clusterrolebindings", binding(strong, strong, "somebody"))[0] == 201
    where = f"/clusterrolebindings/{strong}"
    subjects = [{"kind": "User", "name": jane.name, "apiGroup": GROUP}]
    assert jane.send("PATCH", where, {"subjects": subjects}, "application/merge-patch+json")[0] == 403
    assert jane.send("PATCH", where, {"metadata": {"labels": {"a": "b"}}}, "application/merge-patch+json")[0] == 403
    finalizers = {"metadata": {"finalizers": ["example.com/wait"]}}
    assert jane.send("PATCH", where, finalizers, "application/merge-patch+json")[0] == 200


def test_rights_that_are_held_can_be_granted(plane: Live) -> None:
    jane = Subject(plane, WRITER, rule(resources="pods", verbs="get list"))
    name = f"mine{Subject.made}"
    assert jane.send("POST", "/clusterroles", role(name, rule(verbs="list")))[0] == 201
    assert jane.send("POST", "/clusterrolebindings", binding(name, name, "bob"))[0] == 201
    body = role(name, rule(verbs="list"), rule(verbs="get"))
    assert jane.send("PUT", f"/clusterroles/{name}", body)[0] == 200


def test_rights_in_a_namespace_are_no_rights_in_the_cluster(plane: Live) -> None:
    jane = Subject(plane, WRITER, rule(verbs="get"), cluster=False)
    name = f"local{Subject.made}"
    assert jane.send("POST", "/namespaces/default/roles", role(name, rule(), kind="Role"))[0] == 201
    local = binding(name, name, "bob", "RoleBinding", "Role")
    assert jane.send("POST", "/namespaces/default/rolebindings", local)[0] == 201
    assert plane.request("POST", f"{RBAC}/namespaces/kube-system/roles", role(name, rule(), kind="Role"))[0] == 201
    assert jane.send("POST", "/namespaces/kube-system/rolebindings", local)[0] == 403
    assert jane.send("POST", "/clusterroles", role(name, rule()))[0] == 403


def test_escalate_and_bind_are_rights_of_their_own(plane: Live) -> None:
    name = f"given{Subject.made + 1}"
    jane = Subject(plane, WRITER, rule(GROUP, "clusterroles", "escalate"))
    assert jane.send("POST", "/clusterroles", role(name, EVERYTHING))[0] == 201
    assert jane.send("POST", "/namespaces/default/roles", role(name, rule(), kind="Role"))[0] == 403
    assert jane.send("POST", "/clusterrolebindings", binding(name, name, "bob"))[0] == 403
    binder = Subject(plane, WRITER, rule(GROUP, "clusterroles", "bind", name))
    assert binder.send("POST", "/clusterrolebindings", binding(name, name, "bob"))[0] == 201
    assert binder.send("POST", "/clusterrolebindings", binding("other", "everything", "bob"))[0] == 403
    here = Subject(plane, WRITER, rule(GROUP, "clusterroles", "bind"), cluster=False)
    assert here.send("POST", "/namespaces/default/rolebindings", binding(name, name, "bob", "RoleBinding"))[0] == 201
    assert here.send("POST", "/clusterrolebindings", binding("third", name, "bob"))[0] == 403


INVALID: dict[str, tuple[str, Json, str]] = {
    "no verbs": ("clusterroles", role("x", rule(verbs="")), "rules[0].verbs: Required value: verbs must contain"),
    "no groups": ("clusterroles", role("x", {"resources": ["pods"], "verbs": ["get"]}), "rules[0].apiGroups: Required"),
    "no resources": ("clusterroles", role("x", {"apiGroups": [""], "verbs": ["get"]}), "rules[0].resources: Required"),
    "names of two resources": ("clusterroles", role("x", rule(resources="a b", names="n")), "rules[0].resourceNames"),
    "paths and resources": ("clusterroles", role("x", rule() | path("/a")), "both regular resources and non-resource"),
    "paths in a namespace": (
        "namespaces/default/roles",
        role("x", path("/a"), kind="Role"),
        "namespaced rules cannot apply to non-resource URLs",
    ),
    "a foreign role": (
        "clusterrolebindings",
        binding("x", "r", "u") | {"roleRef": {"kind": "ClusterRole", "name": "r", "apiGroup": "example.com"}},
        'roleRef.apiGroup: Unsupported value: "example.com"',
    ),
    "a role for the cluster": ("clusterrolebindings", binding("x", "r", "u", role_kind="Role"), "roleRef.kind"),
    "no role": ("clusterrolebindings", binding("x", "", "u"), "roleRef.name: Required value"),
    "nobody": ("clusterrolebindings", binding("x", "r", ""), "subjects[0].name: Required value"),
    "no kind of subject": (
        "clusterrolebindings",
        binding("x", "r", "u") | {"subjects": [{"name": "u"}]},
        "subjects[0].kind: Unsupported value",
    ),
    "an account of nowhere": (
        "clusterrolebindings",
        binding("x", "r", "u") | {"subjects": [{"kind": "ServiceAccount", "name": "u"}]},
        "subjects[0].namespace: Required value",
    ),
}


@pytest.mark.parametrize("case", INVALID)
def test_roles_and_bindings_are_validated(plane: Live, case: str) -> None:
    where, body, message = INVALID[case]
    status, answer, _ = plane.request("POST", f"{RBAC}/{where}", body)
    assert (status, message in answer["message"]) == (422, True), answer


def test_role_of_a_binding_stays(plane: Live) -> None:
    assert plane.request("POST", f"{RBAC}/clusterrolebindings", binding("fixed", "one", "u"))[0] == 201
    status, answer, _ = plane.request("PUT", f"{RBAC}/clusterrolebindings/fixed", binding("fixed", "two", "u"))
    assert (status, "cannot change roleRef" in answer["message"]) == (422, True)


@pytest.mark.parametrize(
    ("rule", "atoms"),
    [
        (Rule(groups=("", "a"), resources=("x", "y", "z"), verbs=("get", "list")), 12),
        (Rule(groups=("",), resources=("x", "y"), names=("n", "m", "o"), verbs=("get",)), 6),
        (Rule(groups=("",), resources=("x",), names=("n",), verbs=("get",)), 1),
        (Rule(paths=("/a", "/b"), verbs=("get", "put", "post")), 6),
        (Rule(groups=("",), resources=("x",), paths=("/a",), verbs=("get",)), 2),
        (Rule(groups=("",), resources=("x",)), 0),
    ],
)
def test_how_many_atomic_rules_a_rule_has(rule: Rule, atoms: int) -> None:
    assert (rule.atoms, len(set(rule.broken_down()))) == (atoms, atoms)


@pytest.mark.parametrize(("most", "missing"), [(4, []), (3, [Rule(("",), ("x", "y"), (), (), ("get", "put"))])])
def test_schema_with_too_many_atomic_rules_is_compared_as_a_whole(
    most: int, missing: list[Rule], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then rights that hold together only do not count."""
    monkeypatch.setattr(escalation, "MOST_ATOMS", most)
    wanted = {"apiGroups": [""], "resources": ["x", "y"], "verbs": ["get", "put"]}
    halves = [{**wanted, "verbs": [verb]} for verb in ("get", "put")]
    assert missing_rights(halves, [wanted]) == missing
    assert missing_rights([*halves, wanted], [wanted]) == []
