"""Which node a pod preempts on, and which pods there leave: the cases of kube-scheduler's own tests, written again.

Source: kubernetes/kubernetes, TestPostFilter, TestDryRunPreemption, TestSelectBestCandidate, TestPreempt and
TestPodEligibleToPreemptOthers in pkg/scheduler/framework/plugins/defaultpreemption.  Not here: which candidates are
sampled (preemption.md 3: all are compared), and what it leaves to plugins in Go.

A node has 500 thousandths of a CPU.  A running pod is written PRIORITY:AMOUNT@START, and `p2.1` is the first on n2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules import objects
from reprieve.preemption.outcome import COMPATIBLE, MINIMIZE_VICTIMS
from tests.building import Item, World, node, pdb, pod

PRIORITIES = {"neg": -100, "low": 0, "mid": 100, "high": 1000, "top": 10000}
PLACEMENTS = pytest.mark.parametrize("placement", [MINIMIZE_VICTIMS, COMPATIBLE])


def nodes(count: int) -> list[Item]:
    return [node(f"n{number}", cpu="500m", memory=500, labels={"host": f"n{number}"}) for number in range(1, count + 1)]


def running(*rows: str, **fields: Any) -> list[objects.Pod]:
    """The pods of n1, n2...; those of a node are separated by spaces."""
    found = []
    how: dict[str, Any]
    for number, row in enumerate(rows, 1):
        for index, text in enumerate(row.split(), 1):
            what, _, start = text.partition("@")
            priority, amount = what.split(":")
            size = {"cpu": f"{amount}m", "memory": int(amount), "start": float(start or 0), "grace": 0}
            how = {"node": f"n{number}", "priority": PRIORITIES[priority], **size, **fields}
            found.append(pod(f"p{number}.{index}", **how))
    return found


def preemptor(amount: int, priority: str = "high", **fields: Any) -> objects.Pod:
    return pod("p", cpu=f"{amount}m", memory=amount, priority=PRIORITIES[priority], **fields)


VICTIMS: dict[str, tuple[Sequence[str], int, str, list[str]]] = {
    "one on either node": (["mid:300", "mid:300"], 300, "high", ["p1.1"]),
    "all that run are more important": (["mid:300", "mid:300"], 300, "low", []),
    "the smaller one stays though its priority is lower": (["low:100 mid:300"], 300, "high", ["p1.2"]),
    "several priorities": (["mid:100 low:100 mid:200 high:100", "high:300"], 300, "high", ["p1.2", "p1.3"]),
    "of equal priorities the later start": (
        ["low:100@5 low:100@4 mid:200@3 high:100@2", "high:300@1"],
        300,
        "high",
        ["p1.1", "p1.3"],
    ),
    "all of the only node": (["low:100 low:100", "high:300", "mid:200"], 500, "high", ["p1.1", "p1.2"]),
    "nothing is enough": (["low:200 high:100"], 500, "high", []),
}


@PLACEMENTS
@pytest.mark.parametrize(("rows", "amount", "priority", "victims"), VICTIMS.values(), ids=VICTIMS)
def test_victims(rows: Sequence[str], amount: int, priority: str, victims: list[str], placement: str) -> None:
    """preemption.md 3.1 to 3.5, 5."""
    world = World(*nodes(len(rows)), *running(*rows), preemptor(amount, priority), placement=placement).settle()
    assert (world.evicted, "p" in world.where) == (victims, bool(victims))


CHOICES: dict[str, tuple[Sequence[str], str, str]] = {
    "equal nodes: the first by name": (["mid:300", "mid:300"], "high", "n1"),
    "the lowest of the highest priorities": (
        ["mid:200 mid:300", "mid:200 low:200", "low:200 low:200"],
        "high",
        "n3",
    ),
    "then the smallest sum": (["mid:200 mid:300", "mid:300 low:200", "mid:200 mid:200"], "high", "n2"),
    "then the fewest pods": (
        ["mid:100 neg:100 mid:100 neg:100", "mid:300 neg:200", "mid:200 neg:100 low:100"],
        "high",
        "n2",
    ),
    "priorities below zero do not make a sum smaller": (
        ["mid:100 neg:100 neg:100", "mid:300 neg:200", "mid:200 neg:100 low:100"],
        "high",
        "n2",
    ),
    "each criterion points to another node": (
        [
            "mid:100 low:100 low:100",
            "high:300",
            "mid:200 low:100 low:100 low:200",
            "mid:200 mid:100 mid:100 neg:100",
        ],
        "top",
        "n1",
    ),
    "then the latest start": (["mid:200@2 mid:200@2", "mid:200@3 mid:200@3", "mid:200@1 mid:200@1"], "high", "n2"),
    "of the earliest start on each node": (
        ["mid:200@4 mid:200@2", "mid:200@5 mid:200@1", "mid:200@3 mid:200@6"],
        "high",
        "n3",
    ),
    "of the earliest start among the most important": (
        ["low:200@4 mid:200@2", "mid:200@6 low:200@1", "low:200@3 mid:200@5"],
        "high",
        "n2",
    ),
    "only what evicting helps": (["high:300", "low:300"], "mid", "n2"),
}


@PLACEMENTS
@pytest.mark.parametrize(("rows", "priority", "expected"), CHOICES.values(), ids=CHOICES)
def test_choice_of_the_node(rows: Sequence[str], priority: str, expected: str, placement: str) -> None:
    """preemption.md 3: the criteria, one after another."""
    world = World(*nodes(len(rows)), *running(*rows), preemptor(500, priority), placement=placement).settle()
    assert world.where["p"] == expected


BUDGETS: dict[str, tuple[int, list[str], int]] = {
    "one of two is allowed": (2, [], 1),
    "a pod elsewhere was disrupted": (2, ["p2.9"], 1),
    "one of them was disrupted": (2, ["p1.2"], 0),
    "of three one was disrupted": (3, ["p1.3"], 1),
}


@pytest.mark.parametrize(("pods", "disrupted", "violations"), BUDGETS.values(), ids=BUDGETS)
def test_violations_of_a_budget(pods: int, disrupted: list[str], violations: int) -> None:
    """preemption.md 6.1: a pod among those that were disrupted does not count again."""
    there = running(" ".join(["mid:150"] * pods), labels={"app": "foo"})
    budget = pdb("b", {"app": "foo"}, allowed=1, disrupted=disrupted)
    decision = World(*nodes(1), *there, budget, preemptor(500)).step()
    assert decision.preemption is not None
    assert len(decision.preemption.victims) == pods
    assert sum(verdict.violates_pdb for verdict in decision.preemption.victims) == violations


def test_highest_priority_decides_where_budgets_are_violated_alike() -> None:
    """preemption.md 3: as many on either node."""
    (first, second), (third,) = (running("high:100 low:100", labels={"app": "x"}), running("", "mid:500"))
    free = replace(first, metadata=replace(first.metadata, labels={"app": "free"}))
    bound = replace(third, metadata=replace(third.metadata, labels={"app": "x"}))
    budgets = [pdb("full", {"app": "x"}, allowed=0), pdb("wide", {"app": "free"}, allowed=9)]
    world = World(*nodes(2), free, second, bound, *budgets, preemptor(500, "top")).settle()
    assert world.where["p"] == "n2"


def spread(item: objects.Pod, *keys: str) -> objects.Pod:
    """The pod, spread with those that have the label `foo`."""
    selector = objects.LabelSelector(match_labels={"foo": ""})
    rules = tuple(
        objects.TopologySpreadConstraint(
            max_skew=1, topology_key=key, when_unsatisfiable="DoNotSchedule", label_selector=selector
        )
        for key in keys
    )
    return replace(item, spec=replace(item.spec, topology_spread_constraints=rules))


@pytest.mark.parametrize(
    ("a1", "a2", "expected"), [("mid", "low", {"a2", "b1"}), ("high", "high", {"b1"})], ids=["two nodes", "one node"]
)
def test_spread_is_made_even(a1: str, a2: str, expected: set[str]) -> None:
    """preemption.md 3.4: a and b are in one zone, x in the other with two that stay."""
    there = [
        pod(name, node=name[0], priority=PRIORITIES[priority], labels={"foo": ""}, grace=0)
        for name, priority in {"a1": a1, "a2": a2, "b1": "low", "x1": "high", "x2": "high"}.items()
    ]
    zones = {"a": "z1", "b": "z1", "x": "z2"}
    hosts = [node(name, labels={"zone": zone, "host": name}) for name, zone in zones.items()]
    world = World(*hosts, *there, spread(pod("p", priority=1000, labels={"foo": ""}), "zone", "host")).settle()
    assert len(world.evicted) == 1
    assert set(world.evicted) <= expected
    assert world.where["p"] == world.evicted[0][0]


def test_pod_that_keeps_others_away_leaves() -> None:
    """preemption.md 3.4: neither the more important one beside it nor one elsewhere."""
    rule = objects.PodAffinityTerm(
        topology_key="host",
        label_selector=objects.LabelSelector(
            match_expressions=(objects.LabelSelectorRequirement(key="foo", operator="Exists"),)
        ),
    )
    apart = objects.Affinity(
        pod_anti_affinity=objects.PodAntiAffinity(required_during_scheduling_ignored_during_execution=(rule,))
    )
    there = running("low:100 mid:100 high:100", "high:100")
    there[0] = replace(
        there[0],
        metadata=replace(there[0].metadata, labels={"foo": ""}),
        spec=replace(there[0].spec, affinity=apart),
    )
    there[3] = replace(
        there[3], metadata=replace(there[3].metadata, labels={"foo": ""}), spec=replace(there[3].spec, affinity=apart)
    )
    world = World(*nodes(2), *there, preemptor(100, labels={"foo": ""})).settle()
    assert (world.evicted, world.where["p"]) == (["p1.1"], "n1")


MESSAGES: dict[str, tuple[list[Item], objects.Pod, str]] = {
    "an equal priority": (
        [node("n1", pods=1), pod("a", node="n1")],
        pod("p"),
        "0/1 nodes are available: 1 No preemption victims found for incoming pod.",
    ),
    "a node for which no eviction helps": (
        [node("n1", pods=1, labels={"no": "way"}), pod("a", node="n1")],
        pod("p", priority=10, selector={"some": "way"}),
        "0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
    ),
    "too little with all gone": (
        [*(node(f"n{i}", cpu="200m") for i in (1, 2)), *(pod(f"p{i}", node=f"n{i}") for i in (1, 2))],
        pod("p", cpu="300m", priority=10),
        "0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
    ),
    "several reasons": (
        [
            node("n1", pods=1),
            node("n2", cpu="400m"),
            node("n3", pods=1),
            pod("a", node="n1", priority=10),
            pod("b", node="n2", cpu="100m"),
            pod("b2", node="n2", cpu="200m", priority=10),
            pod("c", node="n3", priority=10),
        ],
        pod("p", cpu="300m", priority=10),
        "0/3 nodes are available: 1 Insufficient cpu, 2 No preemption victims found for incoming pod.",
    ),
}


@pytest.mark.parametrize(("items", "pending", "message"), MESSAGES.values(), ids=MESSAGES)
def test_messages(items: list[Item], pending: objects.Pod, message: str) -> None:
    """observability.md 1.1: kube-scheduler says of a node that is too small `Insufficient cpu` when it is asked alone;
    its filter rejects the node for good before.
    """
    rejection = World(*items, pending).step().rejections[0]
    assert rejection.message.endswith(f"preemption: {message}")


ELIGIBLE: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "no victim of a preemption terminates": ({"terminating": True}, {}, True),
    "a victim terminates": ({"terminating": True, "preempted": True}, {}, False),
    "a policy of Never": ({}, {"never": True}, False),
}


@pytest.mark.parametrize(("other", "fields", "evicts"), ELIGIBLE.values(), ids=ELIGIBLE)
def test_pod_with_a_nominated_node(other: dict[str, Any], fields: dict[str, Any], evicts: bool) -> None:
    """preemption.md 2.2, 2.3."""
    there = [*running("low:200"), pod("leaving", cpu="200m", memory=200, node="n1", priority=0, **other)]
    decision = World(*nodes(1), *there, preemptor(500, nominated="n1", **fields)).step()
    assert (decision.preemption is not None) is evicts
