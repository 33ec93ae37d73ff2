"""Try preemptors again when a gang with a protected minimum has more pods than that (cost.md 2.9).

Invariant: deleted gangs and gangs that may lose no pod have no entry.
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
        self._surplus: dict[str, float] = {}
        """Number of pods that a gang could lose at its last check, by `namespace/name`; none are left out."""

    def review(self, changed: Iterable[str], now: float) -> None:
        """Check groups that had an event, by `namespace/name`."""
        if not self._cluster.work_rules.protects_minimums:
            self._surplus.clear()
            return
        for key in changed:
            before, group = self._surplus.pop(key, 0.0), self._cluster.groups.get(key)
            running = list(group.running()) if group is not None else []
            if group is None or not running or protected_priority(self._cluster, running[0]) is None:
                continue
            surplus = surplus_of(self._cluster, group)
            may_go = inf if surplus is None else surplus
            if may_go:
                self._surplus[key] = may_go
            if may_go > before:
                self._queue.retry_above(min(effective_priority(self._cluster, pod) for pod in running), now)
