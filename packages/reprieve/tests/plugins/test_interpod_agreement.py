"""InterPodAffinity and PodTopologySpread against the rules computed one node at a time, on random clusters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprieve.plugins.inter_pod_affinity import InterPodAffinity
from reprieve.plugins.pod_topology_spread import PodTopologySpread
from tests.building import World, node, pod
from tests.plugins.asking import FITS, UNSCHEDULABLE, scores, verdicts
from tests.plugins.neighbours import (
    ZONE,
    Picture,
    RandomRules,
    affinity_score,
    affinity_verdict,
    namespace,
    rules,
    spread_scores,
    spread_verdict,
    term,
)

many = settings(max_examples=120, deadline=None)


def _cluster(seed: int) -> tuple[World, Picture, RandomRules]:
    chance = RandomRules(seed)
    picture = Picture(namespaces={"other": {"team": "a"}, "default": {}})
    world = World()
    for index in range(chance.chance.randint(1, 6)):
        made = chance.node(index)
        picture.nodes[made.metadata.name] = made
        world.add(made)
    for name, labels in picture.namespaces.items():
        world.engine.cluster.set_namespace(namespace(name, labels))
    names = list(picture.nodes)
    for index in range(chance.chance.randint(0, 10)):
        where = chance.chance.choice(names)
        running = chance.pod(f"r{index}", rate=2, node=where, terminating=chance.one_in(8))
        picture.running.append((running, where))
        world.add(running)
    return world, picture, chance


def _reasons(world: World, plugin: InterPodAffinity) -> dict[str, list[str]]:
    state, names = world.state("p"), world.engine.cluster.nodes.names
    plugin.pre_filter(state)
    found: dict[str, list[str]] = {}
    for text, mask in plugin.reasons(state, slice(0, len(names))):
        for row in np.flatnonzero(mask):
            found.setdefault(names[row], []).append(text)
    return found


@many
@given(st.integers(0, 2**32 - 1))
def test_inter_pod_affinity(seed: int) -> None:
    """Filter codes, reasons and scores, in the order and with the messages of upstream's plugin."""
    world, picture, chance = _cluster(seed)
    item = chance.pod("p")
    world.add(item)
    plugin = InterPodAffinity()
    expected = {name: affinity_verdict(picture, item, name) for name in picture.nodes}
    found = verdicts(world, plugin)
    assert found == {name: code for name, (code, _) in expected.items()} or (
        not found and not any(code for code, _ in expected.values())
    )
    if found:
        assert _reasons(world, plugin) == {name: [why] for name, (code, why) in expected.items() if code}
    raw = {name: affinity_score(picture, item, name) for name in picture.nodes}
    assert scores(world, plugin, normalized=False) in ([raw, {}] if not any(raw.values()) else [raw])


@many
@given(st.integers(0, 2**32 - 1))
def test_pod_topology_spread(seed: int) -> None:
    """Filter codes and normalized scores over all nodes as candidates."""
    world, picture, chance = _cluster(seed)
    item = chance.pod("p")
    world.add(item)
    plugin = PodTopologySpread(())
    expected = {name: spread_verdict(picture, item, name) for name in picture.nodes}
    found = verdicts(world, plugin)
    assert found == expected or (not found and not any(expected.values()))
    if any(c.when_unsatisfiable == "ScheduleAnyway" for c in item.spec.topology_spread_constraints):
        assert scores(world, plugin) == spread_scores(picture, item, list(picture.nodes))


@many
@given(st.integers(0, 2**32 - 1))
def test_counting_step_by_step_is_counting_afresh(seed: int) -> None:
    """add_pod and remove_pod leave a plugin where pre_filter in the new view would; preemption.md 4.3."""
    world, _, chance = _cluster(seed)
    cluster = world.engine.cluster
    others = [chance.pod(f"o{i}") for i in range(3)]
    world.add(chance.pod("p"), others)
    for plugin in (InterPodAffinity(), PodTopologySpread(())):
        state = world.state("p")
        if not plugin.pre_filter(state).ok:
            continue
        everything = slice(0, len(cluster.nodes))
        before = plugin.filter(state, everything).tolist()
        with cluster.trial():
            steps = []
            for other in others:
                record, row = world.record(other.metadata.name), chance.chance.randrange(len(cluster.nodes))
                counts = plugin.add_pod(state, record, row)
                cluster.place(record, row)
                steps.append((record, row))
                now = plugin.filter(state, everything).tolist()
                fresh = world.state("p")
                plugin.pre_filter(fresh)
                assert now == plugin.filter(fresh, everything).tolist()
                cluster.check()
                assert counts or now == before or len(steps) > 1
            for record, row in reversed(steps):
                plugin.remove_pod(state, record, row)
        assert plugin.filter(state, everything).tolist() == before
        cluster.check()


@pytest.mark.parametrize("removed", [False, True])
def test_node_that_is_gone_counts_nothing(removed: bool) -> None:
    """Pods on a node that was removed are no pod's neighbours any more, until they are gone themselves."""
    apart = rules(apart=[term(ZONE, {"app": "x"})])
    world = World(
        node("n1", labels={ZONE: "a"}),
        node("n2", labels={ZONE: "a"}),
        pod("r", labels={"app": "x"}, node="n1"),
        pod("p", affinity=apart),
    )
    if removed:
        world.engine.cluster.remove_node("n1")
    assert verdicts(world, InterPodAffinity())["n2"] == (FITS if removed else UNSCHEDULABLE)
