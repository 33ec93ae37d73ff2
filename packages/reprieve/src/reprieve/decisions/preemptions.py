"""A decision to preempt as a record and as part of a plan's document: units, reasons, costs, comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import isfinite

import msgspec

from kube_rules.controllers.pods import POD_TEMPLATE_HASH
from kube_rules.durations import micro_time
from reprieve.cluster.groups import Group
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.resources import FIRST_RESOURCE, readable
from reprieve.cluster.state import ClusterState
from reprieve.decisions.costs import by_criterion, cost_sentences, decisive, in_turn, lost_by, plain
from reprieve.decisions.outcomes import (
    EvictionCost,
    PlacingByScore,
    PreemptionOutcome,
    PreemptorName,
    Victim,
    VictimReason,
)
from reprieve.decisions.records import (
    MOST_CONSIDERED,
    MOST_NAMES,
    MOST_NOMINATIONS,
    MOST_REPRIEVED,
    AvoidedEviction,
    CandidateRecord,
    Comparison,
    ComparisonStep,
    CostRecord,
    EvictionReason,
    FailedPreemption,
    NominationRecord,
    PreemptionRecord,
    ReasonCount,
    UnitRecord,
)
from reprieve.framework.diagnosis import Diagnosis
from reprieve.preemption.cost import UPSTREAM
from reprieve.preemption.criteria import UPSTREAM_ORDER, HighestPriority, PdbViolations, Pods, PrioritySum, StartTime
from reprieve.preemption.eviction_limits import evicted_unit
from reprieve.preemption.outcome import (
    Cost,
    Criterion,
    MissingAmount,
    Preemption,
    Reason,
    UnhelpfulPreemption,
    Verdict,
    scarcest_first,
)
from reprieve.preemption.units import PreemptionUnit

ControllerName = tuple[str, str, str]
"""(kind in lower case, namespace, name)."""

# -- the record --------------------------------------------------------------------------------------------------------


def preemption_record(
    cluster: ClusterState,
    preemption: Preemption,
    now: float,
    *,
    held_until: float | None = None,
    most_reprieved: int = MOST_REPRIEVED,
) -> PreemptionRecord:
    """Return a decision to preempt as data. `now`: the time of the decision, for the victims' running time."""
    names = cluster.nodes.names
    evicted = preemption.victims
    spared = [verdict for verdict in preemption.verdicts if not verdict.evicted]
    cost = preemption.cost if preemption.criteria else UPSTREAM.cost_of(evicted)
    criteria = preemption.criteria or UPSTREAM.described
    work = lost_by(cluster, preemption)
    moves = {pod.uid: row for pod, row in preemption.moves}
    lost = sum(max(0.0, now - pod.start) for verdict in evicted for pod in verdict.unit.pods if pod.start is not None)
    return PreemptionRecord(
        domain=preemption.domain,
        potential_victims=len(preemption.verdicts) + len(preemption.remains),
        evicted=tuple(_evicted(cluster, verdict, now, moves) for verdict in evicted),
        reprieved=tuple(_unit(names, verdict, now) for verdict in spared[:most_reprieved]),
        reprieved_total=len(spared),
        cost=CostRecord(
            units=len(evicted),
            pods=sum(len(verdict.unit.pods) for verdict in evicted),
            highest_priority=max((verdict.unit.priority for verdict in evicted), default=0),
            pdb_violations=preemption.pdb_violations,
            running_seconds_lost=lost,
            lost_gpu_hours=round(work.gpu / 3600, 3),
            lost_cpu_hours=round(work.cpu / 3600, 3),
            by_criterion=by_criterion(criteria, cost),
        ),
        comparison=_comparison(preemption, criteria, cost),
        cascade=in_turn(preemption.cascade),
        avoided=_avoided(preemption),
        cost_notes=cost_sentences(cluster, preemption),
        nominations=tuple(
            NominationRecord(pod=pod.key, node=names[row]) for pod, row in preemption.nominations[:MOST_NOMINATIONS]
        ),
        nominations_total=len(preemption.nominations),
        held_until=micro_time(held_until) if held_until is not None else "",
        together=preemption.together[:MOST_NAMES],
    )


