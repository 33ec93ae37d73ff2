"""The search for the order of ranks with the fewest breaks, against all orders there are (topology.md 3)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from random import Random

import pytest

from reprieve.scheduling.rank_order import STEPS, Bin, FewestBreaks, Member

Apart = Sequence[tuple[int, int]]


def _orders(members: Sequence[Member], bins: Sequence[Bin]) -> Iterator[list[int]]:
    """Yield every order in which each bin has enough for its members, and members are beside where they have to be."""
    for order in itertools.product(*([-1] if member.domain >= 0 else sorted(member.bins) for member in members)):
        domains = _domains(order, members, bins)
        beside = all(
            not member.beside or (turn > 0 and domains[turn] == domains[turn - 1])
            for turn, member in enumerate(members)
        )
        taken = ([m.asks for m, chosen in zip(members, order, strict=True) if chosen == i] for i in range(len(bins)))
        fits = all(sum(asks[0] for asks in all_asks) <= bins[i].free[0] for i, all_asks in enumerate(taken))
        if beside and fits:
            yield list(order)


def _domains(order: Sequence[int], members: Sequence[Member], bins: Sequence[Bin]) -> list[int]:
    return [
        bins[chosen].domain if chosen >= 0 else member.domain for chosen, member in zip(order, members, strict=True)
    ]


def _breaks(order: Sequence[int], members: Sequence[Member], bins: Sequence[Bin], apart: Apart) -> tuple[int, ...]:
    pairs = list(itertools.pairwise(_domains(order, members, bins)))
    return tuple(sum(apart[one][level] != apart[other][level] for one, other in pairs) for level in range(2))


def _drawn(seed: int) -> tuple[list[Member], list[Bin], list[tuple[int, int]]]:
    chance = Random(seed)
    apart = [(0, 0), (0, 1), (1, 2)]
    bins = [Bin(chance.randrange(3), (chance.randint(0, 5),)) for _ in range(chance.randint(1, 4))]
    members = []
    for turn in range(chance.randint(1, 5)):
        if chance.random() < 0.2:
            members.append(Member(domain=chance.randrange(3)))
            continue
        allowed = frozenset(i for i in range(len(bins)) if chance.random() < 0.8)
        members.append(Member((chance.randint(1, 2),), allowed, beside=turn > 0 and chance.random() < 0.25))
    return members, bins, apart


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_order_with_the_fewest_breaks_is_found(first: int) -> None:
    """topology.md 3: none costs less, what it has fits, and where it finds none there is none."""
    found = 0
    for seed in range(first, first + 100):
        members, bins, apart = _drawn(seed)
        search = FewestBreaks(members, bins, apart, steps=STEPS)
        answer, every = search.run(), list(_orders(members, bins))
        if answer is None:
            assert not every, seed
            continue
        found += 1
        assert answer in every, seed
        assert search.cost == _breaks(answer, members, bins, apart), seed
        assert search.cost == min(_breaks(order, members, bins, apart) for order in every), seed
    assert found > 30


def test_search_ends_after_its_steps() -> None:
    """topology.md 3: the cost of a search is bounded, and its answer then is the best it came across."""
    members = [Member((1,), frozenset(range(6))) for _ in range(6)]
    bins = [Bin(turn % 3, (1,)) for turn in range(6)]
    search = FewestBreaks(members, bins, [(0, 0), (0, 1), (1, 2)], steps=11)
    answer = search.run()
    assert answer is not None
    assert search.steps == 0
    assert search.cost == _breaks(answer, members, bins, [(0, 0), (0, 1), (1, 2)])
    assert FewestBreaks(members, bins, [(0, 0), (0, 1), (1, 2)], steps=5).run() is None


def test_one_domain_has_no_breaks() -> None:
    """topology.md 3.2"""
    search = FewestBreaks([Member((1,), frozenset({0}))] * 2, [Bin(0, (2,))], [(0,)], steps=STEPS)
    assert (search.run(), search.cost) == ([0, 0], (0,))
