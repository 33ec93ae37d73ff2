"""Clusters made in Python: what each call adds, what it leaves to defaults, and what is built of it.

Also numbers in words, tables in HTML, and the records of pending workloads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import reprieve
from kube_rules.errors import InputError
from kube_rules.schema.packed_schemas import PackedSchemas
from reprieve.decisions.hints import helps_of
from reprieve.decisions.phrases import count, seconds_text
from reprieve.decisions.records import (
    CandidateRecord,
    Comparison,
    CostRecord,
    DecisionRecord,
    EntityReference,
    MemberCounts,
    MessageCount,
    OversizedRequest,
    PreemptionRecord,
    ReasonCount,
    Shortage,
    Shortfall,
    Timings,
)
from reprieve.inputs.loader import load
from reprieve.preemption.outcome import NEVER
from reprieve.python import pending_records
from reprieve.python.builder import ClusterBuilder
from reprieve.python.cluster import Cluster
from reprieve.python.tables import MOST_ROWS, Table, html
from reprieve.scheduling.decision import Decision, Result
from reprieve.simulation.plan import PlanOptions, plan
from tests.building import World


def test_node_has_room_for_110_pods_unless_stated_otherwise() -> None:
    taint = {"key": "k", "effect": "NoSchedule"}
    built = (
        ClusterBuilder()
        .add_node("n1", {"cpu": "4"})
        .add_node("n2", {"cpu": 2, "pods": 5}, labels={"a": "b"}, taints=[taint], unschedulable=True)
        .build()
    )
    first, second = (one.object for one in built.manifests.nodes)
    assert {name: str(amount) for name, amount in first.status.allocatable.items()} == {"pods": "110", "cpu": "4"}
    assert (first.spec.unschedulable, first.spec.taints, first.metadata.labels) == (False, (), {})
    assert {name: str(amount) for name, amount in second.status.allocatable.items()} == {"pods": "5", "cpu": "2"}
    assert (second.spec.unschedulable, second.metadata.labels) == (True, {"a": "b"})
    assert [(each.key, each.effect) for each in second.spec.taints] == [("k", "NoSchedule")]


def test_pod_waits_unless_it_is_on_a_node() -> None:
    built = (
        ClusterBuilder()
        .add_node("n1", {"cpu": "4"})
        .add_pod("plain")
        .add_pod(
            "full",
            namespace="team",
            requests={"cpu": "1"},
            priority=7,
            node="n1",
            labels={"a": "b"},
            spec={"hostNetwork": True},
        )
        .build()
    )
    plain, full = (one.object for one in built.manifests.pods)
    assert (plain.namespace, plain.spec.node_name, plain.status.phase) == ("default", "", "Pending")
    assert (plain.metadata.labels, plain.spec.containers[0].resources.requests) == ({}, {})
    assert not plain.spec.priority
    assert (full.namespace, full.spec.node_name, full.status.phase) == ("team", "n1", "Running")
    assert (full.metadata.labels, full.spec.priority, full.spec.host_network) == ({"a": "b"}, 7, True)
    assert {name: str(amount) for name, amount in full.spec.containers[0].resources.requests.items()} == {"cpu": "1"}


def test_group_is_basic_unless_it_has_a_minimum() -> None:
    built = (
        ClusterBuilder()
        .add_group("basic")
        .add_group("gang", namespace="team", min_count=2, priority=7, disrupt_all=True)
        .add_pod("p", group="basic")
        .build()
    )
    basic, gang = (one.object for one in built.manifests.pod_groups)
    assert (basic.namespace, basic.min_count) == ("default", None)
    assert basic.spec.disruption_mode is not None
    assert basic.spec.disruption_mode.all is None
    assert (gang.namespace, gang.min_count, gang.spec.priority) == ("team", 2, 7)
    assert gang.spec.disruption_mode is not None
    assert gang.spec.disruption_mode.all is not None
    [pod] = (one.object for one in built.manifests.pods)
    assert pod.spec.scheduling_group is not None
    assert pod.spec.scheduling_group.pod_group_name == "basic"


def test_objects_are_named_by_their_number_in_errors() -> None:
    """From 1; nothing is checked before something is built."""
    builder = ClusterBuilder().add({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}).add("kind: [")
    with pytest.raises(Exception, match="<object 2>"):
        builder.build()


# -- what would help -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("placed", "scheduled", "minimum", "result", "helps"),
    [
        (3, 0, 4, "Unschedulable", 3),
        (2, 1, 4, "Unschedulable", 3),
        (4, 0, 4, "Unschedulable", None),
        (5, 0, 4, "Unschedulable", None),
        (0, 3, 4, "Unschedulable", None),  # none of those tried has a place: a lower minimum is the one there is
        (0, 0, 4, "Unschedulable", None),
        (3, 0, 4, "Error", None),
    ],
)
def test_lower_minimum_helps_where_some_have_a_place(
    placed: int, scheduled: int, minimum: int, result: str, helps: int | None
) -> None:
    members = MemberCounts(tried=4, placed=placed, min_count=minimum, already_scheduled=scheduled)
    found = helps_of(
        DecisionRecord(
            id=1,
            time="",
            entity=EntityReference(kind="PodGroup", namespace="default", name="g"),
            result=result,
            message="",
            attempt=1,
            timings=Timings(attempt_seconds=0.0, waiting_seconds=0.0),
            members=members,
        )
    )
    lower = [one for one in found if one.kind == "MinCount"]
    assert [one.min_count for one in lower] == ([helps] if helps is not None else [])
    for one in lower:
        assert one.sentence == f"Set minCount to {helps} instead of {minimum}: {helps} of its pods can be placed."


def rejection(
    *,
    members: MemberCounts | None = None,
    lack: Shortfall | None = None,
    reasons: list[ReasonCount] | None = None,
    message: str = "",
    pods: list[MessageCount] | None = None,
    priority: int = 0,
) -> DecisionRecord:
    return DecisionRecord(
        id=1,
        time="",
        entity=EntityReference(
            kind="Pod" if members is None else "PodGroup", namespace="default", name="g", priority=priority
        ),
        result="Unschedulable",
        message=message,
        attempt=1,
        timings=Timings(attempt_seconds=0.0, waiting_seconds=0.0),
        members=members,
        lack=lack,
        reasons=tuple(reasons or ()),
        pods=tuple(pods or ()),
    )


def test_reasons_that_users_can_change_are_reported_with_their_nodes() -> None:
    """In the order of the record; reasons that nothing is known to help against are left out."""
    reasons = [
        ReasonCount(reason="node(s) had untolerated taint(s)", nodes=1),
        ReasonCount(reason="node(s) had volume node affinity conflict", nodes=9),
        ReasonCount(reason="node(s) were unschedulable", nodes=2),
        ReasonCount(reason="node(s) didn't match Pod's node affinity/selector", nodes=3),
        ReasonCount(reason="node(s) didn't have free ports for the requested pod ports", nodes=4),
    ]
    assert [(one.kind, one.nodes, one.sentence) for one in helps_of(rejection(reasons=reasons))] == [
        (
            "Toleration",
            1,
            "Tolerate the taints of 1 node, or remove the taints.",
        ),
        ("Uncordon", 2, "Uncordon 2 nodes."),
        ("Selector", 3, "Change the node selector or affinity so that 3 nodes would match."),
        ("Ports", 4, "Free its host ports on one of 4 nodes."),
    ]


@pytest.mark.parametrize(
    ("group", "names", "nodes", "more", "asked", "sentence"),
    [
        (False, ["n1"], 1, 1, 1, "Free 2 more cpu and 1Gi more memory on n1, where the shortage is smallest."),
        (
            False,
            ["n1", "n2"],
            2,
            1,
            1,
            "Free 2 more cpu and 1Gi more memory on n1 or n2, where the shortage is smallest.",
        ),
        (
            False,
            ["n1", "n2", "n3"],
            3,
            1,
            1,
            "Free 2 more cpu and 1Gi more memory on n1, n2 or n3, where the shortage is smallest.",
        ),
        (
            False,
            ["n1", "n2"],
            3,
            1,
            1,
            "Free 2 more cpu and 1Gi more memory on n1, n2 and 1 more node, where the shortage is smallest.",
        ),
        (
            False,
            ["n1", "n2"],
            7,
            1,
            1,
            "Free 2 more cpu and 1Gi more memory on n1, n2 and 5 more nodes, where the shortage is smallest.",
        ),
        (
            True,
            ["n1"],
            1,
            1,
            1,
            "Free 2 more cpu and 1Gi more memory on n1, where the shortage is smallest: one more pod must be placed.",
        ),
        (
            True,
            ["n1", "n2"],
            2,
            2,
            2,
            "Free 2 more cpu and 1Gi more memory on n1 or n2, where the shortage is smallest: 2 more pods must be "
            "placed.",
        ),
        (
            True,
            ["n1", "n2"],
            2,
            1,
            1,
            "Free 2 more cpu and 1Gi more memory on any 1 of n1 or n2, where the shortage is smallest: "
            "one more pod must be placed.",
        ),
        (
            True,
            ["n1", "n2"],
            2,
            3,
            3,
            "Free capacity for 3 more pods; the shortage is smallest on n1 or n2: 2 more cpu and 1Gi more memory for "
            "each.",
        ),
    ],
)
def test_where_least_is_missing_is_reported_with_its_amounts(
    group: bool, names: list[str], nodes: int, more: int, asked: int, sentence: str
) -> None:
    """Of a group so many nodes as members are missing; where fewer lack that little it is stated for each member."""
    missing = {"cpu": "2", "memory": "1Gi"}
    lack = Shortfall(closest=Shortage(missing=missing, nodes=nodes, names=tuple(names)), more=more)
    [found] = helps_of(rejection(members=MemberCounts(tried=4, placed=0, min_count=4) if group else None, lack=lack))
    assert (found.kind, found.resource, found.amount, found.missing) == ("Free", "cpu", "2", missing)
    assert (found.nodes, found.on, found.sentence) == (asked, tuple(names), sentence)


def test_larger_node_helps_where_every_amount_can_be_counted() -> None:
    big = [
        OversizedRequest(resource="cpu", asked="64", largest="8"),
        OversizedRequest(resource="memory", asked="1Ti", largest="8Gi"),
    ]
    found = helps_of(rejection(lack=Shortfall(too_big=tuple(big))))
    assert [(one.kind, one.resource, one.amount, one.missing, one.nodes) for one in found] == [
        ("Node", "cpu", "64", {"cpu": "64", "memory": "1Ti"}, 1)
    ]
    assert found[0].sentence == (
        "Add a node with 64 cpu and 1Ti memory: a pod requests that much, but "
        "no node has more than 8 cpu and 8Gi memory."
    )
    (one,) = helps_of(rejection(lack=Shortfall(too_big=(big[0],))))
    assert one.sentence == "Add a node with 64 cpu: a pod requests that much, but the largest node has 8."
    more = [*big, OversizedRequest(resource="gpu", asked="9", largest="1", or_more=True)]
    closest = Shortage(missing={"cpu": "2"}, nodes=1, names=("n1",))
    assert [one.kind for one in helps_of(rejection(lack=Shortfall(too_big=tuple(more), closest=closest)))] == ["Free"]
    assert [one.kind for one in helps_of(rejection(lack=Shortfall(too_big=tuple(big), closest=closest)))] == [
        "Node",
        "Free",
    ]


@pytest.mark.parametrize(
    ("message", "pods", "lowest", "kinds"),
    [
        ("", [], None, []),
        ("", [], 0, ["Priority"]),
        ("", [], 7, ["Priority"]),
        (f"not placed: {NEVER}", [], 7, ["Policy"]),
        ("", [MessageCount(message=NEVER, reason="Unschedulable", pods=1, names=("a",))], None, ["Policy"]),
    ],
)
def test_higher_priority_helps_pods_that_may_preempt(
    message: str, pods: list[MessageCount], lowest: int | None, kinds: list[str]
) -> None:
    """preemption.md 1: a pod with the policy Never evicts nothing whatever its priority."""
    found = helps_of(rejection(message=message, pods=pods, priority=-3), lowest)
    assert [one.kind for one in found] == kinds
    if kinds == ["Priority"]:
        reported = f"Set a priority of {lowest} or more (it has -3): it could then preempt."
        assert [(one.priority, one.sentence) for one in found] == [(lowest, reported)]


def test_nothing_helps_a_pod_that_has_preempted() -> None:
    record = rejection(reasons=[ReasonCount(reason="node(s) were unschedulable", nodes=2)])
    assert len(helps_of(record)) == 1
    cost = CostRecord(units=1, pods=1, highest_priority=0)
    comparison = Comparison(candidates=1, chosen=CandidateRecord(domain="n1"))
    preemption = PreemptionRecord(
        domain="n1",
        potential_victims=1,
        evicted=(),
        reprieved=(),
        reprieved_total=0,
        cost=cost,
        comparison=comparison,
        nominations=(),
        nominations_total=0,
    )
    assert helps_of(msgspec.structs.replace(record, preemption=preemption), 7) == []


# -- words ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (0.001, "0.001 s"),
        (1.5, "1.5 s"),
        (30, "30 s"),
        (59, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (119.4, "1 min 59 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h"),
        (3601, "1 h"),
        (3660, "1 h 1 min"),
        (86_399, "23 h 59 min"),
        (86_400, "1 d"),
        (90_000, "1 d 1 h"),
        (86_400 + 60, "1 d"),
    ],
)
def test_times_are_written_in_their_two_largest_units(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(("number", "text"), [(0, "0 pods"), (1, "1 pod"), (2, "2 pods")])
def test_one_is_not_several(number: int, text: str) -> None:
    assert count(number, "pod") == text


@pytest.mark.parametrize(("rows", "more"), [(0, ""), (1, ""), (50, ""), (51, "<p>... and 1 more</p>")])
def test_table_has_at_most_fifty_rows_and_nobodys_markup(rows: int, more: str) -> None:
    cells: list[Any] = ["<b>", 1, None]
    table = Table(("<a>", "b", "c"), [tuple(cells)] * rows)
    found = html("<t>", table)
    assert MOST_ROWS == 50
    if not rows:
        assert found == ""
        return
    assert found.count("<tr><td>&lt;b&gt;</td><td>1</td><td></td></tr>") == min(rows, 50)
    assert found.startswith("<h4>&lt;t&gt;</h4><table><thead><tr><th>&lt;a&gt;</th><th>b</th><th>c</th></tr></thead>")
    assert found.endswith(f"</table>{more}")


# -- records of pending workloads -------------------------------------------------------------------------------------


def rejected(number: int, name: str) -> DecisionRecord:
    return DecisionRecord(
        id=number,
        time="",
        entity=EntityReference(kind="Pod", namespace="default", name=name),
        result="Unschedulable",
        message="",
        attempt=number,
        timings=Timings(attempt_seconds=0.0, waiting_seconds=0.0),
    )


def test_last_record_of_each_is_kept_of_the_last_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that was tried again counts as of then."""
    monkeypatch.setattr(pending_records, "MOST_RECORDS", 2)
    builder = SimpleNamespace(record=lambda decision, **_: rejected(decision.attempt, decision.ref))
    monkeypatch.setattr(pending_records, "RecordBuilder", lambda _engine: builder)
    kept = pending_records.WaitingRecords()
    kept.attach(World().engine)
    for number, name in enumerate(("a", "b", "a", "c"), 1):
        kept.decided(Decision(name, Result.UNSCHEDULABLE, attempt=number), seconds=0.0, now=0.0)
    found = {name: kept.of("Pod", "default", name) for name in "abc"}
    assert {name: one.attempt if one is not None else None for name, one in found.items()} == {
        "a": 3,
        "b": None,
        "c": 4,
    }
    assert kept.of("PodGroup", "default", "a") is None
    assert kept.hints(("Pod", "default", "a")) == kept.hints(("Pod", "default", "b")) == []


