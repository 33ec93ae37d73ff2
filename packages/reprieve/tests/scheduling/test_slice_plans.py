"""Slices that are not whole, searches for slices, and slices under a constraint (topology.md 4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
from msgspec.structs import replace

from kube_rules.topology_terms import PREFERRED_TOPOLOGY, SLICE
from reprieve.scheduling import slice_units
from reprieve.scheduling.placement_counts import holds_at_most
from reprieve.scheduling.rank_order import FewestBreaks
from tests.building import World, composite, group, node, pod, profile_with
from tests.scheduling.test_group_placements import Unsigned

RACK = "topology.kubernetes.io/rack"
INDEX = "batch.kubernetes.io/job-completion-index"
PAIRS = {SLICE: "rack=2"}


def _nodes(*cpu: int, **more: Any) -> list[Any]:
    """Return nodes n0, n1... each in a rack of its own."""
    return [node(f"n{i}", cpu=cores, labels={RACK: f"r{i:02}"}, **more) for i, cores in enumerate(cpu)]


def _crew(asks: Mapping[int, Mapping[str, Any]], annotations: dict[str, str] | None = None, **more: Any) -> list[Any]:
    """Return a gang and what its members ask for, by rank; there may be ranks without one."""
    of_pods = more.pop("of_pods", None)
    members = [
        pod(f"m{rank}", group="crew", labels={INDEX: str(rank)}, annotations=of_pods, **each)
        for rank, each in asks.items()
    ]
    return [group("crew", min_count=len(asks), annotations=annotations, **more), *members]


def _where(world: World, ranks: Sequence[int]) -> list[str]:
    return [world.where.get(f"m{rank}", "") for rank in ranks]


@contextmanager
def _searches() -> Iterator[mock.Mock]:
    with mock.patch.object(FewestBreaks, "run", autospec=True, side_effect=FewestBreaks.run) as run:
        yield run


@pytest.mark.parametrize(
    ("nodes", "slice_size", "ranks", "runs", "places"),
    [
        # Of two parts the first takes the place of no whole slice, and the last comes beside it.
        ((4, 5, 1), 3, (0, 1, 3), {}, ["n1", "n1", "n1"]),
        # The fullest that loses no whole slice.
        ((3, 5), 2, (0, 2), {}, ["n0", "n0"]),
        # A rack where another slice runs, although another one is fuller.
        ((1, 5), 2, (0, 1, 2, 4), {0: "n1", 1: "n1"}, ["n1", "n1", "n1", "n1"]),
        # The rest of a slice takes its part of the rack where that runs: none is left for a whole one.
        ((3, 4, 2, 2), 2, (0, 1, 2, 3, 4, 5), {0: "n0"}, ["n0", "n0", "n1", "n1", "n1", "n1"]),
        # A part that comes before whole slices leaves two places to each of them.
        ((5, 4), 2, (0, 2, 3, 4, 5, 6, 7, 8), {}, ["n0", "n1", "n1", "n1", "n1", "n0", "n0", "n0"]),
    ],
)  # fmt: skip
def test_slices_with_missing_members_are_planned_with_the_others(
    nodes: tuple[int, ...], slice_size: int, ranks: Sequence[int], runs: dict[int, str], places: list[str]
) -> None:
    """topology.md 4.1, 4.4: members of some ranks do not exist; as few racks as possible, the fullest that fit."""
    asks = {rank: {"cpu": 1, "node": runs.get(rank, "")} for rank in ranks}
    world = World(*_nodes(*nodes), *_crew(asks, {SLICE: f"rack={slice_size}"})).settle()
    assert _where(world, ranks) == places


def test_running_members_of_other_slices_may_have_no_index_or_no_domain() -> None:
    """topology.md 4.2, 4.3: the rest of a slice is placed where its member runs."""
    nodes = [*_nodes(2, 4), node("bare", cpu=4)]
    asks = {rank: {"cpu": 1, "node": where} for rank, where in enumerate(("bare", "bare", "n1", ""))}
    crew = _crew(asks, PAIRS)
    without = pod("a-first", cpu=1, group="crew", node="n0")
    assert World(*nodes, *crew, without).settle().where["m3"] == "n1"


@pytest.mark.parametrize(("levels", "racks"), [("rack,block", 2), ("block,rack", 3)])
def test_level_of_the_slices_counts_at_its_place_among_the_preferred(levels: str, racks: int) -> None:
    """topology.md 2.1, 4.4: two racks of two blocks, or three racks of one."""
    nodes = [
        node(f"n{i}", cpu=cpu, labels={RACK: f"r{i}", "topology.kubernetes.io/block": "a" if i < 1 else "b"})
        for i, cpu in enumerate((4, 2, 2, 2))
    ]
    crew = _crew({rank: {"cpu": 1} for rank in range(6)}, {**PAIRS, PREFERRED_TOPOLOGY: levels})
    assert len(set(_where(World(*nodes, *crew).settle(), range(6)))) == racks


def test_message_names_the_ranks_of_the_first_slice_without_a_domain() -> None:
    """topology.md 4.2."""
    world = World(*_nodes(2, 1), *_crew({rank: {"cpu": 1} for rank in range(4)}, PAIRS)).settle()
    why = f"slice rack=2: ranks 2-3 fit together in no domain of {RACK}"
    assert world.virtual.conditions["group/default/crew"].message.startswith(why)


def test_slices_of_pods_that_cannot_be_compared_are_tried_in_all_domains() -> None:
    """topology.md 4.6: the first rack is too small for one slice, and holds the other."""
    profile = profile_with(Unsigned())
    asks = {rank: {"cpu": cpu} for rank, cpu in enumerate((2, 2, 1, 1))}
    world = World(*_nodes(3, 4), *_crew(asks, PAIRS), profiles={profile.name: profile})
    assert _where(world.settle(), range(4)) == ["n1", "n1", "n0", "n0"]


def test_slices_are_searched_together_whole() -> None:
    """topology.md 4.6: split anywhere one break would do, and with whole slices the middle one is apart."""
    asks = {rank: {"cpu": cpu} for rank, cpu in enumerate((3, 1, 1, 2, 2, 2))}
    world = World(*_nodes(8, 3), *_crew(asks, PAIRS)).settle()
    assert _where(world, range(6)) == ["n0", "n0", "n1", "n1", "n0", "n0"]


def test_member_without_a_request_needs_none_of_it_in_a_search() -> None:
    """topology.md 4.6: the first takes all the memory of its node."""
    asks: dict[int, dict[str, Any]] = {
        0: {"cpu": 1, "memory": "1Gi"},
        **{i: {"cpu": 2, "memory": 0} for i in (1, 2, 3)},
    }
    with _searches() as run:
        world = World(*_nodes(4, 3, memory="1Gi"), *_crew(asks, PAIRS)).settle()
    assert run.called
    assert _where(world, range(4)) == ["n1", "n1", "n0", "n0"]


@pytest.mark.parametrize(
    ("asks", "nodes", "searched"),
    [
        ([{"cpu": 2}] * 4, 2, False),
        ([{"cpu": 2}, {"cpu": "1500m"}], 2, True),
        ([{"cpu": 2}, {"cpu": "1500m"}] * 32, 2, True),
        ([{"cpu": 2}, {"cpu": "1500m"}] * 33, 2, False),
        ([{"cpu": 2}, {"cpu": "1500m"}], 64, True),
        ([{"cpu": 2}, {"cpu": "1500m"}], 65, False),
    ],
    ids=["alike", "different", "64 members", "66 members", "64 nodes", "65 nodes"],
)
def test_slices_are_searched_together_for_few_that_differ(
    asks: list[dict[str, Any]], nodes: int, searched: bool
) -> None:
    """topology.md 4.6: up to 64 members and 64 nodes; here one node is large enough for any member alone."""
    machines = [node(f"n{i}", cpu=1 if i else 2, labels={RACK: "a"}) for i in range(nodes)]
    world = World(*machines, *_crew(dict(enumerate(asks)), {SLICE: f"rack={len(asks)}"}))
    with _searches() as run:
        world.settle()
    assert run.called is searched


def test_capacity_for_slices_is_counted_once_for_alike_slices() -> None:
    """topology.md 4.6: of three slices with the same requests, and one with others."""
    asks = {rank: {"cpu": cpu} for rank, cpu in enumerate((1, 2, 1, 2, 1, 2, 2, 2))}
    world = World(*_nodes(6, 9), *_crew(asks, PAIRS))
    with mock.patch.object(slice_units, "holds_at_most", wraps=holds_at_most) as counted:
        world.step()
    assert counted.call_count == 2


def test_slice_that_fits_is_placed_after_one_that_does_not() -> None:
    """topology.md 4.2: the gang reaches its minimum with it."""
    crew, *members = _crew({0: {"cpu": 4}, 1: {"cpu": 1}, 2: {"cpu": 2}, 3: {"cpu": 1}}, PAIRS)
    crew = replace(crew, spec=group("crew", min_count=2).spec)
    assert _where(World(*_nodes(3), crew, *members).settle(), range(4)) == ["", "", "n0", "n0"]


def test_part_of_a_slice_without_capacity_waits() -> None:
    """topology.md 4.2: the gang has its minimum without it."""
    crew, *members = _crew({0: {"cpu": 1}, 2: {"cpu": 1}}, PAIRS)
    crew = replace(crew, spec=group("crew", min_count=1).spec)
    assert _where(World(*_nodes(1), crew, *members).settle(), (0, 2)) == ["n0", ""]


@pytest.mark.parametrize("stated", ["on the tree", "on the group", "on the pods"])
def test_constraint_is_met_where_slices_fit(stated: str) -> None:
    """topology.md 1.1, 4.2: the first zone has more capacity, but no rack of it has enough for a slice."""
    nodes = [
        node(f"n{i}", cpu=cpu, labels={"zone": zone, RACK: f"r{i}"})
        for i, (zone, cpu) in enumerate([("a", 1), ("a", 1), ("a", 1), ("b", 2)])
    ]
    tree, of_group, of_pods = (PAIRS if stated.endswith(place) else {} for place in ("tree", "group", "pods"))
    root = composite("tree", min_groups=1)
    root = replace(root, metadata=replace(root.metadata, annotations=tree))
    crew = _crew({0: {"cpu": 1}, 1: {"cpu": 1}}, of_group, of_pods=of_pods, topology="zone", parent="tree")
    assert _where(World(*nodes, root, *crew).settle(), range(2)) == ["n3", "n3"]


@pytest.mark.parametrize("stated", ["on the tree", "on the group", "on the pods"])
def test_tree_with_slices_does_not_share_results_with_a_tree_without(stated: str) -> None:
    """topology.md 4.2: of six zones one has a rack for two members; both trees have one kind of members."""
    nodes = [
        node(f"n{zone}{i}", cpu=1, labels={"zone": f"{zone}", RACK: f"r{zone}{'' if zone == 4 else i}"})
        for zone in range(6)
        for i in range(2)
    ]
    plain = [composite("plain", min_groups=1, topology="zone"), group("aide", min_count=2, parent="plain")]
    plain += [pod(f"a{i}", cpu=1, group="aide", labels={INDEX: str(i)}) for i in range(2)]
    tree = composite("tree", min_groups=1, topology="zone")
    if stated == "on the tree":
        tree = replace(tree, metadata=replace(tree.metadata, annotations=PAIRS))
    of_group, of_pods = (PAIRS if stated == place else None for place in ("on the group", "on the pods"))
    crew = _crew({0: {"cpu": 1}, 1: {"cpu": 1}}, of_group, of_pods=of_pods, parent="tree")
    world = World(*nodes, *plain).settle()
    assert world.where["a0"][:2] == world.where["a1"][:2] != "n4"
    assert _where(world.add(tree, *crew).settle(), range(2)) == ["n40", "n41"]
