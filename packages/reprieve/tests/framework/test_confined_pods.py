"""Which running pods may use no node but their own (cost.md 1.9)."""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.meta import ObjectRef
from reprieve.framework import confined_pods
from tests.building import START, World, node, pod


def _counts(world: World, *names: str) -> list[int]:
    evaluator = world.engine.running["default-scheduler"].evaluator
    records = [world.record(name) for name in names]
    return evaluator.confined.count([(one,) for one in records], [(one.row,) for one in records])


def _node(name: str, disk: str, **more: Any) -> Any:
    return node(name, cpu=8, labels={"disk": disk}, **more)


def test_confined_by_selector_affinity_and_taints() -> None:
    """cost.md 1.9: whatever leaves no other node; what runs elsewhere, and how large the nodes are, does not count."""
    world = World(
        _node("n1", "a"),
        _node("n2", "b"),
        node("n3", cpu=1, labels={"disk": "b"}),
        _node("n4", "a", taints=[("dedicated", "x", "NoSchedule")]),
        pod("anywhere", node="n1", cpu=8),
        pod("only-a", node="n1", selector={"disk": "a"}),
        pod("of-b", node="n2", selector={"disk": "b"}, cpu=8),
        pod("by-name", node="n2", affinity=_named("n2")),
        pod("by-names", node="n2", affinity=_named("n1", "n2")),
        pod("gone-astray", node="n3", selector={"disk": "c"}),
        pod("called-away", node="n3", affinity=_named("n1")),
    )
    names = ["anywhere", "only-a", "of-b", "by-name", "by-names", "gone-astray", "called-away"]
    assert _counts(world, *names) == [0, 1, 0, 1, 0, 1, 0]


def _named(*names: str) -> Any:
    from kube_rules import objects as o

    term = o.NodeSelectorTerm(
        match_fields=(o.NodeSelectorRequirement(key="metadata.name", operator="In", values=names),)
    )
    required = o.NodeSelector(node_selector_terms=(term,))
    return o.Affinity(node_affinity=o.NodeAffinity(required_during_scheduling_ignored_during_execution=required))


def test_changes_of_nodes_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those that confine pods or free them make what is kept elsewhere doubtful; what is kept is bounded."""
    world = World(_node("n1", "a"), _node("n2", "b"), pod("p", node="n1", selector={"disk": "a"}), pod("q", node="n2"))
    confined = world.engine.running["default-scheduler"].evaluator.confined
    assert _counts(world, "p", "q") == [1, 0]
    before = confined.version()
    world.add(_node("n3", "b"))
    assert (_counts(world, "p", "q"), confined.version()) == ([1, 0], before)
    world.add(_node("n4", "a"))
    assert confined.version() > before
    assert _counts(world, "p", "q") == [0, 0]
    before = confined.version()
    for name in ("n2", "n3", "n4"):
        world.engine.remove(ObjectRef("Node", name), START)
    assert confined.version() > before
    assert _counts(world, "p") == [1]
    monkeypatch.setattr(confined_pods, "_MORE", 1 - 2 * len(world.engine.cluster.nodes))
    before = confined.version()
    assert not confined._only
    assert confined.version() == before
    assert _counts(world, "p") == [1]
