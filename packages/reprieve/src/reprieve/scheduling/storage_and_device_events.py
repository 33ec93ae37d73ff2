"""Changes of volumes, device claims, their classes and slices.

Invariant: a victim *lingers* until the API has released its devices: its preemptor keeps waiting for it, so that no
other pods are evicted for devices that are about to be free (KEP-5690).
"""

from kube_rules import objects
from kube_rules.meta import ObjectRef
from reprieve.cluster.devices import DeviceObject
from reprieve.cluster.extended_resources import owner_of
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.cluster.volumes import VolumeObject
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.queueing.queue import SchedulingQueue
from reprieve.scheduling.nominations import Nominations

_EVENTS = {
    "PersistentVolume": EventKind.VOLUME_CHANGED,
    "PersistentVolumeClaim": EventKind.CLAIM_CHANGED,
    "StorageClass": EventKind.STORAGE_CLASS_CHANGED,
    "CSINode": EventKind.CSI_NODE_CHANGED,
    "CSIDriver": EventKind.CSI_DRIVER_CHANGED,
    "VolumeAttachment": EventKind.VOLUME_ATTACHMENT_CHANGED,
    "CSIStorageCapacity": EventKind.STORAGE_CAPACITY_CHANGED,
    "ResourceClaim": EventKind.DEVICE_CLAIM_CHANGED,
    "ResourceSlice": EventKind.DEVICE_SLICE_CHANGED,
    "DeviceClass": EventKind.DEVICE_CLASS_CHANGED,
    "DeviceTaintRule": EventKind.DEVICE_TAINT_RULE_CHANGED,
}
Item = objects.KubernetesObject


class StorageAndDeviceEvents:
    """See the module docstring. `taint_rules` False (the gate DRADeviceTaintRules): DeviceTaintRules are ignored."""

    def __init__(
        self, cluster: ClusterState, queue: SchedulingQueue, nominations: Nominations, *, taint_rules: bool
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._nominations = nominations
        self._taint_rules = taint_rules
        self._lingering: dict[str, set[str]] = {}
        """Device claim -> deleted victims that the API still lists as its consumers."""

    def set_volume(self, item: VolumeObject, now: float, _created: float | None = None) -> None:
        """Add or change a volume, a claim, or an object that states what can be provisioned."""
        self._report(item.KIND, self._cluster.volumes.set(item), item, now)

    def remove_volume(self, ref: ObjectRef, now: float) -> bool:
        """Remove such an object."""
        return self._report(ref.kind, self._cluster.volumes.remove(ref.kind, ref.namespace, ref.name), None, now)

    def set_device(self, item: DeviceObject, now: float, _created: float | None = None) -> None:
        """Add or change a device claim, slice, class or taint rule."""
        if isinstance(item, objects.DeviceTaintRule) and not self._taint_rules:
            return
        before: Item | None = self._cluster.devices.set(item)
        self._extended_changed(item, now)
        if isinstance(item, objects.ResourceClaim):
            self._claim_changed(item.metadata.namespace, item.metadata.name, before, item, now)
        self._report(item.KIND, before, item, now)

    def remove_device(self, ref: ObjectRef, now: float) -> bool:
        """Remove such an object."""
        before: Item | None = self._cluster.devices.remove(ref.kind, ref.namespace, ref.name)
        self._extended_changed(before, now)
        if ref.kind == objects.ResourceClaim.KIND:
            self._claim_changed(ref.namespace, ref.name, before, None, now)
        return self._report(ref.kind, before, None, now)

    def _report(self, kind: str, before: Item | None, item: Item | None, now: float) -> bool:
        """Notify the queue of a change; return whether the object was known."""
        if before != item:
            self._queue.on_event(ClusterEvent(_EVENTS[kind], item=item, before=before), now)
        return before is not None

    def linger(self, pod: PodRecord) -> bool:
        """Handle a victim before it is forgotten; return whether its devices are still to be released."""
        keys = self._cluster.devices.lingering(pod) if pod.claims else []
        for key in keys:
            self._lingering.setdefault(key, set()).add(pod.uid)
        return bool(keys)

    def _extended_changed(self, item: Item | None, now: float) -> None:
        """Handle classes that serve other resources, or a new or deleted claim for a pod's extended resources."""
        renewed: list[PodRecord] = []
        if isinstance(item, objects.DeviceClass) and self._cluster.devices.served_anew():
            renewed = self._cluster.classes_changed()
        elif isinstance(item, objects.ResourceClaim):
            pod = self._cluster.pods.get(owner_of(item) or "")
            if pod is not None and self._cluster.claims_renewed(pod):
                renewed = [pod]
        for pod in renewed:
            if pod.row < 0:
                self._queue.update_pod(pod, now)

    def _claim_changed(self, namespace: str, name: str, before: Item | None, after: Item | None, now: float) -> None:
        """Wake pods that wait for changes of a claim, and preemptors that wait for devices of victims."""
        key = f"{namespace or 'default'}/{name}"
        for uid in sorted(self._lingering.get(key, ())):
            if not self._cluster.devices.lists(key, uid):
                self._lingering[key].discard(uid)
                if not any(uid in uids for uids in self._lingering.values()):
                    self._nominations.remove_victim(uid, now)
        if not self._lingering.get(key, True):
            del self._lingering[key]
        if _there(before) != _there(after):
            for pod in self._cluster.devices.users(key):
                if pod.row < 0:
                    self._queue.update_pod(pod, now)


def _there(item: Item | None) -> tuple[object, ...]:
    """Return what pods wait for in a claim: that it exists, that it is not being deleted, and its owners."""
    if item is None:
        return ()
    meta = item.metadata
    return meta.uid, meta.deletion_timestamp is None, meta.owner_references
