"""Several preemptors at once: one eviction for all of them (cost.md 8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import Mock, patch

import pytest

from kube_rules import objects
from reprieve.preemption import default_preemption
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.joint_preemption import MOST_PREEMPTORS, plan_together
from reprieve.preemption.options import PreemptionOptions
from reprieve.scheduling.decision import Decision
from tests.building import Item, World, annotated, gang, group, node, pod, priority_class, profile_with
from tests.preemption.exact import NoSolutionError, cheapest
from tests.preemption.joint_instances import FAMILIES


def world_of(*items: Item | Sequence[Item], **options: Any) -> World:
    profile = profile_with(DefaultPreemption(PreemptionOptions(**options)))
    return World(*items, profiles={profile.name: profile})


def drained(world: World) -> list[Decision]:
    """Every decision until nothing is to be tried, without time passing."""
    decisions = []
    while (decision := world.engine.step(world.now).decision) is not None:
        decisions.append(decision)
    return decisions


def evicted(decisions: Sequence[Decision]) -> set[str]:
    made = [decision.preemption for decision in decisions if decision.preemption is not None]
    return {verdict.unit.name for preemption in made for verdict in preemption.victims}


def placed(decisions: Sequence[Decision]) -> set[str]:
    return {decision.ref for decision in decisions if decision.bindings or decision.preemption is not None}


def two_and_one() -> list[Any]:
    """By itself each pod takes a node of its own with one small victim; n3 has one victim for both."""
    return [
        node("n1", cpu=2),
        node("n2", cpu=2),
        node("n3", cpu=4),
        *(pod(f"small-{i}", cpu=2, node=f"n{i}", priority=2) for i in (1, 2)),
        pod("large", cpu=4, node="n3", priority=2),
        pod("one", cpu=2, priority=9),
        pod("two", cpu=2, priority=9),
    ]


def test_one_eviction_for_all() -> None:
    """cost.md 8.1, 8.4, 8.6: alone two pods are evicted, together one, which both of them wait for."""
    alone = drained(world_of(two_and_one(), together=False))
    assert len(evicted(alone)) == 2
    decisions = drained(world_of(two_and_one()))
    assert evicted(decisions) == {"default/large"}
    assert [d.preemption.together for d in decisions if d.preemption is not None] == [
        ("default/two",),
        ("default/one",),
    ]
    assert [{p.name: n for p, n in d.nominations} for d in decisions] == [{"one": "n3"}, {"two": "n3"}]
    made = [d.preemption for d in decisions if d.preemption is not None]
    assert [(preemption.ref, preemption.domain) for preemption in made] == [
        ("pod/uid-one", "n3"),
        ("pod/uid-two", "n3"),
    ]
    assert [[verdict.unit.name for verdict in preemption.verdicts] for preemption in made] == [["default/large"]] * 2
    assert [d.attempt for d in decisions] == [1, 1]


@pytest.mark.parametrize(
    "options",
    [
        {"placement": "Compatible"},
        {"cascade_depth": 1},
        {"wait_for_completions": 60.0},
        {"wait_for_checkpoint": 60.0},
        {"together": False},
    ],
)
def test_turned_off(options: dict[str, Any]) -> None:
    """cost.md 8.1."""
    decisions = drained(world_of(two_and_one(), **options))
    assert [d.preemption.together for d in decisions if d.preemption is not None] == [(), ()]


def test_other_priorities_are_not_joined() -> None:
    """cost.md 8.1."""
    items = [item for item in two_and_one() if item.metadata.name != "two"]
    decisions = drained(world_of(items, pod("two", cpu=2, priority=8)))
    assert len(evicted(decisions)) == 2


def test_those_that_fit_go_first_and_evict_nothing() -> None:
    """cost.md 8.2: the third fits on n4, and has its turn before the others."""
    decisions = drained(world_of(two_and_one(), node("n4", cpu=1), pod("three", cpu=1, priority=9)))
    assert [b.pod.name for b in decisions[0].bindings] == ["three"]
    assert evicted(decisions) == {"default/large"}


def test_those_that_fit_are_tried_before_those_that_evict_and_are_not_planned_again() -> None:
    """8.2: the first fits, and so does the second beside it; one plan is for the other two."""
    nodes: list[Any] = [node("free", cpu=4), node("busy", cpu=4, labels={"disk": "ssd"})]
    nodes.append(pod("low", cpu=4, node="busy", priority=1, selector={"disk": "ssd"}))
    waiting = [pod(name, cpu=2, priority=9) for name in "abcd"]
    world = world_of(nodes, waiting)
    plan = DefaultPreemption.plan_together
    with patch.object(DefaultPreemption, "plan_together", autospec=True, side_effect=plan) as planned:
        decisions = drained(world)
    assert [d.ref for d in decisions] == [f"pod/uid-{name}" for name in "abcd"]
    assert evicted(decisions) == {"default/low"}
    assert planned.call_count == 2, "without those that fit, and with them"
    assert [d.attempt for d in decisions] == [1, 1, 1, 1]


def test_pod_that_fits_takes_another_node_if_fewer_are_evicted() -> None:
    """cost.md 8.2: `small` would score best on n1, which the gang needs if only two victims are evicted."""
    nodes = [node("n1", cpu=2), node("tiny", cpu=1), *(node(f"full-{i}", cpu=2) for i in range(3))]
    running = [pod(f"old-{i}", cpu=2, node=f"full-{i}", priority=2) for i in range(3)]
    waiting = [*gang("gang", 2, cpu=2, priority=9), pod("one", cpu=2, priority=9), pod("small", cpu=1, priority=9)]
    world = world_of(nodes, running, waiting)
    decisions = drained(world)
    assert len(evicted(decisions)) == 2
    assert placed(decisions) == {"group/default/gang", "pod/uid-one", "pod/uid-small"}
    assert world.engine.cluster.pods["uid-small"].row == world.engine.cluster.nodes.names.index("tiny")


def test_largest_preemptor_is_first_and_others_are_left_out() -> None:
    """cost.md 8.2: there is capacity for the gang or for the older pod; the gang asks for more."""
    items: list[Item] = [
        node("n1", cpu=4),
        node("n2", cpu=2),
        pod("low-1", cpu=4, node="n1", priority=1),
        pod("low-2", cpu=2, node="n2", priority=1),
        pod("older", cpu=4, priority=9),
        group("gang", min_count=3, priority=9),
        *(pod(f"gang-{i}", cpu=2, group="gang", priority=9) for i in range(3)),
        pod("last", cpu=2, priority=9),
    ]
    decisions = drained(world_of(items))
    assert placed(decisions) == {"group/default/gang"}
    assert len(evicted(decisions)) == 2
    assert len(decisions) == 3
    alone = drained(world_of(items, together=False))
    assert placed(alone) == {"pod/uid-older", "pod/uid-last"}


@pytest.mark.parametrize("other", [{"annotations": annotated(preemption_delay="1h")}, {"never": True}])
def test_preemptor_that_may_not_evict_now_is_left_out(other: dict[str, Any]) -> None:
    """cost.md 8.2: a delay, and a policy of never."""
    items = two_and_one()[:-1]
    decisions = drained(world_of(items, pod("two", cpu=2, priority=9, **other)))
    assert [d.preemption is not None for d in decisions] == [True, False]
    assert decisions[0].preemption is not None
    assert decisions[0].preemption.together == ()


def test_classes_with_other_terms_are_not_joined() -> None:
    """cost.md 8.2: one of the classes respects budgets."""
    classes = [
        priority_class("polite", 9, annotations=annotated(pdb_policy="Respect")),
        priority_class("plain", 9),
    ]
    items = [item for item in two_and_one() if item.metadata.name not in ("one", "two")]
    both = [
        pod("one", cpu=2, priority=9, priority_class="plain"),
        pod("two", cpu=2, priority=9, priority_class="polite"),
    ]
    decisions = drained(world_of(classes, items, both))
    assert [d.preemption.together for d in decisions if d.preemption is not None] == [(), ()]


def test_no_more_than_so_many() -> None:
    """cost.md 8.3: the others are planned after them."""
    count = MOST_PREEMPTORS + 6
    items: list[Item] = [node(f"n{i:02}", cpu=1) for i in range(count)]
    items += [pod(f"low-{i:02}", cpu=1, node=f"n{i:02}", priority=1) for i in range(count)]
    items += [pod(f"high-{i:02}", cpu=1, priority=9) for i in range(count)]
    decisions = drained(world_of(items))
    made = [d.preemption for d in decisions if d.preemption is not None]
    assert [len(one.together) for one in made] == [MOST_PREEMPTORS - 1] * MOST_PREEMPTORS + [5] * 6
    assert len(evicted(decisions)) == count


@pytest.mark.parametrize(("cores", "count", "less", "together"), [(4, 6, 0, True), (3, 6, 0, False), (4, 20, 1, True)])
def test_large_clusters_are_planned_where_a_node_may_hold_two(
    cores: int, count: int, less: int, together: bool
) -> None:
    """cost.md 8.3: the victims of a node make room for two pods, or for one; unlike pods search other nodes."""
    items: list[Item] = [node(f"n{i:03}", cpu=cores) for i in range(120)]
    items += [pod(f"low-{i:03}", cpu=cores, node=f"n{i:03}", priority=1) for i in range(120)]
    items += [pod(f"high-{i:02}", cpu=f"{2000 - i * less}m", priority=9) for i in range(count)]
    decisions = drained(world_of(items))
    made = [d.preemption for d in decisions if d.preemption is not None]
    assert [len(one.together) for one in made] == [count - 1 if together else 0] * count
    assert len(evicted(decisions)) == (count // 2 if together else count)


@pytest.mark.parametrize(
    ("nodes", "gang_size", "together"), [(100, 0, True), (101, 0, False), (101, 1, False), (101, 2, True)]
)
def test_large_clusters_are_planned_if_victims_span_nodes(nodes: int, gang_size: int, together: bool) -> None:
    """cost.md 8.3: more than 100 nodes that each hold one such pod; the gang is the cheapest to evict."""
    items: list[Item] = [node(f"n{i:03}", cpu=1) for i in range(nodes)]
    if gang_size:
        items.append(group("g", min_count=1, priority=-1, whole=True))
        items += [pod(f"g-{i}", cpu=1, node=f"n{i:03}", group="g", priority=-1) for i in range(gang_size)]
    items += [pod(f"low-{i:03}", cpu=1, node=f"n{i:03}") for i in range(gang_size, nodes)]
    decisions = drained(world_of(items, *(pod(f"high-{i}", cpu=1, priority=9) for i in range(2))))
    assert [bool(d.preemption and d.preemption.together) for d in decisions] == [together] * 2
    assert len(evicted(decisions)) == (1 if gang_size == 2 else 2)


@pytest.mark.parametrize(
    ("nodes", "grouped", "searched"), [(36, False, None), (37, False, 36), (40, False, 36), (40, True, None)]
)
def test_part_of_a_large_cluster_is_searched(
    nodes: int, grouped: bool, searched: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cost.md 8.3: two nodes for each of two pods and 32 more, the cheapest; all for a group."""
    planned = Mock(wraps=plan_together)
    monkeypatch.setattr(default_preemption, "plan_together", planned)
    items: list[Item] = [node(f"n{i:02}", cpu=2) for i in range(nodes)]
    items += [pod(f"low-{i:02}", cpu=2, node=f"n{i:02}", priority=nodes - i) for i in range(nodes)]
    first = gang("first", 1, cpu=1, priority=99) if grouped else [pod("first", cpu=1, priority=99)]
    decisions = drained(world_of(items, *first, pod("second", cpu="900m", priority=99)))
    assert evicted(decisions) == {f"default/low-{nodes - 1:02}"}
    within = planned.call_args.args[5]
    assert (within and len(within.rows)) == searched
    if within is not None:
        assert within.rows.tolist() == sorted(set(within.rows.tolist()))