def failed_preemption(cluster: ClusterState, failed: UnhelpfulPreemption, now: float) -> FailedPreemption:
    """Return an unhelpful preemption as data. `now`: the time of the decision, for the victims' running time."""
    diagnosis = failed.diagnosis
    first = [Verdict(unit, False, None) for unit in failed.units[:MOST_CONSIDERED]]
    return FailedPreemption(
        reason=failed.why.value,
        potential_victims=len(failed.units),
        pods=sum(len(unit.pods) for unit in failed.units),
        considered=tuple(_unit(cluster.nodes.names, verdict, now, outcome="LookedAt") for verdict in first),
        placed=failed.placed,
        needed=failed.needed,
        pod=failed.pod.key if failed.pod is not None else "",
        nodes=diagnosis.nodes if diagnosis is not None else 0,
        reasons=reason_counts(diagnosis),
        lowest_priority=failed.lowest,
    )


def reason_counts(diagnosis: Diagnosis | None) -> tuple[ReasonCount, ...]:
    """Return reasons with their node counts, the most frequent first."""
    counts = diagnosis.reasons if diagnosis is not None else {}
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(ReasonCount(reason=reason, nodes=nodes) for reason, nodes in ordered)


def owners_of(cluster: ClusterState, unit: PreemptionUnit) -> list[ControllerName]:
    """Return the controllers of a unit's pods and groups, and the highest known controller above each."""
    groups: set[Group] = {
        group for pod in unit.pods if pod.group in cluster.groups for group in (cluster.groups[pod.group],)
    }
    references = {(pod.namespace, pod.owner, pod.labels.get(POD_TEMPLATE_HASH, "")) for pod in unit.pods}
    references |= {(group.namespace, group.owner, "") for group in (*groups, *unit.groups)}
    owners: dict[ControllerName, None] = {}
    for namespace, owner, value in sorted(references, key=repr):
        if owner is not None:
            labels = {POD_TEMPLATE_HASH: value} if value else {}
            for _, kind, name in (owner, cluster.controllers.highest(namespace, owner, labels)):
                owners[kind.lower(), namespace, name] = None
    return list(owners)


def _unit(
    names: Sequence[str],
    verdict: Verdict,
    now: float,
    *,
    outcome: str = "",
    owners: Sequence[ControllerName] = (),
) -> UnitRecord:
    unit, reason = verdict.unit, verdict.reason
    starts = [pod.start for pod in unit.pods if pod.start is not None]
    on = sorted({names[row] for row in unit.rows})
    chosen = reason is not None and reason.chosen
    return UnitRecord(
        unit=unit.name,
        kind=unit.group.kind if unit.group is not None else "Pod",
        outcome=outcome or ("Reprieved" if reason is None else "Evicted"),
        priority=unit.priority,
        pods=len(unit.pods),
        pod_names=tuple(pod.key for pod in unit.pods[:MOST_NAMES]),
        uid=unit.group.uid if unit.group is not None else unit.pods[0].uid,
        pod_uids=tuple(pod.uid for pod in unit.pods[:MOST_NAMES]),
        owners=tuple(f"{kind} {namespace}/{name}" for kind, namespace, name in owners[:MOST_NAMES]),
        nodes=tuple(on[:MOST_NAMES]),
        nodes_total=len(on),
        running_seconds=max(0.0, now - min(starts)) if starts else None,
        violates_pdb=verdict.violates_pdb,
        why=_eviction_reason(names, reason) if reason is not None and not chosen else None,
        chosen_by=reason.plugin if reason is not None and chosen else "",
    )


