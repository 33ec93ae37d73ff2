"""Selectors of Services, ReplicationControllers, ReplicaSets and StatefulSets, for default spread constraints.

A pod's *default selector* combines the selectors of its Services and of its controller (kubernetes/kubernetes
pkg/scheduler/framework/plugins/helper DefaultSelector). Without any of them the pod has no default selector, and the
default constraints do not apply.
"""

from collections.abc import Mapping

from kube_rules import objects
from kube_rules.selectors import IN, Requirement, Selector, compile_label_selector, compile_match_labels
from reprieve.cluster.label_index import SelectorIndex
from reprieve.cluster.pods import Owner

SelectorOwner = objects.Service | objects.ReplicationController | objects.ReplicaSet | objects.StatefulSet
SELECTOR_OWNER_KINDS = (objects.Service, objects.ReplicationController, objects.ReplicaSet, objects.StatefulSet)

_Key = tuple[str, str, str]
"""(kind, namespace, name)."""


class DefaultSelectors:
    """The known selectors. `version` increases with every change."""

    def __init__(self) -> None:
        self.version = 0
        self._services: dict[tuple[str, str], dict[str, str]] = {}
        """(namespace, service) -> selector; Services without a selector are left out."""
        self._index: SelectorIndex[tuple[str, str]] = SelectorIndex()
        self._controllers: dict[_Key, Selector] = {}

    def __bool__(self) -> bool:
        return bool(self._services) or bool(self._controllers)

    def set(self, item: SelectorOwner) -> None:
        """Add or update an object."""
        namespace, name = item.metadata.namespace or "default", item.metadata.name
        self.remove(type(item).__name__, namespace, name)
        if isinstance(item, objects.Service):
            if item.spec.selector:
                self._services[namespace, name] = dict(item.spec.selector)
                self._index.add((namespace, name), compile_match_labels(item.spec.selector), (namespace,))
        elif isinstance(item, objects.ReplicationController):
            self._controllers["ReplicationController", namespace, name] = compile_match_labels(item.spec.selector)
        else:
            self._controllers[type(item).__name__, namespace, name] = compile_label_selector(item.spec.selector)
        self.version += 1

    def remove(self, kind: str, namespace: str, name: str) -> bool:
        """Remove a deleted object; return whether it was known."""
        if kind == "Service":
            removed = self._services.pop((namespace, name), None) is not None
            self._index.remove((namespace, name))
        else:
            removed = self._controllers.pop((kind, namespace, name), None) is not None
        self.version += removed
        return removed

    def default_selector(self, namespace: str, labels: Mapping[str, str], owner: Owner | None) -> Selector | None:
        """Return the combined selector of a pod's Services and controller, or None without any."""
        merged: dict[str, str] = {}
        for service in sorted(self._index.may_match(namespace, labels)):
            selector = self._services[service]
            if all(labels.get(key) == value for key, value in selector.items()):
                merged.update(selector)
        controller = self._controllers.get((owner[1], namespace, owner[2])) if _controls(owner) and owner else None
        if controller is not None and controller.nothing:
            controller = None
        more = controller.requirements if controller is not None else ()
        own = tuple(Requirement(key, IN, (value,)) for key, value in sorted(merged.items()))
        service_requirements = set(own)
        combined = Selector((*own, *(r for r in more if r not in service_requirements)))
        return None if combined.everything else combined


def _controls(owner: Owner | None) -> bool:
    return owner is not None and (owner[0], owner[1]) in (
        ("v1", "ReplicationController"),
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
    )
