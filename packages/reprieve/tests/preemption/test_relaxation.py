"""The bound of the gangs that an eviction for like pods breaks (cost.md 4.4)."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from reprieve.preemption.victim_search.eviction import Eviction
from reprieve.preemption.victim_search.problem import Gangs, Numbers
from reprieve.preemption.victim_search.relaxation import gangs_by_nodes
from reprieve.preemption.victim_search.search import cheapest_eviction
from tests.preemption import tiny
from tests.preemption.exact import Problem
from tests.preemption.seeds import each_seed
from tests.preemption.tiny import kind, numbers, problem, random_problem, unit


def _with_gangs(made: Problem, gang_of: dict[str, int], slack: tuple[int, ...]) -> Numbers:
    """The numbers with gangs of which each unit holds one pod."""
    lost = tuple(((gang_of[each.name], 1),) if each.name in gang_of else () for each in made.units)
    return replace(numbers(made), gangs=Gangs(lost, slack))


@each_seed(range(150))
def test_no_eviction_breaks_fewer_gangs_than_the_bound(seed: int) -> None:
    made, chance = random_problem(seed, units=8), random.Random(seed)
    gang_of = {each.name: chance.randrange(3) for each in made.units if chance.random() < 0.8}
    slack = tuple(chance.choice((0, 0, 1)) for _ in range(3))
    asked = _with_gangs(made, gang_of, slack)
    evictions = list(tiny.evictions(made))
    if not evictions:
        return
    fewest = min(
        sum(sum(gang_of.get(name) == gang for name in gone) > slack[gang] for gang in range(3)) for gone in evictions
    )
    assert gangs_by_nodes(Eviction(asked), 1 + seed % 3) <= fewest


@pytest.mark.parametrize(("pods", "gangs"), [(1, 1), (2, 2), (3, 2), (4, 3)])
def test_half_a_node_makes_no_place(pods: int, gangs: int) -> None:
    """Nodes that two gangs share have a place only once both are evicted; by amounts one gang fewer would do."""
    takes: list[dict[int, tuple[int, ...]]] = [{0: (2,)}, {0: (2,), 1: (4,), 2: (2,)}, {2: (2,), 3: (4,)}]
    made = problem([(4,)] * 4, [unit(f"g{i}", each) for i, each in enumerate(takes)], [kind((4,), pods)])
    asked = _with_gangs(made, {f"g{i}": i for i in range(3)}, (0, 0, 0))
    assert gangs_by_nodes(Eviction(asked), gangs) == gangs
    cheapest = cheapest_eviction(asked)
    assert cheapest is not None
    assert len(cheapest.units) == gangs


def test_gangs_that_do_not_count_are_not_bounded() -> None:
    made = problem([(4,)], [unit("a", {0: (4,)})], [kind((4,), 1)])
    assert gangs_by_nodes(Eviction(numbers(made)), 5) == 0
