"""Which nodes of a drain plan are drained together: those that would break the same gang one after the other.

A gang with pods on several of the nodes loses them at once instead of node by node: it is evicted once, and placed
once (whatif.md 7.4).  What counts is how often gangs break in all, as the cluster is before the first drain.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from kube_rules.group_sources import pod_group_name
from kube_rules.manifests import Manifests
from reprieve.questions.changed_objects import gang_sizes

MOST_GANGS: Final = 512
"""Gangs for which nodes may be drained together, those that break most often first."""

Group = tuple[str, str]
"""(namespace, name)."""


def steps_of(manifests: Manifests, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the steps, each with the nodes that are drained together; both sorted by name."""
    step_of: dict[str, tuple[str, ...]] = {name: (name,) for name in names}
    gangs = _Gangs(manifests, step_of)
    for gang in gangs.broken_often():
        joined = {step_of[name] for name in gangs.breaking(gang)}
        together = tuple(sorted(name for step in joined for name in step))
        if len(joined) > 1 and gangs.breaks([together]) < gangs.breaks(joined):
            step_of.update(dict.fromkeys(together, together))
    return sorted(set(step_of.values()))


class _Gangs:
    """The gangs that run, and how many of their pods are on which of the nodes."""

    def __init__(self, manifests: Manifests, names: Iterable[str]) -> None:
        wanted = set(names)
        sizes = gang_sizes(manifests)
        self._spare = {gang: bound - minimum for gang, (minimum, bound) in sizes.items() if bound >= minimum}
        """How many pods a gang can lose without falling below its minimum."""
        self._on: dict[str, Counter[Group]] = {name: Counter() for name in wanted}
        self._nodes: dict[Group, set[str]] = defaultdict(set)
        for pod in (loaded.object for loaded in manifests.pods):
            name = pod_group_name(pod)
            if name is None or pod.status.phase in ("Succeeded", "Failed"):
                continue
            gang = (pod.namespace, name)
            if pod.spec.node_name in wanted and gang in self._spare:
                self._on[pod.spec.node_name][gang] += 1
                self._nodes[gang].add(pod.spec.node_name)

    def breaking(self, gang: Group) -> list[str]:
        """Return the nodes of which a drain alone breaks the gang."""
        return [name for name in self._nodes[gang] if self._on[name][gang] > self._spare[gang]]

    def broken_often(self) -> list[Group]:
        """Gangs that more than one node breaks, most often first, then by name; no more than MOST_GANGS."""
        times = {gang: len(self.breaking(gang)) for gang in self._spare if len(self._nodes[gang]) > 1}
        often = sorted((gang for gang, count in times.items() if count > 1), key=lambda gang: (-times[gang], gang))
        return often[:MOST_GANGS]

    def breaks(self, steps: Iterable[Sequence[str]]) -> int:
        """Return how often these steps break gangs in all, if what they evict finds another place each time."""
        total = 0
        for step in steps:
            lost: Counter[Group] = Counter()
            for name in step:
                lost.update(self._on[name])
            total += sum(count > self._spare[gang] for gang, count in lost.items())
        return total
