"""Rules of many pods kept up together say what each alone would (`IncrementalFilter`, preemption.md 4.3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from msgspec.structs import replace

from kube_rules import objects
from reprieve.framework.plugin import CycleState, FilterPlugin
from reprieve.plugins.inter_pod_affinity import InterPodAffinity
from reprieve.plugins.pod_topology_spread import PodTopologySpread
from tests.building import World, node, pod
from tests.plugins.asking import FITS
from tests.plugins.neighbours import HOST, ZONE, RandomRules, rules, spread, spreading, term

X = {"app": "x"}


def copies(item: objects.Pod, count: int) -> list[objects.Pod]:
    """Pods of one kind."""
    names = [f"{item.metadata.name}{index}" for index in range(count)]
    return [replace(item, metadata=replace(item.metadata, name=name, uid=f"uid-{name}")) for name in names]


def failing(plugin: FilterPlugin, states: Sequence[CycleState], rows: Sequence[int]) -> set[int]:
    """Positions of the pods that may not stay."""
    return {
        position
        for position, (state, row) in enumerate(zip(states, rows, strict=True))
        if plugin.filter(state, np.array([row], dtype=np.int64))[0] != FITS
    }


def follow(
    world: World, plugin: FilterPlugin, names: Sequence[str], seats: Sequence[int], moves: Sequence[tuple[str, int]]
) -> int:
    """Add pods to rows one after another, and remove one that makes another fail. Return how often that was."""
    alone = [world.state(name) for name in names]
    together = [world.state(name) for name in names]
    for state in (*alone, *together):
        assert plugin.pre_filter(state).ok
    kept = plugin.incremental_filter(together, seats)
    assert kept is not None
    everything, undone = slice(0, len(world.engine.cluster.nodes)), 0
    assert list(kept.suspects()) == []
    for name, row in moves:
        other = world.record(name)
        counts = kept.count(other, row, 1)
        assert [plugin.add_pod(state, other, row) for state in alone] == [counts] * len(alone)
        wrong = failing(plugin, alone, seats)
        assert set(kept.suspects()) == wrong
        assert list(kept.suspects()) == []
        for position, state in enumerate(alone):
            kept.update_state(position)
            assert plugin.filter(together[position], everything).tolist() == plugin.filter(state, everything).tolist()
        if wrong:
            undone += 1
            assert kept.count(other, row, -1) is counts
            kept.suspects()
            for state in alone:
                plugin.remove_pod(state, other, row)
            for position, state in enumerate(alone):
                kept.update_state(position)
                assert (
                    plugin.filter(together[position], everything).tolist() == plugin.filter(state, everything).tolist()
                )
    return undone


@pytest.mark.parametrize("plugin", [InterPodAffinity(), PodTopologySpread(())], ids=lambda plugin: plugin.name)
def test_counting_for_many_is_counting_for_each(plugin: FilterPlugin) -> None:
    """On random clusters: which pods count, which may fail because of it, and the result of every state."""
    followed = undone = 0
    for seed in range(80):
        chance = RandomRules(seed)
        world = World(*[chance.node(index) for index in range(5)])
        for index in range(chance.chance.randint(0, 6)):
            world.add(chance.pod(f"r{index}", rate=2, node=f"n{chance.chance.randrange(5)}"))
        kind = copies(chance.pod("p"), 3)
        world.add(kind, [chance.pod(f"o{index}", rate=2) for index in range(6)])
        names = [item.metadata.name for item in kind]
        state = world.state(names[0])
        if not plugin.pre_filter(state).ok:
            continue
        allowed = np.flatnonzero(plugin.filter(state, slice(0, 5)) == FITS).tolist()
        if allowed:
            seats = [chance.chance.choice(allowed) for _ in names]
            moves = [(f"o{index}", chance.chance.randrange(5)) for index in range(6)]
            undone += follow(world, plugin, names, seats, moves)
            followed += 1
    assert followed > 15
    assert undone > 4


def _zones() -> list[objects.Node]:
    return [node(f"n{index}", labels={ZONE: "aabbc"[index], HOST: f"n{index}"}) for index in range(5)]


SPREADS = {
    # what: (constraints, rows of the pods, rows to which others come, how often one goes again)
    "one more than the emptiest": ([spread(ZONE, X)], [0, 2, 4], [0, 1, 2, 4, 4], 5),
    "two more than the emptiest": ([spread(ZONE, X, skew=2)], [0, 2, 4], [0, 1, 2, 3, 4, 4], 2),
    "domains that are wanted and not there": ([spread(ZONE, X, skew=2, domains=4)], [0, 2, 4], [0, 1, 2, 4, 2], 2),
    "as many domains as are wanted": ([spread(ZONE, X, skew=2, domains=3)], [0, 2, 4], [0, 1, 2, 4, 2], 1),
    "two constraints": ([spread(ZONE, X, skew=3), spread(HOST, X)], [0, 2, 4], [0, 1, 0, 3, 2], 3),
    "only the first two": ([spread(ZONE, X)], [0, 0, 1], [2, 3, 4, 4], 0),
}


@pytest.mark.parametrize("case", SPREADS)
def test_nodes_looked_at_again_because_a_domain_holds_too_many(case: str) -> None:
    """The skew of a pod's own domain, itself counted: at the bound it stays, beyond it a pod is evicted."""
    constraints, seats, moves, undone = SPREADS[case]
    kind = copies(spreading(pod("p", labels=X), *constraints), len(seats))
    others = [pod(f"o{index}", labels=X) for index in range(len(moves))]
    world = World(*_zones(), kind, others)
    plugin = PodTopologySpread(())
    steps = [(f"o{index}", row) for index, row in enumerate(moves)]
    assert follow(world, plugin, [item.metadata.name for item in kind], seats, steps) == undone


