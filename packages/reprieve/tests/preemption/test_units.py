"""Units of disruption: what is evicted as one, and their order (preemption.md 1, 4 and 5)."""

from __future__ import annotations

import pytest

from reprieve.preemption.cost import Costing, criteria_of
from reprieve.preemption.order import Ranking, by_importance
from reprieve.preemption.units import effective_priority
from tests.building import START, World, composite, gang, node, pdb, pod
from tests.preemption.by_name import names_of, units_of


def _crowd() -> World:
    return World(
        node("n1", cpu=40),
        node("n2", cpu=40),
        composite("tree", whole=True, priority=3),
        *gang("leaf", 2, node="n1", priority=9, parent="tree"),
        *gang("whole", 2, node="n1", whole=True, priority=3),
        pod("whole-2", node="n2", group="whole", priority=3),
        *gang("single", 1, node="n1", priority=3),
        pod("lone", node="n1", group="gone", priority=3),
        pod("plain", node="n2", priority=3),
        pod("high", node="n2", priority=4),
        pod("pending", priority=3),
    )


def test_units_are_disrupted_as_one() -> None:
    """preemption.md 1: pods, whole groups, the highest of a tree that is evicted as a whole; only what runs."""
    world = _crowd()
    units = units_of(world)
    assert {name: [one.name for one in unit.pods] for name, unit in units.items()} == {
        "tree": ["leaf-0", "leaf-1"],
        "whole": ["whole-0", "whole-1", "whole-2"],
        "single-0": ["single-0"],
        "lone": ["lone"],
        "plain": ["plain"],
        "high": ["high"],
    }
    for name, in_group, as_a_whole in (
        ("tree", True, True),
        ("whole", True, True),
        ("single-0", True, False),
        ("lone", False, False),
        ("plain", False, False),
    ):
        assert (units[name].in_group, units[name].group is not None) == (in_group, as_a_whole), name
        assert bool(units[name].groups) is as_a_whole
    assert units["whole"].rows == tuple(world.row(name) for name in ("n1", "n1", "n2"))
    assert [unit.priority for unit in units.values()].count(3) == 5
    assert effective_priority(world.engine.cluster, world.record("leaf-0")) == 3, "that of the topmost group"
    assert effective_priority(world.engine.cluster, world.record("lone")) == 3


@pytest.mark.parametrize(("priority", "count"), [(3, 0), (4, 5), (5, 6)])
def test_only_lower_priorities_go(priority: int, count: int) -> None:
    assert len(units_of(_crowd(), priority)) == count


def test_group_that_goes_as_one_for_once() -> None:
    """cost.md 2.7: its pods together, and the others as ever."""
    units = units_of(_crowd(), as_one=["default/single", "default/leaf"])
    assert units["single"].group is not None
    assert "single-0" not in units
    assert "tree" in units


def test_order_of_importance() -> None:
    """preemption.md 5.1-5.5, composite.md 4.5: priority, kind, more pods, the earlier start, the lower UID."""
    world = _crowd()
    assert names_of(by_importance(world.engine.cluster, list(units_of(world).values())).units) == [
        "high",
        "tree",
        "whole",
        "single-0",
        "lone",
        "plain",
    ]
    starts = [("a", None), ("b", 5.0), ("c", 4.0), ("d", 5.0), ("e", None)]
    world = World(node("n", cpu=9), *[pod(name, node="n", start=start, uid=f"{name}") for name, start in starts])
    assert names_of(by_importance(world.engine.cluster, list(units_of(world).values())).units) == [
        "c",
        "b",
        "d",
        "a",
        "e",
    ]
    assert units_of(world)["c"].start == START + 4
    assert units_of(world)["a"].start == float("inf")


def test_reprieve_order_of_units() -> None:
    """preemption.md 3.4: units that violate a budget, then the others; asked for by row in the same order."""
    world = World(
        node("n1", cpu=9),
        node("n2", cpu=9),
        pdb("b", {"app": "x"}, allowed=1),
        *[pod(f"p{i}", node=f"n{1 + i % 2}", priority=i, labels={"app": "x"} if i < 3 else {}) for i in range(5)],
    )
    cluster = world.engine.cluster
    ranking = Ranking(cluster, list(units_of(world).values()))
    assert names_of(ranking.ordered) == ["p4", "p3", "p2", "p1", "p0"]
    assert ranking.violations == [False, False, False, True, True]
    assert ranking.order == [3, 4, 0, 1, 2]
    assert ranking.on([world.row("n1")]) == [4, 0, 2]
    assert ranking.on([world.row("n2"), world.row("n1")]) == [3, 4, 0, 1, 2]
    assert ranking.on([]) == []
    assert ranking.violating([2, 3]) == [False, True]
    assert ranking.violating([3, 4]) == [False, True]
    some = ranking.only([4, 1, 3])
    assert names_of(some.ordered) == ["p3", "p1", "p0"]
    assert some.violations == [False, False, True]
    assert some.order == [2, 0, 1]
    assert some.on([world.row("n2")]) == [0, 1]


def test_dearest_unit_is_tried_first_by_own_criteria() -> None:
    """cost.md 1.2: criterion by criterion; what ties goes by importance."""
    sizes = {"a": 1, "b": 2, "c": 2, "d": 3}
    pods = [item for name, size in sizes.items() for item in gang(name, size, node="n", whole=True)]
    world = World(node("n", cpu=9), *pods)
    cluster = world.engine.cluster
    units = list(units_of(world).values())
    criteria = criteria_of(["units", "pods"])
    ordered = by_importance(cluster, units, criteria, Costing(cluster, None, units))
    assert [names_of(ordered.units)[turn] for turn in ordered.order] == ["d", "b", "c", "a"]
