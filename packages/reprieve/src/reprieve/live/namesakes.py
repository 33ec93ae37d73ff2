"""Objects of the same kind and name in several API groups, as during a migration to another API: one counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from kube_rules.meta import KubernetesObject
from reprieve.client.discovery import Resource
from reprieve.client.informer import Change, ChangeKind

_T = TypeVar("_T", bound=KubernetesObject)


class Namesakes(Generic[_T]):
    """Selects the object of the strongest API group among those of one name, whichever came first.

    `strongest_first` lists all API groups that have the kind; `warn` is called for each object that does not count.
    """

    def __init__(self, strongest_first: Sequence[str], warn: Callable[[str], None]) -> None:
        self._strongest_first = strongest_first
        self._warn = warn
        self._by_name: dict[str, dict[str, tuple[_T, Resource]]] = {}
        """By `namespace/name`, then by API group."""

    def counting(self, key: str) -> tuple[_T, Resource] | None:
        """Return the object that counts for a name (`namespace/name`) and its resource; None if there is none."""
        namesakes = self._by_name.get(key, {})
        return next((namesakes[group] for group in self._strongest_first if group in namesakes), None)

    def take(self, change: Change[_T], resource: Resource) -> None:
        """Process an object that was added, changed or deleted."""
        item = change.object
        namesakes = self._by_name.setdefault(item.key, {})
        if change.kind is not ChangeKind.DELETED:
            namesakes[resource.group] = (item, resource)
            ranked = [namesakes[group][1] for group in self._strongest_first if group in namesakes]
            for outranked in ranked[1:]:
                self._warn(
                    f"{item.KIND} {item.key} exists as {ranked[0]}, which is used, and as {outranked}, which is ignored"
                )
            return
        namesakes.pop(resource.group, None)
        if not namesakes:
            del self._by_name[item.key]
