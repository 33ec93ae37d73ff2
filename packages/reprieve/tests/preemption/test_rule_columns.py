"""Rules about ports and other pods as amounts, for the search for victims (cost.md 4.5)."""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules import objects
from reprieve.cluster.state import ClusterState
from reprieve.preemption.victim_search import rule_columns as module
from reprieve.preemption.victim_search.rule_columns import RuleColumn, rule_columns
from tests.building import World, node, pod


@pytest.mark.parametrize(("ports", "used"), [(16, 16), (17, 0), (500, 0)])
def test_preemptor_with_many_ports_is_no_more_work(monkeypatch: pytest.MonkeyPatch, ports: int, used: int) -> None:
    """cost.md 4.5: of a preemptor with more than 16 rules none is considered, and no more than 17 are computed."""
    made: list[RuleColumn] = []

    def counted(*args: Any) -> RuleColumn:
        made.append(RuleColumn(*args))
        return made[-1]

    monkeypatch.setattr(module, "RuleColumn", counted)
    world = World(node("n1"), pod("many", cpu=1, ports=range(1, ports + 1)))
    pending = [item for item in world.engine.cluster.pods.values() if item.name == "many"]
    assert len(rule_columns(world.engine.cluster, pending)) == used
    assert len(made) == min(ports, 17)


def test_domains_of_a_label_are_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """cost.md 4.5: however many terms name it, and no more than 64 of them."""
    keys: list[str] = []
    original = module._LabelDomains

    def counted(cluster: ClusterState, key: str) -> module._LabelDomains:
        keys.append(key)
        return original(cluster, key)

    monkeypatch.setattr(module, "_LabelDomains", counted)
    terms = tuple(
        objects.PodAffinityTerm(
            topology_key="zone" if turn < 60 else f"label-{turn}",
            label_selector=objects.LabelSelector(match_labels={"turn": str(turn)}),
        )
        for turn in range(100)
    )
    apart = objects.Affinity(
        pod_anti_affinity=objects.PodAntiAffinity(required_during_scheduling_ignored_during_execution=terms)
    )
    machines = [node(f"n{i}", labels={"zone": "a"}) for i in range(70)]
    world = World(*machines, pod("apart", cpu=1, affinity=apart))
    pending = [item for item in world.engine.cluster.pods.values() if item.name == "apart"]
    rule_columns(world.engine.cluster, pending)
    assert keys == ["zone", "label-60", "label-61", "label-62", "label-63"]
