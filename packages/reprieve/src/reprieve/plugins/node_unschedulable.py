"""NodeUnschedulable: cordoned nodes accept no new pods, unless the pod tolerates exactly that taint."""

from typing import ClassVar

import numpy as np

from kube_rules.taints import UNSCHEDULABLE
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.cluster.taints import tolerates
from reprieve.framework.events import ClusterEvent, EventKind, Hints
from reprieve.framework.plugin import Codes, CycleState, FilterPlugin, Mask, Rows, Scope
from reprieve.framework.status import UNRESOLVABLE

CORDONED = "node(s) were unschedulable"
_TAINT = (UNSCHEDULABLE, "", "NoSchedule")


class NodeUnschedulable(FilterPlugin):
    """Filter nodes by `spec.unschedulable`; evicting pods does not help."""

    name = "NodeUnschedulable"
    scope: ClassVar[Scope] = Scope.STATIC
    by_node_constraints: ClassVar[bool] = True

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        cordoned = state.cluster.nodes.unschedulable[: len(state.cluster.nodes)][rows]
        if any(tolerates(t, _TAINT) for t in state.signature.tolerations):
            return np.zeros(len(cordoned), dtype=np.int8)
        return cordoned.astype(np.int8) * np.int8(UNRESOLVABLE)

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        return [(CORDONED, self.filter(state, rows) != 0)]

    def events(self) -> Hints:
        """Return the events of nodes that are schedulable now."""
        return {EventKind.NODE_ADDED: _schedulable_now, EventKind.NODE_CHANGED: _schedulable_now}


def _schedulable_now(cluster: ClusterState, _pod: PodRecord, event: ClusterEvent) -> bool:
    return not cluster.nodes.unschedulable[event.row]
