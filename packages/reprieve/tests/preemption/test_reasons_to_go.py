"""Why each victim must be evicted: which pod would not fit beside it, where, what is missing (preemption.md 4.3)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any
from unittest.mock import Mock

import pytest

from reprieve.framework.plugin import CycleState
from reprieve.preemption.incremental_filters import IncrementalFilters, _PodwiseFilter
from reprieve.preemption.order import Ranking
from reprieve.preemption.outcome import MissingAmount, Reason
from reprieve.preemption.reprieved_units import judge, reasons_to_go, verdicts_of
from reprieve.preemption.units import PreemptionUnit, scheduled_pods, units_below
from tests.building import World, gang, group, node, pdb, pod
from tests.plugins.neighbours import HOST, ZONE, rules, spread, spreading, term
from tests.preemption.by_name import units_of
from tests.preemption.seeds import each_seed

PATHS = pytest.mark.parametrize("plain", [False, True], ids=["fast", "plain"])


def _reasons(
    world: World, placed: Sequence[tuple[str, str]], *, plain: bool, priority: int = 9
) -> dict[str, tuple[str, str, str, str, tuple[MissingAmount, ...]]]:
    """By victim: pod, node, plugin, text, and what is missing; the cluster cache is as it was."""
    cluster = world.engine.cluster
    running = world.engine.running["default-scheduler"]
    units = units_below(cluster, priority, scheduled_pods(cluster))
    before = cluster.digest()
    with cluster.trial():
        ranking = Ranking(cluster, units)
        cluster.displace_all([one for unit in units for one in unit.pods])
        assigned = [(world.record(name), world.row(on)) for name, on in placed]
        found = reasons_to_go(running, ranking, assigned, priority, plain=plain)
    assert cluster.digest() == before
    return {ranking.ordered[index].name.removeprefix("default/"): _plain(world, why) for index, why in found.items()}


def _plain(world: World, why: Reason) -> tuple[str, str, str, str, tuple[MissingAmount, ...]]:
    return why.pod.name, world.engine.cluster.nodes.names[why.row], why.plugin, why.text, why.missing


def _cpu(short: int, asked: int) -> tuple[MissingAmount, ...]:
    return (MissingAmount("cpu", short, asked),)


@PATHS
def test_reasons_name_missing_amounts(plain: bool) -> None:
    """The most important stay as long as there is room."""
    world = World(
        node("n1", cpu=4),
        *[pod(f"v{i}", cpu=1, node="n1", priority=i) for i in range(4)],
        pod("new", cpu=2, priority=9),
    )
    found = _reasons(world, [("new", "n1")], plain=plain)
    why = ("new", "n1", "NodeResourcesFit", "Insufficient cpu", _cpu(1000, 2000))
    assert found == {"v1": why, "v0": why}


@PATHS
def test_all_that_is_missing_is_named_the_scarcest_first(plain: bool) -> None:
    world = World(
        node("n1", cpu=4, memory="4Gi", pods=2),
        pod("v", cpu=3, memory="1Gi", node="n1"),
        pod("stays", node="n1", priority=50),
        pod("new", cpu=2, memory="4Gi", priority=9),
    )
    (why,) = _reasons(world, [("new", "n1")], plain=plain).values()
    gi = 1 << 30
    missing = (MissingAmount("pods", 1, 1), MissingAmount("cpu", 1000, 2000), MissingAmount("memory", gi, 4 * gi))
    assert (why[2], why[4]) == ("NodeResourcesFit", missing)
    told = ["Too many pods", "Insufficient cpu", "Insufficient memory"]
    assert why[3].split(", ") == (sorted(told) if plain else told)


@PATHS
def test_unit_that_violates_a_budget_is_kept_first(plain: bool) -> None:
    """preemption.md 3.4: although it is less important."""
    world = World(
        node("n1", cpu=2),
        pdb("b", {"app": "x"}),
        pod("torn", cpu=1, node="n1", priority=1, labels={"app": "x"}),
        pod("dear", cpu=1, node="n1", priority=5),
        pod("new", cpu=1, priority=9),
    )
    assert list(_reasons(world, [("new", "n1")], plain=plain)) == ["dear"]


@PATHS
def test_unit_of_several_nodes_goes_for_any_of_them(plain: bool) -> None:
    """Whole or not at all: what it would hold elsewhere is free for others then."""
    world = World(
        node("n1", cpu=2),
        node("n2", cpu=2),
        *gang("w", 1, cpu=1, node="n1", whole=True, priority=5),
        pod("w-1", cpu=1, node="n2", group="w"),
        pod("v", cpu=1, node="n1", priority=1),
        pod("a", cpu=2, priority=9),
        pod("b", cpu=1, priority=9),
    )
    found = _reasons(world, [("b", "n1"), ("a", "n2")], plain=plain)
    assert {name: why[:3] for name, why in found.items()} == {"w": ("a", "n2", "NodeResourcesFit")}
    found = _reasons(world, [("b", "n1")], plain=plain)
    assert list(found) == ["v"]


@PATHS
def test_unit_outside_the_placement_stays(plain: bool) -> None:
    world = World(node("n1", cpu=1), node("n2", cpu=1), pod("v", cpu=1, node="n2"), pod("new", cpu=1, priority=9))
    assert _reasons(world, [("new", "n1")], plain=plain) == {}


@PATHS
def test_several_pods_on_a_node_need_room_together(plain: bool) -> None:
    """preemption.md 4.9: what is missing is counted over all that they request together."""
    world = World(
        node("n1", cpu=4),
        pod("v", cpu=2, node="n1"),
        pod("a", cpu=1, priority=9),
        pod("b", cpu=2, priority=9),
    )
    (why,) = _reasons(world, [("a", "n1"), ("b", "n1")], plain=plain).values()
    assert why == ("b", "n1", "NodeResourcesFit", "Insufficient cpu", _cpu(1000, 3000))


@PATHS
def test_room_that_is_held_by_equals_counts(plain: bool) -> None:
    """preemption.md 3.4: nominated pods of equal or higher priority count as running."""
    for held, goes in ((9, True), (8, False)):
        world = World(
            node("n1", cpu=3),
            pod("v", cpu=1, node="n1"),
            pod("held", cpu=1, priority=held, nominated="n1", gates=["x"]),
            pod("new", cpu=2, priority=9),
        )
        assert bool(_reasons(world, [("new", "n1")], plain=plain)) is goes


@PATHS
def test_rule_about_other_pods_is_the_reason(plain: bool) -> None:
    """Of the first pod in scheduling order that it concerns; others of the unit's node fit."""
    away = rules(apart=[term(ZONE, {"app": "noisy"})])
    world = World(
        node("n1", cpu=9, labels={"zone": "z"}),
        node("n2", cpu=9, labels={"zone": "z"}),
        pod("noisy", cpu=1, node="n2", labels={"app": "noisy"}),
        pod("quiet", cpu=1, node="n1"),
        pod("a", cpu=1, priority=9),
        pod("b", cpu=1, priority=9, affinity=away),
        pod("c", cpu=1, priority=9, affinity=away),
    )
    found = _reasons(world, [("a", "n1"), ("b", "n1"), ("c", "n1")], plain=plain)
    assert found == {
        "noisy": ("b", "n1", "InterPodAffinity", "node(s) didn't match pod anti-affinity rules", ()),
    }


