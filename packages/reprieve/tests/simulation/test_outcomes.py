"""What a plan reports of pods, groups and room that is waited for (interfaces.md, `plan -o json`)."""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.errors import Origin
from kube_rules.manifests import SuspendedInput
from reprieve.simulation.report import PodGroupOutcome, PodOutcome
from reprieve.simulation.report_outcomes import (
    gone_by_group,
    group_outcome,
    lost_pods,
    pod_outcome,
    suspended_workloads,
)
from reprieve.simulation.report_preemptions import deferred_preemptions, released_capacity
from tests.building import START, World, annotated, composite, gang, group, node, pod
from tests.preemption.test_waiting import owned
from tests.scheduling.test_preemptor_reservations import holding
from tests.simulation.test_virtual import Raises


def of_pod(world: World, name: str, namespace: str = "default") -> PodOutcome:
    [found] = [one for one in world.virtual.records.values() if one.key == f"{namespace}/{name}"]
    return pod_outcome(world.virtual, found)


def outcome_of(world: World, name: str) -> tuple[str, str | None, str | None, str | None]:
    found = of_pod(world, name)
    return found.outcome, found.reason, found.message, found.node_name


def of_group(world: World, name: str) -> PodGroupOutcome:
    evicted, lost = gone_by_group(world.virtual)[f"default/{name}"]
    return group_outcome(world.virtual, f"default/{name}", evicted, lost)


# -- pods ----------------------------------------------------------------------------------------------------------


def test_running_pod_is_reported_with_its_node() -> None:
    """interfaces.md 2.2."""
    world = World(node("n1", cpu=4), pod("a", cpu=1, priority=7)).settle()
    assert of_pod(world, "a") == PodOutcome(
        namespace="default", name="a", pod_group=None, priority=7, outcome="Scheduled", node_name="n1"
    )


@pytest.mark.parametrize(
    ("arriving", "name"),
    [
        ([pod("high", cpu=4, priority=9)], "pod default/uid-high"),
        (gang("g", 1, cpu=4, priority=9), "podgroup default/g"),
        (
            [composite("top", min_groups=1, priority=9), *gang("leaf", 1, cpu=4, priority=9, parent="top")],
            "compositepodgroup default/top",
        ),
    ],
    ids=["pod", "group", "tree"],
)
def test_preempted_pod_is_reported_with_its_preemptor(arriving: list[Any], name: str) -> None:
    world = World(node("n1", cpu=4), pod("low", cpu=4, grace=0)).settle().add(*arriving).settle()
    name = name.replace("default/uid-high", "uid-high")
    assert outcome_of(world, "low") == ("Unschedulable", "Preempted", f"was placed and then preempted for {name}", None)


def test_pods_that_were_lost_or_deleted_are_reported_as_such() -> None:
    world = World(node("n1", cpu=4), node("n2", cpu=1), pod("a", cpu=4), pod("b", cpu=1)).settle()
    world.virtual.delete("Node", "", "n1")
    assert outcome_of(world, "a") == ("Unschedulable", "Lost", "was placed and then lost with node n1", None)
    world.virtual.delete("Pod", "default", "b")
    world.settle()
    assert outcome_of(world, "b") == ("Unschedulable", "Deleted", None, None)
    assert outcome_of(world, "a")[1] == "Lost", "once it is collected, too"
    assert [(one.name, one.node_name, one.priority, one.pod_group) for one in lost_pods(world.virtual)] == [
        ("a", "n1", 0, None)
    ]


def test_lost_pods_are_sorted_by_namespace_and_name() -> None:
    """interfaces.md 2.5."""
    pods = [pod(name, namespace=space, node="n1", uid=name + space) for space, name in ("ba", "ab", "bb", "aa")]
    world = World(node("n1"), *pods, pod("g-0", group="g", namespace="c", node="n1", priority=3))
    world.virtual.delete("Node", "", "n1")
    found = lost_pods(world.virtual)
    assert [(one.namespace, one.name) for one in found] == [
        ("a", "a"),
        ("a", "b"),
        ("b", "a"),
        ("b", "b"),
        ("c", "g-0"),
    ]
    assert (found[-1].pod_group, found[-1].priority) == ("g", 3)


