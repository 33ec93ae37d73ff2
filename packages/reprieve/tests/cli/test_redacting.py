"""What of a text, a suggestion and a plan is shown to users who may know others by kind and priority alone.

whatif.md 11.3; whole answers are in test_explain_files.py.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace as with_fields

from kube_rules import objects
from kube_rules.errors import Origin
from kube_rules.manifests import LoadedObject, Manifests
from reprieve.cli.evidence import Evidence, ExplainTarget, Occurrence, OwnerEvidence
from reprieve.cli.redaction import Redaction, redacted, redacted_waiting
from reprieve.cli.sections import plain
from reprieve.cli.whatif import HypotheticalDecision
from reprieve.decisions.outcomes import Help
from reprieve.decisions.records import (
    DecisionRecord,
    EntityReference,
    FailedPreemption,
    LevelRecord,
    MessageCount,
    Timings,
    UnitRecord,
)
from reprieve.inputs.loader import read
from reprieve.simulation.report import CompositeOutcome, Plan, PodGroupOutcome, PodOutcome, Stats
from tests import building
from tests.cli.test_explain_text import preempting

UID = "01234567-89ab-cdef-0123-456789abcdef"


def redaction() -> Redaction:
    """Of `team/mine` and everything of `ours`; `team/low`, a pod, and `team/train`, a group, are known."""
    found = Redaction(own={("team", "mine")}, own_namespace="ours")
    found.namespaces.update(("team", "ours", "team-b"))
    found.learn("team", "low", "Pod", 3)
    found.learn("team", "train", "PodGroup", -1)
    return found


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("team/mine waits", "team/mine waits"),
        ("ours/any waits", "ours/any waits"),
        ("team/low waits", "a pod of priority 3 waits"),
        ("pod team/low waits", "pod of priority 3 waits"),
        ("gang team/train", "gang of priority -1"),
        ("team/train", "a podgroup of priority -1"),
        ("team/unknown", "another object"),
        ("pod team/unknown", "another pod"),
        ("workload team/job/x", "another job"),
        ("--without team/job.batch/x", "--without another job.batch"),
        ("team-b/low", "another object"),
        ("elsewhere/low", "elsewhere/low"),
        ("a/team/low", "a/team/low"),
        ("team", "team"),
        (f"uid {UID}.", "uid ...."),
        (f"uid {UID[:-1]}", f"uid {UID[:-1]}"),
        ("team/low and team/low", "a pod of priority 3 and a pod of priority 3"),
        ("team/low.", "a pod of priority 3."),
    ],
)
def test_text_names_only_the_objects_of_the_user(text: str, shown: str) -> None:
    assert redaction().text(text) == shown


def test_names_learned_later_are_redacted_too() -> None:
    found = redaction()
    assert found.text("new/name") == "new/name"
    found.learn("new", "name", "Pod", 0)
    assert found.text("new/name") == "a pod of priority 0"
    assert Redaction().text("any/name") == "any/name"


def test_suggestion_keeps_the_flags_without_names() -> None:
    """How to make the change goes from the sentence too, where a flag names others."""
    flags = ("--without team/pod/low", "--cordon n1")
    sentence = f"Without pod team/low ({' '.join(flags)})"
    named = Help(kind="Workload", sentence=sentence, workload="team/pod/low", flags=flags)
    found = redaction().help(named)
    assert (found.sentence, found.workload, found.flags) == (
        "Without pod of priority 3",
        "another pod",
        ("--cordon n1",),
    )
    own = Help(kind="Nodes", sentence="With one more (--add-nodes 1)", flags=("--add-nodes 1",))
    assert redaction().help(own) == own


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (3, 3),
        (None, None),
        ("team/low", "a pod of priority 3"),
        (["team/low", 1, ["team/mine"]], ["a pod of priority 3", 1, ["team/mine"]]),
        ({"a": {"b": "team/low"}}, {"a": {"b": "a pod of priority 3"}}),
        (
            {"unit": "team/train", "podNames": ["team/low", "team/mine", "ours/x"]},
            {"unit": "a podgroup of priority -1", "podNames": ["team/mine", "ours/x"]},
        ),
        ({"podNames": ["team/low"]}, {"podNames": ["a pod of priority 3"]}),
    ],
)
def test_data_is_redacted_throughout_and_pods_of_others_are_not_listed(value: Any, shown: Any) -> None:
    assert redaction().within(value) == shown


# -- pending workloads --------------------------------------------------------------------------------------------


def pod(name: str, namespace: str, priority: int = 0, outcome: str = "Unschedulable", **more: Any) -> PodOutcome:
    given = {"pod_group": None, "message": f"{namespace}/{name} waits", "reason": "R", **more}
    return PodOutcome(namespace=namespace, name=name, priority=priority, outcome=outcome, **given)


def group(name: str, namespace: str, priority: int = 0, outcome: str = "Unschedulable", **more: Any) -> PodGroupOutcome:
    return PodGroupOutcome(
        namespace=namespace, name=name, priority=priority, outcome=outcome, min_count=1, scheduled=0, **more
    )


def waiting(**outcomes: Any) -> Any:
    plan = Plan(**outcomes, stats=Stats(seconds=0.0, virtual_seconds=0.0, attempts=0))
    entity = EntityReference(kind="Pod", namespace="theirs", name="p", priority=4)
    unit = UnitRecord(
        unit="theirs/p", kind="Pod", outcome="LookedAt", priority=4, pods=1, pod_names=("theirs/p",), nodes=()
    )
    record = DecisionRecord(
        id=1,
        time="",
        entity=entity,
        result="Unschedulable",
        message="theirs/p",
        attempt=1,
        timings=Timings(attempt_seconds=0.0, waiting_seconds=0.0),
        in_vain=FailedPreemption(reason="DoesNotFit", looked_at=(unit,)),
    )
    return redacted_waiting(plan, lambda *asked: record if asked[2] == "p" else None, Manifests(), "ours")


def test_outcomes_of_others_have_no_names_nodes_reasons_and_help() -> None:
    hint = Help(kind="Nodes", sentence="more")
    theirs = pod("p", "theirs", 4, node_name="n1", nominated_node_name="n2", help=(hint,), pod_group="g")
    found = waiting(pods=(theirs, pod("q", "ours", help=(hint,))), pod_groups=(group("g", "theirs", 5, parent="t"),))
    hidden, own = found.plan.pods
    assert (hidden.namespace, hidden.name, hidden.pod_group, hidden.priority) == ("", "", "", 4)
    assert (hidden.node_name, hidden.nominated_node_name, hidden.reason, hidden.message) == (None, None, None, None)
    assert (hidden.help, hidden.outcome) == ((), "Unschedulable")
    assert (own.namespace, own.name, own.message, own.help) == ("ours", "q", "ours/q waits", (hint,))
    [other] = found.plan.pod_groups
    assert (other.namespace, other.name, other.priority, other.parent) == ("", "", 5, None)
    assert [one.name for one in found.own.pods] == ["q"]
    assert found.own.pod_groups == ()
    assert waiting(pods=(pod("x", "theirs"),)).plan.pods[0].pod_group is None


def test_others_are_counted_by_kind_and_priority_the_highest_first() -> None:
    """Trees by their roots, groups of none, pods of no group; placed pods do not wait."""

    def tree(name: str, outcome: str = "Unschedulable", parent: str | None = None, space: str = "theirs") -> Any:
        more: Any = {"scheduled": 0, "min_group_count": 1, "groups": ()}
        return CompositeOutcome(namespace=space, name=name, priority=5, outcome=outcome, parent=parent, **more)

    found = waiting(
        composite_pod_groups=(tree("t"), tree("u", parent="t"), tree("v", "Scheduled"), tree("w", space="ours")),
        pod_groups=(
            group("g", "theirs", 5),
            group("h", "theirs", 5, parent="t"),
            group("i", "theirs", 9, "Scheduled"),
            group("mine", "ours", 9),
        ),
        pods=(
            pod("a", "theirs", 5),
            pod("b", "others", 5),
            pod("c", "theirs", 7, "Gated"),
            pod("d", "theirs", 8, "Scheduled", node_name="n1"),
            pod("e", "theirs", 8, pod_group="g"),
            pod("mine", "ours", 9),
        ),
    )
    assert found.others is not None
    assert [line.split() for line in plain([found.others]).splitlines()[1:]] == [
        ["1", "pod", "of", "priority", "7", "Gated"],
        ["1", "compositepodgroup", "of", "priority", "5", "Unschedulable"],
        ["2", "pods", "of", "priority", "5", "Unschedulable"],
        ["1", "podgroup", "of", "priority", "5", "Unschedulable"],
    ]
    assert waiting(pods=(pod("mine", "ours"),)).others is None


def test_record_of_others_shows_kind_and_priority_alone() -> None:
    found = waiting()
    record = found.record_of("Pod", "theirs", "p")
    assert record.entity == EntityReference(kind="Pod", namespace="", name="", priority=4)
    assert record.in_vain.considered[0].pod_names == ()
    assert found.record_of("Pod", "theirs", "q") is None


# -- one object ----------------------------------------------------------------------------------------------------


def of_one(note: str, *records: DecisionRecord, **more: Any) -> Evidence:
    """Of pod `team/mine`, with a note of an event, which is redacted."""
    found = Evidence(ExplainTarget("Pod", "team", "mine"), records=list(records), source="http://s")
    found.pod = building.pod("mine", group="g")
    found.members = [building.pod("mine", group="g"), building.pod("member", group="g")]
    found.events = [Occurrence(at=0.0, type="Warning", reason="R", note=note, count=1)]
    found.above, found.missing = ["mid", "top"], "gone"
    found.owner = OwnerEvidence("Job", "team", "job", 2, 1)
    for name, value in more.items():
        setattr(found, name, value)
    return redacted(found)


def attempt(entity: EntityReference, **more: Any) -> DecisionRecord:
    timings = Timings(attempt_seconds=0.0, waiting_seconds=0.0)
    given = {"id": 1, "time": "", "result": "Unschedulable", "message": "", "attempt": 1, "timings": timings, **more}
    return DecisionRecord(entity=entity, **given)


@pytest.mark.parametrize("name", ["mine", "g", "member", "mid", "top", "gone", "job", "level"])
def test_group_tree_and_owner_of_what_is_asked_about_are_named(name: str) -> None:
    levels = [LevelRecord(kind="PodGroup", name="team/level", ok=True, succeeded=1, of=1, needed=1)]
    record = attempt(EntityReference(kind="PodGroup", namespace="team", name="g"), levels=levels)
    assert of_one(f"see team/{name} and team/other", record).events[0].note == f"see team/{name} and another object"


def test_tree_above_a_tree_is_named() -> None:
    tree = building.composite("mid", min_groups=1, parent="top")
    asked = Evidence(ExplainTarget("CompositePodGroup", "team", "mid"), composite=tree)
    asked.warnings = ["team/top, team/mid and team/other"]
    assert redacted(asked).warnings == ["team/top, team/mid and another object"]


def test_objects_named_in_a_record_are_shown_by_kind_and_priority() -> None:
    """The preemptor, victims, spared and examined pods, each pod of a unit too."""

    def unit(name: str, kind: str, priority: int) -> UnitRecord:
        pods = [f"team/{name}"] if kind == "Pod" else [f"team/{name}-0"]
        return UnitRecord(
            unit=f"team/{name}", kind=kind, outcome="", priority=priority, pods=1, pod_names=tuple(pods), nodes=("n1",)
        )

    made = preempting(evicted=[unit("gone", "PodGroup", 1)], reprieved=[unit("spared", "Pod", 2)])
    of_others = attempt(EntityReference(kind="Pod", namespace="theirs", name="high", priority=9), preemption=made)
    vain = FailedPreemption(reason="DoesNotFit", looked_at=(unit("seen", "CompositePodGroup", 3),))
    own = attempt(EntityReference(kind="Pod", namespace="team", name="mine", priority=5), in_vain=vain)
    note = "theirs/high team/gone team/gone-0 team/spared team/seen team/seen-0 team/mine"
    found = of_one(note, of_others, own, missing="")
    assert found.events[0].note == (
        "a pod of priority 9 a podgroup of priority 1 a pod of priority 1 a pod of priority 2 "
        "a compositepodgroup of priority 3 a pod of priority 3 team/mine"
    )
    theirs, mine = found.records
    assert (theirs.entity.name, theirs.entity.namespace, theirs.entity.priority) == ("", "", 9)
    assert mine.entity.name == "mine"
    assert theirs.preemption is not None
    assert theirs.preemption.evicted[0].unit == "a podgroup of priority 1"
    assert theirs.preemption.evicted[0].pod_names == ()


def test_pods_are_listed_under_their_messages_where_they_are_ones_own() -> None:
    pods = [MessageCount(message="theirs/x is in the way", pods=1, names=("team/mine",), reason="R")]
    mine = attempt(EntityReference(kind="Pod", namespace="team", name="mine"), pods=pods)
    other = attempt(EntityReference(kind="Pod", namespace="theirs", name="x", priority=4), pods=pods)
    found = of_one("", mine, other)
    assert [(one.pods[0].names, one.pods[0].message) for one in found.records] == [
        (("team/mine",), "a pod of priority 4 is in the way"),
        ((), "a pod of priority 4 is in the way"),
    ]


def test_conclusions_and_conditions_are_redacted_too() -> None:
    helps = (Help(kind="Workload", sentence="Without team/other", workload="team/pod/other", flags=("--without x",)),)
    record = attempt(EntityReference(kind="Pod", namespace="theirs", name="x", priority=4))
    conditions = [objects.PodCondition(type="PodScheduled", status="False", reason="U", message="team/other is there")]
    item = building.pod("mine", group="g")
    item = with_fields(item, status=with_fields(item.status, conditions=conditions))
    found = of_one("", pod=item, computed=HypotheticalDecision(record=record, helps=helps, priority_that_helps=3))
    assert found.pod is not None
    assert found.pod.status.conditions[0].message == "another object is there"
    assert found.computed is not None
    assert found.computed.record is not None
    assert (found.computed.record.entity.name, found.computed.priority_that_helps) == ("", 3)
    assert found.computed.helps is not None
    assert (found.computed.helps[0].sentence, found.computed.helps[0].workload) == (
        "Without another object",
        "another pod",
    )
    assert of_one("", computed=HypotheticalDecision()).computed == HypotheticalDecision()
    assert of_one("").computed is None


def test_priorities_of_pending_workloads_are_those_of_their_objects() -> None:
    """0 where there is none, which is what an API server makes of it."""
    manifests = Manifests()
    items = [building.pod("a", namespace="theirs"), building.pod("b", namespace="theirs", priority=7)]
    manifests.objects[objects.Pod] = [LoadedObject(item, Origin("test"), turn, 0.0) for turn, item in enumerate(items)]
    plan = Plan(pods=(pod("own", "ours", message="theirs/a and theirs/b"),))
    found = redacted_waiting(plan, lambda *_: None, manifests, "ours")
    assert found.plan.pods[0].message == "a pod of priority 0 and a pod of priority 7"


def test_names_in_a_namespace_of_any_object_are_redacted() -> None:
    """Not only where pods and groups are; of what has no namespace it is the default one."""
    manifests = read([("q", "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: apart}\nspec: {}\n")])
    manifests.objects[objects.Node] = [LoadedObject(building.node("n1"), Origin("test"), 0, 0.0)]
    plan = Plan(pods=(pod("own", "ours", message="apart/x, default/y and unknown/z"),))
    found = redacted_waiting(plan, lambda *_: None, manifests, "ours")
    assert found.plan.pods[0].message == "another object, another object and unknown/z"
