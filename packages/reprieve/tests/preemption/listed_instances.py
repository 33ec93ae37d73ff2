"""Random clusters in which evictions are compared by a list of criteria that is not the default one (cost.md 1).

The clusters are those of `instances.py`, smaller; what is lost with a pod ranges from seconds to days.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from kube_rules import objects
from tests.building import Item
from tests.preemption.exact import Problem
from tests.preemption.instances import Instance, instance

NODES = (4, 10)


@dataclass(frozen=True)
class Listed:
    """One cluster: its objects, the list, and the same for the solver."""

    items: Sequence[Item]
    problem: Problem
    cost: tuple[str, ...]


def aged(made: Instance, chance: random.Random) -> None:
    """Start units seconds to days ago."""
    for unit in made.units:
        unit.start = -float(round(10 ** chance.uniform(1, 5.5)))


def _listed(cost: tuple[str, ...], lone: bool, seed: int) -> Listed:
    made = instance(seed, nodes=NODES)
    if lone:
        made.members = made.members[-1:]
    aged(made, random.Random(seed + 3))
    items: list[Item] = []
    for item in made.items():
        if lone and isinstance(item, objects.PodGroup | objects.Pod) and item.name.startswith("crew"):
            if isinstance(item, objects.PodGroup):
                continue
            item = replace(item, spec=replace(item.spec, scheduling_group=None))
        items.append(item)
    return Listed(items, made.problem(), cost)


LISTS: dict[str, tuple[str, ...]] = {
    "lostWork": ("lostWork", "pods"),
    "lostWork, gangs": ("lostWork", "gangsBroken", "highestPriority", "pods", "startTime"),
    "budgets, lostWork": ("pdbViolations", "lostWork", "highestPriority", "prioritySum"),
    "priority, lostWork": ("pdbViolations", "highestPriority", "lostWork", "pods"),
    "default with lostWork": (
        "pdbViolations",
        "highestPriority",
        "gangsBroken",
        "prioritySum",
        "pods",
        "lostWork",
        "startTime",
    ),
    "units, lostWork": ("units", "lostWork"),
    "pods, lostWork": ("pods", "lostWork"),
    "gangs, lostWork": ("gangsBroken", "lostWork", "pods"),
    "gangs, priority, lostWork": ("gangsBroken", "highestPriority", "lostWork"),
    "lostWork, priority": ("lostWork", "highestPriority"),
    "units, priority, pods": ("units", "highestPriority", "pods"),
    "budgets, sum": ("pdbViolations", "prioritySum", "highestPriority"),
    "pods, budgets last": ("pods", "highestPriority", "pdbViolations"),
}
FAMILIES: dict[str, Callable[[int], Listed]] = {
    f"{name}{ending}": partial(_listed, cost, lone)
    for name, cost in LISTS.items()
    for ending, lone in (("", False), (", lone", True))
}
