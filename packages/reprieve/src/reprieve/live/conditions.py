"""The scheduling status of pods and pod groups: conditions and nominations, written only when they change.

Rules (observability.md "Conditions", and kube-scheduler's where that is silent):
- PodScheduled=False has a reason and a message; `lastTransitionTime` is when it became False, not when the message
  last changed; `observedGeneration` is the pod's, where the API counts generations.
- One patch carries the condition and nominatedNodeName of a pod. While a patch is in flight, later changes of the same
  pod are combined in the next one.
- A pod that was placed meanwhile gets no more messages about not being placed.
- The status of a PodGroup of another scheduler uses the terms of its API (workloads.md 4); a new one is accepted.
- PodGroupInitiallyScheduled, for a composite CompositePodGroupInitiallyScheduled (composite.md 5), never returns to
  False, unless a binding of that very scheduling failed for good. If the tree of a composite is unschedulable as
  defined (a cycle, too many levels), its condition has the reason Invalid, with or without pods below it.
- A pod that PreEnqueue keeps back for 5 s gets the reason NotReadyForScheduling (KEP-5501); the
  API server itself reports scheduling gates. A group of gated pods, for example below its minCount, has its condition
  from the start.

Invariant: for every object this module has the state that the API is known to have or is about to have; a change to
that state costs no call. Older states from informers, from before a patch, do not count as changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, NamedTuple

from kube_rules import objects
from kube_rules.foreign_groups import ForeignGroup, accepted, has_message, made_for
from kube_rules.meta import DISRUPTION_TARGET, INITIALLY_SCHEDULED
from reprieve.client.clock import Clock
from reprieve.client.discovery import Resource
from reprieve.client.errors import ApiError, ClientError
from reprieve.client.leader_election import LeadershipLostError
from reprieve.cluster.groups import CompositeState, Fault, Group, disrupted_with
from reprieve.cluster.pods import PREEMPTION_BY_SCHEDULER, PodRecord
from reprieve.live.satisfied_conditions import SatisfiedConditions
from reprieve.live.writes import Writes, superseded
from reprieve.queueing.entity import QueueState
from reprieve.scheduling.decision import (
    INVALID,
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    Decision,
    GroupCondition,
    Rejection,
)
from reprieve.scheduling.engine import Engine

NOT_READY: Final = "NotReadyForScheduling"
_SPARED: Final = "PreemptionFailed"
_SCHEDULED_AGAIN: Final = "ScheduledAgain"
_SCHEDULED: Final = "PodScheduled"
KEPT_BACK: Final = 5.0
"""How long a pod is gated, in seconds, before its condition reports it: most gates open at once (KEP-5501)."""


class _WrittenCondition(NamedTuple):
    """A condition; `observed` is its observedGeneration, `since` its lastTransitionTime."""

    status: str = ""
    reason: str = ""
    message: str = ""
    since: datetime | None = None
    observed: int = 0


class _View(NamedTuple):
    """The part of an object's status that this module writes."""

    condition: _WrittenCondition = _WrittenCondition()
    nominated: str = ""


class _Subject:
    """One pod or group: the state in the API (`now`), the desired state, and the patch in flight."""

    __slots__ = (
        "back",
        "condition",
        "disrupted",
        "error",
        "flight",
        "foreign",
        "generation",
        "kind",
        "name",
        "namespace",
        "nominated",
        "now",
        "record",
        "resource",
        "seen",
        "stale",
        "uid",
    )

    def __init__(self, namespace: str, name: str, uid: str, kind: str = "Pod") -> None:
        self.kind = kind
        self.namespace = namespace
        self.name = name
        self.uid = uid
        self.generation = 0
        self.resource: Resource | None = None
        self.record: PodRecord | None = None
        self.now = _View()
        self.seen = _View()
        """The state that an informer last observed."""
        self.stale: list[_View] = []
        """States from before patches that the informer has not observed yet: they are not changes."""
        self.flight: asyncio.Future[None] | None = None
        self.error: BaseException | None = None
        """The error of the last patch, if it failed."""
        self.condition: tuple[str, str, str] | None = None
        """Desired status, reason and message."""
        self.nominated: str | None = None
        """Desired node, empty for none."""
        self.back = False
        """For a group: the desired condition may undo that it was scheduled."""
        self.disrupted = False
        """For a group: its DisruptionTarget condition is True."""
        self.foreign: ForeignGroup | None = None
        """For a group of another scheduler's API: the fields that only this API has."""

    def observe(self, view: _View) -> None:
        """Process a new state of an informer; states from before the scheduler's own patches are ignored."""
        self.seen = view
        if view == self.now:
            self.stale.clear()
        elif view not in self.stale:
            self.now = view
            self.stale.clear()

    def sent(self, view: _View, flight: asyncio.Future[None]) -> None:
        """Record a patch in flight to this state."""
        self.stale.append(self.now)
        self.now = view
        self.flight = flight
        self.error = None

    def failed(self, error: BaseException) -> None:
        """Record a failed patch or an unknown outcome: return to the state that the informer observed."""
        self.error = error
        self.now = self.seen
        self.stale.clear()


