"""Suggestions of two changes together, and how much is tried for them."""

from __future__ import annotations

from unittest import mock

import pytest

from reprieve.questions import trials as module
from reprieve.questions.trials import LEAST_WORK
from reprieve.simulation.plan import plan
from reprieve.simulation.report import Plan
from tests.manifests import pod
from tests.questions.test_suggestions import Json, answered, as_changes, gang, helps, kinds, loaded, node, runs

CORDON: Json = {"unschedulable": True, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}
GPU_TAINT: Json = {"key": "gpu", "effect": "NoSchedule"}
OLD: Json = {"key": "old", "value": "yes", "effect": "NoExecute"}
FULL = [pod("full", 4, node="n0", priority=9)]

OBSTACLES: dict[str, tuple[list[Json], set[str], tuple[str, ...]]] = {
    "a taint and a cordon": (
        [node("n0", 4), *FULL, node("n1", 8, **{**CORDON, "taints": [*CORDON["taints"], GPU_TAINT]}), pod("new", 8)],
        {"Toleration", "Uncordon"},
        ('--taint "n1 gpu:NoSchedule-"', "--uncordon n1"),
    ),
    "two taints of one node": (
        [node("n0", 4), *FULL, node("n1", 8, taints=[GPU_TAINT, OLD], unschedulable=False), pod("new", 8)],
        {"Toleration"},
        ('--taint "n1 gpu:NoSchedule-"', '--taint "n1 old:NoExecute-"'),
    ),
    "a selector and a cordon": (
        [node("n1", 8, **CORDON), pod("new", 8, nodeSelector={"a": "b"})],
        {"Selector", "Uncordon"},
        ("--uncordon n1",),
    ),
    "a taint and a workload": (
        [node("n1", 8, taints=[GPU_TAINT]), pod("old", 8, node="n1", priority=0), pod("new", 8, priority=0)],
        {"Toleration", "Priority"},
        ('--taint "n1 gpu:NoSchedule-"', "--set-priority default/pod/new=1"),
    ),
    "a policy and a taint": (
        [
            node("n1", 8, taints=[GPU_TAINT]),
            pod("old", 8, node="n1", priority=0),
            pod("new", 8, priority=5, preemptionPolicy="Never"),
        ],
        {"Toleration", "Policy"},
        ('--taint "n1 gpu:NoSchedule-"',),
    ),
}


@pytest.mark.parametrize("case", OBSTACLES)
def test_obstacles_are_both_named(case: str) -> None:
    """whatif.md 5.8: neither change alone helps, both do."""
    documents, parts, flags = OBSTACLES[case]
    given = loaded(*documents)
    document = answered(given)
    [(_, name, help)] = helps(document)
    assert (name, help.kind, set(help.parts), help.flags) == ("new", "Combination", parts, flags)
    assert help.sentence.startswith("Both ")
    assert all(flag in help.sentence for flag in flags)
    changes = as_changes(flags)
    if len(changes) == 2:
        assert runs(given, changes, "Pod", "new")
    assert not any(runs(given, [one], "Pod", "new") for one in changes)


def test_pair_is_tried_only_where_no_single_change_helps() -> None:
    """whatif.md 5.8: here another node would."""
    documents = [node("n0", 8), pod("full", 8, node="n0", priority=9), node("n1", 8, **CORDON), pod("new", 8)]
    assert "Combination" not in kinds(answered(loaded(*documents)))


def test_pair_names_as_many_nodes_as_it_takes() -> None:
    """whatif.md 5.8"""
    closed = {**CORDON, "taints": [*CORDON["taints"], GPU_TAINT]}
    nodes = [node(f"n{number}", 8, **closed) for number in range(5)]
    workers = [pod(f"g-{number}", 8, group="g") for number in range(2)]
    [help] = kinds(answered(loaded(*nodes, gang("g", 2), *workers))).values()
    assert help.flags == (
        '--taint "n0 gpu:NoSchedule-"',
        '--taint "n1 gpu:NoSchedule-"',
        "--uncordon n0",
        "--uncordon n1",
    )


def test_capacity_is_not_said_to_be_missing_where_it_cannot_be_freed() -> None:
    """whatif.md 5.3: the third of three members finds no place on two nodes that hold one each."""
    workers = [pod(f"g-{number}", 4, group="g") for number in range(3)]
    assert "Free" not in kinds(answered(loaded(node("n1", 4), node("n2", 4), gang("g", 3), *workers)))
    busy = loaded(
        node("n1", 4), node("n2", 4), node("n3", 4), pod("old", 2, node="n3", priority=9), gang("g", 3), *workers
    )
    free = kinds(answered(busy))["Free"]
    assert (free.amount, free.on) == ("2", ("n3",))


def tried(document: Plan) -> dict[str, str | None]:
    return {one.name: one.tried for one in document.pods} | {one.name: one.tried for one in document.pod_groups}


def test_answer_says_how_much_was_tried() -> None:
    """whatif.md 5.7: all, some because trials are bounded, or none; null where there was nothing to try."""
    given = loaded(
        node("n1", 8), pod("old", 8, node="n1", priority=99), *(pod(f"w-{i}", 5) for i in range(7)), pod("s", 0)
    )
    document = answered(given)
    assert tried(document) == {**{f"w-{i}": "All" for i in range(5)}, "w-5": "None", "w-6": "None", "s": None} | {
        name: value for name, value in tried(document).items() if value == "Some"
    }
    alone = loaded(node("n1", 8), pod("old", 8, node="n1", priority=99), pod("new", 5))
    assert tried(answered(alone)) == {"new": "All"}
    assert tried(answered(alone, left=LEAST_WORK)) == {"new": "Some"}
    assert tried(answered(alone, left=LEAST_WORK - 1)) == {"new": "None"}
    assert tried(plan(alone).plan) == {"new": None}


@pytest.mark.parametrize("waiting", [1, 40])
def test_trials_take_no_more_than_a_share_of_the_plan_and_a_fixed_amount(waiting: int) -> None:
    """whatif.md 5.4: counted in objects and attempts, never in seconds."""
    nodes = [node(f"n{number:03}", 8) for number in range(150)]
    full = [pod(f"f{number}", 8, node=f"n{number:03}", priority=99) for number in range(150)]
    given = loaded(*nodes, *full, *(pod(f"w-{number}", 5, priority=number) for number in range(waiting)))
    with mock.patch.object(module, "plan", wraps=plan) as planned:
        answered(given)
    attempts = plan(given).plan.stats.attempts
    cost = 300 + waiting + attempts * 150 // module.NODES_AN_OBJECT
    assert planned.call_count * cost <= module.FREE_WORK + (module.SHARE + 1) * cost
    assert planned.call_count >= 2
