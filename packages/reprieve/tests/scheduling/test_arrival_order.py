"""The order in which the objects of a first list are learnt of."""

from __future__ import annotations

from typing import Any

from reprieve.scheduling.arrival_order import in_order
from tests.building import composite, group, node, pdb, pod
from tests.plugins.storage import claim


def test_objects_of_the_start_arrive_in_the_order_in_which_they_are_needed() -> None:
    """Nodes, budgets, groups of every level, the rest, pods that run, pods that wait; of a kind the oldest first."""
    items: list[Any] = [
        (pod("waits", node=""), 1.0),
        (pod("runs", node="n"), 9.0),
        (claim("c"), 0.0),
        (group("g"), 3.0),
        (composite("c"), 2.0),
        (pdb("b"), 1.0),
        (node("later"), 5.0),
        (node("n"), 4.0),
        (pod("older", node=""), 0.5),
    ]
    assert [(type(item).__name__, item.metadata.name) for item, _ in in_order(items)] == [
        ("Node", "n"),
        ("Node", "later"),
        ("PodDisruptionBudget", "b"),
        ("CompositePodGroup", "c"),
        ("PodGroup", "g"),
        ("PersistentVolumeClaim", "c"),
        ("Pod", "runs"),
        ("Pod", "older"),
        ("Pod", "waits"),
    ]