def test_rejections_of_a_plan_are_kept_and_nothing_else() -> None:
    """A pod that is placed, or preempts, has no record; a rejected one has what would help."""
    cluster = (
        ClusterBuilder()
        .add_node("n1", {"cpu": "4"})
        .add_node("n2", {"cpu": "2"})
        .add_pod("old", requests={"cpu": "4"}, node="n1", priority=1)
        .add_pod("fits", requests={"cpu": "2"})
        .add_pod("urgent", requests={"cpu": "4"}, priority=9)
        .add_pod("large", requests={"cpu": "8"}, priority=9)
        .build()
    )
    kept = pending_records.WaitingRecords()
    document = plan(cluster.manifests, PlanOptions(observer=kept)).plan
    assert {one.name: one.outcome for one in document.pods} == {
        "fits": "Scheduled",
        "urgent": "Scheduled",
        "large": "Unschedulable",
    }
    assert len(document.preemptions) == 1
    assert kept.of("Pod", "default", "fits") is kept.of("Pod", "default", "urgent") is None
    turned_down = kept.of("Pod", "default", "large")
    assert turned_down is not None
    assert (turned_down.entity.kind, turned_down.result) == ("Pod", "Unschedulable")
    [largest] = kept.hints(("Pod", "default", "large"))
    assert (largest.kind, largest.amount) == ("Node", "8")


