"""Nominations: made and ended in the cluster cache, for the queue, and for the API.

A nomination is a pending pod's claim on capacity that is being freed on a node. It ends by a decision, which reports it
(the pod is bound or nominated to another node, or a more important pod takes this one), or without one (its node is
deleted, its group may no longer be tried, the preemption failed, the reservation expired). In the second case the
effects list the pod, so that its `status.nominatedNodeName` is cleared. Either way the reserved capacity is free for
others; the effects also have its preemptor and the reason of the release (cost.md 5).
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from kube_rules.errors import names_text
from kube_rules.work_annotations import LONGEST
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.queueing.queue import SchedulingQueue
from reprieve.scheduling.advance_reservation import MOST_NAMED
from reprieve.scheduling.effects import EffectsInProgress
from reprieve.scheduling.lost_place import LostPlace
from reprieve.scheduling.nomination_echoes import NominationEchoes
from reprieve.scheduling.preemptions_in_flight import PreemptionsInFlight
from reprieve.scheduling.preemptor_reservations import PreemptorReservations, Released, ReleasedReservation

Places = Iterable[tuple[PodRecord, int]]
"""(pod, row)."""


class Nominations:
    """See the module docstring. `hold_seconds`: the duration of reservations, by schedulerName; 0 without an end."""

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
        self.reservations = PreemptorReservations()
        self.in_flight = PreemptionsInFlight()
        self.overtaken: set[str] = set()
        """Entities that lost nominated capacity since the last step of the engine."""

    # -- decided by a cycle ------------------------------------------------------------------------

    def decide(
        self, ref: str, places: Places, priority: int, leaving: Iterable[PodRecord], now: float
    ) -> tuple[PodRecord, ...]:
        """Nominate in memory first; displace lower-priority nominations on the same nodes (preemption.md 7.1, 7.4).

        The capacity is free when all of `leaving` have terminated; from then on it is reserved for `hold_seconds` at
        most. Return the pods that lost their nominations.
        """
        places = tuple(places)
        room_by = max((self._latest_deletion(pod, now) for pod in leaving), default=now)
        if places:
            self.reservations.begin(ref, room_by, self._hold_duration(places[0][0]))
        return self._nominate(places, priority, now)

    def reserve(self, ref: str, places: Places, priority: int, now: float) -> None:
        """Nominate for pods that end by themselves; the reservation, not `hold_seconds`, sets the duration.

        Effects report it, because no decision does (reservations.md 3).
        """
        places = tuple(places)
        self.reservations.forget(ref)
        renominated = {pod.uid for pod, _ in places}
        entity = self._queue.get(ref)
        before = [(pod, pod.nominated) for pod in entity.ready.values() if pod.nominated >= 0] if entity else []
        self.release_earlier_places(before, places, now)
        for pod, _ in before:
            if pod.uid not in renominated:
                self.end(pod)
        for pod in self._nominate(places, priority, now):
            self._effects.unnominated_pods[pod.uid] = pod
        for pod, row in _unused(before, places):
            self.release_from(pod, row, now, but=ref)

    def _nominate(self, places: Places, priority: int, now: float) -> tuple[PodRecord, ...]:
        """Nominate in memory; return the pods of a lower priority that lost their nominations on the same nodes."""
        cluster = self._cluster
        displaced: dict[str, list[tuple[PodRecord, int]]] = {}
        for pod, row in places:
            for rival in list(cluster.nodes.nominated.get(row, {}).values()):
                if rival.priority < priority and rival.uid not in cluster.pods:
                    cluster.clear_nomination(rival)  # a stand-in, which is not in the API (repair.md 2.3)
                elif rival.priority < priority:
                    self.clear(rival)
                    displaced.setdefault(cluster.entity_ref(rival), []).append((rival, row))
                    self.release_from(rival, row, now)
            cluster.nominate(pod, row)
            self._echoes.record(pod.uid, cluster.nodes.names[row])
            self._effects.unnominated_pods.pop(pod.uid, None)
        for lost in displaced.values():
            self.release(lost, Released.TAKEN, f"a preemptor of priority {priority} gets it", now)
        return tuple(pod for lost in displaced.values() for pod, _ in lost)

    def hand_over(self, place: LostPlace, pod: PodRecord) -> None:
        """Nominate the replacement in place of its stand-in; nothing else changes (repair.md 2.3)."""
        self._cluster.clear_nomination(place.keeper)
        place.keeper = pod
        self._cluster.nominate(pod, place.row)
        self._echoes.record(pod.uid, place.node)
        self._effects.unnominated_pods.pop(pod.uid, None)
        self._effects.lost_places.append(place)

    def give_back(self, place: LostPlace, now: float, why: str) -> None:
        """Release a kept place; a replacement that is nominated there for another reason stays nominated."""
        keeper, ref = place.keeper, self._cluster.entity_ref(place.keeper)
        if keeper.nominated != place.row:
            return
        if not place.replaced:
            self._cluster.clear_nomination(keeper)
            self.release_from(keeper, place.row, now)
        elif ref not in self.reservations and not self.in_flight.has_victims(ref):
            self.give_up((keeper,), now, Released.NOT_USED, why)

    def clear(self, pod: PodRecord) -> None:
        """End the pod's nomination by a decision, which reports it."""
        self._cluster.clear_nomination(pod)
        self._echoes.record(pod.uid, "")

    def release_from(self, pod: PodRecord, row: int, now: float, *, but: str = "") -> None:
        """Release the capacity reserved for a pod: as if a pod had terminated, for all entities except `but`."""
        self._queue.on_event(ClusterEvent(EventKind.POD_GONE, row=row, pod=pod, group=pod.group), now, but=but)

    def overtake(self, placed: PodRecord, row: int, now: float, *, outside: bool = False) -> None:
        """Try preemptors of lower priority again that are nominated to a row on which a pod was placed.

        `outside`: another scheduler placed it, which respects no nomination, so any priority counts (preemption.md
        2.7).
        """
        by_uid = self._cluster.nodes.nominated.get(row)
        if by_uid is None:
            return
        own = self._cluster.entity_ref(placed)
        for nominated_pod in list(by_uid.values()):
            ref = self._cluster.entity_ref(nominated_pod)
            if ref != own and (outside or nominated_pod.priority < placed.priority):
                self.overtaken.add(ref)
                self._queue.overtake(ref, now)

    # -- ended without a decision ------------------------------------------------------------------

    def end(self, pod: PodRecord) -> None:
        """End a nomination without a decision and without a report of its capacity, as for a deleted node."""
        self.clear(pod)
        self._effects.unnominated_pods[pod.uid] = pod

    def give_up(self, pods: Iterable[PodRecord], now: float, why: Released | None = None, message: str = "") -> None:
        """End the nominations of the pods; with a reason, report the released capacity."""
        ended = [(pod, pod.nominated) for pod in pods if pod.nominated >= 0]
        if why is not None:
            self.release(ended, why, message, now)
        for pod, row in ended:
            self.end(pod)
            self.release_from(pod, row, now)

    def remove_victim(self, uid: str, now: float) -> None:
        """Handle a pod that freed its capacity, if it was a victim."""
        self.reservations.start_now(self.in_flight.remove_victim(uid), now)

    def give_back_unused(self, now: float) -> None:
        """End expired reservations: a preemptor that did not use its capacity may preempt elsewhere (cost.md 5.2).

        Victims that have not terminated by then no longer count.
        """
        given_back = []
        for ref, seconds in self.reservations.end_due(now):
            entity = self._queue.get(ref)
            if entity is None:
                continue
            if entity.block_reason is not None:  # the calls are still being made: the capacity is not free yet
                self.reservations.begin(ref, now, seconds)
                continue
            rows = {pod.nominated for pod in entity.ready.values() if pod.nominated >= 0}
            if not rows:
                continue
            pods_there = [pod for row in rows for pod in self._cluster.nodes.pods[row].values()]
            for uid in (
                *self.in_flight.victims_of(ref),
                *(pod.uid for pod in pods_there if pod.terminating and pod.preempted),
            ):
                self._cluster.set_overdue(uid)
            text = f"it was reserved for {seconds:g} s and not used"
            self.give_up(entity.ready.values(), now, Released.NOT_USED, text)
            given_back.append(ref)
        for ref in given_back:
            self.in_flight.forget(ref)
            self._queue.wake(ref, now)

    def release(self, places: Places, why: Released, message: str, now: float) -> None:
        """Report released capacity on these rows, which was reserved for one preemptor."""
        names = self._cluster.nodes.names
        pods = tuple((pod, names[row]) for pod, row in places)
        if pods:
            first = pods[0][0]
            ref = self._cluster.entity_ref(first)
            group = self._cluster.trees.find(ref) if first.group is not None else None
            self._effects.released.append(ReleasedReservation(ref, group, pods, why, message, now))

    def release_other_places(self, places: Places, now: float) -> None:
        """Release capacity reserved elsewhere for members of one entity that get these rows."""
        places = tuple(places)
        left = _unused(((pod, pod.nominated) for pod, _ in places if pod.nominated >= 0), places)
        if left:
            self.release(
                left, Released.PLACED_ELSEWHERE, f"free capacity was found on {self._describe_places(places)}", now
            )

    def release_earlier_places(self, before: Places, places: Places, now: float) -> None:
        """Release the earlier capacity of members of one entity that are nominated to these rows instead."""
        left = _unused(before, places)
        if left:
            self.release(left, Released.MOVED, f"capacity is freed on {self._describe_places(places)} instead", now)

    def _describe_places(self, places: Places) -> str:
        return names_text(list(dict.fromkeys(self._cluster.nodes.names[row] for _, row in places)), MOST_NAMED)

    def _latest_deletion(self, pod: PodRecord, now: float) -> float:
        """Return when a terminating pod, or a victim, is deleted at the latest."""
        due = self._cluster.departures.get(pod.uid)
        return min(max(due, now) if due is not None else now + pod.grace, now + LONGEST)

    def _hold_duration(self, pod: PodRecord) -> float:
        seconds = self._hold_seconds.get(pod.scheduler_name)
        return seconds if seconds is not None else next(iter(self._hold_seconds.values()))

    def _begin_known(self, pod: PodRecord, now: float) -> None:
        """Reserve capacity for a nomination in the API: by another scheduler, or by this one before a restart."""
        ref = self._cluster.entity_ref(pod)
        if ref not in self.reservations and pod.nominated >= 0:
            pods_there = self._cluster.nodes.pods[pod.nominated].values()
            leaving = [
                self._latest_deletion(victim, now) for victim in pods_there if victim.terminating and victim.preempted
            ]
            self.reservations.begin(ref, max(leaving, default=now), self._hold_duration(pod))

    def resume(self, now: float) -> None:
        """Restart the time of reservations when this scheduler takes over (cost.md 5.1)."""
        for entity in self._queue.entities():
            first = next((pod for pod in entity.ready.values() if pod.nominated >= 0), None)
            if first is not None and entity.ref in self.reservations:
                self.reservations.forget(entity.ref)
                self._begin_known(first, now)

    # -- observed in the API -----------------------------------------------------------------------

    def add_known(self, pod: PodRecord, node: str, now: float) -> None:
        """Handle a new pod with a nomination."""
        self._cluster.nominate(pod, self._cluster.nodes.row_for_pod(node))
        self._begin_known(pod, now)
        self._echoes.begin(pod.uid, node)

    def observe(self, pod: PodRecord, node: str, now: float) -> None:
        """Take over a pending pod's nomination from the API, unless it is an echo of ours."""
        if not self._echoes.observe(pod.uid, node):
            return
        before = pod.nominated
        self._cluster.clear_nomination(pod)
        self._effects.unnominated_pods.pop(pod.uid, None)
        if node:
            self._cluster.nominate(pod, self._cluster.nodes.row_for_pod(node))
            self._begin_known(pod, now)
        if before >= 0 and before != pod.nominated:
            self.release_from(pod, before, now)

    def stands_in_api(self, pod: PodRecord) -> bool:
        """Return whether the API has a nomination of the pod, or will have one after pending writes."""
        return self._echoes.stands(pod.uid)

    def remove_bound(self, uid: str) -> None:
        """Handle a bound pod: the API clears its nomination."""
        self._echoes.forget(uid)

    def forget(self, uid: str) -> None:
        """Forget a deleted pod."""
        self._echoes.forget(uid)
        self._effects.unnominated_pods.pop(uid, None)


def _unused(before: Places, places: Places) -> list[tuple[PodRecord, int]]:
    """Return reserved places that are not among the new ones: members of an entity may use each other's."""
    used = Counter(row for _, row in places)
    left = []
    for pod, row in before:
        if used[row]:
            used[row] -= 1
        else:
            left.append((pod, row))
    return left
