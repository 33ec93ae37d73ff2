"""Units of eviction as a criterion sees them, and when its numbers may be kept (cost.md 1, docs/plugins.md)."""

from __future__ import annotations

import numpy as np
import pytest

from reprieve.framework.preemption_cost import Costs, EvictionUnits, PreemptionCost
from tests.building import START, World, node, pod


def units(*sizes: int) -> EvictionUnits:
    """Units of so many pods, on one node."""
    world = World(node("n"), *[pod(f"p{i}", node="n") for i in range(sum(sizes))])
    records = [world.record(f"p{i}") for i in range(sum(sizes))]
    ends = np.cumsum(sizes).tolist()
    pods = [records[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    return EvictionUnits(
        cluster=world.engine.cluster,
        evaluator=None,
        names=[f"u{i}" for i in range(len(sizes))],
        pods=pods,
        rows=[[0] * size for size in sizes],
        priorities=np.zeros(len(sizes), dtype=np.int64),
        starts=np.full(len(sizes), START),
        violates=np.zeros(len(sizes), dtype=np.bool_),
        scheduled={},
    )


@pytest.mark.parametrize(
    ("sizes", "sums"),
    [((1,), [1]), ((1, 1), [1, 2]), ((2, 1), [3, 3]), ((1, 3, 2), [1, 9, 11]), ((), [])],
)
def test_numbers_of_pods_are_summed_by_unit(sizes: tuple[int, ...], sums: list[int]) -> None:
    """`per_unit`: a number for each of `every_pod`, unit by unit; here pod i counts i + 1."""
    found = units(*sizes)
    assert (len(found), found.sizes.tolist()) == (len(sizes), list(sizes))
    assert [p.name for p in found.every_pod] == [f"p{i}" for i in range(sum(sizes))]
    assert found.per_unit([i + 1 for i in range(sum(sizes))]).tolist() == sums
    assert found.sizes.dtype == np.int64


def test_criterion_knows_the_time_of_the_decision() -> None:
    found = units(1)
    assert found.now == found.cluster.now


class _Sizes(PreemptionCost):
    def of_units(self, units: EvictionUnits) -> Costs:
        return units.sizes.astype(np.float64)


class _Largest(_Sizes):
    def total(self, victims: EvictionUnits) -> float:
        return float(self.of_units(victims).max())


def test_whole_costs_the_sum_of_its_parts_unless_the_criterion_overrides_it() -> None:
    """cost.md 1."""
    assert (_Sizes().total(units(1, 3, 2)), _Sizes().additive) == (6.0, True)
    assert (_Largest().total(units(1, 3, 2)), _Largest().additive) == (3.0, False)


@pytest.mark.parametrize("by_itself", [False, True])
@pytest.mark.parametrize("timeless", [False, True])
@pytest.mark.parametrize("by_terms", [False, True])
def test_costs_are_kept_only_where_nothing_else_counts(by_itself: bool, timeless: bool, by_terms: bool) -> None:
    """docs/plugins.md: `by_itself`, and `timeless`, and not `by_terms`; else None: not at all."""
    attributes = {"by_itself": by_itself, "timeless": timeless, "by_terms": by_terms}
    criterion = type("Mine", (_Sizes,), attributes)()
    kept = criterion.beyond_the_node(units(1).cluster)
    assert kept == (() if by_itself and timeless and not by_terms else None)
