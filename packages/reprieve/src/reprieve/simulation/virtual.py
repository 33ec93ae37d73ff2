"""A cluster in simulated time around the engine.

It acts as API server, kubelets and the scheduler's shell: it binds, evicts, waits for grace periods, deletes, and
reports to the engine at simulated times. Nothing sleeps: when nothing is ready, time advances to the next event. The
same input gives the same run.

Rules where the API leaves freedom:
- A binding is confirmed at once, which is the start of the pod.
- A victim is deleted when its grace period is over. A pod that is already terminating in the input stays, because its
  end is unknown. If it becomes a victim, or is waited for, it is deleted after its grace period like the others.
- A pod that states its end, and is waited for, ends then; others continue to run.
- A deleted PodGroup remains while pods that have not ended reference it (the protection finalizer, api.md), and a
  CompositePodGroup while a group names it as its parent (composite.md 1.5).
- The pods of a deleted node are deleted after 40 s, as by the pod garbage collector.
- `reprieve.simulation.controllers.claims` creates, allocates and releases device claims.
- `reprieve.simulation.controllers.volumes` binds, provisions and reclaims volumes.
- Created objects pass admission: `reprieve.simulation.controllers.admission` enforces quotas and limit ranges.
- A PodDisruptionBudget without a status gets the status that the disruption controller would write.
"""

import heapq
from collections import ChainMap, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from kube_rules import objects
from kube_rules.admission import groups_with_default_priority
from kube_rules.manifests import Manifests
from reprieve.cluster.default_selectors import SELECTOR_OWNER_KINDS
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.volumes import VOLUME_KINDS
from reprieve.framework.instructions import Instruction
from reprieve.framework.plugin_guard import PluginIncident
from reprieve.preemption.deferred_preemption import expected_end
from reprieve.preemption.outcome import Deferral, DeferralReason, Preemption
from reprieve.scheduling.arrival_order import in_order
from reprieve.scheduling.decision import SCHEDULER_ERROR, Decision, GroupCondition, Rejection, TreeLevel
from reprieve.scheduling.effects import NO_EFFECTS, DirectEviction, Effects
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.gang_health import Satisfaction
from reprieve.scheduling.preemptor_reservations import ReleasedReservation
from reprieve.simulation.controllers.admission import LIMITS, Admission
from reprieve.simulation.controllers.claims import Claims
from reprieve.simulation.controllers.disruption import with_statuses
from reprieve.simulation.controllers.moved_pods import MovedPods
from reprieve.simulation.controllers.resizes import Resizes
from reprieve.simulation.controllers.volumes import Storage

_ORPHANED = 40.0
_VOLUMES = tuple(kind.KIND for kind in VOLUME_KINDS)
_DELETED = frozenset(
    kind.KIND for kind in (*SELECTOR_OWNER_KINDS, objects.ResourceSlice, objects.DeviceClass, objects.DeviceTaintRule)
)
"""Kinds that only the engine reads; their deletion has no other effect."""
_MOST_INCIDENTS = 1000
_HOPELESS = 3
"""The number of consecutive SchedulerErrors after which an entity is no longer waited for."""


@dataclass(frozen=True, slots=True)
class TimedPreemption:
    """A decision to preempt and its time (seconds of simulated time)."""

    at: float
    decision: Decision
    preemption: Preemption


@dataclass(frozen=True, slots=True)
class TimedDeferral:
    """A deferred preemption and the time of the decision (seconds of simulated time)."""

    at: float
    decision: Decision
    deferral: Deferral


class DecisionCallback(Protocol):
    """A callback that receives decisions."""

    def __call__(self, decision: Decision, *, seconds: float, now: float) -> None:
        """Handle the end of an attempt."""


class Watcher(Protocol):
    """Receives events of pods, and schedules further actions (`VirtualCluster.at`), for a replay."""

    def placed(self, pod: PodRecord) -> None:
        """Handle a pod that was placed."""

    def preempted(self, preempted: TimedPreemption) -> None:
        """Handle a preemption after its victims started to terminate."""

    def evicted(self, eviction: DirectEviction) -> None:
        """Handle a terminating unit without a preemption: a degraded gang, or overrunning backfilled work."""

    def gone(self, pod: PodRecord) -> None:
        """Handle a deleted pod, after its capacity was freed."""


