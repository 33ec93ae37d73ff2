"""Units spared because of annotations about work, and evictions within budgets and limits (cost.md 2, 9).

Rules: a unit within its minimum runtime is no potential victim; a gang that an eviction would leave below its minimum
is evicted whole, or keeps its minimum, if it is annotated so; a preemptor with a class that respects budgets violates
none, counted over all pods that would be evicted and over those that terminate already.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from kube_rules.durations import readable_time
from kube_rules.work_annotations import WHOLE, ClassTerms
from reprieve.cluster.budgets import BudgetIndex, exceeding
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.preemption.eviction_limits import RemainingEvictions, beyond_limits, limited, until_limits_allow
from reprieve.preemption.minimum_runtime import runtime_is_over
from reprieve.preemption.outcome import Deferral, DeferralReason
from reprieve.preemption.protected_minimums import ProtectedMinimums, told_of_protected
from reprieve.preemption.units import PreemptionUnit, units_below

BUDGET_RESPECTED = "a PodDisruptionBudget would be violated"
"""The reason why a node is no candidate for a preemptor of a class that respects budgets."""
_SOONEST = 1.0
"""Seconds after which a preemptor that waits for a minimum runtime is tried again at the earliest."""


def potential_victims(
    cluster: ClusterState, priority: int, pods: Iterable[PodRecord], terms: ClassTerms, whole: Collection[str] = ()
) -> list[PreemptionUnit]:
    """Return the units that a preemptor of that priority and class may evict (preemption.md 1), in no particular order.

    `whole`: groups that are evicted as a whole (2.7).
    """
    units = units_below(cluster, priority, pods, whole)
    if not cluster.rules_of_work:
        return units
    if not terms.may_break_minimum_runtime:
        units = [unit for unit in units if _runtime_is_over(cluster, unit) <= cluster.now]
    if limited(cluster, priority):
        units = [unit for unit in units if beyond_limits(cluster, unit) is None]
    if cluster.work_rules.protects_minimums:
        minimums = ProtectedMinimums(cluster, priority)
        units = [unit for unit in units if minimums.breaks(unit) is None]
    return units


def protection(
    cluster: ClusterState, priority: int, pods: Iterable[PodRecord], terms: ClassTerms
) -> tuple[str, Deferral | None]:
    """Return why units are protected from an unsuccessful preemptor, as text, and the deferral until the first ends.

    Empty and None if no unit is protected.
    """
    if not cluster.rules_of_work:
        return "", None
    scheduled = list(pods)
    waits = _until_victims_may_go(cluster, priority, scheduled, terms)
    minimums = cluster.work_rules.protects_minimums
    protected = told_of_protected(cluster, priority, units_below(cluster, priority, scheduled)) if minimums else ""
    return "; ".join(text for text in (protected, waits.message if waits is not None else "") if text), waits


def _until_victims_may_go(
    cluster: ClusterState, priority: int, pods: Sequence[PodRecord], terms: ClassTerms
) -> Deferral | None:
    """Return a deferral until the end of a minimum runtime or of an eviction limit.

    None if no unit is protected by either.
    """
    waits = [until_runtimes_are_over(cluster, priority, pods, terms)]
    if limited(cluster, priority):
        waits.append(until_limits_allow(cluster, units_below(cluster, priority, pods)))
    deferrals = sorted((wait for wait in waits if wait is not None), key=lambda wait: wait.until or 0.0)
    return replace(deferrals[0], message="; ".join(wait.message for wait in deferrals)) if deferrals else None


def until_runtimes_are_over(
    cluster: ClusterState, priority: int, pods: Iterable[PodRecord], terms: ClassTerms
) -> Deferral | None:
    """Return a deferral until the end of the first minimum runtime; None if no unit is within one."""
    if not cluster.rules_of_work or terms.may_break_minimum_runtime:
        return None
    units = units_below(cluster, priority, pods)
    within = sorted((over, unit.name) for unit in units if (over := _runtime_is_over(cluster, unit)) > cluster.now)
    if not within:
        return None
    until = max(within[0][0], cluster.now + _SOONEST)
    number = "1 workload is" if len(within) == 1 else f"{len(within)} workloads are"
    text = f"{number} within their minimum-runtime, {within[0][1]} until {readable_time(until)}"
    return Deferral(DeferralReason.MINIMUM_RUNTIME, text, until)


def _runtime_is_over(cluster: ClusterState, unit: PreemptionUnit) -> float:
    return runtime_is_over(cluster, unit.pods, unit.start)


def left_below_minimum(cluster: ClusterState, victims: Iterable[PreemptionUnit]) -> set[str]:
    """Return gangs that the eviction would leave below their minimum and that must then be evicted as a whole.

    Call it before any pod is displaced.
    """
    lost: Counter[str] = Counter()
    going_whole: set[str] = set()
    for unit in victims:
        for pod in unit.pods:
            if pod.group is not None and not pod.terminating:
                lost[pod.group] += 1
                if cluster.terms_of(pod).below_minimum == WHOLE:
                    going_whole.add(pod.group)
    result = set()
    for key in going_whole:
        group = cluster.groups[key]
        left = group.scheduled - lost[key]
        if group.is_gang and 0 < left < group.min_count:
            result.add(key)
    return result


class RespectedBudgets:
    """The disruptions that every budget allows beside terminating pods and victims that it may not count yet."""

    refusal = BUDGET_RESPECTED

    def __init__(self, cluster: ClusterState) -> None:
        leaving = {*cluster.departures, *cluster.doomed}
        charged = Counter(
            key for uid in leaving if uid in cluster.pods for key in cluster.budgets_counting(cluster.pods[uid])
        )
        self._index = BudgetIndex(
            replace(budget, allowed=budget.allowed - charged[key] - cluster.unsettled_disruptions(key))
            for key, budget in cluster.budgets.items()
        )

    def violated_by(self, victims: Sequence[PreemptionUnit]) -> bool:
        """Return whether evicting all of them violates a budget."""
        charged = self._index.charges([unit.pods for unit in victims])
        return any(exceeding(charged, self._index.allowed))

    def affordable(self, units: Sequence[PreemptionUnit]) -> list[PreemptionUnit]:
        """Return units that may be evicted together, the least important first as long as no budget is violated."""
        order = sorted(units, key=lambda unit: unit.importance, reverse=True)
        charged = self._index.charges([unit.pods for unit in order])
        left = list(self._index.allowed)
        result = []
        for unit, counts in zip(order, charged, strict=True):
            if all(left[number] >= count for number, count in counts.items()):
                for number, count in counts.items():
                    left[number] -= count
                result.append(unit)
        return result


Ceilings = Sequence[RespectedBudgets | RemainingEvictions | ProtectedMinimums]
"""Limits of the units that are evicted together."""


def ceilings_for(cluster: ClusterState, priority: int, terms: ClassTerms) -> Ceilings:
    """Return the limits of evictions for a preemptor of that priority and class, in the present view."""
    budgets = [RespectedBudgets(cluster)] if terms.respects_budgets else []
    limits = [RemainingEvictions(cluster)] if limited(cluster, priority) else []
    minimums = [ProtectedMinimums(cluster, priority)] if cluster.work_rules.protects_minimums else []
    return [*budgets, *limits, *minimums]


class EvictionTerms:
    """The terms of annotations about work, during a search for victims that repeats until all are met.

    `pods`: those that may be victims; `whole`: gangs that are evicted as a whole; `restricted`: only units that may all
    be evicted together are potential victims; `refusal`: the last violation, as text.
    """

    def __init__(
        self,
        cluster: ClusterState,
        priority: int,
        pods: Sequence[PodRecord],
        terms: ClassTerms,
        ceilings: Ceilings,
    ) -> None:
        self._cluster, self._priority, self._pods, self._terms = cluster, priority, pods, terms
        self._ceilings = ceilings
        self.whole: set[str] = set()
        self.restricted = False
        self.refusal = BUDGET_RESPECTED

    def violated_by(self, victims: Sequence[PreemptionUnit]) -> bool:
        """Return whether evicting all of them violates a budget that counts, a limit or a minimum."""
        for ceiling in self._ceilings:
            if ceiling.violated_by(victims):
                self.refusal = ceiling.refusal
                return True
        return False

    def below_minimum(self, victims: Iterable[PreemptionUnit]) -> set[str]:
        """Return gangs that the eviction would leave below their minimum and that are not evicted as a whole so far."""
        return left_below_minimum(self._cluster, victims) - self.whole

    def units(self) -> list[PreemptionUnit]:
        """Return the potential victims by these terms."""
        units = potential_victims(self._cluster, self._priority, self._pods, self._terms, self.whole)
        for ceiling in self._ceilings if self.restricted else ():
            units = ceiling.affordable(units)
        return units
