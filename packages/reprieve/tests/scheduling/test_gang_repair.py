"""Gangs that lost members get them back first (repair.md)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.meta import ObjectRef
from reprieve.cluster.evictions import EvictedUnit, EvictionHistory, EvictionLimit
from reprieve.framework.gates import FeatureGates
from reprieve.plugins.gang_scheduling import GangScheduling, RepairOptions
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.options import PreemptionOptions
from reprieve.scheduling import gang_repair
from reprieve.scheduling.decision import Result
from reprieve.scheduling.gang_health import Satisfaction
from reprieve.scheduling.gang_repair import repair_options
from reprieve.scheduling.profiles import profiles_of
from tests.building import START, World, annotated, composite, gang, group, node, pdb, pod, priority_class, profile_with
from tests.scheduling.configuration_text import read


def world_of(*items: Any, **options: Any) -> World:
    profile = profile_with(GangScheduling(repair=RepairOptions(**options)))
    return World(*items, profiles={profile.name: profile})


def broken(*more: Any, size: int = 2, **options: Any) -> World:
    """A gang of pods of 4 CPUs that fills its nodes, and another pod that waits when it loses `train-0`."""
    nodes = [node(f"n{i}", cpu=4) for i in range(size)]
    world = world_of(nodes, gang("train", size, cpu=4), **options).drain()
    world.add(pod("other", cpu=4), *more).drain()
    return world.gone("train-0").drain()


def health(world: World) -> Satisfaction:
    return world.virtual.satisfaction["default/train"]


def said(world: World) -> tuple[bool, str, str]:
    state = health(world)
    return state.satisfied, state.reason, state.message


def kept(world: World) -> list[str]:
    return [place.node for places in world.engine.repair.places.by_group.values() for place in places]


def free(world: World) -> bool:
    """Nothing is kept, and no nomination is left of it."""
    return not kept(world) and not world.engine.cluster.nodes.nominated


def test_replacement_gets_the_node_back_before_one_that_has_waited() -> None:
    """repair.md 1.1, 2.1, 2.2, 2.3"""
    world = broken()
    assert world.pending == ["other"]
    assert said(world) == (False, "BelowMinCount", "1 of 2 members scheduled")
    assert kept(world) == ["n0"]
    attempts = world.engine.attempts
    world.add(pod("train-2", cpu=4, group="train")).drain()
    assert world.where == {"train-1": "n1", "train-2": "n0"}
    assert world.engine.attempts == attempts + 1
    assert said(world) == (True, "MinCountSatisfied", "2 of 2 members scheduled")
    assert free(world)


def test_nothing_is_kept_for_longer() -> None:
    """repair.md 2.5"""
    world = broken()
    world.virtual.until(START + 59)
    assert world.pending == ["other"]
    world.virtual.until(START + 70)
    assert world.where["other"] == "n0"
    assert free(world)


def test_nothing_is_kept_of_what_was_lost_too_long_ago() -> None:
    """repair.md 2.2, 2.5: a standby learns of it, and takes over later."""
    world = world_of([node("n0", cpu=4), node("n1", cpu=4)], gang("train", 2, cpu=4)).drain().gone("train-0")
    assert not world.engine.tick(world.now + 60).lost_places
    assert free(world)


def test_replacement_that_is_too_late_waits_in_front() -> None:
    """repair.md 2.1, 2.5"""
    world = broken(seconds=0)
    world.virtual.until(START + 20)
    assert world.where["other"] == "n0"
    world.add(pod("later", cpu=4), pod("train-2", cpu=4, group="train")).drain()
    world.gone("other").virtual.until(START + 400)
    assert world.where == {"train-1": "n1", "train-2": "n0"}


def test_waits_in_its_turn_where_it_is_off() -> None:
    """repair.md 2.7"""
    world = broken(seconds=0, first=False)
    world.virtual.until(START + 20)
    world.add(pod("later", cpu=4), pod("train-2", cpu=4, group="train")).drain()
    world.gone("other").virtual.until(START + 400)
    assert world.where == {"train-1": "n1", "later": "n0"}


@pytest.mark.parametrize(
    ("args", "compatible", "options"),
    [
        ("{}", False, RepairOptions(True, 60.0, 300.0)),
        ("{repairFirst: false, repairSeconds: 5, degradedSeconds: 7}", False, RepairOptions(False, 5.0, 7.0)),
        ("{repairSeconds: 5}", True, RepairOptions(False, 0.0, 0.0)),
    ],
)
def test_configuration(args: str, compatible: bool, options: RepairOptions) -> None:
    """repair.md 2.7"""
    file = read(f"profiles: [{{pluginConfig: [{{name: GangScheduling, args: {args}}}]}}]")
    [profile] = profiles_of(file, FeatureGates(), compatible=compatible)
    assert repair_options(profile) == options


def test_higher_priorities_use_what_is_kept_and_lower_ones_do_not() -> None:
    """repair.md 2.4"""
    world = broken(pod("low", cpu=4, priority=-1))
    assert world.pending == ["low", "other"]
    world.add(pod("high", cpu=4, priority=1)).drain()
    assert world.where == {"high": "n0", "train-1": "n1"}


def _cordon(world: World) -> None:
    world.add(node("n0", cpu=4, unschedulable=True))


def _lower(world: World) -> None:
    world.add(group("train", min_count=1))


def _delete_group(world: World, name: str = "train") -> None:
    world.virtual.keep_effects(world.engine.remove(ObjectRef("PodGroup", f"default/{name}"), world.now))


def _remove_node(world: World) -> None:
    world.virtual.lose_node("n0")


def _all_gone(world: World) -> None:
    for name in [name for name in (*world.where, *world.pending) if name.startswith("train")]:
        world.gone(name)


_NO_NODE = "the gang has no members, or the node takes no pods"


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (_cordon, [_NO_NODE]),
        (_lower, ["the gang has its minimum"]),
        (_delete_group, ["podgroup default/train is deleted"]),
        (_remove_node, ["the node is gone"]),
        (_all_gone, ["pod default/train-3 is gone"]),
    ],
)
@pytest.mark.parametrize("replaced", [False, True])
def test_what_ends_it(change: Callable[[World], None], reported: list[str], replaced: bool) -> None:
    """repair.md 2.5, 2.6: the API has a nomination of the replacement alone."""
    world = broken(size=3)
    if replaced:  # it waits for the other one
        world.gone("train-1").drain()
        world.add(pod("train-3", cpu=4, group="train")).drain()
        assert world.nominated == {"train-3": "n0"}
    assert kept(world)
    change(world)
    world.drain()
    assert "n0" not in kept(world)
    assert "n0" not in world.nominated.values()
    assert [released.message for released in world.released()] == (reported if replaced else [])


def test_members_that_have_succeeded_are_not_lost() -> None:
    """repair.md 1.3, 2.5"""
    world = world_of([node("n0", cpu=4), node("n1", cpu=4)], gang("train", 2, cpu=4)).drain()
    world.add(pod("other", cpu=4)).drain()
    for name in ("train-0", "train-1"):
        done = world.objects[world.record(name).uid]
        world.virtual.keep_effects(
            world.engine.set(replace(done, status=replace(done.status, phase="Succeeded")), world.now)
        )
        world.drain()
        assert free(world)
    assert health(world).satisfied
    world.virtual.until(START + 20)
    assert world.where == {"other": "n0"}


@pytest.mark.parametrize(("size", "done", "counted"), [(3, 1, "1 has"), (4, 2, "2 have")])
@pytest.mark.parametrize("how", ["there", "deleted", "reported"])
def test_members_that_have_succeeded_count(size: int, done: int, counted: str, how: str) -> None:
    """repair.md 1.3: each once, whether their pods are still there, are deleted, or were reported before that."""
    world = world_of([node(f"n{i}", cpu=4) for i in range(size)], gang("train", size, cpu=4)).drain()
    for item in [world.objects[world.record(f"train-{i}").uid] for i in range(done)]:
        if how == "reported":
            world.engine.record_success(item.metadata.uid)
        else:
            world.engine.set(replace(item, status=replace(item.status, phase="Succeeded")), world.now)
        if how != "there":
            world.engine.remove(ObjectRef("Pod", uid=item.metadata.uid), world.now)
    world.gone(f"train-{done}").drain()
    assert said(world) == (False, "BelowMinCount", f"1 of {size} members scheduled, {counted} succeeded")


def test_replaced_member_counts_instead_of_the_one_that_has_succeeded() -> None:
    """repair.md 1.3: as many members exist as the gang needs."""
    world = world_of([node(f"n{i}", cpu=4) for i in range(3)], gang("train", 3, cpu=4)).drain()
    world.engine.record_success(world.record("train-0").uid)
    world.gone("train-0").add(pod("train-3", cpu=4, group="train")).drain()
    world.gone("train-1").add(pod("train-4", cpu=9, group="train")).drain()
    assert said(world) == (False, "BelowMinCount", "2 of 3 members scheduled")


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("least", [2, 3])
def test_another_object_of_the_same_name_is_another_gang(once: bool, least: int) -> None:
    """repair.md 1.2, 1.3: it is degraded if its own conditions state that it was scheduled, also with the same spec."""
    world = world_of([node(f"n{i}", cpu=4) for i in range(3)], gang("train", 3, cpu=4)).drain()
    world.engine.record_success(world.record("train-0").uid)
    world.gone("train-0").gone("train-1").drain()
    assert said(world)[2] == "1 of 3 members scheduled, 1 has succeeded"
    since = objects.Condition(type="PodGroupInitiallyScheduled", status="True", reason="Scheduled")
    made = group("train", min_count=least)
    made = replace(made, metadata=replace(made.metadata, uid="another"))
    world.add(replace(made, status=replace(made.status, conditions=(since,))) if once else made)
    world.virtual.keep_effects(world.engine.tick(START))
    assert ("default/train" in world.engine.repair.health.degraded) is once
    assert not once or said(world)[2] == f"1 of {least} members scheduled"


def test_tree_is_first_while_one_of_its_gangs_is_degraded() -> None:
    """repair.md 1.4, 2.1"""
    leaves = [group(name, min_count=2, parent="tree") for name in "ab"]
    pods = [pod(f"{name}-{i}", cpu=1, node="n0", group=name) for name in "ab" for i in range(2)]
    world = world_of(node("n0"), composite("tree"), leaves, pods, seconds=0).drain()
    world.gone("a-0").gone("b-0").drain()
    world.add(pod("other", cpu=9), pod("a-9", cpu=9, group="a"))

    def tree_is_first() -> bool:
        order = world.engine.queue.order
        return order(world.entity("tree")) < order(world.entity("other"))

    world.engine.tick(START)
    assert tree_is_first()
    first = []
    for name in "ab":
        world.add(pod(f"{name}-1-again", cpu=1, node="n0", group=name))
        world.engine.tick(START)
        first.append(tree_is_first())
    assert first == [True, False]


@pytest.mark.parametrize(("later", "known"), [(60, 2), (61, 1)])
def test_standby_forgets_losses_that_are_too_old(later: int, known: int) -> None:
    """repair.md 2.2: of the time for which their capacity would be reserved."""
    world = world_of([node("n0"), node("n1")], gang("train", 3, cpu=2)).drain()
    for turn, now in enumerate((START, START + later)):
        world.engine.remove(ObjectRef("Pod", uid=f"uid-train-{turn}"), now)
    assert len(world.engine.repair.places._losses) == known


def test_standby_forgets_groups_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """scheduling.md 1: it runs no attempt."""
    monkeypatch.setattr(gang_repair, "_FEWEST_KEPT", 2)
    world = world_of(node("n0"))
    for turn in range(9):
        world.add(group(f"g{turn}", min_count=1), pod(f"p{turn}", cpu=1, node="n0", group=f"g{turn}"))
        world.engine.record_success(world.record(f"p{turn}").uid)
        _delete_group(world, f"g{turn}")
        world.gone(f"p{turn}")
    assert len(world.engine.queue.changed_groups) <= 3
    assert len(world.engine.repair.health._gangs) <= 3


@pytest.mark.parametrize("group", ["train", "other"])
def test_member_that_is_first_seen_when_it_has_succeeded_counts(group: str) -> None:
    """repair.md 1.3: its pod ended while no scheduler ran."""
    world = world_of([node("n0", cpu=4), node("n1", cpu=4)], gang("train", 2, cpu=4)).drain()
    done = pod("train-2", cpu=4, node="n0", group=group)
    world.engine.set(replace(done, status=replace(done.status, phase="Succeeded")), world.now)
    world.gone("train-0").drain()
    assert health(world).satisfied is (group == "train")


def test_pod_that_is_deleted_has_not_succeeded() -> None:
    """Its containers may end well (repair.md 1.3)."""
    world = world_of([node("n0", cpu=4), node("n1", cpu=4)], gang("train", 2, cpu=4)).drain()
    deleted = world.objects[world.record("train-0").uid]
    deleted = replace(
        deleted,
        metadata=replace(deleted.metadata, deletion_timestamp=datetime.fromtimestamp(START + 1, UTC)),
        status=replace(deleted.status, phase="Succeeded"),
    )
    world.virtual.keep_effects(world.engine.set(deleted, world.now))
    world.drain()
    assert kept(world) == ["n0"]


def test_pods_that_were_preempted_leave_nothing_behind() -> None:
    """repair.md 2.6"""
    world = world_of([node("n0", cpu=4), node("n1", cpu=4)], gang("train", 2, cpu=4)).drain()
    world.add(pod("high", cpu=4, priority=1)).settle()
    assert "high" in world.where
    assert free(world)
    assert said(world)[0] is False


def test_replacements_go_where_the_same_index_was() -> None:
    """repair.md 2.3"""
    index = "batch.kubernetes.io/job-completion-index"

    def member(name: str, number: int) -> objects.Pod:
        return pod(name, cpu=4, group="train", labels={index: str(number)})

    nodes = [node(f"n{i}", cpu=4) for i in range(3)]
    world = world_of(nodes, group("train", min_count=3), [member(f"train-{i}", i) for i in range(3)]).drain()
    before = dict(world.where)
    world.gone("train-0").gone("train-1").drain()
    world.add(member("b", 1)).drain()
    assert world.nominated == {"b": before["train-1"]}
    world.add(member("a", 0)).drain()
    assert (world.where["a"], world.where["b"]) == (before["train-0"], before["train-1"])


def test_replacement_may_go_elsewhere_and_does_not_stand_in_its_own_way() -> None:
    """repair.md 2.3"""
    world = world_of(node("n0", cpu=8), node("n1", cpu=4), gang("train", 2, cpu=4)).drain()
    lost = next(name for name in ("train-0", "train-1"))
    world.gone(lost).drain()
    world.add(pod("larger", cpu=8, group="train")).drain()
    assert ("larger" in world.where) == (world.where.get("train-1") == "n1")


def test_what_is_kept_for_a_gang_does_not_keep_its_larger_replacement_out() -> None:
    """repair.md 2.3: the places of both lost members together."""
    nodes = [node("n0", cpu=4), node("n1", cpu=2)]
    members = [pod(name, cpu=2, group="train", node=on) for name, on in (("a", "n0"), ("b", "n0"), ("c", "n1"))]
    world = world_of(nodes, group("train", min_count=2), members).drain()
    world.gone("a").gone("b").drain()
    assert kept(world) == ["n0", "n0"]
    world.add(pod("large", cpu=4, group="train")).drain()
    assert world.where == {"c": "n1", "large": "n0"}
    assert free(world)


def test_what_is_kept_is_reported_once_and_again_when_the_replacement_has_it() -> None:
    """repair.md 2.3, 3.4"""
    world = broken(size=3)
    world = world.gone("train-1")
    [place] = world.engine.tick(world.now).lost_places
    assert (place.node, place.lost.name, place.replaced) == ("n1", "train-1", False)
    world.add(pod("train-1", cpu=4, group="train"))
    [place] = world.engine.tick(world.now).lost_places
    assert (place.node, place.keeper, place.replaced) == ("n1", world.record("train-1"), True)
    assert world.engine._nominations.stands_in_api(place.keeper)


def test_replacement_that_is_there_at_once_is_reported_alone() -> None:
    """repair.md 2.3, 3.4"""
    world = world_of([node("n0", cpu=4), node("n1", cpu=4)], gang("train", 2, cpu=4)).drain()
    world.gone("train-0").add(pod("train-2", cpu=4, group="train"))
    assert [place.keeper for place in world.engine.tick(world.now).lost_places] == [world.record("train-2")]


def test_first_of_several_replacements_has_the_place() -> None:
    """repair.md 2.3: in the order of the queue, whatever order they are learned of in."""
    world = broken(size=3)
    late, early = (pod(name, cpu=4, group="train") for name in ("late", "early"))
    world.add((late, START + 9), (early, START + 8))
    world.engine.tick(world.now)
    assert world.nominated == {"early": "n0"}


@pytest.mark.parametrize(
    ("lost", "replacement", "fits"),
    [("0", "0", True), ("0", "1", False), ("0", None, False), (None, "0", False), (None, None, True)],
)
def test_index_of_a_replacement_is_that_of_the_lost_member(
    lost: str | None, replacement: str | None, fits: bool
) -> None:
    """repair.md 2.3: if either has one."""

    def member(name: str, index: str | None, on: str = "") -> objects.Pod:
        labels = {"batch.kubernetes.io/job-completion-index": index} if index is not None else {}
        return pod(name, cpu=4, group="train", labels=labels, node=on)

    nodes = [node("n0", cpu=4), node("n1", cpu=4)]
    world = world_of(nodes, group("train", min_count=2), member("a", lost, "n0"), member("b", "7", "n1")).drain()
    world.gone("a").add(member("c", replacement))
    world.engine.tick(world.now)
    assert ("c" in world.nominated) == fits


def test_place_is_kept_when_the_cluster_learns_of_more_resources() -> None:
    """repair.md 2.4: what is kept counts against an attempt that has a number for each of them."""
    world = broken(seconds=600.0)
    many = {f"example.com/r{number}": 1 for number in range(40)}
    world.add(node("n9", cpu=1, more=many), pod("more", cpu=4, more=many)).drain()
    assert world.pending == ["more", "other"]
    assert "Insufficient cpu" in world.message("more")


def nominated_before(**options: Any) -> World:
    """A degraded gang with a pending member, which an earlier scheduler nominated to n0."""
    since = objects.Condition(type="PodGroupInitiallyScheduled", status="True", reason="Scheduled")
    made = group("train", min_count=3)
    made = replace(made, status=replace(made.status, conditions=(since,)))
    running = pod("train-2", cpu=4, group="train", node="n2")
    waits = pod("train-0", cpu=4, group="train")
    waits = replace(waits, status=replace(waits.status, nominated_node_name="n0"))
    nodes = [node(f"n{i}", cpu=4) for i in range(3)]
    return world_of(nodes, made, running, waits, **options)


@pytest.mark.parametrize(("seconds", "places"), [(0, []), (1, ["n0"])])
def test_restart_of_the_scheduler_keeps_nothing_where_that_is_off(seconds: int, places: list[str]) -> None:
    """repair.md 2.7, 2.8"""
    world = nominated_before(seconds=seconds)
    world.engine.complete(START)
    assert kept(world) == places


@pytest.mark.parametrize("standby", [False, True], ids=["started", "was a standby"])
def test_restart_of_the_scheduler_keeps_what_the_api_has(standby: bool) -> None:
    """repair.md 1.2, 2.8, 3.3"""
    world = nominated_before()
    world.virtual.keep_effects(world.engine.resume(START) if standby else world.engine.complete(START))
    world.add(pod("other", cpu=4), pod("second", cpu=4)).drain()
    assert (kept(world), world.pending) == (["n0"], ["second", "train-0"])
    world.virtual.until(START + 70)
    assert world.pending == ["train-0"]
    assert free(world)


# -- restarts (4) ------------------------------------------------------------------------------------------------------


def test_restart_frees_a_degraded_gang() -> None:
    """repair.md 4.1, 4.2"""
    made = group("train", min_count=2, annotations=annotated(recovery_policy="Restart"))
    pods = [pod(f"train-{i}", cpu=4, group="train") for i in range(2)]
    world = world_of(node("n0", cpu=4), node("n1", cpu=4), made, pods, degraded_seconds=100).drain()
    world.add(pod("large", cpu=4)).drain()
    world.gone("train-0").virtual.until(START + 95)
    assert "train-1" in world.where
    world.virtual.until(START + 200)
    assert "train-1" not in world.where
    assert said(world) == (False, "BelowMinCount", "0 of 2 members scheduled")


def asking(name: str = "train", **options: Any) -> World:
    """A gang that lost one of its two members at START, and asks to be started again after 100 s."""
    made = group(name, min_count=2, annotations=annotated(recovery_policy="Restart"))
    pods = [pod(f"{name}-{i}", cpu=4, group=name, node=f"n{i}") for i in range(2)]
    world = world_of(node("n0", cpu=4), node("n1", cpu=4), made, pods, degraded_seconds=100, seconds=0, **options)
    return world.drain().gone(f"{name}-0").drain()


def restarted(world: World, seconds: float) -> list[str]:
    """Which pods are to be evicted for a restart so long after START."""
    return [pod.name for eviction in world.engine.tick(START + seconds).evictions for pod in eviction.pods]


def test_restart_that_was_not_carried_out_is_tried_again_after_a_minute() -> None:
    """repair.md 4.1, 4.2"""
    world = asking()
    at = {99: [], 100: ["train-1"], 159: [], 160: ["train-1"]}
    assert {seconds: restarted(world, seconds) for seconds in at} == at
    assert world.engine.repair.restarts.evictions == 2


def test_restart_waits_until_the_gang_was_tried() -> None:
    """repair.md 4.1"""
    world = asking()
    world.add(pod("train-2", cpu=8, group="train"))
    assert restarted(world, 100) == []
    assert world.step().result is not Result.SCHEDULED
    assert restarted(world, 101) == ["train-1"]


def test_restart_heeds_no_budget_unless_its_class_respects_them() -> None:
    """repair.md 4.2"""
    world = asking()
    world.add(pdb("all", {}, allowed=0)).drain()
    assert restarted(world, 100) == ["train-1"]


def test_restart_counts_as_an_eviction() -> None:
    """repair.md 4.2: one of the whole gang; that of another gang is beyond the limit."""
    world = asking()
    world.engine.cluster.evictions = EvictionHistory((EvictionLimit("cluster", 1, 86400.0),))
    made = group("second", min_count=2, annotations=annotated(recovery_policy="Restart"))
    world.add(node("n2"), made, *(pod(f"second-{i}", cpu=2, group="second", node="n2") for i in range(2))).drain()
    world.gone("second-0").drain()
    assert restarted(world, 100) == ["train-1"]


@pytest.mark.parametrize("kept_by", ["budget", "limit"])
def test_budgets_and_limits_hold_for_restarts(kept_by: str) -> None:
    """repair.md 4.2"""
    made = group("train", min_count=2, annotations=annotated(recovery_policy="Restart"), priority_class="careful")
    careful = priority_class("careful", 0, annotated(pdb_policy="Respect"))
    pods = [pod(f"train-{i}", cpu=4, group="train", labels={"app": "a"}) for i in range(2)]
    limits = (EvictionLimit("cluster", 1, 86400.0),) if kept_by == "limit" else ()
    profile = profile_with(
        GangScheduling(repair=RepairOptions(degraded_seconds=10.0)),
        DefaultPreemption(PreemptionOptions(eviction_limits=limits)),
    )
    items = [careful, node("n0", cpu=4), node("n1", cpu=4), made, *pods]
    if kept_by == "budget":
        items.append(pdb("b", {"app": "a"}, allowed=0))
    world = World(*items, profiles={profile.name: profile}).drain()
    if kept_by == "limit":  # it is used up
        world.engine.cluster.evictions.note(EvictedUnit("u", "default", "pod default/x", "", None), START)
    world.gone("train-0").virtual.until(START + 600)
    assert "train-1" in world.where
    assert world.engine.repair.restarts.evictions == 0


@pytest.mark.parametrize(
    ("root_min", "on_root", "evicted"),
    [(2, True, ["a-1", "b-0", "b-1"]), (1, True, ["a-1"]), (2, False, ["a-1"])],
    ids=["the root broke", "the root has enough", "the leaf alone asks"],
)
def test_tree_follows_at_the_level_that_broke(root_min: int, on_root: bool, evicted: list[str]) -> None:
    """repair.md 1.4, 4.3"""
    asks = annotated(recovery_policy="Restart")
    root = composite("root", min_groups=root_min)
    root = replace(root, metadata=replace(root.metadata, annotations=asks if on_root else {}))
    leaves = [
        group(name, min_count=2, parent="root", annotations=asks if name == "a" and not on_root else {})
        for name in ("a", "b")
    ]
    pods = [pod(f"{name}-{i}", cpu=1, group=name) for name in ("a", "b") for i in range(2)]
    world = world_of(node("n0", cpu=8), root, leaves, pods, degraded_seconds=10).drain()
    assert len(world.where) == 4
    world.gone("a-0").virtual.until(START + 60)
    assert sorted({"a-1", "b-0", "b-1"} - set(world.where)) == evicted


@pytest.mark.parametrize(
    ("whole", "of_root", "of_leaf"),
    [(True, None, "Restart"), (False, "Restart", "Keep"), (False, None, None)],
    ids=["part of a larger unit", "the leaf keeps", "none asks"],
)
def test_tree_of_which_nothing_is_evicted(whole: bool, of_root: str | None, of_leaf: str | None) -> None:
    """repair.md 4.3: the root has enough."""
    policies = {of: annotated(recovery_policy=of) if of else {} for of in (of_root, of_leaf)}
    root = composite("root", min_groups=1, whole=whole)
    root = replace(root, metadata=replace(root.metadata, annotations=policies[of_root]))
    leaves = [group(name, min_count=2, parent="root", annotations=policies[of_leaf]) for name in ("a", "b")]
    pods = [pod(f"{name}-{i}", cpu=1, group=name) for name in ("a", "b") for i in range(2)]
    world = world_of(node("n0", cpu=8), root, leaves, pods, degraded_seconds=10).drain()
    world.gone("a-0").virtual.until(START + 60)
    assert sorted(world.where) == ["a-1", "b-0", "b-1"]
