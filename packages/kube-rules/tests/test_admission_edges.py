"""Priorities and defaults beside the common case: groups and templates of every level, stored objects, victims
(preemption.md 4, 8).
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kube_rules.admission import (
    PREEMPTION_PRIORITY,
    PREEMPTION_PRIORITY_CLASS,
    PriorityAdmission,
)
from kube_rules.errors import FieldError
from kube_rules.groups import SINGLE
from kube_rules.objects import (
    CompositePodGroup,
    Node,
    ObjectMeta,
    Pod,
    PodGroup,
    PriorityClass,
    Workload,
)
from kube_rules.typed_defaults import apply_defaults


def of(name: str, value: int, policy: str = "PreemptLowerPriority", default: bool = False) -> PriorityClass:
    return PriorityClass(metadata=ObjectMeta(name=name), value=value, preemption_policy=policy, global_default=default)


HIGH, NEVER, STD = of("high", 9), of("never", 5, "Never"), of("std", 1, default=True)


def group(spec: dict[str, Any] | None = None, **meta: Any) -> PodGroup:
    return msgspec.convert({"metadata": {"name": "g", **meta}, "spec": spec or {}}, PodGroup)


def composite(spec: dict[str, Any], **meta: Any) -> CompositePodGroup:
    return msgspec.convert({"metadata": {"name": "c", **meta}, "spec": spec}, CompositePodGroup)


@pytest.mark.parametrize(
    ("classes", "spec", "stored", "expected"),
    [
        # (class, priority, policy); a group without a class has no policy of its own
        ([HIGH], {"priorityClassName": "high"}, False, ("high", 9, "PreemptLowerPriority")),
        ([NEVER], {"priorityClassName": "never"}, False, ("never", 5, "Never")),
        ([NEVER], {"priorityClassName": "never", "preemptionPolicy": "PreemptLowerPriority"}, False,
         ("never", 5, "PreemptLowerPriority")),
        ([NEVER], {"priorityClassName": "never", "preemptionPolicy": ""}, False, ("never", 5, "")),
        ([], {}, False, ("", None, None)),
        ([STD], {}, False, ("std", 1, "PreemptLowerPriority")),
        ([], {"priority": 4}, False, ("", 4, None)),
        ([STD], {"priority": 4}, False, ("", 4, None)),
        ([HIGH], {"priority": 4, "priorityClassName": "high"}, True, ("high", 4, "PreemptLowerPriority")),
        ([], {"priority": 4, "priorityClassName": "gone"}, True, ("gone", 4, None)),
        ([], {"priority": 4, "preemptionPolicy": "Never"}, True, ("", 4, "Never")),
    ],
)  # fmt: skip
def test_priorities_of_groups(
    classes: list[PriorityClass], spec: dict[str, Any], stored: bool, expected: tuple[str, int | None, str | None]
) -> None:
    meta = {"uid": "u"} if stored else {}
    for found in (group(spec, **meta), composite(spec, **meta)):
        resolved = PriorityAdmission(classes).resolve(found).spec
        assert (resolved.priority_class_name, resolved.priority, resolved.preemption_policy) == expected


@pytest.mark.parametrize("meta", [{"uid": "u"}, {"resourceVersion": "1"}])
def test_stored_pods_keep_their_priority(meta: dict[str, str]) -> None:
    pod = msgspec.convert({"metadata": meta, "spec": {"priorityClassName": "gone", "priority": 3}}, Pod)
    assert PriorityAdmission([HIGH]).resolve(pod).spec.preemption_policy == "PreemptLowerPriority"
    known = msgspec.convert({"metadata": meta, "spec": {"priorityClassName": "never", "priority": 3}}, Pod)
    resolved = PriorityAdmission([NEVER]).resolve(known).spec
    assert (resolved.priority, resolved.preemption_policy) == (3, "Never")
    with pytest.raises(FieldError, match="no PriorityClass with name gone"):
        PriorityAdmission([HIGH]).resolve(msgspec.convert({"spec": {"priorityClassName": "gone", "priority": 3}}, Pod))


def test_object_that_needs_nothing_comes_back_itself() -> None:
    pod = msgspec.convert({"spec": {"priority": 3, "preemptionPolicy": "Never"}}, Pod)
    node = Node(metadata=ObjectMeta(name="n"))
    admission = PriorityAdmission([HIGH])
    for found in (pod, node, group(), composite({})):
        assert admission.resolve(found) is found


@pytest.mark.parametrize(
    ("spec", "strict", "refused"),
    [
        ({"priorityClassName": "high", "preemptionPolicy": "Never"}, True, True),
        ({"priorityClassName": "high", "preemptionPolicy": "Never"}, False, False),
        ({"priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"}, True, False),
        ({"priorityClassName": "high"}, True, False),
        ({"preemptionPolicy": "Never"}, True, False),
    ],
)
def test_policy_that_differs_from_its_class(spec: dict[str, Any], strict: bool, refused: bool) -> None:
    admission = PriorityAdmission([HIGH], strict=strict)
    found = msgspec.convert({"spec": spec}, Pod)
    if not refused:
        admission.resolve(found)
        return
    with pytest.raises(FieldError) as caught:
        admission.resolve(found)
    assert caught.value.path == "spec.preemptionPolicy"


def test_templates_of_every_level_are_resolved_with_their_path() -> None:
    leaf = {"name": "l", "priorityClassName": "high"}
    inner = {"name": "i", "priorityClassName": "high", "podGroupTemplates": [leaf]}
    tree = {"name": "t", "priorityClassName": "high", "compositePodGroupTemplates": [inner]}
    found = msgspec.convert({"spec": {"compositePodGroupTemplates": [tree]}}, Workload)
    [root] = PriorityAdmission([HIGH]).resolve(found).spec.composite_pod_group_templates
    [below] = root.composite_pod_group_templates
    assert (root.priority, below.priority, below.pod_group_templates[0].priority) == (9, 9, 9)
    leaf["priorityClassName"] = "gone"
    with pytest.raises(FieldError) as caught:
        PriorityAdmission([HIGH]).resolve(msgspec.convert({"spec": {"compositePodGroupTemplates": [tree]}}, Workload))
    assert caught.value.path == (
        "spec.compositePodGroupTemplates[0].compositePodGroupTemplates[0].podGroupTemplates[0].priorityClassName"
    )


@pytest.mark.parametrize(
    ("name", "number", "priority", "stored", "expected"),
    [
        ("", None, 0, False, {}),
        ("", "7", 0, False, {}),  # a number that no class stands for does not count
        ("high", None, 0, False, {PREEMPTION_PRIORITY: "9"}),
        ("high", "1", 0, False, {PREEMPTION_PRIORITY: "9"}),
        ("high", None, 9, False, {PREEMPTION_PRIORITY: "9"}),
        ("high", None, 10, False, "its value 9 is lower than the priority 10"),
        ("gone", None, 0, False, "no PriorityClass with name gone was found"),
        ("gone", "7", 0, False, "no PriorityClass with name gone was found"),
        ("gone", "7", 0, True, {PREEMPTION_PRIORITY: "7"}),
        ("gone", None, 0, True, "no PriorityClass with name gone was found"),
        ("high", "1", 0, True, {PREEMPTION_PRIORITY: "9"}),
    ],
)
def test_priority_as_a_victim(name: str, number: str | None, priority: int, stored: bool, expected: Any) -> None:
    """preemption.md 4."""
    annotations = {PREEMPTION_PRIORITY_CLASS: name, PREEMPTION_PRIORITY: number}
    given = {key: text for key, text in annotations.items() if text}
    found = group({"priority": priority}, annotations={"a": "b", **given}, **({"uid": "u"} if stored else {}))
    admission = PriorityAdmission([HIGH])
    if isinstance(expected, str):
        with pytest.raises(FieldError, match=expected) as caught:
            admission.resolve(found)
        assert caught.value.path == f"metadata.annotations[{PREEMPTION_PRIORITY_CLASS}]"
        return
    resolved = admission.resolve(found).metadata.annotations
    assert resolved == {"a": "b", **({PREEMPTION_PRIORITY_CLASS: name} if name else {}), **expected}


# -- defaults ---------------------------------------------------------------------------------------------------------


def templates(spec: dict[str, Any]) -> Workload:
    return apply_defaults(msgspec.convert({"metadata": {"name": "w", "namespace": "n"}, "spec": spec}, Workload))


def test_templates_of_every_level_are_single_unless_they_say_otherwise() -> None:
    every: dict[str, Any] = {"all": {}}
    leaf, other = {"name": "l"}, {"name": "m", "disruptionMode": every}
    inner = {"name": "i", "disruptionMode": every, "podGroupTemplates": [leaf, other]}
    tree = {"name": "t", "compositePodGroupTemplates": [inner]}
    [root] = templates({"compositePodGroupTemplates": [tree]}).spec.composite_pod_group_templates
    [below] = root.composite_pod_group_templates
    assert root.disruption_mode == SINGLE
    assert below.disruption_mode is not None
    assert below.disruption_mode.all is not None
    first, second = below.pod_group_templates
    assert first.disruption_mode == SINGLE
    assert second.disruption_mode is not None
    assert second.disruption_mode.all is not None
    assert templates({"podGroupTemplates": [leaf, other]}).spec.pod_group_templates == (first, second)


@pytest.mark.parametrize(
    "found",
    [
        msgspec.convert({"metadata": {"namespace": "n"}, "spec": {"terminationGracePeriodSeconds": 1}}, Pod),
        msgspec.convert({"status": {"capacity": {"cpu": "1"}, "allocatable": {"cpu": "0"}}}, Node),
        msgspec.convert({}, Node),
        msgspec.convert({"metadata": {"namespace": "n"}, "spec": {"disruptionMode": {"all": {}}}}, PodGroup),
        msgspec.convert({"metadata": {"namespace": "n"}, "spec": {"disruptionMode": {"all": {}}}}, CompositePodGroup),
        templates({"podGroupTemplates": [{"name": "a"}], "compositePodGroupTemplates": [{"name": "b"}]}),
    ],
)
def test_object_that_is_complete_comes_back_itself(found: Any) -> None:
    assert apply_defaults(found) is found


@pytest.mark.parametrize(
    ("host_network", "port", "host_port"),
    [(True, 0, 80), (True, 81, 81), (False, 0, 0), (False, 81, 81)],
)
def test_ports_on_the_network_of_the_host(host_network: bool, port: int, host_port: int) -> None:
    one = {"name": "c", "ports": [{"containerPort": 80, "hostPort": port}]}
    for field in ("containers", "initContainers"):
        found = apply_defaults(msgspec.convert({"spec": {field: [one], "hostNetwork": host_network}}, Pod))
        [container] = (*found.spec.containers, *found.spec.init_containers)
        assert container.ports[0].host_port == host_port


@pytest.mark.parametrize("field", ["containers", "initContainers"])
def test_limits_are_requests_where_there_are_none(field: str) -> None:
    one = {"name": "c", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}}
    found = apply_defaults(msgspec.convert({"spec": {field: [one, {"name": "d"}]}}, Pod))
    first, second = (*found.spec.containers, *found.spec.init_containers)
    assert first.resources.requests == {"cpu": "1", "memory": "1Gi"}
    assert second.resources.requests == {}


@pytest.mark.parametrize(
    ("limits", "requests", "inner", "expected"),
    [
        ({"cpu": "4"}, {}, {}, {"cpu": "4"}),
        ({"cpu": "4"}, {"cpu": "1"}, {}, {"cpu": "1"}),
        ({"cpu": "4"}, {}, {"cpu": "1"}, {"cpu": "1"}),
        ({"cpu": "4"}, {}, {"memory": "1"}, {"cpu": "4", "memory": "1"}),
        ({"a.b/c": "4"}, {}, {}, {}),
        ({}, {"cpu": "1"}, {}, {"cpu": "1"}),
    ],
)
@pytest.mark.parametrize("field", ["containers", "initContainers"])
def test_requests_of_a_pod_with_limits_are_those_of_its_containers_or_else_its_limits(
    field: str, limits: dict[str, str], requests: dict[str, str], inner: dict[str, str], expected: dict[str, str]
) -> None:
    """api.md 4.4."""
    one = {"name": "c", "resources": {"requests": inner}}
    spec = {field: [one], "resources": {"limits": limits, "requests": requests}}
    found = apply_defaults(msgspec.convert({"spec": spec}, Pod))
    assert found.spec.resources is not None
    assert found.spec.resources.requests == expected


def test_empty_scheduler_name_is_the_default() -> None:
    assert apply_defaults(msgspec.convert({"spec": {"schedulerName": ""}}, Pod)).spec.scheduler_name == (
        "default-scheduler"
    )
    assert apply_defaults(msgspec.convert({"spec": {"schedulerName": "x"}}, Pod)).spec.scheduler_name == "x"
