"""The parts of one eviction for several preemptors, against plain sums (cost.md 8.2, 8.4, 8.6)."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kube_rules.work_annotations import NO_CLASS_TERMS
from reprieve.cluster.pods import PodRecord
from reprieve.framework.plugin import Assigned, Placement, TieBreaker
from reprieve.framework.running_profile import RunningProfile
from reprieve.preemption.joint_preemption import JointAttempt, JointPlan, Peer, plan_together
from reprieve.preemption.options import EvictionOptions
from tests.building import World, node, pod
from tests.preemption.seeds import each_seed

Amounts = dict[str, int]


def _peer(world: World, name: str, *pods: str, on: Sequence[str] = ()) -> Peer:
    """A preemptor that takes the first node with enough capacity for each of its pods; `on`: its only nodes."""
    cluster, records = world.engine.cluster, [world.record(own) for own in pods or (name,)]

    def place(ties: TieBreaker | None, within: Placement | None) -> Assigned:
        placed: list[tuple[PodRecord, int]] = []
        rows = [world.row(node_name) for node_name in on or cluster.nodes.names]
        rows = rows if within is None else [row for row in rows if row in within.rows]
        with cluster.trial():
            for record in records:
                left = cluster.nodes.allocatable - cluster.nodes.used
                fitting = (row for row in rows if (left[:, row] >= record.signature.delta[: len(left)]).all())
                row = next(fitting, None)
                if row is not None:
                    cluster.place(record, row)
                    placed.append((record, row))
        return tuple(placed)

    return Peer(name, None, records, place)


def _plan(world: World, peers: Sequence[Peer], last: Collection[str] = ()) -> JointPlan | None:
    running = world.engine.running["default-scheduler"]
    assert isinstance(running, RunningProfile)
    cluster = world.engine.cluster
    before = cluster.digest()
    plan = plan_together(running, peers, 9, NO_CLASS_TERMS, EvictionOptions(), None, last)
    assert cluster.digest() == before
    return plan


def _parts(plan: JointPlan | None) -> dict[str, tuple[dict[str, int], list[str]]] | None:
    """By preemptor: places and victims."""
    if plan is None:
        return None
    return {
        ref: ({record.name: row for record, row in part.places}, sorted(part.victims))
        for ref, part in plan.parts.items()
    }


def _expected(
    free: list[int], units: Mapping[str, tuple[int, int]], places: Mapping[str, Sequence[tuple[int, int]]]
) -> dict[str, list[str]]:
    """By preemptor: the units that it evicts or waits for, with all of them displaced first.

    `units`: (node, cores) by importance; `places`: (node, cores) of each preemptor in turn.
    """
    evicted: list[str] = []
    result = {}
    for ref, own in places.items():
        for on, cores in own:
            free[on] -= cores
        left, rows, stays_evicted = list(free), {on for on, _ in own}, []
        later = [name for name in units if name not in evicted]
        earlier = [name for name in units if name in evicted]
        for name in (*later, *earlier):
            on, cores = units[name]
            if on not in rows or cores <= left[on]:
                left[on] -= cores
            else:
                stays_evicted.append(name)
        evicted += [name for name in stays_evicted if name in later]
        result[ref] = sorted(f"uid-{name}" for name in stays_evicted)
    return result


@each_seed(range(25))
def test_each_part_has_the_units_that_cannot_stay(seed: int) -> None:
    """cost.md 8.4: beside its places and those before it; and those of earlier parts with capacity that it needs."""
    chance = random.Random(seed)
    cores = [chance.randint(3, 6) for _ in range(chance.randint(1, 3))]
    items: list[Any] = [node(f"n{i}", cpu=count) for i, count in enumerate(cores)]
    units: dict[str, tuple[int, int]] = {}
    for on, count in enumerate(cores):
        left = count
        while left and chance.random() < 0.95:
            size = chance.randint(1, min(2, left))
            units[f"v{len(units)}"] = (on, size)
            left -= size
    priorities = chance.sample(range(-50, 9), len(units))
    units = {name: units[name] for _, name in sorted(zip(priorities, units, strict=True), reverse=True)}
    items += [
        pod(name, cpu=size, node=f"n{on}", priority=priority)
        for (name, (on, size)), priority in zip(units.items(), sorted(priorities, reverse=True), strict=True)
    ]
    asked = {f"p{i}": chance.randint(1, 3) for i in range(chance.randint(2, 4))}
    items += [pod(name, cpu=size, priority=9) for name, size in asked.items()]
    world = World(*items)
    last = chance.sample(sorted(asked), 1)
    plan = _plan(world, [_peer(world, name) for name in asked], last)
    if plan is None:
        return
    row_of = {world.row(f"n{i}"): i for i in range(len(cores))}
    places = {
        ref: [(row_of[row], asked[record.name]) for record, row in part.places] for ref, part in plan.parts.items()
    }
    order = sorted(plan.wanted, key=lambda ref: ref in last)
    assert [*plan.wanted] == sorted(plan.wanted, key=lambda ref: -asked[ref]), "the largest first"
    assert [*plan.parts] == [ref for ref in order if ref in plan.parts]
    if [*plan.parts] != order:
        return  # One that evicts no units has no part, so its places are not known here.
    evicted = {uid for part in plan.parts.values() for uid in part.victims}
    free = list(cores)
    for name, (on, size) in units.items():
        free[on] -= size if f"uid-{name}" not in evicted else 0
    going = {name: unit for name, unit in units.items() if f"uid-{name}" in evicted}
    expected = _expected(free, going, places)
    assert {ref: sorted(part.victims) for ref, part in plan.parts.items()} == expected
    assert all(
        {*part.together, f"default/{ref}"} == {f"default/{name}" for name in expected}
        for ref, part in plan.parts.items()
    )


def test_part_waits_for_a_victim_of_another_part_beside_units_that_stay() -> None:
    """cost.md 8.4: without the victim of the third the first victim could come back beside the second preemptor."""
    names = ("first", "second", "third")
    units = [pod(name, cpu=2, node="n", priority=priority) for name, priority in (("c", 3), ("b", 2), ("a", 1))]
    world = World(node("n", cpu=6), *units, *(pod(name, cpu=2, priority=9) for name in names))
    plan = _plan(world, [_peer(world, name) for name in names])
    places = [{name: world.row("n")} for name in names]
    victims = [["uid-a"], ["uid-a", "uid-b"], ["uid-a", "uid-b", "uid-c"]]
    assert _parts(plan) == dict(zip(names, zip(places, victims, strict=True), strict=True))


def test_earlier_victim_is_not_kept_instead_of_a_later_one() -> None:
    """cost.md 8.4: the first part evicts the important unit, which is alone on the node that the first may use."""
    wanted = {"wanted": "yes"}
    world = World(
        node("n", cpu=4, labels=wanted),
        pod("a", cpu=1, node="n", priority=1),
        pod("b", cpu=3, node="n", priority=5),
        pod("large", cpu=3, priority=9, selector=wanted),
        pod("small", cpu=1, priority=9, selector=wanted),
    )
    plan = _plan(world, [_peer(world, "large"), _peer(world, "small")])
    row = world.row("n")
    assert _parts(plan) == {"large": ({"large": row}, ["uid-b"]), "small": ({"small": row}, ["uid-a", "uid-b"])}


@pytest.mark.parametrize(
    ("asked", "parts"),
    [
        ({"one": 9, "two": 9}, None),
        ({"one": 2, "two": 9}, None),
        ({"one": 9, "two": 2}, ["two"]),
        ({"one": 2, "two": 2}, ["one", "two"]),
        ({"one": 2, "two": 3}, ["two"]),
    ],
)
def test_those_that_would_get_no_place_are_left_out(asked: Amounts, parts: list[str] | None) -> None:
    """cost.md 8.2: there is no plan for the first alone."""
    world = World(node("n", cpu=4), pod("v", cpu=4, node="n"), *(pod(n, cpu=c, priority=9) for n, c in asked.items()))
    plan = _plan(world, [_peer(world, name) for name in asked])
    assert (plan and [*plan.parts]) == parts


def test_nothing_is_planned_where_no_pods_must_be_evicted() -> None:
    """cost.md 8.2: those that fit without an eviction are placed first."""
    world = World(node("n", cpu=4), pod("v", cpu=1, node="n"), *(pod(name, cpu=1, priority=9) for name in "ab"))
    assert _plan(world, [_peer(world, name) for name in "ab"]) is None


def test_preemptor_with_fewer_places_than_alone_is_left_out() -> None:
    """cost.md 8.2: alone all three pods get a place, beside the largest two of them; the one after it is planned."""
    names = [f"many-{i}" for i in range(3)]
    waiting = [*(pod(name, cpu=1, priority=9) for name in names), pod("small", cpu=1, priority=9)]
    world = World(node("n", cpu=6), pod("v", cpu=6, node="n"), pod("large", cpu=4, priority=9), *waiting)
    plan = _plan(world, [_peer(world, "many", *names), _peer(world, "large"), _peer(world, "small")])
    assert plan is not None
    assert plan.wanted == {"large": 1, "small": 1}


def test_preemptor_with_as_many_places_as_alone_is_planned() -> None:
    """cost.md 8.2: two of its three pods have a place, with the largest and without it."""
    names, wanted = [f"many-{i}" for i in range(3)], {"wanted": "yes"}
    world = World(
        node("n1", cpu=4),
        pod("v1", cpu=4, node="n1"),
        node("n2", cpu=2, labels=wanted),
        pod("v2", cpu=2, node="n2"),
        pod("large", cpu=4, priority=9),
        *(pod(name, cpu=1, priority=9, selector=wanted) for name in names),
    )
    plan = _plan(world, [_peer(world, "many", *names, on=["n2"]), _peer(world, "large")])
    assert plan is not None
    assert plan.wanted == {"large": 1, "many": 2}


@pytest.mark.parametrize("wanted", [1, 2])
def test_attempt_fails_unless_each_preemptor_has_its_places(wanted: int) -> None:
    """cost.md 8.4: then none of them is placed."""
    world = World(node("n", cpu=2), *(pod(name, cpu=1, priority=9) for name in ("a", "b-0", "b-1")))
    peers = [_peer(world, "a"), _peer(world, "b", "b-0", "b-1")]
    attempt = JointAttempt(world.engine.cluster, peers, {"a": 1, "b": wanted})
    assignment = attempt.run()
    assert ([record.name for record, _ in assignment.placed], assignment.feasible) == (
        (["a", "b-0"], True) if wanted == 1 else ([], False)
    )
    assert world.record("a").row < 0
    assert (attempt.placements, attempt.hopeful(), attempt.constrained_below) == (None, (), False)
    domain = Placement("some", np.array([0]))
    within = JointAttempt(world.engine.cluster, [peers[0], replace(peers[1], constrained=True)], {}, domain)
    assert (within.placements, within.hopeful(), within.constrained_below) == ((domain,), (domain,), True)
