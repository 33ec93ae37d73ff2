"""Inputs that are large in one direction cost what they say, and no more (docs/plan.md)."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from reprieve.cluster.state import ClusterState
from reprieve.python.builder import ClusterBuilder
from tests.building import node

HOST = "kubernetes.io/hostname"
DEADLINE = 60.0
"""CPU seconds; each of these takes a tenth of that, and took minutes, or did not end, while work grew with squares."""


def within_deadline(cluster: ClusterBuilder) -> Any:
    before = time.process_time()
    answer = cluster.plan()
    assert time.process_time() - before < DEADLINE
    return answer.plan


def with_terms(kind: str, terms: list[dict[str, Any]]) -> ClusterBuilder:
    cluster = ClusterBuilder().add_node("n1", {"cpu": "64"}, labels={HOST: "n1"})
    for number in range(20):
        affinity = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        cluster.add_pod(f"p{number}", labels={"app": "x"}, spec={"affinity": affinity})
    return cluster


def test_ten_thousand_affinity_terms_of_twenty_pods_end() -> None:
    terms = [{"topologyKey": f"key-{n}", "labelSelector": {"matchLabels": {"app": "x"}}} for n in range(10_000)]
    found = within_deadline(with_terms("podAffinity", terms))
    assert {each.outcome for each in found.pods} == {"Unschedulable"}, "no node has the labels"


def test_anti_affinity_terms_that_all_match_end() -> None:
    terms = [
        {
            "topologyKey": HOST,
            "labelSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [f"v{n}"]}]},
        }
        for n in range(2_500)
    ]
    found = within_deadline(with_terms("podAntiAffinity", terms))
    assert sum(each.outcome == "Scheduled" for each in found.pods) == 1


def test_thousand_budgets_cost_little_beside_the_preemptors() -> None:
    cluster = ClusterBuilder()
    for number in range(20):
        cluster.add_node(f"n{number}", {"cpu": "8"})
    for number in range(160):
        name, on = f"r{number}", f"n{number % 20}"
        cluster.add_pod(name, node=on, priority=1, labels={"app": f"a{number}"}, requests={"cpu": "1"})
    for number in range(1_000):
        selector = {"matchLabels": {"app": f"a{number}"}}
        if number % 3 == 1:
            selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": [f"a{number}", "b"]}]}  # type: ignore[dict-item]
        cluster.add(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": f"b{number}"},
                "spec": {"minAvailable": 1 if number < 8 else 0, "selector": selector},
            }
        )
    for number in range(5):
        cluster.add_pod(f"high{number}", priority=100, requests={"cpu": "4"})
    before = time.process_time()
    found = cluster.plan().plan
    assert time.process_time() - before < 10
    victims = {victim.name for preemption in found.preemptions for victim in preemption.victims}
    assert len(found.preemptions) == 5
    assert not victims & {f"r{number}" for number in range(8)}, "others were to be had without breaking a budget"


# -- resources that no pod requests ------------------------------------------------------------------------------------


def amounts(cluster: ClusterState, resource: str) -> list[int]:
    column = cluster.resources.column(resource)
    cluster.nodes.fit_columns()
    found: np.ndarray[Any, Any] = cluster.nodes.allocatable[column, : len(cluster.nodes)]
    return [int(amount) for amount in found]


def own(number: int, amount: int = 5) -> dict[str, int | str]:
    return {f"example.com/own-{number}-{index}": amount for index in range(20)}


def test_resources_not_requested_have_no_column() -> None:
    cluster = ClusterState()
    for number in range(500):
        cluster.set_node(node(f"n{number}", more=own(number)))
    assert len(cluster.resources) < 10
    assert cluster.nodes.allocatable.shape[0] <= 16
    assert amounts(cluster, "example.com/own-7-3") == [0] * 7 + [5] + [0] * 492


def test_node_amounts_are_there_when_the_first_pod_asks() -> None:
    cluster = ClusterBuilder()
    for number in range(3):
        cluster.add_node(f"n{number}", {"cpu": "4", f"example.com/own-{number}": 1})
    cluster.add_pod("first", requests={"example.com/own-2": 1})
    cluster.add_pod("second", requests={"example.com/own-2": 1})
    cluster.add_pod("third", requests={"example.com/own-1": 1})
    placed = {each.name: each.node_name for each in cluster.plan().plan.pods}
    assert placed == {"first": "n2", "second": None, "third": "n1"}


def test_nodes_that_change_or_go_before_the_first_question() -> None:
    cluster = ClusterState()
    cluster.set_node(node("n0", more=own(0)))
    cluster.set_node(node("n1", more={"example.com/own-0-0": 2}))
    cluster.set_node(node("n0", more={"example.com/own-0-0": 9}))
    cluster.remove_node("n1")
    cluster.set_node(node("n2"))  # takes the row of n1
    assert amounts(cluster, "example.com/own-0-0") == [9, 0]
    assert amounts(cluster, "example.com/own-0-1") == [0, 0]
    cluster.set_node(node("n0", more={"example.com/own-0-0": 3}))
    assert amounts(cluster, "example.com/own-0-0") == [3, 0], "once it has a column it is kept there"
    assert not cluster.nodes._unrequested
    assert not cluster.nodes._unrequested_on or set(cluster.nodes._unrequested_on) <= {0}
