"""Attempts of several preemptors of one priority and profile that are pending at the same time (cost.md 8).

When an entity is about to evict pods, or fits while those after it then cannot all fit on few nodes, the entities that
follow it in the queue are tried with it.  Those that fit without an eviction are tried first; the others are planned
together (`reprieve.preemption.joint_preemption`) and then tried one after another, each with its part of the plan. So
every attempt is an ordinary one, with its own decision and nominations.

Invariant: no entity leaves the queue before its own attempt; the plan is dropped when an entity of a higher priority is
ready.
"""

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from reprieve.cluster.groups import Group
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.plugin import Assigned, CycleState, Placement, TieBreaker
from reprieve.framework.plugin_guard import first_of
from reprieve.framework.running_profile import RunningProfile
from reprieve.framework.status import PluginError
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.joint_preemption import MOST_PODS, MOST_PREEMPTORS, JointPart, JointPlan, Peer
from reprieve.preemption.victim_search.node_tables import MOST_NODES
from reprieve.queueing.entity import Entity
from reprieve.queueing.queue import SchedulingQueue
from reprieve.scheduling.decision import Decision
from reprieve.scheduling.group_cycle import peer_of
from reprieve.scheduling.running_profiles import RunningProfiles


class JointAttempts:
    """See the module docstring. `preempting`: whether a preemption of an entity (its key) is in progress."""

    def __init__(
        self,
        cluster: ClusterState,
        queue: SchedulingQueue,
        profiles: RunningProfiles,
        preempting: Callable[[str], bool],
    ) -> None:
        self._cluster, self._queue, self._profiles, self._preempting = cluster, queue, profiles, preempting
        self._turns: deque[tuple[str, JointPart | None]] = deque()
        """The keys of the entities that are tried next, each with its part."""

    def pop(self, now: float) -> tuple[Entity | None, JointPart | None]:
        """Return the next entity to try, and its part in the plan for several."""
        while self._turns:
            key, part = self._turns.popleft()
            entity = self._queue.pop_only(key, now)
            if entity is not None:
                return entity, part if part is not None and _is_complete(part, entity) else None
        return self._queue.pop(now), None

    def plan(self, entity: Entity, decided: Decision, now: float) -> bool:
        """Plan an entity together with others, if it would evict pods, or if it fits and others then cannot.

        Return False if there are no others, or if its own attempt is as good. Otherwise it is put back into the queue,
        and the entities to try first are recorded.
        """
        wanted = decided.preemption
        if wanted is None and not (decided.bindings and self._is_crowded(entity)):
            return False
        plugin = self._plugin(entity)
        if plugin is None or not self._joins(plugin, entity):
            return False
        if wanted is not None and not (wanted.victims and plugin.may_gain(wanted)):
            return False
        peers = [entity]
        pods = len(entity.ready)
        terms = self._cluster.class_terms_of(_preemptor(entity))
        for follower in self._queue.followers(entity, MOST_PREEMPTORS - 1):
            pods += len(follower.ready)
            if pods > MOST_PODS:
                break
            if self._joins(plugin, follower) and self._cluster.class_terms_of(_preemptor(follower)) == terms:
                peers.append(follower)
        if len(peers) == 1:
            return False
        running = self._profiles.of(next(iter(entity.ready.values())))
        try:
            with self._cluster.trial():
                fitting, failing = self._apart(running, peers)
                planned = plugin.plan_together(failing, entity.priority) if len(failing) > 1 else None
            cheaper = self._with_fitting(plugin, running, peers, fitting, planned) if planned is not None else None
        except PluginError:
            return False  # it fails again in an attempt of its own, and is reported there
        if wanted is None and cheaper is None:  # it keeps its places, and those after it are not planned again
            self._turns.extend((ref, None) for ref in fitting if ref != entity.ref)
            self._turns.extend(planned.parts.items() if planned is not None else ())
            return False
        if planned is None:
            return False
        self._queue.put_back(entity)
        if cheaper is not None:  # capacity that the others need is reserved before those that fit are placed
            self._turns.extend(cheaper.parts.items())
            self._turns.extend((ref, None) for ref in fitting if ref not in cheaper.parts)
        else:
            self._turns.extend((ref, None) for ref in fitting)
            self._turns.extend(planned.parts.items())
        return True

    def _is_crowded(self, entity: Entity) -> bool:
        """Return whether there are few nodes, and the next entities cannot all fit beside this one without eviction."""
        cluster = self._cluster
        nodes = cluster.nodes
        if len(nodes) > MOST_NODES or self._turns or (entity.group is not None and entity.group.scheduled):
            return False
        followers = self._queue.followers(entity, MOST_PREEMPTORS - 1)
        if len(followers) < 2:
            return False
        pods = [pod for e in (entity, *followers) for pod in e.ready.values()]
        wanted = np.sum([pod.signature.delta for pod in pods], axis=0)
        free = np.maximum(nodes.allocatable[:, : len(nodes)] - nodes.used[:, : len(nodes)], 0).sum(axis=1)
        if (wanted <= free).all():
            return False
        return any(pod.priority < entity.priority for pod in cluster.pods.values() if pod.row >= 0)

    def _with_fitting(
        self,
        plugin: DefaultPreemption,
        running: RunningProfile,
        entities: Sequence[Entity],
        fitting: Sequence[str],
        planned: JointPlan,
    ) -> JointPlan | None:
        """Return a cheaper plan that may move entities which fit without an eviction; None if there is none."""
        if not fitting or len(self._cluster.nodes) > MOST_NODES:
            return None
        peers = [self._tried(running, entity, fitting=True) for entity in entities]
        every = plugin.plan_together([peer for peer in peers if isinstance(peer, Peer)], entities[0].priority, fitting)
        if every is None or every.price >= planned.price:
            return None
        wanted = {**dict.fromkeys(fitting, 1), **planned.wanted}
        return every if all(every.wanted.get(ref, 0) >= least for ref, least in wanted.items()) else None

    def _plugin(self, entity: Entity) -> DefaultPreemption | None:
        profile = self._profiles.of(next(iter(entity.ready.values()))).profile
        plugin = first_of(DefaultPreemption, profile.post_filters)
        return plugin if plugin is not None and plugin.plans_together else None

    def _joins(self, plugin: DefaultPreemption, entity: Entity) -> bool:
        pods = list(entity.ready.values())
        if any(pod.nominated >= 0 or pod.resizing for pod in pods) or self._preempting(entity.ref):
            return False
        return plugin.may_join(pods, entity.group)

    def _apart(self, running: RunningProfile, entities: Sequence[Entity]) -> tuple[list[str], list[Peer]]:
        """Place entities that fit without an eviction in the present view; return their keys, and the others."""
        fitting: list[str] = []
        failing: list[Peer] = []
        for entity in entities:
            outcome = self._tried(running, entity)
            if isinstance(outcome, Peer):
                failing.append(outcome)
            elif outcome:
                fitting.append(entity.ref)
                for pod, row in outcome:
                    self._cluster.place(pod, row)
        return fitting, failing

    def _tried(self, running: RunningProfile, entity: Entity, *, fitting: bool = False) -> Peer | Assigned:
        pods = list(entity.ready.values())
        if entity.group is not None:
            return peer_of(running, entity.ref, entity.group, pods, fitting=fitting)
        cluster, evaluator, pod = self._cluster, running.evaluator, pods[0]
        row = evaluator.best_row(CycleState(cluster, pod)) if not fitting else -1
        if row >= 0:
            return ((pod, row),)

        def place(ties: TieBreaker | None, within: Placement | None) -> Assigned:
            row = evaluator.best_row(CycleState(cluster, pod), ties, within.rows if within is not None else None)
            return ((pod, row),) if row >= 0 else ()

        return Peer(entity.ref, None, pods, place)


def _is_complete(part: JointPart, entity: Entity) -> bool:
    """Return whether all pods of the part are still pending: none was deleted, gated or bound."""
    return all(entity.ready.get(pod.uid) is pod for pod, _ in part.places)


def _preemptor(entity: Entity) -> PodRecord | Group:
    return entity.group or next(iter(entity.ready.values()))
