"""A pod group as preemptor: its domain is the whole cluster, or one placement of several (preemption.md 4)."""

from collections.abc import Sequence
from dataclasses import replace

from reprieve.framework.plugin import PodGroupAttempt, PostFilterResult
from reprieve.framework.running_profile import RunningProfile
from reprieve.framework.status import SUCCESS, Code, Status
from reprieve.preemption.eligibility import group_never_preempts, ineligible
from reprieve.preemption.group_candidates import candidates_among
from reprieve.preemption.group_cascades import with_cascades
from reprieve.preemption.group_choice import cheapest_of
from reprieve.preemption.group_view import GroupCandidates, GroupRequest
from reprieve.preemption.options import EvictionOptions
from reprieve.preemption.outcome import (
    CLUSTER_DOMAIN,
    GROUP_UNSCHEDULABLE,
    NO_VICTIMS_GROUP,
    Preemption,
    UnhelpfulPreemption,
    UnhelpfulReason,
)
from reprieve.preemption.protected_units import (
    EvictionTerms,
    ceilings_for,
    potential_victims,
    protection,
)
from reprieve.preemption.reprieved_units import verdicts_of
from reprieve.preemption.units import PreemptionUnit, effective_priority, scheduled_pods


def preempt_for_group(
    running: RunningProfile, attempt: PodGroupAttempt, plugin: str, options: EvictionOptions
) -> PostFilterResult:
    """Find the victims that free capacity for the group, or why there are none. The cluster is not changed.

    More members must be placed than without preemption, otherwise no pods are evicted. Of several placements the
    cheapest eviction wins, then the placement with the group's best score beside the pods that stay, then the first in
    order (preemption.md 4.6). While capacity is reserved for the group in one of them, no other is tried unless the
    group no longer fits there (cost.md 5.5).
    """
    cluster, group, spec = running.cluster, attempt.group, attempt.group.spec
    if spec is None:
        return PostFilterResult(Status(Code.UNSCHEDULABLE, NO_VICTIMS_GROUP, plugin))
    # 1. May the group preempt at all?
    never = group_never_preempts(group, group_policy=options.group_policy)
    rows = () if attempt.overtaken else attempt.nominated_rows
    why = ineligible(cluster, spec.priority, never, rows, under_way=attempt.preemption_under_way)
    if why is not None:
        unhelpful = UnhelpfulPreemption(group, UnhelpfulReason.POLICY_NEVER if never else UnhelpfulReason.UNDER_WAY)
        return PostFilterResult(Status(Code.UNSCHEDULABLE, why, plugin), unhelpful=unhelpful)
    request = GroupRequest(running, attempt, spec.priority, cluster.class_terms_of(group), options)
    # 2. Which units may be evicted for it?
    units = potential_victims(cluster, spec.priority, scheduled_pods(cluster), request.terms)
    if not units:
        lowest = min((effective_priority(cluster, pod) for pod in scheduled_pods(cluster)), default=None)
        protected = lowest is not None and lowest < spec.priority
        unhelpful = UnhelpfulPreemption(
            group, UnhelpfulReason.PROTECTED if protected else UnhelpfulReason.NO_LOWER_PRIORITY, lowest=lowest
        )
        return _no_preemption(request, Status(Code.UNRESOLVABLE, NO_VICTIMS_GROUP, plugin), unhelpful)
    # 3. In which placements does it fit, and which units must be evicted there?
    result = candidates_within_terms(request, units)
    if not result.candidates:
        status = Status(Code.UNSCHEDULABLE, result.refusal or GROUP_UNSCHEDULABLE, plugin)
        return _no_preemption(request, status, result.unhelpful)
    # 4. What would the victims evict in turn?
    avoided = None
    if options.cascades is not None:
        result, avoided = with_cascades(request, result, lambda units: candidates_within_terms(request, units))
    # 5. Which placement is cheapest?
    best, compared = cheapest_of(attempt, result.candidates, options.criteria)
    by_score = result.by_score
    preemption = Preemption(
        pod=None,
        group=group,
        priority=spec.priority,
        domain=CLUSTER_DOMAIN if best.placement is None else best.placement.name,
        nominations=best.assignment.placed,
        verdicts=best.verdicts() if by_score is not None else verdicts_of(best.ranking, best.reasons),
        candidates=len(result.candidates) + result.passed_over,
        compared=compared,
        criteria=options.criteria.described,
        cost=best.cost,
        cascade=best.cascade,
        avoided=avoided,
        limits=result.limits if best.cost is not None else (),
        by_score=tuple(verdict.unit for verdict in by_score.evicted()) if by_score is not None else None,
    )
    return PostFilterResult(SUCCESS, preemption)


def _no_preemption(request: GroupRequest, status: Status, why: UnhelpfulPreemption | None) -> PostFilterResult:
    """Return a result without victims; units that are protected now may become potential victims later."""
    cluster = request.running.cluster
    protected, waits = protection(cluster, request.priority, scheduled_pods(cluster), request.terms)
    if protected:
        status = replace(status, reason=f"{status.reason}: {protected}")
    return PostFilterResult(status, clear_nomination=True, unhelpful=why, deferral=waits)


def candidates_within_terms(request: GroupRequest, units: Sequence[PreemptionUnit]) -> GroupCandidates:
    """Find the candidates if only these units may be evicted, within the terms of annotations.

    If no candidate meets them, the search is repeated among units that may all be evicted together.
    """
    cluster, attempt = request.running.cluster, request.attempt
    result = candidates_among(request, units)
    if not cluster.rules_of_work or not result.candidates:
        return result
    ceilings = ceilings_for(cluster, request.priority, request.terms)
    terms = EvictionTerms(cluster, request.priority, list(scheduled_pods(cluster)), request.terms, ceilings)
    while result.candidates:
        respecting = [candidate for candidate in result.candidates if not terms.violated_by(candidate.victims())]
        if respecting:
            result = replace(result, candidates=respecting)
            below = terms.below_minimum(cheapest_of(attempt, respecting, request.options.criteria)[0].victims())
            if not below:
                return result
            terms.whole |= below
        elif terms.restricted:
            break
        else:
            terms.restricted = True
        result = candidates_among(request, terms.units())
    why = result.unhelpful
    if terms.restricted or why is None:  # results for units that may be evicted together do not apply to all others
        why = UnhelpfulPreemption(attempt.group, UnhelpfulReason.BUDGETS)
    refused = f"{GROUP_UNSCHEDULABLE}: {terms.refusal}" if terms.restricted else ""
    return GroupCandidates([], unhelpful=why, refusal=refused)
