"""Groups in one domain: the cases of kube-scheduler's own tests, written again.

Source: kubernetes/kubernetes, test/integration/scheduler/podgroup/topology_aware_scheduling (tas_test.go,
tas_multi_placement_test.go).  Nodes have two CPUs, and all pods priority 100.  Where the score of the first pod alone
decides there (a basic group), it arrives alone here too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from kube_rules import objects
from reprieve.framework.plugin import Codes, CycleState, FilterPlugin, Mask, Rows
from reprieve.framework.status import FITS, UNSCHEDULABLE
from tests.building import World, group, node, pod
from tests.retyped.tables import row


def racks(*found: str) -> list[Any]:
    """Nodes, written `rack/zone: names`, with two CPUs each."""
    result = []
    for text in found:
        place, _, names = text.partition(":")
        rack, _, zone = place.partition("/")
        result += [node(name, cpu=2, labels={"rack": rack, "zone": zone or "z1"}) for name in names.split()]
    return result


def there(name: str, on: str, cpu: int = 1, **fields: Any) -> objects.Pod:
    """A pod that runs; it ends at once when it is deleted."""
    return pod(name, node=on, cpu=cpu, priority=100, grace=0, **fields)


def gang(name: str, min_count: int, topology: str = "rack", **fields: Any) -> objects.PodGroup:
    """A gang that keeps to one domain."""
    return group(name, min_count=min_count, priority=100, topology=topology, **fields)


def basic(name: str = "pg1", topology: str = "rack", **fields: Any) -> objects.PodGroup:
    """A group without a minimum that keeps to one domain."""
    return group(name, priority=100, topology=topology, **fields)


def pods(names: str, group: str = "pg1", cpu: int = 1, **fields: Any) -> list[Any]:
    """Pods of a group that arrive."""
    return row(names, group=group, cpu=cpu, priority=100, **fields)


@dataclass(frozen=True)
class Steps:
    """What happens one after the other, each until nothing changes any more; a text is the name of a pod that goes.

    `on`: at the end, pods and their possible nodes; `together`: pods and the label they agree in; `waits`: the rest;
    `evicted`: exactly what preemption takes.
    """

    name: str
    steps: Sequence[list[Any] | str]
    on: Mapping[str, str] = field(default_factory=dict)
    together: Mapping[str, str] = field(default_factory=dict)
    waits: str = ""
    evicted: str = ""

    def check(self, world: World) -> None:
        """Take the steps. Raises AssertionError."""
        for step in self.steps:
            if isinstance(step, str):
                world.virtual.delete("Pod", "default", step)
            else:
                world.add(step)
            world.settle()
        for names, nodes in self.on.items():
            for name in names.split():
                assert world.where.get(name) in nodes.split(), (name, world.where)
        for names, key in self.together.items():
            labels = {
                thing.metadata.name: thing.metadata.labels[key]
                for step in self.steps
                for thing in step
                if isinstance(thing, objects.Node)
            }
            assert len({labels[world.where[name]] for name in names.split()}) == 1, (names, world.where)
        assert set(world.pending) == set(self.waits.split())
        assert world.evicted == sorted(self.evicted.split())


GANGS = [
    Steps(
        "the one rack that has room",
        [
            [*racks("r1:n1 n2 n3", "r2:n4 n5", "r3/z2:n6"), there("old", "n4", 2), gang("pg1", 3)],
            pods("p1 p2 p3"),
        ],
        on={"p1 p2 p3": "n1 n2 n3"},
    ),
    Steps(
        "no rack has room",
        [[*racks("r1:n1 n2", "r2:n3", "r3/z2:n4"), gang("pg1", 3)], pods("p1 p2 p3", cpu=2)],
        waits="p1 p2 p3",
    ),
    Steps(
        "room is taken",
        [
            [*racks("r1:n1 n2 n3"), there("old1", "n1", 2), there("old2", "n3", 2), gang("pg1", 3)],
            pods("p1 p2 p3"),
        ],
        waits="p1 p2 p3",
    ),
    Steps(
        "a pod that ends makes room",
        [
            [*racks("r1:n1 n2 n3"), there("old1", "n1", 2), there("old2", "n3", 2), gang("pg1", 3)],
            pods("p1 p2 p3"),
            "old1",
        ],
        on={"p1 p2 p3": "n1 n2"},
    ),
    Steps(
        "the rack that is used most",
        [[*racks("r1:n1 n2", "r2/z2:n3 n4 n5", "r3/z2:n6"), gang("pg1", 3)], pods("p1 p2 p3")],
        on={"p1 p2 p3": "n1 n2"},
    ),
    Steps(
        "the rack that is used most, pods of others counted",
        [
            [
                *racks("r1:n1 n2", "r2/z2:n3 n4 n5", "r3/z2:n6 n7 n8", "r4/z2:n9"),
                *(there("old1", "n3", 2), there("old2", "n8")),
                gang("pg1", 3),
            ],
            pods("p1 p2 p3"),
        ],
        on={"p1 p2 p3": "n3 n4 n5"},
    ),
    Steps(
        "two gangs, each in a rack",
        [
            [*racks("r1:n1 n2 n3", "r2:n4 n5"), gang("pg1", 3)],
            pods("p1 p2 p3", cpu=2),
            [gang("pg2", 2)],
            pods("p4 p5", "pg2"),
        ],
        on={"p1 p2 p3": "n1 n2 n3", "p4 p5": "n4 n5"},
    ),
    Steps(
        "two gangs in one rack",
        [
            [*racks("r1:n1 n2 n3", "r2:n4"), gang("pg1", 2), gang("pg2", 3)],
            [*pods("p1", cpu=2), *pods("p2"), *pods("p3 p4 p5", "pg2")],
        ],
        on={"p1 p2": "n1 n2 n3", "p3 p4 p5": "n1 n2 n3"},
    ),
    Steps(
        "a rack for one gang, a zone for the other",
        [
            [*racks("r1:n1 n2", "r2:n3", "r3/z2:n4 n5 n6"), gang("pg1", 3)],
            pods("p1 p2 p3", cpu=2),
            [gang("pg2", 3, "zone")],
            pods("p4 p5 p6", "pg2", cpu=2),
        ],
        on={"p1 p2 p3": "n4 n5 n6", "p4 p5 p6": "n1 n2 n3"},
    ),
    Steps(
        "room for one of two gangs",
        [
            [*racks("r1:n1 n2"), gang("pg1", 3)],
            pods("p1 p2 p3"),
            [gang("pg2", 2)],
            pods("p4 p5", "pg2"),
        ],
        on={"p1 p2 p3": "n1 n2"},
        waits="p4 p5",
    ),
    Steps(
        "more pods than the minimum",
        [[*racks("r1:n1 n2", "r2:n3 n4"), gang("pg1", 2)], pods("p1 p2 p3")],
        together={"p1 p2 p3": "rack"},
    ),
    Steps(
        "pods beyond the minimum follow, as long as there is room",
        [
            [*racks("r1:n1 n2 n3", "r2:n4 n5", "r3/z2:n6"), gang("pg1", 3)],
            pods("p1 p2 p3"),
            pods("p4"),
            pods("p5"),
        ],
        on={"p1 p2 p3 p4": "n4 n5"},
        waits="p5",
    ),
    Steps(
        "no pod of its priority leaves",
        [[*racks("r1:n1 n2"), there("old", "n2", 2), gang("pg1", 3)], pods("p1 p2 p3")],
        waits="p1 p2 p3",
    ),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in GANGS])
def test_gangs(case: Steps) -> None:
    case.check(World())


BASIC = [
    Steps("the only rack", [[*racks("r1:n1 n2"), basic()], pods("p1 p2 p3")], on={"p1 p2 p3": "n1 n2"}),
    Steps(
        "one of several racks",
        [[*racks("r1:n1 n2", "r2:n3 n4", "r3/z2:n5 n6"), basic()], pods("p1 p2 p3")],
        together={"p1 p2 p3": "rack"},
    ),
    Steps(
        "those that fit, and none elsewhere",
        [[*racks("r1:n1", "r2:n2"), basic()], pods("p1 p2 p3")],
        together={"p1 p2": "rack"},
        waits="p3",
    ),
    Steps("none fits", [[*racks("r1:n1", "r2:n2"), basic()], pods("p1 p2", cpu=3)], waits="p1 p2"),
    Steps(
        "one fits nowhere",
        [[*racks("r1:n1", "r2:n2"), basic()], [*pods("p1", cpu=3), *pods("p2")]],
        on={"p2": "n1 n2"},
        waits="p1",
    ),
    Steps(
        "the rack that is used most",
        [[*racks("r1:n1 n2", "r2/z2:n3 n4 n5"), basic()], pods("p1 p2 p3")],
        on={"p1 p2 p3": "n1 n2"},
    ),
    Steps(
        "the rack that is used most, pods of others counted",
        [
            [
                *racks("r1:n1 n2 n3", "r2/z2:n4 n5 n6", "r3/z2:n7 n8 n9 n10"),
                *(there("old1", "n1"), there("old2", "n5"), there("old3", "n6")),
                basic(),
            ],
            pods("p1 p2 p3"),
        ],
        on={"p1 p2 p3": "n4 n5 n6"},
    ),
    Steps(
        "the rack that suits the first is too small for the rest",
        [[*racks("r1:n1 n2 n3 n4", "r2:n5"), there("old", "n1", 2), basic()], pods("p1"), pods("p2 p3")],
        on={"p1 p2": "n5"},
        waits="p3",
    ),
    Steps(
        "two groups, each in a rack",
        [[*racks("r1:n1 n2 n3", "r2:n4"), basic(), basic("pg2")], pods("p1 p2"), pods("p3 p4", "pg2")],
        on={"p1 p2": "n4", "p3 p4": "n1 n2 n3"},
    ),
    Steps(
        "two groups in one rack",
        [[*racks("r1:n1 n2 n3"), basic(), basic("pg2")], [*pods("p1 p2"), *pods("p3 p4 p5", "pg2")]],
        on={"p1 p2 p3 p4 p5": "n1 n2 n3"},
    ),
    Steps(
        "a rack for one group, a zone for the other",
        [
            [*racks("r1:n1", "r2/z2:n2 n3", "r3/z2:n4 n5"), basic(), basic("pg2", "zone")],
            pods("p1 p2"),
            pods("p3 p4 p5", "pg2", cpu=2),
        ],
        on={"p1 p2": "n1", "p3 p4 p5": "n2 n3 n4 n5"},
    ),
    Steps(
        "the second group takes the rack that is left",
        [
            [*racks("r1:n1 n2", "r2:n3"), basic()],
            pods("p1"),
            pods("p2 p3"),
            [basic("pg2")],
            pods("p4 p5 p6", "pg2"),
        ],
        on={"p1 p2": "n3", "p4 p5 p6": "n1 n2"},
        waits="p3",
    ),
    Steps(
        "no room beside the first",
        [[*racks("r1:n1", "r2:n2"), there("old", "n1"), basic()], pods("p1"), pods("p2")],
        on={"p1": "n1"},
        waits="p2",
    ),
    Steps(
        "the rest follows when there is room",
        [[*racks("r1:n1", "r2:n2"), there("old", "n1"), basic()], pods("p1"), pods("p2"), "old"],
        on={"p1 p2": "n1"},
    ),
]


@pytest.mark.parametrize("gates", [{}, {"GangScheduling": False}], ids=["gangs", "no gangs"])
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in BASIC])
def test_basic_groups(case: Steps, gates: dict[str, bool]) -> None:
    case.check(World(gates=gates))


class OnePool(FilterPlugin):
    """Not this node; kube-scheduler's test has a plugin that makes a placement of the others."""

    name = "OnePool"

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        """See `FilterPlugin.filter`."""
        found = [UNSCHEDULABLE if name == "n3" else FITS for name in state.cluster.nodes.names]
        return np.array(found, dtype=np.int8)[rows]

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        """See `FilterPlugin.reasons`."""
        shape = np.arange(len(state.cluster.nodes))[rows].shape
        return [("another pool", np.ones(shape, dtype=bool))]


def test_rack_without_a_node_that_a_plugin_takes_away() -> None:
    there = racks("r1:n1 n2 n3", "r2:n4 n5 n6")
    case = Steps("", [[*there, gang("pg1", 3)], pods("p1 p2 p3", cpu=2)], on={"p1 p2 p3": "n4 n5 n6"})
    case.check(World(plugins=[OnePool()]))