def test_why_a_pod_waits() -> None:
    """interfaces.md 2.2: its own gates, the gate of its group, no scheduler for it, no capacity, a preemption."""
    world = World(
        node("n1", cpu=4),
        pod("held", gates=["b", "a"]),
        pod("whose", scheduler="other"),
        pod("big", cpu=9),
        pod("member", cpu=1, group="g"),
        pod("stray", cpu=1, group="nobody"),
        group("g", min_count=2),
        pod("low", cpu=4, node="n1"),
        pod("high", cpu=4, priority=9),
    ).drain()
    assert outcome_of(world, "held")[:2] == ("Gated", "SchedulingGated")
    assert outcome_of(world, "whose") == ("Unschedulable", None, 'no profile has the schedulerName "other"', None)
    outcome, reason, message, _ = outcome_of(world, "big")
    assert (outcome, reason) == ("Unschedulable", "Unschedulable")
    assert "Insufficient cpu" in (message or "")
    for name in ("member", "stray"):
        assert outcome_of(world, name)[:2] == ("Gated", "Unschedulable"), name
        assert outcome_of(world, name)[2]
    high = of_pod(world, "high")
    assert (high.outcome, high.node_name, high.nominated_node_name) == ("Nominated", None, "n1")
    assert of_pod(world, "big").nominated_node_name is None


def test_untried_pod_has_no_reason() -> None:
    world = World(node("n1"), pod("a"))
    assert outcome_of(world, "a") == ("Unschedulable", None, None, None)


def test_attempt_that_failed_is_an_error() -> None:
    """interfaces.md 2.2."""
    world = World(node("n1"), pod("p"), *gang("g", 1), plugins=[Raises(99)]).settle()
    assert outcome_of(world, "p")[:2] == ("Error", "SchedulerError")
    assert "oh" in (outcome_of(world, "p")[2] or "")
    assert (of_group(world, "g").outcome, of_group(world, "g").reason) == ("Error", "SchedulerError")


def test_nomination_alone_is_no_room_that_is_being_made() -> None:
    world = World(node("n1", cpu=1), pod("a", cpu=1, node="n1"), pod("b", cpu=1, nominated="n1")).drain()
    found = of_pod(world, "b")
    assert found.outcome == "Unschedulable"


# -- groups --------------------------------------------------------------------------------------------------------


def test_outcome_of_groups_that_run_or_wait() -> None:
    world = World(
        node("n1", cpu=4),
        *gang("runs", 2, cpu=1, priority=3),
        *gang("big", 2, cpu=9),
        *gang("few", 1, min_count=2, cpu=1),
        group("empty", min_count=1),
        group("basic"),
        pod("one", cpu=1, group="basic"),
        group("idle"),
    ).settle()
    found = {name: of_group(world, name) for name in ("runs", "big", "few", "empty", "basic", "idle")}
    assert {name: (one.outcome, one.scheduled, one.min_count) for name, one in found.items()} == {
        "runs": ("Scheduled", 2, 2),
        "big": ("Unschedulable", 0, 2),
        "few": ("Gated", 0, 2),
        "empty": ("Gated", 0, 1),
        "basic": ("Scheduled", 1, None),
        "idle": ("Gated", 0, None),
    }
    assert {name: one.reason for name, one in found.items() if one.outcome != "Scheduled"} == dict.fromkeys(
        ("big", "few", "empty", "idle"), "Unschedulable"
    )
    assert [name for name, one in found.items() if not one.message] == ["runs", "basic", "idle"]
    assert (found["runs"].priority, found["runs"].below_minimum, found["runs"].parent) == (3, False, None)


def test_group_that_room_is_made_for_is_nominated() -> None:
    world = World(node("n1", cpu=4), pod("low", cpu=4, node="n1"), *gang("g", 2, cpu=2, priority=9)).drain()
    assert (of_group(world, "g").outcome, of_group(world, "g").scheduled) == ("Nominated", 0)
    world.settle()
    assert (of_group(world, "g").outcome, of_group(world, "g").scheduled) == ("Scheduled", 2)


def test_child_of_a_tree_names_its_parent() -> None:
    world = World(node("n1", cpu=4), composite("top", min_groups=1), *gang("leaf", 1, cpu=1, parent="top")).settle()
    assert of_group(world, "leaf").parent == "top"


@pytest.mark.parametrize(
    ("gone", "evicted", "lost", "below", "message"),
    [
        ((), 0, 0, False, None),
        (("g-0",), 0, 1, False, None),
        (("g-0", "g-1"), 0, 2, True, "fell below its minimum: 1 of minCount 2 left"),
        (("g-0", "g-1", "g-2"), 0, 3, True, "fell below its minimum: 0 of minCount 2 left"),
    ],
)
def test_gang_below_its_minimum_is_reported_with_how_many_are_left(
    gone: tuple[str, ...], evicted: int, lost: int, below: bool, message: str | None
) -> None:
    world = World(node("n1", cpu=9), *gang("g", 3, min_count=2, cpu=1, node="n1", grace=0))
    world.virtual.note_complete()
    for name in gone:
        world.virtual.delete("Pod", "default", name)
    world.settle()
    found = of_group(world, "g")
    assert (found.scheduled, found.evicted, found.lost) == (3 - len(gone), evicted, lost)
    assert found.below_minimum is below
    if found.outcome == "Scheduled":
        assert found.message == message


