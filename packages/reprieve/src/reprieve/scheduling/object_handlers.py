"""Handlers of objects that appear, change or are deleted: one table, from kind to handler."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kube_rules import objects
from kube_rules.group_owners import OWNER_KINDS
from kube_rules.meta import ObjectRef
from reprieve.cluster.default_selectors import SELECTOR_OWNER_KINDS, SelectorOwner
from reprieve.cluster.devices import DEVICE_KINDS
from reprieve.cluster.state import ClusterState
from reprieve.cluster.volumes import VOLUME_KINDS
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.queueing.queue import SchedulingQueue
from reprieve.scheduling.group_changes import GroupChanges
from reprieve.scheduling.nominations import Nominations
from reprieve.scheduling.pod_changes import PodChanges
from reprieve.scheduling.preemptor_reservations import Released
from reprieve.scheduling.storage_and_device_events import StorageAndDeviceEvents


class ObjectHandler(NamedTuple):
    """The two functions of a kind. Times are in seconds."""

    set: Callable[[Any, float, float | None], None]
    """Called with an object that appeared or changed, the time, and the creation time if it is not the object's."""
    remove: Callable[[ObjectRef, float], bool]
    """Called with a deleted object and the time; returns whether the object was known."""


def handlers(
    pods: PodChanges, groups: GroupChanges, resources: StorageAndDeviceEvents, rest: "OtherChanges"
) -> Mapping[str, ObjectHandler]:
    """Return the handler of every kind that the engine reads."""
    return {
        objects.Pod.KIND: ObjectHandler(pods.set, pods.remove),
        objects.PodGroup.KIND: ObjectHandler(groups.set, groups.remove),
        objects.CompositePodGroup.KIND: ObjectHandler(groups.set_composite, groups.remove_composite),
        **{kind.KIND: ObjectHandler(groups.set_owner, groups.remove_owner) for kind in OWNER_KINDS},
        objects.Node.KIND: ObjectHandler(rest.set_node, rest.remove_node),
        objects.PriorityClass.KIND: ObjectHandler(rest.set_class, rest.remove_class),
        objects.Namespace.KIND: ObjectHandler(rest.set_namespace, rest.remove_namespace),
        objects.PodDisruptionBudget.KIND: ObjectHandler(rest.set_budget, rest.remove_budget),
        **{k.KIND: ObjectHandler(rest.set_selector_owner, rest.remove_selector_owner) for k in SELECTOR_OWNER_KINDS},
        **{kind.KIND: ObjectHandler(resources.set_volume, resources.remove_volume) for kind in VOLUME_KINDS},
        **{kind.KIND: ObjectHandler(resources.set_device, resources.remove_device) for kind in DEVICE_KINDS},
    }


class OtherChanges:
    """Nodes, and kinds with handlers of a few lines: classes, namespaces, budgets, services and controllers."""

    def __init__(self, cluster: ClusterState, queue: SchedulingQueue, nominations: Nominations) -> None:
        self._cluster = cluster
        self._queue = queue
        self._nominations = nominations

    def set_node(self, node: objects.Node, now: float, _created: float | None = None) -> None:
        """Add or change a node."""
        nodes = self._cluster.nodes
        before = nodes.row_of.get(node.metadata.name)
        existed = before is not None and bool(nodes.alive[before])
        if self._cluster.set_node(node):
            kind = EventKind.NODE_CHANGED if existed else EventKind.NODE_ADDED
            self._queue.on_event(ClusterEvent(kind, row=nodes.row_of[node.metadata.name]), now)

    def remove_node(self, ref: ObjectRef, now: float) -> bool:
        """Remove a node. Its pods stay until they are reported deleted; nominations to it end."""
        nodes = self._cluster.nodes
        row = nodes.row_of.get(ref.name, -1)
        if not self._cluster.remove_node(ref.name):
            return False
        void = [pod for pod in nodes.nominated.get(row, {}).values() if pod.uid in self._cluster.pods]
        for pod in void:
            self._nominations.release([(pod, row)], Released.NODE_GONE, "the node is gone", now)
            self._nominations.end(pod)
        self._queue.on_event(ClusterEvent(EventKind.NODE_REMOVED, row=row), now)
        for pod in void:  # the capacity they waited for will not become free: they may preempt elsewhere
            self._queue.update_pod(pod, now)
        return True

    def set_class(self, item: objects.PriorityClass, now: float, _created: float | None = None) -> None:
        """Add or change a PriorityClass: its annotations about the work of its pods count at once (cost.md 2)."""
        if self._cluster.set_class(item):
            self._queue.retry_all(now)

    def remove_class(self, ref: ObjectRef, now: float) -> bool:
        """Remove a PriorityClass; pods keep their priority."""
        existed = self._cluster.remove_class(ref.name)
        if existed:
            self._queue.retry_all(now)
        return existed

    def set_namespace(self, namespace: objects.Namespace, now: float, _created: float | None = None) -> None:
        """Add or change a namespace: terms with a namespace selector may match other pods."""
        if self._cluster.set_namespace(namespace):
            self._queue.on_event(ClusterEvent(EventKind.NAMESPACE_CHANGED), now)

    def remove_namespace(self, ref: ObjectRef, now: float) -> bool:
        """Remove a namespace."""
        existed = self._cluster.remove_namespace(ref.name)
        if existed:
            self._queue.on_event(ClusterEvent(EventKind.NAMESPACE_CHANGED), now)
        return existed

    def set_selector_owner(self, item: SelectorOwner, now: float, _created: float | None = None) -> None:
        """Add or change a service or controller: default spread constraints use its selector."""
        self._cluster.default_selectors.set(item)
        self._cluster.controllers.set(item)
        self._queue.on_event(ClusterEvent(EventKind.SELECTOR_CHANGED), now)

    def remove_selector_owner(self, ref: ObjectRef, now: float) -> bool:
        """Remove a service or controller."""
        existed = self._cluster.default_selectors.remove(ref.kind, ref.namespace, ref.name)
        self._cluster.controllers.remove(ref.kind, ref.namespace, ref.name)
        if existed:
            self._queue.on_event(ClusterEvent(EventKind.SELECTOR_CHANGED), now)
        return existed

    def set_budget(self, budget: objects.PodDisruptionBudget, now: float, _created: float | None = None) -> None:
        """Add or change a PodDisruptionBudget: preemptors that respect budgets are tried again."""
        self._cluster.set_budget(budget)
        self._retry_for_budgets(now)

    def remove_budget(self, ref: ObjectRef, now: float) -> bool:
        """Remove a PodDisruptionBudget: preemptors that respect budgets are tried again."""
        existed = ref.key in self._cluster.budgets
        self._cluster.remove_budget(ref.key)
        self._retry_for_budgets(now)
        return existed

    def _retry_for_budgets(self, now: float) -> None:
        if any(terms.respects_budgets for terms in self._cluster.classes.values()):
            self._queue.retry_all(now)
