"""Decisions become decision records.

Called once per attempt on the scheduling loop, right after the decision, while the picture is still the one that was
decided on.  The work is linear in the verdicts of a preemption and in the nodes for a rejection; the same rejection of
identical pods is worked out once while nothing changes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Final

from reprieve.cluster.changes import ChangeReader
from reprieve.cluster.controllers import POD_TEMPLATE_HASH
from reprieve.cluster.groups import Group
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.resources import readable
from reprieve.cluster.state import ClusterState
from reprieve.framework.diagnosis import Diagnosis
from reprieve.observability.events import micro_time
from reprieve.observability.records import (
    API_VERSION,
    KIND,
    MOST_LEVELS,
    MOST_LOOKED_AT,
    MOST_MESSAGES,
    MOST_NAMES,
    MOST_NOMINATIONS,
    MOST_RELEASED,
    MOST_REPRIEVED,
    Avoided,
    Candidate,
    Comparison,
    Cost,
    DecisionRecord,
    InTurn,
    InVain,
    Level,
    Members,
    Message,
    Nomination,
    Order,
    PreemptionRecord,
    Reason,
    Ref,
    Released,
    Shortfall,
    Step,
    Timings,
    Unit,
    Waits,
    Why,
)
from reprieve.observability.shortages import lack_of
from reprieve.plugins.gang_scheduling import GREEDY, RETRY
from reprieve.preemption.cost import UPSTREAM
from reprieve.preemption.cost_report import by_criterion, cost_sentences, decisive, lost_by, names_of, plain, turns
from reprieve.preemption.criteria import UPSTREAM_ORDER, HighestPriority, PdbViolations, Pods, PrioritySum, StartTime
from reprieve.preemption.lost_work import EvictedPods
from reprieve.preemption.outcome import CascadeStep, Criterion, Preemption, PreemptionInVain, PutOff, Verdict
from reprieve.preemption.outcome import Cost as CostKey
from reprieve.preemption.units import PreemptionUnit
from reprieve.scheduling.decision import WAITING_FOR_QUORUM, Decision, Rejection, Result
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.group_orders import retries
from reprieve.scheduling.held_room import ReleasedRoom

if TYPE_CHECKING:  # a plan keeps records too, and needs no file for them
    from reprieve.observability.store import Name, RecordStore

RESULTS: Final = {
    Result.SCHEDULED: "PartlyScheduled",
    Result.UNSCHEDULABLE: "Unschedulable",
    Result.WAITING: "Preempting",
    Result.ERROR: "Error",
}
_MOST_ENTITIES: Final = 10_000
_MOST_UNDER_WAY: Final = 64


@dataclass(slots=True)
class _Latest:
    """The last record of an entity: what a repetition or the end of its preemption changes."""

    record: DecisionRecord
    involved: tuple[Name, ...]
    first: float


class RecordKeeper:
    """Makes records and puts them into a store; see the module docstring."""

    def __init__(self, store: RecordStore) -> None:
        self.store = store
        self._engine: Engine | None = None
        self._latest: OrderedDict[str, _Latest] = OrderedDict()
        """The last rejection by entity."""
        self._preempting: OrderedDict[str, _Latest] = OrderedDict()
        """Preemptions that have not ended: these records are large, and kept no longer than needed."""
        self._held: OrderedDict[str, _Latest] = OrderedDict()
        """Preemptions whose room may still be given back, the latest of them."""
        self._lack: tuple[tuple[object, ...], Shortfall] | None = None
        self._changes: ChangeReader | None = None

    def attach(self, engine: Engine) -> None:
        """Whose decisions these are."""
        self._engine = engine
        self._lack, self._changes = None, engine.cluster.changes()

    def decided(self, decision: Decision, *, seconds: float, now: float) -> None:
        """An attempt ended; what ended in a rejection or a preemption is written down."""
        engine = self._engine
        if engine is None or not (decision.rejections or decision.preemption is not None):
            return
        if decision.result is Result.SCHEDULED and decision.retry_now:
            return  # the rest is tried at once: that attempt has the answer
        record = self._record(engine, decision, seconds, now)
        involved = _involved(engine.cluster, record, decision.preemption)
        before = self._latest.pop(decision.key, None)
        if before is not None and _same(before.record, record):
            record.id = before.record.id
            record.repeated = before.record.repeated + 1
            record.first_time = micro_time(before.first)
            latest = _Latest(record, involved, before.first)
        else:
            record.id = self.store.next_id()
            latest = _Latest(record, involved, now)
        kept, most = (
            (self._latest, _MOST_ENTITIES) if record.preemption is None else (self._preempting, _MOST_UNDER_WAY)
        )
        kept[decision.key] = latest
        while len(kept) > most:
            kept.popitem(last=False)
        if record.preemption is not None:
            self._held[decision.key] = latest
            self._held.move_to_end(decision.key)
            if len(self._held) > _MOST_UNDER_WAY:
                self._held.popitem(last=False)
        self.store.put(record, involved)

    def preemption_ended(
        self, preemption: Preemption, *, seconds: float, error: str | None, evicted: EvictedPods
    ) -> None:
        """The API calls of a preemption were made, or one failed: then only what was evicted counts."""
        latest = self._preempting.pop(preemption.key, None)
        if latest is None or latest.record.preemption is None:
            return
        made = latest.record.preemption
        made.state = "Done" if error is None else "Failed"
        made.error = error or ""
        made.seconds = seconds
        if error is not None:
            _count_only(made, preemption, evicted)
        self.store.put(latest.record, latest.involved)

    def room_released(self, room: ReleasedRoom) -> None:
        """A preemptor's room was given back unused: a line in the record of its preemption, while that is at hand."""
        latest = self._held.get(room.key)
        if latest is None or latest.record.preemption is None:
            return
        nodes = room.nodes
        released = latest.record.preemption.released
        del released[: 1 - MOST_RELEASED]
        released.append(
            Released(
                time=micro_time(room.at),
                reason=room.reason.value,
                message=room.message,
                nodes=nodes[:MOST_NAMES],
                nodes_total=len(nodes),
                pods=len(room.pods),
            )
        )
        self.store.put(latest.record, latest.involved)

    def _record(self, engine: Engine, decision: Decision, seconds: float, now: float) -> DecisionRecord:
        diagnosis = decision.diagnosis
        rejections = decision.rejections
        condition = decision.condition
        message = condition.message if condition is not None and condition.message else ""
        if not message and rejections:
            message = rejections[0].message
        record = DecisionRecord(
            id=0,
            api_version=API_VERSION,
            kind=KIND,
            time=micro_time(now),
            entity=_entity(engine.cluster, decision),
            result=RESULTS[decision.result],
            message=message,
            attempt=decision.attempt,
            profile=decision.profile,
            timings=Timings(attempt_seconds=seconds, waiting_seconds=max(0.0, now - decision.queued)),
            nodes=diagnosis.nodes if diagnosis is not None else 0,
            reasons=_reasons(diagnosis),
            rejected_by=sorted(decision.rejected_by),
            pods=_messages(rejections),
        )
        record.levels = _levels(decision)
        if decision.key.startswith("group/"):
            record.members = self._members(engine.cluster, decision)
        if decision.result is Result.UNSCHEDULABLE and rejections:
            record.lack = self._lacking(engine.cluster, decision, record.members)
        if decision.in_vain is not None:
            record.in_vain = in_vain_record(engine.cluster, decision.in_vain, now)
        if decision.put_off is not None:
            record.waits = _waits(decision.put_off)
        if decision.order_matters is not None:
            search = RETRY if retries(engine.running[decision.profile]) else GREEDY
            record.order = Order(search=search, placed=decision.order_matters.placed)
        if decision.preemption is not None:
            record.preemption = preemption_record(engine.cluster, decision.preemption, now)
            if decision.held_until is not None:
                record.preemption.held_until = micro_time(decision.held_until)
        return record

    @staticmethod
    def _members(cluster: ClusterState, decision: Decision) -> Members:
        group = cluster.groups.get(decision.key.removeprefix("group/"))
        placed = sum(1 for rejection in decision.rejections if rejection.message == WAITING_FOR_QUORUM)
        return Members(
            tried=len(decision.rejections) + len(decision.bindings) + len(decision.waiting),
            placed=placed + len(decision.bindings) + len(decision.waiting),
            min_count=group.min_count if group is not None else 0,
            already_scheduled=group.scheduled if group is not None else 0,
        )

    def _lacking(self, cluster: ClusterState, decision: Decision, members: Members | None) -> Shortfall | None:
        diagnosis = decision.diagnosis
        if diagnosis is None:
            return None
        pods = [rejection.pod for rejection in decision.rejections]
        pod, placed, more = pods[0], 0, 1
        if members is not None:
            if any(other.signature is not pod.signature for other in pods):
                return None
            placed = members.placed
            more = max(1, members.min_count - members.already_scheduled - placed)
        key = (pod.signature.id, pod.priority, placed, more)
        as_before = self._changes is not None and self._changes.take() == []
        if as_before and members is None and self._lack is not None and self._lack[0] == key:
            return self._lack[1]
        lack = lack_of(cluster, pod, diagnosis, placed=placed, more=more)
        self._lack = (key, lack)
        return lack


