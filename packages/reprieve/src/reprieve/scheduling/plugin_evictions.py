"""Nominations and victims that a PostFilter of a plugin names (preemption.md 2.8).

The plugin names pods and nodes as plain data. They are checked first by the same rules as evictions that reprieve finds
itself; a violation is a `PluginError`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kube_rules.errors import names_text
from reprieve.cluster.groups import Group, GroupState
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.plugin import Assigned, CycleState, PodGroupAttempt, PostFilterResult
from reprieve.framework.running_profile import RunningProfile
from reprieve.framework.status import Code, PlacementError, PluginError, Status
from reprieve.preemption.deferred_preemption import until_delay_is_over
from reprieve.preemption.eligibility import group_never_preempts, ineligible
from reprieve.preemption.group_candidates import holds_all
from reprieve.preemption.order import Ranking
from reprieve.preemption.outcome import CLUSTER_DOMAIN, Deferral, PluginNominations, Preemption, Reason
from reprieve.preemption.protected_units import (
    ceilings_for,
    left_below_minimum,
    potential_victims,
)
from reprieve.preemption.reprieved_units import reasons_to_go, verdicts_of
from reprieve.preemption.units import PreemptionUnit, effective_priority, scheduled_pods
from reprieve.scheduling.group_algorithm import progress
from reprieve.scheduling.group_placements import proposed

_NAMED = 5
"""Maximum number of pods in a message."""


_Rows = Mapping[str | None, Sequence[int]]
"""Rows of the nominations, by the key of the pod group."""


class _RefusedError(Exception):
    """A plugin named pods or nodes that it may not name."""


@dataclass(frozen=True, slots=True)
class Preemptor:
    """The entity for which a plugin frees capacity. `why_not`: why it may not preempt now, or None.

    `placed`: the number of its pods that have a place without evictions.
    """

    pods: Sequence[PodRecord]
    group: Group | None
    priority: int
    why_not: str | None
    placed: int

    @classmethod
    def of_pod(cls, state: CycleState, why_not: str | None) -> "Preemptor":
        """Return a single pod, which fits nowhere."""
        return cls((state.pod,), None, state.pod.priority, why_not, 0)

    @classmethod
    def of_group(cls, running: RunningProfile, attempt: PodGroupAttempt) -> "Preemptor":
        """Return a group of any level, with an attempt that placed fewer pods than it has."""
        group = attempt.group
        priority = group.spec.priority if group.spec is not None else 0
        never = group_never_preempts(group, group_policy=running.gates.pod_group_preemption_policy)
        rows = () if attempt.overtaken else attempt.nominated_rows
        under_way = attempt.preemption_under_way
        why_not = ineligible(running.cluster, priority, never, rows, under_way=under_way)
        return cls(attempt.pods, group, priority, why_not, attempt.placed_without_help)


def taken(
    running: RunningProfile, preemptor: Preemptor, result: PostFilterResult, plugin: str, point: str
) -> PostFilterResult:
    """Return the success with the plugin's choice as `proposal`; no success if the preemptor may not preempt now.

    The cluster is not changed. Raises PluginError for nominations and victims that break a rule.
    """
    delayed = None
    try:
        places = _places(running.cluster, preemptor, result.nominations)
        if not result.victims:
            return replace(result, proposal=PluginNominations(places))
        why_not = preemptor.why_not
        if why_not is None:
            preemption = _preemption(running, preemptor, places, result.victims, plugin)
            delayed = until_delay_is_over(running.cluster, preemptor.pods)
            if delayed is None:
                return replace(result, proposal=preemption)
            why_not = delayed.message
    except _RefusedError as error:
        raise PluginError(plugin, point, ValueError(str(error))) from None
    prefix = "preemption: " if preemptor.group is None else ""
    status = Status(Code.UNSCHEDULABLE, prefix + why_not, plugin)
    return PostFilterResult(status, deferred_writes=result.deferred_writes, deferral=delayed)


def held_places(outcome: PostFilterResult | None) -> Assigned:
    """Return the nominations of an outcome without evictions."""
    if outcome is None:
        return ()
    if isinstance(outcome.proposal, PluginNominations):
        return outcome.proposal.places
    return outcome.deferral.nominations if isinstance(outcome.deferral, Deferral) else ()


def _places(
    cluster: ClusterState, preemptor: Preemptor, nominations: Mapping[str, str]
) -> tuple[tuple[PodRecord, int], ...]:
    """Return (pod, row) of the nominations, in scheduling order."""
    unknown = set(nominations) - {pod.key for pod in preemptor.pods}
    if unknown:
        raise _RefusedError(f"nominates {_listed(unknown)}, which is not among the pods to schedule")
    missing = {node for node in nominations.values() if node not in cluster.nodes.row_of}
    if missing:
        raise _RefusedError(f"nominates to {_listed(missing)}, no node has that name")
    row_of = cluster.nodes.row_of
    return tuple((pod, row_of[nominations[pod.key]]) for pod in preemptor.pods if pod.key in nominations)


def _preemption(
    running: RunningProfile,
    preemptor: Preemptor,
    places: tuple[tuple[PodRecord, int], ...],
    victims: Sequence[str],
    plugin: str,
) -> Preemption:
    if not places:
        raise _RefusedError("names victims but nominates no pod")
    if len(places) <= preemptor.placed:
        raise _RefusedError(
            f"names victims for {len(places)} pods, as many as {preemptor.placed} have a place without evictions"
        )
    cluster, group, pod = running.cluster, preemptor.group, places[0][0]
    ranking = Ranking(cluster, _units(cluster, preemptor, victims))
    with cluster.trial():
        cluster.displace_all([victim for unit in ranking.ordered for victim in unit.pods])
        for member in preemptor.pods:
            cluster.clear_nomination(member)
        if group is not None:
            rows: dict[str | None, list[int]] = {}
            for member, row in places:
                rows.setdefault(member.group, []).append(row)
            _check_levels(running, group, rows)
        with cluster.trial():
            _check_fit(running, places)
        needed = reasons_to_go(running, ranking, places, preemptor.priority)
    chosen = Reason(pod, places[0][1], plugin, f"chosen by plugin {plugin}", chosen=True)
    return Preemption(
        pod=pod if group is None else None,
        group=group,
        priority=preemptor.priority,
        domain=cluster.nodes.names[places[0][1]] if group is None else CLUSTER_DOMAIN,
        nominations=places,
        verdicts=verdicts_of(ranking, {index: needed.get(index, chosen) for index in range(len(ranking.ordered))}),
    )


def _units(cluster: ClusterState, preemptor: Preemptor, victims: Sequence[str]) -> list[PreemptionUnit]:
    """Return the units of the victims. Every rule must allow each, and each must be complete."""
    wanted = set(victims)
    pods = [pod for pod in scheduled_pods(cluster) if pod.key in wanted]
    unknown = wanted - {pod.key for pod in pods}
    if unknown:
        raise _RefusedError(
            f"names victim {_listed(unknown)}, no scheduled pod has that name (expected namespace/name)"
        )
    priority = preemptor.priority
    above = {pod.key for pod in pods if effective_priority(cluster, pod) >= priority}
    if above:
        raise _RefusedError(
            f"names victim {_listed(above)}, with a priority that is not below the preemptor's {priority}"
        )
    terms = cluster.class_terms_of(preemptor.group if preemptor.group is not None else preemptor.pods[0])
    units = potential_victims(cluster, priority, pods, terms)
    covered = {pod.uid for unit in units for pod in unit.pods}
    protected = {pod.key for pod in pods if pod.uid not in covered}
    if protected:
        raise _RefusedError(
            f"names victim {_listed(protected)}, which may not be evicted now (its group's priority, its "
            "minimum-runtime, below-minimum: Protect, an eviction limit, or an eviction that is overdue)"
        )
    for unit in units:
        rest = {pod.key for pod in unit.pods if pod.key not in wanted and not pod.terminating}
        if rest:
            raise _RefusedError(f"names a part of {unit.name}, which is evicted only as a whole: not {_listed(rest)}")
    below = left_below_minimum(cluster, units)
    if below:
        raise _RefusedError(f"leaves {_listed(below)} below its minimum, which is then evicted only as a whole")
    for ceiling in ceilings_for(cluster, priority, terms):
        if ceiling.violated_by(units):
            raise _RefusedError(ceiling.refusal)
    return units


def _check_levels(running: RunningProfile, group: Group, by_leaf: _Rows) -> None:
    """Check that every level above a nominated pod reaches its minimum, in one of its placements if it has any."""
    rows = [row for leaf in group.leaves() for row in by_leaf.get(leaf.key, ())]
    if not rows:
        return
    try:
        placements = proposed(running, group)
    except PlacementError as error:
        raise _RefusedError(str(error)) from None
    if placements is not None and not any(holds_all(placement, rows) for placement in placements):
        raise _RefusedError(f"nominates the pods of {group.kind} {group.key} outside of each of its placements")
    if isinstance(group, GroupState):
        reached = group.scheduled + len(rows)
    else:
        children = [child for child in group.children if child.fault is None]
        for child in children:
            _check_levels(running, child, by_leaf)
        reached = sum(1 for child in children if _counts(child, by_leaf))
    if not progress(running.profile, group, reached, 0).ok:
        kind = "pods" if isinstance(group, GroupState) else "groups"
        raise _RefusedError(
            f"{group.kind} {group.key} has {reached} of the {group.min_count} {kind} it needs with these nominations"
        )


def _counts(group: Group, by_leaf: _Rows) -> bool:
    """Return whether the level counts for the one above: it is scheduled already, or pods below it are nominated."""
    if isinstance(group, GroupState):
        return group.key in by_leaf or group.scheduled >= max(1, group.min_count)
    ready = sum(1 for child in group.children if child.fault is None and _counts(child, by_leaf))
    return ready >= max(1, group.min_count)


def _check_fit(running: RunningProfile, places: Assigned) -> None:
    """Check that every nominated pod passes every filter on its node beside earlier ones. Places them in the view."""
    cluster = running.cluster
    for pod, row in places:
        state = CycleState(cluster, pod, cluster.groups.get(pod.group) if pod.group is not None else None)
        if not running.evaluator.fits_row(state, row):
            name = cluster.nodes.names[row]
            raise _RefusedError(f"nominates {pod.key} to {name}, where it does not fit with the victims gone")
        cluster.place(pod, row)


def _listed(names: set[str]) -> str:
    """Return the first names, in order, each shortened."""
    return names_text([f"{name[:200]!r}" for name in sorted(names)[:_NAMED]], _NAMED, len(names))