@PATHS
def test_host_port_is_the_reason(plain: bool) -> None:
    """What is no amount is missing nowhere; any other pod there stays."""
    world = World(
        node("n1", cpu=9),
        pod("holder", cpu=1, node="n1", ports=[80]),
        pod("other", cpu=1, node="n1", ports=[81]),
        pod("new", cpu=1, priority=9, ports=[80]),
    )
    found = _reasons(world, [("new", "n1")], plain=plain)
    assert found == {
        "holder": ("new", "n1", "NodePorts", "node(s) didn't have free ports for the requested pod ports", ()),
    }


@PATHS
def test_amount_is_the_reason_beside_a_rule(plain: bool) -> None:
    world = World(
        node("n1", cpu=2),
        pod("v", cpu=1, node="n1"),
        pod("new", cpu=2, priority=9, ports=[80]),
    )
    (why,) = _reasons(world, [("new", "n1")], plain=plain).values()
    assert why == ("new", "n1", "NodeResourcesFit", "Insufficient cpu", _cpu(1000, 2000))


@PATHS
def test_verdicts_on_all_in_the_order_of_importance(plain: bool) -> None:
    world = World(
        node("n1", cpu=3),
        pdb("b", {"app": "x"}),
        pod("v0", cpu=1, node="n1", priority=0, labels={"app": "x"}),
        pod("v1", cpu=1, node="n1", priority=1),
        pod("v2", cpu=1, node="n1", priority=2),
        pod("new", cpu=1, priority=9),
    )
    cluster = world.engine.cluster
    running = world.engine.running["default-scheduler"]
    units: list[PreemptionUnit] = units_below(cluster, 9, scheduled_pods(cluster))
    with cluster.trial():
        ranking = Ranking(cluster, units)
        cluster.displace_all([one for unit in units for one in unit.pods])
        found = judge(running, ranking, [(world.record("new"), world.row("n1"))], 9, plain=plain)
    assert [(v.unit.name, v.violates_pdb, v.evicted) for v in found] == [
        ("default/v2", False, False),
        ("default/v1", False, True),
        ("default/v0", True, False),
    ]
    assert [verdict.evicted for verdict in verdicts_of(ranking, {})] == [False] * 3


def test_nothing_else() -> None:
    """The cases above are decided by what they name: a roomy node keeps all pods."""
    more: dict[str, Any] = {"priority": 9, "ports": [80]}
    world = World(node("n1", cpu=9), pod("v", cpu=1, node="n1"), pod("new", cpu=2, **more))
    assert _reasons(world, [("new", "n1")], plain=False) == {}


