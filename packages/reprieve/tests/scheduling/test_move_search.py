"""The fewest units that have to move, by amounts, compared with all sets of units (moving.md 2)."""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations

from reprieve.scheduling.move_search import Amounts, MoveProblem, MoveSolution, PodKind, fewest_moves

Pods = list[tuple[int, int]]
"""(kind, row that the pod must leave or -1)"""


def problem(drawn: random.Random, *, rows: int, units: int, wanted: int) -> MoveProblem:
    """Nodes with two amounts and small pods, and larger pending pods; some pods may use only some nodes."""
    everywhere = (1 << rows) - 1
    kinds = []
    for least in (3, 2, 1, 1, 2):
        usable = everywhere if drawn.random() < 0.7 else drawn.randint(1, everywhere)
        kinds.append(PodKind((drawn.randint(least, least + 1), drawn.choice((0, 0, 1, 2))), usable))
    running = []
    for _ in range(units):
        numbers = [drawn.randint(1, 4) for _ in range(1 if drawn.random() < 0.8 else 2)]
        usable_rows = [[row for row in range(rows) if kinds[kind].rows >> row & 1] for kind in numbers]
        running.append(tuple((kind, drawn.choice(of_kind)) for kind, of_kind in zip(numbers, usable_rows, strict=True)))
    return MoveProblem(
        free=[(drawn.choice((0, 1, 2, 2, 3)), drawn.choice((-1, 0, 1, 2, 2, 3))) for _ in range(rows)],
        kinds=kinds,
        wanted=[drawn.choice((0, 0, 1, 2)) for _ in range(wanted)],
        units=running,
        forbidden={(drawn.randrange(5), drawn.randrange(rows)) for _ in range(drawn.choice((0, 0, 1, 2)))},
    )


def without(given: MoveProblem, units: tuple[int, ...]) -> tuple[list[Amounts], Pods]:
    """Return the free amounts without the units, and all pods that need a place."""
    free = [list(amounts) for amounts in given.free]
    pods = [(kind, -1) for kind in given.wanted]
    for unit in units:
        for kind, row in given.units[unit]:
            free[row] = [has + need for has, need in zip(free[row], given.kinds[kind].need, strict=True)]
            pods.append((kind, row if len(given.units[unit]) == 1 else -1))
    return [tuple(amounts) for amounts in free], pods


def after(given: MoveProblem, free: list[Amounts], pod: tuple[int, int], row: int) -> list[Amounts] | None:
    """Return the free amounts with a pod on a row, None if it may not be there."""
    kind, leaves = pod
    need, usable = given.kinds[kind]
    if row == leaves or not usable >> row & 1 or (kind, row) in given.forbidden:
        return None
    if any(has < wants for has, wants in zip(free[row], need, strict=True) if wants):
        return None
    left = tuple(has - wants for has, wants in zip(free[row], need, strict=True))
    return [*free[:row], left, *free[row + 1 :]]


def placeable(given: MoveProblem, free: list[Amounts], pods: Pods) -> bool:
    if not pods:
        return True
    placed = (after(given, free, pods[0], row) for row in range(len(free)))
    return any(placeable(given, left, pods[1:]) for left in placed if left is not None)


def fewest(given: MoveProblem, most: int) -> int | None:
    """Return the exact minimum, by trying all sets of units and all places; None if no set is enough."""
    if any(sum(max(0, f[i]) for f in given.free) < sum(given.kinds[k].need[i] for k in given.wanted) for i in (0, 1)):
        return None  # the search begins only if the free capacity is enough
    for count in range(most + 1):
        if any(placeable(given, *without(given, units)) for units in combinations(range(len(given.units)), count)):
            return count
    return None


def check(given: MoveProblem, solution: MoveSolution) -> None:
    """Every pod has a place that it may use, beside the pods that stay."""
    free: list[Amounts] | None
    free, pods = without(given, tuple(solution.moves))
    rows = [*solution.places, *(row for places in solution.moves.values() for row in places)]
    for pod, row in zip(pods, rows, strict=True):
        assert row >= 0
        free = after(given, free, pod, row)
        assert free is not None


def test_suggestions_are_possible_and_at_most_one_unit_longer_than_the_minimum() -> None:
    """moving.md 1.3, 2.1, 2.3, 2.5: few are longer, and none are missed."""
    drawn = random.Random(2)
    longer: Counter[int] = Counter()
    missed = 0
    for _ in range(900):
        given = problem(drawn, rows=drawn.randint(2, 4), units=drawn.randint(2, 6), wanted=drawn.randint(1, 3))
        most = drawn.randint(1, 4)
        solution, spent = fewest_moves(given, most)
        exact = fewest(given, most)
        assert not spent
        if solution is None:
            missed += exact is not None
            continue
        check(given, solution)
        assert exact is not None
        assert len(solution.moves) <= most
        longer[len(solution.moves) - exact] += exact > 0
    assert (longer, missed) == ({0: 104, 1: 1}, 0)


def test_units_that_weigh_the_same_are_all_tried() -> None:
    """moving.md 2.3: of two units on a node that free enough, only the second fits elsewhere."""
    kinds = [PodKind(need, 0b11) for need in ((4, 0), (3, 0), (2, 1))]
    given = MoveProblem(free=[(2, 2), (2, 2)], kinds=kinds, wanted=[0], units=[((1, 1),), ((2, 1),)])
    assert fewest_moves(given, 2).solution == ({1: (0,)}, (1,))


def test_large_unit_is_exchanged_for_a_smaller_one() -> None:
    """moving.md 2.3: the pending pod cannot take the place of the large unit, although it needs less."""
    kinds = [PodKind((amount,), 0b11) for amount in (2, 3, 2)]
    given = MoveProblem(free=[(1,), (1,)], kinds=kinds, wanted=[0], units=[((1, 0),), ((2, 1),)])
    solution, spent = fewest_moves(given, 2)
    assert (solution, spent) == (({0: (1,), 1: (0,)}, (0,)), False)


def test_search_needs_few_partial_plans() -> None:
    """moving.md 2.2, 2.4: larger clusters, with a low limit; a search that reaches it reports it.

    A change of these figures is a change of the search: more solved, fewer units and less spent is better.
    """
    drawn = random.Random(3)
    results: Counter[str] = Counter()
    for _ in range(40):
        given = problem(drawn, rows=12, units=16, wanted=5)
        for steps in (50, 100):
            solution, spent = fewest_moves(given, 8, steps)
            if solution is not None:
                check(given, solution)
                results["units"] += len(solution.moves)
            results["solved" if solution is not None else "spent" if spent else "none"] += 1
    assert results == {"solved": 51, "units": 86, "spent": 25, "none": 4}
