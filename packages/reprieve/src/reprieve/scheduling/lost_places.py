"""The capacity that a lost member of a gang had, kept for its replacement (docs/rules/repair.md, section 2).

As long as there is no replacement a *stand-in* is nominated to the node: a pod record that no API object stands for,
which asks for what the lost member had.  So pods of the same or a lower priority see the capacity as taken, and higher
ones do not.  The replacement, as soon as it waits, takes over the nomination, which the API learns of then.

Invariants: a place is kept for `repairSeconds` at most, only while its gang is degraded and has members, and only on a
node that takes pods; a stand-in is known here and in the nominations of its node, and nowhere else.
"""

import heapq
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from kube_rules.topology_terms import pod_index
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.signature import PodSpecSignature
from reprieve.cluster.state import ClusterState
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.queueing.queue import SchedulingQueue
from reprieve.scheduling.effects import EffectsInProgress
from reprieve.scheduling.gang_health import GangHealth
from reprieve.scheduling.lost_place import STAND_IN, LostPlace
from reprieve.scheduling.nominations import Nominations
from reprieve.scheduling.preemptor_reservations import Released


class LostPlaces:
    """See the module docstring. `seconds_for`: how long the capacity of a pod of a gang is kept; 0: not at all."""

    def __init__(
        self,
        cluster: ClusterState,
        queue: SchedulingQueue,
        nominations: Nominations,
        health: GangHealth,
        effects: EffectsInProgress,
        seconds_for: Callable[[PodRecord], float],
    ) -> None:
        self._cluster, self._queue, self._nominations = cluster, queue, nominations
        self._health, self._effects, self._seconds_for = health, effects, seconds_for
        self._losses: deque[tuple[PodRecord, int, float]] = deque()
        """Members that were lost since the last review: pod, row, time."""
        self.kept: dict[str, list[LostPlace]] = {}
        """By `namespace/name` of the pod group; no list is empty."""
        self._ends: list[tuple[float, int, LostPlace]] = []
        """A heap; places that are given back already are skipped."""
        self._made = 0
        self._nodes = cluster.nodes.version

    def lost(self, pod: PodRecord, row: int, now: float) -> None:
        """A member that ran on a row is gone, was not evicted by a preemption, and has not succeeded."""
        if pod.group is not None and self._seconds_for(pod) > 0:
            self._losses.append((pod, row, now))
            while self._losses[0][2] + self._seconds_for(self._losses[0][0]) < now:
                self._losses.popleft()  # a standby reviews nothing

    def review(self, changed: Collection[str], now: float) -> None:
        """Keep what was lost, hand it to replacements, and give back what is not to be kept any more.

        `changed`: pod groups that had an event since the last review.
        """
        losses, self._losses = self._losses, deque()
        for pod, row, lost_at in losses:
            self._keep(pod, row, lost_at + self._seconds_for(pod), now)
        if not self.kept:
            return
        moved = self._nodes != self._cluster.nodes.version
        self._nodes = self._cluster.nodes.version
        for key in list(self.kept) if moved else [key for key in changed if key in self.kept]:
            self._look_at(key, now)
        while self._ends and self._ends[0][0] <= now:
            place = heapq.heappop(self._ends)[2]
            if place in self.kept.get(place.group, ()):
                self._give_back(place, now, f"it was kept for a replacement for {self._seconds_for(place.lost):g} s")

    def next_time(self) -> float | None:
        """Return when `review` has something to do, if nothing else happens."""
        while self._ends and self._ends[0][2] not in self.kept.get(self._ends[0][2].group, ()):
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else None

    def of_entity(self, ref: str) -> list[LostPlace]:
        """Return the places that are kept for the gangs of an entity (`group/...` or `composite/...`)."""
        groups = self._cluster.groups
        return [place for group in self.kept if groups[group].home == ref for place in self.kept[group]]

    def keeps(self, pod: PodRecord) -> bool:
        """Return whether capacity of a lost member is kept for a pod."""
        return pod.group is not None and any(place.keeper is pod for place in self.kept.get(pod.group, ()))

    @contextmanager
    def lifted(self, ref: str) -> Iterator[None]:
        """Let an entity see the capacity that is kept for more replacements of its own gangs as free."""
        own = [place.keeper for place in self.of_entity(ref) if not place.replaced]
        if not own:
            yield
            return
        with self._cluster.trial():
            for keeper in own:
                self._cluster.clear_nomination(keeper)
            yield

    def adopt(self, pod: PodRecord, now: float) -> None:
        """After a restart: the replacement waits on the place that the scheduler before kept for it."""
        seconds = self._seconds_for(pod)
        if pod.group is not None and pod.nominated >= 0 and seconds > 0:
            name = self._cluster.nodes.names[pod.nominated]
            self._add(LostPlace(pod.group, pod, pod.nominated, name, now + seconds, pod))

    # -- inside ------------------------------------------------------------------------------------------------------

    def _keep(self, pod: PodRecord, row: int, until: float, now: float) -> None:
        """Keep what a lost member had, if its gang is degraded and its node takes pods."""
        key = pod.group
        if key is None or key not in self._health.degraded or until <= now or not self._may_keep(key, row):
            return
        if any(other.nominated == row for other in self._cluster.groups[key].pending()):
            return  # it waits there already
        cluster = self._cluster
        keeper = stand_in(pod, cluster.resources.capacity)
        place = LostPlace(key, pod, row, cluster.nodes.names[row], until, keeper)
        cluster.nominate(keeper, row)
        self._add(place)
        self._look_at(key, now)
        if place in self.kept.get(key, ()) and not place.replaced:
            self._effects.kept.append(place)

    def _add(self, place: LostPlace) -> None:
        self.kept.setdefault(place.group, []).append(place)
        self._made += 1
        heapq.heappush(self._ends, (place.until, self._made, place))

    def _may_keep(self, key: str, row: int) -> bool:
        """Return whether the gang has members left, and the node takes pods."""
        group, nodes = self._cluster.groups.get(key), self._cluster.nodes
        return (
            group is not None and group.existing > 0 and bool(nodes.alive[row]) and not bool(nodes.unschedulable[row])
        )

    def _look_at(self, key: str, now: float) -> None:
        """Hand the places of a gang to its replacements, and give back those that are not to be kept any more."""
        for place in list(self.kept[key]):
            keeper = place.keeper
            if keeper.nominated != place.row or keeper.row >= 0:
                self._drop(place)  # taken, used, or moved by a decision
            elif key not in self._health.degraded:
                self._give_back(place, now, "the gang has its minimum")
            elif not self._may_keep(key, place.row):
                self._give_back(place, now, "the gang has no members, or the node takes no pods")
            elif not place.replaced:
                self._fit(keeper)
        if key not in self.kept:
            return
        group = self._cluster.groups[key]
        entity = self._queue.get(group.home)
        if entity is None:
            return
        waiting = [pod for pod in group.pending() if pod.nominated < 0 and pod.uid in entity.ready]
        waiting.sort(key=lambda pod: (pod.created, pod.name))
        free = [place for place in self.kept[key] if not place.replaced]
        pairs = ((_likeness(place.lost, pod), place, pod) for place in free for pod in waiting)
        for _, place, pod in sorted((pair for pair in pairs if pair[0]), key=lambda pair: pair[0]):
            if not place.replaced and pod.nominated < 0:
                self._hand_over(place, pod)

    def _hand_over(self, place: LostPlace, pod: PodRecord) -> None:
        """The replacement waits: it is nominated where the stand-in was, for as long."""
        self._cluster.clear_nomination(place.keeper)
        place.keeper = pod
        self._nominations.hand_over(pod, place.row)
        self._effects.kept.append(place)

    def _fit(self, keeper: PodRecord) -> None:
        """The cluster has learned of more resources: what the stand-in asks for has a number for each."""
        capacity = self._cluster.resources.capacity
        if len(keeper.signature.delta) < capacity:
            keeper.signature = _plain(keeper.signature, capacity)

    def _give_back(self, place: LostPlace, now: float, why: str) -> None:
        """The place is free for all; a replacement that waits there for another reason stays nominated."""
        self._drop(place)
        keeper, ref = place.keeper, self._cluster.entity_ref(place.keeper)
        if keeper.nominated != place.row:
            return
        if not place.replaced:
            self._cluster.clear_nomination(keeper)
            event = ClusterEvent(EventKind.POD_GONE, row=place.row, pod=keeper)
            self._queue.on_event(event, now)
        elif ref not in self._nominations.held and not self._nominations.in_flight.waits(ref):
            self._nominations.give_up((keeper,), now, Released.NOT_USED, why)

    def _drop(self, place: LostPlace) -> None:
        places = self.kept[place.group]
        places.remove(place)
        if not places:
            del self.kept[place.group]


