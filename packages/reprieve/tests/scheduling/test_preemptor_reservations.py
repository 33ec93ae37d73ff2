"""cost.md 5: room that is held for a preemptor, for how long, and how it is given back.

The number in the name of a test is that of the rule in section 5: cost.md 5.1, 5.2, 5.3, 5.4, 5.5.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.work_annotations import LONGEST
from reprieve.framework.profile import Profile
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.options import PreemptionOptions
from reprieve.scheduling.decision import Decision
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.preemptor_reservations import PreemptorReservations, Released
from tests.building import START, World, gang, group, node, pod, profile_with


def holding(seconds: float) -> dict[str, Profile]:
    profile = profile_with(DefaultPreemption(PreemptionOptions(hold_seconds=seconds)))
    return {profile.name: profile}


def released(world: World) -> list[tuple[str, list[str], str]]:
    """What was given back since the last call: the preemptor, where, and why."""
    return [(room.ref, room.nodes, room.reason.value) for room in world.released()]


def preempting(seconds: float = 600, *, stuck: bool = False) -> World:
    """`high` was decided for and waits for `low` to leave n1; `low` has 30 s, and does not go if it is `stuck`."""
    world = World(
        node("n1", cpu=4), pod("low", cpu=4, node="n1"), pod("high", cpu=4, priority=9), profiles=holding(seconds)
    )
    if stuck:
        world.virtual._leave_at = lambda pod, when: None  # type: ignore[method-assign]
    return world.drain()


def test_room_is_held_for_so_long_after_the_victims_should_have_left() -> None:
    """cost.md 5.1: 30 s of grace, and then the 600 s."""
    world = preempting()
    decision = next(d for d in world.engine.decisions if d.preemption is not None)
    assert decision.held_until == START + 30 + 600
    assert world.engine.next_wakeup(flush=False) == START + 630
    assert world.engine.next_wakeup(flush=False, holds=False) is None


def test_time_runs_from_when_the_last_victim_has_left() -> None:
    """cost.md 5.1: a victim that stops at once does not lengthen it by the grace period it did not use."""
    held = PreemptorReservations()
    assert held.begin("pod/a", 130.0, 100.0) == 230.0
    assert held.begin("pod/b", 130.0, 100.0) == 230.0
    held.start_now(["pod/a", "pod/unknown"], 105.0)
    assert (held.next_end(), held.end_of("pod/a"), held.end_of("pod/b")) == (205.0, 205.0, 230.0)
    held.start_now(["pod/b"], 140.0)  # after it should have been: the end stays
    assert held.end_due(229.0) == [("pod/a", 100.0)]
    held.begin("pod/b", 300.0, 100.0)  # decided again: the end of before is none
    assert (held.end_due(399.0), held.end_due(400.0), held.next_end()) == ([], [("pod/b", 100.0)], None)


def test_grace_period_without_measure_is_no_trouble() -> None:
    """cost.md 5.1: the API takes any number of seconds; no time is reported that no calendar has."""
    world = World(
        node("n1", cpu=4), pod("low", cpu=4, node="n1", grace=1 << 62), pod("high", cpu=4, priority=9)
    ).drain()
    [decision] = [d for d in world.engine.decisions if d.preemption is not None]
    assert decision.held_until is not None
    assert decision.held_until <= START + LONGEST + 600


def test_capacity_not_used_is_given_back_and_looked_for_elsewhere() -> None:
    """cost.md 5.2: the victim does not go: when its time and that of the hold are over, it is counted on no more."""
    world = preempting(seconds=60, stuck=True)
    world.add(node("n2", cpu=4), pod("other", cpu=4, node="n2", priority=1))
    world.virtual.until(START + 89)
    assert (world.evicted, world.nominated) == (["low"], {"high": "n1"})
    world.virtual.until(START + 91)
    (room,) = world.released()
    assert (room.ref, room.nodes, room.reason) == ("pod/uid-high", ["n1"], Released.NOT_USED)
    assert room.message == "it was reserved for 60 s and not used"
    assert (world.evicted, world.nominated) == (["low", "other"], {"high": "n2"})


def test_pod_without_another_place_waits_without_a_reservation() -> None:
    """cost.md 5.2: no second decision for the same victims, and room that comes after all is used."""
    world = preempting(seconds=60, stuck=True)
    world.virtual.until(START + 1000)
    assert released(world) == [("pod/uid-high", ["n1"], "NotUsed")]
    assert sum(d.preemption is not None for d in world.engine.decisions) == 1
    assert world.nominated == {}
    world.gone("low").settle()
    assert world.where == {"high": "n1"}


def test_whole_group_that_does_not_go_is_counted_on_no_more() -> None:
    """cost.md 5.2."""
    world = World(
        *[node(f"n{i}", cpu=2) for i in range(3)],
        *gang("crew", 2, whole=True, cpu=2),
        *[pod("other", cpu=2, node="n2", priority=1)],
        profiles=holding(60),
    ).settle()
    world.virtual._leave_at = lambda pod, when: None  # type: ignore[method-assign]
    world.add(pod("high", cpu=2, priority=9)).drain()
    assert world.evicted == ["crew-0", "crew-1"]
    world.virtual.until(world.now + 100)
    assert world.evicted == ["crew-0", "crew-1", "other"]


def test_hold_of_zero_has_no_end() -> None:
    """cost.md 5.1."""
    world = preempting(seconds=0)
    assert next(d for d in world.engine.decisions if d.preemption is not None).held_until is None
    assert world.engine.next_wakeup(flush=False) is None


def test_nomination_that_only_the_api_has_is_held_from_when_it_is_known() -> None:
    """cost.md 5.1: after a restart the time begins at the deletionTimestamp of victims that still leave."""
    world = World(
        node("n1", cpu=4),
        pod("low", cpu=4, node="n1", terminating=True, preempted=True),
        pod("high", cpu=4, priority=9, nominated="n1"),
        profiles=holding(50),
    ).drain()
    assert world.evicted == []
    assert world.nominated == {"high": "n1"}
    world.virtual.until(START + 49)
    assert released(world) == []
    world.virtual.until(START + 51)
    assert released(world) == [("pod/uid-high", ["n1"], "NotUsed")]


def test_preemptor_that_is_deleted_releases_at_once() -> None:
    """cost.md 5.3."""
    world = preempting()
    world.virtual.delete("Pod", "default", "high")
    assert released(world) == [("pod/uid-high", ["n1"], "Deleted")]
    assert world.engine.next_wakeup(flush=False) is not None  # the hold is forgotten when it is due
    world.virtual.until(START + 700)
    assert released(world) == []


def test_gang_below_its_minimum_releases_what_all_of_it_held() -> None:
    """cost.md 5.3: one member is deleted: the others may not be tried any more, and hold nothing."""
    world = World(
        *[node(f"n{i}", cpu=2) for i in range(2)],
        *[pod(f"low{i}", cpu=2, node=f"n{i}") for i in range(2)],
        *gang("crew", 2, priority=9, cpu=2),
    ).drain()
    assert sorted(world.nominated) == ["crew-0", "crew-1"]
    world.virtual.delete("Pod", "default", "crew-0")
    assert sorted(released(world)) == [
        ("group/default/crew", ["n0"], "Deleted"),
        ("group/default/crew", ["n1"], "Gated"),
    ]
    assert world.nominated == {}


def test_preemptor_that_finds_room_elsewhere_releases_what_it_held() -> None:
    """cost.md 5.3."""
    world = preempting()
    world.add(node("n2", cpu=4))
    world.virtual.until(START + 12)
    assert world.where == {"high": "n2"}
    (room,) = world.released()
    assert (room.nodes, room.reason, room.message) == (
        ["n1"],
        Released.PLACED_ELSEWHERE,
        "free capacity was found on n2",
    )


def test_members_that_swap_their_nodes_release_nothing() -> None:
    """cost.md 5.3: what was held for one is used by the other: it is the group's room."""
    world = World(
        *[node(f"n{i}", cpu=2) for i in range(2)],
        *[pod(f"low{i}", cpu=2, node=f"n{i}") for i in range(2)],
        *gang("crew", 2, priority=9, cpu=2),
    ).drain()
    one, other = world.record("crew-0"), world.record("crew-1")
    cluster = world.engine.cluster
    rows = one.nominated, other.nominated
    cluster.nominate(one, rows[1])
    cluster.nominate(other, rows[0])
    world.settle()
    assert len(world.where) == 2
    assert released(world) == []


