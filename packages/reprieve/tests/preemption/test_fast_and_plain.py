"""Small clusters decided on the fast paths and on the plain one: the same in everything a decision tells.

`tests.properties.test_fast_equals_plain` holds that on many large ones; here each takes milliseconds, several
preemptors come one after another, and things change in between (preemption.md 9.5).
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from kube_rules import objects
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.options import PreemptionOptions
from reprieve.preemption.outcome import COMPATIBLE, MINIMIZE_VICTIMS, PRIORITY_FLOOR, Preemption, Reason
from tests.building import World, group, node, pdb, pod, profile_with, row_name
from tests.preemption.exact import Unit

HOST = "kubernetes.io/hostname"


def _cluster(chance: random.Random, *, rules: bool) -> list[Any]:
    """Six nodes that are nearly full, one of them with a taint; gangs that are evicted as a whole; a budget."""
    items: list[Any] = [
        node(f"n{i}", cpu=chance.randint(2, 4), memory="4Gi", pods=5, labels={HOST: f"n{i}", "zone": f"z{i % 2}"})
        for i in range(6)
    ]
    items.append(node("tainted", cpu=4, taints=[("only", "others", "NoSchedule")]))
    items += [group(f"whole{i}", min_count=1, priority=chance.randint(0, 3), whole=True) for i in range(2)]
    items += [group("gang", min_count=1, priority=chance.randint(0, 3))]
    items.append(pdb("x", {"app": "x"}, allowed=chance.randint(0, 2)))
    for i in range(6):
        for turn in range(chance.randint(1, 4)):
            items.append(
                pod(
                    f"v{i}{turn}",
                    cpu=1 if chance.random() < 0.8 else "500m",
                    memory=f"{chance.choice([0, 500, 1500])}Mi",
                    node=f"n{i}",
                    priority=chance.randint(0, 4),
                    group=chance.choice([None, None, None, "whole0", "whole1", "gang"]),
                    start=chance.choice([None, 1.0, 2.0, 3.0]),
                    labels={"app": chance.choice("xyz")},
                    ports=[80] if rules and turn == 0 and chance.random() < 0.5 else [],
                )
            )
    return items


def _rule(chance: random.Random) -> dict[str, Any]:
    """Something beyond resources that the preemptor asks for."""
    away = objects.PodAffinityTerm(
        topology_key=chance.choice([HOST, "zone"]),
        label_selector=objects.LabelSelector(match_labels={"app": chance.choice("xyz")}),
    )
    apart = objects.PodAntiAffinity(required_during_scheduling_ignored_during_execution=(away,))
    return chance.choice([{}, {"ports": [80]}, {"affinity": objects.Affinity(pod_anti_affinity=apart)}])


def _asking(chance: random.Random, turn: int, *, rules: bool) -> list[Any]:
    more = _rule(chance) if rules else {}
    wants: dict[str, Any] = {"cpu": chance.randint(1, 3), "priority": chance.choice([2, 5, 9]), **more}
    if chance.random() < 0.5:
        return [pod(f"p{turn}", **wants)]
    size = chance.randint(1, 3)
    made: list[Any] = [group(f"g{turn}", min_count=chance.randint(1, size), priority=wants["priority"])]
    return [*made, *[pod(f"g{turn}-{i}", group=f"g{turn}", **{**wants, "cpu": 1 + (i == 0)}) for i in range(size)]]


def _why(world: World, found: Preemption, reason: Reason | None) -> object:
    """Of a group the paths begin with other members, and nominated room is not an amount on the plain one."""
    if reason is None:
        return None
    if found.group is not None:
        return reason.plugin
    return reason.pod.name, row_name(world, reason.row), reason.plugin, reason.text


def _outcome(world: World, found: Preemption | None) -> object:
    """All of a decision, in terms of names."""
    if found is None:
        return None
    return {
        "domain": found.domain,
        "candidates": found.candidates,
        "cost": found.cost,
        "compared": found.compared,
        "places": [(one.name, row_name(world, row)) for one, row in found.nominations],
        "verdicts": [(v.unit.name, v.violates_pdb, _why(world, found, v.reason)) for v in found.verdicts],
    }


@pytest.mark.parametrize("options", [{}, {"placement": COMPATIBLE}, {"victim_search": PRIORITY_FLOOR}])
@pytest.mark.parametrize("rules", [False, True], ids=["resources", "rules"])
@pytest.mark.parametrize("seed", range(10))
def test_fast_and_the_plain_path_agree(seed: int, rules: bool, options: dict[str, Any]) -> None:
    """The victims and why, what it costs, the second best, and the answer without victims."""
    chance = random.Random(seed)
    items = _cluster(chance, rules=rules)
    worlds = []
    for plain in (False, True):
        profile = profile_with(DefaultPreemption(PreemptionOptions(plain=plain, share=not plain, **options)))
        worlds.append(World(*items, profiles={profile.name: profile}))
    fast, plain_one = worlds
    for turn in range(5):
        asking = _asking(chance, turn, rules=rules)
        leaves = chance.choice([None, *[name for name in fast.where if name.startswith("v")]])
        starts = f"n{chance.randrange(6)}"
        for world in worlds:
            if turn and leaves in world.where:
                world.gone(leaves)
            if turn == 3:
                world.add(pod("late", cpu=1, node=starts, priority=1))
            world.add(*asking)
        one, other = fast.step(), plain_one.step()
        assert _outcome(fast, one.preemption) == _outcome(plain_one, other.preemption)
        assert [r.message for r in one.rejections] == [r.message for r in other.rejections]
        assert fast.engine.cluster.digest() == plain_one.engine.cluster.digest()


@pytest.mark.parametrize("seed", range(30))
def test_reprieve_on_every_node_is_what_going_through_them_gives(seed: int) -> None:
    """preemption.md 3: a node for a pod, against the text of the section done step by step."""
    chance = random.Random(seed)
    free = {f"n{i}": chance.randint(2, 4) for i in range(6)}
    units: list[tuple[str, int, Unit]] = []
    items: list[Any] = []
    for name, cores in free.items():
        items.append(node(name, cpu=cores))
        left = cores
        while left > 0 and chance.random() < 0.9:
            cpu = chance.randint(1, min(2, left))
            left -= cpu
            priority, start, label = (
                chance.randint(0, 4),
                float(chance.randint(0, 3)),
                chance.choice(["x", "y", "none"]),
            )
            victim = f"{name}v{left}"
            items.append(
                pod(victim, cpu=cpu, node=name, priority=priority, start=start, labels={"app": label}, uid=victim)
            )
            charged = {label: 1} if label != "none" else {}
            units.append((name, cpu, Unit(victim, priority, 1, start, False, {}, charged)))
    allowed = {"x": chance.randint(0, 1), "y": chance.randint(0, 1)}
    items += [pdb(label, {"app": label}, allowed=count) for label, count in allowed.items()]
    wants, priority = chance.randint(1, 3), chance.choice([1, 3, 5])
    world = World(*items, pod("new", cpu=wants, priority=priority), placement=COMPATIBLE)
    found = world.step().preemption
    by_cost = []
    room = any(cores - sum(cpu for on, cpu, _ in units if on == name) >= wants for name, cores in free.items())
    for name, cores in free.items():
        there = sorted(
            ((cpu, one) for on, cpu, one in units if on == name and one.priority < priority),
            key=lambda each: each[1].importance,
        )
        stay = sum(cpu for on, cpu, one in units if on == name and one.priority >= priority)
        left = cores - stay - wants
        if not there or left < 0:
            continue
        budgets, violating = dict(allowed), set()
        for _, one in there:
            for label in one.charged:
                budgets[label] -= 1
                if budgets[label] < 0:
                    violating.add(one.name)
        gone = []
        for cpu, one in sorted(there, key=lambda each: each[1].name not in violating):
            if cpu <= left:
                left -= cpu
            else:
                gone.append(one)
        if gone:
            cost = _cost(gone)
            by_cost.append(
                ((len(violating & {one.name for one in gone}), *cost), name, sorted(one.name for one in gone))
            )
    if room or not by_cost:
        assert found is None
        return
    assert found is not None
    cost, name, gone_names = min(by_cost)
    assert (found.domain, sorted(verdict.unit.name for verdict in found.victims)) == (
        name,
        sorted(f"default/{one}" for one in gone_names),
    )
    assert found.candidates == len(by_cost)
    assert found.cost is not None
    assert (*found.cost[:2], *found.cost[3:5]) == cost[:4]
    assert [verdict.unit.priority for verdict in found.victims] == sorted(
        (verdict.unit.priority for verdict in found.victims), reverse=True
    )


def _cost(gone: list[Unit]) -> tuple[float, ...]:
    highest = max(one.priority for one in gone)
    total = sum(one.priority + (1 << 31) for one in gone)
    return highest, total, len(gone), -min(one.start for one in gone if one.priority == highest)


# -- what is remembered ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("placement", [COMPATIBLE, MINIMIZE_VICTIMS])
def test_many_sorts_of_preemptors_are_remembered_and_the_oldest_forgotten(placement: str) -> None:
    """A bounded number; what was forgotten is computed again and is the same."""
    items = [item for i in range(3) for item in (node(f"n{i}", cpu=90, pods=300), pod(f"v{i}", cpu=90, node=f"n{i}"))]
    world = World(*items, *[pod(f"b{i}", node=f"n{i}", priority=50) for i in range(3)], placement=placement)
    plugin = next(
        p for p in world.engine.running["default-scheduler"].profile.plugins if isinstance(p, DefaultPreemption)
    )
    memory = plugin._attached().for_pod._memory
    for turn in range(70):
        world.add(pod(f"p{turn}", cpu=f"{89_000 + turn}m", priority=9, gates=[]))
        decision = world.step()
        assert (decision.preemption is not None) is (turn < 3)
        assert len(memory) == min(turn + 1, 64)
