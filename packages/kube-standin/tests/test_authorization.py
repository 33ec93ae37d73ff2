"""Rights of users: the fixed model, roles and bindings, reviews, and granting.

Rules and texts: kube-apiserver 1.36 (RBAC, registry/rbac, reviews of rights); the
fixed model is that of docs/apiserver.md.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from kube_standin.admission_chain import AdmissionRequest, Operation, User
from kube_standin.authorization import ANONYMOUS, Authorizer, ClaimStatus
from kube_standin.errors import StatusError
from kube_standin.escalation import missing_rights
from kube_standin.reviews import answer
from kube_standin.rights import AccessDecision, Attributes
from kube_standin.security import AUDIENCE, BoundObject, Tokens
from tests.admission.plane import Plane
from tests.recorded.shapes import shape

Json = dict[str, Any]
RBAC = "rbac.authorization.k8s.io"
MASTER = User("root", ("system:masters", "system:authenticated"))
READER = User("reader", ("reprieve:readers", "system:authenticated"))
JANE = User("jane", ("system:authenticated",))
WITHOUT_RIGHTS = User("nobody")
MONITOR = User("prometheus", ("system:monitoring",))


class Rights:
    """An authoriser over objects in memory, to which rules are given."""

    def __init__(self) -> None:
        self.plane = Plane()
        self.authorizer = Authorizer(self.plane.registry)
        self.plane.registry.chain.add(self.authorizer)

    def role(self, name: str, *rules: Json, namespace: str = "", **more: Any) -> None:
        self._make("Role" if namespace else "ClusterRole", name, namespace, rules=list(rules), **more)

    def bind(self, name: str, role: str, *subjects: Json, namespace: str = "", cluster_role: bool = True) -> None:
        kind = "ClusterRole" if cluster_role else "Role"
        reference = {"apiGroup": RBAC, "kind": kind, "name": role}
        binding = "RoleBinding" if namespace else "ClusterRoleBinding"
        self._make(binding, name, namespace, roleRef=reference, subjects=list(subjects))

    def _make(self, kind: str, name: str, namespace: str, **more: Any) -> None:
        place = {"namespace": namespace} if namespace else {}
        manifest = {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": name, **place}, **more}
        self.plane.create(manifest)

    def grant(self, *rules: Json, user: str = "jane", namespace: str = "") -> None:
        """Give a user these rules, everywhere or in one namespace."""
        name = f"{user}-{namespace}" if namespace else user
        self.role(name, *rules, namespace=namespace)
        self.bind(name, name, subject(user), namespace=namespace, cluster_role=not namespace)

    def may(self, user: User, verb: str, **asked: Any) -> bool:
        return self.authorizer.decide(user, Attributes(verb, **asked)).allowed


def subject(name: str, kind: str = "User") -> Json:
    return {"apiGroup": RBAC, "kind": kind, "name": name}


def rule(resources: str = "pods", verbs: str = "get", groups: str = "-", names: str = "") -> Json:
    """Words of each; `-` is the core group."""
    found: Json = {"apiGroups": groups.replace("-", " ").split(" ")[:1] if groups == "-" else groups.split()}
    found |= {"resources": resources.split(), "verbs": verbs.split()}
    return {**found, "resourceNames": names.split()} if names else found


def path(urls: str, verbs: str = "get") -> Json:
    return {"nonResourceURLs": urls.split(), "verbs": verbs.split()}


@pytest.fixture
def rights() -> Rights:
    return Rights()


# -- the fixed model -------------------------------------------------------------------------------------------

READ_ONLY = "reprieve: read-only token"


def bound(role: str, group: str = "system:authenticated") -> str:
    return f'RBAC: allowed by ClusterRoleBinding "{role}" of ClusterRole "{role}" to Group "{group}"'


SELF, DISCOVERY, PUBLIC_INFO = (
    bound("system:basic-user"),
    bound("system:discovery"),
    bound("system:public-info-viewer", "system:unauthenticated"),
)


@pytest.mark.parametrize(
    ("user", "asked", "reason"),
    [
        (MASTER, Attributes("delete", resource="secrets"), ""),
        (MASTER, Attributes("post", path="/anything"), ""),
        (READER, Attributes("get", resource="secrets"), READ_ONLY),
        (READER, Attributes("list", "apps", "deployments"), READ_ONLY),
        (READER, Attributes("watch", resource="pods"), READ_ONLY),
        (READER, Attributes("create", resource="pods"), None),
        (READER, Attributes("get", path="/metrics"), READ_ONLY),
        (READER, Attributes("get", path="/debug"), None),
        (JANE, Attributes("get", resource="pods"), None),
        (JANE, Attributes("create", "authorization.k8s.io", "selfsubjectaccessreviews"), SELF),
        (JANE, Attributes("create", "authorization.k8s.io", "selfsubjectrulesreviews"), SELF),
        (JANE, Attributes("create", "authentication.k8s.io", "selfsubjectreviews"), SELF),
        (JANE, Attributes("get", "authentication.k8s.io", "selfsubjectreviews"), None),
        (JANE, Attributes("create", "authorization.k8s.io", "subjectaccessreviews"), None),
        (WITHOUT_RIGHTS, Attributes("create", "authentication.k8s.io", "selfsubjectreviews"), None),
        (JANE, Attributes("get", path="/metrics"), None),
        *((JANE, Attributes("get", path=one), DISCOVERY)
          for one in ("/api", "/apis", "/api/v1", "/apis/apps/v1", "/openapi/v2", "/healthz", "/version")),
        (JANE, Attributes("get", path="/"), None),
        (JANE, Attributes("get", path="/.well-known/openid-configuration"), None),
        (JANE, Attributes("get", path="/livez/ping"), None),
        (MONITOR, Attributes("get", path="/livez/ping"), bound("system:monitoring", "system:monitoring")),
        (MONITOR, Attributes("get", path="/metrics"), bound("system:monitoring", "system:monitoring")),
        (JANE, Attributes("get", path="/apisx"), None),
        (JANE, Attributes("post", path="/api"), None),
        (ANONYMOUS, Attributes("get", path="/api"), None),
        (ANONYMOUS, Attributes("get", path="/"), None),
        *((ANONYMOUS, Attributes("get", path=one), PUBLIC_INFO)
          for one in ("/healthz", "/livez", "/readyz", "/version", "/version/")),
        (ANONYMOUS, Attributes("head", path="/healthz"), None),
        (ANONYMOUS, Attributes("get", path="/livez/ping"), None),
        (ANONYMOUS, Attributes("post", path="/version"), None),
        (ANONYMOUS, Attributes("get", path="/versions"), None),
    ],
)  # fmt: skip
def test_access_without_any_role(rights: Rights, user: User, asked: Attributes, reason: str | None) -> None:
    """interfaces.md 5.13: known users may discover and review themselves, all may ask if it lives (system:* roles)."""
    expected = AccessDecision(False) if reason is None else AccessDecision(True, reason)
    assert rights.authorizer.decide(user, asked) == expected


# -- roles and bindings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "asked", "allowed"),
    [
        (rule(), Attributes("get", resource="pods"), True),
        (rule(), Attributes("list", resource="pods"), False),
        (rule(), Attributes("get", resource="nodes"), False),
        (rule(), Attributes("get", "apps", "pods"), False),
        (rule(), Attributes("get", resource="pods", subresource="log"), False),
        (rule("pods/log"), Attributes("get", resource="pods", subresource="log"), True),
        (rule("pods/log"), Attributes("get", resource="pods"), False),
        (rule("*/log"), Attributes("get", resource="pods", subresource="log"), True),
        (rule("*/log"), Attributes("get", resource="pods", subresource="status"), False),
        (rule("*/log"), Attributes("get", resource="pods"), False),
        (rule("*"), Attributes("get", resource="pods", subresource="log"), True),
        (rule(verbs="*"), Attributes("escalate", resource="pods"), True),
        (rule(groups="*"), Attributes("get", "apps", "pods"), True),
        (rule("pods nodes", "get list"), Attributes("list", resource="nodes"), True),
        (rule(names="a b"), Attributes("get", resource="pods", name="b"), True),
        (rule(names="a"), Attributes("get", resource="pods", name="b"), False),
        (rule(names="a"), Attributes("get", resource="pods"), False),
        (path("/a"), Attributes("get", path="/a"), True),
        (path("/a"), Attributes("get", path="/a/b"), False),
        (path("/a/*"), Attributes("get", path="/a/b"), True),
        (path("/a/*"), Attributes("get", path="/b"), False),
        (path("/ab*"), Attributes("get", path="/ac"), False),
        (path("*"), Attributes("get", path="/b"), True),
        (path("/a"), Attributes("post", path="/a"), False),
        (path("/a", "*"), Attributes("post", path="/a"), True),
        (path("/pods", "*"), Attributes("get", resource="/pods"), False),
        (rule("*", "*", "*"), Attributes("get", path="/a"), False),
    ],
)
def test_rule_allows(rights: Rights, given: Json, asked: Attributes, allowed: bool) -> None:
    """RBAC: verb, group and resource (or its subresource, of any resource as `*/log`), and a name where names stand."""
    rights.grant(given)
    reason = 'RBAC: allowed by ClusterRoleBinding "jane" of ClusterRole "jane" to User "jane"'
    assert rights.authorizer.decide(JANE, asked) == (AccessDecision(True, reason) if allowed else AccessDecision(False))
    assert not rights.authorizer.decide(WITHOUT_RIGHTS, asked).allowed


@pytest.mark.parametrize(
    ("named", "user", "shown"),
    [
        (subject("jane"), JANE, 'User "jane"'),
        (subject("devs", "Group"), User("x", ("a", "devs")), 'Group "devs"'),
        (subject("jane", "Group"), JANE, None),
        ({"kind": "ServiceAccount", "name": "robot", "namespace": "default"},
         User("system:serviceaccount:default:robot"), 'ServiceAccount "robot/default"'),
        ({"kind": "ServiceAccount", "name": "robot", "namespace": "kube-system"},
         User("system:serviceaccount:default:robot"), None),
    ],
)  # fmt: skip
def test_binding_names_its_subjects(rights: Rights, named: Json, user: User, shown: str | None) -> None:
    """The reason names binding, role and subject; a binding in a namespace counts there alone."""
    rights.role("r", rule())
    rights.bind("b", "r", subject("other"), named, namespace="default")
    found = rights.authorizer.decide(user, Attributes("get", resource="pods", namespace="default"))
    reason = f'RBAC: allowed by RoleBinding "b/default" of ClusterRole "r" to {shown}'
    assert found == (AccessDecision(True, reason) if shown else AccessDecision(False))
    for namespace in ("kube-system", ""):
        assert not rights.may(user, "get", resource="pods", namespace=namespace)


def test_rights_of_several_bindings_add_up(rights: Rights) -> None:
    """One without a role, in another namespace, or about something else does not hide those after it."""
    rights.role("c", rule("pods"), namespace="kube-system")
    rights.role("d", rule("nodes"))
    rights.role("e", rule("pods"))
    rights.bind("a", "gone", subject("jane"))
    rights.bind("d", "d", subject("jane"))
    rights.bind("e", "e", subject("jane"), namespace="kube-public")
    rights.bind("f", "c", subject("jane"), namespace="kube-system", cluster_role=False)
    for resource, namespace, allowed in (
        ("nodes", "", True), ("nodes", "default", True), ("pods", "", False), ("pods", "default", False),
        ("pods", "kube-public", True), ("pods", "kube-system", True),
    ):  # fmt: skip
        assert rights.may(JANE, "get", resource=resource, namespace=namespace) is allowed, (resource, namespace)


def test_paths_of_a_role_count_where_it_is_bound_for_the_cluster(rights: Rights) -> None:
    rights.role("r", path("/metrics"))
    rights.bind("b", "r", subject("jane"), namespace="default")
    assert not rights.may(JANE, "get", path="/metrics")
    rights.bind("b", "r", subject("jane"))
    assert rights.may(JANE, "get", path="/metrics")


def test_role_counts_as_soon_as_it_is_changed(rights: Rights) -> None:
    rights.bind("b", "r", subject("jane"))
    assert not rights.may(JANE, "get", resource="pods")
    rights.role("r", rule())
    assert rights.may(JANE, "get", resource="pods")
    rights.plane.delete(f"{RBAC}/v1", "ClusterRole", "r")
    assert not rights.may(JANE, "get", resource="pods")


@pytest.mark.parametrize(
    ("asked", "message", "details"),
    [
        (Attributes("get", "apps", "deployments", "scale", "default", "d"),
         'deployments.apps "d" is forbidden: User "jane" cannot get resource "deployments/scale" in API group "apps" '
         'in the namespace "default"', {"name": "d", "group": "apps", "kind": "deployments"}),
        (Attributes("list", resource="nodes"),
         'nodes is forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope',
         {"kind": "nodes"}),
        (Attributes("get", path="/metrics"), 'forbidden: User "jane" cannot get path "/metrics"', {}),
    ],
)  # fmt: skip
def test_refusal_names_the_user_and_the_request(rights: Rights, asked: Attributes, message: str, details: Json) -> None:
    with pytest.raises(StatusError) as refused:
        rights.authorizer.check(JANE, asked)
    found = refused.value.to_json()
    assert (found["code"], found["reason"], found["message"], found["details"]) == (403, "Forbidden", message, details)
    rights.authorizer.check(MASTER, asked)


ABOUT_SELF = [
    rule("selfsubjectaccessreviews selfsubjectrulesreviews", "create", "authorization.k8s.io"),
    rule("selfsubjectreviews", "create", "authentication.k8s.io"),
]
OF_ALL = [
    path("/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/"),
    path("/healthz /livez /readyz /version /version/"),
]


def test_rules_of_a_user_in_a_namespace(rights: Rights) -> None:
    """SelfSubjectRulesReview: those of the cluster and of the namespace, paths apart."""
    rights.grant(rule("nodes"), path("/metrics"))
    rights.grant(rule("pods"), namespace="default")
    rights.grant(rule("secrets"), namespace="kube-system")
    everywhere, paths = [rule("nodes")], [path("/metrics"), *OF_ALL]
    assert rights.authorizer.rules_for(JANE, "default") == ([*everywhere, rule("pods"), *ABOUT_SELF], paths)
    assert rights.authorizer.rules_for(JANE, "x") == ([*everywhere, *ABOUT_SELF], paths)
    assert rights.authorizer.rules_for(WITHOUT_RIGHTS, "default") == ([], [])
    assert rights.authorizer.rules_for(ANONYMOUS, "default") == ([], OF_ALL[1:])
    all_read = {"verbs": ["get", "list", "watch"], "apiGroups": ["*"], "resources": ["*"]}
    assert rights.authorizer.rules_for(READER, "default") == ([all_read, *ABOUT_SELF], OF_ALL)
    assert rights.authorizer.rules_for(MASTER, "default") == (
        [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    )


# -- the status of a claim -------------------------------------------------------------------------------------


def device(driver: str, **more: Any) -> Json:
    return {"driver": driver, "pool": "p", "device": "d", **more}


def to_claim(verb: str) -> Json:
    return rule("resourceclaims/binding", verb, "resource.k8s.io")


def to_driver(verb: str, *drivers: str) -> Json:
    return rule("resourceclaims/driver", f"arbitrary-node:{verb}", "resource.k8s.io", " ".join(drivers))


DEVICES = [device("a"), device("b")]


@pytest.mark.parametrize(
    ("given", "old", "new", "refused"),
    [
        ((), {}, {}, None),
        ((), {"devices": DEVICES, "allocation": {"x": 1}}, {"devices": DEVICES, "allocation": {"x": 1}}, None),
        ((), {}, {"conditions": []}, None),
        ((), {}, {"allocation": {"x": 1}}, 'cannot patch resource "resourceclaims/binding"'),
        ((), {"allocation": {"x": 1}}, {}, 'cannot patch resource "resourceclaims/binding"'),
        ((), {}, {"reservedFor": []}, 'cannot patch resource "resourceclaims/binding"'),
        ((to_claim("patch"),), {}, {"allocation": {"x": 1}}, None),
        ((to_claim("update"),), {}, {"reservedFor": [{}]}, None),
        ((to_claim("get"),), {}, {"reservedFor": [{}]}, 'cannot patch resource "resourceclaims/binding"'),
        ((to_claim("update"),), {}, {"devices": [device("a")]},
         'cannot arbitrary-node:patch resource "resourceclaims/driver"'),
        ((to_driver("update", "a"),), {}, {"devices": [device("a")]}, None),
        ((to_driver("patch", "a"),), {"devices": DEVICES}, {"devices": [device("a", x=1), device("b")]}, None),
        ((to_driver("patch", "a"),), {"devices": DEVICES}, {"devices": [device("b")]}, None),
        ((to_driver("patch", "a"),), {"devices": DEVICES}, {"devices": [device("a")]}, '"b" is forbidden'),
        ((to_driver("patch", "a"),), {"devices": DEVICES}, {"devices": [*DEVICES, device("b")]}, '"b" is forbidden'),
        ((), {"devices": DEVICES}, {}, '"a" is forbidden'),
    ],
)  # fmt: skip
def test_claim_status_parts_and_their_writers(
    rights: Rights, given: tuple[Json, ...], old: Json, new: Json, refused: str | None
) -> None:
    """DRAResourceClaimGranularStatusAuthorization: either verb is enough; the first driver without a right is named."""
    if given:
        rights.grant(*given)
    step = ClaimStatus(rights.authorizer)
    kind = shape("resource.k8s.io/v1", "ResourceClaim")
    assert kind.resource in step.kinds

    def write(operation: Operation, door: str, before: Json | None, user: User = JANE) -> None:
        after = {"metadata": {}, "status": copy.deepcopy(new)}
        registry = rights.plane.registry
        step.validate(AdmissionRequest(operation, kind, "default", "c", door, after, before, user, False, registry))

    if refused is None:
        write("UPDATE", "status", {"status": old})
    else:
        with pytest.raises(StatusError) as raised:
            write("UPDATE", "status", {"status": old})
        assert raised.value.code == 403
        assert refused in raised.value.message
    write("UPDATE", "", {"status": old})
    write("CREATE", "status", None)
    write("UPDATE", "status", {"status": old}, MASTER)
    if not new:
        write("UPDATE", "status", {})


GETS_PODS = '{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'


@pytest.mark.parametrize(
    ("wanted", "missing"),
    [
        ([rule(verbs="get list"), rule(verbs="watch")],
         ['{APIGroups:[""], Resources:["pods"], Verbs:["get" "list" "watch"]}']),
        ([rule(names="a"), rule(names="b"), rule()],
         ['{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["get"]}',
          '{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}', GETS_PODS]),
        ([path("/a"), rule(), path("/b")],
         ['{NonResourceURLs:["/a"], Verbs:["get"]}', '{NonResourceURLs:["/b"], Verbs:["get"]}', GETS_PODS]),
        ([rule(verbs=""), rule()], [GETS_PODS]),
        ([{"verbs": ["get"]}, {"apiGroups": None, "resources": None, "verbs": ["get"]}], []),
    ],
)  # fmt: skip
def test_verbs_of_one_resource_are_put_together(wanted: list[Json], missing: list[str]) -> None:
    """What has a name or a path stands before, one by one."""
    assert [str(one) for one in missing_rights([], wanted)] == missing


# -- reviews ---------------------------------------------------------------------------------------------------


@pytest.fixture
def review(rights: Rights) -> Callable[..., Json]:
    tokens = Tokens(b"k" * 32)
    tokens.add("fixed", JANE)
    tokens.present = lambda _: True
    rights.grant(rule("pods", "get list"), namespace="default")
    rights.grant(path("/metrics"))

    def ask(kind: str, spec: Json | None = None, user: User = JANE) -> Json:
        group = "authentication" if kind in ("SelfSubjectReview", "TokenReview") else "authorization"
        body: Json = {} if spec is None else {"spec": spec}
        return answer(shape(f"{group}.k8s.io/v1", kind), body, user, rights.authorizer, tokens)

    return ask


@pytest.mark.parametrize(
    ("user", "info"),
    [
        (User("a"), {"username": "a", "groups": []}),
        (User("a", ("g",), "u", (("k", ("v", "w")),)),
         {"username": "a", "uid": "u", "groups": ["g"], "extra": {"k": ["v", "w"]}}),
    ],
)  # fmt: skip
def test_self_subject_review_of_a_user(review: Callable[..., Json], user: User, info: Json) -> None:
    assert review("SelfSubjectReview", None, user) == {"userInfo": info}


LISTS = {"verb": "list", "resource": "pods", "namespace": "default"}
BY_CLUSTER_ROLE = 'RBAC: allowed by ClusterRoleBinding "jane" of ClusterRole "jane" to User "jane"'
BY_ROLE = 'RBAC: allowed by RoleBinding "jane-default/default" of Role "jane-default" to User "jane"'


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({"resourceAttributes": LISTS}, {"allowed": True, "reason": BY_ROLE}),
        ({"resourceAttributes": {**LISTS, "verb": "delete"}}, {"allowed": False}),
        ({"resourceAttributes": {**LISTS, "subresource": "log"}}, {"allowed": False}),
        ({"resourceAttributes": {**LISTS, "group": "apps"}}, {"allowed": False}),
        ({"resourceAttributes": {**LISTS, "name": "p"}}, {"allowed": True, "reason": BY_ROLE}),
        ({"nonResourceAttributes": {"verb": "get", "path": "/metrics"}},
         {"allowed": True, "reason": BY_CLUSTER_ROLE}),
        ({"nonResourceAttributes": {"verb": "get", "path": "/version"}}, {"allowed": True, "reason": DISCOVERY}),
        ({"nonResourceAttributes": {"verb": "get"}}, {"allowed": False}),
        ({"nonResourceAttributes": {"verb": "get", "path": "/other"}}, {"allowed": False}),
        ({}, {"allowed": False}),
        (None, {"allowed": False}),
    ],
)  # fmt: skip
def test_may_i(review: Callable[..., Json], spec: Json | None, status: Json) -> None:
    """Without a path the root is asked for; a review of another user gets the same answer."""
    assert review("SelfSubjectAccessReview", spec) == status
    of_jane = {**(spec or {}), "user": "jane", "groups": ["system:authenticated"]}
    for kind in ("SubjectAccessReview", "LocalSubjectAccessReview"):
        assert review(kind, of_jane, WITHOUT_RIGHTS) == status
        assert review(kind, {**of_jane, "user": "x", "groups": None})["allowed"] is False
        assert review(kind, {**of_jane, "user": "x", "groups": ["system:masters"]})["allowed"] is True


def test_self_subject_reviews(review: Callable[..., Json]) -> None:
    assert review("SelfSubjectRulesReview", {"namespace": "default"}) == {
        "resourceRules": [rule("pods", "get list"), *ABOUT_SELF],
        "nonResourceRules": [path("/metrics"), *OF_ALL],
        "incomplete": False,
    }
    assert review("SelfSubjectRulesReview")["resourceRules"] == ABOUT_SELF


def test_is_this_token_good(review: Callable[..., Json]) -> None:
    tokens = Tokens(b"k" * 32)
    token, _ = tokens.issue(BoundObject("serviceaccounts", "s", "r", "u"), 600, ["a", "b"])
    known = {"username": "jane", "groups": ["system:authenticated"]}
    given: list[Json] = [{}, {"audiences": []}, {"audiences": None}, {"audiences": ["x", AUDIENCE]}]
    for audiences in given:
        assert review("TokenReview", {"token": "fixed", **audiences}) == {
            "authenticated": True, "user": known, "audiences": [AUDIENCE]}  # fmt: skip
    found = review("TokenReview", {"token": token, "audiences": ["b", "c"]})
    assert (found["authenticated"], found["audiences"], found["user"]["uid"]) == (True, ["b"], "u")
    for bad, why in (("x", "invalid bearer token"), (token, "token audiences")):
        found = review("TokenReview", {"token": bad})
        assert (found["user"], why in found["error"], len(found)) == ({}, True, 2)
    for spec in (None, {}, {"token": ""}):
        with pytest.raises(StatusError) as refused:
            review("TokenReview", spec)
        assert (refused.value.code, refused.value.message) == (
            400, "token is required for TokenReview in authentication")  # fmt: skip
