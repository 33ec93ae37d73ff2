"""TopologyPlacement, PodGroupPodsCount and the placement score of NodeResourcesFit (KEP-5732), asked directly."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from kube_rules.meta import ObjectRef
from reprieve.cluster.pods import NO_ROW
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.framework.plugin import Placement
from reprieve.framework.status import PlacementError
from reprieve.plugins.node_resources_fit import NodeResourcesFit
from reprieve.plugins.pod_group_pods_count import PodGroupPodsCount
from reprieve.plugins.topology_placement import TopologyPlacement
from tests.building import GPU, World, group, node, pod


def _generated(world: World, name: str = "crew") -> dict[str, list[str]] | None:
    cluster = world.engine.cluster
    found = TopologyPlacement().generate(cluster, cluster.groups[f"default/{name}"])
    if found is None:
        return None
    return {placement.name: sorted(cluster.nodes.names[row] for row in placement.rows) for placement in found}


def _racks(*sizes: int) -> list[Any]:
    return [node(f"r{r}n{i}", labels={"rack": f"r{r}"}) for r, size in enumerate(sizes) for i in range(size)]


def test_without_a_constraint_it_has_no_opinion() -> None:
    """KEP-5732: only a group with a constraint is bound to a domain."""
    assert _generated(World(*_racks(1, 1), group("crew"))) is None


def test_domain_is_the_nodes_with_one_value_and_nodes_without_the_label_belong_to_none() -> None:
    """KEP-5732, phase 1: "Iterate over distinct values of the topology label"; an empty value is a value."""
    world = World(*_racks(2, 1), node("bare"), node("blank", labels={"rack": ""}), group("crew", topology="rack"))
    assert _generated(world) == {"": ["blank"], "r0": ["r0n0", "r0n1"], "r1": ["r1n0"]}


def test_nodes_without_the_label() -> None:
    """KEP-5732: no valid partitions are an empty list."""
    assert _generated(World(*_racks(2), group("crew", topology="zone"))) == {}


@pytest.mark.parametrize("seed", range(5))
def test_order_of_the_nodes_does_not_matter(seed: int) -> None:
    """preemption.md 4: "in whatever order objects arrived"; placements come by name."""
    nodes = _racks(2, 3, 1)
    random.Random(seed).shuffle(nodes)
    found = _generated(World(*nodes, group("crew", topology="rack")))
    assert found is not None
    assert list(found) == ["r0", "r1", "r2"]
    assert found["r1"] == ["r1n0", "r1n1", "r1n2"]


def test_removed_nodes_are_in_no_placement() -> None:
    world = World(*_racks(1, 2), group("crew", topology="rack"))
    world.engine.remove(ObjectRef("Node", "r0n0"), world.now)
    world.engine.remove(ObjectRef("Node", "r1n0"), world.now)
    assert _generated(world) == {"r1": ["r1n1"]}


def test_later_members_follow_those_that_run() -> None:
    """KEP-5732: a domain in which pods of the group run is the only placement."""
    world = World(*_racks(2, 2), group("crew", topology="rack"), pod("a", cpu=1, node="r1n0", group="crew"))
    assert _generated(world) == {"r1": ["r1n0", "r1n1"]}


def test_leaving_members_bind_no_others() -> None:
    """A terminating member counts for nothing in its group (scheduling.md 7)."""
    leaving = pod("a", cpu=1, node="r1n0", group="crew", terminating=True)
    assert _generated(World(*_racks(1, 1), group("crew", topology="rack"), leaving)) == {"r0": ["r0n0"], "r1": ["r1n0"]}


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        (("r0n0", "r1n0"), "more than 1 domain found for pod group: r0, r1"),
        (("bare",), "no topology domain found for pod default/m0"),
        (("unknown",), "no topology domain found for pod default/m0"),
    ],
)
def test_members_in_no_one_domain_are_an_error(nodes: tuple[str, ...], why: str) -> None:
    """Upstream's words (plugins/topologyaware): such a group has no right placement."""
    members = [pod(f"m{i}", cpu=1, node=name, group="crew") for i, name in enumerate(nodes)]
    world = World(*_racks(1, 1), node("bare"), group("crew", topology="rack"), *members)
    with pytest.raises(PlacementError, match=f"^cannot determine domain for already scheduled pods: {why}$"):
        _generated(world)


