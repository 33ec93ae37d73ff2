"""Nominations that another pod made hopeless without preempting (preemption.md 2.7; kubernetes issue 106780)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.building import Item, World, bound_to, gang, group, node, pod

GRACE = 100


def _begun(*more: Item) -> World:
    """On n1 `mid` waits for `low` to leave; `dear` on n2 costs more to evict, and leaves at once."""
    world = World(
        node("n1", cpu=4),
        node("n2", cpu=4),
        pod("low", cpu=2, node="n1", grace=GRACE),
        pod("dear", cpu=4, node="n2", priority=5, grace=0),
        *more,
        pod("mid", cpu=3, priority=10),
    ).drain()
    assert (world.nominated, world.evicted) == ({"mid": "n1"}, ["low"])
    return world


@pytest.mark.parametrize("how", ["a higher pod is scheduled", "another scheduler binds a new pod", "and a known one"])
def test_preemptor_with_a_taken_place_preempts_elsewhere_while_its_victims_leave(how: str) -> None:
    world = _begun()
    if how == "a higher pod is scheduled":
        world.add(pod("high", cpu="1500m", priority=20))
    elif how == "another scheduler binds a new pod":
        world.add(pod("high", cpu="1500m", priority=20, node="n1"))
    else:
        world.add(pod("high", cpu="1500m", priority=20, selector={"no": "where"})).drain()
        world.change_pod("high", lambda found: replace(found, spec=bound_to(found, "n1").spec))
    world.virtual.until(world.now + 15)
    assert world.where["high"] == "n1"
    assert world.where["mid"] == "n2", "long before low has left"
    assert world.evicted == ["dear", "low"]
    assert world.record("low").row >= 0


def test_pod_of_lower_priority_that_another_scheduler_binds_is_evicted_as_well() -> None:
    world = _begun()
    world.add(pod("late", cpu="1500m", node="n1"))
    world.virtual.until(world.now + 15)
    assert (world.nominated, world.evicted) == ({"mid": "n1"}, ["late", "low"])


def test_without_another_place_the_nomination_is_dropped_and_its_capacity_is_free() -> None:
    world = _begun()
    world.engine.set(pod("guard", cpu=4, node="n2", priority=30), world.now)
    world.add(pod("high", cpu="1500m", priority=20))
    world.virtual.until(world.now + 15)
    assert world.nominated == {}
    assert world.pending == ["mid"]
    assert world.evicted == ["low"], "no second victim for nothing"
    world.add(pod("small", cpu="500m", priority=1))
    world.virtual.until(world.now + 1)
    assert world.where["small"] == "n1"


def test_place_that_still_does_is_waited_for() -> None:
    """preemption.md 2.3: what was placed beside the nomination leaves enough."""
    world = _begun()
    world.add(pod("high", cpu=1, priority=20))
    world.virtual.until(world.now + 15)
    assert world.where["high"] == "n1"
    assert (world.nominated, world.evicted) == ({"mid": "n1"}, ["low"])
    assert world.message("mid").endswith("not eligible due to a terminating pod on the nominated node.")
    assert world.settle().where["mid"] == "n1"


def test_pod_that_leaves_by_itself_counts_as_gone() -> None:
    """It makes up for what was taken: the preemptor still waits."""
    world = _begun(pod("leaving", cpu=1, node="n1", priority=30, grace=GRACE))
    world.engine.mark_terminating(world.record("leaving").uid, world.now)
    world.add(pod("high", cpu=1, priority=20))
    world.virtual.until(world.now + 15)
    assert (world.nominated, world.evicted) == ({"mid": "n1"}, ["low"])


def test_preemptor_is_tried_when_the_calls_of_its_preemption_are_done() -> None:
    """preemption.md 7.3: it stays gated until then."""
    world = World(
        node("n1", cpu=4),
        node("n2", cpu=4),
        pod("low", cpu=2, node="n1", grace=GRACE),
        pod("dear", cpu=4, node="n2", priority=5, grace=0),
        pod("mid", cpu=3, priority=10),
    )
    assert world.step().preemption is not None
    key = world.entity("mid").ref
    world.engine.set(pod("high", cpu="1500m", priority=20, node="n1"), world.now)
    assert world.engine.step(world.now + 20).decision is None
    world.engine.finish_preemption(key, world.now + 20)
    decision = world.engine.step(world.now + 20).decision
    assert decision is not None
    assert decision.preemption is not None
    assert decision.preemption.domain == "n2"


def test_group_preempts_elsewhere_when_a_part_of_its_place_is_taken() -> None:
    world = World(
        *[node(f"n{i}", cpu=2) for i in range(4)],
        *[pod(f"low-{i}", cpu=2, node=f"n{i}", grace=GRACE) for i in range(2)],
        *[pod(f"dear-{i}", cpu=2, node=f"n{i}", priority=5, grace=0) for i in (2, 3)],
        *gang("crew", 2, cpu=2, priority=10),
    ).drain()
    assert set(world.nominated.values()) == {"n0", "n1"}
    world.engine.set(pod("taken", cpu=1, node="n0", priority=20), world.now)
    world.virtual.until(world.now + 15)
    assert world.nominated["crew-0"] != "n0"
    assert "dear-2" in world.evicted or "dear-3" in world.evicted
    assert not {"crew-0", "crew-1"} <= set(world.where), "its other victim still leaves"
    world.settle()
    assert {world.where["crew-0"], world.where["crew-1"]} <= {"n1", "n2", "n3"}
    assert len(world.evicted) == 3


@pytest.mark.parametrize("taken", ["", "1500m"])
def test_lower_priorities_on_the_node_may_be_victims_after_a_restart(taken: str) -> None:
    """A killed scheduler has deleted one of its two victims; the nomination holds unless a higher pod is in the way."""
    world = World(
        node("n1", cpu=4),
        node("n2", cpu=4),
        pod("low", cpu=2, node="n1", terminating=True, preempted=True, grace=GRACE),
        pod("other", cpu=1, node="n1", priority=1),
        pod("dear", cpu=4, node="n2", priority=5, grace=0),
        *([pod("high", cpu=taken, node="n1", priority=20)] if taken else []),
        pod("mid", cpu="3500m", priority=10, nominated="n1"),
    ).drain()
    assert world.nominated["mid"] == ("n2" if taken else "n1")
    assert world.evicted == (["dear"] if taken else [])


def test_group_without_victims_on_the_way_keeps_to_its_own_rules() -> None:
    """Nothing leaves: an attempt that fails looks for victims as ever."""
    world = World(node("n1", cpu=2), pod("low", cpu=2, node="n1", grace=0), group("crew", min_count=1, priority=5))
    world.add(pod("p0", cpu=2, group="crew", priority=5, nominated="n1")).settle()
    assert world.where == {"p0": "n1"}
