"""What happens outside of decisions: nominations others make or end, deletions in flight, groups that come late."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.meta import ObjectRef
from reprieve.framework.plugin import CycleState, ReservePlugin
from reprieve.framework.status import SUCCESS, Status
from reprieve.queueing.entity import QueueState
from reprieve.scheduling.decision import Result
from tests.building import START, World, gang, group, node, pod, profile_with


class Ledger(ReservePlugin):
    """Knows what is reserved."""

    name = "Ledger"

    def __init__(self) -> None:
        self.held: set[str] = set()

    def reserve(self, state: CycleState, row: int) -> Status:
        self.held.add(state.pod.name)
        return SUCCESS

    def unreserve(self, state: CycleState, row: int) -> None:
        self.held.remove(state.pod.name)


def nominated(item: objects.Pod, name: str) -> objects.Pod:
    """The pod as the API would have it, nominated there."""
    return replace(item, status=replace(item.status, nominated_node_name=name))


def waiting() -> World:
    """A preemptor that was nominated to n1 and waits for its victim; n2 is full of its equals."""
    world = World(node("n1"), node("n2"), pod("low", cpu=4, node="n1"), pod("peer", cpu=4, node="n2", priority=100))
    world.add(pod("p", cpu=4, priority=100))
    decision = world.step()
    assert decision.result is Result.WAITING
    assert world.nominated == {"p": "n1"}
    return world


def taken(world: World) -> list[str]:
    """Pods with a nomination that ended without a decision since the last call, and that got no other place."""
    ended = [pod for effects in world.engine.effects for pod in effects.unnominated_pods]
    world.engine.effects.clear()
    return [pod.name for pod in dict.fromkeys(ended) if pod.nominated < 0 and pod.row < 0]


def test_nominations_changed_by_a_decision_are_not_reported_as_ended() -> None:
    """What a decision says about nominations is the decision's to tell."""
    world = waiting()
    assert taken(world) == []


def test_node_that_goes_ends_nominations_to_it() -> None:
    world = waiting()
    world.engine.remove(ObjectRef("Node", "n1"), world.now)
    assert world.nominated == {}
    assert taken(world) == ["p"]
    assert taken(world) == [], "once"


def test_failed_preemption_ends_its_nominations() -> None:
    """preemption.md 7.5: the nomination is reverted, the preemptor is activated again at once."""
    world = waiting()
    assert world.engine.cluster.doomed == {world.record("low").uid}
    world.engine.fail_preemption(f"pod/{world.record('p').uid}", world.now)
    assert world.engine.cluster.doomed == set(), "no pod leaves any more"
    assert taken(world) == ["p"]
    assert world.place("p") is QueueState.ACTIVE


def test_preemptor_on_its_way_out_holds_no_room() -> None:
    world = waiting()
    world.engine.mark_terminating(world.record("p").uid, world.now)
    assert world.nominated == {}
    assert taken(world) == ["p"]


def test_preemptor_that_is_gone_needs_no_patch() -> None:
    world = waiting()
    world.gone("p")
    assert taken(world) == []


@pytest.mark.parametrize("how", ["removed", "too few"])
def test_group_that_may_not_be_tried_gives_its_nominations_up(how: str) -> None:
    """preemption.md 4.5; scheduling.md 3.8: the group object deleted, or members deleted mid-flight."""
    world = World(node("n1"), node("n2"), pod("low", cpu=4, node="n1"), pod("low2", cpu=4, node="n2"))
    world.add(gang("g", 2, priority=100, cpu=4))
    assert world.step().result is Result.WAITING
    assert sorted(world.nominated) == ["g-0", "g-1"]
    if how == "removed":
        world.engine.remove(ObjectRef("PodGroup", "default/g"), world.now)
        assert sorted(taken(world)) == ["g-0", "g-1"]
    else:
        world.engine.finish_preemption("group/default/g", world.now)
        world.gone("g-1")
        assert taken(world) == ["g-0"]
    assert world.nominated == {}


