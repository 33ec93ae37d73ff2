"""What room in a domain costs at least, against all there are (preemption.md 4.6), on domains of a few victims."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import pytest

from reprieve.framework.plugin import Placement
from reprieve.preemption import domain_bounds, group_candidates
from reprieve.preemption.domain_bounds import FREE, DomainBounds
from reprieve.preemption.outcome import Preemption
from tests.building import World, gang, group, node, pdb, pod

OFFSET = 1 << 31


def _bounded(*items: Any) -> tuple[World, DomainBounds | None, Preemption | None]:
    """The bounds of the racks, and what is decided by them."""
    made: list[DomainBounds | None] = []

    def noted(*args: Any) -> DomainBounds | None:
        made.append(domain_bounds.bounds_of(*args))
        return made[-1]

    world = World(*items)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(group_candidates, "_FEW_DOMAINS", 0)
        patched.setattr(group_candidates, "bounds_of", noted)
        found = world.step().preemption
    return world, made[0] if made else None, found


def _by_rack(bounds: DomainBounds | None) -> dict[str, Any]:
    assert bounds is not None
    return {bounds.domains[index].name: price for price, index in bounds.cheapest_first}


def _crew(count: int, *, cpu: int = 1, least: int | None = None, **more: Any) -> list[Any]:
    return gang("crew", count, cpu=cpu, min_count=least, topology="rack", priority=9, **more)


def _rack(name: str, *cores: int) -> list[Any]:
    return [node(f"{name}{i}", cpu=size, labels={"rack": name}) for i, size in enumerate(cores)]


@pytest.mark.parametrize("seed", range(40))
def test_no_eviction_in_a_domain_costs_less_than_its_bound(seed: int) -> None:
    """Of all sets of victims that free capacity for as many members as may be; a free one is marked so."""
    chance = random.Random(seed)
    like = seed % 2 == 0
    racks = {f"r{i}": [chance.randint(1, 4) for _ in range(chance.randint(1, 2))] for i in range(3)}
    items = [machine for name, cores in racks.items() for machine in _rack(name, *cores)]
    there: dict[str, list[tuple[str, int, int, float]]] = {}
    for name, cores in racks.items():
        for machine, size in enumerate(cores):
            left = size
            while left and chance.random() < 0.85:
                cpu = 1 if like else chance.randint(1, left)
                left -= cpu
                on, priority, start = f"{name}{machine}", chance.randint(0, 3), float(chance.randint(0, 3))
                victim = f"{on}v{left}"
                items.append(pod(victim, cpu=cpu, node=on, priority=priority, start=start))
                there.setdefault(name, []).append((on, cpu, priority, start))
    wants, size = chance.randint(1, 2), chance.randint(1, 3)
    _, bounds, _ = _bounded(*items, *_crew(size, cpu=wants, least=chance.randint(1, size)))
    if bounds is None:
        return
    said = _by_rack(bounds)
    for name, placed in zip([domain.name for domain in bounds.domains], bounds.placed, strict=True):
        cores = racks[name]
        victims = there.get(name, [])
        for count in range(len(victims) + 1):
            for gone in combinations(range(len(victims)), count):
                free = {f"{name}{i}": core for i, core in enumerate(cores)}
                for turn, (on, cpu, _, _) in enumerate(victims):
                    free[on] -= 0 if turn in gone else cpu
                if sum(core // wants for core in free.values()) < placed:
                    continue
                going = [victims[turn] for turn in gone]
                if not going:
                    assert said[name] == FREE
                    continue
                top = max(priority for _, _, priority, _ in going)
                cost = (
                    0,
                    top,
                    sum(priority + OFFSET for _, _, priority, _ in going),
                    len(going),
                    -min(start for _, _, priority, start in going if priority == top) - 1_600_000_000.0,
                )
                assert said[name] <= (True, cost)


def test_bounds_of_racks_by_hand() -> None:
    """The lowest priority with which there is room, the sums and the pods of the cheapest places, the latest start.

    None of the pods fits on another node: so many cannot restart at once (cost.md 1.9).
    """
    items = [
        *_rack("a", 2, 2),
        *[pod(f"a{i}", cpu=1, node=f"a{i // 2}", priority=i, start=float(i)) for i in range(4)],
        *_rack("b", 3),
        *[pod(f"b{i}", cpu=1, node="b0", priority=1, start=float(10 + i)) for i in range(3)],
        *_rack("c", 4),
        pod("c0", cpu=4, node="c0", priority=5),
        *_rack("e", 1),
        pod("e0", cpu=1, node="e0"),
        *_crew(2),
    ]
    _, bounds, found = _bounded(*items)
    said = _by_rack(bounds)
    assert said == {
        "a": (True, (0, 1, 0, 2 * OFFSET, 2, 2, -1_600_000_001.0)),
        "b": (True, (0, 1, 0, 2 * (1 + OFFSET), 2, 2, -1_600_000_011.0)),
        "c": (True, (0, 5, 0, 5 + OFFSET, 1, 1, float("-inf"))),
    }, "in the last no two find room"
    assert bounds is not None
    assert [bounds.domains[index].name for _, index in bounds.cheapest_first] == ["a", "b", "c"]
    assert found is not None
    assert found.domain == "a"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, True),
        ({"selector": {"rack": "a"}}, True),
        ({"ports": [80]}, True),
    ],
)
def test_where_bounds_can_be_given(more: dict[str, Any], said: bool) -> None:
    """By requests alone; what else is asked of a node only makes it dearer."""
    items = [*_rack("a", 1), *_rack("b", 1), *[pod(f"v{n}", cpu=1, node=f"{n}0") for n in "ab"]]
    _, bounds, found = _bounded(*items, *_crew(1, **more))
    assert (bounds is not None) is said
    assert found is not None
    assert found.domain == "a"


@pytest.mark.parametrize("alike", [True, False])
def test_placements_of_one_price_are_scored_beforehand_where_all_are_alike(alike: bool) -> None:
    """Pods of one sort in units of their own, nothing but resources in play: the number of victims tells all."""
    items = [
        *_rack("a", 2),
        *_rack("b", 2),
        *[pod(f"{n}{i}", cpu=1, node=f"{n}0") for n in "ab" for i in range(2)],
        *([] if alike else [pod("odd", memory="1Gi", node="a0")]),
    ]
    _, bounds, _ = _bounded(*items, *_crew(1))
    assert bounds is not None
    assert bounds.alike is alike
    price = bounds.cheapest_first[0][0]
    assert price[1][bounds.pods] == 1
    score = bounds.score(0, price)
    assert (score is not None) is alike
    if alike:
        assert bounds.score(0, (True, (0, 0, 0, 0, 2, 0.0))) is not None
        assert bounds.score(0, (True, (0, 0, 0, 0, 3, 0.0))) is None, "there are not so many"


def test_rack_with_units_of_several_pods_has_no_known_price() -> None:
    items = [*_rack("a", 2), *gang("w", 2, cpu=1, node="a0", whole=True), *_rack("b", 2), pod("x", cpu=2, node="b0")]
    _, bounds, found = _bounded(*items, *_crew(1))
    assert bounds is not None
    assert not bounds.alike
    assert found is not None
    assert found.domain == "b"


@pytest.mark.parametrize(("least", "placed"), [(1, [3, 2, 1]), (2, [3, 2]), (3, [3])])
def test_members_are_placed_as_they_fit_and_at_least_the_minimum(least: int, placed: list[int]) -> None:
    """preemption.md 4.3: racks of four, two and one place; one that cannot hold the minimum is not looked at."""
    items = [*_rack("a", 4), *_rack("b", 2), *_rack("c", 1)]
    items += [pod(f"v{n}", cpu=size, node=f"{n}0") for n, size in (("a", 4), ("b", 2), ("c", 1))]
    _, bounds, found = _bounded(*items, *_crew(3, least=least))
    assert bounds is not None
    assert list(bounds.placed) == placed
    assert found is not None
    assert len(found.nominations) >= least


def test_cheapest_two_domains_are_searched_and_the_others_count_as_passed_over() -> None:
    """A rack where making room costs more than the second best candidate is passed over; it is among the candidates."""
    items = [
        item for p, n in enumerate("abcdef") for item in (*_rack(n, 1), pod(f"v{n}", cpu=1, node=f"{n}0", priority=p))
    ]
    tried: list[str] = []
    candidate = group_candidates.CandidateSearch.candidate

    def noted(search: Any, placement: Placement) -> Any:
        tried.append(placement.name)
        return candidate(search, placement)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(group_candidates.CandidateSearch, "candidate", noted)
        _, _, found = _bounded(*items, *_crew(1))
    assert tried == ["a", "b"]
    assert found is not None
    assert (found.domain, found.candidates) == ("a", 6)
    assert found.compared is not None
    assert found.compared.domain == "b"


def test_budgets_and_whole_groups_make_it_only_dearer() -> None:
    """What the bound leaves out is found by looking: the rack that seemed cheaper is not taken."""
    items = [
        *_rack("a", 1),
        pod("va", cpu=1, node="a0", labels={"app": "x"}),
        pdb("x", {"app": "x"}),
        *_rack("b", 1),
        group("w", min_count=2, priority=0, whole=True),
        pod("w0", cpu=1, node="b0", group="w"),
        pod("w1", cpu=1, node="c0", group="w", priority=0),
        *_rack("c", 2),
        pod("vc", cpu=1, node="c0", priority=3),
    ]
    _, bounds, found = _bounded(*items, *_crew(1))
    said = _by_rack(bounds)
    assert said["a"][1][:5] == (0, 0, 0, OFFSET, 1)
    assert said["b"][1][:5] == (0, 0, 1, OFFSET, 1), "every eviction there breaks a gang"
    assert found is not None
    assert [verdict.unit.name for verdict in found.victims] == ["default/w"]
    assert found.cost is not None
    assert found.cost[:5] == (0, 0, 1, 2 * OFFSET, 2)


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_choice_is_that_of_looking_at_every_domain(seed: int, alike: bool) -> None:
    """The rack, the places, the victims, how many would suffice, the second best; fewer racks are tried for it."""
    chance = random.Random(seed)
    items: list[Any] = []
    for rack in range(chance.randint(3, 8)):
        cores = [chance.randint(1, 4) for _ in range(chance.randint(1, 2))]
        items += _rack(f"r{rack}", *cores)
        for machine, size in enumerate(cores):
            for turn in range(size):
                priority = 1 if alike else chance.randint(0, 2)
                start = 0.0 if alike or chance.random() < 0.5 else float(chance.randint(0, 2))
                more: dict[str, Any] = {} if alike or chance.random() < 0.7 else {"memory": "1Gi"}
                on = f"r{rack}{machine}"
                items.append(pod(f"v{on}{turn}", cpu=1, node=on, priority=priority, start=start, **more))
    size = chance.randint(1, 3)
    items += _crew(size, least=chance.randint(1, size))
    told, tried = [], []
    for looked_at in (0, 10**9):
        tries: list[str] = []
        candidate = group_candidates.CandidateSearch.candidate

        def noted(search: Any, placement: Placement, tries: list[str] = tries, look: Any = candidate) -> Any:
            tries.append(placement.name)
            return look(search, placement)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(group_candidates, "_FEW_DOMAINS", looked_at)
            patched.setattr(group_candidates.CandidateSearch, "candidate", noted)
            found = World(*items).step().preemption
        tried.append(len(tries))
        told.append(
            found
            and (
                found.domain,
                [(one.name, row) for one, row in found.nominations],
                [(verdict.unit.name, verdict.evicted) for verdict in found.verdicts],
                found.cost,
                found.candidates,
                found.compared and found.compared.cost,
            )
        )
    assert told[0] == told[1]
    assert tried[0] <= tried[1]
