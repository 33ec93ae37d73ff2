"""The virtual cluster: what an API server, kubelets and controllers would do, and when (`simulation/virtual.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

import reprieve
from kube_rules import objects
from kube_rules.owners import ServiceSpec
from reprieve.cluster.pods import PodRecord
from reprieve.scheduling.decision import Decision
from reprieve.scheduling.effects import DirectEviction
from reprieve.simulation.virtual import TimedPreemption
from tests.building import START, World, annotated, composite, gang, group, node, pdb, pod, priority_class
from tests.plugins.devices import template
from tests.preemption.test_waiting import at, configured, rolling
from tests.scheduling.test_preemptor_reservations import holding
from tests.simulation.test_virtual_claims import gang as gang_with_claims
from tests.simulation.test_virtual_claims import pod as claiming


def there(world: World) -> list[str]:
    """Names of the pods that exist, terminating or not, sorted."""
    return sorted(one.name for one in world.engine.cluster.pods.values())


def last(world: World, wanted: Callable[[], bool], until: float = 1000.0) -> float:
    """Seconds after the start of the first event with which it is no longer wanted."""
    world.virtual.advance(wanted, START + until)
    return world.now - START


# -- when a pod is deleted --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("grace", "after"), [(0, 0.0), (1, 1.0), (7, 7.0), (30, 30.0)])
def test_victim_goes_when_its_grace_period_is_over(grace: int, after: float) -> None:
    world = World(node("n1", cpu=1), pod("low", cpu=1, node="n1", grace=grace), pod("high", cpu=1, priority=9))
    world.virtual.drain()
    assert world.virtual.leaving == ([] if after == 0 and "low" not in there(world) else ["default/low"])
    assert world.where == {}, "it is terminating"
    assert last(world, lambda: "low" in there(world)) == after
    assert world.evicted == ["low"]
    assert world.settle().where == {"high": "n1"}
    assert world.record("high").start == START + max(after, 1.0), "and not before its backoff"


@pytest.mark.parametrize("ends", ["deleted", "evicted"])
def test_pod_on_a_node_that_is_deleted_has_its_grace_period(ends: str) -> None:
    world = World(node("n1", cpu=2), pod("a", node="n1", grace=5), pod("b", node="n1", grace=5))
    if ends == "deleted":
        assert world.virtual.delete("Pod", "default", "a")
        assert world.virtual.deleted == {"uid-a"}
    else:
        world.virtual.evict(world.record("a"))
        assert world.virtual.deleted == set()
    assert (there(world), world.virtual.leaving, world.where) == (["a", "b"], ["default/a"], {"b": "n1"})
    assert not world.virtual.runs("uid-a")
    world.virtual.evict(world.record("a"))  # again: it goes no later for that
    world.virtual.until(START + 4.999)
    assert there(world) == ["a", "b"]
    world.virtual.until(START + 5)
    assert (there(world), world.virtual.leaving) == (["b"], [])


def test_pod_that_waits_goes_at_once() -> None:
    world = World(node("n1", cpu=1), pod("big", cpu=2, grace=5)).drain()
    assert world.virtual.delete("Pod", "default", "big")
    assert (there(world), world.virtual.deleted, world.virtual.rejections) == ([], set(), {})
    assert not world.virtual.delete("Pod", "default", "big")


def test_victim_that_is_deleted_by_name_was_evicted() -> None:
    world = World(node("n1", cpu=1), pod("low", cpu=1, node="n1"), pod("high", cpu=1, priority=9)).drain()
    assert world.virtual.delete("Pod", "default", "low")
    assert (world.virtual.deleted, world.evicted) == (set(), ["low"])


def test_pod_that_was_on_its_way_out_before_stays() -> None:
    """When it goes is not the scheduler's to predict; for a preemptor it goes after its grace."""
    world = World(node("n1", cpu=1), pod("old", cpu=1, node="n1", terminating=True, grace=3)).settle()
    assert (there(world), world.now) == (["old"], START)
    world.add(pod("next", cpu=1, priority=9)).settle()
    assert world.where == {"next": "n1"}
    assert world.now - START == 3.0


