"""VolumeBinding: filter nodes by a pod's bound and unbound claims, and bind the claims.

Rules (kubernetes/kubernetes pkg/scheduler/framework/plugins/volumebinding): a claim that is missing, lost, being
deleted, or unbound with immediate binding rejects the pod everywhere. `reprieve.cluster.volume_matching` handles reach,
matching and provisioning. All failures are unresolvable: running pods do not affect a volume's binding, and the effect
of deleting pods cannot be predicted (preemption.md 3).

Reserve records the chosen volumes and nodes in the cache, so the next pod cannot take them. PreBind returns the writes
and waits. There is no score: upstream's is behind the gate StorageCapacityScoring, which is off.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kube_rules.controllers.volumes import refers_to
from kube_rules.meta import KubernetesObject
from kube_rules.storage import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.cluster.volume_matching import Matching, VolumeReach, delayed, match, volume_limit
from reprieve.cluster.volumes import (
    MIGRATED,
    Reservation,
    VolumeObjects,
    fully_bound,
    key_of,
    not_found,
)
from reprieve.framework.events import ClusterEvent, EventKind, Hints, about_own_claim, always
from reprieve.framework.instructions import AwaitObject, Instruction, PatchObject
from reprieve.framework.plugin import (
    Codes,
    CycleState,
    FilterPlugin,
    Mask,
    PreBindPlugin,
    ReservePlugin,
    Rows,
    Scope,
    row_count,
)
from reprieve.framework.status import SKIP, SUCCESS, UNRESOLVABLE, Code, Status

UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"


@dataclass(slots=True)
class _Claims:
    """A pod's claims by state; `matching` is computed on first use."""

    bound: list[PersistentVolumeClaim]
    waiting: list[PersistentVolumeClaim]
    matching: Matching | None = None


