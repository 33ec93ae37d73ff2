"""PodGroups of Volcano as trees: minima for tasks, and subgroups (workloads.md 2.7 to 2.9)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules.decoding import decode_object
from kube_rules.meta import ObjectRef
from kube_rules.objects import (
    CompositePodGroupSchedulingPolicy,
    Pod,
    PodGroup,
    PodGroupSchedulingPolicy,
)
from reprieve.cluster.groups import Group
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.framework.gates import FeatureGates
from reprieve.scheduling.engine_options import EngineOptions
from reprieve.scheduling.foreign_trees import tree_of
from reprieve.scheduling.group_changes import GroupChanges
from reprieve.scheduling.group_objects import GroupChange, Move
from tests import manifests
from tests.scheduling.checked_engine import CheckedEngine

VOLCANO = "scheduling.volcano.sh/v1beta1"


def pod(name: str, task: str = "", *, cpu: int = 1, priority: int = 0, **labels: str) -> Pod:
    annotations = {"scheduling.k8s.io/group-name": "g", **({"volcano.sh/task-spec": task} if task else {})}
    meta = {"namespace": "default", "annotations": annotations, "labels": labels}
    decoded = decode_object(manifests.pod(name, cpu, meta=meta, priority=priority))
    assert isinstance(decoded, Pod)
    return decoded


def group(least: int, **spec: Any) -> PodGroup:
    meta = {"name": "g", "namespace": "default", "uid": "u"}
    manifest = {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": meta, "spec": {"minMember": least, **spec}}
    found = decode_object(manifest)
    assert isinstance(found, PodGroup)
    return found


class World(CheckedEngine):
    """And which group each pod is in."""

    def __init__(self, cpu: int, **gates: bool) -> None:
        super().__init__(cpu, EngineOptions(gates=FeatureGates.of(gates), validate=True), created=1.0)

    @property
    def groups(self) -> dict[str, str | None]:
        return {one.name: one.group for one in self.engine.cluster.pods.values()}


TASKS = {"ps": 1, "worker": 2}
PODS = (pod("ps", "ps", cpu=2), pod("w0", "worker"), pod("w1", "worker"))


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_every_task_has_its_minimum_or_nothing_runs(order: tuple[int, ...]) -> None:
    """workloads.md 2.7 and 2.9: whichever of the object and its pods comes first."""
    items = (group(3, minTaskMember=TASKS), *PODS)
    arrived = [items[index] for index in order]
    assert World(3).add(*arrived).run().placed == set()
    world = World(4).add(*arrived).run()
    assert world.placed == {"ps", "w0", "w1"}
    assert world.groups == {"ps": "default/g:ps", "w0": "default/g:worker", "w1": "default/g:worker"}


def test_more_of_one_task_do_not_make_up_for_another() -> None:
    """workloads.md 2.7: three workers are three pods, but there is no ps."""
    workers = [pod(f"w{number}", "worker") for number in range(3)]
    world = World(10).add(group(3, minTaskMember=TASKS), *workers).run()
    assert world.placed == set()
    assert world.add(PODS[0]).run().placed == {"ps", "w0", "w1", "w2"}


def test_minima_beyond_the_whole_do_not_count() -> None:
    """workloads.md 2.7: as in Volcano."""
    world = World(2).add(group(2, minTaskMember=TASKS), *PODS[1:]).run()
    assert world.placed == {"w0", "w1"}
    assert world.groups["w0"] == "default/g"


def test_minimum_beyond_the_tasks_is_met_by_other_members() -> None:
    """workloads.md 2.7: two more pods of whatever task."""
    others = [pod("o0"), pod("o1", "evaluator")]
    full = group(5, minTaskMember=TASKS)
    assert World(5).add(full, *PODS, *others).run().placed == set()
    world = World(6).add(full, *PODS, *others).run()
    assert world.placed == {"ps", "w0", "w1", "o0", "o1"}
    assert world.groups["o0"] == world.groups["o1"]


def test_pods_that_the_minima_do_not_concern_are_by_themselves() -> None:
    """workloads.md 2.7: and leave no trace when they are gone."""
    world = World(1).add(group(3, minTaskMember=TASKS), pod("other")).run()
    assert world.placed == {"other"}
    assert world.groups["other"] is None
    world.gone("other")
    assert world.engine._groups._objects._tasks == {}


def test_group_that_becomes_a_tree_and_flat_again() -> None:
    """workloads.md 2.9: its pods go along, those that wait and those that run."""
    world = World(4).add(group(1), *PODS).run()
    assert world.placed == {"ps", "w0", "w1"}
    world.add(group(3, minTaskMember=TASKS), pod("w2", "worker"))
    assert set(world.groups.values()) == {"default/g:ps", "default/g:worker"}
    assert len(world.engine.cluster.trees.composites) == 1
    world.add(group(1)).run()
    assert set(world.groups.values()) == {"default/g"}
    assert not world.engine.cluster.trees.composites
    world.now += 1
    world.engine.remove(ObjectRef("PodGroup", "default/g"), world.now)
    for name in ("ps", "w0", "w1", "w2"):
        world.gone(name)
    assert world.engine.cluster.groups == {}


def _hashed(item: Pod, value: str) -> Pod:
    return replace(item, metadata=replace(item.metadata, labels={"pod-template-hash": value}))


def test_terminating_pod_may_change_its_group() -> None:
    """workloads.md 2.9; its successor (cost.md 5.6) is matched by its group and its labels."""
    world = World(4).add(group(1), *PODS).run()
    world.engine.mark_terminating("default/w0", world.now)
    world.add(group(3, minTaskMember=TASKS))
    assert world.groups["w0"] == "default/g:worker"
    relabelled = _hashed(pod("w0", "worker"), "other")
    world.engine.set(relabelled, world.now)
    for name in ("ps", "w0", "w1"):
        world.gone(name)
    assert not world.engine.cluster.departures
    assert not world.engine.cluster.departing


def test_without_its_gate_a_tree_is_flat() -> None:
    """workloads.md 2.9."""
    world = World(3, CompositePodGroup=False)
    workers = [pod(f"w{number}", "worker") for number in range(3)]
    assert world.add(group(3, minTaskMember=TASKS), *workers).run().placed == {"w0", "w1", "w2"}


def test_tree_has_the_highest_priority_of_its_pods() -> None:
    """workloads.md 2.6: all of its groups have the same, whenever the pod comes that has it."""
    world = World(4).add(group(3, minTaskMember=TASKS), *PODS[:2])
    world.add(pod("w1", "worker", priority=7))
    trees = world.engine.cluster.trees
    priorities = {one.spec.priority for one in trees.composites["default/g:"].below() if one.spec is not None}
    assert priorities == {7}
    assert world.run().placed == {"ps", "w0", "w1"}


SUBGROUPS = [
    {
        "name": "replica",
        "labelSelector": {"matchLabels": {"role": "infer"}},
        "matchLabelKeys": ["replica"],
        "subGroupSize": 2,
        "minSubGroups": 2,
    }
]


def replicas(count: int) -> list[Pod]:
    return [pod(f"r{n}-{m}", role="infer", replica=str(n)) for n in range(count) for m in range(2)]


def test_priority_of_a_tree_is_the_highest_of_the_pods_that_are_left() -> None:
    """workloads.md 2.6, and 2.7 for a tree."""
    world = World(1).add(group(3, minTaskMember=TASKS), PODS[0], pod("w0", "worker"), pod("w1", "worker", priority=9))

    def priorities() -> set[int]:
        return {each.spec.priority for each in world.engine.cluster.groups.values() if each.spec is not None}

    assert priorities() == {9}
    world.gone("w0")
    assert priorities() == {9}
    world.gone("w1")
    assert priorities() == {0}


def test_priority_of_a_flat_group_is_the_highest_of_the_pods_that_are_left() -> None:
    """workloads.md 2.6: a pod that has the priority of the group and goes takes it along, the group keeps its class."""
    for whole in (group(3), group(3, priorityClassName="system-node-critical")):
        priced = replace(whole, spec=replace(whole.spec, priority=7)) if whole.spec.priority_class_name else whole
        world = World(1).add(priced, pod("w0", priority=9), pod("w1", priority=4), pod("w2", priority=9))
        found = []
        for name in ("w0", "w2", "w1"):
            world.gone(name)
            spec = world.engine.cluster.groups["default/g"].spec
            found.append(spec.priority if spec is not None else None)
        assert found == ([7, 7, 7] if priced is not whole else [9, 4, 0])


def test_subgroups_as_many_as_asked_for_run_whole() -> None:
    """workloads.md 2.8: three replicas of two, two of them needed; room for five pods is room for two replicas."""
    whole = group(4, subGroupPolicy=SUBGROUPS)
    assert World(3).add(whole, *replicas(3)).run().placed == set()
    assert World(5).add(whole, *replicas(3)).run().placed == {"r0-0", "r0-1", "r1-0", "r1-1"}
    assert len(World(6).add(*replicas(3), whole).run().placed) == 6
    assert World(6).add(whole, *replicas(1)).run().placed == set()


def test_subgroup_is_there_as_long_as_a_pod_of_it() -> None:
    """workloads.md 2.8."""
    world = World(10).add(group(4, subGroupPolicy=SUBGROUPS), *replicas(2)).run()
    assert set(world.engine.cluster.groups) == {"default/g:replica:0", "default/g:replica:1"}
    for name in ("r1-0", "r1-1"):
        world.gone(name)
    assert set(world.engine.cluster.groups) == {"default/g:replica:0"}


def _policy(name: str, size: int | None = 2, least: int | None = 1) -> dict[str, Any]:
    numbers = {"subGroupSize": size, "minSubGroups": least}
    return {
        "name": name,
        "labelSelector": {"matchLabels": {"role": name}},
        "matchLabelKeys": ["n"],
        **{key: number for key, number in numbers.items() if number is not None},
    }


def _shape(world: World) -> list[tuple[str, float, object]]:
    cluster = world.engine.cluster
    every: list[Group] = [*cluster.groups.values(), *cluster.trees.composites.values()]
    return sorted((one.ref, one.created, one.spec) for one in every)


def _both_roles(count: int) -> list[Pod]:
    return [pod(f"{role}{n}", role=role, n=str(n)) for n in range(count) for role in ("prefill", "decode")]


@pytest.mark.parametrize("kind", ["one policy", "two policies", "tasks and others"])
def test_tree_is_the_same_in_whatever_order_its_pods_come_and_go(kind: str) -> None:
    """workloads.md 2.7 to 2.9: the tree that grew pod by pod is the one that is made of all pods at once."""
    if kind == "one policy":
        whole, pods = group(4, subGroupPolicy=SUBGROUPS), replicas(4)
    elif kind == "two policies":
        whole, pods = group(4, subGroupPolicy=[_policy("prefill", 2), _policy("decode", 1, 3)]), _both_roles(4)
    else:
        others = [pod("o0"), pod("o1", "evaluator"), pod("o2")]
        whole, pods = group(5, minTaskMember=TASKS), [*PODS, pod("w2", "worker"), *others, pod("ps1", "ps")]
    at_once = _shape(World(1).add(*pods, whole))
    assert len(at_once) == {"one policy": 5, "two policies": 11, "tasks and others": 4}[kind]
    assert max(created for _, created, _ in at_once) - min(created for _, created, _ in at_once) < 0.001
    for order in (pods, pods[::-1], [*pods[::2], *pods[1::2]]):
        grown = World(1).add(whole, *order)
        assert _shape(grown) == at_once
        for gone in order[4:]:
            grown.gone(gone.name)
        assert _shape(grown) == _shape(World(1).add(*order[:4], whole))
        dearest = replace(order[0], metadata=replace(order[0].metadata, name="dearest"))
        grown.add(*order[4:], replace(dearest, spec=replace(dearest.spec, priority=8)))
        assert {one.spec.priority for one in grown.engine.cluster.groups.values() if one.spec is not None} == {8}
        assert len(_shape(grown)) == len(at_once)


def test_several_policies_are_levels_of_their_own() -> None:
    """workloads.md 2.8: one prefill of two, and one decode of one."""
    policies = [_policy("prefill", 2), _policy("decode", 1)]
    pods = [pod("p0", role="prefill", n="0"), pod("p1", role="prefill", n="0"), pod("d0", role="decode", n="0")]
    whole = group(3, subGroupPolicy=policies)
    assert World(3).add(whole, *pods[:2]).run().placed == set()
    assert World(2).add(whole, *pods).run().placed == set()
    assert World(3).add(whole, *pods).run().placed == {"p0", "p1", "d0"}


@pytest.mark.parametrize(("size", "least"), [(2, None), (None, 2), (2, 0), (0, 2), (None, None)])
def test_policy_without_size_and_number_is_ignored(size: int | None, least: int | None) -> None:
    """workloads.md 2.8: then `minMember` counts, of whatever pods."""
    pods = [pod("a0", role="a", n="0"), pod("a1", role="a", n="1"), pod("other")]
    flat = World(3).add(group(3, subGroupPolicy=[_policy("a", size, least)]), *pods)
    assert set(flat.groups.values()) == {"default/g"}
    assert World(2).add(group(3, subGroupPolicy=[_policy("a", size, least)]), *pods).run().placed == set()
    assert len(flat.run().placed) == 3
    both = World(3).add(
        group(3, subGroupPolicy=[_policy("a", size, least), _policy("b", 1)]), *pods, pod("b", role="b")
    )
    assert both.groups == {"a0": None, "a1": None, "other": None, "b": "default/g:b:"}


Level = tuple[int, str, int, str]


def _levels(whole: PodGroup, *leaves: str) -> list[Level]:
    """Of each group of the tree: its place, its name, how many it needs, and its parent's name."""
    tree = tree_of(whole)
    assert tree is not None
    found = []
    for place, each in tree.groups(leaves, 7):
        spec = each.spec
        assert spec.priority == 7
        policy = spec.scheduling_policy
        if isinstance(each, PodGroup):
            assert isinstance(policy, PodGroupSchedulingPolicy)
            assert policy.gang is not None
            least = policy.gang.min_count
        else:
            assert isinstance(policy, CompositePodGroupSchedulingPolicy)
            assert policy.gang is not None
            least = policy.gang.min_group_count
        found.append((place, each.metadata.name, least, spec.parent_composite_pod_group_name))
    return found


