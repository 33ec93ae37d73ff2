"""Volumes and claims find each other: binding, loss, release, reclaim.

Rules: upstream's persistent volume controller. A claim takes the volume that is held for it, else the smallest that
is available, of its class, large enough and of its modes and labels; a claim whose class waits for a pod is bound only
once the scheduler has held a volume for it or chosen a node. A claim that finds nothing is handed to its class's
provisioner by an annotation. A volume whose claim is gone is Released, and deleted if that is its policy; a bound claim
whose volume is gone is Lost. Terms: a volume is *held* for a claim by its claimRef; the two are *bound* once the claim
names the volume, too.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from kube_rules.errors import FieldError
from kube_rules.json import Json
from kube_rules.quantity import QuantityError, value_of
from kube_rules.selectors import SelectorError, compile_selector
from kube_standin.controllers.reconciling import Controller
from kube_standin.controllers.views import Key, StorageSeen

CLAIMS = "persistentvolumeclaims"
VOLUMES = "persistentvolumes"
CLASSES = "storage.k8s.io/storageclasses"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
_CLASS_BETA = "volume.beta.kubernetes.io/storage-class"


class Item(NamedTuple):
    """A claim or a volume (`namespace` "")."""

    resource: str
    namespace: str
    name: str


def class_of(view: StorageSeen) -> str | None:
    """The name of a claim's or volume's class; None if a claim leaves it to the cluster."""
    beta = view.annotations.get(_CLASS_BETA)
    found: str | None = beta if beta is not None else view.spec.get("storageClassName")
    return found


def size_of(amounts: Json | None) -> int:
    """Bytes of storage; 0 without an amount."""
    text = (amounts or {}).get("storage")
    return value_of(text) if text is not None else 0


def reference_of(claim: StorageSeen) -> Json:
    """The claimRef of a volume that is held for a claim."""
    meta = claim.metadata
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
    }


class VolumeBinder(Controller):
    """Keys are claims and volumes."""

    name = "persistentvolume-binder"

    def connect(self) -> None:
        """Queue a claim or volume that changes, and those waiting when something comes that they can have."""
        sources = self.context.sources
        self._claim_row = self.context.kind("v1", "PersistentVolumeClaim")
        self._volume_row = self.context.kind("v1", "PersistentVolume")
        self._claims = sources.of(CLAIMS, StorageSeen)
        self._volumes = sources.of(VOLUMES, StorageSeen)
        self._classes = sources.of(CLASSES, StorageSeen)
        self._claims.index("unbound", lambda one: () if one.spec.get("volumeName") else (True,))
        self._volumes.index("claim", lambda one: (_claim_of(one),) if _claim_of(one) else ())
        self._volumes.index("class", lambda one: (class_of(one) or "",))
        self._claims.add_handler(self._claim_changed)
        self._volumes.add_handler(self._volume_changed)
        self._classes.add_handler(lambda _old, _new: self._wake_unbound())

    def _claim_changed(self, old: StorageSeen | None, new: StorageSeen | None) -> None:
        seen = new or old
        if seen is None:
            return
        key = seen.metadata.key
        if new is not None:
            self.queue(Item(CLAIMS, *key))
        for volume in self._volumes.keys_by("claim", key):
            self.queue(Item(VOLUMES, *volume))

    def _volume_changed(self, old: StorageSeen | None, new: StorageSeen | None) -> None:
        for seen in (old, new):
            claim = _claim_of(seen) if seen is not None else None
            if claim is not None:
                self.queue(Item(CLAIMS, *claim))
        if new is not None:
            self.queue(Item(VOLUMES, "", new.metadata.name))
            if _claim_of(new) is None and (old is None or old.phase != new.phase or old.spec != new.spec):
                self._wake_unbound()

    def _wake_unbound(self) -> None:
        for key in self._claims.keys_by("unbound", True):
            self.queue(Item(CLAIMS, *key))

    def reconcile(self, key: Item) -> None:
        """Bind, hand over, release or reclaim."""
        if key.resource == CLAIMS:
            claim = self._claims.items.get((key.namespace, key.name))
            if claim is not None:
                self._reconcile_claim(claim)
        else:
            volume = self._volumes.items.get(("", key.name))
            if volume is not None:
                self._reconcile_volume(volume)

    # -- claims

    def _reconcile_claim(self, claim: StorageSeen) -> None:
        named = claim.spec.get("volumeName")
        if BIND_COMPLETED in claim.annotations:
            volume = self._volumes.items.get(("", named or ""))
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
        if class_of(claim) is None and self._take_default(claim):
            return  # it is queued again with its class
        found = self._classes.items.get(("", class_of(claim) or ""))
        waits = found is not None and found.fields.get("volumeBindingMode") == "WaitForFirstConsumer"
        chosen = SELECTED_NODE in claim.annotations
        volume = self._match(claim, held_only=waits)
        if volume is not None:
            self._bind(claim, volume)
        elif waits and not chosen:
            return  # the scheduler's turn
        elif found is not None and found.fields.get("provisioner") not in (None, "", NO_PROVISIONER):
            self._hand_over(claim, str(found.fields["provisioner"]))

    def _take_default(self, claim: StorageSeen) -> bool:
        """Give a claim without a class the newest default class, if there is one."""
        marked = [one for one in self._classes.items.values() if one.annotations.get(DEFAULT_CLASS) == "true"]
        if not marked:
            return False
        best = max(marked, key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name))

        def change(obj: Json) -> None:
            obj["spec"]["storageClassName"] = best.metadata.name

        self.context.modify(self._claim_row, claim.metadata.key, change)
        return True

    def _match(self, claim: StorageSeen, *, held_only: bool) -> StorageSeen | None:
        """The volume held for the claim, else the smallest that is free and fits."""
        try:
            wanted = size_of((claim.spec.get("resources") or {}).get("requests"))
            text = claim.spec.get("selector")
            selector = compile_selector(text) if text is not None else None
        except (QuantityError, SelectorError, FieldError, msgspec.ValidationError):
            return None
        best: tuple[int, str] | None = None
        for key in self._volumes.keys_by("class", class_of(claim) or ""):
            volume = self._volumes.items[key]
            held = _held_for(volume, claim)
            size = size_of(volume.spec.get("capacity"))
            if (_claim_of(volume) is not None and not held) or volume.metadata.deletion_timestamp or size < wanted:
                continue
            if volume.spec.get("volumeMode", "Filesystem") != claim.spec.get("volumeMode", "Filesystem"):
                continue
            if held:
                return volume
            if held_only or volume.phase != "Available":
                continue
            if selector is not None and not selector.matches(volume.metadata.labels or {}):
                continue
            if not set(claim.spec.get("accessModes") or ()) <= set(volume.spec.get("accessModes") or ()):
                continue
            if best is None or (size, key[1]) < best:
                best = (size, key[1])
        return self._volumes.items["", best[1]] if best is not None else None

    def _bind(self, claim: StorageSeen, volume: StorageSeen) -> None:
        """Write both sides; what is there already is not written again."""
        meta = claim.metadata
        held = _held_for(volume, claim)
        reference = reference_of(claim)

        def take(obj: Json) -> None:
            ref = obj["spec"].get("claimRef") or {}
            if any(ref.get(key) != value for key, value in reference.items()):
                obj["spec"]["claimRef"] = {**ref, **reference}
            if not held:
                obj["metadata"].setdefault("annotations", {})[BOUND_BY_CONTROLLER] = "yes"

        def name(obj: Json) -> None:
            notes = obj["metadata"].setdefault("annotations", {})
            if not obj["spec"].get("volumeName"):
                obj["spec"]["volumeName"] = volume.metadata.name
                notes[BOUND_BY_CONTROLLER] = "yes"
            notes[BIND_COMPLETED] = "yes"

        volumes, claims = self._volume_row, self._claim_row
        self.context.modify(volumes, volume.metadata.key, take)
        self.context.set_status(volumes, volume.metadata.key, {"phase": "Bound"})
        self.context.modify(claims, meta.key, name)
        before = (self.context.find(claims, meta.key) or {}).get("status") or {}
        status = {
            **before,
            "phase": "Bound",
            "accessModes": volume.spec.get("accessModes") or [],
            "capacity": volume.spec.get("capacity") or {},
        }
        self.context.set_status(claims, meta.key, status)

    def _lose(self, claim: StorageSeen) -> None:
        if claim.phase == "Lost":
            return
        self.context.set_status(self._claim_row, claim.metadata.key, {"phase": "Lost"})
        found = self.context.find(self._claim_row, claim.metadata.key)
        if found is not None:
            text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
            self.context.event(found, "ClaimLost", text, "Warning", "persistentvolume-controller")

    def _hand_over(self, claim: StorageSeen, provisioner: str) -> None:
        if claim.annotations.get(PROVISIONER) == provisioner:
            return

        def change(obj: Json) -> None:
            obj["metadata"].setdefault("annotations", {})[PROVISIONER] = provisioner

        self.context.modify(self._claim_row, claim.metadata.key, change)

    # -- volumes

    def _reconcile_volume(self, volume: StorageSeen) -> None:
        kind = self._volume_row
        key = volume.metadata.key
        owner = _claim_of(volume)
        ref = volume.spec.get("claimRef") or {}
        claim = self._claims.items.get(owner) if owner is not None else None
        if owner is None or not ref.get("uid"):
            # Free, or held beforehand for a claim that may come.
            if volume.phase != "Bound":
                self.context.set_status(kind, key, {"phase": "Available"})
        elif claim is None or claim.metadata.uid != ref["uid"]:
            self.context.set_status(kind, key, {"phase": "Released"})
            deleted = volume.metadata.deletion_timestamp is not None
            if volume.spec.get("persistentVolumeReclaimPolicy") == "Delete" and not deleted:
                self.context.delete(kind, key)
        elif claim.spec.get("volumeName") == volume.metadata.name:
            self.context.set_status(kind, key, {"phase": "Bound"})
        elif volume.phase == "Pending":
            self.context.set_status(kind, key, {"phase": "Available"})


def _claim_of(volume: StorageSeen) -> Key | None:
    ref = volume.spec.get("claimRef")
    return (ref.get("namespace", ""), ref.get("name", "")) if ref else None


def _held_for(volume: StorageSeen, claim: StorageSeen) -> bool:
    ref = volume.spec.get("claimRef") or {}
    return _claim_of(volume) == claim.metadata.key and ref.get("uid", "") in ("", claim.metadata.uid)
