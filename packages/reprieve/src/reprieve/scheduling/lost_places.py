"""Reserve the capacity of a lost member of a gang for its replacement (docs/rules/repair.md, section 2).

Without a replacement, a *stand-in* is nominated to the node: a pod record without an API object, with the requests of
the lost member. So pods of the same or a lower priority see the capacity as taken, and higher ones do not. When the
replacement is pending it takes over the nomination, which is then written to the API.

Invariants: a place is reserved for `repairSeconds` at most, only while its gang is degraded and has members, and only
on a node that accepts pods; a stand-in exists only here and in the nominations of its node.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.queueing.queue import SchedulingQueue
from reprieve.scheduling.effects import EffectsInProgress
from reprieve.scheduling.gang_health import GangHealth
from reprieve.scheduling.lost_place import LostPlace, amounts_signature, keep, likeness
from reprieve.scheduling.nominations import Nominations


class LostPlaces:
    """See the module docstring. `seconds_for`: seconds for which a lost pod's capacity is reserved; 0: not at all."""

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
        self._health, self._effects, self._repair_seconds = health, effects, seconds_for
        self._losses: deque[tuple[str, PodRecord, int, float]] = deque()
        """Members that were lost since the last review: pod group, pod, row, end of the reservation."""
        self.by_group: dict[str, list[LostPlace]] = {}
        """Places by `namespace/name` of the pod group; no list is empty."""
        self._ends: list[tuple[float, int, LostPlace]] = []
        """A heap; released places are skipped."""
        self._numbers = itertools.count()
        self._nodes = cluster.nodes.version

    def record(self, pod: PodRecord, row: int, now: float) -> None:
        """Record a lost member that ran on a row, was not evicted by a preemption, and has not succeeded."""
        seconds = self._repair_seconds(pod)
        if pod.group is not None and seconds > 0:
            self._losses.append((pod.group, pod, row, now + seconds))
            while self._losses[0][-1] < now:
                self._losses.popleft()  # a standby reviews nothing

    def review(self, changed: Collection[str], now: float) -> None:
        """Reserve lost places, give them to replacements, and release those no longer needed.

        `changed`: pod groups that had an event since the last review.
        """
        if not self._losses and not self.by_group:
            return
        losses, self._losses = self._losses, deque()
        places = [place for loss in losses if (place := self._keep(*loss, now)) is not None]
        if not self.by_group:
            return
        moved = self._nodes != self._cluster.nodes.version
        self._nodes = self._cluster.nodes.version
        for key in list(self.by_group) if moved else [key for key in changed if key in self.by_group]:
            self._review_gang(key, now)
        self._effects.lost_places += [place for place in places if not place.replaced]
        while self._ends and self._ends[0][0] <= now:
            place = heapq.heappop(self._ends)[2]
            if place in self.by_group.get(place.group, ()):
                self._give_back(place, now, f"it was kept for a replacement for {self._repair_seconds(place.lost):g} s")

    def next_time(self) -> float | None:
        """Return when `review` is next due, if nothing else happens."""
        while self._ends and self._ends[0][2] not in self.by_group.get(self._ends[0][2].group, ()):
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else None

    def of_entity(self, ref: str) -> list[LostPlace]:
        """Return the places that are reserved for the gangs of an entity (`group/...` or `composite/...`)."""
        groups = self._cluster.groups
        return [place for group in self.by_group if groups[group].home == ref for place in self.by_group[group]]

    def keeps(self, pod: PodRecord) -> bool:
        """Return whether capacity of a lost member is reserved for a pod."""
        return pod.group is not None and any(place.keeper is pod for place in self.by_group.get(pod.group, ()))

    @contextmanager
    def lift(self, ref: str) -> Iterator[None]:
        """Let an entity see capacity that is reserved for further replacements of its own gangs as free."""
        own = [place.keeper for place in self.of_entity(ref) if not place.replaced]
        if not own:
            yield
            return
        with self._cluster.trial():
            for keeper in own:
                self._cluster.clear_nomination(keeper)
            yield

    def adopt(self, key: str, pod: PodRecord, now: float) -> None:
        """Take over a nomination after a restart: the earlier scheduler reserved the place for the replacement."""
        seconds = self._repair_seconds(pod)
        if seconds > 0:
            name = self._cluster.nodes.names[pod.nominated]
            self._add(LostPlace(key, pod, pod.nominated, name, now + seconds, pod))

    # -- internals ---------------------------------------------------------------------------------------------------

    def _keep(self, key: str, pod: PodRecord, row: int, until: float, now: float) -> LostPlace | None:
        """Reserve the place of a lost member if its gang is degraded and its node accepts pods."""
        if key not in self._health.degraded or until <= now or not self._may_keep(key, row):
            return None
        if any(member.nominated == row for member in self._cluster.groups[key].pending()):
            return None  # it is nominated there already
        place = keep(self._cluster, pod, row, until)
        self._add(place)
        return place

    def _add(self, place: LostPlace) -> None:
        self.by_group.setdefault(place.group, []).append(place)
        heapq.heappush(self._ends, (place.until, next(self._numbers), place))

    def _may_keep(self, key: str, row: int) -> bool:
        """Return whether the gang has members left, and the node accepts pods."""
        group, nodes = self._cluster.groups.get(key), self._cluster.nodes
        return (
            group is not None and group.existing > 0 and bool(nodes.alive[row]) and not bool(nodes.unschedulable[row])
        )

    def _review_gang(self, key: str, now: float) -> None:
        """Give the places of a gang to its replacements, and release those no longer needed."""
        for place in list(self.by_group[key]):
            keeper = place.keeper
            if keeper.nominated != place.row or keeper.row >= 0:
                self._drop(place)  # taken, used, or moved by a decision
            elif key not in self._health.degraded:
                self._give_back(place, now, "the gang has its minimum")
            elif not self._may_keep(key, place.row):
                self._give_back(place, now, "the gang has no members, or the node takes no pods")
            elif not place.replaced:
                self._fit(keeper)
        if key not in self.by_group:
            return
        group = self._cluster.groups[key]
        entity = self._queue.get(group.home)
        if entity is None:
            return
        waiting = [pod for pod in group.pending() if pod.uid in entity.ready]
        waiting.sort(key=lambda pod: (pod.created, pod.name))
        free = [place for place in self.by_group[key] if not place.replaced]
        pairs = (
            (likeness(place.lost, pod, same_owner=pod.owner == place.lost.owner), place, pod)
            for place in free
            for pod in waiting
        )
        for _, place, pod in sorted((pair for pair in pairs if pair[0]), key=lambda pair: pair[0]):
            if not place.replaced and pod.nominated < 0:
                self._nominations.hand_over(place, pod)

    def _fit(self, keeper: PodRecord) -> None:
        """Extend the requests of stand-ins to further resource columns of the cluster."""
        capacity = self._cluster.resources.capacity
        if len(keeper.signature.delta) < capacity:
            keeper.signature = amounts_signature(keeper.signature, capacity)

    def _give_back(self, place: LostPlace, now: float, why: str) -> None:
        self._drop(place)
        self._nominations.give_back(place, now, why)

    def _drop(self, place: LostPlace) -> None:
        places = self.by_group[place.group]
        places.remove(place)
        if not places:
            del self.by_group[place.group]
