"""The scheduler's core: events in, decisions out; no I/O and no clock.

    engine.add_node(node); engine.add_pod(pod); ...
    while (decision := engine.step(now)) is not None:
        act(decision)                      # bind, evict, write conditions
    engine.bound(uid, now); engine.pod_gone(uid, now); engine.preemption_done(key, now)

`step` pops one entity, runs its cycle, and *assumes* the outcome in the picture at once, so the next cycle sees it;
whoever acts reports back.  The same engine runs under the real clock, in virtual time and in benchmarks.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from kube_rules import objects
from kube_rules.foreign_groups import SCHEDULERS_OF
from kube_rules.group_owners import GroupOwner, Job
from kube_rules.group_sources import NO_SOURCES
from reprieve.cluster.default_selectors import SelectorOwner
from reprieve.cluster.history import RecordedCluster
from reprieve.cluster.pods import NO_ROW, PodRecord, gone_by, record_of
from reprieve.cluster.state import ClusterState
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.framework.instructions import Instruction
from reprieve.framework.plugin import Assigned
from reprieve.framework.plugin_guard import PluginIncident
from reprieve.framework.status import Code, PluginError
from reprieve.preemption.outcome import Preemption, PutOff
from reprieve.queueing.entity import Entity
from reprieve.queueing.queue import SchedulingQueue
from reprieve.scheduling.awaiting_permission import PodsAwaitingPermission
from reprieve.scheduling.decision import Binding, Decision, Rejection, Result, stamped
from reprieve.scheduling.engine_options import EngineOptions
from reprieve.scheduling.group_changes import GroupChanges
from reprieve.scheduling.group_cycle import failed_group, schedule_group
from reprieve.scheduling.group_objects import GroupObjects
from reprieve.scheduling.held_room import Released, ReleasedRoom, hold_seconds, waits_for_completions
from reprieve.scheduling.nominations import Nominations
from reprieve.scheduling.pod_changes import PodChanges
from reprieve.scheduling.pod_cycle import failed_pod, schedule_pod
from reprieve.scheduling.preemptions_in_flight import PreemptionsInFlight
from reprieve.scheduling.reserving import given_up, reserve_all, run_post_bind, unreserve
from reprieve.scheduling.room_bound import RoomBound
from reprieve.scheduling.running_profiles import RunningProfiles
from reprieve.scheduling.storage_and_device_events import StorageAndDeviceEvents

WAITING_POD = "waiting for the preemption for this pod to be finished"
WAITING_GROUP = "waiting for the preemption for this pod group to be finished"
_ENDED = frozenset({"Succeeded", "Failed"})
_LOWEST_PRIORITY = -(1 << 32)
"""Below every priority."""


class Engine:
    """See the module docstring."""

    def __init__(self, options: EngineOptions | None = None) -> None:
        options = options or EngineOptions()
        self.gates = options.gates
        self.sources = options.sources if self.gates.generic_workload else NO_SOURCES
        """By what pods say that they belong together (workloads.md 1)."""
        self.cluster = RecordedCluster() if options.validate else ClusterState()
        profiles = options.named_profiles
        self.running = RunningProfiles(self.cluster, profiles, self.gates, seed=options.seed, share=options.share)
        self.waits_for_completions = waits_for_completions(profiles.values())
        """Some preemptors may wait for who ends by itself: whoever feeds the engine reports Jobs to it then."""
        self._stands_for = {other: p.name for p in profiles.values() for other in p.also_known_as}
        """Further names of profiles."""
        self._group_objects = GroupObjects(self.cluster, self.sources, trees=self.gates.composite_pod_group)
        self.reach = RoomBound(self.cluster, self.running) if options.share else None
        self.queue = SchedulingQueue(
            self.cluster, profiles, options.timing, self.reach, current_reasons=options.current_reasons
        )
        self._preemptions = PreemptionsInFlight()
        self._nominations = Nominations(
            self.cluster, self.queue, {name: hold_seconds(profile) for name, profile in profiles.items()}
        )
        self._groups = GroupChanges(self.cluster, self.queue, self._nominations, trees=self.gates.composite_pod_group)
        self._pods = PodChanges(self.cluster, self.queue, self._nominations, self._groups)
        self._awaiting = PodsAwaitingPermission()
        self.cluster.devices.serves_extended = self.gates.dra_extended_resource
        self._resources = StorageAndDeviceEvents(
            self.cluster, self.queue, self._victim_left, taint_rules=self.gates.dra_device_taint_rules
        )
        self.attempts = 0
        self.watch: Callable[[str], AbstractContextManager[None]] | None = None
        """Put around every attempt, with the profile's name: it measures how long plugins take."""
        self._validate = options.validate
        self._any_scheduler = options.any_scheduler
        self._deferred_writes: list[Instruction] = []
        self._assumed_after: dict[str, int] = {}
        """Attempts it took, by UID of pods whose binding is not confirmed: their backoff goes on if it fails."""

    # -- what the API says -------------------------------------------------------------------------------------------

    def set_node(self, node: objects.Node, now: float) -> None:
        """A node appeared or changed."""
        nodes = self.cluster.nodes
        before = nodes.row_of.get(node.metadata.name)
        known = before is not None and bool(nodes.alive[before])
        if self.cluster.set_node(node):
            row = nodes.row_of[node.metadata.name]
            kind = EventKind.NODE_CHANGED if known else EventKind.NODE_ADDED
            self.queue.on_event(ClusterEvent(kind, row=row), now)

    def remove_node(self, name: str, now: float) -> None:
        """A node is gone. Its pods stay until they are reported gone; nominations to it are void."""
        row = self.cluster.nodes.row_of.get(name, -1)
        if self.cluster.remove_node(name):
            void = list(self.cluster.nodes.nominated.get(row, {}).values())
            for pod in void:
                self._nominations.release([(pod, row)], Released.NODE_GONE, "the node is gone", now)
                self._nominations.end(pod)
            self.queue.on_event(ClusterEvent(EventKind.NODE_REMOVED, row=row), now)
            for pod in void:  # the room they waited for will not come: they may look for other
                self.queue.update_pod(pod, now)

    def set_pod(self, pod: objects.Pod, now: float, *, created: float | None = None) -> PodRecord | None:
        """A pod appeared or changed; returns its record, None if it has ended.

        `created` (seconds) stands in for a missing creationTimestamp.
        """
        uid = pod.metadata.uid or f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"
        known = self.cluster.pods.get(uid)
        if pod.status.phase in _ENDED:
            if known is not None:
                self.pod_gone(uid, now)
            return None
        if known is None:
            return self._new_pod(pod, now, created)
        self._pods.changed(known, pod, now)
        self._check()
        return known

    def pod_terminating(self, uid: str, now: float, *, preempted: bool = False) -> None:
        """A pod got a deletionTimestamp; `preempted`: with the condition that says the scheduler did it."""
        pod = self.cluster.pods.get(uid)
        if pod is None:
            return
        pod.preempted = pod.preempted or preempted
        if not pod.terminating:
            self._pods.terminating(pod, now, now + pod.grace)
        self._check()

    def pod_gone(self, uid: str, now: float) -> None:
        """A pod was deleted or has ended: its room is free."""
        self.cluster.now = max(self.cluster.now, now)
        pod = self.cluster.pods.get(uid)
        if pod is None:
            return
        row = pod.row
        nominated = pod.nominated
        if row < 0 <= nominated:
            self._nominations.release([(pod, nominated)], Released.DELETED, f"pod {pod.key} is gone", now)
        lingers = self._preemptions.is_victim(uid) and self._resources.linger(pod)
        if row >= 0 and not pod.bound and self.running.reserve:  # deleted while its binding is under way
            void = Binding(pod, self.cluster.nodes.names[row], row)
            self._deferred_writes += given_up(self.running.of(pod), void)
            unreserve(self.running.of(pod), void)
        self.cluster.remove_pod(pod)
        if row < 0:
            self.queue.remove_pod(pod, now)
        self._assumed_after.pop(uid, None)
        self._awaiting.pop(uid)
        self._nominations.forget(uid)
        if not lingers:
            self._victim_left(uid, now)
        if row >= 0:
            self.queue.on_event(ClusterEvent(EventKind.POD_GONE, row=row, pod=pod, group=pod.group), now)
        else:
            if nominated >= 0:
                self._nominations.freed(pod, nominated, now)
            self._pods.member_gone(pod, now)
        self._groups.carry_out(self._group_objects.left(pod), now)
        self._groups.give_up_if_gated(self.queue.find(pod), now)
        self._check()

    def set_group(self, group: objects.PodGroup, now: float, *, created: float = 0.0) -> None:
        """A PodGroup of the API appeared or changed."""
        if self.gates.generic_workload:
            self._groups.carry_out(self._group_objects.set(group, created), now)

    def remove_group(self, key: str, now: float) -> None:
        """A PodGroup object is gone: pending members wait for it to appear again."""
        self._groups.carry_out(self._group_objects.remove(key), now)

    def set_owner(self, owner: GroupOwner, now: float) -> None:
        """A controller whose pods may be gangs appeared or changed (workloads.md 2.10)."""
        self._groups.carry_out(self._group_objects.set_owner(owner), now)
        if isinstance(owner, Job):
            self.set_job(owner, now)

    def set_job(self, job: Job, now: float) -> None:
        """A Job appeared or changed: by its deadline its pods have ended (cost.md 6.4)."""
        if self.cluster.job_deadlines.set(job) and self.waits_for_completions:
            self.queue.retry_above(_LOWEST_PRIORITY, now)

    def remove_owner(self, kind: str, namespace: str, name: str, now: float) -> None:
        """Such a controller is gone."""
        if kind == Job.KIND:
            self.cluster.job_deadlines.remove(namespace, name)
        self._group_objects.remove_owner(kind, namespace, name)

    def watch_owners(self, kinds: Iterable[str], now: float) -> None:
        """Of which kinds controllers are reported from now on: pods of others are not kept waiting for them."""
        self._groups.carry_out(self._group_objects.watched(frozenset(kinds)), now)

    def set_composite(self, group: objects.CompositePodGroup, now: float, *, created: float = 0.0) -> None:
        """A CompositePodGroup appeared or changed: groups below it may have a root now (composite.md 2)."""
        if self.gates.generic_workload and self.gates.composite_pod_group:
            self._groups.set_composite(group, now, created)

    def remove_composite(self, key: str, now: float) -> None:
        """A CompositePodGroup object is gone: the groups below it wait for it to appear again."""
        self._groups.remove_composite(key, now)

    def set_class(self, found: objects.PriorityClass, now: float) -> None:
        """A PriorityClass appeared or changed: what it says of the work of its pods counts from now on (cost.md 2)."""
        if self.cluster.set_class(found):
            self.queue.retry_above(_LOWEST_PRIORITY, now)

    def remove_class(self, name: str, now: float) -> None:
        """A PriorityClass is gone; the priorities of who had it stay."""
        if self.cluster.remove_class(name):
            self.queue.retry_above(_LOWEST_PRIORITY, now)

    def set_namespace(self, namespace: objects.Namespace, now: float) -> None:
        """A namespace appeared or its labels changed: terms with a namespace selector may mean other pods."""
        if self.cluster.set_namespace(namespace):
            self.queue.on_event(ClusterEvent(EventKind.NAMESPACE_CHANGED), now)

    def remove_namespace(self, name: str, now: float) -> None:
        """A namespace is gone."""
        if self.cluster.remove_namespace(name):
            self.queue.on_event(ClusterEvent(EventKind.NAMESPACE_CHANGED), now)

    def set_selector_owner(self, item: SelectorOwner, now: float) -> None:
        """A service or controller appeared or changed: default spread constraints take their selectors from it."""
        self.cluster.default_selectors.set(item)
        self.cluster.controllers.set(item)
        self.queue.on_event(ClusterEvent(EventKind.SELECTOR_CHANGED), now)

    def remove_selector_owner(self, kind: str, namespace: str, name: str, now: float) -> bool:
        """A service or controller is gone; returns whether it was known."""
        known = self.cluster.default_selectors.remove(kind, namespace, name)
        self.cluster.controllers.remove(kind, namespace, name)
        if known:
            self.queue.on_event(ClusterEvent(EventKind.SELECTOR_CHANGED), now)
        return known

    def set_resource(self, item: objects.KubernetesObject, now: float) -> None:
        """A volume, claim or another resource beside nodes and pods appeared or changed.

        Raises TypeError for a kind that the scheduler does not read.
        """
        self._resources.set(item, now)

    def remove_resource(self, kind: str, namespace: str, name: str, now: float) -> bool:
        """A resource is gone; returns whether it was known. `namespace` is not read for kinds without one."""
        return self._resources.remove(kind, namespace, name, now)

    def set_budget(self, pdb: objects.PodDisruptionBudget, now: float | None = None) -> None:
        """A PodDisruptionBudget appeared or changed; at `now` who respects budgets is tried again."""
        self.cluster.set_budget(pdb)
        self._retry_who_respects_budgets(now)

    def remove_budget(self, key: str, now: float | None = None) -> None:
        """A PodDisruptionBudget is gone; at `now` who respects budgets is tried again."""
        self.cluster.remove_budget(key)
        self._retry_who_respects_budgets(now)

    def _retry_who_respects_budgets(self, now: float | None) -> None:
        if now is not None and any(terms.respects_budgets for terms in self.cluster.classes.values()):
            self.queue.retry_above(_LOWEST_PRIORITY, now)

    def complete(self, now: float) -> None:
        """Everything that was there at the start is known: groups that may not be tried hold no room from before."""
        for entity in list(self.queue.entities()):
            self._groups.give_up_if_gated(entity, now)

    # -- deciding ----------------------------------------------------------------------------------

    def step(self, now: float) -> Decision | None:
        """Run one cycle and assume its outcome; None when nothing is ready to be tried now."""
        self.cluster.held_by_this_thread = True
        try:
            return self._step(now)
        finally:
            self.cluster.held_by_this_thread = False

    def tick(self, now: float) -> None:
        """Let time pass: room that was held long enough is given back, who waited for a point in time may be tried."""
        self._give_back_unused(now)
        self.queue.tick(now)

    def next_wakeup(self, *, flush: bool = True, holds: bool = True, ignoring: Collection[str] = ()) -> float | None:
        """When `tick` has something to do next, if nothing else happens (`SchedulingQueue.next_wakeup`).

        Without `holds` it is left out that room is not held for ever.
        """
        times = [self.queue.next_wakeup(flush=flush, ignoring=ignoring)]
        if holds:
            times.append(self._nominations.held.next_end())
        return min((when for when in times if when is not None), default=None)

    def _step(self, now: float) -> Decision | None:
        self._give_back_unused(now)
        entity = self.queue.pop(now)
        if entity is None:
            return None
        self.cluster.now = now
        self.attempts += 1
        if self.watch is None:
            decision = self._try(entity, now)
        else:
            with self.watch(entity.profile):
                decision = self._try(entity, now)
        self.cluster.trim()
        self._check()
        return decision

    def _try(self, entity: Entity, now: float) -> Decision:
        queued = now if entity.queued is None else entity.queued
        attempt = entity.attempts
        decided = stamped(self._decide(entity), attempt, queued, entity.profile)
        return self._apply(entity, decided, now)

    def _decide(self, entity: Entity) -> Decision:
        pods = list(entity.ready.values())
        running = self.running.of(pods[0])
        under_way = self.preempting(entity.key)
        lingering = any(uid not in self.cluster.pods for uid in self._preemptions.victims_of(entity.key))
        try:
            if entity.group is None:
                return schedule_pod(running, entity.key, pods[0], under_way=under_way, lingering=lingering)
            return schedule_group(running, entity.key, entity.group, pods, under_way=under_way, lingering=lingering)
        except PluginError as error:
            running.complaints.append(error)
            if entity.group is None:
                return failed_pod(entity.key, pods[0], str(error))
            decision = failed_group(entity.key, entity.group, pods, str(error))
            return replace(decision, rejected_by=frozenset())  # trouble, not lack of room: tried again after backoff

    def _apply(self, entity: Entity, decision: Decision, now: float) -> Decision:
        """Assume the outcome; returns the decision with what Reserve, Permit and displaced nominations changed."""
        cluster, queue = self.cluster, self.queue
        self._deferred_writes += decision.deferred_writes
        freed = [(pod, pod.nominated) for pod in decision.cleared if pod.nominated >= 0]
        if decision.preemption is None:
            self._nominations.release(freed, Released.NO_USE, "to make room there does not help any more", now)
        for pod in decision.cleared:
            self._nominations.clear(pod)
        self._nominations.placed(((binding.pod, binding.row) for binding in decision.bindings), now)
        for binding in decision.bindings:
            if binding.pod.nominated not in (binding.row, NO_ROW):
                freed.append((binding.pod, binding.pod.nominated))
            cluster.clear_nomination(binding.pod)
            cluster.place(binding.pod, binding.row)
            self._assumed_after[binding.pod.uid] = entity.attempts
        if decision.bindings and self.running.reserve:
            decision = reserve_all(decision, self.running.of)
            for binding in decision.waiting:
                self._awaiting.add(binding, now)
        queue.done(entity, [binding.pod for binding in decision.bindings])
        queue.done(entity, [binding.pod for binding in decision.waiting])
        wanted = decision.preemption or decision.put_off
        places = tuple((pod, cluster.nodes.row_of[node]) for pod, node in decision.nominations)
        if places:
            freed += [(pod, pod.nominated) for pod, row in places if pod.nominated not in (row, NO_ROW)]
            self._nominations.moved(freed, places, now)
            displaced = self._hold(entity, wanted, places, now)
            held_until = self._nominations.held.until(entity.key)
            decision = replace(decision, cleared=decision.cleared + displaced, held_until=held_until)
        if entity.ready or entity.held:
            self._requeue(entity, decision, now)
            if decision.put_off is not None and decision.put_off.until is not None:
                queue.wake_at(entity, decision.put_off.until)
        else:
            self._nominations.held.forget(entity.key)
        for binding in decision.bindings:
            event = ClusterEvent(EventKind.POD_PLACED, row=binding.row, pod=binding.pod, group=binding.pod.group)
            queue.on_event(event, now)
            self._nominations.overtake(binding.pod, binding.row, now)
        for pod, row in freed:
            self._nominations.freed(pod, row, now, but=entity.key)
        return decision

    def _requeue(self, entity: Entity, decision: Decision, now: float) -> None:
        if not entity.ready:
            self.queue.requeue(entity, now, ())
        elif decision.retry_now:
            self.queue.requeue_now(entity, now)
        elif decision.result is Result.ERROR and not decision.rejected_by:
            self.queue.retry_later(entity, now)
        else:
            self.queue.requeue(entity, now, decision.rejected_by)

    def _hold(
        self, entity: Entity, wanted: Preemption | PutOff | None, places: Assigned, now: float
    ) -> tuple[PodRecord, ...]:
        """Nominate, and wait for those who leave; returns the pods that lost their nominations by that."""
        leaving: Sequence[PodRecord] = ()
        if isinstance(wanted, Preemption):
            leaving = [pod for verdict in wanted.victims for pod in verdict.unit.pods]
            self.cluster.doomed.update(pod.uid for pod in leaving)
            if self._preemptions.begin(entity.key, (pod.uid for pod in leaving)):
                self.queue.block(entity, WAITING_GROUP if entity.is_group else WAITING_POD)
        elif wanted is not None:
            leaving = wanted.pods
        return self._nominations.decide(entity.key, places, entity.priority, leaving, now)

    def sizes(self) -> dict[str, int]:
        """How much is kept beside nodes and pods, by kind, of all profiles together: for the gauges."""
        cluster, waiting = self.cluster, self.reach.sizes() if self.reach is not None else {}
        return {**cluster.signatures.sizes(), **cluster.pod_affinity.sizes(), **waiting, **self.running.sizes()}

    @property
    def blocking(self) -> bool:
        """Whether a step may wait for something outside (an extender, a third-party plugin in its own thread)."""
        return self.running.blocking

    def take_deferred_writes(self) -> list[Instruction]:
        """Writes that belong to no binding, since the last time: claims to be given back. If one fails, so be it."""
        found, self._deferred_writes = self._deferred_writes, []
        return found

    def take_plugin_incidents(self) -> list[PluginIncident]:
        """What went wrong in plugins since the last time, with tracebacks: for the log and the counters."""
        return self.running.take_incidents()

    # -- what became of it -------------------------------------------------------------------------

    def take_unnominated(self) -> list[PodRecord]:
        """Pods whose nomination ended since the last call without a decision that says so.

        Their node is gone, their group may not be tried any more, they are on their way out, or their preemption
        failed: `status.nominatedNodeName` is to be cleared.
        """
        return self._nominations.take_ended()

    def take_released(self) -> list[ReleasedRoom]:
        """Room that was held for a preemptor and given back unused since the last call (cost.md 5)."""
        return self._nominations.take_released()

    def wants_room(self, key: str) -> bool:
        """Whether the preemptor is still there, and may be tried once its room has been made."""
        entity = self.queue.get(key)
        return entity is not None and bool(entity.ready) and (entity.gate.ok or entity.gate.code is Code.ERROR)

    def bound(self, uid: str) -> None:
        """The API confirmed a binding."""
        self._assumed_after.pop(uid, None)
        self._nominations.bound(uid)
        pod = self.cluster.pods.get(uid)
        if pod is not None:
            pod.bound = True
            self.cluster.volumes.settled(uid)
            if self.running.listen and pod.row >= 0:
                run_post_bind(self.running.of(pod), pod, pod.row)

    def permit(self, uid: str, *, allow: bool, now: float) -> Binding | None:
        """A Permit plugin that asked to wait has decided: the binding to carry out, or None if it was refused."""
        waiting = self._awaiting.pop(uid)
        if waiting is None:
            return None
        if allow:
            return waiting
        self.bind_failed(uid, now)
        return None

    @property
    def awaits_permission(self) -> bool:
        """Whether pods wait for a Permit plugin."""
        return len(self._awaiting) > 0

    def ask_permission(self, now: float) -> tuple[list[Binding], list[Rejection]]:
        """Ask the Permit plugins again about the pods they let wait: what may be bound now, and who is refused.

        Who has waited for `awaiting_permission.PERMIT_TIMEOUT` is refused.
        """
        allowed, refused = [], []
        for binding in self._awaiting.bindings():
            pod = binding.pod
            answer = self._awaiting.ask(self.running.of(pod), binding, now)
            if pod.terminating:
                self.bind_failed(pod.uid, now)
            elif isinstance(answer, Rejection):
                self.bind_failed(pod.uid, now)
                refused.append(answer)
            elif answer.ok:
                self._awaiting.pop(pod.uid)
                allowed.append(binding)
        return allowed, refused

    def bind_failed(self, uid: str, now: float) -> None:
        """A binding failed for good: the pod gives its room back and waits its turn again."""
        pod = self.cluster.pods.get(uid)
        if pod is None or pod.row < 0 or pod.bound:
            return
        row = pod.row
        if self.running.reserve:
            failed = Binding(pod, self.cluster.nodes.names[row], row)
            self._deferred_writes += given_up(self.running.of(pod), failed)
            unreserve(self.running.of(pod), failed)
        self._awaiting.pop(uid)
        self.cluster.displace(pod)
        if self._nominations.stands_in_api(pod):
            self._nominations.end(pod)
        self._victim_left(uid, now)  # if it was a victim that was only reserved, it has made room
        attempts = self._assumed_after.pop(uid, 1)
        if not pod.terminating:
            self.queue.add_pod(pod, now, attempts=attempts)
        self.queue.on_event(ClusterEvent(EventKind.POD_GONE, row=row, pod=pod, group=pod.group), now)
        self._check()

    def preemption_done(self, key: str, now: float) -> None:
        """All API calls of a preemption succeeded; the preemptor may be tried when its victims are gone.

        At once if its nomination has been cleared meanwhile: then it is no longer they who matter.
        """
        self.queue.unblock(key, now, retry=self._preemptions.waits(key) and not self.preempting(key))

    def preempting(self, key: str) -> bool:
        """Whether a preemption for this entity is under way: victims of it are still there, and a nomination stands.

        A nomination that was cleared, because somebody more important took the node, the node is gone or the API says
        so, frees the entity to preempt elsewhere at once, whoever is still leaving (preemption.md 2.3).
        """
        entity = self.queue.get(key) if self._preemptions.waits(key) else None
        return entity is not None and any(pod.nominated >= 0 for pod in entity.ready.values())

    def preemption_failed(self, key: str, now: float) -> list[PodRecord]:
        """An API call of a preemption failed: take the nominations back and try again (preemption.md 7.5).

        At once, but after its backoff if the one before failed too.  Returns the pods whose nomination was taken back.
        """
        self.cluster.doomed.difference_update(self._preemptions.victims_of(key))
        self._preemptions.forget(key)
        entity = self.queue.get(key)
        reverted = self._nominations.give_up(entity.ready.values(), now) if entity is not None else []
        self.queue.unblock(key, now, retry=True, failed=True)
        return reverted

    # -- inside ------------------------------------------------------------------------------------

    def _new_pod(self, pod: objects.Pod, now: float, created: float | None) -> PodRecord:
        stamp = pod.metadata.creation_timestamp
        when = created if created is not None else stamp.timestamp() if stamp is not None else now
        membership = self.sources.membership(pod)
        record = record_of(
            pod,
            self.cluster.signatures,
            created=when,
            group=self._group_objects.key_of(pod, membership) if membership is not None else None,
            scheduler_name=self._stands_for.get(pod.spec.scheduler_name),
        )
        self.cluster.add_pod(record, pod.spec.node_name or None, due=gone_by(pod))
        if membership is not None:
            self._groups.carry_out(self._group_objects.joined(record, pod, membership), now)
        if record.row >= 0:
            event = ClusterEvent(EventKind.POD_PLACED, row=record.row, pod=record, group=record.group)
            self.queue.on_event(event, now)
            self._nominations.overtake(record, record.row, now, outside=True)
            return record
        nominated = pod.status.nominated_node_name
        if nominated and not record.terminating:
            self._nominations.known(record, nominated, now)
        if self._ours(record) and not record.terminating:
            self.queue.add_pod(record, now)
        if record.group is not None:
            self.queue.on_event(ClusterEvent(EventKind.POD_ADDED, pod=record, group=record.group), now)
        self._check()
        return record

    def give_up_gated(self, now: float, *, after: float) -> None:
        """Groups that may not be tried for `after` seconds now hold no room, whoever has nominated their pods.

        The API may have such nominations: of a scheduler that was killed, or that had not observed yet that a member
        was gone. They are not refused as they come, as the other members may be yet to come.
        """
        for entity in self.queue.entities():
            if entity.group is not None and now - entity.since >= after:
                self._groups.give_up_if_gated(entity, now)

    def _give_back_unused(self, now: float) -> None:
        """Free the room that was held long enough; whoever did not use it may preempt elsewhere (cost.md 5.2)."""
        for key in self._nominations.give_back_unused(self._preemptions, now):
            self._preemptions.forget(key)
            self.queue.wake(key, now)

    def _victim_left(self, uid: str, now: float) -> None:
        """A pod has made room, if it was a victim at all."""
        self._nominations.held.room_is_there(self._preemptions.left(uid), now)

    def is_for_us(self, key: str, api_version: str) -> bool:
        """Whether a group of another scheduler's API (by `namespace/name`) is ours to look after (workloads.md 4.4).

        One of its pods asks for a profile of ours; without pods, the scheduler that the API was made for is one.
        """
        members = self._group_objects.members(key)
        if members:
            return any(map(self._ours, members))
        return any(name in self.running or name in self._stands_for for name in SCHEDULERS_OF[api_version])

    def _ours(self, pod: PodRecord) -> bool:
        return self._any_scheduler or pod.scheduler_name in self.running

    def _check(self) -> None:
        if self._validate:
            self.cluster.check()
