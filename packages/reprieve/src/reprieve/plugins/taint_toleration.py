"""TaintToleration: untolerated taints exclude pods; PreferNoSchedule only lowers the score.

Taints are interned as sets (`NodeColumns.taint_sets`): a signature is compared once with each distinct set, and rows
look up the result.
"""

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.cluster.taints import tolerates, untolerated
from reprieve.framework.events import ClusterEvent, EventKind, Hints
from reprieve.framework.plugin import (
    Codes,
    CycleState,
    FilterPlugin,
    Mask,
    Rows,
    Scope,
    ScorePlugin,
    Scores,
    default_normalize,
)
from reprieve.framework.status import UNRESOLVABLE

UNTOLERATED = "node(s) had untolerated taint(s)"


class TaintToleration(FilterPlugin, ScorePlugin):
    """Filter and score nodes by taints and tolerations. Default weight 3."""

    name = "TaintToleration"
    scope: ClassVar[Scope] = Scope.STATIC
    by_node_constraints: ClassVar[bool] = True
    normalizes: ClassVar[bool] = True

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        """See `FilterPlugin.filter`; preemption cannot remove a taint."""
        sets = state.cluster.nodes.taint_sets
        rejects = np.array([untolerated(state.signature.tolerations, taints) for taints in sets], dtype=np.int8)
        return rejects[self._sets(state, rows)] * np.int8(UNRESOLVABLE)

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        return [(UNTOLERATED, self.filter(state, rows) != 0)]

    def score(self, state: CycleState, rows: Rows) -> Scores:
        """Return the number of untolerated PreferNoSchedule taints; `normalize` prefers fewer."""
        soft = [t for t in state.signature.tolerations if t.effect in ("", "PreferNoSchedule")]
        counts = np.array(
            [
                sum(1 for t in taints if t[2] == "PreferNoSchedule" and not any(tolerates(s, t) for s in soft))
                for taints in state.cluster.nodes.taint_sets
            ],
            dtype=np.int64,
        )
        return counts[self._sets(state, rows)]

    def normalize(self, state: CycleState, scores: Scores) -> Scores:
        """Scale the scores in reverse, so that a node without untolerated taints gets 100."""
        return default_normalize(scores, reverse=True)

    def events(self) -> Hints:
        """Return the events of nodes with only tolerated taints."""
        return {EventKind.NODE_ADDED: _tolerated_now, EventKind.NODE_CHANGED: _tolerated_now}

    @staticmethod
    def _sets(state: CycleState, rows: Rows) -> npt.NDArray[np.int32]:
        nodes = state.cluster.nodes
        return nodes.taint_set[: len(nodes)][rows]


def _tolerated_now(cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
    nodes = cluster.nodes
    return not untolerated(pod.signature.tolerations, nodes.taint_sets[int(nodes.taint_set[event.row])])
