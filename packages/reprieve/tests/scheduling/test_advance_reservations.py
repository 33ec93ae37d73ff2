"""Reservations for long-pending workloads, and backfill (reservations.md)."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.meta import ObjectRef
from reprieve.framework.plugin import CycleState, PerNodeFilter
from reprieve.framework.running_profile import RunningProfile
from reprieve.plugins.reservations import ReservationOptions, ReservationsPlugin
from reprieve.queueing.entity import Entity
from reprieve.scheduling import advance_reservations, expected_starts
from reprieve.scheduling.advance_reservation import AdvanceReservation
from reprieve.scheduling.decision import Decision, Result
from tests.building import START, World, annotated, gang, node, pod, profile_with

MINUTE, HOUR = 60.0, 3600.0
DUE = 10 * MINUTE
EARLY = datetime.fromtimestamp(START - HOUR, UTC)


def world_of(*items: Any, **options: Any) -> World:
    profile = profile_with(ReservationsPlugin(ReservationOptions(**options)))
    return World(*items, profiles={profile.name: profile})


def after(world: World, seconds: float) -> World:
    world.virtual.until(START + seconds)
    return world


def held(world: World) -> dict[str, AdvanceReservation]:
    return {one.name.partition("/")[2]: one for one in world.engine.reservations.by_ref.values()}


def runs(name: str, on: str, *, cpu: int = 4, start: float = 0.0, priority: int = 0, **terms: Any) -> objects.Pod:
    return pod(name, cpu=cpu, node=on, start=start, priority=priority, annotations=annotated(**terms))


def full(count: int = 2, **terms: Any) -> list[Any]:
    """Nodes of 4 CPUs, each with a pod on it."""
    return [*(node(f"n{i}") for i in range(count)), *(runs(f"r{i}", f"n{i}", **terms) for i in range(count))]


def ends(item: objects.Pod, runtime: str) -> objects.Pod:
    return replace(item, metadata=replace(item.metadata, annotations=annotated(expected_runtime=runtime)))


def searched(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When a start was searched for from now on."""
    searches: list[float] = []

    def counted(running: RunningProfile, entity: Entity, now: float, *more: Any, **named: Any) -> Any:
        searches.append(now)
        return expected_starts.expected_start(running, entity, now, *more, **named)

    monkeypatch.setattr(advance_reservations, "expected_start", counted)
    return searches


def waiting_since(
    since: datetime, items: list[objects.KubernetesObject], *nominated: str
) -> list[objects.KubernetesObject]:
    """Pods of which the first attempt failed then, and the nodes that the API has for them."""
    failed = objects.PodCondition(
        type="PodScheduled", status="False", reason="Unschedulable", last_transition_time=since
    )
    nodes = iter(nominated)
    return [
        replace(item, status=replace(item.status, conditions=(failed,), nominated_node_name=next(nodes, "")))
        if isinstance(item, objects.Pod)
        else item
        for item in items
    ]


def pair(name: str = "train", **more: Any) -> list[objects.KubernetesObject]:
    return gang(name, 2, cpu=4, **more)


def test_gang_waits_for_the_first_node() -> None:
    """reservations.md 1.1: a cluster may have no nodes yet; it fits on none, and starts when there are some."""
    world = after(world_of(pair()).drain(), 2 * DUE)
    assert not held(world)
    world.add(node("n0"), node("n1")).drain()
    assert set(world.where.values()) == {"n0", "n1"}


# -- what holds one (1) ------------------------------------------------------------------------------------------------


def test_gang_that_has_waited_long_enough_holds_a_reservation() -> None:
    """reservations.md 1.1, 3.1, 6"""
    world = after(world_of(full(), pair()).drain(), DUE - 1)
    assert not world.nominated
    after(world, DUE + 5)
    assert world.nominated == {"train-0": "n0", "train-1": "n1"}
    assert held(world)["train"].node_names_text() == "n0, n1"
    reservation = held(world)["train"]
    assert reservation.describe_start() == "when 2 pods on n0, n1 have ended"
    assert reservation.describe_backfill() == "no pods may use it until then"
    first, second = reservation.awaited_pods
    world.engine.remove(ObjectRef("Pod", uid=first.uid), world.now)
    assert reservation.describe_start() == "when 1 pod on n1 has ended"
    world.engine.remove(ObjectRef("Pod", uid=second.uid), world.now)
    assert reservation.describe_start() == "all pods there have ended"


