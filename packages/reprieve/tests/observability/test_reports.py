"""What is counted, logged and written as an event of each thing that happens, case by case (observability.md 2, 3, 5).

Decisions are made by hand, so that each says one thing.
"""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest

from kube_rules.meta import KubernetesObject
from reprieve.cluster.groups import Group
from reprieve.observability import observer as observing
from reprieve.observability.logs import Log
from reprieve.observability.metrics import Metrics
from reprieve.observability.observer import Observer
from reprieve.preemption.outcome import Preemption, UnhelpfulPreemption, UnhelpfulReason
from reprieve.preemption.units import PreemptionUnit
from reprieve.scheduling.decision import (
    SCHEDULER_ERROR,
    Binding,
    Decision,
    GroupCondition,
    Result,
)
from reprieve.scheduling.preemptor_reservations import Released, ReleasedReservation
from tests.building import START, World, composite, group, node, pod
from tests.observability.decisions import evicting, failed, rejection, unit
from tests.observability.watching import read, value

PROFILE = "default-scheduler"
FOREIGN = "scheduling.volcano.sh/v1beta1"


class Reported:
    """An observer, and a world with the pods that its reports are about; `attached`: the observer knows its engine."""

    def __init__(self, *items: KubernetesObject, attached: bool = True, verbosity: int = 4) -> None:
        there = [node(f"n{i}", cpu=64) for i in range(9)]
        self.world = World(*there, *items)
        self.sent: list[dict[str, Any]] = []
        self.logged = io.StringIO()
        self.observer = Observer(
            metrics=Metrics(process=False),
            sink=self.sent.append,
            log=Log(verbosity, stream=self.logged),
            controller="ours",
            instance="here",
        )
        if attached:
            self.observer.attach(self.world.engine)

    def decide(self, decision: Decision, seconds: float = 0.25, now: float = START) -> None:
        self.observer.decided(replace(decision, profile=PROFILE), seconds=seconds, now=now)

    def counted(self, name: str, **labels: str) -> float:
        return value(read(self.observer.metrics), f"scheduler_{name}", labels) or 0

    def notes(self) -> list[tuple[str, str, str]]:
        return [(body["reason"], body["regarding"]["name"], body["note"]) for body in self.sent]

    def lines(self) -> list[str]:
        """Log lines without their time."""
        return [line.split(" ", 1)[1] for line in self.logged.getvalue().splitlines()]

    def group(self, name: str, foreign: str | None = None) -> Group:
        """A group of the world, as one of another API where `foreign` names it."""
        found = self.world.engine.cluster.groups.get(f"default/{name}")
        assert found is not None
        assert found.spec is not None
        found.spec = replace(found.spec, foreign=foreign)
        return found


def three(**more: Any) -> list[KubernetesObject]:
    """Three pods that run."""
    return [pod(name, cpu=4, node="n1", start=-60, **more) for name in ("a", "b", "c")]


# -- attempts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "label"),
    [
        (Result.SCHEDULED, "scheduled"),
        (Result.UNSCHEDULABLE, "unschedulable"),
        (Result.WAITING, "waiting_on_preemption"),
        (Result.ERROR, "error"),
    ],
)
def test_attempt_of_a_group_counts_by_its_result(result: Result, label: str) -> None:
    seen = Reported()
    seen.decide(Decision("group/default/crew", result))
    seen.decide(Decision("composite/default/tree", result))
    labels = {"result": label, "profile": PROFILE}
    assert seen.counted("podgroup_schedule_attempts_total", **labels) == 2
    assert seen.counted("podgroup_scheduling_attempt_duration_seconds_sum", **labels) == 0.5
    assert seen.counted("podgroup_scheduling_algorithm_duration_seconds_sum") == 0.5
    assert seen.counted("scheduling_algorithm_duration_seconds_count") == 0, "of single pods"


