"""Signatures: what the plugins read of a pod, shared by identical pods; constraints, shared by many more.

Two pods with the same *signature* are interchangeable for every plugin that signs (scheduling.md 4): what depends on
the signature and the nodes alone is computed once.  Identity, priority and group are not part of it.

Real pods differ, mostly in amounts and images, which plugins read as data. What they are compiled and masked by is the
same for far more pods: selectors, tolerations, affinity, ports, spread constraints. That part is the signature's
*constraints*, shared by all pods that have the same, whatever they ask for; and of these the part that speaks of nodes
alone its *node constraints*, shared by pods that say different things of other pods.

Invariants: both are interned, so equality is identity; an `id` is a digest of what is read, so none stands for two.
What no pod has is forgotten before the tables have grown by a quarter, or to twice their size after a search that found
nothing of the kind.
"""

import hashlib
from collections.abc import Iterator
from sys import getrefcount
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import force_setattr

from kube_rules import objects
from kube_rules.node_features import needed_features
from kube_rules.requests import amounts_of, host_ports
from reprieve.cluster.extended_resources import ContainerAsk, asks_of
from reprieve.cluster.resources import (
    LIMIT,
    PODS,
    SCORING_CPU,
    SCORING_MEMORY,
    ResourceTable,
    Vector,
)

HostPort = tuple[str, str, int]
"""(protocol, host IP, port) as `kube_rules.requests.host_ports` gives them."""


class NodeConstraints(msgspec.Struct, frozen=True, eq=False):
    """What a pod's spec says about nodes themselves: nodeSelector, node affinity, tolerations, features it needs."""

    id: int
    features: tuple[str, ...]
    memo: dict[str, object] = msgspec.field(default_factory=dict)
    """Where plugins keep what they compiled from it, by plugin name."""


class PodConstraints(msgspec.Struct, frozen=True, eq=False, gc=False):
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


