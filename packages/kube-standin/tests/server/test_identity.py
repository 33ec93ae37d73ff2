"""Which user a request counts as: tokens of service accounts, and impersonation (kube-apiserver 1.36)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from kube_standin.security import BoundObject, TokenError, Tokens
from kube_standin.server.control_plane import ServeOptions
from tests.server.live import Live, config_map, live, pod
from tests.waiting import eventually

Json = dict[str, Any]
SPACE = "/api/v1/namespaces/default"
ACCOUNTS = f"{SPACE}/serviceaccounts"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = "/apis/authentication.k8s.io/v1/tokenreviews"
AUDIENCE = "https://kubernetes.default.svc"


@pytest.fixture(scope="module")
def plane() -> Iterator[Live]:
    with live(ServeOptions(controllers="serviceaccount-token")) as running:
        yield running


def account(plane: Live, name: str) -> None:
    assert plane.request("POST", ACCOUNTS, {"metadata": {"name": name}})[0] == 201


def token_of(plane: Live, name: str, **spec: Any) -> str:
    status, answer, _ = plane.request("POST", f"{ACCOUNTS}/{name}/token", {"spec": spec})
    assert status == 201, answer
    token: str = answer["status"]["token"]
    return token


def works(plane: Live, token: str) -> bool:
    return plane.request("POST", WHOAMI, {}, token=token)[0] == 201


def test_token_dies_with_its_account(plane: Live) -> None:
    account(plane, "short")
    token = token_of(plane, "short")
    assert works(plane, token)
    assert plane.request("DELETE", f"{ACCOUNTS}/short")[0] == 200
    assert not works(plane, token)
    account(plane, "short")
    assert not works(plane, token), "an account of the same name is another account"
    assert works(plane, token_of(plane, "short"))


@pytest.mark.parametrize("node", [None, "here", "gone"])
def test_token_of_a_pod_states_its_node(plane: Live, node: str | None) -> None:
    """interfaces.md 5.4; per_node_update.go: policies read it as `request.userInfo.extra`."""
    uid = None
    if node == "here":
        uid = plane.request("POST", "/api/v1/nodes", {"metadata": {"name": "here"}})[1]["metadata"]["uid"]
    name = f"on-{node}"
    running = pod(name.lower())
    running["spec"] |= {"serviceAccountName": "default", **({"nodeName": node} if node else {})}
    plane.request("POST", ACCOUNTS, {"metadata": {"name": "default"}})
    assert plane.request("POST", f"{SPACE}/pods", running)[0] == 201
    token = token_of(plane, "default", boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": name.lower()})
    extra = plane.request("POST", WHOAMI, {}, token=token)[1]["status"]["userInfo"]["extra"]
    expected = {"node-name": [node] if node else None, "node-uid": [uid] if uid else None}
    assert {key: extra.get(f"authentication.kubernetes.io/{key}") for key in expected} == expected
    if node == "here":
        assert plane.request("DELETE", "/api/v1/nodes/here")[0] == 200
        assert works(plane, token), "the token is bound to the pod"


def test_token_in_a_secret_names_its_account(plane: Live) -> None:
    """interfaces.md 5.16"""
    account(plane, "lasting")
    notes = {"kubernetes.io/service-account.name": "lasting"}
    body = {"metadata": {"name": "lasting", "annotations": notes}, "type": "kubernetes.io/service-account-token"}
    assert plane.request("POST", f"{SPACE}/secrets", body)[0] == 201

    def data() -> Json:
        found: Json = plane.request("GET", f"{SPACE}/secrets/lasting")[1].get("data") or {}
        return found

    eventually(lambda: "token" in data())
    token = base64.b64decode(data()["token"]).decode()
    _status, answer, _ = plane.request("POST", WHOAMI, {}, token=token)
    assert answer["status"]["userInfo"]["username"] == "system:serviceaccount:default:lasting"
    assert plane.request("DELETE", f"{SPACE}/secrets/lasting")[0] == 200
    assert not works(plane, token)


def test_token_is_not_good_while_its_account_terminates(plane: Live) -> None:
    body = {"metadata": {"name": "ending", "finalizers": ["example.com/wait"]}}
    assert plane.request("POST", ACCOUNTS, body)[0] == 201
    token = token_of(plane, "ending")
    assert plane.request("DELETE", f"{ACCOUNTS}/ending")[0] == 200
    assert not works(plane, token)


def test_token_dies_with_what_it_is_bound_to(plane: Live) -> None:
    account(plane, "bound")
    running = pod("runs")
    running["spec"]["serviceAccountName"] = "bound"
    assert plane.request("POST", f"{SPACE}/pods", running)[0] == 201
    assert plane.request("POST", f"{SPACE}/pods", pod("other"))[0] == 201
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "runs"}
    token = token_of(plane, "bound", boundObjectRef=reference)
    status, answer, _ = plane.request("POST", WHOAMI, {}, token=token)
    assert answer["status"]["userInfo"]["extra"]["authentication.kubernetes.io/pod-name"] == ["runs"]
    assert plane.request("DELETE", f"{SPACE}/pods/runs", {"gracePeriodSeconds": 0})[0] == 200
    assert not works(plane, token)
    for other, code, text in (
        ({"kind": "Pod", "apiVersion": "v1", "name": "other"}, 400, "different serviceaccount name"),
        ({"kind": "Pod", "apiVersion": "v1", "name": "runs"}, 404, 'pods "runs" not found'),
        ({"kind": "Deployment", "apiVersion": "apps/v1", "name": "x"}, 400, "object of type apps/v1, Kind=Deployment"),
    ):
        status, answer, _ = plane.request("POST", f"{ACCOUNTS}/bound/token", {"spec": {"boundObjectRef": other}})
        assert (status, text in answer["message"]) == (code, True), answer


def test_token_for_another_audience_is_refused(plane: Live) -> None:
    account(plane, "wide")
    elsewhere = token_of(plane, "wide", audiences=["vault"])
    assert not works(plane, elsewhere)
    assert works(plane, token_of(plane, "wide", audiences=["vault", AUDIENCE]))
    name = "system:serviceaccount:default:wide"
    for audiences, good in (([], None), (["vault"], ["vault"]), ([AUDIENCE], None), (["vault", "x"], ["vault"])):
        _, answer, _ = plane.request("POST", REVIEW, {"spec": {"token": elsewhere, "audiences": audiences}})
        status = answer["status"]
        if good is None:
            assert "authenticated" not in status
            assert 'token audiences ["vault"] is invalid for the target audiences' in status["error"]
        else:
            assert (status["authenticated"], status["audiences"], status["user"]["username"]) == (True, good, name)
    admin = plane.server.keys.admin_token
    assert plane.request("POST", REVIEW, {"spec": {"token": admin}})[1]["status"]["audiences"] == [AUDIENCE]
    assert "error" in plane.request("POST", REVIEW, {"spec": {"token": admin, "audiences": ["vault"]}})[1]["status"]


def test_only_what_this_key_signed_as_it_is_signed_here_is_a_token() -> None:
    tokens, other = Tokens(b"k" * 32), Tokens(b"o" * 32)
    for one in (tokens, other):
        one.present = lambda _: True
    subject = BoundObject("serviceaccounts", "default", "a", "u")
    token, _ = tokens.issue(subject, 600, [AUDIENCE])
    assert tokens.verify(token).user.name == "system:serviceaccount:default:a"
    head, claims, signature = token.split(".")
    unsigned = base64.urlsafe_b64encode(json.dumps({"alg": "none", "typ": "JWT"}).encode()).rstrip(b"=").decode()
    expired, _ = tokens.issue(subject, -1, [AUDIENCE])
    for bad in (
        other.issue(subject, 600, [AUDIENCE])[0],
        f"{unsigned}.{claims}.",
        f"{unsigned}.{claims}.{signature}",
        f"{head}.{claims}.",
        f"{head}.{claims}",
        f"{head}.{claims[:-2]}.{signature}",
        f"{token}.{signature}",
        "..",
        "",
        "é.é.é",
        expired,
    ):
        assert tokens.user(bad) is None, bad
    tokens.present = lambda bound: bound.uid != "u"
    with pytest.raises(TokenError, match="invalidated"):
        tokens.verify(token)


# -- impersonation


def impersonated(plane: Live, token: str = "admin", **headers: str) -> tuple[int, Json]:
    sent = {f"Impersonate-{name.replace('_', '-')}": value for name, value in headers.items()}
    status, answer, _ = plane.request("POST", WHOAMI, {}, token=token, headers=sent)
    return status, answer["status"]["userInfo"] if status == 201 else answer


ACTING: dict[str, tuple[dict[str, str], Json]] = {
    "a user": ({"User": "jane"}, {"username": "jane", "groups": ["system:authenticated"]}),
    "a group": (
        {"User": "jane", "Group": "staff, old"},
        {"username": "jane", "groups": ["staff, old", "system:authenticated"]},
    ),
    "uid and extras": (
        {"User": "jane", "Uid": "7", "Extra-Scopes": "view", "Extra-Example.com%2Fkey": "x"},
        {
            "username": "jane",
            "uid": "7",
            "groups": ["system:authenticated"],
            "extra": {"example.com/key": ["x"], "scopes": ["view"]},
        },
    ),
    "an account": (
        {"User": "system:serviceaccount:default:robot"},
        {
            "username": "system:serviceaccount:default:robot",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
        },
    ),
    "an account with groups": (
        {"User": "system:serviceaccount:default:robot", "Group": "g"},
        {"username": "system:serviceaccount:default:robot", "groups": ["g", "system:authenticated"]},
    ),
}


@pytest.mark.parametrize("case", ACTING)
def test_impersonated_user(plane: Live, case: str) -> None:
    headers, seen = ACTING[case]
    assert impersonated(plane, **headers) == (201, seen)


def test_unauthenticated_stay_so(plane: Live) -> None:
    """Every authenticated user may ask about itself; an impersonated unauthenticated user may not."""
    for headers in ({"User": "jane", "Group": "system:unauthenticated"}, {"User": "system:anonymous"}):
        status, answer = impersonated(plane, **headers)
        assert (status, 'cannot create resource "selfsubjectreviews"' in answer["message"]) == (403, True)


@pytest.mark.parametrize(
    ("headers", "shown"),
    [
        ({"Group": "system:masters"}, "{Group  system:masters    }"),
        ({"Uid": "7"}, "{UID  7  authentication.k8s.io/v1  }"),
        ({"Extra-scopes": "view"}, "{UserExtra  view  authentication.k8s.io/v1  scopes}"),
        ({"User": "", "Group": "g"}, "{Group  g    }"),
    ],
)
def test_part_without_a_user_is_refused(plane: Live, headers: dict[str, str], shown: str) -> None:
    for token in ("admin", "reader"):
        status, answer = impersonated(plane, token, **headers)
        assert (status, answer["message"]) == (400, f"requested [{shown}] without impersonating a user")


FORBIDDEN: dict[str, tuple[dict[str, str], str, str]] = {
    "another user": ({"User": "root"}, 'users "root"', 'resource "users" in API group "" at the cluster scope'),
    "a group": (
        {"User": "jane", "Group": "system:masters"},
        'groups "system:masters"',
        'resource "groups" in API group "" at the cluster scope',
    ),
    "a uid": (
        {"User": "jane", "Uid": "7"},
        'uids.authentication.k8s.io "7"',
        'resource "uids" in API group "authentication.k8s.io" at the cluster scope',
    ),
    "another extra": (
        {"User": "jane", "Extra-Other": "view"},
        'userextras.authentication.k8s.io "view"',
        'resource "userextras/other" in API group "authentication.k8s.io" at the cluster scope',
    ),
    "another value of an extra": (
        {"User": "jane", "Extra-Scopes": "all"},
        'userextras.authentication.k8s.io "all"',
        'resource "userextras/scopes" in API group "authentication.k8s.io" at the cluster scope',
    ),
    "an account": (
        {"User": "system:serviceaccount:kube-system:robot"},
        'serviceaccounts "robot"',
        'resource "serviceaccounts" in API group "" in the namespace "kube-system"',
    ),
}


def deputy(plane: Live) -> str:
    """The token of an account that may act as jane with the extra `scopes: view`, and as robots of `default`."""
    name = "deputy"
    if plane.request("GET", f"{ACCOUNTS}/{name}")[0] == 404:
        account(plane, name)
        rules = [
            {"apiGroups": [""], "resources": ["users"], "resourceNames": ["jane"], "verbs": ["impersonate"]},
            {
                "apiGroups": ["authentication.k8s.io"],
                "resources": ["userextras/scopes"],
                "resourceNames": ["view"],
                "verbs": ["impersonate"],
            },
        ]
        subjects = [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]
        for role, cluster, its in (
            ("deputy", True, rules),
            (
                "deputy",
                False,
                [{"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]}],
            ),
        ):
            base = RBAC if cluster else f"{RBAC}/namespaces/default"
            kind = "clusterrole" if cluster else "role"
            reference = {"kind": "ClusterRole" if cluster else "Role", "name": role}
            body: Json = {"metadata": {"name": role}, "rules": its}
            assert plane.request("POST", f"{base}/{kind}s", body)[0] == 201
            body = {"metadata": {"name": role}, "roleRef": reference, "subjects": subjects}
            assert plane.request("POST", f"{base}/{kind}bindings", body)[0] == 201
    return token_of(plane, name)


@pytest.mark.parametrize("case", FORBIDDEN)
def test_each_part_needs_its_right(plane: Live, case: str) -> None:
    headers, subject, what = FORBIDDEN[case]
    token = deputy(plane)
    assert impersonated(plane, token, User="jane", Extra_Scopes="view")[0] == 201
    assert impersonated(plane, token, User="system:serviceaccount:default:robot")[0] == 201
    status, answer = impersonated(plane, token, **headers)
    by = "system:serviceaccount:default:deputy"
    assert (status, answer["message"]) == (403, f'{subject} is forbidden: User "{by}" cannot impersonate {what}')


def test_impersonation_gives_the_rights_of_the_other_user_only(plane: Live) -> None:
    headers = {"Impersonate-User": "nobody"}
    assert plane.request("POST", f"{SPACE}/configmaps", config_map("x"), headers=headers)[0] == 403
