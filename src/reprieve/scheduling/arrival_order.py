"""In which order a scheduler that starts up learns of what is there."""

from collections.abc import Iterable

from reprieve.api import objects


def in_order(items: Iterable[tuple[objects.KubernetesObject, float]]) -> list[tuple[objects.KubernetesObject, float]]:
    """Objects in the order a scheduler that starts up would learn of them.

    Nodes, budgets, groups of every level, bound pods, pending pods; within a kind by creation.  The decisions do not
    depend on it but for the first-come order of pending pods.
    """
    return sorted(items, key=lambda entry: (_turn(entry[0]), entry[1]))


def _turn(item: objects.KubernetesObject) -> int:
    if isinstance(item, objects.Pod):
        return 4 if item.spec.node_name else 5
    return {"Node": 0, "PodDisruptionBudget": 1, "CompositePodGroup": 2, "PodGroup": 2}.get(type(item).__name__, 3)
