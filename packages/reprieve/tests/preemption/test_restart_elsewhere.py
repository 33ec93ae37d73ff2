"""Of equal evictions the one is made with victims that can restart elsewhere at once (cost.md 1.9)."""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules import objects
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.options import PreemptionOptions
from tests.building import World, gang, group, node, pod, profile_with

BATCH = objects.Toleration(key="dedicated", value="batch", effect="NoSchedule")


def _spare(**more: Any) -> Any:
    """A node that only pods with a toleration may use."""
    return node("spare", taints=[("dedicated", "batch", "NoSchedule")], **more)


def _victim(name: str, on: str, *, may: bool = True, **more: Any) -> Any:
    return pod(name, node=on, tolerations=[BATCH] if may else [], **more)


CASES: dict[str, tuple[list[Any], dict[str, Any], list[str]]] = {
    # What runs, what the preemptor requests, and the victims; without the criterion the first by name or start.
    "toleration": (
        [
            node("n1", cpu=2),
            node("n2", cpu=2),
            _spare(cpu=2),
            _victim("a", "n1", may=False, cpu=2, start=9),
            _victim("b", "n2", cpu=2, start=1),
        ],
        {"cpu": 2},
        ["b"],
    ),
    "too large": (
        [
            node("n1", cpu=2, gpu=4),
            node("n2", cpu=2, gpu=4),
            _spare(cpu=2, gpu=2),
            _victim("a", "n1", gpu=4, start=9),
            _victim("b", "n2", gpu=2, start=1),
            pod("stays", node="n2", gpu=2, priority=9),
        ],
        {"gpu": 2},
        ["b"],
    ),
    "several on each node": (
        [
            node("n1", cpu=4),
            node("n2", cpu=4),
            _spare(cpu=2),
            *[_victim(f"a{i}", "n1", may=i > 0, cpu=2, start=9) for i in range(2)],
            *[_victim(f"b{i}", "n2", cpu=2, start=1) for i in range(2)],
        ],
        {"cpu": 4},
        ["b0", "b1"],
    ),
    "one of several on a node": (
        [
            node("n1", cpu=6),
            _spare(cpu=3),
            _victim("a", "n1", cpu=3, may=False, start=9),
            _victim("b", "n1", cpu=3, start=1),
        ],
        {"cpu": 3},
        ["b"],
    ),
}


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("preemptor", ["pod", "pod with a port", "gang"])
@pytest.mark.parametrize("case", CASES)
def test_victims_that_can_restart_at_once_are_preferred(case: str, preemptor: str, plain: bool) -> None:
    """cost.md 1.9: for pods and gangs, by the fast paths and the plain one."""
    running, asks, victims = CASES[case]
    more: dict[str, Any] = {"ports": [80]} if preemptor == "pod with a port" else {}
    crew: list[Any] = [pod("new", priority=8, **asks, **more)]
    if preemptor == "gang":
        crew = gang("crew", 1, priority=8, **asks)
    profile = profile_with(DefaultPreemption(PreemptionOptions(plain=plain)))
    found = World(*running, *crew, profiles={profile.name: profile}).step().preemption
    assert found is not None
    assert sorted(one.name for verdict in found.victims for one in verdict.unit.pods) == victims


def test_gang_that_is_evicted_as_a_whole_counts_each_of_its_pods() -> None:
    """cost.md 1.9."""
    world = World(
        node("n1", cpu=4),
        node("n2", cpu=4),
        _spare(cpu=2),
        group("a", min_count=2, whole=True),
        group("b", min_count=2, whole=True),
        *[_victim(f"a{i}", "n1", may=i > 0, cpu=2, group="a", start=9) for i in range(2)],
        *[_victim(f"b{i}", "n2", cpu=2, group="b", start=1) for i in range(2)],
        pod("new", cpu=4, priority=8),
    )
    found = world.step().preemption
    assert found is not None
    assert found.domain == "n2"
    assert found.cost is not None
    assert found.cost[-2] == 0