def test_node_that_goes_takes_what_was_held_on_it_along() -> None:
    """cost.md 5.3."""
    world = preempting()
    world.virtual.delete("Node", "", "n1")
    assert released(world) == [("pod/uid-high", ["n1"], "NodeGone")]


def test_hold_waits_for_calls_that_are_still_being_made() -> None:
    """cost.md 5.2: the room was never there: the API server has been away all the time."""
    world = World(node("n1", cpu=4), pod("low", cpu=4, node="n1"), pod("high", cpu=4, priority=9), profiles=holding(10))
    world.step()
    world.virtual.now += 41
    world.engine.tick(world.now)
    assert released(world) == []
    assert world.nominated == {"high": "n1"}
    assert world.engine.wants_room("pod/uid-high")


def test_no_pods_are_evicted_for_a_gang_that_waits_for_members() -> None:
    """cost.md 5.3, preemption.md 7: the executor asks before every victim."""
    world = World(
        *[node(f"n{i}", cpu=2) for i in range(2)],
        *[pod(f"low{i}", cpu=2, node=f"n{i}") for i in range(2)],
        *gang("crew", 2, priority=9, cpu=2),
    )
    world.step()
    key = "group/default/crew"
    assert world.engine.wants_room(key)
    world.virtual.delete("Pod", "default", "crew-0")
    assert not world.engine.wants_room(key)


