"""Where groups stand in their trees: root, faults, and what they are disrupted with (composite.md 2, 4)."""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest

from kube_rules import objects
from kube_rules.meta import ObjectRef
from reprieve.cluster.groups import Fault, GroupState, is_ready
from reprieve.cluster.state import ClusterState
from tests.building import World, composite, group, pod


def state_of(*items: objects.KubernetesObject) -> ClusterState:
    state = ClusterState()
    for turn, item in enumerate(items):
        if isinstance(item, objects.PodGroup):
            state.set_group(item, created=float(turn))
        elif isinstance(item, objects.CompositePodGroup):
            state.set_composite(item, created=float(turn))
        state.check()
    return state


def leaf(state: ClusterState, name: str = "leaf") -> GroupState:
    return state.groups[f"default/{name}"]


def test_flat_group_is_a_tree_of_one_level() -> None:
    state = state_of(group("leaf", min_count=2, whole=True))
    found = leaf(state)
    assert (found.root, found.top, found.unit, found.fault) == (found, found, found, None)
    assert list(found.below()) == list(found.leaves()) == [found]
    state.remove_group("default/leaf")
    assert found.unit is None


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_root_is_known_when_the_last_ancestor_is(order: tuple[int, ...]) -> None:
    """composite.md 2.2, in whatever order they come."""
    parts = (group("leaf", parent="mid"), composite("mid", parent="root"), composite("root", whole=True))
    state = state_of(*(parts[index] for index in order))
    found, root = leaf(state), state.trees.composites["default/root"]
    assert found.root is found.top is found.unit is root
    assert [one.name for one in root.below()] == ["root", "mid", "leaf"]
    state.remove_composite("default/mid")
    assert found.root is None
    assert found.fault is not None
    assert found.fault.missing == "mid"
    assert found.fault.message == 'waiting for pods\'s pod group "mid" to appear in scheduling queue'
    assert (found.top, found.unit) == (found, None)
    assert [one.name for one in root.below()] == ["root"]
    state.set_composite(composite("mid", parent="root"))
    assert found.root is root
    state.check()


def test_children_come_by_creation_and_then_by_name() -> None:
    """composite.md 2.3."""
    state = ClusterState()
    state.set_composite(composite("root"))
    for name, created in (("c", 2.0), ("b", 1.0), ("a", 2.0)):
        state.set_group(group(name, parent="root"), created=created)
    root = state.trees.composites["default/root"]
    assert [one.name for one in root.leaves()] == ["b", "a", "c"]
    state.set_group(group("a", parent="root"), created=0.0)
    assert [one.name for one in root.leaves()] == ["a", "b", "c"]
    state.set_group(group("a"))
    assert [one.name for one in root.leaves()] == ["b", "c"]
    state.check()


def test_composite_and_a_pod_group_may_have_one_name() -> None:
    state = state_of(composite("x"), group("x", parent="x"))
    found = leaf(state, "x")
    assert found.root is state.trees.composites["default/x"]
    assert state.trees.find("group/default/x") is found
    assert state.trees.find("composite/default/x") is found.root
    assert state.trees.find("composite/default/y") is None


def test_parents_are_of_the_same_namespace() -> None:
    state = state_of(composite("root", namespace="other"), group("leaf", parent="root"))
    assert leaf(state).fault is not None


@pytest.mark.parametrize("length", [1, 2, 3])
def test_cycle_ends(length: int) -> None:
    """composite.md 2.2, 4.3: no group has a root, and each chain ends at the last group before it closes."""
    names = [f"c{i}" for i in range(length)]
    ring = [composite(name, parent=names[(i + 1) % length], whole=True) for i, name in enumerate(names)]
    state = state_of(*ring, group("leaf", parent="c0"))
    found = leaf(state)
    assert found.root is None
    assert found.fault is not None
    assert "cycle: c0 -> " in found.fault.message
    assert found.fault.missing == ""
    assert found.unit is state.trees.composites[f"default/c{length - 1}"]
    assert found.top is state.trees.composites[f"default/c{max(0, length - 2)}"], "the last before the unit again"
    state.set_composite(composite(f"c{length - 1}"))
    assert found.root is state.trees.composites[f"default/c{length - 1}"]
    state.check()


