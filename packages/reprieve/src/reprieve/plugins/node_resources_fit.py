"""NodeResourcesFit: filter nodes by free amounts of resources, and score them by used or free shares.

The configured strategy scores nodes. The score of a group's placement is always the used share of all its nodes
together: the fullest placement first (KEP-5732).
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from kube_rules.devices import DeviceClass
from kube_rules.requests import is_extended_resource
from reprieve.cluster.groups import Group
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.resources import (
    EPHEMERAL_STORAGE,
    PODS,
    SCORING_CPU,
    SCORING_MEMORY,
    ResourceTable,
    insufficient,
)
from reprieve.cluster.signature import PodSpecSignature
from reprieve.cluster.state import ClusterState
from reprieve.framework.events import ClusterEvent, EventKind, Hints
from reprieve.framework.plugin import (
    MAX_NODE_SCORE,
    Assigned,
    Codes,
    CycleState,
    FilterPlugin,
    Mask,
    Placement,
    PlacementScorePlugin,
    Rows,
    Scope,
    ScorePlugin,
    Scores,
    row_count,
)
from reprieve.framework.resource_strategies import LEAST_ALLOCATED, Strategy
from reprieve.framework.status import UNRESOLVABLE, UNSCHEDULABLE

CPU_AND_MEMORY = (("cpu", 1), ("memory", 1))
_SCORED = {"cpu": SCORING_CPU, "memory": SCORING_MEMORY}


class NodeResourcesFit(FilterPlugin, ScorePlugin, PlacementScorePlugin):
    """Filter and score nodes by the pod's requests. Default weight 1, strategy LeastAllocated over cpu and memory.

    `resources` are the (name, weight) pairs of the strategy. The scoring columns count cpu and memory (containers
    without a request count 100m / 200Mi, scheduling.md 5). Extended resources in `ignored`, or with a prefix (up to the
    slash) in `ignored_groups`, are not checked.
    """

    name = "NodeResourcesFit"
    scope: ClassVar[Scope] = Scope.NODE
    by_amounts: ClassVar[bool] = True
    by_count: ClassVar[bool] = True

    def __init__(
        self,
        resources: Sequence[tuple[str, int]] = CPU_AND_MEMORY,
        strategy: Strategy = LEAST_ALLOCATED,
        *,
        ignored: Iterable[str] = (),
        ignored_groups: Iterable[str] = (),
    ) -> None:
        self._resources = tuple(resources)
        self._strategy = strategy
        self._ignored = frozenset(ignored)
        self._ignored_groups = frozenset(ignored_groups)
        self.checks_everything = not self._ignored and not self._ignored_groups

    def _requests(self, table: ResourceTable, signature: PodSpecSignature) -> tuple[tuple[int, int], ...]:
        if self.checks_everything:
            return signature.requests
        return tuple(
            (column, amount) for column, amount in signature.requests if not self._ignores(table.names[column])
        )

    def _ignores(self, name: str) -> bool:
        ignored = name in self._ignored or name.partition("/")[0] in self._ignored_groups
        return ignored and is_extended_resource(name)

    def fits(self, state: CycleState, rows: Rows) -> Mask:
        nodes = state.cluster.nodes
        n = len(nodes)
        mask: Mask | None = None
        for column, amount in self._requests(state.cluster.resources, state.signature):
            ok = nodes.used[column, :n][rows] + amount <= nodes.allocatable[column, :n][rows]
            mask = ok if mask is None else mask & ok
        return mask if mask is not None else np.ones(row_count(state.cluster, rows), dtype=np.bool_)

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        """See `FilterPlugin.filter`. A request above the whole allocatable amount is unresolvable."""
        nodes = state.cluster.nodes
        n = len(nodes)
        codes = np.zeros(row_count(state.cluster, rows), dtype=np.int8)
        for column, amount in self._requests(state.cluster.resources, state.signature):
            have = nodes.allocatable[column, :n][rows]
            codes[(nodes.used[column, :n][rows] + amount > have) & (codes == 0)] = UNSCHEDULABLE
            if column != PODS:
                codes[amount > have] = UNRESOLVABLE
        return codes

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        """Return every insufficient resource, not only the first."""
        nodes = state.cluster.nodes
        n = len(nodes)
        names = state.cluster.resources.names
        return [
            (
                insufficient(names[column]),
                nodes.used[column, :n][rows] + amount > nodes.allocatable[column, :n][rows],
            )
            for column, amount in self._requests(state.cluster.resources, state.signature)
        ]

    def score(self, state: CycleState, rows: Rows) -> Scores:
        """Return the strategy's weighted mean over its resources."""
        nodes, table, delta = state.cluster.nodes, state.cluster.resources, state.signature.delta
        n = len(nodes)
        scored = []
        for name, weight in self._resources:
            column = _SCORED.get(name)
            if column is None:
                column = table.column(name)
                if column >= len(delta) or column >= len(nodes.allocatable):
                    continue  # no node has this resource
                if delta[column] == 0 and column != EPHEMERAL_STORAGE:
                    continue
            used = nodes.used[column, :n][rows] + int(delta[column])
            scored.append((weight, used, nodes.stated(column)[rows]))
        return self._strategy.mean(scored, row_count(state.cluster, rows))

    def score_placement(self, cluster: ClusterState, _group: Group, placement: Placement, assigned: Assigned) -> int:
        """Return the weighted mean used share of the strategy's resources in the placement, in percent."""
        nodes, table = cluster.nodes, cluster.resources
        total = weights = 0
        for name, weight in self._resources:
            column = _SCORED.get(name, -1)
            scalar = column < 0
            if scalar:
                column = table.column(name)
                if column >= len(nodes.allocatable):
                    continue  # no node has this resource
            wanted = sum(int(pod.signature.delta[column]) for pod, _ in assigned if column < len(pod.signature.delta))
            if scalar and not wanted and column != EPHEMERAL_STORAGE:
                continue
            have = _sum(nodes.stated(column)[placement.rows])
            if have > 0:
                used = _sum(nodes.used[column, placement.rows]) + wanted
                total += weight * (min(used, have) * MAX_NODE_SCORE // have)
                weights += weight
        return total // weights if weights else 0

    def events(self) -> Hints:
        """Return the events that free requested capacity, or add a node that is large enough."""
        return {
            EventKind.POD_GONE: _freed_what_is_wanted,
            EventKind.POD_CHANGED: _freed_what_is_wanted,
            EventKind.NODE_ADDED: _large_enough,
            EventKind.NODE_CHANGED: _large_enough,
            EventKind.DEVICE_CLASS_CHANGED: _serves_something,
        }


def _sum(amounts: npt.NDArray[np.int64]) -> int:
    """Return the exact sum, for any number of large amounts."""
    return (int((amounts >> 32).sum()) << 32) + int((amounts & 0xFFFFFFFF).sum())


def _freed_what_is_wanted(_cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
    if event.pod is None:
        return True
    freed = event.pod.signature.delta
    return any(column < len(freed) and freed[column] > 0 for column, _ in pod.signature.requests)


def _serves_something(cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
    """Return whether a class now serves a requested resource, so nodes need not have it (devices.md 4.1)."""
    if not isinstance(event.item, DeviceClass):
        return False
    name, served = event.item.metadata.name, cluster.devices.served
    return any(served.get(resource) == name for ask in pod.signature.extended for resource, _, _ in ask.amounts)


def _large_enough(cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
    have = cluster.nodes.allocatable[:, event.row]
    return all(column < len(have) and amount <= have[column] for column, amount in pod.signature.requests)