class VolumeBinding(FilterPlugin, ReservePlugin, PreBindPlugin):
    """See the module docstring. `timeout` (`bindTimeoutSeconds`): seconds within which volumes must be bound."""

    name = "VolumeBinding"
    scope: ClassVar[Scope] = Scope.CLUSTER

    def __init__(self, timeout: float = 600.0) -> None:
        self._timeout = timeout
        self._reach = VolumeReach()

    # -- filter ------------------------------------------------------------------------------------------------------

    def concerns(self, state: CycleState) -> bool:
        """Return whether the pod has claims."""
        volumes = state.pod.volumes
        return volumes is not None and bool(volumes.claims)

    def pre_filter(self, state: CycleState) -> Status:
        """Sort the claims; a problem that no node can solve rejects the pod everywhere."""
        if not self.concerns(state):
            return SKIP
        claims = _sorted_claims(state.cluster, state.pod)
        state.data[self.name] = claims
        return Status(Code.UNRESOLVABLE, claims, self.name) if isinstance(claims, str) else SUCCESS

    def filter(self, state: CycleState, rows: Rows) -> Codes:
        claims = self._claims(state)
        if isinstance(claims, str):
            return np.full(row_count(state.cluster, rows), UNRESOLVABLE, dtype=np.int8)
        rejected = self._matching(state).rejected(len(state.cluster.nodes))
        return rejected[rows].astype(np.int8) * np.int8(UNRESOLVABLE)

    def reasons(self, state: CycleState, rows: Rows) -> list[tuple[str, Mask]]:
        """See `FilterPlugin.reasons`; a node may have several reasons."""
        claims = self._claims(state)
        if isinstance(claims, str):
            return [(claims, np.ones(row_count(state.cluster, rows), dtype=np.bool_))]
        return [(text, mask[rows]) for text, mask in self._matching(state).reasons.items()]

    def _claims(self, state: CycleState) -> _Claims | str:
        if self.name not in state.data:
            self.pre_filter(state)
        result = state.data.get(self.name, "")
        assert isinstance(result, _Claims | str)
        return result

    def _matching(self, state: CycleState) -> Matching:
        claims = self._claims(state)
        assert isinstance(claims, _Claims)
        if claims.matching is None:
            claims.matching = match(state.cluster, self._reach, claims.bound, claims.waiting)
        return claims.matching

    # -- reserve, bind -----------------------------------------------------------------------------------------------

    def reserve(self, state: CycleState, row: int) -> Status:
        """Reserve the volumes for the claims and the node for provisioning."""
        if not self.concerns(state):
            return SUCCESS
        cluster, pod = state.cluster, state.pod
        status = self.pre_filter(state)
        if not status.ok:
            return status
        claims = state.data[self.name]
        assert isinstance(claims, _Claims)
        if not claims.waiting:
            return SUCCESS
        matching = self._matching(state)
        reason = next((text for text, mask in matching.reasons.items() if mask[row]), None)
        if reason is not None:
            return Status(Code.UNRESOLVABLE, reason, self.name)
        store = cluster.volumes
        volumes, rest = matching.on_row(row)
        ours = {claim: v.metadata.name for claim, v in volumes.items() if not _in_hand(store, claim, v)}
        theirs = [claim for claim in volumes if claim not in ours]
        provisioned = tuple(key_of(claim) for claim in rest if store.node_of(claim) is None)
        theirs += [key_of(claim) for claim in rest if key_of(claim) in store.selected]
        again = tuple(
            key_of(claim) for claim in rest if key_of(claim) not in provisioned and key_of(claim) not in theirs
        )
        node = cluster.nodes.names[row]
        store.reserve(pod.uid, Reservation(node, ours, provisioned + again, tuple(sorted(theirs))))
        return SUCCESS

    def unreserve(self, state: CycleState, row: int) -> None:
        """Release the reservation."""
        state.cluster.volumes.give_back(state.pod.uid)

    def pre_bind(self, state: CycleState, row: int) -> Sequence[Instruction]:
        """Return the writes of claimRefs and selected nodes, and the waits for bindings."""
        cluster = state.cluster
        store = cluster.volumes
        reservation = store.reservations.get(state.pod.uid)
        if reservation is None:
            return ()
        writes: list[Instruction] = []
        waits: list[Instruction] = []
        for key, name in reservation.volumes.items():
            claim, volume = store.claims.get(key), store.volumes.get(name)
            if claim is None or volume is None:
                raise LookupError(f"claim {key} or volume {name} is gone")
            writes.append(_bind_volume(volume, claim))
            waits.append(self._wait(cluster, key, row, reservation.node, chosen=False))
        for key in reservation.provisioned:
            claim = store.claims.get(key)
            if claim is None:
                raise LookupError(f"claim {key} is gone")
            if SELECTED_NODE not in claim.metadata.annotations:
                writes.append(_choose_node(claim, reservation.node))
            waits.append(self._wait(cluster, key, row, reservation.node, chosen=True))
        waits += [self._wait(cluster, key, row, reservation.node, chosen=False) for key in reservation.awaited]
        return (*writes, *waits)

    def _wait(self, cluster: ClusterState, key: str, row: int, node: str, *, chosen: bool) -> AwaitObject:
        namespace, _, name = key.partition("/")
        progress = _Progress(cluster, name, row, node, chosen=chosen)
        return AwaitObject("PersistentVolumeClaim", namespace, name, progress, self._timeout)

    def events(self) -> Hints:
        """Return the events of the pod's claims, volumes, classes, capacity, nodes and their labels."""
        return {
            EventKind.NODE_ADDED: always,
            EventKind.NODE_CHANGED: always,
            EventKind.STORAGE_CLASS_CHANGED: _class_allows_more,
            EventKind.CLAIM_CHANGED: about_own_claim,
            EventKind.VOLUME_CHANGED: lambda _, __, event: event.item is not None,
            EventKind.CSI_NODE_CHANGED: _migrated_otherwise,
            EventKind.STORAGE_CAPACITY_CHANGED: _more_capacity,
            EventKind.CSI_DRIVER_CHANGED: _more_capacity,
            EventKind.POD_GONE: _gave_volumes_back,
        }


class _Progress:
    """The progress of a claim's binding; see `AwaitObject.done`.

    `chosen`: the claim has a selected node; losing it means that provisioning failed.
    """

    def __init__(self, cluster: ClusterState, name: str, row: int, node: str, *, chosen: bool) -> None:
        self._cluster = cluster
        self._reach = VolumeReach()
        self._name = name
        self._row = row
        self._node = node
        self._chosen = chosen
        self._seen = False
        """The selected node was observed: an observed object may be older than the write."""

    def __call__(self, item: KubernetesObject | None) -> Status:
        if not isinstance(item, PersistentVolumeClaim):
            return self._failed(f"failed to check binding: {not_found(self._name)}")
        if self._chosen and not fully_bound(item):
            noted = item.metadata.annotations.get(SELECTED_NODE)
            if (noted is not None and noted != self._node) or (noted is None and self._seen):
                return self._failed(f'provisioning failed for PVC "{self._name}"')
            self._seen = self._seen or noted is not None
        if not fully_bound(item):
            return Status(Code.WAIT)
        volume = self._cluster.volumes.volumes.get(item.spec.volume_name)
        if volume is None:
            return Status(Code.WAIT)  # the claim's event may arrive before the volume's
        rows = self._reach.rows(self._cluster, volume)
        if rows is not None and self._row not in rows:
            return self._failed(f'pv "{volume.metadata.name}" node affinity doesn\'t match node "{self._node}"')
        return SUCCESS

    @staticmethod
    def _failed(reason: str) -> Status:
        return Status(Code.ERROR, f"binding volumes: {reason}", VolumeBinding.name)


