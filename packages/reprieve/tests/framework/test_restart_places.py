"""Which running pods could not restart on another node at once (cost.md 1.9)."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_rules import objects as o
from kube_rules.meta import ObjectRef
from reprieve.cluster.pods import PodRecord
from reprieve.framework import restart_places
from reprieve.framework.plugin import CycleState
from reprieve.framework.restart_places import RestartPlaces, RestartReader, _largest
from tests.building import START, World, node, pod
from tests.drawing import examples


def _places(world: World) -> RestartPlaces:
    return world.engine.running["default-scheduler"].evaluator.restarts


def _stuck(world: World, *names: str) -> list[bool]:
    records = [world.record(name) for name in names]
    return _places(world).stuck(records, [one.row for one in records])


def _node(name: str, disk: str = "a", **more: Any) -> Any:
    return node(name, **{"cpu": 8, "labels": {"disk": disk}, **more})


def _named(*names: str) -> Any:
    term = o.NodeSelectorTerm(
        match_fields=(o.NodeSelectorRequirement(key="metadata.name", operator="In", values=names),)
    )
    required = o.NodeSelector(node_selector_terms=(term,))
    return o.Affinity(node_affinity=o.NodeAffinity(required_during_scheduling_ignored_during_execution=required))


def test_what_is_free_elsewhere_decides() -> None:
    """cost.md 1.9: all that the pod requests, on one node other than its own."""
    world = World(
        _node("n1", gpu=5, memory="9Gi", pods=6),
        _node("n2", gpu=4, memory="8Gi", pods=2),
        pod("large", node="n1", cpu=5),
        pod("small", node="n1", cpu=4),
        pod("memory", node="n1", memory="7Gi"),
        pod("gpus", node="n1", gpu=3),
        pod("there", node="n2", cpu=4, memory="2Gi", gpu=2),
    )
    names = ["large", "small", "memory", "gpus", "there"]
    assert _stuck(world, *names) == [True, False, True, True, True]
    world.gone("large")
    assert _stuck(world, *names[1:]) == [False, True, True, False]
    world.add(pod("one-more", node="n2"))
    assert _stuck(world, *names[1:]) == [True, True, True, False], "n2 has no place for another pod"


def test_nodes_that_a_pod_may_not_use_do_not_count() -> None:
    """cost.md 1.9: selector, required affinity and taints; a pod that may use no other node can never restart."""
    world = World(
        _node("n1", "a"),
        _node("n2", "b"),
        _node("n3", "c", cpu=1),
        _node("n4", "a", taints=[("dedicated", "x", "NoSchedule")]),
        pod("anywhere", node="n1", cpu=2),
        pod("only-a", node="n1", selector={"disk": "a"}),
        pod("of-c", node="n2", selector={"disk": "c"}, cpu=2),
        pod("small-of-c", node="n2", selector={"disk": "c"}, cpu=1),
        pod("by-name", node="n2", affinity=_named("n2")),
        pod("by-names", node="n2", affinity=_named("n1", "n2")),
        pod("gone-astray", node="n3", selector={"disk": "d"}),
        pod("called-away", node="n3", affinity=_named("n1")),
        pod("called-to-tainted", node="n3", affinity=_named("n4")),
    )
    names = ["anywhere", "only-a", "of-c", "small-of-c", "by-name", "by-names", "gone-astray", "called-away"]
    assert _stuck(world, *names) == [False, True, True, False, True, False, True, False]
    assert _stuck(world, "called-to-tainted") == [True]
    world.add(_node("n4", "a"))
    assert _stuck(world, *names) == [False, False, True, False, True, False, True, False]
    assert _stuck(world, "called-to-tainted") == [False]


def test_nominated_amounts_are_taken() -> None:
    """cost.md 1.9: whatever the priority of the nominated pod, until the nomination ends."""
    world = World(_node("n1"), _node("n2"), pod("p", node="n1", cpu=8), pod("low", cpu=1, priority=-10))
    assert _stuck(world, "p") == [False]
    reader = RestartReader(_places(world))
    row = world.engine.cluster.nodes.row_of["n2"]
    world.engine.cluster.nominate(world.record("low"), row)
    assert _stuck(world, "p") == [True]
    assert reader.take() == [world.record("p").row]
    with world.engine.cluster.trial():
        world.engine.cluster.displace(world.record("p"))
        assert _places(world).stuck([world.record("p")], [row]) == [False], "the present view decides"
    assert _stuck(world, "p") == [True]


def test_node_that_is_overcommitted_in_what_no_pod_requests_counts() -> None:
    """cost.md 1.9: only the pod's own requests must be free."""
    world = World(_node("n1"), _node("n2", cpu=2, memory="4Gi"), pod("p", node="n1", memory="2Gi"))
    world.add(pod("full", node="n2", memory="4Gi"))
    assert _stuck(world, "p") == [True]
    world.gone("full")
    world.add(pod("over", node="n2", cpu=4))
    assert _stuck(world, "p") == [False]


