"""Gangs with preferred levels, ranks and slices, through the engine (topology.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules.topology_terms import PREFERRED_TOPOLOGY, SLICE
from reprieve.framework.gates import FeatureGates
from reprieve.plugins.gang_scheduling import RETRY, GangScheduling
from reprieve.scheduling.profiles import default_profile
from tests.building import World, composite, group, node, pod, profile_with

RACK = "topology.kubernetes.io/rack"
INDEX = "batch.kubernetes.io/job-completion-index"


def _nodes(*places: str, cpu: Sequence[int] = (), label: str = RACK) -> list[Any]:
    """Return nodes n0, n1... in these racks."""
    sizes = cpu or [4] * len(places)
    return [node(f"n{i}", cpu=sizes[i], labels={label: rack} if rack else {}) for i, rack in enumerate(places)]


def _crew(
    size: int, annotations: dict[str, str] | None = None, *, runs: dict[int, str] | None = None, **more: Any
) -> list[Any]:
    """Return a gang of indexed pods m0, m1... with one CPU each; some may run already."""
    least, topology, priority = more.get("least", size), more.get("topology"), more.get("priority", 0)
    crew = group(
        "crew", min_count=least, annotations=annotations, topology=topology, priority=priority,
        parent=more.get("parent", ""),
    )  # fmt: skip
    pods = [
        pod(
            f"m{rank}", cpu=more.get("cpu", 1), group="crew", labels={INDEX: str(rank)}, priority=priority,
            node=(runs or {}).get(rank, ""), annotations=more.get("of_pods"),
        )
        for rank in reversed(range(size))
    ]  # fmt: skip
    return [crew, *pods]


def _where(world: World, size: int) -> list[str]:
    """Return the node of each rank; empty for one that has none."""
    return [world.where.get(f"m{rank}", "") for rank in range(size)]


RACKS = {PREFERRED_TOPOLOGY: "rack"}


@pytest.mark.parametrize(
    ("nodes", "crew", "places"),
    [
        # One rack is enough, and of two the fullest (2.1, 2.2).
        (_nodes("a", "b", "b", cpu=(4, 2, 1)), _crew(3, RACKS), ["n1", "n1", "n2"]),
        # The pods' own annotation comes before the group's, one above it last (1.1).
        (
            [
                node(f"n{i}", cpu=cpu, labels={"x.io/row": str(i), **({RACK: "a"} if cpu == 1 else {})})
                for i, cpu in enumerate((1, 2, 1))
            ],
            _crew(2, RACKS, of_pods={PREFERRED_TOPOLOGY: "x.io/row"}),
            ["n1", "n1"],
        ),
        # Without the label of the short name the plain label counts (1.2).
        (_nodes("a", "b", "b", cpu=(4, 2, 1), label="rack"), _crew(3, RACKS), ["n1", "n1", "n2"]),
        # A node without the label is a domain by itself (1.3).
        (_nodes("a", "", "a", cpu=(1, 2, 1)), _crew(2, RACKS), ["n0", "n2"]),
        # Members that run keep their nodes, and the others come beside their neighbours (2.1, 3.4).
        (
            _nodes("a", "b", "b", cpu=(2, 2, 2)),
            _crew(4, RACKS, runs={0: "n0", 3: "n1"}),
            ["n0", "n0", "n2", "n1"],
        ),
        # Not all fit: as many as without, the lowest ranks (2.1).
        (_nodes("a", "b", cpu=(2, 1)), _crew(4, RACKS, least=2), ["n0", "n0", "n1", ""]),
        # Under a constraint alone the nodes are the same, in the order of the ranks (3.3).
        (_nodes("a", "a", "b", cpu=(2, 2, 1)), _crew(4, topology=RACK), ["n0", "n0", "n1", "n1"]),
        # The constraint is the frame, and of the domains that hold the gang the best is taken (2.3).
        (
            [
                node(f"n{i}", cpu=2, labels={"block": "a" if i < 2 else "b", RACK: rack})
                for i, rack in enumerate(["p", "q", "r", "r"])
            ],
            _crew(4, RACKS, topology="block"),
            ["n2", "n2", "n3", "n3"],
        ),
        # The same where the first domain of the constraint does not hold the gang.
        (
            [
                node(f"n{i}", cpu=2, labels={"block": block, RACK: rack})
                for i, (block, rack) in enumerate([("a", "o"), ("b", "p"), ("b", "q"), ("c", "r"), ("c", "r")])
            ],
            _crew(4, RACKS, topology="block"),
            ["n3", "n3", "n4", "n4"],
        ),
    ],
)  # fmt: skip
def test_where_members_go(nodes: list[Any], crew: list[Any], places: list[str]) -> None:
    """topology.md 1.1-1.3, 2.1-2.3, 3.3, 3.4: the paragraphs are beside the cases."""
    assert _where(World(*nodes, *crew).settle(), len(places)) == places


BLOCK = "topology.kubernetes.io/block"
IN_BLOCKS = [
    node(f"n{i}", cpu=2, labels={RACK: rack, BLOCK: block})
    for i, (rack, block) in enumerate([("a", "x"), ("b", "y"), ("c", "y")])
]
PAIRS = {SLICE: "rack=2"}


def _unlike(*cpus: int, first: str = "", asks: dict[str, str] = PAIRS) -> list[Any]:
    """Return a gang, in slices of two, of members that ask for so many CPUs; the first ones may run already."""
    crew = group("crew", min_count=len(cpus), annotations=asks)
    where = [*first.split(), *[""] * len(cpus)]
    pods = [pod(f"m{i}", cpu=cpu, group="crew", labels={INDEX: str(i)}, node=where[i]) for i, cpu in enumerate(cpus)]
    return [crew, *pods]


@pytest.mark.parametrize(
    ("nodes", "crew", "places"),
    [
        # As few racks as possible, the fullest that fit (4.4).
        (_nodes("a", "b", "c", cpu=(6, 4, 2)), _crew(4, PAIRS), ["n1"] * 4),
        # A preferred level that is wider than the slices counts, one that is narrower does not (4.4).
        (IN_BLOCKS, _crew(4, {**PAIRS, PREFERRED_TOPOLOGY: "block"}), ["n1", "n1", "n2", "n2"]),
        (
            [node(f"n{i}", cpu=i + 1, labels={RACK: "aab"[i], "kubernetes.io/hostname": f"n{i}"}) for i in range(3)],
            _crew(3, {SLICE: "rack=3", PREFERRED_TOPOLOGY: "host"}),
            ["n1", "n1", "n0"],
        ),
        # The rack in which another slice runs costs nothing, although a rack before it is as full (4.4).
        (_nodes("a", "b", cpu=(2, 4)), _crew(4, PAIRS, runs={0: "n1", 1: "n1"}), ["n1"] * 4),
        # What runs has its own capacity: this rack has none for the next slice.
        (_nodes("a", "b", cpu=(2, 3)), _crew(4, PAIRS, runs={0: "n1", 1: "n1"}), ["n1", "n1", "n0", "n0"]),
        # The rest of a slice goes where its member runs (4.2).
        (_nodes("a", "b", cpu=(2, 4)), _crew(2, PAIRS, runs={1: "n1"}), ["n1", "n1"]),
        # The last slice has one member, and takes the place of no full slice (4.1).
        (_nodes("a", "b", cpu=(3, 2)), _crew(5, PAIRS), ["n1", "n1", "n0", "n0", "n0"]),
        # Members that differ: one slice after the other, beside the one before as long as there is room (4.6).
        (_nodes("a", "b", cpu=(3, 8)), _unlike(1, 2, 1, 1), ["n0", "n0", "n1", "n1"]),
        (_nodes("a", "b", cpu=(8, 8)), _unlike(1, 2, 1, 1, first="n1"), ["n1"] * 4),
        # Where that fails, all of them together, beside members that run (4.6).
        (_nodes("a", "b", cpu=(4, 3)), _unlike(1, 2, 2, 2), ["n1", "n1", "n0", "n0"]),
        (_nodes("a", "b", cpu=(3, 6)), _unlike(1, 1, 1, 2, 2, 2, first="n1"), ["n1", "n1", "n0", "n0", "n1", "n1"]),
        (_nodes("a", "b", cpu=(4, 3)), _unlike(1, 2, 2, 2, 1, 1), [""] * 6),
    ],
)
def test_where_slices_go(nodes: list[Any], crew: list[Any], places: list[str]) -> None:
    """topology.md 4.1, 4.2, 4.4, 4.6: the paragraphs are beside the cases."""
    assert _where(World(*nodes, *crew).settle(), len(places)) == places


@pytest.mark.parametrize(
    ("nodes", "cpus", "first", "places"),
    [
        # One rack that holds all is better than two, whatever is left there.
        (_nodes("a", "b", "b", cpu=(5, 4, 2)), (3, 1, 2), "", ["n1", "n1", "n2"]),
        # Of two that hold all the fullest.
        (_nodes("a", "b", "c", cpu=(8, 4, 3)), (1, 2), "", ["n2", "n2"]),
        # The same of more racks than are compared with one another.
        (_nodes(*(f"r{i:03}" for i in range(120)), cpu=[8] * 70 + [3] + [6] * 49), (1, 2), "", ["n70"] * 2),
        # In a rack by the names of the nodes, whatever the order in which they are known (3.2).
        (_nodes("a", "a", "a", cpu=(2, 2, 2))[::-1], (2, 2, 1), "", ["n0", "n1", "n2"]),
        # A rack that holds one of them is used.
        (_nodes("a", "b", "c", cpu=(1, 4, 2)), (1, 2, 2), "", ["n0", "n1", "n1"]),
        # In two racks as few neighbours as possible are apart.
        (_nodes("a", "b", cpu=(3, 3)), (2, 1, 2, 1), "", ["n0", "n0", "n1", "n1"]),
        (_nodes("a", "b", "a", cpu=(2, 3, 2)), (2, 1, 2, 2), "", ["n1", "n1", "n0", "n2"]),
        # Members that run keep their rack in use, and their neighbours come beside them (3.4).
        (_nodes("a", "b", cpu=(8, 8)), (1, 2, 1), "n1", ["n1"] * 3),
        (_nodes("a", "b", cpu=(4, 3)), (1, 2, 2, 2), "n1", ["n1", "n1", "n0", "n0"]),
        (_nodes("a", "b", cpu=(8, 8)), (1, 1, 2, 1), "n1 n0", ["n1", "n0", "n0", "n0"]),
        (_nodes("a", "b", cpu=(8, 8)), (1, 1, 2, 1), "n0 n1", ["n0", "n1", "n1", "n1"]),
        # Not all racks together hold them in any way: they wait.
        (_nodes("a", "b", cpu=(3, 3)), (2, 2, 2), "", [""] * 3),
    ],
)
def test_where_members_that_differ_go(nodes: list[Any], cpus: tuple[int, ...], first: str, places: list[str]) -> None:
    """topology.md 2.1, 2.6, 3.2, 3.4: sets of domains are tried, those with the fewest first."""
    world = World(*nodes, *_unlike(*cpus, first=first, asks=RACKS)).settle()
    assert _where(world, len(places)) == places


@pytest.mark.parametrize(
    ("nodes", "racks"),
    [
        (_nodes("a", "b", "b", cpu=(60, 50, 50)), ["b"] * 66),
        (_nodes("a", "b", cpu=(50, 50)), ["a"] * 33 + ["b"] * 33),
        (_nodes("a", "b", "c", cpu=(9, 50, 50)), ["b"] * 33 + ["c"] * 33),
    ],
)
def test_large_gang_of_members_that_differ_fills_one_rack_after_the_other(nodes: list[Any], racks: list[str]) -> None:
    """topology.md 3.5: in the order of the ranks."""
    world = World(*nodes, *_unlike(*(1, 2) * 33, asks=RACKS)).settle()
    rack_of = {node.metadata.name: node.metadata.labels[RACK] for node in nodes}
    assert [rack_of[name] for name in _where(world, 66)] == racks


@pytest.mark.parametrize(("topology", "indexed"), [(None, True), (None, False), (RACK, False)])
def test_gang_without_these_rules_is_placed_as_if_they_did_not_exist(topology: str | None, indexed: bool) -> None:
    """topology.md 3.3, 5.2: indexes count only under a constraint, and a constraint arranges only by indexes."""
    crew, *pods = _crew(4, topology=topology)
    if not indexed:
        pods = [replace(item, metadata=replace(item.metadata, labels={})) for item in pods]
    assert _where(World(*_nodes("a", "a", cpu=(2, 4)), crew, *pods).settle(), 4) == ["n1", "n0", "n1", "n1"]


def test_member_that_fits_nowhere_does_not_count_among_those_that_are_placed_together() -> None:
    """topology.md 2.1: two of three, although the first by rank has no place."""
    crew = group("crew", min_count=2, annotations=RACKS)
    world = World(*_nodes("a", "b", cpu=(1, 2)), crew, *_unlike(5, 1, 1)[1:]).settle()
    assert _where(world, 3) == ["", "n1", "n1"]


def test_gang_with_no_better_places_gets_those_that_it_gets_without_the_annotation() -> None:
    """topology.md 2.3: in the order of the ranks the small member takes the only node of the large one."""
    crew = group("crew", min_count=2, annotations=RACKS)
    pods = [
        pod(f"m{i}", cpu=cpu, group="crew", labels={INDEX: str(i)}, ports=[8000 + i]) for i, cpu in enumerate((1, 3))
    ]
    retrying = profile_with(GangScheduling(RETRY))
    world = World(*_nodes("a", "b", cpu=(3, 1)), crew, *pods, profiles={retrying.name: retrying})
    assert _where(world.settle(), 2) == ["n1", "n0"]


@pytest.mark.parametrize("of", ["pods", "every group"])
def test_group_of_a_tree_is_placed_by_its_own_annotation(of: str) -> None:
    """topology.md 1.1."""
    root = composite("tree", min_groups=1)
    of_group = RACKS if of == "every group" else None
    if of_group is not None:
        root = replace(root, metadata=replace(root.metadata, annotations=of_group))
    crew = _crew(3, of_group, of_pods=RACKS if of == "pods" else None, parent="tree")
    assert _where(World(*_nodes("a", "b", "b", cpu=(4, 2, 1)), root, *crew).settle(), 3) == ["n1", "n1", "n2"]


@pytest.mark.parametrize("off", ["preferences", "gate"])
def test_switches(off: str) -> None:
    """topology.md 5.1: then members go where scores send them, and slices ask for nothing."""
    gates = FeatureGates(topology_aware_workload_scheduling=off != "gate")
    profile = default_profile(gates, compatible=off == "preferences")
    nodes = _nodes("a", "b", "c")
    for asked in (RACKS, {SLICE: "rack=3"}):
        world = World(*nodes, *_crew(3, asked), profiles={profile.name: profile}, gates=gates).settle()
        assert sorted(_where(world, 3)) == ["n0", "n1", "n2"]
        assert len(set(_where(World(*nodes, *_crew(3, asked)).settle(), 3))) == 1


@pytest.mark.parametrize(
    ("nodes", "crew", "why"),
    [
        (
            _nodes("a", "b", cpu=(2, 2)),
            _crew(3, {SLICE: "rack=3"}),
            f"slice rack=3: ranks 0-2 fit together in no domain of {RACK}",
        ),
        (
            _nodes("", "", cpu=(4, 4)),
            _crew(3, {SLICE: "rack=3"}),
            "slice rack=3: no node has the label of the level rack",
        ),
        (
            _nodes("a", "b"),
            [group("crew", min_count=1, annotations={SLICE: "rack=2"}), pod("m0", cpu=1, group="crew")],
            "slice rack=2: pod default/m0 has no index (leaderworkerset.sigs.k8s.io/worker-index, batch.",
        ),
        (
            _nodes("a", "b"),
            _crew(3, {SLICE: "rack=3"}, runs={0: "n0", 2: "n1"}),
            f"slice rack=3: ranks 0-2 run in several domains of {RACK}: a, b",
        ),
        (
            _nodes("a", "b", "b", cpu=(2, 1, 1)),
            _crew(3, {SLICE: "rack=3"}, topology=RACK),
            "0/2 placements are available, first placement status: slice rack=3: ranks 0-2 fit together in no",
        ),
    ],
)
def test_why_a_gang_cannot_be_sliced(nodes: list[Any], crew: list[Any], why: str) -> None:
    """topology.md 4.2, 4.3."""
    world = World(*nodes, *crew).settle()
    assert world.virtual.conditions["group/default/crew"].message.startswith(why)


def test_preemption_keeps_to_slices() -> None:
    """topology.md 4.5: two pods of one rack are evicted, although one of each rack would make as much room."""
    low = [pod(f"low-{name}", cpu=1, node=name) for name in ("n0", "n1", "n2", "n3")]
    nodes = _nodes("a", "b", "b", "a", cpu=(1, 1, 1, 1))
    world = World(*nodes, *low, *_crew(2, {SLICE: "rack=2"}, priority=5)).settle()
    assert sorted(_where(world, 2)) in (["n0", "n3"], ["n1", "n2"])


def test_preferred_levels_change_no_eviction() -> None:
    """topology.md 2.5: victims are the cheapest, and the gang goes where they were."""
    low = [pod(f"low-{i}", cpu=1, node=f"n{i}", priority=rank) for i, rank in enumerate((1, 2, 2, 1))]
    nodes = _nodes("a", "b", "b", "c", cpu=(1, 1, 1, 1))
    assert _where(World(*nodes, *low, *_crew(2, RACKS, priority=5)).settle(), 2) == ["n0", "n3"]


def test_groups_of_a_tree_share_domains() -> None:
    """topology.md 2.4: the annotation of the root counts for both groups together."""
    root = composite("tree", min_groups=2)
    root = replace(root, metadata=replace(root.metadata, annotations=RACKS))
    aide = [group("aide", min_count=1, parent="tree"), pod("aide-0", cpu=2, group="aide")]
    world = World(*_nodes("a", "b", "b", cpu=(3, 4, 2)), root, *_crew(2, parent="tree"), *aide).settle()
    assert "n0" not in {*_where(world, 2), world.where["aide-0"]}


@pytest.mark.parametrize(("above", "name"), [(RACKS, "n1"), ({}, "n0")])
def test_domain_in_which_another_group_of_the_tree_runs_is_in_use(above: dict[str, str], name: str) -> None:
    """topology.md 2.4: if the annotation stands on the composite, and not if the group has its own."""
    root = composite("tree", min_groups=1)
    root = replace(root, metadata=replace(root.metadata, annotations=above))
    aide = [group("aide", min_count=1, parent="tree"), pod("aide-0", cpu=1, group="aide", node="n1")]
    world = World(*_nodes("a", "b", cpu=(2, 4)), root, *aide, *_crew(2, None if above else RACKS, parent="tree"))
    assert _where(world.settle(), 2) == [name] * 2


@pytest.mark.parametrize(
    ("above", "name"),
    [
        ({"tree": RACKS}, "n1"),
        ({"top": RACKS}, "n1"),
        ({"top": RACKS, "left": RACKS}, "n1"),
        ({"left": RACKS}, "n0"),
        ({"right": RACKS, "left": RACKS}, "n0"),
        ({"top": {PREFERRED_TOPOLOGY: "host"}, "left": RACKS}, "n0"),
    ],
)
def test_groups_of_all_composites_below_a_preference_share_domains(above: dict[str, dict[str, str]], name: str) -> None:
    """topology.md 1.1, 2.4: the nearest annotation counts, and the composites between may have the same or none."""
    parents = {"tree": "", "top": "tree", "left": "top", "right": "top"}
    tree = [composite(part, min_groups=1, parent=parent) for part, parent in parents.items()]
    tree = [replace(c, metadata=replace(c.metadata, annotations=above.get(c.metadata.name, {}))) for c in tree]
    aide = [group("aide", min_count=1, parent="right"), pod("aide-0", cpu=1, group="aide", node="n1")]
    world = World(*_nodes("a", "b", cpu=(2, 4)), *tree, *aide, *_crew(2, parent="left"))
    assert _where(world.settle(), 2) == [name] * 2


def test_no_group_of_a_tree_waits_for_the_preference_of_another() -> None:
    """topology.md 2.4: packed by racks the first groups would leave too little for the last."""
    root = composite("tree", min_groups=3)
    root = replace(root, metadata=replace(root.metadata, annotations=RACKS))
    sizes = (("one", 1, 1), ("two", 2, 1), ("three", 3, 2))
    groups = [group(name, min_count=size, parent="tree") for name, size, _ in sizes]
    pods = [pod(f"{name}-{i}", cpu=cpu, group=name) for name, size, cpu in sizes for i in range(size)]
    world = World(*_nodes("a", "b", "a", cpu=(3, 4, 3)), root, *groups, *pods).settle()
    assert world.pending == []