def test_higher_priority_goes_first() -> None:
    """cost.md 8.5: it arrives between the parts, takes the node, and what was planned is dropped."""
    world = world_of(two_and_one())
    assert world.step().preemption is not None
    world.add(pod("urgent", cpu=4, priority=99))
    decisions = drained(world)
    assert decisions[0].preemption is not None
    assert decisions[0].preemption.pod is not None
    assert decisions[0].preemption.pod.name == "urgent"


def test_part_that_no_longer_fits_is_not_used() -> None:
    """cost.md 8.5: the node of the plan is gone between the parts; the pod evicts elsewhere by itself."""
    world = world_of(two_and_one())
    assert world.step().preemption is not None
    world.engine.remove(objects.ObjectRef("Node", "n3", ""), world.now)
    decisions = drained(world)
    made = [d.preemption for d in decisions if d.preemption is not None]
    assert made
    assert all(one.domain != "n3" for one in made)


@pytest.mark.parametrize("arrives", [False, True], ids=["one member deleted", "all members replaced"])
def test_part_with_pods_that_are_gone_is_not_used(arrives: bool) -> None:
    """cost.md 8.5: nothing is reserved for a pod that was deleted between the parts."""
    items: list[Item] = [node(f"n{i}", cpu=4) for i in range(3)]
    items += [pod(f"low-{i}", cpu=4, node=f"n{i}", priority=1) for i in range(3)]
    for name in ("a", "b"):
        items += [group(name, min_count=1, priority=9)]
        items += [pod(f"{name}-{i}", cpu=2, group=name, priority=9) for i in range(2)]
    world = world_of(items)
    first = world.step()
    assert first.preemption is not None
    assert first.preemption.together == ("default/b",)
    assert (first.preemption.kind, first.preemption.ref, first.preemption.domain) == (
        "podgroup",
        "group/default/a",
        "cluster",
    )
    world.gone("b-1")
    if arrives:
        world.gone("b-0").add(pod("b-2", cpu=2, group="b", priority=9))
    drained(world)
    nominated = {uid for pods in world.engine.cluster.nodes.nominated.values() for uid in pods}
    assert nominated == {"uid-a-0", "uid-a-1", "uid-b-2" if arrives else "uid-b-0"}


