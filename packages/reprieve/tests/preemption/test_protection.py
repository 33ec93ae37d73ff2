"""Who is no victim because of what is said of work, and evictions that keep to every budget (cost.md 2.6 to 2.8)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.meta import ObjectRef
from reprieve.framework.profile import Profile
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.options import PreemptionOptions
from reprieve.preemption.outcome import COMPATIBLE, MINIMIZE_VICTIMS, Preemption
from reprieve.simulation.virtual import Preempted
from tests.building import START, World, annotated, gang, group, node, pdb, pod, priority_class, profile_with
from tests.random_clusters import RandomCluster, random_clusters

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
def test_a_unit_within_its_minimum_runtime_is_no_victim(
    placement: str, kind: str, first: dict[str, Any], preemptor: str, victims: list[str]
) -> None:
    """cost.md 2.6."""
    running = [pod("a", gpu=1, node="n1", start=-60, **first), pod("b", gpu=1, node="n2", start=-60, priority=1)]
    nodes = [node("n1", gpu=1), node("n2", gpu=1)]
    world = World(BREAKER, *nodes, *running, *_asking(kind, priority_class=preemptor), profiles=_placed(placement))
    assert _gone(world.step().preemption) == victims


@pytest.mark.parametrize("kind", ["pod", "gang"])
def test_who_waited_is_tried_again_when_the_runtime_is_over(kind: str) -> None:
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
def test_what_would_be_left_of_a_gang_goes_as_one(
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
def test_a_class_that_respects_budgets_takes_another_node(placement: str, kind: str) -> None:
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
def test_as_many_go_as_a_budget_allows(placement: str) -> None:
    """cost.md 2.8: one of two may go, and it is enough; both would be too many."""
    running = [pod(f"a{i}", gpu=1, node="n1", labels={"app": "x"}, priority=i) for i in range(2)]
    world = World(RESPECTS, node("n1", gpu=2), *running, pdb("x", {"app": "x"}, allowed=1), profiles=_placed(placement))
    assert _gone(world.add(*_asking("gang", priority_class="respects")).step().preemption) in (["a0"], ["a1"])
    more = World(RESPECTS, node("n1", gpu=2), *running, pdb("x", {"app": "x"}, allowed=1), profiles=_placed(placement))
    assert more.add(*_asking("gang", gpu=2, priority_class="respects")).step().preemption is None


def test_a_victim_that_is_leaving_counts_before_the_budget_knows() -> None:
    """cost.md 2.8: two preemptors at once do not share what one may use, and a rise of the budget wakes who waits."""
    running = [pod(f"a{i}", gpu=1, node=f"n{i}", labels={"app": "x"}, grace=60) for i in range(2)]
    world = World(RESPECTS, *[node(f"n{i}", gpu=1) for i in range(2)], *running, pdb("x", {"app": "x"}, allowed=1))
    world.add(*[pod(f"p{i}", gpu=1, priority=9, priority_class="respects") for i in range(2)]).drain()
    assert len(world.virtual.preemptions) == 1
    world.virtual.until(START + 70)
    assert len(world.virtual.preemptions) == 1
    world.engine.set(pdb("x", {"app": "x"}, allowed=1), world.virtual.now)
    world.settle()
    assert len(world.virtual.preemptions) == 2


def test_who_waits_because_of_a_budget_is_tried_when_it_is_gone() -> None:
    """cost.md 2.8: nothing else happens that would have it tried."""
    running = pod("a", gpu=1, node="n1", labels={"app": "x"})
    world = World(RESPECTS, node("n1", gpu=1), running, pdb("x", {"app": "x"}))
    world.add(pod("p", gpu=1, priority=9, priority_class="respects")).drain()
    world.virtual.until(START + 20)
    assert not world.virtual.preemptions
    world.engine.remove(ObjectRef("PodDisruptionBudget", "default/x"), world.virtual.now)
    assert _gone(world.step().preemption) == ["a"]


@pytest.mark.parametrize("placement", PLACEMENTS)
@settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_a_budget_that_is_respected_is_never_violated(placement: str, data: st.DataObject) -> None:
    """cost.md 2.8 on random clusters: counted by the budgets themselves, over all that is on its way out."""
    cluster: RandomCluster = data.draw(random_clusters())
    world = World(RESPECTS, *[_of_class(entry) for entry in cluster.everything], profiles=_placed(placement))
    picture = world.engine.cluster

    def look(made: Preempted) -> bool:
        victims = [pod for verdict in made.preemption.victims for pod in verdict.unit.pods]
        for budget in picture.budgets.values():
            counted = sum(budget.counts(pod) for pod in victims)
            assert not counted or counted <= budget.allowed
        return False

    world.virtual.first_preemption = look
    world.settle()


def _of_class(entry: tuple[objects.KubernetesObject, float]) -> tuple[objects.KubernetesObject, float]:
    """Everybody is of the class that respects budgets."""
    item, created = entry
    if isinstance(item, objects.Pod | objects.PodGroup):
        item = replace(item, spec=replace(item.spec, priority_class_name="respects"))
    return item, created


def test_a_gang_that_shrank_is_not_evicted_in_part() -> None:
    """cost.md 2.7 holds for `all` groups anyway, and pods of no gang go one by one."""
    world = World(node("n1", gpu=2), *gang("w", 2, gpu=1, node="n1", whole=True), pod("p", gpu=1, priority=9))
    assert _gone(world.step().preemption) == ["w-0", "w-1"]
