"""PodGroupPodsCount: rather the placement that holds more of the group's pods (KEP-5732)."""

from collections.abc import Sequence
from typing import ClassVar

from reprieve.cluster.groups import Group
from reprieve.cluster.state import ClusterState
from reprieve.framework.plugin import MAX_NODE_SCORE, Assigned, Placement, PlacementScorePlugin


class PodGroupPodsCount(PlacementScorePlugin):
    """Members that run already and those that would be placed, as a share of the most in any placement."""

    name = "PodGroupPodsCount"
    by_count: ClassVar[bool] = True

    def score_placement(self, _cluster: ClusterState, group: Group, _placement: Placement, assigned: Assigned) -> int:
        """Return how many pods of the group would run."""
        return group.scheduled + len(assigned)

    def normalize_placements(self, scores: Sequence[int]) -> Sequence[int]:
        """100 for the largest count, the others in proportion, rounded down as upstream does."""
        most = max(scores, default=0)
        return [score * MAX_NODE_SCORE // most for score in scores] if most else scores