def test_nomination_made_again_is_not_reported_as_ended() -> None:
    """The shell asks between cycles: what was void and is valid again is no news."""
    world = waiting()
    world.engine.fail_preemption(f"pod/{world.record('p').uid}", world.now)
    assert world.step().result is Result.WAITING
    assert taken(world) == []


# -- what the API says of nominations (kube-scheduler: nominator.UpdatePod) ----------------------------------


def test_nomination_by_another_client_is_taken_over() -> None:
    world = World(node("n1", cpu=1), node("n2", cpu=2), pod("p", cpu=8))
    world.step()
    world.change_pod("p", lambda item: nominated(item, "n2"))
    assert world.nominated == {"p": "n2"}
    world.change_pod("p", lambda item: nominated(item, ""))
    assert world.nominated == {}
    assert taken(world) == [], "the API says so already"


def test_echo_of_our_own_nomination_is_no_news() -> None:
    """n1, then n2 while the first is on its way: hearing of n1 takes nothing back, hearing of n2 neither."""
    world = waiting()
    uid = world.record("p").uid
    world.engine.fail_preemption(f"pod/{uid}", world.now)
    world.engine.remove(ObjectRef("Node", "n1"), world.now)
    world.add(node("n3"), pod("low3", cpu=4, node="n3"))
    assert world.step().result is Result.WAITING
    assert world.nominated == {"p": "n3"}
    for echo in ("n1", "", "n3"):
        world.change_pod("p", lambda item, name=echo: nominated(item, name))  # type: ignore[misc]
        assert world.nominated == {"p": "n3"}, echo
    world.change_pod("p", lambda item: nominated(item, "n2"))
    assert world.nominated == {"p": "n2"}, "another client did that"


def test_other_changes_of_a_pod_leave_its_nomination_alone() -> None:
    """Our patch is not through yet: an update without nominatedNodeName is older than the decision."""
    world = waiting()
    world.change_pod("p", lambda item: replace(item, metadata=replace(item.metadata, labels={"a": "b"})))
    assert world.nominated == {"p": "n1"}


def test_failed_binding_ends_the_nomination_the_api_still_has() -> None:
    world = World(node("n1"), nominated(pod("p", cpu=1), "n1"))
    [binding] = world.step().bindings
    world.engine.fail_binding(binding.pod.uid, world.now)
    assert taken(world) == ["p"]


# -- deletions in flight, nodes that vanish ------------------------------------------------------------------


def test_pod_deleted_while_it_is_bound_gives_everything_back() -> None:
    """scheduling.md 2: Unreserve; what the API answers later about the binding changes nothing."""
    ledger = Ledger()
    profile = profile_with(ledger)
    world = World(node("n1"), pod("p", cpu=4), profiles={profile.name: profile})
    [binding] = world.step().bindings
    uid = binding.pod.uid
    assert ledger.held == {"p"}
    world.engine.remove(ObjectRef("Pod", uid=uid), world.now)
    assert ledger.held == set()
    world.engine.confirm_binding(uid)
    world.engine.fail_binding(uid, world.now)
    world.add(pod("q", cpu=4))
    assert [b.pod.name for b in world.step().bindings] == ["q"]


def test_node_may_vanish_under_assumed_pods() -> None:
    """The binding fails, the pod is tried elsewhere."""
    world = World(node("n1"), pod("p", cpu=4))
    [binding] = world.step().bindings
    world.engine.remove(ObjectRef("Node", "n1"), world.now)
    world.add(node("n2"))
    world.engine.fail_binding(binding.pod.uid, world.now)
    assert world.settle().where == {"p": "n2"}


