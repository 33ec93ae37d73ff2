"""Kubelets of a simulated cluster that resize pods in place when capacity becomes free (resizes.md 5).

A kubelet counts what it has given to the other pods of the node, and of the pod itself the most of what it wants and
has.  So it may resize a pod that does not fit by the scheduler's count, in which every pod has what it wants.
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
"""Of a pod that the scheduler does not try (resizes.md 1.8)."""


@dataclass(slots=True)
class PendingResize:
    """A running pod with a deferred resize, and what happened to it."""

    pod: PodRecord
    item: objects.Pod
    node: str
    message: str = ""
    """Why it does not fit, of the scheduler's last attempt."""
    evicts: tuple[str, ...] = ()
    """Units evicted for it, `namespace/name`."""
    done: bool = False


class Resizes:
    """See the module docstring. `keep`: called with the effects of what changes in the engine."""

    def __init__(self, engine: Engine, keep: Callable[[Effects], None]) -> None:
        self._engine = engine
        self._keep = keep
        self.pending: dict[str, PendingResize] = {}
        """By UID, in the order of the input; those that are done stay."""

    def begin(self, pod: PodRecord, item: objects.Pod) -> None:
        """A pod of the input runs; it is noted if its resize is deferred."""
        if pod.row >= 0 and not pod.terminating and resize_is_deferred(item):
            why = _NOT_QUEUED if resize_may_not_preempt(item) else ""
            self.pending[pod.uid] = PendingResize(pod, item, self._engine.cluster.nodes.names[pod.row], why)

    def decided(self, decision: Decision, now: float) -> None:
        """The scheduler tried some: they are done, or why they do not fit and what is evicted for each on its node."""
        if decision.result is Result.SCHEDULED:
            for uid, resize in list(self.pending.items()):
                if resize.pod.resize_ref == decision.ref:
                    self.carry_out(uid, now)
        victims = decision.preemption.victims if decision.preemption is not None else []
        for rejection in decision.rejections:
            known = self.pending.get(rejection.pod.uid)
            if known is not None:
                known.message = rejection.message
                there = (verdict.unit.name for verdict in victims if known.pod.row in verdict.unit.rows)
                known.evicts = tuple(dict.fromkeys((*known.evicts, *there)))

    def capacity_freed(self, row: int, now: float) -> None:
        """Resize the pods of a node that fit now, those with the highest priority first."""
        if not self.pending or row < 0:
            return
        nodes = self._engine.cluster.nodes
        there = [p for p in self.pending.values() if not p.done and p.pod.row == row and p.pod.uid in nodes.pods[row]]
        for resize in sorted(there, key=lambda p: (-p.pod.priority, p.pod.created, p.pod.key)):
            if self._fits(resize.pod, row):
                self.carry_out(resize.pod.uid, now)

    def carry_out(self, uid: str, now: float) -> None:
        """The pod has the resources that its spec asks for."""
        resize = self.pending.get(uid)
        if resize is None or resize.done:
            return
        resize.done = True
        status = resize.item.status
        conditions = tuple(c for c in status.conditions if c.type != "PodResizePending")
        given = replace(
            status,
            conditions=conditions,
            container_statuses=(),
            init_container_statuses=(),
            resources=None,
            allocated_resources={},
        )
        self._keep(self._engine.set(replace(resize.item, status=given), now))

    def _fits(self, pod: PodRecord, row: int) -> bool:
        nodes = self._engine.cluster.nodes
        used = nodes.used[:, row].copy()
        for other in self.pending.values():
            if not other.done and other.pod is not pod and other.pod.uid in nodes.pods[row]:
                used -= other.pod.signature.delta - self._allocated(other.item, len(used))
        return all(used[column] <= nodes.allocatable[column, row] for column, _ in pod.signature.requests)

    def _allocated(self, item: objects.Pod, columns: int) -> npt.NDArray[np.int64]:
        """Return what the kubelet has given to a pod, by column; for scores alone as the pod counts anyway."""
        resources = self._engine.cluster.resources
        amounts = self._engine.cluster.pods[item.metadata.uid or item.key].signature.delta.copy()
        for name, amount in allocated_requests(item).items():
            column = resources.column(name)
            if column < columns:
                amounts[column] = amount
        return amounts
