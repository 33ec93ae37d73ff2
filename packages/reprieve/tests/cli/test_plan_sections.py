"""The sections of a plan's text, each from a document of its own: titles, cells, notes, their order and their tones."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from reprieve.cli.preemption_text import MOST_ROWS, decision_sections
from reprieve.cli.render import (
    MOST_REASONS,
    changes_section,
    displaced_rows,
    plan_sections,
    waiting_sections,
)
from reprieve.cli.sections import BUDGET_OVERRULED, Row, Section, Tone
from reprieve.decisions.outcomes import DeferredPreemption, Help, PreemptorName, ReleasedCapacity
from reprieve.decisions.records import (
    DecisionRecord,
    EntityReference,
    FailedPreemption,
    MemberCounts,
    OrderRecord,
    ReasonCount,
    Shortage,
    Shortfall,
)
from reprieve.simulation.report import (
    Account,
    Answer,
    BrokenGang,
    ChangeMade,
    CompositeOutcome,
    DisplacedPod,
    LostPod,
    Plan,
    PodGroupOutcome,
    PodOutcome,
    Stats,
)
from tests.cli.test_explain_text import record
from tests.decisions.made import WHY, planned, unit
from tests.decisions.made import record as recorded

ACCOUNT = Account(nodes=2, running_before=1, running_after=3)


def sections(plan: Plan, account: Account = ACCOUNT) -> list[Section]:
    return plan_sections(Answer(plan, account))


def verdict(plan: Plan, account: Account = ACCOUNT) -> Section:
    return sections(plan, account)[0]


def titled(title: str, plan: Plan) -> Section | None:
    """The section with this title, if the plan's text has one."""
    return next((section for section in sections(plan) if section.title == title), None)


def cells(section: Section | None) -> list[tuple[str, ...]]:
    return [row.cells for row in section.rows] if section is not None else []


def pod(name: str, outcome: str = "Scheduled", **more: Any) -> PodOutcome:
    node = "n1" if outcome == "Scheduled" else None
    fields = {"pod_group": None, "priority": 0, "node_name": node, **more}
    return PodOutcome(namespace="a", name=name, outcome=outcome, **fields)


def group(name: str, outcome: str = "Scheduled", **more: Any) -> PodGroupOutcome:
    fields = {"priority": 0, "min_count": 2, "scheduled": 0, **more}
    return PodGroupOutcome(namespace="a", name=name, outcome=outcome, **fields)


# -- at a glance -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pods", "title", "tone"),
    [
        ((), "No pods are pending.", Tone.PLAIN),
        ((pod("p"),), "The pod is placed.", Tone.GOOD),
        ((pod("p"), pod("q")), "All 2 pods are placed.", Tone.GOOD),
        ((pod("p"), pod("q", "Unschedulable")), "1 of 2 pods placed, 1 pending.", Tone.WAITING),
        ((pod("p", "Gated"), pod("q", "Unschedulable")), "0 of 2 pods placed, 2 pending.", Tone.WAITING),
        (
            (pod("p"), pod("q", "Nominated"), pod("r", "Nominated")),
            "1 of 3 pods placed, 2 waiting for victims to terminate.",
            Tone.WAITING,
        ),
    ],
)
def test_verdict_counts_placed_pods(pods: tuple[PodOutcome, ...], title: str, tone: Tone) -> None:
    found = verdict(Plan(pods=pods))
    assert (found.title, found.tone) == (title, tone)
    assert found.notes == ("No pods are evicted.", "Cluster: 2 nodes, 1 running pod before, 3 after.")