def test_pod_bound_by_another_client_is_where_it_was_put() -> None:
    """Two schedulers, one pod: the API decides, whichever of the two messages comes first."""
    for first in ("told", "refused"):
        world = World(node("n1"), node("n2"), pod("p", cpu=4))
        [binding] = world.step().bindings
        other = "n2" if binding.node == "n1" else "n1"
        uid = binding.pod.uid
        bound = replace(world.objects[uid], spec=replace(world.objects[uid].spec, node_name=other))
        if first == "told":
            world.engine.set(bound, world.now)
        world.engine.fail_binding(uid, world.now)
        world.engine.set(bound, world.now)
        assert world.where == {"p": other}
        assert len(world.engine.queue) == 0


def test_victim_that_was_only_reserved_has_left_when_its_binding_is_given_up() -> None:
    """preemption.md 7.2: released without API calls; the preemptor does not wait for a deletion that never comes."""
    world = World(node("n1"), pod("low", cpu=4))
    [binding] = world.step().bindings
    world.add(pod("p", cpu=4, priority=100))
    decision = world.step()
    assert decision.preemption is not None
    key = decision.ref
    assert world.engine.is_preempting(key)
    world.engine.fail_binding(binding.pod.uid, world.now)
    assert not world.engine.is_preempting(key)
    world.engine.finish_preemption(key, world.now)
    assert world.settle().where == {"p": "n1"}


# -- groups that come late -----------------------------------------------------------------------------------


def test_group_object_that_lowers_a_unit_wakes_preemptors() -> None:
    """preemption.md 2, 5: a running pod counts with its group's priority as soon as the object says so."""
    world = World(node("n1"), pod("a", cpu=4, node="n1", priority=100, group="late"), pod("p", cpu=4, priority=50))
    assert world.step().result is Result.UNSCHEDULABLE
    world.add(group("late", priority=10))
    assert world.place("p") in (QueueState.BACKOFF, QueueState.ACTIVE), "not left to the flush after five minutes"
    world.settle()
    assert world.evicted == ["a"]
    assert world.where == {"p": "n1"}


def test_group_object_that_raises_a_unit_wakes_no_pod() -> None:
    world = World(node("n1"), pod("a", cpu=4, node="n1", priority=100, group="late"), pod("p", cpu=4, priority=50))
    world.step()
    world.add(group("late", priority=100))
    assert world.place("p") is QueueState.UNSCHEDULABLE


def test_victims_that_leave_are_waited_for_after_a_restart() -> None:
    """preemption.md 2.3: nominated, and a pod there terminates because of preemption: no second preemption."""
    world = World(
        node("n1"),
        node("n2"),
        pod("leaving", cpu=4, node="n1", terminating=True, preempted=True),
        pod("other", cpu=4, node="n2"),
        nominated(pod("p", cpu=4, priority=100), "n1"),
    )
    decision = world.step()
    assert decision.result is Result.UNSCHEDULABLE
    assert decision.preemption is None
    assert world.nominated == {"p": "n1"}
    world.gone("leaving")
    assert world.settle().where == {"other": "n2", "p": "n1"}


@pytest.mark.parametrize(("present", "left"), [(2, {"g-0": "n1", "g-1": "n1"}), (1, {})], ids=["all", "one-short"])
def test_group_that_may_not_be_tried_reserves_nothing_after_a_restart(present: int, left: dict[str, str]) -> None:
    """scheduling.md 3.7, 3.8: a member went and the scheduler died before the others' nominations were taken back."""
    members = [nominated(pod(f"g-{index}", cpu=1, group="g"), "n1") for index in range(present)]
    world = World(node("n1"), group("g", min_count=2), *members)
    world.engine.complete(world.now)
    assert world.nominated == left
    assert taken(world) == ([] if left else ["g-0"])


def leaving(item: objects.Pod) -> objects.Pod:
    """The pod as it is while its deletion waits for it to end."""
    return replace(item, metadata=replace(item.metadata, deletion_timestamp=datetime.fromtimestamp(START, UTC)))


CONFLICTING = [{"node": "n1"}, {}, {"gates": ["wait"]}, {"scheduler": "other", "priority": 5}]


