"""`reprieve explain`, sentence by sentence: states, levels of a tree, what is waited for, victims and reports.

Beside `test_explain_text.py`, which tells whole stories.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules import objects
from reprieve.cli.evidence import MANIFESTS, Evidence, ExplainTarget, Occurrence, OwnerEvidence
from reprieve.cli.explain_text import document, explanation_of, own_record, state_of
from reprieve.cli.sections import Section, Tone, plain
from reprieve.cli.whatif import HypotheticalDecision
from reprieve.decisions.records import (
    CandidateRecord,
    Comparison,
    CostRecord,
    DeferralRecord,
    EntityReference,
    EvictionReason,
    LevelRecord,
    MemberCounts,
    MessageCount,
    OrderRecord,
    ReasonCount,
    ReleaseRecord,
    UnitRecord,
)
from reprieve.simulation.report import ChangeMade
from tests.building import START, composite, group, pod
from tests.cli.test_explain_text import evidence, preempting, record


def section(found: Evidence, title: str) -> Section:
    [one] = [each for each in explanation_of(found) if each.title.startswith(title)]
    return one


def notes(found: Evidence, title: str) -> list[str]:
    return list(section(found, title).notes)


def of_group(**changes: Any) -> Evidence:
    return Evidence(ExplainTarget("PodGroup", "default", "g"), **{"group": group("g", min_count=2), **changes})


# -- states --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "state", "sentence", "tone"),
    [
        (pod("a"), "Waiting", "is pending: it has no node.", Tone.WAITING),
        (
            pod("a", nominated="n1"),
            "Nominated",
            "is nominated to n1: it waits until capacity is free there.",
            Tone.WAITING,
        ),
        (pod("a", gates=["x", "y"]), "Gated", "is gated by its scheduling gates: x, y.", Tone.WAITING),
        (pod("a", node="n1"), "Scheduled", "is scheduled: it is on n1.", Tone.GOOD),
        (pod("a", node="n1", terminating=True), "Terminating", "is being deleted.", Tone.QUIET),
        (pod("a", node="n1", preempted=True), "Preempted", "is being preempted: it is leaving n1.", Tone.BAD),
        (pod("a", node="n1", phase="Failed"), "Failed", "has ended (Failed).", Tone.QUIET),
    ],
)
def test_states_and_sentences_of_a_pod(item: objects.Pod, state: str, sentence: str, tone: Tone) -> None:
    assert state_of(evidence(item=item)) == (state, f"pod default/a {sentence}", tone)


@pytest.mark.parametrize(
    ("members", "state", "sentence"),
    [
        ([], "Waiting", "has no pods."),
        ([pod("a", group="g")], "Waiting", "is pending: 0 of its 1 pod on nodes. It needs 2 to start."),
        ([pod("a", group="g", node="n1")], "Scheduled", "is scheduled: its pod is on nodes."),
        ([pod(n, group="g", node="n1") for n in "ab"], "Scheduled", "is scheduled: all its 2 pods are on nodes."),
        (
            [pod("a", group="g", node="n1"), *(pod(n, group="g") for n in "bc")],
            "Waiting",
            "is pending: 1 of its 3 pods on nodes. It needs 2 to start.",
        ),
        (
            [*(pod(n, group="g", node="n1") for n in "ab"), pod("c", group="g")],
            "Waiting",
            "is pending: 2 of its 3 pods on nodes.",
        ),
        (
            [pod("a", group="g", node="n1", terminating=True), pod("b", group="g")],
            "Waiting",
            "is pending: 0 of its 1 pod on nodes. It needs 2 to start.",
        ),
    ],
)
def test_states_and_sentences_of_a_group(members: list[objects.Pod], state: str, sentence: str) -> None:
    assert state_of(of_group(members=members))[:2] == (state, f"podgroup default/g {sentence}")


@pytest.mark.parametrize(("least", "needed"), [(None, ""), (1, ""), (2, " It needs 2 of its groups.")])
def test_waiting_tree_shows_how_many_groups_it_needs(least: int | None, needed: str) -> None:
    tree = composite("t", min_groups=least)
    found = Evidence(ExplainTarget("CompositePodGroup", "default", "t"), composite=tree, members=[pod("a")])
    assert state_of(found)[1] == f"compositepodgroup default/t is pending: 0 of its 1 pod on nodes.{needed}"
    minimum = f", minGroupCount {least}" if least is not None else ""
    assert f"Priority 0{minimum}." in notes(found, "compositepodgroup default/t is pending")


def test_deleted_object_is_explained_from_records() -> None:
    gone = Evidence(ExplainTarget("Pod", "default", "a"), records=[record()], source="s")
    assert state_of(gone) == ("Gone", "pod default/a is gone; this is from the scheduler's records.", Tone.QUIET)


@pytest.mark.parametrize(
    ("pods", "waiting", "title"),
    [
        (1, 1, None),
        (2, 0, "job default/j has 2 pods: 2 on nodes, 0 pending."),
        (2, 1, "job default/j has 2 pods: 1 on nodes, 1 pending."),
        (5, 3, "job default/j has 5 pods: 2 on nodes, 3 pending."),
    ],
)
def test_how_the_owner_stands_comes_first(pods: int, waiting: int, title: str | None) -> None:
    found = explanation_of(evidence(owner=OwnerEvidence("Job", "default", "j", pods, waiting)))[0]
    assert (found.title if found.title.startswith("job") else None) == title
    if title is not None:
        assert found.tone == (Tone.WAITING if waiting else Tone.GOOD)


def test_lines_below_the_state() -> None:
    member = pod("a", group="g", priority=5)
    found = evidence(item=member, above=["low", "top"], missing="gone")
    assert notes(found, "pod default/a is pending") == [
        "Priority 5, of podgroup g.",
        "There is no podgroup g: its pods stay pending until it exists.",
        "It is scheduled as part of compositepodgroup top, with the whole tree.",
        "There is no compositepodgroup gone: the tree stays pending until it exists.",
    ]
    assert notes(evidence(item=member, group=group("g")), "pod default/a is pending") == ["Priority 5, of podgroup g."]
    assert notes(evidence(), "pod default/a is pending") == ["Priority 5."]


@pytest.mark.parametrize(
    ("kind", "status", "message", "expected"),
    [
        ("PodScheduled", "False", "no room", True),
        ("PodScheduled", "True", "no room", False),
        ("PodScheduled", "False", "", False),
        ("Ready", "False", "no room", False),
    ],
)
def test_false_conditions_are_shown_with_their_message(kind: str, status: str, message: str, expected: bool) -> None:
    item = pod("a", priority=5)
    condition = objects.PodCondition(type=kind, status=status, reason="R", message=message)
    item = replace(item, status=replace(item.status, conditions=(condition,)))
    assert (f"{kind}: R: {message}" in notes(evidence(item=item), "pod default/a is pending")) is expected


def test_computed_answer_is_shown_where_no_record_exists() -> None:
    room = "It fits now: a scheduler with the default configuration would place it."
    for source, expected in (("", True), ("http://s", False)):
        found = evidence(computed=HypotheticalDecision(fits=True, gated="behind a gate"), source=source)
        shown = notes(found, "pod default/a is pending")
        assert (room in shown, "It is not tried: behind a gate" in shown) == (expected, expected)


# -- why -----------------------------------------------------------------------------------------------------------


def test_reasons_are_a_table_and_what_is_not_listed_is_counted() -> None:
    found = record(
        reasons=tuple(ReasonCount(reason=f"r{number:02}", nodes=number) for number in range(1, 14)), nodes=20
    )
    why = section(evidence(found), "Why: it fits on 0 of 20 nodes")
    assert why.columns == ("nodes", "reason")
    assert [row.cells for row in why.rows] == [(str(number), f"r{number:02}") for number in range(1, 13)]
    assert "... and 1 more reason (-o json lists them all)" in why.notes


@pytest.mark.parametrize(
    ("others", "more"), [(0, None), (3, None), (4, "... and 1 pod with"), (5, "... and 3 pods with")]
)
def test_messages_stand_where_there_are_no_reasons(others: int, more: str | None) -> None:
    """Three of them; of the others how many pods they are of."""
    pods = [
        MessageCount(message=f"m{n}", reason="Unschedulable", pods=n + 1 if n < 4 else 2, names=())
        for n in range(others)
    ]
    pods = [replace(each, pods=1) if n == 3 else each for n, each in enumerate(pods)]
    found = notes(evidence(record(reasons=(), pods=pods, message="whole")), "Why")
    if not others:
        assert found == ["whole"]
        return
    assert found[:3] == ["1 pod: m0", "2 pods: m1", "3 pods: m2"]
    assert [each for each in found if each.startswith("...")] == (
        [f"{more} other messages (-o json lists them)"] if more else []
    )


def test_members_tried_together_are_counted() -> None:
    members = MemberCounts(tried=4, placed=3, min_count=4)
    sentence = "3 of 4 pods fit when tried together."
    assert sentence in notes(evidence(record(members=members)), "Why")
    assert sentence not in notes(evidence(record(members=members, result="Error")), "Why")


@pytest.mark.parametrize(("repeated", "expected"), [(0, []), (1, ["2 attempts had this result."])])
def test_attempts_that_ended_alike_are_counted(repeated: int, expected: list[str]) -> None:
    assert [each for each in notes(evidence(record(repeated=repeated)), "Why") if "attempts" in each] == expected


def test_levels_of_a_tree_show_which_groups_failed() -> None:
    top = LevelRecord(
        kind="CompositePodGroup", name="default/t", ok=False, needed=2, succeeded=1, of=3, short=("x", "y")
    )
    low = LevelRecord(kind="PodGroup", name="default/g", ok=True, needed=4, succeeded=4, of=5, why="because")
    rows = section(evidence(record(levels=(top, low))), "Level by level").rows
    assert [(row.cells, row.below) for row in rows] == [
        (("compositepodgroup default/t", "failed", "1 of 3 groups, needs 2"), ("below the minimum: x, y",)),
        (("podgroup default/g", "placed", "4 of 5 pods, needs 4"), ("because",)),
    ]
    for number, more in (
        (15, ()),
        (16, ("... and 1 more group (-o json lists them)",)),
        (17, ("... and 2 more groups (-o json lists them)",)),
    ):
        many = section(evidence(record(levels=[low] * number)), "Level by level")
        assert (len(many.rows), many.notes) == (15, more)


@pytest.mark.parametrize(
    ("reason", "options", "expected"),
    [
        ("PreemptionDelay", {}, ["Its preemption-delay ends at 2026-07-01 12:00:00 UTC; capacity that becomes free"]),
        (
            "MinimumRuntime",
            {},
            ["Its potential victims are within their minimum-runtime; the first ends at 2026-07-01"],
        ),
        (
            "Predecessor",
            {"pods": ["ns/p"], "pods_total": 1},
            [
                "Pods of the same owner are terminating, and their capacity is reserved for it: ns/p.",
                "If they still exist at",
            ],
        ),
        (
            "Predecessor",
            {"pods": ["ns/p"], "pods_total": 3, "until": ""},
            ["Pods of the same owner are terminating, and their capacity is reserved for it: ns/p and 2 more."],
        ),
        (
            "Completions",
            {"pods": ["ns/p", "ns/q"], "pods_total": 2},
            [
                "These pods state when they end, and their capacity is enough: ns/p, ns/q.",
                "If they have not ended at 2026-07-01",
            ],
        ),
    ],
)
def test_preemptor_waits_for(reason: str, options: dict[str, Any], expected: list[str]) -> None:
    waits = DeferralRecord(**{"reason": reason, "message": "m", "until": "2026-07-01T12:00:00Z", **options})
    found = notes(evidence(record(waits=waits)), "Preemption is deferred")
    assert len(found) == len(expected)
    assert all(each.startswith(start) for each, start in zip(found, expected, strict=True))


# -- victims -------------------------------------------------------------------------------------------------------


def making_room(**changes: Any) -> Evidence:
    return evidence(record(result="Preempting", preemption=preempting(**changes)))


@pytest.mark.parametrize(
    ("state", "error", "expected"),
    [
        ("UnderWay", "", "Decided at 2026-07-01 14:04:44 UTC; the victims are being evicted."),
        ("Done", "", "Decided at 2026-07-01 14:04:44 UTC; every victim was evicted."),
    ],
)
def test_preemption_outcomes(state: str, error: str, expected: str) -> None:
    assert notes(making_room(state=state, error=error), "Preemption: 1 workload (2 pods) evicted")[0] == expected


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        (CostRecord(units=0, pods=0, highest_priority=0), ["No pods were evicted."]),
        (
            CostRecord(units=1, pods=2, highest_priority=1, running_seconds_lost=7200),
            ["Before that 2 pods of 1 workload had been evicted.", "2 h of running time is lost."],
        ),
    ],
)
def test_preemption_with_failed_calls_claims_neither_losses_nor_capacity(cost: CostRecord, expected: list[str]) -> None:
    """observability.md 4.8."""
    found = making_room(state="Failed", error="503", cost=cost, held_until="2026-07-01T15:00:00.000000Z")
    titles = [one.title for one in explanation_of(found)]
    assert not any(title.startswith(("Preemption: ", "Spared")) for title in titles)
    assert notes(found, "Preemption failed: 1 workload to be evicted") == [
        "Decided at 2026-07-01 14:04:44 UTC; the calls to evict its victims failed: 503",
        *expected,
        "No capacity is reserved for it. It is tried again.",
    ]


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        (CostRecord(units=1, pods=1, highest_priority=1), []),
        (CostRecord(units=1, pods=1, highest_priority=1, running_seconds_lost=0.9), []),
        (
            CostRecord(units=1, pods=1, highest_priority=1, running_seconds_lost=1.0),
            ["1 s of running time is lost, over all pods."],
        ),
        (
            CostRecord(units=3, pods=4, highest_priority=1, pdb_violations=2),
            ["2 workloads evicted although a PodDisruptionBudget forbids it."],
        ),
    ],
)
def test_eviction_costs(cost: CostRecord, expected: list[str]) -> None:
    found = notes(making_room(cost=cost), "Preemption")
    assert [each for each in found if "lost" in each or "although" in each] == expected


@pytest.mark.parametrize(
    ("comparison", "expected"),
    [
        (Comparison(candidates=1, chosen=CandidateRecord(domain="n1")), None),
        (Comparison(candidates=2, chosen=CandidateRecord(domain="n1")), "2 domains would have worked; n1 was chosen."),
        (
            Comparison(candidates=2, chosen=CandidateRecord(domain="n1"), runner_up=CandidateRecord(domain="n2")),
            "2 domains would have worked; n1 was chosen: as good as n2, and first by name.",
        ),
        (
            Comparison(
                candidates=3,
                chosen=CandidateRecord(domain="n1"),
                runner_up=CandidateRecord(domain="n2"),
                decided_by="pods",
            ),
            "3 domains would have worked; n1 was chosen over n2: pods.",
        ),
        (
            Comparison(
                candidates=3,
                chosen=CandidateRecord(domain="n1"),
                runner_up=CandidateRecord(domain="n2"),
                decided_by="pods",
                values=("1", "4"),
            ),
            "3 domains would have worked; n1 was chosen over n2: pods (1 against 4).",
        ),
    ],
)
def test_how_the_domain_was_chosen(comparison: Comparison, expected: str | None) -> None:
    found = [each for each in notes(making_room(comparison=comparison), "Preemption") if "domains" in each]
    assert found == ([expected] if expected else [])


def released(**changes: Any) -> ReleaseRecord:
    values = {"time": "2026-07-01T15:00:00Z", "reason": "NotUsed", "message": "it was not used", "nodes": ["n1", "n2"]}
    return ReleaseRecord(**{**values, "nodes_total": 2, "pods": 2, **changes})


def test_reserved_capacity_has_its_time_and_how_it_was_given_back() -> None:
    held = "Capacity is reserved for it until 2026-07-01 15:00:00 UTC at the latest."
    gone = "The capacity reserved on n1, n2 was released at 2026-07-01 15:00:00 UTC: it was not used."
    more = "The capacity reserved on n1, n2 and 3 more was released at 2026-07-01 15:00:00 UTC: it was not used."
    until = "2026-07-01T15:00:00Z"
    for options, expected in (
        ({}, []),
        ({"held_until": until}, [held]),
        ({"held_until": until, "released": [released()]}, [gone]),
        ({"released": [released(), released(nodes_total=5)]}, [gone, more]),
    ):
        assert [each for each in notes(making_room(**options), "Preemption") if "apacity" in each] == expected
    placed = making_room(held_until=until)
    placed.pod = pod("a", cpu=1, priority=5, node="n1")
    assert not [each for each in notes(placed, "Preemption") if "apacity" in each]
    records = [record(result="Preempting", preemption=preempting(released=[released()])) for _ in range(2)]
    assert notes(evidence(*records), "Capacity that was reserved for it before") == [gone]


@pytest.mark.parametrize(("number", "more"), [(15, None), (16, "... and 1 more (-o json lists them all)")])
def test_fifteen_workloads_that_go_are_listed(number: int, more: str | None) -> None:
    units = [
        UnitRecord(
            unit=f"default/g{n}", kind="PodGroup", outcome="Evicted", priority=1, pods=2, pod_names=(), nodes=("n1",)
        )
        for n in range(number)
    ]
    found = section(making_room(evicted=units), "Preemption")
    assert len(found.rows) == 15
    assert (found.notes[0] if found.notes[0].startswith("...") else None) == more


@pytest.mark.parametrize(("total", "title", "more"), [(1, "1 workload", ()), (8, "8 workloads", ("... and 7 more",))])
def test_spared_units_beyond_the_listed_are_counted(total: int, title: str, more: tuple[str, ...]) -> None:
    found = section(making_room(reprieved_total=total), "Spared: ")
    assert found.title == f"Spared: {title} of lower priority; everything still fits with them"
    assert found.notes == more
    none = explanation_of(making_room(reprieved=[], reprieved_total=0))
    assert not [each for each in none if each.title.startswith("Spared")]


def test_explanation_of_a_victim() -> None:
    why = EvictionReason(pod="x/high", node="n1", plugin="p", text="Insufficient cpu", resource="cpu", short="1")
    unit = UnitRecord(
        unit="default/a",
        kind="Pod",
        outcome="Evicted",
        priority=1,
        pods=1,
        pod_names=("default/a",),
        nodes=("n1",),
        why=why,
    )
    preemptor = EntityReference(kind="PodGroup", namespace="x", name="high", priority=9)
    for units, others in (
        (1, None),
        (2, "1 other workload evicted as well, 8 spared."),
        (4, "3 other workloads evicted as well, 8 spared."),
    ):
        made = preempting(
            evicted=[unit], cost=CostRecord(units=units, pods=units, highest_priority=1), state="Failed", error="503"
        )
        found = notes(
            evidence(record(entity=preemptor, preemption=made)),
            "Preempted by podgroup x/high at 2026-07-01 14:04:44 UTC",
        )
        assert found[:2] == [
            "podgroup x/high has priority 9, this workload has 1.",
            "Why it was chosen: if it stayed, x/high would not fit on n1: Insufficient cpu (1 short).",
        ]
        assert [each for each in found if "evicted as well" in each] == ([others] if others else [])
        assert found[-1] == "The preemption failed: 503"
    hidden = replace(preemptor, name="")
    [title] = [
        each.title
        for each in explanation_of(evidence(record(entity=hidden, preemption=preempting(evicted=[unit]))))
        if each.title.startswith("Preempted")
    ]
    assert title == "Preempted by a podgroup of priority 9 at 2026-07-01 14:04:44 UTC"


# -- the rest ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "more"), [(10, ()), (11, ("... and 1 earlier",)), (13, ("... and 3 earlier",))])
def test_last_ten_events_are_shown(number: int, more: tuple[str, ...]) -> None:
    events = [Occurrence(START + n, "Normal", f"R{n}", "note", 1 + n % 2) for n in range(number)]
    found = section(evidence(events=events), "Events")
    assert [row.cells[1] for row in found.rows] == [f"R{n}" for n in range(number - 10, number)]
    assert {row.cells[2] for row in found.rows} == {"", "×2"}
    assert found.notes == more
    assert section(evidence(events=[Occurrence(0, "Normal", "R", "n", 1)]), "Events").rows[0].cells[0] == ""


@pytest.mark.parametrize(
    ("records", "changes", "title"),
    [
        (
            [record()],
            {},
            "From the scheduler's record (http://s): attempt 1, at 2026-07-01 14:04:44 UTC, took 0.001 s.",
        ),
        ([], {}, "The scheduler (http://s) has no record of an attempt that failed."),
        ([], {"source": ""}, "From the API server alone: no decision record of a scheduler could be read."),
        (
            [],
            {"source": "", "basis": MANIFESTS},
            "From the manifests alone: they contain no decision record of a scheduler.",
        ),
        ([], {"source": "", "computed": HypotheticalDecision()}, "No decision record of a scheduler could be read."),
        (
            [],
            {"source": "", "computed": HypotheticalDecision(), "basis": MANIFESTS},
            "Manifests contain no decision records of a scheduler.",
        ),
        (
            [],
            {"source": "", "computed": HypotheticalDecision(), "basis": "cluster as it would be"},
            "No scheduler has a decision record of this.",
        ),
    ],
)
def test_where_it_is_from_comes_last(records: list[Any], changes: dict[str, Any], title: str) -> None:
    assert explanation_of(evidence(*records, **changes))[-1].title == title


def test_record_of_a_group_or_of_the_root_of_its_tree_is_its_pods_own() -> None:
    of = {
        kind: record(entity=EntityReference(kind=kind, namespace=space, name=name))
        for kind, space, name in (
            ("PodGroup", "default", "g"),
            ("CompositePodGroup", "default", "top"),
        )
    }
    member = pod("a", group="g")
    assert own_record(evidence(of["PodGroup"], item=member)) is of["PodGroup"]
    assert own_record(evidence(of["PodGroup"], item=pod("a", group="h"))) is None
    assert own_record(evidence(of["CompositePodGroup"], item=member, above=["low", "top"])) is of["CompositePodGroup"]
    assert own_record(evidence(of["CompositePodGroup"], item=member, above=["top", "higher"])) is None
    elsewhere = record(entity=EntityReference(kind="PodGroup", namespace="other", name="g"))
    assert own_record(evidence(elsewhere, item=member)) is None
    assert plain(explanation_of(evidence(elsewhere, item=member)))


def test_up_to_ten_releases_of_reserved_capacity_are_shown() -> None:
    """Of the newest it stands where its victims are."""
    released = ReleaseRecord(
        nodes=("n1",), nodes_total=3, pods=1, reason="NotUsed", message="not used", time="2026-07-01T12:00:00Z"
    )
    before = [record(result="Preempting", preemption=preempting(released=[released])) for _ in range(12)]
    found = evidence(record(result="Preempting", preemption=preempting()), *before)
    held = section(found, "Capacity that was reserved for it before")
    assert (
        held.notes
        == ("The capacity reserved on n1 and 2 more was released at 2026-07-01 12:00:00 UTC: not used.",) * 10
    )
    assert not [each for each in explanation_of(evidence(before[0])) if each.title == held.title]


def test_preemption_mentions_the_order_of_pods() -> None:
    """scheduling.md 3.9: an eviction that another order would not have needed."""
    order = OrderRecord(search="Greedy", placed=2)
    made = record(result="Preempting", preemption=preempting(), order=order)
    assert [each for each in notes(evidence(made), "Preemption") if "In another order 2 pods" in each]


def test_document_has_what_is_known_and_nothing_else() -> None:
    """Trees, the owner, changes and what was computed are there only where there are some."""
    bare = document(evidence())
    assert {"compositePodGroups"}.isdisjoint(bare["object"])
    assert {"owner", "changes", "computed"}.isdisjoint(bare)
    changes = [ChangeMade(change="--cordon n1", sentence="1 node")]
    owner = OwnerEvidence("Job", "default", "j", 3, 2)
    found = document(
        evidence(
            above=["mid", "top"], owner=owner, changes=changes, computed=HypotheticalDecision(fits=True, gated="g")
        )
    )
    assert found["object"]["compositePodGroups"] == ["mid", "top"]
    assert found["owner"] == {"kind": "Job", "namespace": "default", "name": "j", "pods": 3, "waiting": 2}
    assert [one["change"] for one in found["changes"]] == ["--cordon n1"]
    assert found["computed"] == {"fits": True, "gated": "g", "priorityThatHelps": None, "record": None}
    helped = document(evidence(computed=HypotheticalDecision(record=record(), priority_that_helps=3)))
    assert (helped["computed"]["gated"], helped["computed"]["priorityThatHelps"]) == (None, 3)
    assert helped["computed"]["record"]["result"] == "Unschedulable"