class Conditions:
    """Writes conditions; see the module docstring. Use it in one event loop. `on_trouble` reports failed writes."""

    def __init__(self, writes: Writes, clock: Clock, *, on_trouble: Callable[[str], None] = lambda _: None) -> None:
        self._writes = writes
        self._clock = clock
        self._on_trouble = on_trouble
        self._pods: dict[str, _Subject] = {}
        """Pods without a node, by UID."""
        self._groups: dict[str, _Subject] = {}
        """Groups of all levels by `ref`: `group/...` or `composite/...`."""
        self._dirty: dict[str, _Subject] = {}
        self._again: dict[str, _Subject] = {}
        """Pods and groups with a failed last patch; `waiting` retries it."""
        self._flights: set[asyncio.Future[None]] = set()
        self.satisfied = SatisfiedConditions(writes, self._flights, on_trouble=on_trouble)
        self._unaccepted: dict[str, _Subject] = {}
        """Groups of other APIs that a scheduler must accept before their controllers continue, by key."""

    # -- states from the API ----------------------------------------------------------------------

    def seen_pod(self, pod: objects.Pod) -> None:
        """Process a new or changed pod of an informer."""
        meta = pod.metadata
        if pod.spec.node_name:
            self.forget_pod(meta.uid)
            return
        subject = self._pods.get(meta.uid)
        status = pod.status
        if subject is None:
            subject = self._pods[meta.uid] = _Subject(meta.namespace or "default", meta.name, meta.uid)
        subject.generation = meta.generation
        scheduled = next((c for c in status.conditions if c.type == _SCHEDULED), None)
        subject.observe(_View(_written(scheduled) if scheduled else _WrittenCondition(), status.nominated_node_name))

    def forget_pod(self, uid: str) -> None:
        """Forget a pod that was deleted or has its node."""
        if self._pods.pop(uid, None) is not None:
            self._dirty.pop(uid, None)

    def seen_group(self, group: objects.PodGroup | objects.CompositePodGroup, resource: Resource | None = None) -> None:
        """Process a group of an informer; `resource` is where it was read (None: the best served version)."""
        meta = group.metadata
        ref = ref_of(group)
        subject = self._groups.get(ref)
        if subject is None or subject.uid != meta.uid:
            subject = self._groups[ref] = _Subject(meta.namespace or "default", meta.name, meta.uid, group.KIND)
        subject.resource = resource
        foreign = group.foreign if isinstance(group, objects.PodGroup) else None
        if isinstance(group, objects.PodGroup):
            self.satisfied.seen(group, resource)
        subject.foreign = foreign
        subject.generation = meta.generation if foreign is None else 0  # other APIs do not have it
        scheduled = next((c for c in group.status.conditions if c.type == INITIALLY_SCHEDULED[group.KIND]), None)
        view = _View(_written(scheduled, scheduled.observed_generation)) if scheduled else _View()
        if foreign is not None:
            if accepted(foreign.api_version, foreign.phase):
                self._unaccepted[group.key] = subject
            if not has_message(foreign.api_version) and view.condition.status != "True":
                view = subject.now  # this API cannot express more than was written
        subject.observe(view)
        subject.disrupted = any(c.type == DISRUPTION_TARGET and c.status == "True" for c in group.status.conditions)

    def forget_group(self, ref: str) -> None:
        """Forget a deleted group."""
        self._groups.pop(ref, None)
        self._dirty.pop(ref, None)
        kind, _, key = ref.partition("/")
        if kind == "group":  # a standby replica never calls `_accept`
            self._unaccepted.pop(key, None)
            self.satisfied.forget(key)

    # -- decisions of the scheduler ----------------------------------------------------------------

    def decided(self, decision: Decision) -> None:
        """Write the conditions and nominations of an attempt; a deferred resize has none here (resizes.md 4.1)."""
        if decision.resize:
            return
        for rejection in decision.rejections:
            self.rejected(rejection)
        for pod, node in decision.nominations:
            self.nominated(pod, node)
        for pod in decision.cleared_nominations:
            self.cleared(pod)
        for condition in decision.conditions:
            self.group(condition)

    def rejected(self, rejection: Rejection) -> None:
        """Set PodScheduled=False on a pod that could not be placed."""
        self._not_scheduled(rejection.pod, rejection.reason, rejection.message)

    def nominated(self, pod: PodRecord, node: str) -> None:
        """Set the node on which a pod will be placed when its victims have terminated."""
        subject = self._subject(pod)
        subject.nominated = node
        self._touched(pod.uid, subject)

    def cleared(self, pod: PodRecord) -> None:
        """Clear the nomination of a pod."""
        subject = self._subject(pod)
        subject.nominated = ""
        self._touched(pod.uid, subject)

    def group(self, condition: GroupCondition) -> None:
        """Set the condition of a group that was scheduled, for the first time or again, or was not."""
        ref = _carrier_of(condition.ref)
        subject = self._groups.get(ref)
        if subject is not None and condition.scheduled and subject.disrupted:
            self._undisrupted(subject)
        # The desired state counts, not the patch in flight: a failed binding may have undone that.
        if subject is not None and (subject.condition or subject.now.condition)[0] != "True":
            status = "True" if condition.scheduled else "False"
            subject.condition = (status, condition.reason, condition.message)
            self._touched(ref, subject)

    def was_scheduled(self, ref: str) -> bool:
        """Return whether the condition of a group reports, or is about to report, that it was scheduled."""
        subject = self._groups.get(_carrier_of(ref))
        return subject is not None and "True" in (subject.now.condition.status, (subject.condition or ("",))[0])

    def not_scheduled_after_all(self, ref: str, reason: str, message: str) -> None:
        """Set the condition of a group that was reported as scheduled before a binding failed (scheduling.md 3.6)."""
        ref = _carrier_of(ref)
        subject = self._groups.get(ref)
        if subject is not None:
            subject.condition = ("False", reason, message)
            subject.back = True
            self._touched(ref, subject)

    def waiting(self, engine: Engine, now: float) -> None:
        """Update conditions that no decision covers: gated pods, and failed patches.

        Call it about once a second; it visits every gated pod.
        """
        self._accept(engine)
        self.satisfied.again()
        again, self._again = self._again, {}
        for key, subject in again.items():
            self._touched(key, subject)
        for composite in engine.cluster.trees.composites.values():
            if composite.fault is not None:
                self._without_root(composite, composite.fault)
            elif composite.root is composite and (wrong := composite.wrong_layout()) is not None:
                for group in composite.below():
                    inner = isinstance(group, CompositeState)
                    reason = INVALID if inner else SCHEDULER_ERROR
                    self.group(GroupCondition(group.key, False, reason, wrong, composite=inner))
        for entity in engine.queue.entities():
            if entity.state is not QueueState.GATED or entity.resizing:
                continue
            kept_back = now - entity.since >= KEPT_BACK
            if entity.group is not None and entity.gate.reason and not entity.block_reason:
                for group in entity.group.below():
                    self._group_gated(group, entity.gate.reason, first=not kept_back)
            if not kept_back:
                continue
            why = entity.block_reason or entity.gate.reason
            if why:
                for pod in entity.ready.values():
                    self._not_scheduled(pod, NOT_READY, why)
            for uid, status in entity.gated_pods.items():
                gated_pod = engine.cluster.pods.get(uid)
                if gated_pod is not None and not gated_pod.gates:
                    self._not_scheduled(gated_pod, NOT_READY, status.reason)

    def _accept(self, engine: Engine) -> None:
        """Accept groups that no scheduler has accepted, so that their controllers create pods (workloads.md 4.3)."""
        unaccepted, self._unaccepted = self._unaccepted, {}
        for key, subject in unaccepted.items():
            foreign, where = subject.foreign, subject.resource
            if self._groups.get(f"group/{key}") is not subject or foreign is None or where is None:
                continue
            if not engine.is_for_us(key, foreign.api_version):
                self._unaccepted[key] = subject
                continue
            status = accepted(foreign.api_version, foreign.phase)
            if not status or subject.now.condition.status:
                continue
            flight = self._writes.patch_foreign_status(
                subject.namespace, subject.name, subject.uid, status, resource=where
            )
            self._flights.add(flight)
            flight.add_done_callback(lambda done, key=key, subject=subject: self._accepted(key, subject, done))  # type: ignore[misc]

    def _accepted(self, key: str, subject: _Subject, done: asyncio.Future[None]) -> None:
        self._flights.discard(done)
        error = ClientError("cancelled") if done.cancelled() else done.exception()
        if error is not None and not superseded(error) and self._groups.get(f"group/{key}") is subject:
            self._unaccepted[key] = subject

    def _group_gated(self, group: Group, why: str, *, first: bool) -> None:
        """Report why a group waits: at once if it has no condition yet (`first`), else after the delay of its pods.

        The later report replaces the condition of an earlier attempt or of a finished preemption.
        """
        subject = self._groups.get(group.ref)
        if subject is None or subject.now.condition.status == "True":
            return
        if not first or not subject.now.condition.status:
            self.group(GroupCondition(group.key, False, UNSCHEDULABLE, why, composite=group.kind != "PodGroup"))

    def _without_root(self, composite: CompositeState, fault: Fault) -> None:
        """Report why a composite has no root: Invalid, unless a missing object may still appear."""
        reason = UNSCHEDULABLE if fault.missing else INVALID
        self.group(GroupCondition(composite.key, False, reason, fault.message, composite=True))

    async def written(self, pod: PodRecord) -> None:
        """Wait until the desired state of a pod is in the API. Raises the error of the call.

        Returns at once for a pod that was placed or forgotten meanwhile.
        """
        subject = self._pods.get(pod.uid)
        if subject is None:
            return
        subject.error = None
        self._flush(pod.uid, subject)
        while subject.flight is not None:
            await asyncio.wait((subject.flight,))
            await asyncio.sleep(0)  # lets the callback of the patch run first
        if subject.error is not None:
            raise subject.error

    def disruption_target(self, preemptor: PodRecord, *, by: str, observed: int = 0) -> dict[str, Any]:
        """Return the DisruptionTarget condition of a victim or an `all` group. `by` names the preemptor's kind."""
        text = f"{preemptor.scheduler_name}: preempting to accommodate a higher priority {by}"
        written = _WrittenCondition("True", PREEMPTION_BY_SCHEDULER, text, self._moment(), observed)
        return _condition(DISRUPTION_TARGET, written)

    async def group_disrupted(self, group: Group, preemptor: PodRecord, *, by: str) -> None:
        """Set DisruptionTarget on every group of an `all` unit except deleted ones. Raises the error of the call."""
        for item in disrupted_with(group):
            await self._group_disrupted(item, preemptor, by=by)

    async def _group_disrupted(self, group: Group, preemptor: PodRecord, *, by: str) -> None:
        subject = self._groups.get(group.ref)
        if subject is None:
            return
        condition = self.disruption_target(preemptor, by=by, observed=subject.generation)
        try:
            await self._send(subject, [condition])
        except ApiError as error:
            if not superseded(error):
                raise
        else:
            subject.disrupted = True

    def _undisrupted(self, subject: _Subject) -> None:
        """Set DisruptionTarget=False on a preempted group that runs again, as the API's disruption controller does."""
        text = "scheduled again after it was preempted"
        written = _WrittenCondition("False", _SCHEDULED_AGAIN, text, self._moment(), subject.generation)
        subject.disrupted = False
        flight = self._send(subject, [_condition(DISRUPTION_TARGET, written)])
        self._flights.add(flight)

        def landed(done: asyncio.Future[None]) -> None:
            self._flights.discard(done)
            error = ClientError("cancelled") if done.cancelled() else done.exception()
            if error is not None and not superseded(error):
                subject.disrupted = True  # written with its next members
                self._on_trouble(f"status of {subject.namespace}/{subject.name}: {error}")

        flight.add_done_callback(landed)

    def is_disrupted(self, ref: str) -> bool:
        """Return whether DisruptionTarget of a group was last observed as True."""
        subject = self._groups.get(ref)
        return subject is not None and subject.disrupted

    def spared(self, observed: int = 0) -> dict[str, Any]:
        """Return the condition of a selected victim that stays: status False, as the disruption controller sets it."""
        text = "the preemption failed before anything was deleted"
        return _condition(DISRUPTION_TARGET, _WrittenCondition("False", _SPARED, text, self._moment(), observed))

    def group_spared(self, group: Group) -> list[asyncio.Future[None]]:
        """Set DisruptionTarget=False on the groups of an `all` unit that stays, except deleted ones."""
        writes = (self._group_spared(item) for item in disrupted_with(group))
        return [write for write in writes if write is not None]

    def _group_spared(self, group: Group) -> asyncio.Future[None] | None:
        subject = self._groups.get(group.ref)
        if subject is None:
            return None
        subject.disrupted = False
        return self._send(subject, [self.spared(subject.generation)])

    async def drain(self) -> None:
        """Wait until all desired states, including later ones, are written or have failed."""
        while self._dirty or self._flights or self.satisfied.waits:
            self._flush_all()
            self.satisfied.flush()
            if self._flights:
                await asyncio.wait(self._flights)
            await asyncio.sleep(0)

    # -- internals ---------------------------------------------------------------------------------

    def _not_scheduled(self, pod: PodRecord, reason: str, message: str) -> None:
        subject = self._pods.get(pod.uid) or self._subject(pod)
        written = subject.now.condition
        if subject.condition is None and (written.status, written.reason, written.message) == (
            "False",
            reason,
            message,
        ):
            return
        subject.record = pod
        subject.condition = ("False", reason, message)
        self._touched(pod.uid, subject)

    def _subject(self, pod: PodRecord) -> _Subject:
        subject = self._pods.get(pod.uid)
        if subject is None:
            subject = self._pods[pod.uid] = _Subject(pod.namespace, pod.name, pod.uid)
        subject.record = pod
        return subject

    def _touched(self, key: str, subject: _Subject) -> None:
        if not self._dirty:
            asyncio.get_running_loop().call_soon(self._flush_all)
        self._dirty[key] = subject

    def _flush_all(self) -> None:
        for key, subject in list(self._dirty.items()):
            self._flush(key, subject)

    def _flush(self, key: str, subject: _Subject) -> None:
        """Send the changes of an object; while its patch is in flight, the end of that patch calls this again."""
        self._dirty.pop(key, None)
        if subject.flight is not None:
            return
        record = subject.record
        condition, nominated = subject.condition, subject.nominated
        subject.condition = subject.nominated = None
        if record is not None and record.row >= 0:
            return  # placed: the binding has all information
        of_group = key in self._groups
        back, subject.back = subject.back, False
        before = subject.now
        written = before.condition
        if of_group and written.status == "True" and not back:
            return  # observed meanwhile, and it does not change
        if condition is not None and (
            condition != written[:3] or (of_group and written.observed != subject.generation)
        ):
            status, reason, message = condition
            since = written.since if written.status == status and written.since is not None else self._moment()
            written = _WrittenCondition(status, reason, message, since, subject.generation if of_group else 0)
        after = _View(written, before.nominated if nominated is None else nominated)
        if after == before:
            return
        flight = self._patch_group(subject, after) if of_group else self._patch_pod(subject, after)
        subject.sent(after, flight)
        self._flights.add(flight)
        flight.add_done_callback(lambda done: self._landed(key, subject, before, done))

    def _patch_pod(self, subject: _Subject, view: _View) -> asyncio.Future[None]:
        patch: dict[str, Any] = {}
        if view.condition != subject.now.condition:
            written = view.condition._replace(observed=subject.generation)
            patch["conditions"] = [_condition(_SCHEDULED, written)]
        if view.nominated != subject.now.nominated:
            patch["nominatedNodeName"] = view.nominated or None
        return self._writes.patch_pod_status(subject.namespace, subject.name, subject.uid, patch)

    def _patch_group(self, subject: _Subject, view: _View) -> asyncio.Future[None]:
        conditions = [_condition(INITIALLY_SCHEDULED[subject.kind], view.condition)]
        key = f"{subject.namespace}/{subject.name}"
        satisfied = self.satisfied.along(key) if subject.kind == "PodGroup" else None
        flight = self._send(subject, conditions if satisfied is None else [*conditions, satisfied])
        if satisfied is not None:
            self.satisfied.sent(key, flight)
        return flight

    def _send(self, subject: _Subject, conditions: list[dict[str, Any]]) -> asyncio.Future[None]:
        return self._writes.patch_group_status(
            subject.namespace, subject.name, subject.uid, conditions, kind=subject.kind, resource=subject.resource
        )

    def _landed(self, key: str, subject: _Subject, before: _View, flight: asyncio.Future[None]) -> None:
        self._flights.discard(flight)
        subject.flight = None
        error = ClientError("cancelled") if flight.cancelled() else flight.exception()
        if error is not None:
            self._failed(key, subject, before, error)
        elif subject.condition is not None or subject.nominated is not None:
            self._flush(key, subject)

    def _failed(self, key: str, subject: _Subject, before: _View, error: BaseException) -> None:
        """Return to the state that the informer observed, as the outcome of the patch is unknown, and retry later."""
        meant = subject.now
        subject.failed(error)
        if superseded(error):
            for subjects in (self._pods, self._groups):
                if subjects.get(key) is subject:
                    del subjects[key]
            return
        self._on_trouble(f"status of {subject.namespace}/{subject.name}: {error}")
        if isinstance(error, LeadershipLostError):
            return
        if subject.condition is None and meant.condition != before.condition:
            subject.condition = meant.condition[:3]
            subject.back = key in self._groups and before.condition.status == "True"
        if subject.nominated is None and meant.nominated != before.nominated:
            subject.nominated = meant.nominated
        self._again[key] = subject

    def _moment(self) -> datetime:
        """Return the current time in whole seconds, the API's resolution."""
        return self._clock.now().replace(microsecond=0)


