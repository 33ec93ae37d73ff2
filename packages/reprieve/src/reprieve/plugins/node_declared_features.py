"""NodeDeclaredFeatures: a pod runs only on nodes that declare the features its spec needs (KEP-5328).

`kube_rules.node_features` determines the needs of a pod. Evicting pods does not add features.
"""

from typing import ClassVar

import numpy as np

from reprieve.cluster.nodes import NodeColumns
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.events import ClusterEvent, EventKind, Hints
from reprieve.framework.plugin import Codes, CycleState, FilterPlugin, Mask, Rows, Scope, row_count
from reprieve.framework.status import SKIP, SUCCESS, UNRESOLVABLE, Status

LACKING = "node(s) didn't match Pod's required features"


class NodeDeclaredFeatures(FilterPlugin):
    """See the module docstring. With `on=False` (the gate of the same name) it accepts every node."""

    name = "NodeDeclaredFeatures"
    scope: ClassVar[Scope] = Scope.STATIC
    by_node_constraints: ClassVar[bool] = True

    def __init__(self, *, on: bool = True) -> None:
        self._on = on

    def concerns(self, state: CycleState) -> bool:
        """Return whether the pod needs a feature that not every node has."""
        return self._on and bool(state.signature.constraints.nodes.features)

    def pre_filter(self, state: CycleState) -> Status:
        """Skip pods that need no feature."""
        return SUCCESS if self.concerns(state) else SKIP

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        if not self.concerns(state):
            return np.zeros(row_count(state.cluster, rows), dtype=np.int8)
        nodes = state.cluster.nodes
        lacks = np.array([not _has(have, state.signature.constraints.nodes.features) for have in nodes.feature_sets])
        return np.where(lacks[nodes.feature_set[: len(nodes)][rows]], UNRESOLVABLE, 0).astype(np.int8)

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        return [(LACKING, self.filter(state, rows) != 0)]

    def events(self) -> Hints:
        """Return the events of nodes that declare the needed features."""
        return {EventKind.NODE_ADDED: _declares, EventKind.NODE_CHANGED: _declares}


def _has(declared: frozenset[str], needed: tuple[str, ...]) -> bool:
    return declared.issuperset(needed)


def _declares(cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
    nodes: NodeColumns = cluster.nodes
    return _has(nodes.feature_sets[nodes.feature_set[event.row]], pod.signature.constraints.nodes.features)
