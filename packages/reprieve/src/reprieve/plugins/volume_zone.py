"""VolumeZone: match a bound volume's zone and region labels with those of the node.

Rules (kubernetes/kubernetes pkg/scheduler/framework/plugins/volumezone):
- The labels are `topology.kubernetes.io/zone` and `region` and their beta forms. A beta label of a volume also matches
  the node's current label. A volume's value may name several zones, joined by `__`.
- A node with none of these labels is in a cluster without zones and accepts any volume.
- Claims that wait for their pod have no zone yet. Evicting pods does not help.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from kube_rules.controllers.volumes import WAIT_FOR_CONSUMER, class_of
from kube_rules.storage import PersistentVolume, StorageClass
from kube_rules.topology_terms import REGION, ZONE
from reprieve.cluster.nodes import ABSENT, NodeColumns
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.cluster.volumes import not_found
from reprieve.framework.events import ClusterEvent, EventKind, Hints, about_own_claim, always
from reprieve.framework.plugin import Codes, CycleState, FilterPlugin, Mask, Rows, Scope, row_count
from reprieve.framework.status import SKIP, SUCCESS, UNRESOLVABLE, Code, Status

ZONE_CONFLICT = "node(s) had no available volume zone"

_NOW: Final = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
}
LABELS: Final = (*_NOW, *_NOW.values())


@dataclass(frozen=True, slots=True)
class _LabelRequirement:
    """The values of a node label that a volume requires."""

    label: str
    values: frozenset[str]


class VolumeZone(FilterPlugin):
    """See the module docstring."""

    name = "VolumeZone"
    scope: ClassVar[Scope] = Scope.CLUSTER
    incremental: ClassVar[bool] = True
    by_nodes: ClassVar[bool] = True

    def concerns(self, state: CycleState) -> bool:
        """Return whether the pod has claims that are not ephemeral."""
        volumes = state.pod.volumes
        return volumes is not None and any(not claim.ephemeral for claim in volumes.claims)

    def pre_filter(self, state: CycleState) -> Status:
        """Look up the volumes; a failed lookup rejects the pod everywhere."""
        if not self.concerns(state):
            return SKIP
        requirements = _wanted(state.cluster, state.pod)
        state.data[self.name] = requirements
        if isinstance(requirements, str):
            return Status(Code.UNRESOLVABLE, requirements, self.name)
        return SUCCESS if requirements else SKIP

    def add_pod(self, state: CycleState, pod: PodRecord, row: int) -> bool:
        """Return False, because placements do not matter."""
        return False

    def remove_pod(self, state: CycleState, pod: PodRecord, row: int) -> bool:
        """Return False, because placements do not matter."""
        return False

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        requirements = self._requirements(state)
        if isinstance(requirements, str):
            return np.full(row_count(state.cluster, rows), UNRESOLVABLE, dtype=np.int8)
        return _mismatch(state.cluster.nodes, requirements)[rows].astype(np.int8) * np.int8(UNRESOLVABLE)

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        requirements = self._requirements(state)
        return [(requirements if isinstance(requirements, str) else ZONE_CONFLICT, self.filter(state, rows) != 0)]

    def _requirements(self, state: CycleState) -> "tuple[_LabelRequirement, ...] | str":
        if self.name not in state.data:
            self.pre_filter(state)
        result = state.data.get(self.name, ())
        assert isinstance(result, tuple | str)
        return result

    def events(self) -> Hints:
        """Return the events of nodes, of classes that wait for pods, and of the pod's claims and volumes."""
        return {
            EventKind.NODE_ADDED: always,
            EventKind.NODE_CHANGED: always,
            EventKind.STORAGE_CLASS_CHANGED: _waiting_class_came,
            EventKind.CLAIM_CHANGED: about_own_claim,
            EventKind.VOLUME_CHANGED: _volume_moved,
        }


def _wanted(cluster: ClusterState, pod: PodRecord) -> tuple[_LabelRequirement, ...] | str:
    """Return the requirements of the bound volumes, or why they are unknown."""
    store = cluster.volumes
    wanted: list[_LabelRequirement] = []
    for used in pod.volumes.claims if pod.volumes is not None else ():
        if used.ephemeral:
            continue
        if not used.name:
            return "PersistentVolumeClaim had no name"
        claim = store.claims.get(used.key)
        if claim is None:
            return not_found(used.name)
        name = claim.spec.volume_name
        if not name:
            class_name = class_of(claim)
            if not class_name:
                return "PersistentVolumeClaim had no pv name and storageClass name"
            storage_class = store.classes.get(class_name)
            if storage_class is None:
                return f'storageclass.storage.k8s.io "{class_name}" not found'
            if storage_class.volume_binding_mode == WAIT_FOR_CONSUMER:
                continue
            return "PersistentVolume had no name"
        volume = store.volumes.get(name)
        if volume is None:
            return f'persistentvolume "{name}" not found'
        wanted += _zones(volume)
    return tuple(wanted)


def _zones(volume: PersistentVolume) -> list[_LabelRequirement]:
    result = []
    for key in LABELS:
        text = volume.metadata.labels.get(key)
        if text is not None:
            values = [part.strip() for part in text.split("__")]
            if all(values):  # an invalid value is ignored
                result.append(_LabelRequirement(key, frozenset(values)))
    return result


def _mismatch(nodes: NodeColumns, wanted: tuple[_LabelRequirement, ...]) -> Mask:
    n = len(nodes)
    zoned = np.zeros(n, dtype=np.bool_)
    for key in LABELS:
        zoned |= nodes.label_column(key)[0] != ABSENT
    wrong = np.zeros(n, dtype=np.bool_)
    for item in wanted:
        column, numbers = nodes.label_column(item.label)
        good = _among(column, numbers, item.values)
        today = _NOW.get(item.label)
        if today is not None:
            newer, names = nodes.label_column(today)
            good |= (column == ABSENT) & _among(newer, names, item.values)
        wrong |= ~good
    return zoned & wrong


def _among(
    column: "np.ndarray[tuple[int], np.dtype[np.int32]]", numbers: dict[str, int], values: frozenset[str]
) -> Mask:
    wanted = [numbers[value] for value in values if value in numbers]
    mask: Mask = np.isin(column, np.array(wanted, dtype=np.int32))
    return mask


def _waiting_class_came(_cluster: ClusterState, _pod: PodRecord, event: ClusterEvent) -> bool:
    new = event.item
    return event.before is None and isinstance(new, StorageClass) and new.volume_binding_mode == WAIT_FOR_CONSUMER


def _volume_moved(_cluster: ClusterState, _pod: PodRecord, event: ClusterEvent) -> bool:
    if not isinstance(event.item, PersistentVolume):
        return False
    return not isinstance(event.before, PersistentVolume) or _zones(event.before) != _zones(event.item)
