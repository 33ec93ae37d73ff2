"""Signatures: what the plugins read of a pod, shared by identical pods; constraints, shared by many more.

Two pods with the same *signature* are interchangeable for every plugin that signs (scheduling.md 4): what depends on
the signature and the nodes alone is computed once.  Identity, priority and group are not part of it.

Real pods differ, mostly in amounts and images, which plugins read as data. What they are compiled and masked by is the
same for far more pods: selectors, tolerations, affinity, ports, spread constraints. That part is the signature's
*constraints*, shared by all pods that have the same, whatever they ask for; and of these the part that speaks of nodes
alone its *node constraints*, shared by pods that say different things of other pods.

Invariants: both are interned, so equality is identity; an `id` is never given again to another one. What no pod has any
more is forgotten at once.
"""

import hashlib
import itertools
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import numpy as np

from kube_rules import objects
from kube_rules.node_features import needed_features
from kube_rules.requests import host_ports, pod_nonzero_requests, pod_requests
from reprieve.cluster.extended_resources import ContainerAsk, asks_of
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
"""(protocol, host IP, port) as `kube_rules.requests.host_ports` gives them."""


@dataclass(eq=False, slots=True, weakref_slot=True)
class NodeConstraints:
    """What a pod's spec says about nodes themselves: nodeSelector, node affinity, tolerations, features it needs."""

    id: int
    features: tuple[str, ...]
    memo: dict[str, object] = field(default_factory=dict)
    """Where plugins keep what they compiled from it, by plugin name."""


@dataclass(eq=False, slots=True, weakref_slot=True)
class PodConstraints:
    """What a pod's spec says about nodes and other pods, apart from amounts and images."""

    id: int
    nodes: NodeConstraints
    node_selector: dict[str, str]
    affinity: objects.Affinity | None
    tolerations: tuple[objects.Toleration, ...]
    ports: tuple[HostPort, ...]
    spread: tuple[objects.TopologySpreadConstraint, ...]
    selects: bool
    """It has inter-pod affinity or anti-affinity terms: other pods matter to it, and it to others."""
    reaches: bool = False
    """Some of these terms mean pods of other namespaces too, or may."""


@dataclass(eq=False, slots=True, weakref_slot=True)
class PodSpecSignature:
    """The scheduling-relevant part of a pod's spec.

    `delta` is `int64[columns]`: what placing such a pod adds to a node's row, scoring columns and the pod slot
    included.  `requests` are (column, amount) pairs with an amount above zero, in column order: what NodeResourcesFit
    compares.  `best_effort` is True when neither cpu nor memory is asked for.
    """

    id: int
    constraints: PodConstraints
    resources: ResourceTable
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
    extended: tuple[ContainerAsk, ...] = ()
    """What its containers ask for that device classes may serve."""

    @property
    def amounts(self) -> dict[str, int]:
        """Return what is asked for by name, the pod slot apart; nothing that is zero."""
        names = self.resources.names
        return {names[column]: amount for column, amount in self.requests if column != PODS}


_MOST_PAIRS = 16_384
_encode = msgspec.json.Encoder(order="deterministic").encode


def _key(read: object, more: bytes = b"") -> bytes:
    """Equal where the same is read: a digest, as that may be long; of 128 bits, so that none are equal by chance."""
    return hashlib.blake2b(_encode(read) + more, digest_size=16).digest()


