"""VolumeRestrictions: disks that cannot be mounted twice, and claims for only one pod.

Rules (kubernetes/kubernetes pkg/scheduler/framework/plugins/volumerestrictions):
- GCE persistent disks, RBD images and iSCSI targets are shared on a node only if all pods mount them read-only; an EBS
  disk is never shared.
- Only one pod in the cluster can use a claim with the access mode ReadWriteOncePod. That pod may be preempted.
- A claim that does not exist rejects the pod everywhere.
"""

from typing import ClassVar

import numpy as np

from reprieve.cluster.pod_volumes import InlineDisk
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.cluster.volumes import ONCE_POD, not_found
from reprieve.framework.events import ClusterEvent, EventKind, Hints, always, own_claim_came
from reprieve.framework.plugin import Codes, CycleState, FilterPlugin, Mask, Rows, Scope, row_count, row_numbers
from reprieve.framework.status import SKIP, SUCCESS, UNRESOLVABLE, UNSCHEDULABLE, Code, Status

DISK_CONFLICT = "node(s) had no available disk"
ONCE_POD_CONFLICT = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"

_RESTRICTED = frozenset({"gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd"})


def conflicting(ours: InlineDisk, theirs: InlineDisk) -> bool:
    """Return whether two pods cannot use these disks on one node."""
    if ours.source != theirs.source or ours.source not in _RESTRICTED or not ours.ids & theirs.ids:
        return False
    return not (ours.read_only and theirs.read_only)


class VolumeRestrictions(FilterPlugin):
    """See the module docstring. Reads the placements of the current view."""

    name = "VolumeRestrictions"
    scope: ClassVar[Scope] = Scope.CLUSTER

    def concerns(self, state: CycleState) -> bool:
        """Return whether the pod has restricted disks or claims."""
        volumes = state.pod.volumes
        return volumes is not None and (
            any(not claim.ephemeral for claim in volumes.claims) or any(d.source in _RESTRICTED for d in volumes.disks)
        )

    def pre_filter(self, state: CycleState) -> Status:
        """Skip pods without restricted disks and without exclusive or missing claims."""
        volumes = state.pod.volumes
        if volumes is None:
            return SKIP
        status = SUCCESS if any(disk.source in _RESTRICTED for disk in volumes.disks) else SKIP
        store = state.cluster.volumes
        for used in volumes.claims:
            if used.ephemeral:
                continue
            claim = store.claims.get(used.key)
            if claim is None:
                state.data[self.name] = rejection = Status(Code.UNRESOLVABLE, not_found(used.name), self.name)
                return rejection
            if ONCE_POD in claim.spec.access_modes:
                status = SUCCESS
        state.data[self.name] = status
        return status

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        if state.data.get(self.name, SUCCESS) != SUCCESS:
            return np.full(row_count(state.cluster, rows), UNRESOLVABLE, dtype=np.int8)
        disks = self._disk_conflicts(state, rows)
        if self._claimed(state):
            disks[:] = True
        return disks.astype(np.int8) * np.int8(UNSCHEDULABLE)

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        """See `FilterPlugin.reasons`; a disk conflict precedes a claim conflict."""
        status = state.data.get(self.name, SUCCESS)
        if isinstance(status, Status) and status != SUCCESS:
            return [(status.reason, np.ones(row_count(state.cluster, rows), dtype=np.bool_))]
        disks = self._disk_conflicts(state, rows)
        result = [(DISK_CONFLICT, disks)]
        if self._claimed(state):
            result.append((ONCE_POD_CONFLICT, ~disks))
        return result

    def _claimed(self, state: CycleState) -> bool:
        store, pod = state.cluster.volumes, state.pod
        for used in pod.volumes.claims if pod.volumes is not None else ():
            if not used.ephemeral and used.key in store.users:
                claim = store.claims.get(used.key)
                if claim is not None and ONCE_POD in claim.spec.access_modes:
                    return True
        return False

    @staticmethod
    def _disk_conflicts(state: CycleState, rows: Rows) -> Mask:
        nodes, volumes = state.cluster.nodes, state.pod.volumes
        numbers = row_numbers(state.cluster, rows)
        mask = np.zeros(len(numbers), dtype=np.bool_)
        wanted = [disk for disk in volumes.disks if disk.source in _RESTRICTED] if volumes is not None else []
        if wanted:
            for index, row in enumerate(numbers):
                mask[index] = any(_conflict(wanted, pod) for pod in nodes.pods[row].values())
        return mask

    def events(self) -> Hints:
        """Return the events of removed pods with the disk or claim, and of added nodes and claims."""
        return {
            EventKind.POD_GONE: _gave_something_back,
            EventKind.NODE_ADDED: always,
            EventKind.CLAIM_CHANGED: own_claim_came,
        }


def _conflict(wanted: list[InlineDisk], pod: PodRecord) -> bool:
    theirs = pod.volumes.disks if pod.volumes is not None else ()
    return any(conflicting(disk, their_disk) for disk in wanted for their_disk in theirs)


def _gave_something_back(_cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
    departed_pod = event.pod
    if departed_pod is None:
        return True
    if departed_pod.volumes is None or pod.volumes is None:
        return False
    keys = {claim.key for claim in departed_pod.volumes.claims}
    return any(claim.key in keys for claim in pod.volumes.claims) or _conflict(list(pod.volumes.disks), departed_pod)
