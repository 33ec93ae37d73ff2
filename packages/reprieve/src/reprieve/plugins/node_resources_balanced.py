"""NodeResourcesBalancedAllocation: prefers nodes on which the pod evens out the shares of resources in use."""

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
    """How balanced a node would be with the pod, compared with now. Default weight 1, over cpu and memory.

    The balance of a node is (1 - standard deviation of the used fractions) * 100, truncated: 50 to 100.  The score is
    50 + (50 + balance with the pod - balance without) / 2, in integers: no change is 75 (kubernetes 1.36, pull request
    135573; before that it was the balance with the pod alone).

    Counts real requests, not the scoring columns; skipped for pods that ask for none of the resources, and without
    extended resources the pod does not ask for.  The balance without the pod is kept until something on a node changes.
    """

    name = "NodeResourcesBalancedAllocation"
    scope: ClassVar[Scope] = Scope.NODE
    by_amounts: ClassVar[bool] = True

    def __init__(self, resources: Sequence[str] = ("cpu", "memory")) -> None:
        self._resources = tuple(resources)
        self._known: WeakKeyDictionary[ClusterState, dict[tuple[int, ...], tuple[ChangeReader, _Now | None]]] = (
            WeakKeyDictionary()
        )
        """By cluster and columns, those used longest ago first."""

    def pre_score(self, state: CycleState) -> bool:
        """Best-effort pods are not balanced."""
        return any(state.signature.amounts.get(name, 0) > 0 for name in self._resources)

    def score(self, state: CycleState, rows: Rows) -> Scores:
        """See `ScorePlugin.score`. Nodes without one of the resources are judged by the others."""
        cluster, delta = state.cluster, state.signature.delta
        nodes = cluster.nodes
        columns = self._columns(cluster.resources, nodes, delta)
        if cluster.overlaid or (not isinstance(rows, slice) and len(rows) <= _FEW):
            now = _Now.of(cluster, columns, rows)
        else:
            now = self._kept(cluster, tuple(columns)).only(rows)
        used = [nodes.used[column, : len(nodes)][rows] + delta[column] for column in columns]
        before, after = now.balance, _balance(used, now.divisors, now.present)
        half = MAX_NODE_SCORE // 2
        scores: Scores = half + (half + after - before) // 2
        return scores

    def _kept(self, cluster: ClusterState, columns: tuple[int, ...]) -> "_Now":
        """Return what is the same for all pods that ask for these resources, on all rows."""
        of_cluster = self._known.get(cluster)
        if of_cluster is None:
            of_cluster = self._known[cluster] = {}
        known = of_cluster.pop(columns, None)
        if known is None:
            known = cluster.changes(), None
        changes, now = known
        touched = changes.take()
        if touched is None or now is None:
            now = _Now.of(cluster, columns, slice(0, len(cluster.nodes)))
        elif touched:
            rows = np.array(sorted(set(touched)), dtype=np.int64)
            now.replace(rows, _Now.of(cluster, columns, rows))
        of_cluster[columns] = changes, now
        if len(of_cluster) > _MOST_KEPT:
            del of_cluster[next(iter(of_cluster))]
        return now

    def _columns(self, table: ResourceTable, nodes: NodeColumns, delta: Vector) -> list[int]:
        columns = []
        for name in self._resources:
            column = table.column(name)
            known = column < len(delta) and column < len(nodes.allocatable)
            if known and (delta[column] > 0 or name in _ALWAYS):
                columns.append(column)
        return columns


_FEW = 8
"""For so few rows nothing is kept."""
_MOST_KEPT = 8
"""Sets of resources that are kept."""


@dataclass(slots=True)
class _Now:
    """Nodes without the pod that is scored. `balance`: int64[rows]; by resource, what else is needed to tell it."""

    balance: Scores
    divisors: list[npt.NDArray[np.float64]]
    present: list[Mask]

    @classmethod
    def of(cls, cluster: ClusterState, columns: Sequence[int], rows: Rows) -> "_Now":
        """As the nodes are in the present view."""
        nodes = cluster.nodes
        have = [nodes.stated(column)[rows] for column in columns]
        used = [nodes.used[column, : len(nodes)][rows] for column in columns]
        present = [amounts > 0 for amounts in have]
        divisors = [np.maximum(amounts, 1).astype(np.float64) for amounts in have]
        return cls(_balance(used, divisors, present), divisors, present)

    def only(self, rows: Rows) -> "_Now":
        """Return those of some rows."""
        return _Now(self.balance[rows], [item[rows] for item in self.divisors], [item[rows] for item in self.present])

    def replace(self, rows: npt.NDArray[np.int64], others: "_Now") -> None:
        """Other nodes on some rows."""
        self.balance[rows] = others.balance
        for mine, other in zip(self.divisors, others.divisors, strict=True):
            mine[rows] = other
        for own, another in zip(self.present, others.present, strict=True):
            own[rows] = another


Amounts = npt.NDArray[np.int64]
_ALWAYS = ("cpu", "memory", "ephemeral-storage")


def _balance(used: Sequence[Amounts], divisors: Sequence[npt.NDArray[np.float64]], present: Sequence[Mask]) -> Scores:
    """`int64[rows]`: 50..100 by the share of each resource that is used, where it is present."""
    fractions = [np.minimum(amounts / divisor, 1.0) for amounts, divisor in zip(used, divisors, strict=True)]
    if len(fractions) == 2:
        deviation = np.abs((fractions[0] - fractions[1]) / 2)
        both = present[0] & present[1]
        if not both.all():
            deviation[~both] = 0.0
    else:
        deviation = _deviation(np.array(fractions), np.array(present))
    balance: Scores = ((1 - deviation) * MAX_NODE_SCORE).astype(np.int64)
    return balance


def _deviation(fractions: npt.NDArray[np.float64], present: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """`float64[rows]`: standard deviation over the resources a node has; fewer than two is none.

    With exactly two, upstream takes half the difference; the general formula rounds differently, so it is kept apart.
    """
    count = present.sum(axis=0)
    known = np.where(present, fractions, 0.0)
    mean = known.sum(axis=0) / np.maximum(count, 1)
    square = np.where(present, (fractions - mean) ** 2, 0.0).sum(axis=0)
    general = np.sqrt(square / np.maximum(count, 1))
    high = np.where(present, fractions, -np.inf).max(axis=0, initial=-np.inf)
    low = np.where(present, fractions, np.inf).min(axis=0, initial=np.inf)
    result: npt.NDArray[np.float64] = np.select([count < 2, count == 2], [0.0, (high - low) / 2], general)
    return result
