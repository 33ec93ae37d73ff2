"""The pod cycle (scheduling.md 2) and what users see of it (observability.md)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules.meta import ObjectRef
from reprieve.framework.gates import FeatureGates
from reprieve.framework.profile import Profile
from reprieve.queueing.entity import QueueState
from reprieve.scheduling.decision import Result
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from tests.building import World, bound_to, gang, group, node, pod, profile_with, without_gates
from tests.scheduling.plugins_for_tests import Fragile, OnlyNamed, Prefers


def test_emptiest_node_wins_and_ties_go_to_the_first_name() -> None:
    """scheduling.md 2: "ties go to the first node by name"."""
    world = World(node("n2", cpu=4), node("n1", cpu=4), node("n3", cpu=8), pod("p", cpu=1), pod("q", cpu=1))
    first = world.step()
    assert [b.node for b in first.bindings] == ["n3"]
    world = World(node("n2", cpu=4), node("n10", cpu=4), node("n1", cpu=4), pod("p", cpu=1))
    assert world.settle().where == {"p": "n1"}


def test_seed_chooses_among_the_best() -> None:
    """scheduling.md 2: "with --seed to a seeded choice among the best", the same every time."""
    nodes = [node(f"n{i}", cpu=4) for i in range(8)] + [node("small", cpu=2)]
    chosen = [World(*nodes, pod("p", cpu=1), seed=seed).settle().where["p"] for seed in range(20)]
    assert len(set(chosen)) > 2
    assert "small" not in chosen
    assert chosen == [World(*nodes[::-1], pod("p", cpu=1), seed=seed).settle().where["p"] for seed in range(20)]


def test_scores_are_weighted_and_added() -> None:
    """Weights multiply the normalised scores."""
    items: list[Any] = [node("n1", cpu=10), node("n2", cpu=5), pod("p", cpu=1, memory=0)]
    light = profile_with(Prefers(n2=10), weights={"Prefers": 1}, drop=["NodeResourcesBalancedAllocation"])
    # LeastAllocated of cpu alone: (90+100)/2 = 95 against (80+100)/2 = 90: 10 points tip it, 4 do not
    assert World(*items, profiles={light.name: light}).settle().where == {"p": "n2"}
    few = profile_with(Prefers(n2=4), weights={"Prefers": 1}, drop=["NodeResourcesBalancedAllocation"])
    assert World(*items, profiles={few.name: few}).settle().where == {"p": "n1"}
    more = profile_with(Prefers(n2=4), weights={"Prefers": 2}, drop=["NodeResourcesBalancedAllocation"])
    assert World(*items, profiles={more.name: more}).settle().where == {"p": "n2"}


def test_identical_pods_share_the_work() -> None:
    """scheduling.md 4.1: identical pods "cost one placement step, not a pass over all nodes"."""
    nodes = [node(f"n{i:03}", cpu=8) for i in range(100)]
    world = World(*nodes, *[pod(f"p{i}", cpu=1) for i in range(50)])
    evaluator = world.engine.running["default-scheduler"].evaluator
    world.drain()
    assert len(world.where) == 50
    assert evaluator.passes == 1
    other = World(*nodes, *[pod(f"p{i}", cpu=1) for i in range(50)], gates=FeatureGates(opportunistic_batching=False))
    other.drain()
    assert other.engine.running["default-scheduler"].evaluator.passes >= 50
    assert other.where == world.where


@pytest.mark.parametrize(
    ("items", "wants", "message"),
    [
        ([], {}, "no nodes available to schedule pods"),
        (
            [node("n1", cpu=1), node("n2", cpu=1), node("n3", taints=[("k", "", "NoSchedule")])],
            {"cpu": 2},
            "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. "
            "no new claims to deallocate, "
            "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
        ),
        (
            [node("n1", cpu=2), pod("r", cpu=1, node="n1", priority=9)],
            {"cpu": 2},
            "0/1 nodes are available: 1 Insufficient cpu. "
            "no new claims to deallocate, "
            "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
        ),
        (
            [node("n1", cpu=2), pod("r1", cpu=1, node="n1"), pod("r2", cpu=1, node="n1", priority=9)],
            {"cpu": 2},
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
            "preemption: 0/1 nodes are available: 1 Insufficient cpu.",
        ),
        (
            [node("n1", cpu=2), pod("r1", cpu=1, node="n1")],
            {"cpu": 2, "never": True},
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
            "preemption: not eligible due to preemptionPolicy=Never.",
        ),
        (
            [node(f"n{i:02}", unschedulable=i < 2, labels={"zone": "a"} if i < 5 else {}) for i in range(12)],
            {"selector": {"zone": "a"}, "cpu": 9},
            "0/12 nodes are available: 2 node(s) were unschedulable, 3 Insufficient cpu, "
            "7 node(s) didn't match Pod's node affinity/selector. "
            "no new claims to deallocate, "
            "preemption: 0/12 nodes are available: 12 Preemption is not helpful for scheduling.",
        ),
        (
            [node("n1", cpu=1, memory="1Gi", gpu=1), pod("r", cpu=1, gpu=1, node="n1", priority=9)],
            {"cpu": 1, "gpu": 1, "memory": "1Gi"},
            "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient nvidia.com/gpu. "
            "no new claims to deallocate, "
            "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
        ),
    ],
)
def test_message_of_a_pod_that_fits_nowhere(items: list[Any], wants: dict[str, Any], message: str) -> None:
    """observability.md: counts per reason, sorted as strings, then what preemption had to say."""
    world = World(*items, pod("p", priority=5, **wants)).settle()
    assert world.rejection("p") == ("Unschedulable", message)


def test_pod_without_a_chance_may_become_one_with() -> None:
    """The condition goes once the pod is placed."""
    world = World(node("n", cpu=1), pod("p", cpu=2)).settle()
    assert world.pending == ["p"]
    world.add(node("n2", cpu=2)).settle()
    assert world.where == {"p": "n2"}
    assert world.virtual.rejections == {}


# -- nominations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("priority", "result"),
    [(5, Result.UNSCHEDULABLE), (4, Result.UNSCHEDULABLE), (6, Result.SCHEDULED)],
)
def test_nominated_pods_of_equal_or_higher_priority_count_as_running(priority: int, result: Result) -> None:
    """scheduling.md 2: "Filters see nominated pods of equal or higher priority as running"."""
    world = World(node("n", cpu=1), pod("holder", cpu=1, priority=5, gates=["g"], nominated="n"))
    world.add(pod("p", cpu=1, priority=priority, never=True))
    assert world.step().result is result


def test_pod_must_fit_without_the_nominated_ones_too() -> None:
    """scheduling.md 2: "must also pass the filters without them"."""
    world = World(node("n", cpu=2), pod("r", cpu=2, node="n", priority=9))
    world.add(pod("holder", cpu=1, priority=5, gates=["g"], nominated="n"), pod("p", cpu=1, priority=5))
    assert world.step().result is Result.UNSCHEDULABLE


@pytest.mark.parametrize("ports", [[80], []])
def test_nominated_ports_count_as_taken(ports: list[int]) -> None:
    """Every filter sees nominated pods, not only resources."""
    world = World(node("n"), pod("holder", ports=[80], priority=5, gates=["g"], nominated="n"))
    world.add(pod("p", ports=ports, priority=5))
    assert world.step().result is (Result.UNSCHEDULABLE if ports else Result.SCHEDULED)


def test_nominated_node_is_tried_first() -> None:
    """scheduling.md 2: even where another node scores higher."""
    world = World(node("n1", cpu=8), node("n2", cpu=2), pod("p", cpu=1, nominated="n2"))
    assert world.settle().where == {"p": "n2"}


@pytest.mark.parametrize("early", [True, False])
def test_nomination_to_a_node_that_comes_later_counts(early: bool) -> None:
    """The order in which objects arrive does not matter (scheduling.md 7)."""
    nodes, mine = [node("n1", cpu=8), node("n2", cpu=2)], pod("p", cpu=1, nominated="n2")
    world = World(mine, *nodes) if early else World(*nodes, mine)
    assert world.settle().where == {"p": "n2"}


def test_nominated_node_that_does_not_fit_is_passed_over() -> None:
    """The nomination is a preference."""
    world = World(node("n1", cpu=8), node("n2", cpu=2, unschedulable=True), pod("p", cpu=1, nominated="n2"))
    assert world.settle().where == {"p": "n1"}
    assert world.nominated == {}


def test_room_given_up_by_a_pod_placed_elsewhere_wakes_others() -> None:
    """scheduling.md 7: "every event that could help a pod re-activates it": a nomination that is void is one."""
    world = World(node("n2", cpu=2, gpu=1), pod("r", cpu=1, node="n2", priority=100))
    world.add(pod("high", cpu=2, priority=9, never=True, nominated="n2"), pod("low", cpu=1, gpu=1)).drain()
    assert world.pending == ["high", "low"]
    assert world.nominated == {"high": "n2"}
    # The new node is none for `low`: only the room that `high` does not need any more can help it.
    world.add(node("n1", cpu=4)).settle()
    assert world.where == {"high": "n1", "low": "n2", "r": "n2"}


def test_nomination_is_cleared_when_nothing_helps_any_more() -> None:
    """observability.md: nominatedNodeName "cleared when no longer true"; a pod that waited for that is tried."""
    world = World(node("n", cpu=2), pod("r", cpu=1, node="n", priority=9))
    world.add(pod("small", cpu=1, priority=5), pod("big", cpu=2, priority=5, nominated="n"))
    assert world.step().ref == "pod/uid-small"
    assert world.place("small") is QueueState.UNSCHEDULABLE
    world.settle()
    assert world.nominated == {}
    assert world.where["small"] == "n"
    assert world.pending == ["big"]


def test_moved_nomination_wakes_pods_that_waited_for_its_capacity() -> None:
    """A preemptor that chooses another node gives the first one up (scheduling.md 7)."""
    world = World(node("n1", cpu=1), node("n2", cpu=2), pod("victim", cpu=2, node="n2"))
    world.add(pod("high", cpu=2, priority=9, nominated="n1", gates=["g"]), pod("small", cpu=1)).drain()
    assert world.place("small") is QueueState.UNSCHEDULABLE
    world.change_pod("high", without_gates).step()
    assert world.nominated == {"high": "n2"}
    assert world.place("small") is QueueState.BACKOFF, "before the victim has left"


def test_nominations_to_a_removed_node_are_void() -> None:
    """A deleted node holds nothing for any pod."""
    world = World(node("n", cpu=1), pod("p", cpu=1, nominated="n", gates=["g"]))
    world.engine.remove(ObjectRef("Node", "n"), world.now)
    assert world.nominated == {}
    world.engine.cluster.check()


# -- binding -------------------------------------------------------------------------------------------------------


def test_binding_is_assumed_before_it_is_confirmed() -> None:
    """scheduling.md 2: assume, then bind asynchronously: the next cycle sees it."""
    world = World(node("n", cpu=1), pod("p", cpu=1), pod("q", cpu=1))
    assert [b.pod.name for b in world.step().bindings] == ["p"]
    assert not world.record("p").bound
    assert world.step().result is Result.UNSCHEDULABLE
    world.engine.confirm_binding("uid-p")
    assert world.record("p").bound


def test_binding_that_fails_gives_the_room_back() -> None:
    """scheduling.md 2: "the choice is undone: Unreserve, forget, re-queue"; others may have the room meanwhile."""
    world = World(node("n", cpu=1), pod("p", cpu=1), pod("q", cpu=1))
    world.step()
    world.step()
    world.engine.fail_binding("uid-p", world.now)
    assert world.record("p").row < 0
    assert world.place("p") is QueueState.BACKOFF
    assert world.place("q") is QueueState.BACKOFF
    world.engine.fail_binding("uid-p", world.now)  # the second report of the same failure changes nothing
    assert len(world.settle().where) == 1


def test_binding_that_keeps_failing_backs_off_further_and_further() -> None:
    """scheduling.md 1: the backoff doubles per attempt, whatever ended the attempt."""
    world = World(node("n", cpu=1), pod("p", cpu=1))
    waits = []
    for _ in range(5):
        assert world.step().result is Result.SCHEDULED
        world.engine.fail_binding("uid-p", world.now)
        entity = world.entity("p")
        assert entity.state is QueueState.BACKOFF
        waits.append(entity.wake - world.now)
        world.virtual.now = entity.wake
    assert waits == [1, 2, 4, 8, 10]


def test_failed_binding_of_a_pod_that_is_leaving_is_not_tried_again() -> None:
    """A terminating pod is not scheduled."""
    world = World(node("n", cpu=1), pod("p", cpu=1))
    world.step()
    world.engine.mark_terminating("uid-p", world.now)
    world.engine.fail_binding("uid-p", world.now)
    assert len(world.engine.queue) == 0
    world.gone("p")
    assert world.engine.cluster.pods == {}


def test_confirmed_binding_cannot_fail_any_more() -> None:
    """What the API confirmed is so."""
    world = World(node("n", cpu=1), pod("p", cpu=1)).settle()
    world.engine.fail_binding("uid-p", world.now)
    assert world.where == {"p": "n"}


def test_pod_bound_by_another_scheduler() -> None:
    """While pending, and elsewhere than we assumed: the API is right."""
    world = World(node("n1", cpu=2), node("n2", cpu=1), pod("p", cpu=1), pod("q", cpu=1, gates=["g"], nominated="n1"))
    assert [b.node for b in world.step().bindings] == ["n1"]
    world.change_pod("p", lambda item: bound_to(item, "n2"))
    world.change_pod("q", lambda item: bound_to(item, "n1"))
    assert world.where == {"p": "n2", "q": "n1"}
    assert world.nominated == {}
    assert len(world.engine.queue) == 0


def test_resized_pod_counts_what_it_asks_for_now() -> None:
    """Requests of a running pod may change in place; the room it gives up is free."""
    world = World(node("n", cpu=2), pod("r", cpu=2, node="n"), pod("p", cpu=1, never=True, priority=1)).drain()
    assert world.pending == ["p"]
    smaller = pod("r", cpu=1, node="n", start=5.0, labels={"a": "b"})
    world.change_pod(
        "r", lambda item: replace(item, spec=smaller.spec, metadata=smaller.metadata, status=smaller.status)
    )
    assert world.record("r").labels == {"a": "b"}
    assert world.settle().where == {"r": "n", "p": "n"}


def test_pod_that_ended_frees_its_room() -> None:
    """Succeeded and Failed pods hold nothing."""
    for phase in ("Succeeded", "Failed"):
        world = World(node("n", cpu=1), pod("r", cpu=1, node="n"), pod("p", cpu=1)).drain()
        world.engine.set(pod("r", cpu=1, node="n", phase=phase), world.now)
        assert world.settle().where == {"p": "n"}
        world.engine.set(pod("other", cpu=1, node="n", phase=phase), world.now)
        assert "uid-other" not in world.engine.cluster.pods


# -- plugins of one's own ------------------------------------------------------------------------------------------


def test_plugin_that_raises_fails_the_attempt_alone() -> None:
    """scheduling.md 5: SchedulerError for that attempt; the scheduler goes on."""
    profile = Fragile(failures=1).profile()
    world = World(node("n", cpu=4), pod("p", cpu=1), pod("q", cpu=1), profiles={profile.name: profile})
    first = world.step()
    assert first.result is Result.ERROR
    (rejection,) = first.rejections
    assert rejection.reason == "SchedulerError"
    assert rejection.message == "running Filter plugin 'Fragile': ZeroDivisionError: by design"
    assert world.settle().where == {"p": "n", "q": "n"}


@pytest.mark.parametrize(("resolvable", "evicted"), [(True, []), (False, [])])
def test_filter_by_node(resolvable: bool, evicted: list[str]) -> None:
    """The per-node adaptor (scheduling.md 5), for all nodes, in preemption too; nothing goes where it cannot help."""
    profile = profile_with(OnlyNamed("n2", resolvable=resolvable))
    low = [pod(f"low{i}", cpu=2, node=f"n{i}") for i in (1, 2)]
    world = World(
        node("n1", cpu=2), node("n2", cpu=2), *low, pod("p", cpu=2, priority=5), profiles={profile.name: profile}
    )
    world.settle()
    assert world.where == {"low1": "n1", "p": "n2"}
    assert world.evicted == ["low2", *evicted]
    nowhere = profile_with(OnlyNamed(resolvable=resolvable))
    world = World(node("n1", cpu=2), low[0], pod("p", cpu=1, priority=5), profiles={nowhere.name: nowhere}).settle()
    assert world.evicted == []
    assert world.message("p").startswith("0/1 nodes are available: 1 node(s) are not in .")


# -- profiles ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheduler", "every_scheduler", "decided_by"),
    [("first", False, "first"), ("second", False, "second"), ("other", False, None), ("other", True, "first")],
)
def test_pod_is_decided_about_by_the_profile_it_names(
    scheduler: str, every_scheduler: bool, decided_by: str | None
) -> None:
    """scheduling.md 6: a pod of another scheduler is not ours, or the first profile's where we plan for all."""
    profiles = {}
    for name in ("first", "second"):
        profiles[name] = _for_scheduler(profile_with(Prefers(**{f"in-{name}": 10}), weights={"Prefers": 1}), name)
    engine = Engine(EngineOptions(profiles, any_scheduler=every_scheduler, validate=True))
    for name in ("in-first", "in-second"):
        engine.set(node(name, cpu=4), 0.0)
    engine.set(pod("p", cpu=1, scheduler=scheduler), 0.0)
    decision = engine.step(1.0).decision
    assert (decision.profile if decision is not None else None) == decided_by
    assert decision is None or [binding.node for binding in decision.bindings] == [f"in-{decided_by}"]
    assert decision is None or (decision.attempt, decision.queued_at) == (1, 0.0)
    assert engine.attempts == (decision is not None)


