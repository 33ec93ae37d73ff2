"""Decisions to preempt as a plan reports them: who goes, who was spared and why, and what it costs (cost.md 1)."""

from collections import Counter
from collections.abc import Sequence, Set

from reprieve.cluster.resources import FIRST_RESOURCE, readable, shortages_text
from reprieve.cluster.state import ClusterState
from reprieve.preemption.cost_report import by_criterion, cost_sentences, decisive, lost_by, names_of, turns
from reprieve.preemption.outcome import CascadeStep, Missing, Preemption, Verdict, scarcest_first
from reprieve.simulation.report import (
    AvoidedEviction,
    EvictionCost,
    InTurn,
    PlacingByScore,
    PreemptionAccount,
    PreemptionOutcome,
    Preemptor,
    UnitAccount,
    Victim,
    VictimReason,
)
from reprieve.simulation.report_outcomes import group_name
from reprieve.simulation.virtual import Preempted, VirtualCluster

_LISTED_IN_ALL, _LISTED_OF_EACH = 5_000, 20
"""Spared units that are listed: all of them until there are so many in all, then so many of each decision."""


class PreemptionLedger:
    """Preemptions as they will be reported, made of each decision at once: a decision holds on to the whole cluster.

    Spared units are listed one by one up to a number in all; after that only the most important of each decision.
    """

    def __init__(self, world: VirtualCluster, *, accounts: bool) -> None:
        self._world = world
        self._accounts = accounts
        self._listed = 0
        self._evicted: set[str] = set()
        """UIDs of the victims so far."""
        self.outcomes: list[PreemptionOutcome] = []
        self.accounts: list[PreemptionAccount] = []

    def note(self, made: Preempted) -> None:
        """A decision was made."""
        self.outcomes.append(_preemption(self._world, made))
        if not self._accounts:
            return
        spared = made.preemption.reprieved
        most = spared if self._listed < _LISTED_IN_ALL else _LISTED_OF_EACH
        self._listed += min(spared, most)
        self.accounts.append(_account(self._world, made, most, self._evicted))
        self._evicted.update(pod.uid for verdict in made.preemption.victims for pod in verdict.unit.pods)


def _preemption(world: VirtualCluster, made: Preempted) -> PreemptionOutcome:
    names = world.engine.cluster.nodes.names
    preemption = made.preemption
    amounts = _amounts(world.engine.cluster, preemption)
    who = preemption.group or preemption.pod
    assert who is not None
    kind = preemption.group.kind if preemption.group is not None else "Pod"
    return PreemptionOutcome(
        preemptor=Preemptor(kind=kind, namespace=who.namespace, name=who.name, priority=preemption.priority),
        domain=preemption.domain,
        nominations={
            pod.key: names[row]
            for pod, row in sorted(preemption.nominations, key=lambda n: (n[0].namespace, n[0].name))
        },
        victims=tuple(
            Victim(
                namespace=pod.namespace,
                name=pod.name,
                pod_group=group_name(pod),
                node_name=names[row],
                priority=verdict.unit.priority,
                unit=verdict.unit.name,
                violates_pdb=verdict.violates_pdb,
                why=_victim_reason(names, verdict),
            )
            for verdict in preemption.victims
            for pod, row in sorted(
                zip(verdict.unit.pods, verdict.unit.rows, strict=True), key=lambda v: (v[0].namespace, v[0].name)
            )
        ),
        reprieved=preemption.reprieved,
        pdb_violations=preemption.pdb_violations,
        needed={resource: readable(resource, needed) for resource, needed, _ in amounts},
        freed={resource: readable(resource, freed) for resource, _, freed in amounts},
        by_score=_by_score(world.engine.cluster, preemption),
        cost=_cost(world.engine.cluster, preemption),
        cascade=_in_turn(preemption.cascade),
        avoided=AvoidedEviction(units=names_of(preemption.avoided.victims), cascade=_in_turn(preemption.avoided.steps))
        if preemption.avoided is not None
        else None,
    )


def _cost(cluster: ClusterState, preemption: Preemption) -> EvictionCost:
    lost, decided = lost_by(cluster, preemption), decisive(preemption)
    return EvictionCost(
        lost_gpu_hours=round(lost.gpu / 3600, 3),
        lost_cpu_hours=round(lost.cpu / 3600, 3),
        by_criterion=by_criterion(preemption.criteria, preemption.cost),
        decided_by=decided[0].name if decided is not None else None,
        values=decided[1:] if decided is not None else (),
    )


def _in_turn(steps: Sequence[CascadeStep]) -> tuple[InTurn, ...]:
    return tuple(InTurn(round=t.round, by=t.evictor, evicted=t.evicted, pods=t.pods) for t in turns(steps))


