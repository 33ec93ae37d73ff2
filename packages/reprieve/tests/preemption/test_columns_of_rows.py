"""What is kept of the potential victims on each row, against loops over its pods (preemption.md 3, cost.md 1)."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from kube_rules.meta import ObjectRef
from reprieve.cluster.pods import PodRecord
from reprieve.framework.evaluation import Evaluator
from reprieve.framework.restart_places import NOWHERE
from reprieve.preemption.cost import Costing, in_turn
from reprieve.preemption.gangs import losses, slack_of
from reprieve.preemption.unit_costs import PODS
from reprieve.preemption.unit_matrices import ABOVE_ALL as HIGH
from reprieve.preemption.units import ABOVE_ALL, PreemptionUnit, units_below
from reprieve.preemption.victim_columns import VictimColumns
from tests.building import World, group, node, pdb, pod
from tests.preemption.seeds import each_seed

NODES = 4
GROUPS = ("g0", "g1", "g2", "g3")


class _Cluster:
    """Pods and groups that come and go."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.made = chance, 0
        self.world = World(*[node(f"n{i}", cpu=5, pods=9, labels={"disk": f"d{i}"}) for i in range(NODES)])
        for name in GROUPS:
            self.change_group(name)
        for index in range(2):
            self.world.engine.set(pdb(f"b{index}", {"app": f"a{index}"}, allowed=chance.randint(0, 2)), 0.0)
        for _ in range(12):
            self.start()

    def change_group(self, name: str) -> None:
        chance = self.chance
        least, priority = chance.randint(1, 3), chance.choice((0, 2))
        self.world.engine.set(group(name, min_count=least, priority=priority, whole=chance.random() < 0.4), 0.0)

    def pod(self, **more: Any) -> str:
        self.made += 1
        chance, name = self.chance, f"p{self.made}"
        self.world.add(pod(name, cpu=chance.randint(0, 2), uid=f"uid-{chance.randrange(90):02}-{self.made}", **more))
        return name

    def start(self) -> None:
        chance = self.chance
        at = chance.randrange(NODES)
        self.pod(
            node=f"n{at}",
            priority=chance.choice((0, 1, 2)),
            group=chance.choice((None, *GROUPS)),
            labels={"app": f"a{chance.randrange(3)}"},
            start=chance.choice((None, 1.0, 2.0)),
            selector={"disk": f"d{at}"} if chance.random() < 0.3 else None,
        )

    def happen(self) -> None:
        chance, cluster = self.chance, self.world.engine.cluster
        what = chance.randrange(5)
        running = sorted(record.uid for record in cluster.pods.values() if record.row >= 0)
        if what == 0:
            self.change_group(chance.choice(GROUPS))
        elif what == 1:
            self.world.engine.set(pdb("b0", {"app": "a0"}, allowed=chance.randint(0, 2)), 0.0)
        elif what == 2 and running:
            self.world.engine.remove(ObjectRef("Pod", uid=chance.choice(running)), 0.0)
        elif what == 3:
            record = self.world.record(self.pod(priority=chance.choice((0, 1, 2, 3))))
            cluster.nominate(record, chance.randrange(NODES))
        else:
            self.start()


def _entries(columns: VictimColumns, row: int) -> dict[str, list[Any]]:
    """What is kept of the units of a row."""
    count = int(columns._units.count[row])
    for block in columns._units.blocks.values():
        for slot in range(block.used):
            if block.rows[slot] == row:
                return {name: values[..., :count, slot].tolist() for name, values in block.entries.items()}
    return {}


def _expected(world: World, evaluator: Evaluator, row: int, units: list[PreemptionUnit]) -> dict[str, list[Any]]:
    """The same, unit by unit."""
    cluster = world.engine.cluster
    slack, stuck = slack_of(cluster, units), Costing(cluster, evaluator, units).restartless(units)
    order = list(in_turn(units, stuck, slack))
    amounts = [
        [
            sum(int(pod.signature.delta[column]) for pod, at in zip(unit.pods, unit.rows, strict=True) if at == row)
            for unit in units
        ]
        for column in range(len(cluster.nodes.used))
    ]
    gangs, lost = [-1] * len(units), [losses(unit.pods, slack) for unit in units]
    for turn, unit in enumerate(units):
        if unit.group is None and lost[turn]:
            key = next(iter(lost[turn]))
            gangs[turn] = next(i for i, u in enumerate(units) if u.group is None and key in lost[i])
    return {
        "priority": [unit.priority for unit in units],
        "size": [len(unit.pods) for unit in units],
        "weight": [(unit.priority + (1 << 31)) * len(unit.pods) for unit in units],
        "begun": [unit.start for unit in units],
        "spans": [unit.group is not None for unit in units],
        "amounts": amounts,
        "like": [next(i for i, other in enumerate(units) if other.standing == unit.standing) for unit in units],
        "several": [0 if len(unit.pods) == 1 else count for unit, count in zip(units, stuck, strict=True)],
        "stuck": [count if len(unit.pods) == 1 else 0 for unit, count in zip(units, stuck, strict=True)],
        "mixed": [int(bool(slack))] * len(units),
        "standing": [order.index(turn) if slack else 0 for turn in range(len(units))],
        "gang": gangs,
        "slack": [slack[next(iter(lost[turn]))] if gang >= 0 else 0 for turn, gang in enumerate(gangs)],
        "breaks": [sum(count > slack[key] for key, count in pods.items()) for pods in lost],
    }