@pytest.mark.parametrize(("levels", "rooted"), [(2, True), (4, True), (5, False), (6, False), (200, False)])
def test_more_than_four_levels_have_no_root(levels: int, rooted: bool) -> None:
    """composite.md 1.2, 2.2; however many there are, the walk ends."""
    chain = [composite(f"c{i}", parent=f"c{i - 1}" if i else "") for i in range(levels - 1)]
    state = state_of(*chain, group("leaf", parent=f"c{levels - 2}"), group("shallow", parent="c0"))
    found = leaf(state)
    assert (found.root is not None) is rooted
    assert (found.fault is None) is rooted
    if not rooted:
        assert found.fault is not None
        assert "maximum depth of composite pod groups is 4" in found.fault.message
    root = state.trees.composites["default/c0"]
    assert leaf(state, "shallow").root is root
    assert ("leaf" in {one.name for one in root.leaves()}) is rooted


@pytest.mark.parametrize(
    ("whole", "unit"),
    [
        ("", None),
        ("leaf", "leaf"),
        ("mid", "mid"),
        ("leaf mid", "mid"),
        ("root leaf", "root"),
        ("root mid leaf", "root"),
    ],
)
def test_highest_that_goes_as_a_whole_is_the_unit(whole: str, unit: str | None) -> None:
    """composite.md 4.2: `all` above overrides `single` below."""
    state = state_of(
        composite("root", whole="root" in whole),
        composite("mid", parent="root", whole="mid" in whole),
        group("leaf", min_count=1, parent="mid", whole="leaf" in whole),
    )
    found = leaf(state)
    assert (found.unit.name if found.unit is not None else None) == unit
    assert found.top.name == "root"


def test_without_trees_a_parent_is_ignored() -> None:
    """composite.md 5.3."""
    state = ClusterState()
    state.set_composite(composite("root"))
    found = state.set_group(group("leaf", parent="root"), trees=False)
    assert found.root is found
    state.check()


def test_objects_cannot_change_inside_a_trial() -> None:
    state = state_of(composite("root"))
    with state.trial():
        with pytest.raises(RuntimeError, match="inside a trial"):
            state.set_composite(composite("root"))
        with pytest.raises(RuntimeError, match="inside a trial"):
            state.remove_composite("default/root")


@pytest.mark.parametrize("seed", range(8))
def test_ready_members_are_counted_as_groups_and_pods_come_and_go(seed: int) -> None:
    """composite.md 2.4: kept up for a leaf or a pod, counted again for a composite; `check` compares them."""
    draw = Random(seed)
    world = World()
    state = world.engine.cluster
    for name in ("root", "left", "right"):
        parent = "" if name == "root" else "root"
        world.add(composite(name, min_groups=draw.randint(1, 2), parent=parent))
    seen = set()
    for turn in range(120):
        name = f"leaf-{draw.randrange(4)}"
        match draw.randrange(6):
            case 0 | 1:
                world.add(pod(f"p{turn}", group=name))
            case 2 | 3:
                above = draw.choice(["root", "left", "right", "nobody", ""])
                world.add(group(name, min_count=draw.randint(1, 3), parent=above))
            case 4:
                world.engine.remove(ObjectRef("PodGroup", f"default/{name}"), world.now)
            case 5:
                waiting = [each.name for each in state.pods.values()]
                if waiting:
                    world.gone(draw.choice(waiting))
        root = state.trees.composites["default/root"]
        assert state.trees.is_ready(root) == is_ready(root, lambda leaf: leaf.existing)
        seen.add(root.ready)
        state.check()
    assert seen == {False, True}


