"""Nominations as they are made and ended: what capacity is free, how long it is reserved, what is reported
(preemption.md 7, cost.md 5)."""

from __future__ import annotations

import pytest

from kube_rules.work_annotations import LONGEST
from reprieve.queueing.entity import QueueState
from reprieve.scheduling.effects import NO_EFFECTS, EffectsInProgress
from reprieve.scheduling.nominations import Nominations
from reprieve.scheduling.preemptor_reservations import Released
from tests.building import World, gang, node, pod, profile_with


def _world(count: int = 5, *more: object) -> tuple[World, Nominations, EffectsInProgress]:
    """So many nodes `n0`..., and as many pods `p0`... behind gates; nominations that reserve capacity for 100 s."""
    pods = [pod(f"p{turn}", cpu=1, priority=turn, gates=["g"]) for turn in range(count)]
    nodes = [node(f"n{turn}", cpu=4) for turn in range(count)]
    world = World(*nodes, *pods, *more)  # type: ignore[arg-type]
    held = {"default-scheduler": 100.0, "other": 7.0}
    effects = EffectsInProgress()
    return world, Nominations(world.engine.cluster, world.engine.queue, held, effects), effects


@pytest.mark.parametrize(
    ("count", "where"),
    [(1, "n1"), (2, "n1, n2"), (3, "n1, n2, n3"), (4, "n1, n2, n3 and 1 more"), (5, "n1, n2, n3 and 2 more")],
)
@pytest.mark.parametrize("moved", [False, True])
def test_message_names_up_to_three_nodes_each_once(count: int, where: str, moved: bool) -> None:
    """cost.md 5.3: what is read of room that was held and not used."""
    world, nominations, effects = _world(7)
    cluster = world.engine.cluster
    held = world.record("p0")
    cluster.nominate(held, 0)
    places = [(held, 1), *((world.record(f"p{turn}"), turn) for turn in range(2, count + 1)), (world.record("p6"), 1)]
    if moved:
        nominations.release_earlier_places([(held, 0)], places, world.now)
    else:
        nominations.release_other_places(places, world.now)
    (room,) = effects.finish([]).released
    assert (room.pods, room.ref, room.released_at) == (((held, "n0"),), "pod/uid-p0", world.now)
    assert room.reason is (Released.MOVED if moved else Released.PLACED_ELSEWHERE)
    assert room.message == (f"capacity is freed on {where} instead" if moved else f"free capacity was found on {where}")
    assert effects.finish([]) is NO_EFFECTS


@pytest.mark.parametrize(
    ("before", "places", "left"),
    [
        ([0, 1], [1, 0], []),
        ([0, 0], [0, 1], ["p1"]),
        ([0, 0], [0, 0], []),
        ([0, 1], [2, 2], ["p0", "p1"]),
        ([], [0, 1], []),
    ],
)
def test_members_may_use_each_others_room(before: list[int], places: list[int], left: list[str]) -> None:
    """cost.md 5.3: it was held for all of them; what is left over is free."""
    world, nominations, effects = _world()
    for turn, row in enumerate(before):
        world.engine.cluster.nominate(world.record(f"p{turn}"), row)
    nominations.release_other_places([(world.record(f"p{turn}"), row) for turn, row in enumerate(places)], world.now)
    assert [one.name for room in effects.finish([]).released for one, _ in room.pods] == left


@pytest.mark.parametrize(("priority", "displaced"), [(0, []), (2, ["p0", "p1"]), (3, ["p0", "p1", "p2"])])
def test_nominations_of_a_lower_priority_make_way(priority: int, displaced: list[str]) -> None:
    """preemption.md 7.4: on the same nodes alone, and not those of an equal priority."""
    world, nominations, effects = _world(5, pod("new", cpu=1, priority=priority))
    cluster = world.engine.cluster
    for turn in range(4):
        cluster.nominate(world.record(f"p{turn}"), 0 if turn < 3 else 1)
    new = world.record("new")
    lost = nominations.decide("pod/uid-new", [(new, 0)], priority, (), world.now)
    assert [one.name for one in lost] == displaced
    assert world.nominated == {
        "new": "n0",
        "p3": "n1",
        **{name: "n0" for name in ("p0", "p1", "p2") if name not in displaced},
    }
    finished = effects.finish([])
    released = finished.released
    assert [room.message for room in released] == [f"a preemptor of priority {priority} gets it"] * len(displaced)
    assert {room.reason for room in released} <= {Released.TAKEN}
    assert finished.unnominated_pods == ()
    assert nominations.stands_in_api(new)


