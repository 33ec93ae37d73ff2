"""A cluster in simulated time around the engine.

It does what an API server, kubelets and the scheduler's own shell would do to the objects - bind, evict, let grace
periods run out, delete - and reports back to the engine, at virtual times.  Nothing sleeps: when nothing is ready, time
jumps to the next thing that will happen.  The same input gives the same run.

Rules of this world, where the API leaves room:
- A binding is confirmed at once; the pod counts as started then.
- A victim goes when its grace period is over.  A pod that was already terminating in the input stays: when it goes is
  not the scheduler's to predict; made a victim (again), or waited for, it goes after its grace period like the others.
- A pod that states when it ends, and is waited for because of that, ends then; others run on.
- A PodGroup that is deleted stays while pods that have not ended reference it (the protection finalizer, api.md); a
  CompositePodGroup while a group names it as its parent (composite.md 1.5).
- A deleted node takes its pods along after 40 s, as the pod garbage collector does.
- Device claims are made, written and given back as `reprieve.simulation.controllers.claims` says.
- Volumes are bound, made and reclaimed as `reprieve.simulation.controllers.volumes` says.
- What is created passes admission: quotas and limit ranges hold as `reprieve.simulation.controllers.admission` says.
- A PodDisruptionBudget without a status gets the one the disruption controller would write.
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
from reprieve.preemption.outcome import Deferral, Preemption, WaitsFor
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
"""Kinds that only the engine reads: nothing else follows from their deletion."""
_MOST_INCIDENTS = 1000
_HOPELESS = 3
"""An entity that ended in SchedulerError this often in a row is no longer waited for."""


@dataclass(frozen=True, slots=True)
class Preempted:
    """A decision to preempt and when it was made (seconds of simulated time)."""

    at: float
    decision: Decision
    preemption: Preemption


@dataclass(frozen=True, slots=True)
class DeferredAt:
    """A deferred preemption, and when that was decided (seconds of simulated time)."""

    at: float
    decision: Decision
    deferral: Deferral


class Observed(Protocol):
    """A function that is called with a decision."""

    def __call__(self, decision: Decision, *, seconds: float, now: float) -> None:
        """An attempt ended."""


class Watcher(Protocol):
    """Receives what happens to pods, and lets more happen (`VirtualCluster.at`): a replay."""

    def placed(self, pod: PodRecord) -> None:
        """It is on its node now."""

    def preempted(self, made: Preempted) -> None:
        """The victims are terminating; the decision has been acted on."""

    def evicted(self, eviction: DirectEviction) -> None:
        """A unit is terminating, not by a preemption: a degraded gang, or backfilled work that runs too long."""

    def gone(self, pod: PodRecord) -> None:
        """It has given its room back, if it had any, and is forgotten."""


class VirtualCluster:
    """See the module docstring. `now` is in seconds since the epoch; `start` is where it began.

    With a `watcher` deleted objects are forgotten: months hold more pods than memory can keep.
    """

    def __init__(self, engine: Engine, start: float) -> None:
        self.engine = engine
        self.start = start
        self.now = start
        self.preemptions: list[Preempted] = []
        self.deferred: dict[tuple[str, str, float | None], DeferredAt] = {}
        """Deferred preemptions: by preemptor, why and until when, in order of time."""
        self._last_deferral: dict[str, Deferral | None] = {}
        """Why the last attempt of an entity was deferred."""
        self.released: list[ReleasedReservation] = []
        """Room that was held and given back unused."""
        self.incidents: deque[PluginIncident] = deque(maxlen=_MOST_INCIDENTS)
        """What went wrong in plugins."""
        self.writes: list[Instruction] = []
        """Writes that belong to no binding, until the next decision is acted on."""
        self.rejections: dict[str, Rejection] = {}
        """UID -> the last PodScheduled=False condition of a pod that is not placed."""
        self.conditions: dict[str, GroupCondition] = {}
        """By `ref` of the group: `group/...` or `composite/...`."""
        self.satisfaction: dict[str, Satisfaction] = {}
        """What PodGroupSatisfied of gangs says that were scheduled once, by `namespace/name` (repair.md 3)."""
        self.levels: dict[str, tuple[TreeLevel, ...]] = {}
        """What happened to the groups of a tree in its last attempt, by the root's `ref`."""
        self.evicted: dict[str, str] = {}
        """UID of a deleted or terminating pod -> the preemptor that needed its capacity (its ref)."""
        self.lost: dict[str, str] = {}
        """UID of a pod that went or is going with its node -> the node's name."""
        self.deleted: set[str] = set()
        """UIDs of pods that were on a node and were deleted by name."""
        self.complete: set[str] = set()
        """Keys of the gangs that had their minimum on nodes at some time."""
        self.departed: dict[str, PodRecord] = {}
        self.records: Mapping[str, PodRecord] = ChainMap(engine.cluster.pods, self.departed)
        self.first_preemption: Callable[[Preempted], bool] = lambda _: False
        """Asked at every decision to preempt; True stops the run with the victims still there."""
        self.keep: Callable[[Preempted], None] = self.preemptions.append
        """Called with every decision to preempt; each holds a verdict for every unit of the cluster."""
        self.observer: Observed | None = None
        """Notified of every decision before anything is done about it."""
        self.watcher: Watcher | None = None
        self.stopped = False
        self._future: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0
        self._leaving: set[str] = set()
        self._errors: dict[str, int] = {}
        """By entity: how often in a row its attempts ended in SchedulerError."""
        self._budgets: dict[str, objects.PodDisruptionBudget] = {}
        self._budgets_stale = False
        self._doomed_groups: set[str] = set()
        self._resolved: dict[int, objects.PodGroup] = {}
        """By `id` of an object that is created: the group as priority admission leaves it."""
        self.admission = Admission()
        self.made_later: list[PodRecord] = []
        """Pods that their controllers made when quota was released for them."""
        self._claims = Claims(engine, self.keep_effects)
        self._storage = Storage(engine, self.keep_effects)
        self.resizes = Resizes(engine, self.keep_effects)
        self._moved = MovedPods(on=engine.moves.on)

    # -- objects come and go -----------------------------------------------------------------------

    def load(
        self,
        items: Iterable[tuple[objects.KubernetesObject, float]],
        manifests: Manifests | None = None,
        later: Sequence[objects.KubernetesObject] | None = None,
    ) -> None:
        """Create the objects of an input, each with its time of creation in seconds since the epoch.

        Those that exist already are counted by quotas before new ones are admitted. `manifests`: what the input has
        beside them, controllers and objects that quotas alone count. `later`: what steps of scenarios will create, if
        that is all that ever will be.
        """
        items = list(items)
        self._resolved = groups_with_default_priority([*(item for item, _ in items), *(later or ())])
        makers, counted = ((), ()) if manifests is None else (manifests.expanded, manifests.counted)
        self.admission.begin([*(item for item, _ in items), *(one.object for one in counted)], makers, self.now, later)
        items = in_order(items)[::-1]
        while items:
            item, created = items.pop()  # what is loaded is not kept twice
            if type(item) not in LIMITS:
                self.add(item, created)

    def add(self, item: objects.KubernetesObject, created: float) -> PodRecord | None:
        """Create an object; kinds the scheduler does not read are ignored. Returns the record of a pod that lives.

        What admission refuses does not come into being (`admission.refused`).
        A pod with a UID that is in use already (names stand in for missing UIDs) gets one of its own.
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
        """Create a pod that admission has let in, with this UID or, if it has none, of this key."""
        engine, now = self.engine, self.now
        if uid != (item.metadata.uid or item.full_key):
            item = replace(item, metadata=replace(item.metadata, uid=uid))
        if item.spec.resource_claims and item.status.phase in ("Succeeded", "Failed"):
            self._claims.ended(item, now)
        elif item.spec.resource_claims:
            item = self._claims.prepared(item, now)
        if item.spec.volumes and item.status.phase not in ("Succeeded", "Failed"):
            self._storage.prepare(item, now)
        self.keep_effects(engine.set(item, now, created=created))
        record = engine.cluster.pods.get(uid)
        if record is not None:
            self.resizes.begin(record, item)
            self._moved.begin(record.uid, item)
            self._budgets_stale = bool(self._budgets)
        return record

    def awaits_room(self, ref: str) -> bool:
        """Return whether the entity's last attempt ended with room held for it that others are leaving."""
        last = self._last_deferral.get(ref)
        return last is not None and bool(last.nominations)

    def runs(self, key: str) -> bool:
        """Return whether a pod that came without a UID exists under this `namespace/name` and is not terminating."""
        pod = self.engine.cluster.pods.get(key)
        return pod is not None and not pod.terminating

    def delete(self, kind: str, namespace: str, name: str) -> bool:
        """Delete an object; returns whether it was there."""
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
        """Let something happen at that time; what is due at the same time happens in the order of the calls."""
        self._sequence += 1
        heapq.heappush(self._future, (when, self._sequence, action))

    def end(self, uid: str) -> None:
        """A pod has done its work: it goes now, without a grace period; one that waits is no more."""
        self.engine.pod_succeeded(uid)
        self._gone(uid)

    def evict(self, pod: PodRecord) -> None:
        """A pod on a node is deleted, as by the API: it has its grace period."""
        if not pod.terminating:
            self.keep_effects(self.engine.pod_terminating(pod.uid, self.now))
        self._leave_at(pod, self.now + pod.grace)

    def lose_node(self, name: str) -> list[PodRecord]:
        """A node fails, and its pods with it, at once; returns them."""
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
        """Run cycles until nothing is ready, without letting time pass."""
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
        """Keep what a call of the engine asks for: writes until the next decision is acted on, the rest for reports."""
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
                self.keep_effects(self.engine.pod_terminating(pod.uid, self.now, preempted=True))
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
        """Run to a point in time."""
        self._run(lambda: True, deadline=when)
        if not self.stopped:
            self.now = max(self.now, when)

    def advance(self, wanted: Callable[[], bool], deadline: float) -> None:
        """Run while it is wanted and something is to happen up to the deadline; the time stays that of the last event.

        Unlike `settle`, room that is held is given back when its time is over.
        """
        self._run(wanted, deadline=deadline)

    def until_victims_are_gone(self) -> None:
        """Run until no pod is terminating."""
        self._run(lambda: bool(self._leaving))

    def _run(self, wanted: Callable[[], bool], deadline: float | None = None) -> None:
        self.drain()
        while not self.stopped and wanted():
            holds = deadline is not None  # a cluster in which nothing else happens has settled
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

    # -- acting ------------------------------------------------------------------------------------

    def _act(self, decision: Decision) -> None:
        if decision.resize:
            self.resizes.decided(decision, self.now)
            self._preempt(decision)
            return
        engine = self.engine
        failed = decision.failed
        for binding in decision.bindings:
            self._claims.carry_out(binding.before, self.now)
            status = self._storage.carry_out(binding.before, self.now)
            if not status.ok:
                self.rejections[binding.pod.uid] = Rejection(binding.pod, SCHEDULER_ERROR, status.reason)
                failed = True
                self.keep_effects(engine.bind_failed(binding.pod.uid, self.now))
                continue
            self.keep_effects(engine.bound(binding.pod.uid))
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
        if decision.put_off is not None or decision.ref in self._last_deferral:
            self._last_deferral[decision.ref] = decision.put_off
        if decision.put_off is not None:
            self._wait_for(decision, decision.put_off)
        if failed:
            self._errors[decision.ref] = self._errors.get(decision.ref, 0) + 1
        else:
            self._errors.pop(decision.ref, None)
        self._preempt(decision)

    def _preempt(self, decision: Decision) -> None:
        if (preemption := decision.preemption) is None or not preemption.victims:
            return
        self.keep(made := Preempted(self.now, decision, preemption))
        if self.first_preemption(made):
            self.stopped = True
            return
        self._evict(preemption)
        if self.watcher is not None:
            self.watcher.preempted(made)

    def carry_out_writes(self) -> None:
        """Carry out the writes that belong to no binding."""
        writes, self.writes = self.writes, []
        self._claims.carry_out(writes, self.now)

    def note_complete(self) -> None:
        """Everything that is there at the start was added: note which gangs have their minimum."""
        for key in self.engine.cluster.groups:
            self._note_complete(key)

    def _note_complete(self, key: str | None) -> None:
        group = self.engine.cluster.groups.get(key) if key is not None else None
        if group is not None and group.is_gang and group.scheduled >= max(group.min_count, 1):
            self.complete.add(group.key)

    def _note_condition(self, condition: GroupCondition) -> None:
        """Once True the condition never goes back to False (observability.md)."""
        known = self.conditions.get(condition.ref)
        if known is None or condition.scheduled or not known.scheduled:
            self.conditions[condition.ref] = condition

    def _evict(self, preemption: Preemption) -> None:
        """What the asynchronous executor does, in no time: conditions and deletions, then the gate opens."""
        victims = [pod for verdict in preemption.victims for pod in verdict.unit.pods]
        for pod in victims:
            self.evicted[pod.uid] = preemption.ref
            self.keep_effects(self.engine.pod_terminating(pod.uid, self.now, preempted=True))
            self._leave_at(pod, self.now + pod.grace)
        self._moved.leave(preemption)
        self.keep_effects(self.engine.preemption_done(preemption.ref, self.now))

    def _wait_for(self, decision: Decision, deferral: Deferral) -> None:
        """Let the pods that are waited for end when they are expected to; a checkpoint does not end them."""
        made = DeferredAt(self.now, decision, deferral)
        self.deferred.setdefault((decision.ref, deferral.why.value, deferral.until), made)
        if deferral.why is WaitsFor.CHECKPOINT:
            return
        for pod in deferral.pods:
            if pod.terminating:
                self._leave_at(pod, self.now + pod.grace)
            else:
                end = expected_end(self.engine.cluster, pod)
                self._leave_at(pod, max(end, self.now) if end is not None else self.now)

    def _delete_pod(self, pod: PodRecord) -> None:
        if pod.row < 0:
            self.keep_effects(self.engine.pod_terminating(pod.uid, self.now))
            self._gone(pod.uid)
        else:
            if pod.uid not in self._leaving:
                self.deleted.add(pod.uid)
            self.keep_effects(self.engine.pod_terminating(pod.uid, self.now))
            self._leave_at(pod, self.now + pod.grace)

    def _leave_at(self, pod: PodRecord, when: float) -> None:
        if pod.uid in self._leaving:
            return
        self._leaving.add(pod.uid)
        self.at(when, lambda: self._left(pod.uid))

    def _left(self, uid: str) -> None:
        """The time of a terminating pod is over, if it has not gone before."""
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
        if (again := self._moved.gone(uid)) is not None and self.watcher is None:
            self.add(again, self.now)
        if self.watcher is not None:
            for kept in (self.evicted, self.lost):
                kept.pop(uid, None)
            self._forget(f"pod/{uid}")
            if pod is not None:
                self.watcher.gone(pod)
        if self._doomed_groups:
            self._finish_groups()

    def _make_refused(self) -> None:
        """Let controllers of refused pods try again, as quota was released."""
        for item in self.admission.retry(self.now):
            record = self._admit(item, self.now, self._uid_of(item))
            if record is not None:
                self.made_later.append(record)

    def _forget(self, ref: str) -> None:
        """An entity is no more."""
        self._errors.pop(ref, None)
        last = self._last_deferral.pop(ref, None)
        if last is not None:
            for known in [known for known in self.deferred if known[0] == ref]:
                del self.deferred[known]

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
        while ended:  # from the leaves up: each that goes may have been the last child of another
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
        """`namespace/name` of terminating pods, sorted."""
        return sorted(self.records[uid].key for uid in self._leaving if uid in self.records)