def ref_of(group: objects.PodGroup | objects.CompositePodGroup) -> str:
    """Return the `ref` of a group here and in the queue; it distinguishes a group from a composite of the same name."""
    kind = "composite" if isinstance(group, objects.CompositePodGroup) else "group"
    return f"{kind}/{group.metadata.namespace or 'default'}/{group.metadata.name}"


def _written(source: objects.PodCondition | objects.Condition, observed: int = 0) -> _WrittenCondition:
    return _WrittenCondition(source.status, source.reason, source.message, source.last_transition_time, observed)


def _condition(kind: str, written: _WrittenCondition) -> dict[str, Any]:
    condition: dict[str, Any] = {
        "type": kind,
        "status": written.status,
        "reason": written.reason,
        "message": written.message,
        "lastTransitionTime": f"{written.since:%Y-%m-%dT%H:%M:%SZ}" if written.since is not None else None,
    }
    if written.observed:
        condition["observedGeneration"] = written.observed
    return condition


def observed(condition: dict[str, Any], generation: int) -> dict[str, Any]:
    """Return the condition with the generation of its object; 0: the API does not count generations of its kind."""
    return {**condition, "observedGeneration": generation} if generation else condition


def _carrier_of(ref: str) -> str:
    """Return the ref that has a group's conditions: for the root of a foreign tree its PodGroup (workloads.md 4.7)."""
    kind, _, key = ref.partition("/")
    namespace, _, name = key.partition("/")
    own = made_for(name) if kind == "composite" else None
    return ref if own is None else f"group/{namespace}/{own}"
