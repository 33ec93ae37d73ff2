"""Both sides of the bound on the capacity behind victims."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.meta import ObjectRef
from reprieve.queueing.entity import Entity
from reprieve.scheduling import member_capacity
from reprieve.scheduling.member_capacity import CapacityBounds
from reprieve.scheduling.spread_capacity import SpreadBounds
from tests.building import World, gang, group, node, pod, profile_with
from tests.scheduling.test_capacity_bounds import _apart_by, _over, _spread


def _asked(world: World, name: str) -> frozenset[str]:
    bound = CapacityBounds(world.engine.cluster, world.engine.running)
    bound.refresh()
    return bound.out_of_reach(world.entity(name))


@pytest.mark.parametrize(
    ("items", "out"),
    [
        ([pod("p", cpu=4)], False),
        ([pod("p", cpu="4001m")], True),
        ([pod("p", cpu=1, memory="65Gi")], True),
        ([pod("p", cpu=1, gpu=1)], True),
        ([pod("p", cpu=9, nominated="n")], False),  # an attempt would take the nomination back
        (gang("p", 4, cpu=1), False),
        (gang("p", 5, cpu=1), True),
        (gang("p", 5, min_count=4, cpu=1), False),
        ([group("p"), *(pod(f"p{i}", cpu=4, group="p") for i in range(9))], False),  # one of them is enough
        ([group("p"), pod("p0", cpu=5, group="p")], True),
        ([group("p", min_count=4), *(pod(f"p{i}", cpu=cpu, group="p") for i, cpu in enumerate((1, 1, 1, 2)))], False),
        ([group("p", min_count=4), *(pod(f"p{i}", cpu=cpu, group="p") for i, cpu in enumerate((2, 1, 1, 1)))], False),
        ([group("p", min_count=5), *(pod(f"p{i}", cpu=cpu, group="p") for i, cpu in enumerate((1, 1, 1, 1, 2)))], True),
        ([group("p", min_count=3), *(pod(f"p{i}", cpu=cpu, group="p") for i, cpu in enumerate((1, 5, 5)))], True),
        (
            [*gang("p", 5, cpu=1), pod("there", cpu=1, node="m", group="p")],
            False,
        ),  # a running pod counts for the minimum
    ],
)
def test_both_sides_of_the_bound(items: list[Any], out: bool) -> None:
    """scheduling.md 1.7: fewer places than are needed, and not as many; the node `m` is full."""
    world = World(node("n", cpu=4), node("m", cpu=1), pod("full", cpu=1, node="m", priority=9), *items)
    if "there" in world.where:
        world.gone("full")
    name = "p" if world.engine.queue.get("group/default/p") else items[0].metadata.name
    assert bool(_asked(world, name)) is out


@pytest.mark.parametrize(
    ("drop", "out"),
    [
        ((), set()),
        (("DefaultPreemption",), set()),  # DynamicResources has a PostFilter too: what it gives back is not reckoned
        (("DefaultPreemption", "DynamicResources"), {"NodeResourcesFit"}),
        (("NodeResourcesFit",), set()),
    ],
)
def test_pod_without_victims_has_free_capacity(drop: tuple[str, ...], out: set[str]) -> None:
    """Without a PostFilter no pods are evicted; where requests are not compared nothing is claimed."""
    profile = profile_with(drop=drop)
    items = [node("n", cpu=4), pod("low", cpu=4, node="n"), pod("p", cpu=4, priority=5)]
    world = World(*items, profiles={profile.name: profile})
    assert _asked(world, "p") == out


def test_nothing_is_claimed_of_unknown_entities() -> None:
    """A cluster without nodes, a gang without an object, an entity without pods to place."""
    world = World(pod("p", cpu=1), pod("m", cpu=99, group="crew"), pod("g", cpu=99, gates=["x"]))
    assert not _asked(world, "p")
    world.add(node("n", cpu=1))
    assert [bool(_asked(world, name)) for name in ("p", "m", "g")] == [False, False, False]
    late = CapacityBounds(world.engine.cluster, world.engine.running)
    entity: Entity = world.entity("g")
    late.refresh()
    assert not late.out_of_reach(entity)
    assert late.sizes()["waiting_entities"] == 1


@pytest.mark.parametrize(("kinds", "out"), [(4, True), (5, False)])
def test_up_to_four_kinds_of_members_are_counted_apart(kinds: int, out: bool) -> None:
    """Each has a place somewhere or none; of more kinds only the least that any of them asks for is looked at."""
    members = [pod(f"p{cpu}", cpu=cpu, group="p") for cpu in range(1, kinds + 1)]
    world = World(*(node(f"n{turn}", cpu=1) for turn in range(9)), group("p", min_count=kinds), *members)
    assert bool(_asked(world, "p")) is out


@pytest.mark.parametrize(
    ("policy", "drop", "out"),
    [
        (None, (), False),
        ("PreemptLowerPriority", (), False),
        ("Never", (), True),
        (None, ("DefaultPreemption", "DynamicResources"), True),
    ],
)
def test_gang_that_evicts_no_pods_has_what_is_free(policy: str | None, drop: tuple[str, ...], out: bool) -> None:
    """preemption.md 2.2: by its own policy, or as no plugin would preempt for it."""
    profile = profile_with(drop=drop)
    never = policy == "Never"
    crew = gang("p", 2, cpu=2, priority=5, policy=policy, never=never)
    world = World(node("n", cpu=4), pod("low", cpu=3, node="n"), *crew, profiles={profile.name: profile})
    assert bool(_asked(world, "p")) is out


@pytest.mark.parametrize(("drop", "out"), [((), True), (("InterPodAffinity",), False)])
def test_rules_of_disabled_plugins_are_not_counted(drop: tuple[str, ...], out: bool) -> None:
    """Required anti-affinity keeps no pod away where InterPodAffinity is off."""
    profile = profile_with(drop=drop)
    crew = gang("p", 2, cpu=1, labels={"app": "x"}, affinity=_apart_by("zone", "x"))
    world = World(node("n", cpu=4, labels={"zone": "a"}), *crew, profiles={profile.name: profile})
    assert bool(_asked(world, "p")) is out


@pytest.mark.parametrize(("members", "out"), [(3, False), (4, True)])
def test_those_that_run_in_a_full_domain_count_there(members: int, out: bool) -> None:
    """scheduling.md 1.7: two in the full zone, so that no more than three may stand in the other."""
    labels = {"app": "x"}
    world = World(node("a", cpu=8, labels={"zone": "a"}), node("b", cpu=2, labels={"zone": "b"}))
    world.add(*(pod(f"r{turn}", cpu=1, node="b", priority=9, labels=labels) for turn in range(2)))
    world.add(*(_spread(item, _over("zone")) for item in gang("p", members, cpu=1, labels=labels)))
    assert bool(_asked(world, "p")) is out


@pytest.mark.parametrize(("domains", "out"), [(None, False), (1, False), (2, False), (3, True)])
def test_below_its_minimum_of_domains_a_constraint_counts_from_nought(domains: int | None, out: bool) -> None:
    """scheduling.md 1.7, `minDomains`: of two zones with two each, as if a third were empty."""
    labels = {"app": "x"}
    world = World(*(node(name, cpu=8, labels={"zone": name}) for name in "ab"))
    world.add(*(pod(f"r{turn}", cpu=1, node="ab"[turn % 2], priority=9, labels=labels) for turn in range(4)))
    world.add(*(_spread(item, _over("zone", min_domains=domains)) for item in gang("p", 2, cpu=1, labels=labels)))
    assert bool(_asked(world, "p")) is out


def test_constraint_that_does_not_count_the_members_bounds_nothing_and_the_next_does() -> None:
    """scheduling.md 1.7: of two constraints the first is about others; by the second two hosts hold one each."""
    of_others = objects.LabelSelector(match_labels={"app": "other"})
    about_others = replace(_over("zone"), label_selector=of_others)
    labels = {"app": "x"}
    world = World(*(node(name, cpu=cpu, labels={"zone": "a", "host": name}) for name, cpu in (("n", 8), ("full", 1))))
    world.add(pod("r", cpu=1, node="full", priority=9))
    for item in gang("p", 2, cpu=1, labels=labels):
        if isinstance(item, objects.Pod):
            both = (about_others, _over("host"))
            item = replace(item, spec=replace(item.spec, topology_spread_constraints=both))
        world.add(item)
    assert _asked(world, "p") == {"NodeResourcesFit", "GangScheduling", "PodTopologySpread"}


@pytest.mark.parametrize(
    ("where", "out"),
    [(("a", "b"), False), (("a", "a"), True), (("a",) * 5, True), (("a", "b", "a", "a", "a"), False)],
    ids=["two zones", "one zone", "one zone, counted together", "two zones, counted together"],
)
def test_members_are_counted_on_the_nodes_they_ask_for(where: tuple[str, ...], out: bool) -> None:
    """Where they do not ask for the same nodes, those that any of them asks for count for all together."""
    world = World(node("a", cpu=1, labels={"zone": "a"}), node("b", cpu=len(where) + 1, labels={"zone": "b"}))
    amounts = range(1000, 1000 + len(where))
    pods = [
        pod(f"p{turn}", cpu=f"{amount if zone == 'b' or len(where) > 2 else 1000}m", group="p", selector={"zone": zone},
            memory=turn + 1)
        for turn, (zone, amount) in enumerate(zip(where, amounts, strict=True))
    ]  # fmt: skip
    world.add(group("p", min_count=len(where)), *pods)
    assert bool(_asked(world, "p")) is out


def test_sixteen_priorities_are_distinguished() -> None:
    """For an entity with another one the possible victims are unknown: nothing is claimed of it."""
    world = World(node("n", cpu=1), pod("r", cpu=1, node="n", priority=100))
    world.add(*(pod(f"p{turn}", cpu=1, priority=turn) for turn in range(17)))
    bound = CapacityBounds(world.engine.cluster, world.engine.running)
    bound.refresh()
    assert [bool(bound.out_of_reach(world.entity(f"p{turn}"))) for turn in range(17)] == [*[True] * 16, False]
    bound.forget(world.entity("p0").ref)  # one level is free again
    bound.forget(world.entity("p16").ref)
    assert bound.out_of_reach(world.entity("p16"))


def _without(world: World, *names: str) -> None:
    """Remove pods, and try nothing."""
    for name in names:
        world.engine.remove(ObjectRef("Pod", uid=world.record(name).uid), world.now)


@pytest.mark.parametrize("taken", [1, 3])
def test_full_node_holds_not_even_the_smallest_request(taken: int) -> None:
    """scheduling.md 1.7: nor does one that is overcommitted, and it takes nothing from others."""
    world = World(node("n", cpu=1), node("m", cpu=1), pod("full", cpu=taken, node="n", priority=9))
    world.add(pod("small", cpu="1m", selector={"none": ""}), *gang("two", 2, cpu=1), pod("one", cpu=1))
    world.add(node("m", cpu=1, labels={"zone": "m"}), node("n", cpu=1, labels={"none": ""}))
    assert [bool(_asked(world, name)) for name in ("small", "two", "one")] == [True, True, False]


@pytest.mark.parametrize(("zone", "out"), [("a", True), ("b", False)])
def test_pod_that_stays_shuts_its_own_domain_only(zone: str, out: bool) -> None:
    """scheduling.md 1.7: the other zone has no capacity, or all of it."""
    world = World(*(node(f"n{name}", cpu=4, labels={"zone": name}) for name in "abc"))
    world.add(pod("busy", cpu=1, node=f"n{zone}", priority=9, labels={"app": "x"}))
    world.add(*(pod(f"full-{name}", cpu=3, node=f"n{name}", priority=9) for name in "bc"))
    world.add(pod("away", cpu=2, priority=5, affinity=_apart_by("zone", "x")))
    assert bool(_asked(world, "away")) is out


def test_domain_opens_on_all_its_nodes() -> None:
    """scheduling.md 1.7: the pod that stayed was on a node without capacity."""
    world = World(*(node(f"n{i}", cpu=4, labels={"zone": "a"}) for i in range(2)))
    world.add(pod("busy", cpu=4, node="n0", priority=9, labels={"app": "x"}))
    world.add(
        pod("full", cpu=3, node="n0", priority=9), pod("away", cpu=4, priority=5, affinity=_apart_by("zone", "x"))
    )
    bound = CapacityBounds(world.engine.cluster, world.engine.running)
    bound.refresh()
    assert bound.out_of_reach(world.entity("away"))
    _without(world, "busy")
    bound.refresh()
    assert not bound.out_of_reach(world.entity("away"))


def test_masks_of_pods_that_left_are_kept_up_to_64() -> None:
    """scheduling.md 1.7: beside two for each shape; with more of them all is computed again."""
    world = World(node("n", cpu=1), *(pod(f"p{i}", cpu=9, selector={"zone": f"{i}"}) for i in range(70)))
    bound = CapacityBounds(world.engine.cluster, world.engine.running)
    bound.refresh()
    entities = [world.entity(f"p{i}") for i in range(70)]
    assert all(bound.out_of_reach(entity) for entity in entities)
    world.add(pod("r", cpu=1, node="n", priority=9))
    bound.refresh()
    assert all(bound.out_of_reach(entity) for entity in entities)
    for entity in entities[4:]:
        bound.forget(entity.ref)
    bound.refresh()
    assert bound.sizes()["waiting_entities"] == 4
    bound.forget(entities[3].ref)
    bound.refresh()
    assert bound.sizes()["waiting_entities"] == 0
    assert all(bound.out_of_reach(entity) for entity in entities)


def test_entity_that_is_forgotten_leaves_its_place_in_the_tables() -> None:
    """scheduling.md 1.7: one after the other they need no more of it than one."""
    world = World(node("n", cpu=1), *(pod(f"p{i}", cpu=i + 2) for i in range(99)))
    bound = CapacityBounds(world.engine.cluster, world.engine.running)
    bound.refresh()
    with mock.patch.object(
        member_capacity._Level, "grow", autospec=True, side_effect=member_capacity._Level.grow
    ) as grow:
        for i in range(99):
            assert bound.out_of_reach(world.entity(f"p{i}"))
            bound.forget(world.entity(f"p{i}").ref)
    assert grow.call_count == 1


def test_end_of_a_pod_that_may_be_evicted_changes_no_bound() -> None:
    """scheduling.md 1.7: its amounts counted as free, so that nothing is counted again."""
    world = World(node("n", cpu=4), pod("low", cpu=1, node="n", priority=1), pod("p", cpu=5, priority=5))
    bound = CapacityBounds(world.engine.cluster, world.engine.running)
    bound.refresh()
    assert bound.out_of_reach(world.entity("p"))
    _without(world, "low")
    with mock.patch.object(member_capacity._Level, "places", side_effect=AssertionError("needless")):
        bound.refresh()


def test_spreads_of_forgotten_entities_are_not_updated_after_a_new_resource() -> None:
    """scheduling.md 1.7: a new resource starts all tables over."""
    world = World(node("n", cpu=2, labels={"zone": "a"}), node("m", cpu=1, labels={"zone": "b"}), pod("p", cpu=9))
    world.add(pod("r", cpu=1, node="n", priority=9))
    world.add(*(_spread(item, _over("zone")) for item in gang("crew", 3, cpu=1, labels={"app": "x"})))
    bound = CapacityBounds(world.engine.cluster, world.engine.running)
    bound.refresh()
    bound.out_of_reach(world.entity("crew"))
    world.add(node("g", gpu=1, labels={"zone": "a"}))
    bound.refresh()
    bound.forget(world.entity("crew").ref)
    assert bound.out_of_reach(world.entity("p"))
    _without(world, "r")
    with mock.patch.object(SpreadBounds, "moved", side_effect=AssertionError("needless")):
        bound.refresh()


@pytest.mark.parametrize(("spreading", "out"), [((0, 1, 2, 3), True), ((0,), False), ((3,), False)])
def test_spread_counts_only_if_all_members_have_it(spreading: tuple[int, ...], out: bool) -> None:
    """scheduling.md 1.7: zone b is full, so that one member of those that spread has a place."""
    world = World(*(node(name, cpu=cpu, labels={"zone": name}) for name, cpu in (("a", 8), ("b", 1))))
    world.add(pod("full", cpu=1, node="b", priority=9), group("p", min_count=4))
    for turn in range(4):
        member = pod(f"p-{turn}", cpu=1, group="p", labels={"app": "x"})
        world.add(_spread(member, _over("zone")) if turn in spreading else member)
    assert bool(_asked(world, "p")) is out
