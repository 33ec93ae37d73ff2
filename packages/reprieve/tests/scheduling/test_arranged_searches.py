"""How long places of members that differ are searched, and which filters apply to them (topology.md 2, 3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.topology_terms import PREFERRED_TOPOLOGY
from reprieve.framework.gates import FeatureGates
from reprieve.scheduling import arranged_groups, tree_algorithm
from reprieve.scheduling.profiles import default_profile
from reprieve.scheduling.rank_order import STEPS, FewestBreaks
from tests.building import World, composite, group, node, pod

RACK = "topology.kubernetes.io/rack"
INDEX = "batch.kubernetes.io/job-completion-index"
RACKS = {PREFERRED_TOPOLOGY: "rack"}


def _rack(name: str, *nodes: int, **more: Any) -> list[Any]:
    return [node(f"{name}{i}", cpu=cpu, labels={RACK: name}, **more) for i, cpu in enumerate(nodes)]


def _crew(asks: Sequence[Mapping[str, Any]], *, least: int | None = None, **more: Any) -> list[Any]:
    """Return a gang with racks preferred, and its members m0, m1... by rank with what they ask for."""
    members = [pod(f"m{i}", group="crew", labels={INDEX: str(i), "app": "x"}, **each) for i, each in enumerate(asks)]
    return [group("crew", min_count=least or len(asks), annotations=RACKS, **more), *members]


def _where(world: World, size: int) -> list[str]:
    return [world.where.get(f"m{rank}", "") for rank in range(size)]


@contextmanager
def _searches(*, domains: bool = False) -> Iterator[list[int]]:
    """Collect of each search for places the number of its steps, or of the domains."""
    collected: list[int] = []
    run = FewestBreaks.run

    def counted(search: FewestBreaks) -> list[int] | None:
        before = search.steps
        result = run(search)
        collected.append(len({item.domain for item in search.bins}) if domains else before - search.steps)
        return result

    with mock.patch.object(FewestBreaks, "run", counted):
        yield collected


# Of three members, two with 2 CPUs and one with 1.9, only two fit in a rack of two nodes with 3 CPUs.
THREE: list[dict[str, Any]] = [{"cpu": 2}, {"cpu": 2}, {"cpu": "1900m"}]


@pytest.mark.parametrize(
    ("placed", "searches"), [(2_048, 24), (30, 10), (3, 4)], ids=["24 sets", "fewer for large gangs", "at least four"]
)
def test_so_many_sets_of_domains_are_searched(placed: int, searches: int) -> None:
    """topology.md 2.6: of 30 racks each has the sum of the requests, and none holds the members."""
    world = World(*(item for i in range(30) for item in _rack(f"r{i:02}-", 3, 3)), *_crew(THREE))
    with mock.patch.object(arranged_groups, "_MOST_PLACED", placed), _searches() as steps:
        world.settle()
    assert len(steps) == searches
    assert "" not in _where(world, 3)


@pytest.mark.parametrize(("asked", "single"), [("1900m", 3), ("2001m", 0)])
def test_racks_without_the_sum_of_the_requests_are_not_searched(asked: str, single: int) -> None:
    """topology.md 2.6: a full node adds nothing."""
    racks = [item for name in "abc" for item in [*_rack(name, 3, 3), *_rack(f"{name}-", 1)]]
    racks = [replace(n, metadata=replace(n.metadata, labels={RACK: n.metadata.name[0]})) for n in racks]
    full = [pod(f"full-{name}", cpu=1, node=f"{name}-0") for name in "abc"]
    world = World(*racks, *full, *_crew([{"cpu": 2}, {"cpu": 2}, {"cpu": asked}]))
    with _searches() as steps:
        world.settle()
    assert len(steps) == single + 1, "single racks, each once, and two racks together"
    assert len({name[0] for name in _where(world, 3)}) == 2


def test_all_searches_of_a_gang_share_their_steps() -> None:
    """topology.md 2.6, 3.5: by what they used; when they are used up the group's algorithm is asked instead."""
    world = World(*(item for i in range(30) for item in _rack(f"r{i:02}-", 3, 3)), *_crew(THREE))
    with _searches() as alone:
        world.settle()
    used = alone[0]
    assert alone == [used] * 24
    for allowed, searches in ((12 * used, 24), (6 * used, 12), (3 * used, 6)):
        world = World(*(item for i in range(30) for item in _rack(f"r{i:02}-", 3, 3)), *_crew(THREE))
        with mock.patch.object(arranged_groups, "STEPS", allowed), _searches() as steps:
            world.settle()
        assert steps == [used] * searches
    assert 24 * used < STEPS


