"""Whole runs with rules about other pods: sharing, standing rules and undo change no decision."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kube_rules import objects
from reprieve.framework.gates import FeatureGates
from reprieve.framework.profile import Profile
from reprieve.plugins.image_locality import ImageLocality
from reprieve.plugins.inter_pod_affinity import InterPodAffinity
from reprieve.plugins.pod_topology_spread import PodTopologySpread
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.options import PreemptionOptions
from reprieve.scheduling.profiles import DEFAULT_WEIGHTS, REGISTRY
from tests.building import World, group, history, pdb
from tests.plugins.neighbours import RandomRules, namespace

many = settings(max_examples=100, deadline=None)


def profile(*, plain: bool = False) -> Profile:
    """Every in-tree plugin with rules about other pods; `plain`: preemption on its reference path."""
    gates = FeatureGates()
    chosen = {name: make(gates, {}) for name, make in REGISTRY.items()}
    for plugin in (PodTopologySpread(), InterPodAffinity(), ImageLocality()):
        chosen[plugin.name] = plugin
    if plain:
        chosen["DefaultPreemption"] = DefaultPreemption(PreemptionOptions(plain=True, share=False))
    weights = {**DEFAULT_WEIGHTS, "PodTopologySpread": 2, "InterPodAffinity": 2, "ImageLocality": 1}
    return Profile("default-scheduler", list(chosen.values()), weights)


def run(items: list[Any], *, plain: bool = False) -> World:
    """A world of these objects, settled; the cluster's own books are checked after every step."""
    made = profile(plain=plain)
    world = World(plain=plain, profiles={made.name: made})
    world.engine.cluster.set_namespace(namespace("other", {"team": "a"}))
    return world.add(*items).settle()


def _members(chance: RandomRules, name: str, priority: int, size: int, **more: Any) -> list[objects.Pod]:
    """Members of a group: of one namespace, many of them alike."""
    found: list[objects.Pod] = []
    for index in range(size):
        if found and not chance.one_in(3):
            uid = f"{found[-1].metadata.uid}-{index}"
            meta = objects.ObjectMeta(
                name=f"{name}-{index}", namespace="default", uid=uid, labels=found[-1].metadata.labels
            )
            found.append(objects.Pod(metadata=meta, spec=found[-1].spec, status=found[-1].status))
            continue
        made = chance.pod(f"{name}-{index}", priority=priority, group=name, cpu=chance.chance.randint(0, 2), **more)
        meta = objects.ObjectMeta(
            name=made.metadata.name, namespace="default", uid=made.metadata.uid, labels=made.metadata.labels
        )
        found.append(objects.Pod(metadata=meta, spec=made.spec, status=made.status))
    return found


def cluster(seed: int) -> list[Any]:
    """Nodes, running pods and groups of low priority, and single pods and groups that want in."""
    chance = RandomRules(seed)
    pick = chance.chance
    count = pick.randint(1, 5)
    items: list[Any] = [chance.node(i, cpu=pick.randint(2, 6)) for i in range(count)]
    whole = pick.choice([True, False])
    items.append(group("low", min_count=1, priority=1, whole=whole))
    free = {i: int(items[i].status.allocatable["cpu"]) for i in range(count)}
    for index in range(pick.randint(2, 12)):
        where, cpu = pick.randrange(count), pick.randint(0, 2)
        if free[where] < cpu:
            continue
        free[where] -= cpu
        priority = pick.choice([0, 1, 2])
        made = chance.pod(
            f"r{index}", rate=2, node=f"n{where}", priority=priority, cpu=cpu, start=pick.choice([None, 1.0, 2.0])
        )
        if made.metadata.namespace == "default" and chance.one_in(3):
            spec = objects.PodSchedulingGroup(pod_group_name="low")
            made = pod_in(made, spec)
        items.append(made)
    if chance.one_in(3):
        items.append(pdb("b", {"app": pick.choice("xyz")}, allowed=pick.randint(0, 1)))
    singles = range(pick.randint(0, 3))
    items += [chance.pod(f"p{i}", priority=pick.choice([0, 1, 3]), cpu=pick.randint(0, 3)) for i in singles]
    size = pick.randint(1, 4)
    items.append(group("high", min_count=pick.choice([None, size, max(1, size - 1)]), priority=5))
    items += _members(chance, "high", 5, size)
    return items


def pod_in(item: objects.Pod, found: objects.PodSchedulingGroup) -> objects.Pod:
    """The pod as a member of a group."""
    return replace(item, spec=replace(item.spec, scheduling_group=found))


@many
@given(st.integers(0, 2**32 - 1))
def test_sharing_and_standing_rules_change_nothing(seed: int) -> None:
    """scheduling.md 4 and preemption.md 9: "A fast path decides differently from the plain path" is never
    allowed."""
    shared, plain = run(cluster(seed)), run(cluster(seed), plain=True)
    assert history(shared) == history(plain)
    assert shared.where == plain.where


@pytest.mark.parametrize("seed", range(30))
def test_view_is_as_before(seed: int) -> None:
    """scheduling.md 7: a decision leaves the counts of what selectors see as they were."""
    made = profile()
    world = World(profiles={made.name: made}).add(*cluster(seed))
    state = world.engine.cluster
    for running in list(state.pods.values()):
        for other in (InterPodAffinity(), PodTopologySpread(())):
            other.pre_filter(world.state(running.name))
    before = state.digest()
    with state.trial():
        state.displace_all([p for p in state.pods.values() if p.row >= 0])
        state.check()
        for p in state.pods.values():
            state.place(p, 0)
        state.check()
    assert state.digest() == before
    state.check()
