"""PodDisruptionBudgets in preemption (preemption.md 6): best effort, never a veto."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kube_rules import objects
from kube_rules.selectors import IN, Selector, compile_label_selector
from reprieve.cluster.pods import PodRecord


@dataclass(frozen=True, slots=True)
class Budget:
    """One budget: the pods that count against it and how many disruptions it still allows."""

    namespace: str
    name: str
    selector: Selector
    allowed: int
    disrupted: frozenset[str]
    """Names of pods with disruptions that the API server has already counted."""

    def counts(self, pod: PodRecord) -> bool:
        """Return whether disrupting the pod counts against this budget."""
        return pod.namespace == self.namespace and pod.name not in self.disrupted and self.selector.matches(pod.labels)


def budget_of(pdb: objects.PodDisruptionBudget) -> Budget:
    """Return the budget of an API object.

    A nil selector matches nothing, an empty one the whole namespace (policy/v1).
    """
    return Budget(
        namespace=pdb.metadata.namespace or "default",
        name=pdb.metadata.name,
        selector=compile_label_selector(pdb.spec.selector),
        allowed=pdb.status.disruptions_allowed if pdb.status is not None else 0,
        disrupted=frozenset(pdb.status.disrupted_pods if pdb.status is not None else ()),
    )


_MOST_LABELS = 1_024
"""The maximum number of label sets with cached charges."""


class SelectorsByLabel:
    """An index of selectors by namespace and one required label, to find the selectors that may match a pod."""

    def __init__(self, selectors: Iterable[tuple[int, str, Selector]]) -> None:
        self._by_label: dict[str, dict[str, dict[str, list[int]]]] = {}
        """By namespace, key and value."""
        self._others: dict[str, list[int]] = {}
        for number, namespace, selector in selectors:
            label = next((requirement for requirement in selector.requirements if requirement.operator == IN), None)
            if label is None:
                self._others.setdefault(namespace, []).append(number)
                continue
            values = self._by_label.setdefault(namespace, {}).setdefault(label.key, {})
            for value in dict.fromkeys(label.values):
                values.setdefault(value, []).append(number)

    def candidates(self, namespace: str, labels: Mapping[str, str]) -> Sequence[int]:
        """Return the numbers of all selectors that can match the labels, each once; some may not match."""
        result = self._others.get(namespace, [])
        by_key = self._by_label.get(namespace)
        if by_key:
            for key in by_key if len(by_key) < len(labels) else labels:
                values, value = by_key.get(key), labels.get(key)
                if values is not None and value is not None and value in values:
                    result = result + values[value] if result else values[value]
        return result

    def by_one_label(self, namespace: str) -> tuple[str, Mapping[str, Sequence[int]]] | None:
        """Return the one label key that all selectors of the namespace require, with numbers by value, or None."""
        by_key = self._by_label.get(namespace, {})
        if self._others.get(namespace) or len(by_key) != 1:
            return None
        return next(iter(by_key.items()))


class BudgetIndex:
    """An index of budgets that returns the budgets of a pod.

    Budgets with the same pods are merged: the pods exceed any of them if they exceed the smallest allowance. The number
    of a budget is its index in `allowed` (allowed disruptions) and `counting` (namespace, selector and excluded names).
    The numbers have no particular order.
    """

    def __init__(self, budgets: Iterable[Budget]) -> None:
        same: dict[tuple[str, Selector, frozenset[str]], Budget] = {}
        for budget in budgets:
            key = (budget.namespace, budget.selector, budget.disrupted)
            if not budget.selector.nothing and (key not in same or budget.allowed < same[key].allowed):
                same[key] = budget
        self.counting = tuple(same)
        self.allowed = [budget.allowed for budget in same.values()]
        self._budgets = list(same.values())
        self._by_label = SelectorsByLabel((number, b.namespace, b.selector) for number, b in enumerate(self._budgets))
        self._sure = [
            len(b.selector.requirements) == 1 and b.selector.requirements[0].operator == IN and not b.disrupted
            for b in self._budgets
        ]
        """By number: whether the budget counts every pod for which `_by_label` returns it."""
        self._plain = not any(budget.disrupted for budget in self._budgets)
        """No budget excludes names: the same budgets count all pods of a namespace with the same labels."""
        self._like: dict[tuple[str, frozenset[tuple[str, str]]], dict[int, int]] = {}
        """By namespace and labels: the charges of a single pod; read only."""

    def _charged_alike(self, unit: Sequence[PodRecord]) -> dict[int, int]:
        """Return how many pods of the unit each budget counts, with one lookup for pods with the same labels."""
        result: dict[int, int] = {}
        for pod in unit:
            key = (pod.namespace, frozenset(pod.labels.items()))
            alone = self._like.get(key)
            if alone is None:
                if len(self._like) >= _MOST_LABELS:
                    self._like.clear()
                numbers = self._by_label.candidates(pod.namespace, pod.labels)
                alone = {n: 1 for n in numbers if self._sure[n] or self._budgets[n].counts(pod)}
                self._like[key] = alone
            if len(unit) == 1:
                return alone
            for number in alone:
                result[number] = result.get(number, 0) + 1
        return result

    def charges(self, units: Sequence[Sequence[PodRecord]]) -> list[dict[int, int]]:
        """Return for each unit how many of its pods each budget counts, by the budget's number; read only."""
        if not self._budgets:
            return [{} for _ in units]
        result = []
        candidates, budgets, sure = self._by_label.candidates, self._budgets, self._sure
        namespace, by_one = "", None
        for unit in units:
            if self._plain and len(unit) > 0 and self._by_label.by_one_label(unit[0].namespace) is None:
                result.append(self._charged_alike(unit))
                continue
            counts: dict[int, int] = {}
            for pod in unit:
                if pod.namespace != namespace:
                    namespace = pod.namespace
                    by_one = self._by_label.by_one_label(namespace)
                if by_one is None:
                    numbers = candidates(namespace, pod.labels)
                else:
                    value = pod.labels.get(by_one[0])
                    numbers = () if value is None else by_one[1].get(value, ())
                for number in numbers:
                    if sure[number] or budgets[number].counts(pod):
                        counts[number] = counts.get(number, 0) + 1
            result.append(counts)
        return result


def exceeding(charged: Sequence[Mapping[int, int]], allowed: Sequence[int]) -> list[bool]:
    """Return for each unit, by importance, whether its `BudgetIndex.charges` drive a budget below zero."""
    if not allowed:
        return [False] * len(charged)
    left = list(allowed)
    result = []
    for counts in charged:
        over = False
        for number, count in counts.items():
            left[number] -= count
            over = over or left[number] < 0
        result.append(over)
    return result


def violating(units: Sequence[Sequence[PodRecord]], index: BudgetIndex) -> list[bool]:
    """Return for each unit, in importance order, whether disrupting it drives a matching budget below zero.

    The function copies every budget's allowance and charges each pod of each unit, violating or not
    (preemption.md 6).
    """
    return exceeding(index.charges(units), index.allowed)
