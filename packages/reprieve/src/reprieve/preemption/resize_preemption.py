"""Victims for the deferred resizes of a gang: found for all of its pods together, or for none (resizes.md 3.5).

Each pod stays on its node, and only resources matter, as the other constraints were checked when it was placed. All
units of lower priority are displaced, and each comes back unless a node would be overcommitted for one of the pods: a
reprieve as for a gang with one placement.  So a unit with pods on two of the nodes counts on both.
"""

from collections.abc import Sequence

from reprieve.cluster.groups import Group
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.resources import insufficient
from reprieve.framework.plugin import PostFilterResult
from reprieve.framework.running_profile import RunningProfile
from reprieve.framework.status import SUCCESS, Code, Status
from reprieve.preemption.free_resources import FreeResources
from reprieve.preemption.gangs import with_remains
from reprieve.preemption.options import EvictionOptions
from reprieve.preemption.order import by_importance
from reprieve.preemption.outcome import ALL_OR_NONE, CLUSTER_DOMAIN, NO_VICTIMS_GROUP, Cost, Preemption, Verdict
from reprieve.preemption.protected_units import EvictionTerms, ceilings_for, potential_victims, protection
from reprieve.preemption.reprieved_units import judge_by_numbers
from reprieve.preemption.units import PreemptionUnit

_Result = tuple[tuple[Verdict, ...], Cost]


class ResizePreemption:
    """See the module docstring; `gang`: all its running pods; `resized`: those that do not fit."""

    def __init__(
        self, running: RunningProfile, plugin: str, options: EvictionOptions, gang: Group, resized: Sequence[PodRecord]
    ) -> None:
        self._running, self._plugin, self._criteria = running, plugin, options.criteria
        self._cluster, self._gang = running.cluster, gang
        self._seats = [(pod, pod.row) for pod in resized]
        self._priority = min(pod.priority for pod in resized)
        self._own = {pod.uid for pod in gang.running()}

    def preempt(self) -> PostFilterResult:
        """Return the eviction with which all of the resizes fit. The cluster is not changed."""
        cluster = self._cluster
        nearby = [pod for row in sorted({row for _, row in self._seats}) for pod in cluster.nodes.pods[row].values()]
        with cluster.trial():
            for pod, _ in self._seats:
                cluster.lift(pod)
            candidates = [pod for pod in nearby if pod.row >= 0]
            result = self._search(candidates)
        if not isinstance(result, str):
            return PostFilterResult(SUCCESS, with_remains(cluster, self._preemption(*result)))
        terms = cluster.class_terms_of(self._gang)
        protected, waits = protection(cluster, self._priority, nearby, terms)
        text = f"preemption: {result}"
        status = Status(Code.UNSCHEDULABLE, f"{text}; {protected}." if protected else text, self._plugin)
        return PostFilterResult(status, deferral=waits)

    def _preemption(self, verdicts: tuple[Verdict, ...], cost: Cost) -> Preemption:
        return Preemption(
            pod=None,
            group=self._gang,
            priority=self._priority,
            domain=CLUSTER_DOMAIN,
            nominations=tuple(self._seats),
            verdicts=verdicts,
            criteria=self._criteria.described,
            cost=cost,
            resize=self._seats[0][0].resize_ref,
        )

    def _search(self, pods: Sequence[PodRecord]) -> _Result | str:
        """Return the verdicts with their cost, or why there are none, within the terms of annotations about work."""
        cluster, terms = self._cluster, self._cluster.class_terms_of(self._gang)
        result = self._judged(potential_victims(cluster, self._priority, pods, terms))
        if not cluster.rules_of_work:
            return result
        ceilings = ceilings_for(cluster, self._priority, terms)
        work = EvictionTerms(cluster, self._priority, pods, terms, ceilings)
        while not isinstance(result, str):
            victims = [verdict.unit for verdict in result[0] if verdict.evicted]
            below, violated = work.below_minimum(victims), work.violated_by(victims)
            if not below and not violated:
                break
            if not below and work.restricted:
                return work.refusal
            work.whole |= below
            work.restricted = work.restricted or violated
            result = self._judged(work.units())
        return work.refusal if isinstance(result, str) and work.restricted else result

    def _judged(self, potential: Sequence[PreemptionUnit]) -> _Result | str:
        """Return the same if only these units may be evicted, except units of the gang itself."""
        cluster, criteria = self._cluster, self._criteria
        units = [unit for unit in potential if not any(pod.uid in self._own for pod in unit.pods)]
        room = FreeResources.after(cluster, self._seats, priority=self._priority)
        for unit in units:
            room.free(unit.pods, unit.rows)
        if any(amount < 0 for left in room.left.values() for amount in left):
            return self._too_little(room)
        costing = criteria.costing(cluster, self._running.evaluator, units)
        verdicts = judge_by_numbers(cluster, by_importance(cluster, units, criteria, costing), self._seats, room)
        cost = criteria.cost_of(verdicts, costing)
        return (verdicts, cost) if cost is not None else NO_VICTIMS_GROUP

    def _too_little(self, room: FreeResources) -> str:
        """Return the text about the first pod that does not fit without all units."""
        names = self._cluster.resources.names
        for pod, row in self._seats:
            amounts = dict(zip(room.columns[row], room.left[row], strict=True))
            short = [insufficient(names[column]) for column, _ in pod.signature.requests if amounts[column] < 0]
            if short:
                return f"{ALL_OR_NONE}: pod {pod.key}: {', '.join(short)}"
        return NO_VICTIMS_GROUP
