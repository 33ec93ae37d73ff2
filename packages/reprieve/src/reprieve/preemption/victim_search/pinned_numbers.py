"""Numbers in which each of the group's pods is pinned to some of the nodes (cost.md 4.12).

They contain only nodes to which any pod is pinned, and units with a share of them, so that the time of a search depends
only on these nodes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from reprieve.cluster.pods import PodRecord
from reprieve.preemption.victim_search.problem import (
    MOST_KINDS,
    Amounts,
    Gangs,
    Kind,
    Numbers,
    hardest_first,
)


@dataclass(frozen=True, slots=True)
class PinnedNumbers:
    """Numbers with pinned pods. `units[turn]`: the number of a unit in the original numbers."""

    numbers: Numbers
    units: Sequence[int]


def pinned(numbers: Numbers, parts: Iterable[tuple[Sequence[PodRecord], frozenset[int]]]) -> PinnedNumbers | None:
    """Return the numbers with the pods of each part only on the nodes of its set.

    None if a pod may use no node of its set, or if the pods differ too much.
    """
    kind_of = {pod.uid: kind for kind in numbers.kinds for pod in kind.pods}
    alike: dict[tuple[Amounts, frozenset[int]], list[PodRecord]] = {}
    usable: dict[tuple[int, frozenset[int]], frozenset[int]] = {}
    for pods, nodes in parts:
        for pod in pods:
            kind = kind_of[pod.uid]
            key = (id(kind), nodes)
            if key not in usable:
                usable[key] = frozenset([node for node in nodes if kind.usable[node]])
            alike.setdefault((kind.wants, usable[key]), []).append(pod)
    if len(alike) > MOST_KINDS or not all(nodes for _, nodes in alike):
        return None
    nodes_used = sorted(frozenset().union(*(nodes for _, nodes in alike)))
    place = dict(zip(nodes_used, range(len(nodes_used)), strict=True))
    kinds = [Kind(wants, [node in nodes for node in nodes_used], tuple(pods)) for (wants, nodes), pods in alike.items()]
    units: Sequence[int] = range(len(numbers.units))
    if numbers.pricing is None:  # a pricing refers to all units
        units = sorted({unit for node in nodes_used for unit in numbers.on[node]})
    turn = dict(zip(units, range(len(units)), strict=True))
    free = tuple([numbers.free[node] for node in nodes_used])
    gangs = numbers.gangs
    result = replace(
        numbers,
        rows=tuple([numbers.rows[node] for node in nodes_used]),
        free=free,
        kinds=hardest_first(kinds, np.array(free, dtype=np.int64).reshape(len(nodes_used), -1).T),
        units=tuple([numbers.units[unit] for unit in units]),
        takes=tuple(
            [tuple([(place[node], share) for node, share in numbers.takes[unit] if node in place]) for unit in units]
        ),
        on=tuple([tuple([turn[unit] for unit in numbers.on[node]]) for node in nodes_used]),
        charged=tuple([numbers.charged[unit] for unit in units]),
        restartless=tuple([numbers.restartless[unit] for unit in units if numbers.restartless]),
        gangs=Gangs(tuple([gangs.lost[unit] for unit in units]), gangs.slack) if gangs is not None else None,
    )
    return PinnedNumbers(result, units)
