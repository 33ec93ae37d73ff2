"""The order in which units are judged (preemption.md 3.4, 5, 6)."""

from collections.abc import Sequence

from reprieve.cluster.budgets import violating
from reprieve.cluster.state import ClusterState
from reprieve.preemption.units import PreemptionUnit


def by_importance(
    cluster: ClusterState, units: Sequence[PreemptionUnit]
) -> tuple[list[PreemptionUnit], list[bool], list[int]]:
    """Units by importance, whether each violates a budget, and the indices in the order they are tried.

    Those that violate a budget are tried first, each class from the most important down.
    """
    ordered = sorted(units, key=lambda unit: unit.importance)
    violations = violating([unit.pods for unit in ordered], list(cluster.budgets.values()))
    return ordered, violations, sorted(range(len(ordered)), key=lambda i: not violations[i])


def reprieve_order(cluster: ClusterState, units: Sequence[PreemptionUnit]) -> list[PreemptionUnit]:
    """The units in the order in which they are tried."""
    ordered, _, order = by_importance(cluster, units)
    return [ordered[index] for index in order]