def test_search_ends_with_the_fewest_breaks_that_there_can_be() -> None:
    """topology.md 3.5: two racks have at least one break, so that no other order is looked for."""
    world = World(
        *_rack("a", 4), *_rack("b", 4), *_rack("c", 2), *_crew([{"cpu": 1}, {"cpu": 3}, {"cpu": 2}, {"cpu": 2}])
    )
    with _searches() as steps:
        world.settle()
    assert _where(world, 4) == ["a0", "a0", "b0", "b0"]
    assert steps == [6]


@pytest.mark.parametrize(("members", "searched"), [(64, True), (65, False)])
def test_up_to_64_members_are_searched(members: int, searched: bool) -> None:
    """topology.md 3.5."""
    world = World(*_rack("a", 200), *_rack("b", 300), *_crew([{"cpu": 1 + i % 2} for i in range(members)]))
    with _searches() as steps:
        world.settle()
    assert bool(steps) is searched
    assert _where(world, members) == ["a0"] * members


@pytest.mark.parametrize(("nodes", "searched"), [(64, True), (65, False)])
def test_up_to_64_nodes_are_searched(nodes: int, searched: bool) -> None:
    """topology.md 3.5."""
    world = World(*_rack("a", *[3] * nodes), *_crew([{"cpu": 1}, {"cpu": 2}]))
    with _searches() as steps:
        world.settle()
    assert bool(steps) is searched
    assert "" not in _where(world, 2)


def test_large_gang_takes_the_node_where_it_leaves_least() -> None:
    """topology.md 3.5: members without GPUs use nodes that have none, or that have one left of two."""
    asks: list[dict[str, Any]] = [*[{"cpu": 1}] * 66, {"cpu": 2}, {"cpu": 1, "gpu": 1}]
    nodes = [
        node("none", cpu=40, labels={RACK: "a"}),
        node("one", cpu=20, gpu=1, labels={RACK: "a"}),
        node("two", cpu=80, gpu=2, labels={RACK: "a"}),
        pod("taken", gpu=1, node="two"),
    ]
    assert _where(World(*nodes, *_crew(asks)).settle(), 68) == [*["none"] * 40, *["two"] * 28]


def test_ports_apply_to_members_that_differ() -> None:
    """topology.md 2.3: the rack that is large enough has one node, and the members have the same port."""
    asks: list[dict[str, Any]] = [{"cpu": 1, "ports": [80]}, {"cpu": 2, "ports": [80]}]
    world = World(*_rack("a", 3), *_rack("b", 9), *_rack("c", 4, 4), *_crew(asks)).settle()
    assert _where(world, 2) == ["c0", "c1"]


def test_members_are_exchanged_only_if_they_pass_all_filters_in_that_order() -> None:
    """topology.md 2.3, 3.2: of members that spread over nodes the second is not placed beside the first."""
    spread = objects.TopologySpreadConstraint(
        max_skew=1,
        topology_key="kubernetes.io/hostname",
        when_unsatisfiable="DoNotSchedule",
        label_selector=objects.LabelSelector(match_labels={"app": "x"}),
    )
    nodes = [node(f"n{i}", cpu=2, labels={RACK: "a", "kubernetes.io/hostname": f"n{i}"}) for i in range(2)]
    crew, *members = _crew([{"cpu": 1}] * 4)
    members = [replace(p, spec=replace(p.spec, topology_spread_constraints=(spread,))) for p in members]
    places = _where(World(*nodes, crew, *members).settle(), 4)
    assert sorted(places[:2]) == sorted(places[2:]) == ["n0", "n1"]


def test_members_that_are_left_over_have_the_reason() -> None:
    """topology.md 2.1: the lowest ranks are placed, whichever members had no place before."""
    asks: list[dict[str, Any]] = [{"cpu": 1}] * 4
    crew, *members = _crew(asks, least=2)
    decision = World(*_rack("a", 2), *_rack("b", 1), crew, *members[::-1]).step()
    assert sorted(b.pod.name for b in decision.bindings) == ["m0", "m1", "m2"]
    assert [(r.pod.name, "Insufficient cpu" in r.message) for r in decision.rejections] == [("m3", True)]
    crew, *members = _crew([{"cpu": 9}, {"cpu": 1, "selector": {"none": ""}}, {"cpu": 1}, {"cpu": 1}], least=2)
    decision = World(*_rack("a", 2), *_rack("b", 1), crew, *members).step()
    assert sorted(b.pod.name for b in decision.bindings) == ["m2", "m3"]
    why = {r.pod.name: r.message for r in decision.rejections}
    assert "Insufficient cpu" in why["m0"]
    assert "affinity" in why["m1"]


