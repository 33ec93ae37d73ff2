"""Groups, composites and Workloads as custom resources keep the rules of the native kinds (api.md, composite.md 1).

Every case is asked of both: what the native API refuses the definitions refuse, what it takes they take.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.deploy import manifests
from tests.deploy.manifests import Json, path_of
from tests.server.live import Live, live

OURS, NATIVE = "scheduling.reprieve.dev/v1beta1", "scheduling.k8s.io/v1beta1"
COMPOSITE_NATIVE = "scheduling.k8s.io/v1alpha3"
PLURALS = {"PodGroup": "podgroups", "CompositePodGroup": "compositepodgroups", "Workload": "workloads"}
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
def test_group_is_taken_and_refused_as_the_native_one(spec: Json, refused: str | None, plane: Live) -> None:
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


def test_group_is_disrupted_pod_by_pod_unless_it_says_otherwise(plane: Live) -> None:
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


ANY: Json = {"schedulingPolicy": {"basic": {}}}
TOP = "spec.compositePodGroupTemplates[0]"


def above(name: str, *children: Json, **fields: Any) -> Json:
    """A composite template over others: over composites where they have children themselves, else over groups."""
    made: Json = {"name": name, "schedulingPolicy": {"gang": {"minGroupCount": 1}}, **fields}
    for child in children:
        group = "minCount" in child["schedulingPolicy"].get("gang", {})
        made.setdefault("podGroupTemplates" if group else "compositePodGroupTemplates", []).append(child)
    return made


def chain(*names: str) -> Json:
    """Composite templates one below the other, and a group below the last."""
    first, *rest = names
    return above(first, chain(*rest) if rest else template("leaf"))


WORKLOADS: list[tuple[Json, str | None]] = [
    ({"podGroupTemplates": [template()]}, None),
    ({"podGroupTemplates": [template(f"t{i}") for i in range(8)]}, None),
    ({"podGroupTemplates": [template()], "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "j"}}, None),
    ({"podGroupTemplates": [template(priorityClassName="high", disruptionMode={"all": {}})]}, None),
    ({}, "spec"),
    ({"podGroupTemplates": []}, "spec"),
    ({"podGroupTemplates": [], "compositePodGroupTemplates": []}, "spec"),
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
    # trees
    ({"compositePodGroupTemplates": [chain("a", "b", "c")]}, None),
    ({"compositePodGroupTemplates": [above("a", template("l"), chain("b", "c"))]}, None),
    ({"compositePodGroupTemplates": [above("a", template("l"), disruptionMode={"all": {}}, **ANY)]}, None),
    ({"compositePodGroupTemplates": [chain("a")], "podGroupTemplates": [template()]}, "spec"),
    ({"compositePodGroupTemplates": [above(f"c{n}", template(f"t{n}")) for n in range(9)]},
     "spec.compositePodGroupTemplates"),
    ({"compositePodGroupTemplates": [above("a", template("l")), above("a", template("m"))]},
     "spec.compositePodGroupTemplates[1]"),
    ({"compositePodGroupTemplates": [above("a")]}, f"{TOP}"),
    ({"compositePodGroupTemplates": [above("a", above("b"))]}, f"{TOP}.compositePodGroupTemplates[0]"),
    ({"compositePodGroupTemplates": [above("a", *(template(f"t{n}") for n in range(9)))]}, f"{TOP}.podGroupTemplates"),
    ({"compositePodGroupTemplates": [above("a.b", template())]}, f"{TOP}.name"),
    ({"compositePodGroupTemplates": [above("a", template(), schedulingPolicy={"gang": {"minGroupCount": 0}})]},
     f"{TOP}.schedulingPolicy.gang.minGroupCount"),
    ({"compositePodGroupTemplates": [above("a", template(), schedulingPolicy={})]}, f"{TOP}.schedulingPolicy"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "refused"), WORKLOADS)
def test_workload_is_taken_and_refused_as_the_native_one(spec: Json, refused: str | None, plane: Live) -> None:
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


def test_trees_that_are_told_at_another_field(plane: Live) -> None:
    """Too deep, and of two priorities: the definition says so where it sees it, the API for the tree."""
    deep = {"compositePodGroupTemplates": [chain("a", "b", "c", "d")]}
    mixed = {"compositePodGroupTemplates": [above("a", template("l", priorityClassName="high"))]}
    for spec in (deep, mixed):
        assert create(plane, NATIVE, "Workload", spec)[0] == create(plane, OURS, "Workload", spec)[0] == 422
    assert "hierarchy depth" in create(plane, NATIVE, "Workload", deep)[1]["message"]
    assert "all priority and priorityClassName" in create(plane, OURS, "Workload", mixed)[1]["message"]


@pytest.mark.parametrize(
    ("change", "taken"),
    [
        (lambda top: top["schedulingPolicy"]["gang"].update(minGroupCount=2), True),
        (lambda top: low(top)["podGroupTemplates"][0]["schedulingPolicy"]["gang"].update(minCount=7), True),
        (lambda top: low(top)["podGroupTemplates"].append(template("more")), False),
        (lambda top: low(top).update(name="other"), False),
        (lambda top: top["compositePodGroupTemplates"].append(above("c", template("more"))), False),
        (lambda top: top.update(schedulingPolicy={"basic": {}}), False),
        (lambda top: low(top).update(disruptionMode={"all": {}}), False),
    ],
)
def test_only_counts_in_the_templates_of_a_tree_may_change(change: Any, taken: bool, plane: Live) -> None:
    for version in (NATIVE, OURS):
        status, made = create(plane, version, "Workload", {"compositePodGroupTemplates": [chain("a", "b")]})
        assert status == 201, made
        changed = copy.deepcopy(made)
        change(changed["spec"]["compositePodGroupTemplates"][0])
        path = f"{collection(version, 'Workload')}/{made['metadata']['name']}"
        status, answer, _ = plane.request("PUT", path, changed)
        assert status == (200 if taken else 422), (version, answer)


def low(top: Json) -> Json:
    """The first composite below."""
    found: Json = top["compositePodGroupTemplates"][0]
    return found


REFERENCE: Json = {"workloadRef": {"workloadName": "w", "templateName": "t"}}
COUNTED: Json = {**REFERENCE, "schedulingPolicy": {"gang": {"minGroupCount": 2}}}
COMPOSITES: list[tuple[Json, str | None]] = [
    (COUNTED, None),
    ({**REFERENCE, **BASIC}, None),
    ({**REFERENCE, **BASIC, "disruptionMode": {"all": {}}}, None),
    ({**COUNTED, "parentCompositePodGroupName": "a.b"}, None),
    ({**COUNTED, "schedulingConstraints": {"topology": [{"key": "zone"}]}}, None),
    ({**COUNTED, "priorityClassName": "high"}, None),
    (BASIC, "spec.workloadRef"),
    (REFERENCE, "spec.schedulingPolicy"),
    ({**REFERENCE, "schedulingPolicy": {"gang": {"minGroupCount": 0}}}, "spec.schedulingPolicy.gang.minGroupCount"),
    ({**REFERENCE, "schedulingPolicy": {"gang": {"minGroupCount": 1}, "basic": {}}}, "spec.schedulingPolicy"),
    ({**COUNTED, "parentCompositePodGroupName": "A"}, "spec.parentCompositePodGroupName"),
    ({**COUNTED, "workloadRef": {"templateName": "t"}}, "spec.workloadRef.workloadName"),
    ({**COUNTED, "disruptionMode": {"all": {}, "single": {}}}, "spec.disruptionMode"),
    (
        {**COUNTED, "schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
        "spec.schedulingConstraints.topology",
    ),
]


@pytest.mark.parametrize(("spec", "refused"), COMPOSITES)
def test_composite_is_taken_and_refused_as_the_native_one(spec: Json, refused: str | None, plane: Live) -> None:
    for version in (COMPOSITE_NATIVE, OURS):
        status, answer = create(plane, version, "CompositePodGroup", spec)
        assert status == (201 if refused is None else 422), (version, answer)
        if refused is None:
            assert answer["spec"]["disruptionMode"] == spec.get("disruptionMode", {"single": {}})
        else:
            assert refused in causes(answer), (version, answer)


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"schedulingPolicy": {"gang": {"minGroupCount": 5}}}, None),
        ({"schedulingPolicy": {"gang": {"minGroupCount": 0}}}, "spec.schedulingPolicy.gang.minGroupCount"),
        ({"schedulingPolicy": {"basic": {}, "gang": None}}, "spec.schedulingPolicy"),
        ({"parentCompositePodGroupName": "b"}, "spec.parentCompositePodGroupName"),
        ({"parentCompositePodGroupName": None}, "spec.parentCompositePodGroupName"),
        ({"workloadRef": {"workloadName": "other"}}, "spec.workloadRef"),
        ({"disruptionMode": {"single": None, "all": {}}}, "spec.disruptionMode"),
        ({"schedulingConstraints": {"topology": [{"key": "rack"}]}}, "spec.schedulingConstraints"),
        ({"priorityClassName": "low"}, "spec.priorityClassName"),
        ({"preemptionPolicy": "Never"}, "spec.preemptionPolicy"),
    ],
)
def test_only_the_minimum_of_a_composite_may_change(change: Json, refused: str | None, plane: Live) -> None:
    full = {
        **COUNTED,
        "parentCompositePodGroupName": "a",
        "schedulingConstraints": {"topology": [{"key": "zone"}]},
        "priorityClassName": "high",
        "preemptionPolicy": "PreemptLowerPriority",
    }
    for version in (COMPOSITE_NATIVE, OURS):
        status, made = create(plane, version, "CompositePodGroup", full)
        assert status == 201, made
        path = f"{collection(version, 'CompositePodGroup')}/{made['metadata']['name']}"
        headers = {"Content-Type": "application/merge-patch+json"}
        status, answer, _ = plane.request("PATCH", path, {"spec": change}, headers=headers)
        assert status == (200 if refused is None else 422), (version, answer)
        if refused is not None:
            assert refused in causes(answer), (version, answer)


def test_parent_of_a_group_is_the_same_as_natively(plane: Live) -> None:
    child = {**GANG, **REFERENCE, "parentCompositePodGroupName": "root"}
    for version in (NATIVE, OURS):
        status, made = create(plane, version, "PodGroup", child)
        assert status == 201, made
        status, answer = create(plane, version, "PodGroup", {**GANG, "parentCompositePodGroupName": "root"})
        assert (status, causes(answer)) == (422, {"spec.workloadRef"})
        path = f"{collection(version, 'PodGroup')}/{made['metadata']['name']}"
        headers = {"Content-Type": "application/merge-patch+json"}
        body = {"spec": {"parentCompositePodGroupName": "other"}}
        status, answer, _ = plane.request("PATCH", path, body, headers=headers)
        assert (status, causes(answer)) == (422, {"spec.parentCompositePodGroupName"})


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
