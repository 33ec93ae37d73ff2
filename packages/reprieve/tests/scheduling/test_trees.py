"""Trees of groups in the queue and in the cycle (composite.md 2, 3, 6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as replace_struct

from kube_rules import objects
from kube_rules.meta import ObjectRef
from reprieve.framework.gates import FeatureGates
from reprieve.plugins.gang_scheduling import RETRY, GangScheduling
from reprieve.preemption.outcome import GROUP_UNSCHEDULABLE
from reprieve.queueing.entity import QueueState
from reprieve.scheduling.decision import SCHEDULER_ERROR, WAITING_FOR_QUORUM
from tests.building import Item, World, composite, gang, group, node, pod, profile_with

QUORUM = 'waiting for composite pod group "root" tree to meet quorum'
MISSING = 'waiting for pods\'s pod group "{}" to appear in scheduling queue'


def leaf(name: str, size: int, parent: str = "root", **more: Any) -> list[objects.KubernetesObject]:
    return gang(name, size, parent=parent, cpu=1, **more)


def racks(**free: int) -> list[objects.Node]:
    """A node in each rack; the rack's name begins with its block's."""
    return [
        node(f"n-{rack}", cpu=cpu, labels={"rack": rack, "block": rack[0], "kubernetes.io/hostname": f"n-{rack}"})
        for rack, cpu in free.items()
    ]


def conditions(world: World) -> dict[str, tuple[bool, str]]:
    return {ref.split("/")[-1]: (c.scheduled, c.reason) for ref, c in world.virtual.conditions.items()}


def test_tree_is_placed_as_one() -> None:
    """composite.md 2.1, 3.4: one entity, one decision, every group has a condition."""
    world = World(node("n", cpu=4), composite("root", min_groups=2), *leaf("a", 2), *leaf("b", 2))
    decision = world.step()
    assert decision.ref == "composite/default/root"
    assert len(decision.bindings) == 4
    assert [(c.group, c.composite, c.scheduled) for c in decision.conditions] == [
        ("default/root", True, True),
        ("default/a", False, True),
        ("default/b", False, True),
    ]
    assert [one.ref for one in decision.conditions] == ["composite/default/root", "group/default/a", "group/default/b"]
    assert [(level.group, level.ok, level.succeeded, level.total) for level in decision.levels] == [
        ("default/root", True, 2, 2),
        ("default/a", True, 2, 2),
        ("default/b", True, 2, 2),
    ]


def test_all_or_nothing_at_the_root() -> None:
    """composite.md 3.4: nothing below a failed ancestor is bound, even where a child had its minimum."""
    world = World(node("n", cpu=3), composite("root", min_groups=2), *leaf("a", 2), *leaf("b", 2)).settle()
    assert world.where == {}
    assert conditions(world) == dict.fromkeys(("root", "a", "b"), (False, "Unschedulable"))
    first = "0/1 placements are available, first placement status: "
    assert world.condition("root")[2].startswith(first + "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining")
    assert world.condition("a")[2] == 'composite pod group "root" is unschedulable'
    assert world.condition("b")[2] == first + "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
    assert "waiting for minCount pods from a gang to be scheduled" in world.message("a-0")
    assert "Insufficient cpu" in world.message("b-1")
    (root, _, b) = world.engine.decisions[-1].levels
    assert (root.ok, root.needed, root.succeeded, root.failed_groups) == (False, 2, 1, ("b",))
    assert (b.ok, b.succeeded, b.total) == (False, 1, 2)


def test_failed_child_leaves_its_room_to_its_siblings() -> None:
    """composite.md 3.3: a failed child is undone, its siblings go on."""
    items = [composite("root", min_groups=1), *leaf("a", 3), *leaf("b", 2)]
    world = World(node("n", cpu=2), *items).settle()
    assert world.where == {"b-0": "n", "b-1": "n"}
    assert conditions(world) == {"root": (True, "Scheduled"), "a": (False, "Unschedulable"), "b": (True, "Scheduled")}


def test_basic_root_needs_one_group() -> None:
    """composite.md 2.4, 3.3."""
    world = World(node("n", cpu=2), composite("root"), *leaf("a", 3), *leaf("b", 3)).settle()
    assert world.where == {}
    assert [level.needed for level in world.engine.decisions[0].levels] == [1, 3, 3]
    world.add(node("m", cpu=3)).settle()
    assert sorted(world.where) == ["a-0", "a-1", "a-2"]


def test_level_that_cannot_succeed_stops() -> None:
    """composite.md 3.3: S + R < M, before any other is tried."""
    items = [composite("root", min_groups=3), *leaf("a", 1), *leaf("b", 9), *leaf("c", 1), *leaf("d", 9), *leaf("e", 1)]
    world = World(node("n", cpu=4), *items)
    decision = world.step()
    assert [level.group.split("/")[1] for level in decision.levels] == ["root", "a", "b", "c", "d", "e"]
    world = World(
        node("n", cpu=4), *items[:1], *leaf("a", 9), *leaf("b", 9), *leaf("c", 9), *leaf("d", 1), *leaf("e", 1)
    )
    decision = world.step()
    assert [level.group.split("/")[1] for level in decision.levels] == ["root", "a", "b", "c"]
    assert decision.levels[0].reason.endswith("minCount (3) cannot be satisfied: 0 scheduled, 2 remaining")


def test_leaf_that_has_too_few_pods_fails_before_the_first() -> None:
    """composite.md 3.3: asked before the first child too."""
    items = [composite("root", min_groups=1), *leaf("a", 2, min_count=5), *leaf("b", 1)]
    world = World(node("n", cpu=9), *items).settle()
    assert world.where == {"b-0": "n"}
    assert world.engine.decisions[0].rejected_by == {"GangScheduling"}, "more pods may help it"
    assert world.condition("a")[2].endswith("minCount (5) cannot be satisfied: 0 scheduled, 2 remaining")


def test_complete_child_counts_as_one_that_succeeded() -> None:
    """composite.md 3.3: a composite starts with none, its complete children count again."""
    running = [pod(f"a-{i}", group="a", cpu=1, node="n") for i in range(2)]
    items = [composite("root", min_groups=2), group("a", min_count=2, parent="root"), *running]
    world = World(node("n", cpu=4), *items, *leaf("b", 2)).settle()
    assert world.pending == []


def test_member_placed_until_its_group_failed_waits_for_the_quorum() -> None:
    """composite.md 3.4: of pods below a failed level, one that was tried without success has a reason, others none."""
    items = [composite("root", min_groups=1), *leaf("a", 4, min_count=4), *leaf("b", 1, min_count=2)]
    world = World(node("n", cpu=2), *items)
    messages = {one.pod.name: one.message for one in world.step().rejections}
    assert messages["a-0"] == messages["a-1"] == WAITING_FOR_QUORUM
    assert messages["a-2"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert messages["b-0"] == GROUP_UNSCHEDULABLE


def test_tree_that_gains_nothing_reports_it() -> None:
    """composite.md 3.4."""
    items = [composite("root"), *leaf("a", 3, min_count=1)]
    world = World(node("n", cpu=2), *items).settle()
    assert len(world.where) == 2
    assert world.engine.decisions[-1].levels[0].reason.endswith("no pods were schedulable")
    assert conditions(world)["root"] == (True, "Scheduled")


# -- the queue -----------------------------------------------------------------------------------------------------


def test_missing_root_keeps_its_pods_outside() -> None:
    """composite.md 2.2, 6.1."""
    world = World(node("n"), composite("mid", parent="root"), *leaf("a", 2, parent="mid")).settle()
    assert world.place("a") is QueueState.GATED
    assert world.entity("a").gate.reason == MISSING.format("root")
    world.add(composite("root")).settle()
    assert len(world.where) == 2


def test_gated_pods_name_the_ancestor_that_is_missing_now() -> None:
    """composite.md 2.2: whichever comes first."""
    world = World(node("n"), *leaf("a", 1, parent="mid")).settle()
    assert world.entity("a").gate.reason == MISSING.format("mid")
    world.add(composite("mid", parent="root")).settle()
    assert world.entity("a").gate.reason == MISSING.format("root")
    world.add(composite("root", parent="mid")).settle()
    assert "form a cycle" in world.entity("a").gate.reason


def test_root_that_goes_takes_its_tree_apart() -> None:
    """composite.md 2.2: and it comes back whole."""
    world = World(node("n", cpu=1), composite("root"), *leaf("a", 1), *leaf("b", 2)).settle()
    assert world.pending == ["b-0", "b-1"]
    world.engine.remove(ObjectRef("CompositePodGroup", "default/root"), world.now)
    assert world.entity("b").gate.reason == MISSING.format("root")
    world.settle()
    world.add(composite("root"), node("m", cpu=2)).settle()
    assert world.pending == []


def test_tree_without_its_root_gives_its_nominations_back() -> None:
    """composite.md 2.2: its pods wait for the root, and others may use the capacity."""
    world = World(
        node("n", cpu=2), pod("low", cpu=2, node="n"), composite("root", priority=5), *leaf("a", 2, priority=5)
    )
    world.step()
    assert {one.name for one in world.engine.cluster.nodes.nominated[0].values()} == {"a-0", "a-1"}
    world.engine.remove(ObjectRef("CompositePodGroup", "default/root"), world.now)
    assert not world.engine.cluster.nodes.nominated


def test_root_waits_for_its_second_group() -> None:
    """composite.md 6.1: the second leaf wakes all."""
    world = World(node("n"), composite("root", min_groups=2), *leaf("a", 2)).settle()
    assert world.place("root") is QueueState.GATED
    assert world.entity("root").gate.reason == QUORUM
    world.add(*leaf("b", 2)).settle()
    assert len(world.where) == 4


def test_three_of_four_pods_wait() -> None:
    """composite.md 6.1."""
    world = World(node("n"), composite("root"), *leaf("a", 3, min_count=4)).settle()
    assert world.entity("root").gate.reason == QUORUM
    world.add(pod("a-3", group="a", cpu=1)).settle()
    assert len(world.where) == 4


@pytest.mark.parametrize("where", ["root", "mid"])
def test_lower_count_wakes(where: str) -> None:
    """composite.md 2.5, 6.1: at the root or in the middle."""
    counts = {"root": 1, "mid": 1, where: 2}
    world = World(
        node("n"),
        composite("root", min_groups=counts["root"]),
        composite("mid", min_groups=counts["mid"], parent="root"),
        *leaf("a", 2, parent="mid"),
    ).settle()
    assert world.entity("root").gate.reason == QUORUM
    world.add(composite(where, min_groups=1, parent="root" if where == "mid" else "")).settle()
    assert len(world.where) == 2


@pytest.mark.parametrize(("count", "woken"), [(1, True), (3, False)])
def test_tree_that_failed_is_woken_by_a_lower_count_alone(count: int, woken: bool) -> None:
    """composite.md 2.5."""
    world = World(node("n", cpu=2), composite("root", min_groups=2), *leaf("a", 2), *leaf("b", 2), *leaf("c", 2))
    world.settle()
    attempts = len(world.engine.decisions)
    world.add(composite("root", min_groups=count)).settle()
    assert (len(world.engine.decisions) > attempts) is woken
    assert (len(world.where) == 2) is woken


def test_ready_leaf_goes_without_the_subtree_that_is_not() -> None:
    """composite.md 2.4, 6.2."""
    items = [composite("root", min_groups=1), composite("mid", min_groups=2, parent="root")]
    world = World(node("n"), *items, *leaf("a", 1, parent="mid"), *leaf("b", 2)).settle()
    assert world.where == {"b-0": "n", "b-1": "n"}


def test_cousins_go_together() -> None:
    """composite.md 6.2."""
    mids = [composite(name, min_groups=1, parent="root") for name in ("left", "right")]
    items = [composite("root", min_groups=2), *mids, *leaf("a", 2, parent="left"), *leaf("b", 2, parent="right")]
    assert World(node("n", cpu=3), *items).settle().where == {}
    assert len(World(node("n", cpu=4), *items).settle().where) == 4


def test_parent_that_is_its_own_grandchild_is_never_scheduled() -> None:
    """composite.md 2.2, 6.2: and that is reported."""
    ring = [composite("root", parent="mid"), composite("mid", parent="root")]
    world = World(node("n"), *ring, *leaf("a", 1, parent="mid"), pod("other", cpu=1)).settle()
    assert world.where == {"other": "n"}
    assert world.entity("a").gate.reason == "composite pod groups form a cycle: mid -> root -> mid"
    world.add(composite("root")).settle()
    assert world.pending == []


def test_tree_with_a_branch_of_more_than_four_levels_waits_as_a_whole() -> None:
    """composite.md 2.2: every group says so, and it is scheduled when the branch is gone."""
    chain = [composite(f"c{i}", parent=f"c{i - 1}" if i else "") for i in range(4)]
    world = World(node("n"), *chain, *leaf("b", 1, parent="c2")).settle()
    assert world.where == {"b-0": "n"}
    deep, member = leaf("a", 1, parent="c3")
    world.add(deep, member, pod("b-1", group="b", cpu=1)).settle()
    assert world.where == {"b-0": "n"}
    wrong = "maximum depth of composite pod groups is 4: c0 -> c1 -> c2 -> c3 -> a"
    assert world.entity("a").gate.reason == wrong
    decision = world.engine.decisions[-1]
    assert [(one.pod.name, one.reason, one.message) for one in decision.rejections] == [("b-1", SCHEDULER_ERROR, wrong)]
    said = {(one.group, one.reason, one.message) for one in decision.conditions}
    composites = {(f"default/c{i}", "Invalid", wrong) for i in range(3)}
    assert said == composites | {("default/b", SCHEDULER_ERROR, wrong)}
    world.engine.remove(ObjectRef("PodGroup", "default/a", deep.metadata.uid), world.now)
    world.settle()
    assert world.where == {"b-0": "n", "b-1": "n"}


def test_tree_of_two_workloads_is_invalid() -> None:
    """composite.md 5.1: the message names a group of each."""
    other = group("b", min_count=1, parent="root", workload="other")
    world = World(node("n"), composite("root"), *leaf("a", 1), other, pod("b-0", group="b", cpu=1))
    decision = world.step()
    wrong = 'all pod groups in a hierarchy should be of the same Workload, got "other" ("b") and "workload" ("root")'
    assert {one.message for one in decision.rejections} == {wrong}
    assert {one.group: one.reason for one in decision.conditions}["default/root"] == "Invalid"
    assert world.where == {}


def test_node_wakes_the_tree() -> None:
    """composite.md 6.2."""
    world = World(node("n", cpu=2), composite("root", min_groups=2), *leaf("a", 2), *leaf("b", 2)).settle()
    world.add(node("m", cpu=2)).settle()
    assert len(world.where) == 4


def test_gated_pods_are_not_counted_on() -> None:
    """A pod that is kept back by a scheduling gate is there for the quorum, and the tree waits with it."""
    items = [composite("root", min_groups=2), *leaf("a", 1), group("b", min_count=1, parent="root")]
    world = World(node("n"), *items, pod("b-0", group="b", cpu=1, gates=["g"])).settle()
    assert world.where == {}
    assert world.place("root") is QueueState.GATED
    world.change_pod("b-0", lambda p: objects_without_gates(p)).settle()
    assert len(world.where) == 2


def objects_without_gates(item: objects.Pod) -> objects.Pod:
    from msgspec.structs import replace as changed

    return changed(item, spec=changed(item.spec, scheduling_gates=()))


def test_tree_queues_with_the_priority_of_its_root() -> None:
    """composite.md 2.1."""
    world = World(node("n", cpu=2), *gang("flat", 2, cpu=1, priority=5), composite("root", priority=9))
    world.add(*leaf("a", 2, priority=9)).settle()
    assert sorted(world.where) == ["a-0", "a-1"]


def test_leaves_are_flat_with_the_gate_off() -> None:
    """composite.md 5.3."""
    gates = replace(FeatureGates(), composite_pod_group=False)
    items = [composite("root", min_groups=2, priority=7), *leaf("a", 2), *leaf("b", 2)]
    world = World(node("n", cpu=3), *items, gates=gates).settle()
    assert sorted(world.where) == ["a-0", "a-1"]
    assert world.engine.cluster.trees.composites == {}


# -- everything wants the same -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("never", "agree"), [((True, False), False), ((True, True), True)])
def test_without_the_gate_the_members_of_a_tree_agree(never: tuple[bool, bool], agree: bool) -> None:
    """composite.md 3.1, preemption.md 8.4: the policies of its groups do not count, those of the pods do."""
    groups = [composite("root", policy="PreemptLowerPriority"), group("a", parent="root", policy="Never")]
    pods = [pod(name, group="a", never=one) for name, one in zip("pq", never, strict=True)]
    world = World(node("n"), *groups, *pods, gates=FeatureGates(pod_group_preemption_policy=False)).settle()
    text = "all pods in a pod group hierarchy should have the same preemption policy, got"
    wrong = {f'{text} PreemptLowerPriority ("q") and Never ("p")'}
    assert {one.message for one in world.virtual.rejections.values()} == (set() if agree else wrong)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (
            [composite("root", priority=9), *gang("a", 1, parent="root", priority=8)],
            "all pod groups in a hierarchy should have the same priority as the root pod group's priority, "
            'got 8 ("a") and 9 ("root")',
        ),
        (
            [composite("root", priority=9), group("a", parent="root", priority=9), pod("p", group="a", priority=8),
             pod("q", group="a", priority=9)],
            "all pods in a pod group hierarchy should have the same priority as the root pod group's priority, "
            'got 8 ("p") and 9 ("root")',
        ),
        (
            [composite("root", policy="Never"), group("a", parent="root", policy="PreemptLowerPriority"),
             pod("p", group="a")],
            "all pod groups in a hierarchy should have the same preemption policy as the root pod group's preemption "
            'policy, got PreemptLowerPriority ("a") and Never ("root")',
        ),
        (
            [composite("root", policy="Never"), group("a", parent="root", policy="Never"), pod("p", group="a")],
            "all pods in a pod group hierarchy should have the same preemption policy as the root pod group's "
            'preemption policy, got PreemptLowerPriority ("p") and Never ("root")',
        ),
        (
            [composite("root"), group("a", parent="root"), pod("p", group="a", node="n", scheduler="other"),
             pod("q", group="a")],
            'all pods in a pod group hierarchy should have the same .spec.schedulerName set, got: "other" ("p") and '
            '"default-scheduler" ("q")',
        ),
    ],
)  # fmt: skip
def test_conflicting_members_are_an_error(items: list[Item], message: str) -> None:
    """composite.md 3.1: SchedulerError on all pods and all groups."""
    world = World(node("n"), *items).settle()
    errors = {r.message for r in world.virtual.rejections.values()}
    assert errors == {message}
    assert set(conditions(world).values()) == {(False, "SchedulerError")}
    assert world.condition("a")[2] == world.condition("root")[2] == message


@pytest.mark.parametrize("priority", [None, 9])
@pytest.mark.parametrize("named_by", ["", "pod", "root", "leaf"])
@pytest.mark.parametrize("members", [1, 2])
def test_numbers_that_no_class_gave_bind_a_lone_member_to_its_root(
    members: int, named_by: str, priority: int | None
) -> None:
    """composite.md 3.1, preemption.md 8.3: as in a flat group; a root without a priority has nothing to compare."""
    root, one = composite("root", priority=priority), group("a", priority=priority, parent="root")
    if named_by == "root":
        root = replace_struct(root, spec=replace_struct(root.spec, priority_class_name="urgent"))
    if named_by == "leaf":
        one = replace_struct(one, spec=replace_struct(one.spec, priority_class_name="urgent"))
    world = World(node("n"), root, one)
    world.add(
        *(pod(name, group="a", priority=2, priority_class="modest" * (named_by == "pod")) for name in "pq"[:members])
    )
    bound = priority is not None and (members > 1 or bool(named_by))
    assert bool(world.settle().where) is not bound
    if bound:
        assert world.rejection("p")[0] == "SchedulerError"
        assert world.rejection("p")[1].endswith('got 2 ("p") and 9 ("root")')


def test_tree_of_several_workloads_is_invalid() -> None:
    """composite.md 5.1."""
    items = [composite("root"), group("a", parent="root", workload="other"), pod("p", group="a")]
    world = World(node("n"), *items).settle()
    assert conditions(world) == {"root": (False, "Invalid"), "a": (False, "SchedulerError")}
    assert world.where == {}


# -- placements ----------------------------------------------------------------------------------------------------


def test_both_racks_of_one_block() -> None:
    """composite.md 6.3."""
    items = [
        composite("root", min_groups=2, topology="block"),
        *leaf("x", 5, topology="rack"),
        *leaf("y", 5, topology="rack"),
    ]
    world = World(*racks(a1=3, a2=5, b1=5, b2=5), *items).settle()
    assert set(world.where.values()) == {"n-b1", "n-b2"}
    assert len({world.where[f"x-{i}"] for i in range(5)}) == 1
    assert World(*racks(a1=3, a2=5, b1=5, b2=4), *items).settle().where == {}


def test_placement_is_found_within_the_one_above() -> None:
    """composite.md 3.2: three levels of constraints; a leaf without one goes anywhere its parent is."""
    nodes = [
        node(f"n{i}", cpu=2, labels={"zone": f"z{i // 4}", "block": f"b{i // 2}", "rack": f"r{i}"}) for i in range(8)
    ]
    items = [
        composite("root", min_groups=2, topology="zone"),
        composite("mid", min_groups=2, topology="block", parent="root"),
        *leaf("a", 2, parent="mid", topology="rack"),
        *leaf("b", 2, parent="mid", topology="rack"),
        *leaf("c", 3),
    ]
    world = World(*nodes, pod("there", cpu=1, node="n0"), pod("here", cpu=1, node="n2"), *items).settle()
    rows = {name: int(where[1:]) for name, where in world.where.items() if name not in ("there", "here")}
    assert len(rows) == 7
    assert {row // 4 for row in rows.values()} == {1}
    assert len({rows[f"{leaf}-{i}"] // 2 for leaf in "ab" for i in range(2)}) == 1


def test_none_of_several_placements_works() -> None:
    """composite.md 3.2: the first one tried makes the messages."""
    items = [composite("root", min_groups=2, topology="block"), *leaf("x", 4), *leaf("y", 4)]
    world = World(*racks(a1=5, b1=5), *items).settle()
    assert world.condition("root")[2].startswith("0/2 placements are available, first placement status: minCount (2)")


def test_those_that_come_later_follow_those_that_run() -> None:
    """composite.md 3.2: the placement of a tree of which a part runs is where that runs."""
    items = [composite("root", topology="block"), group("x", parent="root"), group("y", parent="root")]
    world = World(*racks(a1=1, b1=5), *items, pod("x-0", group="x", cpu=1, node="n-b1"), pod("y-0", group="y", cpu=1))
    assert world.settle().where["y-0"] == "n-b1"
    world.add(pod("x-1", group="x", cpu=1, node="n-a1"), pod("y-1", group="y", cpu=1)).settle()
    assert world.rejection("y-1")[0] == "SchedulerError"


# -- treeSearch ----------------------------------------------------------------------------------------------------


def retrying() -> dict[str, Any]:
    profile = profile_with(GangScheduling(RETRY))
    return {"profiles": {profile.name: profile}}


def test_early_sibling_takes_more_than_its_minimum() -> None:
    """composite.md 3.5: held to the minimum first, then filled up."""
    items = [composite("root", min_groups=2), *leaf("a", 4, min_count=2), *leaf("b", 3, min_count=2)]
    greedy = World(node("n", cpu=4), *items).settle()
    assert greedy.where == {}
    found = greedy.engine.decisions[-1]
    assert found.order_matters is not None
    world = World(node("n", cpu=4), *items, **retrying()).settle()
    assert sorted(world.where) == ["a-0", "a-1", "b-0", "b-1"]
    world = World(node("n", cpu=5), *items, **retrying()).settle()
    assert sorted(world.where) == ["a-0", "a-1", "a-2", "b-0", "b-1"]


def test_child_that_is_complete_already_is_held_to_what_runs() -> None:
    """composite.md 3.5: it needs no more members, and is filled up when its sibling has its minimum."""
    running = [pod(f"r-{turn}", group="a", cpu=1, node="n") for turn in range(2)]
    items = [composite("root", min_groups=2), *leaf("a", 2, min_count=2), *running, *leaf("b", 2)]
    assert World(node("n", cpu=4), *items).settle().pending == ["a-0", "a-1", "b-0", "b-1"]
    world = World(node("n", cpu=4), *items, **retrying()).settle()
    assert world.pending == ["a-0", "a-1"]
    assert World(node("n", cpu=5), *items, **retrying()).settle().pending == ["a-1"]


def test_third_group_is_filled_up_where_there_is_room() -> None:
    """composite.md 3.5: groups beyond the minimum too, within the placements that were chosen."""
    mid = composite("mid", min_groups=1, parent="root", topology="block")
    items = [
        composite("root", min_groups=2),
        mid,
        *leaf("a", 3, parent="mid"),
        *leaf("b", 3, parent="mid"),
        *leaf("c", 3),
    ]
    assert World(*racks(a1=6), *items).settle().where == {}
    world = World(*racks(a1=6), *items, **retrying()).settle()
    assert sorted({name[0] for name in world.where}) == ["a", "c"]
    world = World(*racks(a1=6, b1=3), *items, **retrying()).settle()
    assert len(world.where) == 9


def test_held_to_the_minimum_and_in_another_order_at_once() -> None:
    """composite.md 3.5: the first leaf has to leave room, and the second has to be tried the other way round."""
    nodes = [node("wide", cpu=40, pods=2), node("n0", cpu=4), node("n1", cpu=4)]
    spread = [pod(f"b-{turn}", group="b", cpu=cpu) for turn, cpu in enumerate((2, 2, 4))]
    items = [
        composite("root", min_groups=2),
        *leaf("a", 4, min_count=2),
        group("b", min_count=3, parent="root"),
        *spread,
    ]
    assert World(*nodes, *items).settle().where == {}
    world = World(*nodes, *items, **retrying()).settle()
    assert sorted(world.where) == ["a-0", "a-1", "b-0", "b-1", "b-2"]
    assert [level.succeeded for level in world.engine.decisions[0].levels] == [2, 2, 3]


def test_every_level_counts_what_was_filled_up() -> None:
    """composite.md 3.3, 3.5: as many as are placed in the end, and failed children by name."""
    mid = composite("mid", min_groups=1, parent="root")
    items = [
        composite("root", min_groups=2),
        mid,
        *leaf("a", 2, parent="mid"),
        *leaf("b", 2, parent="mid"),
        *leaf("c", 4),
    ]
    (decision,) = [World(node("n", cpu=7), *items, **retrying()).step()]
    assert [level.needed for level in decision.levels] == [2, 1, 2, 2, 4]
    assert [
        (level.group, level.ok, level.succeeded, level.total, level.failed_groups) for level in decision.levels
    ] == [
        ("default/root", True, 2, 2, ()),
        ("default/mid", True, 1, 2, ("b",)),
        ("default/a", True, 2, 2, ()),
        ("default/b", False, 1, 2, ()),
        ("default/c", True, 4, 4, ()),
    ]


def test_room_is_made_where_the_only_group_below_has_to_be() -> None:
    """preemption.md 4, composite.md 3.2: the constraint of a tree's only branch says where, whichever level has it."""
    for branch in (
        [composite("root"), *leaf("a", 2, topology="rack", priority=5)],
        [composite("root", priority=5), composite("mid", parent="root", topology="rack", priority=5)],
    ):
        if len(branch) == 2:
            branch += leaf("a", 2, parent="mid", priority=5)
        else:
            branch[0] = composite("root", priority=5)
        full = [
            pod(f"r-{rack}", cpu=cpu, node=f"n-{rack}", priority=low) for rack, cpu, low in (("a1", 2, 3), ("b1", 2, 1))
        ]
        world = World(*racks(a1=2, b1=2), *full, *branch).settle()
        assert world.evicted == ["r-b1"]
        assert set(world.where.values()) == {"n-a1", "n-b1"}
        assert {world.where[f"a-{turn}"] for turn in range(2)} == {"n-b1"}
