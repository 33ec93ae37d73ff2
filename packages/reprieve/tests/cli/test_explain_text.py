"""The sentences of `reprieve explain`: each follows from known facts, and none states what is not sure."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.errors import Origin
from kube_rules.manifests import LoadedObject, Manifests
from reprieve.cli.evidence import Evidence, ExplainTarget, Occurrence
from reprieve.cli.explain_text import document, explanation_of, helps, state_of
from reprieve.cli.sections import plain
from reprieve.cli.whatif import HypotheticalDecision, ask
from reprieve.decisions.outcomes import Help
from reprieve.decisions.records import (
    CandidateRecord,
    Comparison,
    ComparisonStep,
    CostRecord,
    DecisionRecord,
    EntityReference,
    EvictionReason,
    FailedPreemption,
    MemberCounts,
    MessageCount,
    OrderRecord,
    OversizedRequest,
    PreemptionRecord,
    ReasonCount,
    Shortage,
    Shortfall,
    Timings,
    UnitRecord,
)
from tests.building import START, composite, gang, group, pod

WAITING = ExplainTarget("Pod", "default", "a")


def record(**changes: Any) -> DecisionRecord:
    made: dict[str, Any] = {
        "id": 1,
        "time": "2026-07-01T14:04:44.000000Z",
        "entity": EntityReference(kind="Pod", namespace="default", name="a", uid="uid-a", priority=5),
        "result": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient cpu.",
        "attempt": 1,
        "nodes": 3,
        "reasons": [ReasonCount(reason="Insufficient cpu", nodes=3)],
        "timings": Timings(attempt_seconds=0.001, waiting_seconds=2.0),
    }
    return DecisionRecord(**{**made, **changes})


def evidence(*records: DecisionRecord, item: objects.Pod | None = None, **changes: Any) -> Evidence:
    found = Evidence(WAITING, pod=item or pod("a", cpu=1, priority=5), records=list(records), source="http://s")
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def lack(nodes: int, *names: str, more: int = 1, **missing: str) -> Shortfall:
    return Shortfall(closest=Shortage(missing=missing, nodes=nodes, names=tuple(names)), more=more)


@pytest.mark.parametrize(
    ("lacking", "expected"),
    [
        (lack(1, "n1", cpu="2"), "Free 2 more cpu on n1, where the shortage is smallest."),
        (lack(2, "n1", "n3", cpu="500m"), "Free 500m more cpu on n1 or n3, where the shortage is smallest."),
        (
            lack(9, "n1", "n2", "n3", cpu="1", memory="1Gi"),
            "Free 1 more cpu and 1Gi more memory on n1, n2, n3 and 6 more nodes, where the shortage is smallest.",
        ),
        (
            Shortfall(too_big=(OversizedRequest(resource="cpu", asked="64", largest="4"),)),
            "Add a node with 64 cpu: a pod requests that much, but the largest node has 4.",
        ),
    ],
)
def test_pod_lacks(lacking: Shortfall, expected: str) -> None:
    assert helps(evidence(record(lack=lacking))) == [expected]


@pytest.mark.parametrize(
    ("lacking", "expected"),
    [
        (
            lack(5, "n1", "n2", "n3", more=3, gpu="2"),
            "Free 2 more gpu on any 3 of n1, n2, n3 and 2 more nodes, where the shortage is smallest: "
            "3 more pods must be placed.",
        ),
        (
            lack(1, "n1", more=3, gpu="2"),
            "Free capacity for 3 more pods; the shortage is smallest on n1: 2 more gpu for each.",
        ),
    ],
)
def test_gang_lacks(lacking: Shortfall, expected: str) -> None:
    members = MemberCounts(tried=4, placed=1, min_count=4)
    entity = EntityReference(kind="PodGroup", namespace="default", name="g")
    found = Evidence(
        ExplainTarget("PodGroup", "default", "g"),
        group=group("g", min_count=4),
        members=[pod(f"g-{i}", group="g") for i in range(4)],
        records=[record(entity=entity, members=members, lack=lacking)],
        source="http://s",
    )
    assert helps(found) == [expected, "Set minCount to 1 instead of 4: 1 of its pods can be placed."]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("node(s) had untolerated taint(s)", "Tolerate the taints of 3 nodes"),
        ("node(s) were unschedulable", "Uncordon 3 nodes"),
        (
            "node(s) didn't match Pod's node affinity/selector",
            "Change the node selector or affinity so that 3 nodes would match.",
        ),
        ("something of a plugin of others", None),
    ],
)
def test_hints_by_reason(reason: str, expected: str | None) -> None:
    found = helps(evidence(record(reasons=(ReasonCount(reason=reason, nodes=3),))))
    assert found == [] if expected is None else found[0].startswith(expected)


def test_never_preempts() -> None:
    message = (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
        "preemption: not eligible due to preemptionPolicy=Never."
    )
    found = helps(evidence(record(message=message), computed=HypotheticalDecision(priority_that_helps=7)))
    assert found == ["Set a preemptionPolicy other than Never: with Never it preempts no pods, whatever its priority."]


def test_nothing_is_advised_for_what_runs_or_makes_room() -> None:
    runs = evidence(record(lack=lack(1, "n1", cpu="2")), item=pod("a", cpu=1, node="n1"))
    assert helps(runs) == []
    assert state_of(runs)[0] == "Scheduled"
    assert helps(evidence(record(result="Preempting", preemption=preempting()))) == []


def preempting(**changes: Any) -> PreemptionRecord:
    why = EvictionReason(
        pod="default/a", node="n1", plugin="NodeResourcesFit", text="Insufficient cpu", resource="cpu", short="1"
    )
    evicted = UnitRecord(
        unit="default/old",
        kind="PodGroup",
        outcome="Evicted",
        priority=1,
        pods=2,
        pod_names=("default/old-0", "default/old-1"),
        nodes=("n1", "n2"),
        running_seconds=7200.0,
        violates_pdb=True,
        why=why,
    )
    spared = UnitRecord(
        unit="default/kept",
        kind="Pod",
        outcome="Reprieved",
        priority=2,
        pods=1,
        pod_names=("default/kept",),
        nodes=("n1",),
    )
    made: dict[str, Any] = {
        "domain": "n1",
        "potential_victims": 2,
        "evicted": [evicted],
        "reprieved": [spared],
        "reprieved_total": 8,
        "cost": CostRecord(units=1, pods=2, highest_priority=1, pdb_violations=1, running_seconds_lost=14400.0),
        "comparison": Comparison(
            candidates=3,
            chosen=CandidateRecord(domain="n1"),
            runner_up=CandidateRecord(domain="n2"),
            decided_by="fewest victim pods",
            steps=(ComparisonStep(criterion="fewest victim pods", left=1),),
        ),
        "nominations": [],
        "nominations_total": 1,
    }
    return PreemptionRecord(**{**made, **changes})


def test_preemption_is_shown_with_costs_reasons_and_the_comparison() -> None:
    text = plain(explanation_of(evidence(record(result="Preempting", preemption=preempting(state="Done")))))
    for expected in (
        "Preemption: 1 workload (2 pods) evicted",
        "group default/old  2 pods  n1, n2  1         2 h",
        "why: if it stayed, default/a would not fit on n1: Insufficient cpu (1 short)",
        "although a PodDisruptionBudget forbids it: evicting only unprotected pods is not enough on these nodes",
        "Decided at 2026-07-01 14:04:44 UTC; every victim was evicted.",
        "4 h of running time is lost, over all pods.",
        "3 domains would have worked; n1 was chosen over n2: fewest victim pods.",
        "Spared: 8 workloads of lower priority; everything still fits with them",
        "pod default/kept  1 pod  n1  2\n",
        "... and 7 more",
    ):
        assert expected in text


LOOKED_AT = UnitRecord(
    unit="default/old",
    kind="PodGroup",
    outcome="LookedAt",
    priority=1,
    pods=2,
    pod_names=("default/old-0", "default/old-1"),
    nodes=("n1",),
    running_seconds=7200.0,
)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            FailedPreemption(
                reason="DoesNotFit",
                potential_victims=3,
                pods=4,
                looked_at=(LOOKED_AT,),
                placed=1,
                needed=3,
                pod="default/a-1",
                nodes=3,
                reasons=(ReasonCount(reason="Insufficient cpu", nodes=2), ReasonCount(reason="some taint", nodes=1)),
            ),
            [
                "group default/old  2 pods  n1  1         2 h",
                "... and 2 more",
                "Even with everything of lower priority evicted (3 workloads, 4 pods), only 1 of its pods would fit; "
                "it needs 3.",
                "Even then, default/a-1 would fit on 0 of 3 nodes: 2 Insufficient cpu, 1 some taint.",
            ],
        ),
        (
            FailedPreemption(reason="NothingGained", potential_victims=1, pods=2, looked_at=(LOOKED_AT,), placed=1),
            ["Even with everything of lower priority evicted (1 workload, 2 pods), no more of its pods would fit"],
        ),
        (
            FailedPreemption(reason="NoLowerPriority", lowest_priority=7),
            ["No running pods have a priority below 5: the lowest is 7."],
        ),
        (FailedPreemption(reason="NoLowerPriority"), ["No running pods could be evicted."]),
        (FailedPreemption(reason="PreemptionPolicyNever"), ["preemptionPolicy Never: it does not preempt other pods."]),
        (FailedPreemption(reason="UnderWay"), ["Its earlier victims are still terminating."]),
    ],
    ids=lambda value: value.reason if isinstance(value, FailedPreemption) else "",
)
def test_reason_without_preemption_for_a_group_is_shown(found: FailedPreemption, expected: list[str]) -> None:
    text = plain(explanation_of(evidence(record(in_vain=found))))
    assert "No pods are evicted for it" in text
    for sentence in expected:
        assert sentence in text


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (
            OrderRecord(search="Greedy", placed=3),
            "In another order 3 pods would fit: GangScheduling with tree",
        ),
        (OrderRecord(search="Greedy"), "later one. GangScheduling with treeSearch: Retry tries other orders."),
        (OrderRecord(search="Retry"), "A few other orders were tried as well, without success."),
    ],
)
def test_gang_that_its_order_keeps_from_being_placed(order: OrderRecord, expected: str) -> None:
    """Pending or preempting: a pod may be evicted without need."""
    for each in (record(order=order), record(order=order, result="Preempting", preemption=preempting())):
        text = plain(explanation_of(evidence(each)))
        assert "A placement may exist: pods are tried one after another" in text
        assert expected in text


def test_member_of_a_whole_group_learns_that_it_went_with_it() -> None:
    made = record(
        entity=EntityReference(kind="Pod", namespace="default", name="a", priority=9), preemption=preempting()
    )
    found = Evidence(ExplainTarget("Pod", "default", "old-1"), records=[made], source="http://s")
    text = plain(explanation_of(found))
    assert "pod default/old-1 is gone: it was preempted." in text
    assert "It was evicted with its whole group default/old (2 pods): disruptionMode all." in text
    assert helps(found) == ["With a priority of 9 or more it would not have been a potential victim."]


def test_records_of_an_earlier_pod_of_that_name_are_ignored() -> None:
    found = evidence(
        record(entity=EntityReference(kind="Pod", namespace="default", name="a", uid="uid-before"), lack=lack(1, "n1"))
    )
    assert helps(found) == []
    assert "Why" not in plain(explanation_of(found))


@pytest.mark.parametrize(
    ("item", "state"),
    [
        (pod("a"), "Waiting"),
        (pod("a", nominated="n1"), "Nominated"),
        (pod("a", gates=["wait"]), "Gated"),
        (pod("a", node="n1"), "Scheduled"),
        (pod("a", node="n1", terminating=True), "Terminating"),
        (pod("a", node="n1", terminating=True, preempted=True), "Preempted"),
        (pod("a", node="n1", phase="Succeeded"), "Succeeded"),
    ],
)
def test_states_of_a_pod(item: objects.Pod, state: str) -> None:
    assert state_of(evidence(item=item))[0] == state


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        ([], "podgroup default/g was preempted: it has no pods left."),
        (
            [pod("a", group="g", node="n1", preempted=True), pod("b", group="g", node="n1", terminating=True)],
            "podgroup default/g is being preempted: 2 pods still terminating.",
        ),
        (
            [pod("a", group="g", node="n1", preempted=True, terminating=True), pod("b", group="g")],
            "podgroup default/g is pending: 0 of its 1 pod on nodes. It needs 2 to start.",
        ),
        ([pod("a", group="g", node="n1"), pod("b", group="g", node="n1")],
         "podgroup default/g is scheduled: all its 2 pods are on nodes."),
    ],
)  # fmt: skip
def test_state_of_a_preempted_group_follows_from_its_present_pods(members: list[objects.Pod], sentence: str) -> None:
    """The condition of an `all` group outlives its pods, and new ones may come (preemption.md 7.2)."""
    target = objects.Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
    preempted = group("g", min_count=2, whole=True)
    preempted = replace(preempted, status=objects.PodGroupStatus(conditions=(target,)))
    assert (
        state_of(Evidence(ExplainTarget("PodGroup", "default", "g"), group=preempted, members=members))[1] == sentence
    )


def test_group_without_a_priority_has_that_of_its_pods() -> None:
    """api.md: no admission resolves the class of a custom resource; the live scheduler gives it its pods' highest."""
    members = [pod("a", group="g", priority=7), pod("b", group="g", priority=7)]
    asked = ExplainTarget("PodGroup", "default", "g")
    for own, expected in ((None, "Priority 7, minCount 2."), (3, "Priority 3, minCount 2.")):
        found = Evidence(asked, group=group("g", min_count=2, priority=own), members=members)
        assert expected in plain(explanation_of(found))