@pytest.mark.parametrize(("reason", "label"), [("Unschedulable", "unschedulable"), (SCHEDULER_ERROR, "error")])
@pytest.mark.parametrize("key", ["pod/uid-a", "group/default/crew"])
def test_every_rejected_pod_counts_and_has_an_event(key: str, reason: str, label: str) -> None:
    """observability.md 1.2, 2.1: trouble of the scheduler is an error."""
    seen = Reported(*three())
    decision = failed(*(rejection(seen.world.record(name), name * 2, reason) for name in "ab"), key=key)
    seen.decide(decision)
    labels = {"result": label, "profile": PROFILE}
    assert seen.counted("schedule_attempts_total", **labels) == 2
    assert seen.counted("scheduling_attempt_duration_seconds_sum", **labels) == 0.5
    assert seen.notes() == [("FailedScheduling", "a", "aa"), ("FailedScheduling", "b", "bb")]
    assert {(body["type"], body["action"]) for body in seen.sent} == {("Warning", "Scheduling")}


@pytest.mark.parametrize(
    ("decision", "attempts"),
    [
        (Decision("pod/uid-a", Result.UNSCHEDULABLE), 1),
        (Decision("pod/uid-a", Result.SCHEDULED), 0),
        (Decision("pod/uid-a", Result.ERROR), 0),
        (Decision("group/default/crew", Result.UNSCHEDULABLE), 0),
    ],
    ids=["a-pod-in-vain", "placed", "trouble", "a-group-without-an-attempt"],
)
def test_pod_that_no_eviction_helps_has_attempted_to_preempt(decision: Decision, attempts: int) -> None:
    """kube-scheduler counts every run of its PostFilter; groups have counters of their own."""
    seen = Reported()
    seen.decide(decision)
    assert seen.counted("preemption_attempts_total") == attempts
    labels = {"preemptor": "pod", "result": "unschedulable"}
    assert seen.counted("preemption_evaluation_duration_seconds_sum", **labels) == attempts * 0.25


@pytest.mark.parametrize(
    ("why", "kind", "status", "result"),
    [
        (UnhelpfulReason.NO_LOWER_PRIORITY, "podgroup", "UnschedulableAndUnresolvable", "unschedulable"),
        (UnhelpfulReason.DOES_NOT_FIT, "podgroup", "Unschedulable", "unschedulable"),
        (UnhelpfulReason.DOES_NOT_FIT, "compositepodgroup", "Unschedulable", "unschedulable"),
        (UnhelpfulReason.ERROR, "podgroup", "Error", "error"),
        (UnhelpfulReason.UNDER_WAY, "podgroup", "Unschedulable", ""),
        (UnhelpfulReason.POLICY_NEVER, "podgroup", "Unschedulable", ""),
    ],
)
def test_group_that_finds_no_room_counts_by_why(why: UnhelpfulReason, kind: str, status: str, result: str) -> None:
    """observability.md 3.3: what may not preempt attempts nothing."""
    seen = Reported(group("crew", min_count=1), composite("tree"))
    found = seen.world.engine.cluster.trees.find(
        "composite/default/tree" if kind == "compositepodgroup" else "group/default/crew"
    )
    assert found is not None
    seen.decide(Decision(found.ref, Result.UNSCHEDULABLE, unhelpful=UnhelpfulPreemption(found, why)))
    assert seen.counted("workload_preemption_attempts_total", result=status) == 1
    for label in ("unschedulable", "error"):
        assert seen.counted("podgroup_preemption_attempts_total", result=label) == int(label == result)
        labels = {"preemptor": kind, "result": label}
        evaluated = seen.counted("preemption_evaluation_duration_seconds_sum", **labels)
        assert evaluated == (0.25 if label == result else 0)
    assert seen.counted("podgroup_preemption_attempt_duration_seconds_sum") == (0.25 if result else 0)


def test_attempts_that_use_what_was_worked_out_for_identical_pods() -> None:
    """`scheduler_batch_attempts_total`: the filters run for the first, and not again for one like it."""
    seen = Reported(pod("a", cpu=1), pod("b", cpu=1), pod("c", cpu=2))
    seen.world.engine.after_step = lambda decision: seen.observer.decided(decision, seconds=0.1, now=START)
    seen.world.settle()
    counts = {label: seen.counted("batch_attempts_total", result=label) for label in ("hint_used", "no_hint")}
    assert counts == {"hint_used": 1, "no_hint": 2}


