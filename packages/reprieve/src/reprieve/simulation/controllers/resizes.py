"""Kubelets in simulated time, which resize pods in place when capacity becomes free (resizes.md 5).

A kubelet counts the allocated resources of the other pods, and for the pod the maximum of desired and allocated. It may
therefore resize a pod that does not fit for the scheduler, which counts the desired resources of every pod.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.requests import allocated_requests, resize_is_deferred, resize_may_not_preempt
from reprieve.cluster.pods import PodRecord
from reprieve.scheduling.decision import Decision, Result
from reprieve.scheduling.effects import Effects
from reprieve.scheduling.engine import Engine

_NOT_QUEUED = "the kubelet reports PodResizePreemptionDisabled"
"""The message of a pod that the scheduler does not try (resizes.md 1.8)."""


@dataclass(slots=True)
class PendingResize:
    """A running pod with a deferred resize, and its progress."""

    pod: PodRecord
    item: objects.Pod
    node: str
    message: str = ""
    """Why it does not fit, from the scheduler's last attempt."""
    evicts: tuple[str, ...] = ()
    """Units evicted for it, `namespace/name`."""
    done: bool = False


class Resizes:
    """See the module docstring. `keep` receives the effects of changes in the engine."""

    def __init__(self, engine: Engine, keep: Callable[[Effects], None]) -> None:
        self._engine = engine
        self._keep = keep
        self.pending: dict[str, PendingResize] = {}
        """By UID, in the order of the input; completed resizes remain."""

    def begin(self, pod: PodRecord, item: objects.Pod) -> None:
        """Register a running pod of the input if its resize is deferred."""
        if pod.row >= 0 and not pod.terminating and resize_is_deferred(item):
            why = _NOT_QUEUED if resize_may_not_preempt(item) else ""
            self.pending[pod.uid] = PendingResize(pod, item, self._engine.cluster.nodes.names[pod.row], why)

    def decided(self, decision: Decision, now: float) -> None:
        """Record a decision about resizes: complete them, or store the reasons and the evicted units."""
        if decision.result is Result.SCHEDULED:
            for uid, resize in list(self.pending.items()):
                if resize.pod.resize_ref == decision.ref:
                    self.carry_out(uid, now)
        victims = decision.preemption.victims if decision.preemption is not None else []
        for rejection in decision.rejections:
            rejected = self.pending.get(rejection.pod.uid)
            if rejected is not None:
                rejected.message = rejection.message
                units_on_node = (verdict.unit.name for verdict in victims if rejected.pod.row in verdict.unit.rows)
                rejected.evicts = tuple(dict.fromkeys((*rejected.evicts, *units_on_node)))

    def capacity_freed(self, row: int, now: float) -> None:
        """Resize the pods of a node that fit now, highest priority first."""
        if not self.pending or row < 0:
            return
        nodes = self._engine.cluster.nodes
        waiting = [p for p in self.pending.values() if not p.done and p.pod.row == row and p.pod.uid in nodes.pods[row]]
        for resize in sorted(waiting, key=lambda p: (-p.pod.priority, p.pod.created, p.pod.key)):
            if self._fits(resize.pod, row):
                self.carry_out(resize.pod.uid, now)

    def carry_out(self, uid: str, now: float) -> None:
        """Set the pod's allocated resources to those of its spec."""
        resize = self.pending.get(uid)
        if resize is None or resize.done:
            return
        resize.done = True
        status = resize.item.status
        conditions = tuple(c for c in status.conditions if c.type != "PodResizePending")
        resized_status = replace(
            status,
            conditions=conditions,
            container_statuses=(),
            init_container_statuses=(),
            resources=None,
            allocated_resources={},
        )
        self._keep(self._engine.set(replace(resize.item, status=resized_status), now))

    def _fits(self, pod: PodRecord, row: int) -> bool:
        nodes = self._engine.cluster.nodes
        used = nodes.used[:, row].copy()
        for other_resize in self.pending.values():
            if not other_resize.done and other_resize.pod is not pod and other_resize.pod.uid in nodes.pods[row]:
                used -= other_resize.pod.signature.delta - self._allocated(other_resize.item, len(used))
        return all(used[column] <= nodes.allocatable[column, row] for column, _ in pod.signature.requests)

    def _allocated(self, item: objects.Pod, columns: int) -> npt.NDArray[np.int64]:
        """Return the pod's allocated resources by column; the scoring columns are unchanged."""
        resources = self._engine.cluster.resources
        amounts = self._engine.cluster.pods[item.metadata.uid or item.key].signature.delta.copy()
        for name, amount in allocated_requests(item).items():
            column = resources.column(name)
            if column < columns:
                amounts[column] = amount
        return amounts
