"""Pods that are no victims because of their work, and evictions that keep to every budget (cost.md 2.6 to 2.8)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.meta import ObjectRef
from reprieve.framework.profile import Profile
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.options import PreemptionOptions
from reprieve.preemption.outcome import (
    COMPATIBLE,
    MINIMIZE_VICTIMS,
    Preemption,
)
from reprieve.preemption.protected_units import (
    RespectedBudgets,
    left_below_minimum,
)
from reprieve.simulation.virtual import TimedPreemption
from tests.building import START, World, annotated, gang, group, node, pdb, pod, priority_class, profile_with
from tests.preemption.by_name import names_of, units_of
from tests.preemption.exact import NoSolutionError, cheapest
from tests.preemption.instances import PREEMPTOR, instance
from tests.random_clusters import ON_CLUSTERS, RandomCluster, random_clusters

BREAKER = priority_class("breaker", 9, annotated(may_break_minimum_runtime="true"))
RESPECTS = priority_class("respects", 9, annotated(pdb_policy="Respect"))
PLACEMENTS = [COMPATIBLE, MINIMIZE_VICTIMS]


def _placed(placement: str) -> dict[str, Profile]:
    profile = profile_with(DefaultPreemption(PreemptionOptions(placement=placement)))
    return {profile.name: profile}


def _gone(preemption: Preemption | None) -> list[str]:
    return sorted(p.name for v in preemption.victims for p in v.unit.pods) if preemption is not None else []


def _why(world: World, kind: str) -> str:
    return world.message("p") if kind == "pod" else world.condition("crew")[2]


def _asking(kind: str, *, gpu: int = 1, priority_class: str = "") -> list[Any]:
    """A preemptor: a pod, or a gang of one."""
    if kind == "pod":
        return [pod("p", gpu=gpu, priority=9, priority_class=priority_class)]
    crew = group("crew", min_count=1, priority=9, priority_class=priority_class)
    return [crew, pod("p", gpu=gpu, priority=9, group="crew", priority_class=priority_class)]


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("kind", ["pod", "gang"])
@pytest.mark.parametrize(
    ("first", "preemptor", "victims"),
    [
        ({}, "", ["a"]),
        ({"annotations": annotated(minimum_runtime="1h")}, "", ["b"]),
        ({"annotations": annotated(minimum_runtime="10s")}, "", ["a"]),
        ({"annotations": annotated(minimum_runtime="1h")}, "breaker", ["a"]),
        ({"annotations": annotated(minimum_runtime="an hour")}, "", ["a"]),
    ],
    ids=["nothing-said", "within", "over", "may-break", "unreadable"],
)
def test_unit_within_its_minimum_runtime_is_no_victim(
    placement: str, kind: str, first: dict[str, Any], preemptor: str, victims: list[str]
) -> None:
    """cost.md 2.6."""
    running = [pod("a", gpu=1, node="n1", start=-60, **first), pod("b", gpu=1, node="n2", start=-60, priority=1)]
    nodes = [node("n1", gpu=1), node("n2", gpu=1)]
    world = World(BREAKER, *nodes, *running, *_asking(kind, priority_class=preemptor), profiles=_placed(placement))
    assert _gone(world.step().preemption) == victims


@pytest.mark.parametrize("kind", ["pod", "gang"])
def test_preemptor_is_tried_again_when_the_runtime_is_over(kind: str) -> None:
    """cost.md 2.6: at that time, without anything else happening."""
    world = World(node("n1", gpu=1), group("g", annotations=annotated(minimum_runtime="10m")))
    world.add(pod("a", gpu=1, node="n1", group="g", start=-60), *_asking(kind)).drain()
    assert not world.virtual.preemptions
    assert "1 workload is within their minimum-runtime, default/a until" in _why(world, kind)
    world.settle()
    assert [made.at for made in world.virtual.preemptions] == [START + 540]
    assert world.where["p"] == "n1"


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("kind", ["pod", "gang"])
@pytest.mark.parametrize(
    ("terms", "victims"), [({}, ["w-1"]), (annotated(below_minimum="Whole"), ["w-0", "w-1"])], ids=["single", "Whole"]
)
def test_gang_left_below_its_minimum_is_evicted_as_one(
    placement: str, kind: str, terms: dict[str, str], victims: list[str]
) -> None:
    """cost.md 2.7."""
    world = World(
        node("n1", gpu=1),
        node("n2", gpu=1, labels={"wanted": "yes"}),
        group("w", min_count=2, annotations=terms),
        pod("w-0", gpu=1, node="n1", group="w"),
        pod("w-1", gpu=1, node="n2", group="w"),
        profiles=_placed(placement),
    )
    asking = _asking(kind)
    asking[-1] = pod("p", gpu=1, priority=9, group="crew" if kind == "gang" else None, selector={"wanted": "yes"})
    found = world.add(*asking).step().preemption
    assert _gone(found) == victims


def test_more_pods_than_the_minimum_go_one_by_one() -> None:
    """cost.md 2.7: as long as the gang keeps its minimum."""
    crew = [group("w", min_count=1, annotations=annotated(below_minimum="Whole"))]
    world = World(node("n1", gpu=2), *crew, *[pod(f"w-{i}", gpu=1, node="n1", group="w") for i in range(2)])
    assert _gone(world.add(pod("p", gpu=1, priority=9)).step().preemption) == ["w-1"]


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("kind", ["pod", "gang"])
def test_class_that_respects_budgets_takes_another_node(placement: str, kind: str) -> None:
    """cost.md 2.8: although it is dearer; and waits where there is none."""
    nodes = [node("n1", gpu=1), node("n2", gpu=1)]
    running = [pod("a", gpu=1, node="n1", labels={"app": "x"}), pod("b", gpu=1, node="n2", priority=5)]
    budget = pdb("x", {"app": "x"}, allowed=0)
    asking = _asking(kind, priority_class="respects")
    world = World(RESPECTS, *nodes, *running, budget, *asking, profiles=_placed(placement))
    assert _gone(world.step().preemption) == ["b"]
    alone = World(RESPECTS, nodes[0], running[0], budget, *asking, profiles=_placed(placement)).settle()
    assert not alone.virtual.preemptions
    assert "a PodDisruptionBudget would be violated" in _why(alone, kind)
    best_effort = World(nodes[0], running[0], budget, *_asking(kind), profiles=_placed(placement)).settle()
    assert len(best_effort.virtual.preemptions) == 1


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_victims_are_as_many_as_a_budget_allows(placement: str) -> None:
    """cost.md 2.8: one of two may go, and it is enough; both would be too many."""
    running = [pod(f"a{i}", gpu=1, node="n1", labels={"app": "x"}, priority=i) for i in range(2)]
    world = World(RESPECTS, node("n1", gpu=2), *running, pdb("x", {"app": "x"}, allowed=1), profiles=_placed(placement))
    assert _gone(world.add(*_asking("gang", priority_class="respects")).step().preemption) in (["a0"], ["a1"])
    more = World(RESPECTS, node("n1", gpu=2), *running, pdb("x", {"app": "x"}, allowed=1), profiles=_placed(placement))
    assert more.add(*_asking("gang", gpu=2, priority_class="respects")).step().preemption is None


def test_victim_that_is_leaving_counts_before_the_budget_knows() -> None:
    """cost.md 2.8: two preemptors at once do not share what one may use, and a raised budget wakes a pending pod."""
    running = [pod(f"a{i}", gpu=1, node=f"n{i}", labels={"app": "x"}, grace=60) for i in range(2)]
    world = World(RESPECTS, *[node(f"n{i}", gpu=1) for i in range(2)], *running, pdb("x", {"app": "x"}, allowed=1))
    world.add(*[pod(f"p{i}", gpu=1, priority=9, priority_class="respects") for i in range(2)]).drain()
    assert len(world.virtual.preemptions) == 1
    world.virtual.until(START + 70)
    assert len(world.virtual.preemptions) == 1
    world.engine.set(pdb("x", {"app": "x"}, allowed=1), world.virtual.now)
    world.settle()
    assert len(world.virtual.preemptions) == 2


def test_preemptor_is_tried_again_when_the_budget_is_gone() -> None:
    """cost.md 2.8: nothing else happens that would have it tried."""
    running = pod("a", gpu=1, node="n1", labels={"app": "x"})
    world = World(RESPECTS, node("n1", gpu=1), running, pdb("x", {"app": "x"}))
    world.add(pod("p", gpu=1, priority=9, priority_class="respects")).drain()
    world.virtual.until(START + 20)
    assert not world.virtual.preemptions
    world.engine.remove(ObjectRef("PodDisruptionBudget", "default/x"), world.virtual.now)
    assert _gone(world.step().preemption) == ["a"]


@pytest.mark.parametrize("placement", PLACEMENTS)
@ON_CLUSTERS
@given(data=st.data())
def test_budget_that_is_respected_is_never_violated(placement: str, data: st.DataObject) -> None:
    """cost.md 2.8 on random clusters: counted by the budgets themselves, over all that is terminating."""
    cluster: RandomCluster = data.draw(random_clusters())
    world = World(RESPECTS, *[_of_class(entry) for entry in cluster.everything], profiles=_placed(placement))
    picture = world.engine.cluster

    def look(made: TimedPreemption) -> bool:
        victims = [pod for verdict in made.preemption.victims for pod in verdict.unit.pods]
        for budget in picture.budgets.values():
            counted = sum(budget.counts(pod) for pod in victims)
            assert not counted or counted <= budget.allowed
        return False

    world.virtual.first_preemption = look
    world.settle()


def _of_class(entry: tuple[objects.KubernetesObject, float]) -> tuple[objects.KubernetesObject, float]:
    """Return the entry with the class that respects budgets."""
    item, created = entry
    if isinstance(item, objects.Pod | objects.PodGroup):
        item = replace(item, spec=replace(item.spec, priority_class_name="respects"))
    return item, created


def test_gang_that_shrank_is_not_evicted_in_part() -> None:
    """cost.md 2.7 holds for `all` groups anyway, and pods of no gang go one by one."""
    world = World(node("n1", gpu=2), *gang("w", 2, gpu=1, node="n1", whole=True), pod("p", gpu=1, priority=9))
    assert _gone(world.step().preemption) == ["w-0", "w-1"]


def test_respected_budget_is_counted_over_the_pods_that_are_evicted() -> None:
    """cost.md 2.8: `small` would use up the budget, though evicting it frees nothing that `large` does not."""
    items = [
        node("n", cpu=8),
        RESPECTS,
        pdb("b", {"app": "x"}, allowed=1),
        pod("small", cpu=1, node="n", priority=0, labels={"app": "x"}),
        pod("large", cpu=3, node="n", priority=1, labels={"app": "x"}),
        pod("dear", cpu=4, node="n", priority=5),
        pod("new", cpu=3, priority=9, priority_class="respects"),
    ]
    assert _gone(World(*items, profiles=_placed(MINIMIZE_VICTIMS)).step().preemption) == ["large"]


@pytest.mark.parametrize("seed", range(40))
def test_pod_that_respects_budgets_evicts_the_cheapest_units_that_keep_to_them(seed: int) -> None:
    """cost.md 2.8, 4.8: against the exact solver, where some eviction violates no budget."""
    pytest.importorskip("scipy", reason="the exact solver is scipy's")
    made = instance(seed, nodes=(1, 4))
    made.members = made.members[-1:]
    cpu, gpu = made.members[0]
    asking = pod("new", cpu=cpu or None, gpu=gpu, priority=PREEMPTOR, priority_class="respects")
    respects = priority_class("respects", PREEMPTOR, annotated(pdb_policy="Respect"))
    world = World(respects, *made.items()[:-2], asking, profiles=_placed(MINIMIZE_VICTIMS))
    found = world.step().preemption
    try:
        best = cheapest(made.problem())
    except NoSolutionError:
        assert found is None
        return
    if best.victims and best.price[0] == 0:
        assert found is not None
        assert made.problem().price([verdict.unit.name for verdict in found.victims]) == best.price


@pytest.mark.parametrize(
    ("least", "going", "whole"),
    [(3, 1, True), (3, 3, True), (3, 4, False), (2, 1, False), (2, 2, False), (2, 3, True), (1, 3, False)],
)
def test_gang_left_below_its_minimum(least: int, going: int, whole: bool) -> None:
    """cost.md 2.7: fewer than the minimum, but not none."""
    least += 1 if least == 3 else 0
    crew = [group("w", min_count=least, annotations=annotated(below_minimum="Whole"))]
    world = World(node("n", cpu=9), *crew, *[pod(f"w{i}", node="n", group="w") for i in range(4)])
    victims = list(units_of(world).values())[:going]
    assert left_below_minimum(world.engine.cluster, victims) == ({"default/w"} if whole else set())


def test_members_that_are_leaving_are_not_counted_twice() -> None:
    """cost.md 2.7: a terminating pod is neither a running one nor a possible victim."""
    crew = [
        group("w", min_count=2, annotations=annotated(below_minimum="Whole")),
        group("basic", annotations=annotated(below_minimum="Whole")),
    ]
    pods = [pod(f"w{i}", node="n", group="w", terminating=i == 0) for i in range(3)]
    others = [pod(f"b{i}", node="n", group="basic") for i in range(2)]
    world = World(node("n", cpu=9), *crew, *pods, *others)
    units = units_of(world)
    assert left_below_minimum(world.engine.cluster, [units["w0"], units["b0"]]) == set()
    assert left_below_minimum(world.engine.cluster, [units["w1"]]) == {"default/w"}


def test_budgets_that_are_respected() -> None:
    """cost.md 2.8: counted over all victims; as many as may, the least important first."""
    world = World(
        node("n", cpu=9),
        pdb("b", {"app": "x"}, allowed=2),
        *gang("w", 2, node="n", whole=True, priority=2, labels={"app": "x"}),
        *[pod(f"p{i}", node="n", priority=i, labels={"app": "x"}) for i in range(2)],
        pod("free", node="n", priority=5),
    )
    units, budgets = units_of(world), RespectedBudgets(world.engine.cluster)
    assert not budgets.violated_by([units["w"], units["free"]])
    assert not budgets.violated_by([units["p0"], units["p1"]])
    assert budgets.violated_by([units["p0"], units["w"]])
    assert not budgets.violated_by([])
    assert names_of(budgets.affordable(list(units.values()))) == ["p0", "p1", "free"]
    assert names_of(budgets.affordable([units["w"], units["p1"], units["free"]])) == ["p1", "free"]
    assert names_of(budgets.affordable([units["w"], units["free"]])) == ["w", "free"]
