"""An eviction being tried: what is left, which budgets are violated, and that all of it can be taken back (cost.md 4).

Everything is held against a count from nothing: of evicted units and where the pods are put, and of nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from reprieve.preemption.victim_search.charges import BROKEN_BUDGET
from reprieve.preemption.victim_search.eviction import Eviction, Mark
from reprieve.preemption.victim_search.mixed_pods import FEW_PODS
from tests.preemption import tiny
from tests.preemption.exact import Problem
from tests.preemption.seeds import each_seed
from tests.preemption.tiny import kind, numbers, problem, random_problem, unit

SEEDS = range(24)


def _mixed(seed: int) -> Problem:
    return random_problem(seed, kinds=1 + seed % 3, budgets=seed % 4)


def _seen(state: Eviction) -> dict[str, Any]:
    """All that is public and follows from evicted units and where the pods are."""
    nothing = [0] * len(state.places.missing)
    return {
        "gone": set(state.evicted),
        "barred": set(state.barred),
        "missing": list(state.places.missing),
        "left": [list(have) for have in state.places.left],
        "put": [list(there or nothing) for there in tiny.put(state)],
        "spare": [list(there) for there in state.places.spare],
        "open": [set(there) for there in tiny.opened(state)],
        "budget_left": list(state.budgets.left),
        "over": list(state.budgets.over),
        "heavy": list(state.heavy),
        "room": state.places.room(),
    }


def _counted(made: Problem, state: Eviction) -> dict[str, Any]:
    """The same computed again, taking evicted units, barred ones and the places of pods for granted."""
    gone = tiny.names(made, state.evicted)
    put = [list(there or [0] * len(made.kinds)) for there in tiny.put(state)]
    left = tiny.left_beside(made, gone)
    for have, there in zip(left, put, strict=True):
        for each, count in zip(made.kinds, there, strict=True):
            for resource, want in enumerate(each.wants):
                have[resource] -= want * count
    spare = [
        [tiny.places(have, each.wants) if node in each.nodes else 0 for node, have in enumerate(left)]
        for each in made.kinds
    ]
    budgets = dict(made.allowed)
    for one in made.units:
        for name, pods in one.charged.items():
            budgets[name] -= pods if one.name in gone else 0
    over = [sum(budgets[name] < pods for name, pods in one.charged.items()) for one in made.units]
    weight = [(one.priority + (1 << 31)) * one.pods for one in made.units]
    missing = [each.count - sum(there[number] for there in put) for number, each in enumerate(made.kinds)]
    room = sum(map(sum, spare))
    if len(made.kinds) == 1:
        missing, room = [max(0, missing[0] - room)], max(0, room - missing[0])
    return {
        "gone": set(state.evicted),
        "barred": set(state.barred),
        "missing": missing,
        "left": left,
        "put": put,
        "spare": spare,
        "open": [{node for node, count in enumerate(there) if count} for there in spare],
        "budget_left": list(budgets.values()),
        "over": over,
        "heavy": [w + (BROKEN_BUDGET if broken else 0) for w, broken in zip(weight, over, strict=True)],
        "room": room,
    }


def _overdrawn(made: Problem, state: Eviction) -> list[int]:
    """Nodes where pods were put that ask for more of something than there is."""
    return [
        node
        for node, there in enumerate(tiny.put(state))
        if any(
            count and any(want and have < 0 for want, have in zip(each.wants, state.places.left[node], strict=True))
            for each, count in zip(made.kinds, there or (), strict=False)
        )
    ]


def _do_something(state: Eviction, chance: random.Random) -> None:
    """One change of those that a search makes."""
    what = chance.choice(("evict", "evict", "restore", "restore", "bar", "unbar", "settle", "settle", "repack", "off"))
    tiny.change(state, what, chance)


@each_seed(SEEDS)
def test_columns_kept_up_to_date_equal_a_new_count(seed: int) -> None:
    """Whatever is done, in whatever order: no pod is lost, none is where it does not fit."""
    made, chance = _mixed(seed), random.Random(seed)
    state = Eviction(numbers(made))
    for _ in range(40):
        _do_something(state, chance)
        assert _seen(state) == _counted(made, state)
        assert _overdrawn(made, state) == []
        assert min(state.places.missing) >= 0


@each_seed(SEEDS)
def test_reprieve_does_not_depend_on_earlier_attempts(seed: int) -> None:
    """Of unlike pods it is counted what nodes hold of each size: that follows from the evicted units."""
    made, chance = random_problem(seed, kinds=2 + seed % 2), random.Random(seed)
    state = Eviction(numbers(made))
    marks = [state.mark()]
    for _ in range(30):
        if chance.random() < 0.3:
            state.rollback(marks.pop() if len(marks) > 1 else marks[0])
        else:
            marks.append(state.mark())
            _do_something(state, chance)
        for number in sorted(state.evicted):
            left = tiny.left_beside(made, tiny.names(made, state.evicted - {number}))
            asked = {(r, size) for each in made.kinds for r, size in enumerate(each.wants) if size}
            assert state.places.may_return(number) is all(
                sum(max(0, have[r]) // size for have in left)
                >= sum(each.count for each in made.kinds if each.wants[r] >= size)
                for r, size in asked
            )


@each_seed(SEEDS)
def test_everything_can_be_taken_back(seed: int) -> None:
    """To any mark, and on from there: as if nothing had been done since."""
    made, chance = _mixed(seed), random.Random(seed)
    state = Eviction(numbers(made))
    marks: list[tuple[Mark, dict[str, Any]]] = []
    for _ in range(60):
        if marks and chance.random() < 0.3:
            turn = chance.randrange(len(marks))
            mark, seen = marks[turn]
            del marks[turn + 1 :]
            state.rollback(mark)
            assert _seen(state) == seen
        else:
            marks.append((state.mark(), _seen(state)))
            _do_something(state, chance)
    state.keep()
    kept = _seen(state)
    state.rollback((0, 0))
    assert _seen(state) == kept, "what is kept is not taken back"


@each_seed(SEEDS)
def test_readers_of_nodes_learn_which_have_changed(seed: int) -> None:
    """`dirty`: something is otherwise there; `dearer`: a unit there has come to violate a budget, and nothing else."""
    made, chance = _mixed(seed), random.Random(seed)
    state = Eviction(numbers(made))
    assert state.changed == set(range(len(made.free))), "at first every node counts as changed"
    nodes = [set(each.takes) for each in made.units]
    marks = [state.mark()]
    for _ in range(40):
        state.changed.clear()
        state.dearer.clear()
        before = _seen(state)
        if chance.random() < 0.2:
            state.rollback(marks.pop() if len(marks) > 1 else marks[0])
        else:
            marks.append(state.mark())
            _do_something(state, chance)
        after = _seen(state)
        moved = {node for node in range(len(made.free)) if before["left"][node] != after["left"][node]}
        allowed = before["barred"] ^ after["barred"]
        cheaper = {u for u, (old, new) in enumerate(zip(before["over"], after["over"], strict=True)) if old and not new}
        dearer = {u for u, (old, new) in enumerate(zip(before["over"], after["over"], strict=True)) if new and not old}
        assert moved | set().union(*(nodes[u] for u in allowed | cheaper)) <= state.changed
        assert set().union(*(nodes[u] for u in dearer)) <= state.dearer | state.changed


def test_unchanged_nodes_are_not_examined_again() -> None:
    """One that goes concerns its own nodes, and those of others where it leaves a budget nothing."""
    made = problem(
        [(4, 4)] * 4,
        [
            unit("a", {0: (1, 1)}, priority=3, charged={"b": 1}),
            unit("c", {1: (1, 1), 2: (1, 1)}, priority=2, pods=2, charged={"b": 1}),
            unit("d", {3: (1, 1)}, priority=1),
        ],
        [kind((1, 1))],
        b=1,
    )
    state = Eviction(numbers(made))

    def changed(act: Callable[[int], None], which: int) -> tuple[set[int], set[int]]:
        state.changed.clear()
        state.dearer.clear()
        act(which)
        return set(state.changed), set(state.dearer)

    assert changed(state.evict, 2) == ({3}, set())
    assert changed(state.evict, 0) == ({0}, {0, 1, 2}), "the next of the budget would be one too many"
    assert changed(state.evict, 1) == ({1, 2}, set()), "there was nothing left before"
    assert changed(state.restore, 1) == ({1, 2}, set())
    assert changed(state.restore, 0) == ({0, 1, 2}, set()), "and would not be any more"
    assert changed(state.bar, 1) == ({1, 2}, set())
    assert changed(state.bar, 1) == (set(), set())
    assert changed(state.unbar, 1) == ({1, 2}, set())
    assert changed(state.unbar, 1) == (set(), set())


def test_which_nodes_have_changed_since_a_mark() -> None:
    """Units that could come back are looked for there."""
    made = problem(
        [(4,)] * 3, [unit("a", {0: (4,)}), unit("b", {1: (2,)}), unit("c", {2: (4,)})], [kind((2,), 3), kind((9,))]
    )
    state = Eviction(numbers(made))
    number = [len(each.pods) for each in state.numbers.kinds].index(3)
    state.evict(0)
    mark = state.mark()
    assert state.touched(mark) == set()
    state.bar(2)
    assert state.touched(mark) == set()
    state.evict(1)
    assert state.touched(mark) == {1}
    tiny.unlike(state).place(number, 0, 1)
    assert state.touched(mark) == {0, 1}
    assert state.touched((0, 0)) == {0, 1}


# -- placing ---------------------------------------------------------------------------------------------------------


@each_seed(range(60))
def test_like_pods_are_placed_wherever_as_many_fit(seed: int) -> None:
    """Of one kind `settle` leaves no pod without a place that exists; `may_return` then names all."""
    made, chance = random_problem(seed), random.Random(seed)
    state = Eviction(numbers(made))
    for number in range(len(made.units)):
        if chance.random() < 0.6:
            state.evict(number)
    settled = state.places.settle()
    assert settled is tiny.fits(made, tiny.names(made, state.evicted))
    assert settled is (not any(state.places.missing))
    if not settled:
        return
    for number in sorted(state.evicted):
        mark = state.mark()
        may = state.places.may_return(number)
        state.restore(number)
        stays = state.places.settle()
        assert stays is tiny.fits(made, tiny.names(made, state.evicted))
        assert may or not stays, "a unit that could come back is not refused"
        state.rollback(mark)


@each_seed(range(60))
def test_unlike_pods_are_placed_only_where_they_fit(seed: int) -> None:
    """Of several kinds not every way is tried: the answer that all fit is right, and so is a refusal."""
    made, chance = random_problem(seed, kinds=2 + seed % 2), random.Random(seed)
    state = Eviction(numbers(made))
    for number in range(len(made.units)):
        if chance.random() < 0.7:
            state.evict(number)
    if not (state.fits()):
        return
    assert tiny.fits(made, tiny.names(made, state.evicted))
    assert _overdrawn(made, state) == []
    for number in sorted(state.evicted):
        if not state.places.may_return(number):
            assert not tiny.fits(made, tiny.names(made, state.evicted - {number}))


@pytest.mark.parametrize(("pods", "may"), [(1, True), (2, False), (5, False)])
def test_unit_comes_back_where_the_pods_fit_beside_it(pods: int, may: bool) -> None:
    """Of five places one is left."""
    made = problem([(6,), (4,)], [unit("a", {0: (3,), 1: (3,)}, pods=2)], [kind((2,), pods)])
    state = Eviction(numbers(made))
    state.evict(0)
    assert state.fits()
    assert state.places.may_return(0) is may


@pytest.mark.parametrize(("size", "count", "may"), [(3, 2, False), (3, 1, True), (2, 3, False), (2, 2, True)])
def test_sizes_of_unlike_pods_each_need_enough_nodes(size: int, count: int, may: bool) -> None:
    """Two nodes of four beside the unit, one of them of one: it leaves one place for three, and two for two."""
    made = problem([(4,), (4,)], [unit("a", {0: (3,)})], [kind((size,), count), kind((1,), 1)])
    state = Eviction(numbers(made))
    state.evict(0)
    assert state.places.may_return(0) is may
    state.restore(0)
    state.evict(0)
    assert state.places.may_return(0) is may, "the same after it has been back"
    mark = state.mark()
    state.restore(0)
    state.rollback(mark)
    assert state.places.may_return(0) is may


def test_unlike_pods_go_where_least_is_left_for_the_others() -> None:
    """The small one leaves the node alone that only the large one needs."""
    made = problem([(4,), (2,)], [], [kind((1,), 1), kind((4,), 1)])
    state = Eviction(numbers(made))
    assert state.places.settle()
    assert tiny.put(state) == [[0, 1], [1, 0]]


def test_fullest_node_is_taken_of_those_as_good_for_the_others() -> None:
    """Then the first by name."""
    made = problem([(3,), (2,), (2,)], [], [kind((1,), 1), kind((9,), 1)])
    state = Eviction(numbers(made))
    assert not state.places.settle()
    assert tiny.put(state) == [None, [1, 0], None]
    assert state.places.missing == [0, 1]


@pytest.mark.parametrize("missing", [True, False])
def test_kind_goes_where_the_others_lose_least(missing: bool) -> None:
    """Those that still miss a place, else all the others: the first node has none for them, though more is left."""
    made = problem([(5, 0), (4, 2)], [], [kind((1, 0), 1), kind((1, 1), 1)])
    state = Eviction(numbers(made))
    if not missing:
        tiny.unlike(state).place(1, 1, 1)
    assert state.places.settle()
    assert tiny.put(state) == [[1, 0], [0, 1]]


def test_only_kinds_that_still_miss_a_place_count() -> None:
    """The third kind is placed: that it could have more on the first node keeps no pod from there."""
    made = problem([(5, 0, 2), (5, 2, 0), (9, 0, 9)], [], [kind((1, 0, 0)), kind((1, 1, 0)), kind((1, 0, 1))])
    state = Eviction(numbers(made))
    tiny.unlike(state).place(2, 2, 1)
    assert state.places.settle()
    assert tiny.put(state)[0] == [1, 0, 0]
    assert tiny.put(state)[2] == [0, 0, 1]


def test_pods_placed_again_take_the_first_node_with_as_little_left() -> None:
    state = Eviction(numbers(_tight(4, (5,))))
    state.places.settle()
    tiny.unlike(state).take_off(0)
    assert state.places.repack()
    assert tiny.put(state)[0] == [1, 1]


def test_pods_that_are_pushed_out_are_as_few_as_do_and_the_smallest() -> None:
    """One of three makes as much room as two of two; where one of either does, the smaller goes."""
    units = [unit("a", {0: (3,)}), unit("b", {0: (2,)}), unit("c", {0: (5,)})]
    made = problem([(9,)], units, [kind((3,)), kind((2,), 3)])
    for name, missing in (("a", [1, 0]), ("b", [0, 1]), ("c", [1, 1])):
        state = Eviction(numbers(made))
        for number in range(3):
            state.evict(number)
        tiny.unlike(state).place(0, 0, 1)
        tiny.unlike(state).place(1, 0, 3)
        state.restore([each.name for each in made.units].index(name))
        assert state.places.missing == missing, name


def test_pods_stay_beside_one_that_overdraws_what_they_do_not_ask_for() -> None:
    """What no pod there requests may be overdrawn (a node that shrank)."""
    made = problem([(4, 1)], [unit("a", {0: (1, 3)})], [kind((1, 0), 2)])
    state = Eviction(numbers(made))
    assert state.places.left == [[3, -2]]
    state.evict(0)
    assert state.places.settle()
    state.restore(0)
    assert state.places.missing == [0]
    assert state.places.left == [[3, -2]]


def _tight(small: int, *more: tuple[int, ...]) -> Problem:
    """The first two nodes are filled without a rest if three of two go on the second, one of two and one of three on
    the first; more nodes have room for two each.
    """
    return problem([(5,), (6,), *more], [], [kind((2,), small), kind((3,), 1)])


def test_placement_by_another_order() -> None:
    """`settle` begins with the kind that comes first; put again, the largest first, all find room."""
    state = Eviction(numbers(_tight(4)))
    assert not state.places.settle()
    assert state.places.repack()
    assert not any(state.places.missing)
    assert tiny.put(state) == [[1, 1], [3, 0]]
    before = state.counted
    tiny.unlike(state).take_off(0)
    assert state.places.repack()
    assert tiny.put(state) == [[1, 1], [3, 0]]
    assert state.counted == before, "it is remembered by the evicted units"


def test_memory_is_of_evicted_units() -> None:
    """With another one gone it is tried again, and again without; nothing is put where the unit is back."""
    made = problem([(5,), (6,)], [unit("a", {0: (1,)})], [kind((2,), 4), kind((3,), 1)])
    state = Eviction(numbers(made))
    for _ in range(2):
        assert not state.places.settle()
        assert not state.places.repack()
        state.evict(0)
        assert state.fits()
        state.restore(0)
        assert sum(state.places.missing) == 1


def test_pods_that_fit_in_no_order_are_not_placed_anew() -> None:
    """Each size finds enough nodes by itself; together they do not."""
    state = Eviction(numbers(problem([(4,), (4,)], [], [kind((2,), 1), kind((3,), 2)])))
    assert not state.places.settle()
    before = _seen(state)
    assert not state.places.repack()
    assert _seen(state) == before


def test_pods_are_put_anew_by_each_resource_in_turn() -> None:
    """The one that asks for most of any one resource first: by size alone it would find no room any more."""
    found = []
    for seed in range(400):
        made = random_problem(seed, kinds=3)
        state = Eviction(numbers(made))
        for number in range(len(made.units)):
            state.evict(number)
        if not state.places.settle():
            fits = tiny.fits(made, [each.name for each in made.units])
            found.append((state.places.repack(), fits))
    assert (True, False) not in found
    assert found.count((True, True)) >= 3 * found.count((False, True)) > 0


@pytest.mark.parametrize(("small", "again"), [(FEW_PODS - 1, True), (FEW_PODS, False)])
def test_only_groups_of_few_pods_are_put_anew(small: int, again: bool) -> None:
    """It takes time that grows with the pods."""
    state = Eviction(numbers(_tight(small, *[(2,)] * (small - 4))))
    assert not state.places.settle()
    assert state.places.repack() is again


def test_like_pods_are_never_put_anew() -> None:
    """Of one kind all places are as good."""
    state = Eviction(numbers(problem([(4,)], [], [kind((2,), 3)])))
    assert not state.places.settle()
    assert not state.places.repack()
