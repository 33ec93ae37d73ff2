"""The pod-group cycle (scheduling.md 3), rule by rule."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kube_rules.meta import ObjectRef
from reprieve.queueing.entity import QueueState
from reprieve.scheduling.decision import Result
from tests.building import World, gang, group, history, node, pod

WAITING = "pod group is waiting for podgroup preemption to complete"
MEMBER = "no new claims to deallocate, preemption: not eligible due to workload aware preemption enabled"


def test_pending_members_go_together_in_priority_then_creation_order() -> None:
    """scheduling.md 3.1: one view, ordered by creation (a group's pods have one priority), identical ones adjacent."""
    world = World(node("n", cpu=20), group("crew", min_count=4))
    for name, cpu in (("a", 1), ("b", 2), ("c", 1), ("d", 2)):
        world.add(pod(name, cpu=cpu, group="crew"))
    decision = world.step()
    assert [b.pod.name for b in decision.bindings] == ["a", "c", "b", "d"]
    assert decision.result is Result.SCHEDULED
    assert world.engine.queue.pop(world.now) is None


def test_each_member_sees_those_before_it() -> None:
    """scheduling.md 3.2: fits -> assumed in the view, the next pods see it."""
    world = World(*[node(f"n{i}", cpu=2) for i in range(3)], *gang("crew", 3, cpu=2)).settle()
    assert sorted(world.where.values()) == ["n0", "n1", "n2"]


def test_member_that_does_not_fit_is_passed_over_while_the_minimum_can_be_reached() -> None:
    """scheduling.md 3.2: "continues while minCount can still be reached"."""
    world = World(node("n", cpu=2), group("crew", min_count=2), pod("big", cpu=9, group="crew"))
    world.add(pod("a", cpu=1, group="crew"), pod("b", cpu=1, group="crew")).settle()
    assert world.where == {"a": "n", "b": "n"}
    assert world.message("big") == f"0/1 nodes are available: 1 Insufficient cpu. {MEMBER}"


def test_cycle_stops_early_when_the_minimum_is_out_of_reach() -> None:
    """scheduling.md 3.2: "otherwise it stops early": the others are not even tried, and say so."""
    world = World(node("n", cpu=2), group("crew", min_count=3), pod("big", cpu=9, group="crew"))
    world.add(pod("a", cpu=1, group="crew"), pod("b", cpu=1, group="crew")).settle()
    assert world.where == {}
    assert world.message("big").startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert world.message("a") == world.message("b") == "pod group is unschedulable"


def test_identical_pods_of_one_that_failed_fail_too() -> None:
    """scheduling.md 3.2: one evaluation for all of them, and the same message."""
    world = World(
        *[node(f"n{i:02}", cpu=1) for i in range(70)],
        group("crew"),
        *[pod(f"m{i:02}", cpu=2, group="crew") for i in range(30)],
    )
    evaluator = world.engine.running["default-scheduler"].evaluator
    decision = world.step()
    assert evaluator.passes <= 2
    assert len({r.message for r in decision.rejections}) == 1
    assert len(decision.rejections) == 30


def test_minimum_counts_what_runs_already() -> None:
    """scheduling.md 3.3: "counts the pods that are scheduled or assumed already"."""
    world = World(node("n", cpu=3), group("crew", min_count=3))
    world.add(*[pod(f"r{i}", cpu=1, node="n", group="crew") for i in range(2)], pod("p", cpu=1, group="crew")).settle()
    assert sorted(world.where) == ["p", "r0", "r1"]


def test_leaving_members_do_not_count() -> None:
    """scheduling.md 3.3: a terminating member cannot make up a minimum (scheduling.md 7)."""
    world = World(
        node("n", cpu=4), group("crew", min_count=3), pod("x", cpu=1, node="n", group="crew", terminating=True)
    )
    world.add(pod("r", cpu=1, node="n", group="crew"), pod("p", cpu=1, group="crew")).settle()
    assert world.pending == ["p"]
    assert world.place("crew") is QueueState.GATED


def test_first_attempt_binds_the_minimum_and_retries_the_rest_at_once() -> None:
    """scheduling.md 3.3, preemption.md 2.6: no preemption on the first attempt; then one for the rest."""
    world = World(node("n1", cpu=2), node("n2", cpu=2), pod("low", cpu=2, node="n2"))
    world.add(*gang("crew", 3, min_count=2, cpu=1, priority=5))
    first = world.step()
    assert sorted(b.pod.name for b in first.bindings) == ["crew-0", "crew-1"]
    assert first.preemption is None
    assert world.place("crew") is QueueState.ACTIVE
    assert world.entity("crew").timestamp == world.record("crew-0").created
    second = world.step()
    assert second.preemption is not None
    assert [v.unit.name for v in second.preemption.victims] == ["default/low"]


def test_reservations_end_below_the_minimum() -> None:
    """scheduling.md 3.3: "the whole group is rejected and nothing stays reserved"."""
    world = World(node("n", cpu=2), *gang("crew", 3, cpu=1), pod("small", cpu=2)).settle()
    assert world.where == {"small": "n"}
    assert world.pending == ["crew-0", "crew-1", "crew-2"]


def test_later_attempt_preempts_before_it_binds() -> None:
    """scheduling.md 3.4: "preemption is tried first. If it helps, all pods wait for it"."""
    world = World(node("n1", cpu=2), node("n2", cpu=1), group("crew", min_count=1, priority=5))
    world.add(pod("r", cpu=1, node="n1", group="crew", priority=5), pod("low", cpu=1, node="n2"))
    world.add(*[pod(f"p{i}", cpu=1, group="crew", priority=5) for i in range(2)])
    decision = world.step()
    assert decision.result is Result.WAITING
    assert decision.bindings == ()
    assert sorted(world.nominated) == ["p0", "p1"]
    world.virtual._act(decision)
    assert sorted(world.settle().where) == ["p0", "p1", "r"]


def test_placed_members_are_bound_if_preemption_does_not_help() -> None:
    """scheduling.md 3.4: "otherwise the placed pods are bound"."""
    world = World(node("n1", cpu=2), group("crew", min_count=1, priority=5))
    world.add(pod("r", cpu=1, node="n1", group="crew", priority=5))
    world.add(*[pod(f"p{i}", cpu=1, group="crew", priority=5) for i in range(2)]).settle()
    assert world.where == {"r": "n1", "p0": "n1"}
    assert world.pending == ["p1"]


def test_only_nominations_that_a_member_had_are_cleared_where_the_group_preempts() -> None:
    """scheduling.md 3.4, preemption.md 7: a member without a place in the preemption loses its nomination."""
    for nominated in ("", "n2"):
        world = World(node("n1", cpu=2), node("n2", cpu=1), pod("low", cpu=2, node="n1"))
        world.add(
            group("crew", min_count=2, priority=5), *(pod(f"p{i}", cpu=1, group="crew", priority=5) for i in "ab")
        )
        world.add(pod("vast", cpu=9, group="crew", priority=5, nominated=nominated))
        decision = world.step()
        assert decision.preemption is not None
        assert sorted(pod.name for pod, _ in decision.nominations) == ["pa", "pb"]
        assert [one.name for one in decision.cleared_nominations] == ["vast"] * bool(nominated)


def test_basic_group_has_no_minimum_and_binds_before_it_preempts() -> None:
    """scheduling.md 3.5: "without a minimum, and binding comes before preemption"."""
    world = World(node("n1", cpu=1), node("n2", cpu=1), pod("low", cpu=1, node="n2"), group("crew", priority=5))
    world.add(*[pod(f"p{i}", cpu=1, group="crew", priority=5) for i in range(3)])
    first = world.step()
    assert (len(first.bindings), first.preemption) == (1, None)
    world.virtual._act(first)
    world.settle()
    assert world.evicted == ["low"]
    assert world.where == {"p0": "n1", "p1": "n2"}
    assert world.pending == ["p2"]


def test_member_that_can_preempt_only_after_the_rest_is_bound_does_so() -> None:
    """scheduling.md 3.5, 7: a group with bound pods is tried again at once: the rest may still preempt."""
    world = World(node("n1", cpu=5, pods=2), node("n2", cpu=5, pods=1, gpu=2), pod("low", cpu=1, node="n2"))
    world.add(group("crew", min_count=1, priority=5), pod("r", cpu=1, node="n1", group="crew", priority=5))
    world.add(pod("a", cpu=1, group="crew", priority=5), pod("b", cpu=1, gpu=2, group="crew", priority=5)).settle()
    assert world.where == {"r": "n1", "a": "n1", "b": "n2"}


def test_failed_bind_of_a_gang_is_retried_in_sight() -> None:
    """scheduling.md 3.6: below the minimum "without a visible condition and retry" is not allowed."""
    world = World(node("n", cpu=2), *gang("crew", 2, cpu=1))
    decision = world.step()
    assert len(decision.bindings) == 2
    world.engine.confirm_binding("uid-crew-0")
    world.add(pod("thief", cpu=1, priority=9, node="n"))  # over-committed by another scheduler
    world.engine.fail_binding("uid-crew-1", world.now)
    assert world.place("crew") is QueueState.BACKOFF
    world.settle()
    assert world.pending == ["crew-1"]
    assert world.rejection("crew-1") == ("Unschedulable", f"0/1 nodes are available: 1 Insufficient cpu. {MEMBER}")
    assert world.gone("thief").settle().where == {"crew-0": "n", "crew-1": "n"}


def test_failed_bind_paces_a_group_that_would_be_tried_again_at_once() -> None:
    """scheduling.md 1.5: backoff grows from one failed binding to the next, though each cycle places a member."""
    world = World(node("n", cpu=1), group("crew", min_count=1), pod("a", cpu=1, group="crew"))
    world.add(pod("b", cpu=1, group="crew"))
    waits = []
    for _ in range(3):
        decision = world.step()
        assert decision is not None
        (binding,) = decision.bindings
        assert decision.retry_now
        world.engine.fail_binding(binding.pod.uid, world.now)
        assert world.place("crew") is QueueState.BACKOFF
        wake = world.engine.next_wakeup(flush=False, holds=False, ignoring=[])
        assert wake is not None
        waits.append(wake - world.now)
        world.virtual.now = wake
    assert waits == [1.0, 2.0, 4.0]


def test_rejection_is_written_on_every_pod_and_on_the_group() -> None:
    """scheduling.md 3.7, observability.md: every pod its PodScheduled=False, the group its own condition."""
    world = World(node("n", cpu=2), *gang("crew", 3, cpu=1)).settle()
    placed = (
        "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, "
        "one or more plugins asked to wait and no plugin rejected pod"
    )
    assert world.rejection("crew-0") == world.rejection("crew-1") == ("Unschedulable", placed)
    assert world.rejection("crew-2") == ("Unschedulable", f"0/1 nodes are available: 1 Insufficient cpu. {MEMBER}")
    scheduled, reason, message = world.condition("crew")
    assert (scheduled, reason) == (False, "Unschedulable")
    assert message.startswith("0/1 placements are available, first placement status: pod group is unschedulable, ")
    assert "No preemption victims found for incoming preemptor" in message


def test_condition_states_what_the_group_waits_for_while_victims_leave() -> None:
    """scheduling.md 3.7, observability.md: "While victims terminate it is False, Unschedulable" and the message."""
    world = World(node("n", cpu=2), pod("low", cpu=2, node="n"), *gang("crew", 2, cpu=1, priority=5)).drain()
    assert world.condition("crew") == (False, "Unschedulable", WAITING)
    assert world.rejection("crew-0") == ("Unschedulable", WAITING)
    assert world.settle().condition("crew") == (True, "Scheduled", "")
    assert world.virtual.rejections == {}


def test_group_tried_again_while_victims_leave_still_waits_for_them() -> None:
    """scheduling.md 3.7, observability.md: the message stays while victims leave, whatever wakes the group."""
    running = [pod(f"low-{i}", cpu=1, node="n", grace=10 + 40 * i) for i in range(2)]
    world = World(node("n", cpu=2), *running, *gang("crew", 2, cpu=1, priority=5)).drain()
    world.virtual.until(world.now + 20)
    assert world.pending == ["crew-0", "crew-1"]
    assert world.engine.attempts == 2
    assert world.condition("crew") == (False, "Unschedulable", WAITING)
    assert world.settle().condition("crew") == (True, "Scheduled", "")


def test_room_of_one_member_is_not_for_another_while_victims_leave() -> None:
    """preemption.md 2.3, 4.5: p0 has to wait for it, and p1 would take a part of it."""
    leaving = pod("low", cpu=4, node="n", terminating=True, preempted=True)
    world = World(node("n", cpu=5), leaving, group("crew", min_count=1, priority=5))
    world.add(pod("p0", cpu=4, group="crew", priority=5, nominated="n"), pod("p1", cpu=1, group="crew", priority=5))
    decision = world.step()
    assert decision.bindings == ()
    assert world.nominated == {"p0": "n"}
    world.gone("low")
    assert world.settle().where == {"p0": "n", "p1": "n"}


def test_condition_once_true_is_never_false_again() -> None:
    """scheduling.md 3.7, observability.md: "Once True, it never becomes False again"."""
    world = World(node("n", cpu=1), *gang("crew", 2, min_count=1, cpu=1)).settle()
    assert world.pending == ["crew-1"]
    assert world.condition("crew") == (True, "Scheduled", "")


def test_nominations_of_a_rejected_group_are_cleared() -> None:
    """scheduling.md 3.7: "nominations are cleared", and the room they held is offered to others."""
    world = World(node("n", cpu=2), pod("top", cpu=1, node="n", priority=9), group("crew", min_count=2, priority=5))
    world.add(*[pod(f"m{i}", cpu=1, priority=5, group="crew", nominated="n") for i in range(2)])
    world.add(pod("other", cpu=1, priority=3)).settle()
    assert world.nominated == {}
    assert world.where == {"top": "n", "other": "n"}


def test_nominations_of_a_group_that_is_gated_hold_no_room() -> None:
    """scheduling.md 3.8: "Nothing of the earlier decision stays reserved", also where an object or member is gone."""
    for how in ("object", "member", "minimum"):
        world = World(node("n", cpu=2), pod("low", cpu=2, node="n"), *gang("crew", 2, cpu=1, priority=5)).drain()
        assert sorted(world.nominated) == ["crew-0", "crew-1"]
        if how == "object":
            world.engine.remove(ObjectRef("PodGroup", "default/crew"), world.now)
        elif how == "member":
            world.gone("crew-1")
        else:
            world.add(group("crew", min_count=3, priority=5))
        assert world.nominated == {}, how
        world.add(pod("other", cpu=2, priority=1)).settle()
        assert world.where == {"other": "n"}, how


# -- divergence ----------------------------------------------------------------------------------------------------


def test_mixed_priorities_are_an_error() -> None:
    """preemption.md 8, observability.md: exact message, on every pod and on the group."""
    world = World(node("n"), group("crew", min_count=2, priority=2))
    world.add(pod("a", group="crew", priority=2), pod("b", group="crew", priority=1)).settle()
    text = "all pods in a single pod group should match the priority of the pod group, got: 1 and 2"
    assert world.rejection("a") == world.rejection("b") == ("SchedulerError", text)
    assert world.condition("crew") == (False, "SchedulerError", text)
    assert world.where == {}


def test_only_the_numbers_are_compared() -> None:
    """preemption.md 8: an unset priority is 0."""
    world = World(node("n"), group("crew", min_count=2, priority=None))
    world.add(pod("a", group="crew", priority=None), pod("b", group="crew", priority=0)).settle()
    assert sorted(world.where) == ["a", "b"]


def test_group_without_a_priority_does_not_conflict_with_its_pods() -> None:
    """preemption.md 8.3: "A group without a number from admission is not compared, and counts as 0"."""
    world = World(node("n"), group("crew", min_count=2, priority=None), group("zero", min_count=2, priority=0))
    world.add(*[pod(f"{name}{i}", group=name, priority=100) for name in ("crew", "zero") for i in range(2)]).settle()
    assert sorted(world.where) == ["crew0", "crew1"]
    assert world.rejection("zero0")[1].endswith("got: 100 and 0")


def test_mixed_schedulers_are_an_error() -> None:
    """observability.md 1.3: exact message."""
    world = World(node("n"))
    engine = world.engine
    from reprieve.scheduling.divergence import divergence

    world.add(group("crew", min_count=2), pod("x", group="crew", scheduler="b"), pod("y", group="crew", scheduler="a"))
    state = engine.cluster.groups["default/crew"]
    text = divergence(state, [world.record("x"), world.record("y")], group_policy=True)
    assert text == 'all pods in a single pod group should have the same .spec.schedulerName set, got: "a" and "b"'


@pytest.mark.parametrize("scheduled", [False, True], ids=["lone", "beside one that runs"])
@pytest.mark.parametrize(("own", "wanted"), [(9, 2), (2, 9)], ids=["above its group", "below its group"])
def test_one_member_with_another_priority_is_an_error(own: int, wanted: int, scheduled: bool) -> None:
    """preemption.md 8: neither the quota on a class nor the class itself is got round by way of a group."""
    crew = group("crew", priority=wanted, priority_class="urgent")
    world = World(node("n", cpu=1), pod("low", cpu=1, node="n"), node("m"), crew)
    if scheduled:
        world.add(pod("runs", node="m", group="crew", priority=wanted))
    world.engine.remove(ObjectRef("Node", "m"), world.now)
    world.add(pod("a", cpu=1, group="crew", priority=own)).settle()
    text = f"all pods in a single pod group should match the priority of the pod group, got: {own} and {wanted}"
    assert world.rejection("a") == ("SchedulerError", text)
    assert world.condition("crew") == (False, "SchedulerError", text)
    assert world.evicted == []


@pytest.mark.parametrize("named_by", ["", "pod", "group"])
@pytest.mark.parametrize("members", [1, 2])
def test_numbers_that_no_class_gave_bind_a_lone_member_to_its_group(named_by: str, members: int) -> None:
    """preemption.md 8.3: admission leaves no such objects; kube-scheduler 1.36 goes by the group's number."""
    crew = group("crew", priority=9, priority_class="urgent" if named_by == "group" else "")
    world = World(node("n", cpu=2), pod("low", cpu=2, priority=5, node="n"), crew)
    for name in ("a", "b")[:members]:
        made = pod(name, cpu=1, group="crew", priority=2)
        if named_by == "pod":
            made = replace(made, spec=replace(made.spec, priority_class_name="modest"))
        world.add(made)
    world.settle()
    if members == 1 and not named_by:
        assert world.evicted == ["low"]
    else:
        assert world.rejection("a")[0] == "SchedulerError"
        assert world.evicted == []


def test_member_that_runs_with_another_priority_is_an_error() -> None:
    """preemption.md 8: "pods of a group" are all of them."""
    world = World(node("n"), group("crew", priority=2), pod("runs", node="n", group="crew", priority=1))
    world.add(pod("a", group="crew", priority=2)).settle()
    assert world.rejection("a")[1].endswith("got: 1 and 2")


@pytest.mark.parametrize("bound", [False, True], ids=["pending", "bound by its scheduler"])
def test_member_of_a_scheduler_that_is_no_profile_is_an_error(bound: bool) -> None:
    """preemption.md 8.5: it will never be placed with the others, and the group says so instead of "minCount"."""
    world = World(node("n"), group("crew", min_count=2, priority=0), pod("ours", group="crew"))
    world.add(pod("theirs", group="crew", scheduler="theirs", node="n" if bound else "")).step()
    text = (
        "all pods in a single pod group should have the same .spec.schedulerName set, "
        'got: "theirs" and "default-scheduler"'
    )
    decision = world.engine.decisions[-1]
    assert decision.condition is not None
    assert (decision.condition.reason, decision.condition.message) == ("SchedulerError", text)
    assert [(r.pod.name, r.message) for r in decision.rejections] == [("ours", text)]
    world.gone("theirs").add(pod("another", group="crew"))
    assert sorted(world.settle().where) == ["another", "ours"]


def test_topology_constraint_is_refused_or_met() -> None:
    """scheduling.md 5: never ignored: either all members are in one domain, or the group says that it cannot."""
    zones = [node("a1", cpu=1, labels={"zone": "a"}), node("b1", cpu=1, labels={"zone": "b"})]
    world = World(
        *zones, group("crew", min_count=2, topology="zone"), *[pod(f"m{i}", cpu=1, group="crew") for i in (1, 2)]
    )
    world.settle()
    assert world.where == {}
    assert world.condition("crew")[0] is False


# -- what stays the same -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [True, False])
def test_members_may_differ(share: bool) -> None:
    """Heterogeneous gangs: each member by its own needs."""
    world = World(node("g", cpu=4, gpu=4), node("c", cpu=16), group("crew", min_count=3), plain=not share)
    world.add(
        pod("driver", cpu=8, group="crew"), pod("w0", cpu=1, gpu=2, group="crew"), pod("w1", cpu=1, gpu=2, group="crew")
    )
    assert world.settle().where == {"driver": "c", "w0": "g", "w1": "g"}


def test_two_gangs_that_each_fit_alone_do_not_share_the_room() -> None:
    """All or nothing: the first by arrival runs whole, the other waits whole."""
    world = World(node("n", cpu=3), *gang("one", 2, cpu=1), *gang("two", 2, cpu=1)).settle()
    assert sorted(world.where) == ["one-0", "one-1"]
    assert world.pending == ["two-0", "two-1"]
    assert all(result != "error" for _, result, *_ in history(world))


def test_rest_of_a_group_has_its_backoff_from_the_beginning() -> None:
    """scheduling.md 3.3: a pod that is tried again at once with others bound did not fail before."""
    world = World(node("n1", cpu=1), gang("g", 1), pod("g-0", cpu=1, group="g"), pod("g-1", cpu=1, group="g"))
    began = world.now
    world.drain()
    assert sorted(world.where) == ["g-0"]
    world.add(node("n2", cpu=1))
    world.settle()
    assert sorted(world.where) == ["g-0", "g-1"]
    assert world.now - began == 1.0, "the second failure waits two seconds"


def test_conflicting_group_gives_its_nominations_back() -> None:
    """scheduling.md 3.7: nominations are cleared, on the first node as on any other; a pod without one is not named."""
    for where in ("n", "m"):
        world = World(node("n", cpu=1), node("m", cpu=1), group("crew", min_count=2, priority=2))
        world.add(pod("a", group="crew", priority=2, nominated=where), pod("b", group="crew", priority=1))
        decision = world.step()
        assert decision.result is Result.ERROR
        assert [one.name for one in decision.cleared_nominations] == ["a"]
        assert world.nominated == {}


def test_group_that_makes_room_elsewhere_gives_back_what_it_does_not_need() -> None:
    """scheduling.md 3.3: those that are nominated wait there; a member that is not any more says so."""
    low = [pod(f"low-{name}", cpu=1, node=name) for name in ("n", "m")]
    world = World(node("n", cpu=1), node("m", cpu=1, gpu=1), *low, group("crew", min_count=1, priority=5))
    world.add(
        pod("a", cpu=1, gpu=2, group="crew", priority=5, nominated="n"),
        pod("b", cpu=1, gpu=1, group="crew", priority=5),
    )
    decision = world.step()
    assert decision.result is Result.WAITING
    assert [one.name for one in decision.cleared_nominations] == ["a"]
    assert world.nominated == {"b": "m"}


@pytest.mark.parametrize(
    ("own", "never", "text"),
    [
        (None, (False, False), None),
        (None, (True, True), None),
        (None, (False, True), "policy, got Never and PreemptLowerPriority"),
        (None, (True, False), "policy, got PreemptLowerPriority and Never"),
        ("Never", (True, True), None),
        ("Never", (True, False), "policy as the pod group's preemption policy, got PreemptLowerPriority and Never"),
        (
            "PreemptLowerPriority",
            (True, True),
            "policy as the pod group's preemption policy, got Never and PreemptLowerPriority",
        ),
    ],
)
@pytest.mark.parametrize("gate", [True, False])
def test_members_have_the_policy_of_their_group_or_agree(
    own: str | None, never: tuple[bool, bool], text: str | None, gate: bool
) -> None:
    """preemption.md 8.4: without the gate PodGroupPreemptionPolicy the policy of the group does not count."""
    from reprieve.scheduling.divergence import divergence

    world = World(node("n"), group("crew", min_count=2, policy=own))
    world.add(*(pod(f"p{turn}", group="crew", never=each) for turn, each in enumerate(never)))
    members = [world.record(f"p{turn}") for turn in range(2)]
    found = divergence(world.engine.cluster.groups["default/crew"], members, group_policy=gate)
    if not gate:
        first, second = ("Never" if each else "PreemptLowerPriority" for each in never)
        text = f"policy, got {second} and {first}" if first != second else None
    assert found == (None if text is None else f"all pods in a single pod group should have the same preemption {text}")
