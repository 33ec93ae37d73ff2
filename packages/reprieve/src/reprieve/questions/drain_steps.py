"""The nodes of a drain plan that are drained together, because single drains would break the same gang repeatedly.

A gang with pods on several of the nodes loses them at once instead of node by node: it is evicted once and placed once
(whatif.md 7.4). The total number of broken gangs decides, with the cluster as it is before the first drain.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from kube_rules.group_sources import pod_group_name
from kube_rules.manifests import Manifests
from reprieve.questions.changed_objects import gang_sizes

MOST_GANGS: Final = 512
"""The maximum number of gangs that can join nodes, the most frequently broken first."""

Group = tuple[str, str]
"""(namespace, name)."""


def steps_of(manifests: Manifests, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the steps, each with the nodes to drain together; both sorted by name."""
    step_of: dict[str, tuple[str, ...]] = {name: (name,) for name in names}
    gangs = _Gangs(manifests, step_of)
    for gang in gangs.broken_often():
        joined = {step_of[name] for name in gangs.breaking(gang)}
        together = tuple(sorted(name for step in joined for name in step))
        if len(joined) > 1 and gangs.breaks([together]) < gangs.breaks(joined):
            step_of.update(dict.fromkeys(together, together))
    return sorted(set(step_of.values()))


class _Gangs:
    """The running gangs, and the numbers of their pods on the nodes."""

    def __init__(self, manifests: Manifests, names: Iterable[str]) -> None:
        wanted = set(names)
        sizes = gang_sizes(manifests)
        self._spare = {gang: bound - minimum for gang, (minimum, bound) in sizes.items() if bound >= minimum}
        """The number of pods that a gang can lose without falling below its minimum."""
        self._on: dict[str, Counter[Group]] = {name: Counter() for name in wanted}
        self._nodes: dict[Group, set[str]] = defaultdict(set)
        for pod in (loaded.object for loaded in manifests.pods):
            name = pod_group_name(pod)
            if name is None or pod.finished:
                continue
            gang = (pod.namespace, name)
            if pod.spec.node_name in wanted and gang in self._spare:
                self._on[pod.spec.node_name][gang] += 1
                self._nodes[gang].add(pod.spec.node_name)

    def breaking(self, gang: Group) -> list[str]:
        """Return the nodes that break the gang when drained alone."""
        return [name for name in self._nodes[gang] if self._on[name][gang] > self._spare[gang]]

    def broken_often(self) -> list[Group]:
        """Return the gangs that more than one node breaks, most often first, then by name; at most MOST_GANGS."""
        times = {gang: len(self.breaking(gang)) for gang in self._spare if len(self._nodes[gang]) > 1}
        often = sorted((gang for gang, count in times.items() if count > 1), key=lambda gang: (-times[gang], gang))
        return often[:MOST_GANGS]

    def breaks(self, steps: Iterable[Sequence[str]]) -> int:
        """Return how often these steps break gangs in total, if all evicted pods are placed again."""
        total = 0
        for step in steps:
            lost: Counter[Group] = Counter()
            for name in step:
                lost.update(self._on[name])
            total += sum(count > self._spare[gang] for gang, count in lost.items())
        return total
