"""The numbers of a PodDisruptionBudget, and whether it limits an eviction.

Source: kube-controller-manager's disruption controller (`getExpectedPodCount`, `updatePdbStatus`) and the eviction
subresource (`EvictionREST.Create`).
"""

from __future__ import annotations

from typing import NamedTuple

from kube_rules.controllers.amounts import share_of


class BudgetNumbers(NamedTuple):
    """The numbers in the status of a budget: expected pods, desired healthy pods, and disruptions allowed now."""

    expected: int
    desired: int
    allowed: int


def counts_scale(min_available: int | str | None, max_unavailable: int | str | None) -> bool:
    """Return whether the expected pods are the scale of the pods' controllers, not the number of existing pods."""
    return max_unavailable is not None or isinstance(min_available, str)


def budget_numbers(
    min_available: int | str | None, max_unavailable: int | str | None, expected: int, healthy: int
) -> BudgetNumbers:
    """Return the numbers of a budget.

    `expected` is the scale of the pods' controllers if `counts_scale`, else the number of pods. A budget without a
    bound expects no pods and allows no disruption. Raises ValueError for a bound that is neither a number nor a
    percentage.
    """
    if max_unavailable is not None:
        desired = max(0, expected - share_of(max_unavailable, expected, up=True))
    elif min_available is not None:
        desired = share_of(min_available, expected, up=True)
    else:
        return BudgetNumbers(0, 0, 0)
    return BudgetNumbers(expected, desired, max(0, healthy - desired) if expected > 0 else 0)


def may_evict_unready(policy: str | None, desired: int, healthy: int) -> bool:
    """Return whether a budget allows evicting an unready pod without counting it (`unhealthyPodEvictionPolicy`)."""
    return policy == "AlwaysAllow" or 0 < desired <= healthy