@pytest.mark.parametrize(
    ("items", "options"),
    [
        ([pod("alone", cpu=4)], {}),
        (pair(), {"reserve_after": 0.0}),
        (pair(), {"min_pods": 3}),
        (gang("train", 2, cpu=5), {}),
    ],
    ids=["a lone pod", "off", "too small", "fits no node"],
)
def test_what_holds_no_reservation(items: list[Any], options: dict[str, Any]) -> None:
    """reservations.md 1.1, 1.3, 1.5"""
    world = after(world_of(full(), items, **options).drain(), HOUR)
    assert not world.nominated
    assert not held(world)


def test_profile_without_the_plugin_never_reserves() -> None:
    """reservations.md 1.5"""
    profile = profile_with(drop=[ReservationsPlugin.name])
    world = after(World(full(), pair(), profiles={profile.name: profile}).drain(), HOUR)
    assert not held(world)


def test_lone_pods_hold_one_where_they_may() -> None:
    """reservations.md 1.3"""
    world = after(world_of(full(), [pod("alone", cpu=4)], min_pods=1).drain(), HOUR)
    assert world.nominated == {"alone": "n0"}


def test_wait_before_a_restart_counts() -> None:
    """reservations.md 1.2"""
    world = world_of(full(), waiting_since(EARLY, pair())).drain()
    after(world, 1)
    assert held(world)


def test_no_more_than_allowed_hold_one_and_the_first_in_the_queue_do() -> None:
    """reservations.md 1.4"""
    gangs = [item for name in ("a", "b", "c") for item in gang(name, 2, cpu=2)]
    world = after(world_of(full(4), gangs, max_reservations=2).drain(), HOUR)
    assert sorted(held(world)) == ["a", "b"]


def test_gangs_that_fit_nowhere_keep_no_other_from_a_reservation(monkeypatch: pytest.MonkeyPatch) -> None:
    """reservations.md 1.4: eight are looked at, and the next ones a minute later."""
    searches = searched(monkeypatch)
    hopeless = [item for number in range(16) for item in gang(f"large-{number}", 2, cpu=5)]
    world = after(world_of(full(), hopeless, pair()).drain(), DUE + 3 * MINUTE)
    assert sorted(held(world)) == ["train"]
    rounds = list(Counter(searches).items())[:3]
    assert [count for _, count in rounds] == [8, 8, 1]
    assert [now - rounds[0][0] for now, _ in rounds] == [0, MINUTE, 2 * MINUTE]
    world.add(node("n2", cpu=5), node("n3", cpu=5), runs("r2", "n2", cpu=5), runs("r3", "n3", cpu=5))
    after(world, HOUR)  # all get another turn
    assert sorted(held(world)) == ["large-0", "train"]


def test_no_amount_is_reserved_twice() -> None:
    """reservations.md 7.3"""
    world = after(world_of(full(4), pair("a"), pair("b"), pair("c")).drain(), HOUR)
    assert sorted(held(world)) == ["a", "b"]
    assert sorted(world.nominated.values()) == ["n0", "n1", "n2", "n3"]


# -- where and when (2) ------------------------------------------------------------------------------------------------


def test_known_ends_give_the_earliest_start() -> None:
    """reservations.md 2.3"""
    items: list[Any] = [node(f"n{i}") for i in range(3)]
    items += [runs("r0", "n0", expected_runtime="3h"), runs("r1", "n1", expected_runtime="1h")]
    items += [runs("r2", "n2", expected_runtime="2h")]
    world = after(world_of(items, pair()).drain(), DUE + 5)
    assert world.nominated == {"train-0": "n1", "train-1": "n2"}
    assert held(world)["train"].expected_start == START + 2 * HOUR
    assert held(world)["train"].describe_start() == "expected start 2020-09-13T14:26:40Z"
    assert held(world)["train"].describe_backfill() == "pods that state an end before then may use it"
    assert [one.name for one in held(world)["train"].awaited_pods] == ["r1", "r2"]


