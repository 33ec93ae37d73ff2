"""Volumes in simulated time: the actions of the volume controllers and a provisioner.

- The claim of a generic ephemeral volume is created and deleted with the pod.
- Writes of PreBind take effect at once: a volume with a claimRef and its claim become bound, and a claim with a
  selected node is provisioned. Waits are evaluated immediately afterwards.
- A volume of a CSI driver is reachable from nodes with the same values of the driver's topology keys. If the driver
  publishes capacities, the first one that is large enough shrinks by the size.
- A claim without a class gets the default class. A new claim (without a UID) that does not wait for a pod is bound or
  provisioned as soon as possible. An existing unbound claim stays unbound, because the reason is unknown.
- A volume is detached from a node when its last pod there is deleted. A volume that is initially attached without users
  stays attached, because the reason is unknown.
- Deleting a claim deletes its volume if the reclaim policy is Delete; otherwise the volume becomes Released.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.controllers.claims import volume_claim
from kube_rules.controllers.volumes import (
    WAIT_FOR_CONSUMER,
    best_volume,
    class_of,
    default_class,
    is_provisioned,
    refers_to,
    storage,
    topology_terms,
)
from kube_rules.meta import ObjectRef
from kube_rules.quantity import format_quantity, value_of
from kube_rules.selectors import compile_label_selector
from kube_rules.storage import (
    BIND_COMPLETED,
    SELECTED_NODE,
    CSIPersistentVolumeSource,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    VolumeNodeAffinity,
)
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.volumes import (
    VolumeObject,
    fully_bound,
    key_of,
)
from reprieve.framework.instructions import AwaitObject, Instruction, PatchObject
from reprieve.framework.status import SUCCESS, Code, Status
from reprieve.scheduling.effects import Effects
from reprieve.scheduling.engine import Engine
from reprieve.simulation.controllers.claims import pod_owner

_NANO = 1_000_000_000
T = TypeVar("T", PersistentVolume, PersistentVolumeClaim)


class Storage:
    """The volumes and claims of the virtual cluster; the engine observes every change."""

    def __init__(self, engine: Engine, effects: Callable[[Effects], None]) -> None:
        self._engine = engine
        self._effects = effects
        self._store = engine.cluster.volumes
        self._new: dict[str, None] = {}
        """New claims that are not bound."""

    def set(self, item: VolumeObject, now: float) -> None:
        """Add or update an object."""
        if isinstance(item, PersistentVolumeClaim) and not item.metadata.uid and not fully_bound(item):
            item = replace(item, metadata=replace(item.metadata, uid=f"claim/{key_of(item)}"))
            self._new[key_of(item)] = None
        self._effects(self._engine.set(item, now))
        for key in list(self._new):
            self._bind_new(key, now)

    def remove(self, kind: str, namespace: str, name: str, now: float) -> bool:
        """Delete an object; return whether it existed."""
        claim = self._store.claims.get(f"{namespace or 'default'}/{name}") if kind == "PersistentVolumeClaim" else None
        effects = self._engine.remove(ObjectRef(kind, f"{namespace or 'default'}/{name}"), now)
        self._effects(effects)
        if claim is not None:
            self._new.pop(key_of(claim), None)
            self._reclaim(claim, now)
        return effects.known

    def prepare(self, pod: objects.Pod, now: float) -> None:
        """Create the claims of the pod's generic ephemeral volumes."""
        meta = pod.metadata
        namespace = meta.namespace or "default"
        for volume in pod.spec.volumes:
            if volume.ephemeral is None or f"{namespace}/{meta.name}-{volume.name}" in self._store.claims:
                continue
            template = msgspec.to_builtins(volume.ephemeral.volume_claim_template)
            owner = pod_owner(meta.name, meta.uid or f"{namespace}/{meta.name}")
            claim = volume_claim(template, owner, volume.name)
            claim["metadata"]["namespace"] = namespace
            self.set(msgspec.convert(claim, PersistentVolumeClaim), now)

    def gone(self, pod: PodRecord, node: str, now: float) -> None:
        """Detach the volumes of a pod that has ended or left `node`, and delete its ephemeral claims."""
        if node:
            self._detach(pod, node, now)
        for used in pod.volumes.claims if pod.volumes is not None else ():
            claim = self._store.claims.get(used.key)
            if used.ephemeral and claim is not None and any(o.uid == pod.uid for o in claim.metadata.owner_references):
                self.remove("PersistentVolumeClaim", pod.namespace, used.name, now)

    def _detach(self, pod: PodRecord, node: str, now: float) -> None:
        """Detach the volumes that no pod on the node uses."""
        row = self._engine.cluster.nodes.row_of.get(node, -1)
        claims = [self._store.claims.get(used.key) for used in pod.volumes.claims] if pod.volumes is not None else []
        names = {claim.spec.volume_name for claim in claims if claim is not None and claim.spec.volume_name}
        for name in sorted(names):
            for attachment in self._store.attachments_of(name):
                if attachment.spec.node_name == node and not self._store.used_on(name, row):
                    self._effects(self._engine.remove(attachment.ref, now))

    def carry_out(self, instructions: Iterable[Instruction], now: float) -> Status:
        """Perform writes and waits; return SUCCESS, or why the pod cannot be bound."""
        for instruction in instructions:
            if isinstance(instruction, PatchObject) and instruction.kind == "PersistentVolume":
                volume = self._store.volumes.get(instruction.name)
                if volume is None:
                    return Status(Code.ERROR, f'persistentvolume "{instruction.name}" not found')
                self._volume_written(_patched(volume, instruction.patch), now)
            elif isinstance(instruction, PatchObject) and instruction.kind == "PersistentVolumeClaim":
                claim = self._store.claims.get(f"{instruction.namespace}/{instruction.name}")
                if claim is None:
                    return Status(Code.ERROR, f'persistentvolumeclaim "{instruction.name}" not found')
                self._claim_written(_patched(claim, instruction.patch), now)
            elif isinstance(instruction, AwaitObject) and instruction.kind == "PersistentVolumeClaim":
                awaited_claim = self._store.claims.get(f"{instruction.namespace}/{instruction.name}")
                status = instruction.done(awaited_claim)
                if not status.ok:
                    text = status.reason or f'binding volumes: timed out waiting for claim "{instruction.name}"'
                    return Status(Code.ERROR, text, status.plugin)
        return SUCCESS

    # -- the controllers -----------------------------------------------------------------------------

    def _volume_written(self, volume: PersistentVolume, now: float) -> None:
        self._effects(self._engine.set(volume, now))
        ref = volume.spec.claim_ref
        claim = self._store.claims.get(f"{ref.namespace or 'default'}/{ref.name}") if ref is not None else None
        if claim is not None and refers_to(volume, key_of(claim), claim.metadata.uid):
            self._bind(claim, volume, now)

    def _claim_written(self, claim: PersistentVolumeClaim, now: float) -> None:
        self._effects(self._engine.set(claim, now))
        node = claim.metadata.annotations.get(SELECTED_NODE)
        storage_class = self._store.classes.get(class_of(claim))
        if node is not None and not fully_bound(claim) and storage_class is not None:
            self._provision(claim, storage_class, node, now)

    def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume, now: float) -> None:
        """Bind a claim and a volume to each other."""
        meta = claim.metadata
        ref = ObjectReference(
            kind="PersistentVolumeClaim", namespace=meta.namespace or "default", name=meta.name, uid=meta.uid
        )
        volume = replace(volume, spec=replace(volume.spec, claim_ref=ref), status=PersistentVolumeStatus(phase="Bound"))
        claim = replace(
            claim,
            metadata=replace(meta, annotations={**meta.annotations, BIND_COMPLETED: "yes"}),
            spec=replace(claim.spec, volume_name=volume.metadata.name),
            status=replace(claim.status, phase="Bound", capacity=volume.spec.capacity),
        )
        self._new.pop(key_of(claim), None)
        self._effects(self._engine.set(volume, now))
        self._effects(self._engine.set(claim, now))

    def _provision(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, node: str | None, now: float
    ) -> None:
        """Create a volume as the class's provisioner would; `node` None: for all nodes."""
        name = f"pvc-{claim.metadata.namespace or 'default'}-{claim.metadata.name}"
        volume = PersistentVolume(
            metadata=objects.ObjectMeta(name=name, uid=f"volume/{name}"),
            spec=PersistentVolumeSpec(
                capacity=claim.spec.resources.requests,
                access_modes=claim.spec.access_modes,
                storage_class_name=storage_class.metadata.name,
                volume_mode=claim.spec.volume_mode,
                csi=CSIPersistentVolumeSource(driver=storage_class.provisioner, volume_handle=name),
                persistent_volume_reclaim_policy=storage_class.reclaim_policy,
                node_affinity=self._topology(storage_class, node),
            ),
        )
        if node is not None:
            self._shrink(claim, storage_class, node, now)
        self._bind(claim, volume, now)

    def _topology(self, storage_class: StorageClass, node: str | None) -> VolumeNodeAffinity | None:
        csi_node = self._store.csi_nodes.get(node or "")
        row = self._engine.cluster.nodes.row_of.get(node or "")
        drivers = csi_node.spec.drivers if csi_node is not None else ()
        keys = next((driver.topology_keys for driver in drivers if driver.name == storage_class.provisioner), ())
        terms = topology_terms(storage_class, keys, self._engine.cluster.nodes.labels[row] if row is not None else {})
        return VolumeNodeAffinity(required=objects.NodeSelector(node_selector_terms=terms)) if terms else None

    def _shrink(self, claim: PersistentVolumeClaim, storage_class: StorageClass, node: str, now: float) -> None:
        driver = self._store.drivers.get(storage_class.provisioner)
        row = self._engine.cluster.nodes.row_of.get(node)
        size = storage(claim.spec.resources.requests)
        if driver is None or not driver.spec.storage_capacity or row is None:
            return
        labels = self._engine.cluster.nodes.labels[row]
        for _, c in sorted(self._store.capacities.items()):
            if c.storage_class_name != storage_class.metadata.name or c.node_topology is None or c.capacity is None:
                continue
            left = value_of(c.capacity) - size
            if left >= 0 and compile_label_selector(c.node_topology).matches(labels):
                self._effects(self._engine.set(replace(c, capacity=format_quantity(left * _NANO)), now))
                return

    def _bind_new(self, key: str, now: float) -> None:
        """Bind or provision a new claim, as the controllers do."""
        claim = self._store.claims[key]
        if claim.spec.storage_class_name is None:
            default = default_class(self._store.classes.values())
            if default is None:
                return
            claim = replace(claim, spec=replace(claim.spec, storage_class_name=default.name))
            self._effects(self._engine.set(claim, now))
        storage_class, named = self._store.classes.get(class_of(claim)), claim.spec.volume_name
        waits = storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_CONSUMER
        if named:
            volume = self._store.volumes.get(named)
        else:
            candidates = self._store.by_class.get(class_of(claim), {}).values()
            offers = ((candidate, self._store.has_volume_for(candidate, claim)) for candidate in candidates)
            volume = best_volume(claim, offers, held_only=waits)
        if volume is not None and self._store.has_volume_for(volume, claim) is not False:
            self._bind(claim, volume, now)
        elif volume is None and not named and storage_class is not None and not waits and is_provisioned(storage_class):
            self._provision(claim, storage_class, None, now)

    def _reclaim(self, claim: PersistentVolumeClaim, now: float) -> None:
        volume = self._store.volumes.get(claim.spec.volume_name)
        if volume is None or not refers_to(volume, key_of(claim), claim.metadata.uid):
            return
        if volume.spec.persistent_volume_reclaim_policy == "Delete":
            self._effects(self._engine.remove(volume.ref, now))
        else:
            self._effects(self._engine.set(replace(volume, status=PersistentVolumeStatus(phase="Released")), now))


def _patched(item: T, patch: Mapping[str, Any]) -> T:
    return msgspec.convert(_merged(msgspec.to_builtins(item), patch), type(item), strict=False)


def _merged(into: Any, patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON merge patch result (RFC 7386)."""
    result = dict(into) if isinstance(into, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            result[key] = _merged(result.get(key), value)
        else:
            result[key] = value
    return result
