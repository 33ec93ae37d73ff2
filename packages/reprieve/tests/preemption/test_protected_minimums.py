"""`below-minimum: Protect` leaves gangs their minimum (cost.md 2.9)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.work_annotations import DOMAIN
from reprieve.framework.profile import Profile
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.options import PreemptionOptions
from reprieve.preemption.outcome import COMPATIBLE, MINIMIZE_VICTIMS, Preemption, UnhelpfulReason
from reprieve.preemption.protected_minimums import ProtectedMinimums, protected_priority
from reprieve.simulation.virtual import TimedPreemption
from tests.building import START, World, annotated, group, node, pod, priority_class, profile_with
from tests.preemption.by_name import names_of, units_of
from tests.random_clusters import ON_CLUSTERS, RandomCluster, random_clusters

PLACEMENTS = [COMPATIBLE, MINIMIZE_VICTIMS]
PROTECT = annotated(below_minimum="Protect")


def _placed(placement: str) -> dict[str, Profile]:
    profile = profile_with(DefaultPreemption(PreemptionOptions(placement=placement)))
    return {profile.name: profile}


def _gone(preemption: Preemption | None) -> list[str]:
    return sorted(p.name for v in preemption.victims for p in v.unit.pods) if preemption is not None else []


def _asking(kind: str, name: str = "p", *, priority: int = 9) -> list[Any]:
    """A preemptor of one GPU: a pod, or a gang of one."""
    if kind == "pod":
        return [pod(name, gpu=1, priority=priority)]
    return [
        group(f"crew-{name}", min_count=1, priority=priority),
        pod(name, gpu=1, priority=priority, group=f"crew-{name}"),
    ]


def _batch(granted: str = "9", **more: str) -> objects.PriorityClass:
    return priority_class("batch", 0, annotated(max_protected_priority=granted, **more))


def _work(count: int = 3, *, least: int = 2, says: dict[str, str] | None = None, whole: bool = False) -> list[Any]:
    """A gang `w` with a pod of one GPU on each of as many nodes."""
    terms = PROTECT if says is None else says
    return [
        group("w", min_count=least, annotations=terms, priority_class="batch", whole=whole),
        *[node(f"n{i}", gpu=1) for i in range(count)],
        *[pod(f"w-{i}", gpu=1, node=f"n{i}", group="w", priority_class="batch") for i in range(count)],
    ]


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("kind", ["pod", "gang"])
@pytest.mark.parametrize(
    ("granted", "priority", "says", "evictions"),
    [
        ("9", 9, PROTECT, 1),
        ("8", 9, PROTECT, 3),
        ("9", 9, {}, 3),
        ("9", 9, annotated(below_minimum="protect"), 3),
        ("2000000000", 2_000_000_000, PROTECT, 3),
        ("-5", 9, PROTECT, 3),
    ],
    ids=["up to the granted priority", "beyond it", "nothing-said", "unreadable", "critical", "no less than its own"],
)
def test_gang_keeps_its_minimum(
    placement: str, kind: str, granted: str, priority: int, says: dict[str, str], evictions: int
) -> None:
    """cost.md 2.9: three preemptors, one after another, and a gang with one pod beyond its minimum."""
    asking = [_asking(kind, f"p{i}", priority=priority) for i in range(3)]
    world = World(_batch(granted), *_work(says=says), *asking, profiles=_placed(placement)).drain()
    assert sum(len(_gone(made.preemption)) for made in world.virtual.preemptions) == evictions


@pytest.mark.parametrize("kind", ["pod", "gang"])
def test_preemptor_says_what_is_protected(kind: str) -> None:
    """cost.md 2.9: and the gang is a reason of its own why nothing can be evicted."""
    items = [_batch(), *_work(2), *_asking(kind)]
    decision, world = World(*items).step(), World(*items).drain()
    text = "2 workloads are protected by below-minimum: Protect, default/w-0 of gang default/w"
    assert text in (world.message("p") if kind == "pod" else world.condition("crew-p")[2])
    assert decision.deferral is None
    if kind == "gang":
        assert decision.unhelpful is not None
        assert decision.unhelpful.why is UnhelpfulReason.PROTECTED


@pytest.mark.parametrize("kind", ["pod", "gang"])
@pytest.mark.parametrize("how", ["a member more", "a lower minimum", "no protection"])
def test_preemptor_is_tried_again_when_more_may_go(kind: str, how: str) -> None:
    """cost.md 2.9: without anything else happening."""
    tainted = node("n9", gpu=1, taints=[("x", "", "NoSchedule")])
    world = World(_batch(), tainted, *_work(2), *_asking(kind)).drain()
    world.virtual.until(START + 20)
    assert not world.virtual.preemptions
    if how == "a member more":
        late = pod("w-9", gpu=1, group="w", node="n9", priority_class="batch")
        world.engine.set(late, world.virtual.now)
    else:
        least = 1 if how == "a lower minimum" else 2
        says = {} if how == "no protection" else PROTECT
        changed = group("w", min_count=least, annotations=says, priority_class="batch")
        world.engine.set(changed, world.virtual.now)
    world.virtual.until(START + 40)
    assert len(world.virtual.preemptions) == 1


def test_gang_below_its_minimum_has_nothing_that_is_protected() -> None:
    """cost.md 2.9"""
    world = World(_batch(), *_work(2, least=3), *_asking("pod"))
    assert len(_gone(world.step().preemption)) == 1


@pytest.mark.parametrize("kind", ["pod", "gang"])
def test_gang_that_is_evicted_as_one_is_protected_as_one(kind: str) -> None:
    """cost.md 2.9: with its last pod it would have less than its minimum."""
    world = World(_batch(), *_work(3, whole=True), *_asking(kind))
    assert world.step().preemption is None


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_other_work_goes_instead(placement: str) -> None:
    """cost.md 2.9: a gang of two takes the pod beyond the minimum, and a pod of a higher priority."""
    crew = [group("crew", min_count=2, priority=9), *[pod(f"c{i}", gpu=1, priority=9, group="crew") for i in range(2)]]
    items = [_batch(), *_work(3), node("x", gpu=1), pod("dear", gpu=1, node="x", priority=5)]
    assert _gone(World(*items, *crew, profiles=_placed(placement)).step().preemption) == ["dear", "w-2"]


def test_pods_that_leave_are_lost_already() -> None:
    """cost.md 2.9: those of which the deletion is observed, and those of a preemption that was just decided."""
    leaving = pod("w-3", gpu=1, node="n3", group="w", priority_class="batch", terminating=True)
    world = World(_batch(), *_work(3), node("n3", gpu=1), leaving)
    units = units_of(world)
    minimums = ProtectedMinimums(world.engine.cluster, 9)
    assert names_of(minimums.affordable([units["w-0"], units["w-1"]])) == ["w-1"]
    assert minimums.violated_by([units["w-0"], units["w-1"]])
    assert not minimums.violated_by([units["w-0"]])
    world.engine.cluster.doomed.add(units["w-0"].pods[0].uid)
    after = ProtectedMinimums(world.engine.cluster, 9)
    assert after.breaks(units["w-1"]) == "default/w"
    assert after.breaks(units["w-0"]) is None


@pytest.mark.parametrize(
    ("of_pods", "of_group", "level"),
    [
        ("a", "", 5),
        ("a", "a", 5),
        ("a", "b", 3),
        ("b", "a", 3),
        ("", "a", 0),
        ("none", "none", 0),
        ("off", "off", None),
    ],
)
def test_smaller_grant_of_both_classes_counts(of_pods: str, of_group: str, level: int | None) -> None:
    """cost.md 7.3"""
    world = World(
        priority_class("a", 0, annotated(max_protected_priority="5")),
        priority_class("b", 0, annotated(max_protected_priority="3")),
        priority_class("none", 0),
        priority_class("off", 0, annotated(allow_below_minimum="false", max_protected_priority="5")),
        node("n"),
        group("w", min_count=1, annotations=PROTECT, priority_class=of_group),
        pod("w-0", node="n", group="w", priority_class=of_pods),
    )
    assert protected_priority(world.engine.cluster, world.record("w-0")) == level


def test_class_may_protect_its_gangs() -> None:
    """cost.md 2.1, 2.9"""
    world = World(_batch(below_minimum="Protect"), *_work(2, says={}), *_asking("pod"))
    assert world.step().preemption is None


@pytest.mark.parametrize("placement", PLACEMENTS)
@ON_CLUSTERS
@given(data=st.data())
def test_no_gang_loses_its_minimum(placement: str, data: st.DataObject) -> None:
    """cost.md 2.9 on random clusters, in which all gangs are protected from everything."""
    cluster: RandomCluster = data.draw(random_clusters())
    granted = priority_class("granted", 0, annotated(max_protected_priority="1000000"))
    world = World(granted, *[_protected(entry) for entry in cluster.everything], profiles=_placed(placement))
    picture = world.engine.cluster

    def look(made: TimedPreemption) -> bool:
        victims = [pod for verdict in made.preemption.victims for pod in verdict.unit.pods]
        for gang in picture.groups.values():
            going = sum(pod.group == gang.key and not pod.terminating for pod in victims)
            gone = sum(pod.uid in picture.doomed and not pod.terminating for pod in gang.running())
            before = gang.scheduled - (gone - going if gone >= going else gone)
            if gang.is_gang and going and before >= gang.min_count:
                assert before - going >= gang.min_count
        return False

    world.virtual.first_preemption = look
    world.settle()


def _protected(entry: tuple[objects.KubernetesObject, float]) -> tuple[objects.KubernetesObject, float]:
    item, created = entry
    if isinstance(item, objects.Pod | objects.PodGroup):
        item = replace(item, spec=replace(item.spec, priority_class_name="granted"))
    if isinstance(item, objects.PodGroup):
        said = {**item.metadata.annotations, f"{DOMAIN}below-minimum": "Protect"}
        item = replace(item, metadata=replace(item.metadata, annotations=said))
    return item, created
