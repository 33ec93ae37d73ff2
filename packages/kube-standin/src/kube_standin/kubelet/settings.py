"""Behaviour of simulated nodes and pods: options of the fleet, and annotations of pods and nodes.

The constants are annotations of pods; the last one is of nodes. An invalid value counts as absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kube_rules.json import Json
from kube_rules.selectors import parse_integer
from kube_standin.releases import NEWEST

RUN_SECONDS = "reprieve.dev/run-seconds"
"""How long the containers run, in seconds."""
EXIT_CODE = "reprieve.dev/exit-code"
"""The exit code of the containers."""
INIT_EXIT_CODE = "reprieve.dev/init-exit-code"
"""The exit code of the init containers."""
STOP_SECONDS = "reprieve.dev/stop-seconds"
"""How long the containers take to stop, in seconds."""
START_SECONDS = "reprieve.dev/start-seconds"
"""How long the containers take to start, in seconds."""
MISSING_CONFIG = "reprieve.dev/missing-config"
"""`ignore`: the pod, or all pods of the namespace, start without missing ConfigMaps and Secrets."""
IGNORE = "ignore"
KUBELET = "reprieve.dev/kubelet"
"""The node's kubelet: `none`, a kubelet outside the stand-in; `down`, a simulated one that sends no heartbeats."""
_LONGEST = 10.0 * 365 * 86400


@dataclass(frozen=True)
class KubeletOptions:
    """Options of the fleet.

    ``nodes``: how many nodes to create, named ``node-1``..; ``template``: their Node manifest (texts may contain
    ``{name}`` and ``{index}``); ``manifests``: further Node manifests, created unchanged. ``adopt``: also simulate the
    kubelet of nodes that others create. ``start_seconds``, ``stop_seconds``: how long pods take to start, and to stop.
    ``starts_per_second``: how many pods start at most, over all nodes (None: no bound). ``lease_seconds``: how often a
    node renews its lease; ``renewals_per_second`` bounds the writes of large fleets (leases then last longer).
    ``addresses``: first address of the pods, of the nodes. ``minor``: the Kubernetes release that nodes report as their
    version.
    """

    nodes: int = 0
    template: Json | None = None
    manifests: tuple[Json, ...] = ()
    adopt: bool = True
    start_seconds: float = 0.3
    stop_seconds: float = 0.3
    starts_per_second: float | None = None
    lease_seconds: float = 10.0
    renewals_per_second: float = 50.0
    addresses: tuple[str, str] = ("10.128.0.0", "10.0.0.0")
    minor: int = NEWEST
    resources: Mapping[str, str] = field(
        default_factory=lambda: {
            "cpu": "32",
            "memory": "128Gi",
            "ephemeral-storage": "200Gi",
            "pods": "110",
        }
    )


def seconds_of(metadata: Json, name: str) -> float | None:
    """Return the seconds that an annotation states, or None."""
    text = (metadata.get("annotations") or {}).get(name)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= _LONGEST else None


def sleep_before_stop(spec: Json) -> float:
    """Return the seconds that a pod's preStop hooks sleep before its containers stop."""
    hooks = [
        ((container.get("lifecycle") or {}).get("preStop") or {}).get("sleep") or {}
        for part in ("containers", "initContainers")
        for container in spec.get(part) or ()
        if container.get("lifecycle")
    ]
    return float(max((hook.get("seconds") or 0 for hook in hooks), default=0))


def exit_code_of(metadata: Json) -> int:
    """Return the exit code that the annotation states."""
    return _code(metadata, EXIT_CODE)


def init_exit_code_of(metadata: Json) -> int:
    """Return the exit code of init containers that the annotation states."""
    return _code(metadata, INIT_EXIT_CODE)


def _code(metadata: Json, name: str) -> int:
    text = (metadata.get("annotations") or {}).get(name, "0")
    code = parse_integer(text)
    return code if code is not None and 0 <= code < 256 else 0