def test_pods_of_a_deleted_node_go_after_forty_seconds() -> None:
    """As the pod garbage collector takes them; a pod that terminated before is not lost with it."""
    world = World(
        node("n1", cpu=4),
        node("n2", cpu=4),
        pod("a", cpu=1, node="n1"),
        pod("b", cpu=1, node="n1", terminating=True),
        pod("c", cpu=1, node="n1", grace=50),
        pod("d", cpu=1, node="n2"),
    )
    assert world.virtual.delete("Pod", "default", "c")
    assert world.virtual.delete("Node", "", "n1")
    assert world.virtual.lost == {"uid-a": "n1"}
    world.virtual.until(START + 39.999)
    assert there(world) == ["a", "b", "c", "d"]
    world.virtual.until(START + 40)
    assert there(world) == ["c", "d"]
    world.virtual.until(START + 50)
    assert there(world) == ["d"]
    assert not world.virtual.delete("Node", "", "n1")


def test_node_that_fails_takes_its_pods_at_once() -> None:
    world = World(node("n1", cpu=4), node("n2", cpu=4), pod("a", cpu=1, node="n1"), pod("d", cpu=1, node="n2"))
    assert [one.name for one in world.virtual.lose_node("n1")] == ["a"]
    assert (there(world), world.virtual.leaving) == (["d"], [])
    assert world.virtual.lose_node("n1") == []


def test_pod_that_has_done_its_work_goes_at_once_and_makes_room() -> None:
    world = World(node("n1", cpu=1), pod("works", cpu=1, node="n1", grace=30), pod("next", cpu=1)).drain()
    world.virtual.evict(world.record("works"))
    world.virtual.end("uid-works")
    assert (there(world), world.virtual.leaving) == (["next"], [])
    assert world.settle().where == {"next": "n1"}
    world.virtual.until(START + 60)  # when its grace would have been over
    assert there(world) == ["next"]


# -- deleting, kind by kind ----------------------------------------------------------------------------------------


SERVICE = objects.Service(
    metadata=objects.ObjectMeta(name="x", namespace="default"), spec=ServiceSpec(selector={"app": "x"})
)
CLAIM = objects.PersistentVolumeClaim(metadata=objects.ObjectMeta(name="x", namespace="default"))
SLICE = objects.ResourceSlice(metadata=objects.ObjectMeta(name="x"))
DEVICE_CLASS = objects.DeviceClass(metadata=objects.ObjectMeta(name="x"))
DEVICE_CLAIM = objects.ResourceClaim(metadata=objects.ObjectMeta(name="x", namespace="default"))
TEMPLATE = objects.ResourceClaimTemplate(metadata=objects.ObjectMeta(name="x", namespace="default"))


@pytest.mark.parametrize(
    ("item", "was_there"),
    [
        (pod("x"), (True, False)),
        (node("x"), (True, False)),
        (group("x", min_count=1), (True, False)),
        (composite("x", min_groups=1), (True, False)),
        (SERVICE, (True, False)),
        (CLAIM, (True, False)),
        (SLICE, (True, False)),
        (DEVICE_CLASS, (True, False)),
        (DEVICE_CLAIM, (True, False)),
        (TEMPLATE, (True, False)),
        (pdb("x"), (True, True)),  # no pod depends on it
        (pdb("x", allowed=None), (True, True)),
        (priority_class("x", 1), (True, True)),
        (objects.Namespace(metadata=objects.ObjectMeta(name="x")), (True, True)),
    ],
    ids=lambda value: value.KIND if isinstance(value, objects.KubernetesObject) else None,
)
def test_deleting_returns_whether_the_object_existed(item: Any, was_there: tuple[bool, bool]) -> None:
    world = World(item)
    found = tuple(world.virtual.delete(item.KIND, item.metadata.namespace, "x") for _ in range(2))
    assert found == was_there


def test_objects_that_no_scheduler_reads_cannot_be_deleted() -> None:
    assert not World().virtual.delete("ConfigMap", "default", "x")


def test_group_that_is_only_named_is_not_there() -> None:
    world = World(node("n1", cpu=1), pod("a", cpu=1, group="g"))
    assert not world.virtual.delete("PodGroup", "default", "g")


