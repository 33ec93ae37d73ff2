"""Trees of groups in a plan: what the document and the text say of them (composite.md 4, 5, 6)."""

from __future__ import annotations

from typing import Any

import pytest

from reprieve.cli.render import plan_sections
from reprieve.framework.gates import FeatureGates
from reprieve.framework.profile import Profile
from reprieve.inputs.loader import read
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.options import PreemptionOptions
from reprieve.scheduling.profiles import default_profile
from reprieve.simulation.plan import PlanOptions, plan
from reprieve.simulation.report import Answer, CompositeOutcome
from tests import manifests
from tests.building import profile_with
from tests.manifests import node

V1ALPHA3 = "scheduling.k8s.io/v1alpha3"
REF = {"workloadRef": {"workloadName": "w", "templateName": "t"}}


def pod(name: str, group: str = "", on: str = "", priority: int = 10, cpu: int = 1) -> dict[str, Any]:
    return manifests.pod(name, cpu, node=on, group=group, priority=priority, terminationGracePeriodSeconds=5)


def composite(name: str, minimum: int = 0, priority: int = 10, **spec: Any) -> dict[str, Any]:
    policy: dict[str, Any] = {"gang": {"minGroupCount": minimum}} if minimum else {"basic": {}}
    spec = {**REF, "schedulingPolicy": policy, "priority": priority, **spec}
    return {"apiVersion": V1ALPHA3, "kind": "CompositePodGroup", "metadata": {"name": name}, "spec": spec}


def leaf(name: str, minimum: int, parent: str = "root", priority: int = 10, **spec: Any) -> dict[str, Any]:
    spec = {
        **REF,
        "parentCompositePodGroupName": parent,
        "schedulingPolicy": {"gang": {"minCount": minimum}},
        "priority": priority,
        **spec,
    }
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def scenario(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "reprieve.dev/v1alpha1", "kind": "Scenario", "spec": {"steps": list(steps)}}


def planned(*documents: dict[str, Any], **options: Any) -> Answer:
    return plan(read([(f"<{i}>", document) for i, document in enumerate(documents)]), PlanOptions(**options))


def text(answer: Answer) -> str:
    found = []
    for section in plan_sections(answer):
        found.append(section.title)
        for row in section.rows:
            found += [" ".join(row.cells), *row.below]
    return "\n".join(found)


SERVE = [composite("root", 2), leaf("prefill", 2), leaf("decode", 3)]
PODS = [*(pod(f"prefill-{i}", "prefill") for i in range(2)), *(pod(f"decode-{i}", "decode") for i in range(3))]


def test_document_of_a_tree_that_is_placed() -> None:
    answer = planned(node("n", 5), *SERVE, *PODS)
    assert {found.outcome for found in answer.plan.pods} == {"Scheduled"}
    assert answer.plan.composite_pod_groups == (
        CompositeOutcome(
            namespace="default",
            name="root",
            parent=None,
            priority=10,
            min_group_count=2,
            groups=("prefill", "decode"),
            scheduled=5,
            outcome="Scheduled",
            succeeded=2,
        ),
    )
    assert [(found.name, found.parent, found.outcome) for found in answer.plan.pod_groups] == [
        ("decode", "root", "Scheduled"),
        ("prefill", "root", "Scheduled"),
    ]
    assert "Trees" not in text(answer)


def test_which_level_failed_and_which_children_were_short() -> None:
    """composite.md 5.2."""
    mid = composite("mid", 1, parentCompositePodGroupName="root")
    answer = planned(node("n", 4), composite("root", 2), leaf("prefill", 2), mid, leaf("decode", 3, "mid"), *PODS)
    found = {one.name: one for one in answer.plan.composite_pod_groups}
    assert (found["root"].outcome, found["root"].succeeded, found["root"].short) == ("Unschedulable", 1, ("mid",))
    assert (found["mid"].parent, found["mid"].succeeded, found["mid"].short) == ("root", 0, ("decode",))
    message = answer.plan.pod_groups[0].message
    assert message is not None
    assert message.endswith("minCount (3) cannot be satisfied: 2 scheduled, 0 remaining")
    shown = text(answer)
    assert "compositepodgroup default/root 1 of 2 groups needed Unschedulable" in shown
    assert "below the minimum: decode" in shown


@pytest.mark.parametrize(
    ("groups", "reason", "message"),
    [
        ([leaf("prefill", 2)], None, 'waiting for pods\'s pod group "root" to appear in scheduling queue'),
        (
            [composite("root", 2), leaf("prefill", 2)],
            "Unschedulable",
            'waiting for composite pod group "root" tree to meet quorum',
        ),
        (
            [composite("root", 1, parentCompositePodGroupName="root"), leaf("prefill", 2)],
            "Invalid",
            "composite pod groups form a cycle: root -> root",
        ),
    ],
)
def test_why_a_tree_is_not_tried(groups: list[dict[str, Any]], reason: str | None, message: str) -> None:
    """composite.md 2.2, 2.4: told on the pods, their group and the composite."""
    answer = planned(node("n", 9), *groups, *PODS[:2])
    assert {(found.outcome, found.message) for found in answer.plan.pods} == {("Gated", message)}
    assert [(found.outcome, found.message) for found in answer.plan.pod_groups] == [("Gated", message)]
    if reason is not None:
        (root,) = answer.plan.composite_pod_groups
        assert (root.outcome, root.reason, root.message) == ("Gated", reason, message)


