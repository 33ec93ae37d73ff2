"""Trees of groups in domains: the cases of kube-scheduler's own tests, written again.

Source: kubernetes/kubernetes, test/integration/scheduler/podgroup/topology_aware_scheduling (cpg_tas_test.go).
"""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules import objects
from tests import building
from tests.building import World, node, pod
from tests.retyped.test_topology import Steps, gang, pods, racks, there
from tests.retyped.test_topology import basic as one_group

ROOT = "root"


def tree(name: str, min_groups: int | None, topology: str | None = None, parent: str = "") -> objects.CompositePodGroup:
    """A composite of priority 100; without `min_groups` a basic one."""
    return building.composite(name, min_groups=min_groups, topology=topology, parent=parent, priority=100)


def leaf(name: str, topology: str = "", parent: str = ROOT, least: int = 2) -> objects.PodGroup:
    """A gang in a tree."""
    return gang(name, least, topology, parent=parent)


def basic(name: str, parent: str = ROOT) -> objects.PodGroup:
    """A basic group in a tree, without a constraint."""
    return one_group(name, "", parent=parent)


def low(name: str, on: str, cpu: int = 2) -> objects.Pod:
    """A pod of priority 10 that runs."""
    return pod(name, node=on, cpu=cpu, priority=10, grace=0)


def blocks(*found: str) -> list[Any]:
    """Nodes with two CPUs, written `zone block rack name`."""
    parts = [text.split() for text in found]
    return [node(n, cpu=2, labels={"zone": z, "block": b, "rack": r}) for z, b, r, n in parts]


TWO_RACKS = racks("r1:n1 n2", "r2:n3 n4")
TWO_LEAVES = [tree(ROOT, 2, "rack"), leaf("pg1"), leaf("pg2")]
FOUR = [*pods("p1 p2"), *pods("p3 p4", "pg2")]
THREE = [*pods("p1"), *pods("p2 p3", "pg2")]
ALL = "p1 p2 p3 p4"
ZONE_AND_RACKS = [tree(ROOT, 2, "zone"), leaf("pg1", "rack"), leaf("pg2", "rack")]
FOUR_LEAVES = [*FOUR, *pods("p5 p6", "pg3"), *pods("p7 p8", "pg4")]
EIGHT = "p1 p2 p3 p4 p5 p6 p7 p8"
PAIRS = {"p1 p2": "rack", "p3 p4": "rack"}
FOUR_PAIRS = {**PAIRS, "p5 p6": "rack", "p7 p8": "rack"}


def deep(root: Any, subs: str | None, leaves: str, least: int | None = 2) -> list[Any]:
    """Two composites below a root, and two gangs below each."""
    return [
        root,
        *(tree(name, least, subs, parent=ROOT) for name in ("s1", "s2")),
        *(leaf(f"pg{n}", leaves, parent="s1" if n < 3 else "s2") for n in range(1, 5)),
    ]


BLOCKS = blocks("z1 b1 r1 n1", "z1 b1 r2 n2", "z1 b2 r1 n3", "z1 b2 r2 n4", "z2 b1 r1 n5", "z2 b1 r1 n6")
EIGHT_NODES = racks("r1/z1:n1 n2", "r2/z1:n3 n4", "r1/z2:n5 n6", "r2/z2:n7 n8")
ANCHORED = [
    *EIGHT_NODES,
    *deep(tree(ROOT, 2, "zone"), "rack", ""),
    there("old", "n5", group="pg1"),
]
SEVEN = [*THREE, *pods("p4 p5", "pg3"), *pods("p6 p7", "pg4")]


def tolerating(*found: Any) -> list[Any]:
    """Nodes of which the first has a taint, and pods of pg1 that tolerate it; those of pg2 prefer n4."""
    first, *rest = racks("r1/z1:n1", "r2/z1:n2", "r3/z1:n3", "r1/z2:n4", "r2/z2:n5")
    tainted = node("n1", cpu=2, labels=first.metadata.labels, taints=[("taint", "", "NoSchedule")])
    return [tainted, *rest, *found]


