"""Pods that the engine has assumed on a node and the API has not confirmed (scheduling.md 2).

A Permit plugin may let an assumed pod wait; the pod keeps its capacity until the plugin decides.  Times are in seconds.
"""

from typing import Final

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.framework.status import Code
from reprieve.queueing.queue import SchedulingQueue
from reprieve.scheduling.binding_plugins import given_up, run_permit, run_post_bind, unreserve
from reprieve.scheduling.decision import SCHEDULER_ERROR, UNSCHEDULABLE, Binding, Rejection
from reprieve.scheduling.effects import EffectsInProgress
from reprieve.scheduling.nominations import Nominations
from reprieve.scheduling.running_profiles import RunningProfiles

PERMIT_TIMEOUT: Final = 900.0
"""Seconds after which a waiting pod is refused, as by kube-scheduler (at most 15 minutes there)."""


class AssumedPods:
    """See the module docstring."""

    def __init__(
        self,
        cluster: ClusterState,
        queue: SchedulingQueue,
        nominations: Nominations,
        running: RunningProfiles,
        effects: EffectsInProgress,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._nominations = nominations
        self._running = running
        self._effects = effects
        self._attempts: dict[str, int] = {}
        """Attempts by UID: the backoff of a pod continues if its binding fails."""
        self._waiting: dict[str, tuple[Binding, float]] = {}
        """Pods that a Permit plugin lets wait, and the time since they wait, by UID."""

    @property
    def has_waiting(self) -> bool:
        """Return whether a Permit plugin lets a pod wait."""
        return bool(self._waiting)

    def add(self, pod: PodRecord, attempts: int) -> None:
        """Record that a pod was assumed after so many attempts."""
        self._attempts[pod.uid] = attempts

    def wait(self, binding: Binding, now: float) -> None:
        """Record that a Permit plugin lets a pod wait."""
        self._waiting[binding.pod.uid] = (binding, now)

    def confirm(self, uid: str) -> None:
        """Handle a binding that the API confirmed."""
        self._attempts.pop(uid, None)
        self._nominations.remove_bound(uid)
        pod = self._cluster.pods.get(uid)
        if pod is not None:
            pod.bound = True
            self._cluster.volumes.settled(uid)
            if self._running.listen and pod.row >= 0:
                run_post_bind(self._running.of(pod), pod, pod.row)

    def fail(self, uid: str, now: float) -> None:
        """Handle a binding that failed permanently: the pod's capacity is released and the pod is queued again."""
        pod = self._cluster.pods.get(uid)
        if pod is None or pod.row < 0 or pod.bound:
            return
        row = pod.row
        attempts = self.forget(pod)
        self._cluster.displace(pod)
        if self._nominations.stands_in_api(pod):
            self._nominations.end(pod)
        self._nominations.remove_victim(uid, now)  # a victim that was only reserved has freed its capacity
        if not pod.terminating:
            self._queue.add_pod(pod, now, attempts=attempts)
        self._queue.on_event(ClusterEvent(EventKind.POD_GONE, row=row, pod=pod, group=pod.group), now)

    def forget(self, pod: PodRecord) -> int:
        """Undo Reserve for a pod that will not be bound; return after how many attempts it was assumed."""
        if self._running.reserve and pod.row >= 0 and not pod.bound:
            running = self._running.of(pod)
            binding = Binding(pod, self._cluster.nodes.names[pod.row], pod.row)
            self._effects.writes += given_up(running, binding)
            unreserve(running, binding)
        self._waiting.pop(pod.uid, None)
        return self._attempts.pop(pod.uid, 1)

    def ask_permission(self, now: float) -> tuple[tuple[Binding, ...], tuple[Rejection, ...]]:
        """Call the Permit plugins again; return what may be bound now, and the refusals.

        A pod that has waited for `PERMIT_TIMEOUT` is refused.
        """
        allowed, refused = [], []
        for binding, since in list(self._waiting.values()):
            pod = binding.pod
            status = run_permit(self._running.of(pod), binding)
            if pod.terminating:
                self.fail(pod.uid, now)
            elif status.ok:
                del self._waiting[pod.uid]
                allowed.append(binding)
            elif status.code is not Code.WAIT or now - since >= PERMIT_TIMEOUT:
                self.fail(pod.uid, now)
                text = status.reason or f"{status.plugin} did not permit it in {PERMIT_TIMEOUT:.0f} s"
                reason = SCHEDULER_ERROR if status.code is Code.ERROR else UNSCHEDULABLE
                refused.append(Rejection(pod, reason, text))
        return tuple(allowed), tuple(refused)
