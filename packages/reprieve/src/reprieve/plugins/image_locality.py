"""ImageLocality: prefer nodes that already have the pod's images.

Rules (kubernetes/kubernetes pkg/scheduler/framework/plugins/imagelocality): each container with an image on the node,
including init containers, adds the image's size, scaled down by the share of nodes that have it. This scaling prevents
all pods from going to one node. The sum counts from 23 MiB (0) to 1000 MiB per container (100).

An image with different sizes on nodes has the size of the first node by name; upstream uses the size it saw first.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from reprieve.cluster.nodes import NodeColumns
from reprieve.framework.plugin import MAX_NODE_SCORE, CycleState, Rows, Scope, ScorePlugin, Scores

_MIB = 1024 * 1024
_LEAST = 23 * _MIB
_MOST = 1000 * _MIB
"""The maximum per container."""


class ImageLocality(ScorePlugin):
    """Score nodes by the pod's images on them. Default weight 1."""

    name = "ImageLocality"
    scope: ClassVar[Scope] = Scope.STATIC

    def pre_score(self, state: CycleState) -> bool:
        """Return whether any node reports one of the images; otherwise all scores would be 0."""
        nodes = state.cluster.nodes
        return any(nodes.rows_with_image(image) for image in state.signature.images)

    def score(self, state: CycleState, rows: Rows) -> Scores:
        nodes, images = state.cluster.nodes, state.signature.images
        total = np.zeros(len(nodes), dtype=np.int64)
        for image in images:
            rows_with_image = list(nodes.rows_with_image(image))
            if rows_with_image:
                total[rows_with_image] += _scaled(nodes, image, rows_with_image)
        most = _MOST * len(images)
        scores: Scores = MAX_NODE_SCORE * (np.clip(total, _LEAST, most) - _LEAST) // (most - _LEAST)
        return scores[rows]


def _scaled(nodes: NodeColumns, image: str, rows_with_image: Sequence[int]) -> int:
    """Return the size in bytes times the share of nodes that have the image, truncated as upstream."""
    size = nodes.image_size(image, min(rows_with_image, key=nodes.names.__getitem__))
    return int(float(size) * (float(len(rows_with_image)) / float(nodes.count)))