def test_verdict_counts_evictions_losses_and_gangs_that_broke() -> None:
    """A pod that was leaving already for an earlier preemptor is counted there."""
    lost = [LostPod(namespace="a", name=name, pod_group=None, node_name=node, priority=0) for name, node in LOST]
    gone = unit("g", pods=2, kind="PodGroup")
    account = Account(
        nodes=1,
        running_before=0,
        running_after=1,
        preemptions=(
            planned(gone, unit("v", evicted=False)),
            planned(gone, unit("w"), evicted_before=frozenset({"a/g"})),
        ),
    )
    broken = group("g1", below_minimum=True), group("g2", below_minimum=True), group("g3")
    found = verdict(Plan(lost=tuple(lost), pod_groups=broken), account)
    assert found.notes == (
        "2 workloads (3 pods) evicted to free capacity.",
        "3 pods lost with n1, n2.",
        "2 gangs fell below their minimum.",
        "Cluster: 1 node, 0 running pods before, 1 after.",
    )
    found = verdict(Plan(lost=tuple(lost[:1]), pod_groups=broken[:1]), Account(1, 0, 1, (planned(unit("w")),)))
    assert found.notes[:3] == (
        "1 workload (1 pod) evicted to free capacity.",
        "1 pod lost with n2.",
        "1 gang fell below its minimum.",
    )


LOST = (("p", "n2"), ("q", "n1"), ("r", "n2"))


@pytest.mark.parametrize(
    ("seconds", "attempts", "terminating", "title", "notes"),
    [
        (0, 1, (), "Simulated time: 0 s, 1 scheduling attempt.", ()),
        (
            90,
            2,
            ("a/v",),
            "Simulated time: 1 min 30 s, 2 scheduling attempts.",
            ("1 victim still terminating.",),
        ),
        (
            0,
            2,
            ("a/v", "a/w"),
            "Simulated time: 0 s, 2 scheduling attempts.",
            ("2 victims still terminating.",),
        ),
    ],
)
def test_last_word_is_what_it_took(
    seconds: float, attempts: int, terminating: tuple[str, ...], title: str, notes: tuple[str, ...]
) -> None:
    plan = Plan(stats=Stats(seconds=1, virtual_seconds=seconds, attempts=attempts))
    *_, last = sections(plan, Account(nodes=1, running_before=0, running_after=0, terminating=terminating))
    assert (last.title, last.notes, last.tone) == (title, notes, Tone.QUIET)


# -- changes ---------------------------------------------------------------------------------------------------------


def test_changes_come_first_each_with_what_kubectl_would_need() -> None:
    """whatif.md 4.2. That daemon sets stay where they are loses nothing: it is no reason to warn."""
    changes = (
        ChangeMade(change="--cordon n1", sentence="1 node"),
        ChangeMade(change="--drain n2", sentence="2 pods", kubectl_needs=("--force", "--ignore-daemonsets")),
        ChangeMade(change="--drain n3", sentence="1 pod", kubectl_needs=("--ignore-daemonsets",)),
    )
    first, *_ = sections(Plan(changes=changes))
    assert first == Section(
        "Changes",
        ("", ""),
        (Row(("--cordon n1", "1 node")), Row(("--drain n2", "2 pods")), Row(("--drain n3", "1 pod"))),
        ("--drain n2: kubectl drain needs --force --ignore-daemonsets",),
    )
    assert changes_section(()) is None


def displaced(name: str, outcome: str, **more: Any) -> DisplacedPod:
    fields = {"pod_group": None, "priority": 0, "node_name": "n1", "change": "--drain n1", **more}
    return DisplacedPod(namespace="a", name=name, outcome=outcome, **fields)


def test_displaced_pods_are_listed_with_waiting_ones_first() -> None:
    """Then lost pods; by namespace and name, in which 2 comes before 10."""
    rows = displaced_rows(
        (
            displaced("m-10", "Moved", to="n2", successor="m-10"),
            displaced("m-2", "Moved", to="n1", successor="m-new"),
            displaced("lost", "Lost", budgets=("a/b", "a/c"), empty_dirs=("tmp", "log")),
            displaced("waits", "Waiting", empty_dirs=("tmp",)),
        )
    )
    assert [(row.cells, row.tone) for row in rows] == [
        (("pod a/waits", "from n1", "pending", "loses emptyDir tmp"), Tone.WAITING),
        (
            (
                "pod a/lost",
                "from n1",
                "lost: no controller recreates it",
                "violates budgets a/b, a/c; loses emptyDir tmp, log",
            ),
            Tone.BAD,
        ),
        (("pod a/m-2", "from n1", "back to n1 as m-new", ""), Tone.PLAIN),
        (("pod a/m-10", "from n1", "to n2", ""), Tone.PLAIN),
    ]
    assert cells(titled("Displaced", Plan(displaced=(displaced("p", "Lost"),)))) == [
        ("pod a/p", *rows[1].cells[1:3], "")
    ]
    assert titled("Displaced", Plan()) is None


