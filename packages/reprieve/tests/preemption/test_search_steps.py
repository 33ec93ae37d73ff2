"""The steps by which the search improves an eviction, and in which order (cost.md 4.4, 4.7)."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

import pytest

from reprieve.preemption.victim_search.search import (
    Change,
    VictimSearch,
    _drawn,
    _some,
    cheapest_eviction,
)
from tests.preemption import tiny
from tests.preemption.exact import Problem
from tests.preemption.seeds import each_seed
from tests.preemption.tiny import kind, numbers, problem, random_problem, unit


def _evicting(made: Problem, gone: Iterable[int]) -> VictimSearch:
    """Return a search that has evicted these units."""
    search = VictimSearch(numbers(made), 1_000)
    for number in gone:
        search.state.evict(number)
    search.state.places.settle()
    return search


def test_search_tries_changes_by_turns() -> None:
    """One victim back, the dearest first; what was not taken; then any single unit, two back, whole nodes again."""
    units = [unit(f"u{p}", {(0 if p > 1 else 1): (1,)}, priority=p) for p in range(5)]
    made = problem([(3,), (2,)], units, [kind((1,), 3)])
    search = _evicting(made, (0, 1, 2))  # u4, u3 and u2, all on the first node
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


def test_unit_that_must_stay_is_not_tried() -> None:
    made = problem([(3,)], [unit(f"u{p}", {0: (1,)}, priority=p) for p in range(3)], [kind((1,), 1)])
    search = VictimSearch(numbers(made), 1_000)
    search.state.evict(2)
    search.state.bar(0)
    search.state.places.settle()
    assert {unit for _, _, go in search._changes(2) for unit in go} == {1}


def test_changes_that_did_not_help_are_not_made_again() -> None:
    """As long as the same may go; where others are gone they may help again."""
    made = problem([(2,), (2,)], [unit("a", {0: (2,)}, priority=1), unit("b", {1: (2,)}, priority=2)], [kind((2,), 1)])
    search = VictimSearch(numbers(made), 1_000)
    assert search._build()
    price = search.state.price()
    change = ((1,), (1,), ())
    failed: set[tuple[int, Change]] = set()
    assert search._try(change, price, failed) is None
    assert (search.repeats, search.state.evicted, search.state.barred) == (0, {1}, set())
    assert search._try(change, price, failed) is None
    assert search.repeats == 1
    search.state.bar(0)
    assert search._try(change, price, failed) is None
    assert search.repeats == 1, "another may not go now"


def test_exchange_that_helps_is_kept() -> None:
    made = problem([(2,), (2,)], [unit("a", {0: (2,)}, priority=1), unit("b", {1: (2,)}, priority=2)], [kind((2,), 1)])
    search = VictimSearch(numbers(made), 1_000)
    search.state.evict(0)
    search.state.places.settle()
    price = search._try(((0,), (0,), ()), search.state.price(), set())
    assert price == search.state.price() == search.state.price_of([1])
    assert (search.state.evicted, search.state.barred) == ({1}, set())


def test_units_come_back_the_dearest_first() -> None:
    """One of the three can; a unit that is to be evicted only if no other can."""
    made = problem([(3,)], [unit(f"u{p}", {0: (1,)}, priority=p) for p in range(3)], [kind((1,), 2)])
    for wanted, gone in (((), {1, 2}), ((0,), {0, 2}), ((0, 1), {0, 1}), ((0, 1, 2), {1, 2})):
        search = _evicting(made, range(3))
        search._spare(search._returnable() or (), wanted)
        assert search.state.evicted == gone, wanted


def test_where_the_dearest_cannot_come_back_another_may() -> None:
    """Ruled out before it is tried, or tried without success."""
    for first in (3, 2):
        units = [unit("dear", {0: (first,)}, priority=5), unit("cheap", {0: (1,)})]
        made = problem([(4,), (1,)], units, [kind((2,), 1), *([kind((1,), 1, [1])] if first == 2 else [])])
        search = _evicting(made, range(2))
        search._spare(search._returnable() or ())
        assert tiny.names(made, search.state.evicted) == (("dear",) if first == 3 else ("cheap",))


def test_only_what_is_cheaper_is_remembered() -> None:
    """The result states whether it was replaced; an equal cost replaces nothing."""
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


def test_attempt_to_bring_a_unit_back_is_a_step() -> None:
    """cost.md 4.4: whether it can be or not; a unit that is ruled out beforehand is none."""
    made = problem([(3,), (2,)], [unit(f"u{p}", {0: (1,)}, priority=p) for p in range(3)], [kind((1,), 2)])
    search = _evicting(made, range(3))
    before = search.taken
    search._spare(search._returnable() or ())
    assert (search.returns, search.taken - before) == (3, 3)
    assert search.state.evicted == set()


def test_unit_that_breaks_a_budget_comes_back_before_a_dear_one() -> None:
    made = problem(
        [(3,)], [unit("dear", {0: (1,)}, priority=5), unit("torn", {0: (1,)}, charged={"b": 1})], [kind((1,), 2)], b=-1
    )
    search = _evicting(made, range(2))
    search._spare(search._returnable() or ())
    assert tiny.names(made, search.state.evicted) == ("dear",)


def test_small_ones_come_back_first_where_that_is_asked_for() -> None:
    """Two small ones instead of the dear large one."""
    units = [unit("large", {0: (2,)}, priority=5), unit("s1", {0: (1,)}), unit("s2", {0: (1,)})]
    for small_first, gone in ((False, ("s1", "s2")), (True, ("large",))):
        made = problem([(4,)], units, [kind((1,), 2)])
        search = _evicting(made, range(3))
        search._spare(search._returnable() or (), small_first=small_first)
        assert tiny.names(made, search.state.evicted) == gone


def test_only_units_on_changed_nodes_are_tried_back_without_capacity() -> None:
    """No units could come back before."""
    made = problem([(1,), (2,)], [unit("a", {0: (1,)}), unit("b", {1: (1,)}), unit("c", {1: (1,)})], [kind((1,), 3)])
    search = _evicting(made, range(3))
    assert search._returnable(search.state.mark()) == []
    assert search.checks == 0
    assert search._returnable() == []
    assert search.checks == 3


def test_priority_limit_excludes_units_of_higher_priority() -> None:
    made = problem([(4,)], [unit(f"u{p}", {0: (1,)}, priority=p // 2) for p in range(6)], [kind((1,), 1)])
    search = VictimSearch(numbers(made), 1_000)
    for limit, barred in ((0, {0, 1, 2, 3}), (1, {0, 1}), (2, set()), (-1, set(range(6))), (1, {0, 1})):
        search._limit(limit)
        assert search.state.barred == barred
    search.state.bar(5)
    search._limit(2)
    assert search.state.barred == set(), "all others may"


@each_seed(range(30))
def test_eviction_is_taken_up_from_whatever_was_tried(seed: int) -> None:
    """The victims, and the places pod by pod."""
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
    assert search.state.evicted == set(best.units)
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


def test_search_takes_fewer_steps_in_large_clusters() -> None:
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
