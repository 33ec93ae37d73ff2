"""The number of pods that fit on nodes by amounts, to rule out trials in advance (whatif.md 5.3)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kube_rules import objects
from kube_rules.requests import pod_requests, resource_list

Amounts = dict[str, "Counter[str]"]
"""By node: amounts by resource, cpu in milli-units, others in base units."""


def requested(pods: Iterable[objects.Pod], counts: Callable[[objects.Pod], bool] = lambda _: True) -> Amounts:
    """Return the requests of the pods on each node, of those that count and have not ended."""
    result: Amounts = defaultdict(Counter)
    for pod in pods:
        if pod.spec.node_name and not pod.finished and counts(pod):
            result[pod.spec.node_name].update(pod_requests(pod))
    return result


@dataclass(frozen=True, slots=True)
class NodeSpace:
    """Nodes, their amounts in use, and the request of one pod."""

    nodes: Sequence[objects.Node]
    in_use: Amounts
    request: Mapping[str, int]

    def places(self) -> int:
        """Return the number of pods that fit on all nodes."""
        return sum(self._room(node, {}) for node in self.nodes)

    def more_places(self, freed: Amounts) -> int:
        """Return the number of additional pods that fit when these amounts are freed."""
        nodes = [node for node in self.nodes if node.name in freed]
        return sum(self._room(node, freed) - self._room(node, {}) for node in nodes)

    def _room(self, node: objects.Node, freed: Amounts) -> int:
        allocatable = resource_list(node.status.allocatable)
        released, has = freed.get(node.name, Counter()), self.in_use.get(node.name, Counter())
        rooms = (
            max(0, allocatable.get(name, 0) - has[name] + released[name]) // amount
            for name, amount in self.request.items()
            if amount
        )
        return min(rooms, default=1)
