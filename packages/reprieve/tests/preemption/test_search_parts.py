"""The search for the cheapest eviction, part by part, where everything can be tried (cost.md 4)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import pytest

from reprieve.preemption.victim_search.bounds import all_necessary, least_weight
from reprieve.preemption.victim_search.eviction import NO_EVICTION, Eviction
from reprieve.preemption.victim_search.for_one import cheapest_for_one
from reprieve.preemption.victim_search.search import (
    CLOSE,
    Found,
    VictimSearch,
    _drawn,
    _some,
    as_cheap,
    cheapest_eviction,
)
from tests.preemption import tiny
from tests.preemption.exact import Problem
from tests.preemption.seeds import each_seed
from tests.preemption.tiny import as_searched, kind, numbers, problem, random_problem, unit

OFFSET = 1 << 31


def _makes_room(made: Problem, found: Found) -> None:
    """Every pod has one place that it may use, beside those who stay."""
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


# -- against all there are -------------------------------------------------------------------------------------------


@each_seed(range(90))
def test_of_like_pods_the_cheapest_of_all_evictions_is_found(seed: int) -> None:
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
def test_of_unlike_pods_the_cheapest_is_mostly_found(kinds: int, share: float) -> None:
    """cost.md 4.7: near the optimum, and never below it; what is said to make room does."""
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
        # Three lack; two are held by who weighs 4, four by who weighs 12: all of the first, a quarter of the second.
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
def test_what_an_eviction_weighs_at_least(
    free: list[tuple[int, ...]],
    units: list[tuple[str, dict[int, tuple[int, ...]], int]],
    kinds: list[tuple[tuple[int, ...], int]],
    weight: int,
) -> None:
    """By hand: of each resource the cheapest for what they hold, the last of them in part."""
    there = [unit(name, takes, priority=weighs - OFFSET) for name, takes, weighs in units]
    state = Eviction(numbers(problem(free, there, [kind(wants, count) for wants, count in kinds])))
    assert least_weight(state) in (weight, weight - 1), "rounded down"


def test_what_is_on_nodes_that_may_not_be_used_is_no_help() -> None:
    units = [unit("a", {0: (2,)}, priority=5 - OFFSET), unit("b", {1: (2,)}, priority=1 - OFFSET)]
    state = Eviction(numbers(problem([(2,), (3,)], units, [kind((1,), 2, [0])])))
    assert least_weight(state) in (4, 5)


@each_seed(range(60))
def test_who_has_to_go_in_any_case(seed: int) -> None:
    """Like pods: without each of these units gone no eviction makes room."""
    made = random_problem(seed)
    for number, each in enumerate(made.units):
        others = {other.name for other in made.units if other is not each}
        assert all_necessary(numbers(made), [number]) is not tiny.fits(made, others)
    assert all_necessary(numbers(made), [])
    most = range(len(made.units))
    assert all_necessary(numbers(made), most) is all(all_necessary(numbers(made), [u]) for u in most)


def test_pods_that_ask_for_nothing_need_nobody_to_go() -> None:
    assert not all_necessary(numbers(problem([(1,)], [unit("a", {0: (1,)})], [kind((0,))])), [0])


# -- one rule at a time --------------------------------------------------------------------------------------------


def _gone(made: Problem, known: Sequence[int] = ()) -> list[str]:
    found = cheapest_eviction(numbers(made), known)
    assert found is not None
    return sorted(tiny.names(made, found.units))


def test_what_is_known_and_needs_everybody_is_taken_as_it_is() -> None:
    """cost.md 4.3: nothing is searched, and the places are not looked for."""
    made = problem([(2,), (2,)], [unit("a", {0: (2,)}), unit("b", {1: (2,)})], [kind((2,), 2)])
    found = cheapest_eviction(numbers(made), [0, 1])
    assert found == Found((0, 1), Eviction(numbers(made)).price_of([0, 1]), None)


def test_an_eviction_of_nobody_is_the_cheapest() -> None:
    made = problem([(2,), (2,)], [unit("a", {0: (1,)}), unit("b", {1: (1,)})], [kind((1,), 2)])
    found = cheapest_eviction(numbers(made))
    assert found == Found((), NO_EVICTION, ((0, 0, 1), (0, 1, 1)))


def test_the_places_pod_by_pod() -> None:
    """In the order of the pods of each kind, by row."""
    made = problem([(4,), (3,)], [], [kind((2,), 2), kind((1,), 3)])
    asked = numbers(made)
    found = Found((), NO_EVICTION, ((0, 0, 1), (0, 1, 1), (1, 0, 2), (1, 1, 1)))
    assert [(pod.name, row) for pod, row in found.assigned(asked)] == [
        ("k0-0", 0),
        ("k0-1", 10),
        ("k1-0", 0),
        ("k1-1", 0),
        ("k1-2", 10),
    ]


def test_a_lower_limit_of_priority_comes_before_fewer_pods() -> None:
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


def test_the_same_numbers_give_the_same_answer() -> None:
    """cost.md 4.4: steps are counted and not seconds."""
    made = random_problem(17, kinds=3, budgets=2, nodes=4, units=7)
    assert len({cheapest_eviction(numbers(made)) for _ in range(3)}) == 1


@each_seed(range(12))
def test_with_fewer_steps_nothing_better_is_found(seed: int) -> None:
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
    search.best = Found(units, (violations, 0, (total, pods, 0.0)), None)
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
def test_what_is_within_two_percent_of_the_bound_is_not_improved(case: tuple[int, int, int, int], close: bool) -> None:
    """cost.md 4.4: in a small cluster only where that is a pod or more."""
    assert _close(*case) is close


def test_what_is_never_and_always_close() -> None:
    """Where budgets are broken it is not over; where nobody goes it is; before anything is found it is not."""
    assert not _close(100, 100, CLOSE, 1, violations=1)
    assert _close(0, 0, 0, 1, units=())
    assert not VictimSearch(numbers(problem([(1,)], [], [kind((1,))])), 1).close


# -- others that cost the same ---------------------------------------------------------------------------------------


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


# -- what is tried next ----------------------------------------------------------------------------------------------


def test_what_is_tried_by_turns() -> None:
    """One victim back, the dearest first; what was not taken; then any single unit, two back, whole nodes anew."""
    units = [unit(f"u{p}", {(0 if p > 1 else 1): (1,)}, priority=p) for p in range(5)]
    made = problem([(3,), (2,)], units, [kind((1,), 3)])
    search = VictimSearch(numbers(made), 1_000)
    search.state.places.settle()
    for number in (0, 1, 2):  # u4, u3 and u2, all on the first node
        search.state.evict(number)
    search.state.places.settle()
    shallow, deep = list(search._changes(1)), list(search._changes(2))
    assert shallow == deep[: len(shallow)]
    assert shallow[:3] == [((u,), (u,), ()) for u in (0, 1, 2)]
    assert {change[2] for change in shallow[3:]} == {(4,), (3, 4)}
    rest = deep[len(shallow) :]
    assert rest == [
        ((), (), (3,)),
        ((), (), (4,)),
        ((0, 1), (0, 1), ()),
        ((0, 2), (0, 2), ()),
        ((1, 2), (1, 2), ()),
        ((0,), (0, 1, 2), ()),
        ((1,), (0, 1, 2), ()),
        ((2,), (0, 1, 2), ()),
        ((0, 1, 2), (0, 1, 2), ()),
        ((0,), (0, 1, 2), ()),
        ((1,), (0, 1, 2), ()),
        ((2,), (0, 1, 2), ()),
    ]


def test_who_may_not_go_is_not_tried() -> None:
    made = problem([(3,)], [unit(f"u{p}", {0: (1,)}, priority=p) for p in range(3)], [kind((1,), 1)])
    search = VictimSearch(numbers(made), 1_000)
    search.state.evict(2)
    search.state.bar(0)
    search.state.places.settle()
    assert {unit for _, _, go in search._changes(2) for unit in go} == {1}


def test_what_did_not_help_is_not_made_again() -> None:
    """As long as the same are gone and may go."""
    made = problem([(2,), (2,)], [unit("a", {0: (2,)}, priority=1), unit("b", {1: (2,)}, priority=2)], [kind((2,), 1)])
    search = VictimSearch(numbers(made), 1_000)
    assert search._build()
    price = search.state.price()
    change = ((1,), (1,), ())
    assert search._try(change, price) is None
    assert (search.repeats, search.state.gone, search.state.barred) == (0, {1}, set())
    assert search._try(change, price) is None
    assert search.repeats == 1
    search.state.bar(0)
    assert search._try(change, price) is None
    assert search.repeats == 1, "another may not go now"


def test_an_exchange_that_helps_is_kept() -> None:
    made = problem([(2,), (2,)], [unit("a", {0: (2,)}, priority=1), unit("b", {1: (2,)}, priority=2)], [kind((2,), 1)])
    search = VictimSearch(numbers(made), 1_000)
    search.state.evict(0)
    search.state.places.settle()
    price = search._try(((0,), (0,), ()), search.state.price())
    assert price == search.state.price() == search.state.price_of([1])
    assert (search.state.gone, search.state.barred) == ({1}, set())


def test_who_need_not_go_comes_back_the_dearest_first() -> None:
    """One of the three can; and one that is wanted gone only if nobody else can."""
    made = problem([(3,)], [unit(f"u{p}", {0: (1,)}, priority=p) for p in range(3)], [kind((1,), 2)])
    for wanted, gone in (((), {1, 2}), ((0,), {0, 2}), ((0, 1), {0, 1}), ((0, 1, 2), {1, 2})):
        search = VictimSearch(numbers(made), 1_000)
        for number in range(3):
            search.state.evict(number)
        search.state.places.settle()
        search._spare(search._returnable() or (), wanted)
        assert search.state.gone == gone, wanted


def test_where_the_dearest_cannot_come_back_another_may() -> None:
    """Ruled out before it is tried, or tried in vain."""
    for first in (3, 2):
        units = [unit("dear", {0: (first,)}, priority=5), unit("cheap", {0: (1,)})]
        made = problem([(4,), (1,)], units, [kind((2,), 1), *([kind((1,), 1, [1])] if first == 2 else [])])
        search = VictimSearch(numbers(made), 1_000)
        for number in range(2):
            search.state.evict(number)
        search.state.places.settle()
        search._spare(search._returnable() or ())
        assert tiny.names(made, search.state.gone) == (("dear",) if first == 3 else ("cheap",))


def test_only_what_is_cheaper_is_remembered() -> None:
    """Whether it was is told; what costs as much is not another one."""
    made = problem(
        [(1,)] * 3,
        [unit(n, {i: (1,)}, priority=p) for i, (n, p) in enumerate((("a", 2), ("b", 1), ("c", 1)))],
        [kind((1,))],
    )
    search = VictimSearch(numbers(made), 1_000)
    noted = []
    for number in (0, 1, 2, 0):
        search.state.evict(number)
        search.state.places.settle()
        noted.append(search._note())
        search.state.restore(number)
    assert noted == [True, True, False, False]
    assert search.best is not None
    assert search.best.units == (1,)


def test_trying_to_bring_somebody_back_is_a_step() -> None:
    """cost.md 4.4: whether it can be or not; who is ruled out beforehand is none."""
    made = problem([(3,), (2,)], [unit(f"u{p}", {0: (1,)}, priority=p) for p in range(3)], [kind((1,), 2)])
    search = VictimSearch(numbers(made), 1_000)
    for number in range(3):
        search.state.evict(number)
    search.state.places.settle()
    before = search.taken
    search._spare(search._returnable() or ())
    assert (search.returns, search.taken - before) == (3, 3)
    assert search.state.gone == set()


def test_who_breaks_a_budget_comes_back_before_who_is_dear() -> None:
    made = problem(
        [(3,)], [unit("dear", {0: (1,)}, priority=5), unit("torn", {0: (1,)}, charged={"b": 1})], [kind((1,), 2)], b=-1
    )
    search = VictimSearch(numbers(made), 1_000)
    for number in range(2):
        search.state.evict(number)
    search.state.places.settle()
    search._spare(search._returnable() or ())
    assert tiny.names(made, search.state.gone) == ("dear",)


def test_small_ones_come_back_first_where_that_is_asked_for() -> None:
    """Two small ones instead of the dear large one."""
    units = [unit("large", {0: (2,)}, priority=5), unit("s1", {0: (1,)}), unit("s2", {0: (1,)})]
    for small_first, gone in ((False, ("s1", "s2")), (True, ("large",))):
        made = problem([(4,)], units, [kind((1,), 2)])
        search = VictimSearch(numbers(made), 1_000)
        for number in range(3):
            search.state.evict(number)
        search.state.places.settle()
        search._spare(search._returnable() or (), small_first=small_first)
        assert tiny.names(made, search.state.gone) == gone


def test_only_who_is_on_a_node_that_changed_is_tried_back_where_there_is_no_room() -> None:
    """Nobody could come back before."""
    made = problem([(1,), (2,)], [unit("a", {0: (1,)}), unit("b", {1: (1,)}), unit("c", {1: (1,)})], [kind((1,), 3)])
    search = VictimSearch(numbers(made), 1_000)
    state = search.state
    for number in range(3):
        state.evict(number)
    state.places.settle()
    assert search._returnable(state.mark()) == []
    assert search.checks == 0
    assert search._returnable() == []
    assert search.checks == 3


def test_nobody_of_higher_priority_goes_below_a_limit() -> None:
    made = problem([(4,)], [unit(f"u{p}", {0: (1,)}, priority=p // 2) for p in range(6)], [kind((1,), 1)])
    search = VictimSearch(numbers(made), 1_000)
    for limit, barred in ((0, {0, 1, 2, 3}), (1, {0, 1}), (2, set()), (-1, set(range(6))), (1, {0, 1})):
        search._limit(limit)
        assert search.state.barred == barred
    search.state.bar(5)
    search._limit(2)
    assert search.state.barred == set(), "everybody else may"


@each_seed(range(30))
def test_an_eviction_is_taken_up_from_whatever_was_tried(seed: int) -> None:
    """Who goes, and the places pod by pod."""
    made, chance = random_problem(seed, kinds=1 + seed % 2), random.Random(seed)
    best = cheapest_eviction(numbers(made))
    if best is None:
        return
    search = VictimSearch(numbers(made), 1)
    for number in range(len(made.units)):
        if chance.random() < 0.5:
            search.state.evict(number)
    search.state.places.settle()
    search._load(best)
    assert search.state.gone == set(best.units)
    assert not any(search.state.places.missing)
    assert search.state.places.places() == best.places


def test_parts_are_drawn_in_a_fixed_order() -> None:
    """cost.md 4.4: the same on every machine; on average two to more than half of them."""
    assert list(islice(_drawn(), 3)) == [pow(69069, power, 4294967291) for power in (1, 2, 3)]
    drawing = _drawn()
    sizes = [len(_some(range(20), drawing)) for _ in range(300)]
    assert 5 < sum(sizes) / len(sizes) < 9
    assert all(1 <= len(set(some)) <= 3 for some in (_some((4, 7, 9), drawing) for _ in range(9)) if some)
    again = _drawn()
    assert [_some(range(9), again) for _ in range(5)] == [
        _some(range(9), each) for each in [_drawn()] for _ in range(5)
    ]


def test_in_large_clusters_fewer_steps_are_taken() -> None:
    """cost.md 4.4: in proportion, beyond 100 nodes, and never fewer than some."""
    taken = []
    for nodes in (100, 200, 400, 4000):
        made = problem([(1,)] * nodes, [unit(f"u{i}", {i: (1,)}, start=float(i)) for i in range(3)], [kind((1,), 1)])
        asked: list[int] = []

        class _Noted(VictimSearch):
            def __init__(self, numbers_: object, steps: int, asked: list[int] = asked) -> None:
                asked.append(steps)
                raise KeyError

        taken.append((made, asked))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("reprieve.preemption.victim_search.search.VictimSearch", _Noted)
            with pytest.raises(KeyError):
                cheapest_eviction(replace(numbers(made), kinds=numbers(made).kinds * 2))
    assert [asked for _, asked in taken] == [[12_000], [6_000], [3_000], [2_000]]


# -- one pod ---------------------------------------------------------------------------------------------------------


@each_seed(range(150))
def test_for_one_pod_the_cheapest_of_all_sets_goes(seed: int) -> None:
    """cost.md 4.8: on the first node by name among those that are as cheap; there the least important."""
    made = random_problem(seed, budgets=seed % 3)
    made = replace(made, kinds=(replace(made.kinds[0], count=1),))
    found = cheapest_for_one(Eviction(numbers(made)))
    every = list(tiny.evictions(made))
    best = min(map(made.price, every), default=None)
    assert (found is None) is (best is None)
    if found is None or best is None:
        return
    units, price, node = found
    assert price == as_searched(best) == as_searched(made.price(tiny.names(made, units)))
    assert node == min(node for gone in every if made.price(gone) == best for node in _fits_on(made, gone))
    as_good = [
        tuple(sorted((-number for number in range(len(made.units)) if made.units[number].name in gone), reverse=True))
        for gone in every
        if made.price(gone)[:4] == best[:4] and node in _fits_on(made, gone)
    ]
    if not best[0]:  # with budgets the same count may come of others
        assert tuple(-u for u in units) == min(as_good)
    asked = cheapest_eviction(numbers(made))
    assert asked is not None
    assert (asked.units, asked.price, asked.places) == (units, price, ((0, node, 1),))


def _fits_on(made: Problem, gone: Sequence[str]) -> list[int]:
    left = tiny.left_beside(made, gone)
    return [n for n, have in enumerate(left) if n in made.kinds[0].nodes and tiny.places(have, made.kinds[0].wants)]


def test_of_like_units_of_a_node_the_least_important_go() -> None:
    """cost.md 4.8: where they differ in the start alone; preemption.md 5: who started later is less important."""
    units = [unit(f"u{start}", {0: (1,)}, start=float(start)) for start in range(5)]
    made = problem([(5,)], units, [kind((2,))])
    found = cheapest_for_one(Eviction(numbers(made)))
    assert found is not None
    assert tiny.names(made, found[0]) == ("u3", "u4")


def test_the_best_set_found_within_the_budget_makes_room() -> None:
    """On a node with many units that all differ what was found by then counts, and it makes room."""
    units = [unit(f"u{i:02}", {0: (3 + i % 7, 5 - i % 5)}, pods=1 + i % 3, priority=i % 4) for i in range(40)]
    made = problem([(sum(u.takes[0][0] for u in units), sum(u.takes[0][1] for u in units))], units, [kind((31, 17))])
    found = cheapest_for_one(Eviction(numbers(made)))
    assert found is not None
    assert tiny.fits(made, tiny.names(made, found[0]))
