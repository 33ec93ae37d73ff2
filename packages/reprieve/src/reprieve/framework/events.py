"""Cluster events and queueing hints (scheduling.md 1).

An event says what changed; a hint of the plugin that rejected a pod says whether that change may help it.
"""

from collections.abc import Callable, Mapping
from enum import Enum, auto

from msgspec import Struct

from kube_rules.meta import KubernetesObject
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.cluster.volumes import key_of


class EventKind(Enum):
    """What kind of thing happened."""

    __hash__ = object.__hash__  # a member is the only one of its kind; Enum asks its name, several times a pod

    NODE_ADDED = auto()
    NODE_CHANGED = auto()
    """Labels, taints, allocatable or unschedulable."""
    NODE_REMOVED = auto()
    POD_PLACED = auto()
    """A pod was bound or assumed, by us or by others."""
    POD_CHANGED = auto()
    """What filters read of a scheduled pod's spec: scaled down, mostly."""
    POD_RELABELED = auto()
    """Labels of a scheduled pod changed."""
    POD_GONE = auto()
    """A scheduled pod ended or was deleted: its room is free. Also a reservation given up."""
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
    """Labels of a namespace."""
    SELECTOR_CHANGED = auto()
    """A service or controller with a selector that default spread constraints use (`cluster.default_selectors`)."""
    VOLUME_CHANGED = auto()
    """A PersistentVolume came, changed or went; so for the other resources."""
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
    """The API calls of a preemption are done, or it failed (preemption.md 7)."""
    FLUSH = auto()
    """Waiting too long: everything is tried again."""


class ClusterEvent(Struct, frozen=True):
    """One event. `row` is the row of the node that it concerns, else -1.

    Of a resource, `item` is what it is now (None: it is gone) and `before` what was known of it (None: it is new).
    """

    kind: EventKind
    row: int = -1
    pod: PodRecord | None = None
    group: str | None = None
    item: KubernetesObject | None = None
    before: KubernetesObject | None = None
    composite: str | None = None
    """`namespace/name` of the CompositePodGroup where one is concerned."""
    raised: bool = False
    """Of a group that has changed in nothing else: it wants more now than before, which helps no pods."""


def tree_of(cluster: ClusterState, event: ClusterEvent) -> str | None:
    """Return the `ref` of the entity of the group, or group of groups, that the event is about; None: it is about
    none.
    """
    if event.group is not None:
        group = cluster.groups.get(event.group)
        return group.home if group is not None else f"group/{event.group}"
    if event.composite is not None:
        composite = cluster.trees.composites.get(event.composite)
        return composite.home if composite is not None else f"composite/{event.composite}"
    return None


def about_own_tree(cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
    """The hint of a plugin that looks at groups: the event's is of the pod's tree, and did not come to want more."""
    if pod.group is None or event.raised:
        return False
    if pod.group == event.group:
        return True
    return cluster.entity_ref(pod) == tree_of(cluster, event)


Hint = Callable[[ClusterState, PodRecord, ClusterEvent], bool]
"""Whether the event may make a pod schedulable that this plugin rejected. Reads only."""


def always(_cluster: ClusterState, _pod: PodRecord, _event: ClusterEvent) -> bool:
    """The hint of a plugin without a better answer: try again."""
    return True


def about_own_claim(_cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
    """The hint of a plugin that waits for PersistentVolumeClaims: the event's is one of the pod's, and there."""
    if event.item is None or pod.volumes is None:
        return False
    key = key_of(event.item)
    return any(claim.key == key for claim in pod.volumes.claims)


def own_claim_came(cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
    """The hint of a plugin that waits for a PersistentVolumeClaim of the pod to exist."""
    return event.before is None and about_own_claim(cluster, pod, event)


Hints = Mapping[EventKind, Hint]
