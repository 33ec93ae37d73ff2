"""What an eviction of several units costs, and how many steps it takes to know (preemption.md 5)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest

from reprieve.preemption.cost import GuidingWeights, Pricing
from reprieve.preemption.criteria import PRIORITY_OFFSET
from reprieve.preemption.victim_search.charges import BROKEN_BUDGET
from reprieve.preemption.victim_search.eviction import NO_EVICTION, Eviction
from tests.preemption import tiny
from tests.preemption.seeds import each_seed
from tests.preemption.test_eviction_state import SEEDS, _tight
from tests.preemption.tiny import as_searched, kind, numbers, problem, random_problem, unit


@each_seed(SEEDS)
def test_eviction_costs(seed: int) -> None:
    """preemption.md 3: budgets broken, highest priority, the sum with its offset, pods, the earliest of the highest."""
    made, chance = random_problem(seed, budgets=seed % 4), random.Random(seed)
    state = Eviction(numbers(made))
    for _ in range(10):
        going = [number for number in range(len(made.units)) if chance.random() < 0.5]
        expected = as_searched(made.price(tiny.names(made, going)))
        assert state.price_of(going) == expected
        mark = state.mark()
        for number in chance.sample(going, len(going)):
            state.evict(number)
        assert state.price() == expected
        state.rollback(mark)
    assert state.price() == NO_EVICTION
    assert state.lowest == min(each.priority for each in made.units)
    assert state.weights.weight == [(each.priority + PRIORITY_OFFSET) * each.pods for each in made.units]


def test_empty_eviction_costs_less_than_any_other() -> None:
    """A cluster of the lowest priority there is, and one without units."""
    made = problem([(1,)], [unit("a", {0: (1,)}, priority=-(1 << 31))], [kind((1,))])
    state = Eviction(numbers(made))
    assert state.price_of([]) < state.price_of([0])
    assert Eviction(numbers(problem([(1,)], [], [kind((1,))]))).lowest == 0


@each_seed(SEEDS)
def test_budgets_that_several_would_break_together(seed: int) -> None:
    """`violating`: one after the other beside the evicted ones; `violates`: one more alone."""
    made, chance = random_problem(seed, budgets=1 + seed % 3), random.Random(seed)
    state = Eviction(numbers(made))
    units = range(len(made.units))
    for number in units:
        if chance.random() < 0.3:
            state.evict(number)
    staying = [number for number in units if number not in state.evicted]
    for _ in range(8):
        some = sorted(chance.sample(staying, chance.randint(0, len(staying))))
        left = dict(made.allowed)
        for number in sorted(state.evicted):
            for name, pods in made.units[number].charged.items():
                left[name] -= pods
        broken = 0
        for number in some:
            for name, pods in made.units[number].charged.items():
                left[name] -= pods
            broken += any(left[name] < 0 for name in made.units[number].charged)
        assert state.budgets.violating(some) == broken
        if len(some) == 1:
            assert state.violates(some[0]) is bool(broken)


@each_seed(range(8))
def test_budget_violations_of_many_units_count_by_importance(seed: int) -> None:
    """preemption.md 6: each budget is charged unit by unit from the most important down, of few charges and of many."""
    chance = random.Random(seed)
    allowed = {f"b{number}": chance.randint(-1, 40) for number in range(9)}
    charged = [{name: chance.randint(1, 3) for name in allowed if chance.random() < 0.8} for _ in range(60)]
    units = [unit(f"u{i:02}", {}, priority=chance.randint(0, 9), charged=each) for i, each in enumerate(charged)]
    made = problem([(1,)], units, [kind((1,))], **allowed)
    state = Eviction(numbers(made))
    for share in (0.05, 0.3, 0.6, 1.0):
        going = [number for number in range(60) if chance.random() < share]
        assert state.price_of(going) == as_searched(made.price(tiny.names(made, going)))


class _Priced:
    """Criteria of one's own: what is evicted costs its numbers, and what budgets say."""

    def __init__(self, units: int, *, budgets_first: bool, by_limit: bool) -> None:
        each = tuple([float(1 + number) for number in range(units)])
        self.weights = GuidingWeights(each, gang=0.0, budget=5.0, tenant=0.0)
        self.budgets_first, self.by_limit, self.counts_tenants = budgets_first, by_limit, False

    def price(self, gone: Sequence[int], violations: Sequence[bool], gangs: int) -> tuple[float, ...]:
        return tuple(map(float, (*gone, *violations)))