def _sorted_claims(cluster: ClusterState, pod: PodRecord) -> _Claims | str:
    """Return the pod's claims, or why no node is feasible, checked volume by volume."""
    store = cluster.volumes
    claims = _Claims([], [])
    names: set[str] = set()
    for used in pod.volumes.claims if pod.volumes is not None else ():
        claim = store.claims.get(used.key)
        if claim is None:
            if used.ephemeral:
                return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{used.name}"'
            return not_found(used.name)
        if claim.status.phase == "Lost":
            volume = claim.spec.volume_name
            return f'persistentvolumeclaim "{used.name}" bound to non-existent persistentvolume "{volume}"'
        if claim.metadata.deletion_timestamp is not None:
            return f'persistentvolumeclaim "{used.name}" is being deleted'
        if used.ephemeral and not any(o.controller and o.uid == pod.uid for o in claim.metadata.owner_references):
            return f"PVC {used.key} was not created for pod {pod.key} (pod is not owner)"
    immediate = False
    for used in pod.volumes.claims if pod.volumes is not None else ():
        if used.key in names:
            continue
        names.add(used.key)
        claim = store.claims[used.key]
        if fully_bound(claim):
            claims.bound.append(claim)
        elif delayed(store, claim):
            claims.waiting.append(claim)
        else:
            immediate = True
    return UNBOUND_IMMEDIATE if immediate else claims


def _in_hand(store: VolumeObjects, claim: str, volume: PersistentVolume) -> bool:
    """Return whether the binding is already requested and only needs completion."""
    ref = volume.spec.claim_ref
    return volume.metadata.name in store.kept or (
        ref is not None and bool(ref.uid) and ref.uid == store.claims[claim].metadata.uid
    )


def _bind_volume(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PatchObject:
    """Return the patch of the volume's claimRef, marked as the controller's binding if not reserved before."""
    meta = claim.metadata
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": meta.namespace or "default",
        "name": meta.name,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
    }
    patch: dict[str, object] = {"spec": {"claimRef": {key: value for key, value in reference.items() if value}}}
    if not refers_to(volume, key_of(claim), meta.uid):
        patch["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
    pv = volume.metadata
    return PatchObject("PersistentVolume", "", pv.name, patch, uid=pv.uid, resource_version=pv.resource_version)


def _choose_node(claim: PersistentVolumeClaim, node: str) -> PatchObject:
    meta = claim.metadata
    return PatchObject(
        "PersistentVolumeClaim",
        meta.namespace or "default",
        meta.name,
        {"metadata": {"annotations": {SELECTED_NODE: node}}},
        uid=meta.uid,
        resource_version=meta.resource_version,
    )


def _class_allows_more(_cluster: ClusterState, _pod: PodRecord, event: ClusterEvent) -> bool:
    new, old = event.item, event.before
    if not isinstance(new, StorageClass):
        return False
    return not isinstance(old, StorageClass) or new.allowed_topologies != old.allowed_topologies


def _migrated_otherwise(_cluster: ClusterState, _pod: PodRecord, event: ClusterEvent) -> bool:
    if event.item is None:
        return False
    before = event.before.metadata.annotations.get(MIGRATED) if event.before is not None else None
    return event.before is None or event.item.metadata.annotations.get(MIGRATED) != before


def _more_capacity(_cluster: ClusterState, _pod: PodRecord, event: ClusterEvent) -> bool:
    """Return whether capacity was added or increased, or a driver stopped publishing it."""
    if not isinstance(event.item, CSIStorageCapacity):
        return not isinstance(event.before, CSIStorageCapacity)
    if not isinstance(event.before, CSIStorageCapacity):
        return True
    new, old = volume_limit(event.item), volume_limit(event.before)
    return new is not None and (old is None or new > old)


def _gave_volumes_back(_cluster: ClusterState, _pod: PodRecord, event: ClusterEvent) -> bool:
    """Return whether a pod with claims lost its place: no other event reports volumes of failed bindings."""
    return event.pod is None or (event.pod.volumes is not None and bool(event.pod.volumes.claims))
