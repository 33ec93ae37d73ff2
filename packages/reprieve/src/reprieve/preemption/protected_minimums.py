"""Gangs with a minimum that is protected from peers: `below-minimum: Protect` (cost.md 2.9).

Terms: the *surplus* of a gang is the number of pods that it may lose down to its minCount, with terminating pods and
victims counted as lost. A gang below its minCount has no protection.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from kube_rules.work_annotations import NO_CLASS_TERMS, PROTECT
from reprieve.cluster.groups import GroupState
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.preemption.eviction_limits import SYSTEM_CRITICAL
from reprieve.preemption.units import PreemptionUnit

MINIMUM_KEPT = "a gang would fall below its protected minimum"
"""The reason why a node is no candidate."""


def protected_priority(cluster: ClusterState, pod: PodRecord) -> int | None:
    """Return the highest preemptor priority against which a pod's gang keeps its minimum; None if unprotected.

    This is the priority of the gang as a victim, or a higher one that the classes of the pod and of its group both set.
    """
    group = cluster.groups.get(pod.group) if pod.group is not None else None
    if group is None or group.spec is None or cluster.terms_of(pod).below_minimum != PROTECT:
        return None
    own = pod.priority if group.victim_priority is None else group.victim_priority
    names = {pod.class_name, group.spec.class_name} if group.spec.class_name else {pod.class_name}
    grants = [cluster.classes.get(name, NO_CLASS_TERMS).grant_in(pod.namespace) for name in names]
    return max(own, min(own if grant.protected_priority is None else grant.protected_priority for grant in grants))


def surplus_of(cluster: ClusterState, group: GroupState) -> int | None:
    """Return the number of pods that a gang may lose down to its minCount; None for others and below minCount."""
    going = sum(1 for pod in group.members.values() if pod.uid in cluster.doomed and pod.row >= 0 and _stays(pod))
    surplus = group.scheduled - going - group.min_count
    return surplus if group.is_gang and surplus >= 0 else None


def _stays(pod: PodRecord) -> bool:
    return not pod.terminating


class ProtectedMinimums:
    """The number of pods of each gang that a preemptor of that priority may evict, in the present view."""

    refusal = MINIMUM_KEPT

    def __init__(self, cluster: ClusterState, priority: int) -> None:
        self._cluster, self._priority = cluster, priority
        self._on = cluster.work_rules.protects_minimums and priority < SYSTEM_CRITICAL
        self._surplus: dict[str, int | None] = {}

    def violated_by(self, victims: Sequence[PreemptionUnit]) -> bool:
        """Return whether evicting all of them takes a protected gang below its minimum."""
        return len(self._within(victims)) < len(victims)

    def affordable(self, units: Sequence[PreemptionUnit]) -> list[PreemptionUnit]:
        """Return units that may be evicted together, the least important first; protected gangs keep their minimum."""
        return self._within(sorted(units, key=lambda unit: unit.importance, reverse=True))

    def breaks(self, unit: PreemptionUnit) -> str | None:
        """Return the first gang, as `namespace/name`, with a minimum that protects the unit; None if none does."""
        return min((key for key, count in self._taken(unit).items() if count > self._left(key)), default=None)

    def _within(self, units: Iterable[PreemptionUnit]) -> list[PreemptionUnit]:
        """Return the units without those that take a gang below its minimum together with the ones before them."""
        if not self._on:
            return list(units)
        lost: Counter[str] = Counter()
        result = []
        for unit in units:
            losses = self._taken(unit)
            if all(lost[key] + count <= self._left(key) for key, count in losses.items()):
                lost.update(losses)
                result.append(unit)
        return result

    def _left(self, key: str) -> int:
        surplus = self._surplus[key]
        assert surplus is not None
        return surplus

    def _taken(self, unit: PreemptionUnit) -> Counter[str]:
        """Return the number of pods that each protected gang loses by a unit's eviction, by `namespace/name`."""
        cluster, result = self._cluster, Counter[str]()
        for pod in unit.pods if self._on else ():
            if pod.group is None or pod.terminating or pod.uid in cluster.doomed:
                continue
            level = protected_priority(cluster, pod)
            if level is None or self._priority > level:
                continue
            if pod.group not in self._surplus:
                self._surplus[pod.group] = surplus_of(cluster, cluster.groups[pod.group])
            if self._surplus[pod.group] is not None:
                result[pod.group] += 1
        return result


def told_of_protected(cluster: ClusterState, priority: int, units: Iterable[PreemptionUnit]) -> str:
    """Return a text about units that are protected by the minimum of their gang; empty if there are none."""
    if not cluster.work_rules.protects_minimums:
        return ""
    minimums = ProtectedMinimums(cluster, priority)
    protected = [(unit.name, key) for unit in units if (key := minimums.breaks(unit)) is not None]
    if not protected:
        return ""
    name, key = min(protected)
    number = "1 workload is" if len(protected) == 1 else f"{len(protected)} workloads are"
    of = f" of gang {key}" if name != key else ""
    return f"{number} protected by below-minimum: Protect, {name}{of}"