def test_pods_with_a_known_end_are_awaited_beside_those_without() -> None:
    """reservations.md 2.4: both have to end before the holder starts on their nodes."""
    items: list[Any] = [node("n0"), node("n1")]
    items += [runs(f"known{i}", f"n{i}", cpu=2, expected_runtime="1h") for i in range(2)]
    items += [runs(f"unknown{i}", f"n{i}", cpu=2) for i in range(2)]
    world = after(world_of(items, pair()).drain(), DUE + 5)
    reservation = held(world)["train"]
    assert sorted(one.name for one in reservation.awaited_pods) == ["known0", "known1", "unknown0", "unknown1"]
    assert reservation.expected_start is None


def test_pods_that_the_holder_may_evict_are_not_awaited() -> None:
    """reservations.md 2.2: they make way when the others have ended."""
    low = pod("low", cpu=4, node="n0", priority=-5, start=0.0)
    items = [node("n0"), node("n1"), low, runs("known", "n1", expected_runtime="1h")]
    reservation = held(after(world_of(items, pair()).drain(), DUE + 5))["train"]
    assert [one.name for one in reservation.awaited_pods] == ["known"]
    assert reservation.expected_start == START + HOUR


def test_least_in_the_way_is_waited_for_where_no_end_is_known() -> None:
    """Nodes with the fewest pods that make place for a member, then those that run longest (reservations.md 2.4)."""
    items: list[Any] = [node(f"n{i}") for i in range(4)]
    items += [runs(f"a{i}", "n0", cpu=1, start=-9000) for i in range(4)]
    items += [runs("b", "n1", start=-100), runs("c", "n2", start=-300), runs("d", "n3", start=-200)]
    world = after(world_of(items, pair()).drain(), DUE + 5)
    assert set(world.nominated.values()) == {"n2", "n3"}
    assert held(world)["train"].expected_start is None


def test_end_beyond_the_longest_reservation_is_unknown() -> None:
    """reservations.md 2.2"""
    world = after(world_of(full(expected_runtime="48h"), pair()).drain(), DUE + 5)
    assert held(world)["train"].expected_start is None


def test_what_the_holder_may_evict_is_awaited_where_that_is_all_that_is_in_the_way() -> None:
    """reservations.md 2.2: it was not evicted, as nothing less than a day old may be."""
    lower = [runs(f"r{i}", f"n{i}", priority=-5, expected_runtime=f"{i + 1}h", minimum_runtime="24h") for i in (0, 1)]
    reservation = held(after(world_of(node("n0"), node("n1"), lower, pair()).drain(), DUE + 5))["train"]
    assert [one.name for one in reservation.awaited_pods] == ["r0", "r1"]
    assert reservation.expected_start == START + 2 * HOUR


@pytest.mark.parametrize(
    ("now", "longest", "when"),
    [(0, HOUR, START + HOUR), (0, HOUR - 1, None), (HOUR - 1, 1, START + HOUR), (HOUR, HOUR, None)],
    ids=["as long as it lasts", "longer", "about to end", "over"],
)
def test_end_that_is_known(now: float, longest: float, when: float | None) -> None:
    """reservations.md 2.2: it is to come, and not later than the reservation lasts."""
    world = world_of(full(expected_runtime="1h"), pair()).drain()
    running = world.engine.running.of(world.record("train-0"))
    start = expected_starts.expected_start(running, world.entity("train"), START + now, longest)
    assert start is not None
    assert start.time == when


def test_pods_that_make_no_place_are_awaited_last() -> None:
    """reservations.md 2.4: a host port is in the way, on a node with free capacity."""
    items: list[Any] = [
        node("n0"),
        node("n1"),
        *(pod(f"web{i}", node=f"n{i}", ports=[80], start=0.0) for i in range(2)),
    ]
    world = after(world_of(items, pair(ports=[80])).drain(), DUE + 5)
    assert [one.name for one in held(world)["train"].awaited_pods] == ["web0", "web1"]