HERE = objects.PreferredSchedulingTerm(
    weight=100,
    preference=objects.NodeSelectorTerm(
        match_fields=(objects.NodeSelectorRequirement(key="metadata.name", operator="In", values=("n4",)),)
    ),
)
PREFERS = objects.Affinity(
    node_affinity=objects.NodeAffinity(preferred_during_scheduling_ignored_during_execution=(HERE,))
)
PREFERRING = [
    *pods("p1 p2", tolerations=[building.toleration("taint", "Exists")]),
    *pods("p3 p4", "pg2", affinity=PREFERS),
]
ONE_CONSTRAINED = [tree(ROOT, 2, "zone"), leaf("pg1", "rack"), leaf("pg2")]
BESIDE = [there("old1", "n5"), there("old2", "n2"), there("old3", "n3")]


def two_trees(*nodes: Any) -> list[Any]:
    """What two trees of two gangs need, one after the other."""
    steps: list[Any] = []
    for n, names in enumerate(("a1 a2|a3 a4", "b1 b2|b3 b4")):
        root = f"root{n}"
        groups = [tree(root, 2, "rack"), leaf(f"{root}-1", parent=root), leaf(f"{root}-2", parent=root)]
        one, two = names.split("|")
        steps.append([*(nodes if not n else ()), *groups, *pods(one, f"{root}-1"), *pods(two, f"{root}-2")])
    return steps


