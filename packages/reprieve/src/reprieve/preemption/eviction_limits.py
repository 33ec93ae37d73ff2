"""Limits of evictions (cost.md 9).

A unit of a namespace, owner or priority class that has reached a limit is no potential victim, and units that together
would exceed a limit are not evicted together.  Preemptors that are critical for the system are exempt.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from kube_rules.durations import readable_duration, readable_time
from reprieve.cluster.evictions import EVICTIONS, OWNER, PRIORITY_CLASS, EvictedUnit, EvictionLimit
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.preemption.outcome import Deferral, DeferralReason
from reprieve.preemption.units import ABOVE_ALL, PreemptionUnit, units_below

SYSTEM_CRITICAL: Final = 2_000_000_000
"""The priority of system-cluster-critical: preemptors with at least this priority are exempt."""
LIMIT_KEPT: Final = "an eviction limit would be exceeded"
"""The reason why a node is no candidate."""
_SOONEST: Final = 1.0
"""Seconds after which a preemptor that waits for a limit is tried again at the earliest."""


def limited(cluster: ClusterState, priority: int) -> bool:
    """Return whether limits may block an eviction for a preemptor of that priority now."""
    return priority < SYSTEM_CRITICAL and cluster.evictions.bind(cluster.now)


def evicted_unit(cluster: ClusterState, unit: PreemptionUnit) -> EvictedUnit:
    """Return the names for which an evicted unit counts.

    Its owner is the highest known controller: of the group for a group that is evicted as a whole, otherwise of the
    pod, then of its group. Without one it is the group or the pod, by name.
    """
    pod = unit.pods[0]
    group = unit.group if unit.group is not None else cluster.groups.get(pod.group) if pod.group is not None else None
    of_group = group.owner if group is not None else None
    of_pods = min((member.owner for member in unit.pods if member.owner is not None), default=None)
    owner = of_group or of_pods if unit.group is not None else of_pods or of_group
    if owner is not None:
        _, kind, name = cluster.controllers.highest(pod.namespace, owner, pod.labels)
    else:
        kind, name = (group.kind, group.name) if group is not None else ("Pod", pod.name)
    class_name = group.spec.class_name if group is not None and group.spec is not None else ""
    return EvictedUnit(
        pod.uid, pod.namespace, f"{kind.lower()} {pod.namespace}/{name}", class_name or pod.class_name, pod.start
    )


def _goes_already(cluster: ClusterState, unit: PreemptionUnit) -> bool:
    return all(pod.terminating or pod.uid in cluster.doomed for pod in unit.pods)


def beyond_limits(cluster: ClusterState, unit: PreemptionUnit) -> tuple[float, str] | None:
    """Return until when (seconds since the epoch) limits protect a unit, and the limit; None if they do not."""
    if _goes_already(cluster, unit):
        return None
    counts = evicted_unit(cluster, unit)
    protection = None
    for index, limit in enumerate(cluster.evictions.limits):
        used = cluster.evictions.used(index, counts, cluster.now)
        if len(used) < limit.most or cluster.evictions.counted(index, counts):
            continue
        until = used[-limit.most] + limit.within
        if protection is None or until > protection[0]:
            protection = until, _told(limit, counts)
    return protection


def protected_from_its_start(cluster: ClusterState, pod: PodRecord) -> float | None:
    """Return until when (seconds since the epoch) limits would protect a pending pod if it ran; None if they do not."""
    if not cluster.evictions.bind(cluster.now):
        return None
    beyond = beyond_limits(cluster, PreemptionUnit(pod.key, (pod,), (pod.row,), pod.priority, False, None))
    return beyond[0] if beyond is not None else None


def _told(limit: EvictionLimit, unit: EvictedUnit) -> str:
    of = {OWNER: f" of {unit.owner}", PRIORITY_CLASS: f" of class {unit.priority_class or 'none'}"}
    scope = of.get(limit.per, f" in namespace {unit.namespace}" if limit.per != "cluster" else "")
    number = "1 eviction" if limit.most == 1 else f"{limit.most} evictions"
    return f"{number}{scope} within {readable_duration(limit.within)}"


def until_limits_allow(cluster: ClusterState, units: Iterable[PreemptionUnit]) -> Deferral | None:
    """Return a deferral until a limit stops protecting the first of these units, or allows more evictions together.

    None if no limit blocks units that it will later allow.
    """
    evictions, now = cluster.evictions, cluster.now
    protected: list[tuple[float, str, str]] = []
    frees: list[float] = []
    for unit in units:
        beyond = beyond_limits(cluster, unit)
        if beyond is not None:
            protected.append((beyond[0], unit.name, beyond[1]))
        counts = evicted_unit(cluster, unit)
        for index, limit in enumerate(evictions.limits):
            if limit.count == EVICTIONS and (used := evictions.used(index, counts, now)):
                frees.append(used[0] + limit.within)
    if not protected and not frees:
        return None
    if not protected:
        until = max(min(frees), now + _SOONEST)
        return Deferral(
            DeferralReason.EVICTION_LIMIT, f"eviction limits allow more from {readable_time(until)} on", until
        )
    first, name, limit_text = min(protected)
    number = "1 workload is" if len(protected) == 1 else f"{len(protected)} workloads are"
    text = f"{number} protected by eviction limits, {name} until {readable_time(first)} ({limit_text})"
    return Deferral(DeferralReason.EVICTION_LIMIT, text, max(first, now + _SOONEST))


def count_leaving(cluster: ClusterState, now: float) -> None:
    """Count terminating pods that an earlier scheduler evicted; once, even if there is a record of it."""
    leaving = [pod for pod in cluster.pods.values() if pod.preempted and pod.terminating and pod.row >= 0]
    for unit in (unit for unit in units_below(cluster, ABOVE_ALL, leaving) if unit.pods):
        cluster.evictions.note(evicted_unit(cluster, unit), now)


class RemainingEvictions:
    """The number of units that limits allow to evict together."""

    refusal = LIMIT_KEPT

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._limits = [
            (index, limit) for index, limit in enumerate(cluster.evictions.limits) if limit.count == EVICTIONS
        ]

    def violated_by(self, victims: Sequence[PreemptionUnit]) -> bool:
        """Return whether evicting all of them exceeds a limit."""
        return len(self._within(victims)) < len(victims)

    def affordable(self, units: Sequence[PreemptionUnit]) -> list[PreemptionUnit]:
        """Return units that may be evicted together, the least important first as long as no limit is exceeded."""
        return self._within(sorted(units, key=lambda unit: unit.importance, reverse=True))

    def _within(self, units: Sequence[PreemptionUnit]) -> list[PreemptionUnit]:
        """Return the units without those that exceed a limit together with the ones before them."""
        left: dict[tuple[int, str], int] = {}
        result = []
        for unit in units:
            charged = self._charged(unit, left)
            if all(left[key] > 0 for key in charged):
                result.append(unit)
                for key in charged:
                    left[key] -= 1
        return result

    def _charged(self, unit: PreemptionUnit, left: dict[tuple[int, str], int]) -> list[tuple[int, str]]:
        """Return the limits, and the names, for which a unit counts; add to `left` how many each still allows."""
        evictions, cluster = self._cluster.evictions, self._cluster
        if not self._limits or _goes_already(cluster, unit):
            return []
        counts = evicted_unit(cluster, unit)
        charged = []
        for index, limit in self._limits:
            if not evictions.counted(index, counts):
                key = index, counts.name(limit.per)
                charged.append(key)
                if key not in left:
                    left[key] = limit.most - len(evictions.used(index, counts, cluster.now))
        return charged