def test_capacity_that_is_free_already_counts_for_the_least_in_the_way() -> None:
    """reservations.md 2.4: on n1 one more member fits when one of two pods has ended."""
    items: list[Any] = [node("n0"), node("n1", cpu=5)]
    items += [runs("a0", "n0", cpu=2), runs("a1", "n0", cpu=2)]
    items += [runs("b0", "n1", cpu=2, start=-9.0), runs("b1", "n1", cpu=1)]
    world = after(world_of(items, pod("alone", cpu=4), min_pods=1).drain(), DUE + 5)
    assert world.nominated == {"alone": "n1"}


@pytest.mark.parametrize(("cpu", "awaited"), [(4, ["b"]), (2, ["b", "c"])])
def test_longest_runners_of_a_node_are_awaited(cpu: int, awaited: list[str]) -> None:
    """reservations.md 2.4: the others may stay."""
    starts = {"a": -9.0, "b": -99.0, "c": -50.0, "d": 0.0}
    items = [node("n0", cpu=4 * cpu), *(runs(name, "n0", cpu=cpu, start=start) for name, start in starts.items())]
    world = after(world_of(items, pod("alone", cpu=4), min_pods=1).drain(), DUE + 5)
    assert sorted(one.name for one in held(world)["alone"].awaited_pods) == awaited


def test_pods_that_end_first_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """reservations.md 2.5"""
    monkeypatch.setattr(expected_starts, "MOST_PODS", 1)
    items = [node("n0"), node("n1"), runs("r0", "n0", expected_runtime="3h"), runs("r1", "n1", expected_runtime="1h")]
    world = after(world_of(items, pod("alone", cpu=4), min_pods=1).drain(), DUE + 5)
    assert world.nominated == {"alone": "n1"}


def test_only_so_many_pods_in_the_way_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """reservations.md 2.5"""
    monkeypatch.setattr(expected_starts, "MOST_PODS", 1)
    assert not held(after(world_of(full(), pair()).drain(), HOUR))
    assert held(after(world_of(full(2), gang("train", 2, cpu=2)).drain(), HOUR))


def test_reservation_stays_in_the_domain() -> None:
    """reservations.md 2.1"""
    items: list[Any] = [node(f"n{i}", labels={"rack": f"r{i // 2}"}) for i in range(4)]
    items += [runs("r0", "n0", expected_runtime="1h"), runs("r1", "n1", expected_runtime="4h")]
    items += [runs("r2", "n2", expected_runtime="2h"), runs("r3", "n3", expected_runtime="3h")]
    world = after(world_of(items, pair(topology="rack")).drain(), DUE + 5)
    assert set(world.nominated.values()) == {"n2", "n3"}
    assert held(world)["train"].expected_start == START + 3 * HOUR


# -- how long (3) ------------------------------------------------------------------------------------------------------


def test_others_of_the_priority_leave_reserved_amounts_alone_and_the_holder_starts() -> None:
    """reservations.md 3.1, 3.5"""
    world = after(world_of(full(), pair()).drain(), DUE + 5)
    world.gone("r0").add(pod("same", cpu=1), pod("lower", cpu=1, priority=-5))
    after(world, DUE + MINUTE)
    assert world.pending == ["lower", "same", "train-0", "train-1"]
    world.gone("r1")
    after(world, DUE + 3 * MINUTE)
    assert world.where == {"train-0": "n0", "train-1": "n1"}
    assert not held(world)


def test_higher_priority_uses_the_capacity_and_the_reservation_moves() -> None:
    """reservations.md 3.1, 7.1"""
    items = [*full(3), *pair()]
    world = after(world_of(items).drain(), DUE + 5)
    assert set(world.nominated.values()) == {"n0", "n1"}
    world.gone("r0").add(pod("high", cpu=4, priority=5))
    after(world, DUE + 5 * MINUTE)
    assert world.where["high"] == "n0"
    assert set(world.nominated.values()) == {"n1", "n2"}


