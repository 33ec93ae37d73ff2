"""Signatures, the scheduling-relevant parts of pods, shared by identical pods; and constraints, shared by many more.

Two pods with the same *signature* are interchangeable for every plugin that signs (scheduling.md 4): results that
depend only on the signature and the nodes are computed once. Identity, priority and group are not part of it.

Real pods differ mostly in amounts and images, which plugins read as data. Far more pods share their selectors,
tolerations, affinity, ports and spread constraints, which plugins compile. These are the signature's *constraints*. The
part about nodes is its *node constraints*, shared by pods with different terms about other pods.

Invariants: both are interned, so equality is identity; an `id` is a digest of the data, so it is unique. Unused entries
are dropped before a table has grown by a quarter, or to twice its size after a search without unused entries.
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
"""(protocol, host IP, port), as `kube_rules.requests.host_ports` returns them."""


class NodeConstraints(msgspec.Struct, frozen=True, eq=False):
    """A pod's constraints on nodes: nodeSelector, node affinity, tolerations, required features."""

    id: int
    features: tuple[str, ...]
    memo: dict[str, object] = msgspec.field(default_factory=dict)
    """Data that plugins compiled from the constraints, by plugin name."""


class PodConstraints(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A pod's constraints on nodes and other pods, without amounts and images."""

    id: int
    nodes: NodeConstraints
    node_selector: dict[str, str]
    affinity: objects.Affinity | None
    tolerations: tuple[objects.Toleration, ...]
    ports: tuple[HostPort, ...]
    spread: tuple[objects.TopologySpreadConstraint, ...]
    selects: bool
    """Whether it has inter-pod affinity or anti-affinity terms."""
    reaches: bool = False
    """Whether some of these terms can match pods of other namespaces."""


class PodSpecSignature(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The scheduling-relevant part of a pod's spec.

    `requests` are (column, amount) pairs with positive amounts in column order, for NodeResourcesFit. The scoring
    columns have separate amounts.
    """

    id: int
    constraints: PodConstraints
    resources: ResourceTable
    requests: tuple[tuple[int, int], ...]
    scoring_cpu: int
    scoring_memory: int
    image: str | tuple[str, ...] = ()
    """See `images`; a plain string for one image, as for most pods."""
    extended: tuple[ContainerAsk, ...] = ()
    """Container requests that device classes may serve."""
    node_name: str = ""
    """The nodeName of a pod that the scheduler has not seen yet; for a bound pod it is the pod's node instead."""
    vector: Vector | None = None
    """The cached `delta`; most running pods never need one."""

    @property
    def delta(self) -> Vector:
        """Return `int64[columns]`: the amounts that such a pod adds to its node, with scoring columns and pod slot."""
        if self.vector is None:
            vector = np.zeros(self.resources.capacity, dtype=np.int64)
            vector[SCORING_CPU], vector[SCORING_MEMORY] = self.scoring_cpu, self.scoring_memory
            for column, amount in self.requests:
                vector[column] = amount
            force_setattr(self, "vector", vector)
            return vector
        return self.vector

    def add_to(self, used: npt.NDArray[np.int64], row: int, by: int) -> None:
        """Add the amounts of `by` such pods to a row of `int64[columns, rows]`."""
        if self.vector is not None:
            used[:, row] += self.vector if by == 1 else by * self.vector
            return
        used[SCORING_CPU, row] += by * self.scoring_cpu
        used[SCORING_MEMORY, row] += by * self.scoring_memory
        for column, amount in self.requests:
            used[column, row] += by * amount

    @property
    def images(self) -> tuple[str, ...]:
        """Return image names as in node status, of init containers and containers, one entry per container."""
        return self.image if isinstance(self.image, tuple) else (self.image,)

    @property
    def affinity(self) -> objects.Affinity | None:
        """Return the field of `PodConstraints`."""
        return self.constraints.affinity

    @property
    def node_selector(self) -> dict[str, str]:
        """Return the field of `PodConstraints`."""
        return self.constraints.node_selector

    @property
    def tolerations(self) -> tuple[objects.Toleration, ...]:
        """Return the field of `PodConstraints`."""
        return self.constraints.tolerations

    @property
    def ports(self) -> tuple[HostPort, ...]:
        """Return the field of `PodConstraints`."""
        return self.constraints.ports

    @property
    def spread(self) -> tuple[objects.TopologySpreadConstraint, ...]:
        """Return the field of `PodConstraints`."""
        return self.constraints.spread

    @property
    def amounts(self) -> dict[str, int]:
        """Return the positive requests by name, without the pod slot."""
        names = self.resources.names
        return {names[column]: amount for column, amount in self.requests if column != PODS}


_MOST_PAIRS = 16_384
_FEWEST = 1_024
"""The number of signatures up to which unused ones are not searched for."""
_UNUSED = 2
"""The reference count of an entry that only the table has: its own, and that of the counting call."""
_encode = msgspec.json.Encoder(order="deterministic").encode


def _key(read: object, more: int = 0) -> int:
    """Return a digest of the data with 120 bits, enough to exclude collisions."""
    return int.from_bytes(hashlib.blake2b(b"%x" % more + _encode(read), digest_size=15).digest())


class SignatureTable:
    """Interns signatures for one `ResourceTable`."""

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
        """Return the numbers of used entries, for the gauges."""
        self._forget()
        return {
            "signatures": len(self._signatures),
            "pod_constraints": len(self._constraints),
            "node_constraints": len(self._node_constraints),
        }

    def intern(self, pod: objects.Pod) -> PodSpecSignature:
        """Return the signature of a pod, the same object for pods with equal scheduling-relevant data.

        Raises `kube_rules.quantity.QuantityError` for an invalid request.
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
        """Drop entries that no pod has; weak references would need as much memory as the entries."""
        before = len(self._signatures)
        tables: tuple[dict[int, Any], ...] = (self._signatures, self._constraints, self._node_constraints)
        for table in tables:  # the first tables refer to the later ones
            counts = map(getrefcount, table.values())
            for key in [key for key, count in zip(table, counts, strict=True) if count == _UNUSED]:
                del table[key]
        now = len(self._signatures)
        self._most = max(_FEWEST, now * 5 // 4 if now < before else now * 2)

    def _shared(self, pairs: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        """Return interned pairs: many pods request the same amount of one resource."""
        interned = self._pairs
        if len(interned) >= _MOST_PAIRS:
            interned.clear()
        return tuple([interned.setdefault(pair, pair) for pair in pairs])

    def fit(self, capacity: int) -> None:
        """Pad every delta to `int64[capacity]` after new columns."""
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
        key = _key(stated) if any(stated) else 1  # 0 identifies constraints
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
    """Yield the inter-pod terms."""
    kinds = () if affinity is None else (affinity.pod_affinity, affinity.pod_anti_affinity)
    for kind in kinds:
        if kind is not None:
            yield from kind.required_during_scheduling_ignored_during_execution
            for weighted in kind.preferred_during_scheduling_ignored_during_execution:
                yield weighted.pod_affinity_term


def _images(spec: objects.PodSpec) -> tuple[str, ...]:
    """Return image names as container runtimes report them: without a tag `:latest` applies."""
    names = [container.image for container in (*spec.init_containers, *spec.containers)]
    return tuple([name if name.rfind(":") > name.rfind("/") else f"{name}:latest" for name in names])
