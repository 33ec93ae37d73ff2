"""Keep a pool of nodes free of fragments: only jobs that take a whole node may run there (docs/plugins.md)."""

from typing import ClassVar

import msgspec
import numpy as np

import reprieve


class WholeNodesArgs(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """`pluginConfig` args, with their defaults."""

    resource: str = "nvidia.com/gpu"
    pool_label: str = "example.com/pool"
    pool: str = "whole-node"


class WholeNodes(reprieve.FilterPlugin, reprieve.ScorePlugin):
    """Keep pods that request a part of a node's resource off the pool; prefer the pool for pods that request all."""

    name: ClassVar[str] = "WholeNodes"
    args_type: ClassVar[type[WholeNodesArgs] | None] = WholeNodesArgs
    # The answer depends on the pod's requests and on the node itself: it is computed once for all identical pods.
    scope: ClassVar[reprieve.Scope] = reprieve.Scope.NODE

    def __init__(self, args: WholeNodesArgs | None = None) -> None:
        self.args = args or WholeNodesArgs()

    def filter(self, state: reprieve.CycleState, rows: reprieve.Rows) -> reprieve.Codes:
        """A code for every row: what does not fit here fits as little when other pods leave."""
        fragments = self._pool(state, rows) & (self._asked(state) < self._there(state, rows))
        codes: reprieve.Codes = np.where(fragments, reprieve.UNRESOLVABLE, reprieve.FITS).astype(np.int8)
        return codes

    def reasons(self, state: reprieve.CycleState, rows: reprieve.Rows) -> list[tuple[str, reprieve.Mask]]:
        """What a pod's condition says of the rows that were rejected."""
        everywhere = np.ones(reprieve.row_count(state.cluster, rows), dtype=np.bool_)
        return [("node(s) are kept for jobs that take a whole node", everywhere)]

    def pre_score(self, state: reprieve.CycleState) -> bool:
        """Pods that do not ask for the resource are not this plugin's business."""
        return self._asked(state) > 0

    def score(self, state: reprieve.CycleState, rows: reprieve.Rows) -> reprieve.Scores:
        """0..100 for every row: the pool before other nodes, so that those stay free for smaller jobs."""
        scores: reprieve.Scores = np.where(self._pool(state, rows), 100, 0).astype(np.int64)
        return scores

    def events(self) -> reprieve.Hints:
        """A pod that was rejected is tried again when nodes come or change; pods that leave do not help it."""
        return dict.fromkeys((reprieve.EventKind.NODE_ADDED, reprieve.EventKind.NODE_CHANGED), reprieve.always)

    def _asked(self, state: reprieve.CycleState) -> int:
        return state.signature.amounts.get(self.args.resource, 0)

    def _pool(self, state: reprieve.CycleState, rows: reprieve.Rows) -> reprieve.Mask:
        nodes = state.cluster.nodes
        column, numbers = nodes.label_column(self.args.pool_label)
        mask: reprieve.Mask = column[: len(nodes)][rows] == numbers.get(self.args.pool, -2)
        return mask

    def _there(self, state: reprieve.CycleState, rows: reprieve.Rows) -> reprieve.Scores:
        nodes, column = state.cluster.nodes, state.cluster.resources.column(self.args.resource)
        amounts: reprieve.Scores = nodes.allocatable[column, : len(nodes)][rows]
        return amounts