def test_branch_that_is_too_deep_keeps_the_whole_tree() -> None:
    """composite.md 2.2: the reason is on every composite."""
    chain = [composite(name, 1, parentCompositePodGroupName=above) for name, above in (("c1", "root"), ("c2", "c1"))]
    deep = [composite("c3", 1, parentCompositePodGroupName="c2"), leaf("decode", 3, "c3")]
    answer = planned(node("n", 9), composite("root", 1), *chain, *deep, leaf("prefill", 2), *PODS)
    wrong = "maximum depth of composite pod groups is 4: root -> c1 -> c2 -> c3"
    found = {(one.name, one.reason) for one in answer.plan.composite_pod_groups}
    assert found == {(name, "Invalid") for name in ("root", "c1", "c2", "c3")}
    assert all((one.message or "").startswith(wrong) for one in answer.plan.composite_pod_groups)
    assert "Scheduled" not in {one.outcome for one in answer.plan.pods}


def test_tree_preempts_as_one() -> None:
    """composite.md 4.1: one decision, every pod nominated, and the tree waits."""
    low = [pod(f"low-{i}", on="n", priority=1) for i in range(5)]
    answer = planned(node("n", 5), *low, *SERVE, *PODS, first_decision=True)
    (made,) = answer.plan.preemptions
    assert (made.preemptor.kind, made.preemptor.name) == ("CompositePodGroup", "root")
    assert len(made.nominations) == len(made.victims) == 5
    (root,) = answer.plan.composite_pod_groups
    assert root.outcome == "Nominated"
    assert root.message == "pod group is waiting for podgroup preemption to complete"
    assert "compositepodgroup default/root" in text(answer)
    assert {found.outcome for found in planned(node("n", 5), *low, *SERVE, *PODS).plan.pods} == {"Scheduled"}


def test_no_pods_are_evicted_for_a_tree_that_would_not_fit() -> None:
    low = [pod(f"low-{i}", on="n", priority=1) for i in range(4)]
    assert planned(node("n", 4), *low, *SERVE, *PODS).plan.preemptions == ()


def test_no_room_is_made_where_the_tree_succeeds_without() -> None:
    """composite.md 4.1: it binds what it has; the rest is worth a preemption of its own."""
    low = [pod(f"low-{i}", on="n", priority=1) for i in range(3)]
    basic = [composite("root"), *SERVE[1:]]
    answer = planned(node("n", 5), *low, *basic, *PODS)
    (made,) = answer.plan.preemptions
    assert sorted(made.nominations) == [f"default/decode-{i}" for i in range(3)]


@pytest.mark.parametrize(
    ("whole", "unit", "pods"),
    [(("root", "mid", "a"), "default/root", 4), (("mid",), "default/mid", 2), (("a",), "default/a", 1), ((), None, 1)],
)
def test_highest_group_that_goes_whole_is_the_victim(whole: tuple[str, ...], unit: str | None, pods: int) -> None:
    """composite.md 4.2."""
    mode: dict[str, Any] = {"disruptionMode": {"all": {}}}

    def of(name: str) -> dict[str, Any]:
        return mode if name in whole else {}

    tree = [
        composite("root", priority=1, **of("root")),
        composite("mid", priority=1, parentCompositePodGroupName="root", **of("mid")),
        leaf("a", 1, "mid", priority=1, **of("a")),
        leaf("b", 1, "mid", priority=1),
        leaf("c", 2, "root", priority=1),
    ]
    running = [pod("a-0", "a", "n", 1), pod("b-0", "b", "m", 1), pod("c-0", "c", "m", 1), pod("c-1", "c", "m", 1)]
    high = pod("high")
    high["spec"]["nodeSelector"] = {"at": "n"}
    here = {**node("n", 1), "metadata": {"name": "n", "labels": {"at": "n"}}}
    answer = planned(here, node("m", 3), *tree, *running, high)
    (made,) = answer.plan.preemptions
    assert len(made.victims) == pods
    if unit is not None:
        assert {victim.unit for victim in made.victims} == {unit}


