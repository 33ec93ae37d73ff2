"""Which placements can hold a group, how many pods each, and which comes first (KEP-5732).

The counts are bounds: other kinds of pods and rules about other pods can only make it fewer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reprieve.cluster.pods import PodRecord
from reprieve.framework.plugin import Placement, SignPlugin
from reprieve.scheduling.group_algorithm import GroupCycle
from reprieve.scheduling.group_placements import fewest, first_of, hopeful, nominated_placement
from reprieve.scheduling.placement_counts import holds_at_most
from tests.building import World, composite, gang, group, node, pod, profile_with


def _placements(*rows: tuple[int, ...]) -> list[Placement]:
    return [Placement(f"p{turn}", np.array(each, dtype=np.int64)) for turn, each in enumerate(rows)]


@pytest.mark.parametrize(
    ("nominated", "chosen"),
    [
        ([], None),
        ([9], None),
        ([0], "p0"),
        ([3], "p1"),
        ([0, 2, 3], "p1"),
        ([2, 2, 0], "p1"),  # two members on one node are two
        ([0, 2], "p0"),  # as many: the first
        ([9, 4], "p2"),
    ],
)
def test_placement_in_which_most_members_were_nominated(nominated: list[int], chosen: str | None) -> None:
    """KEP-5732: preemption freed capacity there; the first of those that have as many."""
    found = nominated_placement(_placements((0, 1), (2, 3), (4,)), {f"u{i}": row for i, row in enumerate(nominated)})
    assert (found.name if found is not None else None) == chosen


MACHINES: list[Any] = [
    node("n0", cpu=4, memory="1Gi", labels={"zone": "a"}),
    node("n1", cpu=2, memory="9Gi", labels={"zone": "a"}),
    node("n2", cpu=8, memory="9Gi", labels={"zone": "b"}),
    node("n3", cpu=8, memory="9Gi", labels={"zone": "b"}, unschedulable=True),
    pod("r", cpu=1, memory=0, node="n0", priority=9),
]


@pytest.mark.parametrize(
    ("pods", "counts"),
    [
        ([pod(f"p{i}", cpu=1) for i in range(9)], [3, 5, 8, 0]),
        ([pod(f"p{i}", cpu=1) for i in range(2)], [2, 2, 2, 0]),  # no more than there are
        ([pod(f"p{i}", cpu=2) for i in range(9)], [1, 2, 4, 0]),
        ([pod(f"p{i}", cpu=1, memory="500Mi") for i in range(9)], [2, 4, 8, 0]),
        ([pod(f"p{i}", cpu=1, selector={"zone": "b"}) for i in range(9)], [0, 0, 8, 0]),
        ([pod("a", cpu=1), pod("b", cpu=8), pod("c", cpu=1)], [2, 2, 3, 0]),  # each kind as if it were alone
        ([pod(f"p{i}") for i in range(9)], [9, 9, 9, 0]),
        ([pod(f"p{i}", cpu=1, priority=1) for i in range(9)], [3, 5, 8, 0]),
        ([pod(f"p{i}", gpu=1) for i in range(9)], [0, 0, 0, 0]),
    ],
)
def test_no_placement_holds_more_than_is_counted(pods: list[Any], counts: list[int]) -> None:
    """Requests, and what the nodes' own objects allow; a cordoned node takes no pods."""
    world = World(*MACHINES, *pods)
    records = [world.record(item.metadata.name) for item in pods]
    running = world.engine.running["default-scheduler"]
    placements = _placements((0,), (0, 1), (2, 3), (3,))
    assert holds_at_most(running, records, placements).tolist() == counts
    assert holds_at_most(running, records, []).tolist() == []


@pytest.mark.parametrize(("priority", "count"), [(4, 1), (5, 1), (6, 3)])
def test_nominated_pods_count_as_running(priority: int, count: int) -> None:
    """scheduling.md 2.2: those of an equal or higher priority."""
    items = [pod(f"p{i}", cpu=1, priority=priority) for i in range(4)]
    world = World(*MACHINES, *items, pod("held", cpu=2, priority=5, gates=["g"], nominated="n0"))
    running = world.engine.running["default-scheduler"]
    assert holds_at_most(running, [world.record(f"p{i}") for i in range(4)], _placements((0,))).tolist() == [count]


