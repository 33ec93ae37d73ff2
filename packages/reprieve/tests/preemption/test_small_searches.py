"""The searches for victims on many small problems, against every eviction there is (cost.md 4).

A row of a table counts over random problems: those that can be solved, those for which the cheapest eviction was found,
the units evicted altogether, and the steps.  All of it depends on the search alone (cost.md 4.4).  After an intended
change of the search, write the new numbers here; they should be no worse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import combinations, product

import pytest

from reprieve.preemption.victim_search import few_units, node_tables, search, single_pod_search
from reprieve.preemption.victim_search.eviction import Eviction, Price
from reprieve.preemption.victim_search.few_units import FewUnits
from reprieve.preemption.victim_search.node_tables import Domains, NodeTables
from reprieve.preemption.victim_search.search import STEPS, VictimSearch, cheapest_eviction
from reprieve.preemption.victim_search.single_pod_search import cheapest_for_one
from tests.preemption import tiny
from tests.preemption.families import FAMILIES, Family, Found, Solved, table_of


def _by_exchanges(solved: Solved, steps: int) -> tuple[Found | None, int]:
    looking = VictimSearch(solved.numbers, steps)
    found = looking.run(())
    return (found.units, found.price) if found is not None else None, looking.taken


def test_search_by_exchanges() -> None:
    """cost.md 4.7: near the optimum; with one kind of pods at it."""
    table = table_of(lambda solved: _by_exchanges(solved, STEPS), *list(FAMILIES)[:10])
    assert table == {
        "like": (14, 14, 23, 1370),
        "budgets": (13, 13, 15, 1391),
        "broken gangs": (13, 13, 12, 1712),
        "rules": (13, 13, 12, 1595),
        "two kinds": (12, 12, 26, 4436),
        "three kinds": (9, 7, 32, 3483),
        "tenants": (13, 13, 14, 2760),
        "later": (6, 6, 9, 3389),
        "listed": (13, 13, 12, 2201),
        "listed gangs": (12, 11, 24, 3653),
    }


def test_search_by_exchanges_that_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """cost.md 4.4: after few steps, some of which are reserved for violating fewer budgets."""
    monkeypatch.setattr(search, "FEWEST_STEPS", 40)
    table = table_of(lambda solved: _by_exchanges(solved, 80), *list(FAMILIES)[:10])
    assert table == {
        "like": (14, 14, 23, 983),
        "budgets": (13, 13, 15, 646),
        "broken gangs": (13, 13, 12, 579),
        "rules": (13, 13, 12, 549),
        "two kinds": (12, 12, 26, 1114),
        "three kinds": (9, 6, 33, 967),
        "tenants": (13, 13, 14, 841),
        "later": (6, 6, 9, 844),
        "listed": (13, 13, 12, 654),
        "listed gangs": (12, 11, 24, 890),
    }


def test_search_beside_a_known_eviction() -> None:
    """cost.md 4.2: it begins with the dearest of those in which no unit could stay."""

    def find(solved: Solved) -> tuple[Found | None, int]:
        looking = VictimSearch(solved.numbers, STEPS)
        found = looking.run(solved.evictions[-1][1]) if solved.evictions else None
        return (found.units, found.price) if found is not None else None, looking.taken

    table = table_of(find, "like", "budgets", "two kinds", "three kinds", "listed")
    assert table == {
        "like": (14, 14, 23, 1370),
        "budgets": (13, 13, 15, 1000),
        "two kinds": (12, 12, 26, 4437),
        "three kinds": (9, 7, 32, 3837),
        "listed": (13, 13, 12, 2207),
    }


def test_search_below_more_important_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """cost.md 4.4: the improvement ends at two percent above the bound, in a small cluster only at a pod or more."""
    monkeypatch.setattr(search, "_FEW_NODES", 3)
    table = table_of(lambda solved: _by_exchanges(solved, STEPS), "like", "broken gangs", "two kinds")
    assert table == {
        "like": (14, 14, 23, 1226),
        "broken gangs": (13, 13, 12, 1712),
        "two kinds": (12, 12, 26, 4436),
    }


def test_alternatives_of_equal_cost() -> None:
    """cost.md 4.3: how many, in how many steps; each costs the same, and frees the capacity."""
    table = {}
    for name in ("like", "two kinds", "broken gangs"):
        number = steps = 0
        for solved in Family(**{**asdict(FAMILIES[name]), "same_priority": True}).solved:
            if not solved.evictions:
                continue
            found = cheapest_eviction(solved.numbers)
            assert found is not None
            looking = VictimSearch(solved.numbers, 200)
            for other in looking.exchanged(found, 6):
                assert Eviction(solved.numbers).price_of(other.units) == other.price == found.price
                assert tiny.fits(solved.problem, tiny.names(solved.problem, other.units))
                number += 1
            steps += looking.taken
        table[name] = number, steps
    assert table == {
        "like": (20, 120),
        "two kinds": (0, 258),
        "broken gangs": (0, 53),
    }


def test_whole_search() -> None:
    """cost.md 4.7: with all its parts, and few steps for exchanges."""

    def find(solved: Solved) -> tuple[Found | None, int]:
        found = cheapest_eviction(solved.numbers, steps=60)
        return (found.units, found.price) if found is not None else None, 0

    table = table_of(find, "three kinds", "tenants", "listed gangs", "one pod", "one pod, listed")
    assert table == {
        "three kinds": (9, 9, 33, 0),
        "tenants": (13, 13, 14, 0),
        "listed gangs": (12, 12, 24, 0),
        "one pod": (13, 13, 18, 0),
        "one pod, listed": (13, 13, 18, 0),
    }


# -- node by node ----------------------------------------------------------------------------------------------------


def _by_tables(solved: Solved) -> tuple[Found | None, int]:
    tables = NodeTables.of(solved.numbers)
    assert tables is not None
    if not solved.evictions:
        return None, 0
    price, units = solved.evictions[-1]
    found = tables.improved(units, price)
    return (found.units, found.price) if found is not None else None, tables._steps


TABLED = ("like", "budgets", "two kinds", "three kinds", "later", "listed gangs")


def test_tables_of_nodes() -> None:
    """cost.md 4.14: from the dearest eviction of those in which no unit could stay."""
    table = table_of(_by_tables, *TABLED)
    assert table == {
        "like": (14, 13, 23, 349),
        "budgets": (13, 5, 10, 311),
        "two kinds": (12, 9, 26, 2228),
        "three kinds": (9, 8, 26, 2614),
        "later": (6, 4, 9, 505),
        "listed gangs": (12, 7, 19, 1102),
    }


def test_tables_of_nodes_with_many_units_on_several_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """cost.md 4.14: not all sets of them are tried, but exchanges of them, and random ones."""
    monkeypatch.setattr(node_tables, "_FEW_WHOLE", 1)
    table = table_of(_by_tables, *TABLED)
    assert table == {
        "like": (14, 13, 23, 349),
        "budgets": (13, 5, 10, 434),
        "two kinds": (12, 9, 26, 2576),
        "three kinds": (9, 8, 26, 2614),
        "later": (6, 4, 9, 555),
        "listed gangs": (12, 7, 19, 1175),
    }


def test_tables_of_nodes_that_end_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """cost.md 4.14: by their steps, or by the number of units on one node."""
    monkeypatch.setattr(node_tables, "_MOST_STEPS_EXACT", 60)
    monkeypatch.setattr(node_tables, "_MOST_UNITS", 2)
    table = table_of(_by_tables, *TABLED)
    assert table == {
        "like": (14, 11, 21, 349),
        "budgets": (13, 5, 10, 209),
        "two kinds": (12, 5, 21, 546),
        "three kinds": (9, 2, 17, 649),
        "later": (6, 4, 9, 354),
        "listed gangs": (12, 6, 19, 602),
    }


def test_tables_of_nodes_that_end_at_any_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """cost.md 4.14: the sum over every limit up to 60, with few units on several nodes and with many."""
    table = {}
    for name, whole in (("budgets", 6), ("two kinds", 6), ("two kinds", 1), ("later", 6)):
        monkeypatch.setattr(node_tables, "_FEW_WHOLE", whole)
        victims = steps = 0
        for most in range(61):
            monkeypatch.setattr(node_tables, "_MOST_STEPS_EXACT", most)
            for solved in FAMILIES[name].solved[:3]:
                found, taken = _by_tables(solved)
                victims += len(found[0]) if found is not None else 0
                steps += taken
        table[f"{name}, {whole}"] = victims, steps
    assert table == {
        "budgets, 6": (109, 1365),
        "two kinds, 6": (48, 2178),
        "two kinds, 1": (48, 2178),
        "later, 6": (35, 3042),
    }


def test_tables_of_nodes_with_too_many_states_for_budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    """cost.md 4.14: units that budgets count are then chosen as those on several nodes are."""
    monkeypatch.setattr(node_tables, "_MOST_STATES", 16)
    table = table_of(_by_tables, "budgets", "two kinds")
    assert table == {
        "budgets": (13, 5, 10, 368),
        "two kinds": (12, 9, 26, 2807),
    }


def test_tables_of_nodes_within_an_eviction() -> None:
    """cost.md 4.13: other places beside a part of the same victims; the sums are exact given those on several nodes."""

    def find(solved: Solved) -> tuple[Found | None, int]:
        tables = NodeTables.of(solved.numbers)
        assert tables is not None
        if not solved.evictions:
            return None, 0
        found = tables.within(range(0, len(solved.numbers.units), 2))
        return (found.units, found.price) if found is not None else None, tables._steps

    table = table_of(find, *TABLED)
    assert table == {
        "like": (14, 3, 23, 110),
        "budgets": (13, 4, 10, 122),
        "two kinds": (12, 2, 8, 307),
        "three kinds": (9, 1, 6, 444),
        "later": (6, 1, 2, 197),
        "listed gangs": (12, 2, 18, 319),
    }


def _divided(solved: Solved, units: Sequence[int], totals: tuple[int, int]) -> bool:
    """Whether all pods fit without these units, so many of them on the first two nodes, the others on the last two."""
    left = tiny.left_beside(solved.problem, tiny.names(solved.problem, units))
    kinds = solved.problem.kinds
    for first in product(*(range(kind.count + 1) for kind in kinds)):
        parts = first, tuple(kind.count - number for kind, number in zip(kinds, first, strict=True))
        if sum(first) == totals[0] and all(
            tiny.fits(
                tiny.problem(
                    [tuple(have) for have in left[half : half + 2]],
                    [],
                    [replace(kind, count=number) for kind, number in zip(kinds, part, strict=True)],
                ),
                (),
            )
            for half, part in zip((0, 2), parts, strict=True)
        ):
            return True
    return False


def test_tables_of_nodes_for_given_numbers_in_domains() -> None:
    """cost.md 4.13, 4.14: the first two nodes are one domain, the last two the other; the cheapest with any numbers."""
    table = {}
    for name in ("like", "two kinds", "rules"):
        solvable = cheapest = steps = 0
        for solved in FAMILIES[name].solved:
            members = sum(kind.count for kind in solved.problem.kinds)
            totals = [(first, members - first) for first in (1, members)]
            state, units = Eviction(solved.numbers), range(len(solved.numbers.units))
            subsets = [gone for size in range(len(units) + 1) for gone in combinations(units, size)]
            least = next(
                (
                    price
                    for price, gone in sorted((state.price_of(gone), gone) for gone in subsets)
                    if any(_divided(solved, gone, division) for division in totals)
                ),
                None,
            )
            tables = NodeTables.of(solved.numbers, Domains([frozenset((0, 1)), frozenset((2, 3))], totals))
            assert tables is not None
            found = tables.improved(units, (99, 99, ()))
            solvable += least is not None
            steps += tables._steps
            if found is not None:
                assert found.price == state.price_of(found.units)
                inside = sum(count for _, node, count in found.places if node < 2)
                assert _divided(solved, found.units, (inside, members - inside))
                assert inside in (1, members)
                cheapest += found.price == least
        table[name] = solvable, cheapest, steps
    assert table == {
        "like": (13, 13, 764),
        "two kinds": (7, 7, 3012),
        "rules": (12, 12, 712),
    }


# -- few units, and one pod ------------------------------------------------------------------------------------------


def _of_few(solved: Solved) -> tuple[Found | None, int]:
    useful = [unit for unit, takes in enumerate(solved.numbers.takes) if takes]
    if not solved.evictions:
        return None, 0
    looking = FewUnits(solved.numbers, useful, solved.evictions[-1][0])
    units = looking.cheapest
    return (units, Eviction(solved.numbers).price_of(units)) if units is not None else None, looking.tried


def test_all_sets_of_few_units() -> None:
    """cost.md 4.11: those that may be cheaper than the dearest in which no unit could stay; so none if that is all."""
    table = table_of(_of_few, *list(FAMILIES)[:10])
    assert table == {
        "like": (14, 13, 23, 979),
        "budgets": (13, 5, 11, 457),
        "broken gangs": (13, 6, 11, 703),
        "rules": (13, 6, 11, 824),
        "two kinds": (12, 9, 26, 1510),
        "three kinds": (9, 7, 27, 1593),
        "tenants": (13, 5, 9, 569),
        "later": (6, 4, 9, 928),
        "listed": (13, 6, 11, 591),
        "listed gangs": (12, 8, 18, 1414),
    }


def test_some_sets_of_few_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """cost.md 4.11: the search ends after so many."""
    monkeypatch.setattr(few_units, "_MOST_SETS", 30)
    monkeypatch.setattr(few_units, "_MOST_SETS_BY_OWN_LIST", 40)
    table = table_of(_of_few, "like", "two kinds", "later")
    assert table == {
        "like": (14, 8, 33, 388),
        "two kinds": (12, 2, 19, 294),
        "later": (6, 1, 5, 154),
    }


class _Priced(Eviction):
    """Counts the sets of units that were priced."""

    asked = 0

    def price_of(self, order: Sequence[int]) -> Price:
        self.asked += 1
        return super().price_of(order)


def test_search_for_one_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """cost.md 4.8: all sets of each node that may be cheaper, or so many of them; the steps are those priced."""

    def find(solved: Solved) -> tuple[Found | None, int]:
        state = _Priced(solved.numbers)
        found = cheapest_for_one(state)
        return found[:2] if found is not None else None, state.asked

    table = table_of(find, "one pod", "one pod, listed")
    assert table == {
        "one pod": (13, 13, 18, 105),
        "one pod, listed": (13, 13, 18, 108),
    }
    monkeypatch.setattr(single_pod_search, "_MOST_TRIED", 3)
    table = table_of(find, "one pod", "one pod, listed")
    assert table == {
        "one pod": (13, 12, 18, 76),
        "one pod, listed": (13, 13, 18, 80),
    }