@pytest.mark.parametrize("spoil", ["root", "top", "unit", "fault", "children", "order", "ready", "ready leaf"])
def test_check_of_trees_finds_what_is_off(spoil: str) -> None:
    """Where each group stands, the children of each and their order, and which were counted as ready."""
    state = state_of(
        composite("root", min_groups=1),
        composite("mid", parent="root"),
        group("a", parent="mid"),
        group("b", parent="mid"),
    )
    root, mid, one = state.trees.composites["default/root"], state.trees.composites["default/mid"], leaf(state, "a")
    assert state.trees.is_ready(root) is False
    state.check()
    match spoil:
        case "root" | "unit":
            setattr(one, spoil, one if spoil == "unit" else None)
        case "top":
            one.top = one
        case "fault":
            one.fault = Fault("no")
        case "children":
            mid.by_ref = {}
            mid.reorder()
        case "order":
            mid._ordered = mid.children[::-1]
        case "ready":
            mid.ready_children += 1
        case "ready leaf":
            one.ready = True
    with pytest.raises(AssertionError):
        state.check()


def test_group_that_moved_is_reported_once() -> None:
    """Its pods wait in another entity now, or for something else; and in which they did before."""
    state = state_of(group("leaf", parent="top"))
    found = leaf(state)
    state.trees.take_moved()
    state.set_composite(composite("top"))
    assert state.trees.take_moved() == [(found, "group/default/leaf")]
    assert state.trees.take_moved() == []
    state.set_composite(composite("top", whole=True))
    assert state.trees.take_moved() == []
    state.set_composite(composite("top", parent="none"))
    assert state.trees.take_moved() == [(found, "composite/default/top")]
    state.remove_composite("default/top")
    assert state.trees.take_moved() == [(found, "group/default/leaf")]
    state.set_group(group("leaf"))
    assert state.trees.take_moved() == [(found, "group/default/leaf")]


def test_groups_are_found_by_their_name_in_the_queue() -> None:
    """Each kind by its own name; and a group with children, whether or not it exists."""
    state = state_of(composite("x"), group("x", parent="y"))
    trees = state.trees
    assert trees.find("composite/default/x") is trees.composites["default/x"]
    assert trees.find("group/default/x") is leaf(state, "x")
    assert [trees.find(ref) for ref in ("pod/default/x", "composite/default/y", "group/default/z")] == [None] * 3
    assert (trees.has_children("default/y"), trees.has_children("default/x")) == (True, False)
    assert bool(trees) is True
    state.remove_composite("default/x")
    assert bool(trees) is True
    state.remove_group("default/x")
    assert (bool(trees), trees.has_children("default/y")) == (False, False)


@pytest.mark.parametrize(("levels", "fits"), [(2, True), (3, True), (4, False), (5, False)])
def test_tree_has_at_most_four_levels(levels: int, fits: bool) -> None:
    """composite.md 1: the pod groups counted; a composite at the lowest level could only have children too deep."""
    parts = [composite(f"c{i}", parent=f"c{i - 1}" if i else "") for i in range(levels)]
    state = state_of(*parts, group("leaf", parent=f"c{levels - 1}"))
    found = leaf(state)
    assert (found.fault is None) is fits
    assert [one.fault is None for one in state.trees.composites.values()] == [i < 3 for i in range(levels)]
    if not fits:
        assert found.fault is not None
        names = " -> ".join([*(f"c{i}" for i in range(levels)), "leaf"][:5])
        assert found.fault.message == f"maximum depth of composite pod groups is 4: {names}"
        assert found.fault.missing == ""


@pytest.mark.parametrize(
    ("min_groups", "existing", "ready"),
    [
        (None, [0, 0], False),
        (None, [1, 0], True),
        (1, [0, 1], True),
        (2, [1, 0], False),
        (2, [1, 1], True),
        (3, [1, 1], False),
    ],
)
def test_when_a_tree_is_ready(min_groups: int | None, existing: list[int], ready: bool) -> None:
    """composite.md 2.4: as many ready children as it says, and one at least."""
    names = [f"g{number}" for number in range(len(existing))]
    state = state_of(composite("top", min_groups=min_groups), *(group(name, parent="top") for name in names))
    known = dict(zip(names, existing, strict=True))
    assert is_ready(state.trees.composites["default/top"], lambda one: known[one.name]) is ready
