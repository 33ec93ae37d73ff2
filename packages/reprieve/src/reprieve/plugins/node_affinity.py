"""NodeAffinity: nodeSelector, required and preferred node affinity (`reprieve.cluster.node_affinity_masks`)."""

from typing import ClassVar

import numpy as np

from kube_rules import objects
from reprieve.cluster.node_affinity_masks import affinity_mask, named_nodes, required_mask, term_mask
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.signature import PodSpecSignature
from reprieve.cluster.state import ClusterState
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
    row_count,
)
from reprieve.framework.status import SUCCESS, UNRESOLVABLE, Code, Status


def _selects(signature: PodSpecSignature) -> bool:
    return bool(signature.node_selector) or (
        signature.affinity is not None and signature.affinity.node_affinity is not None
    )


def _preferred(affinity: objects.NodeAffinity | None) -> tuple[objects.PreferredSchedulingTerm, ...]:
    return affinity.preferred_during_scheduling_ignored_during_execution if affinity is not None else ()


NOT_MATCHED = "node(s) didn't match Pod's node affinity/selector"
CONFLICT = "pod affinity terms conflict"
_CONFLICT = Status(Code.UNRESOLVABLE, CONFLICT, "NodeAffinity")
NOT_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"


class NodeAffinityPlugin(FilterPlugin, ScorePlugin):
    """Filter and score nodes by node selectors and node affinity. Default weight 2.

    `added` is node affinity for every pod of the profile in addition to its own (NodeAffinityArgs.addedAffinity).
    """

    name = "NodeAffinity"
    scope: ClassVar[Scope] = Scope.STATIC
    by_node_constraints: ClassVar[bool] = True
    normalizes: ClassVar[bool] = True

    def __init__(self, added: objects.NodeAffinity | None = None) -> None:
        self._added = added

    def pre_filter(self, state: CycleState) -> Status:
        """Reject a pod if its required terms all name contradicting nodes."""
        return _CONFLICT if named_nodes(state.signature) == set() else SUCCESS

    def narrowed(self, state: CycleState) -> Mask | None:
        """Return the named nodes if every required term names its nodes, as for pods of a DaemonSet."""
        names = named_nodes(state.signature)
        if names is None:
            return None
        nodes = state.cluster.nodes
        mask = np.zeros(len(nodes), dtype=np.bool_)
        mask[[nodes.row_of[name] for name in names if name in nodes.row_of]] = True
        return mask

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        """See `FilterPlugin.filter`; preemption cannot change a label."""
        if not _selects(state.signature) and self._added is None:
            return np.zeros(row_count(state.cluster, rows), dtype=np.int8)
        nodes = state.cluster.nodes
        mask = required_mask(nodes, state.signature)
        if self._added is not None:
            mask = mask & affinity_mask(nodes, self._added)
        return (~mask[rows]).astype(np.int8) * np.int8(UNRESOLVABLE)

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        """Return upstream's messages; the profile's own affinity is checked first."""
        rejected = self.filter(state, rows) != 0
        result = []
        if self._added is not None:
            enforced = affinity_mask(state.cluster.nodes, self._added)[rows]
            result.append((NOT_ENFORCED, rejected & ~enforced))
            rejected = rejected & enforced
        return [(NOT_MATCHED, rejected), *result]

    def pre_score(self, state: CycleState) -> bool:
        """Return whether there are preferred terms."""
        affinity = state.signature.affinity
        return bool(_preferred(self._added)) or (affinity is not None and bool(_preferred(affinity.node_affinity)))

    def score(self, state: CycleState, rows: Rows) -> Scores:
        """Return the sums of the weights of the matching preferred terms, including added ones."""
        nodes = state.cluster.nodes
        total = np.zeros(len(nodes), dtype=np.int64)
        affinity = state.signature.affinity
        own = _preferred(affinity.node_affinity) if affinity is not None else ()
        for preferred in (*_preferred(self._added), *own):
            term = preferred.preference
            if preferred.weight and (term.match_expressions or term.match_fields):
                total += preferred.weight * term_mask(nodes, term)
        return total[rows]

    def normalize(self, state: CycleState, scores: Scores) -> Scores:
        """Scale the scores so that the highest sum gets 100."""
        return default_normalize(scores, reverse=False)

    def events(self) -> Hints:
        """Return the events of nodes with matching labels."""
        return {EventKind.NODE_ADDED: self._matches_now, EventKind.NODE_CHANGED: self._matches_now}

    def _matches_now(self, cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
        own = not _selects(pod.signature) or bool(required_mask(cluster.nodes, pod.signature)[event.row])
        return own and (self._added is None or bool(affinity_mask(cluster.nodes, self._added)[event.row]))