@pytest.mark.parametrize(
    ("spec", "leaves", "levels"),
    [
        (
            {"minTaskMember": {"ps": 1, "worker": 2, "idle": 0}},
            [],
            [(0, "g:", 2, ""), (1, "g:ps", 1, "g:"), (2, "g:worker", 2, "g:")],
        ),
        (
            {"minTaskMember": {"ps": 1, "worker": 2}},
            ["g:rest:"],
            [(0, "g:", 3, ""), (1, "g:ps", 1, "g:"), (2, "g:worker", 2, "g:"), (3, "g:rest:", 2, "g:")],
        ),
        (
            {"subGroupPolicy": [_policy("a", 2, 3)]},
            ["g:a:0", "g:a:1", "g:ab:0"],
            [(0, "g:", 3, ""), (0, "g:a:0", 2, "g:"), (0, "g:a:1", 2, "g:")],
        ),
        (
            {"subGroupPolicy": [_policy("a", 2, 3), _policy("b", 4, 5)], "minTaskMember": {"ps": 1}},
            ["g:b:0", "g:a:1"],
            [
                (0, "g:", 2, ""),
                (0, "g:a:", 3, "g:"),
                (0, "g:a:1", 2, "g:a:"),
                (1, "g:b:", 5, "g:"),
                (1, "g:b:0", 4, "g:b:"),
            ],
        ),
    ],
    ids=["tasks", "tasks and others", "one policy", "two policies"],
)
def test_levels_of_a_tree(spec: dict[str, Any], leaves: list[str], levels: list[Level]) -> None:
    """workloads.md 2.7 to 2.9: which groups there are, in which order, and how many of what each needs."""
    assert _levels(group(5, **spec), *leaves) == levels