def _evicted(cluster: ClusterState, verdict: Verdict, now: float, moves: Mapping[str, int]) -> UnitRecord:
    unit = _unit(cluster.nodes.names, verdict, now, owners=owners_of(cluster, verdict.unit))
    counts = evicted_unit(cluster, verdict.unit)
    names = cluster.nodes.names
    to = [names[moves[pod.uid]] for pod in verdict.unit.pods if pod.uid in moves]
    return msgspec.structs.replace(
        unit,
        owner=counts.owner,
        priority_class=counts.priority_class,
        moves_to=tuple(to)[:MOST_NAMES],
        chosen_by="" if to else unit.chosen_by,
    )


def _eviction_reason(names: Sequence[str], reason: Reason) -> EvictionReason:
    return EvictionReason(
        pod=reason.pod.key,
        node=names[reason.row],
        plugin=reason.plugin,
        text=reason.text,
        resource=reason.resource,
        short=readable(reason.resource, reason.short) if reason.short else "",
        missing={item.resource: readable(item.resource, item.short) for item in reason.missing},
    )


def _avoided(preemption: Preemption) -> AvoidedEviction | None:
    avoided = preemption.avoided
    if avoided is None:
        return None
    return AvoidedEviction(units=tuple(unit.name for unit in avoided.victims), cascade=in_turn(avoided.steps))


def _comparison(preemption: Preemption, criteria: Sequence[Criterion], cost: Cost | None) -> Comparison:
    compared = preemption.compared
    chosen = _candidate(preemption.domain, criteria, cost)
    if compared is None:
        return Comparison(candidates=preemption.candidates, chosen=chosen)
    decided = decisive(preemption)
    return Comparison(
        candidates=preemption.candidates,
        chosen=chosen,
        runner_up=_candidate(compared.domain, criteria, compared.cost),
        steps=tuple(ComparisonStep(criterion=criterion, left=left) for criterion, left in compared.steps),
        # The last criterion distinguished the chosen candidate from the remaining ones, and this is the best of those.
        decided_by=compared.steps[-1][0] if compared.steps else "",
        criterion=decided[0].name if decided is not None else "",
        values=decided[1:] if decided is not None else (),
    )


def _candidate(domain: str, criteria: Sequence[Criterion], cost: Cost | None) -> CandidateRecord:
    if cost is None:
        return CandidateRecord(domain=domain)
    costs = {criterion.name: number for criterion, number in zip(criteria, cost, strict=True)}
    start = costs.get(StartTime.name, float("inf"))
    return CandidateRecord(
        domain=domain,
        pdb_violations=int(costs.get(PdbViolations.name, 0)),
        highest_priority=int(costs.get(HighestPriority.name, 0)),
        priority_sum=int(costs.get(PrioritySum.name, 0)),
        pods=int(costs.get(Pods.name, 0)),
        earliest_start=micro_time(-start) if isfinite(start) else "",
        others={
            name: plain(number) for name, number in costs.items() if name not in UPSTREAM_ORDER and isfinite(number)
        },
    )


# -- the part of a plan's document -------------------------------------------------------------------------------------


def preemption_outcome(cluster: ClusterState, preemption: Preemption) -> PreemptionOutcome:
    """Return a decision to preempt in the form that plans print, with each victim pod."""
    names = cluster.nodes.names
    amounts = preemption_amounts(cluster, preemption)
    preemptor = preemption.group or preemption.pod
    assert preemptor is not None
    kind = preemption.group.kind if preemption.group is not None else "Pod"
    lost, decided = lost_by(cluster, preemption), decisive(preemption)
    return PreemptionOutcome(
        preemptor=PreemptorName(
            kind=kind, namespace=preemptor.namespace, name=preemptor.name, priority=preemption.priority
        ),
        domain=preemption.domain,
        nominations={
            pod.key: names[row]
            for pod, row in sorted(preemption.nominations, key=lambda n: (n[0].namespace, n[0].name))
        },
        victims=tuple(victim for verdict in preemption.victims for victim in _victims(names, verdict)),
        reprieved=preemption.reprieved,
        pdb_violations=preemption.pdb_violations,
        needed={resource: readable(resource, needed) for resource, needed, _ in amounts},
        freed={resource: readable(resource, freed) for resource, _, freed in amounts},
        by_score=_by_score(cluster, preemption),
        cost=EvictionCost(
            lost_gpu_hours=round(lost.gpu / 3600, 3),
            lost_cpu_hours=round(lost.cpu / 3600, 3),
            by_criterion=by_criterion(preemption.criteria, preemption.cost),
            decided_by=decided[0].name if decided is not None else None,
            values=decided[1:] if decided is not None else (),
        ),
        cascade=in_turn(preemption.cascade),
        avoided=_avoided(preemption),
    )


