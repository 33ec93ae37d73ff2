"""What each criterion counts of units, and what guides a search by criteria (cost.md 1 and 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from reprieve.preemption.cost import Costing, criteria_of, pricing_of
from reprieve.preemption.criteria import IN_TREE
from reprieve.preemption.order import by_importance
from tests.building import START, World, annotated, gang, group, node, pod
from tests.preemption.by_name import cluster_at, names_of, units_of


def _columns(world: World, violates: Sequence[bool] = ()) -> Any:
    cluster = world.engine.cluster
    ordered = by_importance(cluster, list(units_of(world).values())).units
    evaluator = world.engine.running["default-scheduler"].evaluator
    return Costing(cluster, evaluator, ordered).columns(ordered, violates or [False] * len(ordered))


@pytest.mark.parametrize(
    ("criterion", "each", "total"),
    [
        ("pdbViolations", [1, 0, 0, 1], 2),
        ("highestPriority", [5, 5, 1, -2], 5),
        ("prioritySum", [(5 + (1 << 31)) * 2, 5 + (1 << 31), 1 + (1 << 31), (1 << 31) - 2], 9 + 5 * (1 << 31)),
        ("units", [1, 1, 1, 1], 4),
        ("pods", [2, 1, 1, 1], 5),
        ("startTime", [-START - 7, -START - 3, -START - 9, -START - 1], -START - 3),
        ("tenantSpread", [2, 1, 1, 1], 4),
        ("gangsBroken", [1, 0, 0, 0], 1),
        ("restartElsewhere", [0, 0, 1, 0], 1),
        ("cascade", [0, 0, 0, 0], 0),
        ("minimumRuntime", [0, 0, 1, 0], 1),
        ("lostWork", [2 * 2 * 93, 97, 0.1 * 91, 0.1 * 99], 372 + 97 + 9.1 + 9.9),
    ],
)
def test_criteria_count(criterion: str, each: list[float], total: float) -> None:
    """cost.md 1.3, at 100 s: a gang of two, two pods of the same priority, and one of another namespace."""
    world = World(
        node("n1", cpu=40, gpu=8, labels={"kubernetes.io/hostname": "n1"}),
        node("n2", cpu=40, gpu=8, labels={"kubernetes.io/hostname": "n2"}),
        *gang("w", 2, node="n1", whole=True, priority=5, gpu=2, start=7.0),
        pod("a", cpu=1, node="n2", priority=5, start=3.0),
        pod(
            "b",
            node="n2",
            priority=1,
            start=9.0,
            selector={"kubernetes.io/hostname": "n2"},
            annotations=annotated(minimum_runtime="1h"),
        ),
        pod("c", node="n1", priority=-2, start=1.0, namespace="other"),
    )
    cluster_at(world, START + 100)
    columns = _columns(world, [True, False, False, True])
    cost = IN_TREE[criterion]()
    assert cost.of_units(columns).tolist() == pytest.approx(each)
    assert cost.total(columns) == pytest.approx(total)


@pytest.mark.parametrize(
    ("least", "running", "going", "broken"),
    [(2, 3, 1, 0), (2, 3, 2, 1), (2, 2, 1, 1), (2, 1, 1, 0), (1, 3, 2, 0), (1, 3, 3, 1)],
)
def test_gangs_that_fall_below_their_minimum(least: int, running: int, going: int, broken: int) -> None:
    """cost.md 1.3: those that had it; counted over all victims."""
    world = World(
        node("n", cpu=9), group("w", min_count=least), *[pod(f"w{i}", node="n", group="w") for i in range(running)]
    )
    columns = _columns(world)
    some = replace(columns, pods=columns.pods[:going])
    assert IN_TREE["gangsBroken"]().total(some) == broken


@pytest.mark.parametrize(
    ("names", "first", "limit"),
    [
        (["pdbViolations", "highestPriority", "pods"], True, True),
        (["highestPriority", "pdbViolations"], False, True),
        (["pdbViolations", "pods", "highestPriority"], True, False),
        (["pods"], False, False),
    ],
)
def test_search_is_guided_by_configured_criteria(names: list[str], first: bool, limit: bool) -> None:
    """cost.md 1.2, 4: budgets and a limit of priority come first where the list begins with them."""
    world = World(
        node("n", cpu=9),
        *gang("w", 3, node="n", whole=True, priority=1),
        *[pod(f"p{i}", node="n", priority=i) for i in range(3)],
    )
    cluster = world.engine.cluster
    criteria = criteria_of(names)
    units = by_importance(cluster, list(units_of(world).values())).units
    pricing = pricing_of(criteria, units, [False] * 4, Costing(cluster, None, units))
    assert pricing is not None
    assert (pricing.budgets_first, pricing.by_limit) == (first, limit)
    costs = {"pdbViolations": 1, "highestPriority": 2, "pods": 5}
    assert pricing.price([0, 1, 2], [True, False, False], 0) == tuple(float(costs[name]) for name in names)
    weight = dict(zip(names_of(units), pricing.weights.units, strict=True))
    assert all(each > 0 for each in pricing.weights.units), "no unit costs nothing"
    if "pods" in names:
        assert weight["w"] > max(weight["p0"], weight["p1"], weight["p2"])
    else:
        assert weight["p2"] > max(weight["w"], weight["p1"]) > weight["p0"]


def test_where_criteria_tie_the_next_guides() -> None:
    """Far enough apart to keep their order; of what costs nothing by any, more pods weigh more."""
    world = World(
        node("n", cpu=9),
        *gang("w", 3, node="n", whole=True, priority=1),
        *[pod(f"p{i}", node="n", priority=i) for i in range(3)],
    )
    cluster = world.engine.cluster
    units = by_importance(cluster, list(units_of(world).values())).units

    def weight(*names: str) -> dict[str, float]:
        pricing = pricing_of(criteria_of(names), units, [False] * 4, Costing(cluster, None, units))
        assert pricing is not None
        return dict(zip(names_of(units), pricing.weights.units, strict=True))

    limited = weight("highestPriority", "pods")  # below the limit its priority costs a unit nothing
    assert limited["w"] > limited["p2"] > limited["p1"] > limited["p0"] > 0
    other = weight("pods", "highestPriority")
    assert other["w"] > other["p2"] > other["p1"] > other["p0"] > 0
    alike = weight("tenantSpread", "units")
    assert alike["p0"] == alike["p1"] == alike["p2"] < alike["w"]


@pytest.mark.parametrize(
    ("names", "leading"),
    [
        (["highestPriority", "startTime", "pods"], 3),
        (["startTime", "highestPriority", "pods"], 0),
        (["pods", "startTime", "highestPriority"], 1),
        (["pods", "tenantSpread", "gangsBroken", "lostWork", "units"], 5),
        (["units", "cascade", "startTime"], 2),
    ],
)
def test_leading_criteria_by_which_more_units_never_cost_less(names: list[str], leading: int) -> None:
    """cost.md 4.11: by these a part of a set excludes it; the earliest start of the highest priority only after it."""
    assert criteria_of(names, depth=1).never_less == leading