CASES = [
    Steps(
        "a rack for the whole tree",
        [[*TWO_RACKS, there("old", "n4", 2), *TWO_LEAVES], FOUR],
        on={ALL: "n1 n2"},
    ),
    Steps(
        "where a pod of the tree runs",
        [[*TWO_RACKS, there("old", "n4", group="pg1"), *TWO_LEAVES], THREE],
        on={"p1 p2 p3": "n3 n4"},
    ),
    Steps(
        "no rack has room for all",
        [
            [*racks("r1:n1", "r2:n2"), there("old1", "n1"), there("old2", "n2")],
            [tree(ROOT, 2, "rack"), basic("pg1"), basic("pg2")],
            [*pods("p1"), *pods("p2", "pg2")],
        ],
        waits="p1 p2",
    ),
    Steps(
        "a zone for the tree, a rack for each group",
        [[*racks("r1/z1:n1", "r2/z1:n2", "r1/z2:n3 n4"), there("old", "n3"), *ZONE_AND_RACKS], FOUR],
        on={ALL: "n1 n2"},
        together=PAIRS,
    ),
    Steps(
        "a zone for the tree, a rack for one group",
        [tolerating(*BESIDE, *ONE_CONSTRAINED), PREFERRING],
        together={ALL: "zone", "p1 p2": "rack"},
    ),
    Steps(
        "a pod that runs fixes the zone",
        [
            [*racks("r1/z1:n1", "r2/z1:n2 n3", "r1/z2:n4 n5"), *ZONE_AND_RACKS],
            [there("old", "n1", group="pg1")],
            THREE,
        ],
        on={"p1": "n1", "p2 p3": "n2 n3"},
    ),
    Steps(
        "pods that run are in two zones already",
        [
            [*racks("r1/z1:n1 n2", "r1/z2:n3 n4"), *ZONE_AND_RACKS],
            [there("old1", "n1", group="pg1"), there("old2", "n3", group="pg2")],
            [*pods("p1"), *pods("p2", "pg2")],
        ],
        waits="p1 p2",
    ),
    Steps(
        "zone, block and rack",
        [[*BLOCKS, *deep(tree(ROOT, 2, "zone"), "block", "rack")], FOUR_LEAVES],
        together={EIGHT: "zone", ALL: "block", "p5 p6 p7 p8": "block", **FOUR_PAIRS},
    ),
    Steps(
        "no constraint in the middle",
        [
            [*racks("r1/z1:n1", "r2/z1:n2", "r1/z2:n3"), tree(ROOT, 2, "zone")],
            [tree("s1", None, parent=ROOT), tree("s2", None, parent=ROOT)],
            [leaf("pg1", "rack", "s1"), leaf("pg2", "rack", "s2")],
            FOUR,
        ],
        together={ALL: "zone", **PAIRS},
    ),
    Steps(
        "no constraint at the root",
        [
            [*racks("r1/z1:n1", "r2/z1:n2", "r3/z2:n3", "r4/z2:n4", "r5/z2:n5")],
            [*deep(tree(ROOT, None), "zone", "rack"), *FOUR_LEAVES],
        ],
        together={ALL: "zone", "p5 p6 p7 p8": "zone", **FOUR_PAIRS},
    ),
    Steps(
        "no constraint of the groups",
        [
            [*racks("r1/z1:n1 n2", "r2/z1:n3 n4", "r1/z2:n5 n6"), *deep(tree(ROOT, 2, "zone"), "rack", "")],
            FOUR_LEAVES,
        ],
        together={EIGHT: "zone", ALL: "rack", "p5 p6 p7 p8": "rack"},
    ),
    Steps(
        "a pod that runs fixes rack and zone above it",
        [ANCHORED, SEVEN],
        on={"p1 p2 p3": "n5 n6", "p4 p5 p6 p7": "n7 n8"},
    ),
    Steps(
        "the rack that is used most",
        [
            [*TWO_RACKS, there("old", "n1"), tree(ROOT, 2, "rack"), leaf("pg1", least=1), leaf("pg2")],
            THREE,
        ],
        on={"p1 p2 p3": "n1 n2"},
    ),
    Steps(
        "the rack that holds more pods",
        [[*TWO_RACKS, there("old", "n1"), leaf("pg1"), leaf("pg2")], FOUR, [tree(ROOT, 1, "rack")]],
        on={ALL: "n3 n4"},
    ),
    Steps(
        "as many groups as fit, from the minimum on",
        [
            [*TWO_RACKS, there("old1", "n3", 2), there("old2", "n4", 2), *TWO_LEAVES, leaf("pg3")],
            [*FOUR, *pods("p5 p6", "pg3")],
        ],
        on={ALL: "n1 n2"},
        waits="p5 p6",
    ),
    Steps(
        "a basic tree: those that fit",
        [
            [*racks("r1:n1 n2"), there("old", "n1", 2), tree(ROOT, None, "rack"), basic("pg1"), basic("pg2")],
            FOUR,
        ],
        on={"p1 p2": "n2"},
        waits="p3 p4",
    ),
    Steps(
        "a basic tree: the rest when there is room",
        [
            [*racks("r1:n1 n2"), there("old", "n1", 2), tree(ROOT, None, "rack"), basic("pg1"), basic("pg2")],
            FOUR,
            "old",
        ],
        on={ALL: "n1 n2"},
    ),
    Steps(
        "two trees, each in a rack",
        two_trees(*TWO_RACKS),
        together={"a1 a2 a3 a4": "rack", "b1 b2 b3 b4": "rack"},
    ),
    Steps(
        "two trees, and one rack",
        two_trees(*racks("r1:n1 n2")),
        on={"a1 a2 a3 a4": "n1 n2"},
        waits="b1 b2 b3 b4",
    ),
    Steps(
        "groups beside a composite",
        [
            [*racks("r1/z1:n1 n2", "r2/z1:n3 n4", "r1/z2:n5", "r2/z2:n6"), tree(ROOT, 3, "zone")],
            [tree("s1", 2, "rack", ROOT), leaf("pg1", parent="s1"), leaf("pg2", parent="s1")],
            [leaf("pg3", "rack"), leaf("pg4")],
            FOUR_LEAVES,
        ],
        together={EIGHT: "zone", ALL: "rack", "p5 p6": "rack"},
    ),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_trees(case: Steps) -> None:
    case.check(World(gates={"CompositePodGroup": True}))


FULL = [low("low1", "n1"), low("low2", "n2"), there("old", "n4", 2)]
EVICTING = [
    Steps(
        "a rack for the whole tree",
        [[*TWO_RACKS, *FULL, *TWO_LEAVES], FOUR],
        on={ALL: "n1 n2"},
        evicted="low1 low2",
    ),
    Steps(
        "a later pod stays with the tree",
        [[*TWO_RACKS, *FULL, *TWO_LEAVES], FOUR, pods("p5")],
        on={ALL: "n1 n2"},
        evicted="low1 low2",
        waits="p5",
    ),
    Steps(
        "where a pod of the tree runs",
        [
            [*TWO_RACKS, there("old", "n4", group="pg1"), low("low1", "n3"), low("low2", "n4", 1), *TWO_LEAVES],
            THREE,
        ],
        on={"p1 p2 p3": "n3 n4"},
        evicted="low1 low2",
    ),
    Steps(
        "basic groups in a gang of groups",
        [
            [*racks("r1:n1", "r2:n2"), low("low1", "n1"), there("old", "n2", 2)],
            [tree(ROOT, 2, "rack"), basic("pg1"), basic("pg2")],
            [*pods("p1"), *pods("p2", "pg2")],
        ],
        on={"p1 p2": "n1"},
        evicted="low1",
    ),
    Steps(
        "a zone for the tree, a rack for each group",
        [
            [*racks("r1/z1:n1", "r2/z1:n2", "r1/z2:n3 n4"), low("low1", "n1"), low("low2", "n2"), there("old", "n3")],
            [*ZONE_AND_RACKS, *FOUR],
        ],
        on={ALL: "n1 n2"},
        together=PAIRS,
        evicted="low1 low2",
    ),
    Steps(
        "later groups stay in the zone, whatever could leave elsewhere",
        [
            [*racks("r1/z1:n1", "r2/z1:n2", "r3/z1:n3", "r1/z2:n4 n5"), low("low1", "n3"), low("low2", "n4")],
            [*ZONE_AND_RACKS, *FOUR],
            [leaf("pg3", "rack"), *pods("p5 p6", "pg3")],
            [leaf("pg4", "rack"), *pods("p7 p8", "pg4")],
        ],
        on={ALL: "n1 n2", "p5 p6": "n3"},
        together=PAIRS,
        evicted="low1",
        waits="p7 p8",
    ),
    Steps(
        "a zone for the tree, a rack for one group",
        [tolerating(*BESIDE, low("low1", "n1"), *ONE_CONSTRAINED), PREFERRING],
        together={ALL: "zone", "p1 p2": "rack"},
        evicted="low1",
    ),
    Steps(
        "zone, block and rack",
        [
            [*BLOCKS, *(low(f"low{n}", f"n{n}") for n in range(1, 5))],
            [*deep(tree(ROOT, 2, "zone"), "block", "rack"), *FOUR_LEAVES],
        ],
        together={EIGHT: "zone", ALL: "block", "p5 p6 p7 p8": "block", **FOUR_PAIRS},
        evicted="low1 low2 low3 low4",
    ),
    Steps(
        "no constraint in the middle",
        [
            [*racks("r1/z1:n1", "r2/z1:n2", "r1/z2:n3"), low("low1", "n1"), low("low2", "n2"), tree(ROOT, 2, "zone")],
            [tree("s1", None, parent=ROOT), tree("s2", None, parent=ROOT)],
            [leaf("pg1", "rack", "s1"), leaf("pg2", "rack", "s2")],
            FOUR,
        ],
        together={ALL: "zone", **PAIRS},
        evicted="low1 low2",
    ),
    Steps(
        "no constraint at the root",
        [
            [*racks("r1/z1:n1", "r2/z1:n2", "r3/z2:n3", "r4/z2:n4"), *(low(f"low{n}", f"n{n}") for n in range(1, 5))],
            [*deep(tree(ROOT, None), "zone", "rack"), *FOUR_LEAVES],
        ],
        together={ALL: "zone", "p5 p6 p7 p8": "zone", **FOUR_PAIRS},
        evicted="low1 low2 low3 low4",
    ),
    Steps(
        "no constraint of the groups",
        [
            [*racks("r1/z1:n1 n2", "r2/z1:n3 n4", "r1/z2:n5 n6"), *(low(f"low{n}", f"n{n}") for n in range(1, 5))],
            [*deep(tree(ROOT, 2, "zone"), "rack", ""), *FOUR_LEAVES],
        ],
        together={EIGHT: "zone", ALL: "rack", "p5 p6 p7 p8": "rack"},
        evicted="low1 low2 low3 low4",
    ),
    Steps(
        "a pod that runs fixes rack and zone above it",
        [[*ANCHORED, low("low1", "n6"), low("low2", "n7")], SEVEN],
        on={"p1 p2 p3": "n5 n6", "p4 p5 p6 p7": "n7 n8"},
        evicted="low1 low2",
    ),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in EVICTING])
def test_trees_that_preempt(case: Steps) -> None:
    case.check(World(gates={"CompositePodGroup": True}))


def test_pod_that_runs_fixes_the_zone_and_is_no_victim() -> None:
    """kube-scheduler's test evicts a pod in the second rack although its other node is free; here it stays."""
    found = [there("old", "n1", group="pg1"), low("low1", "n1", 1), low("low2", "n2")]
    case = Steps(
        "",
        [[*racks("r1/z1:n1", "r2/z1:n2 n3", "r1/z2:n4 n5"), *ZONE_AND_RACKS], found, THREE],
        on={"p1": "n1", "p2 p3": "n2 n3"},
        evicted="low1",
    )
    case.check(World(gates={"CompositePodGroup": True}))
