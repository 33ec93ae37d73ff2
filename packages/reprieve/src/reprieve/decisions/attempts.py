"""Builds the decision record of a scheduling attempt.

The cost is linear in the verdicts of a preemption and in the nodes for a rejection. The same rejection of identical
pods is computed only once while nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from kube_rules.durations import micro_time, readable_time
from kube_rules.versions import DOCUMENT_VERSION
from reprieve.cluster.groups import Group
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.decisions.preemptions import failed_preemption, owners_of, preemption_record, reason_counts
from reprieve.decisions.records import (
    BACKFILL_OVERRUN,
    GANG_RESTARTED,
    KIND,
    MOST_LEVELS,
    MOST_MESSAGES,
    MOST_NAMES,
    DecisionRecord,
    DeferralRecord,
    EntityReference,
    LevelRecord,
    MemberCounts,
    MessageCount,
    OrderRecord,
    ReservationRecord,
    Shortfall,
    Timings,
)
from reprieve.decisions.shortages import lack_of
from reprieve.framework.plugin import CycleState
from reprieve.plugins.gang_scheduling import GREEDY, RETRY
from reprieve.preemption.free_resources import only_resources
from reprieve.preemption.outcome import Deferral, Preemption, Reason, Verdict
from reprieve.queueing.entity import RESIZES
from reprieve.scheduling.decision import WAITING_FOR_QUORUM, Decision, Rejection, Result
from reprieve.scheduling.effects import DirectEviction
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.gang_restarts import GangRestart
from reprieve.scheduling.group_orders import retries

RESULTS: Final = {
    Result.SCHEDULED: "PartlyScheduled",
    Result.UNSCHEDULABLE: "Unschedulable",
    Result.WAITING: "Preempting",
    Result.ERROR: "Error",
}
EVICTED: Final = "Evicted"
"""The result in records of evictions without a preemption."""


ObjectName = tuple[str, str, str]
"""(kind, namespace, name)."""


class RecordBuilder:
    """Builds the records of one engine's decisions, each directly after its decision."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lack: tuple[tuple[object, ...], Shortfall] | None = None
        self._changes = engine.cluster.changes()

    def record(self, decision: Decision, *, seconds: float, now: float) -> DecisionRecord | None:
        """Return the record of an attempt that took this many seconds, with id 0, or None if it is not recorded.

        Attempts with a rejection or a preemption are recorded, unless the remaining pods are retried immediately.
        """
        if not decision.rejections and decision.preemption is None:
            return None
        if decision.result is Result.SCHEDULED and decision.retry_now:
            return None
        cluster, diagnosis, rejections = self._engine.cluster, decision.diagnosis, decision.rejections
        condition = decision.condition
        message = condition.message if condition is not None and condition.message else ""
        if not message and rejections:
            message = rejections[0].message
        members = _members(cluster, decision) if decision.ref.startswith("group/") else None
        preemption, order, failed = decision.preemption, decision.order_matters, decision.unhelpful
        lacking = decision.result is Result.UNSCHEDULABLE and rejections
        return DecisionRecord(
            id=0,
            api_version=DOCUMENT_VERSION,
            kind=KIND,
            time=micro_time(now),
            entity=_entity(cluster, decision),
            result=RESULTS[decision.result],
            message=message,
            attempt=decision.attempt,
            profile=decision.profile,
            timings=Timings(attempt_seconds=seconds, waiting_seconds=max(0.0, now - decision.queued_at)),
            nodes=diagnosis.nodes if diagnosis is not None else 0,
            reasons=reason_counts(diagnosis),
            rejected_by=tuple(sorted(decision.rejected_by)),
            pods=_messages(rejections),
            members=members,
            levels=_levels(decision),
            lack=self._lacking(cluster, decision, members) if lacking else None,
            preemption=preemption_record(cluster, preemption, now, held_until=decision.held_until)
            if preemption is not None
            else None,
            in_vain=failed_preemption(cluster, failed, now) if failed is not None else None,
            waits=_deferral(decision.deferral) if decision.deferral is not None else None,
            reservation=reservation_record(self._engine, decision.ref),
            resize=decision.resize,
            order=OrderRecord(search=self._search(decision), placed=order.placed) if order is not None else None,
        )

    def evicted(self, eviction: DirectEviction, now: float) -> tuple[DecisionRecord, tuple[ObjectName, ...]]:
        """Return the record of an eviction without a preemption, with id 0, and the names under which it is found."""
        cluster, entity, unit = self._engine.cluster, eviction.entity, eviction.unit
        group, pod = (None, entity) if isinstance(entity, PodRecord) else (entity, None)
        reason = Reason(unit.pods[0], unit.rows[0], "", eviction.message, chosen=True)
        preemption = Preemption(pod, group, 0, "cluster", (), (Verdict(unit, False, reason),))
        planned = preemption_record(cluster, preemption, now)
        cause = GANG_RESTARTED if isinstance(eviction, GangRestart) else BACKFILL_OVERRUN
        evicted = tuple(replace(item, because=eviction.message) for item in planned.evicted)
        reference = _pod_reference(entity) if isinstance(entity, PodRecord) else _group_reference(entity)
        record = DecisionRecord(
            id=0,
            api_version=DOCUMENT_VERSION,
            kind=KIND,
            time=micro_time(now),
            entity=reference,
            result=EVICTED,
            message=eviction.message,
            attempt=0,
            timings=Timings(attempt_seconds=0.0, waiting_seconds=0.0),
            preemption=replace(planned, cause=cause, evicted=evicted, cost_notes=(), told=()),
        )
        return record, involved_names(cluster, reference, preemption)

    def _search(self, decision: Decision) -> str:
        return RETRY if retries(self._engine.running[decision.profile]) else GREEDY

    def _lacking(self, cluster: ClusterState, decision: Decision, members: MemberCounts | None) -> Shortfall | None:
        diagnosis = decision.diagnosis
        if diagnosis is None:
            return None
        pods = [rejection.pod for rejection in decision.rejections]
        pod, placed, more = pods[0], 0, 1
        if members is not None:
            if any(rejected.signature is not pod.signature for rejected in pods):
                return None
            placed = members.placed
            more = max(1, members.min_count - members.already_scheduled - placed)
        key = (pod.signature.id, pod.priority, placed, more)
        as_before = self._changes.take() == []
        if as_before and members is None and self._lack is not None and self._lack[0] == key:
            return self._lack[1]
        group = cluster.groups.get(pod.group) if members is not None and pod.group is not None else None
        spec = group.spec if group is not None else None
        constrained = spec is not None and (spec.topology_key or spec.topology.slices or spec.claims or spec.parent)
        profile = self._engine.running[decision.profile].profile
        only_amounts = not constrained and only_resources(profile, [CycleState(cluster, pod)])
        lack = lack_of(cluster, pod, diagnosis, placed=placed, more=more, only_amounts=only_amounts)
        self._lack = (key, lack)
        return lack


