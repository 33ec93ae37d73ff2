"""NodeVolumeLimits: filter nodes by the number of volumes that their CSI drivers can attach.

Rules (devices.md 1; kubernetes/kubernetes pkg/scheduler/framework/plugins/nodevolumelimits):
`reprieve.cluster.attachments` counts the volumes. Evicting pods frees their volumes unless a VolumeAttachment remains,
so preemption may help.
"""

from typing import ClassVar

import numpy as np

from kube_rules.storage import CSIDriver, CSINode, VolumeAttachment
from reprieve.cluster.attachments import ALL_MIGRATED, IN_TREE, attached_by, by_driver, limits_of
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.cluster.volumes import VolumeObjects, not_found
from reprieve.framework.events import ClusterEvent, EventKind, Hints, own_claim_came
from reprieve.framework.plugin import Codes, CycleState, FilterPlugin, Mask, Rows, Scope, row_count
from reprieve.framework.status import SKIP, SUCCESS, UNRESOLVABLE, UNSCHEDULABLE, Status

TOO_MANY = "node(s) exceed max volume count"


class NodeVolumeLimits(FilterPlugin):
    """See the module docstring. `scaling`: drivers may require to be installed (gate VolumeLimitScaling)."""

    name = "NodeVolumeLimits"
    scope: ClassVar[Scope] = Scope.CLUSTER

    def __init__(self, *, scaling: bool = True) -> None:
        self._scaling = scaling

    def concerns(self, state: CycleState) -> bool:
        """Return whether the pod has claims, or disks of a migrated plugin."""
        volumes = state.pod.volumes
        return volumes is not None and (bool(volumes.claims) or any(disk.source in IN_TREE for disk in volumes.disks))

    def pre_filter(self, state: CycleState) -> Status:
        """Skip pods without volumes that could count."""
        return SUCCESS if self.concerns(state) else SKIP

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        cluster = state.cluster
        if missing_claim(cluster.volumes, state.pod) is not None:
            return np.full(row_count(cluster, rows), UNRESOLVABLE, dtype=np.int8)
        bad = np.zeros(row_count(cluster, rows), dtype=np.bool_)
        for _, mask in self._judged(state, rows):
            bad |= mask
        return np.where(bad, UNSCHEDULABLE, 0).astype(np.int8)

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        missing = missing_claim(state.cluster.volumes, state.pod)
        if missing is not None:
            text = f"looking up PVC {missing[0]}: {not_found(missing[1])}"
            return [(text, np.ones(row_count(state.cluster, rows), dtype=np.bool_))]
        return self._judged(state, rows)

    def _judged(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        """Return the reasons with their rows; a node without a required driver has no further reason."""
        attached, overlaid = state.cluster.attached, state.cluster.overlaid
        numbers = np.arange(len(state.cluster.nodes), dtype=np.int64)[rows]
        result: list[tuple[str, Mask]] = []
        left: Mask = np.ones(len(numbers), dtype=np.bool_)
        lacking = attached.without_driver(state.pod, numbers, overlaid=overlaid) if self._scaling else {}
        for driver, mask in sorted(lacking.items()):
            result.append((f"{driver} CSI driver is not installed on the node", mask & left))
            left &= ~mask
        result.append((TOO_MANY, attached.exceeding(state.pod, numbers, overlaid=overlaid) & left))
        return result

    def events(self) -> Hints:
        """Return the events of removed pods, detached volumes, CSINodes, drivers and claims that may help."""
        return {
            EventKind.POD_GONE: lambda _cluster, _pod, event: event.pod is None or event.pod.volumes is not None,
            EventKind.CSI_NODE_CHANGED: _allows_more,
            EventKind.CSI_DRIVER_CHANGED: _asks_for_less,
            EventKind.CLAIM_CHANGED: own_claim_came,
            EventKind.VOLUME_ATTACHMENT_CHANGED: _detached,
        }


def missing_claim(store: VolumeObjects, pod: PodRecord) -> tuple[str, str] | None:
    """Return (key, name) of a pod's first claim that does not exist."""
    for used in pod.volumes.claims if pod.volumes is not None else ():
        if used.key not in store.claims:
            return used.key, used.name
    return None


def _detached(cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
    """Return whether a volume of a driver that the pod needs was detached from its node."""
    before, after = event.before, event.item
    if not isinstance(before, VolumeAttachment):
        return False
    if isinstance(after, VolumeAttachment) and after.spec == before.spec:
        return False
    return before.spec.attacher in by_driver(attached_by(cluster.volumes, pod, ALL_MIGRATED))


def _asks_for_less(_cluster: ClusterState, _pod: PodRecord, event: ClusterEvent) -> bool:
    """Return whether a required driver was removed or is no longer required."""
    before, after = event.before, event.item
    if not isinstance(before, CSIDriver) or not before.spec.prevent_pod_scheduling_if_missing:
        return False
    return not isinstance(after, CSIDriver) or not after.spec.prevent_pod_scheduling_if_missing


def _allows_more(_cluster: ClusterState, _pod: PodRecord, event: ClusterEvent) -> bool:
    """Return whether a CSINode was added or removed, has another driver, or a higher limit."""
    if not isinstance(event.before, CSINode) or not isinstance(event.item, CSINode):
        return True
    installed = {driver.name for driver in event.item.spec.drivers}
    if not installed <= {driver.name for driver in event.before.spec.drivers}:
        return True
    before, after = limits_of(event.before), limits_of(event.item)
    return any(driver not in after or after[driver] > count for driver, count in before.items())