def test_cache_sizes_are_summed_over_all_profiles() -> None:
    """For the gauges: each keeps its own views of nodes."""
    profiles = {name: _for_scheduler(profile_with(), name) for name in ("first", "second")}
    world = World(node("n", cpu=4), pod("p", cpu=1, scheduler="first"), profiles=profiles).drain()
    assert world.engine.sizes()["views"] == 1
    world.add(pod("q", cpu=1, scheduler="second"), pod("q2", cpu=1, scheduler="second")).drain()
    assert world.engine.sizes()["views"] == 2
    assert world.engine.sizes()["waiting_entities"] == 0
    assert not world.engine.may_block


def _for_scheduler(profile: Profile, name: str) -> Profile:
    """The profile for pods of that scheduler."""
    weights = {weighted.plugin.name: weighted.weight for weighted in profile.scores}
    return Profile(name, profile.plugins, weights)


# -- gates ---------------------------------------------------------------------------------------------------------


def test_without_the_gate_groups_are_ignored() -> None:
    """scheduling.md 6: "With GenericWorkload off, pods are scheduled and preempt one by one"."""
    world = World(
        node("n", cpu=1),
        pod("r", cpu=1, node="n", group="old"),
        group("old", min_count=1, priority=100, whole=True),
        *gang("crew", 3, cpu=1, priority=5),
        gates=FeatureGates(generic_workload=False),
    ).settle()
    assert world.where == {"crew-0": "n"}
    assert world.evicted == ["r"]
    assert world.engine.cluster.groups == {}
