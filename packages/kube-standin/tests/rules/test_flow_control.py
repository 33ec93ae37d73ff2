"""FlowSchemas and PriorityLevelConfigurations: what every server has, defaults, and what is refused (1.36)."""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.flow_control import FLOW_SCHEMAS, PRIORITY_LEVELS, VERSION
from tests.admission.plane import Json, Plane, refused

RESOURCES = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["*"]}
USER = {"kind": "User", "user": {"name": "u"}}
LIMITED = {"limitResponse": {"type": "Reject"}}


@pytest.fixture
def plane() -> Plane:
    return Plane()


def flow_schema(*rules: Json, name: str = "f", **spec: Any) -> Json:
    spec = {"priorityLevelConfiguration": {"name": "system"}, "rules": list(rules), **spec}
    return {"apiVersion": VERSION, "kind": "FlowSchema", "metadata": {"name": name}, "spec": spec}


def level(name: str = "l", **spec: Any) -> Json:
    return {"apiVersion": VERSION, "kind": "PriorityLevelConfiguration", "metadata": {"name": name}, "spec": spec}


def rule(*, resources: Json | None = None, plain: Json | None = None, subject: Json = USER) -> Json:
    found: Json = {"subjects": [subject]}
    if resources is not None:
        found["resourceRules"] = [{**RESOURCES, **resources}]
    if plain is not None:
        found["nonResourceRules"] = [{"verbs": ["get"], "nonResourceURLs": ["/healthz"], **plain}]
    return found


def test_objects_of_every_server(plane: Plane) -> None:
    schemas = {one["metadata"]["name"]: one for one in plane.all(VERSION, "FlowSchema")}
    assert {name: one["spec"] for name, one in schemas.items()} == FLOW_SCHEMAS
    levels = {one["metadata"]["name"]: one["spec"] for one in plane.all(VERSION, "PriorityLevelConfiguration")}
    assert levels == PRIORITY_LEVELS
    assert {spec["priorityLevelConfiguration"]["name"] for spec in FLOW_SCHEMAS.values()} == set(levels)
    [condition] = schemas["probes"]["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Dangling", "False", "Found")
    assert '"exempt"' in condition["message"]


def test_defaults(plane: Plane) -> None:
    assert plane.create(flow_schema())["spec"]["matchingPrecedence"] == 1000
    made = plane.create(level(type="Limited", limited={"limitResponse": {"type": "Queue", "queuing": {}}}))
    assert made["spec"]["limited"] == {
        "nominalConcurrencyShares": 30,
        "lendablePercent": 0,
        "limitResponse": {"type": "Queue", "queuing": {"queues": 64, "handSize": 8, "queueLengthLimit": 50}},
    }


REFUSED = [
    (flow_schema(matchingPrecedence=-1), ["spec.matchingPrecedence"]),
    (flow_schema(matchingPrecedence=10_001), ["spec.matchingPrecedence"]),
    (flow_schema(matchingPrecedence=1), ["spec.matchingPrecedence"]),
    (flow_schema(distinguisherMethod={"type": "ByMood"}), ["spec.distinguisherMethod.type"]),
    (flow_schema(priorityLevelConfiguration={"name": ""}), ["spec.priorityLevelConfiguration.name"]),
    (flow_schema(priorityLevelConfiguration={"name": "A b"}), ["spec.priorityLevelConfiguration.name"]),
    (flow_schema({"subjects": []}), ["spec.rules[0].subjects", "spec.rules[0]"]),
    (flow_schema(rule(resources={"verbs": []})), ["spec.rules[0].resourceRules[0].verbs"]),
    (flow_schema(rule(resources={"verbs": ["*", "get"]})), ["spec.rules[0].resourceRules[0].verbs"]),
    (flow_schema(rule(resources={"verbs": ["eat"]})), ["spec.rules[0].resourceRules[0].verbs"]),
    (flow_schema(rule(resources={"apiGroups": []})), ["spec.rules[0].resourceRules[0].apiGroups"]),
    (flow_schema(rule(resources={"resources": ["*", "pods"]})), ["spec.rules[0].resourceRules[0].resources"]),
    (flow_schema(rule(resources={"namespaces": []})), ["spec.rules[0].resourceRules[0].namespaces"]),
    (flow_schema(rule(resources={"namespaces": ["A"]})), ["spec.rules[0].resourceRules[0].namespaces[0]"]),
    (flow_schema(rule(plain={"nonResourceURLs": []})), ["spec.rules[0].nonResourceRules[0].nonResourceURLs"]),
    *(
        (flow_schema(rule(plain={"nonResourceURLs": [url]})), ["spec.rules[0].nonResourceRules[0].nonResourceURLs[0]"])
        for url in ("", "a", "/a b", "//a", "/a*", "/*/b")
    ),
    (flow_schema(rule(plain={}, subject={"kind": "Cat"})), ["spec.rules[0].subjects[0].kind"]),
    (flow_schema(rule(plain={}, subject={"kind": "User"})), ["spec.rules[0].subjects[0].user"]),
    (
        flow_schema(rule(plain={}, subject={**USER, "group": {"name": "g"}})),
        ["spec.rules[0].subjects[0].group"],
    ),
    (
        flow_schema(rule(plain={}, subject={"kind": "ServiceAccount", "serviceAccount": {"name": "A b"}})),
        ["spec.rules[0].subjects[0].serviceAccount.name", "spec.rules[0].subjects[0].serviceAccount.namespace"],
    ),
    (level(type="Exempt"), ["spec.type"]),
    (level(type="None"), ["spec.type"]),
    (level(type="Limited"), ["spec.limited"]),
    (level(type="Limited", limited=LIMITED, exempt={}), ["spec.exempt"]),
    (level(type="Limited", limited={**LIMITED, "lendablePercent": 101}), ["spec.limited.lendablePercent"]),
    (level(type="Limited", limited={**LIMITED, "borrowingLimitPercent": -1}), ["spec.limited.borrowingLimitPercent"]),
    (level(type="Limited", limited={"limitResponse": {"type": "X"}}), ["spec.limited.limitResponse.type"]),
    (level(type="Limited", limited={"limitResponse": {"type": "Queue"}}), ["spec.limited.limitResponse.queuing"]),
    (
        level(type="Limited", limited={"limitResponse": {"type": "Reject", "queuing": {}}}),
        ["spec.limited.limitResponse.queuing"],
    ),
    (
        level(type="Limited", limited={"limitResponse": {"type": "Queue", "queuing": {"queues": 4, "handSize": 8}}}),
        ["spec.limited.limitResponse.queuing.handSize"],
    ),
    (
        level(type="Limited", limited={"limitResponse": {"type": "Queue", "queuing": {"queues": 512, "handSize": 8}}}),
        ["spec.limited.limitResponse.queuing.handSize"],
    ),
]


@pytest.mark.parametrize(("manifest", "fields"), REFUSED)
def test_refused(plane: Plane, manifest: Json, fields: list[str]) -> None:
    error = refused(plane, manifest)
    assert (error.code, [cause.field for cause in error.causes]) == (422, fields)


def test_mandatory_objects_keep_their_spec(plane: Plane) -> None:
    plane.delete(VERSION, "FlowSchema", "catch-all")
    error = refused(plane, flow_schema(name="catch-all"))
    assert "spec of 'catch-all' must equal the fixed value" in str(error)
    plane.create(flow_schema(name="catch-all", **FLOW_SCHEMAS["catch-all"]))