@pytest.mark.parametrize(
    ("kind", "where", "of", "helps"),
    [
        (EventKind.NODE_ADDED, "r0n0", None, True),
        (EventKind.NODE_CHANGED, "r0n0", None, True),
        (EventKind.NODE_ADDED, "bare", None, False),
        (EventKind.POD_GONE, "r0n0", "default/crew", True),
        (EventKind.POD_GONE, "r0n0", "default/other", False),
        (EventKind.GROUP_CHANGED, "", "default/crew", True),
    ],
)
def test_events_that_may_help(kind: EventKind, where: str, of: str | None, helps: bool) -> None:
    """scheduling.md 1: hints. A node counts if it has the label."""
    world = World(*_racks(1), node("bare"), group("crew", topology="rack"), pod("p", cpu=99, group="crew"))
    hint = TopologyPlacement().events()[kind]
    event = ClusterEvent(kind, row=world.row(where) if where else -1, group=of)
    assert hint(world.engine.cluster, world.record("p"), event) is helps


# -- scores --------------------------------------------------------------------------------------------------------


def test_more_pods_are_better_in_proportion_to_the_most() -> None:
    """PodGroupPodsCount: pods that run plus those placed, 100 for the most, rounded down."""
    world = World(*_racks(3), group("crew", topology="rack"), pod("a", cpu=1, node="r0n0", group="crew"))
    world.add(pod("p", cpu=1, group="crew"), pod("q", cpu=1, group="crew"))
    cluster, plugin = world.engine.cluster, PodGroupPodsCount()
    state, placement = cluster.groups["default/crew"], Placement("r0", np.array([0]))
    waiting = [(world.record(name), NO_ROW) for name in "pq"]
    assert [plugin.score_placement(cluster, state, placement, waiting[:n]) for n in (0, 1, 2)] == [1, 2, 3]
    assert list(plugin.normalize_placements([1, 2, 3])) == [33, 66, 100]
    assert list(plugin.normalize_placements([0, 0])) == [0, 0]


def _fullness(world: World, nodes: list[str], pods: list[str], plugin: NodeResourcesFit | None = None) -> int:
    cluster = world.engine.cluster
    rows = np.array(sorted(world.row(name) for name in nodes))
    assigned = [(world.record(name), NO_ROW) for name in pods]
    return (plugin or NodeResourcesFit()).score_placement(
        cluster, cluster.groups["default/crew"], Placement("it", rows), assigned
    )


def test_fuller_placement_is_better() -> None:
    """NodeResourcesFit, KEP-5732: share of what all nodes together have, with the pods there; the mean."""
    world = World(
        *[node(f"n{i}", cpu=4, memory="8Gi") for i in range(3)],
        group("crew", topology="rack"),
        pod("runs", cpu=2, memory="4Gi", node="n0"),
        pod("p", cpu=1, memory="2Gi", group="crew"),
        pod("q", cpu=1, memory="4Gi", group="crew"),
    )
    assert _fullness(world, ["n0", "n1"], ["p", "q"]) == (50 + 62) // 2  # cpu 4 of 8, memory 10 of 16
    assert _fullness(world, ["n1", "n2"], ["p", "q"]) == (25 + 37) // 2
    assert _fullness(world, ["n1"], []) == 0


def test_resources_and_weights_are_those_of_the_plugin_but_not_the_strategy() -> None:
    """Kubernetes documentation: the type counts only for nodes; "Placement scoring always uses MostAllocated"."""
    world = World(
        node("n0", cpu=4, gpu=4),
        node("n1", cpu=4),
        group("crew", topology="rack"),
        pod("p", cpu=3, gpu=1, group="crew"),
        pod("q", cpu=3, group="crew"),
    )
    plugin = NodeResourcesFit([("cpu", 1), (GPU, 3)])
    assert _fullness(world, ["n0"], ["p"], plugin) == (75 + 3 * 25) // 4
    assert _fullness(world, ["n0"], ["q"], plugin) == 75  # no pod requests the gpu
    assert _fullness(world, ["n1"], ["p"], plugin) == 75  # there is no gpu to fill


def test_resource_without_a_column_of_nodes_counts_for_nothing() -> None:
    """The table of resources may know more names than the nodes have columns: no node has any of the last one."""
    world = World(node("n0", cpu=4), group("crew", topology="rack"), pod("p", cpu=3, group="crew"))
    cluster = world.engine.cluster
    width = len(cluster.nodes.allocatable)
    number = 0
    while (column := cluster.resources.column(f"example.com/r{number}")) < width:
        number += 1
    assert column == width
    plugin = NodeResourcesFit([("cpu", 1), (f"example.com/r{number}", 3)])
    assert _fullness(world, ["n0"], ["p"], plugin) == 75


def test_sums_of_the_largest_amounts_are_exact() -> None:
    """A placement of many nodes with the largest amounts there are does not wrap around."""
    huge = [node(f"n{i:03}", cpu=1, memory=str(1 << 56), pods=10) for i in range(300)]
    world = World(*huge, group("crew", topology="rack"), pod("p", memory=str(1 << 56), group="crew"))
    fit = NodeResourcesFit([("memory", 1)])
    assert _fullness(world, [f"n{i:03}" for i in range(300)], ["p"] * 150, fit) == 50
