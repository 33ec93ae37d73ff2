"""Priorities of pods, groups and templates, against the recorded answers of kube-apiserver 1.36 (preemption.md 8)."""

import copy
from typing import Any

import pytest

from kube_standin.admission import PROTECTION
from kube_standin.admission.priority import Priority
from kube_standin.admission_chain import AdmissionRequest, User
from kube_standin.errors import StatusError
from tests.admission.plane import Plane, pod, pod_group, priority_class, refused

Json = dict[str, Any]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"priorityClassName": "high"}, ("high", 1000, "PreemptLowerPriority")),  # 152
        ({"priorityClassName": "low-never"}, ("low-never", -5, "Never")),  # 153
        ({"priorityClassName": "high", "priority": 1000}, ("high", 1000, "PreemptLowerPriority")),  # 155
        ({"priorityClassName": "system-node-critical"}, ("system-node-critical", 2000001000, "PreemptLowerPriority")),
        ({}, ("std", 10, "PreemptLowerPriority")),  # 491: the global default
        (
            {"priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"},
            ("high", 1000, "PreemptLowerPriority"),
        ),
    ],
)
def test_pod_priority_is_resolved(plane: Plane, spec: Json, expected: tuple[str, int, str]) -> None:
    made = plane.create(pod(**spec))["spec"]
    assert (made["priorityClassName"], made["priority"], made["preemptionPolicy"]) == expected


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priorityClassName": "nosuch"}, "no PriorityClass with name nosuch was found"),  # 151
        (
            {"priorityClassName": "high", "priority": 5},  # 154
            "the integer value of priority (5) must not be provided in pod spec; priority admission controller "
            "computed 1000 from the given PriorityClass name",
        ),
        (
            {"priority": 5},  # 156
            "the integer value of priority (5) must not be provided in pod spec; priority admission controller "
            "computed 10 from the given PriorityClass name",
        ),
        (
            {"priorityClassName": "high", "preemptionPolicy": "Never"},  # 157
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission "
            "controller computed PreemptLowerPriority from the given PriorityClass name",
        ),
    ],
)
def test_pod_priority_by_hand_is_refused(plane: Plane, spec: Json, why: str) -> None:
    error = refused(plane, pod("x", **spec))
    assert (error.code, error.reason, error.message) == (403, "Forbidden", f'pods "x" is forbidden: {why}')


def test_without_a_default_class_priority_is_zero() -> None:
    made = Plane().create(pod())["spec"]
    assert (made["priority"], made["preemptionPolicy"], "priorityClassName" in made) == (
        0,
        "PreemptLowerPriority",
        False,
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ("std", 10)),  # 439
        ({"priorityClassName": "high"}, ("high", 1000)),  # 456
        ({"priorityClassName": "high", "priority": 1000}, ("high", 1000)),  # 460
    ],
)
@pytest.mark.parametrize("version", ["v1beta1", "v1alpha3", "v1alpha2"])
def test_group_priority_is_resolved_in_every_version(
    plane: Plane, version: str, spec: Json, expected: tuple[str, int]
) -> None:
    made = plane.create(pod_group("g", version=version, **spec))
    assert (made["spec"]["priorityClassName"], made["spec"]["priority"]) == expected
    assert made["metadata"]["finalizers"] == [PROTECTION]


def test_group_takes_preemption_policy_from_its_class(plane: Plane) -> None:
    assert plane.create(pod_group("g", priorityClassName="low-never"))["spec"]["preemptionPolicy"] == "Never"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priorityClassName": "nosuch"}, "no PriorityClass with name nosuch was found"),  # 457
        (
            {"priorityClassName": "high", "priority": 5},  # 458
            "priority set in the pod group (5) must match the priority computed (1000) based on the priority class "
            "set in the spec",
        ),
        (
            {"priority": 5},  # 459
            "priority set in the pod group (5) must match the priority computed (10) based on the priority class "
            "set in the spec",
        ),
        ({"workloadRef": {"workloadName": "no", "templateName": "a"}}, 'PodGroup rejected: Workload "no" not found'),
        (
            {"workloadRef": {"workloadName": "wl", "templateName": "zzz"}},  # 444
            'PodGroup rejected: PodGroupTemplate "zzz" not found in Workload "wl"',
        ),
    ],
)
def test_group_is_refused(plane: Plane, spec: Json, why: str) -> None:
    plane.create(workload("wl"))
    error = refused(plane, pod_group("x", **spec))
    assert (error.code, error.message) == (403, f'podgroups.scheduling.k8s.io "x" is forbidden: {why}')


