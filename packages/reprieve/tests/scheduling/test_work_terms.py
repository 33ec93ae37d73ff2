"""Terms of work reach the cluster cache: from pods, groups and classes, and when it changes (cost.md 2)."""

from __future__ import annotations

from kube_rules.meta import ObjectRef
from kube_rules.work_annotations import NO_CLASS_TERMS, WorkTerms
from reprieve.queueing.entity import QueueState
from tests.building import START, World, annotated, gang, group, node, pod, priority_class


def test_pod_then_the_group_then_its_class() -> None:
    """cost.md 2.1: each annotation by itself, the nearest first."""
    long = priority_class("long", 10, annotated(minimum_runtime="1h", restart_cost="5m"))
    world = World(
        node("n1"),
        long,
        group("g", annotations=annotated(restart_cost="1m")),
        pod("a", node="n1", group="g", priority_class="long", annotations=annotated(checkpoint_interval="10m")),
        pod("b", node="n1", priority_class="long"),
        pod("c", node="n1", priority_class="unheard-of"),
    )
    cluster = world.engine.cluster
    terms = {name: cluster.terms_of(world.record(name)) for name in "abc"}
    assert terms["a"] == WorkTerms(checkpoint_interval=600.0, minimum_runtime=3600.0, restart_cost=60.0)
    assert terms["b"] == WorkTerms(minimum_runtime=3600.0, restart_cost=300.0)
    assert terms["c"] == WorkTerms()
    world.engine.remove(ObjectRef("PriorityClass", "long"), world.now)
    assert cluster.terms_of(world.record("b")) == WorkTerms()
    assert cluster.class_terms_of(world.record("b")) is NO_CLASS_TERMS


def test_checkpoint_wakes_no_pods_and_a_runtime_does() -> None:
    """cost.md 2.4: a saved checkpoint changes the cost; a minimum runtime changes which pods may be evicted."""
    world = World(node("n1"), group("g"), pod("low", cpu=4, node="n1", group="g"), pod("p", cpu=5, priority=10))
    world.drain()
    assert world.place("p") is QueueState.UNSCHEDULABLE
    version = world.engine.cluster.groups_version
    world.add(group("g", annotations=annotated(last_checkpoint="2026-01-01T00:00:00Z")))
    assert world.place("p") is QueueState.UNSCHEDULABLE
    assert world.engine.cluster.terms_of(world.record("low")).last_checkpoint is not None
    assert world.engine.cluster.groups_version == version
    world.change_pod(
        "low", lambda found: pod("low", cpu=4, node="n1", group="g", annotations=annotated(restart_cost="1m"))
    )
    assert world.engine.cluster.terms_of(world.record("low")).restart_cost == 60.0
    assert world.place("p") is QueueState.UNSCHEDULABLE


def test_picture_has_the_time_of_the_step() -> None:
    """cost.md 2.5: deciding reads no clock."""
    world = World(node("n1"), gang("g", 2, cpu=1))
    assert world.engine.cluster.now == START
    world.engine.step(START + 1234.5)
    assert world.engine.cluster.now == START + 1234.5
