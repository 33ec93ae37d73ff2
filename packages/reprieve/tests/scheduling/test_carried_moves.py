"""Units that are moved for pending pods (moving.md 4)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.meta import ObjectRef
from reprieve.cluster.evictions import OWNER, EvictionLimit
from reprieve.cluster.pods import MOVED, moved_condition, moved_of
from reprieve.framework.instructions import PatchObject
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.options import PreemptionOptions
from reprieve.scheduling import carried_moves
from reprieve.scheduling.decision import Result
from reprieve.scheduling.moves import MovePlan, find_moves
from tests.building import START, World, annotated, bound_to, gang, node, pdb, pod, priority_class, profile_with
from tests.drawing import examples
from tests.properties.coverage import met, must_meet

MOVABLE = annotated(movable="true")


def owned(item: Any, name: str, kind: str = "ReplicaSet") -> Any:
    """The object with a controller."""
    owner = objects.OwnerReference(api_version="apps/v1", kind=kind, name=name, uid=f"uid-{name}")
    return replace(item, metadata=replace(item.metadata, owner_references=(replace(owner, controller=True),)))


def movable(name: str, on: str, *, cpu: int = 1, **more: Any) -> objects.Pod:
    more = {"start": -900.0, "annotations": MOVABLE, **more}
    made: objects.Pod = owned(pod(name, cpu=cpu, node=on, **more), f"set-{name}")
    return made


def world_of(*items: Any, **options: Any) -> World:
    profile = profile_with(DefaultPreemption(PreemptionOptions(**{"moves": True, **options})))
    return World(*items, profiles={profile.name: profile})


def scattered(*more: Any, **of_small: Any) -> list[Any]:
    """Two nodes of 4 CPUs: `small` keeps `train` out, and fits beside `tune`."""
    return [
        node("n1"),
        node("n2"),
        movable("small", "n1", **of_small),
        pod("tune", cpu=3, node="n2", start=-900.0),
        pod("train", cpu=4, priority=1),
        *more,
    ]


def counts(world: World) -> tuple[int, int, int]:
    moves = world.engine.moves
    return len(moves.started), moves.moved_units, moves.lost_units


def ran(world: World) -> dict[str, str]:
    return {
        pod.name: world.engine.cluster.nodes.names[pod.row]
        for pod in world.engine.cluster.pods.values()
        if pod.row >= 0
    }


def test_unit_moves_and_its_new_place_is_reserved_before_it_is_evicted() -> None:
    """moving.md 4.1, 4.4: another pod that would fit there waits."""
    world = world_of(scattered()).drain()
    assert world.nominated == {"train": "n1"}
    assert counts(world) == (1, 0, 0)
    world.add(pod("thief", cpu=1)).drain()
    assert "thief" in world.pending
    world.virtual.until(START + 300)
    assert ran(world) == {"train": "n1", "small": "n2", "tune": "n2"}
    assert counts(world) == (0, 1, 0)
    assert world.pending == ["thief"]


@pytest.mark.parametrize(
    ("items", "options"),
    [
        (scattered(), {"moves": False}),
        (scattered(annotations={}), {}),
        (scattered(annotations=annotated(movable="false")), {}),
        (scattered(annotations=annotated(movable="true", minimum_runtime="30m")), {}),
        (scattered(priority=2), {}),
        (scattered(pdb("keep", {"app": "small"}, allowed=0), labels={"app": "small"}), {}),
        ([*scattered()[:2], pod("small", cpu=1, node="n1", annotations=MOVABLE), *scattered()[3:]], {}),
    ],
    ids=["off", "says nothing", "says no", "minimum runtime", "a higher priority", "a budget", "no controller"],
)
def test_what_does_not_move(items: list[Any], options: dict[str, Any]) -> None:
    """moving.md 4.1, 4.2"""
    world = world_of(items, together=False, **options)
    world.engine.cluster.now = START
    world.drain()
    assert counts(world) == (0, 0, 0)
    assert "small" in ran(world)


def test_profile_without_preemption_moves_nothing() -> None:
    """moving.md 4.1, 4.5"""
    profile = profile_with(drop=["DefaultPreemption"])
    assert not World(node("n1"), profiles={profile.name: profile}).engine.moves.enabled


def test_class_may_say_that_its_pods_move() -> None:
    """moving.md 4.1"""
    small = owned(pod("small", cpu=1, node="n1", priority_class="batch"), "set")
    items = [priority_class("batch", 0, MOVABLE), *scattered()[:2], small, *scattered()[3:]]
    assert counts(world_of(items).drain()) == (1, 0, 0)


def test_move_is_preferred_to_an_eviction() -> None:
    """moving.md 4.3: with the small pod elsewhere nothing has to be evicted."""
    items = [*scattered(), node("n3"), pod("victim", cpu=4, node="n3", priority=-5, start=-900.0)]
    world = world_of(items).drain()
    world.virtual.until(START + 300)
    assert ran(world) == {"train": "n1", "small": "n2", "tune": "n2", "victim": "n3"}


def test_no_more_units_move_within_an_hour_than_allowed() -> None:
    """moving.md 4.5"""
    items: list[Any] = [item for n in range(3) for item in (node(f"a{n}"), node(f"b{n}"))]
    items += [item for n in range(3) for item in (movable(f"s{n}", f"a{n}"), pod(f"t{n}", cpu=3, node=f"b{n}"))]
    world = world_of(items, [pod(f"train-{n}", cpu=4) for n in range(3)], moves_per_hour=2).drain()
    world.virtual.until(START + 600)
    assert counts(world) == (0, 2, 0)
    assert len(world.pending) == 1


@pytest.mark.parametrize(("most", "moves"), [(1, 0), (2, 2)])
def test_units_that_together_exceed_an_eviction_limit_do_not_move(most: int, moves: int) -> None:
    """moving.md 4.2, cost.md 9.3: each alone may."""
    limits = [EvictionLimit(OWNER, most, 900.0)]
    pair = [owned(pod(f"s{n}", cpu=1, node="n1", start=-900.0, annotations=MOVABLE), "pair") for n in range(2)]
    world = world_of(node("n1"), node("n2", cpu=2), pair, pod("train", cpu=4, priority=1), eviction_limits=limits)
    world.drain()
    assert counts(world)[0] == moves


def test_gang_moves_as_one() -> None:
    """moving.md 1.2, 4.4"""
    pair = [owned(item, "pair") for item in gang("pair", 2, cpu=1, annotations=MOVABLE)]
    pair = [
        replace(item, spec=replace(item.spec, node_name=f"n{at}"), status=replace(item.status, phase="Running"))
        if isinstance(item, objects.Pod)
        else item
        for at, item in enumerate(pair, 0)
    ]
    items = [node("n1"), node("n2"), node("n3", cpu=2), *pair, gang("train", 2, cpu=4, priority=1)]
    world = world_of(items).drain()
    assert counts(world) == (1, 0, 0)
    world.virtual.until(START + 300)
    assert ran(world) == {"train-0": "n1", "train-1": "n2", "pair-0": "n3", "pair-1": "n3"}
    assert counts(world) == (0, 1, 0)


@pytest.mark.parametrize(("priority", "moves"), [(0, 0), (1, 1)])
def test_protected_gang_does_not_move_for_its_peers(priority: int, moves: int) -> None:
    """cost.md 2.9, moving.md 4.2"""
    says = {**MOVABLE, **annotated(below_minimum="Protect")}
    pair = [owned(item, "pair") for item in gang("pair", 1, cpu=1, node="n1", annotations=says)]
    world = world_of(node("n1"), node("n2", cpu=1), *pair, pod("train", cpu=4, priority=priority)).drain()
    assert counts(world)[0] == moves


def test_controller_of_the_group_recreates_its_pods() -> None:
    """moving.md 4.1: they need none of their own."""
    made, *pods = gang("pair", 1, cpu=1, annotations=MOVABLE)
    (small,) = pods
    assert isinstance(small, objects.Pod)
    small = replace(small, spec=replace(small.spec, node_name="n1"), status=replace(small.status, phase="Running"))
    items = [*scattered()[:2], owned(made, "job"), small, *scattered()[3:]]
    assert counts(world_of(items).drain()) == (1, 0, 0)


@pytest.mark.parametrize(
    ("train", "domain"), [([pod("train", cpu=4, priority=1)], "n1"), (gang("train", 1, cpu=4, priority=1), "Move")]
)
def test_move_is_decided_for_a_node_or_a_group(train: list[Any], domain: str) -> None:
    """moving.md 4.7"""
    preemption = world_of(scattered()[:4], train).step().preemption
    assert preemption is not None
    assert (preemption.domain, [node_of for _, node_of in preemption.moves]) == (domain, [1])


def test_place_that_is_not_used_in_time_is_given_back_and_counted() -> None:
    """moving.md 4.4, 4.7: its controller does not make the pod again."""
    world = world_of(scattered()).drain()
    world.virtual._moved._leaving.clear()
    world.virtual.until(START + 80)
    world.add(pod("thief", cpu=1)).drain()
    assert world.pending == ["thief"]
    world.virtual.until(START + 300)
    assert counts(world) == (0, 0, 1)
    assert ran(world)["thief"] == "n2"


def test_eviction_that_fails_takes_the_places_back() -> None:
    """moving.md 4.4"""
    world = world_of(scattered()).drain()
    world.engine.fail_preemption(next(iter(world.engine.moves.started)).ref, world.now)
    assert counts(world) == (0, 0, 0)
    world.add(pod("thief", cpu=1)).drain()
    assert "thief" in ran(world)


def test_scheduler_that_comes_after_keeps_the_places_of_units_on_their_way() -> None:
    """moving.md 4.6: by the records of the one before; the move counts for the hour."""
    items = scattered()
    items[2] = replace(items[2], metadata=replace(items[2].metadata, deletion_timestamp=items[2].status.start_time))
    world = world_of(items, moves_per_hour=2)
    for when in (START - 6, START - 5):  # it was killed between the first decision and the eviction
        world.engine.moves.recall(when, {world.record("small").uid: "n2", "gone": "n1"})
    world.engine.resume(START)
    world.drain()
    assert counts(world) == (1, 0, 0)
    world.add(pod("thief", cpu=1)).drain()
    assert "thief" in world.pending
    assert not world.engine.moves._remaining_moves(START)


@must_meet(moved=2)
@given(st.data())
@examples(25)
def test_nothing_loses_its_place_and_budgets_hold(data: st.DataObject) -> None:
    """moving.md 4.8: in random clusters with a movable part."""
    count = data.draw(st.integers(3, 6))
    items: list[Any] = [node(f"n{i}", cpu=8) for i in range(count)]
    number = 0
    for i in range(count):
        free = 8
        while free > 0 and data.draw(st.integers(0, 4)):
            size = data.draw(st.integers(1, min(free, 4)))
            labels = {"app": data.draw(st.sampled_from("ab"))}
            says = data.draw(st.sampled_from((MOVABLE, MOVABLE, {})))
            items.append(movable(f"r{number}", f"n{i}", cpu=size, labels=labels, annotations=says))
            free, number = free - size, number + 1
    allowed = data.draw(st.integers(0, 2))
    items += [pdb("a", {"app": "a"}, allowed=allowed)]
    world = world_of(items, pod("train", cpu=8), gang("pair", 2, cpu=5))
    before = set(ran(world))
    world.drain()
    moving = [pod for made in world.virtual.preemptions for pod, _ in made.preemption.moves]
    assert len({pod.uid for pod in moving}) == len(moving)
    assert sum(pod.labels["app"] == "a" for pod in moving) <= allowed
    world.virtual.until(START + 900)
    assert counts(world)[0] == counts(world)[2] == 0
    assert before <= ran(world).keys()
    met("moved", bool(moving))


def _says(item: Any, message: str, ago: float, **status: Any) -> Any:
    """The pod with the condition of a move."""
    when = datetime.fromtimestamp(START - ago, UTC)
    made = objects.PodCondition(type=MOVED, status="True", message=message, last_transition_time=when)
    return replace(item, status=replace(item.status, conditions=[*item.status.conditions, made], **status))


def test_pods_of_a_move_say_so_and_so_does_the_pod_for_which_they_move() -> None:
    """moving.md 4.6: the conditions are as they are read, and go out before anything is evicted."""
    world = world_of(scattered())
    effects = world.engine.step(world.now)
    written = {
        write.name: write.patch["status"]["conditions"][0]
        for write in effects.writes
        if isinstance(write, PatchObject) and (write.kind, write.subresource) == ("Pod", "status")
    }
    assert {name: found["message"] for name, found in written.items()} == {
        "train": "1 moved for it",
        "small": "default/small moves to n2",
    }
    for name, found in written.items():
        condition = objects.PodCondition(
            type=found["type"],
            status=found["status"],
            message=found["message"],
            last_transition_time=datetime.fromisoformat(found["lastTransitionTime"]),
        )
        item = pod(name)
        moved = moved_of(replace(item, status=replace(item.status, conditions=[condition])))
        assert moved is not None
        assert moved_condition(moved) == found
        assert moved.when == round(world.now)


@pytest.mark.parametrize(
    ("messages", "left"),
    [
        (["default/a moves to n2", "default/b moves to n2", "2 moved for it"], 1),
        (["default/a moves to n2", "2 moved for it"], 1),
        (["default/a moves to n2", "default/b moves to n2"], 1),
        (["default/a moves to n1"], 3),
        (["99999999999999999999 moved for it", "-1 moved for it", "moved", " moves to "], 3),
        (["999999 moved for it"], 0),
    ],
    ids=["all", "one is gone", "the pod is gone", "stayed", "not of the scheduler", "more than may move"],
)
def test_moves_of_before_a_restart_count_without_records(messages: list[str], left: int) -> None:
    """moving.md 4.6: each once, by what the pods that are still there say."""
    pods = [_says(pod(f"p{i}", cpu=1, node="n2"), text, 60.0) for i, text in enumerate(messages)]
    old = _says(pod("old", cpu=0, node="n2"), "default/old moves to n2", 3601.0)
    world = world_of(node("n1"), node("n2"), *pods, old, moves_per_hour=3)
    world.engine.resume(START)
    assert world.engine.moves._remaining_moves(START) == left
    assert world.engine.moves._remaining_moves(START + 3541) == 3


def test_places_are_kept_after_a_restart_without_records() -> None:
    """moving.md 4.6: of units that still terminate."""
    items = scattered()
    items[2] = _says(items[2], "default/small moves to n2", 5.0)
    items[2] = replace(items[2], metadata=replace(items[2].metadata, deletion_timestamp=items[2].status.start_time))
    world = world_of(items, moves_per_hour=1)
    world.engine.resume(START)
    world.drain()
    world.add(pod("thief", cpu=1)).drain()
    assert counts(world) == (1, 0, 0)
    assert "thief" in world.pending


def test_replacement_that_exists_at_a_restart_gets_the_kept_place() -> None:
    """moving.md 4.4, 4.6: its controller made it before the scheduler was started again."""
    items = scattered()
    items[2] = _says(items[2], "default/small moves to n2", 5.0)
    items[2] = replace(items[2], metadata=replace(items[2].metadata, deletion_timestamp=items[2].status.start_time))
    world = world_of(items, owned(pod("recreated", cpu=1), "set-small"), moves_per_hour=1)
    world.engine.resume(START)
    assert world.engine.cluster.nodes.names[world.record("recreated").nominated] == "n2"


@pytest.mark.parametrize("records", [(10.0,), (50.0, 10.0)])
def test_records_count_where_they_have_as_many_moves_as_the_pods(records: tuple[float, ...]) -> None:
    """moving.md 4.6"""
    world = world_of(node("n2"), _says(pod("p", node="n2"), "default/a moves to n2", 60.0), moves_per_hour=3)
    for ago in records:
        world.engine.moves.recall(START - ago, {})
    world.engine.resume(START)
    assert {world.engine.moves._remaining_moves(at) for at in (START, START + 3545.0)} == {3 - len(records)}


# -- when moves are searched (4.3), and what may move (4.2, 4.5) -------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "freed", "searched"), [(59, True, False), (60, True, True), (60, False, False), (600, False, False)]
)
def test_moves_are_searched_once_a_minute_and_only_after_capacity_was_freed(
    seconds: int, freed: bool, searched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """moving.md 4.3"""
    searches = []

    def counted(*given: Any) -> tuple[MovePlan | None, bool]:
        searches.append(given)
        return find_moves(*given)

    monkeypatch.setattr(carried_moves, "find_moves", counted)
    fixed = [pod("small", cpu=1, node="n1"), pod("tune", cpu=3, node="n2"), pod("tiny", cpu=0, node="n2")]
    world = world_of(node("n1"), node("n2"), fixed, pod("train", cpu=4)).drain()
    assert len(searches) == 1
    if freed:
        world.gone("tiny")
    world.engine.queue.wake("pod/uid-train", START + seconds)
    world.engine.tick(START + seconds)
    assert world.engine.step(START + seconds).decision is not None
    assert len(searches) == 1 + searched


def test_searches_of_pods_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """moving.md 4.3: all that is kept has a limit."""
    monkeypatch.setattr(carried_moves, "_FEWEST_KEPT", 2)
    world = world_of(node("n1", cpu=1), pod("stays", cpu=9))
    for number in range(9):
        world.add(pod(f"p{number}", cpu=9)).drain().gone(f"p{number}")
    kept = world.engine.moves._last_searches
    assert len(kept) <= 6
    assert {"pod/uid-stays", "pod/uid-p8"} <= kept.keys()


@pytest.mark.parametrize(("most", "moves"), [(1, 0), (2, 2)])
def test_plan_of_more_units_than_may_still_move_is_not_carried_out(most: int, moves: int) -> None:
    """moving.md 4.5"""
    pair = [movable(f"s{n}", "n1") for n in range(2)]
    world = world_of(node("n1"), node("n2", cpu=2), pair, pod("train", cpu=4, priority=1), moves_per_hour=most)
    world.engine.step(START)
    assert counts(world) == (moves, 0, 0)
    assert [world.engine.moves._remaining_moves(START + seconds) for seconds in (3599.9, 3600)] == [most - moves, most]


def test_unit_of_the_same_priority_moves_once() -> None:
    """moving.md 4.2"""
    world = world_of(scattered(priority=1))
    assert len(world.step().nominations) == 1
    assert counts(world) == (1, 0, 0)


def test_decision_of_a_move_replaces_what_was_decided_without_it() -> None:
    """moving.md 4.3, 4.7: the nomination is set, not cleared, and nothing is tried at once."""
    items = scattered()
    items[-1] = replace(items[-1], status=replace(items[-1].status, nominated_node_name="n2"))
    decision = world_of(items).step()
    assert decision.preemption is not None
    (reason,) = [verdict.reason for verdict in decision.preemption.verdicts]
    assert reason is not None
    assert (reason.text, reason.chosen) == ("moves to n2", True)
    assert [(pod.name, where) for pod, where in decision.nominations] == [("train", "n1")]
    assert (decision.result, decision.cleared_nominations, decision.retry_now) == (Result.WAITING, (), False)


# -- places (4.4) ------------------------------------------------------------------------------------------------------


def moving(*more: Any, **of_small: Any) -> World:
    """`small` was evicted from n1, and its place on n2 is kept."""
    world = world_of(scattered(*more, **of_small))
    world.engine.step(START)
    world.engine.remove(ObjectRef("Pod", uid=world.record("small").uid), START)
    return world


@pytest.mark.parametrize(("seconds", "result"), [(89, (1, 0, 0)), (90, (0, 0, 1))])
def test_place_is_kept_for_the_grace_period_and_a_minute(seconds: int, result: tuple[int, int, int]) -> None:
    """moving.md 4.4, 4.7"""
    world = moving()
    assert world.engine.moves.next_time() == START + 90
    world.engine.tick(START + seconds)
    assert counts(world) == result


def labelled(item: Any, index: str) -> Any:
    labels = {"batch.kubernetes.io/job-completion-index": index}
    return replace(item, metadata=replace(item.metadata, labels=labels))


@pytest.mark.parametrize(
    ("recreated", "nominated"),
    [
        (owned(pod("small", cpu=1), "another"), "n2"),
        (owned(pod("small-2", cpu=1), "set-small"), "n2"),
        (owned(pod("small-2", cpu=1), "another"), None),
        (pod("small-2", cpu=1), None),
        (owned(pod("small", cpu=1, namespace="elsewhere"), "set-small"), None),
        (labelled(owned(pod("small-2", cpu=1), "set-small"), "1"), None),
        (owned(pod("small", cpu=1, nominated="n3"), "set-small"), "n3"),
        (owned(pod("small", cpu=1, nominated="n1"), "set-small"), "n1"),
        (owned(pod("small", cpu=1, terminating=True), "set-small"), None),
    ],
    ids=[
        "name",
        "owner",
        "neither",
        "no owner",
        "namespace",
        "index",
        "nominated already",
        "to the first node",
        "terminating",
    ],
)
def test_recreated_pod_gets_the_place(recreated: objects.Pod, nominated: str | None) -> None:
    """moving.md 4.4: if it has the name of the pod that moved, or its owner and index."""
    world = moving(node("n3", cpu=1))
    world.engine.set(recreated, START)
    assert world.nominated.get(recreated.metadata.name) == nominated


def test_second_recreated_pod_gets_no_place_of_the_first() -> None:
    """moving.md 4.4: the first that appears has it, for a minute from then on."""
    world = moving()
    world.engine.set(owned(pod("small-2", cpu=1), "set-small"), START + 80)
    world.engine.set(owned(pod("small-3", cpu=1), "set-small"), START + 80)
    assert world.nominated == {"train": "n1", "small-2": "n2"}
    assert world.engine.moves.next_time() == START + 140


@pytest.mark.parametrize(
    ("where", "result"), [("n2", (0, 1, 0)), ("n3", (0, 0, 1)), (None, (0, 0, 1))], ids=["there", "elsewhere", "gone"]
)
def test_move_ends_when_the_recreated_pod_runs_or_is_gone(where: str | None, result: tuple[int, int, int]) -> None:
    """moving.md 4.4, 4.6, 4.7: the pod that runs has the condition of the move."""
    world = moving(node("n3", cpu=1))
    small = owned(pod("small-2", cpu=1), "set-small")
    world.engine.set(small, START)
    if where is None:
        world.engine.remove(ObjectRef("Pod", uid=small.metadata.uid), START + 1)
    else:
        world.engine.set(bound_to(small, where), START + 1)
    writes = world.engine.tick(START + 2).writes
    assert counts(world) == result
    assert [
        write.patch["status"]["conditions"][0]["message"] for write in writes if isinstance(write, PatchObject)
    ] == ([f"default/small moves to {where}"] if where else [])
    world.engine.set(pod("thief", cpu=1), START + 3)
    assert bool(world.engine.cluster.nodes.nominated.get(world.row("n2"))) is False


@pytest.mark.parametrize(("ago", "kept"), [(89, True), (90, False)])
def test_place_of_a_recorded_move_is_kept_for_as_long_as_a_new_one(ago: int, kept: bool) -> None:
    """moving.md 4.6: also if the pod has no condition of it."""
    items = scattered()
    items[2] = replace(items[2], metadata=replace(items[2].metadata, deletion_timestamp=items[2].status.start_time))
    world = world_of(items)
    world.engine.moves.recall(START - ago, {world.record("small").uid: "n2"})
    world.engine.resume(START)
    assert [(unit.name, unit.when) for unit in world.engine.moves.started] == (
        [("default/small", START - ago)] if kept else []
    )
