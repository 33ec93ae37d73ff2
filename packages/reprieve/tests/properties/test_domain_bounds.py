"""What making room in a domain costs at least (`reprieve.preemption.domain_bounds`)."""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from reprieve.preemption import domain_bounds, group_candidates
from reprieve.preemption.domain_bounds import DomainBounds
from reprieve.preemption.outcome import Preemption
from tests.building import World, group, node, pdb, pod
from tests.drawing import drew, examples
from tests.preemption.test_for_group_placements import _racks

many = examples(40)


def _racked(chance: random.Random) -> list[Any]:
    """Racks of different fullness; victims alone and in gangs that go as one; a gang that has to be in one rack."""
    like, starts = chance.random() < 0.4, chance.random() < 0.5
    items: list[Any] = [group(f"whole{i}", min_count=1, priority=chance.randint(0, 3), whole=True) for i in range(2)]
    cores = chance.randint(2, 4)
    for rack in range(chance.randint(2, 9)):
        for machine in range(chance.randint(1, 3)):
            name = f"r{rack}n{machine}"
            labels = {"rack": f"r{rack}", "zone": chance.choice("ab")}
            size = cores if like else chance.randint(1, 4)
            items.append(node(name, cpu=size, memory=f"{chance.choice([2, 4, 8])}Gi", labels=labels))
            for turn in range(size):
                if chance.random() < 0.05:
                    continue
                wants: dict[str, Any] = {"cpu": 1, "memory": "500Mi", "priority": 1}
                if not like:
                    wants["priority"] = chance.randint(0, 5)
                    wants["memory"] = chance.choice(["100Mi", "500Mi", "1Gi"])
                    if chance.random() < 0.2:
                        wants["group"] = f"whole{chance.randint(0, 1)}"
                    if chance.random() < 0.2:
                        wants["labels"] = {"app": "guarded"}
                if starts:
                    wants["start"] = float(chance.randint(0, 20))
                items.append(pod(f"{name}v{turn}", node=name, **wants))
    items.append(pdb("guard", {"app": "guarded"}, allowed=0))
    size = chance.randint(2, 6)
    items.append(group("crew", topology="rack", min_count=chance.randint(1, size), priority=4))
    each = chance.choice([1, 1, 2])
    for turn in range(size):
        cpu = each if like or chance.random() < 0.7 else chance.randint(1, 2)
        zone = {"zone": "a"} if not like and chance.random() < 0.1 else None
        items.append(pod(f"crew-{turn}", group="crew", cpu=cpu, memory="500Mi", priority=4, selector=zone))
    drew(items)
    return items


def _decided(items: list[Any], from_domains: int) -> Preemption | None:
    with mock.patch.object(group_candidates, "_FEW_DOMAINS", from_domains):
        return World(*items).step().preemption


def _told(found: Preemption | None) -> object:
    if found is None:
        return None
    nominations = [(p.name, row) for p, row in found.nominations]
    verdicts = [(v.unit.name, v.evicted, v.violates_pdb, str(v.reason and v.reason.pod.name)) for v in found.verdicts]
    return found.domain, nominations, verdicts, found.pdb_violations


@many
@given(st.integers(0, 2**32))
def test_choice_is_that_of_looking_at_every_domain(seed: int) -> None:
    """The domain, the places, the victims and why; the next best as well where price alone decides between them."""
    items = _racked(random.Random(seed))
    everything, bounded = _decided(items, 10**9), _decided(items, 0)
    assert _told(everything) == _told(bounded)
    if everything is not None and bounded is not None and everything.compared is not None:
        assert bounded.compared is not None
        assert bounded.compared.cost == everything.compared.cost
        event("several domains")


@many
@given(st.integers(0, 2**32))
def test_no_candidate_is_cheaper_than_the_bound_of_its_domain(seed: int) -> None:
    items = _racked(random.Random(seed))
    made: list[DomainBounds] = []

    def noted(*args: Any) -> DomainBounds | None:
        found = domain_bounds.bounds_of(*args)
        if found is not None:
            made.append(found)
        return found

    prices: dict[str, Any] = {}
    candidate = group_candidates.CandidateSearch.candidate

    def watched(search: Any, placement: Any) -> Any:
        found = candidate(search, placement)
        if found is not None:
            prices[placement.name] = found.price
        return found

    with (
        mock.patch.object(group_candidates, "_FEW_DOMAINS", 0),
        mock.patch.object(group_candidates, "bounds_of", noted),
        mock.patch.object(group_candidates.CandidateSearch, "candidate", watched),
    ):
        World(*items).step()
    bounds = {b.domains[index].name: price for b in made for price, index in b.cheapest_first}
    for name, price in prices.items():
        assert bounds[name] <= price
        event("tight" if bounds[name] == price else "below")


@pytest.mark.parametrize("like", [True, False])
def test_few_of_many_racks_are_tried(like: bool) -> None:
    """Of 60 racks a few are placed in: the cheapest, the next best, and those of which less was to be hoped."""
    chance = random.Random(5)
    items: list[Any] = [*_racks(*[2] * 60, cpu=2)]
    for rack in range(60):
        for machine in range(2):
            for turn in range(2):
                priority = 1 if like else chance.randint(0, 7)
                items.append(pod(f"r{rack}n{machine}-{turn}", node=f"r{rack}n{machine}", cpu=1, priority=priority))
    crew = [pod(f"crew-{turn}", group="crew", cpu=1, priority=9) for turn in range(4)]
    world = World(*items, group("crew", topology="rack", min_count=4, priority=9), *crew)
    tried: list[str] = []
    candidate = group_candidates.CandidateSearch.candidate

    def watched(search: Any, placement: Any) -> Any:
        tried.append(placement.name)
        return candidate(search, placement)

    with mock.patch.object(group_candidates.CandidateSearch, "candidate", watched):
        found = world.step().preemption
    assert found is not None
    assert found.candidates == 60
    assert len(tried) <= 6
