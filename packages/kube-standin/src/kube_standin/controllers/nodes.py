"""The node lifecycle: a silent node becomes unreachable; conditions and cordons become taints.

Rules: upstream's node lifecycle controller. A node is silent if its lease (``kube-node-lease``) was not renewed for
50 s, or for the lease's own duration if that is longer; silence before this server started does not count. The
conditions of nodes that never had a lease do not change: no kubelet renews them. This module owns the taints not-ready
and unreachable (NoSchedule and NoExecute), the pressure taints and unschedulable.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from kube_rules.json import Json
from kube_rules.taints import (
    DISK_PRESSURE,
    MEMORY_PRESSURE,
    NETWORK_UNAVAILABLE,
    NOT_READY,
    PID_PRESSURE,
    UNREACHABLE,
    UNSCHEDULABLE,
)
from kube_standin.clock import parse_stamp
from kube_standin.conditions import condition_of, pod_condition, set_condition, state_of
from kube_standin.controllers.podgc import index_nodes
from kube_standin.controllers.reconciler import Controller
from kube_standin.controllers.views import LeaseView, NodeView
from kube_standin.node_authorization import LEASES

_BY_CONDITION: dict[tuple[str, str], str] = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): MEMORY_PRESSURE,
    ("DiskPressure", "True"): DISK_PRESSURE,
    ("PIDPressure", "True"): PID_PRESSURE,
    ("NetworkUnavailable", "True"): NETWORK_UNAVAILABLE,
}
_OURS = frozenset((*_BY_CONDITION.values(), UNSCHEDULABLE))
_KUBELET_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_SILENCE = "Kubelet stopped posting node status."


class NodeLifecycle(Controller):
    """The controller of nodes; keys are their names. It compares leases with the clock every few seconds."""

    name = "node-lifecycle"

    def connect(self) -> None:
        """Queue a node when it changes; check all leases periodically."""
        sources = self.context.sources
        self._nodes, self._pods = sources.nodes, sources.pods
        index_nodes(self._pods)
        self._leases = sources.of("coordination.k8s.io/leases", LeaseView)
        self._known_since: dict[str, datetime] = {}
        self._silent: set[str] = set()
        self._nodes.add_handler(self._node_changed)
        self.context.timers.after(self.context.times.node_period, self._tick)

    def _node_changed(self, old: NodeView | None, new: NodeView | None) -> None:
        if new is None:
            if old is not None:
                self._known_since.pop(old.metadata.name, None)
                self._silent.discard(old.metadata.name)
            return
        self._known_since.setdefault(new.metadata.name, self.context.now())
        if old is None or old.spec != new.spec or old.status != new.status:
            self.queue(new.metadata.name)

    def _tick(self) -> None:
        for key in self._nodes.items:
            if key[1] not in self._silent and self._is_silent(key[1]):
                self.queue(key[1])
        self.context.timers.after(self.context.times.node_period, self._tick)

    def _is_silent(self, name: str) -> bool:
        lease = self._leases.items.get((LEASES, name))
        if lease is None:
            return False
        grace = max(self.context.times.node_grace, lease.spec.lease_duration_seconds or 0)
        renewed = self._known_since[name]
        if lease.spec.renew_time:
            renewed = max(renewed, parse_stamp(lease.spec.renew_time))
        return self.context.now() - renewed > timedelta(seconds=grace)

    def reconcile(self, key: str) -> None:
        """Set the conditions of a silent node, the taints of every node, and the readiness of its pods."""
        node = self._nodes.items.get(("", key))
        state = self.context.registry.store.head("nodes", "", key)
        if node is None or state is None:
            return
        body = state.decode()
        if self._is_silent(key):
            self._silent.add(key)
            changed = self._silence(body)
        else:
            self._silent.discard(key)
            changed = False
        taints = self._taints(body)
        if taints is not None:
            body["spec"] = {**(body.get("spec") or {}), "taints": taints}
            if not taints:
                del body["spec"]["taints"]
            changed = True
        if changed:
            self.context.put(state, body)
        ready = state_of(body.get("status"), "Ready")
        if ready is not None and ready != "True":
            self._unready_pods(key)

    def _silence(self, node: Json) -> bool:
        status = node.setdefault("status", {})
        stamp = self.context.stamp()
        changed = False
        for kind in _KUBELET_CONDITIONS:
            present = condition_of(status, kind)
            if present is not None and present.get("status") == "Unknown":
                continue
            condition = {
                **(present or {"type": kind, "lastHeartbeatTime": None}),
                "status": "Unknown",
                "reason": "NodeStatusUnknown",
                "message": _SILENCE,
                "lastTransitionTime": stamp,
            }
            set_condition(status, condition)
            changed = True
        return changed

    def _taints(self, node: Json) -> list[Json] | None:
        """Return the taints that a node should have, None if it has them."""
        spec = node.get("spec") or {}
        present = spec.get("taints") or []
        wanted: dict[tuple[str, str], None] = {}
        for (kind, value), key in _BY_CONDITION.items():
            if state_of(node.get("status"), kind) == value:
                wanted[key, "NoSchedule"] = None
                if key in (NOT_READY, UNREACHABLE):
                    wanted[key, "NoExecute"] = None
        if spec.get("unschedulable"):
            wanted[UNSCHEDULABLE, "NoSchedule"] = None
        kept_taints = [t for t in present if t["key"] not in _OURS or (t["key"], t["effect"]) in wanted]
        have = {(t["key"], t["effect"]) for t in kept_taints}
        stamp = self.context.stamp()
        added = [
            {
                "key": key,
                "effect": effect,
                **({"timeAdded": stamp} if effect == "NoExecute" or key == UNSCHEDULABLE else {}),
            }
            for key, effect in wanted
            if (key, effect) not in have
        ]
        if len(kept_taints) == len(present) and not added:
            return None
        return [*kept_taints, *added]

    def _unready_pods(self, name: str) -> None:
        for pod in self._pods.by("node", name):
            state = self.context.registry.store.head("pods", *pod.key)
            if not pod.ready or state is None:
                continue
            body = state.decode()
            unready = pod_condition("Ready", "False", self.context.stamp(), "NodeNotReady")
            set_condition(body["status"], unready)
            self.context.put(state, body)
