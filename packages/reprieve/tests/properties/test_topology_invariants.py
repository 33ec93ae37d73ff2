"""Topology constraints on random clusters (KEP-5732, preemption.md 4.6 and 9)."""

from __future__ import annotations

import random
from dataclasses import replace as copied
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st
from msgspec.structs import replace

from kube_rules import objects
from reprieve.scheduling.decision import Decision, Result
from tests.building import Timed, World, history
from tests.drawing import drew, examples
from tests.properties.coverage import met, must_meet
from tests.properties.test_preemption_invariants import _Judge
from tests.random_clusters import RandomCluster, random_clusters

some = examples(80)


@st.composite
def racked(draw: st.DrawFn, *, max_pending: int = 4, preemptor: str = "") -> RandomCluster:
    """A random cluster with nodes in racks (some in none) and groups that have to stay within one.

    Groups with members that run already anywhere keep out of it: they may be spread.
    """
    cluster = draw(random_clusters(max_nodes=6, max_pending=max_pending, preemptor=preemptor))
    chance = random.Random(draw(st.integers(0, 2**32 - 1)))
    nodes = []
    for item, created in cluster.nodes:
        rack = chance.choice(["a", "b", "c", None])
        labels = {**item.metadata.labels, **({"rack": rack} if rack else {})}
        nodes.append((replace(item, metadata=replace(item.metadata, labels=labels)), created))
    spread = {_group(item) for item, _ in cluster.running}
    groups = [(item if item.metadata.name in spread else _bound(item), created) for item, created in cluster.groups]
    cluster = copied(cluster, nodes=nodes, groups=groups)
    drew(cluster.everything)
    return cluster


def _group(item: Any) -> str | None:
    return item.spec.scheduling_group.pod_group_name if item.spec.scheduling_group is not None else None


def _bound(item: Any, *keys: str) -> Any:
    topology = tuple(objects.TopologyConstraint(key=key) for key in keys or ("rack",))
    constraints = objects.PodGroupSchedulingConstraints(topology=topology)
    return replace(item, spec=replace(item.spec, scheduling_constraints=constraints))


def _racks_of(world: World, name: str) -> set[str | None]:
    cluster = world.engine.cluster
    members = cluster.groups[f"default/{name}"].members.values()
    return {cluster.nodes.labels[p.row].get("rack") for p in members if p.row >= 0 and not p.terminating}


@must_meet(placed=10)
@some
@given(racked(preemptor="group"))
def test_no_group_is_ever_in_two_domains(cluster: RandomCluster) -> None:
    """KEP-5732: all pods of the group in one domain, after every decision; nodes without the label are in none."""
    world = cluster.world()
    states = world.engine.cluster.groups.values()
    bound = [state.name for state in states if state.spec is not None and state.spec.topology_key is not None]
    seen: set[str] = set()

    def look(_: Decision) -> None:
        for name in bound:
            racks = _racks_of(world, name)
            assert len(racks) <= 1, f"{name} is in {racks}"
            assert None not in racks, f"{name} is on a node without the label"
            if racks:
                seen.add(name)

    world.engine.after_step = look
    world.settle()
    met("placed", len(seen))


@must_meet(judged=10)
@some
@given(racked(preemptor="group"))
def test_every_decision_to_preempt_in_a_placement_keeps_the_rules(cluster: RandomCluster) -> None:
    """preemption.md 9, per placement: lower priorities, whole units, irreducible, and what is made room for fits."""
    world = cluster.world()
    judge = _Judge(cluster, world)
    checked = judge.look

    def look(decision: Decision) -> None:
        checked(decision)
        if decision.preemption is not None:
            names = {world.engine.cluster.nodes.labels[row].get("rack") for _, row in decision.preemption.nominations}
            assert names == {decision.preemption.domain}

    world.engine.after_step = look
    world.settle()
    event(f"preemptions: {min(judge.seen, 3)}")


@some
@given(racked(preemptor="group"))
def test_short_cuts_change_nothing(cluster: RandomCluster) -> None:
    """preemption.md 9: no "fast path that decides differently from the plain path" : all tried, no counts."""
    fast, plain = cluster.world().settle(), cluster.world(plain=True).settle()
    assert history(fast) == history(plain)


@some
@given(racked(max_pending=5), st.randoms(use_true_random=False))
def test_order_of_arrival_does_not_matter(cluster: RandomCluster, chance: random.Random) -> None:
    """preemption.md 4: "the same cluster gives the same answer, in whatever order objects arrived"."""
    order = list(range(len(cluster.everything)))
    chance.shuffle(order)
    assert history(cluster.world(order=order).settle()) == history(cluster.world().settle())


def _alone(cluster: RandomCluster, rack: str) -> World:
    """One rack as a cluster of its own, and the group without its constraint."""
    nodes = [entry for entry in cluster.nodes if entry[0].metadata.labels.get("rack") == rack]
    names = {item.metadata.name for item, _ in nodes}
    running = [(item, created) for item, created in cluster.running if _node_of(item) in names]
    groups: list[Timed] = []
    for item, created in cluster.groups:
        assert isinstance(item, objects.PodGroup)
        groups.append((replace(item, spec=replace(item.spec, scheduling_constraints=None)), created))
    return copied(cluster, nodes=nodes, running=running, groups=groups).world()


def _node_of(item: Any) -> str:
    return str(item.spec.node_name)


@must_meet(fits=5, preempts=5, waits=5)
@some
@given(racked(preemptor="group"))
def test_placement_is_as_good_as_a_cluster_of_its_own(cluster: RandomCluster) -> None:
    """KEP-5732: the group fits if it fits in some domain by itself, and room can be made if it can be made in one."""
    decision = cluster.world().step()
    racks = sorted({item.metadata.labels["rack"] for item, _ in cluster.nodes if "rack" in item.metadata.labels})
    alone = {rack: _alone(cluster, rack).step() for rack in racks}
    results = {each.result for each in alone.values()}
    event(decision.result.value)
    met("fits" if Result.SCHEDULED in results else "preempts" if Result.WAITING in results else "waits")
    if Result.SCHEDULED in results:
        assert decision.result is Result.SCHEDULED
        most = max(len(each.bindings) for each in alone.values())
        assert any(len(each.bindings) == len(decision.bindings) for each in alone.values())
        assert len(decision.bindings) <= most
    else:
        assert decision.result is (Result.WAITING if Result.WAITING in results else Result.UNSCHEDULABLE)
    if decision.preemption is not None:
        own = alone[decision.preemption.domain].preemption
        assert own is not None
        assert len(own.nominations) == len(decision.preemption.nominations)
        assert decision.preemption.candidates == sum(each.preemption is not None for each in alone.values())
