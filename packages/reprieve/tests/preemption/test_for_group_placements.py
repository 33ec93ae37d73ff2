"""A pod group under a topology constraint as preemptor (preemption.md 4.6)."""

from __future__ import annotations

from typing import Any

import pytest

from reprieve.preemption.outcome import Preemption
from reprieve.scheduling.decision import Result
from tests.building import World, group, history, node, pdb, pod
from tests.plugins.neighbours import ZONE, rules, term


def _racks(*sizes: int, cpu: int = 1) -> list[Any]:
    return [node(f"r{r}n{i}", cpu=cpu, labels={"rack": f"r{r}"}) for r, size in enumerate(sizes) for i in range(size)]


def _crew(count: int, *, min_count: int | None = None, cpu: int = 1, priority: int = 9) -> list[Any]:
    crew = group("crew", topology="rack", min_count=count if min_count is None else min_count, priority=priority)
    return [crew, *(pod(f"p{i}", cpu=cpu, group="crew", priority=priority) for i in range(count))]


def _preempts(world: World) -> Preemption:
    decision = world.step()
    assert decision.preemption is not None, decision.condition
    return decision.preemption


def _victims(preemption: Preemption) -> list[str]:
    return sorted(p.name for v in preemption.victims for p in v.unit.pods)


def _low(name: str, where: str, *, priority: int = 0, cpu: int = 1, start: float = 0, **more: Any) -> Any:
    return pod(name, node=where, cpu=cpu, priority=priority, start=start, **more)


_CASES: list[tuple[str, list[Any], str, list[str]]] = [
    (
        "fewest PodDisruptionBudget violations",
        [
            *_racks(1, 1),
            _low("a", "r0n0", labels={"app": "db"}),
            _low("b", "r1n0", priority=5),
            pdb("db", {"app": "db"}),
            *_crew(1),
        ],
        "r1",
        ["b"],
    ),
    (
        "lowest priority of the most important victim",
        [*_racks(1, 1), _low("a", "r0n0", priority=2), _low("b", "r1n0", priority=1), *_crew(1)],
        "r1",
        ["b"],
    ),
    (
        "smallest sum of victim priorities",
        [
            *_racks(2, 2),
            *[_low(f"a{i}", f"r0n{i}", priority=2) for i in range(2)],
            *[_low(f"b{i}", f"r1n{i}", priority=2 - i) for i in range(2)],
            *_crew(2),
        ],
        "r1",
        ["b0", "b1"],
    ),
    (
        "smallest sum of victim priorities",
        [*_racks(1, 1, cpu=2), *[_low(f"a{i}", "r0n0") for i in range(2)], _low("b", "r1n0", cpu=2), *_crew(1, cpu=2)],
        "r1",
        ["b"],
    ),
    (
        "latest start of the most important victims",
        [*_racks(1, 1), _low("a", "r0n0", start=1), _low("b", "r1n0", start=2), *_crew(1)],
        "r1",
        ["b"],
    ),
    (
        "highest placement score",
        [
            *_racks(3, 2, cpu=4),
            *[_low(f"a{i}", f"r0n{i}") for i in range(3)],
            *[_low(f"b{i}", f"r1n{i}") for i in range(2)],
            *_crew(1, cpu=4),
        ],
        "r1",
        ["b0"],
    ),
    ("first by name", [*_racks(1, 1), _low("a", "r0n0"), _low("b", "r1n0"), *_crew(1)], "r0", ["a"]),
]


@pytest.mark.parametrize("plain", [False, True], ids=["fast", "plain"])
@pytest.mark.parametrize(("criterion", "items", "domain", "victims"), _CASES, ids=[c[0] for c in _CASES])
def test_candidates_are_compared_with_the_ordering_of_section_3(
    plain: bool, criterion: str, items: list[Any], domain: str, victims: list[str]
) -> None:
    """preemption.md 4.6: "by the order of section 3, then by the placement score of the group"."""
    preemption = _preempts(World(*items, plain=plain))
    assert (preemption.domain, _victims(preemption), preemption.candidates) == (domain, victims, 2)
    compared = preemption.compared
    assert compared is not None
    assert compared.domain == {"r0": "r1", "r1": "r0"}[domain]
    assert compared.steps == ((criterion, 1),)


def test_remaining_pods_count_in_the_placement_score() -> None:
    """preemption.md 4.6: spared pods fill a placement: with one victim each, the rack that stays fuller is taken."""
    world = World(
        *_racks(2, 2, cpu=4),
        *[_low(f"a{i}", f"r0n{i}", cpu=3) for i in range(2)],
        _low("a2", "r0n0", cpu=1, start=-9),
        *[_low(f"b{i}", f"r1n{i}", cpu=3) for i in range(2)],
        *[_low(f"c{i}", f"r1n{i}", cpu=1, start=-9) for i in range(2)],
        *_crew(1, cpu=3),
    )
    preemption = _preempts(world)
    assert (preemption.domain, preemption.candidates, len(_victims(preemption))) == ("r1", 2, 1)


@pytest.mark.parametrize("plain", [False, True], ids=["fast", "plain"])
def test_victims_are_counted_cluster_wide(plain: bool) -> None:
    """preemption.md 4.6: a whole group costs all its pods, wherever they run: two single pods are cheaper."""
    world = World(
        *_racks(1, 2, cpu=1),
        *[node(f"bare{i}", cpu=1) for i in range(3)],
        group("train", whole=True),
        _low("t0", "r0n0", group="train"),
        *[_low(f"t{i + 1}", f"bare{i}", group="train") for i in range(3)],
        *[_low(f"b{i}", f"r1n{i}", start=1) for i in range(2)],
        *_crew(2, min_count=1),
        plain=plain,
    )
    preemption = _preempts(world)
    assert (preemption.domain, _victims(preemption), preemption.candidates) == ("r1", ["b0", "b1"], 2)