@pytest.mark.parametrize(
    ("grace", "due", "until"),
    [
        ((), None, 100.0),  # no pod leaves: the capacity is free
        ((30,), None, 130.0),
        ((30, 50, 0), None, 150.0),
        ((30,), 20.0, 120.0),  # it has a deletionTimestamp
        ((30,), -20.0, 100.0),  # it should be gone by now
        ((1 << 62,), None, LONGEST + 100.0),
    ],
)
def test_reservation_counts_from_the_latest_end_of_the_leaving_pods(
    grace: tuple[int, ...], due: float | None, until: float
) -> None:
    """cost.md 5.1: by its deletionTimestamp, or its grace period from now on, and no longer than any calendar."""
    leaving = [pod(f"low{turn}", cpu=1, node="n0", grace=seconds) for turn, seconds in enumerate(grace)]
    world, nominations, _ = _world(1, *leaving)
    cluster = world.engine.cluster
    if due is not None:
        cluster.departures["uid-low0"] = world.now + due
    records = [world.record(item.metadata.name) for item in leaving]
    nominations.decide("pod/uid-p0", [(world.record("p0"), 0)], 9, records, world.now)
    assert nominations.reservations.end_of("pod/uid-p0") == world.now + until


@pytest.mark.parametrize(("scheduler", "seconds"), [("default-scheduler", 100.0), ("other", 7.0), ("nobody", 100.0)])
def test_reservation_time_is_that_of_the_profile(scheduler: str, seconds: float) -> None:
    """cost.md 5.1: `holdSeconds` of the profile of the pod; a pod without one is treated by the first."""
    world, nominations, _ = _world(1, pod("q", cpu=1, scheduler=scheduler))
    nominations.decide("pod/uid-q", [(world.record("q"), 0)], 9, (), world.now)
    assert nominations.reservations.end_of("pod/uid-q") == world.now + seconds
    nominations.decide("pod/uid-q", (), 9, (), world.now + 5)  # nothing is nominated again, and the hold is what it was
    assert nominations.reservations.end_of("pod/uid-q") == world.now + seconds


def test_pod_placed_elsewhere_has_lost_nothing() -> None:
    """`Effects.unnominated_pods`: pods with a `nominatedNodeName` that is to be cleared, once."""
    world, nominations, effects = _world(5)
    cluster = world.engine.cluster
    pods = [world.record(f"p{turn}") for turn in range(5)]
    for one in pods[:4]:
        cluster.nominate(one, 0)
    nominations.give_up(pods, world.now)
    assert list(effects.unnominated_pods) == ["uid-p0", "uid-p1", "uid-p2", "uid-p3"]
    assert effects.released == [], "without a reason it is not reported"
    cluster.nominate(pods[1], 2)
    cluster.place(pods[2], 2)
    nominations.forget("uid-p3")
    assert [pod.name for pod in effects.finish([]).unnominated_pods] == ["p0"]
    assert effects.finish([]) is NO_EFFECTS
    cluster.displace(pods[2])


def test_nomination_that_is_given_up_for_a_reason_is_reported_for_its_group() -> None:
    """cost.md 5.4: all of it was for one preemptor, and others may have the room."""
    world, nominations, effects = _world(1, *gang("crew", 2, cpu=1), pod("big", cpu=9))
    world.drain()
    cluster = world.engine.cluster
    members = [world.record(f"crew-{turn}") for turn in range(2)]
    for one in members:
        cluster.displace(one)
        cluster.nominate(one, 0)
    nominations.give_up(members, world.now, Released.GATED, "too few")
    (room,) = effects.finish([]).released
    assert (room.ref, room.nodes, room.message) == ("group/default/crew", ["n0"], "too few")
    assert room.group is cluster.groups["default/crew"]
    for one in members:
        cluster.place(one, 0)


