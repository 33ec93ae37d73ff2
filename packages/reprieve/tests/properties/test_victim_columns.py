"""Many rows judged together are judged as one by one, whatever has happened to the cluster (preemption.md 3)."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_rules import objects
from kube_rules.meta import ObjectRef
from reprieve.cluster.pods import PodRecord
from reprieve.framework.plugin import CycleState
from reprieve.preemption.candidate_cache import Candidate, RowAnswers
from reprieve.preemption.cheapest_victims import cheapest_on_row
from reprieve.preemption.cost import DEFAULT
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.pod_preemption import PodPreemption
from reprieve.preemption.unit_costs import GANGS, PODS, RESTARTLESS
from reprieve.preemption.victim_columns import VictimColumns
from tests.building import World, group, node, pdb, pod
from tests.drawing import examples
from tests.properties.coverage import met, must_meet

many = examples(60)

APPS = ("a", "b", "c")
PRIORITIES = (-5, 0, 1, 2, 3)


class _Changing:
    """A cluster in which things happen, by a seed. No pod is scheduled: only what is known changes."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.made = 0
        self.groups = [f"g{i}" for i in range(3)]
        self.world = World(
            *[node(f"n{i}", cpu=8, memory="8Gi", gpu=2, pods=6, labels={"disk": f"d{i % 5}"}) for i in range(7)]
        )
        for name in self.groups:
            self.change_group(name)
        for _ in range(25):
            self.start()
        for index in range(self.chance.randint(0, 3)):
            self.change_budget(index)

    @property
    def preemption(self) -> PodPreemption:
        plugins = self.world.engine.running["default-scheduler"].profile.plugins
        found = next(plugin for plugin in plugins if isinstance(plugin, DefaultPreemption))
        return found._attached().for_pod

    def make(self, **more: Any) -> objects.Pod:
        chance = self.chance
        self.made += 1
        return pod(
            f"p{self.made}",
            cpu=chance.randint(0, 4),
            memory=f"{chance.randint(0, 40) * 100}Mi",
            gpu=chance.choice([0, 0, 1]),
            labels={"app": chance.choice(APPS)},
            start=chance.choice([None, 1.0, 2.0, 3.0]),
            uid=f"uid-{chance.randrange(1000):03}-{self.made}",
            **more,
        )

    def start(self) -> None:
        belongs = self.chance.choice([None, None, *self.groups])
        where = f"n{self.chance.randrange(7)}"
        selector = {"disk": f"d{int(where[1:]) % 5}"} if self.chance.random() < 0.3 else None
        priority = self.chance.choice(PRIORITIES)
        self.world.add(self.make(node=where, priority=priority, group=belongs, selector=selector))

    def probe(self) -> PodRecord:
        item = self.make(priority=self.chance.choice([0, 1, 2, 3, 4]))
        self.world.add(item)
        return self.world.record(item.metadata.name)

    def scheduled(self) -> list[PodRecord]:
        return [found for found in self.world.engine.cluster.pods.values() if found.row >= 0]

    def end(self) -> None:
        if there := self.scheduled():
            self.world.engine.remove(ObjectRef("Pod", uid=self.chance.choice(there).uid), 0.0)

    def change_group(self, name: str) -> None:
        whole = self.chance.random() < 0.6
        made = group(name, min_count=self.chance.randint(1, 4), priority=self.chance.choice(PRIORITIES), whole=whole)
        self.world.engine.set(made, 0.0)

    def change_budget(self, index: int) -> None:
        chance = self.chance
        selector = chance.choice([{}, *({"app": app} for app in APPS)])
        names = [found.name for found in self.scheduled()]
        disrupted = chance.sample(names, min(2, len(names))) if chance.random() < 0.2 else []
        self.world.engine.set(pdb(f"b{index}", selector, allowed=chance.randint(0, 3), disrupted=disrupted), 0.0)

    def happen(self) -> None:
        """One thing."""
        chance, engine = self.chance, self.world.engine
        happens = ("start", "end", "group", "no group", "budget", "no budget", "nominate", "node", "resource")
        what = chance.choice(happens)
        if what == "start":
            self.start()
        elif what == "end":
            self.end()
        elif what == "group":
            self.change_group(chance.choice(self.groups))
        elif what == "no group":
            engine.remove(ObjectRef("PodGroup", f"default/{chance.choice(self.groups)}"), 0.0)
        elif what == "budget":
            self.change_budget(chance.randrange(4))
        elif what == "no budget":
            engine.remove(ObjectRef("PodDisruptionBudget", f"default/b{chance.randrange(4)}"), 0.0)
        elif what == "nominate":
            engine.cluster.nominate(self.probe(), chance.randrange(7))
        elif what == "node":
            labels = {"disk": f"d{chance.randrange(5)}"}
            name = f"n{chance.randrange(10)}"
            self.world.add(node(name, cpu=chance.randint(4, 9), memory="8Gi", gpu=1, pods=6, labels=labels))
        elif what == "resource":
            self.made += 1
            self.world.add(node(f"special-{self.made}", cpu=1, more={f"example.com/r{self.made}": 4}))