def test_pod_of_another_scheduler_is_reported_as_such() -> None:
    """The answer to why nothing happens names the scheduler that has to act."""
    theirs = pod("a")
    theirs = replace(theirs, spec=replace(theirs.spec, scheduler_name="other"))
    sentence = "The scheduler other places it, by its schedulerName."
    assert sentence in plain(explanation_of(evidence(item=theirs)))
    assert "schedulerName" not in plain(explanation_of(evidence()))
    placed = replace(theirs, spec=replace(theirs.spec, node_name="n1"))
    assert sentence not in plain(explanation_of(evidence(item=placed)))


@pytest.mark.parametrize(
    ("schedulers", "expected"),
    [
        (("default-scheduler", "default-scheduler"), None),
        (("other", "other"), "The scheduler other places it, by the schedulerName of its pods."),
        (("other", "default-scheduler"), "Its pods have different schedulerNames, default-scheduler and other: they"),
    ],
)
def test_schedulers_that_pods_of_a_group_ask_for(schedulers: tuple[str, ...], expected: str | None) -> None:
    members = [pod(f"m{i}", group="crew", scheduler=name) for i, name in enumerate(schedulers)]
    found = Evidence(ExplainTarget("PodGroup", "default", "crew"), group=group("crew", min_count=2), members=members)
    text = plain(explanation_of(found))
    assert expected in text if expected is not None else "scheduler" not in text.partition("\n\n")[0]


