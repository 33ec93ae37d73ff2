"""Nominations as the engine makes and ends them: in the picture, for the queue, and towards the API.

A nomination is a pending pod's claim on room that is being made on a node.  It ends by a decision (the pod is bound or
looks elsewhere, somebody more important takes the node), which says so itself; or without one (its node is gone, its
group may not be tried any more, the preemption failed), and then `take_ended` names the pod, whose
`status.nominatedNodeName` is to be cleared.  Either way the room it held is free for others.
"""

from collections.abc import Iterable

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.preemption.outcome import Preemption
from reprieve.queueing.queue import SchedulingQueue
from reprieve.scheduling.nomination_echoes import NominationEchoes


class Nominations:
    """See the module docstring."""

    def __init__(self, cluster: ClusterState, queue: SchedulingQueue) -> None:
        self._cluster = cluster
        self._queue = queue
        self._echoes = NominationEchoes()
        self._ended: dict[str, PodRecord] = {}
        """Pods whose nomination ended outside a decision, by UID, until somebody asks."""

    # -- decided by a cycle ------------------------------------------------------------------------

    def decide(self, preemption: Preemption, now: float) -> tuple[PodRecord, ...]:
        """Nominate in memory first; lower-priority nominations on the same nodes make way (preemption.md 7.1, 7.4).

        Returns the pods that lost theirs.
        """
        cluster = self._cluster
        displaced = []
        for pod, row in preemption.nominations:
            for other in list(cluster.nodes.nominated.get(row, {}).values()):
                if other.priority < preemption.priority:
                    self.clear(other)
                    displaced.append(other)
                    self.freed(other, row, now)
            cluster.nominate(pod, row)
            self._echoes.decided(pod.uid, cluster.nodes.names[row])
            self._ended.pop(pod.uid, None)
        return tuple(displaced)

    def clear(self, pod: PodRecord) -> None:
        """A decision ends the pod's nomination, and says so."""
        self._cluster.clear_nomination(pod)
        self._echoes.decided(pod.uid, "")

    def freed(self, pod: PodRecord, row: int, now: float, *, but: str = "") -> None:
        """Room held for a pod is free again: for all others but entity `but` as if a pod had left."""
        self._queue.on_event(ClusterEvent(EventKind.POD_GONE, row=row, pod=pod, group=pod.group), now, but=but)

    # -- ended without a decision ------------------------------------------------------------------

    def end(self, pod: PodRecord) -> None:
        """A nomination ends without a decision; the room is not told of, as with a node that is gone."""
        self.clear(pod)
        self._ended[pod.uid] = pod

    def give_up(self, pods: Iterable[PodRecord], now: float) -> list[PodRecord]:
        """End the nominations among the pods; returns those that had one."""
        ended = []
        for pod in list(pods):
            row = pod.nominated
            if row >= 0:
                self.end(pod)
                self.freed(pod, row, now)
                ended.append(pod)
        return ended

    def take_ended(self) -> list[PodRecord]:
        """Pods whose nomination ended without a decision since the last call, and that got no other place."""
        if not self._ended:
            return []
        taken = [pod for pod in self._ended.values() if pod.nominated < 0 and pod.row < 0]
        self._ended.clear()
        return taken

    # -- what the API says -------------------------------------------------------------------------

    def known(self, pod: PodRecord, node: str) -> None:
        """A pod that was not known came with a nomination."""
        self._cluster.nominate(pod, self._cluster.nodes.row_for_pod(node))
        self._echoes.begin(pod.uid, node)

    def observe(self, pod: PodRecord, node: str, now: float) -> None:
        """The API's word on a pending pod's nomination: ours coming back, or somebody else's, which is taken over."""
        if not self._echoes.heard(pod.uid, node):
            return
        before = pod.nominated
        self._cluster.clear_nomination(pod)
        self._ended.pop(pod.uid, None)
        if node:
            self._cluster.nominate(pod, self._cluster.nodes.row_for_pod(node))
        if before >= 0 and before != pod.nominated:
            self.freed(pod, before, now)

    def stands_in_api(self, pod: PodRecord) -> bool:
        """Whether the API has a nomination of the pod, or will have one once it is told everything."""
        return self._echoes.stands(pod.uid)

    def bound(self, uid: str) -> None:
        """The pod is bound: the API clears its nomination."""
        self._echoes.forget(uid)

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._echoes.forget(uid)
        self._ended.pop(uid, None)
