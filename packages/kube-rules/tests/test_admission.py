"""Defaults and priorities: pkg/apis/core/v1 defaults, preemption.md 8, recorded answers of an API server."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kube_rules.admission import PriorityAdmission
from kube_rules.errors import FieldError
from kube_rules.objects import Node, ObjectMeta, Pod, PodGroup, PriorityClass, Workload
from kube_rules.requests import pod_requests
from kube_rules.typed_defaults import apply_defaults


def _class(name: str, value: int, policy: str = "PreemptLowerPriority", default: bool = False) -> PriorityClass:
    return PriorityClass(metadata=ObjectMeta(name=name), value=value, preemption_policy=policy, global_default=default)


HIGH, NEVER = _class("high", 1000), _class("never", -5, "Never")
STD, STD_HIGHER = _class("std", 10, default=True), _class("std2", 20, default=True)


def pod(**spec: Any) -> Pod:
    return msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, Pod)


@pytest.mark.parametrize(
    ("classes", "spec", "expected"),
    [
        ([], {}, ("", 0, "PreemptLowerPriority")),
        ([STD], {}, ("std", 10, "PreemptLowerPriority")),  # unset -> the globalDefault class
        ([STD_HIGHER, STD], {}, ("std", 10, "PreemptLowerPriority")),  # of several the lowest value
        ([HIGH], {"priorityClassName": "high"}, ("high", 1000, "PreemptLowerPriority")),
        ([NEVER], {"priorityClassName": "never"}, ("never", -5, "Never")),
        ([HIGH], {"priorityClassName": "high", "priority": 1000}, ("high", 1000, "PreemptLowerPriority")),
        ([STD], {"priority": 5}, ("", 5, "PreemptLowerPriority")),  # a number without a class stays
        ([], {"priority": 5, "preemptionPolicy": "Never"}, ("", 5, "Never")),
        (
            [],
            {"priorityClassName": "system-node-critical"},
            ("system-node-critical", 2000001000, "PreemptLowerPriority"),
        ),
        (
            [],
            {"priorityClassName": "system-cluster-critical"},
            ("system-cluster-critical", 2000000000, "PreemptLowerPriority"),
        ),
        ([HIGH], {"priorityClassName": "high", "preemptionPolicy": "Never"}, ("high", 1000, "Never")),
    ],
)
def test_priorities(classes: list[PriorityClass], spec: dict[str, Any], expected: tuple[str, int, str]) -> None:
    found = PriorityAdmission(classes).resolve(pod(**spec)).spec
    assert (found.priority_class_name, found.priority, found.preemption_policy) == expected


def test_unknown_class_is_refused() -> None:
    with pytest.raises(FieldError, match="no PriorityClass with name nosuch was found") as caught:
        PriorityAdmission([HIGH]).resolve(pod(priorityClassName="nosuch"))
    assert caught.value.path == "spec.priorityClassName"


def test_priority_that_differs_from_its_class_is_refused() -> None:
    with pytest.raises(FieldError, match=r"\(5\) must not be provided .* computed 1000 ") as caught:
        PriorityAdmission([HIGH]).resolve(pod(priorityClassName="high", priority=5))
    assert caught.value.path == "spec.priority"


def test_strict_admission_refuses_another_policy() -> None:
    with pytest.raises(FieldError, match=r"PreemptionPolicy \(Never\) must not be provided"):
        PriorityAdmission([HIGH], strict=True).resolve(pod(priorityClassName="high", preemptionPolicy="Never"))


@pytest.mark.parametrize("classes", [[], [_class("gone", 7)]])
def test_class_changes_nothing_that_is_stored(classes: list[PriorityClass]) -> None:
    meta = {"name": "p", "uid": "1"}
    stored = msgspec.convert({"metadata": meta, "spec": {"priorityClassName": "gone", "priority": 3}}, Pod)
    assert PriorityAdmission(classes).resolve(stored).spec.priority == 3


def test_groups_and_templates_are_resolved_too() -> None:
    admission = PriorityAdmission([HIGH, STD])
    group = msgspec.convert({"spec": {"priorityClassName": "high"}}, PodGroup)
    assert admission.resolve(group).spec.priority == 1000
    workload = msgspec.convert({"spec": {"podGroupTemplates": [{"name": "a"}, {"priorityClassName": "no"}]}}, Workload)
    with pytest.raises(FieldError) as caught:
        admission.resolve(workload)
    assert caught.value.path == "spec.podGroupTemplates[1].priorityClassName"


def test_group_that_says_nothing_about_priority_has_none() -> None:
    """Unless a class is the default: its pods then have nothing to conflict with (preemption.md 8)."""
    group = msgspec.convert({"spec": {}}, PodGroup)
    assert PriorityAdmission([HIGH]).resolve(group).spec.priority is None
    assert PriorityAdmission([HIGH, STD]).resolve(group).spec.priority == 10
    assert PriorityAdmission([HIGH], strict=True).resolve(group).spec.priority == 0


def test_requests_come_from_limits() -> None:  # recorded: limits only
    limits = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "2"}
    resources = {"limits": limits, "requests": {"cpu": "500m"}}
    found = apply_defaults(pod(containers=[{"name": "c", "resources": resources}]))
    assert found.spec.containers[0].resources.requests == {**limits, "cpu": "500m"}


def test_pod_level_limit_is_the_default_of_the_request() -> None:
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    found = apply_defaults(pod(containers=containers, resources={"limits": {"cpu": "4", "memory": "1Ki"}}))
    assert pod_requests(found) == {"cpu": 1000, "memory": 1024}


def test_pods_are_completed() -> None:
    ports = [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}]
    found = apply_defaults(pod(hostNetwork=True, containers=[{"name": "c", "ports": ports}]))
    assert found.namespace == "default"
    assert found.spec.scheduler_name == "default-scheduler"
    assert found.spec.termination_grace_period_seconds == 30
    assert [port.host_port for port in found.spec.containers[0].ports] == [80, 8081]
    assert apply_defaults(found) is found  # defaulting twice changes nothing


def test_grace_period_of_zero_stays() -> None:
    assert apply_defaults(pod(terminationGracePeriodSeconds=0)).spec.termination_grace_period_seconds == 0


def test_node_offers_its_capacity_unless_it_says_otherwise() -> None:
    node = msgspec.convert({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}}, Node)
    assert apply_defaults(node).status.allocatable == {"cpu": "4"}
    assert apply_defaults(node).namespace == ""


def test_groups_are_disrupted_one_by_one_unless_they_say_otherwise() -> None:
    group = apply_defaults(msgspec.convert({"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}, PodGroup))
    assert group.spec.disruption_mode is not None
    assert group.spec.disruption_mode.single is not None
    assert not group.disrupts_all
    assert group.min_count == 2
