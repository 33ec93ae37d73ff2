"""ImageLocality: nodes that have the pod's images already start it sooner.

Rules (kubernetes/kubernetes pkg/scheduler/framework/plugins/imagelocality): each container with an image that is on the
node, init containers included, adds the image's size, scaled down by the share of nodes that have it, so that not
everything goes to the one node that does.  The sum counts from 23 MiB (0) to 1000 MiB per container (100).

An image that nodes report in different sizes counts as large as on the first of them by name; upstream takes the size
it saw first.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from reprieve.cluster.nodes import NodeColumns
from reprieve.framework.plugin import MAX_NODE_SCORE, CycleState, Rows, Scope, ScorePlugin, Scores

_MIB = 1024 * 1024
_LEAST = 23 * _MIB
_MOST = 1000 * _MIB
"""Per container."""


class ImageLocality(ScorePlugin):
    """Images on nodes. Default weight 1."""

    name = "ImageLocality"
    scope: ClassVar[Scope] = Scope.STATIC

    def pre_score(self, state: CycleState) -> bool:
        """Skipped while no node reports one of the images: all would score 0."""
        nodes = state.cluster.nodes
        return any(nodes.rows_with_image(image) for image in state.signature.images)

    def score(self, state: CycleState, rows: Rows) -> Scores:
        nodes, images = state.cluster.nodes, state.signature.images
        total = np.zeros(len(nodes), dtype=np.int64)
        for image in images:
            there = list(nodes.rows_with_image(image))
            if there:
                total[there] += _scaled(nodes, image, there)
        most = _MOST * len(images)
        scores: Scores = MAX_NODE_SCORE * (np.clip(total, _LEAST, most) - _LEAST) // (most - _LEAST)
        return scores[rows]


def _scaled(nodes: NodeColumns, image: str, there: Sequence[int]) -> int:
    """Bytes times the share of nodes that have the image, in floating point and truncated as upstream."""
    size = nodes.image_size(image, min(there, key=nodes.names.__getitem__))
    return int(float(size) * (float(len(there)) / float(nodes.count)))