def test_group_with_a_true_reference_is_accepted(plane: Plane) -> None:
    plane.create(workload("wl"))
    made = plane.create(pod_group("g", workloadRef={"workloadName": "wl", "templateName": "a"}))
    assert made["spec"]["priority"] == 10  # nothing is copied from the template (442)


def workload(name: str, version: str = "v1beta1", **template: Any) -> Json:
    return {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {"podGroupTemplates": [{"name": "a", "schedulingPolicy": {"gang": {"minCount": 2}}, **template}]},
    }


def test_template_priority_is_resolved(plane: Plane) -> None:
    """preemption.md 8: the same for PodGroup templates."""
    made = plane.create(workload("wl", priorityClassName="high"))["spec"]["podGroupTemplates"][0]
    assert (made["priorityClassName"], made["priority"]) == ("high", 1000)
    error = refused(plane, workload("x", priorityClassName="nosuch"))
    assert error.message == 'workloads.scheduling.k8s.io "x" is forbidden: no PriorityClass with name nosuch was found'
    error = refused(plane, workload("x", priorityClassName="high", priority=7))
    assert "priority set in the pod group template (7) must match the priority computed (1000)" in error.message


def test_template_of_v1alpha2_is_left_as_it_comes(plane: Plane) -> None:
    """418, 419, 430: a 1.36 server resolves nothing in templates and accepts unknown classes."""
    made = plane.create(workload("wl", "v1alpha2", priorityClassName="nosuch"))["spec"]["podGroupTemplates"][0]
    assert "priority" not in made


@pytest.mark.parametrize(
    ("obj", "resolved"),
    [
        (workload("wl"), False),
        (priority_class("plain", 7), False),
        (pod_group("g"), True),
    ],
    ids=["workload", "class", "group"],
)
@pytest.mark.parametrize("spec", [None, "left out"])
def test_without_a_spec_only_what_has_a_priority_gets_one(
    plane: Plane, obj: Json, resolved: bool, spec: str | None
) -> None:
    """preemption.md 8: pods and groups have a priority; a workload and a class get no spec for want of one.

    What else is wrong with an object without a spec is for validation to say, which comes later.
    """
    kind = plane.kind(obj["apiVersion"], obj["kind"])
    new = {key: value for key, value in obj.items() if key != "spec"} | ({} if spec else {"spec": None})
    before, name = copy.deepcopy(new), obj["metadata"]["name"]
    request = AdmissionRequest("CREATE", kind, "default", name, "", new, None, User("u"), False, plane.registry)
    Priority().mutate(request)
    assert (new.get("spec") or {}).get("priority") == (10 if resolved else None)
    assert ("priority" in (new.get("spec") or {})) is resolved
    assert resolved or new == before


def test_only_one_default_class(plane: Plane) -> None:
    error = refused(plane, priority_class("std2", 20, globalDefault=True))  # 097
    why = "PriorityClass std is already marked as default. Only one default can exist"
    assert error.message == f'priorityclasses.scheduling.k8s.io "std2" is forbidden: {why}'
    with pytest.raises(StatusError, match="already marked as default"):  # 107
        plane.patch("scheduling.k8s.io/v1", "PriorityClass", "high", {"globalDefault": True})
    plane.patch("scheduling.k8s.io/v1", "PriorityClass", "std", {"description": "kept"})


def test_deleting_a_class_changes_nothing_that_exists(plane: Plane) -> None:
    """preemption.md 8.2."""
    plane.create(pod("p", priorityClassName="high"))
    plane.delete("scheduling.k8s.io/v1", "PriorityClass", "high")
    assert plane.get("v1", "Pod", "p")["spec"]["priority"] == 1000


# -- the preemption priority of a group (preemption.md 4, "Options")

AS_VICTIM = "scheduling.reprieve.dev/preemption-priority-class"
RESOLVED = "scheduling.reprieve.dev/preemption-priority"


