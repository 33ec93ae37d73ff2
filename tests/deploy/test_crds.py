"""PodGroup and Workload as custom resources keep the rules of the native kinds (api.md, "Workload and PodGroup").

Every case is asked of both: what the native API refuses the definitions refuse, what it takes they take.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane.server.live import Live, live
from tests.deploy import manifests
from tests.deploy.manifests import Json, path_of

OURS, NATIVE = "scheduling.reprieve.dev/v1beta1", "scheduling.k8s.io/v1beta1"
PLURALS = {"PodGroup": "podgroups", "Workload": "workloads"}
GANG: Json = {"schedulingPolicy": {"gang": {"minCount": 2}}}
BASIC: Json = {"schedulingPolicy": {"basic": {}}}
numbers = itertools.count()


@pytest.fixture(scope="module")
def plane() -> Iterator[Live]:
    with live() as running:
        for definition in manifests.component("crds"):
            path = f"{path_of(definition)}?fieldManager=tests&fieldValidation=Strict"
            status, answer, _ = running.request(
                "PATCH", path, definition, headers={"Content-Type": "application/apply-patch+yaml"}
            )
            assert status == 201, answer
        for name, value in (("high", 1000), ("low", 10)):
            body = {"metadata": {"name": name}, "value": value}
            assert running.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)[0] == 201
        for name in ("w", "work.load"):
            body = {"metadata": {"name": name}, "spec": {"podGroupTemplates": [{"name": "t", **GANG}]}}
            assert running.request("POST", collection(NATIVE, "Workload"), body)[0] == 201
        yield running


def collection(version: str, kind: str) -> str:
    return f"/apis/{version}/namespaces/default/{PLURALS[kind]}"


def create(plane: Live, version: str, kind: str, spec: Json) -> tuple[int, Json]:
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": f"x{next(numbers)}"}, "spec": spec}
    status, answer, _ = plane.request("POST", collection(version, kind), body)
    return status, answer


def causes(answer: Json) -> set[str]:
    return {cause["field"] for cause in answer.get("details", {}).get("causes", ())}


GROUPS: list[tuple[Json, str | None]] = [
    # taken
    (GANG, None),
    (BASIC, None),
    ({**GANG, "disruptionMode": {"all": {}}}, None),
    ({**GANG, "disruptionMode": {"single": {}}}, None),
    ({**BASIC, "disruptionMode": {"single": {}}}, None),
    ({**GANG, "schedulingConstraints": {"topology": [{"key": "topology.kubernetes.io/zone"}]}}, None),
    ({**GANG, "schedulingConstraints": {"topology": []}}, None),
    ({**GANG, "priorityClassName": "high"}, None),
    ({**GANG, "priorityClassName": "high", "priority": 1000}, None),
    ({**GANG, "preemptionPolicy": "PreemptLowerPriority"}, None),
    ({**GANG, "workloadRef": {"workloadName": "work.load", "templateName": "t"}}, None),
    # refused, at which field
    ({}, "spec.schedulingPolicy"),
    ({"schedulingPolicy": {}}, "spec.schedulingPolicy"),
    ({"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}}, "spec.schedulingPolicy"),
    ({"schedulingPolicy": {"gang": {}}}, "spec.schedulingPolicy.gang.minCount"),
    ({"schedulingPolicy": {"gang": {"minCount": 0}}}, "spec.schedulingPolicy.gang.minCount"),
    ({"schedulingPolicy": {"gang": {"minCount": -1}}}, "spec.schedulingPolicy.gang.minCount"),
    ({**BASIC, "disruptionMode": {"all": {}}}, "spec.disruptionMode"),
    ({**GANG, "disruptionMode": {"all": {}, "single": {}}}, "spec.disruptionMode"),
    ({**GANG, "disruptionMode": {}}, "spec.disruptionMode"),
    (
        {**GANG, "schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
        "spec.schedulingConstraints.topology",
    ),
    ({**GANG, "schedulingConstraints": {"topology": [{}]}}, "spec.schedulingConstraints.topology[0].key"),
    ({**GANG, "schedulingConstraints": {"topology": [{"key": "a b"}]}}, "spec.schedulingConstraints.topology[0].key"),
    ({**GANG, "workloadRef": {"templateName": "t"}}, "spec.workloadRef.workloadName"),
    ({**GANG, "workloadRef": {"workloadName": "W", "templateName": "t"}}, "spec.workloadRef.workloadName"),
    ({**GANG, "workloadRef": {"workloadName": "w", "templateName": "a.b"}}, "spec.workloadRef.templateName"),
]


@pytest.mark.parametrize(("spec", "refused"), GROUPS)
def test_a_group_is_taken_and_refused_as_the_native_one(spec: Json, refused: str | None, plane: Live) -> None:
    for version in (NATIVE, OURS):
        status, answer = create(plane, version, "PodGroup", spec)
        assert status == (201 if refused is None else 422), (version, answer)
        if refused is not None:
            assert refused in causes(answer), (version, answer)


@pytest.mark.parametrize(
    ("spec", "taken"),
    [
        ({**GANG, "priority": 1_000_000_000}, True),
        ({**GANG, "priority": 1_000_000_001}, False),
        ({**GANG, "priority": 2_000_000_000, "priorityClassName": "system-cluster-critical"}, True),
        ({**GANG, "priority": 2_000_001_001, "priorityClassName": "system-node-critical"}, False),
        ({**GANG, "priorityClassName": "Not_A_Name"}, False),
        ({**GANG, "preemptionPolicy": "Never"}, True),
        ({**GANG, "preemptionPolicy": "Sometimes"}, False),
    ],
)
def test_priorities_have_the_bounds_that_admission_gives_the_native_ones(spec: Json, taken: bool, plane: Live) -> None:
    """preemption.md 8; natively admission has the word before validation, so it is asked of ours alone."""
    status, answer = create(plane, OURS, "PodGroup", spec)
    assert status == (201 if taken else 422), answer


def test_a_group_is_disrupted_pod_by_pod_unless_it_says_otherwise(plane: Live) -> None:
    for version in (NATIVE, OURS):
        assert create(plane, version, "PodGroup", GANG)[1]["spec"]["disruptionMode"] == {"single": {}}


FULL: Json = {
    **GANG,
    "workloadRef": {"workloadName": "w", "templateName": "t"},
    "disruptionMode": {"all": {}},
    "schedulingConstraints": {"topology": [{"key": "zone"}]},
    "priorityClassName": "high",
    "preemptionPolicy": "PreemptLowerPriority",
}
CHANGES: list[tuple[Json, str | None]] = [
    ({"schedulingPolicy": {"gang": {"minCount": 5}}}, None),
    ({"schedulingPolicy": {"gang": {"minCount": 0}}}, "spec.schedulingPolicy.gang.minCount"),
    ({"schedulingPolicy": {"basic": {}, "gang": None}}, "spec.schedulingPolicy"),
    ({"disruptionMode": {"single": {}, "all": None}}, "spec.disruptionMode"),
    ({"workloadRef": None}, "spec.workloadRef"),
    ({"workloadRef": {"workloadName": "other"}}, "spec.workloadRef"),
    ({"schedulingConstraints": None}, "spec.schedulingConstraints"),
    ({"schedulingConstraints": {"topology": [{"key": "rack"}]}}, "spec.schedulingConstraints"),
    ({"priorityClassName": "low"}, "spec.priorityClassName"),
    ({"preemptionPolicy": "Never"}, "spec.preemptionPolicy"),
]


@pytest.mark.parametrize(("change", "refused"), CHANGES)
def test_only_the_minimum_of_a_group_may_change(change: Json, refused: str | None, plane: Live) -> None:
    for version in (NATIVE, OURS):
        status, made = create(plane, version, "PodGroup", FULL)
        assert status == 201, made
        path = f"{collection(version, 'PodGroup')}/{made['metadata']['name']}"
        headers = {"Content-Type": "application/merge-patch+json"}
        status, answer, _ = plane.request("PATCH", path, {"spec": change}, headers=headers)
        assert status == (200 if refused is None else 422), (version, answer)
        if refused is not None:
            assert refused in causes(answer), (version, answer)


def template(name: str = "t", **fields: Any) -> Json:
    return {"name": name, **GANG, **fields}


WORKLOADS: list[tuple[Json, str | None]] = [
    ({"podGroupTemplates": [template()]}, None),
    ({"podGroupTemplates": [template(f"t{i}") for i in range(8)]}, None),
    ({"podGroupTemplates": [template()], "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "j"}}, None),
    ({"podGroupTemplates": [template(priorityClassName="high", disruptionMode={"all": {}})]}, None),
    ({}, "spec.podGroupTemplates"),
    ({"podGroupTemplates": []}, "spec.podGroupTemplates"),
    ({"podGroupTemplates": [template(f"t{i}") for i in range(9)]}, "spec.podGroupTemplates"),
    ({"podGroupTemplates": [template(), template()]}, "spec.podGroupTemplates[1]"),
    ({"podGroupTemplates": [template("a.b")]}, "spec.podGroupTemplates[0].name"),
    ({"podGroupTemplates": [{"name": "t"}]}, "spec.podGroupTemplates[0].schedulingPolicy"),
    ({"podGroupTemplates": [template(schedulingPolicy={"gang": {"minCount": 0}})]},
     "spec.podGroupTemplates[0].schedulingPolicy.gang.minCount"),
    ({"podGroupTemplates": [template(schedulingPolicy={"basic": {}}, disruptionMode={"all": {}})]},
     "spec.podGroupTemplates[0].disruptionMode"),
    ({"podGroupTemplates": [template()], "controllerRef": {"name": "j"}}, "spec.controllerRef.kind"),
    ({"podGroupTemplates": [template()], "controllerRef": {"kind": "Job", "name": "a/b"}}, "spec.controllerRef.name"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "refused"), WORKLOADS)
def test_a_workload_is_taken_and_refused_as_the_native_one(spec: Json, refused: str | None, plane: Live) -> None:
    for version in (NATIVE, OURS):
        status, answer = create(plane, version, "Workload", spec)
        assert status == (201 if refused is None else 422), (version, answer)
        if refused is not None:
            assert refused in causes(answer), (version, answer)


@pytest.mark.parametrize(
    ("change", "taken"),
    [
        (lambda spec: spec["podGroupTemplates"][0]["schedulingPolicy"]["gang"].update(minCount=7), True),
        (lambda spec: spec["podGroupTemplates"].append(template("more")), False),
        (lambda spec: spec["podGroupTemplates"].pop(), False),
        (lambda spec: spec["podGroupTemplates"][0].update(name="renamed"), False),
        (lambda spec: spec["podGroupTemplates"][0].update(priorityClassName="low"), False),
        (lambda spec: spec["podGroupTemplates"][0].update(schedulingPolicy={"basic": {}}), False),
        (lambda spec: spec["podGroupTemplates"][0].update(disruptionMode={"all": {}}), False),
        (lambda spec: spec["podGroupTemplates"][0].update(schedulingConstraints={"topology": [{"key": "k"}]}), False),
        (lambda spec: spec.update(controllerRef={"kind": "Job", "name": "other"}), False),
    ],
)  # fmt: skip
def test_only_the_minimum_in_the_templates_of_a_workload_may_change(change: Any, taken: bool, plane: Live) -> None:
    for version in (NATIVE, OURS):
        spec = {"podGroupTemplates": [template(), template("u")], "controllerRef": {"kind": "Job", "name": "j"}}
        status, made = create(plane, version, "Workload", spec)
        assert status == 201, made
        changed = copy.deepcopy(made)
        change(changed["spec"])
        path = f"{collection(version, 'Workload')}/{made['metadata']['name']}"
        status, answer, _ = plane.request("PUT", path, changed)
        assert status == (200 if taken else 422), (version, answer)


def test_conditions_are_written_through_status_alone(plane: Live) -> None:
    condition = {
        "type": "PodGroupInitiallyScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no room",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    _, made = create(plane, OURS, "PodGroup", GANG)
    assert "status" not in made
    path = f"{collection(OURS, 'PodGroup')}/{made['metadata']['name']}"
    headers = {"Content-Type": "application/merge-patch+json"}
    patch = {"status": {"conditions": [condition]}, "spec": {"schedulingPolicy": {"gang": {"minCount": 9}}}}
    status, answer, _ = plane.request("PATCH", f"{path}/status", patch, headers=headers)
    assert (status, answer["status"]["conditions"], answer["spec"]["schedulingPolicy"]) == (
        200,
        [condition],
        GANG["schedulingPolicy"],
    )
    del condition["reason"]
    status, answer, _ = plane.request("PATCH", f"{path}/status", patch, headers=headers)
    assert status == 422
    assert "status.conditions[0].reason" in causes(answer)