def test_gangs_that_the_changes_broke_are_listed() -> None:
    one = BrokenGang(namespace="a", name="g", min_count=4, before=5, left=3, coming_back=2, after=1)
    found = titled("Gangs broken by the changes", Plan(broken_gangs=(one,)))
    assert cells(found) == [("gang a/g", "3 of 5 left, minCount 4", "1 placed at the end")]
    assert found is not None
    assert found.tone is Tone.BAD
    assert titled("Gangs broken by the changes", Plan()) is None


# -- placed and waiting ----------------------------------------------------------------------------------------------


def test_groups_are_placed_before_pods_and_in_part_as_a_warning() -> None:
    pods = (
        pod("alone"),
        *(pod(f"g-{number}", pod_group="g", node_name=f"n{number // 2}") for number in range(3)),
        *(pod(f"h-{number}", "Scheduled" if number else "Unschedulable", pod_group="h") for number in range(2)),
        pod("i-0", "Unschedulable", pod_group="i"),
    )
    plan = Plan(pods=pods, pod_groups=(group("g"), group("h", min_count=None)))
    found = titled("Placed", plan)
    assert found is not None
    assert [(row.cells, row.tone) for row in found.rows] == [
        (("gang a/g", "3/3 pods placed", "2 on n0, 1 on n1"), Tone.PLAIN),
        (("group a/h", "1/2 pods placed", "1 on n1"), Tone.WAITING),
        (("pod a/alone", "placed", "on n1"), Tone.PLAIN),
    ]
    assert found.tone is Tone.GOOD
    assert titled("Placed", Plan(pods=pods[-1:])) is None


def test_pods_waiting_for_one_reason_share_a_row() -> None:
    """A pod alone states where it preempts; one that was not tried says so.


    A pod that something else would help has a row of its own: a suggestion holds for all of a row.
    """
    helps = (Help(kind="Priority", sentence="A priority of 9."),)
    pods = (
        pod("p", "Unschedulable", message="m", help=helps),
        pod("q", "Unschedulable", message="m", help=helps),
        pod("r", "Unschedulable", message="m", help=helps),
        pod("n", "Unschedulable", message="m"),
        pod("s", "Unschedulable", message="other"),
        pod("t", "Nominated", nominated_node_name="n7"),
        pod("u", "Gated"),
        pod("g-0", "Nominated", pod_group="g", nominated_node_name="n2", message="m"),
        pod("g-1", "Nominated", pod_group="g", nominated_node_name="n1", message="m"),
        pod("g-2", "Gated", pod_group="g"),
        pod("g-3", pod_group="g"),
    )
    plan = Plan(pods=pods, pod_groups=(group("g", "Nominated", message="the group"),))
    found = titled("Pending", plan)
    assert found is not None
    assert [(row.cells, row.below) for row in found.rows] == [
        (("gang a/g", "3 of 4 pods", "2 Nominated, 1 Gated: n1, n2"), ("the group", "m")),
        (("pod a/p and 2 more", "3 pods", "Unschedulable"), ("m", "would help: A priority of 9.")),
        (("pod a/n", "1 pod", "Unschedulable"), ("m",)),
        (("pod a/s", "1 pod", "Unschedulable"), ("other",)),
        (("pod a/t", "1 pod", "Nominated: n7"), ("not tried yet",)),
        (("pod a/u", "1 pod", "Gated"), ("not tried yet",)),
    ]
    assert {row.tone for row in found.rows} == {found.tone} == {Tone.WAITING}
    assert titled("Pending", Plan(pods=(pod("p"),))) is None
    two = titled("Pending", Plan(pods=pods[:2]))
    assert cells(two) == [("pod a/p and 1 more", "2 pods", "Unschedulable")]


