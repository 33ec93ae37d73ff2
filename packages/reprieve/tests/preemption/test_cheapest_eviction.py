"""The cheapest eviction of small problems, against all there are (cost.md 4)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from reprieve.preemption.victim_search.eviction import NO_EVICTION, Eviction
from reprieve.preemption.victim_search.search import (
    CLOSE,
    PricedEviction,
    VictimSearch,
    as_cheap,
    cheapest_eviction,
)
from tests.preemption import tiny
from tests.preemption.exact import Problem
from tests.preemption.seeds import each_seed
from tests.preemption.tiny import as_searched, kind, numbers, problem, random_problem, unit


def _makes_room(made: Problem, found: PricedEviction) -> None:
    """Every pod has one place that it may use, beside remaining pods."""
    assert found.places is not None
    left = tiny.left_beside(made, tiny.names(made, found.units))
    placed = [0] * len(made.kinds)
    for number, node, count in found.places:
        assert count > 0
        assert node in made.kinds[number].nodes
        placed[number] += count
        for resource, want in enumerate(made.kinds[number].wants):
            left[node][resource] -= count * want
    assert placed == [each.count for each in made.kinds]
    for number, node, _ in found.places:
        asked = enumerate(made.kinds[number].wants)
        assert all(left[node][resource] >= 0 for resource, want in asked if want)


@each_seed(range(90))
def test_cheapest_eviction_is_found_for_like_pods(seed: int) -> None:
    """cost.md 4.1, 4.7: on a few nodes every set of units was tried; None where none makes room."""
    made = random_problem(seed, budgets=seed % 3)
    best, found = tiny.cheapest(made), cheapest_eviction(numbers(made))
    assert (best is None) is (found is None)
    if best is None or found is None:
        return
    assert found.price == as_searched(best)
    assert found.price == as_searched(made.price(tiny.names(made, found.units)))
    _makes_room(made, found)


@pytest.mark.parametrize(("kinds", "share"), [(2, 0.9), (3, 0.75)])
def test_cheapest_eviction_is_mostly_found_for_unlike_pods(kinds: int, share: float) -> None:
    """cost.md 4.7: near the optimum, and never below it; a reported eviction frees the capacity."""
    found_best, solvable = 0, 0
    for seed in range(60):
        made = random_problem(seed, kinds=kinds, budgets=seed % 3)
        best, found = tiny.cheapest(made), cheapest_eviction(numbers(made))
        if best is None:
            assert found is None
            continue
        solvable += 1
        if found is not None:
            _makes_room(made, found)
            assert found.price == as_searched(made.price(tiny.names(made, found.units))) >= as_searched(best)
            found_best += found.price == as_searched(best)
    assert found_best >= share * solvable
    assert solvable >= 15


@each_seed(range(60))
@pytest.mark.parametrize("exact", [False, True])
def test_nothing_is_dearer_than_what_is_known_to_do(seed: int, exact: bool) -> None:
    """cost.md 4.2: beside an eviction that does the cheapest is found all the same, or that one stays."""
    made = random_problem(seed, kinds=1 + seed % 2, budgets=seed % 3)
    evictions = list(tiny.evictions(made))
    if not evictions:
        return
    chosen = random.Random(seed).choice(evictions)
    known = [number for number, each in enumerate(made.units) if each.name in chosen]
    found = cheapest_eviction(numbers(made, exact=exact), known)
    if found is None:
        assert len(made.kinds) > 1, "unlike pods may not be placed by numbers"
        return
    if len(made.kinds) == 1:
        assert found.price == as_searched(min(map(made.price, evictions)))
    assert found.price == as_searched(made.price(tiny.names(made, found.units)))
    if found.places is None:
        assert found.units == tuple(known)
    else:
        _makes_room(made, found)


def _gone(made: Problem, known: Sequence[int] = ()) -> list[str]:
    found = cheapest_eviction(numbers(made), known)
    assert found is not None
    return sorted(tiny.names(made, found.units))


def test_known_eviction_of_all_units_is_taken_as_it_is() -> None:
    """cost.md 4.1: nothing is searched, and the places are not looked for."""
    made = problem([(2,), (2,)], [unit("a", {0: (2,)}), unit("b", {1: (2,)})], [kind((2,), 2)])
    found = cheapest_eviction(numbers(made), [0, 1])
    assert found == PricedEviction((0, 1), Eviction(numbers(made)).price_of([0, 1]), None)


def test_eviction_without_victims_is_the_cheapest() -> None:
    made = problem([(2,), (2,)], [unit("a", {0: (1,)}), unit("b", {1: (1,)})], [kind((1,), 2)])
    found = cheapest_eviction(numbers(made))
    assert found == PricedEviction((), NO_EVICTION, ((0, 0, 1), (0, 1, 1)))


def test_no_victims_if_pods_fit_only_in_places_that_one_order_of_placing_misses() -> None:
    """cost.md 4.14: the large pod must leave the tightest node to two small ones."""
    made = problem([(6,), (7,), (3,)], [unit("u", {2: (3,)})], [kind((4,)), kind((3,), 3)])
    found = cheapest_eviction(numbers(made))
    assert found == PricedEviction((), NO_EVICTION, ((1, 0, 2), (0, 1, 1), (1, 1, 1)))


def test_places_pod_by_pod() -> None:
    """In the order of the pods of each kind, by row."""
    made = problem([(4,), (3,)], [], [kind((2,), 2), kind((1,), 3)])
    asked = numbers(made)
    found = PricedEviction((), NO_EVICTION, ((0, 0, 1), (0, 1, 1), (1, 0, 2), (1, 1, 1)))
    assert [(pod.name, row) for pod, row in found.assigned(asked)] == [
        ("k0-0", 0),
        ("k0-1", 10),
        ("k1-0", 0),
        ("k1-1", 0),
        ("k1-2", 10),
    ]


def test_lower_limit_of_priority_comes_before_fewer_pods() -> None:
    """preemption.md 3: three of priority 1 rather than one of priority 2, by a step or by several."""
    low = [unit(f"low-{i}", {i: (2,)}, priority=1) for i in range(3)]
    high = [unit(f"high-{i}", {3 + i: (2,)}, priority=2 + i) for i in range(2)]
    both = unit("both", {5: (2,), 6: (2,), 7: (2,)}, priority=5, pods=3)
    assert _gone(problem([(2,)] * 8, [*low, *high, both], [kind((2,), 3)])) == ["low-0", "low-1", "low-2"]
    assert _gone(problem([(2,)] * 8, [*low, *high, both], [kind((2,), 4)])) == ["high-0", "low-0", "low-1", "low-2"]
    assert _gone(problem([(2,)] * 8, [*low[1:], *high, both], [kind((2,), 5)])) == sorted(
        ["high-0", "high-1", "low-1", "low-2"]
    )


def test_fewer_budgets_broken_come_before_a_lower_limit() -> None:
    """And among as many broken ones the lower limit."""
    torn = [unit(f"torn-{i}", {i: (2,)}, priority=1 + i, charged={"b": 1}) for i in range(2)]
    dear = unit("dear", {2: (2,)}, priority=9)
    assert _gone(problem([(2,)] * 3, [*torn, dear], [kind((2,), 1)], b=0)) == ["dear"]
    assert _gone(problem([(2,)] * 3, [*torn, dear], [kind((2,), 1)], b=1)) == ["torn-0"]
    assert _gone(problem([(2,)] * 3, [*torn, dear], [kind((2,), 2)], b=0)) == ["dear", "torn-0"]
    assert _gone(problem([(2,)] * 3, [*torn, dear], [kind((2,), 2)], b=1)) == ["dear", "torn-0"]
    assert _gone(problem([(2,)] * 3, [*torn, dear], [kind((2,), 2)], b=2)) == ["torn-0", "torn-1"]


def test_two_dear_ones_are_exchanged_for_one() -> None:
    """Bundles are taken by the place, and a unit that makes room for three is worth it only for three."""
    single = [unit(f"s{i}", {i: (1,)}, priority=1) for i in range(2)]
    whole = unit("whole", {2: (3,)}, priority=1, pods=3)
    assert _gone(problem([(1,), (1,), (3,)], [*single, whole], [kind((1,), 2)])) == ["s0", "s1"]
    assert _gone(problem([(1,), (1,), (3,)], [*single, whole], [kind((1,), 3)])) == ["whole"]
    dear = [replace(each, pods=2) for each in single]
    assert _gone(problem([(1,), (1,), (3,)], [*dear, whole], [kind((1,), 2)])) == ["whole"]


def test_same_numbers_give_the_same_answer() -> None:
    """cost.md 4.4: steps are counted and not seconds."""
    made = random_problem(17, kinds=3, budgets=2, nodes=4, units=7)
    assert len({cheapest_eviction(numbers(made)) for _ in range(3)}) == 1


@each_seed(range(12))
def test_eviction_is_no_better_with_fewer_steps(seed: int) -> None:
    """Anytime: what is found with next to no improvement makes room, and more steps are never worse."""
    made = random_problem(seed, kinds=1 + seed % 2, budgets=1, units=7)
    hasty, patient = cheapest_eviction(numbers(made), steps=1), cheapest_eviction(numbers(made))
    assert (hasty is None) is (patient is None)
    if hasty is not None and patient is not None:
        assert patient.price <= hasty.price
        if hasty.places is not None:
            _makes_room(made, hasty)


def _close(
    total: int, bound: int, pods: int, nodes: int, *, violations: int = 0, units: tuple[int, ...] = (0,)
) -> bool:
    search = VictimSearch(numbers(problem([(1,)] * nodes, [unit("a", {0: (1,)})], [kind((1,))])), 1)
    search.bound = bound
    search.best = PricedEviction(units, (violations, 0, (total, pods, 0.0)), None)
    return search.close


@pytest.mark.parametrize(
    ("case", "close"),
    [
        ((102, 100, CLOSE, 1), True),
        ((103, 100, CLOSE, 1), False),
        ((102, 100, CLOSE - 1, 1), False),
        ((102, 100, 1, 100), False),
        ((102, 100, 1, 101), True),
    ],
)
def test_eviction_within_two_percent_of_the_bound_is_not_improved(case: tuple[int, int, int, int], close: bool) -> None:
    """cost.md 4.4: in a small cluster only where that is a pod or more."""
    assert _close(*case) is close


def test_closeness_at_its_limits() -> None:
    """The search ends once no pods are evicted; not while budgets are broken, nor before anything is found."""
    assert not _close(100, 100, CLOSE, 1, violations=1)
    assert _close(0, 0, 0, 1, units=())
    assert not VictimSearch(numbers(problem([(1,)], [], [kind((1,))])), 1).close


@each_seed(range(40))
def test_others_that_cost_the_same_make_room_as_well(seed: int) -> None:
    """cost.md 4.3: each once, none of them the one that was found, at most so many."""
    made = random_problem(seed, budgets=seed % 2)
    made = replace(made, units=tuple(replace(each, priority=1, start=0.0) for each in made.units))
    made = problem(made.free, made.units, made.kinds, **made.allowed)
    found = cheapest_eviction(numbers(made))
    if found is None or not found.units:
        return
    same = {gone for gone in tiny.evictions(made) if as_searched(made.price(gone)) == found.price}
    others = as_cheap(numbers(made), found, 99)
    told = [tiny.names(made, other.units) for other in others]
    assert len(set(told)) == len(told)
    assert tiny.names(made, found.units) not in told
    assert set(told) <= same
    for other in others:
        assert other.price == found.price
        _makes_room(made, other)
    assert [tiny.names(made, o.units) for o in as_cheap(numbers(made), found, 1)] == told[:1]


def test_each_victim_and_each_node_has_its_turn() -> None:
    """Of those for one victim a few; then for the others; then for all on one node together."""
    made = problem([(1,)] * 9, [unit(f"u{i}", {i: (1,)}) for i in range(9)], [kind((1,), 2)])
    found = cheapest_eviction(numbers(made))
    assert found is not None
    others = as_cheap(numbers(made), found, 99)
    kept = [set(other.units) & set(found.units) for other in others]
    assert [len(each) for each in kept] == [1] * 8
    assert sorted(map(sorted, kept)) == [[found.units[0]]] * 4 + [[found.units[1]]] * 4
    two = problem([(2,)] * 3, [unit(f"u{i}", {i // 2: (1,)}) for i in range(6)], [kind((2,), 1)])
    found = cheapest_eviction(numbers(two))
    assert found is not None
    assert {tiny.names(two, other.units) for other in as_cheap(numbers(two), found, 9)} == {
        names for names in (("u0", "u1"), ("u2", "u3"), ("u4", "u5")) if names != tiny.names(two, found.units)
    }


def test_none_is_as_cheap_where_all_others_are_dearer() -> None:
    made = problem([(1,), (1,)], [unit("a", {0: (1,)}, priority=1), unit("b", {1: (1,)}, priority=2)], [kind((1,))])
    found = cheapest_eviction(numbers(made))
    assert found is not None
    assert as_cheap(numbers(made), found, 9) == []
