"""Trees of groups that preempt and are evicted: the cases of kube-scheduler's own tests, written again.

Source: kubernetes/kubernetes, test/integration/scheduler/preemption/podgroup (composite groups, several tiers).
"""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules import objects
from kube_rules.meta import ObjectRef
from tests.building import World, composite, group, node, pdb
from tests.retyped.tables import Case, row, table
from tests.retyped.test_group_preemption import AtMost, apart, high, hosts, low

HOST = "kubernetes.io/hostname"
ON, OFF = {"PodGroupPreemptionPolicy": True}, {"PodGroupPreemptionPolicy": False}


def tree(name: str, priority: int = 10, **fields: Any) -> objects.CompositePodGroup:
    """A basic composite of its own workload."""
    return composite(name, priority=priority, workload=f"w-{fields.get('parent') or name}", **fields)


def leaf(name: str, parent: str, min_count: int | None = 1, priority: int = 10, **fields: Any) -> objects.PodGroup:
    """A group below a composite."""
    return group(name, parent=parent, min_count=min_count, priority=priority, workload=f"w-{parent}", **fields)


def three_pods(policy: str | None, gates: dict[str, bool], *, stays: bool, groups: int = 2, **fields: Any) -> Case:
    """A tree with three pods on a node with three others."""
    parts = "2 and 1" if groups == 2 else "3"
    leaves = [leaf("pg1", "cpg1", 2 if groups == 2 else 3, 100, policy=policy)]
    arrives = [*high("high-1 high-2", **fields), *high("high-3", "pg2" if groups == 2 else "pg1", **fields)]
    if groups == 2:
        leaves.append(leaf("pg2", "cpg1", 1, 100, policy=policy))
    three, others = "high-1 high-2 high-3", "low-1 low-2 low-3"
    return Case(
        f"a tree of {parts} pods, policy {policy}, gates {gates}",
        [node("n1", cpu=3), tree("cpg1", 100, policy=policy), *leaves, *low(others)],
        arrives,
        placed=others if stays else three,
        evicted="" if stays else others,
        waits=three if stays else "",
        nominated="" if stays else three,
        gates=gates,
    )


def two_nodes(root: bool, second: bool) -> list[Any]:
    """A tree over two nodes, from which a pod takes one; `root` leaves as a whole, or each pod by itself."""
    return [
        *hosts("n1", "n2", cpu=2),
        tree("cpg1", whole=root),
        leaf("pg1", "cpg1", 2),
        leaf("pg2", "cpg1", 1, whole=second),
        *low("low-1", group="pg1"),
        *low("low-2", "n2", group="pg1"),
        *low("low-3", "n2", group="pg2"),
    ]


def alone(name: str = "high-1", cpu: int = 2, **fields: Any) -> list[Any]:
    """A pod without a group."""
    return row(name, priority=100, cpu=cpu, **fields)


ON_FIRST: dict[str, Any] = {"selector": {HOST: "n1"}}