@pytest.fixture(autouse=True)
def grants(plane: Plane) -> None:
    """cost.md 7: what groups of these classes may name."""
    for name in ("std", "high", "low-never"):
        grant = {"scheduling.reprieve.dev/max-preemption-priority": "5000"}
        plane.patch("scheduling.k8s.io/v1", "PriorityClass", name, {"metadata": {"annotations": grant}}, ns="")


def group_as_victim(name: str, annotations: Json, **spec: Any) -> Json:
    group = pod_group(name, **spec)
    group["metadata"]["annotations"] = annotations
    return group


@pytest.mark.parametrize(
    ("annotations", "spec", "shown"),
    [
        ({AS_VICTIM: "high"}, {}, "1000"),
        ({AS_VICTIM: "high"}, {"priorityClassName": "high"}, "1000"),
        ({AS_VICTIM: "std"}, {"priorityClassName": "low-never"}, "10"),
        ({AS_VICTIM: "high", RESOLVED: "1000"}, {}, "1000"),
        ({"other": "x"}, {}, None),
        ({AS_VICTIM: ""}, {}, None),
    ],
)
def test_preemption_priority_is_resolved_and_shown(
    plane: Plane, annotations: Json, spec: Json, shown: str | None
) -> None:
    made = plane.create(group_as_victim("g", annotations, **spec))
    assert made["metadata"]["annotations"].get(RESOLVED) == shown
    assert plane.get("scheduling.k8s.io/v1beta1", "PodGroup", "g")["metadata"]["annotations"].get(RESOLVED) == shown


@pytest.mark.parametrize(
    ("annotations", "spec", "why"),
    [
        (
            {AS_VICTIM: "std"},
            {"priorityClassName": "high"},
            f'metadata.annotations[{AS_VICTIM}]: Invalid value: "std": its value 10 is lower than the priority 1000',
        ),
        ({AS_VICTIM: "low-never"}, {}, "its value -5 is lower than the priority 10"),
        ({AS_VICTIM: "nope"}, {}, "no PriorityClass with name nope was found"),
        ({AS_VICTIM: "high", RESOLVED: "2000"}, {}, "2000 must match the value 1000 of the class high"),
        *(
            ({RESOLVED: value, **named}, {}, f"set from the class that {AS_VICTIM} names, and not without one")
            for value in ("9", "10", "2000", "many", "", "9" * 5000)
            for named in ({}, {AS_VICTIM: ""})
        ),
    ],
)
def test_preemption_priority_that_cannot_be_is_refused(plane: Plane, annotations: Json, spec: Json, why: str) -> None:
    error = refused(plane, group_as_victim("g", annotations, **spec))
    assert (error.code, why in error.message) == (403, True), error.message
    assert error.message.startswith('podgroups.scheduling.k8s.io "g" is forbidden: ')


def test_preemption_priority_may_change_but_not_below_the_priority(plane: Plane) -> None:
    version = "scheduling.k8s.io/v1beta1"
    plane.create(priority_class("higher", 5000))
    plane.create(group_as_victim("g", {AS_VICTIM: "higher"}, priorityClassName="high"))

    def change(**annotations: str | None) -> Json:
        keys = {"cls": AS_VICTIM, "value": RESOLVED, "other": "other"}
        named = {keys[key]: value for key, value in annotations.items()}
        patched = plane.patch(version, "PodGroup", "g", {"metadata": {"annotations": named}})
        shown: Json = patched["metadata"].get("annotations") or {}
        return shown

    assert change(cls="high")[RESOLVED] == "1000"
    for refusal in ({"cls": "std"}, {"cls": "nope"}, {"value": "7"}, {"value": "2000"}):
        with pytest.raises(StatusError):
            change(**refusal)
    assert change(cls="higher", value="1000")[RESOLVED] == "5000", "the value of the class before comes along"
    plane.delete("scheduling.k8s.io/v1", "PriorityClass", "higher", ns="")
    assert change(other="x")[RESOLVED] == "5000", "deleting a class changes nothing that exists"
    assert change(value=None)[RESOLVED] == "5000", "a manifest that never had it takes nothing away"
    assert RESOLVED not in change(cls=None)
    with pytest.raises(StatusError, match="and not without one"):
        change(value="5000")
