"""Objects of one kind and name that several API groups have, as while a cluster moves to another API: one counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from kube_rules.meta import KubernetesObject
from reprieve.client.discovery import Resource
from reprieve.client.informer import Change, ChangeKind

_T = TypeVar("_T", bound=KubernetesObject)


class Namesakes(Generic[_T]):
    """Of several of one name that of the strongest API group counts, whichever came first.

    `strongest_first` are all API groups that have the kind; `warn` is called whenever one comes that does not count
    alone.
    """

    def __init__(self, strongest_first: Sequence[str], warn: Callable[[str], None]) -> None:
        self._strongest_first = strongest_first
        self._warn = warn
        self._there: dict[str, dict[str, tuple[_T, Resource]]] = {}
        """By `namespace/name`, then by the API group they are of."""

    def counting(self, key: str) -> tuple[_T, Resource] | None:
        """Return the one of a name (`namespace/name`) that counts, and where it was read; None if there is none."""
        there = self._there.get(key, {})
        return next((there[group] for group in self._strongest_first if group in there), None)

    def take(self, change: Change[_T], resource: Resource) -> None:
        """One of a name appeared, changed or went."""
        item = change.object
        there = self._there.setdefault(item.key, {})
        if change.kind is not ChangeKind.DELETED:
            there[resource.group] = (item, resource)
            found = [there[group][1] for group in self._strongest_first if group in there]
            for other in found[1:]:
                self._warn(f"{item.KIND} {item.key} is there as {found[0]}, which counts, and as {other}")
            return
        there.pop(resource.group, None)
        if not there:
            del self._there[item.key]
