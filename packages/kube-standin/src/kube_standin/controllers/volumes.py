"""Binding of volumes and claims: binding, loss, release, reclaim.

Rules: upstream's persistent volume controller. A claim gets the volume that is held for it, else the smallest available
one of its class that is large enough and fits its modes and labels. If the class waits for a consumer, the claim is
bound only after the scheduler has held a volume for it or selected a node. A claim without a volume is assigned to its
class's provisioner by an annotation. A volume without its claim is Released, and deleted if its policy is Delete; a
bound claim without its volume is Lost. Terms: a volume is *held* for a claim by its claimRef; the two are *bound* once
the claim names the volume, too.
"""

from __future__ import annotations

from typing import NamedTuple

from kube_rules.controllers.volumes import (
    WAIT_FOR_CONSUMER,
    best_volume,
    class_of,
    default_class,
    is_provisioned,
    refers_to,
)
from kube_rules.errors import FieldError
from kube_rules.json import Json
from kube_rules.quantity import QuantityError
from kube_rules.selectors import SelectorError
from kube_rules.storage import BIND_COMPLETED, BOUND_BY_CONTROLLER, CLASS_BETA, SELECTED_NODE
from kube_standin.controllers.reconciler import Controller
from kube_standin.controllers.views import Key, StorageClassView, VolumeClaimView, VolumeView

CLAIMS = "persistentvolumeclaims"
VOLUMES = "persistentvolumes"
CLASSES = "storage.k8s.io/storageclasses"
PROVISIONER = "volume.kubernetes.io/storage-provisioner"


class StorageItem(NamedTuple):
    """A claim or a volume (`namespace` "")."""

    resource: str
    namespace: str
    name: str


def reference_of(claim: VolumeClaimView) -> Json:
    """Return the claimRef of a volume that is held for a claim."""
    meta = claim.metadata
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
    }


