"""What is remembered of nodes for pods that preempt, and when it holds (preemption.md 3; cost.md 1.2, 2.6)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import pytest

from reprieve.framework.plugin import CycleState
from reprieve.framework.profile import Profile
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.options import PreemptionOptions
from reprieve.preemption.outcome import Preemption
from reprieve.preemption.pod_preemption import PodPreemption
from reprieve.preemption.unit_matrices import ABOVE_ALL
from tests.building import START, World, annotated, gang, group, node, pod, profile_with
from tests.plugins.devices import DRIVER, allocated, claim, device_class, devices, slice_of, user


def _for_pod(world: World) -> PodPreemption:
    plugins = world.engine.running["default-scheduler"].profile.plugins
    return next(plugin for plugin in plugins if isinstance(plugin, DefaultPreemption))._attached().for_pod


@contextmanager
def _asked(inner: PodPreemption) -> Iterator[Mock]:
    """The calls that evaluate one node."""
    with patch.object(inner, "_on_row", wraps=inner._on_row) as asked:
        yield asked


def _by_gangs() -> dict[str, Profile]:
    profile = profile_with(DefaultPreemption(PreemptionOptions(cost=("gangsBroken", "highestPriority"))))
    return {profile.name: profile}


def _gone(found: Preemption | None) -> list[str]:
    return sorted(one.name for verdict in found.victims for one in verdict.unit.pods) if found is not None else []


@pytest.mark.parametrize(
    ("running", "nominated", "priority", "alike"),
    [
        ([], [], 5, (-ABOVE_ALL, ABOVE_ALL)),
        ([0, 3, 7], [], 5, (4, 7)),
        ([0, 3], [], 5, (4, ABOVE_ALL)),
        ([7, 9], [], 5, (-ABOVE_ALL, 7)),
        ([4, 5], [], 5, (5, 5)),
        ([0], [3], 5, (4, ABOVE_ALL)),
        ([0, 9], [6], 5, (1, 6)),
    ],
)
def test_node_is_the_same_for_priorities(
    running: list[int], nominated: list[int], priority: int, alike: tuple[int, int]
) -> None:
    """As long as the same may go and the same nominated pods count; where filters are asked, only for its own."""
    world = World(
        node("n", cpu=9),
        *[pod(f"v{i}", node="n", priority=p) for i, p in enumerate(running)],
        *[pod(f"w{i}", priority=p, nominated="n", gates=["x"]) for i, p in enumerate(nominated)],
        pod("new", priority=priority),
    )
    state = CycleState(world.engine.cluster, world.record("new"))
    row = world.row("n")
    assert _for_pod(world)._same_for(state, row, numbers=True) == alike
    assert _for_pod(world)._same_for(state, row, numbers=False) == (priority, priority)


@pytest.mark.parametrize("priority", range(10))
def test_many_nodes_together_are_the_same_for_as_many_priorities(priority: int) -> None:
    """No wider than one by one: evictable pods and nominated pods that count are the same from the one to the other."""
    there = [([], []), ([0, 3, 7], []), ([7], []), ([4, 5], []), ([0], [3]), ([1], [5]), ([0, 9], [6]), ([2], [2, 8])]
    items: list[Any] = []
    for i, (running, nominated) in enumerate(there):
        items.append(node(f"n{i}", cpu=9))
        items += [pod(f"v{i}-{p}", cpu=1, node=f"n{i}", priority=p) for p in running]
        items += [pod(f"w{i}-{p}", cpu=1, priority=p, nominated=f"n{i}", gates=["x"]) for p in nominated]
    world = World(*items, pod("new", cpu=9, priority=priority))
    new, inner = world.record("new"), _for_pod(world)
    state = CycleState(world.engine.cluster, new)
    judged = inner._columns.judge(new, np.arange(len(there)))
    for row in range(len(there)):
        if judged.units[row]:
            running, nominated = there[int(world.engine.cluster.nodes.names[row][1:])]
            low, high = int(judged.low[row]), int(judged.high[row])
            assert low <= priority <= high
            for other in range(-1, 12):
                same = [p < other for p in running] == [p < priority for p in running]
                same = same and [p >= other for p in nominated] == [p >= priority for p in nominated]
                assert (low <= other <= high) is same
            assert (low, high) == inner._same_for(state, row, numbers=True)


def test_priority_of_a_members_group_counts() -> None:
    world = World(node("n", cpu=9), *gang("w", 1, node="n", priority=3), pod("new", priority=5))
    state = CycleState(world.engine.cluster, world.record("new"))
    assert _for_pod(world)._same_for(state, world.row("n"), numbers=True) == (4, ABOVE_ALL)


@pytest.mark.parametrize("row_of_gang", [0, 1])
def test_gang_that_shrinks_elsewhere_is_dearer(row_of_gang: int) -> None:
    """cost.md 1.3: `gangsBroken` looks beyond the node: what is remembered of its members' nodes is forgotten."""
    names = ["n0", "n1"] if row_of_gang == 0 else ["n1", "n0"]
    world = World(
        *[node(f"n{i}", cpu=1) for i in range(4)],
        group("g", min_count=1),
        pod("a", cpu=1, node=names[0], group="g"),
        pod("b", cpu=1, node=names[1], group="g"),
        pod("c", cpu=1, node="n2", priority=5),
        pod("x", cpu=1, node="n3", priority=-1),
        pod("p1", cpu=1, priority=9),
        profiles=_by_gangs(),
    )
    assert _gone(world.step().preemption) == ["x"]
    world.gone("b").add(pod("above", cpu=1, node=names[1], priority=50), pod("p2", cpu=1, priority=9))
    assert _gone(world.step().preemption) == ["c"]


