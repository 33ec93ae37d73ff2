"""What the search for victims is given of a cluster: amounts, units and budgets as plain numbers (cost.md 4.5, 4.6)."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from reprieve.cluster.pods import PodRecord
from reprieve.preemption import group_victims
from reprieve.preemption.order import Ranking
from reprieve.preemption.units import PreemptionUnit
from reprieve.preemption.victim_search import problem
from reprieve.preemption.victim_search.problem import (
    Kind,
    Numbers,
    TenantLimits,
    _ease,
    _merged,
    budgets_that_matter,
    gangs_of,
    restartless_of,
    shares_of,
)
from reprieve.preemption.victim_search.search import PricedEviction, cheapest_eviction
from tests.building import Item, World, gang, group, node, pdb, pod

GI = 1 << 30


def _searched(*items: Item | Sequence[Item]) -> tuple[World, list[Numbers]]:
    """What was searched in while the first decision was made."""
    seen: list[Numbers] = []

    def noted(numbers: Numbers, known: Sequence[int] = (), *, steps: int) -> PricedEviction | None:
        seen.append(numbers)
        return cheapest_eviction(numbers, known, steps=steps)

    world = World(*items)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(group_victims, "cheapest_eviction", noted)
        world.step()
    return world, seen


def test_cluster_in_numbers() -> None:
    """Nodes by name, units by importance, what each holds of what is asked for; and `free` beside remaining pods."""
    items = [
        node("n2", cpu=8),
        node("n1", cpu=4),
        node("n0", cpu=4, taints=[("only", "others", "NoSchedule")]),
        pod("stays", cpu=1, node="n1", priority=50),
        pod("a", cpu=2, memory="1Gi", node="n1", priority=3),
        pod("b", cpu=3, node="n2", priority=1),
        *gang("w", 2, cpu=2, node="n2", whole=True, priority=2),
        pod("free", memory="1Gi", node="n2", priority=1),
        *gang("crew", 2, cpu=3, priority=9),
    ]
    world, (numbers,) = _searched(*items)
    assert numbers.rows == (world.row("n1"), world.row("n2"))
    assert numbers.free == ((3000, 109), (8000, 110))
    (kind,) = numbers.kinds
    assert (kind.wants, list(kind.usable), [one.name for one in kind.pods]) == (
        (3000, 1),
        [True, True],
        ["crew-0", "crew-1"],
    )
    assert [unit.name.removeprefix("default/") for unit in numbers.units] == ["a", "w", "b", "free"]
    assert numbers.takes == (((0, (2000, 1)),), ((1, (4000, 2)),), ((1, (3000, 1)),), ((1, (0, 1)),))
    assert numbers.on == ((0,), (1, 2, 3))
    assert (numbers.charged, numbers.allowed) == (((), (), (), ()), ())
    assert numbers.exact
    assert numbers.pricing is None


def test_hardest_to_place_come_first() -> None:
    """Those with the fewest places with all units gone; then the larger."""
    crew = [
        group("crew", min_count=4, priority=9),
        pod("crew-0", cpu=1, group="crew", priority=9),
        pod("crew-1", cpu=3, group="crew", priority=9),
        pod("crew-2", cpu=1, gpu=1, group="crew", priority=9),
        pod("crew-3", cpu=1, group="crew", priority=9),
    ]
    _, (numbers,) = _searched(node("n", cpu=8, gpu=1), pod("a", cpu=6, node="n"), *crew)
    assert [[one.name for one in kind.pods] for kind in numbers.kinds] == [["crew-2"], ["crew-1"], ["crew-0", "crew-3"]]
    assert [kind.wants for kind in numbers.kinds] == [(1000, 1, 1), (3000, 0, 1), (1000, 0, 1)]


@pytest.mark.parametrize(
    ("more", "exact"),
    [({}, True), ({"ports": [80]}, False), ({"selector": {"kubernetes.io/hostname": "n1"}}, True)],
)
def test_numbers_are_exact_where_resources_are_all_that_counts(more: dict[str, Any], exact: bool) -> None:
    """cost.md 4.5: else what is found is a proposal; nodes that a member may not use are no matter of it."""
    nodes = [node(f"n{i}", cpu=4, labels={"kubernetes.io/hostname": f"n{i}"}) for i in range(2)]
    _, (numbers,) = _searched(
        *nodes, *[pod(f"a{i}", cpu=4, node=f"n{i}") for i in range(2)], *gang("crew", 1, cpu=2, priority=9, **more)
    )
    assert numbers.exact is exact
    assert len(numbers.rows) == (1 if "selector" in more else 2)


def test_room_that_is_held_for_others_is_not_free() -> None:
    """Nominated pods of equal or higher priority count as running, those below do not."""
    items = [
        node("n", cpu=8),
        pod("a", cpu=8, node="n"),
        pod("above", cpu=1, priority=9, nominated="n", gates=["wait"]),
        pod("below", cpu=2, priority=8, nominated="n", gates=["wait"]),
    ]
    _, found = _searched(*items, *gang("crew", 1, cpu=4, priority=9))
    assert [numbers.free for numbers in found] == [((7000, 109),)]


# -- like and unlike members -------------------------------------------------------------------------------------------


def _alike(*wants: tuple[int, ...], mask: bytes = b"\1") -> list[tuple[tuple[int, ...], bytes, list[PodRecord]]]:
    return [(each, mask, cast("list[PodRecord]", [f"p{i}"])) for i, each in enumerate(wants)]


@pytest.mark.parametrize(
    ("wants", "most", "merged"),
    [
        # All of a size: one kind, each resource by itself.
        ([(4, 1), (3, 2), (2, 2)], 2, [((4, 2), ["p2", "p1", "p0"])]),
        # Twice as much is of a size, more is not.
        ([(4,), (2,), (3,)], 2, [((4,), ["p0", "p2", "p1"])]),
        ([(5,), (2,), (3,)], 2, [((5,), ["p0", "p2"]), ((2,), ["p1"])]),
        ([(9,), (1,), (8,), (2,)], 2, [((9,), ["p0", "p2"]), ((2,), ["p3", "p1"])]),
        ([(9,), (1,), (8,), (2,)], 1, [((9,), ["p0", "p2", "p3", "p1"])]),
        ([(9,), (1,), (8,), (2,), (3,)], 2, [((9,), ["p0", "p2", "p4"]), ((2,), ["p3", "p1"])]),
        # By the share of the most of any resource.
        ([(1, 10), (5, 1), (4, 1)], 3, [((1, 10), ["p0"]), ((5, 1), ["p1"]), ((4, 1), ["p2"])]),
    ],
)
def test_neighbours_by_size_count_as_the_largest_of_them(
    wants: list[tuple[int, ...]], most: int, merged: list[tuple[tuple[int, ...], list[str]]]
) -> None:
    """cost.md 4.6."""
    assert [(amounts, [str(one) for one in pods]) for amounts, _, pods in _merged(_alike(*wants), most)] == merged


def test_members_with_other_nodes_are_not_merged() -> None:
    """Each set of nodes by itself, with its part of the kinds."""
    found = _merged([*_alike((9,), (1,), mask=b"\1\0"), *_alike((8,), (2,), mask=b"\0\1")], 2)
    assert [(wants, mask, len(pods)) for wants, mask, pods in found] == [((9,), b"\1\0", 2), ((8,), b"\0\1", 2)]
    found = _merged([*_alike((9,), (1,), mask=b"\1\0"), *_alike((8,), (2,), mask=b"\0\1")], 4)
    assert [wants for wants, _, _ in found] == [(9,), (1,), (8,), (2,)]


@pytest.mark.parametrize(
    ("nodes", "sizes", "kinds"),
    [(5, 24, 24), (5, 25, 1), (1000, 4, 4), (1000, 5, 1), (200, 20, 20), (200, 21, 1), (166, 24, 24), (167, 24, 1)],
)
def test_so_many_kinds_of_pods_are_distinguished(nodes: int, sizes: int, kinds: int) -> None:
    """cost.md 4.6: 24 in a small cluster, 4 in a large one, and the product in between."""
    states = [SimpleNamespace(signature=SimpleNamespace(requests=((0, 1000 + i),)), pod=f"p{i}") for i in range(sizes)]
    evaluator = SimpleNamespace(usable_nodes=lambda _: np.ones(nodes, dtype=np.bool_))
    found = problem._kinds(cast("Any", evaluator), cast("Any", states), [0], np.arange(nodes))
    assert found is not None
    assert len(found) == kinds
    assert sum(len(kind.pods) for kind in found) == sizes


def test_members_that_differ_in_their_nodes_too_much_are_not_searched_for() -> None:
    """cost.md 4.6: they cannot be merged."""
    masks = {f"p{i}": np.arange(40) != i for i in range(25)}
    states = [SimpleNamespace(signature=SimpleNamespace(requests=((0, 1000),)), pod=name) for name in masks]
    evaluator = SimpleNamespace(usable_nodes=lambda state: masks[state.pod])
    assert problem._kinds(cast("Any", evaluator), cast("Any", states), [0], np.arange(40)) is None
    found = problem._kinds(cast("Any", evaluator), cast("Any", states[:24]), [0], np.arange(40))
    assert found is not None
    assert [kind.usable[: i + 2] for i, kind in enumerate(found)] == [[True] * i + [False, True] for i in range(24)]


@pytest.mark.parametrize(
    ("wants", "usable", "places"),
    [
        ((2, 0), (True, True), 2 + 1),
        ((2, 0), (True, False), 2),
        ((2, 2), (True, True), 1 + 1),
        ((0, 3), (True, True), 0 + 3),
        ((6, 0), (True, True), 0),
    ],
)
def test_how_many_of_a_kind_there_would_be_room_for(
    wants: tuple[int, int], usable: tuple[bool, bool], places: int
) -> None:
    """With all units gone; a node that is overdrawn has none. Of as many the larger come first."""
    free = np.array([[5, 3], [2, 9]])
    assert _ease(Kind(wants, usable, ()), free) == (places, tuple(-want for want in wants))
    assert _ease(Kind((1, 0), (True, True), ()), np.array([[-4, 3], [9, 9]]))[0] == 3


# -- units ---------------------------------------------------------------------------------------------------------


def test_units_hold_amounts_on_nodes() -> None:
    """Sums on each node that counts, by node; a unit that holds nothing of what is asked for is on none."""
    pods = [
        pod("w0", cpu=1, memory="1Gi", node="a"),
        pod("w1", cpu=2, node="a"),
        pod("w2", cpu=1, memory="1Gi", node="c"),
        pod("w3", cpu=4, node="b"),
        pod("x", memory="2Gi", node="a"),
        pod("y", cpu=5, node="c"),
    ]
    world = World(*[node(name, cpu=9) for name in "abc"], *pods)

    def unit(*names: str) -> PreemptionUnit:
        records = tuple(world.record(name) for name in names)
        return PreemptionUnit("u", records, tuple(record.row for record in records), 0, False, None)

    place = {world.row("c"): 0, world.row("a"): 1}
    cpu = world.engine.cluster.resources.column("cpu")
    memory = world.engine.cluster.resources.column("memory")
    units = [unit("w0", "w1", "w2", "w3"), unit("x"), unit("y")]
    takes, on = shares_of(units, place, [cpu, memory], 2)
    assert takes == (((0, (1000, GI)), (1, (3000, GI))), ((1, (0, 2 * GI)),), ((0, (5000, 0)),))
    assert on == ((0, 2), (0, 1))
    takes, on = shares_of(units, place, [cpu], 2)
    assert takes[1] == ()
    assert on == ((0, 2), (0,))


@pytest.mark.parametrize(
    ("charged", "allowed", "kept", "left"),
    [
        # Both may run short: as they are.
        ([{0: 1}, {0: 1, 1: 2}], [1, 1], (((0, 1),), ((0, 1), (1, 2))), (1, 1)),
        # The first could spare both at once: left out, the other gets its number.
        ([{0: 1}, {0: 1, 1: 2}], [2, 1], ((), ((0, 2),)), (1,)),
        ([{0: 1}, {0: 1, 1: 2}], [1, 2], (((0, 1),), ((0, 1),)), (1,)),
        ([{0: 1}, {0: 1, 1: 2}], [2, 2], ((), ()), ()),
        ([{2: 3, 0: 1}, {2: 1, 1: 1}], [0, 9, 3], (((0, 1), (1, 3)), ((1, 1),)), (0, 3)),
        ([{}, {}], [0, 1], ((), ()), ()),
        ([], [], (), ()),
    ],
)
def test_budgets_that_no_eviction_can_violate_do_not_count(
    charged: list[dict[int, int]], allowed: list[int], kept: object, left: tuple[int, ...]
) -> None:
    """cost.md 4.2: those that could spare all of their pods at once."""
    ranking = cast("Ranking", SimpleNamespace(charged=charged, allowed=allowed))
    assert budgets_that_matter(ranking) == (kept, left)


def test_budgets_of_a_cluster() -> None:
    """By unit how many of its pods each counts."""
    items = [
        node("n", cpu=4),
        pdb("few", {"app": "x"}, allowed=1),
        pdb("many", {"app": "y"}, allowed=9),
        *gang("w", 2, cpu=1, node="n", whole=True, priority=2, labels={"app": "x"}),
        pod("a", cpu=1, node="n", labels={"app": "x"}),
        pod("b", cpu=1, node="n", labels={"app": "y"}),
    ]
    _, (numbers,) = _searched(*items, *gang("crew", 1, cpu=2, priority=9))
    assert numbers.allowed == (1,)
    assert numbers.charged == (((0, 2),), ((0, 1),), ())


@pytest.mark.parametrize(
    ("slack", "lost", "slacks"),
    [
        # Two of the three gangs can break: those of which the units hold more than the slack.
        ({"a": 1, "b": 2, "c": 0}, (((0, 1),), ((0, 1), (1, 1)), ()), (1, 0)),
        ({"a": 2, "b": 2, "c": 1}, ((), (), ()), ()),
        ({"a": 1, "b": 1, "c": 1}, (((0, 1),), ((0, 1),), ((1, 2),)), (1, 1)),
    ],
)
def test_gangs_that_an_eviction_can_break(
    slack: dict[str, int], lost: tuple[tuple[tuple[int, int], ...], ...], slacks: tuple[int, ...]
) -> None:
    """cost.md 1.7: only if broken gangs count; others are left out."""
    pods: list[dict[str, int]] = [{"a": 1}, {"a": 1, "c": 1}, {"b": 2}]
    costing = SimpleNamespace(losses=lambda _: pods, slack=slack)

    def ranking(costing: object, *, counts: bool) -> Ranking:
        criteria = SimpleNamespace(counts_gangs=counts)
        return cast("Ranking", SimpleNamespace(costing=costing, criteria=criteria, ordered=()))

    gangs = gangs_of(ranking(costing, counts=True))
    assert gangs is not None
    assert (gangs.lost, gangs.slack) == (lost, slacks)
    assert gangs_of(ranking(costing, counts=False)) is None
    assert gangs_of(ranking(None, counts=True)) is None


@pytest.mark.parametrize(
    ("upstream", "unlike", "counted"), [(False, [1, 0], (1, 0)), (False, None, ()), (True, [1, 0], ())]
)
def test_pods_that_cannot_restart_elsewhere(upstream: bool, unlike: list[int] | None, counted: tuple[int, ...]) -> None:
    """cost.md 1.9: by unit, unless that is the same for all of them or kube-scheduler's comparison decides."""
    ranking: Any = SimpleNamespace(criteria=SimpleNamespace(upstream=upstream), costing=None, ordered=())
    assert restartless_of(ranking) == ()
    ranking.costing = SimpleNamespace(unlike=lambda _: unlike)
    assert restartless_of(ranking) == counted


def test_pods_that_namespaces_lose() -> None:
    """cost.md 4.7: by unit and namespace, in the order of their names; the most of any one."""
    units: Any = [
        SimpleNamespace(pods=[SimpleNamespace(namespace=name) for name in names]) for names in ("ba", "bcb", "", "c")
    ]
    limits = TenantLimits.of(units, 3)
    assert limits.charged == (((0, 1), (1, 1)), ((1, 2), (2, 1)), (), ((2, 1),))
    assert limits.allowed == (3, 3, 3)
    assert [limits.most_lost(some) for some in ((), (2,), (0,), (0, 1), (0, 3))] == [0, 0, 1, 3, 1]
