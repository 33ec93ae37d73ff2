"""Choices of nodes for parts of a group, compared with all sets of units (cost.md 4.12)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any
from unittest.mock import Mock

import pytest

from reprieve.cluster.pods import PodRecord
from reprieve.preemption import pinned_choices
from reprieve.preemption.pinned_choices import Part, Picks, PinnedChoices
from reprieve.preemption.victim_search.search import PricedEviction, cheapest_eviction
from tests.preemption import tiny
from tests.preemption.exact import Kind, Price, Problem
from tests.preemption.seeds import each_seed

LARGE = 1_000_000
SEEDS = range(31)
"""With 5 and 30, pods of several kinds fit only if those that are placed already move aside."""


@dataclass(slots=True)
class _Choices(PinnedChoices):
    """Each part takes one of the domains."""

    parts: Sequence[Part] = ()
    domains: Sequence[frozenset[int]] = ()

    def where(self, picks: Picks) -> list[tuple[Part, frozenset[int]]]:
        return [(part, self.domains[pick]) for part, pick in zip(self.parts, picks, strict=True)]


@dataclass
class _Case:
    """A small cluster, and a group in two or three parts."""

    seed: int
    made: Problem = field(init=False)
    pods: list[list[PodRecord]] = field(init=False)
    domains: list[frozenset[int]] = field(init=False)

    def __post_init__(self) -> None:
        chance = random.Random(self.seed)
        self.made = tiny.random_problem(self.seed, kinds=2, budgets=self.seed % 2, nodes=4, units=6)
        nodes = range(len(self.made.free))
        self.domains = [frozenset(chance.sample(nodes, chance.randint(1, len(nodes)))) for _ in range(3)]
        members = [pod for each in tiny.numbers(self.made).kinds for pod in each.pods]
        chance.shuffle(members)
        parts = 2 + (len(members) > 3)
        self.pods = [members[turn::parts] for turn in range(parts)]

    def choices(self, left: int = LARGE) -> _Choices:
        numbers = tiny.numbers(self.made)
        kinds = [replace(each, pods=tuple(sorted(each.pods, key=lambda pod: pod.uid))) for each in numbers.kinds]
        numbers = replace(numbers, kinds=tuple(kinds))
        return _Choices(numbers, left, [Part.of(pods, numbers) for pods in self.pods], self.domains)

    def all(self) -> list[Picks]:
        return list(product(range(len(self.domains)), repeat=len(self.pods)))

    def pinned(self, picks: Picks, turns: Sequence[int] | None = None) -> Problem:
        """The problem with the pods of these parts (None: all) on the nodes of their domains."""
        kinds: list[Kind] = []
        for turn in range(len(self.pods)) if turns is None else turns:
            for number, each in enumerate(self.made.kinds):
                count = sum(pod.uid.startswith(f"k{number}-") for pod in self.pods[turn])
                if count:
                    kinds.append(tiny.kind(each.wants, count, set(each.nodes) & self.domains[picks[turn]]))
        return replace(self.made, kinds=tuple(kinds))


def _searched(price: Price | None) -> Any:
    return None if price is None else tiny.as_searched(price)


@each_seed(SEEDS)
def test_choice_is_searched_with_each_part_in_its_domain(seed: int) -> None:
    """The cheapest of all sets of units; its victims and places; and the costs of its parts alone, added up."""
    case = _Case(seed)
    numbers = tiny.numbers(case.made)
    for picks in random.Random(seed).sample(case.all(), 2):
        choices, exact = case.choices(), _searched(tiny.cheapest(case.pinned(picks)))
        result = choices.search(picks)
        assert choices.search(picks) is result
        assert (result and result[0].price) == exact
        alone = [_searched(tiny.cheapest(case.pinned(picks, [turn]))) for turn in range(len(picks))]
        expected = None
        if None not in alone:
            costs = [cost for *_, cost in alone if cost]
            total = tuple(map(sum, zip(*costs, strict=True))) if costs else ()
            expected = sum(violations for violations, *_ in alone), max(highest for _, highest, _ in alone), total
        assert choices.estimate(picks) == expected
        if result is None:
            continue
        for improved in (True, False):
            eviction = choices.eviction_of(picks, improved=improved)
            assert eviction.price == exact == _searched(case.made.price(tiny.names(case.made, eviction.units)))
            assert tiny.fits(case.pinned(picks), tiny.names(case.made, eviction.units))
            places = {pod.uid: row // 10 for pod, row in eviction.places}
            assert places.keys() == {pod.uid for pods in case.pods for pod in pods}
            for pods, pick in zip(case.pods, picks, strict=True):
                assert all(places[pod.uid] in case.domains[pick] for pod in pods)
        assert len(numbers.units) > max(eviction.units, default=-1)


@each_seed(SEEDS[:8])
def test_cheapest_choice_is_taken(seed: int) -> None:
    """Without those that cannot be cheaper, and those after one as cheap as the proposal."""
    case = _Case(seed)
    prices = {picks: _searched(tiny.cheapest(case.pinned(picks))) for picks in case.all()}
    least = min((price for price in prices.values() if price is not None), default=None)
    best = case.choices().least_of(case.all())
    assert (best and prices[best]) == least
    proposing = case.choices()
    proposing.proposed = cheapest_eviction(proposing.numbers)
    best = proposing.least_of(case.all())
    assert (best and prices[best]) == least


def test_better_eviction_of_the_choice_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """cost.md 4.12: if the longer search has one, with places."""
    every = ((case.choices(), picks) for case in map(_Case, SEEDS) for picks in case.all())
    searched = ((choices, picks, choices.search(picks)) for choices, picks in every)
    choices, picks, (best, part) = next(result for result in searched if result[2] and result[2][0].units)  # type: ignore[misc]
    better = replace(best, price=(0, -99, ()), units=())
    for answer, price in ((None, best.price), (replace(better, places=None), best.price), (better, better.price)):
        search = Mock(return_value=answer)
        monkeypatch.setattr(pinned_choices, "cheapest_eviction", search)
        assert choices.eviction_of(picks).price == price
        assert (search.call_args.args, search.call_args.kwargs) == ((part.numbers, best.units), {"by_node": True})


def _sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The nodes and units of each search."""
    sizes: list[int] = []

    def search(numbers: Any, *known: Any, **options: Any) -> PricedEviction | None:
        sizes.append(len(numbers.rows) + len(numbers.units))
        return cheapest_eviction(numbers, *known, **options)

    monkeypatch.setattr(pinned_choices, "cheapest_eviction", search)
    return sizes


