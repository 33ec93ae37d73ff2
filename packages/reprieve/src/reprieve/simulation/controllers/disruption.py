"""Budgets of a plan: the status of a budget without one, and the status after pods have ended or started."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from kube_rules import objects
from kube_rules.controllers.disruption import budget_numbers, counts_scale, may_evict_unready
from kube_rules.selectors import compile_label_selector
from reprieve.cluster.budgets import SelectorsByLabel
from reprieve.cluster.pods import PodRecord


def allowed_now(
    budgets: Sequence[objects.PodDisruptionBudget], pods: Sequence[objects.Pod]
) -> Callable[[objects.Pod], tuple[str, ...]]:
    """Return a function that counts evictions and returns the budgets that forbid the eviction of a pod.

    A budget without a status has the status that the disruption controller would write. Rules of the eviction API: a
    pod of several budgets cannot be evicted. A pod that has not started is not checked. For a pod that is not ready,
    only its budget's `unhealthyPodEvictionPolicy` applies.
    """
    covering = [covers(budget) for budget in budgets]
    statuses: dict[int, objects.PodDisruptionBudgetStatus] = {}
    left: dict[int, int] = {}

    def over(pod: objects.Pod) -> tuple[str, ...]:
        if _is_unready(pod) and pod.status.phase == "Pending":
            return ()
        matching = [number for number, covered in enumerate(covering) if covered(pod)]
        against = []
        for number in matching:
            budget = budgets[number]
            if number not in statuses:
                statuses[number] = _status_of(budget, pods)
                left[number] = statuses[number].disruptions_allowed
            status, policy = statuses[number], budget.spec.unhealthy_pod_eviction_policy
            unready = len(matching) == 1 and _is_unready(pod)
            if unready and may_evict_unready(policy, status.desired_healthy, status.current_healthy):
                continue
            if left[number] <= 0 or len(matching) > 1:
                against.append(budget.full_key)
            left[number] -= is_healthy(pod)
        return tuple(against)

    return over


def allowances(budgets: Sequence[objects.PodDisruptionBudget], pods: Sequence[objects.Pod]) -> list[int]:
    """Return how many evictions each budget allows; a missing status is computed as the controller would."""
    return [_status_of(budget, pods).disruptions_allowed for budget in budgets]


def covers(budget: objects.PodDisruptionBudget) -> Callable[[objects.Pod], bool]:
    """Return a function that returns whether the budget covers a pod."""
    selector, space = compile_label_selector(budget.spec.selector), budget.namespace or "default"
    return lambda pod: pod.namespace == space and selector.matches(pod.metadata.labels)


def is_healthy(pod: objects.Pod) -> bool:
    """Return whether a pod counts for its budgets: on a node, not ended or terminating, not reported as unready."""
    ended = pod.finished or pod.terminating
    return bool(pod.spec.node_name) and not ended and not _is_unready(pod)


def _is_unready(pod: objects.Pod) -> bool:
    """Return whether its status reports it as not ready; manifests often have no conditions."""
    return any(condition.type == "Ready" and condition.status != "True" for condition in pod.status.conditions)


def followed(
    budgets: Iterable[objects.PodDisruptionBudget], gone: Iterable[objects.Pod], come: Iterable[objects.Pod] = ()
) -> list[objects.PodDisruptionBudget]:
    """Return the budgets with the status after healthy pods have ended and others have started.

    A budget without a status is unchanged.
    """
    moved = [*((pod, -1) for pod in gone), *((pod, 1) for pod in come)]
    changed = []
    for budget in budgets:
        status = budget.status
        if status is not None and moved:
            covered = covers(budget)
            more = sum(by for pod, by in moved if covered(pod))
            spare = status.disruptions_allowed or min(0, status.current_healthy - status.desired_healthy)
            status = replace(
                status,
                disruptions_allowed=max(0, spare + more),
                current_healthy=max(0, status.current_healthy + more),
            )
            budget = replace(budget, status=status)
        changed.append(budget)
    return changed


def with_statuses(
    budgets: Sequence[objects.PodDisruptionBudget], pods: Iterable[PodRecord]
) -> list[objects.PodDisruptionBudget]:
    """Return the budgets with the status for the pods of the cluster cache.

    Healthy pods match, run and are not terminating.
    """
    spaces = [budget.metadata.namespace or "default" for budget in budgets]
    selectors = [compile_label_selector(budget.spec.selector) for budget in budgets]
    by_label = SelectorsByLabel((number, *pair) for number, pair in enumerate(zip(spaces, selectors, strict=True)))
    owners: list[list[str]] = [[] for _ in budgets]
    healthy = [0] * len(budgets)
    for pod in pods:
        for number in by_label.candidates(pod.namespace, pod.labels):
            if selectors[number].matches(pod.labels):
                owners[number].append(pod.owner[1] if pod.owner is not None else "")
                healthy[number] += pod.row >= 0 and not pod.terminating
    counted = zip(budgets, owners, healthy, strict=True)
    return [replace(budget, status=_status(budget, kinds, number)) for budget, kinds, number in counted]


_WITHOUT_SCALE: Final = frozenset(("Job", "DaemonSet", "Node"))
"""Kinds of controllers without a scale subresource, for which no percentage of pods can be computed."""


def _status_of(budget: objects.PodDisruptionBudget, pods: Iterable[objects.Pod]) -> objects.PodDisruptionBudgetStatus:
    """Return the budget's status, or the status that the disruption controller would write."""
    if budget.status is not None:
        return budget.status
    covered = covers(budget)
    expected = [pod for pod in pods if covered(pod) and not pod.finished]
    kinds = [next((ref.kind for ref in pod.metadata.owner_references if ref.controller), "") for pod in expected]
    return _status(budget, kinds, sum(map(is_healthy, expected)))


def _status(
    budget: objects.PodDisruptionBudget, owners: Sequence[str], healthy: int
) -> objects.PodDisruptionBudgetStatus:
    """Return the status of a budget; `owners` are the kinds of the controllers of its pods, "" for none.

    The cluster cache does not include the scale of controllers; the number of existing pods replaces it.
    """
    bounds = budget.spec.min_available, budget.spec.max_unavailable
    expected = len(owners)
    if counts_scale(*bounds):
        if _WITHOUT_SCALE.intersection(owners):
            return objects.PodDisruptionBudgetStatus(current_healthy=healthy)
        expected = sum(map(bool, owners))
    numbers = budget_numbers(*bounds, expected, healthy)
    return objects.PodDisruptionBudgetStatus(
        disruptions_allowed=numbers.allowed,
        current_healthy=healthy,
        desired_healthy=numbers.desired,
        expected_pods=numbers.expected,
    )