def _members(cluster: ClusterState, decision: Decision) -> MemberCounts:
    group = cluster.groups.get(decision.ref.removeprefix("group/"))
    placed = sum(1 for rejection in decision.rejections if rejection.message == WAITING_FOR_QUORUM)
    return MemberCounts(
        tried=len(decision.rejections) + len(decision.bindings) + len(decision.waiting),
        placed=placed + len(decision.bindings) + len(decision.waiting),
        min_count=group.min_count if group is not None else 0,
        already_scheduled=group.scheduled if group is not None else 0,
    )


def _deferral(deferred: Deferral) -> DeferralRecord:
    return DeferralRecord(
        reason=deferred.why.value,
        message=deferred.message,
        until=micro_time(deferred.until) if deferred.until is not None else "",
        pods=tuple(pod.key for pod in deferred.pods[:MOST_NAMES]),
        pods_total=len(deferred.pods),
    )


def _entity(cluster: ClusterState, decision: Decision) -> EntityReference:
    ref = decision.ref.removeprefix(RESIZES)
    kind, _, key = ref.partition("/")
    if kind != "pod":
        namespace, _, name = key.partition("/")
        group = cluster.trees.find(ref)
        if group is not None:
            return _group_reference(group)
        return EntityReference("PodGroup" if kind == "group" else "CompositePodGroup", namespace, name)
    return _pod_reference(_pod_of(decision))