def test_pods_that_do_not_count_change_nothing() -> None:
    """Other labels, another namespace, a node that is not eligible."""
    world = World(
        *_zones(),
        node("bare", labels={HOST: "bare"}),
        copies(spreading(pod("p", labels=X), spread(ZONE, X)), 2),
        pod("other", labels={"app": "y"}),
        pod("elsewhere", labels=X, namespace="other"),
        pod("like", labels=X),
    )
    plugin, states = PodTopologySpread(()), [world.state("p0"), world.state("p1")]
    for state in states:
        plugin.pre_filter(state)
    kept = plugin.incremental_filter(states, [0, 2])
    assert not kept.count(world.record("other"), 0, 1)
    assert not kept.count(world.record("elsewhere"), 0, 1)
    assert not kept.count(world.record("like"), world.row("bare"), 1)
    assert list(kept.suspects()) == []
    assert kept.count(world.record("like"), 0, 1)


@pytest.mark.parametrize(
    ("affinity", "moves", "undone"),
    [
        (rules(apart=[term(HOST, X)]), [0, 1, 2, 3], 2),
        (rules(apart=[term(ZONE, X)]), [0, 1, 2, 3, 4], 4),
        (rules(apart=[term(HOST, X), term(ZONE, {"app": "y"})]), [0, 1, 2, 3], 2),
        (rules(apart=[term(ZONE, {"app": "y"})]), [0, 1, 2], 0),
        # the first of a series: once there is company elsewhere, a lone pod may not stay
        (rules(near=[term(ZONE, X)]), [4, 0, 4], 3),
    ],
)
def test_nodes_looked_at_again_because_of_other_pods(affinity: objects.Affinity, moves: list[int], undone: int) -> None:
    """Pods on the first node of zones a and b; those that come are of app x."""
    kind = copies(pod("p", labels=X, affinity=affinity), 2)
    world = World(*_zones(), kind, [pod(f"o{index}", labels=X) for index in range(len(moves))])
    steps = [(f"o{index}", row) for index, row in enumerate(moves)]
    assert follow(world, InterPodAffinity(), ["p0", "p1"], [0, 2], steps) == undone


def test_one_pod_is_followed_like_many() -> None:
    """A kind of one pod, on the first node and on the last."""
    for seat in (0, 4):
        for plugin, item in (
            (InterPodAffinity(), pod("p", labels=X, affinity=rules(apart=[term(HOST, X)]))),
            (PodTopologySpread(()), spreading(pod("p", labels=X), spread(HOST, X))),
        ):
            others = [pod(f"o{index}", labels=X) for index in range(2)]
            world = World(*_zones(), item, others)
            assert follow(world, plugin, ["p"], [seat], [("o0", 2), ("o1", seat)]) == 1
