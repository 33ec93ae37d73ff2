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


def violating(units: Sequence[Iterable[PodRecord]], budgets: Sequence[Budget]) -> list[bool]:
    """For each unit, in importance order: does disrupting it drive a matching budget below zero?

    The walk keeps a copy of every budget's allowance and charges each pod of each unit, violating or not
    (preemption.md 6).
    """
    if not budgets:
        return [False] * len(units)
    left = [budget.allowed for budget in budgets]
    by_label = ByLabel((index, budget.namespace, budget.selector) for index, budget in enumerate(budgets))
    result = []
    for unit in units:
        over = False
        for pod in unit:
            for index in by_label.candidates(pod.namespace, pod.labels):
                if budgets[index].counts(pod):
                    left[index] -= 1
                    over = over or left[index] < 0
        result.append(over)
    return result
