"""The status the disruption controller would give a PodDisruptionBudget that has none, or whose pods are others now."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from kube_rules import objects
from kube_rules.selectors import compile_label_selector
from reprieve.cluster.budgets import ByLabel
from reprieve.cluster.pods import PodRecord


def allowed_now(
    budgets: Sequence[objects.PodDisruptionBudget], pods: Sequence[objects.Pod]
) -> Callable[[objects.Pod], tuple[str, ...]]:
    """Counts evictions: given pod after pod it names the budgets that do not allow its eviction.

    A budget without a status has the one the disruption controller would write.  Rules of the eviction API: a pod of
    several budgets cannot be evicted, one that has not started is not checked, and one that is not ready only by
    its budget's `unhealthyPodEvictionPolicy`.
    """
    selectors = [compile_label_selector(budget.spec.selector) for budget in budgets]
    spaces = [budget.namespace or "default" for budget in budgets]
    counted: dict[int, objects.PodDisruptionBudget] = {}
    """With a status: those that have counted a pod that was checked."""
    left: dict[int, int] = {}

    def count(number: int) -> None:
        budget, selector, space = budgets[number], selectors[number], spaces[number]
        if budget.status is None:
            matching = [pod for pod in pods if pod.namespace == space and selector.matches(pod.metadata.labels)]
            expected = [pod for pod in matching if pod.status.phase not in ("Succeeded", "Failed")]
            healthy = sum(map(is_healthy, expected))
            budget = _with_status(budget, _expected(budget, map(_owner_kind, expected)), healthy)
        counted[number] = budget
        left[number] = budget.status.disruptions_allowed if budget.status is not None else 0

    def over(pod: objects.Pod) -> tuple[str, ...]:
        if _is_unready(pod) and pod.status.phase == "Pending":
            return ()
        matching = [
            number
            for number, selector in enumerate(selectors)
            if spaces[number] == pod.namespace and selector.matches(pod.metadata.labels)
        ]
        against = []
        for number in matching:
            if number not in counted:
                count(number)
            if len(matching) == 1 and _is_unready(pod) and _lets_unready_go(counted[number]):
                continue
            if left[number] <= 0 or len(matching) > 1:
                against.append(f"{spaces[number]}/{budgets[number].name}")
            left[number] -= is_healthy(pod)
        return tuple(against)

    return over


def allowances(budgets: Sequence[objects.PodDisruptionBudget], pods: Sequence[objects.Pod]) -> list[int]:
    """How many evictions each budget allows; one without a status as the disruption controller would write it."""
    found = []
    for budget in budgets:
        if budget.status is None:
            covered = covers(budget)
            expected = [pod for pod in pods if covered(pod) and pod.status.phase not in ("Succeeded", "Failed")]
            number = _expected(budget, map(_owner_kind, expected))
            budget = _with_status(budget, number, sum(map(is_healthy, expected)))
        found.append(budget.status.disruptions_allowed if budget.status is not None else 0)
    return found


def covers(budget: objects.PodDisruptionBudget) -> Callable[[objects.Pod], bool]:
    """Whether a pod is one of the budget's."""
    selector, space = compile_label_selector(budget.spec.selector), budget.namespace or "default"
    return lambda pod: pod.namespace == space and selector.matches(pod.metadata.labels)


def is_healthy(pod: objects.Pod) -> bool:
    """Whether a pod counts for its budgets: it is on a node, neither ending nor reported not ready."""
    ended = pod.status.phase in ("Succeeded", "Failed") or pod.metadata.deletion_timestamp is not None
    return bool(pod.spec.node_name) and not ended and not _is_unready(pod)


def _is_unready(pod: objects.Pod) -> bool:
    """Whether its status reports it not ready: manifests often have no conditions."""
    return any(each.type == "Ready" and each.status != "True" for each in pod.status.conditions)


def _lets_unready_go(budget: objects.PodDisruptionBudget) -> bool:
    """Whether pods that are not ready may go without being counted."""
    if budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
        return True
    status = budget.status
    return status is not None and 0 < status.desired_healthy <= status.current_healthy