@pytest.mark.parametrize(
    ("least", "tasks", "tree"),
    [
        (3, {"a": 1, "b": 2}, True),
        (2, {"a": 1, "b": 2}, False),
        (3, {}, False),
        (3, {"a": 0}, False),
        (1, {"a": 1}, True),
    ],
)
def test_minima_of_tasks_make_a_tree_where_the_whole_asks_for_as_many(
    least: int, tasks: dict[str, int], tree: bool
) -> None:
    """workloads.md 2.7: not beyond `minMember`, and not where none asks for a pod."""
    assert (tree_of(group(least, minTaskMember=tasks)) is not None) is tree


@pytest.mark.parametrize(
    ("spec", "task", "labels", "leaf"),
    [
        ({"minTaskMember": {"a": 1, "b": 0}}, "a", {}, "g:a"),
        ({"minTaskMember": {"a": 1, "b": 0}}, "b", {}, "g:rest:"),  # it asks for nothing, and the whole for two more
        ({"minTaskMember": {"a": 3}}, "b", {}, None),
        ({"subGroupPolicy": [_policy("a")]}, "", {"role": "a", "n": "7"}, "g:a:7"),
        ({"subGroupPolicy": [_policy("a")]}, "", {"role": "a"}, "g:a:"),
        ({"subGroupPolicy": [_policy("a")], "minTaskMember": {"t": 1}}, "t", {"role": "b"}, None),
        ({"subGroupPolicy": [_policy("a"), {**_policy("b"), "labelSelector": None}]}, "", {"n": "1"}, "g:b:1"),
        ({"subGroupPolicy": [_policy("a"), {**_policy("b"), "labelSelector": None}]}, "", {"role": "a"}, "g:a:"),
    ],
)
def test_leaf_of_a_pod(spec: dict[str, Any], task: str, labels: dict[str, str], leaf: str | None) -> None:
    """workloads.md 2.7 and 2.8: by its task, or by the first policy that means it; else what is asked beyond."""
    tree = tree_of(group(3, **spec))
    assert tree is not None
    assert tree.leaf_of(task, labels) == leaf


