"""Metadata that links objects: names, owners, finalizers.

Functions that return a change are for `ObjectRegistry.modify_now`; changes work in place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from kube_rules.json import Json

Change = Callable[[Json], None]


def key_of(obj: Json) -> tuple[str, str]:
    """Return (namespace, name); the namespace is "" for cluster-scoped objects."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def annotations_of(obj: Json) -> Json:
    """Return the annotations of an object; do not change them."""
    return obj["metadata"].get("annotations") or {}


def controller_of(obj: Json) -> Json | None:
    """Return the owner reference of the controller, if any."""
    return next(
        (reference for reference in obj["metadata"].get("ownerReferences") or () if reference.get("controller")), None
    )


def reference_to(obj: Json) -> Json:
    """Return a reference to a manifest in the form of statuses and claims."""
    metadata = obj["metadata"]
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


def owner_reference(owner: Json) -> Json:
    """Return the reference that makes ``owner`` the controller of another object."""
    return {**reference_to(owner), "controller": True, "blockOwnerDeletion": True}


def owned_by(owner: Json) -> Change:
    """Return the change that makes an owner the controller of an orphan."""
    reference = owner_reference(owner)

    def change(obj: Json) -> None:
        obj["metadata"]["ownerReferences"] = [*(obj["metadata"].get("ownerReferences") or ()), reference]

    return change


def disowned(uids: Collection[str]) -> Change:
    """Return the change that removes references to owners."""

    def change(obj: Json) -> None:
        remaining = [
            reference for reference in obj["metadata"].get("ownerReferences") or () if reference["uid"] not in uids
        ]
        if remaining:
            obj["metadata"]["ownerReferences"] = remaining
        else:
            obj["metadata"].pop("ownerReferences", None)

    return change


def without_finalizer(name: str, part: str = "metadata") -> Change:
    """Return the change that removes a finalizer; namespaces also have finalizers in `spec`."""

    def change(obj: Json) -> None:
        holder = obj.setdefault(part, {})
        holder["finalizers"] = [finalizer for finalizer in holder.get("finalizers") or () if finalizer != name]

    return change
