"""How many gangs break with a unit, or with several, however many pods they have lost (cost.md 1.1)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reprieve.preemption.victim_search.charges import GangLosses
from tests.preemption.seeds import each_seed

Lost = list[tuple[tuple[int, int], ...]]
"""By unit: (gang, pods that it holds of it)."""


def _losses(slack: Sequence[int], lost: Lost) -> GangLosses:
    numbers: Any = SimpleNamespace(
        gangs=SimpleNamespace(slack=tuple(slack), lost=tuple(lost)), on=((),), units=lost, pricing=None
    )
    return GangLosses(cast("Any", numbers))


def _random(chance: random.Random) -> tuple[list[int], Lost]:
    slack = [chance.randint(0, 4) for _ in range(3)]
    lost = [
        tuple((gang, chance.randint(1, 3)) for gang in sorted(chance.sample(range(3), chance.randint(0, 2))))
        for _ in range(7)
    ]
    return slack, lost


def _left(slack: Sequence[int], lost: Lost, gone: Sequence[int]) -> list[int]:
    taken = [sum(pods for unit in gone for of, pods in lost[unit] if of == gang) for gang in range(len(slack))]
    return [have - less for have, less in zip(slack, taken, strict=True)]


@each_seed(range(12))
def test_breaking_gangs_equal_a_new_count(seed: int) -> None:
    """A gang that has broken does not break again; what comes back mends it."""
    chance = random.Random(seed)
    slack, lost = _random(chance)
    losses = _losses(slack, lost)
    gone: set[int] = set()
    for _ in range(30):
        unit = chance.randrange(len(lost))
        before = list(losses.breaks)
        turned = losses.lose(unit, -1 if unit in gone else 1)
        gone ^= {unit}
        left = _left(slack, lost, sorted(gone))
        assert losses.slack == left
        assert losses.breaks == [sum(0 <= left[gang] < pods for gang, pods in pairs) for pairs in lost]
        changes = [0] * len(lost)
        for member, change in turned:
            changes[member] += change
        assert changes == [now - then for now, then in zip(losses.breaks, before, strict=True)]
        some = chance.sample(range(len(lost)), 3)
        assert losses.broken(some) == sum(have < 0 for have in _left(slack, lost, some))
        others = [unit for unit in some if unit not in gone]
        together = _left(left, lost, others)
        breaks = sum(after < 0 <= have for after, have in zip(together, left, strict=True))
        alone = sum(0 <= left[gang] < pods for unit in others for gang, pods in lost[unit])
        assert losses.breaking(others) == breaks - alone


@pytest.mark.parametrize(("slack", "breaks"), [(0, [1, 1]), (1, [0, 1]), (2, [0, 0])])
def test_gang_breaks_with_more_pods_than_it_can_lose(slack: int, breaks: list[int]) -> None:
    losses = _losses([slack], [((0, 1),), ((0, 2),)])
    assert losses.breaks == breaks
    assert losses.members() == [(0, 1)]


def test_gang_that_one_unit_holds_has_no_others_to_break_it_with() -> None:
    """Its unit alone breaks it, with as many pods as it can lose and one."""
    losses = _losses([0, 3], [((0, 1),), ((1, 3),), ()])
    assert losses.members() == []
    assert [losses.broken([unit]) for unit in range(3)] == [1, 0, 0]
    assert losses.breaking([0, 1, 2]) == 0
