"""A decision to preempt as a record and as a part of a plan's document, field by field (observability.md 4)."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.meta import OwnerReference
from reprieve.decisions.preemptions import (
    failed_preemption,
    preemption_amounts,
    preemption_outcome,
    preemption_record,
    preemptor_name,
    reason_counts,
)
from reprieve.framework.diagnosis import Diagnosis
from reprieve.preemption.cost import UPSTREAM, criteria_of
from reprieve.preemption.outcome import (
    CandidateComparison,
    CascadeAvoided,
    CascadeStep,
    MissingAmount,
    Preemption,
    Reason,
    UnhelpfulPreemption,
    UnhelpfulReason,
    Verdict,
)
from reprieve.preemption.units import PreemptionUnit
from tests.building import START, World, gang, node, pod

GPU = "nvidia.com/gpu"
HOUR = 3600.0
MISSING = (MissingAmount(GPU, 2, 4), MissingAmount("cpu", 500, 4000))


def _owned(item: objects.Pod, kind: str, name: str) -> objects.Pod:
    owner = OwnerReference(api_version="x/v1", kind=kind, name=name, uid="o", controller=True)
    return replace(item, metadata=replace(item.metadata, owner_references=(owner,)))


def _world() -> World:
    """Return two nodes with a pod of a Job, a gang that is evicted as a whole, and spared pods; START is now."""
    job = _owned(pod("job-x", cpu=2, node="n1", priority=3, start=-2 * HOUR, priority_class="low"), "Job", "job")
    crew = gang("crew", 12, cpu=1, gpu=1, node="n2", whole=True, priority=5, start=-HOUR)
    spared = [pod(f"spared-{i}", cpu="10m", node="n1", priority=1) for i in range(3)]
    waiting = [pod("high", cpu=3, gpu=4, memory="1Gi", priority=9), pod("top", cpu=1, priority=9)]
    world = World(node("n1", cpu=16, gpu=8), node("n2", cpu=16, gpu=24), job, *crew, *spared, *waiting)
    world.engine.cluster.now = START
    return world


def _unit(world: World, name: str, *pods: str) -> PreemptionUnit:
    records = tuple(world.record(each) for each in pods or [name])
    group = world.engine.cluster.groups.get(f"default/{name}")
    rows = tuple(record.row for record in records)
    return PreemptionUnit(f"default/{name}", records, rows, records[0].priority, group is not None, group)


def _crew(world: World) -> PreemptionUnit:
    return _unit(world, "crew", *sorted(f"crew-{i}" for i in range(12)))


def _preemption(world: World, **more: Any) -> Preemption:
    """Return an eviction of the Job's pod and the gang for `high`; what is spared is the least important."""
    high = world.record("high")
    of_crew = Verdict(_crew(world), True, Reason(high, 1, "NodeResourcesFit", "Insufficient cpu", MISSING))
    of_job = Verdict(_unit(world, "job-x"), False, Reason(high, 0, "InterPodAffinity", "apart"))
    spared = [Verdict(_unit(world, f"spared-{i}"), False, None) for i in range(3)]
    fields: dict[str, Any] = {
        "pod": high,
        "group": None,
        "priority": 9,
        "domain": "n1",
        "nominations": ((world.record("top"), 1), (high, 0)),
        "verdicts": (of_crew, of_job, *spared),
        **more,
    }
    return Preemption(**fields)


def _recorded(world: World, **more: Any) -> dict[str, Any]:
    limits = {key: more.pop(key) for key in ("held_until", "most_reprieved") if key in more}
    record = preemption_record(world.engine.cluster, _preemption(world, **more), START, **limits)
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(record))
    return found