def preemption_record(cluster: ClusterState, preemption: Preemption, now: float) -> PreemptionRecord:
    """A decision to preempt as data; `now`: when it was made, for how long the victims have been running."""
    names = cluster.nodes.names
    evicted: list[Verdict] = []
    spared: list[Verdict] = []
    reprieved = 0
    for verdict in preemption.verdicts:
        if verdict.reason is not None:
            evicted.append(verdict)
        else:
            reprieved += 1
            if reprieved <= MOST_REPRIEVED:
                spared.append(verdict)
    key = preemption.cost if preemption.criteria else UPSTREAM.cost_of(evicted)
    criteria = preemption.criteria or UPSTREAM.described
    work = lost_by(cluster, preemption)
    lost = sum(max(0.0, now - pod.start) for verdict in evicted for pod in verdict.unit.pods if pod.start is not None)
    return PreemptionRecord(
        domain=preemption.domain,
        potential_victims=len(preemption.verdicts) + len(preemption.remains),
        evicted=[_evicted_unit(cluster, verdict, now) for verdict in evicted],
        reprieved=[_unit(names, verdict, now) for verdict in spared],
        reprieved_total=reprieved,
        cost=Cost(
            units=len(evicted),
            pods=sum(len(verdict.unit.pods) for verdict in evicted),
            highest_priority=max((verdict.unit.priority for verdict in evicted), default=0),
            pdb_violations=sum(1 for verdict in evicted if verdict.violates_pdb),
            running_seconds_lost=lost,
            lost_gpu_hours=round(work.gpu / 3600, 3),
            lost_cpu_hours=round(work.cpu / 3600, 3),
            by_criterion=by_criterion(criteria, key),
        ),
        comparison=_comparison(preemption, criteria, key),
        cascade=_turns(preemption.cascade),
        avoided=Avoided(units=list(names_of(preemption.avoided.victims)), cascade=_turns(preemption.avoided.steps))
        if preemption.avoided is not None
        else None,
        told=list(cost_sentences(cluster, preemption)),
        nominations=[
            Nomination(pod=pod.key, node=names[row]) for pod, row in preemption.nominations[:MOST_NOMINATIONS]
        ],
        nominations_total=len(preemption.nominations),
    )


