"""Lower bounds of what an eviction costs, and units that every eviction has (cost.md 4.1, 4.4)."""

from __future__ import annotations

import pytest

from reprieve.preemption.victim_search.bounds import all_necessary, least_weight
from reprieve.preemption.victim_search.eviction import Eviction
from tests.preemption import tiny
from tests.preemption.seeds import each_seed
from tests.preemption.tiny import kind, numbers, problem, random_problem, unit

OFFSET = 1 << 31


@each_seed(range(60))
def test_no_eviction_weighs_less_than_the_bound(seed: int) -> None:
    """Each resource by itself, units in parts: the sum of priorities of no eviction is below it."""
    made = random_problem(seed, kinds=1 + seed % 3)
    state = Eviction(numbers(made))
    state.places.settle()
    bound = least_weight(state)
    prices = [made.price(gone) for gone in tiny.evictions(made)]
    assert all(bound <= price[2] for price in prices)
    for number in range(0, len(made.units), 2):
        state.bar(number)
    barred = {each.name for each in made.units[::2]}
    bound = least_weight(state)
    assert all(bound <= made.price(gone)[2] for gone in tiny.evictions(made) if barred.isdisjoint(gone))


@pytest.mark.parametrize(
    ("free", "units", "kinds", "weight"),
    [
        # Three lack; a unit of weight 4 holds two, one of weight 12 four: all of the first, a quarter of the second.
        ([(6,)], [("a", {0: (4,)}, 12), ("b", {0: (2,)}, 4)], [((1,), 3)], 4 + 3),
        # What is free counts, on nodes that may be used.
        ([(6,), (1,)], [("a", {0: (4,)}, 12), ("b", {0: (2,)}, 4)], [((1,), 3)], 4),
        ([(4,)], [("a", {0: (4,)}, 12)], [((2,), 2)], 12),
        ([(5,)], [("a", {0: (4,)}, 12)], [((2,), 2)], 9),
        # The resource for which it is dearest.
        ([(4, 4)], [("a", {0: (4, 0)}, 8), ("b", {0: (0, 4)}, 20)], [((2, 3), 1)], 15),
        # Nothing lacks.
        ([(9,)], [("a", {0: (4,)}, 12)], [((2,), 2)], 0),
    ],
)
def test_eviction_weighs_at_least(
    free: list[tuple[int, ...]],
    units: list[tuple[str, dict[int, tuple[int, ...]], int]],
    kinds: list[tuple[tuple[int, ...], int]],
    weight: int,
) -> None:
    """By hand: of each resource the cheapest for what they hold, the last of them in part."""
    there = [unit(name, takes, priority=weighs - OFFSET) for name, takes, weighs in units]
    state = Eviction(numbers(problem(free, there, [kind(wants, count) for wants, count in kinds])))
    assert least_weight(state) in (weight, weight - 1), "rounded down"


def test_units_on_unusable_nodes_do_not_help() -> None:
    units = [unit("a", {0: (2,)}, priority=5 - OFFSET), unit("b", {1: (2,)}, priority=1 - OFFSET)]
    state = Eviction(numbers(problem([(2,), (3,)], units, [kind((1,), 2, [0])])))
    assert least_weight(state) in (4, 5)


@each_seed(range(60))
def test_necessary_victims_of_small_problems(seed: int) -> None:
    """Like pods: without each of these units gone no eviction makes room."""
    made = random_problem(seed)
    for number, each in enumerate(made.units):
        others = {other.name for other in made.units if other is not each}
        assert all_necessary(numbers(made), [number]) is not tiny.fits(made, others)
    assert all_necessary(numbers(made), [])
    most = range(len(made.units))
    assert all_necessary(numbers(made), most) is all(all_necessary(numbers(made), [u]) for u in most)


def test_pods_without_requests_need_no_eviction() -> None:
    assert not all_necessary(numbers(problem([(1,)], [unit("a", {0: (1,)})], [kind((0,))])), [0])