class VolumeBinder(Controller):
    """The controller that binds volumes; keys are claims and volumes."""

    name = "persistentvolume-binder"

    def connect(self) -> None:
        """Queue claims and volumes that change, and unbound claims when a volume or class becomes usable for them."""
        sources = self.context.sources
        self._claim_row = self.context.kind("v1", "PersistentVolumeClaim")
        self._volume_row = self.context.kind("v1", "PersistentVolume")
        self._claims = sources.of(CLAIMS, VolumeClaimView)
        self._volumes = sources.of(VOLUMES, VolumeView)
        self._classes = sources.of(CLASSES, StorageClassView)
        self._claims.index("unbound", lambda claim: () if claim.item.spec.volume_name else (True,))
        self._volumes.index("claim", lambda volume: (key,) if (key := _claim_of(volume)) else ())
        self._volumes.index("class", lambda volume: (class_of(volume.item),))
        self._claims.add_handler(self._claim_changed)
        self._volumes.add_handler(self._volume_changed)
        self._classes.add_handler(lambda _old, _new: self._wake_unbound())

    def _claim_changed(self, old: VolumeClaimView | None, new: VolumeClaimView | None) -> None:
        current = new or old
        if current is None:
            return
        key = current.metadata.key
        if new is not None:
            self.queue(StorageItem(CLAIMS, *key))
        for volume in self._volumes.keys_by("claim", key):
            self.queue(StorageItem(VOLUMES, *volume))

    def _volume_changed(self, old: VolumeView | None, new: VolumeView | None) -> None:
        for volume in (old, new):
            claim = _claim_of(volume) if volume is not None else None
            if claim is not None:
                self.queue(StorageItem(CLAIMS, *claim))
        if new is not None:
            self.queue(StorageItem(VOLUMES, "", new.metadata.name))
            if _claim_of(new) is None and (
                old is None or old.item.status != new.item.status or old.item.spec != new.item.spec
            ):
                self._wake_unbound()

    def _wake_unbound(self) -> None:
        for key in self._claims.keys_by("unbound", True):
            self.queue(StorageItem(CLAIMS, *key))

    def reconcile(self, key: StorageItem) -> None:
        """Bind, provision, release or reclaim."""
        if key.resource == CLAIMS:
            claim = self._claims.items.get((key.namespace, key.name))
            if claim is not None:
                self._reconcile_claim(claim)
        else:
            volume = self._volumes.items.get(("", key.name))
            if volume is not None:
                self._reconcile_volume(volume)

    # -- claims

    def _reconcile_claim(self, claim: VolumeClaimView) -> None:
        named, annotations = claim.item.spec.volume_name, claim.item.metadata.annotations
        if BIND_COMPLETED in annotations:
            volume = self._volumes.items.get(("", named))
            if volume is None or not _held_for(volume, claim):
                self._lose(claim)
            else:
                self._bind(claim, volume)
            return
        if claim.metadata.deletion_timestamp:
            return
        if named:
            volume = self._volumes.items.get(("", named))
            if volume is not None and (_claim_of(volume) is None or _held_for(volume, claim)):
                self._bind(claim, volume)
            return
        unclassed = claim.item.spec.storage_class_name is None and CLASS_BETA not in annotations
        if unclassed and self._take_default(claim):
            return  # the claim is queued again with its class
        class_view = self._classes.items.get(("", class_of(claim.item)))
        storage_class = class_view.item if class_view is not None else None
        waits = storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_CONSUMER
        volume = self._match(claim, held_only=waits)
        if volume is not None:
            self._bind(claim, volume)
        elif waits and SELECTED_NODE not in annotations:
            return  # waits for the scheduler
        elif storage_class is not None and is_provisioned(storage_class):
            self._assign_provisioner(claim, storage_class.provisioner)

    def _take_default(self, claim: VolumeClaimView) -> bool:
        """Set the default class on a claim without a class, if there is one."""
        best = default_class(view.item for view in self._classes.items.values())
        if best is None:
            return False

        def change(obj: Json) -> None:
            obj["spec"]["storageClassName"] = best.name

        self.context.modify(self._claim_row, claim.metadata.key, change)
        return True

    def _match(self, claim: VolumeClaimView, *, held_only: bool) -> VolumeView | None:
        """Return the volume held for the claim, else the smallest available one that fits."""
        candidates = [self._volumes.items[key] for key in self._volumes.keys_by("class", class_of(claim.item))]
        offers = [(v.item, None if _claim_of(v) is None else _held_for(v, claim)) for v in candidates]
        try:
            best = best_volume(claim.item, offers, held_only=held_only)
        except (QuantityError, SelectorError, FieldError):
            return None
        return self._volumes.items["", best.name] if best is not None else None

    def _bind(self, claim: VolumeClaimView, volume: VolumeView) -> None:
        """Write both sides of a binding; sides that are already written do not change."""
        meta = claim.metadata
        held_before = _held_for(volume, claim)
        reference = reference_of(claim)

        def take(obj: Json) -> None:
            ref = obj["spec"].get("claimRef") or {}
            if any(ref.get(key) != value for key, value in reference.items()):
                obj["spec"]["claimRef"] = {**ref, **reference}
            if not held_before:
                obj["metadata"].setdefault("annotations", {})[BOUND_BY_CONTROLLER] = "yes"

        def name(obj: Json) -> None:
            notes = obj["metadata"].setdefault("annotations", {})
            if not obj["spec"].get("volumeName"):
                obj["spec"]["volumeName"] = volume.metadata.name
                notes[BOUND_BY_CONTROLLER] = "yes"
            notes[BIND_COMPLETED] = "yes"

        volumes, claims = self._volume_row, self._claim_row
        self.context.modify(volumes, volume.metadata.key, take)
        self._set_phase(volume, "Bound")
        self.context.modify(claims, meta.key, name)
        before = (self.context.find(claims, meta.key) or {}).get("status") or {}
        status = {
            **before,
            "phase": "Bound",
            "accessModes": list(volume.item.spec.access_modes),
            "capacity": volume.item.spec.capacity,
        }
        bound = self.context.find(volumes, volume.metadata.key) or {}
        attributes = (bound.get("spec") or {}).get("volumeAttributesClassName")
        if attributes and before.get("phase") != "Bound":  # later changes come by modifications
            status["currentVolumeAttributesClassName"] = attributes
        self.context.set_status(claims, meta.key, status)

    def _lose(self, claim: VolumeClaimView) -> None:
        if claim.item.status.phase == "Lost":
            return
        self.context.set_status(self._claim_row, claim.metadata.key, {"phase": "Lost"})
        lost = self.context.find(self._claim_row, claim.metadata.key)
        if lost is not None:
            text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
            self.context.event(lost, "ClaimLost", text, "Warning", "persistentvolume-controller")

    def _assign_provisioner(self, claim: VolumeClaimView, provisioner: str) -> None:
        if claim.item.metadata.annotations.get(PROVISIONER) == provisioner:
            return

        def change(obj: Json) -> None:
            obj["metadata"].setdefault("annotations", {})[PROVISIONER] = provisioner

        self.context.modify(self._claim_row, claim.metadata.key, change)

    # -- volumes

    def _reconcile_volume(self, volume: VolumeView) -> None:
        kind = self._volume_row
        key = volume.metadata.key
        owner = _claim_of(volume)
        ref = volume.item.spec.claim_ref
        claim = self._claims.items.get(owner) if owner is not None else None
        if owner is None or ref is None or not ref.uid:
            # Free, or held in advance for a future claim.
            if volume.item.status.phase != "Bound":
                self._set_phase(volume, "Available")
        elif claim is None or claim.metadata.uid != ref.uid:
            self._set_phase(volume, "Released")
            deleted = volume.metadata.deletion_timestamp is not None
            if volume.item.spec.persistent_volume_reclaim_policy == "Delete" and not deleted:
                self.context.delete(kind, key)
        elif claim.item.spec.volume_name == volume.metadata.name:
            self._set_phase(volume, "Bound")
        elif volume.item.status.phase == "Pending":
            self._set_phase(volume, "Available")

    def _set_phase(self, volume: VolumeView, phase: str) -> None:
        """Set a changed phase without message and reason; an unchanged phase keeps those that a client set."""
        stored = self.context.find(self._volume_row, volume.metadata.key)
        if stored is not None and (stored.get("status") or {}).get("phase") != phase:
            self.context.set_status(self._volume_row, volume.metadata.key, {"phase": phase})


def _claim_of(volume: VolumeView) -> Key | None:
    ref = volume.item.spec.claim_ref
    return (ref.namespace, ref.name) if ref is not None and ref.name else None


def _held_for(volume: VolumeView, claim: VolumeClaimView) -> bool:
    return refers_to(volume.item, claim.item.key, claim.metadata.uid)