def test_pods_that_were_preempted_and_pods_that_were_lost_are_counted_apart() -> None:
    """A pod that is both was preempted: its capacity was taken before its node went."""
    world = World(
        node("n1", cpu=2, labels={"h": "1"}),
        node("n2", cpu=1),
        *gang("g", 3, min_count=1, cpu=1, node="n1")[:2],
        pod("g-1", cpu=1, node="n1", group="g", priority=5),
        pod("g-2", cpu=1, node="n2", group="g", priority=5),
        pod("high", cpu=1, priority=9, selector={"h": "1"}),
        pod("single", node="n2"),
    ).drain()
    assert len(world.evicted) == 1
    world.virtual.delete("Node", "", "n1")
    world.virtual.delete("Pod", "default", "g-2")
    assert gone_by_group(world.virtual) == {"default/g": (1, 2)}
    world.settle()
    found = of_group(world, "g")
    assert (found.scheduled, found.evicted, found.lost) == (0, 1, 2)


# -- deferred preemptions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arriving",
    [[pod("high", cpu=1, priority=9)], gang("high", 1, cpu=1, priority=9)],
    ids=["pod", "group"],
)
def test_deferred_preemption_is_reported_with_its_reason_and_times(arriving: list[Any]) -> None:
    """cost.md 5.6, 6: times are seconds since the plan began."""
    low = pod("low", cpu=1, node="n1", start=-100, annotations=annotated(minimum_runtime="10m"))
    world = World(node("n1", cpu=1), low)
    world.virtual.until(world.now + 20)
    world.add(*arriving).drain()
    [found] = deferred_preemptions(world.virtual)
    assert (found.preemptor.kind, found.preemptor.namespace, found.preemptor.name, found.preemptor.priority) == (
        "Pod" if len(arriving) == 1 else "PodGroup",
        "default",
        "high",
        9,
    )
    assert (found.reason, found.at, found.until) == ("MinimumRuntime", 20.0, 500.0)
    assert found.pods == ()
    assert found.message
    assert released_capacity(world.virtual) == ()


def test_predecessors_waited_for_are_named_and_sorted() -> None:
    """cost.md 5.6, each reason once: the gang that is replaced leaves."""
    old = [owned(pod(f"old-{i}", cpu=4, node=f"n{i}", terminating=True, grace=5), "ReplicaSet", "w") for i in (1, 0)]
    new = [owned(pod(f"new-{i}", cpu=4), "ReplicaSet", "w") for i in range(2)]
    world = World(node("n0", cpu=4), node("n1", cpu=4), *old, *new).settle()
    found = deferred_preemptions(world.virtual)
    assert [(one.preemptor.name, one.reason, one.at) for one in found] == [
        ("new-0", "Predecessor", 0.0),
        ("new-1", "Predecessor", 0.0),
    ]
    assert sorted(name for one in found for name in one.pods) == ["default/old-0", "default/old-1"]
    assert (sorted(world.where), world.now - START) == (["new-0", "new-1"], 5.0)


@pytest.mark.parametrize(
    ("arriving", "kind", "priority"),
    [([pod("high", cpu=4, priority=9)], "Pod", 9), (gang("high", 1, cpu=4, priority=8), "PodGroup", 8)],
    ids=["pod", "group"],
)
def test_released_room_is_reported_with_nodes_time_and_reason(arriving: list[Any], kind: str, priority: int) -> None:
    """cost.md 5.4."""
    world = World(node("n1", cpu=4), pod("low", cpu=4, node="n1"), *arriving, profiles=holding(60))
    world.virtual._leave_at = lambda pod, when: None  # type: ignore[method-assign]
    world.virtual.until(START + 200)
    [found] = released_capacity(world.virtual)
    assert (found.preemptor.kind, found.preemptor.name, found.preemptor.priority) == (kind, "high", priority)
    assert (found.nodes, found.reason, found.at) == (("n1",), "NotUsed", 90.0)
    assert found.message == "it was reserved for 60 s and not used"


# -- what is suspended ---------------------------------------------------------------------------------------------


def test_suspended_workloads_are_sorted_and_each_is_there_once() -> None:
    """whatif.md 1.5."""
    origins = (Origin("a"), Origin("b"))
    idle = [
        SuspendedInput(origin, "batch/v1", "Job", "default", name, "suspend") for name in "ba" for origin in origins
    ]
    idle += [SuspendedInput(origins[0], "apps/v1", "X", "other", "z", "paused")]
    found = suspended_workloads(idle)
    assert [(one.api_version, one.kind, one.namespace, one.name) for one in found] == [
        ("apps/v1", "X", "other", "z"),
        ("batch/v1", "Job", "default", "a"),
        ("batch/v1", "Job", "default", "b"),
    ]
    assert found[0].message == "it is suspended (paused) and calls for no pods"
    assert suspended_workloads([]) == ()
