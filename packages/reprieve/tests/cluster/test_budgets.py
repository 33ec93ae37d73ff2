"""PodDisruptionBudgets: pods that one counts, those that count the same, which may select a pod."""

from __future__ import annotations

from kube_rules import objects
from reprieve.cluster.budgets import BudgetIndex, SelectorsByLabel, budget_of, exceeding, violating
from tests.building import World, pdb, pod


def test_budgets_as_the_api_has_them() -> None:
    """policy/v1: no selector counts no pods, an empty one the whole namespace; without a status none is allowed."""
    world = World(pod("a", labels={"app": "a"}), pod("b"), pod("c", namespace="other"))
    a, b, c = (world.record(name) for name in "abc")

    def counts(budget: objects.PodDisruptionBudget) -> list[bool]:
        return [budget_of(budget).counts(one) for one in (a, b, c)]

    assert counts(pdb("x", {"app": "a"})) == [True, False, False]
    assert counts(pdb("x", {})) == [True, True, False]
    assert counts(pdb("x", nothing=True)) == [False, False, False]
    assert counts(pdb("x", {}, disrupted=["b"])) == [True, False, False]
    assert counts(pdb("x", {}, namespace="")) == [True, True, False]
    assert budget_of(pdb("x", {}, allowed=None)).allowed == 0
    assert budget_of(pdb("x", {}, allowed=3)).allowed == 3


def test_budgets_that_count_the_same_are_as_strict_as_the_strictest() -> None:
    """preemption.md 6: pods exceed any of them when they exceed the smallest allowance."""
    several = [budget_of(pdb(f"x{number}", {"app": "a"}, allowed=number)) for number in (2, 1, 3)]
    for order in (several, several[::-1], several[1:] + several[:1]):
        index = BudgetIndex(order)
        assert (index.allowed, len(index.counting)) == ([1], 1)
    assert BudgetIndex([budget_of(pdb("x", nothing=True, allowed=0))]).allowed == []
    world = World(pod("a", labels={"app": "a"}))
    one = world.record("a")
    assert BudgetIndex([]).charges([[one], []]) == [{}, {}]
    assert violating([[one], [one]], BudgetIndex(several)) == [False, True]
    assert exceeding([{}, {}], []) == [False, False]
    assert exceeding([{0: 2}, {1: 1}, {0: 1, 1: 1}], [2, 2]) == [False, False, True]
    assert exceeding([{0: 3}, {0: 0}], [2]) == [True, True]


def test_label_is_used_only_where_all_ask_by_it() -> None:
    """A short cut for the common case: every budget of the namespace selects by one and the same label."""

    def index(*selectors: dict[str, str] | None) -> SelectorsByLabel:
        budgets = [budget_of(pdb(f"b{n}", one or {})) for n, one in enumerate(selectors)]
        return SelectorsByLabel((n, one.namespace, one.selector) for n, one in enumerate(budgets))

    assert index({"app": "a"}, {"app": "b"}).by_one_label("default") == ("app", {"a": [0], "b": [1]})
    assert index({"app": "a"}, {"tier": "b"}).by_one_label("default") is None
    assert index({"app": "a"}, {}).by_one_label("default") is None
    assert index().by_one_label("default") is None
    assert index({"app": "a"}).by_one_label("other") is None
    mixed = index({"app": "a"}, {"tier": "x"}, {}, {"app": "a"})
    assert sorted(mixed.candidates("default", {"app": "a", "tier": "x"})) == [0, 1, 2, 3]
    assert sorted(mixed.candidates("default", {"app": "a"})) == [0, 2, 3]
    assert sorted(mixed.candidates("default", {"a": "1", "b": "2", "tier": "x"})) == [1, 2]
    assert list(mixed.candidates("default", {})) == [2]
    assert list(mixed.candidates("other", {"app": "a"})) == []