@pytest.mark.parametrize("attached", [True, False])
def test_attempts_of_a_profile_that_is_not_known_use_nothing(attached: bool) -> None:
    seen = Reported(attached=attached)
    seen.observer.decided(Decision("pod/x", Result.SCHEDULED, profile="other"), seconds=0.1, now=START)
    assert seen.counted("batch_attempts_total", result="no_hint") == 0


# -- bindings ----------------------------------------------------------------------------------------------------------


def assumed(seen: Reported, *names: str, attempt: int = 3, queued: float = START - 40) -> Decision:
    found = [Binding(seen.world.record(name), "n1", 0) for name in names]
    return Decision(f"pod/uid-{names[0]}", Result.SCHEDULED, bindings=tuple(found), attempt=attempt, queued_at=queued)


def test_binding_is_timed_from_the_attempt_and_from_when_the_pod_might_be_tried() -> None:
    seen = Reported(*three())
    seen.decide(assumed(seen, "a"))
    seen.observer.bound(seen.world.record("a"), "n1", now=START + 2)
    labels = {"result": "scheduled", "profile": PROFILE}
    assert seen.counted("schedule_attempts_total", **labels) == 1
    assert seen.counted("scheduling_attempt_duration_seconds_sum", **labels) == 2.25
    assert seen.counted("pod_scheduling_attempts_sum") == 3
    assert seen.counted("pod_scheduling_sli_duration_seconds_sum", attempts="3") == 42
    assert seen.notes() == [("Scheduled", "a", "Successfully assigned default/a to n1")]
    assert (seen.sent[0]["type"], seen.sent[0]["action"]) == ("Normal", "Binding")
    assert seen.lines()[-1] == "info Bound pod pod=default/a node=n1"


def test_binding_that_fails_is_an_error_of_that_attempt() -> None:
    seen = Reported(*three())
    seen.decide(assumed(seen, "a"))
    seen.observer.bind_failed(seen.world.record("a"), "n1", "refused", now=START + 2)
    seen.observer.bind_failed(seen.world.record("b"), "n1", "not ours", now=START + 2)
    labels = {"result": "error", "profile": PROFILE}
    assert seen.counted("schedule_attempts_total", **labels) == 1
    assert seen.counted("scheduling_attempt_duration_seconds_sum", **labels) == 2.25
    assert seen.notes() == [("FailedScheduling", "a", "refused"), ("FailedScheduling", "b", "not ours")]
    assert {(body["type"], body["action"]) for body in seen.sent} == {("Warning", "Scheduling")}
    assert seen.lines()[-2] == "error Binding failed pod=default/a node=n1 error=refused"


@pytest.mark.parametrize("what", ["bound", "failed", "permitted"])
def test_clock_that_goes_back_makes_no_negative_time(what: str) -> None:
    seen = Reported(*three())
    one = seen.world.record("a")
    seen.decide(replace(assumed(seen, "a"), waiting=(Binding(one, "n1", 0),), bindings=()))
    match what:
        case "bound":
            seen.observer.bound(one, "n1", now=START - 100)
            assert seen.counted("pod_scheduling_sli_duration_seconds_count", attempts="3") == 1
            assert seen.counted("pod_scheduling_sli_duration_seconds_sum", attempts="3") == 0
            assert seen.counted("scheduling_attempt_duration_seconds_sum", result="scheduled") == 0
        case "failed":
            seen.observer.bind_failed(one, "n1", "no", now=START - 100)
            assert seen.counted("scheduling_attempt_duration_seconds_count", result="error") == 1
            assert seen.counted("scheduling_attempt_duration_seconds_sum", result="error") == 0
        case _:
            seen.observer.permitted(one, "Success", now=START - 100)
            assert seen.counted("permit_wait_duration_seconds_count", result="Success") == 1
            assert seen.counted("permit_wait_duration_seconds_sum", result="Success") == 0


