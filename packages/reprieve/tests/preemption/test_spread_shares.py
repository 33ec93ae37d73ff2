"""Which numbers of members the domains of a spread constraint may get, compared with all numbers (cost.md 4.13)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reprieve.preemption.spread_shares import SpreadShares
from tests.preemption.seeds import each_seed


def _shares(held: Sequence[int], skew: int, least_domains: int = 1, kinds: int = 2) -> SpreadShares:
    """Return shares over domains of one node each; `held`: the pods that the constraint counts there."""
    pods = [[SimpleNamespace(uid=f"{kind}-{number}") for number in range(9)] for kind in range(kinds)]
    numbers: Any = SimpleNamespace(
        rows=list(range(len(held))), kinds=[SimpleNamespace(pods=tuple(there)) for there in pods]
    )
    spread: Any = SimpleNamespace(max_skew=skew, min_domains=least_domains)
    shares = object.__new__(SpreadShares)
    shares.numbers, shares.spread = numbers, spread
    shares._held = list(held)
    shares._nodes = [frozenset([node]) for node in range(len(held))]
    return shares


def _allowed(held: Sequence[int], skew: int, least_domains: int, members: int) -> set[tuple[int, ...]]:
    """All numbers for which no domain that gets members has more than the skew above the one with the fewest."""
    found = set()
    for totals in product(range(members + 1), repeat=len(held)):
        if sum(totals) != members:
            continue
        after = [have + more for have, more in zip(held, totals, strict=True)]
        least = min(after) if len(held) >= least_domains else 0
        if all(not more or count <= least + skew for more, count in zip(totals, after, strict=True)):
            found.add(totals)
    return found


@each_seed(range(80))
def test_numbers_that_keep_the_constraint_are_those_compared(seed: int) -> None:
    """All of them once; first those that leave the most pods in the domain with the fewest."""
    chance = random.Random(seed)
    held = [chance.randint(0, 3) for _ in range(chance.randint(2, 3))]
    skew, least_domains, members = chance.randint(1, 2), chance.choice((1, 3)), chance.randint(1, 6)
    found = list(_shares(held, skew, least_domains)._totals(members))
    assert len(found) == len(set(found))
    assert set(found) == _allowed(held, skew, least_domains, members)
    if len(held) >= least_domains:
        fewest = [min(have + more for have, more in zip(held, totals, strict=True)) for totals in found]
        assert fewest == sorted(fewest, reverse=True)


@each_seed(range(40))
def test_share_without_the_constraint_is_changed_by_as_few_pods_as_will_do(seed: int) -> None:
    """The numbers of each kind stay, and those of the domains are the nearest that are allowed."""
    chance = random.Random(seed)
    held = [chance.randint(0, 2) for _ in range(3)]
    share = tuple((chance.randint(0, 2), chance.randint(0, 2)) for _ in held)
    have = tuple(map(sum, share))
    allowed = _allowed(held, 1, 1, sum(have))
    near = _shares(held, 1)._allowed_near(share)
    assert bool(near) is bool(allowed)
    for found in near:
        assert tuple(map(sum, found)) in allowed
        assert [sum(kind) for kind in zip(*found, strict=True)] == [sum(kind) for kind in zip(*share, strict=True)]
        assert min(map(min, found)) >= 0

    def distance(totals: Sequence[int]) -> int:
        return sum(abs(count - before) for count, before in zip(totals, have, strict=True))

    if near:
        assert distance(tuple(map(sum, near[0]))) == min(map(distance, allowed))
    if have in allowed:
        assert near[0] == share


@each_seed(range(40))
def test_near_shares_move_one_pod_or_exchange_two(seed: int) -> None:
    """All that keep the constraint, each once."""
    chance = random.Random(seed)
    held = [chance.randint(0, 2) for _ in range(3)]
    shares = _shares(held, 2)
    share = tuple((chance.randint(0, 2), chance.randint(0, 2)) for _ in held)
    allowed = _allowed(held, 2, 1, sum(map(sum, share)))
    counts = tuple(sum(kind) for kind in zip(*share, strict=True))
    expected = set()
    for flat in product(range(5), repeat=6):
        other = tuple(zip(flat[::2], flat[1::2], strict=True))
        if tuple(sum(kind) for kind in zip(*other, strict=True)) != counts:
            continue
        change = [
            after - before
            for there, had in zip(other, share, strict=True)
            for after, before in zip(there, had, strict=True)
        ]
        moved = sum(map(abs, change)) // 2
        same_totals = tuple(map(sum, other)) == tuple(map(sum, share))
        if (moved == 1 and tuple(map(sum, other)) in allowed) or (
            moved == 2 and same_totals and max(map(abs, change)) == 1
        ):
            expected.add(other)
    near = shares._near(share)
    assert len(near) == len(set(near))
    assert set(near) == expected


@pytest.mark.parametrize(
    ("held", "order"), [((2, 0), "cdaeb"), ((0, 0), "acbde"), ((0, 3), "abcde"), ((5, 0), "cdeab")]
)
def test_members_come_in_an_order_that_keeps_the_constraint(held: tuple[int, int], order: str) -> None:
    """The domain with the fewest pods gets the next member: a and b go to the first one, the others to the second."""
    places = [(name, 0 if name in "ab" else 1) for name in "abcde"]
    found = _shares(held, 1)._in_order(cast("Any", places))
    assert "".join(cast("str", pod) for pod, _ in found) == order