def test_evicted_units_with_their_pods_nodes_owners_and_reasons() -> None:
    """observability.md 4.1: of lists that may be long the first ten, and how many there are."""
    members = sorted(f"crew-{i}" for i in range(12))[:10]
    crew, job = _recorded(_world())["evicted"]
    assert crew == {
        "unit": "default/crew",
        "kind": "PodGroup",
        "outcome": "Evicted",
        "priority": 5,
        "pods": 12,
        "podNames": [f"default/{name}" for name in members],
        "nodes": ["n2"],
        "nodesTotal": 1,
        "uid": "uid-group-crew",
        "podUids": [f"uid-{name}" for name in members],
        "owner": "podgroup default/crew",
        "runningSeconds": HOUR,
        "violatesPdb": True,
        "why": {
            "pod": "default/high",
            "node": "n2",
            "plugin": "NodeResourcesFit",
            "text": "Insufficient cpu",
            "resource": GPU,
            "short": "2",
            "missing": {GPU: "2", "cpu": "500m"},
        },
    }
    assert job == {
        "unit": "default/job-x",
        "kind": "Pod",
        "outcome": "Evicted",
        "priority": 3,
        "pods": 1,
        "podNames": ["default/job-x"],
        "nodes": ["n1"],
        "nodesTotal": 1,
        "uid": "uid-job-x",
        "podUids": ["uid-job-x"],
        "owners": ["job default/job"],
        "owner": "job default/job",
        "priorityClass": "low",
        "runningSeconds": 2 * HOUR,
        "why": {"pod": "default/high", "node": "n1", "plugin": "InterPodAffinity", "text": "apart"},
    }


def test_cost_counts_what_is_evicted() -> None:
    """observability.md 4.5, cost.md 2.1: a pod without a known start has lost no time."""
    world = _world()
    made = _recorded(world)
    assert made["potentialVictims"] == 5
    assert made["cost"] == {
        "units": 2,
        "pods": 13,
        "highestPriority": 5,
        "pdbViolations": 1,
        "runningSecondsLost": 14 * HOUR,
        "lostGpuHours": 12.0,
        "lostCpuHours": 4.0,
        "byCriterion": {
            "pdbViolations": 1,
            "highestPriority": 5,
            "prioritySum": 12 * 5 + 3 + 13 * 2**31,
            "pods": 13,
            "startTime": -(START - HOUR),
        },
    }
    only_new = (Verdict(_unit(world, "spared-0"), False, Reason(world.record("high"), 0, "p", "t")),)
    cost = _recorded(world, verdicts=only_new)["cost"]
    assert (cost.get("runningSecondsLost", 0), cost["highestPriority"]) == (0, 1)


def test_spared_units_up_to_the_limit_and_units_of_broken_gangs() -> None:
    """observability.md 4.1: units that remain of broken gangs are potential victims, and are not spared."""
    world = _world()
    made = _recorded(world, most_reprieved=2, remains=(_unit(world, "top"),))
    assert [(unit["unit"], unit["outcome"]) for unit in made["reprieved"]] == [
        ("default/spared-0", "Reprieved"),
        ("default/spared-1", "Reprieved"),
    ]
    assert (made["reprievedTotal"], made["potentialVictims"]) == (3, 6)
    many = [Verdict(_unit(world, "spared-0"), False, None)] * 101
    made = _recorded(world, verdicts=tuple(many))
    assert (len(made["reprieved"]), made["reprievedTotal"]) == (100, 101)


def test_nominations_reservation_and_joint_preemptors() -> None:
    """observability.md 4.5, 4.6: the first of many, in the order in which they were placed."""
    made = _recorded(_world(), together=tuple(f"a/p{i}" for i in range(12)), held_until=START + 0.5)
    assert made["nominations"] == [{"pod": "default/top", "node": "n2"}, {"pod": "default/high", "node": "n1"}]
    assert (made["nominationsTotal"], made["together"]) == (2, [f"a/p{i}" for i in range(10)])
    assert made["heldUntil"] == "2020-09-13T12:26:40.500000Z"
    assert not _recorded(_world()).keys() & {"heldUntil", "together", "avoided", "cascade"}
    world = _world()
    many = _recorded(world, nominations=((world.record("high"), 0),) * 201)
    assert (len(many["nominations"]), many["nominationsTotal"]) == (200, 201)


def test_evictions_in_turn_and_what_was_avoided() -> None:
    """cost.md 3.5"""
    world = _world()
    one, two = _unit(world, "spared-0"), _unit(world, "spared-1")
    step = CascadeStep(1, one, (two,))
    made = _recorded(world, cascade=(step,), avoided=CascadeAvoided((two, one), (step,)))
    turn = {"round": 1, "by": "default/spared-0", "evicted": ["default/spared-1"], "pods": 1}
    assert made["cascade"] == [turn]
    assert made["avoided"] == {"units": ["default/spared-1", "default/spared-0"], "cascade": [turn]}