def test_deleted_group_stays_while_its_pods_do() -> None:
    """api.md, the protection finalizer."""
    world = World(node("n1", cpu=4), *gang("g", 2, cpu=1), pod("other", cpu=1)).settle()
    assert world.virtual.delete("PodGroup", "default", "g")
    cluster = world.engine.cluster
    for name in ("g-0", "g-1"):
        assert cluster.groups["default/g"].spec is not None
        world.virtual.end(f"uid-{name}")
    assert "default/g" not in cluster.groups


def test_deleted_tree_goes_from_the_leaves_up() -> None:
    """composite.md 1.5: a CompositePodGroup stays while a group names it as its parent."""
    tree = [composite("top", min_groups=1), composite("middle", min_groups=1, parent="top")]
    leaf = gang("leaf", 1, cpu=1, parent="middle")
    world = World(node("n1", cpu=4), *tree, *leaf).settle()
    cluster = world.engine.cluster
    assert world.where == {"leaf-0": "n1"}
    for name in ("top", "middle"):
        assert world.virtual.delete("CompositePodGroup", "default", name)
    assert world.virtual.delete("PodGroup", "default", "leaf")
    assert sorted(cluster.trees.composites) == ["default/middle", "default/top"]
    world.virtual.end("uid-leaf-0")
    assert sorted(cluster.trees.composites) == []
    assert "default/leaf" not in cluster.groups


def device_claims(world: World) -> list[str]:
    """Names of the claims that there are, without what was made up of their names."""
    known = world.engine.cluster.devices.claims.values()
    return sorted(each.claim.metadata.name.split("-")[0] for each in known if each.object is not None)


def test_device_claims_of_pods_and_groups_go_with_them() -> None:
    """KEP-5729 and the ResourceClaim controller: each has the claim that was made of its template."""
    members = [claiming("member", templates=("t",), group="g"), claiming("single", templates=("u",))]
    world = World(node("n1"), template("t"), template("u"), gang_with_claims("t"), *members)
    assert device_claims(world) == ["g", "single"]
    world.virtual.end("uid-single")
    assert device_claims(world) == ["g"]
    assert world.virtual.delete("PodGroup", "default", "g")
    assert device_claims(world) == ["g"], "its pod is there"
    world.virtual.end("uid-member")
    assert device_claims(world) == []


def test_tree_that_is_made_again_before_it_went_stays() -> None:
    tree = composite("top", min_groups=1)
    world = World(node("n1", cpu=4), tree, *gang("leaf", 1, cpu=1, parent="top")).settle()
    world.virtual.delete("CompositePodGroup", "default", "top")
    world.virtual.delete("PodGroup", "default", "leaf")
    world.add(tree)
    world.virtual.end("uid-leaf-0")
    assert sorted(world.engine.cluster.trees.composites) == ["default/top"]


# -- objects that count --------------------------------------------------------------------------------------------


def test_priority_class_speaks_for_its_pods_as_long_as_it_is_there() -> None:
    """cost.md 2: what a class is annotated with holds for pods that do not say it themselves."""
    hour = priority_class("slow", 0, annotations=annotated(minimum_runtime="1h"))
    low = pod("low", cpu=1, node="n1", start=0, priority_class="slow", grace=0)
    for deleted, waits in ((False, 3600.0), (True, 0.0)):
        world = World(hour, node("n1", cpu=1), low)
        if deleted:
            world.virtual.delete("PriorityClass", "", "slow")
        world.add(pod("high", cpu=1, priority=9))
        assert last(world, lambda: "low" in there(world), 4000.0) == waits, deleted  # noqa: B023