def _group_reference(group: Group) -> EntityReference:
    priority = group.spec.priority if group.spec is not None else 0
    return EntityReference(group.kind, group.namespace, group.name, group.uid, priority)


def _pod_reference(pod: PodRecord) -> EntityReference:
    return EntityReference("Pod", pod.namespace, pod.name, pod.uid, pod.priority)


def _levels(decision: Decision) -> tuple[LevelRecord, ...]:
    """Return the results of the groups of a tree. If there are many, failed ones come first."""
    many = len(decision.levels) > MOST_LEVELS
    shown = sorted(decision.levels, key=lambda level: level.ok) if many else decision.levels
    return tuple(
        LevelRecord(
            kind=level.kind,
            name=level.group,
            ok=level.ok,
            needed=level.needed,
            succeeded=level.succeeded,
            of=level.total,
            why=level.reason,
            short=level.failed_groups[:MOST_NAMES],
        )
        for level in shown[:MOST_LEVELS]
    )


def _pod_of(decision: Decision) -> PodRecord:
    if decision.rejections:
        return decision.rejections[0].pod
    assert decision.preemption is not None
    return decision.preemption.nominations[0][0]


def _messages(rejections: Iterable[Rejection]) -> tuple[MessageCount, ...]:
    """Return the pods by the message of their condition, in order of first occurrence."""
    names: dict[tuple[str, str], list[str]] = {}
    for rejection in rejections:
        key = (rejection.reason, rejection.message)
        if key in names or len(names) < MOST_MESSAGES:
            names.setdefault(key, []).append(rejection.pod.key)
    return tuple(
        MessageCount(message=message, reason=reason, pods=len(pods), names=tuple(pods[:MOST_NAMES]))
        for (reason, message), pods in names.items()
    )


def involved_names(
    cluster: ClusterState, entity: EntityReference, preemption: Preemption | None
) -> tuple[ObjectName, ...]:
    """Return the names under which a record is found: the entity, and all evicted workloads with their owners."""
    names = {(entity.kind, entity.namespace, entity.name): None}
    if preemption is not None:
        for verdict in preemption.verdicts:
            if verdict.reason is None:
                continue
            for group in verdict.unit.groups[:MOST_LEVELS]:
                names[group.kind, group.namespace, group.name] = None
            for pod in verdict.unit.pods:
                names["Pod", pod.namespace, pod.name] = None
            names |= dict.fromkeys(owners_of(cluster, verdict.unit))
    return tuple(names)


def _kept_record(engine: Engine, ref: str) -> ReservationRecord | None:
    """Return the capacity of lost members that is kept for a gang (repair.md 2)."""
    places = engine.repair.places.of_entity(ref)
    if not places:
        return None
    nodes = list(dict.fromkeys(place.node for place in places))
    until = readable_time(max(place.until for place in places))
    return ReservationRecord(
        nodes=tuple(nodes[:MOST_NAMES]),
        nodes_total=len(nodes),
        expected_start="",
        waits_for=(),
        waits_for_total=0,
        message=f"what its lost members had is kept for replacements until {until}",
        backfill="higher priorities may use it",
    )


def reservation_record(engine: Engine, ref: str) -> ReservationRecord | None:
    """Return the reservation that an entity holds now, in the form used in records."""
    reservation = engine.reservations.by_ref.get(ref)
    if reservation is None:
        return _kept_record(engine, ref)
    waits = sorted(pod.key for pod in reservation.waits_for)
    return ReservationRecord(
        nodes=tuple(reservation.nodes[:MOST_NAMES]),
        nodes_total=len(reservation.nodes),
        expected_start=readable_time(reservation.expected_start) if reservation.expected_start is not None else "",
        waits_for=tuple(waits[:MOST_NAMES]),
        waits_for_total=len(waits),
        message=reservation.describe_start(),
        backfill=reservation.describe_backfill(),
    )
