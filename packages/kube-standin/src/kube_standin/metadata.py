"""What stands in `metadata` of a manifest and binds objects together: names, owners, finalizers.

The functions that return a change are for `ObjectRegistry.modify_now`: they work in place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from kube_rules.json import Json

Change = Callable[[Json], None]


def key_of(obj: Json) -> tuple[str, str]:
    """(namespace, name); "" for the namespace of what has none."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def annotations_of(obj: Json) -> Json:
    """Return the annotations of an object, not to be changed."""
    return obj["metadata"].get("annotations") or {}


def controller_of(obj: Json) -> Json | None:
    """Return the owner reference of the controller, if there is one."""
    return next((one for one in obj["metadata"].get("ownerReferences") or () if one.get("controller")), None)


def reference_to(obj: Json) -> Json:
    """Return a reference to a manifest, as statuses and claims hold it."""
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
    """Make an owner the controller of an orphan."""
    reference = owner_reference(owner)

    def change(obj: Json) -> None:
        obj["metadata"]["ownerReferences"] = [*(obj["metadata"].get("ownerReferences") or ()), reference]

    return change


def disowned(uids: Collection[str]) -> Change:
    """Take references to owners away."""

    def change(obj: Json) -> None:
        kept = [one for one in obj["metadata"].get("ownerReferences") or () if one["uid"] not in uids]
        if kept:
            obj["metadata"]["ownerReferences"] = kept
        else:
            obj["metadata"].pop("ownerReferences", None)

    return change


def without_finalizer(name: str, part: str = "metadata") -> Change:
    """Take a finalizer off; those of namespaces are part of the `spec`, too."""

    def change(obj: Json) -> None:
        holder = obj.setdefault(part, {})
        holder["finalizers"] = [one for one in holder.get("finalizers") or () if one != name]

    return change
