"""Bounds, rates and costs that guide the search for victims, against loops over units and nodes (cost.md 4).

A row of a table counts work, and what was found with it, over random problems.  It depends on the code alone (cost.md
4.4).  After an intended change write the new numbers here; they should be no worse.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reprieve.preemption.victim_search import node_sets
from reprieve.preemption.victim_search.bounds import fewest_gangs
from reprieve.preemption.victim_search.bundles import Bundles
from reprieve.preemption.victim_search.cover import cheapest_cover
from reprieve.preemption.victim_search.eviction import Eviction
from reprieve.preemption.victim_search.few_units import FewUnits
from reprieve.preemption.victim_search.node_tables import NodeTables
from reprieve.preemption.victim_search.problem import Gangs, Numbers
from reprieve.preemption.victim_search.rates import MISSING, least_rates
from reprieve.preemption.victim_search.search import STEPS, VictimSearch
from reprieve.preemption.victim_search.single_pod_search import cheapest_for_one
from tests.preemption import tiny
from tests.preemption.families import FAMILIES, Found, Solved, counted
from tests.preemption.test_small_searches import _Priced

PLACED = {
    name: replace(FAMILIES[name], usable=0.7, problems=10)
    for name in ("like", "broken gangs", "two kinds", "three kinds", "listed", "one pod", "one pod, listed")
}
"""The same, in which kinds may not use some nodes."""


def _states(name: str) -> list[tuple[Solved, Eviction, random.Random]]:
    """Problems in which some units are evicted, some barred, and some pods placed."""
    result = []
    for seed, solved in enumerate(PLACED[name].solved):
        state, chance = Eviction(solved.numbers), random.Random(seed)
        for _ in range(seed % 5):
            tiny.change(state, chance.choice(("evict", "evict", "bar", "settle", "restore")), chance)
        result.append((solved, state, chance))
    return result


# -- the weight of a place -------------------------------------------------------------------------------------------


def _weights(state: Eviction) -> list[float]:
    """By unit: its weight; each unit of a gang that breaks has a part of that, as many as are on one node."""
    numbers, weights = state.numbers, []
    for unit, heavy in enumerate(state.heavy):
        gangs = {gang for gang, _ in state.gangs.lost[unit]}
        on_one_node = [
            sum(gang in dict(state.gangs.lost[other]) for other in units) for gang in gangs for units in numbers.on
        ]
        of_gangs = state.gangs.breaks[unit] * state.gangs.weight
        weights.append(heavy - of_gangs + of_gangs / max(1, *on_one_node, 1) + state.weights.age[unit])
    return weights


def _rates(state: Eviction, kind: int) -> tuple[list[list[float]], list[int]]:
    """Return `least_rates`, node by node."""
    numbers, wanted = state.numbers, state.numbers.kinds[kind].wanted
    may = [unit not in state.evicted and unit not in state.barred for unit in range(len(numbers.units))]
    bounds, gains = [0.0] * len(may), [0] * len(may)
    on = [
        [unit for unit in units if may[unit]] if usable else []
        for units, usable in zip(numbers.on, numbers.kinds[kind].usable, strict=True)
    ]
    for node, units in enumerate(on):
        have, share = state.places.left[node], state.share[node]
        if not units:
            continue

        def places(freed: Sequence[int], have: Sequence[int] = have, share: dict[int, tuple[int, ...]] = share) -> int:
            return min((have[r] + sum(share[unit][r] for unit in freed)) // want for r, want in wanted)

        now = max(0, places(()))
        most = max(0, places(units) - now)
        scarcest, want = min(wanted, key=lambda item: have[item[0]] // item[1])
        lack = want - max(0, have[scarcest]) % want
        for unit in units:
            amount = share[unit][scarcest]
            bounds[unit] += min(amount / lack, -(-amount // want), most)
            gains[unit] += max(0, places((unit,))) - now
    rates = [[np.inf] * len(on) for _ in MISSING]
    for level, missing in enumerate(MISSING):
        for node, units in enumerate(on):
            of: Sequence[float] = gains if len(units) == 1 else bounds
            weighed = [_weights(state)[unit] / min(of[unit], missing) if of[unit] else np.inf for unit in units]
            rates[level][node] = min(weighed, default=np.inf)
    return rates, [gain if evictable and any(on) else -1 for gain, evictable in zip(gains, may, strict=True)]


@pytest.mark.parametrize("name", ["like", "broken gangs", "two kinds", "listed"])
def test_weight_of_a_place_on_each_node(name: str) -> None:
    """cost.md 4: the bound of several units on a node, and what one unit alone costs, for so many missing pods."""
    for _, state, _ in _states(name):
        for kind in range(len(state.numbers.kinds)):
            rates, gains = _rates(state, kind)
            found, found_gains = least_rates(state, kind)
            assert found_gains == gains
            assert np.allclose(found, rates, rtol=1e-11, atol=0.0)


# -- gangs that break ------------------------------------------------------------------------------------------------


def _with_gangs(lost: Sequence[tuple[tuple[int, int], ...]], slack: tuple[int, ...], want: int) -> Eviction:
    """Units of one amount each on one full node, for a pod that wants some of them."""
    units = [tiny.unit(f"u{turn}", {0: (1,)}) for turn in range(len(lost))]
    made = tiny.problem([(len(lost),)], units, [tiny.kind((want,))])
    return Eviction(replace(tiny.numbers(made), gangs=Gangs(tuple(lost), slack)))


@pytest.mark.parametrize(
    ("lost", "slack", "fewest"),
    [
        ([((0, 1),), ((0, 1),)], (0,), [1, 1]),
        ([((0, 1),), ((0, 1),)], (1,), [0, 0]),
        ([((0, 2),), ((0, 1),)], (1,), [0, 1]),
        ([((0, 1),), ((1, 1),), ()], (0, 0), [0, 1, 2]),
        ([((0, 1),), ((0, 1),), ((1, 1),)], (0, 0), [1, 1, 2]),
        # A unit with pods of two gangs belongs to the one that has more.
        ([((0, 1), (1, 1)), ((0, 1), (1, 1)), ((1, 1),)], (0, 0), [1, 1, 2]),
        ([((1, 1),), ((0, 1), (1, 1)), ((0, 1),)], (0, 0), [1, 1, 2]),
        ([((0, 1), (1, 1))], (5, 5), [1]),
        ([(), ()], (), [0, 0]),
    ],
)
def test_fewest_gangs_that_break(
    lost: list[tuple[tuple[int, int], ...]], slack: tuple[int, ...], fewest: list[int]
) -> None:
    """cost.md 1.7: the least that break, for a pod that wants one amount, two, and so on."""
    assert [fewest_gangs(_with_gangs(lost, slack, 1 + turn)) for turn in range(len(lost))] == fewest


def test_fewest_gangs_without_barred_units() -> None:
    """cost.md 1.7: they may not be evicted, so a gang has to break."""
    state = _with_gangs([(), ((0, 1),)], (0,), 1)
    assert fewest_gangs(state) == 0
    state.bar(0)
    assert fewest_gangs(state) == 1


@pytest.mark.parametrize("name", ["broken gangs", "three kinds", "one pod"])
def test_cost_with_gangs(name: str) -> None:
    """cost.md 1.1: gangs that break, never fewer than the bound; pods that cannot restart elsewhere; the start."""
    for solved in PLACED[name].solved:
        numbers, bound = solved.numbers, fewest_gangs(Eviction(solved.numbers))
        assert numbers.gangs is not None
        for all_stuck in (False, True):
            given = replace(numbers, restartless=(), all_restartless=True) if all_stuck else numbers
            state = Eviction(given)
            for (_, _, cost), order in solved.evictions[:20]:
                if not order:
                    continue
                units = [numbers.units[unit] for unit in order]
                pods = sum(len(unit.pods) for unit in units)
                lost = [sum(dict(numbers.gangs.lost[unit]).get(gang, 0) for unit in order) for gang in range(3)]
                broken = sum(count > slack for count, slack in zip(lost, numbers.gangs.slack, strict=True))
                stuck = sum(numbers.restartless[unit] for unit in order)
                total = sum((unit.priority + (1 << 31)) * len(unit.pods) for unit in units)
                start = min(unit.start for unit in units if unit.priority == units[0].priority)
                assert state.price_of(order)[1:] == (
                    units[0].priority,
                    (broken, total, pods, pods if all_stuck else stuck, -start),
                )
                assert bound <= broken
                assert all_stuck or cost == state.price_of(order)[2]


# -- work -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("known", "covers"), [(4096, (69, 127, 95, 77)), (2, (80, 150, 102, 92))])
def test_work_for_bundles(monkeypatch: pytest.MonkeyPatch, known: int, covers: Sequence[int]) -> None:
    """cost.md 4: bundles and the places that they add; examined nodes; covers computed, more if fewer are kept."""
    computed = [0]

    def cover(*given: Any) -> list[int] | None:
        computed[0] += 1
        return cheapest_cover(*given)

    monkeypatch.setattr(node_sets, "cheapest_cover", cover)
    monkeypatch.setattr(node_sets, "_MOST_ALIKE", known)
    table = {}
    for name in ("like", "two kinds", "broken gangs", "listed"):
        number = gained = examined = computed[0] = 0
        for solved, state, chance in _states(name):
            every = [Bundles(state, kind) for kind in range(len(solved.numbers.kinds))]
            for turn in range(24):
                tiny.change(state, chance.choice(("evict", "evict", "restore", "bar", "unbar", "settle")), chance)
                for bundles in every:
                    bundles.touch(state.changed)
                    bundles.doubt(state.dearer)
                    best = bundles.best(1 + turn % 4)
                    gained += best[1] if best is not None else 0
                    number += len(bundles.every()) if turn % 3 == 0 else 0
                state.changed.clear()
                state.dearer.clear()
            examined += sum(bundles.examined for bundles in every)
        table[name] = number, gained, examined, computed[0]
    totals = {
        "like": (175, 212, 86),
        "two kinds": (243, 518, 171),
        "broken gangs": (194, 318, 110),
        "listed": (190, 323, 96),
    }
    assert table == {name: (*totals[name], count) for name, count in zip(totals, covers, strict=True)}


def _of_few(solved: Solved) -> tuple[Found | None, int]:
    if not solved.evictions:
        return None, 0
    useful = [unit for unit, takes in enumerate(solved.numbers.takes) if takes]
    few = FewUnits(solved.numbers, useful, (99, 99, ()))
    units = few.cheapest
    return (units, Eviction(solved.numbers).price_of(units)) if units is not None else None, few.tried


def _by_tables(solved: Solved) -> tuple[Found | None, int]:
    tables = NodeTables.of(solved.numbers)
    assert tables is not None
    if not solved.evictions:
        return None, 0
    found = tables.improved(range(len(solved.numbers.units)), (99, 99, ()))
    return (found.units, found.price) if found is not None else None, tables._steps


def _by_exchanges(solved: Solved) -> tuple[Found | None, int]:
    search = VictimSearch(solved.numbers, STEPS)
    found = search.run(())
    return (found.units, found.price) if found is not None else None, search.taken


def _for_one(solved: Solved) -> tuple[Found | None, int]:
    state = _Priced(solved.numbers)
    found = cheapest_for_one(state)
    return found[:2] if found is not None else None, state.asked


@pytest.mark.parametrize(
    ("find", "expected"),
    [
        (
            _of_few,
            {
                "broken gangs": (9, 9, 12, 353),
                "like": (8, 8, 19, 1037),
                "listed": (9, 9, 12, 389),
                "three kinds": (5, 3, 17, 889),
                "two kinds": (8, 8, 20, 582),
            },
        ),
        (
            _by_tables,
            {
                "broken gangs": (9, 9, 12, 374),
                "like": (8, 8, 19, 166),
                "listed": (9, 9, 12, 378),
                "three kinds": (5, 5, 21, 715),
                "two kinds": (8, 8, 20, 1699),
            },
        ),
        (
            _by_exchanges,
            {
                "broken gangs": (9, 9, 12, 1460),
                "like": (8, 8, 19, 974),
                "listed": (9, 9, 12, 1642),
                "two kinds": (8, 8, 20, 2975),
            },
        ),
        (_for_one, {"one pod": (7, 7, 5, 43), "one pod, listed": (7, 7, 5, 48)}),
    ],
)
def test_searches_where_kinds_may_not_use_some_nodes(find: Any, expected: dict[str, tuple[int, ...]]) -> None:
    """cost.md 4.6: as in `test_small_searches.py`: solvable, solved with the least cost, victims, steps."""
    table = {name: tuple(counted(PLACED[name], find)) for name in expected}
    assert table == expected


def _large(first: int, second: int, both: int) -> Numbers:
    """Two kinds of 40 and 30 pods on six nodes, of which so many in the middle are for both."""
    low, high = (6 - both) // 2, (6 + both) // 2
    units = [tiny.unit(f"u{node}", {node: (4,)}, priority=node) for node in range(6)]
    kinds = [tiny.kind((1,), first, range(high)), tiny.kind((2,), second, range(low, 6))]
    return tiny.numbers(tiny.problem([(18,)] * 6, units, kinds))


def test_steps_of_large_sums() -> None:
    """cost.md 4.14: an option counts once more for each 1024 states that it is added to."""
    table = {}
    for pods in ((40, 30, 2), (40, 26, 0), (30, 20, 2), (66, 14, 4)):
        tables = NodeTables.of(_large(*pods))
        assert tables is not None
        found = tables.improved(range(6), (99, 99, ()))
        table[pods] = found.units if found is not None else None, tables._steps
    assert table == {
        (40, 30, 2): ((2, 3, 4, 5), 1707),
        (40, 26, 0): ((0, 1, 2), 162),
        (30, 20, 2): ((), 840),
        (66, 14, 4): ((3, 4, 5), 2044),
    }
