"""Preemptors are tried again when a gang that keeps its minimum has pods beyond it (cost.md 2.9).

Invariant: nothing is kept of gangs that are gone, or that may lose no pod.
"""

from collections.abc import Iterable
from math import inf

from reprieve.cluster.state import ClusterState
from reprieve.preemption.protected_minimums import protected_priority, surplus_of
from reprieve.preemption.units import effective_priority
from reprieve.queueing.queue import SchedulingQueue


class ProtectedGangs:
    """See the module docstring."""

    def __init__(self, cluster: ClusterState, queue: SchedulingQueue) -> None:
        self._cluster, self._queue = cluster, queue
        self._known: dict[str, float] = {}
        """How many pods a gang could lose when it was looked at last, by `namespace/name`, where that is not none."""

    def review(self, changed: Iterable[str], now: float) -> None:
        """Look at groups that had an event, by `namespace/name`."""
        if not self._cluster.work_rules.protects_minimums:
            self._known.clear()
            return
        for key in changed:
            before, group = self._known.pop(key, 0.0), self._cluster.groups.get(key)
            running = list(group.running()) if group is not None else []
            if group is None or not running or protected_priority(self._cluster, running[0]) is None:
                continue
            surplus = surplus_of(self._cluster, group)
            may_go = inf if surplus is None else surplus
            if may_go:
                self._known[key] = may_go
            if may_go > before:
                self._queue.retry_above(min(effective_priority(self._cluster, pod) for pod in running), now)
