"""Groups that pods stand for, and which of several objects of one name counts (workloads.md 1.4, 2.4, 2.6)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from kube_rules.decoding import decode_object
from kube_rules.meta import ObjectRef
from kube_rules.objects import Pod, PodGroup
from reprieve.cluster.groups import GroupState
from reprieve.scheduling.engine_options import EngineOptions
from tests import manifests
from tests.scheduling.checked_engine import CheckedEngine

COSCHEDULING, VOLCANO, NATIVE = "scheduling.x-k8s.io/v1alpha1", "scheduling.volcano.sh/v1beta1", ""


def pod(name: str, size: int | str | None = 2, *, priority: int = 0, **more: Any) -> Pod:
    """A pod of the Kueue group `g`, which has so many; None: it does not say."""
    annotations = {"kueue.x-k8s.io/pod-group-total-count": str(size)} if size is not None else {}
    labels = {"kueue.x-k8s.io/pod-group-name": "g"}
    meta = {"namespace": "default", "labels": labels, "annotations": annotations, **more}
    decoded = decode_object(manifests.pod(name, 1, meta=meta, priority=priority))
    assert isinstance(decoded, Pod)
    return decoded


def group(version: str, least: int, **spec: Any) -> PodGroup:
    """A PodGroup `g` of that API."""
    if version == NATIVE:
        policy = {"schedulingPolicy": {"gang": {"minCount": least}}}
        version, spec = "scheduling.k8s.io/v1beta1", {**policy, **spec}
    else:
        spec = {"minMember": least, **spec}
    manifest = {
        "apiVersion": version,
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": spec,
    }
    found = decode_object(manifest)
    assert isinstance(found, PodGroup)
    return found


class World(CheckedEngine):
    """And what the group is."""

    def __init__(self, cpu: int = 9) -> None:
        super().__init__(cpu, EngineOptions(validate=True))

    @property
    def group(self) -> GroupState | None:
        return self.engine.cluster.groups.get("default/g")

    @property
    def least(self) -> int | None:
        """How many the group needs; None while nothing says so."""
        found = self.group
        return found.spec.min_count if found is not None and found.spec is not None else None


def test_group_is_as_large_as_its_pods_say_as_long_as_one_of_them_is_there() -> None:
    """workloads.md 2.4: where they say several sizes the largest counts, and a deleted pod's size no longer counts."""
    world = World()
    found = []
    for name, size in [("a", 2), ("b", 4), ("c", 3), ("d", 4)]:
        found.append(world.add(pod(name, size)).least)
    assert found == [2, 4, 4, 4]
    assert [world.gone(name).least for name in "bdca"] == [4, 3, 2, None]
    assert world.group is None
    assert len(world.engine._groups._objects._sized_groups) == 0


def test_all_of_them_run_or_none() -> None:
    assert World(2).add(pod("a", 3), pod("b", 3), pod("c", 3)).run().placed == set()
    assert World(3).add(pod("a", 3), pod("b", 3)).run().placed == set()
    assert World(3).add(pod("a", 3), pod("b", 3), pod("c", 3)).run().placed == {"a", "b", "c"}


def test_pod_without_a_size_makes_no_group() -> None:
    """workloads.md 2.4: it waits; with one that says how many they are it is one of them."""
    world = World().add(pod("a", None), pod("b", "many"))
    assert world.run().placed == set()
    assert world.least is None
    assert world.add(pod("c", 3)).run().placed == {"a", "b", "c"}


def test_group_of_pods_has_the_highest_priority_of_those_that_are_there() -> None:
    """workloads.md 2.6."""
    world = World(0).add(pod("a", 2, priority=3), pod("b", 2, priority=7), pod("c", 2, priority=5))

    def priority() -> int | None:
        found = world.group
        return found.spec.priority if found is not None and found.spec is not None else None

    assert priority() == 7
    assert [(world.gone(name), priority())[1] for name in "abc"] == [7, 5, None]


@pytest.mark.parametrize("order", list(itertools.permutations([(NATIVE, 2), (COSCHEDULING, 3), (VOLCANO, 4)])))
@pytest.mark.parametrize("count", [1, 2, 3])
def test_object_of_the_first_source_counts_of_several_of_one_name(
    order: tuple[tuple[str, int], ...], count: int
) -> None:
    """api.md 3.3, workloads.md 1.4: native before coscheduling before Volcano before pods, in any order."""
    chosen = order[:count]
    world = World().add(pod("a", 1), *(group(*each) for each in chosen), pod("b", 1))
    assert world.least == min(least for _, least in chosen)
    for version, least in chosen:  # what changes of one that does not count changes nothing
        world.add(group(version, least + 10))
    assert world.least == min(least for _, least in chosen) + 10


@pytest.mark.parametrize("version", [COSCHEDULING, VOLCANO, NATIVE])
def test_when_the_object_goes_its_pods_stand_for_the_group_again(version: str) -> None:
    """workloads.md 1.4: and where they do not say how many they are, they wait for an object."""
    world = World().add(pod("a", 2), group(version, 5), pod("b", 2))
    assert (world.least, world.run().placed) == (5, set())
    world.engine.remove(ObjectRef("PodGroup", "default/g"), world.now)
    assert world.least == 2
    assert world.run().placed == {"a", "b"}
    silent = World().add(pod("a", None), group(version, 5))
    silent.engine.remove(ObjectRef("PodGroup", "default/g"), silent.now)
    assert silent.least is None
    silent.engine.remove(ObjectRef("PodGroup", "default/g"), silent.now)
    silent.add(pod("b", None, priority=9))  # nothing is remembered of the object
    assert (silent.least, silent.run().placed) == (None, set())


@pytest.mark.parametrize("version", [COSCHEDULING, VOLCANO])
def test_pod_with_a_higher_priority_raises_a_foreign_group_that_has_none(version: str) -> None:
    """api.md 3.4, workloads.md 2.6: the highest of its pods, whenever it comes; one of its own is not touched."""
    world = World(0).add(group(version, 2))
    found = []
    for name, priority in [("a", 3), ("b", 2), ("c", 5)]:
        world.add(pod(name, None, priority=priority))
        assert world.group is not None
        assert world.group.spec is not None
        found.append(world.group.spec.priority)
    assert found == [3, 3, 5]
    world.gone("c")
    left = world.group
    assert left is not None
    assert left.spec is not None
    assert left.spec.priority == 3