def _amounts(cluster: ClusterState, preemption: Preemption) -> list[tuple[str, int, int]]:
    """(resource, needed, freed) of everything the preemptor asks for, the largest part of the cluster first.

    Pods are no resource anybody asks for.
    """
    needed: Counter[int] = Counter()
    for pod, _ in preemption.nominations:
        needed.update(dict(pod.signature.requests))
    nodes, names = cluster.nodes, cluster.resources.names
    columns = [column for column in needed if column >= FIRST_RESOURCE and names[column] != "pods"]
    victims = [pod for verdict in preemption.victims for pod in verdict.unit.pods]
    freed = {column: sum(int(pod.signature.delta[column]) for pod in victims) for column in columns}
    n = len(nodes)
    have = {column: int(nodes.stated(column)[nodes.alive[:n]].sum()) for column in columns}
    parts = scarcest_first(Missing(names[column], needed[column], max(1, have[column])) for column in columns)
    by_name = {names[column]: column for column in columns}
    return [(one.resource, needed[by_name[one.resource]], freed[by_name[one.resource]]) for one in parts]


def _by_score(cluster: ClusterState, preemption: Preemption) -> PlacingByScore | None:
    units = preemption.by_score
    if units is None:
        return None
    asked = {column for pod, _ in preemption.nominations for column, _ in pod.signature.requests}
    names = cluster.resources.names
    pods = [pod for unit in units for pod in unit.pods]
    freed = {names[column]: sum(int(pod.signature.delta[column]) for pod in pods) for column in asked}
    return PlacingByScore(
        pods=len(pods),
        highest_priority=max((unit.priority for unit in units), default=None),
        freed={name: readable(name, freed[name]) for name in sorted(freed) if name != "pods"},
    )


def _worth(preemption: Preemption) -> tuple[int, int] | None:
    """Pods and highest priority of the other way to place the group, where they differ from what was chosen."""
    others = preemption.by_score
    if not others:
        return None
    chosen = [verdict.unit for verdict in preemption.victims]
    one, other = (
        (sum(len(unit.pods) for unit in units), max((unit.priority for unit in units), default=0))
        for units in (chosen, others)
    )
    return other if one != other else None


def _victim_reason(names: Sequence[str], verdict: Verdict) -> VictimReason | None:
    reason = verdict.reason
    if reason is None or reason.chosen:
        return None
    missing = {one.resource: readable(one.resource, one.short) for one in reason.missing}
    return VictimReason(pod=reason.pod.key, node_name=names[reason.row], message=reason.text, missing=missing)


def _account(world: VirtualCluster, made: Preempted, most: int, before: Set[str]) -> PreemptionAccount:
    """`most`: how many spared units to list; `before`: UIDs of the victims of earlier decisions."""
    names = world.engine.cluster.nodes.names
    preemption = made.preemption
    if preemption.group is not None:
        preemptor = f"{preemption.group.kind.lower()} {preemption.group.key}"
    else:
        preemptor = f"pod {preemption.pod.key if preemption.pod is not None else ''}"
    amounts = _amounts(world.engine.cluster, preemption)
    listed: list[UnitAccount] = []
    more = protected = 0
    for verdict in preemption.verdicts:
        if verdict.evicted or most > 0:
            listed.append(_unit(world, verdict, made.at, before))
            most -= not verdict.evicted
        else:
            more += 1
            protected += verdict.violates_pdb
    return PreemptionAccount(
        preemptor=preemptor,
        priority=preemption.priority,
        domain=preemption.domain,
        at=made.at - world.start,
        nominations=tuple((pod.key, names[row]) for pod, row in preemption.nominations),
        units=tuple(listed),
        candidates=preemption.candidates,
        needed=_first_amount(amounts),
        by_score=_worth(preemption),
        cost_notes=cost_sentences(world.engine.cluster, preemption),
        more_spared=more,
        more_protected=protected,
    )


def _first_amount(amounts: Sequence[tuple[str, int, int]]) -> tuple[str, str, str, str] | None:
    """(resource, needed, freed, what of the need was free before) of the first; the last is empty if nothing was."""
    for resource, needed, freed in amounts:
        before = readable(resource, needed - freed) if needed > freed else ""
        return resource, readable(resource, needed), readable(resource, freed), before
    return None


def _unit(world: VirtualCluster, verdict: Verdict, now: float, before: Set[str]) -> UnitAccount:
    names = world.engine.cluster.nodes.names
    unit, reason = verdict.unit, verdict.reason
    why = ""
    if reason is not None:
        short = {one.resource: readable(one.resource, one.short) for one in reason.missing}
        text = shortages_text(short) if short else reason.text
        because = f"with it back, {reason.pod.key} would not fit on {names[reason.row]}: {text}"
        why = reason.text if reason.chosen else because
    started = [pod.start for pod in unit.pods if pod.start is not None]
    return UnitAccount(
        unit=unit.name,
        whole_group=unit.group is not None,
        pods=tuple(pod.key for pod in unit.pods),
        nodes=tuple(sorted({names[row] for row in unit.rows})),
        priority=unit.priority,
        violates_pdb=verdict.violates_pdb,
        evicted=verdict.evicted,
        why=why,
        running_seconds=max(0.0, now - min(started)) if started else None,
        evicted_before=verdict.evicted and all(pod.uid in before for pod in unit.pods),
    )