def test_unit_that_a_plugin_chose_or_that_moves_has_no_other_reason() -> None:
    """preemption.md 2.8, moving.md 4"""
    world = _world()
    chosen = Verdict(_crew(world), False, Reason(world.record("high"), 0, "Own", "", chosen=True))
    [unit] = _recorded(world, verdicts=(chosen,))["evicted"]
    assert ("why" in unit, unit["chosenBy"], "movesTo" in unit) == (False, "Own", False)
    moves = tuple((pod, 0) for pod in chosen.unit.pods)
    [unit] = _recorded(world, verdicts=(chosen,), moves=moves)["evicted"]
    assert ("why" in unit, "chosenBy" in unit, unit["movesTo"]) == (False, False, ["n1"] * 10)


def _compared(steps: tuple[tuple[str, int], ...], **more: Any) -> dict[str, Any]:
    criteria = criteria_of(("pods", "lostWork")).described
    compared = CandidateComparison("n2", (4.0, 7200.5), steps)
    made = _recorded(_world(), criteria=criteria, cost=(3.0, 60.25), compared=compared, candidates=3, **more)
    found: dict[str, Any] = made["comparison"]
    return found


def test_comparison_by_own_criteria() -> None:
    """observability.md 4.5: what is not one of kube-scheduler's criteria is among the others."""
    text = criteria_of(("pods",)).described[0].text
    assert _compared(((text, 1),)) == {
        "candidates": 3,
        "chosen": {"domain": "n1", "pods": 3, "others": {"lostWork": 60.25}},
        "runnerUp": {"domain": "n2", "pods": 4, "others": {"lostWork": 7200.5}},
        "steps": [{"criterion": text, "left": 1}],
        "decidedBy": text,
        "criterion": "pods",
        "values": ["3 pods", "4 pods"],
    }
    by_name = _compared(((text, 2), ("first by name", 1)))
    assert (by_name["decidedBy"], "criterion" in by_name, "values" in by_name) == ("first by name", False, False)
    assert "decidedBy" not in _compared(())


def test_comparison_by_upstream_criteria_and_without_a_second_candidate() -> None:
    """preemption.md 3: all five, the start as a time; of no victims nothing is known."""
    world = _world()
    cost = (1.0, 5.0, 8.0 + 2**32, 13.0, -START)
    compared = CandidateComparison("n2", (0.0, 5.0, 9.0, 14.0, -np.inf), (("fewest victim pods", 1),))
    made = _recorded(world, criteria=UPSTREAM.described, cost=cost, compared=compared, candidates=2)["comparison"]
    assert made["chosen"] == {
        "domain": "n1",
        "pdbViolations": 1,
        "highestPriority": 5,
        "prioritySum": 8 + 2**32,
        "pods": 13,
        "earliestStart": "2020-09-13T12:26:40.000000Z",
    }
    assert made["runnerUp"] == {"domain": "n2", "highestPriority": 5, "prioritySum": 9, "pods": 14}
    empty = _recorded(world, compared=CandidateComparison("n2", None, (("fewest victim pods", 1),)), candidates=2)[
        "comparison"
    ]
    assert empty["runnerUp"] == {"domain": "n2"}
    alone = _recorded(world)["comparison"]
    assert (alone["candidates"], alone["chosen"]["pods"], alone.keys()) == (1, 13, {"candidates", "chosen"})


def test_preemption_that_does_not_help() -> None:
    """observability.md 4.3: the first potential victims, how many pods fit, and why the next does not."""
    world = _world()
    units = (_crew(world), *[_unit(world, f"spared-{turn % 3}") for turn in range(24)])
    group = world.engine.cluster.groups["default/crew"]
    diagnosis = Diagnosis(2, np.zeros(2, dtype=np.int8), {"b": 1, "a": 1, "c": 2})
    failed = UnhelpfulPreemption(group, UnhelpfulReason.DOES_NOT_FIT, units, 3, 4, world.record("high"), diagnosis, 7)
    found = failed_preemption(world.engine.cluster, failed, START)
    assert (found.reason, found.potential_victims, found.pods) == ("DoesNotFit", 25, 36)
    assert (found.placed, found.needed, found.pod, found.nodes, found.lowest_priority) == (3, 4, "default/high", 2, 7)
    assert [(count.reason, count.nodes) for count in found.reasons] == [("c", 2), ("a", 1), ("b", 1)]
    assert len(found.considered) == 20
    assert {unit.outcome for unit in found.considered} == {"LookedAt"}
    nothing = failed_preemption(world.engine.cluster, UnhelpfulPreemption(group, UnhelpfulReason.UNDER_WAY), START)
    assert msgspec.json.decode(msgspec.json.encode(nothing)) == {"reason": "UnderWay"}
    assert reason_counts(None) == ()


