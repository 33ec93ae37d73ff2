"""Lower bounds and costs of many rows at once, against a loop over the units of each (preemption.md 3; cost.md 4.8)."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np

from reprieve.framework.restart_places import NOWHERE, SEVERAL, RestartCodes
from reprieve.preemption.unit_costs import GANGS, HIGHEST, LATEST, PODS, RESTARTLESS, WEIGHT, JudgedUnits
from reprieve.preemption.unit_matrices import ABOVE_ALL, UnitBlock, UnitColumns
from tests.preemption.seeds import each_seed

OFFSET = 1 << 31
ROWS, DEPTH = 12, 6
NEVER = float("inf")
Row = list[dict[str, Any]]


def _row(chance: random.Random, *, like: bool, started: bool) -> Row:
    """Units of a row, the most important first, of which some are not below the preemptor; the rest are idle."""
    units: Row = [
        {
            "priority": 1 if like else chance.choice((0, 1, 1, 2, 7)),
            "size": 1 if like else chance.choice((1, 1, 2)),
            "begun": chance.choice((1.0, 2.0, 3.0, NEVER)) if started else NEVER,
            "amounts": (chance.randint(0, 4), chance.randint(0, 2)),
            "violates": chance.random() < 0.2,
            "breaks": chance.choice((0, 0, 1)),
            "slack": chance.randint(0, 1),
            "restartless": chance.choice((0, 1, 2)),
            "spans": chance.random() < 0.2,
        }
        for _ in range(chance.randint(0, DEPTH))
    ]
    units.sort(key=lambda unit: (-unit["priority"], -unit["size"], unit["begun"]))
    for turn, unit in enumerate(units):
        gang = chance.choice((-1, -1, 0, 1))
        unit["gang"] = next((i for i, other in enumerate(units[:turn]) if other.get("own") == gang), turn)
        unit["own"] = gang
        unit["gang"] = unit["gang"] if gang >= 0 else -1
        unit["slack"] = units[unit["gang"]]["slack"] if gang >= 0 else 0
    standing = chance.sample(range(len(units)), len(units))
    for unit, turn in zip(units, standing, strict=True):
        unit["standing"] = turn
    return units


_IDLE = {"priority": ABOVE_ALL, "begun": NEVER, "gang": -1, "standing": ABOVE_ALL}


def _columns(rows: list[Row], priority: int, *, gangs: bool, restarts: bool, ordered: bool) -> UnitColumns:
    """Return the columns of the rows; a unit that is not below the priority has no amounts and no pods."""

    def table(name: str, dtype: type) -> Any:
        values: Any = np.full((DEPTH, len(rows)), _IDLE.get(name, 0), dtype=dtype)
        for at, row in enumerate(rows):
            for turn, unit in enumerate(row):
                values[turn, at] = unit[name]
        return values

    columns = object.__new__(UnitColumns)
    columns.priority = table("priority", np.int64)
    columns.below = below = columns.priority < priority
    columns.size = table("size", np.int64) * below
    columns.weight = (columns.priority + OFFSET) * columns.size
    columns.begun = np.where(below, table("begun", np.float64), NEVER)
    columns.violates = table("violates", np.bool_)
    columns.spans = table("spans", np.bool_) & below
    amounts = np.zeros((2, DEPTH, len(rows)), dtype=np.int64)
    for at, row in enumerate(rows):
        for turn, unit in enumerate(row):
            amounts[:, turn, at] = unit["amounts"]
    columns.amounts = amounts * below
    columns.standing = table("standing", np.int64) if ordered else None
    columns.gang = table("gang", np.int64) if gangs else None
    columns.slack = table("slack", np.int64) if gangs else None
    columns.breaks = table("breaks", np.int64) if gangs else None
    columns.restartless = table("restartless", np.int64) if restarts else None
    return columns


def _evicted(row: Row, left: list[int], priority: int, *, ordered: bool) -> list[int]:
    """The turns of the units that a reprieve evicts; none where the pod does not fit without all of them."""
    below = [turn for turn, unit in enumerate(row) if unit["priority"] < priority]
    have = [amount + sum(row[turn]["amounts"][r] for turn in below) for r, amount in enumerate(left)]
    if min(have) < 0:
        return []
    gone = []
    for turn in sorted(below, key=lambda i: (not row[i]["violates"], row[i]["standing"] if ordered else i)):
        rest = [amount - held for amount, held in zip(have, row[turn]["amounts"], strict=True)]
        if min(rest) < 0:
            gone.append(turn)
        else:
            have = rest
    return gone


def _broken(row: Row, gone: list[int]) -> int:
    broken: int = sum(row[turn]["breaks"] for turn in gone if row[turn]["gang"] < 0)
    for first, unit in enumerate(row):
        lost = sum(row[turn]["gang"] == first for turn in gone)
        broken += unit["gang"] == first and lost > unit["slack"]
    return broken


def _least(row: Row, lack: list[int], priority: int, known: tuple[float, float], pods: float) -> dict[int, float]:
    """Return the bound of a row on which the pod needs an eviction."""
    below = [unit for unit in row if unit["priority"] < priority]
    sizes = [[unit["amounts"][r] for unit in below] for r in range(len(lack))]
    needed = max(1, *(-(-want // max(1, *held)) for want, held in zip(lack, sizes, strict=True)))
    highest = None
    for turn in reversed(range(len(below))):
        if highest is None and all(sum(held[turn:]) >= want for held, want in zip(sizes, lack, strict=True)):
            highest = below[turn]["priority"]
    assert highest is not None
    lightest = min((unit["priority"] + OFFSET) * unit["size"] for unit in below)
    weight = (needed - 1) * lightest + highest + OFFSET
    if (highest < known[0] or (highest == known[0] and weight <= known[1])) and needed < pods:
        for held, want in zip(sizes, lack, strict=True):
            largest = sorted(held, reverse=True)
            needed = max(needed, next(n for n in range(len(held) + 1) if sum(largest[:n]) >= want))
        weight = (needed - 1) * lightest + highest + OFFSET
    alike = all(
        (a["priority"], a["size"]) == (b["priority"], b["size"]) and a["begun"] <= b["begun"]
        for a, b in pairwise(below)
    )
    start = max(unit["begun"] for unit in below if unit["priority"] == highest)
    if alike:
        start = below[max(0, len(below) - needed)]["begun"]
    return {
        HIGHEST: highest,
        WEIGHT: weight,
        PODS: needed,
        GANGS: min(unit["breaks"] for unit in below),
        RESTARTLESS: needed * min(unit["restartless"] for unit in below),
        LATEST: -start,
    }


@each_seed(range(150))
def test_rows_cost_what_a_loop_over_their_units_finds(seed: int) -> None:
    """preemption.md 3.1 to 3.5: the cost of the reprieve by each criterion, and its lower bound, exactly."""
    chance = random.Random(seed)
    started, priority = seed % 7 > 0, chance.choice((1, 2, 3, 9))
    rows = [_row(chance, like=chance.random() < seed % 3 / 2, started=started) for _ in range(ROWS)]
    how = {"gangs": seed % 2 == 0, "restarts": seed % 5 > 0, "ordered": seed % 4 > 0}
    left = [[chance.randint(-5, 0), chance.choice((0, 0, -1, -2))] for _ in rows]
    judged = JudgedUnits(_columns(rows, priority, **how), np.array(left, dtype=np.int64).T)
    known = chance.choice((NEVER, 0.0, 1.0)), chance.choice((NEVER, OFFSET + 1.0, 3.0 * OFFSET))
    least = judged.least(*known)
    for at, (row, have) in enumerate(zip(rows, left, strict=True)):
        gone, cost = _evicted(row, have, priority, ordered=how["ordered"]), judged.cost[:, at].tolist()
        assert judged.spans[at] == any(unit["spans"] for unit in row if unit["priority"] < priority)
        if not gone:
            assert cost == [0] * len(cost)
            continue
        units = [row[turn] for turn in gone]
        highest = max(unit["priority"] for unit in units)
        assert cost == [
            sum(unit["violates"] for unit in units),
            highest,
            _broken(row, gone) if how["gangs"] else 0,
            sum((unit["priority"] + OFFSET) * unit["size"] for unit in units),
            sum(unit["size"] for unit in units),
            sum(unit["restartless"] for unit in units) if how["restarts"] else 0,
            -min(unit["begun"] for unit in units if unit["priority"] == highest),
        ]
        bound = _least(row, [-amount for amount in have], priority, known, cost[PODS])
        if not how["gangs"]:
            bound[GANGS] = 0
        if not how["restarts"]:
            bound[RESTARTLESS] = 0
        if not any(unit["begun"] < NEVER for row in rows for unit in row if unit["priority"] < priority):
            bound[LATEST] = -NEVER
        assert {part: least[part, at] for part in bound} == bound


# -- the columns of a block ------------------------------------------------------------------------------------------


def _block(chance: random.Random) -> UnitBlock:
    """Random entries; only some rows have gangs that can break."""

    def numbers(low: int, high: int, *lead: int) -> Any:
        count = int(np.prod((*lead, DEPTH, ROWS)))
        return np.array([chance.randint(low, high) for _ in range(count)], dtype=np.int64).reshape(*lead, DEPTH, ROWS)

    entries: dict[str, Any] = {
        "priority": -np.sort(-numbers(0, 3), axis=0),
        "size": numbers(1, 2),
        "weight": numbers(1, 9),
        "begun": numbers(0, 5).astype(np.float64),
        "violates": numbers(0, 1).astype(np.bool_),
        "spans": numbers(0, 1).astype(np.bool_),
        "amounts": numbers(0, 5, 3),
        "standing": numbers(0, 9),
        "like": numbers(0, 5),
        "kind": numbers(-1, 3),
        "several": numbers(0, 1),
        "gang": numbers(-1, chance.choice((-1, 2))),
        "slack": numbers(0, 3),
        "breaks": numbers(0, chance.choice((0, 1))),
        "mixed": numbers(0, 1).astype(np.bool_),
    }
    block = UnitBlock(DEPTH, ROWS, entries)
    block.entries.update(entries)
    block.rows[:] = chance.sample(range(2 * ROWS), ROWS)
    block.used = ROWS
    return block


@each_seed(range(40))
def test_columns_have_the_units_below_a_priority(seed: int) -> None:
    """preemption.md 3.1, cost.md 1.9: others hold nothing; which pods cannot restart elsewhere, and in which order.

    A code that is a row is the only one on which the pod can run.
    """
    chance = random.Random(seed)
    block, priority = _block(chance), chance.choice((1, 2, 3, 4))
    entries = block.entries
    slots = np.array(sorted(chance.sample(range(ROWS), 5)), dtype=np.int64)
    codes = np.array([chance.choice((NOWHERE, SEVERAL, int(block.rows[slots[0]]))) for _ in range(4)], dtype=np.int64)
    common = chance.choice((NOWHERE, SEVERAL))
    looked_up = np.array([chance.random() < 0.7 for _ in range(2 * ROWS)], dtype=np.bool_)
    restarts = RestartCodes(codes, common, looked_up) if seed % 4 else None
    columns = UnitColumns(block, slots, [2, 0], priority, restarts)
    gangs = (entries["gang"] >= 0).any() or entries["breaks"].any()
    assert (columns.gang is not None) == gangs
    stuck = np.zeros((DEPTH, len(slots)), dtype=np.int64)
    for at, slot in enumerate(slots.tolist()):
        row = int(block.rows[slot])
        for turn in range(DEPTH):
            of = {name: values[..., turn, slot].tolist() for name, values in entries.items()}
            below = of["priority"] < priority
            assert columns.below[turn, at] == below
            assert columns.size[turn, at] == of["size"] * below
            assert columns.weight[turn, at] == of["weight"] * below
            assert columns.spans[turn, at] == (of["spans"] and below)
            assert columns.begun[turn, at] == (of["begun"] if below else NEVER)
            assert columns.violates[turn, at] == of["violates"]
            assert columns.amounts[:, turn, at].tolist() == [of["amounts"][2] * below, of["amounts"][0] * below]
            code = codes[of["kind"]] if looked_up[row] else common
            stuck[turn, at] = of["several"] + (of["kind"] >= 0 and code in (NOWHERE, row))
            if columns.gang is not None and columns.slack is not None and columns.breaks is not None:
                parts = columns.gang[turn, at], columns.slack[turn, at], columns.breaks[turn, at]
                assert parts == (of["gang"], of["slack"], of["breaks"])
    counts = restarts is not None and stuck.any()
    assert (columns.restartless is not None) == counts
    if columns.restartless is not None:
        assert columns.restartless.tolist() == stuck.tolist()
    size = entries["size"][:, slots]
    differ = counts and (stuck < size).any()
    assert (columns.standing is not None) == (gangs or differ)
    if columns.standing is not None:
        own = entries["like"][:, slots] * (1 << 20) - stuck if differ else entries["like"][:, slots]
        expected = np.where(entries["mixed"][:, slots], entries["standing"][:, slots], own) if gangs else own
        assert columns.standing.tolist() == expected.tolist()