CASES = [
    Case(
        "the larger of two pods leaves",
        [
            node("n1", cpu=2),
            node("n2", cpu=2),
            tree("cpg1", 100),
            leaf("pg1", "cpg1", 3, 100),
            *low("low-1", cpu=2),
            *low("low-2", "n2"),
        ],
        high("high-1 high-2 high-3"),
        placed="high-1 high-2 high-3 low-2",
        evicted="low-1",
        scores={"n1": 100},
        gates=ON,
    ),
    Case(
        "a tree leaves as a whole", two_nodes(True, False), alone(**ON_FIRST), "high-1", "low-1 low-2 low-3", gates=OFF
    ),
    Case(
        "pods of a tree leave one by one",
        two_nodes(False, False),
        alone(**ON_FIRST),
        "high-1 low-2 low-3",
        "low-1",
        gates=OFF,
    ),
    Case(
        "what leaves would not be enough",
        [node("n1", cpu=2), tree("cpg"), leaf("pg", "cpg"), *low("low-pod", group="pg")],
        alone(cpu=3),
        placed="low-pod",
        waits="high-1",
    ),
    Case(
        "a single group leaves before a tree of one priority",
        [
            node("n1", cpu=2),
            tree("cpg", whole=True),
            group("alone", min_count=1, priority=10),
            leaf("child", "cpg"),
            group("pre", min_count=1, priority=100),
            *low("low-pg", group="alone"),
            *low("low-cpg", group="child"),
        ],
        high("high-1", "pre"),
        placed="high-1 low-cpg",
        evicted="low-pg",
        nominated="high-1",
    ),
    Case(
        "the tree of lower priority leaves",
        [
            node("n1", cpu=3),
            tree("lower"),
            tree("higher", 20),
            leaf("pg-lower", "lower"),
            leaf("pg-higher", "higher", priority=20),
            *low("lower-pod", group="pg-lower"),
            *low("higher-pod", group="pg-higher", priority=20),
        ],
        alone(),
        placed="high-1 higher-pod",
        evicted="lower-pod",
    ),
    Case(
        "a budget keeps a tree that would leave as a whole",
        [
            node("n1", cpu=3),
            tree("guarded", whole=True),
            tree("free", whole=True),
            leaf("pg-guarded", "guarded", 2),
            leaf("pg-free", "free"),
            *low("guarded-1 guarded-2", group="pg-guarded", labels={"app": "foo"}),
            *low("free-1", group="pg-free"),
            pdb("b", {"app": "foo"}),
        ],
        alone(cpu=1),
        placed="high-1 guarded-1 guarded-2",
        evicted="free-1",
    ),
    Case(
        "a budget keeps one group of a tree",
        [
            node("n1", cpu=3),
            tree("single"),
            leaf("pg-guarded", "single", 2),
            leaf("pg-free", "single"),
            *low("guarded-1 guarded-2", group="pg-guarded", labels={"app": "foo"}),
            *low("free-1", group="pg-free"),
            pdb("b", {"app": "foo"}),
        ],
        alone(cpu=1),
        placed="high-1 guarded-1 guarded-2",
        evicted="free-1",
    ),
    Case(
        "the mode of the grandparent counts",
        [
            *hosts("n1", "n2", cpu=2),
            tree("top", whole=True),
            tree("mid", parent="top"),
            leaf("pg1", "mid", 2),
            leaf("pg2", "mid"),
            *low("low-1", group="pg1"),
            *low("low-2", "n2", group="pg1"),
            *low("low-3", "n2", group="pg2"),
        ],
        alone(**ON_FIRST),
        placed="high-1",
        evicted="low-1 low-2 low-3",
    ),
    Case(
        "the parent leaves as a whole, its sibling stays",
        [
            *hosts("n1", "n2", cpu=2),
            tree("top"),
            tree("mid", parent="top", whole=True),
            leaf("pg1", "mid", 2),
            leaf("pg2", "top"),
            *low("low-1", group="pg1"),
            *low("low-2", "n2", group="pg1"),
            *low("low-3", "n2", group="pg2"),
        ],
        alone(**ON_FIRST),
        placed="high-1 low-3",
        evicted="low-1 low-2",
    ),
    three_pods(None, ON, stays=False, groups=1),
    three_pods("Never", ON, stays=True, never=True),
    three_pods("PreemptLowerPriority", ON, stays=False),
    three_pods(None, OFF, stays=True, groups=1, never=True),
    Case(
        "a tree that never preempts, with pods of different sizes",
        [
            node("n1", cpu=3),
            tree("cpg1", 100, policy="Never"),
            leaf("pg1", "cpg1", 2, 100, policy="Never"),
            *low("low-1 low-2 low-3"),
        ],
        [*high("high-1", cpu=2, never=True), *high("high-2", never=True)],
        placed="low-1 low-2 low-3",
        waits="high-1 high-2",
        gates=ON,
    ),
    Case(
        "a tree with pods of different sizes preempts",
        [
            node("n1", cpu=3),
            tree("cpg1", 100, policy="PreemptLowerPriority"),
            leaf("pg1", "cpg1", 2, 100, policy="PreemptLowerPriority"),
            *low("low-1 low-2 low-3"),
        ],
        [*high("high-1", cpu=2), *high("high-2")],
        placed="high-1 high-2",
        evicted="low-1 low-2 low-3",
        nominated="high-1 high-2",
        gates=ON,
    ),
    Case(
        "anti-affinity to the victim",
        [
            *hosts("n1", "n2", cpu=2),
            tree("pre", 100),
            leaf("pg1", "pre", 2, 100),
            *low("initial", cpu="250m", labels={"app": "x"}),
        ],
        [apart(item) for item in high("p-1 p-2", cpu="1500m")],
        placed="p-1 p-2",
        evicted="initial",
        gates=ON,
    ),
    Case(
        "a port of the node",
        [
            node("n1", cpu=2),
            node("n2", cpu=2),
            tree("pre", 100),
            leaf("pg1", "pre", 2, 100),
            *low("initial", cpu="250m", ports=[8080]),
        ],
        high("p-1 p-2", cpu="1500m", ports=[8080]),
        placed="p-1 p-2",
        evicted="initial",
        gates=ON,
    ),
    Case(
        "a plugin that allows one pod only",
        [
            node("n1", cpu=2),
            tree("vic"),
            tree("pre", 100),
            leaf("pg-v", "vic", 2),
            leaf("pg1", "pre", 2, 100),
            *low("low-1 low-2", group="pg-v"),
        ],
        high("high-1 high-2", labels={"limited": ""}),
        placed="low-1 low-2",
        waits="high-1 high-2",
        plugins=[AtMost(1)],
    ),
    *[
        Case(
            f"four pods over two nodes, minGroupCount {minimum}",
            [
                node("n1", cpu=2),
                node("n2", cpu=2),
                tree("vic", min_groups=minimum),
                tree("pre", 100, min_groups=minimum),
                leaf("pg-v", "vic", 4),
                leaf("pg1", "pre", 4, 100),
                *low("low-1", group="pg-v"),
                *low("low-2", "n2", group="pg-v"),
            ],
            high("high-1 high-2 high-3 high-4"),
            placed="high-1 high-2 high-3 high-4",
            evicted="low-1 low-2",
        )
        for minimum in (1, None)
    ],
]


