"""The existing objects for expansions, by name: pods by owner, used names, nodes.

They are read from an input once. Later changes are reported (`arrived`, `gone`), so that the cost of a scenario step
depends on the step, not on the size of the cluster (whatif.md 1.11).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kube_rules import objects
from kube_rules.admission import PriorityAdmission
from kube_rules.manifests import Manifests, PodMaker, UnknownObject
from kube_rules.meta import KubernetesObject
from reprieve.simulation.workloads.batches import PodNames
from reprieve.simulation.workloads.owners import Owners

Key = tuple[str, str]
"""(namespace, name)."""


class Surroundings:
    """The objects of an input, indexed for expansions."""

    def __init__(self, manifests: Manifests, makers: Sequence[PodMaker], unknown: Sequence[UnknownObject]) -> None:
        self.owners = Owners(makers, unknown)
        self.unknown = unknown
        self.names = PodNames()
        self.order = 1 + max((loaded.order for loaded in manifests.all()), default=0)
        self._existing: dict[tuple[type[KubernetesObject], str], KubernetesObject] = {}
        self._nodes: dict[str, objects.Node] = {}
        self.groups: set[Key] = set()
        self._classes: list[objects.PriorityClass] = []
        self._admission: PriorityAdmission | None = None
        for item in manifests.objects.values():
            self.arrived(loaded.object for loaded in item)

    @property
    def nodes(self) -> Iterable[objects.Node]:
        """Return all nodes."""
        return self._nodes.values()

    @property
    def node_names(self) -> Collection[str]:
        """Return the names of all nodes."""
        return self._nodes.keys()

    @property
    def admission(self) -> PriorityAdmission:
        """Return the priority admission for the existing priority classes."""
        if self._admission is None:
            self._admission = PriorityAdmission(self._classes)
        return self._admission

    def has(self, item: KubernetesObject) -> bool:
        """Return whether an object of this kind and name exists."""
        return (type(item), item.key) in self._existing

    def arrived(self, items: Iterable[KubernetesObject]) -> None:
        """Add new objects."""
        for item in items:
            self._existing[type(item), item.key] = item
            if isinstance(item, objects.Pod):
                self.names.take(item.namespace, item.name)
                self.owners.add_pod(item)
            elif isinstance(item, objects.Node):
                self._nodes[item.name] = item
            elif isinstance(item, objects.PodGroup):
                self.groups.add((item.namespace, item.name))
            elif isinstance(item, objects.PriorityClass):
                self._classes.append(item)
                self._admission = None

    def gone(self, kind: str, namespace: str, name: str) -> None:
        """Remove a deleted object."""
        for object_type in (objects.Pod, objects.Node, objects.PodGroup):
            if kind == object_type.KIND:
                self._existing.pop((object_type, f"{namespace}/{name}" if object_type.NAMESPACED else name), None)
        if kind == "Pod":
            self.names.free(namespace, name)
            self.owners.remove_pod(namespace, name)
        elif kind == "Node":
            self._nodes.pop(name, None)
        elif kind == "PodGroup":
            self.groups.discard((namespace, name))
