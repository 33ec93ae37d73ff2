"""The scheduler's core: objects in, effects out; no I/O and no clock.

    engine.set(node, now); engine.set(pod, now); engine.remove(pod.ref, now)
    while (effects := engine.step(now)).decision is not None:
        act(effects)                       # bind, evict, write conditions
    engine.confirm_binding(uid); engine.fail_binding(uid, now); engine.finish_preemption(ref, now)

`step` pops one entity, runs its cycle, and *assumes* the outcome in the cluster cache at once, so that the next cycle
sees it; the driver carries it out and reports back.  Every call that changes something returns its `Effects`.  The same
engine runs under the real clock, in simulated time and in benchmarks.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from kube_rules import objects
from kube_rules.foreign_groups import SCHEDULERS_OF
from kube_rules.group_owners import Job
from kube_rules.group_sources import NO_SOURCES
from kube_rules.meta import ObjectRef
from reprieve.cluster.evictions import EvictionHistory
from reprieve.cluster.history import RecordedCluster
from reprieve.cluster.pods import NO_ROW, PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.framework.plugin import Assigned
from reprieve.framework.status import Code, PluginError
from reprieve.preemption.eviction_limits import count_leaving, evicted_unit, protected_from_its_start
from reprieve.preemption.joint_preemption import JointPart
from reprieve.preemption.outcome import Deferral, Preemption
from reprieve.queueing.entity import Entity
from reprieve.queueing.queue import SchedulingQueue
from reprieve.scheduling.advance_reservations import AdvanceReservations, reservation_options
from reprieve.scheduling.assumed_pods import AssumedPods
from reprieve.scheduling.backfill import Backfill
from reprieve.scheduling.binding_plugins import reserve_all
from reprieve.scheduling.carried_moves import CarriedMoves
from reprieve.scheduling.decision import Binding, Decision, Rejection, Result, stamp
from reprieve.scheduling.effects import Effects, EffectsInProgress
from reprieve.scheduling.engine_options import EngineOptions
from reprieve.scheduling.gang_repair import GangRepair
from reprieve.scheduling.group_changes import GroupChanges
from reprieve.scheduling.group_cycle import failed_group, schedule_group
from reprieve.scheduling.joint_attempts import JointAttempts
from reprieve.scheduling.member_capacity import CapacityBounds
from reprieve.scheduling.nominations import Nominations
from reprieve.scheduling.object_handlers import OtherChanges, handlers
from reprieve.scheduling.overruns import Overruns
from reprieve.scheduling.pod_changes import PodChanges
from reprieve.scheduling.pod_cycle import failed_pod, schedule_pod
from reprieve.scheduling.preemptor_reservations import Released, eviction_limits, hold_seconds, waits_for_completions
from reprieve.scheduling.priority_trials import gets_a_place, with_priority
from reprieve.scheduling.resizes import decide_resizes, failed_resizes
from reprieve.scheduling.running_profiles import RunningProfiles
from reprieve.scheduling.storage_and_device_events import StorageAndDeviceEvents

WAITING_POD = "waiting for the preemption for this pod to be finished"
WAITING_GROUP = "waiting for the preemption for this pod group to be finished"


class Engine:
    """See the module docstring."""

    def __init__(self, options: EngineOptions | None = None) -> None:
        options = options or EngineOptions()
        self.gates = options.gates
        self.sources = options.sources if self.gates.generic_workload else NO_SOURCES
        """The fields by which pods name their group (workloads.md 1)."""
        self.cluster = RecordedCluster() if options.validate else ClusterState()
        profiles = options.named_profiles
        self.running = RunningProfiles(self.cluster, profiles, self.gates, seed=options.seed, share=options.share)
        self.cluster.evictions = EvictionHistory(eviction_limits(profiles.values()))
        self.waits_for_completions = waits_for_completions(profiles.values())
        """Whether some preemptors may wait for pods that end by themselves; then the driver reports Jobs."""
        self._profile_aliases = {name: p.name for p in profiles.values() for name in p.also_known_as}
        """Further names of profiles (alsoKnownAs)."""
        self.reach = CapacityBounds(self.cluster, self.running) if options.share else None
        ageing = reservation_options(next(iter(profiles.values()))).ageing
        self.queue = SchedulingQueue(
            self.cluster, profiles, options.timing, self.reach, current_reasons=options.current_reasons, ageing=ageing
        )
        self.cluster.devices.serves_extended = self.gates.dra_extended_resource
        self.attempts = 0
        self.watch: Callable[[str], AbstractContextManager[None]] | None = None
        """Wraps every attempt, with the profile's name, to measure the time of plugins."""
        self._validate = options.validate
        self._any_scheduler = options.any_scheduler
        self._in_progress = EffectsInProgress()
        shared = (self.cluster, self.queue)
        self._nominations = Nominations(
            *shared, {name: hold_seconds(profile) for name, profile in profiles.items()}, self._in_progress
        )
        self._assumed_pods = AssumedPods(*shared, self._nominations, self.running, self._in_progress)
        self.repair = GangRepair(*shared, self._nominations, profiles, self._in_progress)
        self._groups = GroupChanges(
            *shared,
            self._nominations,
            self.sources,
            self.gates,
            self.repair,
            waits_for_completions=self.waits_for_completions,
        )
        self._resources = StorageAndDeviceEvents(
            *shared, self._nominations, taint_rules=self.gates.dra_device_taint_rules
        )
        self._pods = PodChanges(
            *shared,
            self._groups.resizes,
            self._nominations,
            self._groups,
            self._assumed_pods,
            self.sources,
            self.repair,
            aliases=self._profile_aliases,
            scheduled_here=self._ours,
            linger=self._resources.linger,
        )
        self.reservations = AdvanceReservations(*shared, self._nominations, self.running, self._in_progress)
        self.overruns = Overruns(self.cluster)
        self._backfill = Backfill(*shared, self.reservations, self.running, self.overruns)
        self.moves = CarriedMoves(*shared, self._nominations, self.running, self._in_progress)
        self._joint_attempts = JointAttempts(self.cluster, self.queue, self.running, self.is_preempting)
        self._handlers = handlers(self._pods, self._groups, self._resources, OtherChanges(*shared, self._nominations))

    # -- objects -----------------------------------------------------------------------------------

    def set(self, item: objects.KubernetesObject, now: float, *, created: float | None = None) -> Effects:
        """Add or change an object. Raises TypeError for a kind that the engine does not read.

        `created` (seconds): the creation time of pods and groups, if it is not in the object.
        """
        handler = self._handlers.get(item.KIND)
        if handler is None:
            raise TypeError(f"{item.KIND} is not a kind that the scheduler reads")
        handler.set(item, now, created)
        if self.moves.started and item.KIND == objects.Pod.KIND:
            self.moves.nominate_replacement(item.metadata.uid or item.key, now)
        return self.collect_effects()

    def remove(self, ref: ObjectRef, now: float) -> Effects:
        """Remove an object; a pod is identified by its UID. `Effects.known` states whether the object was known."""
        handler = self._handlers.get(ref.kind)
        return self.collect_effects(known=handler is not None and handler.remove(ref, now))

    def reads(self, kind: str) -> bool:
        """Return whether the engine reads objects of that kind."""
        return kind in self._handlers

    def mark_terminating(self, uid: str, now: float, *, preempted: bool = False) -> Effects:
        """Handle a pod's deletionTimestamp; `preempted`: with the condition that the scheduler sets on its victims."""
        self._pods.mark_terminating(uid, now, preempted=preempted)
        return self.collect_effects()

    def record_success(self, uid: str) -> None:
        """Record that a pod succeeded before it is removed: its gang has not lost it (repair.md 1.3)."""
        pod = self.cluster.pods.get(uid)
        if pod is not None and pod.group is not None:
            self.repair.health.record_success(pod.group, uid, kept=False)

    def set_job(self, job: Job, now: float) -> Effects:
        """Handle a Job that appeared or changed: only its deadline counts, its pods are known (cost.md 6.4)."""
        self._groups.set_deadline(job, now)
        return self.collect_effects()

    def watch_owners(self, kinds: Iterable[str], now: float) -> Effects:
        """Set the kinds of controllers that are reported from now on; pods of other kinds do not wait for them."""
        self._groups.watch_owners(kinds, now)
        return self.collect_effects()

    def complete(self, now: float) -> Effects:
        """Process the end of the initial load: groups that may not be tried release their old reservations."""
        self.repair.resume(now)
        return self.give_up_gated(now, after=float("-inf"))

    def resume(self, now: float) -> Effects:
        """Take over from an earlier scheduler.

        Its places for lost and moving pods stay reserved (repair.md 2.8, moving.md 4.6), its backfilled pods are known
        (reservations.md 4.5), and its terminating victims count (cost.md 9.4). Its reservations start again now
        (cost.md 5.1).
        """
        self._nominations.resume(now)
        self.repair.resume(now)
        self.moves.resume(now)
        self.reservations.resume(now)
        self._backfill.resume()
        count_leaving(self.cluster, now)
        for entity in self.queue.entities():
            for pod in entity.ready.values():
                if (until := protected_from_its_start(self.cluster, pod)) is not None:
                    self.queue.put_last(entity.ref, until)
        return self.collect_effects()

    def give_up_gated(self, now: float, *, after: float) -> Effects:
        """End the nominations of groups that could not be tried for `after` seconds.

        A scheduler that was killed, or that had not observed the deletion of a member, may leave such nominations. They
        are not refused at once, because the other members may still arrive.
        """
        for entity in list(self.queue.entities()):
            if entity.group is not None and now - entity.since >= after:
                self._groups.give_up_if_gated(entity, now)
        return self.collect_effects()

    # -- deciding ----------------------------------------------------------------------------------

    def step(self, now: float) -> Effects:
        """Run one cycle and assume its outcome; `Effects.decision` is None when nothing is ready to be tried now."""
        self.cluster.held_by_this_thread = True
        try:
            return self.collect_effects(decision=self._step(now))
        finally:
            self.cluster.held_by_this_thread = False

    def tick(self, now: float) -> Effects:
        """Advance the time: end reservations that are due, and queue entities that waited for a point in time."""
        self._pass_time(now)
        self.queue.tick(now)
        return self.collect_effects()

    def _pass_time(self, now: float) -> None:
        self.repair.review(now)
        if self.moves.started:
            self.moves.review(now)
        self._nominations.give_back_unused(now)
        if self.reservations.enabled:
            self.reservations.review(now)
            self._in_progress.evictions += self.overruns.review(self.reservations.by_ref.values(), now)
            self._backfill.wake(now)

    def next_wakeup(self, *, flush: bool = True, holds: bool = True, ignoring: Collection[str] = ()) -> float | None:
        """Return when `tick` is next due, if nothing else happens (`SchedulingQueue.next_wakeup`).

        Without `holds`, ends of preemptor reservations are left out.
        """
        times = [self.queue.next_wakeup(flush=flush, ignoring=ignoring), self.repair.places.next_time()]
        times.append(self.moves.next_time())
        if holds:
            times += [
                self._nominations.reservations.next_end(),
                self.reservations.next_time(),
                self.repair.restarts.next_time(),
                self.overruns.next_time(),
            ]
        return min((when for when in times if when is not None), default=None)

    def _step(self, now: float) -> Decision | None:
        self._pass_time(now)
        entity, part = self._joint_attempts.pop(now)
        if entity is None:
            return None
        self.cluster.now = now
        self.attempts += 1
        if self.watch is None:
            decision = self._try(entity, now, part)
        else:
            with self.watch(entity.profile):
                decision = self._try(entity, now, part)
        self.cluster.trim()
        self.repair.review(now)
        return decision

    def _try(self, entity: Entity, now: float, part: JointPart | None) -> Decision:
        if entity.resizing:
            return self._try_resize(entity, now)
        decided = self._decide(entity, part)
        if part is None and self._joint_attempts.plan(entity, decided, now):
            first, part = self._joint_attempts.pop(now)
            assert first is not None
            entity, decided = first, self._decide(first, part)
        queued = now if entity.first_active is None else entity.first_active
        if self.reservations.enabled:
            decided = self._backfill.replace(entity, decided, now)
        if self.moves.enabled and part is None:
            decided = self.moves.replace(entity, decided, now)
        if self.reservations.enabled:
            decided = self.reservations.record_attempt(entity, decided, now)
        decided = self.repair.keep_nominations(decided)
        return self._apply(entity, stamp(decided, entity.attempts, queued, entity.profile), now)

    def _try_resize(self, entity: Entity, now: float) -> Decision:
        """Decide for deferred resizes and assume the outcome: victims, or removal from the queue (resizes.md 2)."""
        pods = sorted(entity.ready.values(), key=lambda pod: pod.key)
        running = self.running.of(pods[0])
        try:
            decided = decide_resizes(running, entity.ref, pods, under_way=self.is_preempting(entity.ref))
        except PluginError as error:
            running.report(error)
            decided = failed_resizes(entity.ref, pods, str(error))
        queued = now if entity.first_active is None else entity.first_active
        decision = stamp(decided, entity.attempts, queued, entity.profile)
        if decision.result is Result.SCHEDULED:
            self.queue.done(entity, pods)
            return decision
        if decision.preemption is not None:
            self._wait_for_victims(entity, decision.preemption, now)
        self._requeue(entity, decision, now)
        if decision.deferral is not None and decision.deferral.until is not None:
            self.queue.wake_at(entity, decision.deferral.until)
        return decision

    def _decide(self, entity: Entity, part: JointPart | None = None) -> Decision:
        pods = list(entity.ready.values())
        running = self.running.of(pods[0])
        under_way = self.is_preempting(entity.ref)
        lingering = any(uid not in self.cluster.pods for uid in self._nominations.in_flight.victims_of(entity.ref))
        try:
            if entity.group is None:
                return schedule_pod(
                    running, entity.ref, pods[0], under_way=under_way, lingering=lingering, planned=part
                )
            with self.repair.places.lift(entity.ref):
                return schedule_group(
                    running, entity.ref, entity.group, pods, under_way=under_way, lingering=lingering, planned=part
                )
        except PluginError as error:
            running.report(error)
            if entity.group is None:
                return failed_pod(entity.ref, pods[0], str(error))
            decision = failed_group(entity.ref, entity.group, pods, str(error))
            return replace(decision, rejected_by=frozenset())  # an error, not lack of capacity: tried again later

    def helped_by_priority(self, ref: str, priority: int) -> bool:
        """Return whether an entity would be placed or preempt now with that priority, or is placed already.

        Nothing is changed.
        """
        entity = self.queue.get(ref)
        if entity is None:
            return True
        if not entity.ready or entity.priority >= priority:
            return False
        with with_priority(entity, priority):
            return gets_a_place(self._decide(entity))

    def _apply(self, entity: Entity, decision: Decision, now: float) -> Decision:
        """Assume the outcome; return the decision with the changes by Reserve, Permit and displaced nominations."""
        cluster, queue = self.cluster, self.queue
        self._in_progress.writes += decision.deferred_writes
        freed = [(pod, pod.nominated) for pod in decision.cleared_nominations if pod.nominated >= 0]
        if decision.preemption is None:
            self._nominations.release(freed, Released.NO_USE, "freeing capacity there no longer helps", now)
        for pod in decision.cleared_nominations:
            self._nominations.clear(pod)
        self._nominations.release_other_places(((binding.pod, binding.row) for binding in decision.bindings), now)
        for binding in decision.bindings:
            if binding.pod.nominated not in (binding.row, NO_ROW):
                freed.append((binding.pod, binding.pod.nominated))
            cluster.clear_nomination(binding.pod)
            cluster.place(binding.pod, binding.row)
            self._assumed_pods.add(binding.pod, entity.attempts)
        if decision.bindings and self.running.reserve:
            decision = reserve_all(decision, self.running.of)
            for binding in decision.waiting:
                self._assumed_pods.wait(binding, now)
        queue.done(entity, [binding.pod for binding in decision.bindings])
        queue.done(entity, [binding.pod for binding in decision.waiting])
        wanted = decision.preemption or decision.deferral
        places = tuple((pod, cluster.nodes.row_of[node]) for pod, node in decision.nominations)
        if places:
            freed += [(pod, pod.nominated) for pod, row in places if pod.nominated not in (row, NO_ROW)]
            self._nominations.release_earlier_places(freed, places, now)
            displaced = self._hold(entity, wanted, places, now)
            held_until = self._nominations.reservations.end_of(entity.ref)
            decision = replace(
                decision, cleared_nominations=decision.cleared_nominations + displaced, held_until=held_until
            )
        if entity.ready or entity.gated_pods:
            self._requeue(entity, decision, now)
            if decision.deferral is not None and decision.deferral.until is not None:
                queue.wake_at(entity, decision.deferral.until)
        else:
            self._nominations.reservations.forget(entity.ref)
        for binding in decision.bindings:
            event = ClusterEvent(EventKind.POD_PLACED, row=binding.row, pod=binding.pod, group=binding.pod.group)
            queue.on_event(event, now)
            self._nominations.overtake(binding.pod, binding.row, now)
        for pod, row in freed:
            self._nominations.release_from(pod, row, now, but=entity.ref)
        return decision

    def _requeue(self, entity: Entity, decision: Decision, now: float) -> None:
        if not entity.ready:
            self.queue.requeue(entity, now, ())
        elif decision.retry_now:
            self.queue.requeue_now(entity, now)
        elif not decision.rejected_by if decision.result is Result.ERROR else decision.failed:
            self.queue.retry_later(entity, now)
        else:
            self.queue.requeue(entity, now, decision.rejected_by)

    def _hold(
        self, entity: Entity, wanted: Preemption | Deferral | None, places: Assigned, now: float
    ) -> tuple[PodRecord, ...]:
        """Nominate, and wait for the terminating pods; return the pods that lost their nominations."""
        leaving: Sequence[PodRecord] = ()
        if isinstance(wanted, Preemption):
            leaving = self._wait_for_victims(entity, wanted, now)
        elif wanted is not None:
            leaving = wanted.pods
        return self._nominations.decide(entity.ref, places, entity.priority, leaving, now)

    def _wait_for_victims(self, entity: Entity, preemption: Preemption, now: float) -> list[PodRecord]:
        """Record that the victims terminate; the entity is not tried while the eviction calls are made."""
        leaving = [pod for verdict in preemption.victims for pod in verdict.unit.pods]
        for verdict in preemption.victims:
            self.cluster.evictions.note(evicted_unit(self.cluster, verdict.unit), now)
        self.cluster.doomed.update(pod.uid for pod in leaving)
        if preemption.moves:
            self.moves.begin(preemption, now)
        if self._nominations.in_flight.begin(entity.ref, (pod.uid for pod in leaving)):
            self.queue.block(entity, WAITING_GROUP if entity.is_group else WAITING_POD)
        return leaving

    def sizes(self) -> dict[str, int]:
        """Return the sizes of tables beside nodes and pods, by kind, of all profiles together, for the gauges."""
        cluster, waiting = self.cluster, self.reach.sizes() if self.reach is not None else {}
        return {**cluster.signatures.sizes(), **cluster.pod_affinity.sizes(), **waiting, **self.running.sizes()}

    @property
    def may_block(self) -> bool:
        """Return whether a step may wait for something outside, such as an extender or a plugin's thread."""
        return self.running.may_block

    # -- outcomes of decisions -----------------------------------------------------------------------

    def wants_room(self, ref: str) -> bool:
        """Return whether the preemptor still exists and may be tried once its victims have terminated."""
        entity = self.queue.get(ref)
        return entity is not None and bool(entity.ready) and (entity.gate.ok or entity.gate.code is Code.ERROR)

    def confirm_binding(self, uid: str) -> Effects:
        """Handle a binding that the API confirmed."""
        self._assumed_pods.confirm(uid)
        return self.collect_effects()

    def fail_binding(self, uid: str, now: float) -> Effects:
        """Handle a binding that failed permanently: the pod's capacity is released and the pod is queued again."""
        self._assumed_pods.fail(uid, now)
        return self.collect_effects()

    @property
    def awaits_permission(self) -> bool:
        """Return whether pods wait for a Permit plugin."""
        return self._assumed_pods.has_waiting

    def ask_permission(self, now: float) -> Effects:
        """Call the Permit plugins again for waiting pods: `Effects.permitted_bindings` and `Effects.rejections`."""
        allowed, refused = self._assumed_pods.ask_permission(now)
        return self.collect_effects(allowed=allowed, refused=refused)

    def finish_preemption(self, ref: str, now: float) -> Effects:
        """Handle a preemption with successful API calls; the preemptor may be tried when its victims have terminated.

        It may be tried at once if its nomination has been cleared meanwhile: then it no longer waits for those victims.
        """
        self.queue.unblock(ref, now, retry=self._nominations.in_flight.has_victims(ref) and not self.is_preempting(ref))
        return self.collect_effects()

    def fail_preemption(self, ref: str, now: float) -> Effects:
        """Handle a preemption with a failed API call: clear its nominations and try again (preemption.md 7.5).

        It is tried at once, or after its backoff if the previous one failed too.
        """
        spared = self._nominations.in_flight.victims_of(ref)
        self.cluster.doomed.difference_update(spared)
        self._nominations.in_flight.forget(ref)
        entity = self.queue.get(ref)
        if entity is not None:
            self._nominations.give_up(entity.ready.values(), now)
        self.moves.end_failed(ref, now)
        self._groups.resizes.retry(spared, now)
        self.queue.unblock(ref, now, retry=True, failed=True)
        return self.collect_effects()

    def is_preempting(self, ref: str) -> bool:
        """Return whether a preemption for this entity is in progress: victims still exist, and it is nominated.

        If a nomination was cleared by a more important pod, the deletion of the node or the API, the entity may preempt
        elsewhere at once, while its victims still terminate (preemption.md 2.3).
        """
        entity = self.queue.get(ref) if self._nominations.in_flight.has_victims(ref) else None
        return entity is not None and any(pod.nominated >= 0 or pod.resizing for pod in entity.ready.values())

    # -- internals ---------------------------------------------------------------------------------

    def is_for_us(self, key: str, api_version: str) -> bool:
        """Return whether this scheduler handles a `namespace/name` group of another scheduler (workloads.md 4.4).

        It does if one of its pods names our profile or, without pods, if the API's own scheduler is one of our names.
        """
        members = self._groups.members(key)
        if members:
            return any(map(self._ours, members))
        return any(name in self.running or name in self._profile_aliases for name in SCHEDULERS_OF[api_version])

    def _ours(self, pod: PodRecord) -> bool:
        return self._any_scheduler or pod.scheduler_name in self.running

    def collect_effects(
        self,
        *,
        decision: Decision | None = None,
        allowed: tuple[Binding, ...] = (),
        refused: tuple[Rejection, ...] = (),
        known: bool = True,
    ) -> Effects:
        """End a call that changed something: return its effects."""
        if self._validate:
            self.cluster.check()
        self.repair.trim()
        incidents = self.running.incidents()
        return self._in_progress.finish(incidents, decision=decision, allowed=allowed, refused=refused, known=known)
