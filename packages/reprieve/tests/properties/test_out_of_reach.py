"""Entities that cannot be placed are not tried again, and no others are delayed (`scheduling.member_capacity`)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.meta import ObjectRef
from reprieve.queueing import futile_attempts
from reprieve.queueing.entity import Entity, QueueState
from reprieve.queueing.hints import QueueingHints
from reprieve.queueing.queue import SchedulingQueue
from reprieve.queueing.timers import Timing
from reprieve.scheduling.decision import Result
from reprieve.scheduling.group_cycle import schedule_group
from reprieve.scheduling.member_capacity import CapacityBounds
from reprieve.scheduling.pod_cycle import schedule_pod
from tests.building import World, gang, group, node, pod, toleration
from tests.drawing import examples
from tests.random_clusters import RandomCluster, random_clusters

many = examples(20)
AT_ONCE = Timing(initial_backoff=0.0, max_backoff=0.0)
Happening = Callable[[World], object]
Choosing = Callable[[random.Random, RandomCluster, World, int], Happening]


def _happening(chance: random.Random, cluster: RandomCluster, world: World, turn: int) -> Happening:
    """Something that happens to the cluster, the same to every world it is done to."""
    present = sorted(p.name for p in world.engine.cluster.pods.values() if p.row >= 0)
    machines = [item for item, _ in cluster.nodes]
    groups = [item for item, _ in cluster.groups]
    kind = chance.randrange(9)
    if kind <= 2 and present:
        name = chance.choice(present)
        return lambda w: w.gone(name)
    if kind == 3 and present:
        name = chance.choice(present)
        return lambda w: w.change_pod(name, _smaller)
    if kind == 4:
        extra = node(f"extra-{turn}", cpu=chance.randint(1, 4), labels={"zone": chance.choice("ab")})
        return lambda w: w.add(extra)
    if kind == 5:
        changed = chance.choice(machines)
        assert isinstance(changed, objects.Node)
        cordoned = replace(changed, spec=replace(changed.spec, unschedulable=chance.random() < 0.5))
        return lambda w: w.add(cordoned)
    if kind == 6 and groups:
        chosen = chance.choice(groups)
        assert isinstance(chosen, objects.PodGroup)
        other = replace(chosen, spec=replace(chosen.spec, priority=chance.randint(-1, 4)))
        return lambda w: w.add(other)
    if kind == 7 and groups:
        chosen = chance.choice(groups)
        low = group(chosen.metadata.name, min_count=chance.randint(1, 3), priority=chance.randint(0, 3))
        return lambda w: w.add(low)
    size, cores, above = chance.randint(1, 4), chance.randint(1, 3), chance.randint(0, 3)
    zone = {"zone": chance.choice("ab")} if chance.random() < 0.3 else None
    return lambda w: w.add(*gang(f"new-{turn}", size, cpu=cores, priority=above, selector=zone))


def _happening_with_rules(chance: random.Random, cluster: RandomCluster, world: World, turn: int) -> Happening:
    """As `_happening`, and rules beside room: pods that keep away from others, tainted nodes, labels that change."""
    present = sorted(p.name for p in world.engine.cluster.pods.values() if p.row >= 0)
    kind = chance.randrange(6)
    if kind <= 1:
        rules: dict[str, Any] = {"affinity": _away(chance), "labels": {"app": chance.choice("xy")}}
        if chance.random() < 0.3:
            single = pod(f"away-{turn}", cpu=1, priority=chance.randint(0, 3), never=chance.random() < 0.5, **rules)
            return lambda w: w.add(single)
        whole = gang(f"away-{turn}", chance.randint(1, 3), cpu=1, priority=chance.randint(0, 3), **rules)
        return lambda w: w.add(*whole)
    if kind == 2 and present:
        name, labels = chance.choice(present), {"app": chance.choice("xyz")}
        return lambda w: w.change_pod(name, lambda p: replace(p, metadata=replace(p.metadata, labels=labels)))
    if kind == 3 and present:
        name = chance.choice(present)
        return lambda w: w.engine.mark_terminating(w.record(name).uid, w.now)
    if kind == 4:
        machine = chance.choice([item for item, _ in cluster.nodes])
        assert isinstance(machine, objects.Node)
        taints = (objects.Taint(key="kept", value="", effect="NoSchedule"),) if chance.random() < 0.6 else ()
        kept = replace(machine, spec=replace(machine.spec, taints=taints))
        return lambda w: w.add(_with_host(kept))
    return _happening(chance, cluster, world, turn)


def _happening_with_spread(chance: random.Random, cluster: RandomCluster, world: World, turn: int) -> Happening:
    """As `_happening_with_rules`, and gangs that spread over zones or nodes, while nodes come, go and move."""
    kind = chance.randrange(10)
    if kind <= 3:
        return _happening_with_rules(chance, cluster, world, turn)
    if kind <= 5:
        return _happening_to_nodes(chance, cluster, turn)
    if kind == 6 and (waiting := sorted(p.name for p in world.engine.cluster.pods.values() if p.row < 0)):
        name, changed = chance.choice(waiting), {"app": chance.choice("xy"), "version": chance.choice("12")}
        return lambda w: w.change_pod(name, lambda p: replace(p, metadata=replace(p.metadata, labels=changed)))
    constraints = tuple(
        objects.TopologySpreadConstraint(
            max_skew=chance.randint(1, 3),
            topology_key=key,
            when_unsatisfiable=chance.choice((*["DoNotSchedule"] * 4, "ScheduleAnyway")),
            label_selector=objects.LabelSelector(match_labels=chance.choice(({"app": "x"}, {"app": "x"}, {}))),
            match_label_keys=chance.choice(((), (), ("version",))),
            min_domains=chance.choice((None, None, 2, 3)),
            node_affinity_policy=chance.choice(("Honor", "Ignore")),
            node_taints_policy=chance.choice(("Ignore", "Honor")),
        )
        for key in chance.choice((("zone",), ("zone",), ("host",), ("zone", "host")))
    )
    size, version = chance.randint(2, 5), chance.choice("12")
    made = gang(
        f"spread-{turn}",
        size,
        min_count=chance.choice((size, size, chance.randint(1, size))),
        cpu=1,
        priority=chance.randint(0, 3),
        labels={"app": chance.choice("xxy"), "version": version},
        selector={"zone": chance.choice("ab")} if chance.random() < 0.2 else None,
        tolerations=[toleration("kept", "Exists")] if chance.random() < 0.2 else (),
    )
    items = [_spread(item, constraints, chance) for item in made]
    return lambda w: w.add(*items)


def _happening_to_nodes(chance: random.Random, cluster: RandomCluster, turn: int) -> Happening:
    """A node goes, is in another zone or in none, or is new; or a pod that others count comes, here or elsewhere."""
    machine = chance.choice([item for item, _ in cluster.nodes])
    assert isinstance(machine, objects.Node)
    name, kind = machine.metadata.name, chance.randrange(5)
    if kind == 0:
        return lambda w: w.engine.remove(ObjectRef("Node", name), w.now)
    if kind <= 2:
        zone = chance.choice("abc ").strip()
        labels = {"host": name, **({"zone": zone} if zone else {})}
        moved = replace(machine, metadata=replace(machine.metadata, labels=labels))
        return lambda w: w.add(moved)
    if kind == 3:
        extra = node(
            f"more-{turn}", cpu=chance.randint(1, 4), labels={"zone": chance.choice("abc"), "host": f"m{turn}"}
        )
        return lambda w: w.add(extra)
    labels = {"app": "x", "version": chance.choice("12")}
    counted = pod(
        f"counted-{turn}",
        cpu=chance.choice((None, 1)),
        priority=chance.randint(0, 3),
        labels=labels,
        namespace=chance.choice(("default", "default", "other")),
    )
    return lambda w: w.add(counted)


def _spread(
    item: objects.KubernetesObject, constraints: tuple[objects.TopologySpreadConstraint, ...], chance: random.Random
) -> objects.KubernetesObject:
    """A pod with these constraints; some ask for more than others."""
    if not isinstance(item, objects.Pod):
        return item
    spread = replace(item, spec=replace(item.spec, topology_spread_constraints=constraints))
    return _smaller(spread) if chance.random() < 0.2 else spread


def _away(chance: random.Random) -> objects.Affinity:
    terms = tuple(
        objects.PodAffinityTerm(
            label_selector=objects.LabelSelector(match_labels={"app": chance.choice("xy")}),
            topology_key=chance.choice(("host", "host", "zone")),
        )
        for _ in range(chance.randint(1, 2))
    )
    return objects.Affinity(
        pod_anti_affinity=objects.PodAntiAffinity(required_during_scheduling_ignored_during_execution=terms)
    )


def _with_host(item: objects.KubernetesObject) -> objects.KubernetesObject:
    """A node with a label of its own."""
    if not isinstance(item, objects.Node):
        return item
    labels = {**(item.metadata.labels or {}), "host": item.metadata.name}
    return replace(item, metadata=replace(item.metadata, labels=labels))


def _smaller(item: objects.Pod) -> objects.Pod:
    container = item.spec.containers[0]
    resources = replace(container.resources, requests={"cpu": "500m"})
    return replace(item, spec=replace(item.spec, containers=(replace(container, resources=resources),)))


@contextmanager
def _everything_may_help() -> Iterator[None]:
    """Any event wakes every pending entity that is not out of reach: nothing is left to hints."""
    every = mock.patch.object(
        SchedulingQueue, "_concerned", lambda self, _plugin, _event: [*self._unschedulable.by_ref.values()]
    )
    with (
        mock.patch.object(futile_attempts, "FEW_PODS", -1),
        mock.patch.object(QueueingHints, "help", return_value=True),
        every,
    ):
        yield


def _same(one: World, other: World) -> None:
    assert one.where == other.where
    assert one.nominated == other.nominated
    assert one.evicted == other.evicted


@pytest.mark.parametrize("happening", [_happening, _happening_with_rules, _happening_with_spread])
@many
@given(random_clusters(max_pending=6), st.randoms(use_true_random=False))
def test_futile_attempts_that_are_saved_delay_no_pods(
    happening: Choosing, cluster: RandomCluster, chance: random.Random
) -> None:
    there = [(_with_host(item), since) for item, since in cluster.everything]
    with _everything_may_help():
        asking = World(*there, timing=AT_ONCE).drain()
        trying = World(*there, timing=AT_ONCE, plain=True).drain()
        _same(asking, trying)
        for turn in range(8):
            happens = happening(chance, cluster, trying, turn)
            for world in (asking, trying):
                happens(world)
                world.drain()
            _same(asking, trying)
            if chance.random() < 0.3:
                _same(asking.settle(), trying.settle())
    saved = trying.engine.attempts - asking.engine.attempts
    assert saved >= 0
    event("attempts were saved" if saved else "every attempt was made")


@pytest.mark.parametrize("happening", [_happening, _happening_with_rules, _happening_with_spread])
@many
@given(random_clusters(max_pending=6), st.randoms(use_true_random=False))
def test_futile_attempts_are_rejected_and_the_kept_bound_equals_a_new_one(
    happening: Choosing, cluster: RandomCluster, chance: random.Random
) -> None:
    """After every happening: an attempt at an entity out of reach fails; what is kept up equals a new count."""
    world = World(*((_with_host(item), since) for item, since in cluster.everything), timing=AT_ONCE).drain()
    kept = world.engine.reach
    assert kept is not None
    for turn in range(8):
        happening(chance, cluster, world, turn)(world)
        fresh = CapacityBounds(world.engine.cluster, world.engine.running)
        fresh.refresh()
        kept.refresh()
        for entity in [e for e in world.engine.queue.entities() if e.state is QueueState.UNSCHEDULABLE]:
            rejected_by = kept.out_of_reach(entity)
            assert rejected_by == fresh.out_of_reach(entity)
            if rejected_by:
                event("an entity was out of reach")
                if "InterPodAffinity" in rejected_by:
                    event("by anti-affinity")
                if "PodTopologySpread" in rejected_by:
                    event("by spread")
                assert _attempt(world, entity) is not Result.SCHEDULED
        world.drain()


def _attempt(world: World, entity: Entity) -> Result:
    """What a cycle would decide now; it is not assumed. To wait for victims counts as being placed."""
    engine = world.engine
    running = engine.running[entity.profile]
    pods = list(entity.ready.values())
    if entity.group is None:
        decision = schedule_pod(running, entity.ref, pods[0], under_way=False)
    else:
        decision = schedule_group(running, entity.ref, entity.group, pods, under_way=False)
    return Result.SCHEDULED if decision.preemption is not None or decision.bindings else decision.result
