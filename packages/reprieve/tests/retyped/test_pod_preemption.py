"""Single pods that preempt: the cases of kube-scheduler's own tests, written again.

Source: kubernetes/kubernetes, TestPreemption, TestInterPodAffinityPreemption, TestPreemptionStarvation,
TestPreemptionRaces, TestPDBInPreemption, TestReadWriteOncePodPreemption, TestNominatedNode and TestPreferNominatedNode
in test/integration/scheduler/preemption.  A node has 500 thousandths of a CPU where nothing else is stated.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules import objects
from reprieve.preemption.default_preemption import DefaultPreemption
from tests.building import World, node, pdb, pod, profile_with
from tests.plugins import storage
from tests.retyped.test_group_preemption import AtMost

LOW, MEDIUM, HIGH = 100, 200, 300
HOST = "kubernetes.io/hostname"


def small(name: str = "n1", cpu: str = "500m") -> objects.Node:
    """A node of the source, with its name in two labels."""
    return node(name, cpu=cpu, memory=500, pods=32, labels={"node": name, HOST: name})


def running(name: str, cpu: str = "100m", memory: int = 100, on: str = "n1", **fields: Any) -> objects.Pod:
    """A running pod that ends at once."""
    return pod(name, cpu=cpu, memory=memory, node=on, grace=0, **fields)


def preemptor(cpu: str = "300m", memory: int = 200, **fields: Any) -> objects.Pod:
    """The pod of high priority that arrives."""
    return pod("preemptor", cpu=cpu, memory=memory, **{"priority": HIGH, **fields})


def not_beside(item: objects.Pod, value: str, key: str) -> objects.Pod:
    """The pod, not in a domain of `key` with a pod that has the label `pod` of that value."""
    needed = objects.LabelSelectorRequirement(key="pod", operator="In", values=(value,))
    term = objects.PodAffinityTerm(topology_key=key, label_selector=objects.LabelSelector(match_expressions=(needed,)))
    rule = objects.PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,))
    return replace(item, spec=replace(item.spec, affinity=objects.Affinity(pod_anti_affinity=rule)))


@pytest.mark.parametrize("never", [False, True])
def test_policy_of_the_pod(never: bool) -> None:
    """preemption.md 2.2: and what is evicted by the plugin alone."""
    world = World(small(), running("victim", "400m", 200, priority=LOW), preemptor(never=never)).settle()
    assert world.evicted == ([] if never else ["victim"])


def test_without_the_plugin_no_pods_are_evicted() -> None:
    """scheduling.md 5."""
    profile = profile_with(drop=[DefaultPreemption.name])
    items = small(), running("victim", "400m", 200, priority=LOW), preemptor()
    world = World(*items, profiles={profile.name: profile}).settle()
    assert (world.evicted, world.nominated, world.pending) == ([], {}, ["preemptor"])


def test_filter_of_ones_own_decides_which_pods_leave() -> None:
    """preemption.md 3.4: there is room for one pod of a kind."""
    limited = {"limited": "true"}
    victim = running("victim", "200m", 200, priority=LOW, labels=limited)
    world = World(small(), victim, preemptor("200m", labels=limited), plugins=[AtMost(1)]).settle()
    assert (world.evicted, world.where) == (["victim"], {"preemptor": "n1"})


@pytest.mark.parametrize("key", ["node", HOST])
@pytest.mark.parametrize(("priority", "evicted"), [(LOW, ["pod-0", "pod-1"]), (HIGH, [])])
def test_anti_affinity_both_ways(priority: int, evicted: list[str], key: str) -> None:
    """preemption.md 3.4: no pods are evicted if one of those that are in the way has to stay."""
    other = not_beside(running("pod-1", priority=priority, labels={"pod": "p1"}), "preemptor", key)
    arrives = not_beside(preemptor("100m", 100, labels={"pod": "preemptor"}), "p0", key)
    world = World(small(), running("pod-0", priority=MEDIUM, labels={"pod": "p0"}), other, arrives).settle()
    assert world.evicted == evicted


def test_what_is_freed_is_not_taken_by_others() -> None:
    """preemption.md 3.4: five pods of medium priority wait, and the node is full of others."""
    waiting = [pod(f"waits-{n}", cpu="100m", memory=100, priority=MEDIUM, grace=0) for n in range(5)]
    world = World(small(), *[running(f"runs-{n}", priority=MEDIUM) for n in range(5)], *waiting).drain()
    assert len(world.pending) == 5
    world.add(preemptor()).settle()
    assert world.where["preemptor"] == "n1"
    assert len(world.evicted) == 3
    assert world.pending == [f"waits-{n}" for n in range(5)]


def test_pods_that_come_during_a_preemption_wait() -> None:
    """preemption.md 3.4: twenty of them, on a node that the preemptor needs for itself."""
    world = World(node("n1", cpu="5", memory=5000), *[running(f"runs-{n}", priority=MEDIUM) for n in range(2)]).drain()
    world.add(preemptor("4900m", 4900))
    world.step()
    later = [pod(f"later-{n}", cpu="100m", memory=100, priority=MEDIUM) for n in range(20)]
    world.add(*later).settle()
    assert {name for name in world.where if name.startswith("later-")} == set()
    assert len(world.pending) == 21, "in this test the victims do not leave: the calls are not made"


BAR, ONE, TWO = {"foo": "bar"}, {"foo1": "bar"}, {"foo2": "bar"}


def test_pod_with_a_budget_stays_though_its_priority_is_lower() -> None:
    """preemption.md 6."""
    world = World(
        small(),
        running("low-1", priority=LOW, labels=BAR),
        running("low-2", priority=LOW, labels=BAR),
        running("mid-3", priority=MEDIUM),
        pdb("pdb-1", BAR, allowed=0),
        preemptor(),
    ).settle()
    assert world.evicted == ["mid-3"]


def test_node_without_a_violated_budget_is_preferred() -> None:
    """preemption.md 3."""
    world = World(
        small("n1"),
        small("n2"),
        running("low-1", priority=LOW, labels=BAR),
        running("mid-2", priority=MEDIUM, on="n2"),
        pdb("pdb-1", BAR, allowed=0),
        preemptor("500m"),
    ).settle()
    assert world.evicted == ["mid-2"]


def test_node_with_fewer_violations_and_lower_victims_is_preferred() -> None:
    """preemption.md 3: on the third node three pods of a budget leave that allows three."""
    world = World(
        *[small(f"n{n}") for n in (1, 2, 3)],
        running("low-1", priority=LOW, labels=ONE),
        running("mid-1", priority=MEDIUM),
        running("low-2", priority=LOW, on="n2", labels=TWO),
        running("mid-2", priority=MEDIUM, on="n2", labels=TWO),
        *[running(f"low-{n}", priority=LOW, on="n3", labels=TWO) for n in (4, 5, 6)],
        pdb("pdb-1", ONE, allowed=0),
        pdb("pdb-2", TWO, allowed=3),
        preemptor("500m", 400),
    ).settle()
    assert world.evicted == ["low-4", "low-5", "low-6"]


ONCE = ("ReadWriteOncePod",)


@pytest.mark.parametrize(
    ("victims", "wants"),
    [({"v1": ["c1"]}, ["c1"]), ({"v1": ["c1"], "v2": ["c2"]}, ["c1", "c2"]), ({"v1": ["c1", "c2"]}, ["c1", "c2"])],
    ids=["one claim", "two claims of two pods", "two claims of one pod"],
)
def test_claims_for_one_pod_alone(victims: dict[str, list[str]], wants: list[str]) -> None:
    """preemption.md 3.4: what uses a ReadWriteOncePod claim leaves for a more important pod that wants it."""
    claims = [storage.claim(name, of="", volume=f"pv-{name}", bound=True, modes=ONCE) for name in wants]
    volumes = [storage.volume(f"pv-{name}", of="", phase="Bound", modes=ONCE, held=name) for name in wants]
    there = [storage.pod(name, *those, node="n1", priority=LOW, grace=0) for name, those in victims.items()]
    world = World(small(), *claims, *volumes, *there).drain()
    world.add(storage.pod("preemptor", *wants, priority=HIGH)).settle()
    assert (world.evicted, world.where) == (sorted(victims), {"preemptor": "n1"})


def test_second_preemptor_evicts_further_pods() -> None:
    """preemption.md 2.3: the nomination of the first is cleared, as its capacity is needed."""
    world = World(node("n1", cpu=5), *[pod(f"low-{n}", cpu=1, node="n1", priority=LOW) for n in range(1, 5)])
    world.add(pod("medium", cpu=4, priority=MEDIUM)).drain()
    assert world.nominated == {"medium": "n1"}
    world.add(pod("high", cpu=3, priority=HIGH)).drain()
    assert world.nominated == {"high": "n1"}


def test_second_preemptor_that_fits_beside_the_victims_takes_the_place() -> None:
    """preemption.md 2.7: the nomination of the first is cleared when its victim is gone and it fits no more."""
    world = World(node("n1", cpu=2), pod("low", cpu=1, node="n1", priority=LOW), pod("medium", cpu=2, priority=MEDIUM))
    world.drain()
    assert world.nominated == {"medium": "n1"}
    world.add(pod("high", cpu=1, priority=HIGH)).drain()
    assert world.where == {"high": "n1"}
    world.gone("low").settle()
    assert (world.nominated, world.pending) == ({}, ["medium"])


@pytest.mark.parametrize("tainted", [False, True], ids=["no node is left", "a node that it may not use is left"])
def test_nominated_node_goes(tainted: bool) -> None:
    """preemption.md 2.3: so does the nomination."""
    others = [node("tainted", cpu=1, taints=[("taint-node", "true", "NoSchedule")])] if tainted else []
    world = World(*others, node("n1", cpu=1), pod("low", cpu=1, node="n1", priority=LOW))
    world.add(pod("medium", cpu=1, priority=MEDIUM)).drain()
    assert world.nominated == {"medium": "n1"}
    world.engine.remove(objects.ObjectRef("Node", "n1"), world.now)
    world.gone("low").settle()
    assert (world.nominated, world.pending) == ({}, ["medium"])


@pytest.mark.parametrize(("full", "expected"), [("n2", "n1"), ("n1", "n2")])
def test_nominated_node_is_tried_first(full: str, expected: str) -> None:
    """scheduling.md 2.3: and another one if it does not pass."""
    world = World(
        small("n1"), small("n2"), running("low", on=full, priority=HIGH), preemptor("500m", nominated="n1")
    ).settle()
    assert world.where["preemptor"] == expected