def test_work_is_counted_in_nodes_and_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """cost.md 4.12: once it is used up no further choice is searched."""
    sizes = _sizes(monkeypatch)
    for seed in SEEDS[:6]:
        case = _Case(seed)
        sizes.clear()
        choices = case.choices()
        estimates = [choices.estimate(picks) for picks in case.all()]
        if not any(estimates):
            continue
        spent = sum(sizes)
        choices.least_of(case.all())
        assert choices.left == LARGE - sum(sizes)
        assert sum(sizes) > spent
        for more, searched in ((0, 0), (1, 1)):
            limited = case.choices(spent + more)
            limited.least_of(case.all())
            assert len(limited._found) == searched


@dataclass(slots=True)
class _Listed(PinnedChoices):
    """Choices with a stated price, None if they fit nowhere."""

    prices: Sequence[int | None] = ()
    asked: list[int] = field(default_factory=list)

    def where(self, picks: Picks) -> list[tuple[Part, frozenset[int]]]:
        return []

    def search(self, picks: Picks) -> Any:
        self.asked.append(picks[0])
        price = self.prices[picks[0]]
        return (PricedEviction((), (0, price, ()), None), None) if price is not None else None


@pytest.mark.parametrize(
    ("prices", "known", "searched", "best"),
    [
        ([None] * 60, 0, 48, None),
        ([5] * 60, 0, 49, 0),
        ([None, 5, *[7] * 60], 0, 50, 1),
        ([*[7] * 40, 5, *[5] * 60], 0, 89, 40),
        ([*[7] * 60, 5], 20, 61, 60),
        ([0, 1], 0, 2, 0),
    ],
)
def test_search_ends_after_many_choices_without_success(
    prices: list[int | None], known: int, searched: int, best: int | None
) -> None:
    """cost.md 4.12: 48 in a row; those that were searched before do not count."""
    numbers: Any = None
    choices = _Listed(numbers, LARGE, prices)
    choices._found = {(number,): None for number in range(known)}
    picks: Iterator[Picks] = ((number,) for number in range(len(prices)))
    assert choices._least(picks) == (None if best is None else (best,))
    assert len(choices.asked) == searched


@pytest.mark.parametrize(("proposed", "searched"), [(4, 3), (5, 1), (6, 1)])
def test_eviction_as_cheap_as_the_proposal_ends_the_search(proposed: int, searched: int) -> None:
    """cost.md 4.5: no choice costs less than the eviction without choices."""
    numbers: Any = None
    choices = _Listed(numbers, LARGE, [5, 7, 5])
    choices.proposed = PricedEviction((), (0, proposed, ()), None)
    assert choices._least((number,) for number in range(3)) == (0,)
    assert len(choices.asked) == searched
