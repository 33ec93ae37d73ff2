"""Simulated nodes: creation, readiness, lease renewal.

A node is *ours* if it was created here or adopted (see ``settings``); it is *up* unless its annotation is ``down``.
Leases are renewed in batches, a part of the fleet at a time, so that thousands of nodes cost few writes per second.
Invariant: the lease of every node that is up is renewed after a quarter of its duration.
"""

from __future__ import annotations

import copy
import heapq
import ipaddress
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from kube_rules.durations import micro_stamp
from kube_rules.json import Json
from kube_rules.requests import is_extended_resource
from kube_rules.topology_terms import HOSTNAME
from kube_standin.conditions import set_condition
from kube_standin.controllers.reconciler import Context
from kube_standin.controllers.views import NodeView
from kube_standin.errors import StatusError
from kube_standin.kubelet.settings import KUBELET, KubeletOptions
from kube_standin.node_authorization import LEASES

log = logging.getLogger("reprieve.kubelets")

MANAGER = "kubelet"
_SIMULATED = "-simulated"
_SERVER_FIELDS = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink")
_TICK = 1.0
_MADE_AT_ONCE = 50
_PAUSE = 0.005
_GOLDEN = 0.618033988749895
_SHORTEST_LEASE = 40
_LEASE_FACTOR = 4
_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


def filled(template: Any, name: str, index: int) -> Any:
    """Return a copy of a template with ``{name}`` and ``{index}`` filled in, in keys and values."""
    if isinstance(template, str):
        return template.replace("{name}", name).replace("{index}", str(index))
    if isinstance(template, dict):
        return {filled(key, name, index): filled(value, name, index) for key, value in template.items()}
    if isinstance(template, list):
        return [filled(value, name, index) for value in template]
    return template


def address(first: str, position: int) -> str:
    """Return the address ``position`` steps after ``first``."""
    return str(ipaddress.IPv4Address(int(ipaddress.IPv4Address(first)) + position % (1 << 22)))


def label_as_kubelets_do(node: Json) -> None:
    """Add the labels with which a kubelet registers to a manifest, unless it has them."""
    metadata = node["metadata"]
    metadata["labels"] = {
        HOSTNAME: metadata["name"],
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        **(metadata.get("labels") or {}),
    }


