"""Other orders of a gang's pods, which find placements that the greedy algorithm misses (scheduling.md 3.9).

A gang's pods are tried one after another, each on its best node, without backtracking. So an early pod may take the
capacity that a later one needs, and the gang fails although a placement exists: the limitation that KEP-4671 and
KEP-5710 accept. The scheduler handles it in two ways:

- If nothing rules out a placement, the decision states it (`OrderMatters`).
- With `treeSearch: Retry` (args of GangScheduling) the gang is placed in the first other order that works.  They are
tried only after the usual order failed, so the option never makes a gang fail that is placed without it.

The orders are few and always the same: pods without a place go first, up to `_ROUNDS` times; then the most demanding go
first; then the last become the first.  Pods that are treated alike are interchangeable, so a gang of one kind has no
other order.  Where pods must be near others (required pod affinity), the first of them decides the domain of all: then
each domain of their topology keys is tried separately, the first `_DOMAINS` that may have enough capacity.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from reprieve.cluster.affinity_terms import TermKind
from reprieve.cluster.groups import GroupState
from reprieve.cluster.pods import PodRecord
from reprieve.framework.plugin import CycleState, Placement
from reprieve.framework.running_profile import RunningProfile
from reprieve.scheduling.decision import OrderMatters
from reprieve.scheduling.group_algorithm import GroupAssignment, GroupCycle
from reprieve.scheduling.group_placements import hopeful
from reprieve.scheduling.placement_counts import holds_at_most

_ROUNDS = 3
_DOMAINS = 64

Assign = Callable[[Sequence[PodRecord], Placement | None], GroupAssignment]
"""Runs the group's algorithm on its pods in that order, there or anywhere, without changing the view."""


def retries(running: RunningProfile) -> bool:
    """Return whether a plugin of the profile requests trying other orders."""
    return any(plugin.retries_orders for plugin in running.profile.placement_feasible)


def in_another_order(
    cycle: GroupCycle, failed: GroupAssignment, assign: Assign, *, anywhere: bool
) -> GroupAssignment | None:
    """Return the first other order in which a pod group fits in the present view; None if none of the tried ones works.

    `anywhere`: without a topology constraint; then domains of pod affinity are tried too.
    """
    if not cycle.group.is_gang:
        return None
    result = _other_order(cycle.running, cycle.pods, failed, assign)
    if result is not None or not anywhere:
        return result
    for domain in hopeful(cycle, _domains(cycle.running, cycle.pods))[:_DOMAINS]:
        result = assign(cycle.pods, domain)
        if result.feasible:
            return result
    return None


def _other_order(
    running: RunningProfile, pods: Sequence[PodRecord], failed: GroupAssignment, assign: Assign
) -> GroupAssignment | None:
    kinds = [_kind(running, pod) for pod in pods]
    seen = {tuple(kinds)}
    kind_of = {pod.uid: kind for pod, kind in zip(pods, kinds, strict=True)}
    if len(set(kinds)) == 1:
        return None
    order, last = list(pods), failed
    for _ in range(_ROUNDS):
        order = _unplaced_first(order, last)
        if not _is_new(order, kind_of, seen):
            break
        last = assign(order, None)
        if last.feasible:
            return last
    for order in _fixed_orders(running, pods):
        if _is_new(order, kind_of, seen):
            result = assign(order, None)
            if result.feasible:
                return result
    return None


def order_matters(cycle: GroupCycle, alternative: GroupAssignment | None) -> OrderMatters | None:
    """Return a hint for a gang that failed in the usual order; None if no order would have helped.

    `alternative`: a placement in another order, if known. Without one the hint is given only if the pods are of several
    kinds and neither the capacity for each kind alone nor the sum of requests rules out a placement.
    """
    if alternative is not None:
        return OrderMatters(placed=len(alternative.placed))
    running, group, pods = cycle.running, cycle.group, cycle.pods
    if not isinstance(group, GroupState) or not group.is_gang or len({_kind(running, pod) for pod in pods}) == 1:
        return None
    nodes = running.cluster.nodes
    places = cycle.placements
    if places is None:
        places = [Placement("", np.flatnonzero(nodes.alive[: len(nodes)]))]
    domains = [domain for domain in places if len(domain.rows)]
    need = max(1, group.min_count - group.scheduled)
    most = holds_at_most(running, pods, domains)
    if any(
        count >= need and _has_the_sum(running, pods, need, domain) for count, domain in zip(most, domains, strict=True)
    ):
        return OrderMatters(placed=0)
    return None


def _kind(running: RunningProfile, pod: PodRecord) -> object:
    """Return the signature of identical pods; a pod that cannot be compared is a kind of its own."""
    identity = running.evaluator.identity(pod)
    if identity is not None and not running.evaluator.ruled(CycleState(running.cluster, pod)):
        return identity
    return (pod.signature.id, pod.priority, tuple(sorted(pod.labels.items())), pod.claims)


def _is_new(order: Sequence[PodRecord], kind_of: dict[str, object], seen: set[tuple[object, ...]]) -> bool:
    kinds = tuple(kind_of[pod.uid] for pod in order)
    if kinds in seen:
        return False
    seen.add(kinds)
    return True


def _unplaced_first(order: Sequence[PodRecord], last: GroupAssignment) -> list[PodRecord]:
    placed = {pod.uid for pod, _ in last.placed}
    return [pod for pod in order if pod.uid not in placed] + [pod for pod in order if pod.uid in placed]


def _fixed_orders(running: RunningProfile, pods: Sequence[PodRecord]) -> Iterator[list[PodRecord]]:
    nodes = running.cluster.nodes
    most = nodes.allocatable[:, : len(nodes)].max(axis=1, initial=0)

    def share(pod: PodRecord) -> float:
        """Return the largest share of a node that the pod requests."""
        return max((amount / max(int(most[column]), 1) for column, amount in pod.signature.requests), default=0.0)

    yield sorted(pods, key=share, reverse=True)
    yield list(reversed(pods))


def _domains(running: RunningProfile, pods: Sequence[PodRecord]) -> list[Placement]:
    """Return the domains of the topology keys by which the pods must be near others, by key and value."""
    cluster = running.cluster
    terms = (term for pod in pods for term in cluster.pod_affinity.terms(pod).of(TermKind.REQUIRED_AFFINITY))
    keys = sorted({term.topology_key for term in terms})
    result: dict[tuple[str, str], list[int]] = {}
    for key in keys:
        for row in np.flatnonzero(cluster.nodes.alive[: len(cluster.nodes)]).tolist():
            value = cluster.nodes.labels[row].get(key)
            if value is not None:
                result.setdefault((key, value), []).append(row)
    return [Placement(f"{key}={value}", np.array(rows)) for (key, value), rows in sorted(result.items())]


def _has_the_sum(running: RunningProfile, pods: Sequence[PodRecord], need: int, domain: Placement) -> bool:
    """Return whether the `need` smallest requests fit into the free amount, for every resource."""
    nodes = running.cluster.nodes
    requests: dict[int, list[int]] = {}
    for pod in pods:
        for column, amount in pod.signature.requests:
            requests.setdefault(column, []).append(amount)
    for column, amounts in requests.items():
        least = sorted([0] * (len(pods) - len(amounts)) + amounts)[:need]
        free = nodes.allocatable[column, domain.rows] - nodes.used[column, domain.rows]
        if sum(least) > int(np.maximum(free, 0).sum()):
            return False
    return True
