"""NodePorts: only one pod can use a host port per node, protocol and address."""

from typing import ClassVar

import numpy as np

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.events import ClusterEvent, EventKind, Hints, always
from reprieve.framework.plugin import Codes, CycleState, FilterPlugin, Mask, Rows, Scope, row_numbers
from reprieve.framework.status import SKIP, SUCCESS, UNSCHEDULABLE, Status

PORTS_TAKEN = "node(s) didn't have free ports for the requested pod ports"


class NodePorts(FilterPlugin):
    """Filter nodes by the host ports in use."""

    name = "NodePorts"
    scope: ClassVar[Scope] = Scope.NODE

    def pre_filter(self, state: CycleState) -> Status:
        """Skip pods without host ports."""
        return SUCCESS if state.signature.ports else SKIP

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        """See `FilterPlugin.filter`. Only the few nodes with host ports in use are checked."""
        nodes, wanted = state.cluster.nodes, state.signature.ports
        numbers = row_numbers(state.cluster, rows)
        codes = np.zeros(len(numbers), dtype=np.int8)
        if wanted:
            for index, row in enumerate(numbers):
                if nodes.ports[row] and nodes.conflicting_port(row, wanted) is not None:
                    codes[index] = UNSCHEDULABLE
        return codes

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        return [(PORTS_TAKEN, self.filter(state, rows) != 0)]

    def events(self) -> Hints:
        """Return the events of removed pods with a wanted port, and of added nodes."""
        return {EventKind.POD_GONE: _freed_a_port, EventKind.NODE_ADDED: always}


def _freed_a_port(_cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
    if event.pod is None:
        return True
    wanted = {(protocol, port) for protocol, _, port in pod.signature.ports}
    return any((protocol, port) in wanted for protocol, _, port in event.pod.signature.ports)
