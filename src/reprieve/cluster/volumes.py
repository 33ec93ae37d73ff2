"""Volumes, claims, classes and what nodes can attach: the storage side of the picture.

The objects are kept as the API gave them.  What the scheduler itself has decided and the API does not show yet is laid
over them elsewhere; nothing here is changed by deciding.

Invariants: every index is derived from the objects alone; `version` grows with every change.
"""

from reprieve.api.meta import KubernetesObject
from reprieve.api.storage import CSINode, CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass

VolumeObject = PersistentVolume | PersistentVolumeClaim | StorageClass | CSINode | CSIStorageCapacity
VOLUME_KINDS = (PersistentVolume, PersistentVolumeClaim, StorageClass, CSINode, CSIStorageCapacity)
_NAMESPACED = ("PersistentVolumeClaim", "CSIStorageCapacity")


def key_of(item: KubernetesObject) -> str:
    """`namespace/name` of a claim or a capacity, the name of anything else."""
    if type(item).__name__ in _NAMESPACED:
        return f"{item.metadata.namespace or 'default'}/{item.metadata.name}"
    return item.metadata.name


class VolumeObjects:
    """See the module docstring. Keys are those of `key_of`."""

    def __init__(self) -> None:
        self.version = 0
        self.volumes: dict[str, PersistentVolume] = {}
        self.claims: dict[str, PersistentVolumeClaim] = {}
        self.classes: dict[str, StorageClass] = {}
        self.csi_nodes: dict[str, CSINode] = {}
        self.capacities: dict[str, CSIStorageCapacity] = {}

    def set(self, item: VolumeObject) -> VolumeObject | None:
        """Learn of an object or its change; returns what was known of it before."""
        before = self._put(item)
        self.version += before != item
        return before

    def remove(self, kind: str, namespace: str, name: str) -> VolumeObject | None:
        """An object is gone; returns what was known of it."""
        key = f"{namespace or 'default'}/{name}" if kind in _NAMESPACED else name
        found: VolumeObject | None = self._table(kind).pop(key, None)
        self.version += found is not None
        return found

    def _put(self, item: VolumeObject) -> VolumeObject | None:
        table, key = self._table(type(item).__name__), key_of(item)
        before: VolumeObject | None = table.get(key)
        table[key] = item
        return before

    def _table(self, kind: str) -> dict[str, VolumeObject]:
        tables: dict[str, dict[str, VolumeObject]] = {
            "PersistentVolume": self.volumes,
            "PersistentVolumeClaim": self.claims,
            "StorageClass": self.classes,
            "CSINode": self.csi_nodes,
            "CSIStorageCapacity": self.capacities,
        }  # type: ignore[dict-item]
        return tables[kind]
