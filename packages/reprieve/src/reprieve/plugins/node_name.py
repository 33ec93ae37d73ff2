"""NodeName: a pod with `spec.nodeName` runs only on that node."""

from typing import ClassVar

import numpy as np

from reprieve.framework.events import EventKind, Hints, always
from reprieve.framework.plugin import Codes, CycleState, FilterPlugin, Mask, Rows, Scope, row_count
from reprieve.framework.status import SKIP, SUCCESS, UNRESOLVABLE, Status


class NodeName(FilterPlugin):
    """Filter nodes by `spec.nodeName` of a pod to schedule."""

    name = "NodeName"
    scope: ClassVar[Scope] = Scope.STATIC

    def pre_filter(self, state: CycleState) -> Status:
        """Skip pods that name no node."""
        return SUCCESS if state.signature.node_name else SKIP

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        wanted = state.signature.node_name
        codes = np.zeros(row_count(state.cluster, rows), dtype=np.int8)
        if wanted:
            wanted_row = state.cluster.nodes.row_of.get(wanted, -1)
            numbers = np.arange(len(state.cluster.nodes))[rows]
            codes[numbers != wanted_row] = UNRESOLVABLE
        return codes

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        return [("node(s) didn't match the requested node name", self.filter(state, rows) != 0)]

    def events(self) -> Hints:
        """Return the event of an added node."""
        return {EventKind.NODE_ADDED: always}
