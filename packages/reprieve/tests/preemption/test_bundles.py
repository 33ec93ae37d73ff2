"""What could be evicted next on a node, and what that brings (cost.md 4), on nodes that can be gone through."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import combinations

import pytest

from reprieve.preemption.victim_search.bundles import Bundles
from reprieve.preemption.victim_search.charges import BROKEN_BUDGET
from reprieve.preemption.victim_search.cover import cheapest_cover
from reprieve.preemption.victim_search.eviction import Eviction
from reprieve.preemption.victim_search.rates import Bundle, least_rates, rates_of
from tests.preemption import tiny
from tests.preemption.exact import Problem
from tests.preemption.seeds import each_seed
from tests.preemption.tiny import kind, numbers, problem, random_problem, unit

# -- the cheapest cover ----------------------------------------------------------------------------------------------

Covering = tuple[float, tuple[int, ...], int]
"""What a unit weighs, what it holds, and its number."""


def _covers(lack: Sequence[tuple[int, int]], units: Sequence[Covering], chosen: Collection[int]) -> bool:
    return all(sum(amounts[r] for _, amounts, number in units if number in chosen) >= n for r, n in lack)


def _weight(units: Sequence[Covering], chosen: Collection[int]) -> float:
    return sum(weight for weight, _, number in units if number in chosen)


@each_seed(range(120))
def test_cover_holds_what_is_lacking_without_superfluous_units(seed: int) -> None:
    """None only where all together do not; where one or two will do the cheapest of these; else not far from it."""
    chance = random.Random(seed)
    lack = [(r, chance.randint(1, 9)) for r in range(2) if chance.random() < 0.8] or [(1, 3)]
    units: list[Covering] = [
        (float(chance.randint(1, 12)), (chance.randint(0, 5), chance.randint(0, 5)), 3 * number)
        for number in range(chance.randint(1, 6))
    ]
    found = cheapest_cover(lack, units)
    all_units = [number for _, _, number in units]
    if found is None:
        assert not _covers(lack, units, all_units)
        return
    assert _covers(lack, units, found)
    assert all(not _covers(lack, units, set(found) - {number}) for number in found)
    best = (
        min(_weight(units, some) for size in (1, 2) for some in _sets(units, size, lack))
        if any(True for size in (1, 2) for _ in _sets(units, size, lack))
        else None
    )
    if best is not None:
        assert _weight(units, found) <= best
    least = min(_weight(units, some) for size in range(1, 7) for some in _sets(units, size, lack))
    assert least <= _weight(units, found) <= 2 * least


def _sets(units: Sequence[Covering], size: int, lack: Sequence[tuple[int, int]]) -> list[tuple[int, ...]]:
    return [some for some in combinations([number for _, _, number in units], size) if _covers(lack, units, some)]


@pytest.mark.parametrize(
    ("lack", "units", "cover"),
    [
        ([], [(1.0, (1,), 0)], []),
        ([(0, 1)], [], None),
        ([(0, 3)], [(1.0, (2,), 0)], None),
        ([(0, 3)], [(1.0, (2,), 0), (1.0, (1,), 1)], [0, 1]),
        # One that is dear alone, or two that are cheap together; and the other way round.
        ([(0, 4)], [(9.0, (4,), 0), (4.0, (2,), 1), (4.0, (2,), 2)], [1, 2]),
        ([(0, 4)], [(7.0, (4,), 0), (4.0, (2,), 1), (4.0, (2,), 2)], [0]),
        # Of two that are alike the first.
        ([(0, 2)], [(5.0, (2,), 4), (5.0, (2,), 7)], [4]),
        ([(0, 2)], [(5.0, (2,), 7), (5.0, (2,), 4)], [4]),
        # More of it than is lacking is worth nothing.
        ([(0, 2)], [(6.0, (9,), 0), (5.0, (2,), 1)], [1]),
        # One of each resource is better than both of one.
        ([(0, 2), (1, 2)], [(3.0, (2, 0), 0), (3.0, (0, 2), 1), (9.0, (2, 2), 2)], [0, 1]),
        ([(0, 2), (1, 2)], [(5.0, (2, 0), 0), (5.0, (0, 2), 1), (9.0, (2, 2), 2)], [2]),
        # A unit that holds nothing of what is lacking is not in it, however light.
        ([(1, 1)], [(0.0, (9, 0), 0), (4.0, (0, 1), 1), (5.0, (0, 1), 2)], [1]),
    ],
)
def test_units_that_cover(lack: list[tuple[int, int]], units: list[Covering], cover: list[int] | None) -> None:
    found = cheapest_cover(lack, units)
    assert (None if found is None else sorted(found)) == cover


@pytest.mark.parametrize(("light", "pair"), [(14, True), (15, False)])
def test_every_pair_is_tried_of_few(light: int, pair: bool) -> None:
    """Of sixteen units; of more the lightest for what each contributes are taken, and superfluous ones are left out."""
    # Three of the light will do; each is the better bargain, but the pair is the lighter.
    units = [(6.2, (50,), 0), (6.2, (50,), 1), *((4.2, (34,), 2 + i) for i in range(light))]
    found = cheapest_cover([(0, 100)], units)
    assert found is not None
    assert _weight(units, found) == pytest.approx(12.4 if pair else 12.6)


# -- bundles of nodes --------------------------------------------------------------------------------------------------


def _bundles(made: Problem) -> tuple[Eviction, Bundles]:
    state = Eviction(numbers(made))
    return state, Bundles(state, 0)


def _gain(made: Problem, state: Eviction, going: Collection[int], number: int = 0) -> int:
    """Places for the kind that come, over all nodes, beside evicted units and the pods put there."""

    def total(gone: Collection[int]) -> int:
        left = tiny.left_beside(made, tiny.names(made, gone))
        for have, there in zip(left, tiny.put(state), strict=True):
            for each, count in zip(made.kinds, there or [0] * len(made.kinds), strict=True):
                for resource, want in enumerate(each.wants):
                    have[resource] -= count * want
        of = made.kinds[number]
        return sum(tiny.places(have, of.wants) for node, have in enumerate(left) if node in of.nodes)

    return total({*state.evicted, *going}) - total(state.evicted)


def _something_happens(state: Eviction, chance: random.Random) -> None:
    tiny.change(state, chance.choice(("evict", "evict", "restore", "bar", "unbar", "settle")), chance)


@each_seed(range(40))
def test_bundles_stay_correct_after_any_history(seed: int) -> None:
    """What units free is counted on all nodes; a protected unit is in none; where any unit helps there is one."""
    made, chance = random_problem(seed, kinds=1 + seed % 2, budgets=seed % 3), random.Random(seed)
    state = Eviction(numbers(made))
    kept = [Bundles(state, number) for number in range(len(made.kinds))]
    state.changed.clear()
    state.dearer.clear()
    for _ in range(25):
        _something_happens(state, chance)
        for bundles in kept:
            bundles.touch(state.changed)
            bundles.touch(state.dearer)
        state.changed.clear()
        state.dearer.clear()
        may = [u for u in range(len(made.units)) if u not in state.evicted and u not in state.barred]
        for number, bundles in enumerate(kept):
            fresh, asked = Bundles(state, number), Bundles(state, number)
            every = fresh.every()
            for weight, gain, units in every:
                assert gain == _gain(made, state, units, number) > 0
                assert set(units) <= set(may)
                assert weight == pytest.approx(_weighs(state, units))
            helps = [node for node in range(len(made.free)) if _helps(made, state, node, may, number)]
            assert [node for node, there in enumerate(fresh.of) if there] == helps
            missing = chance.choice((1, 2, 8))
            best = asked.best(missing)
            assert best == fresh.best(missing)
            assert (best is None) is (not helps)
            if best is not None:
                price = best[0] / min(best[1], missing)
                assert all(price <= weight / min(gain, missing) * (1 + 1e-9) for weight, gain, _ in every)
            _remembered(made, state, bundles, fresh, may, number)


def _remembered(
    made: Problem, state: Eviction, bundles: Bundles, fresh: Bundles, may: Sequence[int], number: int
) -> None:
    """What was kept is what is found fresh, as far as units are on one node; of others no way out is missed."""
    bundles.every()
    assert any(bundles.of) is any(fresh.of)
    for size in (1, 2, 3):
        for some in combinations(may, size):
            assert bundles._gains.of(tuple(some)) == _gain(made, state, some, number)
    for node, units in enumerate(state.numbers.on):
        kept, new = bundles.of[node], fresh.of[node]
        assert all(set(bundle[2]) <= set(may) for bundle in kept)
        if all(len(state.numbers.takes[unit]) == 1 for unit in units):
            assert [bundle[1:] for bundle in kept] == [bundle[1:] for bundle in new]
            # What several break together may be older.
            assert all(one == other for one, other in zip(kept, new, strict=True) if len(one[2]) == 1)


def _helps(made: Problem, state: Eviction, node: int, may: Sequence[int], number: int) -> bool:
    """Whether anything is offered: all units that may be evicted free it, or the only one does, wherever it runs."""
    there = [u for u in may if node in made.units[u].takes]
    if not there or node not in made.kinds[number].nodes:
        return False
    if len(there) == 1:
        return _gain(made, state, there, number) > 0
    left = tiny.left_beside(made, tiny.names(made, {*state.evicted, *there}))[node]
    for each, count in zip(made.kinds, tiny.put(state)[node] or [0] * len(made.kinds), strict=True):
        left = [have - count * want for have, want in zip(left, each.wants, strict=True)]
    return tiny.places(left, made.kinds[number].wants) > state.places.spare[number][node]


def _weighs(state: Eviction, units: Sequence[int]) -> float:
    """Priorities, ages, and a broken budget for each that comes to violate one beside the others."""
    if len(units) == 1:
        return state.heavy[units[0]] + state.weights.age[units[0]]
    broken = state.budgets.violating(units) * state.budgets.weight
    return sum(state.weights.weight[u] + state.weights.age[u] for u in units) + broken


@each_seed(range(40))
def test_estimate_of_a_node_not_yet_examined_is_never_too_dear(seed: int) -> None:
    """`least_rates`: by how many are missing no bundle weighs less for each place; alone it is what it weighs."""
    made, chance = random_problem(seed, budgets=seed % 3), random.Random(seed)
    state = Eviction(numbers(made))
    state.places.settle()
    for _ in range(8):
        least, gains = least_rates(state, 0)
        looked_at = Bundles(state, 0)
        looked_at.every()
        for node, there in enumerate(looked_at.of):
            assert (least[:, node] <= rates_of(there)).all()
            if not there:
                continue
            if len([u for u in state.numbers.on[node] if u not in state.evicted and u not in state.barred]) == 1:
                assert least[:, node] == pytest.approx(rates_of(there))
        for number in range(len(made.units)):
            may = number not in state.evicted and number not in state.barred
            if may and gains[number] >= 0:
                assert gains[number] == _gain(made, state, [number])
            elif may:
                assert gains[number] == -1
        _something_happens(state, chance)


@each_seed(range(30))
def test_bundle_that_became_dearer_is_examined_when_it_would_be_chosen(seed: int) -> None:
    """Not before; and then the best is what it is when all nodes are looked at fresh."""
    made = random_problem(seed, budgets=2, units=6)
    apart = [replace(each, takes=dict(list(each.takes.items())[:1])) for each in made.units]
    made = replace(made, units=tuple(each for each in apart if each.takes))
    chance = random.Random(seed)
    state = Eviction(numbers(made))
    kept = Bundles(state, 0)
    kept.best(1)
    state.changed.clear()
    state.dearer.clear()
    for _ in range(12):
        _something_happens(state, chance)
        kept.touch(state.changed)
        kept.doubt(state.dearer)
        state.changed.clear()
        state.dearer.clear()
        missing = chance.choice((1, 2, 3, 8))
        best, fresh = kept.best(missing), Bundles(state, 0).best(missing)
        assert (best and best[1:]) == (fresh and fresh[1:])


def test_nodes_that_are_examined_again_count_as_steps() -> None:
    """cost.md 4.4: one for each node, and more where many units are; the first look at each is free."""
    made = problem([(12,)] * 2, [unit(f"u{i}", {i % 2: (1,)}) for i in range(10)], [kind((3,), 2)])
    state, bundles = _bundles(made)
    bundles.every()
    assert bundles.examined == 0
    bundles.touch([0])
    bundles.every()
    assert bundles.examined == 1 + 5 // 4
    bundles.every()
    assert bundles.examined == 1 + 5 // 4, "nothing has changed"
    state.evict(0)
    bundles.touch(state.changed)
    bundles.every()
    assert bundles.examined == 2 * (1 + 5 // 4) + 1 + 4 // 4


def _row(made: Problem) -> list[tuple[int, tuple[str, ...]]]:
    """What `every` finds: places and the victims for them, the lightest first."""
    _, bundles = _bundles(made)
    return [(gain, tiny.names(made, units)) for _, gain, units in bundles.every()]


def test_cheapest_bundles_are_offered_for_each_number_of_places() -> None:
    """One place, two, three, four, six: of units that hold one each the lightest so many."""
    made = problem([(6,)], [unit(f"u{p}", {0: (1,)}, priority=p) for p in range(6)], [kind((1,), 9)])
    assert _row(made) == [
        (1, ("u0",)),
        (2, ("u1", "u0")),
        (3, ("u2", "u1", "u0")),
        (4, ("u3", "u2", "u1", "u0")),
        (6, ("u5", "u4", "u3", "u2", "u1", "u0")),
    ]


def test_numbers_of_many_places_are_offered_in_part() -> None:
    """Up to 64 by about half as many more each time, and all of them."""
    made = problem([(70,)], [unit(f"u{i:02}", {0: (1,)}) for i in range(70)], [kind((1,), 99)])
    assert [gain for gain, _ in _row(made)] == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 70]


def test_all_places_of_a_node_are_offered_whatever_their_number() -> None:
    made = problem([(5,)], [unit(f"u{p}", {0: (1,)}, priority=p) for p in range(5)], [kind((1,), 9)])
    assert [gain for gain, _ in _row(made)] == [1, 2, 3, 4, 5]


def test_unit_of_several_nodes_is_offered_alone_and_with_its_neighbours() -> None:
    """It counts on all of them; beside it another unit may be evicted for a whole node."""
    made = problem(
        [(2,), (2,)],
        [unit("pair", {0: (1,), 1: (1,)}, pods=2), unit("a", {0: (1,)}), unit("b", {1: (1,)})],
        [kind((2,), 2), kind((1,), 1)],
    )
    assert _row(made) == [(1, ("pair", "a")), (1, ("pair", "b"))]
    made = problem(made.free, made.units, [kind((1,), 2)])
    assert sorted(_row(made)) == [(1, ("a",)), (1, ("b",)), (2, ("pair",)), (3, ("pair", "a")), (3, ("pair", "b"))]


def test_beside_a_unit_of_several_nodes_only_needed_units_are_evicted() -> None:
    """The cheaper of the two beside it."""
    beside = [unit("a", {0: (1,)}, priority=2), unit("b", {0: (1,)}, priority=3)]
    made = problem([(3,), (1,)], [unit("pair", {0: (1,), 1: (1,)}, priority=9, pods=2), *beside], [kind((2,), 1)])
    assert _row(made) == [(1, ("b", "a")), (1, ("pair", "a"))]


def test_every_unit_of_several_nodes_is_offered_by_itself_on_each_of_them() -> None:
    """Where all of a node must be evicted as well."""
    units = [unit("p", {0: (1,), 1: (2,)}, pods=2), unit("q", {0: (1,), 2: (2,)}, pods=2)]
    made = problem([(2,), (2,), (2,)], units, [kind((2,), 3)])
    _, bundles = _bundles(made)
    bundles.every()
    offered = [[(gain, tiny.names(made, units)) for _, gain, units in there] for there in bundles.of]
    assert sorted(offered[0]) == [(1, ("p",)), (1, ("q",)), (3, ("p", "q"))]
    assert offered[1:] == [[(1, ("p",))], [(1, ("q",))]]


def test_nodes_with_the_same_units_offer_what_each_of_them_needs() -> None:
    """Both units have more on the second node, so one of them is enough there."""
    units = [unit("p", {0: (1,), 1: (2,)}, pods=2), unit("q", {0: (1,), 1: (2,)}, pods=2, priority=1)]
    made = problem([(2,), (4,)], units, [kind((2,), 3)])
    _, bundles = _bundles(made)
    for node in (0, 1):
        bundles._inspect(node)
    offered = [sorted((gain, tiny.names(made, units)) for _, gain, units in there) for there in bundles.of]
    assert offered == [[(1, ("p",)), (1, ("q",)), (3, ("q", "p"))]] * 2
    one = problem([(2,), (4,)], [replace(units[0], takes={0: (2,), 1: (2,)})], [kind((2,), 3)])
    _, bundles = _bundles(one)
    best = bundles.best(4)
    assert best is not None
    assert best[1:] == (2, (0,))
    assert bundles.of == [[best], [best]], "it is the only one on both"


@pytest.mark.parametrize(
    ("holds", "free", "wants", "places"),
    [
        ([1, 1, 1], 3, 1, [1, 1, 1, 1, 1]),
        ([1, 1, 1, 1], 4, 2, [0.5] * 5),  # half a place each
        ([2, 2], 6, 2, [1] * 5),
        ([4, 4], 8, 2, [1, 2, 2, 2, 2]),  # two places, as far as as many are missing
        ([4, 1], 5, 2, [1, 2, 2, 2, 2]),  # no more than the node holds in all
        ([9, 1], 10, 2, [1, 2, 4, 4.5, 4.5]),
    ],
)
def test_bundles_of_a_node_of_several_units(holds: list[int], free: int, wants: int, places: list[float]) -> None:
    """The scarcest resource gains no more places than its parts: priced as if all were the best of them."""
    made = problem([(free,)], [unit(f"u{i}", {0: (held,)}) for i, held in enumerate(holds)], [kind((wants,), 99)])
    least, gains = least_rates(Eviction(numbers(made)), 0)
    assert least[:, 0] == pytest.approx([(1 << 31) / each for each in places])
    assert gains == [held // wants for held in holds]


def test_nodes_that_the_kind_may_not_use_bring_nothing() -> None:
    made = problem([(2,), (2,)], [unit("a", {0: (2,)}), unit("b", {1: (2,)}, priority=-5)], [kind((2,), 1, [0])])
    assert _row(made) == [(1, ("a",))]
    made = problem(made.free, [unit("both", {0: (2,), 1: (2,)}, pods=2)], made.kinds)
    assert _row(made) == [(1, ("both",))]


def test_nothing_is_offered_where_no_unit_frees_a_place() -> None:
    """Too little is held, or what is held is not what is asked for."""
    made = problem([(3, 0)], [unit("a", {0: (2, 0)})], [kind((4, 0))])
    assert _row(made) == []
    _, bundles = _bundles(made)
    assert bundles.best(1) is None
    assert _row(problem([(1,)], [], [kind((2,))])) == []


@pytest.mark.parametrize(
    ("missing", "victims"),
    [
        (1, ("one",)),  # one place for 10 is the cheapest where one is enough
        (2, ("two",)),  # 16 for two
        (3, ("four",)),  # 28 for the three that count of four: 9.3 each, against 10 and 8 for two of them
        (4, ("four",)),
        (9, ("four",)),
    ],
)
def test_places_beyond_those_that_are_missing_are_worth_nothing(missing: int, victims: tuple[str, ...]) -> None:
    """Priced by the place, as far as pods are missing that need one."""
    offset = 1 << 31
    made = problem(
        [(1,), (2,), (4,)],
        [
            unit("one", {0: (1,)}, priority=10 - offset),
            unit("two", {1: (2,)}, priority=16 - offset),
            unit("four", {2: (4,)}, priority=(23 if missing == 3 else 28) - offset),
        ],
        [kind((1,), 9)],
    )
    _, bundles = _bundles(made)
    best = bundles.best(missing)
    assert best is not None
    assert tiny.names(made, best[2]) == victims


@pytest.mark.parametrize("starts", [(1.0, 2.0), (2.0, 1.0)])
def test_bundle_that_started_last_is_evicted_of_those_that_cost_the_same(starts: tuple[float, float]) -> None:
    """On one node, and on two."""
    late = "a" if starts[0] > starts[1] else "b"
    units = [unit("a", {0: (1,)}, start=starts[0]), unit("b", {0: (1,)}, start=starts[1])]
    made = problem([(2,)], units, [kind((1,), 1)])
    assert _row(made)[0] == (1, (late,))
    apart = [unit("a", {0: (1,)}, start=starts[0]), unit("b", {1: (1,)}, start=starts[1])]
    made = problem([(1,), (1,)], apart, [kind((1,), 1)])
    _, bundles = _bundles(made)
    best = bundles.best(1)
    assert best is not None
    assert tiny.names(made, best[2]) == (late,)


def test_bundle_with_more_places_is_taken_of_those_that_cost_the_same_by_the_place() -> None:
    """Of two nodes the first."""
    offset = 1 << 31
    there = [
        unit(f"{n}{size}", {i: (size,)}, priority=8 * size - offset) for i, n in enumerate("ab") for size in (1, 2)
    ]
    made = problem([(3,), (3,)], there, [kind((1,), 9)])
    _, bundles = _bundles(made)
    best = bundles.best(2)
    assert best is not None
    assert tiny.names(made, best[2]) == ("a2",)
    best = bundles.best(1)
    assert best is not None
    assert tiny.names(made, best[2]) == ("a1",)


def test_budget_that_two_would_break_together_weighs_in_their_bundle() -> None:
    """cost.md 4.2: one of the two may go for nothing; both break it once."""
    units = [unit("a", {0: (1,)}, charged={"b": 1}), unit("c", {0: (1,)}, charged={"b": 1})]
    made = problem([(2,)], units, [kind((2,), 1)], b=1)
    _, bundles = _bundles(made)
    (bundle,) = bundles.every()
    assert BROKEN_BUDGET < bundle[0] < 2 * BROKEN_BUDGET
    made = problem([(2,)], units, [kind((2,), 1)], b=2)
    (bundle,) = _bundles(made)[1].every()
    assert bundle[0] < BROKEN_BUDGET
    made = problem([(2,)], units, [kind((2,), 1)], b=0)
    (bundle,) = _bundles(made)[1].every()
    assert 2 * BROKEN_BUDGET < bundle[0] < 3 * BROKEN_BUDGET


def test_like_nodes_share_one_calculation_and_get_their_own_units() -> None:
    """The same is left beside units that weigh and hold the same."""
    units = [unit(f"{n}{p}", {node: (2,)}, priority=p) for node, n in enumerate("abc") for p in (1, 2)]
    made = problem([(4,)] * 3, units, [kind((2,), 3)])
    _, bundles = _bundles(made)
    every: list[Bundle] = bundles.every()
    assert sorted((gain, tiny.names(made, units)) for _, gain, units in every) == sorted(
        entry for n in "abc" for entry in [(1, (f"{n}1",)), (2, (f"{n}2", f"{n}1"))]
    )