@table(CASES)
def test_trees_preempt_and_are_evicted(case: Case) -> None:
    """composite.md 4; preemption.md 4."""
    case.check(case.world())


def three_tiers(root: bool, mid: bool, more: list[Any]) -> list[Any]:
    """A tree of three levels over three nodes, with the modes of its upper two levels."""
    return [
        *hosts("n1", "n2", "n3", cpu=2),
        composite("root", priority=10, whole=root, workload="w"),
        composite("mid-a", priority=10, whole=mid, parent="root", workload="w"),
        composite("mid-b", priority=10, parent="root", workload="w"),
        composite("cpg-pre", priority=100, workload="w-pre"),
        group("pg-pre", min_count=1, priority=100, parent="cpg-pre", workload="w-pre"),
        *more,
    ]


def below(name: str, parent: str, min_count: int = 1, **fields: Any) -> objects.PodGroup:
    """A leaf of the tree of three levels."""
    return group(name, parent=parent, min_count=min_count, priority=10, workload="w", **fields)


TIERS = [
    Case(
        "the middle leaves as a whole",
        three_tiers(
            False,
            True,
            [
                below("a1", "mid-a"),
                below("a2", "mid-a"),
                below("b1", "mid-b"),
                *low("victim-a1", cpu=2, group="a1"),
                *low("victim-a2", "n2", cpu=2, group="a2"),
                *low("victim-b1", "n3", cpu=2, group="b1"),
            ],
        ),
        high("pre-1", "pg-pre", cpu=2, **ON_FIRST),
        placed="pre-1 victim-b1",
        evicted="victim-a1 victim-a2",
    ),
    Case(
        "a leaf leaves as a whole",
        three_tiers(
            False,
            False,
            [
                below("a1", "mid-a", 2, whole=True),
                below("a2", "mid-a"),
                below("b1", "mid-b"),
                *low("victim-a1-1", group="a1"),
                *low("victim-a1-2", "n2", group="a1"),
                *low("victim-a2-1", "n2", group="a2"),
                *low("filler"),
                *low("victim-b1", "n3", cpu=2, group="b1"),
            ],
        ),
        high("pre-1", "pg-pre", cpu=2, **ON_FIRST),
        placed="pre-1 victim-a2-1 victim-b1",
        evicted="filler victim-a1-1 victim-a1-2",
    ),
    Case(
        "the root leaves as a whole",
        three_tiers(
            True,
            False,
            [
                below("a1", "mid-a"),
                below("b1", "mid-b"),
                *low("victim-a1", cpu=2, group="a1"),
                *low("victim-b1", "n2", cpu=2, group="b1"),
            ],
        ),
        high("pre-1", "pg-pre", cpu=2, **ON_FIRST),
        placed="pre-1",
        evicted="victim-a1 victim-b1",
    ),
    Case(
        "a gang evicts for two pods, the third has no place",
        [
            *hosts("n1", "n2", "n3", cpu=2),
            group("pg1", min_count=2, priority=100),
            *[item for i in (1, 2, 3) for item in (group(f"v{i}", min_count=1, priority=10),)],
            *[item for i in (1, 2, 3) for item in low(f"victim-{i}", f"n{i}", cpu=2, group=f"v{i}")],
        ],
        [
            item
            for i, where in ((1, "n1"), (2, "n2"), (3, "n1"))
            for item in high(f"pre-{i}", cpu=2, selector={HOST: where})
        ],
        placed="pre-1 pre-2 victim-3",
        evicted="victim-1 victim-2",
        waits="pre-3",
    ),
    Case(
        "a tree of which one group is enough evicts for that one",
        [
            *hosts("n1", "n2", cpu=2),
            group("v1", min_count=1, priority=10),
            group("v2", min_count=1, priority=10),
            composite("top", priority=100, min_groups=1, workload="w"),
            group("c1", min_count=1, priority=100, parent="top", workload="w"),
            group("c2", min_count=2, priority=100, parent="top", workload="w"),
            *low("victim-1", cpu=2, group="v1"),
            *low("victim-2", "n2", cpu=2, group="v2"),
        ],
        [
            *high("pre-1", "c1", cpu=2, **ON_FIRST),
            *high("pre-2a pre-2b", "c2", cpu=2, selector={HOST: "n2"}),
        ],
        placed="pre-1 victim-2",
        evicted="victim-1",
        waits="pre-2a pre-2b",
    ),
]