def test_budgets_without_a_status_follow_what_runs() -> None:
    """One allows one of two to go, then none: the second preemption takes a pod without a budget."""
    web = [pod(f"web-{i}", cpu=1, node=f"n{i}", labels={"app": "web"}, grace=0) for i in range(2)]
    other = pod("other", cpu=1, priority=1, node="n2", grace=0)
    budget = replace(
        pdb("web", {"app": "web"}, allowed=None),
        spec=objects.PodDisruptionBudgetSpec(
            selector=objects.LabelSelector(match_labels={"app": "web"}), min_available=1
        ),
    )
    nodes = [node(f"n{i}", cpu=1) for i in range(3)]
    world = World(*nodes, *web, other, budget, pod("first", cpu=1, priority=9)).settle()
    assert [name[:3] for name in world.evicted] == ["web"]
    world.add(pod("second", cpu=1, priority=9)).settle()
    assert sorted(name[:3] for name in world.evicted) == ["oth", "web"]
    for deleted in (False, True):
        world = World(*nodes, *web, other, budget)
        if deleted:
            world.virtual.delete("PodDisruptionBudget", "default", "web")
        world.add(pod("first", cpu=1, priority=9)).settle()
        world.add(pod("second", cpu=1, priority=9)).settle()
        assert sorted(name[:3] for name in world.evicted) == (["web", "web"] if deleted else ["oth", "web"])


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_ended_pod_counts_for_nothing(phase: str) -> None:
    world = World(node("n1", cpu=1))
    assert world.virtual.add(pod("done", cpu=1, node="n1", phase=phase), START) is None
    assert (there(world), world.virtual.records) == ([], {})


def test_two_pods_of_one_uid_are_two() -> None:
    """Names stand in for UIDs that are missing."""
    plain = replace(pod("a", cpu=1), metadata=objects.ObjectMeta(name="a", namespace="default"))
    world = World(node("n1", cpu=4))
    first, second, third = (world.virtual.add(plain, START) for _ in range(3))
    assert first is not None
    assert second is not None
    assert third is not None
    assert len({first.uid, second.uid, third.uid}) == 3
    assert (first.uid, second.key, third.key) == ("default/a", "default/a", "default/a")
    assert world.virtual.runs("default/a")
    assert not world.virtual.runs("default/b")


# -- time ----------------------------------------------------------------------------------------------------------


def test_events_of_one_time_happen_in_the_order_of_their_requests() -> None:
    world = World()
    happened: list[str] = []
    for when, what in ((2.0, "late"), (1.0, "a"), (1.0, "b"), (1.0, "c"), (3.0, "too late")):
        world.virtual.at(START + when, lambda what=what: happened.append(what))  # type: ignore[misc]
    world.virtual.until(START + 2)
    assert (happened, world.now - START) == (["a", "b", "c", "late"], 2.0)


def test_running_to_a_time_ends_there_and_to_an_event_with_it() -> None:
    world = World()
    world.virtual.at(START + 5, lambda: None)
    world.virtual.advance(lambda: True, START + 4.9)
    assert world.now == START
    world.virtual.advance(lambda: True, START + 5)
    assert world.now == START + 5
    world.virtual.until(START + 7)
    assert world.now == START + 7
    world.virtual.until(START + 6)
    assert world.now == START + 7, "time does not run backwards"


def test_scenario_that_is_interrupted_is_not_run() -> None:
    world = World()
    happened: list[int] = []
    for second in range(5):
        world.virtual.at(START + second, lambda second=second: happened.append(second))  # type: ignore[misc]
    world.virtual.advance(lambda: len(happened) < 3, START + 100)
    assert happened == [0, 1, 2]


def test_waiting_for_victims_ends_with_the_last_of_them() -> None:
    world = World(node("n1", cpu=2), pod("a", node="n1", grace=3), pod("b", node="n1", grace=8), pod("c", node="n1"))
    world.virtual.at(START + 100, lambda: None)
    for name in "ab":
        world.virtual.delete("Pod", "default", name)
    world.virtual.until_victims_are_gone()
    assert (there(world), world.now - START) == (["c"], 8.0)


def test_first_preemption_can_stop_it_with_the_victims_there() -> None:
    world = World(node("n1", cpu=1), pod("low", cpu=1, node="n1"), pod("high", cpu=1, priority=9), pod("zero"))
    world.virtual.first_preemption = lambda _: True
    world.virtual.settle()
    assert world.virtual.stopped
    assert (world.where, world.evicted, world.virtual.leaving) == ({"low": "n1"}, [], [])
    assert [made.at for made in world.virtual.preemptions] == [START]
    world.virtual.until(START + 9)
    assert world.now == START, "nothing happens any more"


