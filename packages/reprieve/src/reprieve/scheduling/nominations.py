"""Nominations as the engine makes and ends them: in the cluster cache, for the queue, and towards the API.

A nomination is a pending pod's claim on room that is being made on a node.  It ends by a decision (the pod is bound or
turns to another node, a more important pod takes this one), which reports it; or without one (its node is gone, its
group may not be tried any more, the preemption failed, the capacity was reserved long enough), and then the effects
list the pod: its `status.nominatedNodeName` is to be cleared.  Either way the reserved capacity is free for others;
what it was reserved for and why it no longer is stands in the effects, too (cost.md 5).
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from kube_rules.work_annotations import LONGEST
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.queueing.queue import SchedulingQueue
from reprieve.scheduling.advance_reservation import named
from reprieve.scheduling.effects import EffectsInProgress
from reprieve.scheduling.lost_place import LostPlace
from reprieve.scheduling.nomination_echoes import NominationEchoes
from reprieve.scheduling.preemptions_in_flight import PreemptionsInFlight
from reprieve.scheduling.preemptor_reservations import PreemptorReservations, Released, ReleasedReservation

Places = Iterable[tuple[PodRecord, int]]
"""(pod, row)."""
"""Nodes that a message names."""


class Nominations:
    """See the module docstring. `hold_seconds`: for how long room is held, by schedulerName; 0 without an end."""

    def __init__(
        self,
        cluster: ClusterState,
        queue: SchedulingQueue,
        hold_seconds: Mapping[str, float],
        effects: EffectsInProgress,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._hold_seconds = hold_seconds
        self._effects = effects
        self._echoes = NominationEchoes()
        self.held = PreemptorReservations()
        self.in_flight = PreemptionsInFlight()
        self.overtaken: set[str] = set()
        """Entities that lost capacity they are nominated to, since the last step of the engine."""

    # -- decided by a cycle ------------------------------------------------------------------------

    def decide(
        self, ref: str, places: Places, priority: int, leaving: Iterable[PodRecord], now: float
    ) -> tuple[PodRecord, ...]:
        """Nominate in memory first; lower-priority nominations on the same nodes make way (preemption.md 7.1, 7.4).

        The capacity is free when all of `leaving` have left; from then on it is reserved for `hold_seconds` at most.
        Returns the pods that lost theirs.
        """
        places = tuple(places)
        room_by = max((self._gone_by(pod, now) for pod in leaving), default=now)
        if places:
            self.held.begin(ref, room_by, self._seconds_for(places[0][0]))
        return self._nominate(places, priority, now)

    def reserve(self, ref: str, places: Places, priority: int, now: float) -> None:
        """Nominate for pods that end by themselves: the reservation, not `hold_seconds`, says for how long.

        Reported as effects: no decision does (reservations.md 3).
        """
        places = tuple(places)
        self.held.forget(ref)
        kept = {pod.uid for pod, _ in places}
        entity = self._queue.get(ref)
        before = [(pod, pod.nominated) for pod in entity.ready.values() if pod.nominated >= 0] if entity else []
        self.moved(before, places, now)
        for pod, _ in before:
            if pod.uid not in kept:
                self.end(pod)
        for pod in self._nominate(places, priority, now):
            self._effects.unnominated[pod.uid] = pod
        for pod, row in _unused(before, places):
            self.freed(pod, row, now, but=ref)

    def _nominate(self, places: Places, priority: int, now: float) -> tuple[PodRecord, ...]:
        """Nominate in memory; return the pods of a lower priority that lost their nominations on the same nodes."""
        cluster = self._cluster
        displaced: dict[str, list[tuple[PodRecord, int]]] = {}
        for pod, row in places:
            for other in list(cluster.nodes.nominated.get(row, {}).values()):
                if other.priority < priority and other.uid not in cluster.pods:
                    cluster.clear_nomination(other)  # a stand-in, of which the API knows nothing (repair.md 2.3)
                elif other.priority < priority:
                    self.clear(other)
                    displaced.setdefault(cluster.entity_ref(other), []).append((other, row))
                    self.freed(other, row, now)
            cluster.nominate(pod, row)
            self._echoes.decided(pod.uid, cluster.nodes.names[row])
            self._effects.unnominated.pop(pod.uid, None)
        for held in displaced.values():
            self.release(held, Released.TAKEN, f"it is taken for priority {priority}", now)
        return tuple(pod for held in displaced.values() for pod, _ in held)

    def hand_over(self, place: LostPlace, pod: PodRecord) -> None:
        """Nominate the replacement to what a stand-in kept for it so far: nothing else moves (repair.md 2.3)."""
        self._cluster.clear_nomination(place.keeper)
        place.keeper = pod
        self._cluster.nominate(pod, place.row)
        self._echoes.decided(pod.uid, place.node)
        self._effects.unnominated.pop(pod.uid, None)
        self._effects.kept.append(place)

    def give_back(self, place: LostPlace, now: float, why: str) -> None:
        """What was kept is free for all; a replacement that waits there for another reason stays nominated."""
        keeper, ref = place.keeper, self._cluster.entity_ref(place.keeper)
        if keeper.nominated != place.row:
            return
        if not place.replaced:
            self._cluster.clear_nomination(keeper)
            self.freed(keeper, place.row, now)
        elif ref not in self.held and not self.in_flight.waits(ref):
            self.give_up((keeper,), now, Released.NOT_USED, why)

    def clear(self, pod: PodRecord) -> None:
        """A decision ends the pod's nomination, and says so."""
        self._cluster.clear_nomination(pod)
        self._echoes.decided(pod.uid, "")

    def freed(self, pod: PodRecord, row: int, now: float, *, but: str = "") -> None:
        """Room held for a pod is free again: for all others but entity `but` as if a pod had left."""
        self._queue.on_event(ClusterEvent(EventKind.POD_GONE, row=row, pod=pod, group=pod.group), now, but=but)

    def overtake(self, placed: PodRecord, row: int, now: float, *, outside: bool = False) -> None:
        """A pod was placed on a row: preemptors of lower priority that are nominated there are tried again.

        `outside`: by another scheduler, which respects no nomination, so that any priority counts (preemption.md 2.7).
        """
        own = self._cluster.entity_ref(placed)
        for other in list(self._cluster.nodes.nominated.get(row, {}).values()):
            ref = self._cluster.entity_ref(other)
            if ref != own and (outside or other.priority < placed.priority):
                self.overtaken.add(ref)
                self._queue.overtake(ref, now)

    # -- ended without a decision ------------------------------------------------------------------

    def end(self, pod: PodRecord) -> None:
        """A nomination ends without a decision; the room is not reported, as with a node that is gone."""
        self.clear(pod)
        self._effects.unnominated[pod.uid] = pod

    def give_up(self, pods: Iterable[PodRecord], now: float, why: Released | None = None, message: str = "") -> None:
        """End the nominations among the pods; what was reserved is reported if there is a reason."""
        ended = [(pod, pod.nominated) for pod in pods if pod.nominated >= 0]
        if why is not None:
            self.release(ended, why, message, now)
        for pod, row in ended:
            self.end(pod)
            self.freed(pod, row, now)

    def victim_left(self, uid: str, now: float) -> None:
        """A pod has freed its capacity, if it was a victim at all."""
        self.held.room_is_there(self.in_flight.left(uid), now)

    def give_back_unused(self, now: float) -> None:
        """End what was reserved long enough: a preemptor that did not use it may preempt elsewhere (cost.md 5.2).

        Victims that have not left by now are counted on no more.
        """
        given_back = []
        for ref, seconds in self.held.end_due(now):
            entity = self._queue.get(ref)
            if entity is None:
                continue
            if entity.blocked is not None:  # the calls are still being made: the capacity is not free yet
                self.held.begin(ref, now, seconds)
                continue
            rows = {pod.nominated for pod in entity.ready.values() if pod.nominated >= 0}
            if not rows:
                continue
            there = [pod for row in rows for pod in self._cluster.nodes.pods[row].values()]
            for uid in (
                *self.in_flight.victims_of(ref),
                *(pod.uid for pod in there if pod.terminating and pod.preempted),
            ):
                self._cluster.set_overdue(uid)
            text = f"it was held for {seconds:g} s and not used"
            self.give_up(entity.ready.values(), now, Released.NOT_USED, text)
            given_back.append(ref)
        for ref in given_back:
            self.in_flight.forget(ref)
            self._queue.wake(ref, now)

    def release(self, places: Places, why: Released, message: str, now: float) -> None:
        """Room that was held on these rows is not held any more, to be reported; all of it was for one preemptor."""
        names = self._cluster.nodes.names
        pods = tuple((pod, names[row]) for pod, row in places)
        if pods:
            first = pods[0][0]
            ref = self._cluster.entity_ref(first)
            group = self._cluster.trees.find(ref) if first.group is not None else None
            self._effects.released.append(ReleasedReservation(ref, group, pods, why, message, now))

    def placed(self, places: Places, now: float) -> None:
        """Members of one entity are about to get these rows: what was held for them elsewhere is free."""
        places = tuple(places)
        left = _unused(((pod, pod.nominated) for pod, _ in places if pod.nominated >= 0), places)
        if left:
            self.release(left, Released.PLACED_ELSEWHERE, f"free capacity was found on {self._where(places)}", now)

    def moved(self, before: Places, places: Places, now: float) -> None:
        """Members of one entity are about to be nominated to these rows instead of those before."""
        left = _unused(before, places)
        if left:
            self.release(left, Released.MOVED, f"capacity is freed on {self._where(places)} instead", now)

    def _where(self, places: Places) -> str:
        return named(list(dict.fromkeys(self._cluster.nodes.names[row] for _, row in places)))

    def _gone_by(self, pod: PodRecord, now: float) -> float:
        """Return when a pod that leaves, or is about to be evicted, is gone at the latest."""
        due = self._cluster.departures.get(pod.uid)
        return min(max(due, now) if due is not None else now + pod.grace, now + LONGEST)

    def _seconds_for(self, pod: PodRecord) -> float:
        found = self._hold_seconds.get(pod.scheduler_name)
        return found if found is not None else next(iter(self._hold_seconds.values()))

    def _begin_known(self, pod: PodRecord, now: float) -> None:
        """Reserve capacity for a nomination that the API has: by another scheduler, or by this one before a restart."""
        ref = self._cluster.entity_ref(pod)
        if ref not in self.held and pod.nominated >= 0:
            there = self._cluster.nodes.pods[pod.nominated].values()
            leaving = [self._gone_by(other, now) for other in there if other.terminating and other.preempted]
            self.held.begin(ref, max(leaving, default=now), self._seconds_for(pod))

    def resume(self, now: float) -> None:
        """Let the time of what is reserved begin now, when this scheduler takes over (cost.md 5.1)."""
        for entity in self._queue.entities():
            first = next((pod for pod in entity.ready.values() if pod.nominated >= 0), None)
            if first is not None and entity.ref in self.held:
                self.held.forget(entity.ref)
                self._begin_known(first, now)

    # -- what the API says -------------------------------------------------------------------------

    def known(self, pod: PodRecord, node: str, now: float) -> None:
        """A pod that was not known came with a nomination."""
        self._cluster.nominate(pod, self._cluster.nodes.row_for_pod(node))
        self._begin_known(pod, now)
        self._echoes.begin(pod.uid, node)

    def observe(self, pod: PodRecord, node: str, now: float) -> None:
        """Take over a pending pod's nomination from the API, unless it is an echo of ours."""
        if not self._echoes.observe(pod.uid, node):
            return
        before = pod.nominated
        self._cluster.clear_nomination(pod)
        self._effects.unnominated.pop(pod.uid, None)
        if node:
            self._cluster.nominate(pod, self._cluster.nodes.row_for_pod(node))
            self._begin_known(pod, now)
        if before >= 0 and before != pod.nominated:
            self.freed(pod, before, now)

    def stands_in_api(self, pod: PodRecord) -> bool:
        """Return whether the API has a nomination of the pod, or will have one once everything is written."""
        return self._echoes.stands(pod.uid)

    def bound(self, uid: str) -> None:
        """The pod is bound: the API clears its nomination."""
        self._echoes.forget(uid)

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._echoes.forget(uid)
        self._effects.unnominated.pop(uid, None)


def _unused(before: Places, places: Places) -> list[tuple[PodRecord, int]]:
    """Return what was held and is not among the places: members of an entity may use each other's."""
    used = Counter(row for _, row in places)
    left = []
    for pod, row in before:
        if used[row]:
            used[row] -= 1
        else:
            left.append((pod, row))
    return left
