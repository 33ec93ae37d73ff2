"""Host ports of pods on one simulated node: a kubelet rejects a pod that requests a port another pod holds.

Rules: interfaces.md 7.5.
"""

from __future__ import annotations

from collections.abc import Iterable

from kube_rules.json import Json
from kube_rules.meta import FINISHED
from kube_standin.pod_usage import containers_of
from kube_standin.storage import StoredObject

REASON = "NodePorts"
MESSAGE = "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
_MARK = b'"hostPort"'
_EVERY_ADDRESS = "0.0.0.0"

HostPort = tuple[str, int, str]
"""Protocol, port, address."""


def wanted(pod: Json) -> set[HostPort]:
    """Return the host ports of a pod: of its containers and its sidecars."""
    return {
        (port.get("protocol") or "TCP", port["hostPort"], port.get("hostIP") or _EVERY_ADDRESS)
        for container in containers_of(pod)
        for port in container.get("ports") or ()
        if port.get("hostPort")
    }


def holds(state: StoredObject, own: set[HostPort]) -> bool:
    """Return whether a stored pod that its kubelet has admitted holds one of the ports."""
    if _MARK not in state.raw:
        return False
    pod = state.decode()
    status = pod.get("status") or {}
    if not status.get("podIP") or status.get("phase") in FINISHED:
        return False
    return any(_clash(mine, theirs) for theirs in wanted(pod) for mine in own)


def _clash(left: HostPort, right: HostPort) -> bool:
    return left[:2] == right[:2] and (left[2] == right[2] or _EVERY_ADDRESS in (left[2], right[2]))


def conflict(own: set[HostPort], states: Iterable[StoredObject | None]) -> bool:
    """Return whether another pod of the node holds one of the ports."""
    return any(state is not None and holds(state, own) for state in states)
