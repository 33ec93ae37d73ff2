"""The text of `explain`: state of a pod or pod group, reason, victims or preemptor, what would help.

Invariant: every sentence follows from the object, its events or a decision record; suggestions are given only if the
numbers show that they help.  Nothing here reads a clock or a cluster.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from kube_rules import objects
from kube_rules.errors import names_text
from kube_rules.group_sources import pod_group_name
from kube_rules.meta import DISRUPTION_TARGET
from kube_rules.requests import resize_is_deferred
from kube_rules.versions import DOCUMENT_VERSION
from reprieve.cli.evidence import MANIFESTS, Evidence, Occurrence, OwnerEvidence, owned_unit, tells_of_object
from reprieve.cli.preemption_text import (
    MOST_SPARED,
    MOST_UNITS,
    comparison_sentences,
    recorded_sections,
    release_sentences,
    unit_summary,
)
from reprieve.cli.sections import BUDGET_OVERRULED, Row, Section, Tone
from reprieve.cli.topology import topology_document, topology_section
from reprieve.cli.units import unit_table
from reprieve.cluster.pods import was_preempted
from reprieve.decisions.hints import helps_of
from reprieve.decisions.outcomes import Help
from reprieve.decisions.phrases import count, seconds_text
from reprieve.decisions.records import (
    DecisionRecord,
    DeferralRecord,
    FailedPreemption,
    ReservationRecord,
    UnitRecord,
)
from reprieve.decisions.requested_nodes import requested_sentence
from reprieve.decisions.wording import MOST_REASONS, order_sentence, time_text, tried_together, without_success
from reprieve.preemption.outcome import DeferralReason

MOST_MESSAGES: Final = 3
MOST_EVENTS: Final = 10
_GROUPS: Final = ("PodGroup", "CompositePodGroup")

# -- the document ----------------------------------------------------------------------------------


def document(evidence: Evidence) -> dict[str, Any]:
    """Return the JSON document of `-o json`."""
    target = evidence.target
    result: dict[str, Any] = {
        "apiVersion": DOCUMENT_VERSION,
        "kind": "Explanation",
        "object": {
            "kind": target.kind,
            "namespace": target.namespace,
            "name": target.name,
            "exists": evidence.exists,
            **_object_details(evidence),
        },
        "state": state_of(evidence)[0],
        "conditions": [
            {"type": c.type, "status": c.status, "reason": c.reason, "message": c.message}
            for c in _conditions(evidence)
        ],
        "whatWouldHelp": helps(evidence),
        "help": [msgspec.to_builtins(item) for item in tried(evidence)],
        "events": [
            {
                "time": _stamp(event.at),
                "type": event.type,
                "reason": event.reason,
                "note": event.note,
                "count": event.count,
            }
            for event in evidence.events
        ],
        "recordsFrom": evidence.source or None,
        "records": [msgspec.to_builtins(record) for record in evidence.records],
    }
    if evidence.owner is not None:
        owner = evidence.owner
        result["owner"] = {
            "kind": owner.kind,
            "namespace": owner.namespace,
            "name": owner.name,
            "pods": owner.pods,
            "waiting": owner.waiting,
        }
    if evidence.topology:
        result["topology"] = topology_document(evidence.topology)
    if evidence.changes:
        result["changes"] = [msgspec.to_builtins(change) for change in evidence.changes]
    computed = evidence.computed
    if computed is not None:
        result["computed"] = {
            "fits": computed.fits,
            "gated": computed.gated or None,
            "priorityThatHelps": computed.priority_that_helps,
            "record": msgspec.to_builtins(computed.record) if computed.record is not None else None,
        }
    return result


def _object_details(evidence: Evidence) -> dict[str, Any]:
    """Return the fields of the object itself, by its kind."""
    details: dict[str, Any] = {}
    pod, group, composite = evidence.pod, evidence.group, evidence.composite
    if pod is not None:
        details["nodeName"] = pod.spec.node_name or None
        details["podGroup"] = pod_group_name(pod)
        details["priority"] = pod.spec.priority or 0
    if evidence.target.kind == "PodGroup" and group is not None:
        details["priority"] = group.spec.priority or 0
        details["minCount"] = group.min_count
        details["pods"] = len(evidence.members)
        details["scheduled"] = _scheduled(evidence.members)
    if composite is not None:
        details["priority"] = composite.spec.priority or 0
        details["minGroupCount"] = composite.min_group_count
        details["pods"] = len(evidence.members)
        details["scheduled"] = _scheduled(evidence.members)
    if evidence.above:
        details["compositePodGroups"] = evidence.above
    return details


# -- the story -------------------------------------------------------------------------------------


def explanation_of(evidence: Evidence) -> list[Section]:
    """Return the story in sections, the answer first."""
    sections = [*_owner_section(evidence.owner), _state_section(evidence), *topology_section(evidence.topology)]
    own = own_record(evidence)
    if _is_waiting(evidence) and own is not None:
        sections += _why(own, {item.kind for item in tried(evidence)})
        sections += _levels(own)
        if own.in_vain is not None:
            sections.append(_potential_victims(own.in_vain, own.entity.priority))
        if own.waits is not None:
            sections.append(_waits(own.waits))
        if own.reservation is not None:
            sections.append(_reservation(own.reservation))
    preemptions = list(_preemptions_by(evidence))
    for record in preemptions[:1]:
        would = evidence.computed is not None and record is evidence.computed.record
        sections += recorded_sections(record, would=would, reserved=_is_waiting(evidence))
    released = [line for record in preemptions[1:] for line in release_sentences(record.preemption)]
    if released:
        sections.append(Section("Capacity that was reserved for it before", notes=tuple(released[:MOST_EVENTS])))
    for record in _preemptions_of(evidence):
        sections.append(_preempted(evidence, record))
    hints = helps(evidence)
    if hints:
        sections.append(Section("What would help", notes=tuple(hints), tone=Tone.GOOD))
    if evidence.events:
        sections.append(_events(evidence.events))
    sections.append(_source(evidence, own))
    return sections


def own_record(evidence: Evidence) -> DecisionRecord | None:
    """Return the newest record of an attempt to place the object, or its group."""
    for record in evidence.records:
        if _is_about(evidence, record):
            return record
    return evidence.computed.record if evidence.computed is not None and not evidence.source else None


def _is_about(evidence: Evidence, record: DecisionRecord) -> bool:
    """Return whether a record is of an attempt to place the object, or its group."""
    entity, target = record.entity, evidence.target
    if record.preemption is not None and record.preemption.cause:
        return False
    if (entity.kind, entity.namespace, entity.name) == (target.kind, target.namespace, target.name):
        uid = _uid(evidence)
        return not uid or not entity.uid or entity.uid == uid
    if entity.namespace != target.namespace:
        return False
    if entity.kind == "CompositePodGroup":
        return entity.name in evidence.above[-1:]
    return entity.kind == "PodGroup" and evidence.pod is not None and entity.name == pod_group_name(evidence.pod)


def _uid(evidence: Evidence) -> str:
    item = evidence.object
    return item.metadata.uid if item is not None else ""


def _preemptions_by(evidence: Evidence) -> Iterable[DecisionRecord]:
    """Return preemptions for the object or its group."""
    for record in evidence.records:
        if record.preemption is not None and _is_about(evidence, record):
            yield record
    computed = evidence.computed
    would = computed.record if computed is not None and not evidence.source else None
    if would is not None and would.preemption is not None:
        yield would


def _preemptions_of(evidence: Evidence) -> Iterable[DecisionRecord]:
    """Return preemptions that evicted the object."""
    for record in evidence.records:
        if record.preemption is None or _is_about(evidence, record) or not tells_of_object(evidence, record):
            continue
        if _unit_of(evidence, record) is not None:
            yield record


def _unit_of(evidence: Evidence, record: DecisionRecord) -> UnitRecord | None:
    """Return the evicted unit that was, or contained, the object."""
    target = evidence.target
    key = f"{target.namespace}/{target.name}"
    evicted = record.preemption.evicted if record.preemption is not None else []
    evicted = [unit for unit in evicted if unit.outcome != "NotEvicted"]
    for unit in evicted:
        if unit.unit == key and unit.kind == target.kind:
            return unit
    trees = {f"{target.namespace}/{name}" for name in evidence.above}
    for unit in evicted:
        if unit.kind == "CompositePodGroup" and unit.unit in trees:
            return unit
    if evidence.owner is not None and (mine := owned_unit(evidence.owner, record)) is not None:
        return mine
    if target.kind != "Pod":
        return None
    for unit in evicted:
        if unit.kind in _GROUPS and key in unit.pod_names:
            return unit
    # A unit lists only its first pods. The record was found by the pod's name, so the pod is in a unit with a cut list.
    partial = [unit for unit in evicted if unit.kind in _GROUPS and unit.pods > len(unit.pod_names)]
    return partial[0] if len(partial) == 1 else None


# -- state -----------------------------------------------------------------------------------------


def state_of(evidence: Evidence) -> tuple[str, str, Tone]:
    """Return a word for the state (for `-o json`), a sentence, and its tone."""
    target = evidence.target
    if evidence.refused:
        return "Refused", f"{target} does not exist: admission refuses it.", Tone.BAD
    owner = evidence.owner
    if owner is not None and owner.pods == 0 and not evidence.exists:
        text = "has no pods: they" if owner.exists else "is gone: its pods"
        return "Preempted", f"{owner} {text} were preempted.", Tone.BAD
    if not evidence.exists:
        if next(iter(_preemptions_of(evidence)), None) is not None:
            return "Preempted", f"{target} is gone: it was preempted.", Tone.BAD
        return "Gone", f"{target} is gone; this is from the scheduler's records.", Tone.QUIET
    if evidence.pod is not None:
        return _pod_state(evidence, evidence.pod)
    return _group_state(evidence)


def _owner_section(owner: OwnerEvidence | None) -> list[Section]:
    """Return the state of an owner of several pods, of which only one pod or gang is explained."""
    if owner is None or (owner.pods < 2 and not owner.refused):
        return []
    waiting = f"{owner.waiting} pending"
    tone = Tone.WAITING if owner.waiting else Tone.GOOD
    return [
        Section(
            f"{owner} has {count(owner.pods, 'pod')}: {owner.pods - owner.waiting} on nodes, {waiting}.",
            notes=(f"{owner.refused}.",) if owner.refused else (),
            tone=tone,
        )
    ]


def _pod_state(evidence: Evidence, pod: objects.Pod) -> tuple[str, str, Tone]:
    target, node = evidence.target, pod.spec.node_name
    leaving = pod.terminating
    if was_preempted(pod) and (leaving or node):
        return "Preempted", f"{target} is being preempted: it is leaving {node}.", Tone.BAD
    if leaving:
        return "Terminating", f"{target} is being deleted.", Tone.QUIET
    if pod.finished:
        return pod.status.phase, f"{target} has ended ({pod.status.phase}).", Tone.QUIET
    if node and resize_is_deferred(pod):
        return "Resizing", f"{target} runs on {node}; its resize in place is deferred.", Tone.WAITING
    if node:
        return "Scheduled", f"{target} is scheduled: it is on {node}.", Tone.GOOD
    if pod.spec.scheduling_gates:
        names = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
        return "Gated", f"{target} is gated by its scheduling gates: {names}.", Tone.WAITING
    nominated = pod.status.nominated_node_name
    if nominated:
        return (
            "Nominated",
            f"{target} is nominated to {nominated}: it waits until capacity is free there.",
            Tone.WAITING,
        )
    return "Waiting", f"{target} is pending: it has no node.", Tone.WAITING


def _group_state(evidence: Evidence) -> tuple[str, str, Tone]:
    target = evidence.target
    staying = [pod for pod in evidence.members if not pod.terminating and not was_preempted(pod)]
    total, scheduled = len(staying), _scheduled(staying)
    if not total and any(c.type == DISRUPTION_TARGET and c.status == "True" for c in _conditions(evidence)):
        leaving = len(evidence.members)
        if leaving:
            return (
                "Preempted",
                f"{target} is being preempted: {count(leaving, 'pod')} still terminating.",
                Tone.BAD,
            )
        return "Preempted", f"{target} was preempted: it has no pods left.", Tone.BAD
    if not total:
        return "Waiting", f"{target} has no pods.", Tone.WAITING
    if scheduled == total:
        return "Scheduled", f"{target} is scheduled: {_all(total)} on nodes.", Tone.GOOD
    if evidence.composite is not None:
        least = evidence.composite.min_group_count
        needed = f" It needs {least} of its groups." if least is not None and least > 1 else ""
    else:
        minimum = evidence.group.min_count if evidence.group is not None else None
        needed = f" It needs {minimum} to start." if minimum is not None and scheduled < minimum else ""
    return "Waiting", f"{target} is pending: {scheduled} of its {count(total, 'pod')} on nodes.{needed}", Tone.WAITING


def _all(total: int) -> str:
    return "its pod is" if total == 1 else f"all its {total} pods are"


def _scheduled(members: Sequence[objects.Pod]) -> int:
    return sum(1 for pod in members if pod.spec.node_name and not pod.terminating)


def _is_waiting(evidence: Evidence) -> bool:
    return state_of(evidence)[0] in ("Waiting", "Nominated", "Gated", "Resizing")


def _conditions(evidence: Evidence) -> Sequence[objects.PodCondition | objects.Condition]:
    item = evidence.object
    return item.status.conditions or () if item is not None else ()


def _state_section(evidence: Evidence) -> Section:
    _, title, tone = state_of(evidence)
    notes = []
    pod, group = evidence.pod, evidence.group
    if pod is not None:
        name = pod_group_name(pod)
        notes.append(f"Priority {pod.spec.priority or 0}" + (f", of podgroup {name}." if name else "."))
        if pod.spec.scheduler_name != objects.DEFAULT_SCHEDULER and not pod.spec.node_name:
            notes.append(f"The scheduler {pod.spec.scheduler_name} places it, by its schedulerName.")
        if name and group is None:
            notes.append(f"There is no podgroup {name}: its pods stay pending until it exists.")
    elif group is not None:
        minimum = f", minCount {group.min_count}" if group.min_count is not None else ""
        notes.append(f"Priority {_group_priority(group, evidence.members)}{minimum}.")
        notes += _schedulers(evidence.members)
    elif evidence.composite is not None:
        least = evidence.composite.min_group_count
        minimum = f", minGroupCount {least}" if least is not None else ""
        notes.append(f"Priority {_group_priority(evidence.composite, evidence.members)}{minimum}.")
        notes += _schedulers(evidence.members)
    if evidence.above:
        notes.append(f"It is scheduled as part of compositepodgroup {evidence.above[-1]}, with the whole tree.")
    if evidence.missing:
        notes.append(f"There is no compositepodgroup {evidence.missing}: the tree stays pending until it exists.")
    notes += [
        f"{condition.type}: {condition.reason}: {condition.message}"
        for condition in _conditions(evidence)
        if condition.status == "False" and condition.message and condition.type.startswith(("Pod", "CompositePodGroup"))
    ]
    notes += [
        f"{condition.type}: {condition.reason}: {condition.message}"
        for condition in _conditions(evidence)
        if condition.type == "PodResizePending" and condition.status == "True" and condition.message
    ]
    requested = requested_sentence(evidence.members if pod is None else (pod,))
    notes += [f"{requested[0].upper()}{requested[1:]}."] if requested else []
    notes += [f"{text}." for text in (evidence.refused, *evidence.refusals) if text]
    computed = evidence.computed
    if computed is not None and not evidence.source and computed.gated:
        notes.append(f"It is not tried: {computed.gated}")
    if computed is not None and not evidence.source and computed.fits:
        running = pod is not None and pod.spec.node_name
        doer = "its kubelet can resize it" if running else "a scheduler with the default configuration would place it"
        notes.append(f"It fits now: {doer}.")
    return Section(title, notes=tuple(notes), tone=tone)


def _schedulers(members: Sequence[objects.Pod]) -> list[str]:
    """Return which scheduler places members that have no node; none places a group of two (preemption.md 8.5)."""
    names = sorted({pod.spec.scheduler_name for pod in members if not pod.spec.node_name})
    if len(names) > 1:
        return [
            f"Its pods have different schedulerNames, {' and '.join(names)}: they are not placed until they all have "
            "the same one."
        ]
    if names and names[0] != objects.DEFAULT_SCHEDULER:
        return [f"The scheduler {names[0]} places it, by the schedulerName of its pods."]
    return []


def _group_priority(group: objects.PodGroup | objects.CompositePodGroup, members: Sequence[objects.Pod]) -> int:
    """Return the priority of a group; a custom resource without one has the highest of its pods."""
    own = group.spec.priority
    return own if own is not None else max((pod.spec.priority or 0 for pod in members), default=0)


# -- why -------------------------------------------------------------------------------------------


def _why(record: DecisionRecord, suggested: Container[str]) -> list[Section]:
    """Return why no node was suitable. `suggested`: kinds of changes that would help, which state what they need."""
    notes = []
    if record.lack is not None and "Node" not in suggested:
        notes += [f"I{big.clause[1:]}." for big in record.lack.too_big]
    if record.members is not None and record.result != "Error":
        notes.append(tried_together(record.members))
    rows = [Row((str(reason.nodes), reason.reason)) for reason in record.reasons[:MOST_REASONS]]
    unlike = [pods for pods in record.pods if pods.message != record.message]
    if not rows:
        notes += [f"{count(pods.pods, 'pod')}: {pods.message}" for pods in unlike[:MOST_MESSAGES]] or [record.message]
        if len(unlike) > MOST_MESSAGES:
            rest = sum(pods.pods for pods in unlike[MOST_MESSAGES:])
            notes.append(f"... and {count(rest, 'pod')} with other messages (-o json lists them)")
    if len(record.reasons) > len(rows):
        notes.append(f"... and {count(len(record.reasons) - len(rows), 'more reason')} (-o json lists them all)")
    title = f"Why: it fits on 0 of {count(record.nodes, 'node')}" if rows else "Why"
    if record.order is not None:
        notes.append(order_sentence(record.order))
    again = f" {record.repeated + 1} attempts had this result." if record.repeated else ""
    if again:
        notes.append(again.strip())
    return [Section(title, ("nodes", "reason") if rows else (), tuple(rows), tuple(notes), tone=Tone.WAITING)]


def _levels(record: DecisionRecord) -> list[Section]:
    """Return which groups of a tree failed and what each lacked, the root first."""
    if not record.levels:
        return []
    rows = []
    for level in record.levels[:MOST_UNITS]:
        of = "pods" if level.kind == "PodGroup" else "groups"
        state = "placed" if level.ok else "failed"
        below = [level.why] if level.why else []
        below += [f"below the minimum: {', '.join(level.short)}"] if level.short else []
        number = f"{level.succeeded} of {level.of} {of}, needs {level.needed}"
        rows.append(Row((f"{level.kind.lower()} {level.name}", state, number), below=tuple(below)))
    more = len(record.levels) - len(rows)
    notes = (f"... and {count(more, 'more group')} (-o json lists them)",) if more else ()
    return [Section("Level by level", ("group", "", "succeeded"), tuple(rows), notes, tone=Tone.WAITING)]


def _reservation(reservation: ReservationRecord) -> Section:
    """Return what is reserved until it starts."""
    where = names_text(reservation.nodes, MOST_MESSAGES, reservation.nodes_total)
    notes = [f"Capacity is reserved for it on {where}: {reservation.message}; {reservation.backfill}."]
    if reservation.waits_for_total:
        names = names_text(reservation.waits_for, MOST_MESSAGES, reservation.waits_for_total)
        pods = names if reservation.waits_for else count(reservation.waits_for_total, "pod")
        notes.append(f"It waits for {pods} to end.")
    return Section("Reserved until it starts", notes=tuple(notes))


def _waits(deferral: DeferralRecord) -> Section:
    """Return why a preemption is deferred, and until when."""
    until = time_text(deferral.until)
    names = names_text(deferral.pods, len(deferral.pods), deferral.pods_total)
    if deferral.reason == DeferralReason.DELAY.value:
        notes = [f"Its preemption-delay ends {until}; capacity that becomes free by then is used without evictions."]
    elif deferral.reason == DeferralReason.MINIMUM_RUNTIME.value:
        notes = [f"Its potential victims are within their minimum-runtime; the first ends {until}."]
    elif deferral.reason == DeferralReason.EVICTION_LIMIT.value:
        notes = [f"Eviction limits protect potential victims; the first limit ends {until}."]
    elif deferral.reason == DeferralReason.PREDECESSOR.value:
        notes = [f"Pods of the same owner are terminating, and their capacity is reserved for it: {names}."]
        if until:
            notes.append(f"If they still exist {until}, it looks for other capacity.")
    elif deferral.reason == DeferralReason.CHECKPOINT.value:
        notes = [f"These victims are expected to save a checkpoint: {names}. It preempts {until}."]
    else:
        notes = [f"These pods state when they end, and their capacity is enough: {names}."]
        notes.append(f"If they have not ended {until}, it preempts. Nothing is reserved for it until then.")
    return Section("Preemption is deferred", notes=tuple(notes), tone=Tone.WAITING)


def _potential_victims(failure: FailedPreemption, priority: int) -> Section:
    shown = failure.considered[:MOST_SPARED]
    columns, rows = unit_table(map(unit_summary, shown), together=False)
    more = failure.potential_victims - len(shown)
    notes = [f"... and {more} more"] if rows and more else []
    notes += without_success(failure, priority)
    columns = columns if rows else ()
    return Section("No pods are evicted for it", columns, tuple(rows), tuple(notes), tone=Tone.WAITING)


def _preempted(evidence: Evidence, record: DecisionRecord) -> Section:
    preemption, entity, unit = record.preemption, record.entity, _unit_of(evidence, record)
    assert preemption is not None
    assert unit is not None
    by = str(entity) if entity.name else f"a {entity.kind.lower()} of priority {entity.priority}"
    notes = [f"{by if entity.name else 'It'} has priority {entity.priority}, this workload has {unit.priority}."]
    title, why, mode = f"Preempted by {by}", "chosen", ": disruptionMode all"
    if preemption.cause:
        title, why, mode, notes = "Evicted", "evicted", "", []
    if evidence.owner is not None:
        notes.append(f"Evicted from {evidence.owner}: {unit.kind.lower()} {unit.unit} ({count(unit.pods, 'pod')}).")
    elif unit.kind in _GROUPS and unit.kind != evidence.target.kind:
        whole = "group" if unit.kind == "PodGroup" else "tree"
        notes.append(f"It was evicted with its whole {whole} {unit.unit} ({count(unit.pods, 'pod')}){mode}.")
    notes.append(f"Why it was {why}: {unit.reason or 'everything still fits with it'}.")
    if unit.violates_pdb:
        notes.append(f"It was evicted {BUDGET_OVERRULED}.")
    notes += comparison_sentences(preemption)
    other_units = preemption.cost.units - 1
    if other_units:
        notes.append(f"{count(other_units, 'other workload')} evicted as well, {preemption.reprieved_total} spared.")
    if preemption.state == "Failed":
        notes.append(f"The preemption failed: {preemption.error}")
    return Section(f"{title} {time_text(record.time)}", notes=tuple(notes), tone=Tone.BAD)


# -- what would help -------------------------------------------------------------------------------


def helps(evidence: Evidence) -> list[str]:
    """Return sentences about what would change the outcome; none if nothing is certain."""
    result: list[str] = []
    for record in _preemptions_of(evidence):
        if record.preemption is not None and record.preemption.cause:
            continue
        priority = record.entity.priority
        result.append(f"With a priority of {priority} or more it would not have been a potential victim.")
        break
    own = own_record(evidence)
    if own is None or not _is_waiting(evidence):
        return result
    computed = evidence.computed
    if computed is not None and computed.helps is not None:
        return result + [help.sentence for help in computed.helps]
    priority_that_helps = computed.priority_that_helps if computed is not None else None
    return result + [help.sentence for help in helps_of(own, priority_that_helps)]


def tried(evidence: Evidence) -> Sequence[Help]:
    """Return the tried suggestions that would help the object (whatif.md 5); none if none were tried."""
    computed = evidence.computed
    return computed.helps or () if computed is not None and _is_waiting(evidence) else ()


# -- the rest --------------------------------------------------------------------------------------


def _events(events: Sequence[Occurrence]) -> Section:
    rows = [
        Row((time_text(_stamp(event.at)), event.reason, f"×{event.count}" if event.count > 1 else "", event.note))
        for event in events[-MOST_EVENTS:]
    ]
    more = len(events) - len(rows)
    notes = (f"... and {more} earlier",) if more else ()
    return Section("Events", ("", "", "", ""), tuple(rows), notes, tone=Tone.QUIET)


def _source(evidence: Evidence, own: DecisionRecord | None) -> Section:
    computed = evidence.computed
    if computed is not None and not evidence.source:
        title, on = "No decision record of a scheduler could be read.", "cluster as it is now"
        if evidence.basis == MANIFESTS:
            title, on = "Manifests contain no decision records of a scheduler.", MANIFESTS
        elif evidence.basis:
            title, on = "No scheduler has a decision record of this.", evidence.basis
        return Section(
            title,
            notes=(
                f"The reasons and suggestions were computed on the {on}, with the default configuration; "
                "the scheduler in charge may know more.",
            ),
            tone=Tone.QUIET,
        )
    if own is not None:
        took = seconds_text(own.timings.attempt_seconds)
        attempt = f"attempt {own.attempt}, {time_text(own.time)}, took {took}"
        return Section(f"From the scheduler's record ({evidence.source}): {attempt}.", tone=Tone.QUIET)
    if evidence.records:
        return Section(f"From the scheduler's record ({evidence.source}).", tone=Tone.QUIET)
    if evidence.source:
        return Section(f"The scheduler ({evidence.source}) has no record of an attempt that failed.", tone=Tone.QUIET)
    if evidence.basis == MANIFESTS:
        return Section("From the manifests alone: they contain no decision record of a scheduler.", tone=Tone.QUIET)
    return Section("From the API server alone: no decision record of a scheduler could be read.", tone=Tone.QUIET)


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at else ""