def _count_only(made: PreemptionRecord, preemption: Preemption, evicted: EvictedPods) -> None:
    """A preemption that failed costs what it has evicted; no capacity is reserved by it."""
    gone = [sum(1 for pod in verdict.unit.pods if pod.uid in evicted.uids) for verdict in preemption.victims]
    for unit, pods in zip(made.evicted, gone, strict=True):
        unit.outcome = "Evicted" if pods else "NotEvicted"
    units = [unit for unit in made.evicted if unit.outcome == "Evicted"]
    made.cost = Cost(
        units=len(units),
        pods=sum(gone),
        highest_priority=max((unit.priority for unit in units), default=0),
        pdb_violations=sum(1 for unit in units if unit.violates_pdb),
        running_seconds_lost=evicted.running_seconds,
        lost_gpu_hours=round(evicted.gpu / 3600, 3),
        lost_cpu_hours=round(evicted.cpu / 3600, 3),
    )
    made.told, made.cascade, made.avoided, made.held_until = [], [], None, ""


def in_vain_record(cluster: ClusterState, found: PreemptionInVain, now: float) -> InVain:
    """A preemption that did not come about as data; `now`: for how long the potential victims have been running."""
    diagnosis = found.diagnosis
    first = [Verdict(unit, False, None) for unit in found.units[:MOST_LOOKED_AT]]
    return InVain(
        reason=found.why.value,
        potential_victims=len(found.units),
        pods=sum(len(unit.pods) for unit in found.units),
        looked_at=[_unit(cluster.nodes.names, verdict, now, outcome="LookedAt") for verdict in first],
        placed=found.placed,
        needed=found.needed,
        pod=found.pod.key if found.pod is not None else "",
        nodes=diagnosis.nodes if diagnosis is not None else 0,
        reasons=_reasons(diagnosis),
        lowest_priority=found.lowest,
    )


