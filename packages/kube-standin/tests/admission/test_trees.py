"""Trees at the door: priorities on every level, protection, and nothing new under what is going (composite.md 1)."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kube_standin.admission.groups import COMPOSITE_PROTECTION, PROTECTION
from kube_standin.errors import StatusError
from tests.admission.plane import Plane, composite_pod_group, pod, pod_group, priority_class

Json = dict[str, Any]
_REFERENCE = {"workloadName": "w", "templateName": "t"}


@pytest.fixture
def plane() -> Plane:
    made = Plane()
    made.create(priority_class("high", 1000, preemptionPolicy="Never"))
    return made


def _refused(plane: Plane, obj: Json) -> StatusError:
    with pytest.raises(StatusError) as caught:
        plane.create(copy.deepcopy(obj))
    return caught.value


def test_composite_gets_the_priority_of_its_class(plane: Plane) -> None:
    spec = plane.create(composite_pod_group("c", priorityClassName="high"))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")
    plain = plane.create(composite_pod_group("d"))["spec"]
    assert (plain["priority"], plain["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    missing = _refused(plane, composite_pod_group("e", priorityClassName="no"))
    assert "no PriorityClass with name no was found" in missing.message
    said = _refused(plane, composite_pod_group("f", priorityClassName="high", priority=5))
    assert said.code == 403
    assert "priority set in the composite pod group (5) must match the priority computed (1000)" in said.message


def test_all_templates_of_a_tree_get_the_priority_of_their_class(plane: Plane) -> None:
    leaf: Json = {"name": "leaf", "schedulingPolicy": {"gang": {"minCount": 1}}, "priorityClassName": "high"}
    policy = {"gang": {"minGroupCount": 1}}
    low = {"name": "low", "schedulingPolicy": policy, "podGroupTemplates": [leaf], "priorityClassName": "high"}
    top: Json = {
        "name": "top",
        "schedulingPolicy": policy,
        "compositePodGroupTemplates": [low],
        "priorityClassName": "high",
    }
    workload: Json = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": "w"},
        "spec": {"compositePodGroupTemplates": [top]},
    }
    [made] = plane.create(copy.deepcopy(workload))["spec"]["compositePodGroupTemplates"]
    below = made["compositePodGroupTemplates"][0]
    assert [one["priority"] for one in (made, below, below["podGroupTemplates"][0])] == [1000] * 3
    leaf["priority"] = 7
    said = _refused(plane, {**workload, "metadata": {"name": "x"}})
    assert "priority set in the pod group template (7) must match the priority computed (1000)" in said.message
    del leaf["priority"], leaf["priorityClassName"]  # then it has the default, and the tree two priorities
    assert _refused(plane, {**workload, "metadata": {"name": "y"}}).code == 422


def test_groups_of_both_kinds_are_protected(plane: Plane) -> None:
    assert plane.create(composite_pod_group("c"))["metadata"]["finalizers"] == [COMPOSITE_PROTECTION]
    kept = composite_pod_group("d")
    kept["metadata"]["finalizers"] = ["example.com/mine", COMPOSITE_PROTECTION]
    assert plane.create(kept)["metadata"]["finalizers"] == kept["metadata"]["finalizers"]
    assert plane.create(pod_group("g"))["metadata"]["finalizers"] == [PROTECTION]


def test_nothing_comes_under_a_group_that_is_being_deleted(plane: Plane) -> None:
    """A parent that is not there yet is fine: children may come first."""
    child = composite_pod_group("child", parentCompositePodGroupName="root")
    plane.create(child)
    plane.create(pod_group("leaf", parentCompositePodGroupName="root", workloadRef=_REFERENCE))
    plane.create(pod("early", schedulingGroup={"podGroupName": "leaf"}))
    plane.create(composite_pod_group("root"))
    plane.delete("scheduling.k8s.io/v1alpha3", "CompositePodGroup", "root")
    plane.delete("scheduling.k8s.io/v1beta1", "PodGroup", "leaf")
    for late, said in (
        (
            composite_pod_group("late", parentCompositePodGroupName="root"),
            'cannot create CompositePodGroup referencing CompositePodGroup "root" because it is being deleted',
        ),
        (
            pod_group("late", parentCompositePodGroupName="root", workloadRef=_REFERENCE),
            'cannot create PodGroup referencing CompositePodGroup "root" because it is being deleted',
        ),
        (
            pod("late", schedulingGroup={"podGroupName": "leaf"}),
            'cannot create Pod referencing PodGroup "leaf" because it is being deleted',
        ),
    ):
        error = _refused(plane, late)
        assert (error.code, error.reason) == (403, "Forbidden")
        assert said in error.message


def test_group_of_a_tree_may_come_before_its_workload(plane: Plane) -> None:
    """kube-apiserver 1.37 asks for no Workload; a group without a parent is held to what 1.36 answers (446)."""
    plane.create(pod_group("leaf", parentCompositePodGroupName="root", workloadRef=_REFERENCE))
    assert _refused(plane, pod_group("flat", workloadRef=_REFERENCE)).code == 403


def test_objects_of_a_tree_in_every_version(plane: Plane) -> None:
    """composite.md 1.1: leaves of any version under a root of any version; v1 and v1alpha2 have no composites."""
    plane.create(pod_group("leaf", parentCompositePodGroupName="root", workloadRef=_REFERENCE))
    for version in ("v1", "v1beta1", "v1alpha3"):
        seen = plane.get(f"scheduling.k8s.io/{version}", "PodGroup", "leaf")
        assert seen["spec"]["parentCompositePodGroupName"] == "root"
    plane.create(composite_pod_group("root"))
    for version in ("v1beta1", "v1alpha3"):
        seen = plane.get(f"scheduling.k8s.io/{version}", "CompositePodGroup", "root")
        assert seen["apiVersion"] == f"scheduling.k8s.io/{version}"
    assert plane.registry.kinds.of("scheduling.k8s.io/v1", "CompositePodGroup") is None
    assert plane.registry.kinds.of("scheduling.k8s.io/v1alpha2", "CompositePodGroup") is None


def test_composite_names_its_class_as_victim(plane: Plane) -> None:
    """preemption.md 4, "Options", composite.md 4.3: resolved and shown, or refused, as on a PodGroup."""
    name = "scheduling.reprieve.dev/preemption-priority-class"

    def naming(of: str, by: str, **spec: Any) -> Json:
        made = composite_pod_group(of, **spec)
        made["metadata"]["annotations"] = {name: by}
        return made

    grant = {"annotations": {"scheduling.reprieve.dev/max-preemption-priority": "1000"}}
    plane.create({**priority_class("low", 10), "metadata": {"name": "low", **grant}})
    made = plane.create(naming("c", "high", priorityClassName="low"))
    assert made["metadata"]["annotations"] == {name: "high", name.removesuffix("-class"): "1000"}
    assert "its value 10 is lower than the priority 1000" in str(
        _refused(plane, naming("d", "low", priorityClassName="high"))
    )
    assert "no PriorityClass with name no was found" in str(_refused(plane, naming("e", "no")))
