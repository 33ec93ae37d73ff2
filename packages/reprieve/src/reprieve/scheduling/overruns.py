"""Evictions of backfilled work that runs longer than it stated (reservations.md 4.5).

Invariants: a unit is evicted only while a reservation needs its capacity and waits for nothing else, and after its
stated end and margin; its eviction is requested at most once in `_PAUSE`.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from kube_rules.durations import readable_time
from reprieve.cluster.groups import Group
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.preemption.units import ABOVE_ALL, PreemptionUnit, units_below
from reprieve.scheduling.advance_reservation import AdvanceReservation
from reprieve.scheduling.gang_restarts import may_be_evicted

_PAUSE = 60.0
"""Seconds until the eviction of a unit is requested again: a call failed, or a budget or limit blocked it."""


@dataclass(frozen=True, slots=True)
class Overrun:
    """The eviction of a backfilled unit as a whole."""

    unit: PreemptionUnit
    holder: AdvanceReservation
    """The reservation that needs its capacity."""
    message: str

    @property
    def ref(self) -> str:
        """Return the name of the unit that is evicted."""
        return f"overrun/{self.unit.name}"

    @property
    def by(self) -> str:
        """Return the ref of the entity that needs the capacity."""
        return self.holder.ref

    @property
    def entity(self) -> Group | PodRecord:
        """Return the object that needs the capacity."""
        return self.holder.holder

    @property
    def pods(self) -> tuple[PodRecord, ...]:
        """Return the pods to evict."""
        return self.unit.pods


class Overruns:
    """See the module docstring. Times are seconds since the epoch."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._backfilled: dict[str, tuple[PodRecord, float]] = {}
        """Backfilled pods, and their latest ends with the margin, by UID."""
        self._ends: list[float] = []
        """A heap of these times that are in the future."""
        self._checked_at: dict[str, float] = {}
        self.evictions = 0
        """Number of units that were evicted."""

    def record(self, pods: Iterable[PodRecord], end: float) -> None:
        """Record pods that use reserved capacity until `end`."""
        self._backfilled |= {pod.uid: (pod, end) for pod in pods}
        heapq.heappush(self._ends, end)

    def _late_pods(self, now: float) -> dict[str, PodRecord]:
        """Return the pods that run too long; forget pods that have ended."""
        pods = self._cluster.pods
        for uid in [uid for uid in self._backfilled if uid not in pods]:
            del self._backfilled[uid]
            self._checked_at.pop(uid, None)
        return {
            uid: pod
            for uid, (pod, end) in self._backfilled.items()
            if end <= now and pod.row >= 0 and not pod.terminating
        }

    def review(self, reservations: Iterable[AdvanceReservation], now: float) -> list[Overrun]:
        """Return the units to evict now."""
        while self._ends and self._ends[0] <= now:
            heapq.heappop(self._ends)
        late = self._late_pods(now) if self._backfilled else {}
        if not late:
            return []
        overruns: dict[str, Overrun] = {}
        for holder in reservations:
            if any(pod.uid not in late and not pod.terminating for pod in holder.waits_for):
                continue
            rows = set(holder.rows.tolist())
            for pod in [pod for pod in late.values() if pod.row in rows]:
                if self._checked_at.get(pod.uid, -_PAUSE) + _PAUSE <= now:
                    self._checked_at[pod.uid] = now
                    unit = self._unit(pod)
                    if unit.name not in overruns and may_be_evicted(self._cluster, unit, holder.holder, now):
                        overruns[unit.name] = self._overrun(unit, holder, pod)
        self.evictions += len(overruns)
        return list(overruns.values())

    def next_time(self) -> float | None:
        """Return when `review` is next due, if nothing else happens."""
        return self._ends[0] if self._ends else None

    def _unit(self, pod: PodRecord) -> PreemptionUnit:
        """Return the pods that are evicted with a pod: its gang, if it is evicted as a whole."""
        return units_below(self._cluster, ABOVE_ALL, [pod])[0]

    def _overrun(self, unit: PreemptionUnit, holder: AdvanceReservation, pod: PodRecord) -> Overrun:
        end = readable_time(self._backfilled[pod.uid][1])
        return Overrun(unit, holder, f"its stated end {end} has passed, and its capacity is reserved for {holder.name}")
