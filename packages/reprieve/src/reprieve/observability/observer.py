"""Turns everything that happens into metrics, log lines, events and decision records.

Invariants: every call is synchronous, cheap and does no I/O except writing a log line; nothing here makes a decision or
causes one to fail. Times are seconds since the epoch, durations are seconds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from kube_rules.errors import names_text
from kube_rules.meta import KubernetesObject
from kube_rules.objects import CompositePodGroup, PodGroup
from reprieve.cluster.groups import Group
from reprieve.cluster.pods import PodRecord
from reprieve.decisions.costs import counts_work, lost_text
from reprieve.decisions.records import BACKFILL_OVERRUN, GANG_RESTARTED
from reprieve.observability.events import (
    NORMAL,
    WARNING,
    EventRecorder,
    Reference,
    Sink,
    group_reference,
    pod_reference,
)
from reprieve.observability.logs import DECISIONS, DETAILS, Log
from reprieve.observability.metrics import (
    ERROR,
    SCHEDULED,
    SUCCESS,
    UNSCHEDULABLE,
    WAITING_ON_PREEMPTION,
    Metrics,
    attempts_label,
)
from reprieve.observability.stopwatch import Stopwatch
from reprieve.preemption.lost_work import EvictedPods, lost_work
from reprieve.preemption.outcome import Preemption, UnhelpfulPreemption, UnhelpfulReason
from reprieve.queueing.entity import RESIZES
from reprieve.scheduling.advance_reservation import AdvanceReservation
from reprieve.scheduling.decision import SCHEDULER_ERROR, Decision, GroupCondition, Result
from reprieve.scheduling.effects import DirectEviction
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.gang_restarts import GangRestart
from reprieve.scheduling.lost_place import LostPlace
from reprieve.scheduling.overruns import Overrun
from reprieve.scheduling.preemptor_reservations import ReleasedReservation

_GROUP_RESULTS: Final = {
    Result.SCHEDULED: SCHEDULED,
    Result.UNSCHEDULABLE: UNSCHEDULABLE,
    Result.WAITING: WAITING_ON_PREEMPTION,
    Result.ERROR: ERROR,
}
_STATUS_OF: Final = {
    UnhelpfulReason.NO_LOWER_PRIORITY: "UnschedulableAndUnresolvable",
    UnhelpfulReason.PROTECTED: "UnschedulableAndUnresolvable",
    UnhelpfulReason.ERROR: "Error",
}
_ASSUMED_LIMIT: Final = 200_000
_MOST_NODES: Final = 6
"""Maximum number of nodes named in an event."""


class Recorder(Protocol):
    """Stores decision records (`reprieve.observability.recorder.RecordKeeper`)."""

    def attach(self, engine: Engine) -> None:
        """Set the engine that makes these decisions."""

    def decided(self, decision: Decision, *, seconds: float, now: float) -> None:
        """Record a finished attempt."""

    def evicted(self, eviction: DirectEviction, *, now: float) -> None:
        """Record an eviction without a preemption."""

    def eviction_ended(self, eviction: DirectEviction) -> None:
        """Record that all API calls of the eviction were made."""

    def capacity_reserved(self, reservation: AdvanceReservation) -> None:
        """Record that capacity is reserved for the entity."""

    def room_released(self, room: ReleasedReservation) -> None:
        """Record that capacity is no longer reserved for the preemptor."""

    def preemption_ended(
        self, preemption: Preemption, *, seconds: float, error: str | None, evicted: EvictedPods
    ) -> None:
        """Record how the preemptor's last preemption ended. `evicted`: the pods with completed eviction calls."""


@dataclass(frozen=True, slots=True)
class _AssumedPod:
    """Data of a pod's attempt that is needed when its binding is confirmed."""

    began: float
    first_active: float
    attempts: int
    profile: str


def _no_sink(_body: dict[str, object]) -> None:
    """Discard an event."""


_GROUPS: Final = {kind.KIND: kind.API_VERSION for kind in (PodGroup, CompositePodGroup)}
"""Kinds of groups and the versions to assume if none is served."""