def test_reservation_moves_for_a_much_earlier_start_only() -> None:
    """reservations.md 3.2, 3.3"""
    items: list[Any] = [node(f"n{i}") for i in range(4)]
    items += [runs(f"r{i}", f"n{i}", expected_runtime=f"{i + 1}h") for i in range(4)]
    world = after(world_of(items, pair()).drain(), DUE + 5)
    assert held(world)["train"].expected_start == START + 2 * HOUR
    world.gone("r3")
    after(world, DUE + 5 * MINUTE)
    assert set(world.nominated.values()) == {"n0", "n3"}
    assert held(world)["train"].expected_start == START + HOUR
    for turn, (runtime, expected) in enumerate([("59m30s", 60), ("57m", 60), ("50m", 50)]):
        # Half a minute is too little, three minutes are less than a tenth of the wait, ten are more.
        world.change_pod("r0", partial(ends, runtime=runtime))
        world.engine.queue.releases += 1
        after(world, DUE + (9 + 2 * turn) * MINUTE)
        assert held(world)["train"].expected_start == START + expected * MINUTE


def test_reservations_without_an_expected_start_make_way_for_those_before_them() -> None:
    """reservations.md 3.7: what became free for the later gang starts the earlier one, which waits for less then."""
    world = world_of(full(4), pair("first")).drain()
    world = after(world.add(pair("second")), DUE + 2 * MINUTE)
    assert world.nominated == {"first-0": "n0", "first-1": "n1", "second-0": "n2", "second-1": "n3"}
    world.gone("r2")
    after(world, DUE + 4 * MINUTE)
    assert set(held(world)["first"].nodes) == {"n0", "n2"}
    assert set(held(world)["second"].nodes) == {"n1", "n3"}
    world.gone("r3")
    after(world, DUE + 6 * MINUTE)
    assert {world.where.get(f"first-{i}") for i in range(2)} == {"n2", "n3"}
    assert set(held(world)["second"].nodes) == {"n0", "n1"}
    world.gone("r0")
    world.gone("r1")
    after(world, DUE + 8 * MINUTE)
    assert {world.where.get(f"second-{i}") for i in range(2)} == {"n0", "n1"}
    assert not world.nominated


def test_reservation_on_other_nodes_is_not_computed_again() -> None:
    """reservations.md 3.7: those that are on nodes that the earlier one takes make way, in turn."""
    world = world_of(full(6), pair("first")).drain()
    world = after(world.add(pair("second"), pair("third")), DUE + 2 * MINUTE)
    before = dict(held(world))
    world.gone("r2")
    after(world, DUE + 4 * MINUTE)
    assert world.nominated == {
        f"{name}-{i}": f"n{n}"
        for name, i, n in (
            ("first", 0, 0),
            ("first", 1, 2),
            ("second", 0, 1),
            ("second", 1, 3),
            ("third", 0, 4),
            ("third", 1, 5),
        )
    }
    assert {name: reservation is before[name] for name, reservation in held(world).items()} == {
        "first": False,
        "second": False,
        "third": True,
    }


def test_expected_starts_are_kept_though_others_are_before_them_in_the_queue() -> None:
    """reservations.md 3.7, 7.4"""
    items = [*full(4), pair("second")]
    for number, runtime in enumerate(["10h", "10h", "2h", "1h"]):
        items[4 + number] = runs(f"r{number}", f"n{number}", expected_runtime=runtime)
    world = after(world_of(*items).drain(), DUE + 2 * MINUTE)
    assert set(held(world)["second"].nodes) == {"n2", "n3"}
    early = [replace(one, metadata=replace(one.metadata, creation_timestamp=EARLY)) for one in pair("first")]
    after(world.add(early), 2 * DUE + 4 * MINUTE)
    assert set(held(world)["second"].nodes) == {"n2", "n3"}
    assert held(world)["second"].expected_start == START + 2 * HOUR


class _FailsOnEmptyNodes(PerNodeFilter):
    """A plugin that fails on nodes without pods."""

    name = "FailsOnEmptyNodes"

    def filter_node(self, state: CycleState, row: int) -> tuple[str, bool] | None:
        if not state.cluster.nodes.pods[row]:
            raise ZeroDivisionError("by design")
        return None


def test_plugin_that_fails_in_the_search_for_a_start_keeps_its_entity_from_a_reservation() -> None:
    """scheduling.md 5, reservations.md 2.1: the failure is reported, and attempts go on."""
    profile = profile_with(_FailsOnEmptyNodes(), ReservationsPlugin(ReservationOptions()))
    world = World(full(), pair(), profiles={profile.name: profile}).drain()
    assert world.incidents() == []
    after(world, DUE + 5)
    assert held(world) == {}
    assert {(incident.plugin, incident.point) for incident in world.incidents()} == {("FailsOnEmptyNodes", "Filter")}
    assert world.pending == ["train-0", "train-1"]


