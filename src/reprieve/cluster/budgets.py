"""PodDisruptionBudgets as preemption counts them (preemption.md 6): best effort, never a veto."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reprieve.api import objects
from reprieve.api.selectors import Selector, compile_label_selector
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


def violating(units: Sequence[Iterable[PodRecord]], budgets: Sequence[Budget]) -> list[bool]:
    """For each unit, in importance order: does disrupting it drive a matching budget below zero?

    The walk keeps a copy of every budget's allowance and charges each pod of each unit, violating or not
    (preemption.md 6).
    """
    if not budgets:
        return [False] * len(units)
    left = [budget.allowed for budget in budgets]
    by_namespace: dict[str, list[int]] = {}
    for index, budget in enumerate(budgets):
        by_namespace.setdefault(budget.namespace, []).append(index)
    result = []
    for unit in units:
        over = False
        for pod in unit:
            for index in by_namespace.get(pod.namespace, ()):
                if budgets[index].counts(pod):
                    left[index] -= 1
                    over = over or left[index] < 0
        result.append(over)
    return result