@pytest.mark.parametrize(
    ("terminating", "preempted", "until"),
    [(False, False, 100.0), (True, False, 100.0), (False, True, 100.0), (True, True, 130.0)],
)
def test_nomination_that_only_the_api_has_waits_for_its_victims(
    terminating: bool, preempted: bool, until: float
) -> None:
    """cost.md 5.1: after a restart, those on the node that are terminating by a preemption."""
    there = pod("low", cpu=4, node="n0", grace=30)
    world, nominations, _ = _world(1, there, pod("q", cpu=1, gates=["g"]))
    low = world.record("low")
    low.terminating, low.preempted = terminating, preempted
    nominations.add_known(world.record("q"), "n0", world.now)
    assert nominations.reservations.end_of("pod/uid-q") == world.now + until
    nominations.add_known(world.record("q"), "n0", world.now + 50)
    assert nominations.reservations.end_of("pod/uid-q") == world.now + until, "it has begun already"
    low.terminating = False


@pytest.mark.parametrize(
    ("answer", "known", "ours"),
    [("default-scheduler", True, True), ("volcano", True, False), ("", True, True), ("", False, False)],
)
def test_groups_of_other_apis_are_handled_where_their_pods_name_our_profile(
    answer: str, known: bool, ours: bool
) -> None:
    """workloads.md 4.4: by one of its pods; without pods, where a profile has the name of the API's own scheduler."""
    names = ("default-scheduler", "volcano") if known and not answer else ("default-scheduler",)
    world = World(node("n"), profiles={name: profile_with() for name in names})
    if answer:
        world.add(pod("p", group="g", scheduler=answer), pod("q", group="g", scheduler="volcano"))
    assert world.engine.is_for_us("default/g", "scheduling.volcano.sh/v1beta1") is ours


def test_whether_a_preemptor_still_wants_its_room() -> None:
    """preemption.md 7: asked before every victim: it is there, and its gate would let it through."""
    low = [pod(f"low{turn}", cpu=4, node=f"n{turn}") for turn in range(2)]
    world = World(node("n0", cpu=4), node("n1", cpu=4), *low, *gang("crew", 2, cpu=4, priority=5)).drain()
    assert world.place("crew") is not QueueState.ACTIVE
    assert world.engine.wants_room("group/default/crew")
    assert not world.engine.wants_room("group/default/missing")
    world.gone("crew-0")
    assert not world.engine.wants_room("group/default/crew")


def test_reservation_reports_the_nominations_that_it_displaces() -> None:
    """reservations.md 3: no decision does; earlier nominations of the holder end, too."""
    world, nominations, effects = _world(3, pod("new", cpu=1, priority=9))
    cluster, new = world.engine.cluster, world.record("new")
    cluster.nominate(world.record("p0"), 0)
    cluster.nominate(new, 1)
    nominations.reservations.begin("pod/uid-new", world.now, 100.0)
    nominations.reserve("pod/uid-new", [(new, 0)], 9, world.now)
    assert world.nominated == {"new": "n0"}
    assert "pod/uid-new" not in nominations.reservations
    finished = effects.finish([])
    assert [pod.name for pod in finished.unnominated_pods] == ["p0"]
    assert [(released.reason, released.message) for released in finished.released] == [
        (Released.MOVED, "capacity is freed on n0 instead"),
        (Released.TAKEN, "a preemptor of priority 9 gets it"),
    ]


def test_reservation_that_ends_without_nominations_wakes_nothing() -> None:
    """cost.md 5.2: its preemptor is placed or nominated elsewhere by then."""
    world, nominations, effects = _world(0, pod("p", cpu=9))
    world.drain()
    assert world.place("p") is QueueState.UNSCHEDULABLE
    nominations.reservations.begin("pod/uid-p", world.now, 5.0)
    nominations.give_back_unused(world.now + 5.0)
    assert world.place("p") is QueueState.UNSCHEDULABLE
    assert effects.finish([]) is NO_EFFECTS
