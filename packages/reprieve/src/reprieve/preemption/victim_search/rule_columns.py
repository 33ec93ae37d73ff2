"""Rules about other pods, ports and devices as amounts, for the search for victims (cost.md 4.5).

A rule that separates pods is a resource with a limited amount on each node: a host port exists once; if no two members
may share a node, each member uses all of it; a pod that members exclude uses all of it in its whole domain; a node has
a number of devices. Proposals of the search mostly meet these rules; the filters decide.

Called in a view where all units are displaced and none of the preemptor's pods is placed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
import numpy.typing as npt

from kube_rules.topology_terms import HOSTNAME
from reprieve.cluster.affinity_terms import TermKind, TermSpec
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.preemption.units import PreemptionUnit

_MOST_COLUMNS = 16
"""Maximum number of rules; a preemptor with more is searched without them."""
_MOST_TOGETHER = 64
"""Maximum number of nodes of a domain; rules about larger domains are ignored: each pod would count on all nodes."""
_MOST_TERMS = 64
"""Maximum number of the preemptor's anti-affinity terms that are used."""


@dataclass(frozen=True, slots=True)
class RuleColumn:
    """One rule. `free`: int64[rows], by row; `wants` of a pod; `takes` of a unit's pod on its row: row -> amount."""

    free: npt.NDArray[np.int64]
    wants: Callable[[PodRecord], int]
    takes: Callable[[PodRecord, int], Mapping[int, int]]


def rule_columns(cluster: ClusterState, pods: Sequence[PodRecord]) -> list[RuleColumn]:
    """Find the rules of these pods that amounts can express; none if there are too many."""
    every = chain(_ports(cluster, pods), _anti_affinity(cluster, pods), _devices(cluster, pods))
    columns = list(islice(every, _MOST_COLUMNS + 1))
    return columns if len(columns) <= _MOST_COLUMNS else []


def shares_with_rules(
    columns: Sequence[RuleColumn],
    units: Iterable[PreemptionUnit],
    place: Mapping[int, int],
    takes: Sequence[tuple[tuple[int, tuple[int, ...]], ...]],
    width: int,
) -> tuple[tuple[tuple[tuple[int, tuple[int, ...]], ...], ...], tuple[tuple[int, ...], ...]]:
    """Return the shares of units (`takes`) with the amounts of the rules added, and the units of each node.

    `width`: the number of amounts without rules.
    """
    nothing = (0,) * (width + len(columns))
    on: list[list[int]] = [[] for _ in range(len(place))]
    result = []
    for turn, (unit, own) in enumerate(zip(units, takes, strict=True)):
        sums = {node: [*amounts, *([0] * len(columns))] for node, amounts in own}
        for number, column in enumerate(columns, width):
            for pod, row in zip(unit.pods, unit.rows, strict=True):
                for other_row, amount in column.takes(pod, row).items():
                    node = place.get(other_row)
                    if node is not None and amount:
                        sums.setdefault(node, list(nothing))[number] += amount
        result.append(tuple((node, tuple(amounts)) for node, amounts in sorted(sums.items())))
        for node in sums:
            on[node].append(turn)
    return tuple(result), tuple(map(tuple, on))


def _ports(cluster: ClusterState, pods: Sequence[PodRecord]) -> Iterable[RuleColumn]:
    """Yield host ports: each exists once per node."""
    nodes = cluster.nodes
    for protocol, port in sorted({(protocol, port) for pod in pods for protocol, _, port in pod.signature.ports}):

        def uses(pod: PodRecord, protocol: str = protocol, port: int = port) -> int:
            return int(any(used[0] == protocol and used[2] == port for used in pod.signature.ports))

        free = np.ones(len(nodes), dtype=np.int64)
        host_port = next(host for pod in pods for host in pod.signature.ports if (host[0], host[2]) == (protocol, port))
        for row in range(len(nodes)):
            if nodes.ports[row] and nodes.conflicting_port(row, (host_port,)) is not None:
                free[row] = 0

        def takes(pod: PodRecord, row: int, uses: Callable[[PodRecord], int] = uses) -> Mapping[int, int]:
            return {row: 1} if uses(pod) else {}

        yield RuleColumn(free, uses, takes)