def test_two_pods_may_count_on_the_same_amounts() -> None:
    """cost.md 1.9."""
    world = World(_node("n1"), _node("n2", cpu=2), pod("p", node="n1", cpu=2), pod("q", node="n1", cpu=2))
    assert _stuck(world, "p", "q") == [False, False]


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is forgotten when it becomes too much; readers then take everything as changed."""
    world = World(_node("n1"), _node("n2"), *[pod(f"p{turn}", node="n1", cpu=1, memory=turn) for turn in range(5)])
    places, names = _places(world), [f"p{turn}" for turn in range(5)]
    assert _stuck(world, *names) == [False] * 5
    reader = RestartReader(places)
    assert reader.take() == []
    monkeypatch.setattr(restart_places, "_FOR_EACH_POD", 0)
    monkeypatch.setattr(restart_places, "_MORE", 4)
    assert reader.take() is None
    assert not places._pods
    assert _stuck(world, *names) == [False] * 5


def test_old_changes_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart_places, "_MOST_CHANGES", 4)
    world = World(_node("n1"), _node("n2", cpu=4), pod("p", node="n1", cpu=4))
    assert _stuck(world, "p") == [False]
    early, late = RestartReader(_places(world)), RestartReader(_places(world))
    for turn in range(6):
        world.add(pod(f"q{turn}", node="n2", cpu=1))
        assert late.take() == [world.record("p").row]
        world.gone(f"q{turn}")
        assert late.take() == [world.record("p").row]
    assert len(_places(world).changed_rows) <= 4
    assert early.take() is None


def _brute(world: World, record: PodRecord) -> bool:
    """Whether it cannot restart elsewhere, by the engine's filters for nodes and by amounts, node by node."""
    cluster, evaluator = world.engine.cluster, world.engine.running["default-scheduler"].evaluator
    nodes = cluster.nodes
    usable = evaluator.usable_nodes(CycleState(cluster, record))
    for row in np.flatnonzero(usable).tolist():
        held = [other for other in nodes.nominated.get(row, {}).values() if other.row < 0]
        free = nodes.allocatable[:, row] - nodes.used[:, row] - sum(other.signature.delta for other in held)
        if row != record.row and all(free[column] >= amount for column, amount in record.signature.requests):
            return False
    return True


