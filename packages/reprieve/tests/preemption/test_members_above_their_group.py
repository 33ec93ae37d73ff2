"""A PodGroup without a class, and pods of it that name one (preemption.md 8.3)."""

from __future__ import annotations

from typing import Any

import pytest

from reprieve.inputs.loader import read
from reprieve.simulation.plan import plan
from reprieve.simulation.report import Answer
from tests import manifests
from tests.manifests import priority_class

Json = dict[str, Any]
NODE = manifests.node("n1")


def group(mode: str = "single", version: str = "scheduling.k8s.io/v1beta1", **spec: Any) -> Json:
    return manifests.gang("g", version=version, **{"disruptionMode": {mode: {}}, **spec})


def pod(name: str, cpu: int = 2, *, grouped: bool = True, by_label: bool = False, **spec: Any) -> Json:
    labels = {"scheduling.reprieve.dev/pod-group": "g"} if by_label else None
    return manifests.pod(name, cpu, group="g" if grouped and not by_label else "", labels=labels, **spec)


def planned(*documents: Json) -> Answer:
    classes = (priority_class("high", 10), priority_class("higher", 20))
    return plan(read([(f"document {at}", one) for at, one in enumerate((NODE, *classes, *documents))]))


@pytest.mark.parametrize(
    ("more", "of_group", "own", "number"),
    [
        ([], {}, {"priorityClassName": "high"}, 0),
        ([priority_class("usual", 5, globalDefault=True)], {}, {"priorityClassName": "high"}, 5),
        ([], {"priorityClassName": "higher"}, {"priorityClassName": "high"}, 20),
    ],
)
def test_members_of_another_priority_than_admission_gives_the_group_are_an_error(
    more: list[Json], of_group: Json, own: Json, number: int
) -> None:
    """As in a cluster, where the group has the default class, else 0."""
    answer = planned(*more, group(**of_group), pod("a", **own), pod("b", **own))
    (found,) = answer.plan.pod_groups
    assert (found.outcome, found.priority) == ("Error", number)
    text = f"all pods in a single pod group should match the priority of the pod group, got: 10 and {number}"
    assert found.message is not None
    assert text in found.message


@pytest.mark.parametrize("together", [True, False])
def test_steps_of_a_scenario_create_such_groups_too(together: bool) -> None:
    """Members may come in the step of their group or in a later one."""
    members = [pod("a", priorityClassName="high"), pod("b", priorityClassName="high")]
    steps = [{"create": [group(), *members]}] if together else [{"create": [group()]}, {"create": members}]
    metadata = {"name": "s"}
    answer = planned(
        {"apiVersion": "reprieve.dev/v1alpha1", "kind": "Scenario", "metadata": metadata, "spec": {"steps": steps}}
    )
    assert answer.plan.pod_groups[0].outcome == "Error"


@pytest.mark.parametrize(
    ("of_group", "own"),
    [
        ({}, {}),
        ({}, {"priority": 10}),
        ({"version": "scheduling.reprieve.dev/v1beta1"}, {"priorityClassName": "high", "by_label": True}),
        ({"priorityClassName": "high"}, {"priorityClassName": "high"}),
    ],
)
def test_members_that_may_differ_are_placed(of_group: Json, own: Json) -> None:
    """Custom resources have no admission, and numbers alone are a cluster without its classes."""
    answer = planned(group(**of_group), pod("a", **own), pod("b", **own))
    assert {one.outcome for one in answer.plan.pods} == {"Scheduled"}


@pytest.mark.parametrize("mode", ["single", "all"])
@pytest.mark.parametrize(
    ("own", "preemptor", "evicted"),
    [
        ({"priorityClassName": "high"}, {"priorityClassName": "high"}, False),
        ({"priorityClassName": "high"}, {"priorityClassName": "higher"}, True),
        ({"priority": 10}, {"priorityClassName": "high"}, True),
    ],
)
def test_running_members_count_by_the_higher_priority(mode: str, own: Json, preemptor: Json, evicted: bool) -> None:
    """A unit counts by the highest of its members; numbers without a class are the group's, as in kube-scheduler."""
    running = [pod("a", nodeName="n1", **own), pod("b", nodeName="n1")]
    answer = planned(group(mode), *running, pod("new", 4, grouped=False, **preemptor))
    assert bool(answer.plan.preemptions) is evicted
    warned = [text for text in answer.account.warnings if "as victims they count with the higher" in text]
    assert len(warned) == ("priorityClassName" in own)