# -- what is noted -------------------------------------------------------------------------------------------------


def test_gang_that_had_its_minimum_is_noted_whatever_goes_later() -> None:
    world = World(
        node("n1", cpu=9),
        *gang("ran", 2, cpu=1, node="n1"),
        *gang("part", 2, min_count=3, cpu=1, node="n1"),
        *gang("comes", 2, cpu=1),
        *gang("never", 2, cpu=9),
        group("empty", min_count=1),
        group("basic"),
        pod("one", cpu=1, group="basic"),
    )
    world.virtual.note_complete()
    assert world.virtual.complete == {"default/ran"}
    world.settle()
    assert world.virtual.complete == {"default/ran", "default/comes"}


def test_group_that_was_scheduled_stays_so() -> None:
    """observability.md: the condition never goes back to False."""
    world = World(node("n1", cpu=2), *gang("g", 2, cpu=1)).settle()
    assert world.condition("g")[0] is True
    world.add(pod("g-late", cpu=1, group="g")).settle()
    assert world.condition("g")[0] is True
    never = World(node("n1", cpu=1), *gang("g", 2, cpu=1)).settle()
    assert never.condition("g")[:2] == (False, "Unschedulable")
    never.add(node("n2", cpu=1)).settle()
    assert never.condition("g")[0] is True


def test_pod_is_rejected_until_it_is_placed() -> None:
    world = World(node("n1", cpu=1), pod("a", cpu=2)).drain()
    assert world.rejection("a")[0] == "Unschedulable"
    assert "uid-a" in world.virtual.rejections
    world.add(node("n2", cpu=2)).settle()
    assert world.where == {"a": "n2"}
    assert world.virtual.rejections == {}