class Observer:
    """See the module docstring.

    `sink` takes event bodies (`reprieve.observability.events.Sink`). `controller` is the scheduler name and `instance`
    the host name used in events. `version_of` returns the currently served apiVersion of a kind of groups, or None if
    the kind is not served.
    """

    def __init__(
        self,
        *,
        metrics: Metrics | None = None,
        sink: Sink | None = None,
        log: Log | None = None,
        records: Recorder | None = None,
        controller: str = "default-scheduler",
        instance: str = "localhost",
        version_of: Callable[[str], str | None] = lambda kind: None,
    ) -> None:
        self.metrics = metrics or Metrics()
        self.log = log or Log()
        self._version_of = version_of
        self._controller = controller
        self._events = EventRecorder(sink or _no_sink, controller=controller, instance=instance)
        self._records = records
        self._stopwatch = Stopwatch(self.metrics)
        self._assumed: OrderedDict[str, _AssumedPod] = OrderedDict()
        self._permit_since: OrderedDict[str, float] = OrderedDict()
        self._engine: Engine | None = None
        self._passes: dict[str, int] = {}
        self._evicted: dict[str, EvictedPods] = {}
        """By preemptor, for preemptions that have not ended."""

    def attach(self, engine: Engine) -> None:
        """Read state from this engine."""
        self._engine = engine
        self.metrics.attach(engine)
        engine.watch = self._stopwatch.attempt
        self._stopwatch.attach(running.meter for running in engine.running.values())
        if self._records is not None:
            self._records.attach(engine)

    # -- attempts ----------------------------------------------------------------------------------

    def decided(self, decision: Decision, *, seconds: float, now: float) -> None:
        """Report a finished attempt (after `Engine.step`). `now` is the end of the attempt, `seconds` its duration."""
        if decision.resize:
            self._resize_decided(decision, seconds=seconds, now=now)
            return
        metrics = self.metrics
        is_group = not decision.ref.startswith("pod/")
        profile = decision.profile
        began = now - seconds
        if is_group:
            result = _GROUP_RESULTS[decision.result]
            metrics.group_attempts.labels(result, profile).inc()
            metrics.group_attempt_seconds.labels(result, profile).observe(seconds)
            metrics.group_algorithm_seconds.observe(seconds)
        else:
            metrics.algorithm_seconds.observe(seconds)
        self._count_batch(profile)
        assumed = _AssumedPod(began, decision.queued_at, decision.attempt, profile)
        for bindings in (decision.bindings, decision.waiting):
            for binding in bindings:
                self._assumed[binding.pod.uid] = assumed
        for binding in decision.waiting:
            self._permit_since[binding.pod.uid] = now
        while len(self._permit_since) > _ASSUMED_LIMIT:
            self._permit_since.popitem(last=False)
        while len(self._assumed) > _ASSUMED_LIMIT:
            self._assumed.popitem(last=False)
        for rejection in decision.rejections:
            error = rejection.reason == SCHEDULER_ERROR
            metrics.pod_attempt(ERROR if error else UNSCHEDULABLE, profile, seconds)
            self._event(rejection.pod, None, WARNING, "FailedScheduling", "Scheduling", rejection.message, now)
        if decision.condition is not None:
            self._report_foreign(decision.condition, now)
        if decision.preemption is not None:
            self._count_preemption(decision.preemption, seconds)
        elif decision.unhelpful is not None:
            self._count_without_success(decision.unhelpful, seconds)
        elif decision.result is Result.UNSCHEDULABLE and not is_group:  # the search for victims failed
            metrics.preemption_attempts.inc()
            metrics.evaluation_seconds.labels("pod", UNSCHEDULABLE).observe(seconds)
        self._log_decision(decision, seconds)
        if self._records is not None:
            self._records.decided(decision, seconds=seconds, now=now)
        self._events.tick(now)

    def _resize_decided(self, decision: Decision, *, seconds: float, now: float) -> None:
        """Report an attempt for a deferred resize: separate metrics, the usual event and record (resizes.md 4)."""
        metrics = self.metrics
        metrics.resize_algorithm_seconds.observe(seconds)
        for rejection in decision.rejections:
            self._event(rejection.pod, None, WARNING, "FailedScheduling", "Scheduling", rejection.message, now)
        if decision.preemption is not None:
            self._count_preemption(decision.preemption, seconds)
        elif decision.result is Result.UNSCHEDULABLE:
            metrics.resize_preemption_attempts.inc()
        self._log_decision(decision, seconds)
        if self._records is not None:
            self._records.decided(decision, seconds=seconds, now=now)
        self._events.tick(now)

    def permitted(self, pod: PodRecord, result: str, *, now: float) -> None:
        """Report the decision of a Permit plugin that let the pod wait. `result` is a kube-scheduler status code."""
        since = self._permit_since.pop(pod.uid, None)
        if since is not None:
            self.metrics.permit_seconds.labels(result).observe(max(0.0, now - since))

    def bound(self, pod: PodRecord, node: str, *, now: float) -> None:
        """Report a binding that the API confirmed."""
        assumed = self._assumed.pop(pod.uid, None)
        if assumed is not None:
            self.metrics.pod_attempt(SCHEDULED, assumed.profile, max(0.0, now - assumed.began))
            self.metrics.pod_attempts.observe(assumed.attempts)
            label = attempts_label(assumed.attempts)
            self.metrics.sli_seconds.labels(label).observe(max(0.0, now - assumed.first_active))
        note = f"Successfully assigned {pod.key} to {node}"
        self._event(pod, None, NORMAL, "Scheduled", "Binding", note, now)
        self.log.info("Bound pod", v=DECISIONS, pod=pod.key, node=node)

    def bind_failed(self, pod: PodRecord, node: str, error: str, *, now: float) -> None:
        """Report a binding that failed permanently; the pod is retried."""
        assumed = self._assumed.pop(pod.uid, None)
        if assumed is not None:
            self.metrics.pod_attempt(ERROR, assumed.profile, max(0.0, now - assumed.began))
        self._event(pod, None, WARNING, "FailedScheduling", "Scheduling", error, now)
        self.log.error("Binding failed", pod=pod.key, node=node, error=error)

    # -- preemptions -------------------------------------------------------------------------------

    def evicted(self, pod: PodRecord, preemption: Preemption, *, now: float) -> None:
        """Report that the API calls for a victim were made."""
        by = self._preemptor(preemption)
        note = f"Preempted by {by.kind.lower()} {by.uid} on node {preemption.domain}"
        kind = preemption.kind
        self.metrics.evicted_pods.labels(kind).inc()
        cluster = self._engine.cluster if self._engine is not None else None
        evicted = self._evicted.setdefault(preemption.ref, EvictedPods())
        if cluster is not None:
            lost = lost_work(cluster, (pod,))
            evicted.add(pod, lost, now)
            self.metrics.lost_gpu_seconds.labels(kind).inc(lost.gpu)
        if cluster is not None and counts_work(cluster, preemption, (pod,)):
            text = lost_text(lost_work(cluster, (pod,)))
            note += f"; {text} of its work are lost" if text else "; no work of it is lost"
        preemptors = [nominated for nominated, _ in preemption.nominations]
        acting_for = preemptors[0] if preemptors else pod
        self._event(pod, by, NORMAL, "Preempted", "Preempting", note, now, acting_for=acting_for)
        self.log.info("Preempted pod", v=DECISIONS, pod=pod.key, by=preemption.ref, domain=preemption.domain)

    def preemption_ended(self, preemption: Preemption, *, seconds: float, error: str | None, now: float) -> None:
        """Report that all API calls of a preemption were made, or that one failed with `error`."""
        metrics = self.metrics
        result = SUCCESS if error is None else ERROR
        metrics.tasks.labels(result).inc()
        metrics.task_seconds.labels(result).observe(seconds)
        metrics.execution_seconds.labels(preemption.kind, result).observe(seconds)
        evicted = self._evicted.pop(preemption.ref, EvictedPods())
        if error is None:
            self._count_done(preemption)
            self._report_to_victim_groups(preemption, now)
            self.log.info("Preemption carried out", v=DECISIONS, by=preemption.ref, seconds=seconds)
        else:
            self.log.error("Preemption failed", by=preemption.ref, seconds=seconds, error=error)
            if preemption.group is not None:
                metrics.group_preemption_attempts.labels(ERROR).inc()
                metrics.workload_attempts.labels("Error").inc()
        if self._records is not None:
            self._records.preemption_ended(preemption, seconds=seconds, error=error, evicted=evicted)

    def preemption_failed(self, preemption: Preemption, pods: Iterable[PodRecord], message: str, *, now: float) -> None:
        """Report that the preemptor's nominations were removed: an event on each of its `pods`, and on its group."""
        first = preemption.nominations[0][0] if preemption.nominations else None
        self._group_event(preemption.group, None, first, WARNING, "FailedScheduling", "Preempting", message, now)
        for pod in pods:
            self._event(pod, None, WARNING, "FailedScheduling", "Preempting", message, now)

    def _report_to_victim_groups(self, preemption: Preemption, now: float) -> None:
        """Report the preemptor by name on each group that was evicted as a whole."""
        by = self._preemptor(preemption)
        first = preemption.nominations[0][0] if preemption.nominations else None
        note = f"Preempted by {by.kind.lower()} {by.namespace}/{by.name}"
        for verdict in preemption.victims:
            for group in verdict.unit.groups:
                self._group_event(group, by, first, NORMAL, "Preempted", "Preempting", note, now)

    def capacity_reserved(self, reservation: AdvanceReservation, *, now: float) -> None:
        """Report a new or moved reservation (reservations.md 6), on the group or the pod unless it is unchanged."""
        note = f"Capacity reserved on {reservation.node_names_text()}: {reservation.describe_start()}"
        first, says = reservation.pods[0][0], (NORMAL, "CapacityReserved", "Scheduling", note, now)
        if not reservation.unchanged and not self._group_event(reservation.group, None, first, *says):
            self._event(first, None, *says)
        self.log.info("Reserved capacity", v=DECISIONS, by=reservation.ref, nodes=len(reservation.nodes), reason=note)
        if self._records is not None:
            self._records.capacity_reserved(reservation)

    def capacity_kept(self, place: LostPlace, *, now: float) -> None:
        """Report on the group that the capacity of a lost member is kept for its replacement (repair.md 2)."""
        seconds = max(0.0, place.until - now)
        note = f"Capacity on {place.node} is kept for a replacement of pod {place.lost.key} for {seconds:.0f} s"
        self._about_gang(place.group, place.lost, NORMAL, "CapacityKept", note, now)

    def evicts(self, eviction: DirectEviction, *, now: float) -> None:
        """Report that a unit is evicted without a preemption: events, and a record."""
        if isinstance(eviction, GangRestart):
            self._gang_restarted(eviction, now)
        else:
            self._overrun(eviction, now)
        if self._records is not None:
            self._records.evicted(eviction, now=now)

    def eviction_ended(self, eviction: DirectEviction) -> None:
        """Report that all API calls of an eviction without a preemption were made."""
        if self._records is not None:
            self._records.eviction_ended(eviction)

    def _gang_restarted(self, restart: GangRestart, now: float) -> None:
        """Report on the restarted group that a degraded gang is evicted as a whole (repair.md 4)."""
        number = len(restart.pods)
        of_group = f"of {restart.group.kind.lower()} {restart.group.key}"
        note = f"{'1 pod' if number == 1 else f'{number} pods'} {of_group} {'is' if number == 1 else 'are'} evicted"
        note += f": {restart.message}"
        self._about_gang(restart.state.group, restart.pods[0], WARNING, GANG_RESTARTED, note, now)

    def _overrun(self, overrun: Overrun, now: float) -> None:
        """Report on the pods that backfilled work is evicted because it runs too long (reservations.md 4.5)."""
        for pod in overrun.pods:
            self._event(pod, None, WARNING, BACKFILL_OVERRUN, "Scheduling", f"Evicted: {overrun.message}", now)
        self.log.info("Backfilled work is evicted", v=DECISIONS, unit=overrun.unit.name, reason=overrun.message)

    def _about_gang(self, key: str, pod: PodRecord, kind: str, reason: str, note: str, now: float) -> None:
        group = self._engine.cluster.groups.get(key) if self._engine is not None else None
        self._group_event(group, None, pod, kind, reason, "Scheduling", note, now)
        self.log.info(note, v=DECISIONS, podgroup=key)

    def room_released(self, room: ReleasedReservation, *, now: float) -> None:
        """Report that reserved capacity of a preemptor is free again (cost.md 5): events on the group and its pods."""
        for pod, node in room.pods:
            note = f"Capacity reserved on {node} is released: {room.message}"
            self._event(pod, None, NORMAL, "RoomReleased", "Preempting", note, now)
        nodes = room.nodes
        note = f"Capacity reserved on {names_text(nodes, _MOST_NODES)} is released: {room.message}"
        self._group_event(room.group, None, room.pods[0][0], NORMAL, "RoomReleased", "Preempting", note, now)
        self.log.info(
            "Released reserved capacity",
            v=DECISIONS,
            by=room.ref,
            pods=len(room.pods),
            nodes=len(nodes),
            reason=room.message,
        )
        if self._records is not None:
            self._records.room_released(room)

    def refused(self, group: PodGroup | CompositePodGroup, why: str, *, now: float) -> None:
        """Report on a group that one of its settings is ignored, so that its owner sees the reason."""
        about = self._about(group)
        self._events.record(
            about, None, kind=WARNING, reason="InvalidPreemptionPriority", action="Scheduling", note=why, now=now
        )

    def ignored(self, item: KubernetesObject, why: str, *, now: float) -> None:
        """Report on an object that part of it is ignored or cannot be read, so that its owner sees the reason."""
        reason = "InvalidAnnotation" if why.startswith("metadata.") else "NotRead"
        self._events.record(
            self._about(item), None, kind=WARNING, reason=reason, action="Scheduling", note=why, now=now
        )

    def _group_version(self, kind: str) -> str:
        """Return the apiVersion for references to groups of a kind. It changes with an upgrade (api.md 2.9)."""
        return self._version_of(kind) or _GROUPS[kind]

    def _about(self, item: KubernetesObject) -> Reference:
        version = self._group_version(item.KIND) if item.KIND in _GROUPS else item.API_VERSION
        if isinstance(item, PodGroup) and item.foreign is not None:
            version = item.foreign.api_version
        return Reference(version, item.KIND, item.metadata.namespace, item.name, item.metadata.uid)

    # -- the rest ----------------------------------------------------------------------------------

    def trouble(self, where: str, text: str) -> None:
        """Report an error outside of an attempt. `where` is one of a few fixed words because it is a label."""
        self.trouble_again(where)
        self.log.error(text, where=where)

    def trouble_again(self, where: str) -> None:
        """Count an error that was already logged."""
        self.metrics.trouble.labels(where).inc()

    def tick(self, now: float) -> None:
        """Finish series of events that became quiet. Call it about once a minute, even if nothing happens."""
        self._events.tick(now)

    def close(self, now: float) -> None:
        """Write the counts of running event series when the scheduler stops."""
        self._events.flush(now)

    def _count_batch(self, profile: str) -> None:
        running = self._engine.running.get(profile) if self._engine is not None else None
        if running is None:
            return
        passes = running.evaluator.passes
        used = passes == self._passes.get(profile)
        self._passes[profile] = passes
        self.metrics.batch_attempts.labels(profile, "hint_used" if used else "no_hint").inc()

    def _count_preemption(self, preemption: Preemption, seconds: float) -> None:
        """Count a decision. With victims it counts as a success once the calls were made, else as an error."""
        metrics = self.metrics
        metrics.evaluation_seconds.labels(preemption.kind, SUCCESS).observe(seconds)
        if preemption.resize:
            metrics.resize_preemption_attempts.inc()
        elif preemption.group is None:
            metrics.preemption_attempts.inc()
        else:
            metrics.group_preemption_seconds.observe(seconds)
        if not preemption.victims:
            self._count_done(preemption)

    def _count_done(self, preemption: Preemption) -> None:
        metrics = self.metrics
        kind = preemption.kind
        victims = preemption.victims
        pods = sum(len(verdict.unit.pods) for verdict in victims)
        if preemption.resize:
            metrics.resize_preemption_victims.observe(pods)
        elif preemption.group is None:
            metrics.preemption_victims.observe(pods)
        else:
            metrics.group_preemption_attempts.labels(SUCCESS).inc()
            metrics.workload_attempts.labels("Success").inc()
            metrics.group_preemption_victims.observe(pods)
            metrics.group_preemption_reprieved.inc(preemption.reprieved)
            metrics.workload_victims.observe(pods)
        disruptions = sum(1 for verdict in victims if verdict.unit.in_group)
        if disruptions:
            metrics.disruptions.labels(kind).observe(disruptions)
        if preemption.pdb_violations:
            metrics.pdb_violations.labels(kind).inc(preemption.pdb_violations)

    def _count_without_success(self, failed: UnhelpfulPreemption, seconds: float) -> None:
        """Count a failed preemption of a group.

        `workload_preemption_attempts` counts every call by its status, as kube-scheduler does.
        """
        metrics = self.metrics
        metrics.workload_attempts.labels(_STATUS_OF.get(failed.why, "Unschedulable")).inc()
        if not failed.attempted:
            return
        result = ERROR if failed.why is UnhelpfulReason.ERROR else UNSCHEDULABLE
        metrics.group_preemption_attempts.labels(result).inc()
        metrics.group_preemption_seconds.observe(seconds)
        metrics.evaluation_seconds.labels(failed.group.kind.lower(), result).observe(seconds)

    def _log_decision(self, decision: Decision, seconds: float) -> None:
        if not self.log.at(DECISIONS):
            return
        kind, name = self._entity(decision)
        details: dict[str, object] = {kind: name, "result": decision.result.name.lower(), "seconds": seconds}
        if decision.attempt > 1:
            details["attempt"] = decision.attempt
        if decision.bindings:
            details["bindings"] = len(decision.bindings)
        if decision.rejections:
            details["rejected"] = len(decision.rejections)
        preemption = decision.preemption
        if preemption is not None:
            victims = preemption.victims
            details["victims"] = len(victims)
            details["victim_pods"] = sum(len(verdict.unit.pods) for verdict in victims)
            details["reprieved"] = preemption.reprieved
            details["domain"] = preemption.domain
        if decision.result is not Result.SCHEDULED:
            if decision.condition is not None:
                details["reason"] = decision.condition.message
            elif decision.rejections:
                details["reason"] = decision.rejections[0].message
        self.log.info("Decided", v=DECISIONS, **details)
        if self.log.at(DETAILS):
            for rejection in decision.rejections:
                self.log.info("Rejected pod", v=DETAILS, pod=rejection.pod.key, reason=rejection.message)

    def _report_foreign(self, condition: GroupCondition, now: float) -> None:
        """Report on another scheduler's PodGroup, as its status may lack such a field (workloads.md 4.5)."""
        group = self._engine.cluster.trees.find(condition.ref) if self._engine is not None else None
        if group is None or group.spec is None or not group.spec.foreign:
            return
        self._events.record(
            group_reference(group, group.spec.foreign),
            None,
            kind=NORMAL if condition.scheduled else WARNING,
            reason="Scheduled" if condition.scheduled else "FailedScheduling",
            action="Scheduling",
            note=f"{group.scheduled} pods have a node" if condition.scheduled else condition.message,
            now=now,
        )

    @staticmethod
    def _entity(decision: Decision) -> tuple[str, str]:
        kind, _, key = decision.ref.removeprefix(RESIZES).partition("/")
        if kind != "pod":
            return "podgroup" if kind == "group" else "compositepodgroup", key
        for items in (decision.bindings, decision.waiting, decision.rejections):
            if items:
                return "pod", items[0].pod.key
        return "pod", decision.ref

    def _preemptor(self, preemption: Preemption) -> Reference:
        if preemption.group is not None:
            return group_reference(preemption.group, self._group_version(preemption.group.kind))
        if preemption.pod is None:
            raise ValueError("a preemption without a preemptor")
        return pod_reference(preemption.pod)

    def _event(
        self,
        pod: PodRecord,
        related: Reference | None,
        kind: str,
        reason: str,
        action: str,
        note: str,
        now: float,
        *,
        acting_for: PodRecord | None = None,
    ) -> None:
        # The acting profile is the reporter, under the schedulerName of the pod that it acts for (`acting_for`).
        name = self._profile((acting_for or pod).scheduler_name)
        about = pod_reference(pod)
        self._events.record(
            about, related, kind=kind, reason=reason, action=action, note=note, now=now, controller=name
        )

    def _group_event(
        self,
        group: Group | None,
        related: Reference | None,
        pod: PodRecord | None,
        kind: str,
        reason: str,
        action: str,
        note: str,
        now: float,
    ) -> bool:
        """Report on a group that has an object, and return whether it has one. The profile of `pod` is the reporter."""
        if group is None or group.spec is None or group.spec.foreign == "":
            return False
        about = group_reference(group, self._group_version(group.kind))
        name = self._profile(pod.scheduler_name) if pod is not None else self._controller
        self._events.record(
            about, related, kind=kind, reason=reason, action=action, note=note, now=now, controller=name
        )
        return True

    def _profile(self, name: str) -> str:
        """Return the name under which a profile reports: the schedulerName of its pods if such a profile exists."""
        return name if self._engine is None or name in self._engine.running else self._controller
