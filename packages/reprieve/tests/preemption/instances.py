"""Random clusters that are full, with a group that wants in: what the search for victims is measured on (cost.md 4).

4 to 20 nodes with GPUs and CPU (`nodes` says otherwise), filled with single pods and with `all` gangs that span
several nodes, of a few priorities, some under budgets; a group of like members, or of a leader and workers, or of
several sizes, that is more important than all of them.  An `Instance` is both the objects of the cluster and the same
in plain numbers, for the exact solver.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from kube_rules import objects
from tests.building import Item, group, node, pdb, pod
from tests.preemption.exact import Kind, Problem, Unit

PREEMPTOR = 1000
Amounts = tuple[int, int]
"""Cores and GPUs."""


@dataclass
class Instance:
    """One cluster. `members` are what the pods of the group `crew` ask for, in order of creation."""

    machines: list[Amounts] = field(default_factory=list)
    units: list[_Running] = field(default_factory=list)
    budgets: dict[str, int] = field(default_factory=dict)
    members: list[Amounts] = field(default_factory=list)

    def items(self) -> list[Item]:
        """The objects."""
        found: list[Item] = [
            node(f"n{i:02}", cpu=cpu, gpu=gpu, memory="1Ti") for i, (cpu, gpu) in enumerate(self.machines)
        ]
        found += [pdb(name, {"budget": name}, allowed=allowed) for name, allowed in self.budgets.items()]
        for unit in self.units:
            found += unit.objects()
        found.append(group("crew", min_count=len(self.members), priority=PREEMPTOR))
        found += [
            pod(f"crew-{i:02}", cpu=cpu or None, gpu=gpu, group="crew", priority=PREEMPTOR)
            for i, (cpu, gpu) in enumerate(self.members)
        ]
        return found

    def problem(self) -> Problem:
        """The same in plain numbers."""
        everywhere = frozenset(range(len(self.machines)))
        left = [list(has) for has in self.machines]
        for unit in self.units:
            for at, amounts in unit.pods:
                left[at] = [have - amount for have, amount in zip(left[at], amounts, strict=True)]
        kinds = {amounts: self.members.count(amounts) for amounts in self.members}
        return Problem(
            tuple(self.machines),
            tuple(unit.plain(left) for unit in self.units),
            tuple(Kind(amounts, count, everywhere) for amounts, count in kinds.items()),
            dict(self.budgets),
            gangs=True,
        )


@dataclass
class _Running:
    """One unit: its pods as (node, amounts). `start` is counted from the time of the decision."""

    name: str
    priority: int
    start: float
    whole: bool
    pods: list[tuple[int, Amounts]]
    budget: str | None

    def objects(self) -> list[objects.KubernetesObject]:
        found: list[objects.KubernetesObject] = []
        if self.whole:
            found.append(group(self.name, min_count=len(self.pods), priority=self.priority, whole=True))
        labels = {"budget": self.budget} if self.budget is not None else {}
        for i, (at, (cpu, gpu)) in enumerate(self.pods):
            found.append(
                pod(
                    f"{self.name}-{i:02}" if self.whole else self.name,
                    cpu=cpu or None,
                    gpu=gpu,
                    node=f"n{at:02}",
                    priority=self.priority,
                    group=self.name if self.whole else None,
                    start=self.start,
                    labels=labels,
                )
            )
        return found

    def plain(self, left: Sequence[Sequence[int]]) -> Unit:
        """The same in plain numbers; `left`: what is free on each node."""
        takes: dict[int, Amounts] = {}
        for at, (cpu, gpu) in self.pods:
            before = takes.get(at, (0, 0))
            takes[at] = (before[0] + cpu, before[1] + gpu)
        charged = {self.budget: len(self.pods)} if self.budget is not None else {}
        name, size = f"default/{self.name}", len(self.pods)
        lost = sum(max(0.0, -self.start) * (gpu or cpu) for _, (cpu, gpu) in self.pods)
        stuck = sum(
            not any(
                node != at and all(have >= amount for have, amount in zip(free, amounts, strict=True))
                for node, free in enumerate(left)
            )
            for at, amounts in self.pods
        )
        return Unit(
            name, self.priority, size, self.start, self.whole, dict(takes), charged, int(self.whole), lost, stuck
        )


def instance(seed: int, *, nodes: tuple[int, int] = (4, 20)) -> Instance:
    """The cluster of a seed."""
    chance = random.Random(seed)
    made = Instance()
    size, gpus = chance.randint(*nodes), chance.choice([4, 8])
    cpu = chance.choice([8, 16, 32])
    made.machines = [(cpu, gpus if chance.random() < 0.85 else 0) for _ in range(size)]
    priorities = chance.choice([(10,), (10, 20), (0, 10, 20, 50), (0, 1, 2, 3, 4)])
    made.budgets = {f"b{i}": chance.randint(0, 4) for i in range(chance.choice([0, 0, 1, 2]))}
    _fill(made, chance, priorities, fullness=chance.choice([0.7, 0.9, 1.0]), gangs=chance.choice([0.0, 0.3, 0.6]))
    _ask(made, chance, gpus)
    return made


def _fill(made: Instance, chance: random.Random, priorities: Sequence[int], *, fullness: float, gangs: float) -> None:
    left = [list(has) for has in made.machines]
    room = [sum(has[resource] for has in made.machines) for resource in (0, 1)]
    idle = 0
    while idle < 12 and any(
        sum(has[resource] for has in left) > (1 - fullness) * room[resource] for resource in (0, 1) if room[resource]
    ):
        whole = chance.random() < gangs
        count = chance.randint(2, 8) if whole else 1
        gpu = chance.choice([0, 1, 1, 1, 2, 4])
        amounts = (chance.randint(1, 4), gpu)
        start = chance.randrange(len(left))
        pods: list[tuple[int, Amounts]] = []
        # A gang runs on neighbours, as a scheduler that packs would have placed it.
        for turn in range(len(left)):
            at = (start + turn) % len(left)
            while len(pods) < count and all(h >= a for h, a in zip(left[at], amounts, strict=True)):
                left[at] = [h - a for h, a in zip(left[at], amounts, strict=True)]
                pods.append((at, amounts))
        if len(pods) < count:
            for at, _ in pods:
                left[at] = [h + a for h, a in zip(left[at], amounts, strict=True)]
            idle += 1
            continue
        budget = chance.choice([None, *made.budgets])
        name = f"u{len(made.units):03}"
        made.units.append(_Running(name, chance.choice(priorities), float(chance.randrange(1000)), whole, pods, budget))


def _ask(made: Instance, chance: random.Random, gpus: int) -> None:
    size = len(made.machines)
    shape = chance.choice(["like", "like", "like", "leader", "sizes"])
    worker = (chance.randint(1, 4), chance.choice([1, 2, gpus // 2, gpus, gpus]))
    count = chance.randint(1, max(1, min(16, size * gpus // worker[1] * 2 // 3)))
    made.members = [worker] * count
    if shape == "leader":
        made.members = [(chance.randint(2, 8), 0), *made.members]
    elif shape == "sizes":
        made.members = [(chance.randint(1, 4), chance.choice([0, 1, 2, gpus // 2, gpus])) for _ in range(count)]