@pytest.mark.parametrize("namespace", ["", "default", "team"])
def test_groups_of_a_tree_are_where_their_object_is(namespace: str) -> None:
    """workloads.md 2.9: each has its namespace; the root alone has its UID."""
    for spec in ({"minTaskMember": TASKS}, {"subGroupPolicy": SUBGROUPS}):
        whole = group(3, **spec)
        tree = tree_of(replace(whole, metadata=replace(whole.metadata, namespace=namespace)))
        assert tree is not None
        (_, root), *below = tree.groups(["g:replica:0"], None)
        assert {each.metadata.namespace for _, each in [(0, root), *below]} == {namespace or "default"}
        assert (root.metadata.uid, {each.metadata.uid for _, each in below}) == ("u", {""})


@pytest.mark.parametrize(
    ("spec", "there", "second"),
    [
        ({"minTaskMember": {"a": 1, "b": 2}}, [pod("p0", "a")], pod("p1", "a")),
        ({"minTaskMember": {"a": 1, "b": 1}}, [pod("p0", "c")], pod("p1", "d")),
        ({"subGroupPolicy": [_policy("a")]}, [pod("p0", role="a", n="0")], pod("p1", role="a", n="0")),
        (
            {"subGroupPolicy": [_policy("a")]},
            [pod("other", role="a", n="1"), pod("p0", role="a", n="0")],
            pod("p1", role="a", n="0"),
        ),
    ],
    ids=["a task", "what is asked beyond tasks", "a subgroup", "a subgroup beside another"],
)
def test_only_changes_of_the_tree_set_its_groups(
    spec: dict[str, Any], there: list[Pod], second: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """workloads.md 2.9: the second pod of a leaf changes nothing, neither as it comes nor as it goes."""
    changed: list[str] = []
    carry_out = GroupChanges._carry_out

    def watched(self: GroupChanges, changes: Iterable[GroupChange | Move], now: float) -> None:
        found = list(changes)
        changed.extend(each.group or "" if isinstance(each, Move) else each.key for each in found)
        carry_out(self, found, now)

    world = World(9).add(group(3, **spec), *there)
    shape = _shape(world)
    monkeypatch.setattr(GroupChanges, "_carry_out", watched)
    world.add(second)
    assert world.groups["p0"] == world.groups["p1"]
    world.gone("p1")
    assert changed == []
    assert _shape(world) == shape


def test_pod_that_belongs_elsewhere_now_is_gone_from_the_one_and_new_in_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """workloads.md 2.9, scheduling.md 7.3: both groups may be tried for it."""
    world = World(1).add(group(2), pod("w0", "worker"))
    events: list[tuple[EventKind, str | None]] = []
    on_event = world.engine.queue.on_event

    def watched(event: ClusterEvent, now: float, **more: Any) -> None:
        if event.pod is not None:
            events.append((event.kind, event.group))
        on_event(event, now, **more)

    monkeypatch.setattr(world.engine.queue, "on_event", watched)
    world.add(group(3, minTaskMember=TASKS))
    assert events == [(EventKind.MEMBER_GONE, "default/g"), (EventKind.POD_ADDED, "default/g:worker")]