def test_pod_counts_once_for_each_attempt() -> None:
    """A binding that was not decided here (another scheduler's, or the second report of one) is no attempt."""
    seen = Reported(*three())
    seen.decide(assumed(seen, "a"))
    for name in ("a", "a", "b"):
        seen.observer.bound(seen.world.record(name), "n1", now=START)
    assert seen.counted("schedule_attempts_total", result="scheduled") == 1
    assert seen.counted("pod_scheduling_attempts_count") == 1


def test_attempts_without_a_reported_end_are_forgotten_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observing, "_ASSUMED_LIMIT", 2)
    seen = Reported(*three())
    for name in "abc":
        seen.decide(replace(assumed(seen, name), bindings=(), waiting=assumed(seen, name).bindings))
    for name in "abc":
        one = seen.world.record(name)
        seen.observer.permitted(one, name, now=START + 1)
        seen.observer.bound(one, "n1", now=START)
    assert [seen.counted("permit_wait_duration_seconds_count", result=name) for name in "abc"] == [0, 1, 1]
    assert seen.counted("schedule_attempts_total", result="scheduled") == 2


# -- preemptions -------------------------------------------------------------------------------------------------------


def made(seen: Reported, *victims: PreemptionUnit, by: Group | None = None, **more: Any) -> Preemption:
    high = seen.world.record("high")
    found = evicting(high, *victims).preemption
    assert found is not None
    if by is not None:
        return replace(found, pod=None, group=by, domain="cluster", **more)
    return replace(found, **more)


def stage(**more: Any) -> Reported:
    return Reported(
        *three(gpu=2),
        pod("high", cpu=64, priority=9, scheduler=PROFILE),
        group("crew", min_count=1, priority=9),
        group("old", min_count=1, whole=True),
        composite("tree"),
        **more,
    )


@pytest.mark.parametrize("kind", ["pod", "podgroup"])
def test_eviction_costs_are_counted_by_preemptor(kind: str) -> None:
    """observability.md 3.6: pods that were evicted, GPU-seconds since they started."""
    seen = stage()
    seen.world.engine.cluster.now = START
    preemption = made(seen, by=seen.group("crew") if kind == "podgroup" else None)
    for name in "ab":
        seen.observer.evicted(seen.world.record(name), preemption, now=START)
    assert seen.counted("preemption_evicted_pods_total", preemptor=kind) == 2
    assert seen.counted("preemption_lost_gpu_seconds_total", preemptor=kind) == 2 * 2 * 60
    assert seen.lines()[0] == f"info Preempted pod pod=default/a by={preemption.ref} domain={preemption.domain}"


def test_eviction_is_reported_without_an_engine_as_well() -> None:
    """What is lost is not known then, and not reported."""
    seen = stage(attached=False)
    preemption = made(seen)
    seen.observer.evicted(seen.world.record("a"), preemption, now=START)
    assert seen.counted("preemption_evicted_pods_total", preemptor="pod") == 1
    assert seen.counted("preemption_lost_gpu_seconds_total", preemptor="pod") == 0
    assert seen.notes() == [("Preempted", "a", "Preempted by pod uid-high on node n000")]
    seen.decide(
        Decision("group/default/crew", Result.SCHEDULED, conditions=(GroupCondition("default/crew", True, "", ""),))
    )
    assert len(seen.sent) == 1


@pytest.mark.parametrize("kind", ["pod", "podgroup"])
@pytest.mark.parametrize("error", [None, "refused"])
def test_calls_of_a_preemption_count_by_their_result(kind: str, error: str | None) -> None:
    """Attempts of groups with failing calls count as errors too (KEP-5710); those of pods have no such label."""
    seen = stage()
    by = seen.group("crew") if kind == "podgroup" else None
    preemption = made(seen, unit(seen.world.record("a")), by=by)
    seen.observer.preemption_ended(preemption, seconds=1.5, error=error, now=START)
    result = "success" if error is None else "error"
    assert seen.counted("preemption_goroutines_execution_total", result=result) == 1
    assert seen.counted("preemption_goroutines_duration_seconds_sum", result=result) == 1.5
    assert seen.counted("preemption_execution_duration_seconds_sum", preemptor=kind, result=result) == 1.5
    errors = int(error is not None and kind == "podgroup")
    assert seen.counted("podgroup_preemption_attempts_total", result="error") == errors
    ref = preemption.ref
    assert seen.lines() == [
        f"info Preemption carried out by={ref} seconds=1.5"
        if error is None
        else f"error Preemption failed by={ref} seconds=1.5 error=refused"
    ]


