"""What stands beside nodes and pods: volumes, claims, classes, device slices come, change and go.

Invariant: a victim whose devices the API has not given back yet *lingers*: its preemptor goes on waiting for it, so
that nobody else is evicted for what is about to be free (KEP-5690).
"""

from collections.abc import Callable

from kube_rules import objects
from reprieve.cluster.devices import DEVICE_KINDS
from reprieve.cluster.extended_resources import owner_of
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.cluster.volumes import VOLUME_KINDS
from reprieve.framework.events import ClusterEvent, EventKind
from reprieve.queueing.queue import SchedulingQueue

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
_OF_DEVICES = frozenset(kind.KIND for kind in DEVICE_KINDS)
_OF_VOLUMES = frozenset(kind.KIND for kind in VOLUME_KINDS)
Item = objects.KubernetesObject


class StorageAndDeviceEvents:
    """See the module docstring. `left` is called with the UID of a victim that gave everything back, and when.

    `taint_rules` False (the gate DRADeviceTaintRules): DeviceTaintRules are passed over.
    """

    def __init__(
        self,
        cluster: ClusterState,
        queue: SchedulingQueue,
        left: Callable[[str, float], None],
        *,
        taint_rules: bool,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._left = left
        self._taint_rules = taint_rules
        self._lingering: dict[str, set[str]] = {}
        """Device claim -> victims that are gone while the API still lists them as its consumers."""

    def set(self, item: Item, now: float) -> None:
        """An object appeared or changed. Raises TypeError for a kind that the scheduler does not read."""
        if isinstance(item, objects.DeviceTaintRule) and not self._taint_rules:
            return
        if isinstance(item, VOLUME_KINDS):
            before: Item | None = self._cluster.volumes.set(item)
        elif isinstance(item, DEVICE_KINDS):
            before = self._cluster.devices.set(item)
            self._extended_changed(item, now)
            if isinstance(item, objects.ResourceClaim):
                self._claim_changed(item.metadata.namespace, item.metadata.name, before, item, now)
        else:
            raise TypeError(f"{type(item).__name__} is not a resource of the scheduler")
        if before != item:
            self._queue.on_event(ClusterEvent(_EVENTS[type(item).__name__], item=item, before=before), now)

    def remove(self, kind: str, namespace: str, name: str, now: float) -> bool:
        """An object is gone; returns whether it was known."""
        if kind in _OF_VOLUMES:
            before: Item | None = self._cluster.volumes.remove(kind, namespace, name)
        elif kind in _OF_DEVICES:
            before = self._cluster.devices.remove(kind, namespace, name)
            self._extended_changed(before, now)
            if kind == "ResourceClaim":
                self._claim_changed(namespace, name, before, None, now)
        else:
            return False
        if before is not None:
            self._queue.on_event(ClusterEvent(_EVENTS[kind], before=before), now)
        return before is not None

    def linger(self, pod: PodRecord) -> bool:
        """A victim is about to be forgotten; returns whether its devices are still to come back."""
        keys = self._cluster.devices.lingering(pod) if pod.claims else []
        for key in keys:
            self._lingering.setdefault(key, set()).add(pod.uid)
        return bool(keys)

    def _extended_changed(self, item: Item | None, now: float) -> None:
        """Classes serve other resources, or the claim for a pod's extended resources has come or gone."""
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
        """Pods may wait for a device claim to be made or to go, preemptors for devices of victims."""
        key = f"{namespace or 'default'}/{name}"
        for uid in sorted(self._lingering.get(key, ())):
            if not self._cluster.devices.lists(key, uid):
                self._lingering[key].discard(uid)
                if not any(uid in others for others in self._lingering.values()):
                    self._left(uid, now)
        if not self._lingering.get(key, True):
            del self._lingering[key]
        if _there(before) != _there(after):
            for pod in self._cluster.devices.users(key):
                if pod.row < 0:
                    self._queue.update_pod(pod, now)


def _there(item: Item | None) -> tuple[object, ...]:
    """What a pod that waits for a claim needs to know of it: whether it exists, is not going, and whose it is."""
    if item is None:
        return ()
    meta = item.metadata
    return meta.uid, meta.deletion_timestamp is None, meta.owner_references
