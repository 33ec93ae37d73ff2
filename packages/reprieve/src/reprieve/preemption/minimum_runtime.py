"""The end of the stated minimum runtime of work (cost.md 2.6).

Of the pods of a unit, the longest minimum counts, from the earliest start; pods that have not started are within any
minimum above zero.
"""

from collections.abc import Iterable

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState


def runtime_is_over(cluster: ClusterState, pods: Iterable[PodRecord], start: float) -> float:
    """Return when the pods, of which the first started at `start`, have run their minimum, in seconds since the epoch.

    A time that is not in the future means that they have, or that none is stated.
    """
    least = max((cluster.terms_of(pod).minimum_runtime or 0.0 for pod in pods), default=0.0)
    return min(start, cluster.now) + least