def _anti_affinity(cluster: ClusterState, pods: Sequence[PodRecord]) -> Iterable[RuleColumn]:
    """Yield anti-affinity terms: an excluded pod uses its whole domain, a member its node if its peers are excluded.

    Members that keep apart in larger domains are not covered.
    """
    index = cluster.pod_affinity
    if not index.active:
        return
    first: dict[tuple[TermSpec, bool], None] = {}
    for pod in {pod.signature.id: pod for pod in pods}.values():
        first |= dict.fromkeys(
            (spec, index.accepted((spec.matcher,), pod))
            for spec in index.terms(pod).of(TermKind.REQUIRED_ANTI_AFFINITY)
        )
    domains: dict[str, _LabelDomains] = {}
    for spec, of_itself in islice(first, _MOST_TERMS):
        alone = of_itself and spec.topology_key == HOSTNAME
        most = 1 if alone else len(pods)
        rows_of = domains.get(spec.topology_key)
        if rows_of is None:
            rows_of = domains[spec.topology_key] = _LabelDomains(cluster, spec.topology_key)
        if rows_of.largest > _MOST_TOGETHER:
            continue
        counts = index.by_domain(spec.topology_key, index.counts((spec.matcher,)))
        free = np.where(counts[rows_of.domains] > 0, 0, most).astype(np.int64)

        def wants(pod: PodRecord, spec: TermSpec = spec) -> int:
            return int(spec in index.terms(pod).of(TermKind.REQUIRED_ANTI_AFFINITY))

        def takes(
            pod: PodRecord, row: int, spec: TermSpec = spec, rows_of: _LabelDomains = rows_of, most: int = most
        ) -> Mapping[int, int]:
            return dict.fromkeys(rows_of.of(row), most) if index.accepted((spec.matcher,), pod) else {}

        yield RuleColumn(free, wants, takes)


class _LabelDomains:
    """The rows of each domain of a topology label. `domains`: int64[rows], 0 for rows without the label."""

    def __init__(self, cluster: ClusterState, key: str) -> None:
        self.domains = cluster.pod_affinity.domains(key)[0][: len(cluster.nodes)]
        self._rows: dict[int, list[int]] = {}
        for row, domain in enumerate(self.domains.tolist()):
            if domain:
                self._rows.setdefault(domain, []).append(row)

    @property
    def largest(self) -> int:
        """Return the number of nodes in the largest domain."""
        return max(map(len, self._rows.values()), default=0)

    def of(self, row: int) -> Sequence[int]:
        """Return the rows of the same domain."""
        return self._rows.get(int(self.domains[row]), ())


def _devices(cluster: ClusterState, pods: Sequence[PodRecord]) -> Iterable[RuleColumn]:
    """Yield devices: each node has a number of them, whatever their class."""
    book = cluster.devices
    if not any(pod.claim_keys for pod in pods) or not book.index.local:
        return
    nodes = cluster.nodes
    free = np.zeros(len(nodes), dtype=np.int64)
    for row in range(len(nodes)):
        free[row] = sum(
            not book.in_use.any(device.id)
            for pool in book.pools(row)
            for piece in pool.slices
            for device in piece.devices
        )

    def wants(pod: PodRecord) -> int:
        shapes = [claim.shape for claim in book.of(pod) if claim.allocation is None]
        requests = [request for shape in shapes if shape is not None for request in shape.requests]
        return sum(min((option.count for option in request.options), default=0) for request in requests)

    def takes(pod: PodRecord, row: int) -> Mapping[int, int]:
        stated = [claim.stated or claim.assumptions.parked for claim in book.of(pod)]
        return {row: sum(len(allocation.grants) for allocation in stated if allocation is not None)}

    yield RuleColumn(free, wants, takes)
