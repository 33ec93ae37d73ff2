"""Signatures: what the plugins read of a pod, shared by identical pods.

Two pods with the same signature are interchangeable for every plugin that signs (scheduling.md 4): what depends on
the signature and the nodes alone is computed once.  Identity, priority and group are not part of it.

Invariant: signatures are interned, so equality is identity and `id` is dense from 0.
"""

from dataclasses import dataclass, field

import msgspec
import numpy as np

from reprieve.api import objects
from reprieve.api.requests import host_ports, pod_nonzero_requests, pod_requests
from reprieve.cluster.resources import (
    FIRST_RESOURCE,
    LIMIT,
    PODS,
    SCORING_CPU,
    SCORING_MEMORY,
    ResourceTable,
    Vector,
)

HostPort = tuple[str, str, int]
"""(protocol, host IP, port) as `reprieve.api.requests.host_ports` gives them."""


@dataclass(eq=False, slots=True)
class PodSpecSignature:
    """The scheduling-relevant part of a pod's spec.

    `delta` is `int64[columns]`: what placing such a pod adds to a node's row, scoring columns and the pod slot
    included.  `requests` are (column, amount) pairs with an amount above zero, in column order: what NodeResourcesFit
    compares.  `best_effort` is True when neither cpu nor memory is asked for.
    """

    id: int
    amounts: dict[str, int]
    delta: Vector
    requests: tuple[tuple[int, int], ...]
    node_selector: dict[str, str]
    affinity: objects.Affinity | None
    tolerations: tuple[objects.Toleration, ...]
    ports: tuple[HostPort, ...]
    node_name: str
    spread: tuple[objects.TopologySpreadConstraint, ...] = ()
    images: tuple[str, ...] = ()
    """Image names as node status has them, of init containers and containers, one entry for each container."""
    selects: bool = False
    """It has inter-pod affinity or anti-affinity terms: other pods matter to it, and it to others."""
    memo: dict[str, object] = field(default_factory=dict)
    """Where plugins keep what they compiled from this signature, by plugin name."""


_encode = msgspec.json.Encoder(order="deterministic").encode


class SignatureTable:
    """Interns signatures against one `ResourceTable`."""

    def __init__(self, resources: ResourceTable) -> None:
        self._resources = resources
        self._by_key: dict[object, PodSpecSignature] = {}
        self._all: list[PodSpecSignature] = []

    def __len__(self) -> int:
        return len(self._all)

    def intern(self, pod: objects.Pod) -> PodSpecSignature:
        """The signature of a pod; the same object for every pod that reads the same to the plugins.

        Raises `reprieve.api.quantity.QuantityError` where a request does not parse.
        """
        spec = pod.spec
        amounts = pod_requests(pod)
        nonzero = pod_nonzero_requests(pod)
        ports = host_ports(pod)
        spread = spec.topology_spread_constraints
        details = (
            _encode((spec.node_selector, spec.affinity, spec.tolerations, spread))
            if spec.node_selector or spec.affinity is not None or spec.tolerations or spread
            else b""
        )
        images = _images(spec)
        # A bound pod's nodeName is where it runs, not a wish; only a pod not yet seen by the scheduler can have one.
        key = (tuple(sorted(amounts.items())), nonzero, ports, details, images)
        found = self._by_key.get(key)
        if found is None:
            found = self._make(spec, amounts, nonzero, ports, images)
            self._by_key[key] = found
            self._all.append(found)
        return found

    def fit(self, capacity: int) -> None:
        """Pad every delta to `int64[capacity]` after the columns have grown."""
        for signature in self._all:
            if len(signature.delta) < capacity:
                grown = np.zeros(capacity, dtype=np.int64)
                grown[: len(signature.delta)] = signature.delta
                signature.delta = grown

    def _make(
        self,
        spec: objects.PodSpec,
        amounts: dict[str, int],
        nonzero: tuple[int, int],
        ports: tuple[HostPort, ...],
        images: tuple[str, ...],
    ) -> PodSpecSignature:
        delta = self._resources.vector(amounts)
        delta[SCORING_CPU], delta[SCORING_MEMORY] = (min(amount, LIMIT) for amount in nonzero)
        delta[PODS] = 1
        requests = tuple((int(c), int(delta[c])) for c in np.flatnonzero(delta > 0) if c >= FIRST_RESOURCE)
        return PodSpecSignature(
            id=len(self._all),
            amounts=amounts,
            delta=delta,
            requests=requests,
            node_selector=dict(spec.node_selector or {}),
            affinity=spec.affinity,
            tolerations=tuple(spec.tolerations or ()),
            ports=ports,
            node_name="",
            spread=tuple(spec.topology_spread_constraints or ()),
            images=images,
            selects=_selects(spec.affinity),
        )


def _selects(affinity: objects.Affinity | None) -> bool:
    return affinity is not None and any(
        kind is not None
        and (
            kind.required_during_scheduling_ignored_during_execution
            or kind.preferred_during_scheduling_ignored_during_execution
        )
        for kind in (affinity.pod_affinity, affinity.pod_anti_affinity)
    )


def _images(spec: objects.PodSpec) -> tuple[str, ...]:
    """As container runtimes report images: a name without a tag means `:latest`."""
    names = [container.image for container in (*(spec.init_containers or ()), *(spec.containers or ()))]
    return tuple(name if name.rfind(":") > name.rfind("/") else f"{name}:latest" for name in names)