def _waits(put_off: PutOff) -> Waits:
    return Waits(
        reason=put_off.why.value,
        message=put_off.message,
        until=micro_time(put_off.until) if put_off.until is not None else "",
        pods=[pod.key for pod in put_off.pods[:MOST_NAMES]],
        pods_total=len(put_off.pods),
    )


def _reasons(diagnosis: Diagnosis | None) -> list[Reason]:
    """Reasons with their nodes, the most frequent first."""
    counts = diagnosis.reasons if diagnosis is not None else {}
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [Reason(reason=reason, nodes=nodes) for reason, nodes in ordered]


def _turns(steps: Sequence[CascadeStep]) -> list[InTurn]:
    return [
        InTurn(round=turn.round, by=turn.evictor, evicted=list(turn.evicted), pods=turn.pods) for turn in turns(steps)
    ]


def _comparison(preemption: Preemption, criteria: Sequence[Criterion], key: CostKey | None) -> Comparison:
    compared = preemption.compared
    found = Comparison(candidates=preemption.candidates, chosen=_candidate(preemption.domain, criteria, key))
    if compared is None:
        return found
    found.runner_up = _candidate(compared.domain, criteria, compared.cost)
    found.steps = [Step(criterion=criterion, left=left) for criterion, left in compared.steps]
    # The last criterion is the one that distinguished the chosen one from those left, of whom this is the best.
    found.decided_by = compared.steps[-1][0] if compared.steps else ""
    decided = decisive(preemption)
    if decided is not None:
        found.criterion = decided[0].name
        found.values = list(decided[1:])
    return found


def _started(cost: float) -> str:
    return micro_time(-cost) if isfinite(cost) else ""


def _candidate(domain: str, criteria: Sequence[Criterion], key: CostKey | None) -> Candidate:
    if key is None:
        return Candidate(domain=domain)
    costs = {criterion.name: cost for criterion, cost in zip(criteria, key, strict=True)}
    return Candidate(
        domain=domain,
        pdb_violations=int(costs.get(PdbViolations.name, 0)),
        highest_priority=int(costs.get(HighestPriority.name, 0)),
        priority_sum=int(costs.get(PrioritySum.name, 0)),
        pods=int(costs.get(Pods.name, 0)),
        earliest_start=_started(costs[StartTime.name]) if StartTime.name in costs else "",
        others={name: plain(cost) for name, cost in costs.items() if name not in UPSTREAM_ORDER and isfinite(cost)},
    )


def _unit(names: Sequence[str], verdict: Verdict, now: float, *, outcome: str = "") -> Unit:
    unit, reason = verdict.unit, verdict.reason
    starts = [pod.start for pod in unit.pods if pod.start is not None]
    on = sorted({names[row] for row in unit.rows})
    return Unit(
        unit=unit.name,
        kind=unit.group.kind if unit.group is not None else "Pod",
        outcome=outcome or ("Reprieved" if reason is None else "Evicted"),
        priority=unit.priority,
        pods=len(unit.pods),
        pod_names=[pod.key for pod in unit.pods[:MOST_NAMES]],
        uid=unit.group.uid if unit.group is not None else unit.pods[0].uid,
        pod_uids=[pod.uid for pod in unit.pods[:MOST_NAMES]],
        nodes=on[:MOST_NAMES],
        nodes_total=len(on),
        running_seconds=max(0.0, now - min(starts)) if starts else None,
        violates_pdb=verdict.violates_pdb,
        why=None
        if reason is None or reason.chosen
        else Why(
            pod=reason.pod.key,
            node=names[reason.row],
            plugin=reason.plugin,
            text=reason.text,
            resource=reason.resource,
            short=readable(reason.resource, reason.short) if reason.short else "",
            missing={one.resource: readable(one.resource, one.short) for one in reason.missing},
        ),
    )