# -- what is loaded ------------------------------------------------------------------------------------------------

UNSURE = {"apiVersion": "batch/v1", "kind": "Zebra", "metadata": {"name": "z"}, "spec": {"replicas": 1}}
"""Of an unknown kind: it may call for pods, and may not."""
SURE = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"parallelism": 1}}
"""A Job without a template: it calls for pods, and it is unknown which."""
WARNINGS = {
    "Zebra": '<object 1>: Zebra "z": no kind "Zebra" is known in version "batch/v1"',
    "Job": '<object 1>: Job "default/j": there is no pod template at spec.template',
}


@pytest.mark.parametrize(
    ("manifest", "how", "error"),
    [
        (UNSURE, {}, False),
        (UNSURE, {"lenient": True}, False),
        (UNSURE, {"strict": True}, True),
        (SURE, {}, True),
        (SURE, {"lenient": True}, False),
        (SURE, {"strict": True}, True),
    ],
)
def test_workload_that_must_have_pods_is_an_error_unless_lenient(
    manifest: dict[str, Any], how: dict[str, Any], error: bool
) -> None:
    """whatif.md 1: what only may call for pods is a warning; `strict` makes it an error, `lenient` the other none.

    A Cluster that is made of manifests that were read already holds to the same.
    """
    manifests = load([("<object 1>", manifest)], schemas=PackedSchemas())
    ways: list[Callable[[], Cluster]] = [
        lambda: reprieve.load(manifest, **how),
        lambda: Cluster(manifests, **how),
    ]
    for make in ways:
        if error:
            with pytest.raises(InputError):
                make()
        else:
            (warning,) = make().warnings
            assert warning.startswith(WARNINGS[manifest["kind"]])


@pytest.mark.parametrize(
    ("message", "reason", "reported"),
    [
        ("no room", "Unschedulable", "no room"),
        ("", "SchedulingGated", "SchedulingGated"),
        ("no room", "", "no room"),
        ("", "", "Waiting"),
    ],
)
def test_why_a_pod_waits_is_the_most_that_is_known(message: str, reason: str, reported: str) -> None:
    """The message, else the reason, else the outcome; nothing for placed pods."""
    cluster = ClusterBuilder().add_node("n1", {"cpu": "4"}).add_pod("waits", requests={"cpu": "8"}).build()
    found = cluster.plan(suggest=False)
    [pod] = found.plan.pods
    waits = msgspec.structs.replace(pod, message=message, reason=reason, outcome="Waiting")
    placed = msgspec.structs.replace(waits, name="runs", node_name="n1")
    found = replace(found, plan=msgspec.structs.replace(found.plan, pods=(waits, placed)))
    assert found.waiting == {"default/waits": reported}
    assert found.placements == {"default/runs": "n1"}
    assert found.preemptions == ()