@pytest.mark.parametrize("budgets_first", [False, True])
@pytest.mark.parametrize("by_limit", [False, True])
def test_criteria_of_ones_own_decide(budgets_first: bool, by_limit: bool) -> None:
    """cost.md 1.2: budgets and the highest priority come before them only where the list begins with them."""
    units = [unit("a", {0: (1,)}, priority=7, charged={"b": 1}), unit("c", {0: (1,)}, priority=3, charged={"b": 1})]
    made = problem([(9,)], [*units, unit("d", {0: (1,)}, priority=1)], [kind((1,))], b=1)
    pricing = cast("Pricing", _Priced(3, budgets_first=budgets_first, by_limit=by_limit))
    state = Eviction(replace(numbers(made), pricing=pricing))
    assert state.price_of([]) == NO_EVICTION
    assert state.price_of([0, 1]) == (int(budgets_first), 7 if by_limit else 0, (0.0, 1.0, 0.0, 1.0))
    assert state.price_of([1, 2]) == (0, 3 if by_limit else 0, (1.0, 2.0, 0.0, 0.0))
    assert list(state.weights.weight) == [1.0, 2.0, 3.0]
    assert state.budgets.weight == (BROKEN_BUDGET if budgets_first else 5.0)
    state.evict(0)
    assert [heavy >= BROKEN_BUDGET for heavy in state.heavy] == [budgets_first, budgets_first, False]


@pytest.mark.parametrize(("victims", "steps"), [(1, 1), (7, 1), (8, 2), (80, 11)])
def test_looking_at_what_many_cost_takes_more_steps(victims: int, steps: int) -> None:
    """cost.md 4.4: the search is bounded by steps, so what takes time has to count."""
    made = problem([(1,)], [unit(f"u{i:02}", {}) for i in range(80)], [kind((1,))])
    pricing = cast("Pricing", _Priced(80, budgets_first=False, by_limit=False))
    state = Eviction(replace(numbers(made), pricing=pricing))
    state.price_of(range(victims))
    assert state.counted == steps


@pytest.mark.parametrize(("nodes", "steps"), [(2, 1), (12, 1), (13, 2), (98, 8)])
def test_putting_pods_anew_takes_more_steps_where_more_nodes_are_tried(nodes: int, steps: int) -> None:
    """Of five pods, as far as one order is enough."""
    state = Eviction(numbers(_tight(4, *[(2,)] * (nodes - 2))))
    tiny.unlike(state).place(0, 0, 2)
    tiny.unlike(state).place(0, 1, 1)
    assert state.places.repack()
    assert state.counted == steps


def test_budget_weighs_more_than_the_priorities_of_many() -> None:
    """The first criterion decides first, as far as a weight can say so."""
    units = [unit("torn", {0: (1,)}, priority=1, charged={"b": 1}), unit("dear", {0: (1,)}, priority=2, pods=999)]
    made = problem([(9,)], units, [kind((1,))], b=0)
    state = Eviction(numbers(made))
    weights = dict(zip([each.name for each in made.units], state.heavy, strict=True))
    assert weights["torn"] > weights["dear"]
    assert state.budgets.weight == BROKEN_BUDGET
    unbudgeted = Eviction(numbers(replace(made, allowed={}, units=tuple(replace(u, charged={}) for u in made.units))))
    assert not unbudgeted.budgets.weight
    assert unbudgeted.heavy == unbudgeted.weights.weight


def test_unit_started_last_weighs_least_among_equals() -> None:
    """From 0 to less than a quarter, in the order of the starts: never as much as a priority."""
    made = problem(
        [(9,)], [unit(f"u{start}", {0: (1,)}, start=float(start)) for start in (5, 7, 7, 9, 20)], [kind((1,))]
    )
    state = Eviction(numbers(made))
    by_start = [age for _, age in sorted(zip([each.start for each in made.units], state.weights.age, strict=True))]
    assert by_start[-1] == 0.0
    assert by_start[0] > by_start[1] == by_start[2] > by_start[3] > 0.0
    assert by_start[0] < 0.25


def test_units_share_of_all_there_is() -> None:
    """Summed over resources, of what is free with all units gone; overdrawn nodes have nothing."""
    made = problem(
        [(6, 2), (2, -4)], [unit("a", {0: (2, 1), 1: (2, 0)}, pods=2), unit("b", {0: (4, 0)})], [kind((1, 1))]
    )
    state = Eviction(numbers(made))
    sizes = dict(zip([each.name for each in made.units], state.weights.size, strict=True))
    assert sizes == pytest.approx({"a": 4 / 8 + 1 / 2, "b": 4 / 8})