def test_most_frequent_messages_of_a_group_are_shown_and_none_within_another() -> None:
    messages = ["a", "a", "a", "b", "b", "c", "c", "d"]
    pods = tuple(
        pod(f"g-{number}", "Unschedulable", pod_group="g", message=text) for number, text in enumerate(messages)
    )
    found = titled("Pending", Plan(pods=pods))
    assert found is not None
    assert [row.below for row in found.rows] == [("a", "b", "c")]
    found = titled("Pending", Plan(pods=pods, pod_groups=(group("g", "Unschedulable", message="whole: a, b"),)))
    assert found is not None
    assert [row.below for row in found.rows] == [("whole: a, b", "c")]


def attempt(**more: Any) -> DecisionRecord:
    return record(entity=EntityReference(kind="PodGroup", namespace="a", name="g", priority=9), message="", **more)


def of_gang(outcome: str = "Unschedulable", *, messages: tuple[str, ...] = ("m",), **more: Any) -> Plan:
    """A gang of pods with these messages, of which none is placed."""
    pods = (pod(f"g-{at}", "Unschedulable", pod_group="g", message=text) for at, text in enumerate(messages))
    return Plan(pods=tuple(pods), pod_groups=(group("g", outcome, message="pod group is unschedulable", **more),))


def reasons_of(plan: Plan, found: DecisionRecord | None) -> tuple[str, ...]:
    """What stands below the gang where that is the record of its last attempt."""
    answer = Answer(plan, ACCOUNT)
    asked: list[tuple[str, str, str]] = []

    def record_of(*names: str) -> DecisionRecord | None:
        asked.append((names[0], names[1], names[2]))
        return found

    [waiting] = [section for section in plan_sections(answer, record_of) if section.title == "Pending"]
    assert asked == [("PodGroup", "a", "g")]
    return waiting.rows[0].below


TRIED = MemberCounts(tried=2, placed=1, min_count=2)


@pytest.mark.parametrize(
    ("number", "listed"),
    [
        (0, ""),
        (1, " The others fit on 0 of 3 nodes: 1 r0."),
        (6, " The others fit on 0 of 3 nodes: 1 r0, 1 r1, 1 r2, 1 r3, 1 r4, 1 r5."),
        (8, " The others fit on 0 of 3 nodes: 1 r0, 1 r1, 1 r2, 1 r3, 1 r4, 1 r5 and 2 more reasons."),
    ],
)
def test_gang_that_waits_has_six_reasons_of_its_last_attempt(number: int, listed: str) -> None:
    reasons = [ReasonCount(reason=f"r{at}", nodes=1) for at in range(number)]
    below = reasons_of(of_gang(), attempt(members=TRIED, reasons=reasons))
    assert below == (f"1 of 2 pods fit when tried together.{listed}", "m")


def test_scarcest_resource_is_the_first_reason() -> None:
    """interfaces.md 2.4."""
    reasons = [ReasonCount(reason=f"Insufficient {name}", nodes=1) for name in ("cpu", "memory", "gpu")]
    lack = Shortfall(closest=Shortage(missing={"gpu": "1", "cpu": "2"}, nodes=1, names=("n1",)), more=1)
    below = reasons_of(of_gang(), attempt(members=TRIED, reasons=reasons, lack=lack))
    assert below[0].endswith(": 1 Insufficient gpu, 1 Insufficient cpu, 1 Insufficient memory.")


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ("pod group is unschedulable", ()),
        ("waiting for minCount pods from a gang to be scheduled: 1 of 2", ()),
        ("0/3 nodes are available: 3 Insufficient cpu.", ()),
        ("0/4 nodes are available: of another attempt.", ("0/4 nodes are available: of another attempt.",)),
        ("pod group is unschedulable, because of x", ("because of x",)),
        ("0/1 placements are available, first placement status: it is full", ("it is full",)),
        ("something of a plugin", ("something of a plugin",)),
    ],
)
def test_messages_that_say_no_more_than_the_attempt_are_left_out(message: str, kept: tuple[str, ...]) -> None:
    found = attempt(members=TRIED, reasons=[ReasonCount(reason="Insufficient cpu", nodes=3)])
    first, *others = reasons_of(of_gang(messages=(message, message)), found)
    assert first.startswith("1 of 2 pods fit when tried together. The others fit on 0 of 3 nodes")
    assert tuple(others) == kept


