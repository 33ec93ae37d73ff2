"""PodDisruptionBudgets as preemption counts them (preemption.md 6): best effort, never a veto."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from reprieve.api import objects
from reprieve.api.selectors import IN, Selector, compile_label_selector
from reprieve.cluster.pods import PodRecord


@dataclass(frozen=True, slots=True)
class Budget:
    """One budget: who counts against it and how many disruptions it still allows."""

    namespace: str
    name: str
    selector: Selector
    allowed: int
    disrupted: frozenset[str]
    """Names of pods whose disruption the API server already counted."""

    def counts(self, pod: PodRecord) -> bool:
        """Whether disrupting the pod is charged to this budget."""
        return pod.namespace == self.namespace and pod.name not in self.disrupted and self.selector.matches(pod.labels)


def budget_of(pdb: objects.PodDisruptionBudget) -> Budget:
    """The budget of an API object. A nil selector matches nothing, an empty one the whole namespace (policy/v1)."""
    return Budget(
        namespace=pdb.metadata.namespace or "default",
        name=pdb.metadata.name,
        selector=compile_label_selector(pdb.spec.selector),
        allowed=pdb.status.disruptions_allowed if pdb.status is not None else 0,
        disrupted=frozenset(pdb.status.disrupted_pods if pdb.status is not None else ()),
    )


class ByLabel:
    """Selectors of namespaces by one label that they ask for: whom a pod may concern, without asking all of them."""

    def __init__(self, selectors: Iterable[tuple[int, str, Selector]]) -> None:
        self._by_label: dict[tuple[str, str, str], list[int]] = {}
        self._others: dict[str, list[int]] = {}
        for number, namespace, selector in selectors:
            asked = next((one for one in selector.requirements if one.operator == IN), None)
            if asked is None:
                self._others.setdefault(namespace, []).append(number)
                continue
            for value in dict.fromkeys(asked.values):
                self._by_label.setdefault((namespace, asked.key, value), []).append(number)

    def candidates(self, namespace: str, labels: Mapping[str, str]) -> list[int]:
        """The numbers of all selectors that can match the labels, each once, and perhaps of some that do not."""
        found = list(self._others.get(namespace, ()))
        if self._by_label:
            for key, value in labels.items():
                found += self._by_label.get((namespace, key, value), ())
        return found


def charges(units: Sequence[Iterable[PodRecord]], budgets: Sequence[Budget]) -> tuple[list[dict[int, int]], list[int]]:
    """For each unit, how many of its pods each budget counts; and how many each budget allows.

    Budgets that count the same pods are one: the pods exceed any of them when they exceed the smallest allowance.  The
    numbers of the budgets have no particular order.
    """
    same: dict[tuple[str, Selector, frozenset[str]], Budget] = {}
    for budget in budgets:
        key = (budget.namespace, budget.selector, budget.disrupted)
        if not budget.selector.nothing and (key not in same or budget.allowed < same[key].allowed):
            same[key] = budget
    left = list(same.values())
    if not left:
        return [{} for _ in units], []
    by_label = ByLabel((number, budget.namespace, budget.selector) for number, budget in enumerate(left))
    found = []
    for unit in units:
        counts: dict[int, int] = {}
        for pod in unit:
            for number in by_label.candidates(pod.namespace, pod.labels):
                if left[number].counts(pod):
                    counts[number] = counts.get(number, 0) + 1
        found.append(counts)
    return found, [budget.allowed for budget in left]


def exceeding(charged: Sequence[Mapping[int, int]], allowed: Sequence[int]) -> list[bool]:
    """For each unit, in importance order, given what `charges` says of it: does it drive a budget below zero?"""
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


def violating(units: Sequence[Iterable[PodRecord]], budgets: Sequence[Budget]) -> list[bool]:
    """For each unit, in importance order: does disrupting it drive a matching budget below zero?

    The walk keeps a copy of every budget's allowance and charges each pod of each unit, violating or not
    (preemption.md 6).
    """
    return exceeding(*charges(units, budgets))
