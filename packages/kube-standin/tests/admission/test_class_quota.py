"""Quotas by priority class count the classes that a pod's groups name (cost.md 7.7)."""

from __future__ import annotations

from typing import Any

import pytest

from kube_standin.errors import StatusError
from tests.admission.plane import Plane, composite_pod_group, pod, pod_group, priority_class, refused

Json = dict[str, Any]
AS_VICTIM = "scheduling.reprieve.dev/preemption-priority-class"
GRANT = {"scheduling.reprieve.dev/max-preemption-priority": "5000"}
BETA = "scheduling.k8s.io/v1beta1"


@pytest.fixture
def gold(plane: Plane) -> Plane:
    """At most one pod of the class `gold` in the namespace; groups of `low` may name it."""
    plane.create(priority_class("gold", 5000))
    low = priority_class("low", 0)
    plane.create({**low, "metadata": {**low["metadata"], "annotations": GRANT}})
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": ["gold"]}
    spec = {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [scope]}}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": spec,
    }
    plane.create(quota)
    status = {"status": {"hard": {"pods": "1"}, "used": {"pods": "0"}}}
    plane.patch("v1", "ResourceQuota", "q", status, "status")
    return plane


def naming(made: Json, *, victim: bool) -> Json:
    return {**made, "metadata": {**made["metadata"], "annotations": {AS_VICTIM: "gold"} if victim else {}}}


def group(name: str, *, victim: bool, **spec: Any) -> Json:
    return naming(pod_group(name, priorityClassName="low", **spec), victim=victim)


def member(name: str, of: str) -> Json:
    return pod(name, priorityClassName="low", schedulingGroup={"podGroupName": of})


def used(plane: Plane) -> str:
    found: str = plane.get("v1", "ResourceQuota", "q")["status"]["used"]["pods"]
    return found


EXCEEDED = "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"


def test_pod_counts_for_the_class_that_its_group_names_as_victim(gold: Plane) -> None:
    """One fits, the next is refused; others of its class are no concern of the quota."""
    gold.create(group("g", victim=True))
    gold.create(group("h", victim=False))
    gold.create(member("a", "g"))
    assert used(gold) == "1"
    assert EXCEEDED in refused(gold, member("b", "g")).message
    assert EXCEEDED in refused(gold, pod("own", priorityClassName="gold")).message
    gold.create(member("c", "h"))
    gold.create(member("d", "no-group"))
    assert used(gold) == "1"


def test_pod_counts_for_the_classes_above_its_group(gold: Plane) -> None:
    """A tree: the root's annotation."""
    gold.create(naming(composite_pod_group("root", priorityClassName="low"), victim=True))
    reference = {"workloadName": "tree", "templateName": "leaf"}
    gold.create(group("leaf", victim=False, parentCompositePodGroupName="root", workloadRef=reference))
    gold.create(member("a", "leaf"))
    assert used(gold) == "1"
    assert EXCEEDED in refused(gold, member("b", "leaf")).message


@pytest.mark.parametrize("pods", [1, 2])
def test_class_that_a_group_names_later_counts_for_the_pods_it_has(gold: Plane, pods: int) -> None:
    """By an update, and by a group that comes after its pods: beyond the quota the group is refused."""
    gold.create(group("g", victim=False))
    for number in range(pods):
        gold.create(member(f"a{number}", "g"))
    patch = {"metadata": {"annotations": {AS_VICTIM: "gold"}}}
    if pods == 1:
        gold.patch(BETA, "PodGroup", "g", patch)
        assert used(gold) == "1"
        return
    with pytest.raises(StatusError, match="exceeded quota: q, requested: pods=2, used: pods=0, limited: pods=1"):
        gold.patch(BETA, "PodGroup", "g", patch)
    gold.create(member("early-0", "late"))
    gold.create(member("early-1", "late"))
    with pytest.raises(StatusError, match="requested: pods=2"):
        gold.create(group("late", victim=True))
    assert used(gold) == "0"