class PodSpecSignature(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The scheduling-relevant part of a pod's spec.

    `requests` are (column, amount) pairs with an amount above zero, in column order: what NodeResourcesFit compares.
    The scoring columns have amounts of their own.
    """

    id: int
    constraints: PodConstraints
    resources: ResourceTable
    requests: tuple[tuple[int, int], ...]
    scoring_cpu: int
    scoring_memory: int
    image: str | tuple[str, ...] = ()
    """See `images`; without a tuple for one, as most pods have."""
    extended: tuple[ContainerAsk, ...] = ()
    """What its containers ask for that device classes may serve."""
    node_name: str = ""
    """A bound pod's nodeName is where it runs; only a pod not yet seen by the scheduler can have one as a request."""
    vector: Vector | None = None
    """`delta` since it was first read: most running pods are only ever added to their node."""

    @property
    def delta(self) -> Vector:
        """`int64[columns]`: what placing such a pod adds to a node's row, scoring columns and the pod slot included."""
        if self.vector is None:
            vector = np.zeros(self.resources.capacity, dtype=np.int64)
            vector[SCORING_CPU], vector[SCORING_MEMORY] = self.scoring_cpu, self.scoring_memory
            for column, amount in self.requests:
                vector[column] = amount
            force_setattr(self, "vector", vector)
            return vector
        return self.vector

    def add_to(self, used: npt.NDArray[np.int64], row: int, by: int) -> None:
        """Add what `by` such pods take to a row of `int64[columns, rows]`."""
        if self.vector is not None:
            used[:, row] += self.vector if by == 1 else by * self.vector
            return
        used[SCORING_CPU, row] += by * self.scoring_cpu
        used[SCORING_MEMORY, row] += by * self.scoring_memory
        for column, amount in self.requests:
            used[column, row] += by * amount

    @property
    def images(self) -> tuple[str, ...]:
        """Image names as node status has them, of init containers and containers, one entry for each container."""
        return self.image if isinstance(self.image, tuple) else (self.image,)

    @property
    def affinity(self) -> objects.Affinity | None:
        """See `PodConstraints`."""
        return self.constraints.affinity

    @property
    def node_selector(self) -> dict[str, str]:
        """See `PodConstraints`."""
        return self.constraints.node_selector

    @property
    def tolerations(self) -> tuple[objects.Toleration, ...]:
        """See `PodConstraints`."""
        return self.constraints.tolerations

    @property
    def ports(self) -> tuple[HostPort, ...]:
        """See `PodConstraints`."""
        return self.constraints.ports

    @property
    def spread(self) -> tuple[objects.TopologySpreadConstraint, ...]:
        """See `PodConstraints`."""
        return self.constraints.spread

    @property
    def amounts(self) -> dict[str, int]:
        """Return what is asked for by name, the pod slot apart; nothing that is zero."""
        names = self.resources.names
        return {names[column]: amount for column, amount in self.requests if column != PODS}


_MOST_PAIRS = 16_384
_FEWEST = 1_024
"""Up to this number of signatures, unused ones are not searched for."""
_UNUSED = 2
"""References to what a table alone has: its own, and that of the call that counts them."""
_encode = msgspec.json.Encoder(order="deterministic").encode


def _key(read: object, more: int = 0) -> int:
    """Equal where the same is read: a digest, as that may be long; of 120 bits, so that none are equal by chance."""
    return int.from_bytes(hashlib.blake2b(b"%x" % more + _encode(read), digest_size=15).digest())


class SignatureTable:
    """Interns signatures against one `ResourceTable`."""

    def __init__(self, resources: ResourceTable) -> None:
        self._resources = resources
        self._signatures: dict[int, PodSpecSignature] = {}
        self._constraints: dict[int, PodConstraints] = {}
        self._node_constraints: dict[int, NodeConstraints] = {}
        self._most = _FEWEST
        self._fitted = resources.capacity
        self._pairs: dict[tuple[int, int], tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._signatures)

    def sizes(self) -> dict[str, int]:
        """Return how much pods have, for the gauges."""
        self._forget()
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
        amounts, nonzero = amounts_of(pod)
        ports = host_ports(pod)
        spread = spec.topology_spread_constraints
        features = needed_features(spec)
        stated = (spec.node_selector, spec.affinity, spec.tolerations, spread, ports, features)
        constraining = _key(stated) if any(stated) else 0
        images = _images(spec)
        extended = asks_of(spec)
        read = (sorted(amounts.items()), nonzero, images)
        key = _key((*read, extended) if extended else read, constraining)
        result = self._signatures.get(key)
        if result is None:
            if len(self._signatures) >= self._most:
                self._forget()
            constraints = self._constraints.get(constraining)
            if constraints is None:
                constraints = self._make_constraints(constraining, spec, ports, features)
                self._constraints[constraining] = constraints
            result = self._signatures[key] = self._make(key, constraints, amounts, nonzero, images, extended)
        return result

    def _forget(self) -> None:
        """Forget what no pod has; weak references would need as much memory as what they refer to."""
        before = len(self._signatures)
        tables: tuple[dict[int, Any], ...] = (self._signatures, self._constraints, self._node_constraints)
        for table in tables:  # the former hold the latter
            counts = map(getrefcount, table.values())
            for key in [key for key, count in zip(table, counts, strict=True) if count == _UNUSED]:
                del table[key]
        now = len(self._signatures)
        self._most = max(_FEWEST, now * 5 // 4 if now < before else now * 2)

    def _shared(self, pairs: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        """Return the equal pairs that came first: many pods ask for the same amount of one resource."""
        known = self._pairs
        if len(known) >= _MOST_PAIRS:
            known.clear()
        return tuple([known.setdefault(pair, pair) for pair in pairs])

    def fit(self, capacity: int) -> None:
        """Pad every delta to `int64[capacity]` if the columns have grown."""
        if capacity == self._fitted:
            return
        self._fitted = capacity
        for signature in self._signatures.values():
            if signature.vector is not None and len(signature.vector) < capacity:
                vector = np.pad(signature.vector, (0, capacity - len(signature.vector)))
                force_setattr(signature, "vector", vector)

    def _make_constraints(
        self, identity: int, spec: objects.PodSpec, ports: tuple[HostPort, ...], features: tuple[str, ...]
    ) -> PodConstraints:
        node_affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        stated = (spec.node_selector, node_affinity, spec.tolerations, features)
        key = _key(stated) if any(stated) else 1  # 0 is of constraints
        nodes = self._node_constraints.get(key)
        if nodes is None:
            nodes = self._node_constraints[key] = NodeConstraints(key, features)
        terms = list(_inter_pod_terms(spec.affinity))
        return PodConstraints(
            id=identity,
            nodes=nodes,
            node_selector=spec.node_selector or objects.EMPTY_MAP,
            affinity=spec.affinity,
            tolerations=tuple(spec.tolerations or ()),
            ports=ports,
            spread=tuple(spec.topology_spread_constraints or ()),
            selects=bool(terms),
            reaches=any(term.namespaces or term.namespace_selector is not None for term in terms),
        )

    def _make(
        self,
        identity: int,
        constraints: PodConstraints,
        amounts: dict[str, int],
        nonzero: tuple[int, int],
        images: tuple[str, ...],
        extended: tuple[ContainerAsk, ...],
    ) -> PodSpecSignature:
        column = self._resources.asked_column
        by_column = {column(name): min(amount, LIMIT) for name, amount in amounts.items() if amount > 0}
        by_column[PODS] = 1
        return PodSpecSignature(
            id=identity,
            constraints=constraints,
            resources=self._resources,
            requests=self._shared(sorted(by_column.items())),
            scoring_cpu=min(nonzero[0], LIMIT),
            scoring_memory=min(nonzero[1], LIMIT),
            image=images[0] if len(images) == 1 else images,
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
    names = [container.image for container in (*spec.init_containers, *spec.containers)]
    return tuple([name if name.rfind(":") > name.rfind("/") else f"{name}:latest" for name in names])
