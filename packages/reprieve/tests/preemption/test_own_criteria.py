"""Evictions by lists of criteria that are not the default one, against an exact solver (cost.md 1.2, 4.7).

`tools/measure_victims.py --criteria` measures more of them.
"""

from __future__ import annotations

import pytest

from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.options import PreemptionOptions
from tests.building import World, profile_with
from tests.preemption.exact import cheapest_by
from tests.preemption.listed_instances import FAMILIES, Listed

pytest.importorskip("scipy", reason="the exact solver is scipy's")


@pytest.mark.parametrize(
    ("family", "seed"),
    [
        *((family, seed) for family in FAMILIES for seed in ((1,) if "lone" in family else (1, 2))),
        ("priority, lostWork", 501),
        ("priority, lostWork", 508),
        ("default with lostWork", 507),
        ("default with lostWork", 508),
    ],
)
def test_eviction_is_the_cheapest_by_the_list(family: str, seed: int) -> None:
    """cost.md 1.2; in the last four the priority of each unit, or its offset in a sum, hid the work that is lost."""
    _check(FAMILIES[family](seed))


@pytest.mark.parametrize(
    ("family", "seed", "nodes"),
    [
        ("gangs, priority, lostWork", 95001, (4, 10)),
        ("gangs, priority, lostWork", 98113, (12, 20)),
        ("gangs, budgets, lostWork", 98101, (12, 20)),
        ("tenants, lostWork", 97001, (12, 20)),
        ("tenants, lostWork", 97011, (12, 20)),
    ],
)
def test_criteria_that_are_no_sums_are_searched_for(family: str, seed: int, nodes: tuple[int, int]) -> None:
    """cost.md 4.7: the priority of a unit hid the work that is lost; no exchange looked for fewer budgets; pods of
    namespaces that lose few were as dear as those of others.
    """
    _check(FAMILIES[family](seed, nodes=nodes))


def _check(made: Listed) -> None:
    profile = profile_with(DefaultPreemption(PreemptionOptions(cost=made.cost)))
    found = World(*made.items, profiles={profile.name: profile}).step().preemption
    assert found is not None
    price = made.problem.price_by(made.cost, [verdict.unit.name for verdict in found.victims])
    assert price == cheapest_by(made.problem, made.cost).price
