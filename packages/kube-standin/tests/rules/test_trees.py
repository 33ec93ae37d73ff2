"""What is refused of Workloads with composite templates, CompositePodGroups and groups in a tree (composite.md 1).

Messages are those of kube-apiserver 1.37 (`pkg/apis/scheduling/validation` and its declarative rules).
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kube_rules.validation import validate_create, validate_update
from tests.recorded.shapes import shape, stored

Json = dict[str, Any]
_GANG: Json = {"gang": {"minCount": 2}}
_BASIC: Json = {"basic": {}}
_REFERENCE: Json = {"workloadName": "w", "templateName": "t"}
_DEPTH = "maximum template hierarchy depth is 4"
_ONE_PRIORITY = "all priority and priorityClassName values must be identical, detected multiple values"


def leaf(name: str, **more: Any) -> Json:
    return {"name": name, "schedulingPolicy": _GANG, **more}


def composite(name: str, *leaves: Json, below: list[Json] | None = None, **more: Any) -> Json:
    """A composite template over leaves and, `below`, over composites."""
    made: Json = {"name": name, "schedulingPolicy": {"gang": {"minGroupCount": 1}}, **more}
    if leaves:
        made["podGroupTemplates"] = list(leaves)
    if below is not None:
        made["compositePodGroupTemplates"] = below
    return made


def workload(*composites: Json, version: str = "v1beta1", **spec: Any) -> Json:
    if composites:
        spec["compositePodGroupTemplates"] = list(composites)
    return {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": "Workload",
        "metadata": {"name": "w"},
        "spec": spec,
    }


def group(kind: str = "CompositePodGroup", version: str = "v1alpha3", **spec: Any) -> Json:
    policy = {"gang": {"minGroupCount": 2}} if kind == "CompositePodGroup" else _GANG
    whole = {"workloadRef": _REFERENCE, "schedulingPolicy": policy, **spec}
    return {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": kind,
        "metadata": {"name": "x"},
        "spec": {key: value for key, value in whole.items() if value is not None},
    }


def told(body: Json) -> list[tuple[str, str]]:
    """(field, message) of each finding."""
    found = validate_create(shape(body["apiVersion"], body["kind"]), stored(copy.deepcopy(body)))
    return [(one.path, one.message) for one in found]


def chain(*names: str) -> Json:
    """Composites one below the other, a leaf in the last."""
    first, *rest = names
    return composite(first, below=[chain(*rest)]) if rest else composite(first, leaf("pods"))


_TREE = chain("root", "middle", "low")


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha3"])
def test_tree_of_four_levels_is_a_workload(version: str) -> None:
    assert told(workload(_TREE, version=version)) == []


_TOP = "spec.compositePodGroupTemplates[0]"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (workload(), [("spec", 'Invalid value: "": must specify one of: `podGroupTemplates`, '
                               "`compositePodGroupTemplates`")]),
        (workload(composite("a", leaf("b")), podGroupTemplates=[leaf("c")]),
         [("spec", 'Invalid value: "{podGroupTemplates, compositePodGroupTemplates}": must specify exactly one of: '
                   "`podGroupTemplates`, `compositePodGroupTemplates`")]),
        (workload(*(composite(f"c{n}", leaf(f"l{n}")) for n in range(9))),
         [("spec.compositePodGroupTemplates", "Too many: 9: must have at most 8 items")]),
        (workload(composite("a", *(leaf(f"l{n}") for n in range(9)))),
         [(f"{_TOP}.podGroupTemplates", "Too many: 9: must have at most 8 items")]),
        (workload(composite("a", below=[composite(f"c{n}", leaf(f"l{n}")) for n in range(9)])),
         [(f"{_TOP}.compositePodGroupTemplates", "Too many: 9: must have at most 8 items")]),
        # A name is there once in the whole tree: here in two branches, ...
        (workload(composite("a", leaf("pods")), composite("b", leaf("pods"))),
         [("spec.compositePodGroupTemplates[1].podGroupTemplates[0].name", 'Duplicate value: "pods"')]),
        # ... above and below, ...
        (workload(composite("a", below=[composite("a", leaf("pods"))])),
         [(f"{_TOP}.compositePodGroupTemplates[0].name", 'Duplicate value: "a"')]),
        # ... and a group called as a composite beside it.
        (workload(composite("a", leaf("b"), below=[composite("b", leaf("c"))])),
         [(f"{_TOP}.compositePodGroupTemplates[0].name", 'Duplicate value: "b"')]),
        (workload(composite("a")),
         [(_TOP, 'Invalid value: "a": must have at least one child PodGroupTemplate or CompositePodGroupTemplate')]),
        (workload(composite("a", below=[composite("b")])),
         [(f"{_TOP}.compositePodGroupTemplates[0]",
           'Invalid value: "b": must have at least one child PodGroupTemplate or CompositePodGroupTemplate')]),
        (workload(composite("a", leaf("b"), priorityClassName="high")),
         [("spec", f"Invalid value: null: {_ONE_PRIORITY}")]),
        (workload(composite("a", leaf("b", priority=3), priority=4)),
         [("spec", f"Invalid value: null: {_ONE_PRIORITY}")]),
        (workload(composite("a", leaf("b", priority=3), priority=3)), []),
        (workload(podGroupTemplates=[leaf("a", priority=1), leaf("b", priority=2)]),
         [("spec", "Invalid value: null: detected multiple priority configurations")]),
        (workload(composite("a", leaf("b"), schedulingPolicy={"gang": {"minGroupCount": 0}})),
         [(f"{_TOP}.schedulingPolicy.gang.minGroupCount", "Required value")]),
        (workload(composite("a", leaf("b"), schedulingPolicy={"gang": {"minGroupCount": -1}})),
         [(f"{_TOP}.schedulingPolicy.gang.minGroupCount",
           "Invalid value: -1: must be greater than or equal to 1")]),
        (workload(composite("a", leaf("b"), schedulingPolicy=_BASIC, disruptionMode={"all": {}})), []),
        (workload(composite("a", leaf("b"), schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]})),
         [(f"{_TOP}.schedulingConstraints.topology", "Too many: 2: must have at most 1 item")]),
        (workload(composite("a", leaf("b", disruptionMode={}))),
         [(f"{_TOP}.podGroupTemplates[0].disruptionMode", 'Invalid value: "": must specify one of: `all`, `single`')]),
    ],
)  # fmt: skip
def test_workloads_with_composite_templates(body: Json, expected: list[tuple[str, str]]) -> None:
    assert told(body) == expected


def test_fourth_composite_level_is_too_deep() -> None:
    """Three levels of composites and the groups; told once for each top that is too deep, however deep it goes."""
    deep = chain("a", "b", "c", "d", "e")
    [(field, message)] = told(workload(composite("fine", leaf("one")), deep))
    assert field == "spec.compositePodGroupTemplates[1]"
    assert message.endswith(_DEPTH)


@pytest.mark.parametrize(
    ("name", "said"),
    [("", "Required value"), ("a.b", "a lowercase RFC 1123 label"), ("A", "a lowercase RFC 1123 label")],
)
def test_names_of_composite_templates(name: str, said: str) -> None:
    [(field, message)] = told(workload(composite(name, leaf("b"))))
    assert field == f"{_TOP}.name"
    assert said in message


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"schedulingPolicy": _BASIC, "disruptionMode": {"all": {}}}, []),
        ({"schedulingPolicy": {}}, ["spec.schedulingPolicy"]),
        ({"schedulingPolicy": {"basic": {}, "gang": {"minGroupCount": 1}}}, ["spec.schedulingPolicy"]),
        ({"schedulingPolicy": {"gang": {"minGroupCount": 0}}}, ["spec.schedulingPolicy.gang.minGroupCount"]),
        ({"schedulingPolicy": {"gang": {"minGroupCount": -3}}}, ["spec.schedulingPolicy.gang.minGroupCount"]),
        ({"workloadRef": None}, ["spec.workloadRef"]),
        ({"workloadRef": {"workloadName": "w"}}, ["spec.workloadRef.templateName"]),
        ({"workloadRef": {"templateName": "t"}}, ["spec.workloadRef.workloadName"]),
        ({"workloadRef": {"workloadName": "w/x", "templateName": "t/x"}},
         ["spec.workloadRef.workloadName", "spec.workloadRef.templateName"]),
        ({"parentCompositePodGroupName": "a.b-c"}, []),
        ({"parentCompositePodGroupName": "a/b"}, ["spec.parentCompositePodGroupName"]),
        ({"schedulingConstraints": {"topology": [{"key": "rack"}]}}, []),
        ({"schedulingConstraints": {"topology": [{"key": "a"}] * 2}}, ["spec.schedulingConstraints.topology"]),
        ({"disruptionMode": {"single": {}, "all": {}}}, ["spec.disruptionMode"]),
        ({"priority": 1_000_000_001}, ["spec.priority"]),
        ({"priorityClassName": "A/b"}, ["spec.priorityClassName"]),
        ({"preemptionPolicy": "X"}, ["spec.preemptionPolicy"]),
    ],
)  # fmt: skip
def test_composite_pod_groups(spec: Json, expected: list[str]) -> None:
    assert [field for field, _ in told(group(**spec))] == expected


def test_composite_is_disrupted_one_by_one_unless_it_says_otherwise() -> None:
    assert stored(group())["spec"]["disruptionMode"] == {"single": {}}
    assert stored(group())["status"] == {}


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha3"])
def test_group_in_a_tree_names_its_template(version: str) -> None:
    child = group("PodGroup", version, parentCompositePodGroupName="root")
    assert told(child) == []
    assert told(group("PodGroup", version, parentCompositePodGroupName="root", workloadRef=None)) == [
        ("spec.workloadRef", "Required value: must be specified when `parentCompositePodGroupName` is set")
    ]
    assert told(group("PodGroup", version, parentCompositePodGroupName="Root"))[0][0] == (
        "spec.parentCompositePodGroupName"
    )


def changes(before: Json, after: Json) -> list[tuple[str, str]]:
    old, new = (stored(copy.deepcopy(one)) for one in (before, after))
    for one in (old, new):
        one["metadata"] |= {"resourceVersion": "1", "uid": "u"}
    return [(e.path, e.message) for e in validate_update(shape(new["apiVersion"], new["kind"]), new, old, None)]


_FIXED = "Invalid value: null: field is immutable"


@pytest.mark.parametrize(
    ("before", "after", "field"),
    [
        ({}, {"schedulingPolicy": {"gang": {"minGroupCount": 5}}}, None),
        ({}, {"schedulingPolicy": _BASIC}, "spec.schedulingPolicy"),
        ({"schedulingPolicy": _BASIC}, {}, "spec.schedulingPolicy"),
        ({}, {"parentCompositePodGroupName": "a"}, "spec.parentCompositePodGroupName"),
        ({"parentCompositePodGroupName": "a"}, {}, "spec.parentCompositePodGroupName"),
        ({}, {"workloadRef": {"workloadName": "w", "templateName": "u"}}, "spec.workloadRef"),
        ({}, {"disruptionMode": {"all": {}}}, "spec.disruptionMode"),
        ({}, {"schedulingConstraints": {"topology": [{"key": "rack"}]}}, "spec.schedulingConstraints"),
        ({"priority": 1}, {"priority": 2}, "spec.priority"),
        ({"priorityClassName": "a"}, {"priorityClassName": "b"}, "spec.priorityClassName"),
        ({"preemptionPolicy": "Never"}, {}, "spec.preemptionPolicy"),
    ],
)
def test_composite_fields_that_may_change(before: Json, after: Json, field: str | None) -> None:
    """Only minGroupCount, and it stays a count."""
    assert changes(group(**before), group(**after)) == ([] if field is None else [(field, _FIXED)])


def test_changed_count_is_a_count() -> None:
    none = group(schedulingPolicy={"gang": {"minGroupCount": 0}})
    assert changes(group(), none) == [("spec.schedulingPolicy.gang.minGroupCount", "Required value")]


def test_tree_templates_that_may_change() -> None:
    """No entry comes or goes on any level; counts may change on every level."""
    before = workload(composite("a", leaf("x"), below=[composite("b", leaf("y"))]))
    after = copy.deepcopy(before)
    top = after["spec"]["compositePodGroupTemplates"][0]
    top["schedulingPolicy"] = {"gang": {"minGroupCount": 2}}
    top["compositePodGroupTemplates"][0]["podGroupTemplates"][0]["schedulingPolicy"] = {"gang": {"minCount": 7}}
    assert changes(before, after) == []
    low = top["compositePodGroupTemplates"][0]
    low["podGroupTemplates"].append(leaf("z"))
    assert changes(before, after) == [("spec.compositePodGroupTemplates", _FIXED)]
    low["podGroupTemplates"] = []
    assert changes(before, after) == [("spec.compositePodGroupTemplates", _FIXED)]
    flat = workload(podGroupTemplates=[leaf("x")])
    assert [field for field, _ in changes(before, flat)] == [
        "spec.podGroupTemplates",
        "spec.compositePodGroupTemplates",
    ]


def test_changed_counts_of_a_tree_are_counts() -> None:
    before = workload(composite("a", leaf("x")))
    after = copy.deepcopy(before)
    after["spec"]["compositePodGroupTemplates"][0]["podGroupTemplates"][0]["schedulingPolicy"]["gang"]["minCount"] = -1
    assert changes(before, after) == [
        (
            f"{_TOP}.podGroupTemplates[0].schedulingPolicy.gang.minCount",
            "Invalid value: -1: must be greater than or equal to 1",
        )
    ]