def test_events_and_messages_are_shown() -> None:
    found = evidence(
        record(repeated=2, pods=(MessageCount(message="m", reason="Unschedulable", pods=1, names=("default/a",)),)),
        events=[Occurrence(START, "Warning", "FailedScheduling", "no room", 3)],
    )
    text = plain(explanation_of(found))
    assert "3 attempts had this result." in text
    assert "at 2020-09-13 12:26:40 UTC  FailedScheduling  ×3  no room" in text
    assert document(found)["events"] == [
        {
            "time": "2020-09-13T12:26:40Z",
            "type": "Warning",
            "reason": "FailedScheduling",
            "note": "no room",
            "count": 3,
        }
    ]


# -- what if ---------------------------------------------------------------------------------------


def snapshot(*items: Any) -> Manifests:
    """A snapshot in the order of its objects."""
    found = Manifests()
    listed = [one for item in items for one in (item if isinstance(item, list) else [item])]
    for turn, item in enumerate(listed):
        found.objects.setdefault(type(item), []).append(LoadedObject(item, Origin("test"), turn, START + turn))
    return found


def asked(kind: str, name: str, *items: Any) -> HypotheticalDecision:
    return ask(snapshot(*items), kind, "default", name, now=START + 100)


@pytest.mark.parametrize(
    ("nodes", "total", "expected"), [(10, 12, "and 6 more"), (10, 0, "and 4 more"), (6, 6, "n05  ")]
)
def test_nodes_that_are_not_listed_are_counted(nodes: int, total: int, expected: str) -> None:
    """A record lists the first ten names; how many there are stands beside them (not in records of older versions)."""
    gone = UnitRecord(
        unit="default/wide",
        kind="PodGroup",
        outcome="Evicted",
        priority=1,
        pods=12,
        pod_names=(),
        nodes=tuple(f"n{number:02}" for number in range(nodes)),
        nodes_total=total,
        why=EvictionReason(pod="default/a", node="n00", plugin="NodeResourcesFit", text="Insufficient cpu"),
    )
    made = PreemptionRecord(
        domain="cluster",
        potential_victims=1,
        evicted=(gone,),
        reprieved=(),
        reprieved_total=0,
        cost=CostRecord(units=1, pods=12, highest_priority=1),
        comparison=Comparison(candidates=1, chosen=CandidateRecord(domain="cluster")),
        nominations=(),
        nominations_total=0,
    )
    assert expected in plain(explanation_of(evidence(record(preemption=made, result="Preempting"))))


