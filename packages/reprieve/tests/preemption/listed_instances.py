"""Random clusters in which evictions are compared by a list of criteria that is not the default one (cost.md 1).

The clusters are those of `instances.py`, smaller; what is lost with a pod ranges from seconds to days.
`nodes`: the least and the most nodes of a cluster.
"""

from __future__ import annotations

import dataclasses
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


def _listed(cost: tuple[str, ...], lone: bool, seed: int, nodes: tuple[int, int] = NODES) -> Listed:
    made = instance(seed, nodes=nodes)
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
    listed = Listed(items, made.problem(), cost)
    return _among_tenants(listed) if "tenantSpread" in cost else listed


def _among_tenants(made: Listed) -> Listed:
    """Divide what runs among three namespaces, without budgets, which count pods of one namespace."""
    chance = random.Random(len(made.problem.units))
    tenant_of = {unit.name: chance.choice("abc") for unit in made.problem.units}
    items: list[Item] = []
    for item in made.items:
        if isinstance(item, objects.PodGroup | objects.Pod):
            group = item.spec.scheduling_group if isinstance(item, objects.Pod) else None
            name = group.pod_group_name if group is not None else item.name
            tenant = tenant_of.get(f"default/{name}", "default")
            item = replace(item, metadata=replace(item.metadata, namespace=tenant))
        if not isinstance(item, objects.PodDisruptionBudget):
            items.append(item)
    units = tuple(
        dataclasses.replace(unit, name=unit.name.replace("default", tenant_of[unit.name]), charged={})
        for unit in made.problem.units
    )
    return Listed(items, dataclasses.replace(made.problem, units=units, allowed={}), made.cost)


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
    "gangs, budgets, lostWork": ("gangsBroken", "pdbViolations", "lostWork"),
    "tenants, lostWork": ("tenantSpread", "lostWork"),
    "budgets, tenants, priority": ("pdbViolations", "tenantSpread", "highestPriority", "pods"),
    "only lostWork": ("lostWork",),
}
FAMILIES: dict[str, Callable[..., Listed]] = {
    f"{name}{ending}": partial(_listed, cost, lone)
    for name, cost in LISTS.items()
    for ending, lone in (("", False), (", lone", True))
}