def test_why_no_room_was_made_and_what_would_help_stand_below_the_attempt() -> None:
    helps = (Help(kind="Priority", sentence="A priority of 9."),)
    found = attempt(
        members=TRIED, in_vain=FailedPreemption(reason="NoLowerPriority"), order=OrderRecord(search="Retry"), reasons=[]
    )
    below = reasons_of(of_gang(help=helps), found)
    assert below[:2] == ("1 of 2 pods fit when tried together.", "No running pods could be evicted.")
    assert below[2].startswith("A placement may exist: ")
    assert below[3:] == ("m", "would help: A priority of 9.")


@pytest.mark.parametrize(
    ("plan", "found"),
    [
        (of_gang(), None),
        (of_gang(), attempt(reasons=[])),
        (of_gang("Gated"), attempt(members=TRIED)),
        (Plan(pods=of_gang().pods), attempt(members=TRIED)),
    ],
    ids=["no record", "of a pod", "gated", "no group"],
)
def test_without_an_attempt_that_failed_there_are_the_messages(plan: Plan, found: DecisionRecord | None) -> None:
    messages = ("pod group is unschedulable", "m") if plan.pod_groups else ("m",)
    assert reasons_of(plan, found) == messages


def tree(name: str, **more: Any) -> CompositeOutcome:
    fields = {"parent": None, "priority": 0, "min_group_count": 2, "groups": (), "scheduled": 0, **more}
    return CompositeOutcome(namespace="a", name=name, **{"outcome": "Unschedulable", **fields})


def test_trees_that_wait_are_listed_roots_first_with_what_was_short() -> None:
    """At most six names; a tree of the basic policy needs one of its groups."""
    names = tuple(f"g{number}" for number in range(MOST_REASONS + 2))
    found = titled(
        "Pending trees of groups",
        Plan(
            composite_pod_groups=(
                tree("child", parent="root", succeeded=0, short=names[:MOST_REASONS]),
                tree("root", min_group_count=None, succeeded=0, message="m", short=names),
                tree("other", succeeded=1, short=names[:1]),
                tree("untried", outcome="Gated"),
                tree("done", outcome="Scheduled"),
            )
        ),
    )
    assert found is not None
    six = "below the minimum: g0, g1, g2, g3, g4, g5"
    assert [(row.cells, row.below) for row in found.rows] == [
        (("compositepodgroup a/other", "1 of 2 groups needed", "Unschedulable"), ("below the minimum: g0",)),
        (("compositepodgroup a/root", "0 of 1 group needed", "Unschedulable"), ("m", f"{six} and 2 more")),
        (("compositepodgroup a/untried", "", "Gated"), ()),
        (("compositepodgroup a/child", "0 of 2 groups needed", "Unschedulable"), (six,)),
    ]
    assert {row.tone for row in found.rows} == {found.tone} == {Tone.WAITING}
    assert titled("Pending trees of groups", Plan(composite_pod_groups=(tree("t", outcome="Scheduled"),))) is None


def test_only_pending_workloads_are_explained() -> None:
    """Of `explain --all-waiting`: trees first; nothing without pending workloads."""
    plan = Plan(pods=(pod("p", "Unschedulable"), pod("q")), composite_pod_groups=(tree("t"),))
    titles = [section.title for section in waiting_sections(Answer(plan, ACCOUNT))]
    assert titles == ["Pending trees of groups", "Pending"]
    assert waiting_sections(Answer(Plan(pods=(pod("q"),)), ACCOUNT)) == []


# -- preemption ------------------------------------------------------------------------------------------------------