@pytest.mark.parametrize("victims", ["alone", "whole", "failed", "without-an-object", "of-another-api"])
def test_group_that_went_whole_has_an_event(victims: str) -> None:
    """observability.md 2.7, 2.6: about its object, by name, once all its pods are evicted."""
    seen = stage()
    foreign = {"without-an-object": "", "of-another-api": FOREIGN}.get(victims)
    old = seen.group("old", foreign)
    whole = PreemptionUnit("default/old", (seen.world.record("a"),), (1,), 0, True, None if victims == "alone" else old)
    error = "no" if victims == "failed" else None
    seen.observer.preemption_ended(made(seen, whole), seconds=0.1, error=error, now=START)
    reported = victims in ("whole", "of-another-api")
    assert seen.notes() == ([("Preempted", "old", "Preempted by pod default/high")] if reported else [])
    if reported:
        [event] = seen.sent
        version = FOREIGN if foreign else "scheduling.k8s.io/v1beta1"
        assert (event["regarding"]["apiVersion"], event["related"]["name"]) == (version, "high")
        assert (event["type"], event["action"], event["reportingController"]) == ("Normal", "Preempting", PROFILE)


@pytest.mark.parametrize("nominated", [True, False])
def test_group_that_went_has_an_event_of_the_preemptors_profile_or_of_the_process(nominated: bool) -> None:
    seen = stage()
    whole = PreemptionUnit("default/old", (seen.world.record("a"),), (1,), 0, True, seen.group("old"))
    preemption = made(seen, whole, by=seen.group("crew"))
    if not nominated:
        preemption = replace(preemption, nominations=())
    seen.observer.preemption_ended(preemption, seconds=0.1, error=None, now=START)
    assert [event["reportingController"] for event in seen.sent] == [PROFILE if nominated else "ours"]


@pytest.mark.parametrize(
    ("of_pod", "of_preemptor", "attached", "controller"),
    [
        ("other", PROFILE, True, PROFILE),
        (PROFILE, "other", True, "ours"),
        (PROFILE, None, True, PROFILE),
        (PROFILE, "other", False, "other"),
    ],
    ids=["the-preemptors", "one-that-is-not-here", "the-victims-where-nobody-is-nominated", "without-an-engine"],
)
def test_profile_that_acts_reports(of_pod: str, of_preemptor: str | None, attached: bool, controller: str) -> None:
    """observability.md 2.1: under the name that pods ask for it by, where this process has it."""
    seen = Reported(
        pod("low", node="n1", scheduler=of_pod),
        pod("high", priority=9, scheduler=of_preemptor or "x"),
        attached=attached,
    )
    preemption = made(seen)
    if of_preemptor is None:
        preemption = replace(preemption, nominations=())
    seen.observer.evicted(seen.world.record("low"), preemption, now=START)
    assert seen.sent[0]["reportingController"] == controller


def test_preemption_without_victims_is_refused() -> None:
    seen = stage()
    with pytest.raises(ValueError, match="without a preemptor"):
        seen.observer.evicted(seen.world.record("a"), replace(made(seen), pod=None), now=START)


