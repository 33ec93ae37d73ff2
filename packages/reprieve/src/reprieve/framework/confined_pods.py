"""Running pods that may use no node but their own, whatever runs elsewhere (cost.md 1.9).

A pod is *confined* if its node selector, its node affinity and the taints of the nodes leave it no other node than the
one it runs on.  It is computed once for each set of node constraints, not for each pod, and again when nodes change:
where the constraints name their nodes (DaemonSets), only when one of these does.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from reprieve.cluster.node_affinity_masks import named_nodes, required_mask
from reprieve.cluster.pods import NO_ROW, PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.plugin import Mask

_SEVERAL: Final = -2
_FOR_EACH_NODE, _MORE = 2, 1024
"""So many sets of node constraints are remembered for each node, and for all of them."""


class ConfinedPods:
    """See the module docstring. `allowed`: bool[rows], the nodes that a pod may use by its node constraints."""

    def __init__(self, cluster: ClusterState, allowed: Callable[[PodRecord], Mask]) -> None:
        self._nodes, self._allowed = cluster.nodes, allowed
        self._only: dict[int, tuple[int, PodRecord]] = {}
        """By node constraints: the one row that is left, `_SEVERAL` or NO_ROW, and a pod that has them."""
        self._unnamed: set[int] = set()
        """Node constraints that do not name their nodes."""
        self._naming: dict[str | int, set[int]] = {}
        """By name, and by the row that the node of that name had: the node constraints that name it."""
        self._seen = self._nodes.static_version
        self._changes = 0

    def version(self) -> int:
        """Return a number that grows when pods become confined, or are no longer, because nodes have changed."""
        if self._seen != self._nodes.static_version:
            stale, names = set(self._unnamed), self._nodes.names
            for row in self._nodes.changed_since(self._seen):
                stale |= self._naming.get(names[row], set()) | self._naming.pop(row, set())
            self._seen = self._nodes.static_version
            for key in sorted(stale):
                row, pod = self._only[key]
                self._changes += self._known(key, pod) != row
        if len(self._only) > _FOR_EACH_NODE * len(self._nodes) + _MORE:
            for kept in (self._only, self._unnamed, self._naming):
                kept.clear()
            self._changes += 1  # what happens to those that are forgotten is not noticed
        return self._changes

    def count(self, pods: Sequence[Sequence[PodRecord]], rows: Sequence[Sequence[int]]) -> list[int]:
        """Return how many pods of each unit are confined to the rows they run on."""
        self.version()
        only, result = self._only, []
        for members, there in zip(pods, rows, strict=True):
            confined = 0
            for pod, row in zip(members, there, strict=True):
                key = pod.signature.constraints.nodes.id
                left = only[key][0] if key in only else self._known(key, pod)
                confined += left != _SEVERAL and left in (row, NO_ROW)
            result.append(confined)
        return result

    def _known(self, key: int, pod: PodRecord) -> int:
        """Return the one row that is left (`_only`), from now on known."""
        names = named_nodes(pod.signature)
        if names is None:
            self._unnamed.add(key)
        for name in names or ():
            for place in (name, self._nodes.row_of.get(name)):
                if place is not None:
                    self._naming.setdefault(place, set()).add(key)
        row = self._row_of(pod)
        self._only[key] = row, pod
        return row

    def _row_of(self, pod: PodRecord) -> int:
        mask = required_mask(self._nodes, pod.signature)
        few = np.flatnonzero(mask)  # each pod of a DaemonSet has its own
        if len(few) > 1 or (len(few) and few[0] != pod.row):
            few = np.flatnonzero(mask & self._allowed(pod))
        return _SEVERAL if len(few) > 1 else int(few[0]) if len(few) else NO_ROW
