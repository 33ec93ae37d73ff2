"""A simulated provisioner, claims of generic ephemeral volumes, and the protection of volumes in use.

- The provisioner creates a volume for every claim that is assigned to a driver, whatever the driver: no storage
  exists behind it. The volume is accessible where the driver's topology keys (its CSINode) or the class's allowed
  topologies allow it. Its name has the claim's UID, as with external-provisioner. It grows with its claim, as with
  external-resizer.
- A pod's generic ephemeral volume gets the claim `POD-VOLUME`, owned by the pod.
- A claim is not removed while an unfinished pod uses it, nor a volume while it is bound (upstream's protection
  controllers). This module adds the finalizers, so that nothing waits for them without the controllers.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from kube_rules.controllers.claims import volume_claim
from kube_rules.controllers.volumes import WAIT_FOR_CONSUMER, class_of, storage, topology_terms
from kube_rules.json import Json
from kube_rules.storage import SELECTED_NODE, CSINode, StorageClass
from kube_standin.controllers.reconciler import Controller
from kube_standin.controllers.sources import Source
from kube_standin.controllers.views import Key, PodView, StorageClassView, VolumeClaimView, VolumeView
from kube_standin.controllers.volumes import (
    CLAIMS,
    CLASSES,
    PROVISIONER,
    VOLUMES,
    reference_of,
)
from kube_standin.errors import StatusError
from kube_standin.metadata import controller_of, owner_reference

CLAIM_PROTECTION = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION = "kubernetes.io/pv-protection"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_CSI_NODES = "storage.k8s.io/csinodes"


class Provisioner(Controller):
    """The controller of volumes for claims; keys are those of claims."""

    name = "volume-provisioner"

    def connect(self) -> None:
        """Queue claims that are assigned to a driver and not bound, and those that request more."""
        self._claims = self.context.sources.of(CLAIMS, VolumeClaimView)
        self._classes = self.context.sources.of(CLASSES, StorageClassView)
        self._claims.add_handler(self._changed)

    def _changed(self, _old: VolumeClaimView | None, new: VolumeClaimView | None) -> None:
        if new is None or PROVISIONER not in new.item.metadata.annotations:
            return
        if not new.item.spec.volume_name or _wants_more(new):
            self.queue(new.metadata.key)

    def reconcile(self, key: Key) -> None:
        """Create the volume of a claim, or let it grow; the binder binds it."""
        claim = self._claims.items.get(key)
        if claim is not None and _wants_more(claim):
            self._grow(claim)
            return
        class_view = self._classes.items.get(("", class_of(claim.item))) if claim is not None else None
        if claim is None or class_view is None or claim.item.spec.volume_name or claim.metadata.deletion_timestamp:
            return
        annotations, storage_class = claim.item.metadata.annotations, class_view.item
        node = annotations.get(SELECTED_NODE)
        if storage_class.volume_binding_mode == WAIT_FOR_CONSUMER and node is None:
            return
        driver, meta, wanted = annotations[PROVISIONER], claim.metadata, claim.item.spec
        kind = self.context.kind("v1", "PersistentVolume")
        name = f"pvc-{meta.uid}"
        if self.context.registry.head(kind, "", name) is not None:
            return
        spec: Json = {
            "capacity": {"storage": wanted.resources.requests["storage"]},
            "accessModes": list(wanted.access_modes) or ["ReadWriteOnce"],
            "volumeMode": wanted.volume_mode,
            "storageClassName": storage_class.name,
            "persistentVolumeReclaimPolicy": storage_class.reclaim_policy,
            "csi": {"driver": driver, "volumeHandle": name},
            "claimRef": reference_of(claim),
        }
        affinity = self._affinity(storage_class, driver, node)
        if affinity:
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": affinity}}
        notes = {PROVISIONED_BY: driver}
        self.context.create(kind, "", {"metadata": {"name": name, "annotations": notes}, "spec": spec}, driver)
        about = self.context.find(self.context.kind("v1", "PersistentVolumeClaim"), key)
        if about is not None:
            self.context.event(about, "ProvisioningSucceeded", f"Successfully provisioned volume {name}", source=driver)

    def _grow(self, claim: VolumeClaimView) -> None:
        """Set the capacity of a provisioned volume to its claim's current request."""
        row, name = self.context.kind("v1", "PersistentVolume"), claim.item.spec.volume_name
        volume = self.context.find(row, ("", name))
        driver, wanted = claim.item.metadata.annotations[PROVISIONER], claim.item.spec.resources.requests["storage"]
        if volume is None or (volume["metadata"].get("annotations") or {}).get(PROVISIONED_BY) != driver:
            return

        def change(obj: Json) -> None:
            obj["spec"]["capacity"]["storage"] = wanted

        self.context.modify(row, ("", name), change, manager=driver)
        about = self.context.find(self.context.kind("v1", "PersistentVolumeClaim"), claim.metadata.key)
        if about is not None:
            self.context.event(about, "VolumeResizeSuccessful", "Resize volume succeeded", source=driver)

    def _affinity(self, storage_class: StorageClass, driver: str, node: str | None) -> list[Json]:
        """Return the node selector terms of a volume."""
        store = self.context.registry.store
        csi_node = store.head(_CSI_NODES, "", node) if node is not None else None
        state = store.head("nodes", "", node) if node is not None else None
        drivers = msgspec.json.decode(csi_node.raw, type=CSINode).spec.drivers if csi_node is not None else ()
        keys = next((csi_driver.topology_keys for csi_driver in drivers if csi_driver.name == driver), ())
        terms = topology_terms(storage_class, keys, state.labels if state is not None else {})
        return [
            {"matchExpressions": msgspec.json.decode(msgspec.json.encode(term.match_expressions))} for term in terms
        ]


