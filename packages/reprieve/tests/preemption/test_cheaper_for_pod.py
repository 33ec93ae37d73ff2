"""The cheapest units to evict on one node for one pod, against all sets of them (cost.md 4.8)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from reprieve.preemption.cheapest_victims import cheapest_on_row, judged
from reprieve.preemption.cost import UPSTREAM
from reprieve.preemption.victim_search.eviction import Eviction
from reprieve.preemption.victim_search.search import (
    cheapest_eviction,
)
from reprieve.preemption.victim_search.single_pod_search import cheapest_for_one
from tests.building import START, World, group, node, pdb, pod
from tests.preemption import tiny
from tests.preemption.exact import Problem
from tests.preemption.seeds import each_seed
from tests.preemption.tiny import as_searched, kind, numbers, problem, random_problem, unit


@each_seed(range(40))
def test_cheapest_set_of_a_node(seed: int) -> None:
    """Budgets counted over all victims; pods of equal or higher priority that are nominated there count as running."""
    chance = random.Random(seed)
    cores = chance.randint(4, 9)
    items: list[Any] = [node("n", cpu=cores), node("other", cpu=9)]
    allowed = {"x": chance.randint(0, 1), "y": chance.randint(0, 2)}
    items += [pdb(label, {"app": label}, allowed=count) for label, count in allowed.items()]
    units, left, taken = [], cores, 0
    for i in range(6):
        cpu, priority, start = chance.randint(1, 3), chance.randint(0, 6), float(chance.randint(0, 2))
        if cpu > left:
            continue
        left -= cpu
        label = chance.choice(["x", "y", "z"])
        more: dict[str, Any] = {"labels": {"app": label}, "uid": f"u{i}"}
        whole = chance.random() < 0.3
        if whole:
            items.append(group(f"g{i}", min_count=1, priority=priority, whole=True))
            items.append(
                pod(f"e{i}", node="other", priority=priority, group=f"g{i}", start=start, **{**more, "uid": f"u{i}-e"})
            )
        on = f"g{i}" if whole else None
        items.append(pod(f"v{i}", cpu=cpu, node="n", priority=priority, start=start, group=on, **more))
        if priority < 5:
            charged = {label: 1 + whole} if label != "z" else {}
            name = f"default/g{i}" if whole else f"default/v{i}"
            units.append(
                unit(name, {0: (cpu,)}, priority=priority, pods=1 + whole, start=START + start, charged=charged)
            )
        else:
            taken += cpu
    for i, priority in enumerate((4, 5, 6)):
        if chance.random() < 0.3:
            items.append(pod(f"w{i}", cpu=1, priority=priority, nominated="n", gates=["x"]))
            taken += priority >= 5
    wants = chance.randint(1, 4)
    world = World(*items, pod("new", cpu=wants, priority=5))
    made = problem([(cores - taken,)], units, [kind((wants,))], **allowed)
    cluster, row, new = world.engine.cluster, world.row("n"), world.record("new")
    before = cluster.digest()
    found, best = cheapest_on_row(world.engine.running["default-scheduler"], UPSTREAM, new, row), tiny.cheapest(made)
    assert cluster.digest() == before
    if best is None or best[3] == 0:
        assert found is None, "it does not fit there, or does without"
        return
    assert found is not None
    assert found.cost == best
    names = [one.name for one in found.units]
    assert names == [one.name for one in made.units if one.name in names], "the most important first"
    assert made.price(names) == best
    verdicts = judged(cluster, new, row, found.units)
    assert [verdict.unit.name for verdict in verdicts] == [one.name for one in made.units]
    assert {verdict.unit.name for verdict in verdicts if verdict.evicted} == set(names)
    for verdict in verdicts:
        if verdict.reason is not None:
            assert (verdict.reason.pod.name, verdict.reason.row) == ("new", row)


@each_seed(range(150))
def test_cheapest_of_all_sets_is_evicted_for_one_pod(seed: int) -> None:
    """cost.md 4.8: on the first node by name among those that are as cheap; there the least important."""
    made = random_problem(seed, budgets=seed % 3)
    made = replace(made, kinds=(replace(made.kinds[0], count=1),))
    found = cheapest_for_one(Eviction(numbers(made)))
    every = list(tiny.evictions(made))
    best = min(map(made.price, every), default=None)
    assert (found is None) is (best is None)
    if found is None or best is None:
        return
    units, price, node = found
    assert price == as_searched(best) == as_searched(made.price(tiny.names(made, units)))
    assert node == min(node for gone in every if made.price(gone) == best for node in _fits_on(made, gone))
    as_good = [
        tuple(sorted((-number for number in range(len(made.units)) if made.units[number].name in gone), reverse=True))
        for gone in every
        if made.price(gone)[:4] == best[:4] and node in _fits_on(made, gone)
    ]
    if not best[0]:  # with budgets the same count may come of others
        assert tuple(-u for u in units) == min(as_good)
    asked = cheapest_eviction(numbers(made))
    assert asked is not None
    assert (asked.units, asked.price, asked.places) == (units, price, ((0, node, 1),))


def _fits_on(made: Problem, gone: Sequence[str]) -> list[int]:
    left = tiny.left_beside(made, gone)
    return [n for n, have in enumerate(left) if n in made.kinds[0].nodes and tiny.places(have, made.kinds[0].wants)]


def test_least_important_are_evicted_of_like_units_of_a_node() -> None:
    """cost.md 4.8: where they differ in the start alone; preemption.md 5: a later start is less important."""
    units = [unit(f"u{start}", {0: (1,)}, start=float(start)) for start in range(5)]
    made = problem([(5,)], units, [kind((2,))])
    found = cheapest_for_one(Eviction(numbers(made)))
    assert found is not None
    assert tiny.names(made, found[0]) == ("u3", "u4")


def test_best_set_found_within_the_budget_makes_room() -> None:
    """On a node with many units that all differ what was found by then counts, and it makes room."""
    units = [unit(f"u{i:02}", {0: (3 + i % 7, 5 - i % 5)}, pods=1 + i % 3, priority=i % 4) for i in range(40)]
    made = problem([(sum(u.takes[0][0] for u in units), sum(u.takes[0][1] for u in units))], units, [kind((31, 17))])
    found = cheapest_for_one(Eviction(numbers(made)))
    assert found is not None
    assert tiny.fits(made, tiny.names(made, found[0]))
