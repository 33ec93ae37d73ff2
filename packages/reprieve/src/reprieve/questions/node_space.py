"""How many pods alike nodes have room for by amounts: what rules out trials before they are made (whatif.md 5.3)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kube_rules import objects
from kube_rules.requests import pod_requests, resource_list

Amounts = dict[str, "Counter[str]"]
"""By node: amounts by resource, cpu in milli-units, others in base units."""


def requested(pods: Iterable[objects.Pod], counts: Callable[[objects.Pod], bool] = lambda _: True) -> Amounts:
    """Return what the pods on each node ask for, of those that count and have not ended."""
    result: Amounts = defaultdict(Counter)
    for pod in pods:
        if pod.spec.node_name and pod.status.phase not in ("Succeeded", "Failed") and counts(pod):
            result[pod.spec.node_name].update(pod_requests(pod))
    return result


@dataclass(frozen=True, slots=True)
class NodeSpace:
    """Nodes, what is taken of each, and what one pod asks for."""

    nodes: Sequence[objects.Node]
    taken: Amounts
    asked: Mapping[str, int]

    def places(self) -> int:
        """Return how many of the pods there is room for on all nodes."""
        return sum(self._room(node, {}) for node in self.nodes)

    def more_places(self, freed: Amounts) -> int:
        """Return how many more there are when these amounts are freed."""
        nodes = [node for node in self.nodes if node.name in freed]
        return sum(self._room(node, freed) - self._room(node, {}) for node in nodes)

    def _room(self, node: objects.Node, freed: Amounts) -> int:
        there = resource_list(node.status.allocatable)
        gone, has = freed.get(node.name, Counter()), self.taken.get(node.name, Counter())
        rooms = (
            max(0, there.get(name, 0) - has[name] + gone[name]) // amount
            for name, amount in self.asked.items()
            if amount
        )
        return min(rooms, default=1)
