"""Who cannot be placed is not tried again, and nobody who can is delayed (`reprieve.scheduling.room_bound`)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from msgspec.structs import replace

from reprieve.api import objects
from reprieve.queueing import queue
from reprieve.queueing.entity import Entity, QueueState
from reprieve.queueing.hints import QueueingHints
from reprieve.queueing.queue import SchedulingQueue, Timing
from reprieve.scheduling import spread_bound
from reprieve.scheduling.decision import Result
from reprieve.scheduling.group_cycle import schedule_group
from reprieve.scheduling.pod_cycle import schedule_pod
from reprieve.scheduling.room_bound import RoomBound
from reprieve.scheduling.spread_bound import SpreadBounds
from tests.building import World, gang, group, node, pod, toleration
from tests.drawing import examples
from tests.random_clusters import RandomCluster, random_clusters

many = examples(300)
AT_ONCE = Timing(initial_backoff=0.0, max_backoff=0.0)
Happening = Callable[[World], object]
Choosing = Callable[[random.Random, RandomCluster, World, int], Happening]


def _happening(chance: random.Random, cluster: RandomCluster, world: World, turn: int) -> Happening:
    """Something that happens to the cluster, the same to every world it is done to."""
    present = sorted(p.name for p in world.engine.cluster.pods.values() if p.row >= 0)
    machines = [item for item, _ in cluster.nodes]
    groups = [item for item, _ in cluster.groups]
    kind = chance.randrange(9)
    if kind <= 2 and present:
        name = chance.choice(present)
        return lambda w: w.engine.pod_gone(w.record(name).uid, w.now)
    if kind == 3 and present:
        name = chance.choice(present)
        return lambda w: w.change_pod(name, _smaller)
    if kind == 4:
        extra = node(f"extra-{turn}", cpu=chance.randint(1, 4), labels={"zone": chance.choice("ab")})
        return lambda w: w.add(extra)
    if kind == 5:
        changed = chance.choice(machines)
        assert isinstance(changed, objects.Node)
        cordoned = replace(changed, spec=replace(changed.spec, unschedulable=chance.random() < 0.5))
        return lambda w: w.add(cordoned)
    if kind == 6 and groups:
        chosen = chance.choice(groups)
        assert isinstance(chosen, objects.PodGroup)
        other = replace(chosen, spec=replace(chosen.spec, priority=chance.randint(-1, 4)))
        return lambda w: w.add(other)
    if kind == 7 and groups:
        chosen = chance.choice(groups)
        low = group(chosen.metadata.name, min_count=chance.randint(1, 3), priority=chance.randint(0, 3))
        return lambda w: w.add(low)
    size, cores, above = chance.randint(1, 4), chance.randint(1, 3), chance.randint(0, 3)
    zone = {"zone": chance.choice("ab")} if chance.random() < 0.3 else None
    return lambda w: w.add(*gang(f"new-{turn}", size, cpu=cores, priority=above, selector=zone))


def _happening_with_rules(chance: random.Random, cluster: RandomCluster, world: World, turn: int) -> Happening:
    """As `_happening`, and rules beside room: pods that keep away from others, tainted nodes, labels that change."""
    present = sorted(p.name for p in world.engine.cluster.pods.values() if p.row >= 0)
    kind = chance.randrange(6)
    if kind <= 1:
        rules: dict[str, Any] = {"affinity": _away(chance), "labels": {"app": chance.choice("xy")}}
        if chance.random() < 0.3:
            single = pod(f"away-{turn}", cpu=1, priority=chance.randint(0, 3), never=chance.random() < 0.5, **rules)
            return lambda w: w.add(single)
        whole = gang(f"away-{turn}", chance.randint(1, 3), cpu=1, priority=chance.randint(0, 3), **rules)
        return lambda w: w.add(*whole)
    if kind == 2 and present:
        name, labels = chance.choice(present), {"app": chance.choice("xyz")}
        return lambda w: w.change_pod(name, lambda p: replace(p, metadata=replace(p.metadata, labels=labels)))
    if kind == 3 and present:
        name = chance.choice(present)
        return lambda w: w.engine.pod_terminating(w.record(name).uid, w.now)
    if kind == 4:
        machine = chance.choice([item for item, _ in cluster.nodes])
        assert isinstance(machine, objects.Node)
        taints = (objects.Taint(key="kept", value="", effect="NoSchedule"),) if chance.random() < 0.6 else ()
        kept = replace(machine, spec=replace(machine.spec, taints=taints))
        return lambda w: w.add(_with_host(kept))
    return _happening(chance, cluster, world, turn)


def _happening_with_spread(chance: random.Random, cluster: RandomCluster, world: World, turn: int) -> Happening:
    """As `_happening_with_rules`, and gangs that spread over zones or nodes, while nodes come, go and move."""
    kind = chance.randrange(10)
    if kind <= 3:
        return _happening_with_rules(chance, cluster, world, turn)
    if kind <= 5:
        return _happening_to_nodes(chance, cluster, turn)
    if kind == 6 and (waiting := sorted(p.name for p in world.engine.cluster.pods.values() if p.row < 0)):
        name, changed = chance.choice(waiting), {"app": chance.choice("xy"), "version": chance.choice("12")}
        return lambda w: w.change_pod(name, lambda p: replace(p, metadata=replace(p.metadata, labels=changed)))
    constraints = tuple(
        objects.TopologySpreadConstraint(
            max_skew=chance.randint(1, 3),
            topology_key=key,
            when_unsatisfiable=chance.choice((*["DoNotSchedule"] * 4, "ScheduleAnyway")),
            label_selector=objects.LabelSelector(match_labels=chance.choice(({"app": "x"}, {"app": "x"}, {}))),
            match_label_keys=chance.choice(((), (), ("version",))),
            min_domains=chance.choice((None, None, 2, 3)),
            node_affinity_policy=chance.choice(("Honor", "Ignore")),
            node_taints_policy=chance.choice(("Ignore", "Honor")),
        )
        for key in chance.choice((("zone",), ("zone",), ("host",), ("zone", "host")))
    )
    size, version = chance.randint(2, 5), chance.choice("12")
    made = gang(
        f"spread-{turn}",
        size,
        min_count=chance.choice((size, size, chance.randint(1, size))),
        cpu=1,
        priority=chance.randint(0, 3),
        labels={"app": chance.choice("xxy"), "version": version},
        selector={"zone": chance.choice("ab")} if chance.random() < 0.2 else None,
        tolerations=[toleration("kept", "Exists")] if chance.random() < 0.2 else (),
    )
    items = [_spread(item, constraints, chance) for item in made]
    return lambda w: w.add(*items)


def _happening_to_nodes(chance: random.Random, cluster: RandomCluster, turn: int) -> Happening:
    """A node goes, is in another zone or in none, or is new; or a pod that others count comes, here or elsewhere."""
    machine = chance.choice([item for item, _ in cluster.nodes])
    assert isinstance(machine, objects.Node)
    name, kind = machine.metadata.name, chance.randrange(5)
    if kind == 0:
        return lambda w: w.engine.remove_node(name, w.now)
    if kind <= 2:
        zone = chance.choice("abc ").strip()
        labels = {"host": name, **({"zone": zone} if zone else {})}
        moved = replace(machine, metadata=replace(machine.metadata, labels=labels))
        return lambda w: w.add(moved)
    if kind == 3:
        extra = node(
            f"more-{turn}", cpu=chance.randint(1, 4), labels={"zone": chance.choice("abc"), "host": f"m{turn}"}
        )
        return lambda w: w.add(extra)
    labels = {"app": "x", "version": chance.choice("12")}
    counted = pod(
        f"counted-{turn}",
        cpu=chance.choice((None, 1)),
        priority=chance.randint(0, 3),
        labels=labels,
        namespace=chance.choice(("default", "default", "other")),
    )
    return lambda w: w.add(counted)


def _spread(
    item: objects.KubernetesObject, constraints: tuple[objects.TopologySpreadConstraint, ...], chance: random.Random
) -> objects.KubernetesObject:
    """A pod with these constraints; some ask for more than others."""
    if not isinstance(item, objects.Pod):
        return item
    spread = replace(item, spec=replace(item.spec, topology_spread_constraints=constraints))
    return _smaller(spread) if chance.random() < 0.2 else spread


def _away(chance: random.Random) -> objects.Affinity:
    terms = tuple(
        objects.PodAffinityTerm(
            label_selector=objects.LabelSelector(match_labels={"app": chance.choice("xy")}),
            topology_key=chance.choice(("host", "host", "zone")),
        )
        for _ in range(chance.randint(1, 2))
    )
    return objects.Affinity(
        pod_anti_affinity=objects.PodAntiAffinity(required_during_scheduling_ignored_during_execution=terms)
    )


def _with_host(item: objects.KubernetesObject) -> objects.KubernetesObject:
    """A node with a label of its own."""
    if not isinstance(item, objects.Node):
        return item
    labels = {**(item.metadata.labels or {}), "host": item.metadata.name}
    return replace(item, metadata=replace(item.metadata, labels=labels))


def _smaller(item: objects.Pod) -> objects.Pod:
    container = item.spec.containers[0]
    resources = replace(container.resources, requests={"cpu": "500m"})
    return replace(item, spec=replace(item.spec, containers=(replace(container, resources=resources),)))


@contextmanager
def _everything_may_help() -> Iterator[None]:
    """Any event wakes everybody who waits, unless it is out of reach: nothing is left to hints."""
    every = mock.patch.object(
        SchedulingQueue, "_concerned", lambda self, _plugin, _event: [*self._unschedulable.by_key.values()]
    )
    with (
        mock.patch.object(queue, "FEW_PODS", -1),
        mock.patch.object(QueueingHints, "help", return_value=True),
        every,
    ):
        yield


def _same(one: World, other: World) -> None:
    assert one.where == other.where
    assert one.nominated == other.nominated
    assert one.evicted == other.evicted


@pytest.mark.parametrize("happening", [_happening, _happening_with_rules, _happening_with_spread])
@many
@given(random_clusters(max_pending=6), st.randoms(use_true_random=False))
def test_whoever_could_run_runs_as_soon_as_if_all_were_always_tried(
    happening: Choosing, cluster: RandomCluster, chance: random.Random
) -> None:
    there = [(_with_host(item), since) for item, since in cluster.everything]
    with _everything_may_help():
        asking = World(*there, timing=AT_ONCE).drain()
        trying = World(*there, timing=AT_ONCE, plain=True).drain()
        _same(asking, trying)
        for turn in range(8):
            happens = happening(chance, cluster, trying, turn)
            for world in (asking, trying):
                happens(world)
                world.drain()
            _same(asking, trying)
            if chance.random() < 0.3:
                _same(asking.settle(), trying.settle())
    saved = trying.engine.attempts - asking.engine.attempts
    assert saved >= 0
    event("attempts were saved" if saved else "every attempt was made")


@pytest.mark.parametrize("happening", [_happening, _happening_with_rules, _happening_with_spread])
@many
@given(random_clusters(max_pending=6), st.randoms(use_true_random=False))
def test_who_is_out_of_reach_is_rejected_and_the_bound_is_that_of_a_fresh_one(
    happening: Choosing, cluster: RandomCluster, chance: random.Random
) -> None:
    """After every happening: an attempt at whoever is out of reach is in vain; what is kept up equals a new count."""
    world = World(*((_with_host(item), since) for item, since in cluster.everything), timing=AT_ONCE).drain()
    kept = world.engine.reach
    assert kept is not None
    for turn in range(8):
        happening(chance, cluster, world, turn)(world)
        fresh = RoomBound(world.engine.cluster, world.engine.running)
        fresh.refresh()
        kept.refresh()
        for entity in [e for e in world.engine.queue.entities() if e.state is QueueState.UNSCHEDULABLE]:
            rejected_by = kept.out_of_reach(entity)
            assert rejected_by == fresh.out_of_reach(entity)
            if rejected_by:
                event("somebody was out of reach")
                if "InterPodAffinity" in rejected_by:
                    event("by anti-affinity")
                if "PodTopologySpread" in rejected_by:
                    event("by spread")
                assert _attempt(world, entity) is not Result.SCHEDULED
        world.drain()


def _attempt(world: World, entity: Entity) -> Result:
    """What a cycle would decide now; it is not assumed. To wait for victims counts as being placed."""
    engine = world.engine
    running = engine.running[entity.profile]
    pods = list(entity.ready.values())
    if entity.group is None:
        decision = schedule_pod(running, entity.key, pods[0], under_way=False)
    else:
        decision = schedule_group(running, entity.key, entity.group, pods, under_way=False)
    return Result.SCHEDULED if decision.preemption is not None or decision.bindings else decision.result


def test_the_bound_sees_room_behind_victims_below_and_only_those() -> None:
    """What may be evicted counts as room: for who has the priority and may preempt."""
    below, above = pod("low", cpu=4, node="n", priority=1), pod("high", cpu=4, node="m", priority=9)
    world = World(node("n", cpu=4), node("m", cpu=4), below, above)
    world.add(pod("can", cpu=4, priority=5), pod("never", cpu=4, priority=5, never=True), pod("equal", cpu=4))
    bound = RoomBound(world.engine.cluster, world.engine.running)
    bound.refresh()
    assert not bound.out_of_reach(world.entity("can"))
    assert bound.out_of_reach(world.entity("never")) == {"NodeResourcesFit"}
    assert bound.out_of_reach(world.entity("equal")) == {"NodeResourcesFit"}
    assert bound.sizes() == {"waiting_entities": 3, "waiting_shapes": 3, "waiting_spreads": 0}
    for name in ("can", "never", "equal"):
        bound.forget(world.entity(name).key)
    assert bound.sizes() == {"waiting_entities": 0, "waiting_shapes": 0, "waiting_spreads": 0}


def test_a_gang_is_counted_by_kind_and_together_and_on_the_nodes_it_asks_for() -> None:
    """Eight places for small members and one for a large one, in the zone alone."""
    rooms = [node("a", cpu=4, labels={"zone": "a"}), node("b", cpu=40, labels={"zone": "b"})]

    def crew(name: str, small: int, large: int, zone: str) -> list[objects.KubernetesObject]:
        where = {"zone": zone}
        made = [pod(f"{name}-s{i}", cpu=1, group=name, selector=where) for i in range(small)]
        made += [pod(f"{name}-l{i}", cpu=4, group=name, selector=where) for i in range(large)]
        return [group(name, min_count=small + large), *made]

    world = World(*rooms, *crew("fits", 4, 0, "a"), *crew("many", 5, 0, "a"), *crew("large", 0, 2, "a"))
    world.add(*crew("both", 2, 2, "a"), *crew("there", 5, 2, "b"))
    bound = RoomBound(world.engine.cluster, world.engine.running)
    bound.refresh()
    found = {name: bound.out_of_reach(world.entity(name)) for name in ("fits", "many", "large", "both", "there")}
    why = {"NodeResourcesFit", "GangScheduling"}
    assert found == {"fits": set(), "many": why, "large": why, "both": why, "there": set()}


@pytest.mark.parametrize(
    ("busy", "never", "out"),
    [
        ({"priority": 9}, False, True),
        ({"priority": 1}, False, False),
        ({"priority": 1}, True, True),
        ({"priority": 9, "terminating": True}, False, False),
        ({"priority": 9, "labels": {"app": "y"}}, False, False),
        ({"priority": 9, "namespace": "other"}, False, False),
    ],
    ids=["stays", "may be evicted", "never preempts", "on its way out", "other labels", "other namespace"],
)
def test_a_node_with_a_pod_that_stays_is_no_place_for_who_keeps_away_from_it(
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
    bound = RoomBound(world.engine.cluster, world.engine.running)

    def shut() -> bool:
        bound.refresh()
        return bound.out_of_reach(world.entity("away")) == {"NodeResourcesFit", "InterPodAffinity"}

    found = [shut()]
    for name in ("busy-0", "busy-1"):
        world.engine.pod_gone(world.record(name).uid, world.now)
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
        (3, {"app": "crew"}, False, ("a", "b", ""), False),  # who is in no domain keeps apart from nobody
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
    bound = RoomBound(world.engine.cluster, world.engine.running)
    bound.refresh()
    why = {"NodeResourcesFit", "GangScheduling", "InterPodAffinity"}
    assert bound.out_of_reach(world.entity("crew")) == (why if out else set())


def test_a_pod_that_stays_shuts_its_whole_domain_until_it_goes() -> None:
    """scheduling.md 1.7: it runs on another node of the zone; a second one keeps the zone shut when the first goes."""
    world = World(*(node(f"n{i}", cpu=4, labels={"zone": "a"}) for i in range(3)))
    world.add(*(pod(f"busy-{i}", cpu=1, node=f"n{i}", priority=9, labels={"app": "x"}) for i in range(2)))
    world.add(pod("away", cpu=1, priority=5, affinity=_apart_by("zone", "x")))
    bound = RoomBound(world.engine.cluster, world.engine.running)
    found = []
    for name in (None, "busy-0", "busy-1"):
        if name is not None:
            world.engine.pod_gone(world.record(name).uid, world.now)
        bound.refresh()
        found.append(bool(bound.out_of_reach(world.entity("away"))))
    assert found == [True, True, False]


@pytest.mark.parametrize(
    ("skew", "more", "out"),
    [
        (1, {}, True),  # the zone without room holds none, so the others hold one each
        (2, {}, False),
        (1, {"min_domains": 4}, True),
        (1, {"label_selector": objects.LabelSelector(match_labels={"app": "other"})}, False),  # who is not counted
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
    chance = random.Random(0)
    made = gang("crew", 4, cpu=1, labels={"app": "crew"})
    world.add(*(_spread(item, (constraint,), chance) for item in made))
    bound = RoomBound(world.engine.cluster, world.engine.running)
    bound.refresh()
    why = {"NodeResourcesFit", "GangScheduling", "PodTopologySpread"}
    assert bound.out_of_reach(world.entity("crew")) == (why if out else set())
    world.engine.pod_gone(world.record("full-0").uid, world.now)
    bound.refresh()
    assert bound.out_of_reach(world.entity("crew")) == (why if "min_domains" in more else set())


def test_who_is_counted_and_stays_leaves_members_that_spread_less() -> None:
    """scheduling.md 1.7: five would find places in two zones; two that run in one of them leave it fewer."""
    world = World(*(node(f"n{zone}", cpu=cpu, labels={"zone": zone}) for zone, cpu in (("a", 8), ("b", 2))))
    constraint = objects.TopologySpreadConstraint(
        max_skew=1,
        topology_key="zone",
        when_unsatisfiable="DoNotSchedule",
        label_selector=objects.LabelSelector(match_labels={"app": "crew"}),
    )
    labels = {"app": "crew"}
    world.add(*(_spread(item, (constraint,), random.Random(0)) for item in gang("crew", 5, cpu=1, labels=labels)))
    world.add(pod("above", cpu=1, node="na", priority=9, labels=labels), pod("equal", cpu=1, node="na", labels=labels))
    bound = RoomBound(world.engine.cluster, world.engine.running)
    found = []
    for name in (None, "above", "equal"):
        if name is not None:
            world.engine.pod_gone(world.record(name).uid, world.now)
        bound.refresh()
        found.append(bool(bound.out_of_reach(world.entity("crew"))))
    assert found == [True, True, False]
    assert bound.sizes()["waiting_spreads"] == 1
    bound.forget(world.entity("crew").key)
    assert bound.sizes() == {"waiting_entities": 0, "waiting_shapes": 0, "waiting_spreads": 0}


def test_a_node_that_moved_to_another_zone_counts_there_when_a_pod_on_it_ends() -> None:
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
    bound = RoomBound(world.engine.cluster, world.engine.running)
    entity = world.entity("g-0")

    def shut() -> bool:
        bound.refresh()
        return bool(bound.out_of_reach(entity))

    assert shut(), "no place in a"
    world.add(node("b2", cpu=2, labels={"zone": "a"}))
    assert shut(), "one place in a and two in b"
    world.engine.pod_gone(world.record("second").uid, world.now)
    assert not shut()


def test_who_tolerates_more_than_before_is_no_measure_for_those_it_was_alike_to() -> None:
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
        world.add(*(_spread(item, (spread,), random.Random(0)) for item in gang(name, 4, cpu=1, labels={"app": "x"})))
    bound = RoomBound(world.engine.cluster, world.engine.running)
    bound.refresh()
    assert all(bound.out_of_reach(world.entity(name)) for name in ("first", "second"))
    for i in range(4):
        world.change_pod(
            f"first-{i}", lambda p: replace(p, spec=replace(p.spec, tolerations=(toleration("kept", "Exists"),)))
        )
    bound.forget(world.entity("first").key)
    world.add(node("b2", cpu=2, labels={"zone": "b"}), node("c2", cpu=2, labels={"zone": "c"}))
    bound.refresh()
    assert not bound.out_of_reach(world.entity("second"))


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
    world.add(*(_spread(item, (spread,), random.Random(0)) for item in gang("crew", 3, cpu=1, labels={"app": "x"})))
    bound = RoomBound(world.engine.cluster, world.engine.running)
    entity = world.entity("crew")
    bound.refresh()
    with mock.patch.object(spread_bound, "_MOST_DOMAINS", 1):
        assert "PodTopologySpread" not in bound.out_of_reach(entity)
        world.engine.pod_gone(world.record("on-a").uid, world.now)
        with mock.patch.object(SpreadBounds, "place", side_effect=AssertionError("in vain")):
            bound.refresh()
    world.add(node("na", cpu=4, labels={"zone": "a", "new": ""}))
    bound.refresh()
    assert "PodTopologySpread" in bound.out_of_reach(entity), "one in a at most, as b has room for none"