@pytest.mark.parametrize(
    ("on_tree", "on_group", "indexed", "places"),
    [
        (None, RACK, True, ["n0", "n1", "n1", "n1"]),
        (RACK, None, True, ["n0", "n1", "n1", "n1"]),
        (None, RACK, False, ["n1", "n0", "n1", "n1"]),
        (RACK, None, False, ["n1", "n0", "n1", "n1"]),
        (None, None, True, ["n1", "n0", "n1", "n1"]),
    ],
)
def test_ranks_count_in_a_tree_with_a_constraint(
    on_tree: str | None, on_group: str | None, indexed: bool, places: list[str]
) -> None:
    """topology.md 3.3, 5.2: on a group or above it; without one, or without indexes, nothing is arranged."""
    nodes = [node(f"n{i}", cpu=cpu, labels={RACK: "a"}) for i, cpu in enumerate((2, 4))]
    crew = group("crew", min_count=4, topology=on_group, parent="tree")
    members = [pod(f"m{i}", cpu=1, group="crew", labels={INDEX: str(i)} if indexed else {}) for i in (3, 2, 1, 0)]
    world = World(*nodes, composite("tree", min_groups=1, topology=on_tree), crew, *members)
    with mock.patch.object(tree_algorithm, "arranged", wraps=arranged_groups.arranged) as arranged:
        world.settle()
    assert _where(world, 4) == places
    assert arranged.called is (indexed and bool(on_tree or on_group))


@pytest.mark.parametrize("compatible", [False, True])
def test_preference_of_a_tree_can_be_turned_off(compatible: bool) -> None:
    """topology.md 5.1."""
    tree = composite("tree", min_groups=1)
    tree = replace(tree, metadata=replace(tree.metadata, annotations=RACKS))
    members = [pod(f"m{i}", cpu=1, group="crew") for i in range(3)]
    profile = default_profile(FeatureGates(), compatible=compatible)
    world = World(
        *_rack("a", 4), *_rack("b", 4), *_rack("c", 4), tree, group("crew", min_count=3, parent="tree"), *members,
        profiles={profile.name: profile},
    )  # fmt: skip
    assert len(set(_where(world.settle(), 3))) == (3 if compatible else 1)


@pytest.mark.parametrize(
    ("racks", "tried"),
    [(96, [1] * 24), (97, [1, 2, 3, 4, 5, 6, 7, 8, 10, 14, 22, 38, 70])],
    ids=["each of few", "the largest of many"],
)
def test_with_many_domains_fewer_and_fewer_sets_are_searched(racks: int, tried: list[int]) -> None:
    """topology.md 2.6: none has the smallest rack, which alone has the node of one member."""
    nodes = [item for i in range(racks - 1) for item in _rack(f"r{i:02}-", 8)]
    small = node("small", cpu=1, labels={RACK: "small", "disk": "ssd"})
    asks: list[dict[str, Any]] = [{"cpu": "500m", "selector": {"disk": "ssd"}}, {"cpu": 1}, {"cpu": 1}]
    world = World(*nodes, small, *_crew(asks))
    with mock.patch.object(arranged_groups, "_MOST_SEARCHED", 1 << 20), _searches(domains=True) as sizes:
        world.settle()
    assert sizes == tried
    assert "" not in _where(world, 3)


def test_among_many_domains_those_in_use_are_in_every_set() -> None:
    """topology.md 2.1: the largest beside the rack where a member runs, after the smallest that might do."""
    racks = [item for i in range(97) for item in _rack(f"r{i:02}-", 3, 3)]
    running, *others = _crew([{"cpu": 2, "node": "r50-0"}, *THREE])[1:]
    world = World(*racks, *_rack("small", 2), group("crew", min_count=4, annotations=RACKS), running, *others)
    with mock.patch.object(arranged_groups, "_MOST_SEARCHED", 1 << 20), _searches(domains=True) as sizes:
        world.settle()
    assert sizes == [2, 2]
    assert len({name[:3] for name in _where(world, 4)}) == 2
