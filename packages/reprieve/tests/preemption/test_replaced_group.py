"""Units that are put back one by one beside a group that is placed again (cost.md 4.5), without any cluster.

The group fits if a set of units is evicted that contains one of a few sufficient ones: small enough to try all sets.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import pytest

from reprieve.framework.plugin import PodGroupAssignment
from reprieve.preemption.group_view import GroupCandidate
from reprieve.preemption.outcome import Cost
from reprieve.preemption.pinned_choices import MOST_NODES_SEARCHED
from reprieve.preemption.replaced_group import PlacingWork, ReplacedGroup
from tests.preemption.seeds import each_seed

UNITS = 10


@dataclass
class _Ranking:
    """Units by importance. A budget allows the eviction of one of those that it counts."""

    ordered: list[Any]
    charged: list[dict[int, int]]

    @property
    def order(self) -> list[int]:
        return sorted(range(len(self.ordered)), key=lambda index: (not self.charged[index], index))

    def violating(self, indices: Iterable[int]) -> list[bool]:
        left, result = 1, []
        for index in indices:
            left -= bool(self.charged[index])
            result.append(bool(self.charged[index]) and left < 0)
        return result

    def cost(self, evicted: Iterable[int]) -> Cost:
        indices = sorted(evicted)
        units = [self.ordered[index] for index in indices]
        return (
            float(sum(self.violating(indices))),
            units[0].priority,
            sum(unit.priority + 10 for unit in units),
            sum(len(unit.pods) for unit in units),
        )


@dataclass
class _View:
    """`sufficient`: sets of units, one of which has to be evicted; `trials`: the evictions that were tried.

    `judged`: how many were compared by their cost.
    """

    ranking: _Ranking
    sufficient: list[frozenset[int]]
    members: int
    nodes: int = 5
    feasible: bool = True
    trials: list[frozenset[int]] = field(default_factory=list)
    evicted: frozenset[int] = frozenset()
    judged: int = 0

    @property
    def request(self) -> Any:
        running = SimpleNamespace(cluster=SimpleNamespace(nodes=range(self.nodes)))
        return SimpleNamespace(attempt=self, running=running)

    def fits(self, evicted: Iterable[int]) -> bool:
        return any(least <= set(evicted) for least in self.sufficient)

    @contextmanager
    def of(self, ranking: object, evicted: Iterable[int]) -> Iterator[None]:
        self.evicted = frozenset(evicted)
        yield

    def run(self, *, within: object) -> PodGroupAssignment:
        assert within is None
        self.trials.append(self.evicted)
        count = self.members if self.fits(self.evicted) else self.members - 1
        return PodGroupAssignment(_places(count), self.feasible, {})

    def with_gone(self, candidate: GroupCandidate, evicted: set[int]) -> GroupCandidate:
        self.judged += 1
        reasons: Any = dict.fromkeys(sorted(evicted))
        return replace(candidate, reasons=reasons, cost=self.ranking.cost(evicted))


def _places(count: int) -> Any:
    return ((None, 0),) * count


def _case(seed: int) -> tuple[_View, GroupCandidate, list[int]]:
    """A view, a candidate that evicts more than it has to, and units by node."""
    chance = random.Random(seed)
    priorities = sorted((chance.randint(0, 4) for _ in range(UNITS)), reverse=True)
    units = [SimpleNamespace(priority=priority, pods=range(chance.choice((1, 1, 2)))) for priority in priorities]
    charged = [{0: 1} if chance.random() < 0.3 else {} for _ in units]
    sufficient = [frozenset(chance.sample(range(UNITS), chance.randint(2, 5))) for _ in range(chance.randint(1, 12))]
    view = _View(_Ranking(units, charged), sufficient, chance.randint(1, 4))
    evicted = sufficient[0] | set(chance.sample(range(UNITS), 2))
    empty: Any = GroupCandidate(None, view.ranking, PodGroupAssignment(_places(view.members), True, {}), {}, None)  # type: ignore[arg-type]
    return view, view.with_gone(empty, set(evicted)), chance.sample(range(UNITS), UNITS)


def _replaced(seed: int, left: int) -> tuple[_View, GroupCandidate, GroupCandidate, PlacingWork]:
    view, candidate, by_node = _case(seed)
    work = PlacingWork(left)
    stub: Any = view
    return view, candidate, ReplacedGroup(stub, candidate, work).cheaper(by_node), work


@each_seed(range(60))
def test_no_unit_of_the_result_can_stay(seed: int) -> None:
    """cost.md 4.5: it works, costs no more than the candidate, and no eviction is tried twice."""
    view, candidate, result, work = _replaced(seed, 2_000)
    assert view.fits(result.reasons)
    assert result.price <= candidate.price
    assert not any(view.fits(set(result.reasons) - {index}) for index in result.reasons)
    assert len(view.trials) == len(set(view.trials))
    assert work.left == 2_000 - len(view.trials) * view.members
    assert all(view.trials)


@pytest.mark.parametrize(
    ("left", "expected"),
    [(0, (1, 0, 0)), (4, (8, 125, 25)), (20, (30, 638, 115)), (60, (51, 1770, 203)), (2_000, (59, 3420, 303))],
)
def test_results_within_a_number_of_placed_pods(left: int, expected: tuple[int, int, int]) -> None:
    """cost.md 4.5: how many of 60 are the cheapest of all sets, and the work for all of them."""
    cheapest = trials = judged = 0
    for seed in range(60):
        view, candidate, result, _ = _replaced(seed, left)
        assert result.price <= candidate.price
        assert view.fits(result.reasons)
        assert len(view.trials) <= left // view.members
        every = [set(chosen) for size in range(2, 6) for chosen in combinations(range(UNITS), size)]
        least = min(view.ranking.cost(evicted) for evicted in every if view.fits(evicted))
        cheapest += result.cost == least
        trials += len(view.trials)
        judged += view.judged - 1
    assert (cheapest, trials, judged) == expected


def test_part_of_the_work_for_each_of_several_placements() -> None:
    """cost.md 4.5: half of what is left, unless there is only one; none of it is used up without a feasible place."""
    placement: Any = object()
    view, candidate, by_node = _case(0)
    stub: Any = view
    assert ReplacedGroup(stub, candidate, PlacingWork(17))._left == 17 // view.members
    assert ReplacedGroup(stub, replace(candidate, placement=placement), PlacingWork(17))._left == 8 // view.members
    view.feasible = False
    assert ReplacedGroup(stub, candidate, PlacingWork(2_000)).cheaper(by_node) is candidate


@pytest.mark.parametrize(("nodes", "left"), [(0, 2_000), (1, 2_000), (100, 2_000), (101, 1_980), (5_000, 40)])
def test_fewer_pods_are_placed_in_a_large_cluster(nodes: int, left: int) -> None:
    """cost.md 4.5."""
    view: Any = _View(_Ranking([], []), [], 1, nodes)
    assert PlacingWork.of(view) == PlacingWork(left, MOST_NODES_SEARCHED)