class VirtualCluster:
    """See the module docstring. `now` is in seconds since the epoch; `start` is its first value.

    With a `watcher` deleted objects are dropped, because months of a replay exceed the memory.
    """

    def __init__(self, engine: Engine, start: float) -> None:
        self.engine = engine
        self.start = start
        self.now = start
        self.preemptions: list[TimedPreemption] = []
        self.deferred: dict[tuple[str, str, float | None], TimedDeferral] = {}
        """Deferred preemptions by preemptor, reason and end, in order of time."""
        self._last_deferral: dict[str, Deferral | None] = {}
        """The deferral of the last attempt of an entity."""
        self.released: list[ReleasedReservation] = []
        """Reserved capacity that was released unused."""
        self.incidents: deque[PluginIncident] = deque(maxlen=_MOST_INCIDENTS)
        """Incidents in plugins."""
        self.writes: list[Instruction] = []
        """Writes outside of bindings, until the next decision is executed."""
        self.rejections: dict[str, Rejection] = {}
        """UID -> the last PodScheduled=False condition of an unplaced pod."""
        self.conditions: dict[str, GroupCondition] = {}
        """By `ref` of the group: `group/...` or `composite/...`."""
        self.satisfaction: dict[str, Satisfaction] = {}
        """PodGroupSatisfied of gangs that were scheduled once, by `namespace/name` (repair.md 3)."""
        self.levels: dict[str, tuple[TreeLevel, ...]] = {}
        """The outcomes of the groups of a tree in its last attempt, by the root's `ref`."""
        self.evicted: dict[str, str] = {}
        """UID of a deleted or terminating pod -> the `ref` of the preemptor."""
        self.lost: dict[str, str] = {}
        """UID of a pod that is lost with its node -> the node's name."""
        self.deleted: set[str] = set()
        """UIDs of placed pods that were deleted by name."""
        self.complete: set[str] = set()
        """Keys of the gangs that ever had their minimum on nodes."""
        self.departed: dict[str, PodRecord] = {}
        self.records: Mapping[str, PodRecord] = ChainMap(engine.cluster.pods, self.departed)
        self.first_preemption: Callable[[TimedPreemption], bool] = lambda _: False
        """Called at every decision to preempt; True stops the run before victims are evicted."""
        self.keep: Callable[[TimedPreemption], None] = self.preemptions.append
        """Called with every decision to preempt, each with a verdict for every unit of the cluster."""
        self.observer: DecisionCallback | None = None
        """Receives every decision before it is executed."""
        self.watcher: Watcher | None = None
        self.stopped = False
        self._future: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0
        self._leaving: set[str] = set()
        self._errors: dict[str, int] = {}
        """By entity: the number of consecutive SchedulerErrors."""
        self._budgets: dict[str, objects.PodDisruptionBudget] = {}
        self._budgets_stale = False
        self._doomed_groups: set[str] = set()
        self._resolved: dict[int, objects.PodGroup] = {}
        """By `id` of an object to create: the group after priority admission."""
        self.admission = Admission()
        self.made_later: list[PodRecord] = []
        """Pods that controllers created after quota was released."""
        self._claims = Claims(engine, self.keep_effects)
        self._storage = Storage(engine, self.keep_effects)
        self.resizes = Resizes(engine, self.keep_effects)
        self._moved = MovedPods(on=engine.moves.enabled)

    # -- objects -----------------------------------------------------------------------------------

    def load(
        self,
        items: Iterable[tuple[objects.KubernetesObject, float]],
        manifests: Manifests | None = None,
        later: Sequence[objects.KubernetesObject] | None = None,
    ) -> None:
        """Create the objects of an input, each with its creation time in seconds since the epoch.

        Quotas count existing objects before new ones are admitted. `manifests`: the rest of the input, with controllers
        and objects that only quotas count. `later`: all objects that will be created, by steps of scenarios, if known.
        """
        items = list(items)
        self._resolved = groups_with_default_priority([*(item for item, _ in items), *(later or ())])
        makers, counted = ((), ()) if manifests is None else (manifests.expanded, manifests.counted)
        loaded = [*(item for item, _ in items), *(item.object for item in counted)]
        self.admission.begin(loaded, makers, self.now, later)
        items = in_order(items)[::-1]
        while items:
            item, created = items.pop()  # do not store loaded objects twice
            if type(item) not in LIMITS:
                self.add(item, created)

    def add(self, item: objects.KubernetesObject, created: float) -> PodRecord | None:
        """Create an object, and return the record of a pod that has not ended; unread kinds are ignored.

        An object that admission refuses is not created (`admission.refused`). A pod with a used UID (the name replaces
        a missing UID) gets a new one.
        """
        now = self.now
        item = self._resolved.get(id(item), item)
        if isinstance(item, objects.Pod):
            uid = self._uid_of(item)
            admitted = self.admission.take(item, now, uid)
            return self._admit(admitted, created, uid) if admitted is not None else None
        if isinstance(item, LIMITS):
            self.admission.set(item, now)
        elif isinstance(item, objects.RuntimeClass):
            self.admission.set_class(item)
        elif self.admission.take(item, now) is None:
            return None
        elif isinstance(item, objects.PodDisruptionBudget) and item.status is None:
            self._budgets[item.full_key] = item
            self._budgets_stale = True
        elif isinstance(item, VOLUME_KINDS):
            self._storage.set(item, now)
        elif isinstance(item, objects.ResourceClaim):
            self._claims.set_claim(item, now)
        elif isinstance(item, objects.ResourceClaimTemplate):
            self._claims.set_template(item, now)
        elif self.engine.reads(item.KIND):
            if isinstance(item, objects.CompositePodGroup):
                self._doomed_groups.discard(f"composite/{item.full_key}")
            self.keep_effects(self.engine.set(item, now, created=created))
            if isinstance(item, objects.PodGroup):
                self._claims.set_group(item, now)
        return None

    def _uid_of(self, item: objects.Pod) -> str:
        uid, pods, departed = item.metadata.uid or item.full_key, self.engine.cluster.pods, self.departed
        return f"{uid}#{len(pods) + len(departed)}" if uid in pods or uid in departed else uid

    def _admit(self, item: objects.Pod, created: float, uid: str) -> PodRecord | None:
        """Create an admitted pod with this UID."""
        engine, now = self.engine, self.now
        if uid != (item.metadata.uid or item.full_key):
            item = replace(item, metadata=replace(item.metadata, uid=uid))
        if item.spec.resource_claims and item.finished:
            self._claims.ended(item, now)
        elif item.spec.resource_claims:
            item = self._claims.prepared(item, now)
        if item.spec.volumes and not item.finished:
            self._storage.prepare(item, now)
        self.keep_effects(engine.set(item, now, created=created))
        record = engine.cluster.pods.get(uid)
        if record is not None:
            self.resizes.begin(record, item)
            self._moved.begin(record.uid, item)
            self._budgets_stale = bool(self._budgets)
        return record

    def awaits_room(self, ref: str) -> bool:
        """Return whether capacity is reserved for the entity after its last attempt, until other pods leave."""
        last = self._last_deferral.get(ref)
        return last is not None and bool(last.nominations)

    def runs(self, key: str) -> bool:
        """Return whether a pod without a UID exists under this `namespace/name` and is not terminating."""
        pod = self.engine.cluster.pods.get(key)
        return pod is not None and not pod.terminating

    def delete(self, kind: str, namespace: str, name: str) -> bool:
        """Delete an object; return whether it existed."""
        key = f"{namespace}/{name}"
        if kind != "Pod" and self.admission.release(kind, namespace, name):
            self.at(self.now, self._make_refused)
        if kind in ("ResourceQuota", "LimitRange"):
            result = self.admission.remove(kind, namespace, name)
            self.at(self.now, self._make_refused)
            return result
        if kind == "Pod":
            pod = next((p for p in self.engine.cluster.pods.values() if p.key == key), None)
            if pod is None:
                return False
            self._delete_pod(pod)
        elif kind == "Node":
            row = self.engine.cluster.nodes.row_of.get(name)
            if row is None:
                return False
            orphans = list(self.engine.cluster.nodes.pods[row].values())
            self._remove("Node", name)
            self.lost.update((pod.uid, name) for pod in orphans if pod.uid not in self._leaving and not pod.terminating)
            for pod in orphans:
                self._leave_at(pod, self.now + _ORPHANED)
        elif kind == "PodGroup":
            group = self.engine.cluster.groups.get(key)
            if group is None or group.spec is None:
                return False
            self._doomed_groups.add(group.ref)
            self._finish_groups()
        elif kind == "CompositePodGroup":
            if key not in self.engine.cluster.trees.composites:
                return False
            self._doomed_groups.add(f"composite/{key}")
            self._finish_groups()
        elif kind in ("PodDisruptionBudget", "PriorityClass", "Namespace"):
            if kind == "PodDisruptionBudget":
                self._budgets.pop(key, None)
            self._remove(kind, key)
        elif kind in _VOLUMES:
            return self._storage.remove(kind, namespace, name, self.now)
        elif kind in ("ResourceClaim", "ResourceClaimTemplate"):
            return self._claims.remove(kind, namespace, name, self.now)
        else:
            return kind in _DELETED and self._remove(kind, key)
        return True

    def at(self, when: float, action: Callable[[], None]) -> None:
        """Schedule an action; actions with the same time run in the order of the calls."""
        self._sequence += 1
        heapq.heappush(self._future, (when, self._sequence, action))

    def end(self, uid: str) -> None:
        """End a pod that completed its work, without a grace period, or delete a pending one."""
        self.engine.record_success(uid)
        self._gone(uid)

    def evict(self, pod: PodRecord) -> None:
        """Delete a pod on a node as through the API, with its grace period."""
        if not pod.terminating:
            self.keep_effects(self.engine.mark_terminating(pod.uid, self.now))
        self._leave_at(pod, self.now + pod.grace)

    def lose_node(self, name: str) -> list[PodRecord]:
        """Remove a failed node with its pods at once; return the pods."""
        row = self.engine.cluster.nodes.row_of.get(name)
        if row is None:
            return []
        pods = list(self.engine.cluster.nodes.pods[row].values())
        self._remove("Node", name)
        for pod in pods:
            self._gone(pod.uid)
        return pods

    # -- running -----------------------------------------------------------------------------------

    def drain(self) -> None:
        """Run cycles until nothing is ready, without advancing the time."""
        while not self.stopped:
            if self._budgets_stale:
                self._refresh_budgets()
            effects = self.engine.step(self.now)
            self.keep_effects(effects)
            decision = effects.decision
            if decision is None:
                return
            if self.observer is not None:
                self.observer(decision, seconds=0.0, now=self.now)
            self._act(decision)

    def keep_effects(self, effects: Effects) -> None:
        """Store the effects of a call of the engine: writes for the next decision, the rest for reports."""
        if effects is NO_EFFECTS:
            return
        if self.watcher is None:
            self.released += effects.released
        self.writes += effects.writes
        self.incidents += effects.incidents
        self.satisfaction.update((state.group, state) for state in effects.satisfaction)
        for eviction in effects.evictions:
            for pod in eviction.pods:
                self.evicted[pod.uid] = eviction.by
                self.keep_effects(self.engine.mark_terminating(pod.uid, self.now, preempted=True))
                self._leave_at(pod, self.now + pod.grace)
            if self.watcher is not None:
                self.watcher.evicted(eviction)

    def _remove(self, kind: str, key: str = "", uid: str = "") -> bool:
        effects = self.engine.remove(objects.ObjectRef(kind, key, uid), self.now)
        self.keep_effects(effects)
        return effects.known

    def settle(self) -> None:
        """Run until nothing changes."""
        self._run(lambda: True)

    def until(self, when: float) -> None:
        """Run to a point in simulated time."""
        self._run(lambda: True, deadline=when)
        if not self.stopped:
            self.now = max(self.now, when)

    def advance(self, wanted: Callable[[], bool], deadline: float) -> None:
        """Run while wanted and until the deadline; the time stays that of the last event.

        Unlike `settle`, reserved capacity is released when it expires.
        """
        self._run(wanted, deadline=deadline)

    def until_victims_are_gone(self) -> None:
        """Run until no pod is terminating."""
        self._run(lambda: bool(self._leaving))

    def _run(self, wanted: Callable[[], bool], deadline: float | None = None) -> None:
        self.drain()
        while not self.stopped and wanted():
            holds = deadline is not None  # without other events the cluster has settled
            hopeless = [ref for ref, count in self._errors.items() if count >= _HOPELESS]
            wakeup = self.engine.next_wakeup(flush=False, holds=holds, ignoring=hopeless)
            due = self._future[0][0] if self._future else None
            times = [when for when in (due, wakeup) if when is not None]
            if not times or (deadline is not None and min(times) > deadline):
                return
            self.now = max(self.now, min(times))
            while self._future and self._future[0][0] <= self.now:
                heapq.heappop(self._future)[2]()
            self.drain()

    # -- actions -----------------------------------------------------------------------------------

    def _act(self, decision: Decision) -> None:
        if decision.resize:
            self.resizes.decided(decision, self.now)
            self._preempt(decision)
            return
        engine = self.engine
        failed = decision.failed
        for binding in decision.bindings:
            self._claims.carry_out(binding.pre_bind, self.now)
            status = self._storage.carry_out(binding.pre_bind, self.now)
            if not status.ok:
                self.rejections[binding.pod.uid] = Rejection(binding.pod, SCHEDULER_ERROR, status.reason)
                failed = True
                self.keep_effects(engine.fail_binding(binding.pod.uid, self.now))
                continue
            self.keep_effects(engine.confirm_binding(binding.pod.uid))
            binding.pod.start = self.now
            self.rejections.pop(binding.pod.uid, None)
            self._budgets_stale = bool(self._budgets)
            if self.watcher is not None:
                self.watcher.placed(binding.pod)
            else:
                self._note_complete(binding.pod.group)
        for rejection in decision.rejections:
            self.rejections[rejection.pod.uid] = rejection
        for condition in decision.conditions:
            self._note_condition(condition)
        if decision.levels:
            self.levels[decision.ref] = decision.levels
        self.carry_out_writes()
        if decision.deferral is not None or decision.ref in self._last_deferral:
            self._last_deferral[decision.ref] = decision.deferral
        if decision.deferral is not None:
            self._wait_for(decision, decision.deferral)
        if failed:
            self._errors[decision.ref] = self._errors.get(decision.ref, 0) + 1
        else:
            self._errors.pop(decision.ref, None)
        self._preempt(decision)

    def _preempt(self, decision: Decision) -> None:
        if (preemption := decision.preemption) is None or not preemption.victims:
            return
        self.keep(preempted := TimedPreemption(self.now, decision, preemption))
        if self.first_preemption(preempted):
            self.stopped = True
            return
        self._evict(preemption)
        if self.watcher is not None:
            self.watcher.preempted(preempted)

    def carry_out_writes(self) -> None:
        """Execute the writes outside of bindings."""
        writes, self.writes = self.writes, []
        self._claims.carry_out(writes, self.now)

    def note_complete(self) -> None:
        """Record which gangs have their minimum, after all initial objects were added."""
        for key in self.engine.cluster.groups:
            self._note_complete(key)

    def _note_complete(self, key: str | None) -> None:
        group = self.engine.cluster.groups.get(key) if key is not None else None
        if group is not None and group.is_gang and group.scheduled >= max(group.min_count, 1):
            self.complete.add(group.key)

    def _note_condition(self, condition: GroupCondition) -> None:
        """Record a condition; it never returns from True to False (observability.md)."""
        previous = self.conditions.get(condition.ref)
        if previous is None or condition.scheduled or not previous.scheduled:
            self.conditions[condition.ref] = condition

    def _evict(self, preemption: Preemption) -> None:
        """Perform the work of the asynchronous executor at once: conditions, deletions, then open the gate."""
        victims = [pod for verdict in preemption.victims for pod in verdict.unit.pods]
        for pod in victims:
            self.evicted[pod.uid] = preemption.ref
            self.keep_effects(self.engine.mark_terminating(pod.uid, self.now, preempted=True))
            self._leave_at(pod, self.now + pod.grace)
        self._moved.leave(preemption)
        self.keep_effects(self.engine.finish_preemption(preemption.ref, self.now))

    def _wait_for(self, decision: Decision, deferral: Deferral) -> None:
        """End awaited pods at their expected times; a checkpoint does not end them."""
        deferred = TimedDeferral(self.now, decision, deferral)
        self.deferred.setdefault((decision.ref, deferral.why.value, deferral.until), deferred)
        if deferral.why is DeferralReason.CHECKPOINT:
            return
        for pod in deferral.pods:
            if pod.terminating:
                self._leave_at(pod, self.now + pod.grace)
            else:
                end = expected_end(self.engine.cluster, pod)
                self._leave_at(pod, max(end, self.now) if end is not None else self.now)

    def _delete_pod(self, pod: PodRecord) -> None:
        if pod.row < 0:
            self.keep_effects(self.engine.mark_terminating(pod.uid, self.now))
            self._gone(pod.uid)
        else:
            if pod.uid not in self._leaving:
                self.deleted.add(pod.uid)
            self.keep_effects(self.engine.mark_terminating(pod.uid, self.now))
            self._leave_at(pod, self.now + pod.grace)

    def _leave_at(self, pod: PodRecord, when: float) -> None:
        if pod.uid in self._leaving:
            return
        self._leaving.add(pod.uid)
        self.at(when, lambda: self._left(pod.uid))

    def _left(self, uid: str) -> None:
        """End the grace period of a terminating pod, unless it was deleted before."""
        if uid in self._leaving:
            self._gone(uid)

    def _gone(self, uid: str) -> None:
        self._leaving.discard(uid)
        self.rejections.pop(uid, None)
        pod = self.engine.cluster.pods.get(uid)
        if pod is not None and self.watcher is None:
            self.departed[uid] = pod
        row = pod.row if pod is not None else -1
        node = self.engine.cluster.nodes.names[row] if row >= 0 else ""
        self._remove("Pod", uid=uid)
        self.resizes.capacity_freed(row, self.now)
        if pod is not None and self.admission.release("Pod", pod.namespace, uid):
            self.at(self.now, self._make_refused)
        if pod is not None and pod.claims:
            self._claims.gone(pod, self.now)
        if pod is not None and pod.volumes is not None:
            self._storage.gone(pod, node, self.now)
        self._budgets_stale = bool(self._budgets)
        if (recreated := self._moved.gone(uid)) is not None and self.watcher is None:
            self.add(recreated, self.now)
        if self.watcher is not None:
            for outcomes in (self.evicted, self.lost):
                outcomes.pop(uid, None)
            self._forget(f"pod/{uid}")
            if pod is not None:
                self.watcher.gone(pod)
        if self._doomed_groups:
            self._finish_groups()

    def _make_refused(self) -> None:
        """Let controllers of refused pods retry after quota was released."""
        for item in self.admission.retry(self.now):
            record = self._admit(item, self.now, self._uid_of(item))
            if record is not None:
                self.made_later.append(record)

    def _forget(self, ref: str) -> None:
        """Drop the data of a deleted entity."""
        self._errors.pop(ref, None)
        last = self._last_deferral.pop(ref, None)
        if last is not None:
            for key in [key for key in self.deferred if key[0] == ref]:
                del self.deferred[key]

    def _finish_groups(self) -> None:
        cluster = self.engine.cluster
        for ref in sorted(self._doomed_groups):
            kind, _, key = ref.partition("/")
            group = cluster.groups.get(key)
            if kind == "group" and (group is None or not group.members):
                self._doomed_groups.discard(ref)
                uid = group.uid if group is not None else key
                self._remove("PodGroup", key)
                self._claims.group_gone(key, uid, self.now)
                if self.watcher is not None:
                    self.satisfaction.pop(key, None)
                    self.conditions.pop(ref, None)
                    self.levels.pop(f"group/{key}", None)
                    self._forget(f"group/{key}")
        ended = [""]
        while ended:  # from the leaves up: a deleted one may have been the last child of another
            composites = (ref for ref in sorted(self._doomed_groups) if ref.startswith("composite/"))
            ended = [key for ref in composites if not cluster.trees.has_children(key := ref.partition("/")[2])]
            for key in ended:
                self._doomed_groups.discard(f"composite/{key}")
                self._remove("CompositePodGroup", key)

    def _refresh_budgets(self) -> None:
        self._budgets_stale = False
        for pdb in with_statuses(list(self._budgets.values()), self.engine.cluster.pods.values()):
            self.keep_effects(self.engine.set(pdb, self.now))

    @property
    def leaving(self) -> list[str]:
        """Return `namespace/name` of terminating pods, sorted."""
        return sorted(self.records[uid].key for uid in self._leaving if uid in self.records)
