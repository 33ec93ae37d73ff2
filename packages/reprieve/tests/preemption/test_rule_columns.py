"""Rules about ports and other pods as amounts, for the search for victims (cost.md 4.5)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from kube_rules import objects
from reprieve.cluster.state import ClusterState
from reprieve.preemption.units import PreemptionUnit
from reprieve.preemption.victim_search import rule_columns as module
from reprieve.preemption.victim_search.rule_columns import RuleColumn, rule_columns, shares_with_rules
from tests.building import World, node, pod
from tests.plugins import devices as dra
from tests.plugins.neighbours import HOST, rules, term


@pytest.mark.parametrize(("ports", "used"), [(16, 16), (17, 0), (500, 0)])
def test_preemptor_with_many_ports_is_no_more_work(monkeypatch: pytest.MonkeyPatch, ports: int, used: int) -> None:
    """cost.md 4.5: of a preemptor with more than 16 rules none is considered, and no more than 17 are computed."""
    made: list[RuleColumn] = []

    def counted(*args: Any) -> RuleColumn:
        made.append(RuleColumn(*args))
        return made[-1]

    monkeypatch.setattr(module, "RuleColumn", counted)
    world = World(node("n1"), pod("many", cpu=1, ports=range(1, ports + 1)))
    pending = [item for item in world.engine.cluster.pods.values() if item.name == "many"]
    assert len(rule_columns(world.engine.cluster, pending)) == used
    assert len(made) == min(ports, 17)


def test_domains_of_a_label_are_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """cost.md 4.5: however many terms name it, and no more than 64 of them."""
    keys: list[str] = []
    original = module._LabelDomains

    def counted(cluster: ClusterState, key: str) -> module._LabelDomains:
        keys.append(key)
        return original(cluster, key)

    monkeypatch.setattr(module, "_LabelDomains", counted)
    terms = tuple(
        objects.PodAffinityTerm(
            topology_key="zone" if turn < 60 else f"label-{turn}",
            label_selector=objects.LabelSelector(match_labels={"turn": str(turn)}),
        )
        for turn in range(100)
    )
    apart = objects.Affinity(
        pod_anti_affinity=objects.PodAntiAffinity(required_during_scheduling_ignored_during_execution=terms)
    )
    machines = [node(f"n{i}", labels={"zone": "a"}) for i in range(70)]
    world = World(*machines, pod("apart", cpu=1, affinity=apart))
    pending = [item for item in world.engine.cluster.pods.values() if item.name == "apart"]
    rule_columns(world.engine.cluster, pending)
    assert keys == ["zone", "label-60", "label-61", "label-62", "label-63"]


def _free(world: World, *names: str) -> list[list[int]]:
    """By rule of these pods: what is free on n0, n1 and so on."""
    cluster = world.engine.cluster
    rows = [cluster.nodes.row_of[name] for name in sorted(cluster.nodes.row_of)]
    return [rule.free[rows].tolist() for rule in rule_columns(cluster, [world.record(name) for name in names])]


def test_host_ports_exist_once() -> None:
    """cost.md 4.5: each protocol and number by itself, in use by any address that conflicts."""
    world = World(
        *[node(f"n{i}") for i in range(5)],
        pod("r0", node="n0", ports=[80]),
        pod("r1", node="n1", ports=[(80, "UDP")]),
        pod("r2", node="n2", ports=[(80, "TCP", "10.0.0.1")]),
        pod("r3", node="n3", ports=[81]),
        pod("web", ports=[80, 443]),
        pod("own", ports=[(443, "TCP", "10.0.0.2"), (53, "UDP")]),
        pod("none"),
    )
    assert _free(world, "web", "own", "none") == [[0, 1, 0, 1, 1], [1, 1, 1, 1, 1], [1, 1, 1, 1, 1]]
    every = rule_columns(world.engine.cluster, [world.record(name) for name in ("web", "own", "none")])
    wanted = {name: [rule.wants(world.record(name)) for rule in every] for name in ("web", "own", "none", "r1")}
    assert wanted == {"web": [1, 1, 0], "own": [0, 1, 1], "none": [0, 0, 0], "r1": [0, 0, 0]}
    assert [dict(rule.takes(world.record("r0"), 7)) for rule in every] == [{7: 1}, {}, {}]


def _apart(name: str, key: str, labels: dict[str, str]) -> objects.Pod:
    return pod(name, labels={"app": name[0]}, affinity=rules(apart=[term(key, labels)]))


def test_excluded_pods_use_their_domain() -> None:
    """cost.md 4.5: members that exclude each other use a node each; in a larger domain that is not expressed."""
    world = World(
        *[node(f"n{i}", labels={HOST: f"n{i}", "zone": "ab"[i // 2]}) for i in range(4)],
        node("n4", labels={HOST: "n4"}),
        pod("m-runs", node="n0", labels={"app": "m"}),
        pod("x-runs", node="n3", labels={"app": "x"}),
        _apart("m1", HOST, {"app": "m"}),
        _apart("m2", "zone", {"app": "x"}),
        _apart("m3", "zone", {"app": "m"}),
        pod("x-there"),
    )
    assert _free(world, "m1", "m2", "m3") == [[0, 1, 1, 1, 1], [3, 3, 0, 0, 3], [0, 0, 3, 3, 3]]
    every = rule_columns(world.engine.cluster, [world.record(name) for name in ("m1", "m2", "m3")])
    assert [[rule.wants(world.record(name)) for rule in every] for name in ("m1", "m2", "m3", "x-runs")] == [
        [1, 0, 0],
        [0, 1, 0],
        [0, 0, 1],
        [0, 0, 0],
    ]
    row, other = world.row("n2"), world.row("n3")
    assert [dict(rule.takes(world.record("x-runs"), row)) for rule in every] == [{}, {row: 3, other: 3}, {}]
    assert [dict(rule.takes(world.record("m-runs"), row)) for rule in every] == [{row: 1}, {}, {row: 3, other: 3}]
    unlabelled = world.row("n4")
    assert [dict(rule.takes(world.record("m-runs"), unlabelled)) for rule in every] == [{unlabelled: 1}, {}, {}]


@pytest.mark.parametrize(("nodes", "used"), [(64, 1), (65, 0)])
def test_rules_about_larger_domains_are_left_out(nodes: int, used: int) -> None:
    """cost.md 4.5: of more than 64 nodes."""
    world = World(*[node(f"n{i}", labels={"zone": "a"}) for i in range(nodes)], _apart("m", "zone", {"app": "x"}))
    assert len(rule_columns(world.engine.cluster, [world.record("m")])) == used


def test_devices_of_nodes_are_amounts() -> None:
    """cost.md 4.5: those that are not in use; a claim with options asks for the fewest."""
    options = [dra.option("many", count=3), dra.option("few", count=2)]
    world = World(
        dra.device_class(),
        *[node(f"n{i}") for i in range(3)],
        dra.slice_of("n0", dra.devices(4)),
        dra.slice_of("n1", dra.devices(2)),
        dra.claim("held", status=dra.allocated((dra.DRIVER, "n0", "gpu-0"), to=["uid-runs"])),
        dra.claim("two", dra.request("r", "gpu", count=2)),
        dra.claim("either", dra.first_of("r", *options)),
        dra.user("runs", "held", node="n0", uid="uid-runs"),
        dra.user("first", "two"),
        dra.user("second", "either"),
        pod("plain"),
    )
    assert _free(world, "first", "plain") == [[3, 2, 0]]
    assert _free(world, "plain") == []
    (rule,) = rule_columns(world.engine.cluster, [world.record("first"), world.record("second")])
    assert [rule.wants(world.record(name)) for name in ("first", "second", "plain", "runs")] == [2, 2, 0, 0]
    assert [dict(rule.takes(world.record(name), 5)) for name in ("runs", "first")] == [{5: 1}, {5: 0}]


def test_shares_of_units_with_rules() -> None:
    """cost.md 4.5: amounts of rules beside the others, on all nodes of a domain that count; sums over pods."""
    rows = {"a": {10: 1}, "b": {20: 2, 30: 2, 40: 2}, "c": {}}
    rule = RuleColumn(np.zeros(1, dtype=np.int64), lambda _: 0, lambda pod, row: {**rows[cast("str", pod)], row: 1})
    none = RuleColumn(np.zeros(1, dtype=np.int64), lambda _: 0, lambda _, row: {row: 0})
    units = [
        SimpleNamespace(pods=("a", "b"), rows=(20, 20)),
        SimpleNamespace(pods=("c",), rows=(40,)),
        SimpleNamespace(pods=("c",), rows=(30,)),
    ]
    takes = [((1, (5, 6)),), (), ((2, (1, 0)),)]
    shares, on = shares_with_rules(
        [none, rule], cast("list[PreemptionUnit]", units), {10: 0, 20: 1, 30: 2}, takes, width=2
    )
    assert shares == (
        ((0, (0, 0, 0, 1)), (1, (5, 6, 0, 2)), (2, (0, 0, 0, 2))),
        (),
        ((2, (1, 0, 0, 1)),),
    )
    assert [sorted(there) for there in on] == [[0], [0], [0, 2]]
