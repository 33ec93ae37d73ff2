"""PodGroupPodsCount: prefer the placement with more of the group's pods (KEP-5732)."""

from collections.abc import Sequence
from typing import ClassVar

from reprieve.cluster.groups import Group
from reprieve.cluster.state import ClusterState
from reprieve.framework.plugin import MAX_NODE_SCORE, Assigned, Placement, PlacementScorePlugin


class PodGroupPodsCount(PlacementScorePlugin):
    """Score a placement by its running and placed members, as a share of the maximum of all placements."""

    name = "PodGroupPodsCount"
    by_count: ClassVar[bool] = True

    def score_placement(self, _cluster: ClusterState, group: Group, _placement: Placement, assigned: Assigned) -> int:
        """Return the number of pods of the group that would run."""
        return group.scheduled + len(assigned)

    def normalize_placements(self, scores: Sequence[int]) -> Sequence[int]:
        """Scale the scores so that the largest count gets 100, rounded down as upstream."""
        most = max(scores, default=0)
        return [score * MAX_NODE_SCORE // most for score in scores] if most else scores