def followed(
    budgets: Iterable[objects.PodDisruptionBudget], gone: Iterable[objects.Pod], come: Iterable[objects.Pod] = ()
) -> list[objects.PodDisruptionBudget]:
    """The budgets with the status that they have once healthy pods are gone and others have come.

    One without a status is as it was: who needs it counts.
    """
    moved = [*((pod, -1) for pod in gone), *((pod, 1) for pod in come)]
    found = []
    for budget in budgets:
        status = budget.status
        if status is not None and moved:
            selector, space = compile_label_selector(budget.spec.selector), budget.namespace or "default"
            more = sum(by for pod, by in moved if pod.namespace == space and selector.matches(pod.metadata.labels))
            spare = status.disruptions_allowed or min(0, status.current_healthy - status.desired_healthy)
            status = replace(
                status,
                disruptions_allowed=max(0, spare + more),
                current_healthy=max(0, status.current_healthy + more),
            )
            budget = replace(budget, status=status)
        found.append(budget)
    return found


def _share(value: int | str, of: int) -> int:
    """An IntOrString of a count: percentages round up, as upstream's disruption controller does."""
    if isinstance(value, str) and value.endswith("%"):
        return -(-int(value[:-1]) * of // 100)
    return int(value)


def with_statuses(
    budgets: Sequence[objects.PodDisruptionBudget], pods: Iterable[PodRecord]
) -> list[objects.PodDisruptionBudget]:
    """The budgets with `status.disruptionsAllowed` worked out from their specs and the pods there are.

    Healthy are matching pods that run and are not terminating. The scale of their controllers is not part of the
    cluster cache: as many pods as exist stand for it.
    """
    spaces = [budget.metadata.namespace or "default" for budget in budgets]
    selectors = [compile_label_selector(budget.spec.selector) for budget in budgets]
    by_label = ByLabel((number, *each) for number, each in enumerate(zip(spaces, selectors, strict=True)))
    owners: list[list[str]] = [[] for _ in budgets]
    healthy = [0] * len(budgets)
    for pod in pods:
        for number in by_label.candidates(pod.namespace, pod.labels):
            if selectors[number].matches(pod.labels):
                owners[number].append(pod.owner[1] if pod.owner is not None else "")
                healthy[number] += pod.row >= 0 and not pod.terminating
    numbers = (_expected(budget, kinds) for budget, kinds in zip(budgets, owners, strict=True))
    return [_with_status(*each) for each in zip(budgets, numbers, healthy, strict=True)]


_WITHOUT_SCALE: Final = frozenset(("Job", "DaemonSet", "Node"))
"""Kinds of controllers that have no scale subresource: a share of their pods cannot be worked out."""


def _owner_kind(pod: objects.Pod) -> str:
    return next((one.kind for one in pod.metadata.owner_references if one.controller), "")


def _expected(budget: objects.PodDisruptionBudget, owners: Iterable[str]) -> int | None:
    """Return how many pods a budget expects; `owners` are the kinds of the controllers of its pods, "" for none.

    A bound that needs a scale, `maxUnavailable` or a percentage, counts pods of controllers alone; None where a
    controller has no scale.
    """
    kinds = list(owners)
    if budget.spec.max_unavailable is None and not isinstance(budget.spec.min_available, str):
        return len(kinds)
    return None if _WITHOUT_SCALE.intersection(kinds) else sum(map(bool, kinds))


def _with_status(pdb: objects.PodDisruptionBudget, expected: int | None, healthy: int) -> objects.PodDisruptionBudget:
    """Return the budget with the status of so many expected and healthy pods; without expected ones it allows none."""
    spec = pdb.spec
    if not expected:
        return replace(pdb, status=objects.PodDisruptionBudgetStatus(current_healthy=healthy))
    if spec.max_unavailable is not None:
        desired = expected - _share(spec.max_unavailable, expected)
    elif spec.min_available is not None:
        desired = _share(spec.min_available, expected)
    else:
        desired = 1
    status = objects.PodDisruptionBudgetStatus(
        disruptions_allowed=max(0, healthy - max(desired, 0)),
        current_healthy=healthy,
        desired_healthy=max(desired, 0),
        expected_pods=expected,
    )
    return replace(pdb, status=status)