def test_victims_of_a_pod_and_of_a_group_are_counted_apart() -> None:
    """Disruptions are units of groups; budgets that are violated count by unit; spared units only of groups."""
    seen = stage()
    a, b, c = (seen.world.record(name) for name in "abc")
    of_group = replace(unit(a, b), in_group=True)
    alone = unit(c)
    for by in (None, seen.group("crew")):
        preemption = made(seen, of_group, alone, by=by)
        verdicts = tuple(replace(one, violates_pdb=True) for one in preemption.verdicts)
        spared = tuple(replace(one, reason=None) for one in preemption.verdicts)
        preemption = replace(preemption, verdicts=(*verdicts, *spared))
        seen.decide(Decision(preemption.ref, Result.WAITING, preemption=preemption))
        seen.observer.preemption_ended(preemption, seconds=0.1, error=None, now=START)
    for kind in ("pod", "podgroup"):
        assert seen.counted("preemption_workload_disruptions_sum", preemptor=kind) == 1
        assert seen.counted("preemption_pdb_violations_total", preemptor=kind) == 2
        labels = {"preemptor": kind, "result": "success"}
        assert seen.counted("preemption_evaluation_duration_seconds_sum", **labels) == 0.25
    assert (seen.counted("preemption_attempts_total"), seen.counted("preemption_victims_sum")) == (1, 3)
    assert seen.counted("preemption_victims_count") == 1
    assert seen.counted("podgroup_preemption_attempts_total", result="success") == 1
    assert seen.counted("workload_preemption_attempts_total", result="Success") == 1
    assert seen.counted("podgroup_preemption_attempt_duration_seconds_sum") == 0.25
    assert seen.counted("podgroup_preemption_reprieved_total") == 2
    for name in ("podgroup_preemption_victims", "workload_preemption_victims"):
        assert (seen.counted(f"{name}_count"), seen.counted(f"{name}_sum")) == (1, 3)


def test_preemption_of_plain_pods_disrupts_no_group() -> None:
    seen = stage()
    preemption = made(seen, unit(seen.world.record("a")))
    seen.decide(Decision(preemption.ref, Result.WAITING, preemption=preemption))
    assert seen.counted("preemption_workload_disruptions_count", preemptor="pod") == 0
    assert seen.counted("preemption_pdb_violations_total", preemptor="pod") == 0


# -- reserved capacity ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        (1, "n0"),
        (6, "n0, n1, n2, n3, n4, n5"),
        (7, "n0, n1, n2, n3, n4, n5 and 1 more"),
        (9, "n0, n1, n2, n3, n4, n5 and 3 more"),
    ],
)
def test_room_that_is_released_names_six_nodes_on_the_group(nodes: int, text: str) -> None:
    """observability.md 2.3."""
    seen = Reported(group("crew", min_count=1), *[pod(f"p{i}", group="crew") for i in range(nodes)])
    pods = tuple((seen.world.record(f"p{i}"), f"n{i}") for i in range(nodes))
    room = ReleasedReservation("group/default/crew", seen.group("crew"), pods, Released.MOVED, "why", START)
    seen.observer.room_released(room, now=START)
    of_pods = [("RoomReleased", f"p{i}", f"Capacity reserved on n{i} is released: why") for i in range(nodes)]
    assert seen.notes() == [*of_pods, ("RoomReleased", "crew", f"Capacity reserved on {text} is released: why")]
    assert {(body["type"], body["action"], body["reportingController"]) for body in seen.sent} == {
        ("Normal", "Preempting", PROFILE)
    }
    assert seen.lines() == [
        f"info Released reserved capacity by=group/default/crew pods={nodes} nodes={nodes} reason=why",
    ]


@pytest.mark.parametrize(("group_of", "events"), [("pod", 1), ("no-object", 1), ("another-api", 2)])
def test_room_of_what_has_no_group_object_is_an_event_on_its_pods_alone(group_of: str, events: int) -> None:
    """observability.md 2.6: a group without an object has none."""
    seen = Reported(group("crew", min_count=1), pod("a", group="crew", scheduler="other"))
    of = {"pod": None, "no-object": seen.group("crew", ""), "another-api": None}[group_of]
    if group_of == "another-api":
        of = seen.group("crew", FOREIGN)
    room = ReleasedReservation("k", of, ((seen.world.record("a"), "n0"),), Released.MOVED, "why", START)
    seen.observer.room_released(room, now=START)
    assert [body["reportingController"] for body in seen.sent] == ["ours"] * events
    assert seen.sent[-1]["regarding"]["apiVersion"] == (FOREIGN if events == 2 else "v1")


