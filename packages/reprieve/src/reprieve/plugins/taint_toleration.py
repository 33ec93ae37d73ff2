"""TaintToleration: taints keep pods away unless tolerated; PreferNoSchedule only lowers the score.

Taints are interned as sets (`NodeColumns.taint_sets`), so a signature is compared with each distinct set once and the
answer is looked up by row.
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


class TaintToleration(FilterPlugin, ScorePlugin):
    """Taints of nodes against tolerations of pods. Default weight 3."""

    name = "TaintToleration"
    scope: ClassVar[Scope] = Scope.STATIC
    by_node_constraints: ClassVar[bool] = True
    normalizes: ClassVar[bool] = True

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        """See `FilterPlugin.filter`; preemption cannot cure a taint."""
        sets = state.cluster.nodes.taint_sets
        rejects = np.array([untolerated(state.signature.tolerations, taints) for taints in sets], dtype=np.int8)
        return rejects[self._sets(state, rows)] * np.int8(UNRESOLVABLE)

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        return [("node(s) had untolerated taint(s)", self.filter(state, rows) != 0)]

    def score(self, state: CycleState, rows: Rows) -> Scores:
        """Return how many PreferNoSchedule taints the pod does not tolerate: fewer is better after `normalize`."""
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
        """Reversed: no intolerable taint is 100."""
        return default_normalize(scores, reverse=True)

    def events(self) -> Hints:
        """A node with taints that the pod tolerates."""
        return {EventKind.NODE_ADDED: _tolerated_now, EventKind.NODE_CHANGED: _tolerated_now}

    @staticmethod
    def _sets(state: CycleState, rows: Rows) -> npt.NDArray[np.int32]:
        nodes = state.cluster.nodes
        return nodes.taint_set[: len(nodes)][rows]


def _tolerated_now(cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
    nodes = cluster.nodes
    return not untolerated(pod.signature.tolerations, nodes.taint_sets[int(nodes.taint_set[event.row])])