class _Changing:
    """A cluster in which things happen, by a seed. No pod is scheduled."""

    def __init__(self, seed: int, nodes: int) -> None:
        self.draw = random.Random(seed)
        self.names = [f"n{turn}" for turn in range(nodes)]
        self.world = World(*[self.node(name) for name in self.names[: max(2, nodes * 2 // 3)]])
        self.made = 0
        for _ in range(nodes * 3):
            self.start()

    def node(self, name: str) -> Any:
        draw = self.draw
        taints = [("dedicated", "x", "NoSchedule")] if draw.randrange(5) == 0 else []
        return _node(
            name,
            draw.choice("ab"),
            cpu=draw.randint(2, 6),
            gpu=draw.randint(0, 2),
            pods=draw.randint(2, 8),
            taints=taints,
        )

    def start(self) -> None:
        draw, there = self.draw, sorted(self.world.engine.cluster.nodes.row_of)
        self.made += 1
        where: dict[str, Any] = draw.choice(
            [{}, {}, {"selector": {"disk": draw.choice("ab")}}, {"affinity": _named(draw.choice(self.names))}]
        )
        amounts: dict[str, Any] = {
            "cpu": draw.randint(0, 4),
            "memory": f"{draw.randint(0, 9)}Mi",
            "gpu": draw.choice([0, 0, 1]),
        }
        target: dict[str, Any] = {"node": draw.choice(there)} if draw.randrange(4) else {}
        self.world.add(pod(f"p{self.made}", **amounts, **where, **target))
        if not target and draw.randrange(2):
            row = self.world.engine.cluster.nodes.row_of[draw.choice(there)]
            self.world.engine.cluster.nominate(self.world.record(f"p{self.made}"), row)

    def happen(self) -> None:
        draw, engine = self.draw, self.world.engine
        what = draw.choice(["start", "start", "end", "end", "node", "no node", "resource"])
        running = [record for record in engine.cluster.pods.values() if record.row >= 0]
        if what == "start":
            self.start()
        elif what == "end" and running:
            engine.remove(ObjectRef("Pod", uid=draw.choice(running).uid), START)
        elif what == "node":
            self.world.add(self.node(draw.choice(self.names)))
        elif what == "no node" and len(engine.cluster.nodes.row_of) > 2:
            engine.remove(ObjectRef("Node", draw.choice(sorted(engine.cluster.nodes.row_of))), START)
        elif what == "resource":
            self.made += 1
            name = f"example.com/r{draw.randrange(3)}"
            self.world.add(_node(draw.choice(self.names), more={name: 2}))
            self.world.add(pod(f"p{self.made}", node=draw.choice(sorted(engine.cluster.nodes.row_of)), more={name: 1}))


@examples(60)
@given(st.integers(0, 2**32), st.sampled_from([4, 9]), st.sampled_from([(8, 64), (0, 0), (2, 3)]))
def test_restart_place_is_what_comparing_all_nodes_gives(seed: int, nodes: int, few: tuple[int, int]) -> None:
    """cost.md 1.9: after any changes, also where many kinds are compared together; each change is reported."""
    kinds, rows = few
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(restart_places, "_FEW_KINDS", kinds)
        patch.setattr(restart_places, "_FEW_ROWS", rows)
        if kinds < 8:
            patch.setattr(restart_places, "_BLOCK", 2)
            patch.setattr(restart_places, "_MOST_LARGEST", 3)
        case = _Changing(seed, nodes)
        world = case.world
        places, before = _places(world), dict[str, tuple[int, bool]]()
        reader = RestartReader(places)
        for _ in range(12):
            for _ in range(case.draw.randint(1, 4)):
                case.happen()
            changed = reader.take()
            pods = [record for record in world.engine.cluster.pods.values() if record.row >= 0]
            stuck = places.stuck(pods, [record.row for record in pods])
            assert stuck == [_brute(world, record) for record in pods]
            now = {record.uid: (record.row, out) for record, out in zip(pods, stuck, strict=True)}
            for uid, (row, out) in now.items():
                if uid in before and before[uid][0] == row and before[uid][1] != out:
                    assert changed is None or row in changed
            before = now


@examples(60)
@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=40), st.integers(1, 5))
def test_among_the_largest_rows_there_are_two_for_what_has_two(rows: list[tuple[int, int, int]], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(restart_places, "_MOST_LARGEST", most)
        free = np.array(rows, dtype=np.int64).T
        chosen = _largest(free)
    assert len(set(chosen.tolist())) == len(chosen)
    for ask in np.ndindex(5, 5, 5):
        fits = np.logical_and.reduce(free >= np.array(ask)[:, None])
        assert min(2, int(fits.sum())) == min(2, int(fits[chosen].sum()))
