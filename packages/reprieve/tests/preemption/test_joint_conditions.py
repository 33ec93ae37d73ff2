"""Which preemptors are planned together, and on which nodes (cost.md 8.2, 8.3)."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.joint_preemption import Peer
from reprieve.preemption.options import PreemptionOptions
from reprieve.preemption.outcome import COMPATIBLE, MINIMIZE_VICTIMS, SCORED, Preemption, Reason, Verdict
from tests.building import START, World, annotated, group, node, pod
from tests.preemption.by_name import units_of
from tests.preemption.test_eviction_limits import of_job


def _plugin(world: World) -> DefaultPreemption:
    plugins = world.engine.running["default-scheduler"].profile.plugins
    return next(plugin for plugin in plugins if isinstance(plugin, DefaultPreemption))


def test_options_with_which_preemptors_are_planned_together() -> None:
    """cost.md 8.2: with MinimizeVictims, without evictions in turn, and if they do not wait for others to end."""
    placements = (MINIMIZE_VICTIMS, COMPATIBLE, SCORED)
    for together, placement, depth, *waits in product((True, False), placements, (0, 2), (0.0, 60.0), (0.0, 60.0)):
        options = PreemptionOptions(
            together=together,
            placement=placement,
            cascade_depth=depth,
            wait_for_completions=waits[0],
            wait_for_checkpoint=waits[1],
        )
        expected = together and placement == MINIMIZE_VICTIMS and not depth and not any(waits)
        assert DefaultPreemption(options).plans_together is expected


_PREEMPTORS: dict[str, tuple[list[Any], bool]] = {
    "pod": ([pod("p", priority=9)], True),
    "pod that never preempts": ([pod("p", priority=9, never=True)], False),
    "pod within its delay": ([(pod("p", priority=9, annotations=annotated(preemption_delay="5m")), START)], False),
    "pod after its delay": ([(pod("p", priority=9, annotations=annotated(preemption_delay="5m")), START - 300)], True),
    "pod with a predecessor": ([of_job(pod("p", priority=9), "job")], False),
    "gang": ([group("g", min_count=1, priority=9), pod("p", group="g", priority=9)], True),
    "gang that never preempts": ([group("g", min_count=1, priority=9), pod("p", group="g", never=True)], False),
    "gang without an object": ([pod("p", group="g", priority=9)], False),
    "gang with a predecessor": (
        [group("g", min_count=1, priority=9), of_job(pod("p", group="g", priority=9), "job")],
        False,
    ),
}


@pytest.mark.parametrize(("items", "may"), _PREEMPTORS.values(), ids=_PREEMPTORS)
def test_preemptors_that_may_evict_with_others(items: list[Any], may: bool) -> None:
    """cost.md 8.2: those that may evict pods now."""
    leaving = of_job(pod("old", node="n", terminating=True, grace=600), "job")
    world = World(node("n"), leaving, *items)
    record = world.record("p")
    of = world.engine.cluster.groups[record.group] if record.group is not None else None
    assert _plugin(world).may_join([record], of) is may


@pytest.mark.parametrize(
    ("nodes", "size", "spanning", "of_group", "may"),
    [
        (101, 1, False, False, False),
        (101, 2, False, False, True),
        (101, 1, True, False, True),
        (101, 1, False, True, True),
        (100, 1, False, False, True),
    ],
)
def test_evictions_that_cannot_be_cheaper_together(
    nodes: int, size: int, spanning: bool, of_group: bool, may: bool
) -> None:
    """cost.md 8.3: in a large cluster where no node holds two of the pods and no victim has several nodes."""
    world = World(
        *[node(f"n{turn}", cpu=size if turn == 7 else 1) for turn in range(nodes)],
        group("w", min_count=2, whole=True),
        *[pod(f"w{turn}", node=f"n{turn}", group="w") for turn in range(2)],
        pod("v", node="n0"),
        pod("p", cpu=1, priority=9),
    )
    record = world.record("p")
    unit = units_of(world)["w" if spanning else "v"]
    verdicts = (Verdict(unit, False, Reason(record, 0, "", "")),)
    own = Preemption(None if of_group else record, None, 9, "n0", ((record, 0),), verdicts)
    assert _plugin(world).may_gain(own) is may


def _peer(world: World, name: str, of: Any = None) -> Peer:
    record = world.record(name)
    return Peer(f"pod/{record.uid}", of, [record], lambda *_: ())


@pytest.mark.parametrize(
    ("count", "names", "searched"),
    [
        (36, ["a", "b"], None),
        (37, ["a", "b"], range(36)),
        (40, ["a", "b", "a2"], range(38)),
        (40, ["a", "large"], [*range(26), *range(30, 40)]),
        (40, ["a", "grouped"], None),
    ],
)
def test_nodes_that_are_searched_for_several_pods(count: int, names: list[str], searched: Any) -> None:
    """cost.md 8.3: two for each and 32 more, those with the cheapest evictions of each sort of pods by turns."""
    world = World(
        *[node(f"n{turn:02}", cpu=1, gpu=1 if turn >= 30 else 0) for turn in range(count)],
        *[
            pod(f"v{turn}", cpu=1, gpu=1 if turn >= 30 else 0, node=f"n{turn:02}", priority=turn)
            for turn in range(count)
        ],
        *[pod(name, cpu=1, priority=99) for name in ("a", "b", "a2")],
        pod("large", gpu=1, priority=99),
        group("g", min_count=1, priority=99),
        pod("grouped", cpu=1, group="g", priority=99),
    )
    of = world.engine.cluster.groups["default/g"]
    peers = [_peer(world, name, of if name == "grouped" else None) for name in names]
    placement = _plugin(world)._within(peers)
    if searched is None:
        assert placement is None
        return
    assert placement is not None
    assert placement.rows.tolist() == sorted(world.row(f"n{turn:02}") for turn in searched)