def test_outcome_of_a_plan_lists_every_victim_and_the_amounts() -> None:
    """preemption.md 3: by name; the resource that is the largest part of the cluster's comes first."""
    world = _world()
    made = preemption_outcome(world.engine.cluster, _preemption(world))
    assert str(made.preemptor) == "pod default/high"
    assert (made.preemptor.priority, made.domain, made.reprieved, made.pdb_violations) == (9, "n1", 3, 1)
    assert list(made.nominations.items()) == [("default/high", "n1"), ("default/top", "n2")]
    assert list(made.needed.items()) == [(GPU, "4"), ("cpu", "4"), ("memory", "1Gi")]
    assert made.freed == {GPU: "12", "cpu": "14", "memory": "0Gi"}
    members = sorted(f"crew-{i}" for i in range(12))
    assert [(v.name, v.pod_group, v.node_name, v.unit, v.violates_pdb) for v in made.victims] == [
        *((name, "crew", "n2", "default/crew", True) for name in members),
        ("job-x", None, "n1", "default/job-x", False),
    ]
    first, last = made.victims[0].why, made.victims[-1].why
    assert first is not None
    assert last is not None
    missing = "Insufficient nvidia.com/gpu (2 short), Insufficient cpu (500m short)"
    assert first.clause == f"if it stayed, default/high would not fit on n2: {missing}"
    assert last.clause == "if it stayed, default/high would not fit on n1: apart"
    assert (made.by_score, made.cost is not None and made.cost.decided_by) == (None, None)
    assert made.cost is not None
    assert (made.cost.lost_gpu_hours, made.cost.lost_cpu_hours) == (12.0, 4.0)


def test_victims_by_score_are_counted_beside_the_choice() -> None:
    """interfaces.md, plan: pods, the highest priority, and what they have of what is asked for."""
    world = _world()
    units = (_unit(world, "spared-0"), _crew(world))
    made = preemption_outcome(world.engine.cluster, _preemption(world, by_score=units)).by_score
    assert made is not None
    assert (made.pods, made.highest_priority) == (13, 5)
    assert list(made.freed.items()) == [("cpu", "12010m"), ("memory", "0Gi"), (GPU, "12")]
    none = preemption_outcome(world.engine.cluster, _preemption(world, by_score=())).by_score
    assert none is not None
    assert (none.pods, none.highest_priority) == (0, None)


def test_group_preempts_under_its_own_name() -> None:
    world = _world()
    group = world.engine.cluster.groups["default/crew"]
    made = preemption_outcome(world.engine.cluster, _preemption(world, group=group))
    assert str(made.preemptor) == "podgroup default/crew"
    high = world.record("high")
    assert (str(preemptor_name(high, group)), preemptor_name(high, group).priority) == ("podgroup default/crew", 5)
    assert (str(preemptor_name(high, None)), preemptor_name(high, None).priority) == ("pod default/high", 9)


@pytest.mark.parametrize(("over", "needed"), [(1, "1"), (0, None)])
def test_resize_needs_what_its_node_lacks(over: int, needed: str | None) -> None:
    """resizes.md 2: what the pod runs with is its own already."""
    world = World(node("n1", cpu=4), pod("grown", cpu=3 + over, node="n1", priority=9), pod("low", cpu=1, node="n1"))
    grown = world.record("grown")
    made = Preemption(grown, None, 9, "n1", ((grown, 0),), (), resize="pod/uid-web")
    found = {name: amount for name, amount, _ in preemption_amounts(world.engine.cluster, made)}
    assert found == ({"cpu": 1000} if needed else {})
