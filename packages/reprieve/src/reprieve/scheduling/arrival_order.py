"""The order in which a starting scheduler loads existing objects."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from kube_rules import objects

_APART: Final = 1e-6
"""Seconds between pending pods that were created in the same second: the first in the input is tried first."""


def in_order(items: Iterable[tuple[objects.KubernetesObject, float]]) -> list[tuple[objects.KubernetesObject, float]]:
    """Return objects, each with its creation time in seconds, in the order in which a starting scheduler loads them.

    Quotas and limit ranges, nodes, budgets, groups of every level, bound pods, pending pods; within a kind by creation,
    then by the resource version, then as given.  Pending pods with the same creation time are set microseconds apart,
    because the API has only seconds. The order affects decisions only by the first-come order of pending pods.
    """
    by_turn: defaultdict[int, list[tuple[objects.KubernetesObject, float]]] = defaultdict(list)
    for entry in items:
        by_turn[_turn(entry[0])].append(entry)
    result: list[tuple[objects.KubernetesObject, float]] = []
    pending = len(by_turn[_PENDING])  # the last
    for turn in sorted(by_turn):
        result += sorted(by_turn.pop(turn), key=lambda entry: (entry[1], entry[0].metadata.revision))
    latest = float("-inf")
    for place in range(len(result) - pending, len(result)):
        item, created = result[place]
        latest = max(created, latest + _APART)
        result[place] = (item, latest)
    return result


_PENDING: Final = 5


_TURNS = {
    "RuntimeClass": -1,
    "ResourceQuota": -1,
    "LimitRange": -1,
    "Node": 0,
    "PodDisruptionBudget": 1,
    "CompositePodGroup": 2,
    "PodGroup": 2,
}


def _turn(item: objects.KubernetesObject) -> int:
    if isinstance(item, objects.Pod):
        return 4 if item.spec.node_name else _PENDING
    return _TURNS.get(type(item).__name__, 3)
