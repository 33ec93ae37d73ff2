"""Pending entities that cannot be placed whatever goes: the bounds of capacity and of spread (scheduling.md 1.7).

That they are never too low, and the same however they came about, is held by `../properties/test_out_of_reach.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.meta import ObjectRef
from reprieve.scheduling import member_capacity, spread_capacity
from reprieve.scheduling.member_capacity import CapacityBounds
from reprieve.scheduling.spread_capacity import Layout, SpreadBounds
from tests.building import World, composite, gang, group, node, pod, toleration


def _spread(item: objects.KubernetesObject, constraint: objects.TopologySpreadConstraint) -> objects.KubernetesObject:
    """A pod with this constraint."""
    if not isinstance(item, objects.Pod):
        return item
    return replace(item, spec=replace(item.spec, topology_spread_constraints=(constraint,)))


def test_bound_sees_room_behind_victims_below_and_only_those() -> None:
    """Evictable pods count as capacity: for entities that have the priority and may preempt."""
    below, above = pod("low", cpu=4, node="n", priority=1), pod("high", cpu=4, node="m", priority=9)
    world = World(node("n", cpu=4), node("m", cpu=4), below, above)
    world.add(pod("can", cpu=4, priority=5), pod("never", cpu=4, priority=5, never=True), pod("equal", cpu=4))
    bound = CapacityBounds(world.engine.cluster, world.engine.running)
    bound.refresh()
    assert not bound.out_of_reach(world.entity("can"))
    assert bound.out_of_reach(world.entity("never")) == {"NodeResourcesFit"}
    assert bound.out_of_reach(world.entity("equal")) == {"NodeResourcesFit"}
    assert bound.sizes() == {"waiting_entities": 3, "waiting_shapes": 3, "waiting_spreads": 0}
    for name in ("can", "never", "equal"):
        bound.forget(world.entity(name).ref)
    assert bound.sizes() == {"waiting_entities": 0, "waiting_shapes": 0, "waiting_spreads": 0}


def test_gang_is_counted_by_kind_and_together_and_on_the_nodes_it_asks_for() -> None:
    """Eight places for small members and one for a large one, in the zone alone."""
    rooms = [node("a", cpu=4, labels={"zone": "a"}), node("b", cpu=40, labels={"zone": "b"})]

    def crew(name: str, small: int, large: int, zone: str) -> list[objects.KubernetesObject]:
        where = {"zone": zone}
        made = [pod(f"{name}-s{i}", cpu=1, group=name, selector=where) for i in range(small)]
        made += [pod(f"{name}-l{i}", cpu=4, group=name, selector=where) for i in range(large)]
        return [group(name, min_count=small + large), *made]

    world = World(*rooms, *crew("fits", 4, 0, "a"), *crew("many", 5, 0, "a"), *crew("large", 0, 2, "a"))
    world.add(*crew("both", 2, 2, "a"), *crew("there", 5, 2, "b"))
    bound = CapacityBounds(world.engine.cluster, world.engine.running)
    bound.refresh()
    found = {name: bound.out_of_reach(world.entity(name)) for name in ("fits", "many", "large", "both", "there")}
    why = {"NodeResourcesFit", "GangScheduling"}
    assert found == {"fits": set(), "many": why, "large": why, "both": why, "there": set()}


@pytest.mark.parametrize(
    ("busy", "never", "out"),
    [
        ({"priority": 9}, False, True),
        ({"priority": 5}, False, True),
        ({"priority": 4}, False, False),
        ({"priority": 1}, True, True),
        ({"priority": 9, "terminating": True}, False, False),
        ({"priority": 9, "labels": {"app": "y"}}, False, False),
        ({"priority": 9, "namespace": "other"}, False, False),
    ],
    ids=[
        "stays",
        "stays as an equal",
        "may be evicted",
        "never preempts",
        "terminating",
        "other labels",
        "other namespace",
    ],
)
def test_node_with_a_pod_that_stays_is_no_place_for_pods_that_keep_away_from_it(
    busy: dict[str, Any], never: bool, out: bool
) -> None:
    """Room there is; the second of two such pods that stay keeps the node shut when the first goes."""
    term = objects.PodAffinityTerm(label_selector=objects.LabelSelector(match_labels={"app": "x"}), topology_key="zone")
    keeps_away = objects.Affinity(
        pod_anti_affinity=objects.PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,))
    )
    there = {"labels": {"app": "x"}, **busy}
    world = World(node("n", cpu=8, labels={"zone": "a"}), node("m", cpu=8), node("full", cpu=1))
    world.add(pod("on-m", cpu=8, node="m", priority=9), pod("on-full", cpu=1, node="full", priority=9))
    world.add(*(pod(f"busy-{i}", cpu=1, node="n", **there) for i in range(2)))
    world.add(pod("away", cpu=1, priority=5, never=never, affinity=keeps_away))
    bound = CapacityBounds(world.engine.cluster, world.engine.running)

    def shut() -> bool:
        bound.refresh()
        return bound.out_of_reach(world.entity("away")) == {"NodeResourcesFit", "InterPodAffinity"}

    found = [shut()]
    for name in ("busy-0", "busy-1"):
        world.engine.remove(ObjectRef("Pod", uid=world.record(name).uid), world.now)
        found.append(shut())
    assert found == [out, out, False]


def _apart_by(key: str, app: str) -> objects.Affinity:
    term = objects.PodAffinityTerm(label_selector=objects.LabelSelector(match_labels={"app": app}), topology_key=key)
    return objects.Affinity(
        pod_anti_affinity=objects.PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,))
    )


@pytest.mark.parametrize(
    ("members", "labels", "unlike", "nodes", "out"),
    [
        (3, {"app": "crew"}, False, ("a", "a", "b"), True),
        (3, {"app": "crew"}, True, ("a", "a", "b"), True),
        (2, {"app": "crew"}, True, ("a", "a", "b"), False),
        (3, {"app": "crew"}, False, ("a", "b", "c"), False),
        (3, {"app": "crew"}, False, ("a", "b", ""), False),  # a pod in no domain keeps apart from none
        (3, {"app": "other"}, False, ("a", "a", "b"), False),
    ],
)
def test_members_that_keep_apart_find_no_more_places_than_there_are_domains(
    members: int, labels: dict[str, str], unlike: bool, nodes: tuple[str, ...], out: bool
) -> None:
    """scheduling.md 1.7: one in each domain; their requests do not matter."""
    machines = [node(f"n{i}", cpu=32, labels={"zone": zone} if zone else {}) for i, zone in enumerate(nodes)]
    made = [
        pod(f"m{i}", group="crew", cpu=1 + i * unlike, labels=labels, affinity=_apart_by("zone", "crew"))
        for i in range(members)
    ]
    world = World(*machines, group("crew", min_count=members), *made)
    bound = CapacityBounds(world.engine.cluster, world.engine.running)
    bound.refresh()
    why = {"NodeResourcesFit", "GangScheduling", "InterPodAffinity"}
    assert bound.out_of_reach(world.entity("crew")) == (why if out else set())


def test_pod_that_stays_shuts_its_whole_domain_until_it_goes() -> None:
    """scheduling.md 1.7: it runs on another node of the zone; a second one keeps the zone shut when the first goes."""
    world = World(*(node(f"n{i}", cpu=4, labels={"zone": "a"}) for i in range(3)))
    world.add(*(pod(f"busy-{i}", cpu=1, node=f"n{i}", priority=9, labels={"app": "x"}) for i in range(2)))
    world.add(pod("away", cpu=1, priority=5, affinity=_apart_by("zone", "x")))
    bound = CapacityBounds(world.engine.cluster, world.engine.running)
    found = []
    for name in (None, "busy-0", "busy-1"):
        if name is not None:
            world.engine.remove(ObjectRef("Pod", uid=world.record(name).uid), world.now)
        bound.refresh()
        found.append(bool(bound.out_of_reach(world.entity("away"))))
    assert found == [True, True, False]


@pytest.mark.parametrize(
    ("skew", "more", "out"),
    [
        (1, {}, True),  # the zone without room holds none, so the others hold one each
        (2, {}, False),
        (1, {"min_domains": 4}, True),
        (
            1,
            {"label_selector": objects.LabelSelector(match_labels={"app": "other"})},
            False,
        ),  # pods that are not counted
        (1, {"label_selector": objects.LabelSelector()}, False),
        (1, {"when_unsatisfiable": "ScheduleAnyway"}, False),
    ],
)
def test_members_that_spread_find_no_more_places_than_the_fullest_domain_lets_them(
    skew: int, more: dict[str, Any], out: bool
) -> None:
    """scheduling.md 1.7: four members over three zones, one of them full of pods that stay, until one of those goes."""
    world = World(*(node(f"n{zone}", cpu=8, labels={"zone": zone}) for zone in "abc"))
    world.add(*(pod(f"full-{i}", cpu=4, node="nc", priority=9) for i in range(2)))
    stated: dict[str, Any] = {
        "max_skew": skew,
        "topology_key": "zone",
        "when_unsatisfiable": "DoNotSchedule",
        "label_selector": objects.LabelSelector(match_labels={"app": "crew"}),
        **more,
    }
    constraint = objects.TopologySpreadConstraint(**stated)
    made = gang("crew", 4, cpu=1, labels={"app": "crew"})
    world.add(*(_spread(item, constraint) for item in made))
    bound = CapacityBounds(world.engine.cluster, world.engine.running)
    bound.refresh()
    why = {"NodeResourcesFit", "GangScheduling", "PodTopologySpread"}
    assert bound.out_of_reach(world.entity("crew")) == (why if out else set())
    world.engine.remove(ObjectRef("Pod", uid=world.record("full-0").uid), world.now)
    bound.refresh()
    assert bound.out_of_reach(world.entity("crew")) == (why if "min_domains" in more else set())


def test_counted_pods_that_stay_leave_less_spread_for_members() -> None:
    """scheduling.md 1.7: five would find places in two zones; two that run in one of them leave it fewer."""
    world = World(*(node(f"n{zone}", cpu=cpu, labels={"zone": zone}) for zone, cpu in (("a", 8), ("b", 2))))
    constraint = objects.TopologySpreadConstraint(
        max_skew=1,
        topology_key="zone",
        when_unsatisfiable="DoNotSchedule",
        label_selector=objects.LabelSelector(match_labels={"app": "crew"}),
    )
    labels = {"app": "crew"}
    world.add(*(_spread(item, constraint) for item in gang("crew", 5, cpu=1, labels=labels)))
    world.add(pod("above", cpu=1, node="na", priority=9, labels=labels), pod("equal", cpu=1, node="na", labels=labels))
    bound = CapacityBounds(world.engine.cluster, world.engine.running)
    found = []
    for name in (None, "above", "equal"):
        if name is not None:
            world.engine.remove(ObjectRef("Pod", uid=world.record(name).uid), world.now)
        bound.refresh()
        found.append(bool(bound.out_of_reach(world.entity("crew"))))
    assert found == [True, True, False]
    assert bound.sizes()["waiting_spreads"] == 1
    bound.forget(world.entity("crew").ref)
    assert bound.sizes() == {"waiting_entities": 0, "waiting_shapes": 0, "waiting_spreads": 0}


def test_node_that_moved_to_another_zone_counts_there_when_a_pod_on_it_ends() -> None:
    """scheduling.md 1.7: what is kept by zone moves along with the node."""
    spread = objects.TopologySpreadConstraint(
        max_skew=1,
        topology_key="zone",
        when_unsatisfiable="DoNotSchedule",
        label_selector=objects.LabelSelector(match_labels={"app": "x"}),
    )
    world = World(
        node("a1", cpu=1, labels={"zone": "a"}),
        node("b1", cpu=2, labels={"zone": "b"}),
        node("b2", cpu=2, labels={"zone": "b"}),
        pod("first", cpu=1, node="a1", priority=9),
        pod("second", cpu=1, node="b2", priority=9),
    )
    for item in gang("g", 4, cpu=1, labels={"app": "x"}):
        if isinstance(item, objects.Pod):
            item = replace(item, spec=replace(item.spec, topology_spread_constraints=(spread,)))
        world.add(item)
    bound = CapacityBounds(world.engine.cluster, world.engine.running)
    entity = world.entity("g-0")

    def shut() -> bool:
        bound.refresh()
        return bool(bound.out_of_reach(entity))

    assert shut(), "no place in a"
    world.add(node("b2", cpu=2, labels={"zone": "a"}))
    assert shut(), "one place in a and two in b"
    world.engine.remove(ObjectRef("Pod", uid=world.record("second").uid), world.now)
    assert not shut()


def test_pod_with_new_tolerations_is_no_measure_for_similar_pods() -> None:
    """scheduling.md 1.7: one of two gets a toleration; the tainted zone is none that the other has to fill."""
    spread = objects.TopologySpreadConstraint(
        max_skew=1,
        topology_key="zone",
        when_unsatisfiable="DoNotSchedule",
        label_selector=objects.LabelSelector(match_labels={"app": "x"}),
        node_taints_policy="Honor",
    )
    world = World(
        node("a", cpu=1, labels={"zone": "a"}, taints=[("kept", "", "NoSchedule")]),
        node("b", cpu=1, labels={"zone": "b"}),
        node("c", cpu=1, labels={"zone": "c"}),
        *(pod(f"on-{name}", cpu=1, node=name, priority=9) for name in "abc"),
    )
    for name in ("first", "second"):
        world.add(*(_spread(item, spread) for item in gang(name, 4, cpu=1, labels={"app": "x"})))
    bound = CapacityBounds(world.engine.cluster, world.engine.running)
    bound.refresh()
    assert all(bound.out_of_reach(world.entity(name)) for name in ("first", "second"))
    for i in range(4):
        world.change_pod(
            f"first-{i}", lambda p: replace(p, spec=replace(p.spec, tolerations=(toleration("kept", "Exists"),)))
        )
    bound.forget(world.entity("first").ref)
    world.add(node("b2", cpu=2, labels={"zone": "b"}), node("c2", cpu=2, labels={"zone": "c"}))
    bound.refresh()
    assert not bound.out_of_reach(world.entity("second"))


@pytest.mark.parametrize("cut", [False, True], ids=["the log says so", "the log is cut"])
def test_node_that_moved_opens_its_new_domain(cut: bool) -> None:
    """scheduling.md 1.7: b is full, so one may stand in a; with another node there, two in each."""
    full = pod("r", cpu=4, node="nb", priority=9)
    world = World(*(node(f"n{name}", cpu=4, labels={"zone": name[0]}) for name in ("a", "a2", "b")), full)
    world.add(*(_spread(item, _over("zone")) for item in gang("p", 4, cpu=1, labels={"app": "x"})))
    bound = CapacityBounds(world.engine.cluster, world.engine.running)
    bound.refresh()
    assert "PodTopologySpread" in bound.out_of_reach(world.entity("p"))
    world.add(node("na2", cpu=4, labels={"zone": "b"}))
    if cut:
        world.engine.cluster.touched.cut(0)
    bound.refresh()
    assert not bound.out_of_reach(world.entity("p"))


def test_domains_are_read_again_for_pending_entities_alone() -> None:
    """scheduling.md 1.7: once for all that have the same nodes and key, and not when the last of them is gone."""
    world = World(node("n", cpu=1, labels={"zone": "a"}), pod("lone", cpu=9))
    for name in ("first", "second"):
        world.add(*(_spread(item, _over("zone")) for item in gang(name, 2, cpu=1, labels={"app": "x"})))
    bound = CapacityBounds(world.engine.cluster, world.engine.running)
    bound.refresh()
    for name in ("lone", "first", "second"):
        bound.out_of_reach(world.entity(name))
    read: list[int] = []
    for turn, forgotten in enumerate(("", "first", "second")):
        if forgotten:
            bound.forget(world.entity(forgotten).ref)
        world.add(node(f"m{turn}", cpu=1, labels={"zone": "b"}))
        each = Layout.work_out
        with mock.patch.object(Layout, "work_out", autospec=True, side_effect=each) as work_out:
            bound.refresh()
        read.append(work_out.call_count)
    assert read == [1, 1, 0]
    bound.out_of_reach(world.entity("first"))
    world.add(pod("more", cpu=1, node="m0", priority=9))
    with mock.patch.object(Layout, "work_out", side_effect=AssertionError("needless")):
        bound.refresh()


def test_spreads_over_more_domains_than_are_compared_are_not_reckoned_again_until_they_can_be() -> None:
    """scheduling.md 1.7: nothing is claimed of them, so nothing is looked at for them when a pod goes."""
    spread = objects.TopologySpreadConstraint(
        max_skew=1,
        topology_key="zone",
        when_unsatisfiable="DoNotSchedule",
        label_selector=objects.LabelSelector(match_labels={"app": "x"}),
    )
    world = World(*(node(f"n{zone}", cpu=1, labels={"zone": zone}) for zone in "ab"))
    world.add(pod("on-a", cpu=1, node="na", priority=9), pod("on-b", cpu=1, node="nb", priority=9))
    world.add(*(_spread(item, spread) for item in gang("crew", 3, cpu=1, labels={"app": "x"})))
    bound = CapacityBounds(world.engine.cluster, world.engine.running)
    entity = world.entity("crew")
    bound.refresh()
    with mock.patch.object(spread_capacity, "_MOST_DOMAINS", 1):
        assert "PodTopologySpread" not in bound.out_of_reach(entity)
        world.engine.remove(ObjectRef("Pod", uid=world.record("on-a").uid), world.now)
        with mock.patch.object(SpreadBounds, "place", side_effect=AssertionError("needless")):
            bound.refresh()
    world.add(node("na", cpu=4, labels={"zone": "a", "new": ""}))
    bound.refresh()
    assert "PodTopologySpread" in bound.out_of_reach(entity), "one in a at most, as b has room for none"
    with mock.patch.object(spread_capacity, "_MOST_DOMAINS", 1):
        bound.forget(entity.ref)
        bound.out_of_reach(entity)
    for zone in "ab":
        world.add(node(f"n{zone}", cpu=4, labels={"zone": zone, "more": ""}))
    bound.refresh()
    assert not bound.out_of_reach(entity), "two in a and one in b"


def test_pods_that_run_are_counted_again_when_a_spread_can_be_reckoned_with_again() -> None:
    """scheduling.md 1.7: the pod in b allows two in a, before and after nothing was claimed for a while."""
    world = World(*(node(f"n{zone}", cpu=cpu, labels={"zone": zone}) for zone, cpu in (("a", 4), ("b", 1))))
    world.add(pod("on-b", cpu=1, node="nb", priority=9, labels={"app": "x"}))
    world.add(*(_spread(item, _over("zone")) for item in gang("crew", 2, cpu=1, labels={"app": "x"})))
    bound = CapacityBounds(world.engine.cluster, world.engine.running)
    entity = world.entity("crew")
    bound.refresh()
    assert not bound.out_of_reach(entity)
    with mock.patch.object(spread_capacity, "_MOST_DOMAINS", 1):
        world.add(node("na", cpu=5, labels={"zone": "a", "new": ""}))
        bound.refresh()
    world.add(node("na", cpu=4, labels={"zone": "a"}))
    bound.refresh()
    assert not bound.out_of_reach(entity)


# -- kept up to date ---------------------------------------------------------------------------------------------------


def _over(key: str, skew: int = 1, **more: Any) -> objects.TopologySpreadConstraint:
    selector = objects.LabelSelector(match_labels={"app": "x"})
    return objects.TopologySpreadConstraint(
        max_skew=skew, topology_key=key, when_unsatisfiable="DoNotSchedule", label_selector=selector, **more
    )


def _many_kinds() -> World:
    """Three zones of two nodes with pods of several priorities, and one of each kind of entity that waits."""
    world = World()
    for turn, (zone, i) in enumerate((zone, i) for zone in "abc" for i in "01"):
        name, labels = f"n{zone}{i}", {"app": "x"} if turn % 2 else {}
        world.add(node(name, cpu=4, labels={"zone": zone, "host": name}))
        world.add(pod(f"r{turn}", cpu=3, node=name, priority=turn, labels=labels))
    world.add(pod("single", cpu=4), pod("strong", cpu=5, priority=3), pod("never", cpu=4, priority=3, never=True))
    world.add(pod("away", cpu=1, priority=2, never=True, affinity=_apart_by("zone", "x")))
    world.add(*gang("alike", 5, cpu=2, priority=1), *gang("zoned", 3, cpu=2, selector={"zone": "a"}))
    world.add(group("mixed", min_count=5), *(pod(f"mixed-{cpu}", cpu=cpu, group="mixed") for cpu in range(2, 8)))
    world.add(group("both", min_count=3), *(pod(f"both-{i}", cpu=2 + i // 2, group="both") for i in range(3)))
    world.add(*(_spread(item, _over("zone")) for item in gang("spread", 4, cpu=1, labels={"app": "x"})))
    world.add(*(_spread(item, _over("host")) for item in gang("hosts", 4, cpu=1, labels={"app": "x"}, priority=2)))
    world.add(*gang("apart", 4, cpu=1, labels={"app": "z"}, affinity=_apart_by("zone", "z")))
    world.add(composite("tree", min_groups=2))
    world.add(*gang("left", 2, cpu=2, parent="tree"), *gang("right", 3, cpu=2, parent="tree"))
    return world


def _relabelled(name: str, **labels: str) -> Callable[[World], object]:
    return lambda w: w.engine.set(_with_labels(w.objects[f"uid-{name}"], labels), w.now)


def _with_labels(item: objects.Pod, labels: dict[str, str]) -> objects.Pod:
    return replace(item, metadata=replace(item.metadata, labels=labels))


def _unknown_changes(world: World) -> None:
    """A pod goes and a node moves, and the log in which that stands is cut."""
    world.gone("new")
    world.add(node("nb0", cpu=9, labels={"zone": "c", "host": "nb0"}))
    world.engine.cluster.touched.cut(0)


HAPPENINGS: dict[str, Callable[[World], object]] = {
    "a pod goes": lambda w: w.gone("r0"),
    "another goes": lambda w: w.gone("r3"),
    "one is terminating": lambda w: w.engine.mark_terminating("uid-r5", w.now),
    "one comes": lambda w: w.add(pod("new", cpu=1, node="na0", priority=9, labels={"app": "x"})),
    "one is counted now": _relabelled("r2", app="x"),
    "one is counted no more": _relabelled("r1", app="y"),
    "a node grows": lambda w: w.add(node("nb0", cpu=9, labels={"zone": "b", "host": "nb0"})),
    "a node moves": lambda w: w.add(node("nc1", cpu=4, labels={"zone": "a", "host": "nc1"})),
    "a node is cordoned": lambda w: w.add(node("na1", cpu=4, labels={"zone": "a", "host": "na1"}, unschedulable=True)),
    "a node comes": lambda w: w.add(node("nd0", cpu=4, labels={"zone": "d", "host": "nd0"})),
    "a node goes": lambda w: w.engine.remove(ObjectRef("Node", "nb1"), w.now),
    "it comes back": lambda w: w.add(node("nb1", cpu=6, labels={"zone": "b", "host": "nb1"})),
    "so much that it is unknown what": _unknown_changes,
    "a resource is new": lambda w: w.add(
        node("ng", cpu=4, gpu=2, labels={"zone": "e", "host": "ng"}), pod("g", gpu=1, node="ng")
    ),
    "a node shrinks": lambda w: w.add(node("nd0", cpu=1, labels={"zone": "d", "host": "nd0"})),
    "a node is uncordoned": lambda w: w.add(node("na1", cpu=4, labels={"zone": "a", "host": "na1"})),
    "the last go": lambda w: [w.gone(name) for name in ("r1", "r2", "r4", "g")],
}


def test_bounds_that_are_kept_up_equal_a_fresh_count() -> None:
    """One thing after the other, of pods and of nodes: an entity is out of reach by both, and not always the same.

    Entities that waited from the beginning, and ones that are forgotten and asked about again.
    """
    world = _many_kinds()
    kept = CapacityBounds(world.engine.cluster, world.engine.running)
    entities = list(world.engine.queue.entities())
    seen: dict[str, set[frozenset[str]]] = {entity.ref: set() for entity in entities}

    def ask(bound: CapacityBounds) -> dict[str, frozenset[str]]:
        bound.refresh()
        return {entity.ref: bound.out_of_reach(entity) for entity in entities}

    for turn, (what, happens) in enumerate({"nothing": lambda _: None, **HAPPENINGS}.items()):
        happens(world)
        forgotten = entities[turn % len(entities)]
        kept.forget(forgotten.ref)
        found = ask(kept)
        assert found == ask(CapacityBounds(world.engine.cluster, world.engine.running)), what
        for key, why in found.items():
            seen[key].add(why)
    same = [key for key, answers in seen.items() if len(answers) == 1]
    assert not same, "these were the same from beginning to end"
    assert kept.sizes()["waiting_entities"] == len(entities)
    for entity in entities:
        kept.forget(entity.ref)
        kept.forget(entity.ref)
    assert kept.sizes() == {"waiting_entities": 0, "waiting_shapes": 0, "waiting_spreads": 0}
    assert ask(kept) == ask(CapacityBounds(world.engine.cluster, world.engine.running))


@pytest.mark.parametrize("most", ["_MOST_EXCLUSIONS", "_LEVELS", "_KINDS", "_MASKS"])
def test_beyond_the_limits_of_its_tables_a_bound_claims_less(most: str) -> None:
    """Every table is bounded; what is beyond it is left out of account, and never the other way round."""
    world = _many_kinds()
    full = CapacityBounds(world.engine.cluster, world.engine.running)
    with mock.patch.object(member_capacity, most, 1 if most != "_MASKS" else -100):
        few = CapacityBounds(world.engine.cluster, world.engine.running)
        for happens in (lambda _: None, *HAPPENINGS.values()):
            happens(world)
            for bound in (full, few):
                bound.refresh()
            for entity in world.engine.queue.entities():
                claimed, known = few.out_of_reach(entity), full.out_of_reach(entity)
                assert known or not claimed
                assert most != "_MASKS" or claimed == known