class Noted:
    """A watcher that writes down what it is notified of."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []

    def placed(self, pod: PodRecord) -> None:
        self.found.append(("placed", pod.name))

    def preempted(self, made: TimedPreemption) -> None:
        preemptor = made.preemption.pod
        assert preemptor is not None
        self.found.append(("preempted for", preemptor.name))

    def evicted(self, eviction: DirectEviction) -> None:
        self.found.append(("evicted", eviction.ref))

    def gone(self, pod: PodRecord) -> None:
        self.found.append(("gone", pod.name))


def test_watcher_is_notified_and_what_has_gone_is_forgotten() -> None:
    world = World(
        node("n1", cpu=1), node("n2", cpu=1), pod("low", cpu=1, node="n1", grace=3), pod("lost", cpu=1, node="n2")
    )
    noted = world.virtual.watcher = Noted()
    world.virtual.delete("Node", "", "n2")
    world.add(pod("high", cpu=1, priority=9))
    world.virtual.settle()
    assert noted.found == [("preempted for", "high"), ("gone", "low"), ("placed", "high"), ("gone", "lost")]
    virtual = world.virtual
    assert [one.name for one in virtual.records.values()] == ["high"]
    assert (virtual.evicted, virtual.lost, virtual.released) == ({}, {}, [])


def test_plan_forgets_no_pod() -> None:
    world = World(node("n1", cpu=1), pod("low", cpu=1, node="n1"), pod("high", cpu=1, priority=9)).settle()
    assert sorted(one.name for one in world.virtual.records.values()) == ["high", "low"]
    assert world.virtual.evicted == {"uid-low": "pod/uid-high"}


def test_observer_is_notified_of_each_decision_before_it_is_acted_on() -> None:
    world = World(node("n1", cpu=1), pod("low", cpu=1, node="n1"), pod("high", cpu=1, priority=9))
    found: list[tuple[str, float, float, list[str]]] = []

    def observed(decision: Decision, *, seconds: float, now: float) -> None:
        found.append((decision.result.value, seconds, now - START, world.virtual.leaving))

    world.virtual.observer = observed
    world.virtual.settle()
    assert [(seconds, now, leaving) for _, seconds, now, leaving in found] == [(0.0, 0.0, []), (0.0, 30.0, [])]


class Raises(reprieve.PerNodeFilter):
    """Raises at every pod, or at its first tries."""

    name = "Raises"

    def __init__(self, times: int) -> None:
        self.left = times

    def filter_node(self, state: reprieve.CycleState, row: int) -> tuple[str, bool] | None:
        self.left -= 1
        if self.left >= 0:
            raise RuntimeError("oh")
        return None


@pytest.mark.parametrize(("times", "placed", "tries"), [(0, True, 1), (1, True, 2), (2, True, 3), (3, False, 3)])
def test_pod_that_fails_three_times_is_waited_for_no_more(times: int, placed: bool, tries: int) -> None:
    """So that a plan ends; until then it is tried again after its backoff."""
    world = World(node("n1"), pod("p"), plugins=[Raises(times)]).settle()
    assert world.where == ({"p": "n1"} if placed else {})
    assert world.engine.attempts == tries


# -- room that is held or waited for -------------------------------------------------------------------------------


def stuck(seconds: float) -> World:
    """`high` waits on n1 for `low`, which does not go; its room is held for so long after that should have happened."""
    low, high = pod("low", cpu=4, node="n1"), pod("high", cpu=4, priority=9)
    world = World(node("n1", cpu=4), low, high, profiles=holding(seconds))
    world.virtual._leave_at = lambda pod, when: None  # type: ignore[method-assign]
    return world


def test_cluster_has_settled_though_room_is_held_and_time_alone_gives_it_back() -> None:
    """cost.md 5.2: 30 s of grace and 60 s of holding."""
    settled = stuck(60).settle()
    assert (settled.now, settled.virtual.released) == (START, [])
    for advance in (False, True):
        world = stuck(60)
        world.virtual.advance(lambda: True, START + 89)
        assert world.virtual.released == []
        if advance:
            world.virtual.advance(lambda: True, START + 90)
        else:
            world.virtual.until(START + 90)
        assert [room.nodes for room in world.virtual.released] == [["n1"]]


def test_capacity_that_was_given_back_is_not_kept_with_a_watcher() -> None:
    world = stuck(60)
    world.virtual.watcher = Noted()
    world.virtual.until(START + 100)
    assert world.virtual.released == []


def test_entity_awaits_room_until_its_next_attempt_ends_otherwise() -> None:
    """cost.md 5.6: the capacity of its predecessor, which that does not defer forever."""
    world = rolling().drain()
    assert world.virtual.awaits_room("pod/uid-new")
    assert not world.virtual.awaits_room("pod/uid-old")
    [made] = world.virtual.deferred.values()
    assert (made.at, [one.name for one in made.deferral.pods]) == (START, ["old"])
    world.settle()
    assert world.where == {"bystander": "n2", "new": "n1"}
    assert not world.virtual.awaits_room("pod/uid-new")
    assert len(world.virtual.deferred) == 1, "a plan reports it"


def test_watched_deferral_goes_with_its_pod() -> None:
    world = rolling()
    world.virtual.watcher = Noted()
    world.drain()
    assert len(world.virtual.deferred) == 1
    world.virtual.delete("Pod", "default", "new")
    assert (world.virtual.deferred, world.virtual.awaits_room("pod/uid-new")) == ({}, False)


def test_pods_waited_for_end_when_expected_and_others_run_on() -> None:
    """cost.md 6.3: `ends` says when, and no pod waits for `runs`."""
    ends = pod("ends", cpu=4, node="n1", start=0, annotations=annotated(expected_end=at(120)))
    idle = pod("idle", cpu=1, node="n3", start=0, annotations=annotated(expected_end=at(60)))
    world = World(
        *(node(f"n{number}", cpu=cpu) for number, cpu in ((1, 4), (2, 4), (3, 1))),
        *(ends, idle, pod("runs", cpu=4, node="n2"), pod("high", cpu=4, priority=9)),
        profiles=configured(wait_for_completions=600),
    )
    world.virtual.until(START + 119)
    assert there(world) == ["ends", "high", "idle", "runs"]
    world.virtual.until(START + 120)
    assert there(world) == ["high", "idle", "runs"]
    world.virtual.until(START + 600)
    assert world.where == {"high": "n1", "idle": "n3", "runs": "n2"}
