"""The in-tree criteria by which evictions are compared (cost.md 1).

Each returns the cost of evicting units, for all of them at once; `reprieve.preemption.cost` orders them by the
configuration.  `STANDARD` is the order without a configuration, `UPSTREAM_ORDER` that of kube-scheduler.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import ClassVar, Final

import numpy as np

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.preemption_cost import Costs, EvictionUnits, PreemptionCost
from reprieve.preemption.gangs import broken
from reprieve.preemption.lost_work import lost_by_pod
from reprieve.preemption.minimum_runtime import runtime_is_over

PRIORITY_OFFSET: Final = 1 << 31
"""Added to every priority before summing, so that negative ones count correctly."""


class _TimelessCriterion(PreemptionCost):
    """A criterion with costs that depend only on the units, not on the time or on annotations."""

    timeless: ClassVar[bool] = True
    by_terms: ClassVar[bool] = False
    by_itself: ClassVar[bool] = True


class PdbViolations(_TimelessCriterion):
    """Units that violate a PodDisruptionBudget."""

    name = "pdbViolations"
    text: ClassVar[str] = "fewest PodDisruptionBudget violations"
    measure: ClassVar[str] = "violations"

    def of_units(self, units: EvictionUnits) -> Costs:
        return units.violates.astype(np.float64)


class HighestPriority(_TimelessCriterion):
    """The priority of the most important victim."""

    name = "highestPriority"
    text: ClassVar[str] = "lowest priority of the most important victim"

    def of_units(self, units: EvictionUnits) -> Costs:
        return units.priorities.astype(np.float64)

    def total(self, victims: EvictionUnits) -> float:
        return float(victims.priorities.max())


class PrioritySum(_TimelessCriterion):
    """The priorities of all victim pods, each plus 2^31 so that negative ones count right."""

    name = "prioritySum"
    text: ClassVar[str] = "smallest sum of victim priorities"

    def of_units(self, units: EvictionUnits) -> Costs:
        return (units.priorities + PRIORITY_OFFSET).astype(np.float64) * units.sizes


class Units(_TimelessCriterion):
    """The number of evicted workloads: single pods, and groups that are evicted as a whole."""

    name = "units"
    text: ClassVar[str] = "fewest workloads"
    measure: ClassVar[str] = "workloads"

    def of_units(self, units: EvictionUnits) -> Costs:
        return np.ones(len(units))


class Pods(_TimelessCriterion):
    """The number of evicted pods."""

    name = "pods"
    text: ClassVar[str] = "fewest victim pods"
    measure: ClassVar[str] = "pods"

    def of_units(self, units: EvictionUnits) -> Costs:
        return units.sizes.astype(np.float64)


class StartTime(_TimelessCriterion):
    """The earliest start among the victims of the highest priority, negated: late starters are evicted first."""

    name = "startTime"
    text: ClassVar[str] = "latest start of the most important victims"

    def of_units(self, units: EvictionUnits) -> Costs:
        return -units.starts

    def total(self, victims: EvictionUnits) -> float:
        return -float(victims.starts[victims.priorities == victims.priorities.max()].min())


class LostWorkCost(PreemptionCost):
    """GPU-seconds of work since the last checkpoint, for pods without GPUs CPU-seconds (cost.md 2.1).

    `with_gangs`: for a gang that breaks, the work of all its pods.
    """

    name = "lostWork"
    text: ClassVar[str] = "least lost work"
    measure: ClassVar[str] = "GPU-seconds"

    def beyond_the_node(self, cluster: ClusterState) -> Hashable | None:
        """Return the time and the version of annotations about work: pods tried at the same time share results."""
        return cluster.now, cluster.terms_version, cluster.groups_version

    def __init__(self, *, with_gangs: bool = False) -> None:
        self._with_gangs = with_gangs

    @property
    def by_gang(self) -> bool:  # type: ignore[override]
        """Return whether gangs' work counts."""
        return self._with_gangs

    @property
    def additive(self) -> bool:
        return not self._with_gangs

    def of_units(self, units: EvictionUnits) -> Costs:
        return units.per_unit([gpu + cpu for gpu, cpu in lost_by_pod(units.cluster, units.every_pod)])

    def total(self, victims: EvictionUnits) -> float:
        pods = {pod.uid: pod for pod in victims.every_pod}
        if self._with_gangs:
            for key in broken(victims.every_pod, victims.slack):
                members = victims.cluster.groups[key].members.values()
                pods |= {pod.uid: pod for pod in members if pod.start is not None and not pod.terminating}
        return float(sum(gpu + cpu for gpu, cpu in lost_by_pod(victims.cluster, pods.values())))