def _evicted_unit(cluster: ClusterState, verdict: Verdict, now: float) -> Unit:
    unit = _unit(cluster.nodes.names, verdict, now)
    unit.owners = [
        f"{kind} {namespace}/{name}" for kind, namespace, name in _owners(cluster, verdict.unit)[:MOST_NAMES]
    ]
    return unit


def _owners(cluster: ClusterState, unit: PreemptionUnit) -> list[Name]:
    """The controllers of a unit's pods and groups, and the highest known above each; kinds in lower case."""
    groups: set[Group] = {
        group for pod in unit.pods if pod.group in cluster.groups for group in (cluster.groups[pod.group],)
    }
    held = {(pod.namespace, pod.owner, pod.labels.get(POD_TEMPLATE_HASH, "")) for pod in unit.pods}
    held |= {(group.namespace, group.owner, "") for group in (*groups, *unit.groups)}
    found: dict[Name, None] = {}
    for namespace, owner, value in sorted(held, key=repr):
        if owner is not None:
            labels = {POD_TEMPLATE_HASH: value} if value else {}
            for _, kind, name in (owner, cluster.controllers.highest(namespace, owner, labels)):
                found[kind.lower(), namespace, name] = None
    return list(found)


def _entity(cluster: ClusterState, decision: Decision) -> Ref:
    kind, _, key = decision.key.partition("/")
    if kind != "pod":
        namespace, _, name = key.partition("/")
        group = cluster.trees.find(decision.key)
        spec = group.spec if group is not None else None
        return Ref(
            kind="PodGroup" if kind == "group" else "CompositePodGroup",
            namespace=namespace,
            name=name,
            uid=group.uid if group is not None else "",
            priority=spec.priority if spec is not None else 0,
        )
    pod = _pod_of(decision)
    return Ref(kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid, priority=pod.priority)


def _levels(decision: Decision) -> list[Level]:
    """What became of the groups of a tree; those that failed first, where there are many."""
    shown = (
        sorted(decision.levels, key=lambda level: level.ok) if len(decision.levels) > MOST_LEVELS else decision.levels
    )
    return [
        Level(
            kind=level.kind,
            name=level.group,
            ok=level.ok,
            needed=level.needed,
            succeeded=level.succeeded,
            of=level.of,
            why=level.why,
            short=list(level.short[:MOST_NAMES]),
        )
        for level in shown[:MOST_LEVELS]
    ]


def _pod_of(decision: Decision) -> PodRecord:
    if decision.rejections:
        return decision.rejections[0].pod
    assert decision.preemption is not None
    return decision.preemption.nominations[0][0]


def _messages(rejections: Iterable[Rejection]) -> list[Message]:
    """Pods by the message of their condition, in the order in which the messages come up."""
    found: dict[tuple[str, str], Message] = {}
    for rejection in rejections:
        key = (rejection.reason, rejection.message)
        message = found.get(key)
        if message is None:
            if len(found) >= MOST_MESSAGES:
                continue
            message = found[key] = Message(message=rejection.message, reason=rejection.reason, pods=0, names=[])
        message.pods += 1
        if len(message.names) < MOST_NAMES:
            message.names.append(rejection.pod.key)
    return list(found.values())


def _same(one: DecisionRecord, other: DecisionRecord) -> bool:
    return (
        one.preemption is None
        and other.preemption is None
        and one.entity == other.entity
        and (one.result, one.message) == (other.result, other.message)
    )


def _involved(cluster: ClusterState, record: DecisionRecord, preemption: Preemption | None) -> tuple[Name, ...]:
    """The names that the record is found by: the entity, and all that is evicted with its owners."""
    entity = record.entity
    names = {(entity.kind, entity.namespace, entity.name): None}
    if preemption is not None:
        for verdict in preemption.verdicts:
            if verdict.reason is None:
                continue
            for group in verdict.unit.groups[:MOST_LEVELS]:
                names[group.kind, group.namespace, group.name] = None
            for pod in verdict.unit.pods:
                names["Pod", pod.namespace, pod.name] = None
            names |= dict.fromkeys(_owners(cluster, verdict.unit))
    return tuple(names)