def test_where_requests_are_not_compared_they_do_not_count() -> None:
    """Without NodeResourcesFit any node that is allowed holds as many as there are."""
    profile = profile_with(drop=["NodeResourcesFit"])
    world = World(*MACHINES, *[pod(f"p{i}", cpu=99) for i in range(3)], profiles={profile.name: profile})
    running = world.engine.running["default-scheduler"]
    found = holds_at_most(running, [world.record(f"p{i}") for i in range(3)], _placements((0,), (3,)))
    assert found.tolist() == [3, 0]


NEVER = 1 << 40
THREE = [("a", 5), ("b", 2), ("c", 3)]


@pytest.mark.parametrize(
    ("items", "name", "least"),
    [
        (gang("g", 4, min_count=3), "g", 3),
        (gang("g", 2, min_count=3), "g", NEVER),
        ([*gang("g", 3, min_count=3), pod("r", group="g", node="n0")], "g", 2),
        ([*gang("g", 1, min_count=1), pod("r", group="g", node="n0")], "g", 0),
        ([group("g"), pod("p", group="g")], "g", 1),
        (
            [composite("t", min_groups=2), *(each for n, k in THREE for each in gang(n, k, parent="t"))],
            "t",
            5,
        ),
        ([composite("t", min_groups=1), *gang("a", 5, parent="t"), *gang("b", 2, parent="t")], "t", 2),
        ([composite("t"), *gang("a", 5, parent="t"), *gang("b", 2, parent="t")], "t", 2),
        ([composite("t", min_groups=3), *gang("a", 5, parent="t"), *gang("b", 2, parent="t")], "t", NEVER),
    ],
)  # fmt: skip
def test_how_many_pods_have_to_be_placed_at_least(items: list[Any], name: str, least: int) -> None:
    """composite.md 3.3: the cheapest children of each level; those that run count already."""
    world = World(*MACHINES, *items)
    cluster = world.engine.cluster
    found = cluster.trees.composites.get(f"default/{name}") or cluster.groups[f"default/{name}"]
    running = world.engine.running["default-scheduler"]
    assert (fewest(running.profile, found) >= NEVER) is (least == NEVER)
    assert least == NEVER or fewest(running.profile, found) == least


def test_message_where_no_placement_works() -> None:
    """kube-scheduler's words."""
    assert first_of(3) == "0/3 placements are available, first placement status: pod group is unschedulable"
    assert first_of(1, "why") == "0/1 placements are available, first placement status: why"


class Unsigned(SignPlugin):
    """Says of no pod what it reads of it."""

    name = "Unsigned"

    def sign(self, pod: PodRecord) -> bytes | None:
        return None


def test_pods_of_which_nothing_may_be_shared_are_tried_in_each_placement() -> None:
    """scheduling.md 4: as if each had the nodes to itself they fit in the smaller one, too, and they do not."""
    machines = [node(f"n{cpu}", cpu=cpu, labels={"zone": f"{cpu}"}) for cpu in (2, 4)]
    profile = profile_with(Unsigned())
    world = World(*machines, *gang("g", 2, cpu=2, topology="zone"), profiles={profile.name: profile}).settle()
    assert set(world.where.values()) == {"n4"}


@pytest.mark.parametrize(
    ("running", "minimum", "places"),
    [
        (0, 3, ["p0", "p2"]),
        (0, 1, ["p0", "p1", "p2", "p4"]),
        (1, 3, ["p0", "p1", "p2"]),
        (1, 1, ["p0", "p1", "p2", "p4"]),
        (0, 5, ["p2"]),
        (0, 9, []),
    ],
)
def test_only_placements_with_capacity_for_enough_pods_are_tried(running: int, minimum: int, places: list[str]) -> None:
    """scheduling.md 3.3: one that is full is never tried, even if the gang has its minimum already."""
    nodes = [node(f"n{i}", cpu=cpu) for i, cpu in enumerate((3, 2, 8, 1, 9, 1))]
    there = [pod("there", cpu=1, node="n3", priority=9), *gang("g", 8, min_count=minimum, cpu=1)]
    there += [pod(f"r{i}", cpu=1, node="n4", group="g") for i in range(running)]
    world = World(*nodes, *there)
    group_of = world.engine.cluster.groups["default/g"]
    pods = [pod for pod in group_of.members.values() if pod.row < 0]
    cycle = GroupCycle(world.engine.running["default-scheduler"], group_of, pods, {})
    hopeful_ones = hopeful(cycle, _placements((0,), (1,), (2,), (3,), (5,)))
    assert [placement.name for placement in hopeful_ones] == places
