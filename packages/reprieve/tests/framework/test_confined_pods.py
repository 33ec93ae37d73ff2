"""Which running pods may use no node but their own (cost.md 1.9)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kube_rules.meta import ObjectRef
from reprieve.cluster.pods import PodRecord
from reprieve.framework import confined_pods
from reprieve.framework.confined_pods import ConfinedPods
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


def test_pods_that_name_their_nodes_are_looked_at_when_these_change() -> None:
    """Other nodes may come, go or get labels: what is known of a DaemonSet's pods elsewhere stays the same object."""
    world = World(*[_node(name, "a") for name in ("n1", "n2")])
    world.add(*[pod(f"d-{name}", node=name, affinity=_named(name)) for name in ("n1", "n2")])
    assert _counts(world, "d-n1", "d-n2") == [1, 1]
    confined = world.engine.running["default-scheduler"].evaluator.confined
    keys = [world.record(name).signature.constraints.nodes.id for name in ("d-n1", "d-n2")]
    before, version = dict(confined._only), confined.version()
    world.add(_node("n2", "b"), _node("n3", "a"))
    assert confined.version() == version
    assert [confined._only[key] is before[key] for key in keys] == [True, False]


@pytest.mark.parametrize("seed", range(20))
def test_changes_of_nodes_give_what_counting_afresh_gives(seed: int) -> None:
    """The version grows whenever a count changes; rows of nodes that are gone are used again."""
    draw = random.Random(seed)
    names = [f"n{i}" for i in range(6)]
    world = World(*[_node(name, draw.choice("ab")) for name in names[:4]])
    evaluator = world.engine.running["default-scheduler"].evaluator
    where: list[tuple[str, dict[str, Any]]] = [
        (name, {"selector": {"disk": disk}}) for name in names[:4] for disk in "ab"
    ]
    where += [(name, {"affinity": _named(*around)}) for name in names[:4] for around in ([name], [name, "n4", "n5"])]
    where += [("n0", {"affinity": _named("n4")}), ("n1", {"affinity": _named()}), ("n2", {})]
    world.add(*[pod(f"p{number}", node=name, **more) for number, (name, more) in enumerate(where)])

    def counts(confined: ConfinedPods) -> list[int]:
        pods: list[PodRecord] = [world.record(f"p{number}") for number in range(len(where))]
        return confined.count([(one,) for one in pods], [(one.row,) for one in pods])

    before, version = counts(evaluator.confined), evaluator.confined.version()
    seen = set()
    for _ in range(30):
        for _ in range(draw.randint(1, 3)):
            name = draw.choice(names)
            if draw.randrange(3) == 0 and name in world.engine.cluster.nodes.row_of:
                world.engine.remove(ObjectRef("Node", name), START)
            else:
                taints = [("dedicated", "x", "NoSchedule")] if draw.randrange(3) == 0 else []
                world.add(_node(name, draw.choice("ab"), taints=taints))
        after = counts(evaluator.confined)
        assert after == counts(ConfinedPods(world.engine.cluster, evaluator.allowed_nodes))
        assert after == before or evaluator.confined.version() > version
        seen.add(after == before)
        before, version = after, evaluator.confined.version()
    assert seen == {True, False}
