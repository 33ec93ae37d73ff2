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
    """`units[turn]`: which unit of all numbers a unit of these is."""

    numbers: Numbers
    units: Sequence[int]


def pinned(numbers: Numbers, parts: Iterable[tuple[Sequence[PodRecord], frozenset[int]]]) -> PinnedNumbers | None:
    """Return the numbers with the pods of each part on the nodes of its set alone.

    None: a pod may use no node of its set, or the pods differ too much.
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
    kept = sorted(frozenset().union(*(nodes for _, nodes in alike)))
    place = dict(zip(kept, range(len(kept)), strict=True))
    kinds = [Kind(wants, [node in nodes for node in kept], tuple(pods)) for (wants, nodes), pods in alike.items()]
    units: Sequence[int] = range(len(numbers.units))
    if numbers.pricing is None:  # which has something to say of all units
        units = sorted({unit for node in kept for unit in numbers.on[node]})
    turn = dict(zip(units, range(len(units)), strict=True))
    free = tuple([numbers.free[node] for node in kept])
    gangs = numbers.gangs
    made = replace(
        numbers,
        rows=tuple([numbers.rows[node] for node in kept]),
        free=free,
        kinds=hardest_first(kinds, np.array(free, dtype=np.int64).reshape(len(kept), -1).T),
        units=tuple([numbers.units[unit] for unit in units]),
        takes=tuple(
            [tuple([(place[node], share) for node, share in numbers.takes[unit] if node in place]) for unit in units]
        ),
        on=tuple([tuple([turn[unit] for unit in numbers.on[node]]) for node in kept]),
        charged=tuple([numbers.charged[unit] for unit in units]),
        restartless=tuple([numbers.restartless[unit] for unit in units if numbers.restartless]),
        gangs=Gangs(tuple([gangs.lost[unit] for unit in units]), gangs.slack) if gangs is not None else None,
    )
    return PinnedNumbers(made, units)