def test_reservation_ends_after_its_time_and_says_so() -> None:
    """reservations.md 3.4"""
    world = after(world_of(full(), pair(), max_reserved=HOUR, max_idle_share=1.0).drain(), DUE + 5)
    after(world, held(world)["train"].created_at + HOUR - 1 - START)
    world.engine.tick(world.now)
    assert held(world)
    after(world, DUE + HOUR + 10)
    assert not world.nominated
    (released,) = world.released()
    assert released.message == "it was reserved for 1h and not used"
    after(world, 5 * HOUR)
    assert not held(world)  # nothing has changed
    world.gone("r0")
    after(world, 6 * HOUR)
    assert held(world)


def test_holder_waits_from_the_beginning_after_its_reservation_has_ended() -> None:
    """reservations.md 3.4: also where something changes at once."""
    world = after(world_of(full(), pair(), max_reserved=HOUR, max_idle_share=1.0).drain(), DUE + 5)
    ended = held(world)["train"].created_at + HOUR - START
    after(world, ended + 5)
    world.gone("r0")
    after(world, ended + DUE - 1)
    assert not held(world)
    after(world, ended + DUE + 2 * MINUTE)
    assert held(world)


def test_wait_begins_again_when_the_reservation_ends_though_the_holder_is_gated() -> None:
    """reservations.md 3.4: a gang without a member may not be tried; when it may, it has waited long enough."""
    world = after(world_of(full(), pair()).drain(), DUE + 5)
    world.gone("train-1")
    after(world, DUE + MINUTE)
    assert not held(world)
    after(world, 3 * DUE)
    world.gone("r0").add(pod("train-2", cpu=4, group="train"))
    after(world, 3 * DUE + 2 * MINUTE)
    assert held(world)


def test_reservation_ends_when_the_holder_fits_nowhere_any_more() -> None:
    """reservations.md 3.4"""
    world = after(world_of(full(), pair()).drain(), DUE + 5)
    world.virtual.lose_node("n0")
    after(world, DUE + 3 * MINUTE)
    assert not held(world)
    assert not world.nominated
    assert world.released()[-1].message == "it does not fit there any more"


def test_expected_start_is_kept_until_it_has_passed() -> None:
    """reservations.md 3.2: a pod that ends in this second has not overrun."""
    world = after(world_of(full(expected_runtime="1h"), pair()).drain(), HOUR)
    world.engine.tick(START + HOUR)
    assert held(world)["train"].expected_start == START + HOUR
    after(world, HOUR + MINUTE + 5)
    assert held(world)["train"].expected_start is None


def test_gang_that_has_waited_long_enough_is_looked_at_though_nothing_else_happens() -> None:
    """reservations.md 1.1, 1.4"""
    world = after(world_of(full(), gang("large", 2, cpu=5)).drain(), 7 * MINUTE)
    after(world.add(pair()).drain(), 7 * MINUTE + DUE + 5)
    assert held(world)


def test_holder_for_which_another_makes_way_is_tried_at_once() -> None:
    """reservations.md 3.7: its last attempt failed, as the capacity was reserved for its successor then."""
    world = after(world_of(full(4), pair("first"), pair("second")).drain(), DUE + 2 * MINUTE)
    after(world.gone("r2"), DUE + 2.5 * MINUTE)
    after(world.gone("r3"), DUE + 2.75 * MINUTE)
    assert "first-0" in world.pending
    after(world, DUE + 3.5 * MINUTE)
    assert {world.where.get(f"first-{i}") for i in range(2)} == {"n2", "n3"}


def test_reservation_of_a_deleted_gang_is_released() -> None:
    """reservations.md 3.4"""
    world = after(world_of(full(), pair()).drain(), DUE + 5)
    world.gone("train-0").gone("train-1")
    after(world, HOUR)
    assert not held(world)
    assert not world.nominated


