"""When the fast paths of preemption may be taken, and that their sums are right for units of unlike pods."""

from __future__ import annotations

import numpy as np
import pytest

from reprieve.cluster.resources import CPU, MEMORY
from reprieve.framework.plugin import CycleState
from reprieve.framework.profile import Profile
from reprieve.plugins.node_resources_fit import NodeResourcesFit
from reprieve.preemption.free_resources import only_resources
from reprieve.preemption.tie_breaking import _by_row
from reprieve.preemption.unit_costs import PODS
from reprieve.preemption.units import PreemptionUnit
from reprieve.preemption.victim_columns import VictimColumns
from tests.building import World, group, node, pod, profile_with


@pytest.mark.parametrize(
    ("profile", "holds"),
    [
        (profile_with(), True),
        (profile_with(NodeResourcesFit(ignored=["a.com/x"])), False),
        (profile_with(NodeResourcesFit(ignored_groups=["a.com"])), False),
        (profile_with(drop=["NodeResourcesFit"]), False),
    ],
)
def test_numbers_suffice_only_where_every_request_decides(profile: Profile, holds: bool) -> None:
    """preemption.md 9.5: with ignoredResources, or without NodeResourcesFit, the filters themselves are asked."""
    world = World(node("n"), pod("p", cpu=1, more={"a.com/x": 1}))
    assert only_resources(profile, [CycleState(world.engine.cluster, world.record("p"))]) is holds


def test_numbers_do_not_suffice_for_a_host_port() -> None:
    """preemption.md 9.5: one pod with a filter that looks at running pods is enough."""
    world = World(node("n"), *(pod(name, cpu=1) for name in ("p", "twin")), pod("q", cpu=2, ports=[80]))
    states = [CycleState(world.engine.cluster, world.record(name)) for name in ("p", "twin", "q")]
    assert only_resources(profile_with(), states[:2])
    assert not only_resources(profile_with(), states)


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        ([(1, "1Gi", "a"), (1, "1Gi", "a"), (1, "1Gi", "b")], {"a": [2000, 2 << 30], "b": [1000, 1 << 30]}),
        ([(1, "1Gi", "a"), (2, "4Gi", "a"), (2, "4Gi", "b")], {"a": [3000, 5 << 30], "b": [2000, 4 << 30]}),
        ([(1, "1Gi", "a"), (2, "4Gi", "a"), (3, "1Gi", "b")], {"a": [3000, 5 << 30], "b": [3000, 1 << 30]}),
    ],
    ids=["alike", "of-two-sorts", "of-three-sorts"],
)
def test_unit_takes_on_each_node(amounts: list[tuple[int, str, str]], expected: dict[str, list[int]]) -> None:
    """Sums over the pods on the node, whether they ask for the same or not."""
    pods = [pod(f"p{i}", cpu=cpu, memory=memory, node=on) for i, (cpu, memory, on) in enumerate(amounts)]
    world = World(node("a", cpu=9), node("b", cpu=9), *pods)
    records = tuple(world.record(f"p{i}") for i in range(len(pods)))
    unit = PreemptionUnit("u", records, tuple(record.row for record in records), 0, False, None)
    found = _by_row(unit, [CPU, MEMORY])
    assert found == {world.row(name): sums for name, sums in expected.items()}


def test_group_that_lost_a_pod_elsewhere_costs_less() -> None:
    """preemption.md 3: what a group that is disrupted as a whole costs on a node follows its pods elsewhere."""
    world = World(
        *(node(f"n{number}") for number in range(2)),
        group("g", whole=True),
        *(pod(f"g-{number}", cpu=4, node=f"n{number}", group="g", start=number) for number in range(2)),
        pod("p", cpu=4, priority=10),
    )
    columns = VictimColumns(world.engine.cluster)

    def evicted() -> list[float]:
        return [float(pods) for pods in columns.judge(world.record("p"), np.arange(2)).cost[PODS]]

    assert evicted() == [2, 2]
    world.gone("g-0")
    assert evicted() == [0, 1]