class Fleet:
    """The simulated nodes of one server. ``on_up`` is called with the name of a node that comes up (again)."""

    def __init__(self, context: Context, options: KubeletOptions, on_up: Callable[[str], None]) -> None:
        self._context = context
        self._options = options
        self._on_up = on_up
        self._addresses: dict[str, str] = {}
        """The address of each node that is up."""
        self._own_nodes: set[str] = set()
        self._offers: dict[str, frozenset[str]] = {}
        """By node, the extended resources of its capacity that were made allocatable."""
        self._next_address = 1
        self._renewals: list[tuple[float, str]] = []
        """A heap of lease renewals: time in seconds since 1970, node name."""
        self._nodes_with_renewal: set[str] = set()
        """The nodes in the heap."""
        self._is_ticking = False
        self._phase_count = 0
        self._stopped = False
        self._nodes_to_sync: dict[str, None] = {}
        context.sources.nodes.add_handler(self._node_changed)

    def is_up(self, node: str) -> bool:
        """Return whether a kubelet runs on the node."""
        return node in self._addresses

    def address(self, node: str) -> str:
        """Return the address of a node that is up."""
        return self._addresses[node]

    @property
    def lease_period(self) -> float:
        """Return the seconds between two renewals of one lease."""
        size = max(len(self._addresses), self._options.nodes)
        return max(self._options.lease_seconds, size / self._options.renewals_per_second)

    # -- creating nodes

    def make(self) -> None:
        """Stage the nodes of the options, some now and the rest soon; existing nodes do not change.

        Raises StatusError for a manifest that is refused.
        """
        for manifest in self._options.manifests:
            self._make(copy.deepcopy(manifest))
        self._make_next(1)

    def _make_next(self, first: int) -> None:
        """Create nodes from the template, a batch at a time so that a large fleet does not block the server."""
        if self._stopped:
            return
        last = min(self._options.nodes, first + _MADE_AT_ONCE - 1)
        for index in range(first, last + 1):
            name = f"node-{index}"
            manifest = filled(self._options.template or {}, name, index)
            manifest.setdefault("metadata", {}).setdefault("name", name)
            self._make(manifest)
        if last < self._options.nodes:
            self._context.timers.after(_PAUSE, lambda: self._make_next(last + 1))

    def _make(self, manifest: Json) -> None:
        kind = self._context.kind("v1", "Node")
        metadata = manifest["metadata"]
        for field in _SERVER_FIELDS:  # a node copied from another cluster
            metadata.pop(field, None)
        name = metadata["name"]
        self._own_nodes.add(name)
        if self._context.registry.head(kind, "", name) is None:
            self._complete(manifest)
            self._context.create(kind, "", manifest, MANAGER)
        self._sync_node(name)

    def _complete(self, node: Json) -> None:
        """Add the labels, resources and conditions with which a kubelet registers to a manifest."""
        label_as_kubelets_do(node)
        self._complete_status(node["metadata"]["name"], node.setdefault("status", {}))

    def _complete_status(self, name: str, status: Json) -> bool:
        """Fill in the missing fields of a status; return whether there were any."""
        before = copy.deepcopy(status)
        allocatable = status.get("allocatable") or status.get("capacity") or dict(self._options.resources)
        for part in ("capacity", "allocatable"):
            if not status.get(part):
                status[part] = dict(allocatable)
            status[part].setdefault("pods", self._options.resources.get("pods", "110"))
        if not status.get("addresses"):
            own = address(self._options.addresses[1], self._next_address)
            self._next_address += 1
            status["addresses"] = [{"type": "InternalIP", "address": own}, {"type": "Hostname", "address": name}]
        info = status.get("nodeInfo") or {}
        version = f"v1.{self._options.minor}.0{_SIMULATED}"
        named = info.get("kubeletVersion") or _SIMULATED
        if named.endswith(_SIMULATED) and named != version:
            status["nodeInfo"] = {
                **dict.fromkeys(("machineID", "systemUUID", "bootID", "kubeProxyVersion"), ""),
                "kernelVersion": "simulated",
                "osImage": "simulated",
                "containerRuntimeVersion": "simulated://1",
                "operatingSystem": "linux",
                "architecture": "amd64",
                **{key: value for key, value in info.items() if value},
                "kubeletVersion": version,
            }
        stamp = self._context.stamp()
        conditions = {condition_set["type"]: condition_set for condition_set in status.get("conditions") or ()}
        for kind, value, reason, message in _CONDITIONS:
            present = conditions.get(kind)
            # A condition of the manifest stays; a condition that silence caused does not.
            if present is not None and present.get("status") not in (None, "", "Unknown"):
                continue
            condition = {"type": kind, "status": value, "reason": reason, "message": message}
            condition.update(lastHeartbeatTime=stamp, lastTransitionTime=stamp)
            set_condition(status, condition)
        return status != before

    def _offer(self, name: str, status: Json) -> bool:
        """Make extended resources of the capacity allocatable as a kubelet does; return whether anything changed.

        A client adds them to the capacity, and removes them (interfaces.md 7.4).
        """
        capacity, allocatable = status["capacity"], status["allocatable"]
        extended = {resource for resource in capacity if is_extended_resource(resource)}
        missing = extended - allocatable.keys()
        before = self._offers.get(name, frozenset())
        withdrawn = (before - extended) & allocatable.keys()
        for resource in sorted(missing):
            allocatable[resource] = capacity[resource]
        for resource in withdrawn:
            del allocatable[resource]
        offered = frozenset((before & extended) | missing)
        if offered:
            self._offers[name] = offered
        else:
            self._offers.pop(name, None)
        return bool(missing or withdrawn)

    # -- added and removed nodes

    def _node_changed(self, old: NodeView | None, new: NodeView | None) -> None:
        node = new or old
        if node is None:
            return
        if new is None:
            self._addresses.pop(node.metadata.name, None)
            self._offers.pop(node.metadata.name, None)
            return
        self._nodes_to_sync[node.metadata.name] = None
        if len(self._nodes_to_sync) == 1:
            self._context.timers.after(0, self._sync_waiting)

    def _sync_waiting(self) -> None:
        waiting, self._nodes_to_sync = self._nodes_to_sync, {}
        for name in waiting:
            self._sync_node(name)

    def _sync_node(self, name: str) -> None:
        """Mark a node as up or down by its annotation."""
        state = self._context.registry.store.head("nodes", "", name)
        if state is None or self._stopped:
            self._addresses.pop(name, None)
            return
        body = state.decode()
        word = (body["metadata"].get("annotations") or {}).get(KUBELET, "")
        ours = name in self._own_nodes or self._options.adopt
        if not ours or word in ("none", "down"):
            self._addresses.pop(name, None)
            return
        status = body.setdefault("status", {})
        filled_in = self._complete_status(name, status)
        if self._offer(name, status) or filled_in:
            self._context.put(state, body)
        own = next((entry["address"] for entry in status["addresses"] if entry["type"] == "InternalIP"), "127.0.0.1")
        if name not in self._addresses:
            self._addresses[name] = own
            self._renew(name)
            self._enqueue(name, self._first_share())
            self._on_up(name)

    # -- leases

    def start(self) -> None:
        """Start renewing leases."""
        self._is_ticking = True
        self._await_renewal()

    def stop(self) -> None:
        """Stop renewing leases."""
        self._stopped = True

    def _first_share(self) -> float:
        """Return the share of the period before a new node's first renewal, to spread nodes created together."""
        self._phase_count += 1
        return self._phase_count * _GOLDEN % 1

    def _enqueue(self, name: str, share: float = 1.0) -> None:
        if name in self._nodes_with_renewal:
            return
        due = self._context.now() + timedelta(seconds=self.lease_period * share)
        heapq.heappush(self._renewals, (due.timestamp(), name))
        self._nodes_with_renewal.add(name)
        if self._is_ticking and len(self._renewals) == 1:
            self._await_renewal()

    def _await_renewal(self) -> None:
        """Schedule the next tick for the first due lease, at least a second from now."""
        if self._renewals:
            wait = self._renewals[0][0] - self._context.now().timestamp()
            self._context.timers.after(max(_TICK, wait), self._tick)

    def _tick(self) -> None:
        """Renew the leases that are due."""
        if self._stopped:
            return
        now = self._context.now().timestamp()
        while self._renewals and self._renewals[0][0] <= now:
            name = heapq.heappop(self._renewals)[1]
            self._nodes_with_renewal.discard(name)
            if name in self._addresses:
                self._renew(name)
                self._enqueue(name)
        self._await_renewal()

    def _renew(self, name: str) -> None:
        store = self._context.registry.store
        now = micro_stamp(self._context.now())
        lasts = max(_SHORTEST_LEASE, int(self.lease_period * _LEASE_FACTOR))
        state = store.head("coordination.k8s.io/leases", LEASES, name)
        if state is not None:
            body = state.decode()
            body["spec"] = {**(body.get("spec") or {}), "renewTime": now, "leaseDurationSeconds": lasts}
            self._context.put(state, body)
            return
        node = store.head("nodes", "", name)
        if node is None:
            return
        reference = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.decode()["metadata"]["uid"]}
        lease = {
            "metadata": {"name": name, "ownerReferences": [reference]},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": lasts, "renewTime": now},
        }
        try:
            self._context.create(self._context.kind("coordination.k8s.io/v1", "Lease"), LEASES, lease, MANAGER)
        except StatusError as error:
            log.warning("lease of node %s: %s", name, error)
