"""Requests are classified by FlowSchemas and priority levels, and none is limited (interfaces.md 4.16)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kube_rules.flow_control import FLOW_SCHEMAS, VERSION
from kube_standin.admission_chain import User
from kube_standin.server.target import read_target
from tests.conformance.test_machinery_specs import WATCH_LIST
from tests.rules.test_flow_control import flow_schema, level
from tests.server.inprocess import Answer, Plane, running

API = f"/apis/{VERSION}"
SCHEMAS, LEVELS = f"{API}/flowschemas", f"{API}/prioritylevelconfigurations"
LIMITED = {"type": "Limited", "limited": {"nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}}}
ANY_PATH = {"nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def plane() -> Iterator[Plane]:
    with running() as made:
        yield made


def as_user(name: str) -> dict[str, str]:
    return {"impersonate_user": name, "impersonate_group": "system:authenticated"}


def named(plane: Plane, uids: list[str | None]) -> str | None:
    """The FlowSchema with the first UID; the second must be that of the priority level that it names."""
    if uids == [None, None]:
        return None
    [schema] = [one for one in plane.ask(f"GET {SCHEMAS}").json["items"] if one["metadata"]["uid"] == uids[0]]
    wanted = schema["spec"]["priorityLevelConfiguration"]["name"]
    assert plane.ask(f"GET {LEVELS}/{wanted}").json["metadata"]["uid"] == uids[1]
    found: str = schema["metadata"]["name"]
    return found


def schema_of(plane: Plane, answer: Answer) -> str | None:
    return named(plane, [answer.header(f"x-kubernetes-pf-{kind}-uid") for kind in ("flowschema", "prioritylevel")])


def dangling(plane: Plane, name: str) -> tuple[str, str]:
    [condition] = plane.ask(f"GET {SCHEMAS}/{name}").json["status"]["conditions"]
    assert condition["type"] == "Dangling"
    return condition["status"], condition["reason"]


def test_requests_are_classified_by_added_objects(plane: Plane) -> None:
    """flowcontrol.go, "should ensure that requests can be classified by adding FlowSchema"."""
    plane.create(LEVELS, level("e2e", **LIMITED))
    subject = {"kind": "User", "user": {"name": "noxu"}}
    rules = [{"subjects": [subject], **ANY_PATH}]
    spec = {"matchingPrecedence": 1000, "priorityLevelConfiguration": {"name": "e2e"}}
    plane.create(SCHEMAS, flow_schema(*rules, name="e2e", **spec))
    assert dangling(plane, "e2e") == ("False", "Found")
    assert 'seats{priority_level="e2e"}' in plane.ask("GET /metrics").body.decode()
    assert schema_of(plane, plane.ask("GET /version", **as_user("noxu"))) == "e2e"
    assert schema_of(plane, plane.ask("GET /version", **as_user("foo"))) == "global-default"
    assert plane.ask(f"DELETE {SCHEMAS}/e2e").status == 200
    assert schema_of(plane, plane.ask("GET /version", **as_user("noxu"))) == "global-default"


USERS = ("system:authenticated",)
NODES = ("system:nodes", *USERS)
ACCOUNTS = ("system:serviceaccounts", *USERS)


@pytest.mark.parametrize(
    ("path", "user", "expected"),
    [
        ("/healthz", User("u", USERS), "probes"),
        ("/healthz/etcd", User("u", USERS), "global-default"),
        ("/apis/coordination.k8s.io/v1/namespaces/a/leases/l", User("system:kube-scheduler", USERS),
         "system-leader-election"),
        (PODS, User("system:kube-scheduler", USERS), "kube-scheduler"),
        ("/api/v1/nodes/n", User("system:node:n", NODES), "system-node-high"),
        ("/api/v1/nodes/n/status", User("system:node:n", NODES), "system-node-high"),
        ("/apis/coordination.k8s.io/v1/namespaces/a/leases/l", User("system:node:n", NODES), "system-node-high"),
        (PODS, User("system:node:n", NODES), "system-nodes"),
        (PODS, User("system:serviceaccount:kube-system:a", ACCOUNTS), "kube-system-service-accounts"),
        (PODS, User("system:serviceaccount:kube-systems:a", ACCOUNTS), "service-accounts"),
        (PODS, User("u", ("system:masters", *USERS)), "exempt"),
        (PODS, User("u", ("strangers",)), None),
    ],
)  # fmt: skip
def test_schemas_of_every_server(plane: Plane, path: str, user: User, expected: str | None) -> None:
    """The first schema by precedence that matches user and request."""
    assert expected is None or expected in FLOW_SCHEMAS
    found = plane.app.flows.headers(user, read_target("GET", path, b"").attributes)
    assert named(plane, [value.decode() for _, value in found] or [None, None]) == expected


@pytest.mark.parametrize(
    ("subject", "matches"),
    [
        ({"kind": "User", "user": {"name": "*"}}, True),
        ({"kind": "User", "user": {"name": "other"}}, False),
        ({"kind": "Group", "group": {"name": "*"}}, True),
        ({"kind": "ServiceAccount", "serviceAccount": {"namespace": "a", "name": "b"}}, True),
        ({"kind": "ServiceAccount", "serviceAccount": {"namespace": "a", "name": "c"}}, False),
    ],
)
@pytest.mark.parametrize(("namespace", "cluster", "inside"), [("*", False, True), ("b", True, False)])
def test_subjects_and_namespaces(
    plane: Plane, subject: dict[str, Any], matches: bool, namespace: str, cluster: bool, inside: bool
) -> None:
    resources = {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"], "namespaces": [namespace]}
    rules = [{"subjects": [subject], "resourceRules": [{**resources, "clusterScope": cluster}]}]
    plane.create(SCHEMAS, flow_schema(*rules, name="f"))
    user = User("system:serviceaccount:a:b", ACCOUNTS)
    for path, scope in ((PODS, inside), ("/api/v1/pods", cluster), (f"{PODS}/p", False)):
        found = plane.app.flows.headers(user, read_target("GET", path, b"").attributes)
        assert (named(plane, [value.decode() for _, value in found]) == "f") is (matches and scope), path


def test_what_is_remembered_is_bounded(plane: Plane) -> None:
    """interfaces.md 5.3: clients choose paths, and with the right to impersonate also users."""
    flows = plane.app.flows
    for number in range(2):
        before = len(flows._remembered)
        for long in (User("u" * 2000, USERS), User("u", ("g" * 2000, *USERS))):
            assert flows.headers(long, read_target("GET", f"/{number}", b"").attributes)
        assert flows.headers(User("u", USERS), read_target("GET", "/a" * 1000, b"").attributes)
        assert len(flows._remembered) == before
    for number in range(5000):
        flows.headers(User("u", USERS), read_target("GET", f"/{number}", b"").attributes)
    assert len(flows._remembered) <= 4096


def test_unknown_users_are_not_classified(plane: Plane) -> None:
    assert schema_of(plane, plane.ask(f"GET {PODS}", token=None)) is None
    assert schema_of(plane, plane.ask(f"GET {PODS}/none")) == "exempt", "a missing object"
    assert schema_of(plane, plane.ask(f"GET {PODS}/none/log")) is None, "a request that may last"


def test_watches_are_classified(plane: Plane) -> None:
    async def start() -> dict[str, str]:
        async with plane.watching(f"GET {PODS}?{WATCH_LIST}") as watch:
            return {name.decode(): value.decode() for name, value in (await watch.start())["headers"]}

    assert {"x-kubernetes-pf-flowschema-uid", "x-kubernetes-pf-prioritylevel-uid"} <= set(plane.run(start()))


def test_schema_without_its_level_matches_nothing(plane: Plane) -> None:
    rules = [{"subjects": [{"kind": "User", "user": {"name": "*"}}], **ANY_PATH}]
    plane.create(SCHEMAS, flow_schema(*rules, name="f", priorityLevelConfiguration={"name": "late"}))
    assert dangling(plane, "f") == ("True", "NotFound")
    assert schema_of(plane, plane.ask("GET /version", **as_user("foo"))) == "global-default"
    plane.create(LEVELS, level("late", **LIMITED))
    assert dangling(plane, "f") == ("False", "Found")
    assert schema_of(plane, plane.ask("GET /version", **as_user("foo"))) == "f"
    plane.ask(f"DELETE {LEVELS}/late")
    assert dangling(plane, "f") == ("True", "NotFound")


def test_condition_comes_back_beside_those_of_clients(plane: Plane) -> None:
    """flowcontrol.go, "patching /status": a merge patch replaces the list, and the server adds its condition."""
    plane.create(SCHEMAS, flow_schema(name="f"))
    mine = {"type": "PatchStatusFailed", "status": "False", "reason": "e2e"}
    how = {"content_type": "application/merge-patch+json"}
    answer = plane.ask(f"PATCH {SCHEMAS}/f/status", {"status": {"conditions": [mine]}}, **how)
    assert {one["type"] for one in answer.json["status"]["conditions"]} == {"PatchStatusFailed", "Dangling"}


def test_seats_follow_the_shares(plane: Plane) -> None:
    """600 requests at a time, by default, in proportion to the shares, rounded up."""
    text = plane.ask("GET /metrics").body.decode()
    for name, seats in (("exempt", 0), ("catch-all", 13), ("system", 74), ("workload-low", 245)):
        assert f'apiserver_flowcontrol_nominal_limit_seats{{priority_level="{name}"}} {seats}.0' in text