@pytest.mark.parametrize("deleted", [True, False], ids=["deleted", "terminating"])
@pytest.mark.parametrize("odd", CONFLICTING, ids=["runs", "waits", "is gated", "is another's"])
def test_group_is_tried_again_when_the_conflicting_member_goes(odd: dict[str, Any], deleted: bool) -> None:
    """What could help re-activates (scheduling.md 1), without a flush; preemption.md 8.3 counts running members too."""
    world = World(node("n1", cpu=4), gang("g", 1, priority=5), pod("g-0", cpu=1, group="g", priority=5))
    world.add(pod("odd", **{"cpu": 1, "group": "g", "priority": 0, **odd}))
    world.settle()
    assert "g-0" not in world.where
    if deleted:
        world.gone("odd")
    else:
        world.change_pod("odd", leaving)
    world.settle()
    assert world.where == {"g-0": "n1"}
    assert world.now - START < 60, "only after a flush"


def test_group_that_waits_for_members_keeps_no_nomination_that_came_late() -> None:
    """preemption.md 4.5: another scheduler nominated it and is gone, or had not heard yet that a member was."""
    world = World(node("n1"), group("g", min_count=2), pod("a", group="g", nominated="n1"))
    world.engine.give_up_gated(world.now + 4.0, after=5.0)
    assert world.nominated == {"a": "n1"}, "the other members may be yet to come"
    world.engine.give_up_gated(world.now + 5.0, after=5.0)
    assert world.nominated == {}
    assert taken(world) == ["a"]


def test_group_that_may_be_tried_keeps_its_nominations() -> None:
    world = World(node("n1"), group("g", min_count=1), pod("a", group="g", nominated="n1"))
    world.engine.give_up_gated(world.now + 100.0, after=5.0)
    assert world.nominated == {"a": "n1"}


@pytest.mark.parametrize("preempted", [None, False, True])
def test_only_pods_that_leave_by_a_preemption_are_waited_for(preempted: bool | None) -> None:
    """preemption.md 2.3: a pod that a user deletes on the nominated node frees capacity for the first that comes."""
    world = World(node("n1"), node("n2"), pod("leaving", cpu=4, node="n1"), pod("other", cpu=4, node="n2"))
    world.add(nominated(pod("p", cpu=4, priority=100), "n1"))
    uid, said = world.record("leaving").uid, {} if preempted is None else {"preempted": preempted}
    world.engine.mark_terminating(uid, world.now, **said)
    assert world.record("leaving").preempted is bool(preempted)
    assert (world.step().preemption is None) is bool(preempted)
    world.engine.mark_terminating(uid, world.now)
    assert world.record("leaving").preempted is bool(preempted), "a pod that was preempted once stays so"


def test_log_of_changes_does_not_grow_with_time() -> None:
    """Every cache is bounded: it starts over when it is much longer than there are nodes."""
    world = World(node("n", cpu=1), pod("r", cpu=1, node="n", priority=9))
    rows = world.engine.cluster.touched.entries
    rows += [0] * 5000
    world.add(pod("p", cpu=1)).step()
    assert len(world.engine.cluster.touched.entries) < 100


@pytest.mark.parametrize("turn", [0, 1])
def test_pod_with_a_binding_under_way_ignores_older_nominations_and_gates(turn: int) -> None:
    """scheduling.md 2: a nomination or a gate of before the decision means nothing, on no node."""
    world = World(*[node(f"n{each}", cpu=4 if each == turn else 1) for each in range(2)], pod("p", cpu=2))
    [binding] = world.step().bindings
    assert binding.node == f"n{turn}"
    gates = (objects.PodSchedulingGate(name="g"),)
    world.change_pod("p", lambda item: nominated(item, f"n{1 - turn}"))
    world.change_pod("p", lambda item: replace(item, spec=replace(item.spec, scheduling_gates=gates)))
    assert world.where == {"p": f"n{turn}"}
    assert world.nominated == {}
    assert (taken(world), world.released()) == ([], [])
    assert world.engine.queue.find(world.record("p")) is None
