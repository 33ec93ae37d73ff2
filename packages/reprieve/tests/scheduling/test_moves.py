"""Which units could move for a pending entity, asked directly (moving.md 1 and 2)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules import objects
from reprieve.scheduling import moves
from tests.building import START, World, composite, gang, group, node, pod
from tests.plugins.neighbours import HOST, rules, term
from tests.scheduling.plugins_for_tests import Fragile
from tests.scheduling.test_carried_moves import owned

Found = tuple[dict[str, str] | None, bool]
"""Name of each pod that moves -> its new node, or None; whether the search hit its limit."""


def found(*items: Any, staying: str = "") -> Found:
    """Return what could move for `train`; all but one unit may."""
    world = World(*items)
    names = world.engine.cluster.nodes.names
    plan, spent = moves.find_moves(
        world.engine.running, world.entity("train"), lambda unit: unit.pods[0].name != staying
    )
    if plan is None:
        return None, spent
    return {p.name: names[row] for move in plan.moves for p, row in zip(move.unit.pods, move.rows, strict=True)}, spent


def on(name: str, where: str, cpu: int = 1, **more: Any) -> objects.Pod:
    return pod(name, cpu=cpu, node=where, start=START - 900.0, **more)


def gang_on(name: str, where: str, count: int, **more: Any) -> list[Any]:
    return [group(name, min_count=count, **more), *(on(f"{name}-{i}", where, group=name) for i in range(count))]


TRAIN = pod("train", cpu=4)
SCATTERED = [node("n1"), node("n2"), on("tune", "n2", 3), TRAIN]
"""One pod on n1 would be in the way, and fits on n2."""


@pytest.mark.parametrize(("size", "considered"), [(64, True), (65, False)])
def test_gangs_of_so_many_pods_are_considered(size: int, considered: bool) -> None:
    """moving.md 1.2"""
    nodes = [node("n1", cpu=size), node("n2", cpu=40), node("n3", cpu=40)]
    plan, spent = found(nodes, gang_on("large", "n1", size), pod("train", cpu=size))
    assert (len(plan) if plan else 0, spent) == (size if considered else 0, False)


@pytest.mark.parametrize(("size", "considered"), [(64, True), (65, False)])
def test_groups_of_so_many_pending_pods_are_considered(size: int, considered: bool) -> None:
    """moving.md 1.2, 2.4: what is not considered is not called impossible."""
    items = [node("n1", cpu=2 * size), node("n2", cpu=1), on("small", "n1"), gang("train", size, cpu=2)]
    assert found(*items) == (({"small": "n2"}, False) if considered else (None, True))


def test_nothing_moves_without_enough_free_capacity() -> None:
    """moving.md 2.2"""
    assert found(*SCATTERED, on("small", "n1", 2)) == (None, False)


def nominated(item: objects.Pod, where: str) -> objects.Pod:
    return replace(item, status=replace(item.status, nominated_node_name=where))


def test_capacity_that_is_reserved_for_the_entity_itself_is_free() -> None:
    """moving.md 2.2"""
    assert found(*SCATTERED[:3], nominated(TRAIN, "n1"), on("small", "n1")) == ({"small": "n2"}, False)


def test_capacity_that_is_reserved_for_others_is_not_free() -> None:
    """moving.md 2.2"""
    other = nominated(pod("other", cpu=1), "n2")
    assert found(*SCATTERED, node("n3", cpu=3), on("small", "n1"), other) == ({"small": "n3"}, False)


@pytest.mark.parametrize(
    "staying",
    [
        [composite("tree"), group("leaf", parent="tree"), on("a", "n0", group="leaf")],
        [on("a", "n0", terminating=True)],
        [owned(on("a", "n0"), "set", kind="DaemonSet")],
        [owned(on("a", "n0"), "n0", kind="Node")],
    ],
    ids=["in a tree", "terminating", "of a DaemonSet", "static"],
)
def test_what_stays(staying: list[Any]) -> None:
    """moving.md 1.1, 1.2: another pod moves instead."""
    assert found(node("n0"), staying, *SCATTERED, on("small", "n1")) == ({"small": "n2"}, False)


def test_members_of_the_pending_gang_stay() -> None:
    """moving.md 2.2: as many pods count as its minimum lacks."""
    items = [node("n0"), group("train", min_count=2), on("train-0", "n0", group="train")]
    items += [pod(f"train-{i}", cpu=4, group="train") for i in (1, 2)]
    assert found(items, *SCATTERED[:3], on("small", "n1")) == ({"small": "n2"}, False)


def test_amounts_count_that_only_the_moving_pods_ask_for() -> None:
    """moving.md 2.2: ten nodes have a free GPU without the CPUs."""
    nodes = [node("n", gpu=2), *(node(f"o{i}", cpu=1, gpu=1) for i in range(10)), node("z", cpu=2, gpu=1)]
    assert found(nodes, on("small", "n", 2, gpu=1), pod("train", gpu=2)) == ({"small": "z"}, False)


@pytest.mark.parametrize("more", [[], [node("b3", cpu=3, labels={"rack": "b"})]], ids=["last", "first"])
def test_domain_with_the_fewest_units_is_taken(more: list[Any]) -> None:
    """moving.md 2.1, 2.2: whether it has the most free capacity or not."""
    racks = [node(f"{rack}{i}", labels={"rack": rack}) for rack in "ab" for i in (1, 2)]
    running = [on("a-1", "a1"), on("a-2", "a2"), on("b-1", "b1"), on("b-2", "b2"), on("b-3", "b2")]
    plan, _ = found(racks, more, node("spare", cpu=3), running, gang("train", 2, cpu=4, topology="rack"))
    assert plan is not None
    assert set(plan) == {"a-1", "a-2"}


def test_pending_gang_gets_capacity_in_one_domain() -> None:
    """moving.md 2.1: a node of each rack would be free with one move."""
    racks = [node(f"{rack}{i}", labels={"rack": rack}) for rack in "ab" for i in (1, 2)]
    running = [on("a-1", "a1"), on("a-2", "a2"), *(on(f"b-{i}", "b2") for i in range(3))]
    plan, limited = found(racks, node("spare", cpu=3), running, gang("train", 2, cpu=4, topology="rack"))
    assert plan is not None
    assert (set(plan), limited) == ({"a-1", "a-2"}, False)


def test_moving_gang_stays_in_one_domain() -> None:
    """moving.md 2.3"""
    nodes = [node("n1", labels={"rack": "n"}), node("x1", cpu=1, labels={"rack": "x"})]
    nodes += [node(f"y{i}", cpu=1, labels={"rack": "y"}) for i in (1, 2)]
    plan, _ = found(nodes, gang_on("pair", "n1", 2, topology="rack"), TRAIN)
    assert plan is not None
    assert sorted(plan.values()) == ["y1", "y2"]


def test_search_goes_on_without_a_place_that_a_filter_refuses() -> None:
    """moving.md 2.3: beside `tune` it may not run, whatever is free there."""
    apart = rules(apart=[term(HOST, {"app": "web"})])
    hosts = [node(name, labels={HOST: name}) for name in ("n1", "n2", "n3")]
    items = [on("tune", "n2", 3, labels={"app": "web"}), on("low", "n3"), on("small", "n1", affinity=apart)]
    assert found(hosts, items, TRAIN, staying="low") == ({"small": "n3"}, False)


@pytest.mark.parametrize(("most", "plan"), [(256, {"a-1", "a-2"}), (1, None)])
def test_nodes_that_lack_least_are_considered(
    most: int, plan: set[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """moving.md 2.2: of those that the pending pod may use."""
    monkeypatch.setattr(moves, "_MOST_ROWS", most)
    nodes = [node("a"), node("b"), node("c", cpu=2), node("closed", unschedulable=True)]
    moving, _ = found(nodes, on("a-1", "a"), on("a-2", "a"), on("b-1", "b"), TRAIN, staying="b-1")
    assert (set(moving) if moving is not None else None) == plan
    if most == 1:
        assert found(nodes, on("a-1", "a"), on("a-2", "a"), on("b-1", "b"), TRAIN)[0] is not None


@pytest.mark.parametrize("reserved", [0, 1])
def test_reserved_nodes_are_not_proposed(reserved: int) -> None:
    """moving.md 2.2, 2.4: the search is complete without them."""
    nodes = [node("n1"), *(node(f"r{i}", cpu=1) for i in range(10)), node("odd", cpu=1, unschedulable=True)]
    claims = [nominated(pod(f"p{i}", cpu=1), f"r{i}") for i in range(10)][: 10 * reserved]
    assert found(nodes, claims, on("small", "n1"), TRAIN) == (None if reserved else {"small": "r0"}, False)


@pytest.mark.parametrize(("refusing", "result"), [(7, ({"small": "z"}, False)), (8, (None, True))])
def test_eight_proposals_are_checked(refusing: int, result: Found) -> None:
    """moving.md 2.3, 2.4: a search that ends there reports it."""
    apart = rules(apart=[term(HOST, {"app": "web"})])
    names = [f"h{i}" for i in range(refusing)]
    hosts = [node(name, cpu=1, labels={HOST: name}) for name in (*names, "z")]
    web = [on(f"web-{name}", name, 0, labels={"app": "web"}) for name in names]
    assert found(node("n1", labels={HOST: "n1"}), hosts, web, on("small", "n1", affinity=apart), TRAIN) == result


def test_search_goes_on_without_a_node_that_a_filter_refuses_to_the_pending_pod() -> None:
    """moving.md 2.3: `web` stays beside the first one."""
    hosts = [node(name, labels={HOST: name}) for name in ("n1", "n3", "n2")]
    web = on("web", "n1", 0, labels={"app": "web"})
    train = pod("train", cpu=4, affinity=rules(apart=[term(HOST, {"app": "web"})]))
    running = [on("tune", "n2", 3), on("small", "n1"), on("low", "n3"), web]
    assert found(hosts, running, train, staying="web") == ({"low": "n2"}, False)


def test_one_pod_counts_of_a_group_that_is_no_gang() -> None:
    """moving.md 2.2: each of its pods is placed by itself."""
    pair = [group("train"), *(pod(f"train-{i}", cpu=4, group="train") for i in range(2))]
    assert found(*SCATTERED[:3], pair, on("small", "n1")) == ({"small": "n2"}, False)


def test_nothing_moves_for_a_group_that_runs_in_two_domains() -> None:
    """moving.md 2.1: it can be placed nowhere."""
    racks = [node(name, labels={"rack": name}) for name in ("a", "b")]
    gone_astray = [on("train-0", "a", group="train"), on("train-1", "b", group="train")]
    made = [group("train", min_count=3, topology="rack"), pod("train-2", cpu=4, group="train")]
    assert found(racks, made, gone_astray, *SCATTERED[:3], on("small", "n1")) == (None, False)


def test_plugin_that_fails_is_reported() -> None:
    """scheduling.md 5.4: no move is found."""
    profile = Fragile(1).profile()
    world = World(*SCATTERED, on("small", "n1"), profiles={profile.name: profile})
    plan = moves.find_moves(world.engine.running, world.entity("train"), lambda unit: True)
    assert plan == (None, False)
    assert [incident.plugin for incident in world.engine.tick(world.now).incidents] == ["Fragile"]
