"""Gangs stay on nodes with one model of GPU: a plugin that proposes placements, and ranks them."""

from collections.abc import Sequence

import numpy as np

import reprieve


class SameModel(reprieve.PlacementGeneratePlugin, reprieve.PlacementScorePlugin):
    """One placement for each value of the label; of those in which the gang fits, the one with the fewest nodes."""

    name = "SameModel"
    label = "example.com/gpu-model"
    by_count = True  # where in a placement the pods are makes no difference to its score

    def generate(self, cluster: reprieve.ClusterState, group: reprieve.Group) -> Sequence[reprieve.Placement] | None:
        """The nodes of each model; None, any node will do, for groups that are no gang."""
        if not group.is_gang:
            return None
        nodes = cluster.nodes
        column, numbers = nodes.label_column(self.label)
        alive = nodes.alive[: len(nodes)]
        models = self._models_of_members(cluster, group) or sorted(numbers)
        placements = [(model, np.flatnonzero(alive & (column == numbers[model]))) for model in models]
        return [reprieve.Placement(model, rows) for model, rows in placements if len(rows)]

    def score_placement(
        self,
        cluster: reprieve.ClusterState,
        group: reprieve.Group,
        placement: reprieve.Placement,
        assigned: reprieve.Assigned,
    ) -> int:
        """The number of nodes; `normalize_placements` turns it round."""
        return len(placement.rows)

    def normalize_placements(self, scores: Sequence[int]) -> Sequence[int]:
        """0..100: the fewest nodes first."""
        return [100 * min(scores) // score for score in scores]

    def _models_of_members(self, cluster: reprieve.ClusterState, group: reprieve.Group) -> list[str]:
        """The model that members run on already, if any do: the others follow them."""
        labels = [cluster.nodes.labels[pod.row] for pod in group.running()]
        found = {each[self.label] for each in labels if self.label in each}
        if len(found) > 1:
            raise reprieve.PlacementError(f"its pods run on several models: {', '.join(sorted(found))}")
        return sorted(found)