def test_other_placements_are_not_touched() -> None:
    """preemption.md 4.6: only the chosen placement's victims go; all others are accounted for as spared."""
    world = World(
        *_racks(2, 2, 2),
        *[_low(f"l{r}{i}", f"r{r}n{i}", start=r) for r in range(3) for i in range(2)],
        *_crew(2),
    ).settle()
    assert world.evicted == ["l20", "l21"]
    assert {world.where[f"p{i}"] for i in range(2)} == {"r2n0", "r2n1"}
    preemption = next(d.preemption for d in world.engine.decisions if d.preemption is not None)
    assert preemption.reprieved == 4
    assert sum(d.preemption is not None for d in world.engine.decisions) == 1


def test_placed_members_settle_where_to_make_room() -> None:
    """preemption.md 4.6: a later attempt stays in the domain of the members that run, though another one is free."""
    world = World(
        *_racks(2, 3),
        group("crew", topology="rack", min_count=2, priority=9),
        pod("p0", node="r0n0", cpu=1, group="crew", priority=9),
        _low("low", "r0n1"),
        pod("p1", cpu=1, group="crew", priority=9),
    )
    preemption = _preempts(world)
    assert (preemption.domain, _victims(preemption), preemption.candidates) == ("r0", ["low"], 1)


def test_nothing_is_touched_where_no_placement_would_do() -> None:
    """preemption.md 4.2, 4.6: "the attempt stops and nothing changes"; the cluster as a whole would hold the gang."""
    world = World(*_racks(1, 1), _low("a", "r0n0"), _low("b", "r1n0"), *_crew(2)).settle()
    assert world.evicted == []
    assert world.condition("crew")[2] == (
        "0/2 placements are available, first placement status: pod group is unschedulable, pod group is unschedulable"
    )


def test_placement_that_holds_the_group_as_it_is_is_not_preempted_in() -> None:
    """preemption.md 2.1, 4.6: "If a pod or group can be scheduled without preemption, nothing is preempted"."""
    world = World(*_racks(2, 2), *[_low(f"a{i}", f"r0n{i}", priority=-5) for i in range(2)], *_crew(2)).settle()
    assert world.evicted == []
    assert {world.where[f"p{i}"] for i in range(2)} == {"r1n0", "r1n1"}


@pytest.mark.parametrize("plain", [False, True], ids=["fast", "plain"])
def test_rules_about_other_pods_reach_beyond_the_placement(plain: bool) -> None:
    """preemption.md 4.3, 4.6: every filter of every assigned pod; an anti-affinity by zone evicts in another rack."""
    zone = {"zone": "z"}
    nodes = [node(f"r{r}", cpu=2, labels={"rack": f"r{r}", **zone}) for r in range(2)]
    away = rules(apart=[term(ZONE, {"app": "noisy"})])
    world = World(
        *nodes,
        _low("noisy", "r1", labels={"app": "noisy"}),
        _low("quiet", "r0"),
        group("crew", topology="rack", min_count=1, priority=9),
        pod("p0", cpu=1, group="crew", priority=9, affinity=away),
        plain=plain,
    )
    preemption = _preempts(world)
    assert (preemption.domain, _victims(preemption), preemption.candidates) == ("r0", ["noisy"], 2)


def test_group_waits_in_its_domain_and_starts_nothing_else() -> None:
    """preemption.md 4.5, 4.6: nominated, waiting; one preemption at a time; then placed where it preempted."""
    world = World(*_racks(2, 2), *[_low(f"l{r}{i}", f"r{r}n{i}", grace=30) for r in range(2) for i in range(2)])
    world.add(*_crew(2)).drain()
    assert world.nominated == {"p0": "r0n0", "p1": "r0n1"}
    assert world.condition("crew") == (
        False,
        "Unschedulable",
        "pod group is waiting for podgroup preemption to complete",
    )
    world.add(node("r1n2", cpu=9, labels={"rack": "r1"})).settle()
    assert sum(d.preemption is not None for d in world.engine.decisions) == 1
    assert {world.where[f"p{i}"][:2] for i in range(2)} <= {"r0", "r1"}
    assert len({world.where[f"p{i}"][:2] for i in range(2)}) == 1


@pytest.mark.parametrize("reverse", [False, True])
def test_answer_does_not_depend_on_the_order_of_the_objects(reverse: bool) -> None:
    """preemption.md 4.6: "the same cluster gives the same answer, in whatever order objects arrived"."""
    items = [
        *_racks(2, 2, 2),
        *[_low(f"l{r}{i}", f"r{r}n{i}", priority=i) for r in range(3) for i in range(2)],
        *_crew(2),
    ]
    timed = [(item, float(index)) for index, item in enumerate(items)]
    expected = history(World(*timed).settle())
    assert history(World(*(reversed(timed) if reverse else timed)).settle()) == expected


def test_view_is_left_as_it_was() -> None:
    """preemption.md 4.6, scheduling.md 7: bit for bit, whether a placement was found or not."""
    world = World(*_racks(1, 1), _low("a", "r0n0"), _low("b", "r1n0"), *_crew(2))
    before = world.engine.cluster.digest()
    assert world.step().result is Result.UNSCHEDULABLE
    assert world.engine.cluster.digest() == before
