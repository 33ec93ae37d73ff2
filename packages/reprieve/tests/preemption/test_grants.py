"""No tenant makes itself un-evictable: what annotations ask for counts as far as it is granted (cost.md 7)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules.admission import PREEMPTION_PRIORITY, PREEMPTION_PRIORITY_CLASS
from kube_rules.meta import ObjectRef
from kube_rules.objects import CompositePodGroup, PodGroup
from reprieve.preemption.units import effective_priority, units_below
from tests.building import World, annotated, composite, group, node, pod, priority_class

HOUR = 3600.0
FOREVER = annotated(minimum_runtime="87600h", restart_cost="87600h")
GOLD = {PREEMPTION_PRIORITY_CLASS: "gold", PREEMPTION_PRIORITY: "1000000"}
EIGHT_HOURS = priority_class("batch", 0, annotated(max_minimum_runtime="8h"))
OTHER = priority_class("other", 0)


def evicted_after(hours: float, *objects: Any, **of_pod: Any) -> bool:
    """Whether a pod that has run for so long is evicted for one of a higher priority."""
    world = World(node("n", cpu=1), *objects)
    victim = pod("victim", cpu=1, node="n", start=-hours * HOUR, **of_pod)
    world.add(victim, pod("urgent", cpu=1, priority=10)).drain()
    return evictions(world) == ["victim"]


def evictions(world: World) -> list[str]:
    decided = (decision.preemption for decision in world.engine.decisions)
    return [verdict.unit.pods[0].name for found in decided if found is not None for verdict in found.victims]


@pytest.mark.parametrize(
    ("objects", "of_pod", "granted"),
    [
        ((), {"annotations": FOREVER}, 1),
        ((group("g", annotations=FOREVER),), {"group": "g"}, 1),
        ((EIGHT_HOURS,), {"annotations": FOREVER, "priority_class": "batch"}, 8),
        ((EIGHT_HOURS, OTHER), {"annotations": FOREVER, "priority_class": "other"}, 1),
        # The group names a class that grants more; its pods, which quotas count, do not.
        ((EIGHT_HOURS, group("g", priority_class="batch", annotations=FOREVER)), {"group": "g"}, 1),
        ((EIGHT_HOURS, group("g", priority_class="batch", annotations=FOREVER)),
         {"group": "g", "priority_class": "batch"}, 8),
        ((EIGHT_HOURS, OTHER, group("g", priority_class="other")),
         {"group": "g", "priority_class": "batch", "annotations": FOREVER}, 1),
        ((priority_class("batch", 0, annotated(minimum_runtime="8h")), group("g", priority_class="batch")),
         {"group": "g"}, 1),
        ((priority_class("batch", 0, annotated(max_minimum_runtime="8h", grant_namespaces="team-a")),),
         {"annotations": FOREVER, "priority_class": "batch"}, 1),
        ((priority_class("batch", 0, annotated(max_minimum_runtime="8h", grant_namespaces="team-a,default")),),
         {"annotations": FOREVER, "priority_class": "batch"}, 8),
    ],
)  # fmt: skip
def test_runtime_protects_for_as_long_as_is_granted(objects: Any, of_pod: Any, granted: float) -> None:
    """cost.md 7.1, 7.3, 7.4: the most that is granted, and not a second more."""
    assert not evicted_after(granted - 0.01, *objects, **of_pod)
    assert evicted_after(granted + 0.01, *objects, **of_pod)


def test_grant_counts_from_the_moment_it_is_given_or_taken() -> None:
    """cost.md 7.1: a preemptor that waits for it is tried again."""
    world = World(node("n", cpu=1), EIGHT_HOURS)
    began = world.now
    victim = pod("victim", cpu=1, node="n", start=-2 * HOUR, priority_class="batch", annotations=FOREVER)
    world.add(victim, pod("urgent", cpu=1, priority=10)).drain()
    assert evictions(world) == []
    world.add(priority_class("batch", 0)).settle()
    assert evictions(world) == ["victim"]
    assert world.now < began + HOUR


def test_restart_cost_counts_as_far_as_it_is_granted() -> None:
    """cost.md 7.4: ten years on one pod weigh no more than an hour."""
    world = World(node("n", cpu=1), pod("p", node="n", annotations=FOREVER))
    assert world.engine.cluster.terms_of(world.record("p")).restart_cost == HOUR


def test_remainder_goes_as_one_only_where_that_is_allowed() -> None:
    """cost.md 7.1."""
    whole = annotated(below_minimum="Whole")
    world = World(
        node("n", cpu=4),
        priority_class("strict", 0, annotated(allow_below_minimum="false")),
        pod("free", node="n", annotations=whole),
        pod("strict", node="n", annotations=whole, priority_class="strict"),
    )
    cluster = world.engine.cluster
    said = [cluster.terms_of(world.record(name)).below_minimum for name in ("free", "strict")]
    assert said == ["Whole", None]


def named(made: PodGroup | CompositePodGroup, class_name: str) -> Any:
    spec: Any = replace(made.spec, priority_class_name=class_name)
    return replace(made, metadata=replace(made.metadata, annotations=GOLD), spec=spec)


@pytest.mark.parametrize(
    ("level", "class_name", "whole", "counts"),
    [
        ("leaf", "", False, 3),
        ("leaf", "plain", False, 3),
        ("leaf", "granting", False, 50),
        ("leaf", "granting", True, 50),
        ("root", "", True, 3),
        ("root", "plain", False, 3),
        ("root", "granting", False, 50),
        ("leaf", "unknown", True, 3),
    ],
)
def test_class_as_victim_counts_up_to_the_granted_priority(
    level: str, class_name: str, whole: bool, counts: int
) -> None:
    """cost.md 7.1, 7.3: at every level of a tree, whatever number the annotation has; else the group's own."""
    root, leaf = composite("root", min_groups=1, priority=3), group("leaf", priority=3, parent="root", whole=whole)
    world = World(
        node("n", cpu=1),
        priority_class("plain", 3),
        priority_class("granting", 3, annotated(max_preemption_priority="50")),
        named(root, class_name) if level == "root" else root,
        named(leaf, class_name) if level == "leaf" else leaf,
        pod("p", cpu=1, node="n", priority=3, group="leaf", start=0.0),
    )
    cluster = world.engine.cluster
    (unit,) = units_below(cluster, 1 << 40, [world.record("p")])
    assert (unit.priority, effective_priority(cluster, world.record("p"))) == (counts, counts)
    world.add(priority_class("granting", 3, annotated(max_preemption_priority="60")))
    assert effective_priority(cluster, world.record("p")) == (60 if counts == 50 else counts)
    world.engine.remove(ObjectRef("PriorityClass", "granting"), world.now)
    assert effective_priority(cluster, world.record("p")) == 3
    cluster.check()


def test_grant_that_is_taken_lets_a_preemptor_in() -> None:
    """What was decided on nodes before is not kept (cost.md 7.1)."""
    world = World(
        node("n", cpu=1),
        priority_class("granting", 3, annotated(max_preemption_priority="50")),
        named(group("g", priority=3), "granting"),
        pod("p", cpu=1, node="n", priority=3, group="g", start=0.0),
        pod("urgent", cpu=1, priority=10),
    ).settle()
    assert world.evicted == []
    world.add(priority_class("granting", 3)).settle()
    assert world.evicted == ["p"]
