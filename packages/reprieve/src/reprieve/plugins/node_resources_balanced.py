"""NodeResourcesBalancedAllocation: prefer nodes on which the pod balances the used shares of resources."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from reprieve.cluster.changes import ChangeReader
from reprieve.cluster.nodes import NodeColumns
from reprieve.cluster.resources import ResourceTable, Vector
from reprieve.cluster.state import ClusterState
from reprieve.framework.plugin import MAX_NODE_SCORE, CycleState, Mask, Rows, Scope, ScorePlugin, Scores


class NodeResourcesBalancedAllocation(ScorePlugin):
    """Score the balance of a node with the pod against that without. Default weight 1, over cpu and memory.

    The balance of a node is (1 - standard deviation of the used fractions) * 100, truncated: 50 to 100. The score is 50
    + (50 + balance with the pod - balance without) / 2, in integers, so no change gives 75 (kubernetes 1.36, pull
    request 135573; earlier versions used only the balance with the pod).

    The plugin counts real requests, not the scoring columns. It skips pods that request none of the resources, and
    ignores extended resources that the pod does not request. The balance without the pod is cached until a node
    changes.
    """

    name = "NodeResourcesBalancedAllocation"
    scope: ClassVar[Scope] = Scope.NODE
    by_amounts: ClassVar[bool] = True

    def __init__(self, resources: Sequence[str] = ("cpu", "memory")) -> None:
        self._resources = tuple(resources)
        self._cache: WeakKeyDictionary[
            ClusterState, dict[tuple[int, ...], tuple[ChangeReader, _NodeBalance | None]]
        ] = WeakKeyDictionary()
        """By cluster and columns, least recently used first."""

    def pre_score(self, state: CycleState) -> bool:
        """Skip best-effort pods."""
        return any(state.signature.amounts.get(name, 0) > 0 for name in self._resources)

    def score(self, state: CycleState, rows: Rows) -> Scores:
        """See `ScorePlugin.score`. A node without one of the resources is scored by the others."""
        cluster, delta = state.cluster, state.signature.delta
        nodes = cluster.nodes
        columns = self._columns(cluster.resources, nodes, delta)
        if cluster.overlaid or (not isinstance(rows, slice) and len(rows) <= _FEW):
            now = _NodeBalance.of(cluster, columns, rows)
        else:
            now = self._cached(cluster, tuple(columns)).only(rows)
        used = [nodes.used[column, : len(nodes)][rows] + delta[column] for column in columns]
        before, after = now.balance, _balance(used, now.divisors, now.present)
        half = MAX_NODE_SCORE // 2
        scores: Scores = half + (half + after - before) // 2
        return scores

    def _cached(self, cluster: ClusterState, columns: tuple[int, ...]) -> "_NodeBalance":
        """Return the balance of all rows for these resources, shared by pods that request them."""
        of_cluster = self._cache.get(cluster)
        if of_cluster is None:
            of_cluster = self._cache[cluster] = {}
        cached = of_cluster.pop(columns, None)
        if cached is None:
            cached = cluster.changes(), None
        changes, now = cached
        touched = changes.take()
        if touched is None or now is None:
            now = _NodeBalance.of(cluster, columns, slice(0, len(cluster.nodes)))
        elif touched:
            rows = np.array(sorted(set(touched)), dtype=np.int64)
            now.replace(rows, _NodeBalance.of(cluster, columns, rows))
        of_cluster[columns] = changes, now
        if len(of_cluster) > _MOST_KEPT:
            del of_cluster[next(iter(of_cluster))]
        return now

    def _columns(self, table: ResourceTable, nodes: NodeColumns, delta: Vector) -> list[int]:
        columns = []
        for name in self._resources:
            column = table.column(name)
            has_column = column < len(delta) and column < len(nodes.allocatable)
            if has_column and (delta[column] > 0 or name in _ALWAYS):
                columns.append(column)
        return columns


_FEW = 8
"""The number of rows up to which the cache is not used."""
_MOST_KEPT = 8
"""The maximum number of cached sets of resources."""


@dataclass(slots=True)
class _NodeBalance:
    """Nodes without the scored pod. `balance`: int64[rows]; by resource, the data to compute it with the pod."""

    balance: Scores
    divisors: list[npt.NDArray[np.float64]]
    present: list[Mask]

    @classmethod
    def of(cls, cluster: ClusterState, columns: Sequence[int], rows: Rows) -> "_NodeBalance":
        """Return the values of nodes in the current view."""
        nodes = cluster.nodes
        have = [nodes.stated(column)[rows] for column in columns]
        used = [nodes.used[column, : len(nodes)][rows] for column in columns]
        present = [amounts > 0 for amounts in have]
        divisors = [np.maximum(amounts, 1).astype(np.float64) for amounts in have]
        return cls(_balance(used, divisors, present), divisors, present)

    def only(self, rows: Rows) -> "_NodeBalance":
        """Return the values of some rows."""
        return _NodeBalance(
            self.balance[rows], [item[rows] for item in self.divisors], [item[rows] for item in self.present]
        )

    def replace(self, rows: npt.NDArray[np.int64], replacement: "_NodeBalance") -> None:
        """Replace the values of some rows."""
        self.balance[rows] = replacement.balance
        for mine, new_divisor in zip(self.divisors, replacement.divisors, strict=True):
            mine[rows] = new_divisor
        for own, new_present in zip(self.present, replacement.present, strict=True):
            own[rows] = new_present


Amounts = npt.NDArray[np.int64]
_ALWAYS = ("cpu", "memory", "ephemeral-storage")


def _balance(used: Sequence[Amounts], divisors: Sequence[npt.NDArray[np.float64]], present: Sequence[Mask]) -> Scores:
    """Return `int64[rows]`: 50..100 by the used share of each resource that is present."""
    fractions = [np.minimum(amounts / divisor, 1.0) for amounts, divisor in zip(used, divisors, strict=True)]
    if len(fractions) == 2:
        deviation = np.abs((fractions[0] - fractions[1]) / 2)
        both_present = present[0] & present[1]
        if not both_present.all():
            deviation[~both_present] = 0.0
    else:
        deviation = _deviation(np.array(fractions), np.array(present))
    balance: Scores = ((1 - deviation) * MAX_NODE_SCORE).astype(np.int64)
    return balance


def _deviation(fractions: npt.NDArray[np.float64], present: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Return `float64[rows]`: the standard deviation over the resources of a node; 0 for fewer than two.

    For exactly two, upstream takes half the difference. The general formula rounds differently.
    """
    count = present.sum(axis=0)
    present_fractions = np.where(present, fractions, 0.0)
    mean = present_fractions.sum(axis=0) / np.maximum(count, 1)
    square = np.where(present, (fractions - mean) ** 2, 0.0).sum(axis=0)
    general = np.sqrt(square / np.maximum(count, 1))
    high = np.where(present, fractions, -np.inf).max(axis=0, initial=-np.inf)
    low = np.where(present, fractions, np.inf).min(axis=0, initial=np.inf)
    result: npt.NDArray[np.float64] = np.select([count < 2, count == 2], [0.0, (high - low) / 2], general)
    return result