class SignatureTable:
    """Interns signatures against one `ResourceTable`."""

    def __init__(self, resources: ResourceTable) -> None:
        self._resources = resources
        self._signatures: weakref.WeakValueDictionary[bytes, PodSpecSignature] = weakref.WeakValueDictionary()
        self._constraints: weakref.WeakValueDictionary[bytes, PodConstraints] = weakref.WeakValueDictionary()
        self._node_constraints: weakref.WeakValueDictionary[bytes, NodeConstraints] = weakref.WeakValueDictionary()
        self._ids = itertools.count()
        self._fitted = resources.capacity
        self._pairs: dict[tuple[int, int], tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._signatures)

    def sizes(self) -> dict[str, int]:
        """Return how much is kept, for the gauges."""
        return {
            "signatures": len(self._signatures),
            "pod_constraints": len(self._constraints),
            "node_constraints": len(self._node_constraints),
        }

    def intern(self, pod: objects.Pod) -> PodSpecSignature:
        """Return the signature of a pod; the same object for every pod that reads the same to the plugins.

        Raises `kube_rules.quantity.QuantityError` where a request does not parse.
        """
        spec = pod.spec
        amounts = pod_requests(pod)
        nonzero = pod_nonzero_requests(pod)
        ports = host_ports(pod)
        spread = spec.topology_spread_constraints
        features = needed_features(spec)
        stated = (spec.node_selector, spec.affinity, spec.tolerations, spread, ports, features)
        constraining = _key(stated) if any(stated) else b""
        images = _images(spec)
        # A bound pod's nodeName is where it runs, not a request; only a pod not yet seen by the scheduler can have one.
        extended = asks_of(spec)
        read = (sorted(amounts.items()), nonzero, images)
        key = _key((*read, extended) if extended else read, constraining)
        result = self._signatures.get(key)
        if result is None:
            constraints = self._constraints.get(constraining)
            if constraints is None:
                constraints = self._constraints[constraining] = self._make_constraints(spec, ports, features)
            result = self._signatures[key] = self._make(constraints, amounts, nonzero, images, extended)
        return result

    def _pair(self, pair: tuple[int, int]) -> tuple[int, int]:
        """Return the equal pair that came first: many pods ask for the same amount of one resource."""
        if len(self._pairs) >= _MOST_PAIRS:
            self._pairs.clear()
        return self._pairs.setdefault(pair, pair)

    def fit(self, capacity: int) -> None:
        """Pad every delta to `int64[capacity]` if the columns have grown."""
        if capacity == self._fitted:
            return
        self._fitted = capacity
        for signature in self._signatures.values():
            if len(signature.delta) < capacity:
                grown = np.zeros(capacity, dtype=np.int64)
                grown[: len(signature.delta)] = signature.delta
                signature.delta = grown

    def _make_constraints(
        self, spec: objects.PodSpec, ports: tuple[HostPort, ...], features: tuple[str, ...]
    ) -> PodConstraints:
        node_affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        key = _key((spec.node_selector, node_affinity, spec.tolerations, features))
        nodes = self._node_constraints.get(key)
        if nodes is None:
            nodes = self._node_constraints[key] = NodeConstraints(next(self._ids), features)
        return PodConstraints(
            id=next(self._ids),
            nodes=nodes,
            node_selector=spec.node_selector or objects.EMPTY_MAP,
            affinity=spec.affinity,
            tolerations=tuple(spec.tolerations or ()),
            ports=ports,
            spread=tuple(spec.topology_spread_constraints or ()),
            selects=any(True for _ in _inter_pod_terms(spec.affinity)),
            reaches=any(
                term.namespaces or term.namespace_selector is not None for term in _inter_pod_terms(spec.affinity)
            ),
        )

    def _make(
        self,
        constraints: PodConstraints,
        amounts: dict[str, int],
        nonzero: tuple[int, int],
        images: tuple[str, ...],
        extended: tuple[ContainerAsk, ...],
    ) -> PodSpecSignature:
        by_column = {self._resources.column(name): min(amount, LIMIT) for name, amount in amounts.items() if amount > 0}
        by_column[PODS] = 1
        delta = np.zeros(self._resources.capacity, dtype=np.int64)
        for column, amount in by_column.items():
            delta[column] = amount
        delta[SCORING_CPU], delta[SCORING_MEMORY] = min(nonzero[0], LIMIT), min(nonzero[1], LIMIT)
        requests = tuple(self._pair(pair) for pair in sorted(by_column.items()) if pair[0] >= FIRST_RESOURCE)
        return PodSpecSignature(
            id=next(self._ids),
            constraints=constraints,
            resources=self._resources,
            delta=delta,
            requests=requests,
            node_selector=constraints.node_selector,
            affinity=constraints.affinity,
            tolerations=constraints.tolerations,
            ports=constraints.ports,
            node_name="",
            spread=constraints.spread,
            images=images,
            selects=constraints.selects,
            extended=extended,
        )


def _inter_pod_terms(affinity: objects.Affinity | None) -> Iterator[objects.PodAffinityTerm]:
    """Yield the terms about other pods."""
    kinds = () if affinity is None else (affinity.pod_affinity, affinity.pod_anti_affinity)
    for kind in kinds:
        if kind is not None:
            yield from kind.required_during_scheduling_ignored_during_execution
            for weighted in kind.preferred_during_scheduling_ignored_during_execution:
                yield weighted.pod_affinity_term


def _images(spec: objects.PodSpec) -> tuple[str, ...]:
    """As container runtimes report images: a name without a tag means `:latest`."""
    names = [container.image for container in (*(spec.init_containers or ()), *(spec.containers or ()))]
    return tuple(name if name.rfind(":") > name.rfind("/") else f"{name}:latest" for name in names)