def test_decision_is_the_same_text_for_any_order_of_the_victims() -> None:
    """The most important first, whole groups before pods; names in their natural order; without times."""
    units = (
        unit("b-10", priority=5),
        unit("b-2", priority=5),
        unit("g", priority=5, kind="PodGroup", pods=2),
        unit("top", priority=7, nodes=("n2",)),
        unit("spared", evicted=False, running_seconds=7.0),
    )
    evicted, spared = decision_sections("pod a/x", 9, recorded(*units))
    assert (evicted.title, evicted.tone) == ("Evicted for pod a/x (priority 9)", Tone.BAD)
    assert [row.cells for row in evicted.rows] == [
        ("pod a/top", "1 pod", "n2", "7"),
        ("group a/g", "2 pods", "n1", "5"),
        ("pods a/b-2, b-10", "2 pods", "n1", "5"),
    ]
    assert (spared.title, spared.tone) == ("Spared workloads of lower priority", Tone.GOOD)
    assert [row.cells for row in spared.rows] == [("pod a/spared", "1 pod", "n1", "1")]
    assert decision_sections("pod a/x", 9, recorded(*reversed(units))) == [evicted, spared]


def test_budget_is_what_spares_first_and_is_overruled_last() -> None:
    """preemption.md 3.4. A pod that leaves already for another preemptor says so."""
    why = f"why: {WHY.clause}"
    overruled = unit("v", violates_pdb=True), unit("w"), unit("y", kind="PodGroup")
    protected = unit("s", evicted=False, violates_pdb=True), unit("t", evicted=False, nodes=("n2",))
    evicted, spared = decision_sections("pod a/x", 9, recorded(*overruled, *protected))
    assert {row.cells[0]: row.below for row in evicted.rows} == {
        "pod a/v": (why, BUDGET_OVERRULED),
        "pod a/w": (why,),
        "group a/y": (why,),
    }
    assert {row.cells[0]: row.below for row in spared.rows} == {
        "pod a/s": ("spared first because a PodDisruptionBudget protects them",),
        "pod a/t": (),
    }


def test_spared_units_are_counted_with_those_that_are_not_listed() -> None:
    """Five are listed; a budget that protects one is a note."""
    spared = [unit(f"s{number}", evicted=False, violates_pdb=number == 0) for number in range(6)]
    found = [
        section
        for section in sections(Plan(), Account(1, 0, 0, (planned(*spared, protected=1),)))
        if section.tone is Tone.GOOD
    ]
    assert [section.title for section in found] == ["Spared: 6 workloads of lower priority, the most important first"]
    assert len(found[0].rows) == 5
    assert found[0].notes == (
        "... and 1 more",
        "1 of them spared first because a PodDisruptionBudget protects them.",
    )
    one = planned(unit("s", evicted=False), protected=2)
    [found_one] = [section for section in sections(Plan(), Account(1, 0, 0, (one,))) if section.tone is Tone.GOOD]
    assert found_one.title == "Spared: 1 workload of lower priority, the most important first"
    assert found_one.notes == ("2 of them spared first because a PodDisruptionBudget protects them.",)
    more = planned(unit("s", evicted=False), more_spared=3)
    [found_more] = [section for section in sections(Plan(), Account(1, 0, 0, (more,))) if section.tone is Tone.GOOD]
    assert (found_more.title.split(" of ")[0], found_more.notes) == ("Spared: 4 workloads", ("... and 3 more",))


@pytest.mark.parametrize(
    ("by_score", "needed", "evicted", "note"),
    [
        (None, "", ("v",), None),
        ((3, 1), "", ("v",), "1 pod is evicted; placing by score would evict 3."),
        ((3, 2), "", ("v", "w"), "2 pods are evicted; placing by score would evict 3, of priority up to 2."),
        ((3, 1), "4", ("v",), "1 pod (6 cpu) is evicted; placing by score would evict 3."),
        (None, "8", ("v",), None),
    ],
)
def test_victim_search_savings(
    by_score: tuple[int, int] | None,
    needed: str,
    evicted: tuple[str, ...],
    note: str | None,
) -> None:
    freed, free_before = ("6" if needed else "", "2" if needed == "8" else "")
    made = planned(*map(unit, evicted), by_score=by_score, needed=needed, freed=freed, free_before=free_before)
    account = Account(1, 0, 0, (made,))
    found = next(section for section in sections(Plan(), account) if section.title.startswith("Evicted for"))
    free = " and 2 free before, 8" if free_before else ", 4"
    amounts = () if not needed else (f"6 cpu freed{free} needed.",)
    assert found.notes == (*amounts, *(() if note is None else (note,)))
    assert found.title == "Evicted for pod a/x (priority 9) after 0 s"


