"""Which events are about a pod's own group or claims (scheduling.md 1.4)."""

from __future__ import annotations

import pytest

from reprieve.framework.events import ClusterEvent, EventKind, about_own_claim, about_own_tree, always, tree_of
from tests.building import World, composite, group, node, pod
from tests.plugins.storage import claim
from tests.plugins.storage import pod as pod_with


@pytest.fixture(scope="module")
def world() -> World:
    """A tree of two groups, a flat group, a pod of a group without an object, and one without a group."""
    return World(
        node("n"),
        composite("top", min_groups=1),
        group("left", min_count=1, parent="top"),
        group("right", min_count=1, parent="top"),
        group("flat", min_count=1),
        pod("l", group="left"),
        pod("r", group="right"),
        pod("f", group="flat"),
        pod("o", group="orphan"),
        pod("alone"),
    )


@pytest.mark.parametrize(
    ("group_key", "composite_key", "tree"),
    [
        ("default/left", None, "composite/default/top"),
        ("default/flat", None, "group/default/flat"),
        ("default/orphan", None, "group/default/orphan"),
        ("default/gone", None, "group/default/gone"),
        (None, "default/top", "composite/default/top"),
        (None, "default/gone", "composite/default/gone"),
        ("default/flat", "default/top", "group/default/flat"),
        (None, None, None),
    ],
)
def test_event_concerns_a_tree(
    world: World, group_key: str | None, composite_key: str | None, tree: str | None
) -> None:
    """The entity that waits in the queue: the root of the tree; what is gone is called as it was."""
    event = ClusterEvent(EventKind.GROUP_CHANGED, group=group_key, composite=composite_key)
    assert tree_of(world.engine.cluster, event) == tree


@pytest.mark.parametrize(
    ("group_key", "composite_key", "helped"),
    [
        ("default/left", None, {"l", "r"}),
        ("default/flat", None, {"f"}),
        ("default/orphan", None, {"o"}),
        (None, "default/top", {"l", "r"}),
        (None, "default/other", set()),
        (None, None, set()),
    ],
)
def test_event_of_a_tree_may_help_its_own_pods(
    world: World, group_key: str | None, composite_key: str | None, helped: set[str]
) -> None:
    """No pod outside of the tree, none without a group; and a larger request than before helps no pod."""
    cluster = world.engine.cluster
    for raised in (False, True):
        event = ClusterEvent(EventKind.GROUP_CHANGED, group=group_key, composite=composite_key, raised=raised)
        found = {name for name in ("l", "r", "f", "o", "alone") if about_own_tree(cluster, world.record(name), event)}
        assert found == (set() if raised else helped)


def test_event_of_a_claim_may_help_pods_that_name_it() -> None:
    """Of the pod's claims, any; a deleted one helps no pod."""
    world = World(node("n"), claim("a"), claim("b"), claim("c"), pod_with("p", "a", "b"), pod("q"))
    cluster = world.engine.cluster
    said = {}
    for name in "abc":
        event = ClusterEvent(EventKind.CLAIM_CHANGED, item=claim(name))
        said[name] = about_own_claim(cluster, world.record("p"), event)
        assert not about_own_claim(cluster, world.record("q"), event)
        gone = ClusterEvent(EventKind.CLAIM_CHANGED, before=claim(name))
        assert not about_own_claim(cluster, world.record("p"), gone)
    assert said == {"a": True, "b": True, "c": False}


def test_fields_of_an_event_are_empty_unless_given() -> None:
    """No node, no pod, no group, no object; and it did not come to want more."""
    event = ClusterEvent(EventKind.FLUSH)
    assert (event.row, event.pod, event.group, event.item, event.before, event.composite, event.raised) == (
        -1,
        None,
        None,
        None,
        None,
        None,
        False,
    )
    world = World(node("n"), pod("p"))
    assert always(world.engine.cluster, world.record("p"), event) is True
