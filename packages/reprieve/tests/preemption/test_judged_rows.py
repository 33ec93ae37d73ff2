"""Many rows judged together, against going through each of them by itself (preemption.md 3; cost.md 4.8)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, cast

import numpy as np
import pytest

from reprieve.cluster.changes import ChangeReader
from reprieve.framework.restart_places import SEVERAL, RestartCodes
from reprieve.preemption.candidate_cache import Candidate, Misfit, RowAnswers, _below, _kinds
from reprieve.preemption.cheapest_victims import CheapestVictims
from reprieve.preemption.outcome import NO_VICTIMS_POD
from reprieve.preemption.unit_costs import HIGHEST, LATEST, PODS, RESTARTLESS, WEIGHT, JudgedUnits
from reprieve.preemption.unit_matrices import ABOVE_ALL, UnitColumns, UnitMatrices
from reprieve.preemption.victim_columns import JudgedRows, _Segments
from tests.preemption.seeds import each_seed

OFFSET = 1 << 31
SEEDS = range(60)


@dataclass(frozen=True)
class _One:
    """A unit on a row."""

    priority: int
    size: int
    start: float
    amounts: tuple[int, int]
    violates: bool = False
    spans: bool = False
    restartless: int = 0


def _rows(chance: random.Random, count: int, most: int) -> list[list[_One]]:
    """Units of each row, the most important first."""
    rows = []
    for _ in range(count):
        there = [
            _One(
                chance.choice((-2, 0, 0, 1, 3)),
                chance.choice((1, 1, 2)),
                chance.choice((1.0, 2.0, 3.0, float("inf"))),
                (chance.randint(0, 3), chance.randint(0, 2)),
                chance.random() < 0.3,
                chance.random() < 0.2,
                chance.choice((0, 0, 1)),
            )
            for _ in range(chance.randint(0, most))
        ]
        rows.append(sorted(there, key=lambda one: (-one.priority, -one.size, one.start)))
    return rows


def _flat(rows: Sequence[Sequence[_One]]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    units = [one for row in rows for one in row]
    columns: dict[str, np.ndarray] = {
        "priority": np.array([one.priority for one in units], dtype=np.int64),
        "size": np.array([one.size for one in units], dtype=np.int64),
        "weight": np.array([(one.priority + OFFSET) * one.size for one in units], dtype=np.int64),
        "begun": np.array([one.start for one in units], dtype=np.float64),
        "violates": np.array([one.violates for one in units], dtype=np.bool_),
        "spans": np.array([one.spans for one in units], dtype=np.bool_),
        "kind": np.full(len(units), -1, dtype=np.int64),
        "several": np.array([one.restartless for one in units], dtype=np.int64),
        "like": np.array([turn for row in rows for turn in _likenesses(row)], dtype=np.int64),
        "amounts": np.array([one.amounts for one in units], dtype=np.int64).reshape(len(units), 2).T,
    }
    return np.array([len(row) for row in rows], dtype=np.int64), columns


def _likenesses(row: Sequence[_One]) -> list[int]:
    """By unit: the first one of its priority and size."""
    return [next(i for i, o in enumerate(row) if (o.priority, o.size) == (one.priority, one.size)) for one in row]


def _standing(row: Sequence[_One]) -> np.ndarray:
    """The turn of each unit in a reprieve: of one priority and size those that cannot restart elsewhere first."""
    order = sorted(
        range(len(row)), key=lambda turn: (-row[turn].priority, -row[turn].size, -row[turn].restartless, turn)
    )
    return np.argsort(np.array(order, dtype=np.int64))


def _column(matrices: UnitMatrices, row: int) -> list[_One]:
    """What the matrices say of a row."""
    count = int(matrices.count[row])
    if not count:
        return []
    depth = max(4, 1 << (count - 1).bit_length())
    block = matrices.blocks[depth]
    (slot,) = [slot for slot in range(block.used) if block.rows[slot] == row]
    entries = block.entries
    assert block.count[slot] == count
    assert (entries["priority"][count:, slot] == ABOVE_ALL).all(), "below them there is none"
    assert not entries["amounts"][:, count:, slot].any()
    assert np.isinf(entries["begun"][count:, slot]).all()
    return [
        _One(
            int(entries["priority"][turn, slot]),
            int(entries["size"][turn, slot]),
            float(entries["begun"][turn, slot]),
            (int(entries["amounts"][0, turn, slot]), int(entries["amounts"][1, turn, slot])),
            bool(entries["violates"][turn, slot]),
            bool(entries["spans"][turn, slot]),
            int(entries["several"][turn, slot]),
        )
        for turn in range(count)
    ]


# -- the matrices --------------------------------------------------------------------------------------------------


@each_seed(range(20))
def test_every_row_has_its_units_whatever_was_replaced(seed: int) -> None:
    """A row moves to another block as it gets more or fewer; new rows are empty; unused blocks are dropped."""
    chance = random.Random(seed)
    rows = _rows(chance, 12, 9)
    matrices = UnitMatrices()
    matrices.lay_out(*_flat(rows))
    for _ in range(12):
        assert [_column(matrices, row) for row in range(len(rows))] == rows
        depths = {max(4, 1 << (len(row) - 1).bit_length()) for row in rows if row}
        assert set(matrices.blocks) == depths
        for block in matrices.blocks.values():
            assert block.used <= len(block.rows) <= max(4 * block.used, 16)
        some = chance.sample(range(len(rows)), chance.randint(1, 4))
        new = _rows(chance, len(some), chance.choice((0, 4, 17)))
        matrices.replace(some, *_flat(new))
        for row, there in zip(some, new, strict=True):
            rows[row] = there
        if chance.random() < 0.3:
            rows.append([])
            matrices.more_rows(len(rows))


def test_units_are_marked_by_row_and_turn() -> None:
    rows = [[_One(0, 1, 1.0, (1, 1))] * count for count in (3, 5, 0, 2)]
    matrices = UnitMatrices()
    matrices.lay_out(*_flat(rows))
    matrices.fill("violates", 1)
    assert all(one.violates for row in range(4) for one in _column(matrices, row))
    matrices.fill("violates", 0)
    matrices.mark("violates", np.array([0, 1, 1]), np.array([2, 0, 4]))
    marked = [[turn for turn, one in enumerate(_column(matrices, row)) if one.violates] for row in range(4)]
    assert marked == [[2], [0, 4], [], []]


# -- judged together -------------------------------------------------------------------------------------------------


def _judged(rows: Sequence[Sequence[_One]], left: Sequence[tuple[int, int]], priority: int) -> JudgedUnits:
    """All rows in one block."""
    matrices = UnitMatrices()
    depth = 8
    matrices.lay_out(
        *_flat([list(row) + [_One(ABOVE_ALL // 2, 0, float("inf"), (0, 0))] * (depth - len(row)) for row in rows])
    )
    block = matrices.blocks[depth]
    known = RestartCodes(np.zeros(0, dtype=np.int64), SEVERAL, np.zeros(len(rows), dtype=np.bool_))
    return JudgedUnits(
        UnitColumns(block, slice(0, len(rows)), [0, 1], priority, known), np.array(left, dtype=np.int64).T
    )


def _reprieved(there: Sequence[_One], left: tuple[int, int]) -> list[_One] | None:
    """The victims by preemption.md 3.4, one by one; None where it does not fit with all of them gone."""
    have = [left[r] + sum(one.amounts[r] for one in there) for r in (0, 1)]
    if min(have) < 0:
        return None
    gone = []
    standing = _standing(there).tolist()
    for turn in sorted(range(len(there)), key=lambda turn: (not there[turn].violates, standing[turn])):
        one = there[turn]
        if all(amount <= rest for amount, rest in zip(one.amounts, have, strict=True)):
            have = [rest - amount for amount, rest in zip(one.amounts, have, strict=True)]
        else:
            gone.append(one)
    return gone


def _cost(gone: Sequence[_One]) -> tuple[float, ...]:
    if not gone:
        return (0, 0, 0, 0, 0, 0, 0)
    highest = max(one.priority for one in gone)
    return (
        sum(one.violates for one in gone),
        highest,
        0,
        sum((one.priority + OFFSET) * one.size for one in gone),
        sum(one.size for one in gone),
        sum(one.restartless for one in gone),
        -min(one.start for one in gone if one.priority == highest),
    )


@each_seed(SEEDS)
def test_reprieve_of_many_rows_is_that_of_each(seed: int) -> None:
    """preemption.md 3.1 to 3.5: which may be evicted at all, what is short with them gone, and what it costs."""
    chance = random.Random(seed)
    rows = _rows(chance, 8, 7)
    left = [(chance.randint(-4, 0), chance.randint(-2, 0)) for _ in rows]
    priority = chance.choice((0, 1, 3, 4))
    judged = _judged(rows, left, priority)
    for row, (units, have) in enumerate(zip(rows, left, strict=True)):
        there = [one for one in units if one.priority < priority]
        assert judged.occupied[row] == bool(there)
        assert judged.spans[row] == any(one.spans for one in there)
        gone = _reprieved(there, have)
        short = [have[r] + sum(one.amounts[r] for one in there) < 0 for r in (0, 1)]
        assert judged.short[:, row].tolist() == short
        assert tuple(judged.lack[:, row].tolist()) == (-have[0], -have[1])
        if gone is not None and there:
            assert tuple(judged.cost[:, row].tolist()) == _cost(gone)
        low, high = judged.priorities_alike()
        for other in range(-4, 6):
            same = [one for one in units if one.priority < other] == there
            assert (low[row] <= other <= high[row]) == same or not there


@each_seed(SEEDS)
def test_no_set_of_victims_on_a_row_costs_less_than_its_bound(seed: int) -> None:
    """cost.md 4.8: of all sets that make up for what is lacking, where an eviction is needed; budgets apart."""
    chance = random.Random(seed)
    rows = _rows(chance, 6, 6)
    left = [(chance.randint(-4, 0), chance.randint(-2, 0)) for _ in rows]
    judged = _judged(rows, left, 9)
    costs = judged.cost.T.tolist()
    does = [cost for cost in costs if cost[PODS]]
    highest = min((cost[1] for cost in does), default=float("inf"))
    worth = min((cost[WEIGHT] for cost in does if cost[1] == highest), default=float("inf"))
    least = judged.least(highest, worth).T.tolist()
    for units, have, said, cost in zip(rows, left, least, costs, strict=True):
        if not cost[PODS]:
            continue
        for size in range(1, len(units) + 1):
            for gone in combinations(units, size):
                if all(have[r] + sum(one.amounts[r] for one in gone) >= 0 for r in (0, 1)):
                    of = _cost(gone)
                    assert tuple(said[HIGHEST:LATEST]) <= of[HIGHEST:LATEST]
                    assert tuple(said[1:]) <= of[1:] or of[1:LATEST] != tuple(said[1:LATEST])


@pytest.mark.parametrize(
    ("units", "lack", "least"),
    [
        # Like ones: as many as it takes, and the start of the first of the last so many.
        ([(1, 2.0, 1), (1, 3.0, 1), (1, 5.0, 1)], 2, (1, 0, 2 * (1 + OFFSET), 2, 0, -3.0)),
        ([(1, 2.0, 1), (1, 3.0, 1), (1, 5.0, 1)], 1, (1, 0, 1 + OFFSET, 1, 0, -5.0)),
        # Two of the largest, though one of another would be cheaper by itself.
        ([(1, 2.0, 3), (1, 3.0, 1), (1, 5.0, 1)], 4, (1, 0, 2 * (1 + OFFSET), 2, 0, -3.0)),
        # So many as it takes of the largest first, not as if all were as large.
        ([(1, 2.0, 3), (1, 3.0, 1), (1, 4.0, 1), (1, 5.0, 1)], 5, (1, 0, 3 * (1 + OFFSET), 3, 0, -3.0)),
        # The lowest priority that suffices, and the others as light as the lightest.
        ([(5, 2.0, 2), (2, 3.0, 2), (0, 5.0, 2)], 4, (2, 0, 2 + 2 * OFFSET, 2, 0, -3.0)),
        ([(5, 2.0, 2), (2, 3.0, 2), (0, 5.0, 2)], 6, (5, 0, 5 + 3 * OFFSET, 3, 0, -2.0)),
    ],
)
def test_row_costs_at_least(units: list[tuple[int, float, int]], lack: int, least: tuple[float, ...]) -> None:
    """By hand."""
    row = [_One(priority, 1, start, (held, 0)) for priority, start, held in units]
    judged = _judged([row], [(-lack, 0)], 9)
    assert tuple(judged.least(float("inf"), float("inf"))[1:, 0].tolist()) == least
    stuck = _judged([[replace(one, restartless=1) for one in row]], [(-lack, 0)], 9)
    assert stuck.least(float("inf"), float("inf"))[RESTARTLESS, 0] == least[3]


def test_pods_without_a_start_have_no_earliest_start() -> None:
    row = [_One(1, 1, float("inf"), (1, 0))] * 2
    judged = _judged([row], [(-1, 0)], 9)
    assert judged.cost[:, 0].tolist() == [0, 1, 0, 1 + OFFSET, 1, 0, -float("inf")]
    assert judged.least(float("inf"), float("inf"))[LATEST, 0] == -float("inf")


# -- stretches -------------------------------------------------------------------------------------------------------


@each_seed(range(12))
def test_every_row_has_its_stretch_whatever_was_replaced(seed: int) -> None:
    """Longer ones move to the end; what lies idle does not grow without bound; new rows have nothing."""
    chance = random.Random(seed)
    rows = [[chance.randrange(99) for _ in range(chance.randint(0, 4))] for _ in range(9)]
    stretches = _Segments()

    def flat(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, dict[str, Any]]:
        values = np.array([value for row in rows for value in row], dtype=np.int64)
        counts = np.array([len(row) for row in rows], dtype=np.int64)
        return counts, {"value": values, "twice": np.array([values, 2 * values])}

    stretches.lay_out(*flat(rows))
    for _ in range(60):
        for _ in range(6):
            some = chance.sample(range(len(rows)), chance.randint(1, 4))
            new = [[chance.randrange(99) for _ in range(chance.choice((0, 3, 40, 90)))] for _ in some]
            stretches.replace(some, *flat(new))
            for row, values in zip(some, new, strict=True):
                rows[row] = values
        asked = sorted(chance.sample(range(len(rows)), 4))
        at, owners = stretches.of(np.array(asked))
        assert stretches.columns["value"][at].tolist() == [value for row in asked for value in rows[row]]
        assert stretches.columns["twice"][1, at].tolist() == [2 * value for row in asked for value in rows[row]]
        assert owners.tolist() == [turn for turn, row in enumerate(asked) for _ in rows[row]]
        assert stretches.count.tolist() == [len(row) for row in rows]
        if chance.random() < 0.1:
            rows.append([])
            stretches.more_rows(len(rows))
    assert stretches.columns["value"].shape[-1] < 3 * (2 * sum(map(len, rows)) + 4096)


# -- answers -----------------------------------------------------------------------------------------------------------


class _Changes:
    """Says once what has changed."""

    def __init__(self) -> None:
        self.touched: Sequence[int] | None = []
        self.asked: list[tuple[int, ...]] = []

    def take(self, *versions: int) -> Sequence[int] | None:
        self.asked.append(versions)
        touched, self.touched = self.touched, []
        return touched

    def copy(self) -> _Changes:
        return self


def _answers(rows: int) -> tuple[RowAnswers, _Changes]:
    changes = _Changes()
    return RowAnswers(cast("ChangeReader", changes), rows), changes


def _cost5(*parts: float) -> tuple[float, ...]:
    return (*parts, *[0.0] * (5 - len(parts)))


def _filled(*answers: tuple[float, ...] | Misfit, fragile: Sequence[int] = ()) -> RowAnswers:
    """Candidates by cost, or reasons, row by row."""
    found, _ = _answers(len(answers))
    for row, answer in enumerate(answers):
        put: Any = (
            answer if answer and isinstance(answer[0], str) else Candidate(row, (), cast("tuple[float, ...]", answer))
        )
        found.put(row, put, (-9, 9), fragile=row in fragile)
    return found


@each_seed(SEEDS)
def test_cheapest_row_by_cost_and_then_by_name(seed: int) -> None:
    """preemption.md 3; and the second best of those that the last comparison left, with how the field narrowed."""
    chance = random.Random(seed)
    costs = [tuple(float(chance.randint(0, 1)) for _ in range(5)) for _ in range(chance.randint(1, 9))]
    good = [chance.random() < 0.8 for _ in costs]
    answers = _filled(*[cost if ok else ("why",) for cost, ok in zip(costs, good, strict=True)])
    rank = np.array(chance.sample(range(len(costs)), len(costs)))
    rows = np.array(sorted(chance.sample(range(len(costs)), chance.randint(1, len(costs)))))
    able = sorted((row for row in rows.tolist() if good[row]), key=lambda row: (costs[row], rank[row]))
    found = answers.cheapest(rows, rank)
    assert answers.cheapest_first(rows, rank) == [(row, costs[row]) for row in able]
    if found is None:
        assert not able
        return
    assert (found.row, found.cost, found.candidates) == (able[0], costs[able[0]], len(able))
    left, steps, rivals = able, [], able
    texts = answers._criteria.texts
    for number, text in enumerate(texts):
        least = min(costs[row][number] for row in left)
        if any(costs[row][number] > least for row in left):
            rivals, left = left, [row for row in left if costs[row][number] == least]
            steps.append((text, len(left)))
    if len(left) > 1:
        rivals = left
        steps.append(("first by name", 1))
    assert found.steps == tuple(steps)
    others = [row for row in rivals if row != able[0]]
    second = min(others, key=lambda row: (costs[row], rank[row]), default=-1)
    assert found.second == second
    assert found.second_cost == (costs[second] if others else None)


@each_seed(range(40))
def test_rows_that_may_be_cheaper_come_by_their_bounds(seed: int) -> None:
    """cost.md 4.8: by every part of the least cost in turn, then by name; of the rows in question."""
    chance = random.Random(seed)

    def drawn() -> tuple[float, ...]:
        return tuple(float(chance.randint(0, 2)) for _ in range(5))

    costs = [drawn() if chance.random() < 0.9 else None for _ in range(8)]
    answers = _filled(*[cost or ("why",) for cost in costs])
    rank = np.array(chance.sample(range(len(costs)), len(costs)))
    rows = np.array(sorted(chance.sample(range(len(costs)), chance.randint(1, len(costs)))))
    limit = drawn()
    expected = []
    for row, cost in enumerate(costs):
        if cost is None:
            continue
        least = min(cost, drawn())
        answers.search(row, CheapestVictims(least, ()))
        if row in rows and least < cost and least <= limit:
            expected.append((least, int(rank[row]), row))
    hopeful = answers.hopeful(rows, limit, rank)
    assert hopeful == [(least, row) for least, _, row in sorted(expected)]


def test_why_rows_are_no_candidates_is_counted() -> None:
    """Of the rows that are asked about; of one with several reasons each."""
    answers = _filled(("a", "b"), ("b",), _cost5(1.0), ("c",), ("b",))
    assert answers.misfits(np.arange(5)) == {"a": 1, "b": 3, "c": 1}
    assert answers.misfits(np.array([1, 2])) == {"b": 1}
    assert answers.misfits(np.array([2])) == {}


def test_candidates_that_changed_are_forgotten() -> None:
    """Only that; all of it where the reader has lost track. A fragile answer is never sure."""
    found, changes = _answers(4)
    for row in range(4):
        found.put(row, Candidate(row, (), _cost5(1.0)), (0, 5), fragile=row == 3)
    assert found.known.tolist() == [True, True, True, False]
    assert found.good.tolist() == [True] * 4
    found.search(1, None)
    found.search(2, None)
    changes.touched = [1]
    found.catch_up(4, 7, 8)
    assert changes.asked == [(7, 8)]
    assert found.known.tolist() == [True, False, True, False]
    assert set(found.searched) == {2}
    found.catch_up(4)
    assert found.known.tolist() == [True, False, True, False]
    changes.touched = None
    found.catch_up(6)
    assert found.known.tolist() == [False] * 6
    assert found.searched == {}


def test_another_priority_takes_over_what_is_the_same_for_it() -> None:
    """From and to the bounds; and what was searched there."""
    found, _ = _answers(3)
    for row, bounds in enumerate([(2, 5), (3, 4), (5, 9)]):
        found.put(row, Candidate(row, (), _cost5(float(row))), bounds, fragile=False)
        found.search(row, None)
    for priority, known in ((1, []), (2, [0]), (3, [0, 1]), (4, [0, 1]), (5, [0, 2]), (6, [2]), (9, [2]), (10, [])):
        copy = found.for_priority(priority)
        assert np.flatnonzero(copy.known).tolist() == known
        assert sorted(copy.searched) == known
    copy = found.for_priority(3)
    copy.put(0, ("why",), (3, 3), fragile=False)
    assert found.good[0], "what is learnt by the copy is its own"


def test_where_something_cheaper_is_not_ruled_out() -> None:
    """cost.md 4.8: after a search nothing there costs less; the most hopeful rows come first, none that is too dear."""
    answers = _filled(_cost5(2.0), _cost5(3.0), ("why",), _cost5(1.0), _cost5(4.0))
    rank = np.array([4, 3, 2, 1, 0])
    rows = np.arange(5)
    assert [row for _, row in answers.hopeful(rows, _cost5(9.0), rank)] == [4, 3, 1, 0]
    cheaper = CheapestVictims(_cost5(1.0, 7.0), ())
    for row, found in ((0, cheaper), (1, None), (4, CheapestVictims(_cost5(5.0), ()))):
        answers.search(row, found)
    assert answers.hopeful(rows, _cost5(9.0), rank) == [((-np.inf,) * 5, 3), (_cost5(1.0, 7.0), 0)]
    assert [row for _, row in answers.hopeful(rows, _cost5(1.0, 7.0), rank)] == [3, 0], "as dear is not too dear"
    assert [row for _, row in answers.hopeful(rows, _cost5(1.0, 6.0), rank)] == [3]
    assert [row for _, row in answers.hopeful(np.array([0, 1]), _cost5(9.0), rank)] == [0]
    answers.search(0, None)
    assert answers.searched[0] is None
    assert answers.hopeful(np.array([0]), _cost5(9.0), rank) == [(_cost5(1.0, 7.0), 0)], "what was ruled out stays so"
    answers.put(0, Candidate(0, (), _cost5(2.0)), (0, 0), fragile=False)
    assert 0 not in answers.searched
    assert answers.hopeful(np.array([0]), _cost5(9.0), rank) == [((-np.inf,) * 5, 0)]


@pytest.mark.parametrize("whole", [False, True])
def test_many_answers_at_once(whole: bool) -> None:
    """Candidates, rows without victims, rows where something is short, and rows that depend on others."""
    rows = np.arange(5) if whole else np.array([1, 2, 4, 5, 6])
    found, _ = _answers(5 if whole else 8)
    at = rows.tolist()
    found.search(at[0], None)
    cost = np.zeros((7, 5))
    cost[:, 0] = [0, 1, 9, 2, 3, 9, 4]
    cost[:, 4] = [0, 1, 9, 2, 4, 9, 4]
    least = cost.copy()
    least[WEIGHT, 4] = 1
    judged = JudgedRows(
        units=np.array([True, True, False, True, True]),
        short=np.array([[False, True, False, True, False], [False, False, False, True, False]]),
        cost=cost,
        least=least,
        spans=np.array([False, False, False, False, True]),
        low=np.array([0, 1, 2, 3, 4]),
        high=np.array([5, 6, 7, 8, 9]),
    )
    found.put_all(rows, judged, ("no cpu", "no memory"))
    assert found.good[rows].tolist() == [True, False, False, False, True]
    assert found.known[rows].tolist() == [True, True, True, True, False]
    assert int(found.known.sum()) == 4
    assert at[0] not in found.searched
    assert found.misfits(rows) == {"no cpu": 2, NO_VICTIMS_POD: 1, "no memory": 1}
    best = found.cheapest(rows, np.arange(8))
    assert best is not None
    assert (best.row, best.second, best.cost, best.second_cost) == (at[0], at[4], (0, 1, 2, 3, 4), (0, 1, 2, 4, 4))
    assert [row for _, row in found.hopeful(rows, best.cost, np.arange(8))] == [at[4]]
    assert np.flatnonzero(found.for_priority(3).known).tolist() == at[:4]
    assert np.flatnonzero(found.for_priority(1).known).tolist() == at[:2]


def test_costs_are_compared_part_by_part() -> None:
    some = np.array([[1, 1, 2, 1, 1], [5, 5, 0, 6, 4]], dtype=np.float64)
    others = np.array([[1, 2, 1, 1, 1], [5, 0, 9, 5, 5]], dtype=np.float64)
    assert _below(some, others).tolist() == [False, True, False, False, True]


def test_nodes_that_lack_the_same_are_taken_together() -> None:
    short = np.array([[True, False, True, True], [True, True, True, False]])
    found = [(columns.tolist(), text) for columns, text in _kinds(short, ("a", "b"))]
    assert found == [([0, 2], ("a", "b")), ([1], ("b",)), ([3], ("a",))]
