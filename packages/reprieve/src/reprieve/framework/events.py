"""Cluster events and queueing hints (scheduling.md 1).

An event describes a change; the hint of a plugin that rejected a pod decides whether that change may help it.
"""

from collections.abc import Callable, Mapping
from enum import Enum, auto

from msgspec import Struct

from kube_rules.meta import KubernetesObject
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.cluster.volumes import key_of


class EventKind(Enum):
    """Kinds of events."""

    __hash__ = object.__hash__  # members are singletons; Enum hashes the name, several times a pod

    NODE_ADDED = auto()
    NODE_CHANGED = auto()
    """Its labels, taints, allocatable or `unschedulable`."""
    NODE_REMOVED = auto()
    POD_PLACED = auto()
    """A pod was bound or assumed, by this or another scheduler."""
    POD_CHANGED = auto()
    """Filters' inputs in a scheduled pod's spec changed, for example a resize to less."""
    POD_RELABELED = auto()
    """Labels of a scheduled pod changed."""
    POD_GONE = auto()
    """A scheduled pod ended or was deleted: its capacity is free. Also: a reservation was given up."""
    POD_TERMINATING = auto()
    POD_ADDED = auto()
    """A pending pod appeared."""
    MEMBER_GONE = auto()
    """A pending pod of a group was deleted, or is terminating."""
    GROUP_ADDED = auto()
    GROUP_CHANGED = auto()
    GROUP_REMOVED = auto()
    GATES_REMOVED = auto()
    NAMESPACE_CHANGED = auto()
    """The labels of a namespace changed."""
    SELECTOR_CHANGED = auto()
    """A service or controller with a selector that default spread constraints use (`cluster.default_selectors`)."""
    VOLUME_CHANGED = auto()
    """A PersistentVolume was added, changed or deleted; likewise for the other resources."""
    CLAIM_CHANGED = auto()
    STORAGE_CLASS_CHANGED = auto()
    CSI_NODE_CHANGED = auto()
    CSI_DRIVER_CHANGED = auto()
    VOLUME_ATTACHMENT_CHANGED = auto()
    STORAGE_CAPACITY_CHANGED = auto()
    DEVICE_CLAIM_CHANGED = auto()
    DEVICE_SLICE_CHANGED = auto()
    DEVICE_CLASS_CHANGED = auto()
    DEVICE_TAINT_RULE_CHANGED = auto()
    PREEMPTION_FINISHED = auto()
    """The API calls of a preemption ended, successfully or not (preemption.md 7)."""
    FLUSH = auto()
    """Entities that have waited too long are tried again."""


class ClusterEvent(Struct, frozen=True):
    """One event. `row` is the row of the node concerned, else -1.

    For a resource, `item` is the present object (None: deleted) and `before` the previous one (None: added).
    """

    kind: EventKind
    row: int = -1
    pod: PodRecord | None = None
    group: str | None = None
    item: KubernetesObject | None = None
    before: KubernetesObject | None = None
    composite: str | None = None
    """`namespace/name` of the CompositePodGroup concerned, if any."""
    raised: bool = False
    """The group's requirements grew and nothing else in it changed, which helps no pods."""


def tree_of(cluster: ClusterState, event: ClusterEvent) -> str | None:
    """Return the entity `ref` of the group, or composite group, that the event concerns; None if it concerns none."""
    if event.group is not None:
        group = cluster.groups.get(event.group)
        return group.home if group is not None else f"group/{event.group}"
    if event.composite is not None:
        composite = cluster.trees.composites.get(event.composite)
        return composite.home if composite is not None else f"composite/{event.composite}"
    return None


def about_own_tree(cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
    """Return whether the event concerns the pod's tree and did not raise its requirements: a hint for group plugins."""
    if pod.group is None or event.raised:
        return False
    if pod.group == event.group:
        return True
    return cluster.entity_ref(pod) == tree_of(cluster, event)


Hint = Callable[[ClusterState, PodRecord, ClusterEvent], bool]
"""Whether the event may make a pod schedulable that this plugin rejected. Reads only."""


def always(_cluster: ClusterState, _pod: PodRecord, _event: ClusterEvent) -> bool:
    """Return True: the hint of a plugin that cannot be more precise."""
    return True


def about_own_claim(_cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
    """Return whether the event is of one of the pod's PersistentVolumeClaims that exists: a hint."""
    if event.item is None or pod.volumes is None:
        return False
    key = key_of(event.item)
    return any(claim.key == key for claim in pod.volumes.claims)


def own_claim_came(cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
    """Return whether a PersistentVolumeClaim of the pod was created: a hint."""
    return event.before is None and about_own_claim(cluster, pod, event)


Hints = Mapping[EventKind, Hint]