def _wants_more(claim: VolumeClaimView) -> bool:
    """Return whether a bound claim requests more than its volume has."""
    item = claim.item
    return item.status.phase == "Bound" and storage(item.spec.resources.requests) > storage(item.status.capacity) > 0


class EphemeralVolumes(Controller):
    """The controller that creates the claims of pods' generic ephemeral volumes; keys are those of pods."""

    name = "ephemeral-volume"

    def connect(self) -> None:
        """Queue every new pod."""
        self.context.sources.pods.add_handler(self._changed)

    def _changed(self, old: PodView | None, new: PodView | None) -> None:
        if old is None and new is not None and not new.finished and not new.terminating:
            self.queue(new.key)

    def reconcile(self, key: Key) -> None:
        """Create missing claims; another owner's claim of the same name is not changed and causes an Event."""
        state = self.context.registry.store.head("pods", *key)
        if state is None or b'"ephemeral"' not in state.raw:
            return
        pod = state.decode()
        meta = pod["metadata"]
        if meta.get("deletionTimestamp"):
            return
        kind = self.context.kind("v1", "PersistentVolumeClaim")
        for volume in pod["spec"].get("volumes") or ():
            template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
            if template is None:
                continue
            name = f"{meta['name']}-{volume['name']}"
            claim = self.context.find(kind, (key[0], name))
            if claim is not None:
                if (controller_of(claim) or {}).get("uid") != meta["uid"]:
                    text = f"PVC {key[0]}/{name} was not created for pod {key[0]}/{key[1]} (pod is not owner)"
                    self.context.event(pod, "FailedBinding", text, "Warning", "ephemeral_volume")
                continue
            owner = owner_reference({"apiVersion": "v1", "kind": "Pod", **pod})
            self.context.create(kind, key[0], volume_claim(template, owner, volume["name"]))


class StorageProtection(Controller):
    """The controller that protects claims and volumes in use; keys are (resource, namespace, name)."""

    name = "storage-protection"

    def connect(self) -> None:
        """Queue claims and volumes that are created or deleted, and again when a pod ends or a volume is released."""
        sources = self.context.sources
        self._kinds = {
            CLAIMS: (self.context.kind("v1", "PersistentVolumeClaim"), CLAIM_PROTECTION),
            VOLUMES: (self.context.kind("v1", "PersistentVolume"), VOLUME_PROTECTION),
        }
        self._claims_in_use: dict[str, set[str]] = {}
        """By namespace, the claims that are deleted and in use."""
        self._sources: dict[str, Source[Any]] = {
            CLAIMS: sources.of(CLAIMS, VolumeClaimView),
            VOLUMES: sources.of(VOLUMES, VolumeView),
        }
        for resource, source in self._sources.items():
            source.add_handler(partial(self._changed, resource))
        sources.pods.add_handler(self._pod_changed)

    def _changed(self, resource: str, old: VolumeView | None, new: VolumeView | None) -> None:
        if new is None:
            if old is not None:
                self._claims_in_use.get(old.metadata.namespace, set()).discard(old.metadata.name)
            return
        if old is None or new.metadata.deletion_timestamp:
            self.queue((resource, *new.metadata.key))

    def _pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        if old is not None and (new is None or (new.finished and not old.finished)):
            for name in sorted(self._claims_in_use.get(old.metadata.namespace, ())):
                self.queue((CLAIMS, old.metadata.namespace, name))

    def reconcile(self, key: tuple[str, str, str]) -> None:
        """Add the finalizer, or remove it from a deleted object that is not in use."""
        resource, namespace, name = key
        kind, finalizer = self._kinds[resource]
        item = self._sources[resource].items.get((namespace, name))
        if item is None:
            return
        has = finalizer in (item.metadata.finalizers or ())
        if not item.metadata.deletion_timestamp:
            if not has:
                self._write(kind, (namespace, name), lambda finalizers: [*finalizers, finalizer])
            return
        if not has:
            return
        if resource == CLAIMS and self._used(namespace, name):
            self._claims_in_use.setdefault(namespace, set()).add(name)
        elif resource == CLAIMS or item.item.status.phase != "Bound":
            self._claims_in_use.get(namespace, set()).discard(name)
            self._write(kind, (namespace, name), lambda names: [name_ for name_ in names if name_ != finalizer])

    def _write(self, kind: Any, key: Key, make: Any) -> None:
        def change(obj: Json) -> None:
            obj["metadata"]["finalizers"] = make(obj["metadata"].get("finalizers") or [])

        try:
            self.context.modify(kind, key, change)
        except StatusError as error:
            if error.reason != "NotFound":
                raise

    def _used(self, namespace: str, name: str) -> bool:
        """Return whether an unfinished pod of the namespace uses the claim."""
        store = self.context.registry.store
        for pod in self.context.sources.pods.items.values():
            if pod.metadata.namespace != namespace or pod.finished:
                continue
            state = store.head("pods", *pod.key)
            if state is None or b'"volumes"' not in state.raw:
                continue
            for volume in state.decode()["spec"].get("volumes") or ():
                claim = volume.get("persistentVolumeClaim")
                if claim is not None and claim.get("claimName") == name:
                    return True
                if "ephemeral" in volume and f"{pod.metadata.name}-{volume['name']}" == name:
                    return True
        return False