@pytest.mark.parametrize("family", FAMILIES)
def test_never_cheaper_than_possible_and_everything_is_placed(family: str) -> None:
    """cost.md 8.7: the victims of all parts together, against an exact solver."""
    pytest.importorskip("scipy", reason="the exact solver is scipy's")
    compared = optimal = 0
    for seed in range(12):
        made = FAMILIES[family](seed)
        try:
            best = cheapest(made.problem)
        except NoSolutionError:
            continue
        if not best.victims:
            continue
        decisions = drained(world_of(made.items))
        assert len(placed(decisions)) == made.preemptors
        price = made.problem.price(evicted(decisions))
        assert best.price <= price
        compared += 1
        optimal += price == best.price
    assert compared >= 3
    assert optimal >= compared - 1


@pytest.mark.parametrize(
    ("family", "seed"),
    [
        pytest.param("several gangs at once", 95055, id="gang that fits takes other nodes"),
        pytest.param("several gangs at once", 95009, id="like pods, a budget violated by the least important"),
        pytest.param("several gangs at once", 3019, id="fewer budgets at a higher priority"),
        pytest.param("several gangs at once", 96099, id="no budget violated"),
        pytest.param("several gangs at once", 96035, id="first gangs fit, the others then do not"),
        pytest.param("several lone pods at once", 96077, id="first pod fits, the others then do not"),
    ],
)
def test_eviction_for_all_is_the_cheapest(family: str, seed: int) -> None:
    """cost.md 8.2, 4.14: budgets and the highest priority are those of the exact solver."""
    pytest.importorskip("scipy", reason="the exact solver is scipy's")
    made = FAMILIES[family](seed)
    decisions = drained(world_of(made.items))
    assert len(placed(decisions)) == made.preemptors
    assert made.problem.price(evicted(decisions))[:2] == cheapest(made.problem).price[:2]
