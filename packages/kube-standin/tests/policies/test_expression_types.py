"""Type checking of validating policies, in their status (interfaces.md 6.14)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kube_standin.controllers import ControllerSet
from tests.policies.policy_objects import MERGE, VALIDATING, check, created, policy, rule
from tests.server.inprocess import Plane

Json = dict[str, Any]
APPS = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}


@pytest.fixture
def plane() -> Iterator[Plane]:
    """A control plane."""
    found = Plane()
    yield found
    found.close()


def checked(plane: Plane, body: Json) -> list[tuple[str, str]]:
    """The warnings of a policy: (field, text)."""
    name = created(plane, VALIDATING, body)["metadata"]["name"]

    async def settle() -> None:
        ControllerSet(plane.registry, ["validatingadmissionpolicy-status"]).settle()

    plane.run(settle())
    status = plane.ask(f"GET {VALIDATING}/{name}").json["status"]
    assert status["observedGeneration"] == 1
    return [(one["fieldRef"], one["warning"]) for one in status["typeChecking"].get("expressionWarnings", ())]


@pytest.mark.parametrize(
    "text",
    [
        "object.spec.replicas > 1",
        "object.metadata.labels.all(key, object.metadata.labels[key] != '') && object.kind == 'Deployment'",
        "object.spec.template.spec.containers.all(c, !has(c.resources.limits) || c.image.startsWith('registry/'))",
        "object.spec.template.spec.containers.all(c, c.ports.all(p, p.containerPort > 1024))",
        "object.spec.strategy.rollingUpdate.maxSurge == 1 || oldObject.metadata.generation > 2",
        "variables.replicas % 2 == 1",
        "namespaceObject.metadata.labels.size() > 0 && request.userInfo.groups.size() > 0",
    ],
)
def test_fitting_expressions_give_no_warning(plane: Plane, text: str) -> None:
    variables = [{"name": "replicas", "expression": "object.spec.replicas"}]
    assert checked(plane, policy("p", APPS, variables=variables, validations=check(text))) == []


@pytest.mark.parametrize(
    ("field", "text", "said"),
    [
        ("expression", "object.spec.replicas > '1'", "found no matching overload for '_>_' applied to '(int, string)'"),
        ("expression", "object.spec.maxRetries < 10", "undefined field 'maxRetries'"),
        ("expression", "variables.name > 3", "found no matching overload for '_>_' applied to '(string, int)'"),
        ("expression", "params.data.most > 3", "found no matching overload for '_>_' applied to '(string, int)'"),
        (
            "messageExpression",
            "'got ' + object.spec.replicas",
            "found no matching overload for '_+_' applied to '(string, int)'",
        ),
    ],
)
def test_mistake_is_a_warning(plane: Plane, field: str, text: str, said: str) -> None:
    body = policy(
        "p",
        APPS,
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        variables=[{"name": "name", "expression": "object.metadata.name"}],
        validations=[{"expression": "true", field: text}],
    )
    assert checked(plane, body) == [(f"spec.validations[0].{field}", f"apps/v1, Kind=Deployment: {said}\n")]


def test_custom_resources_have_the_types_of_their_schema(plane: Plane) -> None:
    spec = {"type": "object", "properties": {"replicas": {"type": "integer"}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }
    names = {"plural": "crontabs", "kind": "CronTab", "singular": "crontab", "listKind": "CronTabList"}
    definition = {
        "metadata": {"name": "crontabs.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    created(plane, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    match = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["crontabs"]}
    texts = ("object.spec.replicas > 1", "object.spec.replicas > '1'", "object.spec.maxRetries < 10",
             "object.metadata.name != ''")  # fmt: skip
    found = checked(plane, policy("p", match, validations=[{"expression": text} for text in texts]))
    assert [field for field, _ in found] == ["spec.validations[1].expression", "spec.validations[2].expression"]
    assert "applied to '(int, string)'" in found[0][1]
    assert found[1][1] == "example.com/v1, Kind=CronTab: undefined field 'maxRetries'\n"


@pytest.mark.parametrize(("size", "checked_kinds"), [(1, 3), (12_000, 2), (40_000, 1)])
def test_long_policy_is_checked_for_fewer_kinds(plane: Plane, size: int, checked_kinds: int) -> None:
    """interfaces.md 6.14"""
    rules = {**APPS, "resources": ["daemonsets", "deployments", "replicasets"]}
    text = f"object.spec.never == '{'x' * size}'"
    warnings = checked(plane, policy("p", rules, validations=check(text)))
    assert warnings[0][1].count("undefined field 'never'") == checked_kinds


def test_wildcards_are_not_checked(plane: Plane) -> None:
    assert checked(plane, policy("p", rule("deployments"), validations=check("object.spec.nowhere == 1"))) == []


def test_status_keeps_what_clients_add(plane: Plane) -> None:
    checked(plane, policy("p", APPS, validations=check("true")))
    condition = {"type": "Ready", "status": "True", "reason": "R", "message": "", "observedGeneration": 1,
                 "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
    answer = plane.ask(f"PATCH {VALIDATING}/p/status", {"status": {"conditions": [condition]}}, content_type=MERGE)
    assert answer.json["status"]["conditions"] == [condition]
    wrong = {"status": {"typeChecking": {"expressionWarnings": [{"fieldRef": "spec", "warning": ""}]}}}
    assert plane.ask(f"PATCH {VALIDATING}/p/status", wrong, content_type=MERGE).status == 422
