"""Plans side by side: a row for each workload, and the figures below (whatif.md 10)."""

from __future__ import annotations

from typing import Any

import pytest

from reprieve.decisions.outcomes import EvictionCost, PreemptionOutcome, PreemptorName, Victim
from reprieve.questions.comparison import compared
from reprieve.simulation.report import ChangeMade, Plan, PodOutcome


def pod(
    name: str, node: str = "", group: str | None = None, outcome: str = "", namespace: str = "default"
) -> PodOutcome:
    result = outcome or ("Scheduled" if node else "Unschedulable")
    return PodOutcome(
        namespace=namespace, name=name, pod_group=group, priority=0, outcome=result, node_name=node or None
    )


def evicting(
    *victims: tuple[str, str], group: str | None = None, violations: int = 0, cost: Any = None
) -> PreemptionOutcome:
    """A decision with victims (pod, unit)."""
    return PreemptionOutcome(
        preemptor=PreemptorName(kind="Pod", namespace="default", name="new", priority=5),
        domain="cluster",
        nominations={},
        victims=tuple(
            Victim(
                namespace="default",
                name=name,
                pod_group=group,
                node_name="n1",
                priority=0,
                unit=unit,
                violates_pdb=False,
            )
            for name, unit in victims
        ),
        reprieved=0,
        pdb_violations=violations,
        cost=cost,
    )


def rows(*plans: Plan, only_different: bool = False) -> dict[str, tuple[str, ...]]:
    """`kind namespace/name` -> what happens to it under each, in the order of the rows."""
    found = compared([(f"p{at}", each) for at, each in enumerate(plans)], only_different=only_different)
    return {f"{row.kind} {row.namespace}/{row.name}": row.outcomes for row in found.rows}


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (["n1", "n1"], "Scheduled 2/2 on n1"),
        (["n2", "n1"], "Scheduled 2/2 on n1, n2"),
        (["n3", "n2", "n1"], "Scheduled 3/3 on n1, n2, n3"),
        (["n4", "n3", "n2", "n1"], "Scheduled 4/4 on n1, n2, n3 ..."),
        (["n1", ""], "Unschedulable 1/2 on n1"),
        (["", ""], "Unschedulable 0/2"),
    ],
)
def test_row_of_a_gang_counts_placed_pods_and_names_their_nodes(nodes: list[str], expected: str) -> None:
    document = Plan(pods=tuple(pod(f"g-{at}", node, "g") for at, node in enumerate(nodes)))
    assert rows(document) == {"PodGroup default/g": (expected,)}


def test_gangs_of_one_name_in_two_namespaces_are_two() -> None:
    document = Plan(pods=(pod("a", "n1", "g"), pod("a", "", "g", namespace="other")))
    assert rows(document) == {
        "PodGroup default/g": ("Scheduled 1/1 on n1",),
        "PodGroup other/g": ("Unschedulable 0/1",),
    }


def test_row_of_a_pod_names_its_node_or_its_outcome() -> None:
    first, second = Plan(pods=(pod("a", "n1"), pod("b"))), Plan(pods=(pod("a", "n1"), pod("b", outcome="Gated")))
    assert rows(first, second) == {
        "Pod default/a": ("Scheduled n1", "Scheduled n1"),
        "Pod default/b": ("Unschedulable", "Gated"),
    }
    assert list(rows(first, second, only_different=True)) == ["Pod default/b"]


def test_comparison_shows_pods_evicted_under_one_plan() -> None:
    """whatif.md 10.2: a unit is one row; a pod that only one plan has is empty under the other."""
    one = Plan(preemptions=(evicting(("alone", "default/alone")), evicting(("g-0", "default/g"), ("g-1", "default/g"))))
    other = Plan(pods=(pod("more", "n1"),))
    assert rows(one, other) == {
        "Pod default/alone": ("Evicted", "Runs"),
        "Pod default/more": ("", "Scheduled n1"),
        "PodGroup default/g": ("Evicted", "Runs"),
    }


def test_gang_of_one_pod_of_its_name_is_a_gang() -> None:
    assert list(rows(Plan(preemptions=(evicting(("g", "default/g"), group="g"),)))) == ["PodGroup default/g"]
    assert list(rows(Plan(preemptions=(evicting(("p", "default/p"), group="g"),)))) == ["Pod default/p"]


def test_pending_pod_that_is_evicted_later_is_reported_by_its_outcome() -> None:
    document = Plan(pods=(pod("a"),), preemptions=(evicting(("a", "default/a")),))
    assert rows(document) == {"Pod default/a": ("Unschedulable",)}


def test_figures_of_each_plan() -> None:
    """whatif.md 10.2: placed, waiting, evicted, lost work, evictions against budgets; a victim counts once."""
    cost = EvictionCost(lost_gpu_hours=0.1004, lost_cpu_hours=2.0, by_criterion={})
    document = Plan(
        changes=(ChangeMade(change="--cordon n1", sentence="done"),),
        pods=(pod("a", "n1"), pod("b", "n2"), pod("c"), pod("d", outcome="Gated"), pod("e", outcome="Nominated")),
        preemptions=(
            evicting(("x", "default/x"), ("y", "default/y"), violations=1, cost=cost),
            evicting(("x", "default/x"), violations=2, cost=cost),
            evicting(("z", "default/z")),
        ),
    )
    found = compared([("one", document), ("two", Plan())])
    one, two = found.variants
    assert (one.name, one.placed, one.waiting, one.evicted) == ("one", 2, 3, 3)
    assert (one.lost_gpu_hours, one.lost_cpu_hours, one.pdb_violations) == (0.201, 4.0, 3)
    assert (two.placed, two.waiting, two.evicted, two.lost_gpu_hours, two.pdb_violations) == (0, 0, 0, 0, 0)
    assert found.changes == document.changes


def test_nothing_to_compare_is_no_rows() -> None:
    assert compared([]).rows == ()