def _ruled(chance: random.Random, name: str, rule: int, label: str) -> Any:
    """A preemptor with one of six sorts of rules."""
    key, selected = chance.choice((HOST, ZONE)), {"app": label}
    asking: dict[str, Any] = {"cpu": 1, "priority": 9, "labels": {"app": "x"}}
    if rule == 0:
        return spreading(pod(name, **asking), spread(key, selected))
    if rule == 1:
        return pod(name, affinity=rules(apart=[term(key, {"app": "y"})]), **asking)
    if rule == 2:
        return pod(name, affinity=rules(near=[term(ZONE, {"app": "x"})]), **asking)
    return pod(name, ports=[80] if rule == 3 else [], **{**asking, "cpu": chance.randint(1, 3)})


@each_seed(range(14))
def test_fast_and_plain_paths_spare_the_same_units(seed: int) -> None:
    """preemption.md 3.4, 4.3: beside nominated pods too, which count as running on their node."""
    chance = random.Random(seed)
    items: list[Any] = [node(f"n{i}", cpu=6, labels={HOST: f"n{i}", ZONE: "ab"[i % 2]}) for i in range(4)]
    items += [group(f"w{i}", min_count=1, priority=chance.randint(0, 3), whole=True) for i in range(2)]
    for turn in range(12):
        more: dict[str, Any] = {"group": f"w{turn}"} if turn < 2 else {"group": f"w{turn - 2}"} if turn < 4 else {}
        ports = [80] if chance.random() < 0.2 else []
        labels, on = {"app": chance.choice("xyz")}, f"n{chance.randrange(4)}"
        items.append(pod(f"v{turn}", cpu=1, node=on, priority=chance.randint(0, 4), labels=labels, ports=ports, **more))
    for turn in range(chance.randint(0, 3)):
        more = {"labels": {"app": chance.choice("xz")}, "nominated": f"n{chance.randrange(4)}", "gates": ["x"]}
        items.append(pod(f"nominated{turn}", cpu=1, priority=chance.choice((5, 9, 20)), **more))
    sorts = [chance.randrange(6), chance.randrange(6)]
    label = chance.choice("xz")
    preemptors = [f"p{turn}" for turn in range(4)]
    items += [
        _ruled(random.Random(seed + turn % 2), name, sorts[turn % 2], label) for turn, name in enumerate(preemptors)
    ]
    world = World(*items)
    cluster, running = world.engine.cluster, world.engine.running["default-scheduler"]
    units = units_below(cluster, 9, scheduled_pods(cluster))
    results = []
    with cluster.trial():
        ranking = Ranking(cluster, units)
        cluster.displace_all([one for unit in units for one in unit.pods])
        assigned = []
        with cluster.trial():
            for name in preemptors:
                record = world.record(name)
                state = CycleState(cluster, record)
                fitting = [row for row in range(4) if running.evaluator.fits_row(state, row)]
                if fitting:
                    assigned.append((record, chance.choice(fitting)))
                    cluster.place(*assigned[-1])
        for plain in (False, True):
            with cluster.trial():
                results.append(set(reasons_to_go(running, ranking, assigned, 9, plain=plain)))
    assert results[0] == results[1]


def test_unit_that_concerns_no_rule_is_not_checked_again() -> None:
    """preemption.md 9.5: nor are pods beside nominated ones, which are checked after each change that counts."""
    items = [
        *[node(f"n{i}", cpu=6, labels={HOST: f"n{i}", ZONE: "z"}) for i in range(2)],
        *[pod(name, node="n1", labels={"app": name}) for name in ("x", "y")],
        pod("nominated", priority=9, nominated="n0", gates=["x"]),
        *[spreading(pod(f"p{i}", priority=9), spread(ZONE, {"app": "x"}, skew=9)) for i in range(2)],
    ]
    world = World(*items)
    cluster, running = world.engine.cluster, world.engine.running["default-scheduler"]
    units = units_of(world, 9)
    with cluster.trial():
        cluster.displace_all([one for unit in units.values() for one in unit.pods])
        seats = [(CycleState(cluster, world.record(f"p{i}")), world.row(f"n{i}")) for i in range(2)]
        filters = IncrementalFilters.counted(running, seats)
        assert filters is not None
        assert filters.add(units["y"]) == set()
        assert filters.add(units["x"]) == {0}


def test_filter_without_a_summary_is_notified_pod_by_pod() -> None:
    """preemption.md 9.5: for every assigned pod, unless the pod is of no interest to the first of them."""
    plugin, states, record = Mock(), [Mock(), Mock(), Mock()], Mock()
    filters = _PodwiseFilter(plugin, states)
    assert list(filters.suspects()) == []
    for by, notify, unused in ((1, plugin.add_pod, plugin.remove_pod), (-1, plugin.remove_pod, plugin.add_pod)):
        for counts in (False, True):
            plugin.reset_mock()
            notify.return_value = counts
            assert filters.count(record, 5, by) is counts
            notified = states if counts else states[:1]
            assert [call.args for call in notify.call_args_list] == [(state, record, 5) for state in notified]
            unused.assert_not_called()
            assert list(filters.suspects()) == ([0, 1, 2] if counts else [])
            assert list(filters.suspects()) == []
