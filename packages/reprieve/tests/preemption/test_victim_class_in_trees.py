"""Which level of a tree says what its pods count as when they are potential victims (composite.md 4.3)."""

from __future__ import annotations

from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kube_rules.admission import PREEMPTION_PRIORITY_CLASS, PriorityAdmission
from kube_rules.errors import FieldError
from kube_rules.meta import ObjectRef
from kube_rules.objects import CompositePodGroup, PodGroup
from reprieve.client.cluster_reader import without_void_classes
from reprieve.preemption.units import effective_priority, units_below
from tests.building import World, annotated, composite, group, node, pod, priority_class

GroupT = TypeVar("GroupT", PodGroup, CompositePodGroup)
CLASSES = {"v0": 0, "v3": 3, "v5": 5, "v9": 9}
PRIORITY = 2
_ABOVE_ALL = 1 << 40


def _named(made: GroupT, name: str | None) -> GroupT:
    if name is None:
        return made
    made = replace(made, metadata=replace(made.metadata, annotations={PREEMPTION_PRIORITY_CLASS: name}))
    made = PriorityAdmission([priority_class(*each) for each in CLASSES.items()]).resolve(made)
    return replace(made, spec=replace(made.spec, priority_class_name="granting"))


def _tree(root: str | None, middle: str | None, leaf: str | None, disrupted: str = "") -> World:
    """Root, middle, leaf with one pod; each names a class or none. `disrupted`: the levels with `all`."""
    return World(
        node("n", cpu=4),
        priority_class("granting", PRIORITY, annotated(max_preemption_priority="9")),
        _named(composite("root", min_groups=1, priority=PRIORITY, whole="r" in disrupted), root),
        _named(composite("middle", min_groups=1, parent="root", priority=PRIORITY, whole="m" in disrupted), middle),
        _named(group("leaf", min_count=1, parent="middle", priority=PRIORITY, whole="l" in disrupted), leaf),
        pod("p", cpu=1, node="n", priority=PRIORITY, group="leaf", start=0),
    )


def _counts(world: World) -> int:
    cluster = world.engine.cluster
    cluster.check()
    running = [found for found in cluster.pods.values() if found.row >= 0]
    (unit,) = units_below(cluster, _ABOVE_ALL, running)
    assert effective_priority(cluster, running[0]) == unit.priority
    return unit.priority


@pytest.mark.parametrize(
    ("root", "middle", "leaf", "disrupted", "counts"),
    [
        (None, None, None, "", 2),
        ("v9", None, None, "", 9),
        ("v9", None, "v5", "", 5),
        ("v9", "v3", None, "", 3),
        (None, "v3", "v9", "", 9),
        (None, None, "v9", "l", 9),
        (None, None, "v9", "m", 2),
        ("v5", None, "v9", "m", 5),
        ("v5", "v3", "v9", "m", 3),
        ("v5", "v3", "v9", "r", 5),
        (None, "v3", "v9", "rm", 2),
    ],
)
def test_level_that_is_evicted_as_one_decides(
    root: str | None, middle: str | None, leaf: str | None, disrupted: str, counts: int
) -> None:
    """composite.md 4.3: the lower level overwrites the higher one, as far down as the unit goes."""
    assert _counts(_tree(root, middle, leaf, disrupted)) == counts


_CLASS = st.sampled_from([None, "v3", "v5", "v9"])


@given(_CLASS, _CLASS, _CLASS, st.sampled_from(["", "l", "m", "r", "lm", "lr", "mr", "lmr"]))
def test_no_class_makes_a_unit_count_less_than_its_root(
    root: str | None, middle: str | None, leaf: str | None, disrupted: str
) -> None:
    """composite.md 4.3: the nearest class from the unit upwards; the order in which groups come is of no account."""
    world = _tree(root, middle, leaf, disrupted)
    levels = [leaf, middle, root]["lmr".index(max(disrupted, key="lmr".index)) if disrupted else 0 :]
    nearest = next((name for name in levels if name is not None), None)
    assert _counts(world) == (PRIORITY if nearest is None else CLASSES[nearest]) >= PRIORITY


def test_class_on_the_root_protects_what_is_below_it() -> None:
    """The decision goes by it, and by a new one from then on (preemption.md 4, "Options")."""
    world = _tree("v9", None, None).add(pod("first", cpu=4, priority=5)).settle()
    assert world.evicted == []
    low = _named(composite("root", min_groups=1, priority=PRIORITY), "v3")
    world.engine.set(low, world.now)
    world.add(pod("second", cpu=4, priority=6)).settle()
    assert world.evicted == ["p"]


def test_chain_that_ends_early_counts_by_what_is_there() -> None:
    """composite.md 4.3: the root is gone, and with it its class."""
    world = _tree("v9", None, None)
    world.engine.remove(ObjectRef("CompositePodGroup", "default/root"), world.now)
    assert _counts(world) == PRIORITY


def test_class_below_the_priority_of_a_composite_is_refused() -> None:
    """preemption.md 4, "Options"; a file of a cluster that has it is read without it."""
    made = composite("root", min_groups=1, priority=PRIORITY)
    low = replace(made, metadata=replace(made.metadata, annotations={PREEMPTION_PRIORITY_CLASS: "v0"}))
    with pytest.raises(FieldError, match="its value 0 is lower than the priority 2"):
        PriorityAdmission([priority_class("v0", 0)]).resolve(low)
    kept = without_void_classes([priority_class("v0", 0), low])[1]
    assert kept.metadata.annotations == {}