def stand_in(pod: PodRecord, capacity: int) -> PodRecord:
    """Return a record that asks for what a pod has, and stands for no object of the API."""
    return PodRecord(
        namespace=pod.namespace,
        name=pod.name,
        uid=STAND_IN + pod.uid,
        signature=_plain(pod.signature, capacity),
        priority=pod.priority,
        created=pod.created,
        scheduler_name=pod.scheduler_name,
    )


def _likeness(lost: PodRecord, pod: PodRecord) -> int:
    """Return how surely a pod replaces a lost member of its gang: 1 most surely; 0: it does not."""
    if pod.name == lost.name:
        return 1
    its, own = (pod_index(member.labels, member.annotations) for member in (lost, pod))
    if its is not None or own is not None:
        return 0 if its != own else 2 if pod.owner == lost.owner else 3
    return 3 if pod.owner == lost.owner else 0


def _plain(signature: PodSpecSignature, capacity: int) -> PodSpecSignature:
    """Return the amounts and ports of a signature, without its rules about other pods: a stand-in breaks none."""
    if not signature.selects and len(signature.delta) >= capacity:
        return signature
    delta = np.zeros(capacity, dtype=np.int64)
    delta[: len(signature.delta)] = signature.delta
    return replace(signature, affinity=None, selects=False, delta=delta)