@table(TIERS)
def test_no_more_than_the_levels_that_leave_as_a_whole(case: Case) -> None:
    """composite.md 4; preemption.md 4.3."""
    case.check(case.world())


LOOPS = {
    "two": {"a": "b", "b": "a"},
    "three": {"a": "b", "b": "c", "c": "a"},
    "itself": {"a": "a"},
    "a parent that does not exist": {},
}


@pytest.mark.parametrize("parents", LOOPS.values(), ids=LOOPS)
def test_victims_below_a_tree_that_is_none(parents: dict[str, str]) -> None:
    """composite.md 2: they leave like others, and the next pods are scheduled."""
    world = World(
        node("n1", cpu=2),
        *[composite(name, parent=parent, priority=10, workload="w") for name, parent in parents.items()],
        group("pg", min_count=1, priority=10, parent="a", workload="w"),
        *low("victim", cpu=2, group="pg"),
        *alone("pre"),
    ).settle()
    assert (world.evicted, world.where) == (["victim"], {"pre": "n1"})
    world.add(*row("next", cpu=0, priority=50)).settle()
    assert world.where == {"pre": "n1", "next": "n1"}


def test_victims_below_a_deleted_parent() -> None:
    """composite.md 2: what is left of the tree is evicted."""
    world = World(
        node("n1", cpu=2),
        tree("vic"),
        tree("pre", 100),
        leaf("pg-v", "vic", 2),
        leaf("pg1", "pre", 2, 100),
        *low("low-1 low-2", group="pg-v"),
    ).settle()
    world.engine.remove(ObjectRef("CompositePodGroup", "default/vic", "uid-composite-vic"), world.now)
    world.add(*high("high-1 high-2")).settle()
    assert (world.evicted, sorted(world.where)) == (["low-1", "low-2"], ["high-1", "high-2"])


def test_tree_keeps_its_nominations_until_its_pods_are_bound() -> None:
    """preemption.md 4.5: and none afterwards."""
    world = World(
        node("n1", cpu=3),
        tree("cpg1", 100),
        leaf("pg1", "cpg1", 2, 100),
        leaf("pg2", "cpg1", 1, 100),
        *low("low-1 low-2 low-3", grace=30),
        *high("high-1 high-2"),
        *high("high-3", "pg2"),
    ).drain()
    assert sorted(world.nominated) == ["high-1", "high-2", "high-3"]
    world.settle()
    assert world.nominated == {}
    assert sorted(world.where) == ["high-1", "high-2", "high-3"]
