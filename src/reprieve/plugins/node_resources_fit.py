"""NodeResourcesFit: enough of every resource is free; scored by how much stays free (LeastAllocated)."""

from typing import ClassVar

import numpy as np

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.resources import (
    CPU,
    FIRST_RESOURCE,
    MEMORY,
    PODS,
    SCORING_CPU,
    SCORING_MEMORY,
    insufficient,
)
from reprieve.cluster.state import ClusterState
from reprieve.framework.events import ClusterEvent, EventKind, Hints
from reprieve.framework.plugin import (
    MAX_NODE_SCORE,
    Codes,
    CycleState,
    FilterPlugin,
    Mask,
    Rows,
    Scope,
    ScorePlugin,
    Scores,
    row_count,
)
from reprieve.framework.status import UNRESOLVABLE, UNSCHEDULABLE


class NodeResourcesFit(FilterPlugin, ScorePlugin):
    """Requests against what the node has left. Default weight 1, strategy LeastAllocated over cpu and memory.

    `weights` are (column, weight) pairs of the strategy's resources; cpu and memory are counted by the scoring
    columns (containers without a request count 100m / 200Mi, scheduling.md 5).
    """

    name = "NodeResourcesFit"
    scope: ClassVar[Scope] = Scope.NODE

    def __init__(self, weights: tuple[tuple[int, int], ...] = ((SCORING_CPU, 1), (SCORING_MEMORY, 1))) -> None:
        self._weights = weights

    def fits(self, state: CycleState, rows: Rows) -> Mask:
        """See `FilterPlugin.fits`."""
        nodes = state.cluster.nodes
        n = len(nodes)
        mask: Mask | None = None
        for column, amount in state.signature.requests:
            ok = nodes.used[column, :n][rows] + amount <= nodes.allocatable[column, :n][rows]
            mask = ok if mask is None else mask & ok
        return mask if mask is not None else np.ones(row_count(state.cluster, rows), dtype=np.bool_)

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        """See `FilterPlugin.filter`. A request above the node's whole allocatable cannot be cured by preemption."""
        nodes = state.cluster.nodes
        n = len(nodes)
        codes = np.zeros(row_count(state.cluster, rows), dtype=np.int8)
        for column, amount in state.signature.requests:
            have = nodes.allocatable[column, :n][rows]
            codes[(nodes.used[column, :n][rows] + amount > have) & (codes == 0)] = UNSCHEDULABLE
            if column != PODS:
                codes[amount > have] = UNRESOLVABLE
        return codes

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        """Every resource that is short, not only the first."""
        nodes = state.cluster.nodes
        n = len(nodes)
        names = state.cluster.resources.names
        return [
            (
                insufficient(names[column]),
                nodes.used[column, :n][rows] + amount > nodes.allocatable[column, :n][rows],
            )
            for column, amount in state.signature.requests
        ]

    def score(self, state: CycleState, rows: Rows) -> Scores:
        """LeastAllocated: per resource (free after placing) * 100 / allocatable, weighted mean, in integers."""
        nodes, delta = state.cluster.nodes, state.signature.delta
        n = len(nodes)
        total = np.zeros(row_count(state.cluster, rows), dtype=np.int64)
        weights = np.zeros_like(total)
        for column, weight in self._weights:
            amount = int(delta[column])
            if column >= FIRST_RESOURCE and column not in (CPU, MEMORY) and amount == 0:
                continue
            have = nodes.allocatable[column, :n][rows]
            free = have - nodes.used[column, :n][rows] - amount
            total += weight * (np.maximum(free, 0) * MAX_NODE_SCORE // np.maximum(have, 1))
            weights += weight * (have > 0)
        result: Scores = total // np.maximum(weights, 1)
        return result

    def events(self) -> Hints:
        """Room was freed that the pod wants, or a node is large enough for it."""
        return {
            EventKind.POD_GONE: _freed_what_is_wanted,
            EventKind.POD_CHANGED: _freed_what_is_wanted,
            EventKind.NODE_ADDED: _large_enough,
            EventKind.NODE_CHANGED: _large_enough,
        }


def _freed_what_is_wanted(_cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
    if event.pod is None:
        return True
    freed = event.pod.signature.delta
    return any(column < len(freed) and freed[column] > 0 for column, _ in pod.signature.requests)


def _large_enough(cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
    have = cluster.nodes.allocatable[:, event.row]
    return all(column < len(have) and amount <= have[column] for column, amount in pod.signature.requests)
