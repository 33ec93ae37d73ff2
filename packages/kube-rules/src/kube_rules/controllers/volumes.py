"""The volume that a claim is bound to, and the volume that a provisioner creates for it.

Source: `FindMatchingVolume` of component-helpers, kube-controller-manager's persistent volume controller
(`syncUnboundClaim`, `assignDefaultStorageClass`) and external-provisioner (`GenerateAccessibilityRequirements`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from kube_rules.meta import NodeSelectorRequirement, NodeSelectorTerm, QuantityText
from kube_rules.quantity import value_of
from kube_rules.selectors import Selector, compile_label_selector
from kube_rules.storage import CLASS_BETA, PersistentVolume, PersistentVolumeClaim, StorageClass

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
"""Provisioner of a class with manually created volumes."""
WAIT_FOR_CONSUMER: Final = "WaitForFirstConsumer"
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


def class_of(item: PersistentVolumeClaim | PersistentVolume) -> str:
    """Return the name of the storage class of a claim or a volume; "" for none."""
    beta = item.metadata.annotations.get(CLASS_BETA)
    return beta if beta is not None else item.spec.storage_class_name or ""


def storage(amounts: Mapping[str, QuantityText]) -> int:
    """Return the requested or provided storage in bytes."""
    return value_of(amounts["storage"]) if "storage" in amounts else 0


def refers_to(volume: PersistentVolume, key: str, uid: str) -> bool:
    """Return whether the volume's claimRef is this claim (the UID counts if both have one)."""
    ref = volume.spec.claim_ref
    if ref is None or f"{ref.namespace or 'default'}/{ref.name}" != key:
        return False
    return not ref.uid or not uid or ref.uid == uid


def default_class(classes: Iterable[StorageClass]) -> StorageClass | None:
    """Return the default class: the newest of several, then the first by name."""
    marked = [class_ for class_ in classes if class_.metadata.annotations.get(DEFAULT_CLASS) == "true"]
    marked.sort(key=lambda class_: class_.name)
    return max(marked, key=lambda class_: class_.metadata.creation_timestamp or _LONG_AGO, default=None)


def suits(claim: PersistentVolumeClaim, volume: PersistentVolume, held: bool | None, labels: Selector | None) -> bool:
    """Return whether a claim can be bound to a volume of its class.

    `held`: whether the volume is reserved for this claim, None if it is free. `labels`: the claim's selector.
    """
    if held is False or volume.spec.volume_mode != claim.spec.volume_mode:
        return False
    if volume.metadata.deletion_timestamp is not None:
        return False
    if storage(volume.spec.capacity) < storage(claim.spec.resources.requests):
        return False
    if held:
        return True
    if labels is not None and not labels.matches(volume.metadata.labels):
        return False
    return volume.status.phase in ("Available", "") and set(claim.spec.access_modes) <= set(volume.spec.access_modes)


def best_volume(
    claim: PersistentVolumeClaim, volumes: Iterable[tuple[PersistentVolume, bool | None]], *, held_only: bool = False
) -> PersistentVolume | None:
    """Return the volume reserved for a claim, otherwise the smallest suitable one; `volumes` are those of its class.

    `held`: see `suits`. `held_only`: binding waits for a pod. Raises SelectorError for a bad selector.
    """
    labels = compile_label_selector(claim.spec.selector) if claim.spec.selector is not None else None
    fitting = [
        (not held, storage(volume.spec.capacity), volume.name, volume)
        for volume, held in volumes
        if (held or not held_only) and suits(claim, volume, held, labels)
    ]
    return min(fitting, key=lambda entry: entry[:3])[3] if fitting else None


def is_provisioned(storage_class: StorageClass) -> bool:
    """Return whether a driver provisions the volumes of a class."""
    return storage_class.provisioner not in ("", NO_PROVISIONER)


def topology_terms(kind: StorageClass, keys: Sequence[str], labels: Mapping[str, str]) -> tuple[NodeSelectorTerm, ...]:
    """Return the topology of a provisioned volume: the chosen node's topology, otherwise the class's topologies.

    `keys` are the driver's topology keys on the chosen node, `labels` that node's labels; both empty without a node.
    """
    node_keys = [key for key in keys if key in labels]
    if node_keys:
        chosen = tuple(NodeSelectorRequirement(key=key, operator="In", values=(labels[key],)) for key in node_keys)
        return (NodeSelectorTerm(match_expressions=chosen),)
    return tuple(
        NodeSelectorTerm(
            match_expressions=tuple(
                NodeSelectorRequirement(key=label.key, operator="In", values=label.values)
                for label in term.match_label_expressions
            )
        )
        for term in kind.allowed_topologies
        if term.match_label_expressions
    )