def preemptor_name(pod: PodRecord, group: Group | None) -> PreemptorName:
    """Return the name of a preemptor: its group if it has one, else the pod."""
    if group is None:
        return PreemptorName(kind="Pod", namespace=pod.namespace, name=pod.name, priority=pod.priority)
    priority = group.spec.priority if group.spec is not None else pod.priority
    return PreemptorName(kind=group.kind, namespace=group.namespace, name=group.name, priority=priority)


def group_name(pod: PodRecord) -> str | None:
    """Return the name of the pod's group in its namespace."""
    return pod.group.partition("/")[2] if pod.group is not None else None


def _victims(names: Sequence[str], verdict: Verdict) -> list[Victim]:
    unit, reason = verdict.unit, verdict.reason
    why = None
    if reason is not None and not reason.chosen:
        recorded = _eviction_reason(names, reason)
        why = VictimReason(pod=recorded.pod, node_name=recorded.node, message=recorded.text, missing=recorded.missing)
    return [
        Victim(
            namespace=pod.namespace,
            name=pod.name,
            pod_group=group_name(pod),
            node_name=names[row],
            priority=unit.priority,
            unit=unit.name,
            violates_pdb=verdict.violates_pdb,
            why=why,
        )
        for pod, row in sorted(zip(unit.pods, unit.rows, strict=True), key=lambda v: (v[0].namespace, v[0].name))
    ]


def preemption_amounts(cluster: ClusterState, preemption: Preemption) -> list[tuple[str, int, int]]:
    """Return (resource, needed, freed) for all requested resources, the largest share of the cluster first.

    The number of pods is not a requested resource.
    """
    needed: Counter[int] = Counter()
    columns_of: dict[int, set[int]] = {}
    for pod, row in preemption.nominations:
        if preemption.resize:
            columns_of.setdefault(row, set()).update(column for column, _ in pod.signature.requests)
        else:
            needed.update(dict(pod.signature.requests))
    for row, requested in columns_of.items():  # their current amounts are already reserved for them
        over = cluster.nodes.used[:, row] - cluster.nodes.allocatable[:, row]
        needed.update({column: int(over[column]) for column in sorted(requested) if over[column] > 0})
    nodes, names = cluster.nodes, cluster.resources.names
    columns = [column for column in needed if column >= FIRST_RESOURCE and names[column] != "pods"]
    victims = [pod for verdict in preemption.victims for pod in verdict.unit.pods]
    freed = {column: sum(int(pod.signature.delta[column]) for pod in victims) for column in columns}
    n = len(nodes)
    have = {column: int(nodes.stated(column)[nodes.alive[:n]].sum()) for column in columns}
    parts = scarcest_first(MissingAmount(names[column], needed[column], max(1, have[column])) for column in columns)
    by_name = {names[column]: column for column in columns}
    return [(part.resource, needed[by_name[part.resource]], freed[by_name[part.resource]]) for part in parts]


def _by_score(cluster: ClusterState, preemption: Preemption) -> PlacingByScore | None:
    units = preemption.by_score
    if units is None:
        return None
    requested = {column for pod, _ in preemption.nominations for column, _ in pod.signature.requests}
    names = cluster.resources.names
    pods = [pod for unit in units for pod in unit.pods]
    freed = {names[column]: sum(int(pod.signature.delta[column]) for pod in pods) for column in requested}
    return PlacingByScore(
        pods=len(pods),
        highest_priority=max((unit.priority for unit in units), default=None),
        freed={name: readable(name, freed[name]) for name in sorted(freed) if name != "pods"},
    )