def _racks() -> list[objects.KubernetesObject]:
    """Two racks of two nodes, all of them full; rack a is cheaper to clear."""
    places = [(rack, f"{rack}{i}") for rack in "ab" for i in range(2)]
    nodes = [node(name, cpu=2, labels={"rack": rack}) for rack, name in places]
    return [*nodes, *(pod(f"low-{name}", cpu=2, node=name, priority=int(rack == "b")) for rack, name in places)]


def _crew() -> list[objects.KubernetesObject]:
    pods = [pod(f"crew-{i}", cpu=2, group="crew", priority=9) for i in range(2)]
    return [group("crew", min_count=2, priority=9, topology="rack"), *pods]


def test_domain_is_kept_while_its_room_is_held() -> None:
    """cost.md 5.5: a more important pod takes a free node of rack a; what is missing is evicted there, not in b.

    In rack a there is a third node by now, with a pod that is dearer to evict than rack b's pods are.
    """
    world = World(*_racks(), *_crew()).drain()
    assert set(world.nominated.values()) == {"a0", "a1"}
    world.add(
        node("a2", cpu=2, labels={"rack": "a"}),
        pod("dear", cpu=2, node="a2", priority=5),
        pod("vip", cpu=2, priority=20, selector={"rack": "a"}),
    )
    world.settle()
    assert world.where["vip"] in ("a0", "a1")
    assert {world.where["crew-0"], world.where["crew-1"]} < {"a0", "a1", "a2"}
    assert world.evicted == ["dear", "low-a0", "low-a1"]


def test_domain_that_cannot_hold_the_group_any_more_is_left() -> None:
    """cost.md 5.5."""
    world = World(*_racks(), *_crew()).drain()
    world.add(pod("vip", cpu=2, priority=20, selector={"rack": "a"})).settle()
    assert {world.where["crew-0"], world.where["crew-1"]} == {"b0", "b1"}
    assert world.evicted == ["low-a0", "low-a1", "low-b0", "low-b1"]


def test_domain_is_known_from_the_nominations_after_a_restart() -> None:
    """cost.md 5.5: no second eviction elsewhere: the first victims are gone, one node of the rack is taken."""
    world = World(
        *[node(f"a{i}", cpu=2, labels={"rack": "a"}) for i in range(3)],
        *[node(f"b{i}", cpu=2, labels={"rack": "b"}) for i in range(2)],
        *[pod(f"low-b{i}", cpu=2, node=f"b{i}", priority=0) for i in range(2)],
        pod("vip", cpu=2, node="a1", priority=20),
        pod("dear", cpu=2, node="a2", priority=5),
        group("crew", min_count=2, priority=9, topology="rack"),
        pod("crew-0", cpu=2, group="crew", priority=9, nominated="a0"),
        pod("crew-1", cpu=2, group="crew", priority=9),
    ).settle()
    assert world.evicted == ["dear"]
    assert {world.where["crew-0"], world.where["crew-1"]} == {"a0", "a2"}


def test_every_end_of_a_hold_is_reported() -> None:
    """cost.md 5.4: a more important pod takes the node; what is not of use any more; what is made elsewhere instead."""
    world = preempting()
    world.add(pod("vip", cpu=4, priority=20)).drain()
    assert released(world) == [("pod/uid-high", ["n1"], "Taken")]

    world = preempting()
    world.add(node("n1", cpu=4, unschedulable=True)).gone("low")
    world.virtual.until(START + 5)
    assert released(world) == [("pod/uid-high", ["n1"], "NoUse")]

    world = preempting()
    world.add(node("n2", cpu=4), pod("other", cpu=4, node="n2"), node("n1", cpu=4, unschedulable=True))
    world.gone("low")
    world.virtual.until(START + 5)
    assert released(world) == [("pod/uid-high", ["n1"], "Moved")]

    world = preempting().gone("high")
    assert released(world) == [("pod/uid-high", ["n1"], "Deleted")]


def test_nomination_by_another_scheduler_reserves_capacity_for_as_long() -> None:
    """cost.md 5.1: from now on, as no pod leaves for it; the first frees nothing, the next what the one before held."""
    world = World(node("n1", cpu=2), node("n2", cpu=2), pod("p", cpu=9, priority=9), profiles=holding(600)).drain()
    assert world.engine.next_wakeup(flush=False) is None
    world.change_pod("p", lambda item: replace(item, status=replace(item.status, nominated_node_name="n1")))
    assert world.engine.next_wakeup(flush=False) == world.now + 600