class GangsBroken(_TimelessCriterion):
    """Gangs that have their minCount and fall below it."""

    name = "gangsBroken"
    text: ClassVar[str] = "fewest gangs below their minCount"
    measure: ClassVar[str] = "gangs"
    by_gang: ClassVar[bool] = True

    def of_units(self, units: EvictionUnits) -> Costs:
        return np.array([len(broken(pods, units.slack)) for pods in units.pods], dtype=np.float64)

    def total(self, victims: EvictionUnits) -> float:
        return float(len(broken(victims.every_pod, victims.slack)))


class MinimumRuntime(PreemptionCost):
    """Units that have not run for their stated minimum; only for a class that may break it (cost.md 2.6)."""

    name = "minimumRuntime"
    text: ClassVar[str] = "fewest workloads within their minimum runtime"
    measure: ClassVar[str] = "workloads"

    def beyond_the_node(self, cluster: ClusterState) -> Hashable | None:
        """Return a constant as long as no annotation states a minimum: then it is the same for all."""
        return None if cluster.rules_of_work else ()

    def of_units(self, units: EvictionUnits) -> Costs:
        pods_and_starts = zip(units.pods, units.starts.tolist(), strict=True)
        over = [runtime_is_over(units.cluster, pods, start) for pods, start in pods_and_starts]
        return (np.array(over, dtype=np.float64) > units.now).astype(np.float64)


class RestartElsewhere(_TimelessCriterion):
    """Pods that, once evicted, could not restart on another node at once (cost.md 1.9)."""

    name = "restartElsewhere"
    text: ClassVar[str] = "fewest pods that cannot restart elsewhere at once"
    measure: ClassVar[str] = "pods"

    def of_units(self, units: EvictionUnits) -> Costs:
        return units.per_unit([pod.uid in units.stuck for pod in units.every_pod])


class TenantSpread(_TimelessCriterion):
    """The maximum number of pods that one namespace loses: evictions are spread over tenants."""

    name = "tenantSpread"
    text: ClassVar[str] = "fewest pods of any one namespace"
    measure: ClassVar[str] = "pods"

    def of_units(self, units: EvictionUnits) -> Costs:
        return np.array([_most_of_one(pods) for pods in units.pods], dtype=np.float64)

    def total(self, victims: EvictionUnits) -> float:
        return float(_most_of_one(victims.every_pod))


class Cascade(_TimelessCriterion):
    """Pods that the victims would evict in turn when they return (cost.md 3): known only for candidates."""

    name = "cascade"
    by_itself: ClassVar[bool] = False
    text: ClassVar[str] = "fewest pods evicted in turn"
    measure: ClassVar[str] = "pods"

    def of_units(self, units: EvictionUnits) -> Costs:
        """Return zeros (`PreemptionCost.of_units`); `reprieve.preemption.cascade` adds the pods evicted in turn."""
        return np.zeros(len(units))


def _most_of_one(pods: Sequence[PodRecord]) -> int:
    namespaces = Counter(pod.namespace for pod in pods)
    return max(namespaces.values(), default=0)


IN_TREE: Final[dict[str, type[PreemptionCost]]] = {
    kind.name: kind
    for kind in (
        PdbViolations,
        HighestPriority,
        PrioritySum,
        Units,
        Pods,
        StartTime,
        LostWorkCost,
        GangsBroken,
        MinimumRuntime,
        RestartElsewhere,
        TenantSpread,
        Cascade,
    )
}
"""Criteria by their names in configurations."""
STANDARD: Final = (
    "pdbViolations",
    "highestPriority",
    "gangsBroken",
    "prioritySum",
    "pods",
    "restartElsewhere",
    "startTime",
)
"""The order without a configuration (cost.md 1.1)."""
_BEFORE_START: Final = STANDARD.index(StartTime.name)
_AFTER_GANGS: Final = STANDARD.index(GangsBroken.name) + 1
WITH_WAITS: Final = (*STANDARD[:_BEFORE_START], LostWorkCost.name, *STANDARD[_BEFORE_START:])
"""The order where preemptors wait for checkpoints (cost.md 6.6)."""
WITH_LIMITS: Final = (*STANDARD[:_AFTER_GANGS], LostWorkCost.name, *STANDARD[_AFTER_GANGS:])
"""The order where a limit counts every eviction, whether preemptors wait or not (cost.md 9.8)."""
UPSTREAM_ORDER: Final = ("pdbViolations", "highestPriority", "prioritySum", "pods", "startTime")
"""kube-scheduler's order, that of `--compatible` (preemption.md 3)."""