# -- groups of other APIs, and what is not read ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("foreign", "scheduled", "expected"),
    [
        (FOREIGN, True, ("Normal", "Scheduled", "1 pods have a node")),
        (FOREIGN, False, ("Warning", "FailedScheduling", "full")),
        ("", False, None),
        (None, False, None),
    ],
    ids=["placed", "failed", "without-an-object", "native"],
)
def test_outcome_of_a_group_of_another_api_is_an_event(
    foreign: str | None, scheduled: bool, expected: tuple[str, str, str] | None
) -> None:
    """workloads.md 4.5: its status may have no words for it. workloads.md 4.6: without an object no event.

    A native group has its condition.
    """
    seen = Reported(group("crew", min_count=1), pod("a", group="crew", node="n1"))
    seen.group("crew", foreign)
    condition = GroupCondition("default/crew", scheduled, "Reason", "full")
    result = Result.SCHEDULED if scheduled else Result.UNSCHEDULABLE
    seen.decide(Decision("group/default/crew", result, conditions=(condition,)))
    found = [(body["type"], body["reason"], body["note"]) for body in seen.sent]
    assert found == ([expected] if expected is not None else [])
    for body in seen.sent:
        assert (body["action"], body["regarding"]["apiVersion"], body["regarding"]["name"]) == (
            "Scheduling",
            FOREIGN,
            "crew",
        )


def test_condition_of_a_group_that_is_gone_is_no_event() -> None:
    seen = Reported()
    condition = GroupCondition("default/gone", False, "Reason", "full")
    seen.decide(Decision("group/default/gone", Result.UNSCHEDULABLE, conditions=(condition,)))
    assert seen.sent == []


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        ("metadata.annotations[x]: Invalid value", "InvalidAnnotation"),
        ("spec.x: not read", "NotRead"),
        ("the metadata. of it", "NotRead"),
    ],
)
def test_unread_fields_are_a_warning_on_their_object(why: str, reason: str) -> None:
    """observability.md 2.4, 2.6."""
    seen = Reported()
    for item in (pod("x"), group("y"), composite("z")):
        seen.observer.ignored(item, why, now=START)
    assert [(body["type"], body["reason"], body["action"]) for body in seen.sent] == [
        ("Warning", reason, "Scheduling")
    ] * 3
    assert [(body["regarding"]["kind"], body["regarding"]["apiVersion"]) for body in seen.sent] == [
        ("Pod", "v1"),
        ("PodGroup", "scheduling.k8s.io/v1beta1"),
        ("CompositePodGroup", "scheduling.k8s.io/v1alpha3"),
    ]


# -- trouble, time and the log -----------------------------------------------------------------------------------------


def test_trouble_that_goes_on_is_counted_and_logged_once() -> None:
    seen = Reported()
    seen.observer.trouble("events", "could not be sent")
    seen.observer.trouble_again("events")
    assert seen.counted("trouble_total", where="events") == 2
    assert seen.lines() == ["error could not be sent where=events"]


@pytest.mark.parametrize("how", ["time-passes", "another-attempt", "the-process-ends"])
def test_count_of_a_series_is_written_when_it_is_over(how: str) -> None:
    seen = Reported(*three())
    for _ in range(3):
        seen.observer.bind_failed(seen.world.record("a"), "n1", "no", now=START)
    match how:
        case "time-passes":
            seen.observer.tick(START + 400)
        case "another-attempt":
            seen.decide(Decision("pod/x", Result.SCHEDULED), now=START + 400)
        case _:
            seen.observer.close(START)
    assert [body.get("series", {}).get("count", 1) for body in seen.sent] == [1, 2, 3]


def test_wait_for_permission_is_counted_once() -> None:
    """From the attempt that let the pod wait to the first answer."""
    seen = Reported(*three())
    one = seen.world.record("a")
    seen.decide(replace(assumed(seen, "a"), bindings=(), waiting=assumed(seen, "a").bindings), now=START)
    for _ in range(2):
        seen.observer.permitted(one, "Success", now=START + 3)
    assert seen.counted("permit_wait_duration_seconds_count", result="Success") == 1
    assert seen.counted("permit_wait_duration_seconds_sum", result="Success") == 3