PREEMPTOR = PreemptorName(kind="PodGroup", namespace="a", name="g", priority=9)


@pytest.mark.parametrize(
    ("reason", "pods", "text"),
    [
        ("PreemptionDelay", (), "its preemption-delay"),
        ("MinimumRuntime", (), "workloads within their minimum-runtime"),
        ("Completions", ("a/p", "a/q"), "a/p, a/q to end"),
        ("Predecessor", ("a/p",), "a/p of the same owner to terminate"),
        ("Completions", ("a", "b", "c", "d"), "a, b, c, d to end"),
        ("Completions", ("a", "b", "c", "d", "e", "f"), "a, b, c, d and 2 more to end"),
    ],
)
def test_deferred_preemption_names_what_it_waits_for(reason: str, pods: tuple[str, ...], text: str) -> None:
    one = DeferredPreemption(preemptor=PREEMPTOR, reason=reason, message="", at=60, until=None, pods=pods)
    found = titled("Deferred preemptions", Plan(put_off=(one, replace(one, until=120))))
    assert found is not None
    assert (found.columns, found.tone) == (("preemptor", "waits for", "from", "until at the latest"), Tone.WAITING)
    assert cells(found) == [("podgroup a/g", text, "1 min", ""), ("podgroup a/g", text, "1 min", "2 min")]


def test_room_that_was_held_and_not_used_is_listed() -> None:
    one = ReleasedCapacity(preemptor=PREEMPTOR, nodes=("n1", "n2"), reason="NotUsed", message="its time is over", at=60)
    found = titled("Reserved capacity released unused", Plan(released=(one,)))
    assert found is not None
    assert (found.columns, found.tone) == (("reserved for", "on", "at", "why"), Tone.WAITING)
    assert cells(found) == [("podgroup a/g", "n1, n2", "1 min", "its time is over")]


def test_plan_sections_are_left_out_when_empty() -> None:
    assert [section.title for section in sections(Plan())] == [
        "No pods are pending.",
        "Simulated time: 0 s, 0 scheduling attempts.",
    ]


def test_sections_stand_in_the_order_of_their_importance() -> None:
    """Changes, verdict, victims, pods that are worse off, pods that still wait, effort."""
    lost = LostPod(namespace="a", name="l", pod_group=None, node_name="n", priority=0)
    plan = Plan(
        changes=(ChangeMade(change="--cordon n1", sentence="1 node"),),
        displaced=(displaced("d", "Lost"),),
        broken_gangs=(BrokenGang(namespace="a", name="b", min_count=2, before=2, left=1, coming_back=0),),
        pods=(pod("p"), pod("q", "Unschedulable")),
        pod_groups=(group("g", below_minimum=True, lost=1),),
        composite_pod_groups=(tree("t"),),
        put_off=(DeferredPreemption(preemptor=PREEMPTOR, reason="PreemptionDelay", message="", at=0, until=None),),
        released=(ReleasedCapacity(preemptor=PREEMPTOR, nodes=("n",), reason="NotUsed", message="", at=0),),
        lost=(lost,),
    )
    assert [section.title for section in sections(plan, Account(1, 0, 0, (planned(unit("v")),)))] == [
        "Changes",
        "1 of 2 pods placed, 1 pending.",
        "Displaced",
        "Gangs broken by the changes",
        "Placed",
        "Evicted for pod a/x (priority 9) after 0 s",
        "No lower-priority pods could be kept.",
        "Deferred preemptions",
        "Reserved capacity released unused",
        "Lost with their node",
        "Below their minimum",
        "Pending trees of groups",
        "Pending",
        "Simulated time: 0 s, 0 scheduling attempts.",
    ]


@pytest.mark.parametrize(("number", "note"), [(MOST_ROWS, ()), (MOST_ROWS + 1, ("... and 1 more",))])
def test_twenty_rows_are_listed(number: int, note: tuple[str, ...]) -> None:
    assert MOST_ROWS == 20
    found = titled("Placed", Plan(pods=tuple(pod(f"p{at}") for at in range(number))))
    assert found is not None
    assert len(found.rows) == 20
    assert found.notes == tuple(f"{text} (-o json lists them all)" for text in note)
