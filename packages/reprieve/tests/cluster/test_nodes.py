"""Nodes as columns: what is read of a row is what its node was last set to, whatever came and went before."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from kube_rules import objects
from reprieve.cluster.nodes import ABSENT, NodeColumns
from reprieve.cluster.resources import (
    CPU,
    LIMIT,
    MEMORY,
    MOST_UNOFFERED,
    PODS,
    SCORING_CPU,
    SCORING_MEMORY,
    SERVED,
    ResourceTable,
)
from reprieve.cluster.state import ClusterState
from tests.building import World, node, pod

FEATURE = "VolumeBindMountOptions"
"""One of the declared features that decide something."""
NO_MATTER = "NoMatter"


def _image(*names: str, size: int = 1) -> objects.ContainerImage:
    return objects.ContainerImage(names=names, size_bytes=size)


def _node(name: str, *, features: tuple[str, ...] = (), images: tuple[Any, ...] = (), **more: Any) -> objects.Node:
    made = node(name, **more)
    return msgspec.structs.replace(
        made, status=msgspec.structs.replace(made.status, declared_features=features, images=images)
    )


# -- one change at a time ---------------------------------------------------------------------------------------------

PLAIN: dict[str, Any] = {
    "labels": {"zone": "a"},
    "taints": [("k", "v", "NoSchedule")],
    "images": (_image("i", size=5),),
}

CHANGES: list[tuple[str, dict[str, Any], bool, bool]] = [
    ("nothing", {}, False, False),
    ("more cpu", {"cpu": 5}, True, False),
    ("more memory", {"memory": "65Gi"}, True, False),
    ("more pods", {"pods": 111}, True, False),
    ("a resource that no pod requests", {"more": {"example.com/new": 1}}, False, False),
    ("another value", {"labels": {"zone": "b"}}, True, True),
    ("another key", {"labels": {"zone": "a", "rack": "r"}}, True, True),
    ("no labels", {"labels": {}}, True, True),
    ("another effect", {"taints": [("k", "v", "NoExecute")]}, True, True),
    ("another taint value", {"taints": [("k", "w", "NoSchedule")]}, True, True),
    ("no taints", {"taints": []}, True, True),
    ("cordoned", {"unschedulable": True}, True, True),
    ("a feature", {"features": (FEATURE,)}, True, True),
    ("a feature that decides nothing", {"features": (NO_MATTER,)}, False, False),
    ("another image", {"images": (_image("j", size=5),)}, False, True),
    ("no image", {"images": ()}, False, True),
]


@pytest.mark.parametrize(("change", "changed", "static"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_node_changes_that_count(change: dict[str, Any], changed: bool, static: bool) -> None:
    """Pending pods are notified of what filters read; caches for all nodes start over but for amounts and pods."""
    nodes = NodeColumns()
    assert nodes.set_node(_node("n", **PLAIN)) == (0, True)
    before = nodes.version
    assert nodes.set_node(_node("n", **{**PLAIN, **change})) == (0, changed)
    assert (nodes.version > before) is static
    after = nodes.version
    assert nodes.set_node(_node("n", **{**PLAIN, **change})) == (0, False)
    assert nodes.version == after
    assert nodes.set_node(_node("n", **PLAIN)) == (0, changed)


def test_columns_of_a_node() -> None:
    """api.md: cpu in thousandths, the rest in base units; scoring counts what there is of cpu and memory."""
    nodes = NodeColumns()
    row, _ = nodes.set_node(
        _node("n", cpu="1500m", memory="1Ki", pods=7, more={"ephemeral-storage": "2Ki"}, features=(FEATURE, NO_MATTER))
    )
    assert nodes.allocatable[:6, row].tolist() == [1500, 1024, 1500, 1024, 2048, 7]
    assert (SCORING_CPU, SCORING_MEMORY, CPU, MEMORY, PODS) == (0, 1, 2, 3, 5)
    assert nodes.allocatable.shape == nodes.used.shape
    assert nodes.feature_sets[nodes.feature_set[row]] == {FEATURE}
    assert nodes.stated(CPU).tolist() == [1500]
    assert not nodes.by_devices("cpu").any()
    assert len(nodes.by_devices("cpu")) == len(nodes) == 1


def test_largest_amount_is_bounded_whether_asked_for_before_or_after() -> None:
    """Sums over a node do not wrap: what is more than `LIMIT` counts as that much."""
    nodes = NodeColumns()
    resources = nodes.resource_table
    nodes.set_node(node("a", more={"example.com/huge": str(LIMIT + 1), "example.com/most": str(LIMIT)}))
    columns = [resources.column(name) for name in ("example.com/huge", "example.com/most")]
    nodes.fit_columns()
    nodes.set_node(node("b", more={"example.com/huge": str(LIMIT + 1), "example.com/most": str(LIMIT - 1)}))
    assert nodes.allocatable[columns, :2].tolist() == [[LIMIT, LIMIT], [LIMIT, LIMIT - 1]]
    assert (LIMIT, SERVED) == (1 << 56, 1 << 40)


# -- everything at once -----------------------------------------------------------------------------------------------


class Plainly:
    """What was set last, node by node."""

    def __init__(self) -> None:
        self.latest: dict[str, objects.Node] = {}
        self.served: set[str] = set()

    def compare(self, nodes: NodeColumns, resources: ResourceTable) -> None:
        """Everything that is read of the columns."""
        alive = {nodes.names[row]: row for row in np.flatnonzero(nodes.alive[: len(nodes)]).tolist()}
        assert alive.keys() == self.latest.keys()
        assert nodes.count == len(self.latest)
        assert [nodes.names[row] for row in np.argsort(nodes.rank)] == sorted(nodes.names)
        images: dict[str, dict[int, int]] = {}
        for name, latest in self.latest.items():
            row = alive[name]
            assert nodes.row_of[name] == row
            assert nodes.labels[row] == latest.metadata.labels
            for key in ("zone", "rack"):
                column, numbers = nodes.label_column(key)
                assert len(column) == len(nodes)
                value = latest.metadata.labels.get(key)
                assert column[row] == (ABSENT if value is None else numbers[value])
            taints = tuple((t.key, t.value, t.effect) for t in latest.spec.taints)
            assert nodes.taint_sets[nodes.taint_set[row]] == taints
            assert bool(nodes.unschedulable[row]) is latest.spec.unschedulable
            assert nodes.feature_sets[nodes.feature_set[row]] == set(latest.status.declared_features) - {NO_MATTER}
            for resource in ("example.com/a", "example.com/b", "example.com/c"):
                own = int(latest.status.allocatable.get(resource, 0))
                by_devices = resource in self.served and not own
                assert bool(nodes.by_devices(resource)[row]) is by_devices
                if resource in resources:
                    column_of = resources.column(resource)
                    assert nodes.allocatable[column_of, row] == (SERVED if by_devices else own)
                    assert nodes.stated(column_of)[row] == own
            for image in latest.status.images:
                for each in image.names:
                    images.setdefault(each, {})[row] = image.size_bytes
        kept = {
            name: {row: nodes.image_size(name, row) for row in nodes.rows_with_image(name)} for name in nodes.images
        }
        assert kept == images
        for row in range(len(nodes)):
            if row not in alive.values():
                assert not any(nodes.by_devices(resource)[row] for resource in self.served)


@pytest.mark.parametrize("seed", range(6))
def test_rows_hold_the_last_version_of_their_nodes(seed: int) -> None:
    """Nodes that come, change and go, pods that keep rows of nodes that are gone, resources and classes that come."""
    chance = Random(seed)
    state = ClusterState()
    nodes, plainly = state.nodes, Plainly()
    for turn in range(150):
        name = f"n{chance.randrange(90)}"
        what = chance.random()
        before, version = nodes.version, nodes.static_version
        if what < 0.7:
            labels = {key: chance.choice("xyz") for key in ("zone", "rack") if chance.random() < 0.5}
            taints = [("k", chance.choice("vw"), "NoSchedule")] if chance.random() < 0.3 else []
            amounts = {f"example.com/{each}": chance.randrange(3) for each in "abc" if chance.random() < 0.6}
            images = tuple(
                _image(each, f"{each}:2", size=chance.randrange(1, 4)) for each in "ij" if chance.random() < 0.4
            )
            features = tuple(each for each in (NO_MATTER, FEATURE) if chance.random() < 0.3)
            latest = _node(
                name,
                labels=labels,
                taints=taints,
                more=amounts,
                images=images,
                features=features,
                unschedulable=chance.random() < 0.1,
            )
            news = name not in plainly.latest
            nodes.set_node(latest)
            plainly.latest[name] = latest
            assert not news or nodes.version != before
        elif what < 0.9:
            row = nodes.row_of.get(name) if name in plainly.latest else None
            assert nodes.remove_node(name) == row
            assert plainly.latest.pop(name, None) is None or nodes.version != before
        elif what < 0.95:
            plainly.served = {f"example.com/{each}" for each in "abc" if chance.random() < 0.5}
            nodes.serve(plainly.served)
            again = nodes.version
            nodes.serve(plainly.served)
            assert nodes.version == again
        else:
            state.resources.column(f"example.com/{chance.choice('abc')}")
            nodes.fit_columns()
        assert nodes.static_version >= version, "no number comes again"
        if turn % 3 == 0:
            plainly.compare(nodes, state.resources)
    plainly.compare(nodes, state.resources)
    for name in list(plainly.latest):
        nodes.remove_node(name)
    assert nodes.count == 0
    assert not nodes.row_of
    assert not nodes.images
    assert not nodes.allocatable.any()
    rows = len(nodes)
    for number in range(rows + 70):
        nodes.set_node(node(f"again{number}"))
    assert len(nodes) == rows + 70, "rows of nodes that are gone are used again, all of them"


def test_row_is_free_once_its_node_its_pods_and_its_nominations_are_gone() -> None:
    """A dead row stays as long as anything on it is known, and no other node gets it."""
    world = World(node("n"), pod("runs", node="n"), pod("waits", nominated="n"))
    state = world.engine.cluster
    nodes = state.nodes
    assert state.remove_node("n")
    assert not state.remove_node("n"), "it is gone already"
    assert nodes.row_of == {"n": 0}
    assert nodes.row_for_pod("m") == 1
    state.remove_pod(world.record("runs"))
    nodes.release(0)
    assert "n" in nodes.row_of
    state.clear_nomination(world.record("waits"))
    assert "n" not in nodes.row_of
    assert nodes.row_for_pod("o") == 0
    assert nodes.names == ["o", "m"]
    nodes.set_node(node("o"))
    nodes.release(0)
    assert nodes.row_of["o"] == 0, "a live row is not given away"


# -- host ports -------------------------------------------------------------------------------------------------------

TCP, UDP, ANY, A, B = "TCP", "UDP", "0.0.0.0", "10.0.0.1", "10.0.0.2"
PORTS: list[tuple[list[tuple[str, str, int]], list[tuple[str, str, int]], tuple[str, str, int] | None]] = [
    ([], [(TCP, ANY, 80)], None),
    ([(TCP, ANY, 80)], [], None),
    ([(TCP, ANY, 80)], [(TCP, ANY, 80)], (TCP, ANY, 80)),
    ([(TCP, ANY, 80)], [(TCP, ANY, 81)], None),
    ([(TCP, ANY, 80)], [(UDP, ANY, 80)], None),
    ([(TCP, ANY, 80)], [(TCP, A, 80)], (TCP, A, 80)),
    ([(TCP, "", 80)], [(TCP, A, 80)], (TCP, A, 80)),
    ([(TCP, A, 80)], [(TCP, ANY, 80)], (TCP, ANY, 80)),
    ([(TCP, A, 80)], [(TCP, "", 80)], (TCP, "", 80)),
    ([(TCP, A, 80)], [(TCP, A, 80)], (TCP, A, 80)),
    ([(TCP, A, 80)], [(TCP, B, 80)], None),
    ([(TCP, A, 80)], [(TCP, A, 81)], None),
    ([(UDP, ANY, 80)], [(TCP, A, 80)], None),
    ([(TCP, A, 80), (TCP, ANY, 90)], [(TCP, B, 80), (UDP, ANY, 90), (TCP, B, 90), (TCP, ANY, 80)], (TCP, B, 90)),
]


@pytest.mark.parametrize(("used", "wanted", "taken"), PORTS)
def test_which_host_port_is_taken(
    used: list[tuple[str, str, int]], wanted: list[tuple[str, str, int]], taken: tuple[str, str, int] | None
) -> None:
    """NodePorts: the same protocol and port, and the same address or the wildcard on either side; the first such."""
    nodes = NodeColumns()
    row, _ = nodes.set_node(node("n"))
    nodes.ports[row] = dict.fromkeys(used, 1)
    assert nodes.conflicting_port(row, tuple(wanted)) == taken


def test_port_is_taken_until_the_last_pod_with_it_is_gone() -> None:
    """Two pods of one port may run on one node: both are bound by others, or by hand."""
    world = World(node("n"), pod("a", ports=[80], node="n"), pod("b", ports=[80, 81], node="n"))
    nodes = world.engine.cluster.nodes
    wanted = (("TCP", ANY, 80),)
    assert nodes.ports[0] == {("TCP", ANY, 80): 2, ("TCP", ANY, 81): 1}
    world.gone("b")
    assert nodes.conflicting_port(0, wanted) == wanted[0]
    assert nodes.ports[0] == {("TCP", ANY, 80): 1}
    world.gone("a")
    assert nodes.conflicting_port(0, wanted) is None


def _sizes(nodes: NodeColumns) -> Mapping[str, int]:
    return {name: len(getattr(nodes, name)) for name in ("alive", "unschedulable", "taint_set", "feature_set")}


def test_columns_grow_with_the_nodes() -> None:
    """Every column is as long as any other, and what was there stays."""
    nodes = NodeColumns()
    nodes.serve({"example.com/d"})
    for number in range(200):
        nodes.set_node(
            node(f"n{number:03}", cpu=number + 1, labels={"zone": f"z{number % 7}"}, unschedulable=number % 2 == 1)
        )
        column, numbers = nodes.label_column("zone")
        assert column[number] == numbers[f"z{number % 7}"]
    assert set(_sizes(nodes).values()) == {nodes.used.shape[1]} == {nodes.allocatable.shape[1]}
    assert nodes.allocatable[CPU, :200].tolist() == [1000 * (number + 1) for number in range(200)]
    assert nodes.unschedulable[:200].tolist() == [number % 2 == 1 for number in range(200)]
    assert nodes.by_devices("example.com/d").tolist() == [True] * 200
    assert nodes.rank.tolist() == list(range(200))


def test_labels_that_no_node_has_take_no_memory() -> None:
    """scheduling.md 5.6: pods may ask for any number of them; a node that comes with one is seen."""
    world = World(*[node(f"n{number}", labels={"zone": f"z{number}"}) for number in range(3)])
    nodes, index = world.engine.cluster.nodes, world.engine.cluster.pod_affinity
    assert np.shares_memory(nodes.label_column("a")[0], nodes.label_column("b")[0])
    assert np.shares_memory(index.domains("a")[0], index.domains("b")[0])
    assert nodes.label_column("a")[0].tolist() == [ABSENT] * 3
    assert index.domains("a")[0].tolist() == [0] * 3
    world.add(node("n3", labels={"a": "x"}))
    column, numbers = nodes.label_column("a")
    assert column.tolist() == [ABSENT] * 3 + [numbers["x"]]
    assert index.domains("a")[0].tolist() == [0, 0, 0, 1]
    assert len(nodes.label_column("b")[0]) == 4


def test_resources_that_no_node_has_take_bounded_memory() -> None:
    """scheduling.md 5.6: the first are kept apart, the others count as one; what nodes offer is never among these."""
    world = World(node("n0", cpu=4, more={"example.com/late": 2}))
    table = world.engine.cluster.resources
    before = len(table)
    world.add(*[pod(f"p{number}", cpu=1, more={f"example.com/r{number}": 1}) for number in range(MOST_UNOFFERED + 50)])
    world.add(pod("late", cpu=1, more={"example.com/late": 1}))
    assert len(table) == before + MOST_UNOFFERED + 2
    world.drain()
    assert world.where == {"late": "n0"}
    assert "1 Insufficient example.com/r0." in world.message("p0")
    assert "1 Insufficient resources that no node has." in world.message(f"p{MOST_UNOFFERED + 49}")