def _singly(preemption: PodPreemption, state: CycleState, rows: list[int]) -> RowAnswers:
    cluster = state.cluster
    answers = RowAnswers(cluster.changes(), len(cluster.nodes), DEFAULT)
    for row in rows:
        answer, spans = preemption._on_row(state, row, numbers=True)
        answers.put(row, answer, preemption._same_for(state, row, numbers=True), fragile=spans)
        if isinstance(answer, Candidate):
            met("several", answer.cost[PODS] > 1)
            met("breaking", answer.cost[GANGS] > 0)
            met("restartless", answer.cost[RESTARTLESS] > 0)
            met("violating", answer.cost[0] > 0)
            met("spanning", spans)
    return answers


@must_meet(
    **{
        "nothing cheaper": 150,
        "several": 400,
        "violating": 200,
        "spanning": 200,
        "breaking": 200,
        "restartless": 100,
        "cheaper": 40,
    }
)
@many
@given(st.integers(0, 2**32))
def test_rows_together_are_judged_as_one_by_one(seed: int) -> None:
    """Costs, reasons, for which priorities they hold and whether other rows matter; after every change.

    And nothing costs less than the bound of the row (cost.md 4.8).
    """
    case = _Changing(seed)
    cluster, chance, preemption = case.world.engine.cluster, case.chance, case.preemption
    evaluator = case.world.engine.running["default-scheduler"].evaluator
    kept = VictimColumns(cluster, evaluator.restarts, by_gang=True)
    for _ in range(8):
        for _ in range(chance.randint(0, 3)):
            case.happen()
        pod = case.probe()
        state = CycleState(cluster, pod)
        rows = sorted(chance.sample(range(len(cluster.nodes)), chance.randint(1, len(cluster.nodes))))
        together = RowAnswers(cluster.changes(), len(cluster.nodes), DEFAULT)
        lacking = preemption._lacking(state)
        together.put_all(np.array(rows), kept.judge(pod, np.array(rows)), lacking)
        singly = _singly(preemption, state, rows)
        for name in ("known", "good", "_low", "_high"):
            assert np.array_equal(getattr(together, name)[rows], getattr(singly, name)[rows]), name
        good = [row for row in rows if singly.good[row]]
        assert [together._cost_of(row) for row in good] == [singly._cost_of(row) for row in good]
        for row in good:
            cheapest = cheapest_on_row(case.world.engine.running["default-scheduler"], DEFAULT, pod, row)
            assert cheapest is not None
            assert tuple(together._least[:, row].tolist()) <= cheapest.cost
            if not together._open[row]:
                met("nothing cheaper", True)
                assert cheapest.cost >= together._cost_of(row)
            met("cheaper", cheapest.cost < together._cost_of(row))
        for row in rows:
            assert together.misfits(np.array([row])) == singly.misfits(np.array([row]))
        every = np.array(rows)
        assert together.cheapest(every, cluster.nodes.rank) == singly.cheapest(every, cluster.nodes.rank)


@pytest.mark.parametrize("rows", [1, 40])
def test_columns_do_not_grow_with_time(rows: int) -> None:
    """Pods come and go ten thousand times over; the columns stay about as long as there are pods."""
    chance = random.Random(rows)
    world = World(*[node(f"n{i}", cpu=64, pods=110) for i in range(rows)])
    cluster = world.engine.cluster
    columns = VictimColumns(cluster)
    world.add(pod("probe", cpu=60, priority=9))
    probe, there = world.record("probe"), [f"first-{i}" for i in range(3 * rows)]
    world.add(*[pod(name, cpu=1, node=f"n{chance.randrange(rows)}") for name in there])
    for turn in range(10_000 // rows):
        for index in range(rows):
            if chance.random() < 0.5 and len(there) < 8 * rows:
                there.append(f"later-{turn}-{index}")
                world.add(pod(there[-1], cpu=1, node=f"n{chance.randrange(rows)}"))
            elif there:
                name = there.pop(chance.randrange(len(there)))
                world.engine.remove(ObjectRef("Pod", uid=world.record(name).uid), 0.0)
        columns.judge(probe, np.arange(rows))
    kept = sum(block.depth * len(block.rows) for block in columns._units.blocks.values())
    assert kept <= 4 * rows + 8 * (8 * rows)
    assert int(columns._units.count.sum()) == len(there)