def test_released_reservation_wakes_pending_pods() -> None:
    """scheduling.md 2.2: by a nomination that moved, and by none that is the pod's first."""
    for first, woken in (("", False), ("n1", True)):
        world = World(node("n1", cpu=2), node("n2", cpu=2), pod("p", cpu=2, priority=9, gates=["g"], nominated=first))
        full = ("n2",) if first else ("n1", "n2")
        world.add(*(pod(f"r-{name}", cpu=2, node=name, priority=9) for name in full), pod("q", cpu=2, priority=5))
        world.settle()
        before = world.engine.attempts
        world.change_pod("p", lambda item: replace(item, status=replace(item.status, nominated_node_name="n2")))
        world.settle()
        assert (world.engine.attempts > before) is woken, first
        assert world.where.get("q") == ("n1" if woken else None)


@pytest.mark.parametrize("gang_of", [1, 2], ids=["a pod", "a gang"])
@pytest.mark.parametrize("later", [0.0, 20.0])
@pytest.mark.parametrize("nominated_first", [True, False])
def test_standby_that_takes_over_during_a_preemption_evicts_nothing_more(
    gang_of: int, later: float, nominated_first: bool
) -> None:
    """cost.md 5.1, preemption.md 2.3: it heard of the nominations and of the victims, and waits for these."""
    lows = [pod(f"low-{i}", cpu=4, node=f"n{i}", start=-600.0) for i in range(4)]
    asking: list[Any] = [pod("high", cpu=4, priority=9)] if gang_of == 1 else gang("high", 2, cpu=4, priority=9)
    standby = World([node(f"n{i}") for i in range(4)], lows, asking)
    engine = standby.engine
    waiting = [item for item in asking if isinstance(item, objects.Pod)]
    places = [f"n{i + 1}" for i in range(gang_of)]
    nominations = [
        replace(item, status=replace(item.status, nominated_node_name=name))
        for item, name in zip(waiting, places, strict=True)
    ]
    leaving = [
        pod(f"low-{i + 1}", cpu=4, node=f"n{i + 1}", start=-600.0, terminating=True, preempted=True)
        for i in range(gang_of)
    ]
    for item in [*nominations, *leaving] if nominated_first else [*leaving, *nominations]:
        engine.set(item, START)
    engine.complete(START)
    now = START + later
    engine.resume(now)
    decisions = _decided(engine, now)
    assert decisions
    assert not any(decision.preemption is not None or decision.cleared_nominations for decision in decisions)
    assert standby.nominated == {item.metadata.name: name for item, name in zip(waiting, places, strict=True)}
    for item in leaving:
        engine.remove(item.ref, now + 5)
    bindings = [binding for decision in _decided(engine, now + 5) for binding in decision.bindings]
    assert sorted(binding.node for binding in bindings) == places


def test_degraded_gang_keeps_all_places_of_its_preemption_over_a_restart() -> None:
    """repair.md 2.8, cost.md 5.1: also where the victims have left already."""
    found = objects.Condition(type="PodGroupInitiallyScheduled", status="True")
    made, *members = gang("high", 2, cpu=4, priority=9)
    assert isinstance(made, objects.PodGroup)
    waiting = [
        replace(item, status=replace(item.status, nominated_node_name=f"n{i}"))
        for i, item in enumerate(members)
        if isinstance(item, objects.Pod)
    ]
    leaves = pod("low", cpu=4, node="n1", terminating=True, preempted=True)
    gang_before = replace(made, status=replace(made.status, conditions=(found,)))
    world = World(node("n0"), node("n1"), gang_before, *waiting, leaves)
    world.engine.complete(START)
    world.engine.resume(START)
    assert len(waiting) == len(world.nominated) == 2
    assert not world.engine.repair.places.by_group
    assert world.engine._nominations.reservations.end_of("group/default/high") is not None


def _decided(engine: Engine, now: float) -> list[Decision]:
    """Return all decisions of this moment."""
    engine.tick(now)
    found = []
    while (decision := engine.step(now).decision) is not None:
        found.append(decision)
    return found


def test_placed_preemptor_has_no_reservation_left() -> None:
    """cost.md 5.1: nothing ends later for it."""
    world = World(node("n1", cpu=4), pod("low", cpu=4, node="n1"), pod("high", cpu=4, priority=1))
    ref = world.step().ref
    assert world.engine._nominations.reservations.end_of(ref) is not None
    world.gone("low")
    world.engine.finish_preemption(ref, world.now)
    world.engine.tick(world.now + 60)
    assert world.engine.step(world.now + 60).decision is not None
    assert world.where == {"high": "n1"}
    assert world.engine._nominations.reservations.end_of(ref) is None
