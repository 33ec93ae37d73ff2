"""Surplus members of elastic gangs are evicted before any minimum, in all random clusters (cost.md 1.1, 1.2)."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.building import World, gang, node, pod

CPUS = 4
members = st.tuples(st.integers(0, 2), st.integers(1, 2))
"""Of a gang or by itself (2), and CPUs."""
layouts = st.lists(st.lists(members, min_size=4, max_size=6), min_size=2, max_size=3)
"""By node, as many of each list as fit."""


def _used(there: list[tuple[int, int]]) -> int:
    return sum(cpus for _, cpus in there)


def _spares_all_gangs(nodes: list[list[tuple[int, int]]], least: tuple[int, int], wanted: int, workers: int) -> bool:
    """Return whether some set of pods makes place for all workers, and each gang keeps its minimum. Tries all sets."""
    pods = [(number, *one) for number, there in enumerate(nodes) for one in there]
    sizes = Counter(of for _, of, _ in pods)
    for count in range(len(pods) + 1):
        for gone in combinations(pods, count):
            lost = Counter(of for _, of, _ in gone)
            if any(sizes[of] >= least[of] > sizes[of] - lost[of] for of in (0, 1)):
                continue
            freed: Counter[int] = Counter()
            for number, _, cpus in gone:
                freed[number] += cpus
            room = (CPUS - _used(there) + freed[number] for number, there in enumerate(nodes))
            if sum(free // wanted for free in room) >= workers:
                return True
    return False


@settings(max_examples=60, deadline=None)
@given(layouts, st.tuples(st.integers(1, 3), st.integers(1, 3)), st.integers(2, CPUS), st.integers(1, 3))
def test_no_gang_breaks_where_surplus_suffices(
    drawn: list[list[tuple[int, int]]], least: tuple[int, int], wanted: int, workers: int
) -> None:
    """All potential victims have one priority, which decides before gangs do."""
    nodes: list[list[tuple[int, int]]] = []
    for there in drawn:
        kept: list[tuple[int, int]] = []
        for one in there:
            if _used(kept) + one[1] <= CPUS:
                kept.append(one)
        nodes.append(kept)
    items = [node(f"n{number}", cpu=CPUS) for number in range(len(nodes))]
    groups = [item for index, name in enumerate("ab") for item in gang(name, 0, min_count=least[index])]
    running = [
        pod(f"p{number}-{turn}", cpu=cpus, node=f"n{number}", start=float(turn), group="ab"[of] if of < 2 else None)
        for number, there in enumerate(nodes)
        for turn, (of, cpus) in enumerate(there)
    ]
    world = World(items, groups, running).drain()
    sizes = Counter(of for there in nodes for of, _ in there)
    world.add(gang("new", workers, cpu=wanted, priority=100)).drain()
    evicted = {world.virtual.records[uid].name for uid in world.virtual.evicted}
    lost = Counter(
        of for number, there in enumerate(nodes) for turn, (of, _) in enumerate(there) if f"p{number}-{turn}" in evicted
    )
    broken = [of for of in (0, 1) if sizes[of] >= least[of] > sizes[of] - lost[of]]
    spared = _spares_all_gangs(nodes, least, wanted, workers)
    event(f"evicts: {bool(evicted)}, a set spares all gangs: {spared}, surplus in play: {bool(lost[0] or lost[1])}")
    if spared:
        assert not broken