def test_preemptors_for_devices_share_what_is_known_of_nodes_with_room_for_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A third asks for more than is free on a node, which is evaluated for it alone; so is one with a new claim."""
    names = [f"n{i}" for i in range(5)]
    items: list[Any] = [device_class()]
    for name in names:
        given = allocated((DRIVER, name, "gpu-0"), to=[f"uid-v-{name}"])
        items += [slice_of(name, devices(1)), claim(f"v-{name}", status=given)]
        items += [node(name, cpu=4 if name == "n0" else 8), user(f"v-{name}", f"v-{name}", node=name)]
    world = World(*items, *[claim(name) for name in "abcdef"])
    world.add(
        *[user(name, name, cpu=cpu, priority=9) for name, cpu in zip("abcdef", (1, 2, 4, 3, 2.8, 2.5), strict=True)]
    )
    asked = Mock(wraps=_for_pod(world)._on_row)
    monkeypatch.setattr(_for_pod(world), "_on_row", asked)
    expected = [world.row(name) for name in names]

    def evaluated(*names_and_rows: tuple[str, list[int]]) -> None:
        for name, rows in names_and_rows:
            assert _for_pod(world).cheapest_rows(world.record(name), 9) == expected
            assert [call.args[1] for call in asked.mock_calls] == rows
            asked.reset_mock()

    evaluated(("a", expected), ("b", []), ("c", [world.row("n0")]), ("c", []), ("d", []))
    world.add(pod("holds", cpu=5, priority=9, nominated="n1", gates=["x"]))
    n1 = [world.row("n1")]
    evaluated(("e", n1), ("f", n1), ("a", n1), ("b", []))
    item = claim("v-n2", status=allocated((DRIVER, "n2", "gpu-0"), to=["uid-v-n2", "uid-stranger"]))
    world.engine.set(item, 0.0)
    assert _for_pod(world).cheapest_rows(world.record("a"), 9) == [row for row in expected if row != world.row("n2")]
    assert [call.args[1] for call in asked.mock_calls] == [world.row("n2")]


def test_trials_leave_what_is_known_of_nodes() -> None:
    """A trial ends as it began: a gang that was displaced in it costs nothing to evaluate again."""
    items = [item for i in range(3) for item in (node(f"n{i}", cpu=1), pod(f"g-{i}", cpu=1, node=f"n{i}", group="g"))]
    waiting = [pod("p", cpu=1, priority=9), pod("other", cpu="900m", priority=9)]
    world = World(*items, group("g", min_count=1), *waiting, profiles=_by_gangs())
    cluster, inner = world.engine.cluster, _for_pod(world)
    with _asked(inner) as asked:
        rows = inner.cheapest_rows(world.record("p"), 9)
        assert sorted(call.args[1] for call in asked.mock_calls) == sorted(rows) == [0, 1, 2]
        with cluster.trial():
            cluster.displace_all([world.record(f"g-{i}") for i in range(3)])
            inner.cheapest_rows(world.record("other"), 9)
        asked.reset_mock()
        assert inner.cheapest_rows(world.record("p"), 9) == rows
        assert asked.mock_calls == []


def test_only_nodes_of_the_gang_that_shrank_are_evaluated_again() -> None:
    """cost.md 1.3: and not those of another gang. The pod fits on the node where one ended."""
    items: list[Any] = []
    for gang_name in ("g", "h"):
        items.append(group(gang_name, min_count=1))
        for i in range(2):
            name = f"{gang_name}-{i}"
            items += [node(name, cpu=1), pod(name, cpu=1, node=name, group=gang_name)]
    world = World(*items, pod("p", cpu=1, priority=9), profiles=_by_gangs())
    inner = _for_pod(world)
    with _asked(inner) as asked:
        inner.cheapest_rows(world.record("p"), 9)
        asked.reset_mock()
        world.gone("g-0")
        inner.cheapest_rows(world.record("p"), 9)
        assert [call.args[1] for call in asked.mock_calls] == [world.row("g-1")]


def test_least_recently_used_results_are_dropped() -> None:
    """The results for 64 kinds of pods are kept, and for each kind the last priority."""
    world = World(node("n", cpu=1), pod("v", cpu=1, node="n"))
    names = [f"p{i}" for i in range(65)]
    world.add(*[pod(name, cpu=f"{900 - i}m", priority=9) for i, name in enumerate(names)])
    world.add(pod("lower", cpu="900m", priority=8))
    inner, last = _for_pod(world), [("p0", 0), ("p64", 1), ("lower", 0), ("p0", 0), ("p1", 1)]
    with _asked(inner) as asked:
        for name, evaluations in [*((name, 1) for name in names[:64]), *last]:
            asked.reset_mock()
            assert inner.cheapest_rows(world.record(name), 9) == [0]
            assert len(asked.mock_calls) == evaluations, name
    assert len(inner._memory) == len(inner._latest) == 64


def test_work_annotations_are_not_remembered() -> None:
    """cost.md 2.6: the time alone makes a victim of a pod that was none."""
    world = World(
        *[node(f"n{i}", cpu=1) for i in range(3)],
        pod("a", cpu=1, node="n0", start=0.0, annotations=annotated(minimum_runtime="10m")),
        pod("b", cpu=1, node="n1", priority=5),
        pod("c", cpu=1, node="n2", priority=6),
        pod("p1", cpu=1, priority=9),
    )
    assert _gone(world.step().preemption) == ["b"]
    world.virtual.until(START + 601)
    world.add(pod("p2", cpu=1, priority=9))
    assert _gone(world.step().preemption) == ["a"]


def _uneven(on: str, name: str = "", priority: int = 0) -> list[Any]:
    """Two small pods, which a reprieve would let go, and the one that makes as much room."""
    each = (("a", 1, 2.0), ("b", 1, 3.0), ("c", 2, 1.0))
    return [pod(f"{name}{v}", cpu=cpu, node=on, start=start, priority=priority) for v, cpu, start in each]


@pytest.mark.parametrize("more", [{}, {"ports": [80]}], ids=["resources", "rules"])
@pytest.mark.parametrize("nodes", [1, 6])
def test_one_goes_where_a_reprieve_would_let_two_go(nodes: int, more: dict[str, Any]) -> None:
    """cost.md 4.8: looked at one by one and together, and where the filters have to agree."""
    world = World(
        node("n", cpu=4),
        *[node(f"m{i}", cpu=1) for i in range(nodes - 1)],
        *[
            pod(name, cpu=cpu, node="n", start=start)
            for name, cpu, start in (("a", 1, 2.0), ("b", 1, 3.0), ("c", 2, 1.0))
        ],
        pod("new", cpu=2, priority=9, **more),
    )
    found = world.step().preemption
    assert found is not None
    assert _gone(found) == ["c"]
    assert found.cost == (0, 0, 0, float(1 << 31), 1, 1, -START - 1)
    assert [(verdict.unit.name, verdict.evicted) for verdict in found.verdicts] == [
        ("default/c", True),
        ("default/a", False),
        ("default/b", False),
    ]


def test_cheaper_set_on_another_node_leaves_the_reprieves_choice_second() -> None:
    """cost.md 4.8: with what told them apart."""
    world = World(
        node("n1", cpu=4),
        node("n2", cpu=4),
        *[
            pod(name, cpu=cpu, node="n2", start=start)
            for name, cpu, start in (("a", 1, 2.0), ("b", 1, 3.0), ("c", 2, 1.0))
        ],
        *[pod(f"d{i}", cpu=1, node="n1", start=float(i)) for i in range(4)],
        pod("new", cpu=2, priority=9),
    )
    found = world.step().preemption
    assert found is not None
    assert (_gone(found), found.domain) == (["c"], "n2")
    assert found.compared is not None
    assert found.compared.domain == "n1"
    assert found.compared.cost is not None
    assert found.compared.cost[-3:-1] == (2, 2)
    assert found.compared.steps == (("smallest sum of victim priorities", 1),)
    assert found.candidates == 2


def test_most_hopeful_nodes_are_searched_of_many() -> None:
    """cost.md 4.8: 64 of them; what costs as much on a node before by name is not passed by."""
    items: list[Any] = []
    for i in range(70):
        name = f"n{i:02}"
        items.append(node(name, cpu=4))
        items += _uneven(name, name, -1) if i == 40 else [pod(f"{name}{v}", cpu=2, node=name) for v in "ab"]
    world = World(*items, pod("new", cpu=2, priority=9))
    found = world.step().preemption
    assert found is not None
    assert (_gone(found), found.domain, found.candidates) == (["n40c"], "n40", 70)
