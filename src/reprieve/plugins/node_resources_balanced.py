"""NodeResourcesBalancedAllocation: prefers nodes whose resources would be used in like proportion."""

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from reprieve.cluster.resources import CPU, MEMORY
from reprieve.framework.plugin import MAX_NODE_SCORE, CycleState, Rows, Scope, ScorePlugin, Scores


class NodeResourcesBalancedAllocation(ScorePlugin):
    """(1 - standard deviation of the used fractions) * 100, truncated. Default weight 1, over cpu and memory.

    Counts real requests, not the scoring columns, and is skipped for pods that ask for none of the resources, as
    upstream does.
    """

    name = "NodeResourcesBalancedAllocation"
    scope: ClassVar[Scope] = Scope.NODE

    def __init__(self, columns: tuple[int, ...] = (CPU, MEMORY)) -> None:
        self._columns = columns

    def pre_score(self, state: CycleState) -> bool:
        """Best-effort pods are not balanced."""
        return any(state.signature.delta[column] > 0 for column in self._columns)

    def score(self, state: CycleState, rows: Rows) -> Scores:
        """See `ScorePlugin.score`. Nodes without one of the resources are judged by the others."""
        nodes, delta = state.cluster.nodes, state.signature.delta
        n = len(nodes)
        fractions: list[npt.NDArray[np.float64]] = []
        present: list[npt.NDArray[np.bool_]] = []
        for column in self._columns:
            have = nodes.allocatable[column, :n][rows]
            used = nodes.used[column, :n][rows] + delta[column]
            fractions.append(np.minimum(used / np.maximum(have, 1), 1.0))
            present.append(have > 0)
        if len(fractions) == 2:
            deviation = np.abs((fractions[0] - fractions[1]) / 2)
            deviation[~(present[0] & present[1])] = 0.0
        else:
            deviation = _deviation(np.array(fractions), np.array(present))
        scores: Scores = ((1 - deviation) * MAX_NODE_SCORE).astype(np.int64)
        return scores


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
