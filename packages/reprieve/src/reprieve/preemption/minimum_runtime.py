"""When work has run for the minimum that its users say of it (cost.md 2.6).

Of the pods of a unit the longest minimum counts, from the earliest start; what has not started is within any that is
longer than nothing.
"""

from collections.abc import Iterable

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState


def runtime_is_over(cluster: ClusterState, pods: Iterable[PodRecord], start: float) -> float:
    """Return when pods of which the first started at `start` have run their minimum, in seconds since the epoch.

    Now or before: they have, or none is stated.
    """
    least = max((cluster.terms_of(pod).minimum_runtime or 0.0 for pod in pods), default=0.0)
    return min(start, cluster.now) + least