def test_priority_of_a_victim_is_that_of_its_topmost_group() -> None:
    """composite.md 4.3: also of a pod that is evicted alone, and of one with a deleted root."""
    tree = [composite("root", priority=20), leaf("a", 1, priority=1), pod("a-0", "a", "n", 1)]
    assert planned(node("n", 1), *tree, pod("high")).plan.preemptions == ()
    (made,) = planned(node("n", 1), *tree[1:], pod("high")).plan.preemptions
    assert made.victims[0].name == "a-0"


def test_placement_is_chosen_by_its_victims() -> None:
    """composite.md 4.1: the constraint may be the leaf's alone."""
    nodes = [{**node(f"n-{rack}", 2), "metadata": {"name": f"n-{rack}", "labels": {"rack": rack}}} for rack in "ab"]
    low = [pod("dear", on="n-a", priority=5, cpu=2), pod("cheap", on="n-b", priority=1, cpu=2)]
    topology: dict[str, Any] = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
    pods = [pod("x-0", "x"), pod("x-1", "x")]
    for groups in (
        [composite("root", 1, **topology), leaf("x", 2)],
        [composite("root", 1), leaf("x", 2, **topology)],
    ):
        (made,) = planned(*nodes, *low, *groups, *pods).plan.preemptions
        assert (made.domain, [victim.name for victim in made.victims]) == ("b", ["cheap"])
        profiles = (default_profile(FeatureGates(), compatible=True),)
        (made,) = planned(*nodes, *low, *groups, *pods, profiles=profiles).plan.preemptions
        assert [victim.name for victim in made.victims] == ["cheap"]


def with_placement(placement: str) -> Profile:
    return profile_with(DefaultPreemption(PreemptionOptions(placement=placement)))


RACK: dict[str, Any] = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}


def in_racks(**cpus: int) -> list[dict[str, Any]]:
    """A node in a rack of its own for each name."""
    return [{**node(name, cpu), "metadata": {"name": name, "labels": {"rack": name}}} for name, cpu in cpus.items()]


@pytest.mark.parametrize("placement", ["Compatible", "MinimizeVictims"])
def test_placements_below_the_root_are_compared_too(placement: str) -> None:
    """composite.md 4.1: two leaves with a rack each, and a third rack with a dearer pod."""
    low = [pod(f"low-{rack}", on=rack, priority=priority, cpu=2) for rack, priority in (("a", 5), ("b", 1), ("c", 2))]
    groups = [composite("root", 2), leaf("x", 2, **RACK), leaf("y", 2, **RACK)]
    pods = [pod(f"{name}-{i}", name) for name in "xy" for i in range(2)]
    profiles = (with_placement(placement),)
    (made,) = planned(*in_racks(a=2, b=2, c=2), *low, *groups, *pods, profiles=profiles).plan.preemptions
    assert sorted(victim.name for victim in made.victims) == ["low-b", "low-c"]


def test_placement_may_be_chosen_by_score() -> None:
    """composite.md 4.1: `placement: Scored` takes the one that the tree scores best with all victims gone."""
    low = [pod("dear", on="a", priority=5, cpu=4), pod("cheap", on="b", priority=1, cpu=3)]
    groups = [composite("root", 1, **RACK), leaf("x", 3)]
    pods = [pod(f"x-{i}", "x") for i in range(4)]
    found = {}
    for placement in ("Compatible", "MinimizeVictims", "Scored"):
        profiles = (with_placement(placement),)
        (made,) = planned(*in_racks(a=4, b=3), *low, *groups, *pods, profiles=profiles).plan.preemptions[:1]
        found[placement] = [victim.name for victim in made.victims]
    assert found == {"Compatible": ["cheap"], "MinimizeVictims": ["cheap"], "Scored": ["dear"]}


def test_composites_go_from_leaf_to_root() -> None:
    """composite.md 1.5: a composite that is deleted stays while a group names it."""
    delete = [
        {"kind": "CompositePodGroup", "name": "root"},
        {"kind": "PodGroup", "name": "prefill"},
        {"kind": "PodGroup", "name": "decode"},
    ]
    pods = [{"kind": "Pod", "name": found["metadata"]["name"]} for found in PODS]
    answer = planned(node("n", 5), *SERVE, *PODS, scenario({"wait": "settled"}, {"delete": delete, "wait": "settled"}))
    assert [found.name for found in answer.plan.composite_pod_groups] == ["root"]
    steps: list[dict[str, Any]] = [
        {"wait": "settled"},
        {"delete": delete, "wait": "settled"},
        {"delete": pods, "wait": "settled"},
    ]
    assert planned(node("n", 5), *SERVE, *PODS, scenario(*steps)).plan.composite_pod_groups == ()


def test_leaf_is_planned_flat_with_the_gate_off() -> None:
    """composite.md 5.3."""
    answer = planned(node("n", 2), *SERVE, *PODS, gates=FeatureGates(composite_pod_group=False))
    assert answer.plan.composite_pod_groups == ()
    assert [found.name for found in answer.plan.pods if found.outcome == "Scheduled"] == ["prefill-0", "prefill-1"]