def _violating(world: World, units: list[PreemptionUnit], priority: int) -> list[bool]:
    """Units below the priority that violate a budget, counted by importance."""
    index = world.engine.cluster.budget_index
    left, violating = list(index.allowed), []
    for unit, charges in zip(units, index.charges([unit.pods for unit in units]), strict=True):
        below = unit.priority < priority
        for budget, count in charges.items():
            left[budget] -= count * below
        violating.append(below and any(left[budget] < 0 for budget in charges))
    return violating


@each_seed(range(10))
def test_rows_have_their_units_whatever_happens(seed: int) -> None:
    """preemption.md 3.1, 3.4, 6; cost.md 1.7, 1.9: what each unit is, what breaks with it, and its turn."""
    case = _Cluster(random.Random(seed))
    world, chance = case.world, case.chance
    cluster, evaluator = world.engine.cluster, world.engine.running["default-scheduler"].evaluator
    columns = VictimColumns(cluster, evaluator.restarts, by_gang=True)
    for _ in range(8):
        for _ in range(chance.randint(0, 2)):
            case.happen()
        probe = world.record(case.pod(priority=chance.choice((1, 2, 3))))
        rows = sorted(chance.sample(range(NODES), chance.choice((NODES, NODES, 2))))
        judged = columns.judge(probe, np.array(rows))
        for row in range(NODES):
            units = units_below(cluster, ABOVE_ALL, list(cluster.nodes.pods[row].values()))
            units.sort(key=lambda unit: unit.importance)
            kept, expected = _entries(columns, row), _expected(world, evaluator, row, units)
            stuck = expected.pop("stuck")
            assert {name: kept.get(name, values) for name, values in expected.items()} == expected
            if not units:
                assert not kept
                continue
            codes = evaluator.restarts.codes
            assert [int(kind >= 0 and codes[kind] in (NOWHERE, row)) for kind in kept["kind"]] == stuck
            assert kept["violates"] == _violating(world, units, probe.priority)
            if row in rows:
                at = rows.index(row)
                assert judged.units[at] == any(unit.priority < probe.priority for unit in units)
                assert (judged.least[PODS, at] > 0) == bool(units), "a bound is computed where there are units"
                bounds = int(judged.low[at]), int(judged.high[at])
                assert bounds == _bounds(world, probe, row, [unit.priority for unit in units])
                assert judged.short[:, at].tolist() == _short(world, probe, row, units)


def _nominated(world: World, probe: PodRecord, row: int) -> list[PodRecord]:
    pods = world.engine.cluster.pods.values()
    return [record for record in pods if record.nominated == row and record is not probe and record.row < 0]


def _bounds(world: World, probe: PodRecord, row: int, priorities: list[int]) -> tuple[int, int]:
    """The range of priorities with the same victims and the same nominated pods that count."""
    nominated = [record.priority for record in _nominated(world, probe, row)]
    low = [1 + value for value in (*priorities, *nominated) if value < probe.priority]
    high = [value for value in (*priorities, *nominated) if value >= probe.priority]
    return max(low, default=-HIGH), min(high, default=HIGH)


def _short(world: World, probe: PodRecord, row: int, units: list[PreemptionUnit]) -> list[bool]:
    """By request: whether it does not fit with all units below gone, beside nominated pods that count."""
    nodes, short = world.engine.cluster.nodes, []
    for column, amount in probe.signature.requests:
        left = int(nodes.allocatable[column, row] - nodes.used[column, row]) - amount
        for unit in units:
            if unit.priority < probe.priority:
                pairs = zip(unit.pods, unit.rows, strict=True)
                left += sum(int(pod.signature.delta[column]) for pod, at in pairs if at == row)
        for record in _nominated(world, probe, row):
            if record.priority >= probe.priority:
                left -= int(record.signature.delta[column])
        short.append(left < 0)
    return short