def test_holder_that_waits_for_its_predecessor_may_hold_another_reservation_later() -> None:
    """reservations.md 3.4: what it waits for now may be taken by others."""
    world = after(world_of(full(), pair()).drain(), DUE + 5)
    reservations, entity = world.engine.reservations, world.engine.queue.get("group/default/train")
    assert entity is not None
    places = tuple((item, node_name) for item, node_name in held(world)["train"].pods)
    waiting = Decision(ref=entity.ref, result=Result.WAITING, nominations=places)
    assert reservations.record_attempt(entity, waiting, world.now) is waiting
    assert not held(world)
    reservations.record_attempt(entity, Decision(ref=entity.ref, result=Result.UNSCHEDULABLE), world.now)
    after(world, 3 * DUE)
    assert held(world)


def test_holder_that_is_placed_holds_nothing_more() -> None:
    """reservations.md 3.4: at once, so that its reservation keeps none out that is tried next."""
    world = after(world_of(full(), pair()).drain(), DUE + 5)
    reservations, entity = world.engine.reservations, world.entity("train")
    reservations.record_attempt(entity, Decision(ref=entity.ref, result=Result.SCHEDULED), world.now)
    assert not held(world)


def test_nothing_is_kept_of_work_that_is_gone() -> None:
    """reservations.md 1.1: what waits for its turn grows with what is pending, not with all that ever was."""
    world = world_of(full(), reserve_after=HOUR)
    reservations = world.engine.reservations
    most = 0
    for number in range(400):
        world.add(*gang(f"brief-{number}", 2, cpu=4)).drain()
        world.gone(f"brief-{number}-0").gone(f"brief-{number}-1")
        most = max(most, sum(map(len, (reservations._due_times, reservations._due_heap, reservations._candidates))))
    assert 100 < most < 300


def test_member_that_comes_later_is_reserved_for() -> None:
    """reservations.md 3.2"""
    world = after(world_of(full(1), gang("train", 2, cpu=1)).drain(), DUE + 5)
    assert world.nominated == {"train-0": "n0", "train-1": "n0"}
    world.add(pod("train-2", cpu=1, group="train"))
    after(world, DUE + 2 * MINUTE)
    assert world.nominated == {"train-0": "n0", "train-1": "n0", "train-2": "n0"}


def test_members_keep_their_places_when_another_comes() -> None:
    """reservations.md 3.2, 3.3: other nodes would do as well."""
    there = [*(node(f"n{i}") for i in range(4)), *(runs(f"r{i}", f"n{i}") for i in range(4))]
    world = world_of(there, waiting_since(EARLY, pair(), "n2", "n3")).drain()
    world.add(pod("train-2", cpu=4, group="train"))
    after(world, 2 * MINUTE)
    assert held(world)["train"].members == 3
    assert world.nominated == {"train-0": "n2", "train-1": "n3"}


def test_stream_of_a_higher_priority_is_no_stream_of_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """reservations.md 3.2: what it takes is made up for once in ten seconds."""
    world = after(world_of(full(8), gang("train", 4, cpu=4)).drain(), DUE + 15)
    searches = searched(monkeypatch)
    for turn in range(4):
        world.gone(f"r{turn}").add(pod(f"urgent-{turn}", cpu=4, priority=100)).drain()
    assert len(world.where.keys() & {f"urgent-{turn}" for turn in range(4)}) == 4
    assert len(searches) <= 1
    after(world, DUE + 40)
    assert sorted(world.nominated.values()) == ["n4", "n5", "n6", "n7"]


def test_lost_node_makes_it_be_worked_out_anew() -> None:
    """reservations.md 3.2"""
    world = after(world_of(full(3), pair()).drain(), DUE + 5)
    world.virtual.lose_node("n0")
    after(world, DUE + 20)
    assert set(world.nominated.values()) == {"n1", "n2"}


def test_no_more_reservations_than_allowed_are_kept_after_a_restart() -> None:
    """reservations.md 1.4, 3.6: the first in the queue keeps its own."""
    both = [waiting_since(EARLY, [pod(f"p{turn}", cpu=4)], f"n{turn}") for turn in range(2)]
    world = world_of(full(), both, min_pods=1, max_reservations=1).drain()
    assert world.nominated == {"p0": "n0"}
