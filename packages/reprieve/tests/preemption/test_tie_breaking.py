"""Which of equally good nodes a preemptor takes (cost.md 4)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from reprieve.framework.plugin import Placement
from reprieve.framework.running_profile import RunningProfile
from reprieve.preemption.order import Ranking
from reprieve.preemption.tie_breaking import VictimSparingTieBreaker, victim_sparing_tie_breaker
from tests.building import World, group, node, pdb, pod
from tests.plugins.neighbours import rules, term
from tests.preemption.by_name import units_of
from tests.preemption.seeds import each_seed


def _ties(world: World, pods: Sequence[str], within: Sequence[str] = ()) -> dict[str, int] | None:
    """By node: places beside those worth keeping; None where there is no choice."""
    cluster = world.engine.cluster
    running = world.engine.running["default-scheduler"]
    assert isinstance(running, RunningProfile)
    units = list(units_of(world, 9).values())
    domain = None
    if within:
        rows = np.array([world.row(name) for name in within], dtype=np.int64)
        domain = Placement("rack", rows)
    with cluster.trial():
        cluster.displace_all([one for unit in units for one in unit.pods])
        found = victim_sparing_tie_breaker(
            running, [world.record(name) for name in pods], 9, Ranking(cluster, units), domain
        )
    if found is None:
        return None
    return {name: int(found._spare[world.row(name)]) for name in sorted(cluster.nodes.row_of)}


def test_where_the_important_need_not_go() -> None:
    """Walked as a reprieve does: each is kept that leaves enough places somewhere, the others are not."""
    items = [
        *[node(f"n{i}", cpu=2) for i in range(3)],
        pod("p3", cpu=2, node="n0", priority=3),
        pod("p2", cpu=1, node="n1", priority=2),
        pod("p1", cpu=1, node="n1", priority=1),
        pod("p0", cpu=2, node="n2", priority=0),
        *[pod(f"new{i}", cpu=1, priority=9) for i in range(6)],
    ]
    assert _ties(World(*items), ["new0", "new1"]) == {"n0": 0, "n1": 0, "n2": 2}
    assert _ties(World(*items), ["new0", "new1", "new2"]) == {"n0": 0, "n1": 1, "n2": 2}
    assert _ties(World(*items), [f"new{i}" for i in range(4)]) == {"n0": 0, "n1": 2, "n2": 2}
    assert _ties(World(*items), [f"new{i}" for i in range(6)]) is None, "all places are needed"
    assert _ties(World(*items), [f"new{i}" for i in range(5)]) == {"n0": 2, "n1": 1, "n2": 2}
    assert _ties(World(*items), ["new0", "new1"], ["n0", "n1"]) == {"n0": 0, "n1": 2, "n2": 0}
    torn = [*items, pdb("b", {}, allowed=3)]
    assert _ties(World(*torn), ["new0", "new1"]) == {"n0": 0, "n1": 2, "n2": 0}, (
        "a unit that violates a budget is kept first"
    )


def test_unlike_pods_have_no_ties_to_break() -> None:
    items = [node("n0", cpu=4), pod("p", cpu=4, node="n0"), pod("a", cpu=1, priority=9), pod("b", cpu=2, priority=9)]
    assert _ties(World(*items), ["a", "b"]) is None
    assert _ties(World(*items), ["a"]) == {"n0": 4}


def test_preferred_are_nodes_with_room_beside_those_worth_keeping() -> None:
    """As long as there are any among the ties; each place counts once."""
    ties = VictimSparingTieBreaker(np.array([0, 1, 2], dtype=np.int64))
    assert ties.narrow(np.array([0, 1, 2])).tolist() == [1, 2]
    ties.took(1)
    assert ties.narrow(np.array([0, 1, 2])).tolist() == [2]
    ties.took(2)
    assert ties.narrow(np.array([0, 1, 2])).tolist() == [2]
    ties.took(2)
    assert ties.narrow(np.array([0, 2])).tolist() == [0, 2]


def test_capacity_of_pods_that_stay_is_no_place() -> None:
    """preemption.md 3.4: that of pods of equal priority, running and nominated."""
    items = [
        node("n0", cpu=4),
        node("n1", cpu=4),
        pod("stays", cpu=3, node="n0", priority=9),
        pod("holds", cpu=1, priority=9, nominated="n1", gates=["x"]),
        pod("low", cpu=1, node="n0"),
        pod("new", cpu=1, priority=9),
    ]
    assert _ties(World(*items), ["new"]) == {"n0": 0, "n1": 3}


def test_pods_that_others_keep_away_have_no_ties_to_break() -> None:
    """preemption.md 9.5: the second pod is like the first except for a label that a running pod must not be near."""
    apart = rules(apart=[term("kubernetes.io/hostname", {"app": "x"})])
    items = [
        node("n0", cpu=4, labels={"kubernetes.io/hostname": "n0"}),
        pod("p", cpu=2, node="n0", affinity=apart),
        *(pod(name, cpu=1, priority=9) for name in "ab"),
        pod("x", cpu=1, priority=9, labels={"app": "x"}),
    ]
    assert _ties(World(*items), ["a", "b"]) is not None
    assert _ties(World(*items), ["a", "x"]) is None


Amounts = tuple[int, int, int]
"""Cores, GiB, and pods."""


@each_seed(range(25))
def test_units_are_kept_as_long_as_all_places_remain(seed: int) -> None:
    """preemption.md 3.4, 4.2: counted again for every unit, those of budgets first, then by importance."""
    chance = random.Random(seed)
    nodes = {f"n{i}": (chance.randint(2, 6), chance.randint(2, 6), chance.randint(3, 6)) for i in range(4)}
    items: list[Any] = [
        node(name, cpu=cpu, memory=f"{memory}Gi", pods=count) for name, (cpu, memory, count) in nodes.items()
    ]
    budget = chance.random() < 0.5
    units: list[tuple[tuple[float, ...], dict[str, list[Amounts]]]] = []
    """Its turn (budgets, priority, groups first, start), and the amounts of its pods by node."""
    for number in range(8):
        priority, violates = chance.randint(0, 3), budget and chance.random() < 0.3
        on: dict[str, list[Amounts]] = {}
        size = chance.choice((1, 1, 1, 3))
        labels = {"app": "x"} if violates else {}
        for turn in range(size):
            where = chance.choice(list(nodes))
            wants = (chance.randint(0, 2), chance.randint(0, 2), 1)
            on.setdefault(where, []).append(wants)
            more: dict[str, Any] = {"group": f"g{number}"} if size > 1 else {}
            items.append(
                pod(
                    f"u{number}-{turn}",
                    cpu=wants[0],
                    memory=f"{wants[1]}Gi",
                    node=where,
                    priority=priority,
                    start=float(number),
                    labels=labels,
                    **more,
                )
            )
        if size > 1:
            items.append(group(f"g{number}", min_count=1, priority=priority, whole=True))
        units.append(((not violates, -priority, size == 1, number), on))
    items += [pdb("x", {"app": "x"})] if budget else []
    count, wants = chance.randint(1, 4), (chance.randint(1, 2), chance.randint(1, 2), 1)
    new = [f"new{i}" for i in range(count)]
    items += [pod(name, cpu=wants[0], memory=f"{wants[1]}Gi", priority=9) for name in new]
    within = chance.sample(sorted(nodes), 3) if chance.random() < 0.5 else []

    def places(kept: Sequence[dict[str, list[Amounts]]]) -> dict[str, int]:
        result = dict.fromkeys(sorted(nodes), 0)
        for name in within or nodes:
            used = [
                sum(column) for column in zip((0, 0, 0), *(of for on in kept for of in on.get(name, ())), strict=True)
            ]
            result[name] = max(0, min((have - u) // w for have, u, w in zip(nodes[name], used, wants, strict=True)))
        return result

    kept: list[dict[str, list[Amounts]]] = []
    expected = None
    if sum(places([]).values()) > count:
        for _, on in sorted(units, key=lambda unit: unit[0]):
            if sum(places([*kept, on]).values()) >= count:
                kept.append(on)
        expected = places(kept)
    assert _ties(World(*items), new, within) == expected
