"""The cheapest units to evict on one node for one pod, against all sets of them (cost.md 4.8)."""

from __future__ import annotations

import random
from typing import Any

from reprieve.preemption.cheaper_for_pod import cheapest_on_row, judged
from reprieve.preemption.cost import UPSTREAM
from tests.building import START, World, group, node, pdb, pod
from tests.preemption import tiny
from tests.preemption.seeds import each_seed
from tests.preemption.tiny import kind, problem, unit


@each_seed(range(40))
def test_the_cheapest_set_of_a_node(seed: int) -> None:
    """Budgets counted over those who go; pods of equal or higher priority that are nominated there count as running."""
    chance = random.Random(seed)
    cores = chance.randint(4, 9)
    items: list[Any] = [node("n", cpu=cores), node("other", cpu=9)]
    allowed = {"x": chance.randint(0, 1), "y": chance.randint(0, 2)}
    items += [pdb(label, {"app": label}, allowed=count) for label, count in allowed.items()]
    units, left, taken = [], cores, 0
    for i in range(6):
        cpu, priority, start = chance.randint(1, 3), chance.randint(0, 6), float(chance.randint(0, 2))
        if cpu > left:
            continue
        left -= cpu
        label = chance.choice(["x", "y", "z"])
        more: dict[str, Any] = {"labels": {"app": label}, "uid": f"u{i}"}
        whole = chance.random() < 0.3
        if whole:
            items.append(group(f"g{i}", min_count=1, priority=priority, whole=True))
            items.append(
                pod(f"e{i}", node="other", priority=priority, group=f"g{i}", start=start, **{**more, "uid": f"u{i}-e"})
            )
        on = f"g{i}" if whole else None
        items.append(pod(f"v{i}", cpu=cpu, node="n", priority=priority, start=start, group=on, **more))
        if priority < 5:
            charged = {label: 1 + whole} if label != "z" else {}
            name = f"default/g{i}" if whole else f"default/v{i}"
            units.append(
                unit(name, {0: (cpu,)}, priority=priority, pods=1 + whole, start=START + start, charged=charged)
            )
        else:
            taken += cpu
    for i, priority in enumerate((4, 5, 6)):
        if chance.random() < 0.3:
            items.append(pod(f"w{i}", cpu=1, priority=priority, nominated="n", gates=["x"]))
            taken += priority >= 5
    wants = chance.randint(1, 4)
    world = World(*items, pod("new", cpu=wants, priority=5))
    made = problem([(cores - taken,)], units, [kind((wants,))], **allowed)
    cluster, row, new = world.engine.cluster, world.row("n"), world.record("new")
    before = cluster.digest()
    found, best = cheapest_on_row(world.engine.running["default-scheduler"], UPSTREAM, new, row), tiny.cheapest(made)
    assert cluster.digest() == before
    if best is None or best[3] == 0:
        assert found is None, "it does not fit there, or does without"
        return
    assert found is not None
    assert found.cost == best
    names = [one.name for one in found.units]
    assert names == [one.name for one in made.units if one.name in names], "the most important first"
    assert made.price(names) == best
    verdicts = judged(cluster, new, row, found.units)
    assert [verdict.unit.name for verdict in verdicts] == [one.name for one in made.units]
    assert {verdict.unit.name for verdict in verdicts if verdict.evicted} == set(names)
    for verdict in verdicts:
        if verdict.reason is not None:
            assert (verdict.reason.pod.name, verdict.reason.row) == ("new", row)
