"""Candidates that preemptors share, and what is kept of them until nodes change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from reprieve.framework.plugin import CycleState
from tests.building import World, group, node, pdb, pod
from tests.preemption.test_for_pod import _full, _preempts


def _second(world: World, change: Callable[[World], object]) -> list[str]:
    """Victims of the second of two identical preemptors, with something changed in between.

    The first one keeps its node, so the second decides by what was found out about the others.
    """
    assert world.step().preemption is not None
    change(world)
    world.add(pod("second", cpu=2, priority=100))
    second = world.step()
    assert second.preemption is not None
    return [p.name for v in second.preemption.victims for p in v.unit.pods]


def test_whole_group_that_grew_elsewhere_goes_whole() -> None:
    """preemption.md 9: never a partly evicted `all` unit, although the node itself did not change."""
    world = World(*_full("n0", -1, cpu=2), node("n1", cpu=2), node("n2", cpu=1), group("crew", min_count=1, whole=True))
    world.add(pod("c1", cpu=2, node="n1", group="crew"), pod("first", cpu=2, priority=100))
    assert _second(world, lambda w: w.add(pod("c2", cpu=1, node="n2", group="crew"))) == ["c1", "c2"]


@pytest.mark.parametrize(
    ("change", "victims"),
    [
        (lambda w: None, ["e", "f"]),
        (lambda w: w.change_pod("e", lambda p: replace(p, status=pod("e", node="n3", start=0.5).status)), ["a", "b"]),
        (
            lambda w: w.change_pod("e", lambda p: replace(p, metadata=pod("e", labels={"app": "spared"}).metadata)),
            ["a", "b"],
        ),
        (lambda w: w.add(pdb("more", {"app": "f"})), ["a", "b"]),
        (lambda w: w.add(group("late", priority=50)), ["a", "b"]),
        (lambda w: w.gone("a").gone("b").add(pod("x", cpu=2, node="n1", start=9)), ["x"]),
        (lambda w: w.add(node("n3", cpu=2, unschedulable=True)), ["a", "b"]),
    ],
    ids=["nothing", "start", "labels", "budget", "group", "pods", "node"],
)
def test_memory_is_dropped_when_nodes_change(change: Callable[[World], object], victims: list[str]) -> None:
    """Identical preemptors share their candidates; everything a candidate was judged by counts."""
    world = World(
        *[node(f"n{i}", cpu=2) for i in (1, 2, 3)],
        pod("a", cpu=1, node="n1", start=1),
        pod("b", cpu=1, node="n1", start=2),
        pod("c", cpu=1, node="n2", start=5),
        pod("d", cpu=1, node="n2", start=6),
        pod("e", cpu=1, node="n3", start=3, group="late"),
        pod("f", cpu=1, node="n3", start=4, labels={"app": "f"}),
        pdb("spare", {"app": "spared"}),
        pod("first", cpu=2, priority=100),
    )
    assert sorted(_second(world, change)) == victims
    assert world.nominated["first"] == "n2"


@pytest.mark.parametrize("step", [0, 1, -1], ids=["same priority", "rising", "falling"])
def test_identical_preemptors_share_their_candidates(step: int) -> None:
    """scheduling.md 4 generalised: a stream of identical preemptors costs a full pass once, at any priority."""
    items = [item for i in range(60) for item in _full(f"n{i:02}", 1, cpu=2)]
    world = World(*items, *[pod(f"h{i}", cpu=2, priority=100 + step * i) for i in range(30)])
    for_pod = next(
        p for p in world.engine.running["default-scheduler"].profile.post_filters if p.name == "DefaultPreemption"
    )
    looked: list[int] = []
    inner = for_pod._attached().for_pod  # type: ignore[attr-defined]
    original = inner._on_row

    def counted(state: CycleState, row: int, **how: bool) -> Any:
        looked.append(row)
        return original(state, row, **how)

    inner._on_row = counted
    for _ in range(30):
        assert world.step().preemption is not None
    assert len(looked) <= 60 + 30 * 2


def test_preemptors_of_other_priorities_share_only_what_is_the_same_for_both() -> None:
    """preemption.md 3.1: only units of lower priority may go, whatever was found out for a higher preemptor."""
    world = World(*_full("n1", 5, 50), *_full("n2", 7), *_full("n3", 5, 50, cpu=2))
    world.add(*[pod(f"p{priority}", cpu=1, priority=priority) for priority in (7, 8, 51, 60, 100)])
    victims = []
    for _ in range(5):
        preemption = world.step().preemption
        victims.append([p.name for v in preemption.victims for p in v.unit.pods] if preemption else [])
    assert victims == [["n1-0"], ["n3-0"], ["n3-0"], ["n2-0"], []]


HIGHEST, SUM, NAME = (
    "lowest priority of the most important victim",
    "smallest sum of victim priorities",
    "first by name",
)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    ("priorities", "best", "second", "told_apart"),
    [
        (([3, 2], [1, 1], [3, 1]), "n2", "n3", [HIGHEST]),
        (([2, 1], [2, 2], [3, 1]), "n1", "n2", [HIGHEST, SUM]),
        (([3, 1], [2, 2], [2, 1]), "n3", "n2", [HIGHEST, SUM]),
        (([2, 2], [2, 1], [3, 1]), "n2", "n1", [HIGHEST, SUM]),
        (([1, 1], [1, 1], [1, 1]), "n1", "n2", [NAME]),
        (([2, 2], [1, 1], [1, 1]), "n2", "n3", [HIGHEST, NAME]),
    ],
)
def test_runner_up_is_the_best_of_those_the_last_comparison_left(
    priorities: tuple[list[int], ...], best: str, second: str, told_apart: list[str], plain: bool
) -> None:
    """preemption.md 3: compared by all criteria in turn, then by name; the last to lose is named."""
    items = [item for i, victims in enumerate(priorities, 1) for item in _full(f"n{i}", *victims)]
    found = _preempts(*items, plain=plain)
    assert found.compared is not None
    assert (found.domain, found.compared.domain) == (best, second)
    assert [text for text, _ in found.compared.steps] == told_apart
    assert found.compared.steps[-1][1] == 1
    assert found.compared.cost is not None
    assert found.compared.cost[1] == max(priorities[int(second[1]) - 1])
