"""What `explain` says of victims: with what they went, why, and what was lost."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from reprieve.cli.evidence import Evidence, ExplainTarget
from reprieve.cli.explain_text import explanation_of, helps, state_of
from reprieve.cli.sections import BUDGET_OVERRULED
from reprieve.decisions.records import (
    CostRecord,
    EntityReference,
    EvictionReason,
    FailedPreemption,
    UnitRecord,
)
from tests.cli.test_explain_sentences import notes, section
from tests.cli.test_explain_text import evidence, preempting, record


def went(unit: str, kind: str, pods: int, *names: str) -> UnitRecord:
    return UnitRecord(
        unit=f"default/{unit}",
        kind=kind,
        outcome="Evicted",
        priority=1,
        pods=pods,
        pod_names=tuple(f"default/{name}" for name in names),
        nodes=("n1",),
    )


@pytest.mark.parametrize(
    ("asked", "above", "evicted", "unit"),
    [
        (ExplainTarget("Pod", "default", "a"), [], [went("a", "Pod", 1, "a")], "default/a"),
        (ExplainTarget("Pod", "default", "a"), [], [went("b", "Pod", 1, "b"), went("a", "Pod", 1, "a")], "default/a"),
        (ExplainTarget("Pod", "default", "a"), [], [went("a", "PodGroup", 2, "b", "c")], None),
        (ExplainTarget("Pod", "default", "a"), [], [went("g", "PodGroup", 2, "b", "a")], "default/g"),
        (ExplainTarget("Pod", "default", "a"), [], [went("b", "Pod", 1, "a")], None),
        (ExplainTarget("Pod", "other", "a"), [], [went("a", "Pod", 1, "a")], None),
        (ExplainTarget("PodGroup", "default", "g"), [], [went("g", "PodGroup", 2, "a")], "default/g"),
        (ExplainTarget("PodGroup", "default", "a"), [], [went("g", "PodGroup", 2, "a", "b")], None),
        (
            ExplainTarget("PodGroup", "default", "g"),
            ["mid", "top"],
            [went("top", "CompositePodGroup", 9)],
            "default/top",
        ),
        (ExplainTarget("Pod", "default", "a"), ["mid", "top"], [went("mid", "CompositePodGroup", 9)], "default/mid"),
        (ExplainTarget("Pod", "default", "a"), ["mid"], [went("other", "CompositePodGroup", 1, "b")], None),
        (ExplainTarget("Pod", "default", "a"), ["mid"], [went("mid", "PodGroup", 1, "b")], None),
        (ExplainTarget("Pod", "default", "a"), [], [went("wide", "PodGroup", 3, "b", "c")], "default/wide"),
        (
            ExplainTarget("Pod", "default", "a"),
            [],
            [went("w", "PodGroup", 3, "b"), went("v", "CompositePodGroup", 3, "c")],
            None,
        ),
        (
            ExplainTarget("Pod", "default", "a"),
            [],
            [went("full", "PodGroup", 1, "b"), went("w", "PodGroup", 2, "c")],
            "default/w",
        ),
        (ExplainTarget("PodGroup", "default", "a"), [], [went("wide", "CompositePodGroup", 3, "b")], None),
    ],
)
def test_victim_went_by_itself_or_with_its_group_or_tree(
    asked: ExplainTarget, above: list[str], evicted: list[UnitRecord], unit: str | None
) -> None:
    """A unit names its first pods only: where one alone names fewer than it has, that is the one."""
    preemptor = EntityReference(kind="Pod", namespace="x", name="high", priority=9)
    made = record(entity=preemptor, preemption=preempting(evicted=evicted))
    found = Evidence(asked, records=[made], source="http://s", above=above)
    shown = [each for each in explanation_of(found) if each.title.startswith("Preempted by pod x/high ")]
    assert len(shown) == (unit is not None)
    assert state_of(found)[0] == ("Gone" if unit is None else "Preempted")
    if unit is not None and unit != f"default/{asked.name}":
        assert any(f" {unit} (" in note for note in shown[0].notes)


@pytest.mark.parametrize(
    ("budget", "why", "below"),
    [
        (False, False, ()),
        (True, False, ()),
        (False, True, ("why: if it stayed, x/high would not fit on n1: Insufficient cpu (1 short)",)),
        (
            True,
            True,
            ("why: if it stayed, x/high would not fit on n1: Insufficient cpu (1 short)", BUDGET_OVERRULED),
        ),
    ],
)
def test_victim_says_why_it_goes_and_that_a_budget_is_overruled(
    budget: bool, why: bool, below: tuple[str, ...]
) -> None:
    """What is spared has no reason to go, and a budget that protects it is none either."""
    reason = EvictionReason(pod="x/high", node="n1", plugin="p", text="Insufficient cpu", resource="cpu", short="1")
    unit = replace(went("v", "Pod", 1, "v"), violates_pdb=budget, why=reason if why else None)
    made = record(result="Preempting", preemption=preempting(evicted=[unit]))
    [row] = section(evidence(made), "Preemption").rows
    assert row.below == below


@pytest.mark.parametrize(
    ("kind", "size", "called"), [("Pod", 1, "pod"), ("PodGroup", 2, "group"), ("CompositePodGroup", 3, "tree")]
)
def test_unit_is_called_what_it_is(kind: str, size: int, called: str) -> None:
    made = record(result="Preempting", preemption=preempting(evicted=[went("v", kind, size, "v")]))
    [row] = section(evidence(made), "Preemption").rows
    assert row.cells[:2] == (f"{called} default/v", f"{size} pod{'s' if size > 1 else ''}")


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("PodGroup", "It was evicted with its whole group default/v (2 pods): disruptionMode all."),
        ("CompositePodGroup", "It was evicted with its whole tree default/v (2 pods): disruptionMode all."),
    ],
)
def test_pod_evicted_with_its_group_or_tree_is_reported_so(kind: str, sentence: str) -> None:
    preemptor = EntityReference(kind="Pod", namespace="x", name="high", priority=9)
    made = record(entity=preemptor, preemption=preempting(evicted=[went("v", kind, 2, "v-0", "v-1")]))
    found = Evidence(ExplainTarget("Pod", "default", "v-0"), records=[made], source="http://s")
    assert sentence in notes(found, "Preempted by")
    whole = Evidence(ExplainTarget(kind, "default", "v"), records=[made], source="http://s")
    assert not [each for each in notes(whole, "Preempted by") if "disruptionMode" in each]


@pytest.mark.parametrize(("seconds", "lost"), [(0.0, None), (0.9, None), (1.0, "1 s"), (60.0, "1 min")])
def test_lost_running_time_is_shown_from_one_second_on(seconds: float, lost: str | None) -> None:
    cost = CostRecord(units=1, pods=1, highest_priority=1, running_seconds_lost=seconds)
    made = record(result="Preempting", preemption=preempting(cost=cost))
    shown = [each for each in notes(evidence(made), "Preemption") if "running time" in each]
    assert shown == ([] if lost is None else [f"{lost} of running time is lost, over all pods."])


def test_priority_of_the_newest_preemptor_would_have_spared_the_pod() -> None:
    preemptions = [
        record(entity=EntityReference(kind="Pod", namespace="x", name=name, priority=priority), preemption=made)
        for name, priority in (("newest", 7), ("before", 9))
        for made in [preempting(evicted=[went("a", "Pod", 1, "a")])]
    ]
    assert helps(Evidence(ExplainTarget("Pod", "default", "a"), records=preemptions, source="http://s")) == [
        "With a priority of 7 or more it would not have been a potential victim."
    ]


@pytest.mark.parametrize(
    ("number", "listed", "more"),
    [(0, 0, []), (3, 0, []), (2, 2, []), (3, 2, ["... and 1 more"]), (9, 7, ["... and 4 more"])],
)
def test_potential_victims_beyond_the_five_listed_are_counted(number: int, listed: int, more: list[str]) -> None:
    """Where none is listed there is no table to add to."""
    shown = [went(f"v{at}", "Pod", 1, f"v{at}") for at in range(listed)]
    vain = FailedPreemption(
        reason="DoesNotFit", potential_victims=number, pods=number, looked_at=tuple(shown), placed=0, needed=1
    )
    found = section(evidence(record(in_vain=vain)), "No pods are evicted for it")
    assert [note for note in found.notes if note.startswith("... and")] == more
    assert (len(found.rows), bool(found.columns)) == (min(listed, 5), listed > 0)
