"""NodeResourcesBalancedAllocation: prefers nodes whose resources the pod would bring closer to like proportions."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from reprieve.cluster.nodes import NodeColumns
from reprieve.cluster.resources import ResourceTable, Vector
from reprieve.framework.plugin import MAX_NODE_SCORE, CycleState, Mask, Rows, Scope, ScorePlugin, Scores


class NodeResourcesBalancedAllocation(ScorePlugin):
    """How balanced a node would be with the pod, compared with now. Default weight 1, over cpu and memory.

    The balance of a node is (1 - standard deviation of the used fractions) * 100, truncated: 50 to 100.  The score is
    50 + (50 + balance with the pod - balance without) / 2, in integers: no change is 75 (kubernetes 1.36, pull request
    135573; before that it was the balance with the pod alone).

    Counts real requests, not the scoring columns; skipped for pods that ask for none of the resources, and without
    extended resources the pod does not ask for.
    """

    name = "NodeResourcesBalancedAllocation"
    scope: ClassVar[Scope] = Scope.NODE
    by_amounts: ClassVar[bool] = True

    def __init__(self, resources: Sequence[str] = ("cpu", "memory")) -> None:
        self._resources = tuple(resources)

    def pre_score(self, state: CycleState) -> bool:
        """Best-effort pods are not balanced."""
        return any(state.signature.amounts.get(name, 0) > 0 for name in self._resources)

    def score(self, state: CycleState, rows: Rows) -> Scores:
        """See `ScorePlugin.score`. Nodes without one of the resources are judged by the others."""
        nodes, delta = state.cluster.nodes, state.signature.delta
        columns = self._columns(state.cluster.resources, nodes, delta)
        n = len(nodes)
        have = [nodes.stated(column)[rows] for column in columns]
        used = [nodes.used[column, :n][rows] for column in columns]
        present = [amounts > 0 for amounts in have]
        divisors = [np.maximum(amounts, 1).astype(np.float64) for amounts in have]
        before = _balance(used, divisors, present)
        after = _balance([u + delta[column] for u, column in zip(used, columns, strict=True)], divisors, present)
        half = MAX_NODE_SCORE // 2
        scores: Scores = half + (half + after - before) // 2
        return scores

    def _columns(self, table: ResourceTable, nodes: NodeColumns, delta: Vector) -> list[int]:
        columns = []
        for name in self._resources:
            column = table.column(name)
            known = column < len(delta) and column < len(nodes.allocatable)
            if known and (delta[column] > 0 or name in _ALWAYS):
                columns.append(column)
        return columns


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