def test_reasons_that_are_not_listed_are_counted() -> None:
    reasons = [ReasonCount(reason=f"reason {number}", nodes=1) for number in range(15)]
    assert "... and 3 more reasons" in plain(explanation_of(evidence(record(reasons=reasons))))


@pytest.mark.parametrize(
    ("tried", "result", "expected"),
    [
        (4, "Unschedulable", "1 of 4 pods fit when tried together."),
        (4, "Error", None),
        (None, "Unschedulable", None),
    ],
)
def test_members_are_counted_where_they_were_tried_together(
    tried: int | None, result: str, expected: str | None
) -> None:
    """Not where the attempt failed by an error: it was not tried to its end."""
    members = MemberCounts(tried=tried, placed=1, min_count=4) if tried is not None else None
    text = plain(explanation_of(evidence(record(members=members, result=result))))
    assert ("tried together" in text) == (expected is not None)
    assert expected is None or expected in text


def test_document_has_the_fields_of_each_kind() -> None:
    """whatif.md 11: a missing priority is 0; a pod without a node has none in the document."""
    asked_about = document(evidence(item=pod("a", cpu=1, group="g", node="n1", priority=5)))["object"]
    assert (asked_about["nodeName"], asked_about["podGroup"], asked_about["priority"]) == ("n1", "g", 5)
    waits = document(evidence(item=pod("a", cpu=1)))["object"]
    assert (waits["nodeName"], waits["podGroup"], waits["priority"]) == (None, None, 0)
    members = [pod("g-0", cpu=1, group="g", node="n1"), pod("g-1", cpu=1, group="g")]
    [of_group] = [one for one in gang("g", 2, min_count=2, cpu=1) if isinstance(one, objects.PodGroup)]
    found = Evidence(ExplainTarget("PodGroup", "default", "g"), group=of_group, members=members)
    shown = document(found)["object"]
    assert (shown["minCount"], shown["pods"], shown["scheduled"], shown["priority"]) == (2, 2, 1, 0)
    assert not {"nodeName", "podGroup", "minGroupCount"} & shown.keys()
    root = composite("root", min_groups=3)
    tree = Evidence(ExplainTarget("CompositePodGroup", "default", "root"), composite=root, members=members)
    shown = document(tree)["object"]
    assert (shown["minGroupCount"], shown["pods"], shown["scheduled"], shown["priority"]) == (3, 2, 1, 0)
    assert "minCount" not in shown
    ranked = Evidence(ExplainTarget("PodGroup", "default", "r"), group=group("r", min_count=1, priority=7), members=[])
    assert document(ranked)["object"]["priority"] == 7


@pytest.mark.parametrize(("tried", "expected"), [(None, True), ("Free", True), ("Node", False)])
def test_request_above_every_node_is_a_reason_unless_the_advice_names_it(tried: str | None, expected: bool) -> None:
    """whatif.md 11: a node that was tried and would help is shown with what it has to have."""
    lacking = record(lack=Shortfall(too_big=(OversizedRequest(resource="cpu", asked="64", largest="8"),)))
    helping = (Help(kind=tried, sentence="This would help."),) if tried is not None else None
    shown = plain(explanation_of(evidence(lacking, computed=HypotheticalDecision(helps=helping))))
    assert ("  It asks for 64 cpu, but the largest node has 8.\n" in shown) == expected
    assert ("This would help." in shown) == (tried is not None)
