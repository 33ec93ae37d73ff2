"""Random clusters in which several preemptors of one priority wait at once (cost.md 8).

The clusters are those of `instances.py`, smaller.  All of the preemptors fit if every other pod goes; for the exact
solver they are one group.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.building import Item, group, pod
from tests.preemption.exact import Kind, Problem
from tests.preemption.instances import PREEMPTOR, Amounts, instance

NODES = (4, 12)
MOST = 12


@dataclass(frozen=True)
class Several:
    """One cluster: its objects, how many preemptors wait, and the problem for the solver."""

    items: Sequence[Item]
    preemptors: int
    problem: Problem


def _several(seed: int, least: int, most: int, *, lone: bool) -> Several:
    """Preemptors of `least` to `most` pods until they ask for a random share of the GPUs, or of the cores."""
    made, chance = instance(seed, nodes=NODES), random.Random(seed + 7)
    items: list[Item] = [item for item in made.items() if not of_crew(item)]
    share = chance.uniform(0.2, 1.0)
    left = [share * sum(machine[column] for machine in made.machines) for column in (0, 1)]
    kinds: list[Amounts] = []
    preemptors = 0
    while preemptors < MOST:
        size, wants = chance.randint(least, most), chance.choice(made.members)
        left = [have - size * want for have, want in zip(left, wants, strict=True)]
        if preemptors > 1 and min(left) < 0:
            break
        name = f"crew-{preemptors}"
        if not lone:
            items.append(group(name, min_count=size, priority=PREEMPTOR))
        for member in range(size):
            own = None if lone else name
            items.append(pod(f"{name}-{member}", cpu=wants[0] or None, gpu=wants[1], priority=PREEMPTOR, group=own))
            kinds.append(wants)
        preemptors += 1
    everywhere = frozenset(range(len(made.machines)))
    counted = tuple(Kind(wants, kinds.count(wants), everywhere) for wants in dict.fromkeys(kinds))
    return Several(items, preemptors, replace(made.problem(), kinds=counted))


def of_crew(item: Any) -> bool:
    """Whether the object belongs to the preemptor of the instance."""
    return bool(item.metadata.name.startswith("crew"))


def gangs(seed: int) -> Several:
    """Gangs of two to four."""
    return _several(seed, 2, 4, lone=False)


def pods(seed: int) -> Several:
    """Pods that belong to no group."""
    return _several(seed, 1, 1, lone=True)


FAMILIES: dict[str, Callable[[int], Several]] = {"several gangs at once": gangs, "several lone pods at once": pods}
