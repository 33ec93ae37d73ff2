"""What `explain` tries for an object without a record: the lowest priority that helps, and suggestions."""

from __future__ import annotations

from typing import Any

import pytest

from reprieve.cli import whatif
from reprieve.cli.whatif import HypotheticalDecision, ask
from tests.building import START, composite, gang, group, node, pod
from tests.cli.test_explain_text import asked, snapshot


@pytest.mark.parametrize(
    ("items", "helps"),
    [
        ([pod("x", cpu=4, node="n1", priority=10), pod("y", cpu=4, node="n2", priority=20)], 11),
        ([pod("x", cpu=1, node="n1", priority=10), pod("y", cpu=3, node="n1", priority=30)], 31),
        (
            [pod("x", cpu=4, node="n1", priority=2_000_000_000), pod("y", cpu=4, node="n2", priority=2_000_000_000)],
            None,
        ),
    ],
    ids=["the lower of two nodes", "both must be evicted", "only system pods run"],
)
def test_lowest_priority_that_helps(items: list[Any], helps: int | None) -> None:
    nodes = [node("n1", cpu=4)] if len({i.spec.node_name for i in items}) == 1 else [node("n1"), node("n2")]
    found = asked("Pod", "a", *nodes, *items, pod("a", cpu=4))
    assert found.priority_that_helps == helps
    assert found.record is not None
    assert not found.fits


def test_priority_of_a_whole_gang() -> None:
    running = [pod(f"x{i}", cpu=4, node=f"n{i}", priority=10 * i) for i in (1, 2, 3)]
    nodes = [node(f"n{i}", cpu=4) for i in (1, 2, 3)]
    assert asked("PodGroup", "g", *nodes, *running, *gang("g", 2, cpu=4)).priority_that_helps == 21


def test_priority_of_a_whole_tree() -> None:
    """composite.md 3.1: all of it has to have one priority, whichever part is asked about."""
    running = [pod(f"x{i}", cpu=4, node=f"n{i}", priority=10 * i) for i in (1, 2, 3)]
    nodes = [node(f"n{i}", cpu=4) for i in (1, 2, 3)]
    tree = [
        composite("root", min_groups=2),
        composite("mid", min_groups=1, parent="root"),
        *(group(name, min_count=1, parent=parent) for name, parent in (("left", "mid"), ("right", "root"))),
        *(pod(f"{name}-0", cpu=4, group=name) for name in ("left", "right")),
    ]
    for kind, name in (("CompositePodGroup", "root"), ("CompositePodGroup", "mid"), ("PodGroup", "left")):
        assert asked(kind, name, *nodes, *running, *tree).priority_that_helps == 21


def test_priority_of_a_tree_is_above_that_of_pods_on_any_node() -> None:
    tree = [
        composite("root", min_groups=1),
        group("left", min_count=1, parent="root"),
        pod("left-0", group="left", cpu=4),
    ]
    found = asked("CompositePodGroup", "root", node("n1", cpu=4), pod("x", cpu=4, node="n1", priority=10), *tree)
    assert found.priority_that_helps == 11
    assert found.helps is None, "of a tree nothing else is tried"


@pytest.mark.parametrize(("most", "tried"), [(3, True), (2, False)])
def test_suggestions_are_tried_in_clusters_of_up_to_so_many_objects(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], most: int, tried: bool
) -> None:
    """whatif.md 6.4: of one pod in clusters of up to 10,000, of a tree in ones of up to 5,000."""
    assert (whatif.MOST_OBJECTS, whatif.MOST_OF_PRIORITIES) == (10_000, 5_000)
    monkeypatch.setattr(whatif, "MOST_OBJECTS", most)
    found = asked("Pod", "a", node("n1", cpu=4), pod("x", cpu=4, node="n1", priority=10), pod("a", cpu=4))
    assert (found.helps is not None) == tried
    assert (found.priority_that_helps is not None) == tried
    expected = "" if tried else "in a cluster of more than 2 objects suggestions are not tried\n"
    assert capsys.readouterr().err == expected
    assert found.record is not None
    assert found.record.result == "Unschedulable"


@pytest.mark.parametrize(("most", "tried"), [(5, True), (4, False)])
def test_priority_of_a_tree_is_looked_for_in_clusters_of_up_to_so_many_objects(
    monkeypatch: pytest.MonkeyPatch, most: int, tried: bool
) -> None:
    monkeypatch.setattr(whatif, "MOST_OF_PRIORITIES", most)
    tree = [
        composite("root", min_groups=1),
        group("left", min_count=1, parent="root"),
        pod("left-0", group="left", cpu=4),
    ]
    found = asked("PodGroup", "left", node("n1", cpu=4), pod("x", cpu=4, node="n1", priority=10), *tree)
    assert found.priority_that_helps == (11 if tried else None)


def test_absent_objects_have_no_decision() -> None:
    for kind in ("Pod", "PodGroup", "CompositePodGroup"):
        assert asked(kind, "none", node("n1"), pod("a", cpu=1)) == HypotheticalDecision()
    assert asked("Pod", "a", node("n1"), pod("a", cpu=1, node="n1")) == HypotheticalDecision(), "it runs"


def test_without_suggestions_it_is_decided_and_nothing_more() -> None:
    items = (node("n1", cpu=4), pod("x", cpu=4, node="n1", priority=10), pod("a", cpu=4))
    found = ask(snapshot(*items), "Pod", "default", "a", now=START + 100, suggest=False)
    assert (found.fits, found.helps, found.priority_that_helps) == (False, None, None)
    assert found.record is not None
    makes_room = asked("Pod", "a", *items[:2], pod("a", cpu=4, priority=11))
    assert (makes_room.fits, makes_room.helps) == (False, None)
    assert makes_room.record is not None
    assert makes_room.record.preemption is not None


def test_pods_that_fit_and_gated_pods() -> None:
    assert asked("Pod", "a", node("n1"), pod("a", cpu=1)).fits
    gated = asked("PodGroup", "g", node("n1"), *gang("g", 2, min_count=3, cpu=1))
    assert gated.gated == "waiting for minCount pods from a gang to appear in scheduling queue"
    assert gated.record is None


def test_those_before_it_in_the_queue_have_their_room() -> None:
    found = asked("Pod", "a", node("n1", cpu=4), pod("first", cpu=4, priority=9), pod("a", cpu=4))
    assert not found.fits
