"""Rules of `metadata`, the same for every kind (apimachinery's object metadata validation)."""

from __future__ import annotations

from collections.abc import Callable

from kube_rules import field_errors as fe
from kube_rules.errors import FieldError
from kube_rules.json import Json
from kube_rules.validation import names
from kube_rules.validation.rows import IMMUTABLE, NOT_NEGATIVE, Found

NameCheck = Callable[[str], tuple[str, ...]]
_ANNOTATION_BYTES = 256 * 1024
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_IMMUTABLE = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
NOT_OWNERS = frozenset({("v1", "Event")})


def create(obj: Json, *, namespaced: bool, name_check: NameCheck, any_finalizer: bool = False) -> Found:
    """Check the metadata of a new object. ``any_finalizer`` allows finalizers without a domain (custom resources)."""
    meta = obj.get("metadata", {})
    prefix = meta.get("generateName", "")
    if prefix:
        checked = prefix[:-1] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix
        yield from fe.malformed("metadata.generateName", prefix, lambda _: name_check(checked))
    name = meta.get("name", "")
    if not name:
        yield fe.required("metadata.name", "name or generateName is required")
    elif name_check(name):
        yield from fe.malformed("metadata.name", name, name_check)
    namespace = meta.get("namespace", "")
    if namespaced and (not namespace or names.dns_label(namespace)):
        yield from fe.wanted("metadata.namespace", namespace, names.dns_label)
    elif namespace and not namespaced:
        yield fe.forbidden("metadata.namespace", "not allowed on this type")
    if len(meta) > 2:
        yield from _common(meta, any_finalizer)


def _common(meta: Json, any_finalizer: bool) -> Found:
    if meta.get("generation", 0) < 0:
        yield fe.invalid("metadata.generation", meta["generation"], NOT_NEGATIVE)
    yield from label_map(meta.get("labels", {}), "metadata.labels")
    yield from annotation_map(meta.get("annotations", {}), "metadata.annotations")
    if "ownerReferences" in meta:
        yield from _owner_references(meta["ownerReferences"])
    path = "metadata.finalizers"
    for index, finalizer in enumerate(meta.get("finalizers", ())):
        messages = names.qualified(finalizer)
        for message in messages:
            yield fe.invalid(path, finalizer, message)
        if not messages and not any_finalizer and not has_domain(finalizer):
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            yield fe.invalid(f"{path}[{index}]", finalizer, detail)


def has_domain(finalizer: str) -> bool:
    """Return whether a finalizer has a domain or is one of Kubernetes' own."""
    return "/" in finalizer or finalizer in _STANDARD_FINALIZERS


def label_map(labels: Json, path: str) -> Found:
    """Check labels: keys are qualified names, values are label values."""
    for key, value in labels.items():
        if names.qualified(key) or names.label_value(value):  # rare
            yield from fe.malformed(path, key, names.qualified)
            yield from fe.malformed(path, value, names.label_value)


def annotation_map(annotations: Json, path: str) -> Found:
    """Check annotations: keys are qualified names in any case; their maximum total size is 256 KiB."""
    size = 0
    for key, value in annotations.items():
        size += len(key.encode()) + len(value.encode())
        for message in names.qualified(key.lower()):
            yield fe.invalid(path, key, message)
    if size > _ANNOTATION_BYTES:
        yield fe.too_long(path, _ANNOTATION_BYTES)


def _owner_references(references: list[Json]) -> Found:
    path = "metadata.ownerReferences"
    controller: Json | None = None
    shown = ""
    for reference in references:
        for key in ("apiVersion", "kind", "name", "uid"):
            if not reference.get(key):
                detail = "version must not be empty" if key == "apiVersion" else "must not be empty"
                yield fe.invalid(f"{path}.{key}", "", detail)
        if (reference.get("apiVersion"), reference.get("kind")) in NOT_OWNERS:
            owner = f"{reference['apiVersion']}, Kind={reference['kind']}"
            yield fe.invalid(path, reference, f"/{owner} is disallowed from being an owner")
        if reference.get("controller"):
            if controller is not None:
                controllers = " and ".join(f"{item.get('kind')}/{item.get('name')}" for item in (controller, reference))
                detail = 'Only one reference can have Controller set to true. Found "true" in references for '
                shown = shown or fe.shown(references)
                yield FieldError(path, f"Invalid value: {shown}: {detail}{controllers}")
            controller = reference


def update(new: Json, old: Json, *, any_finalizer: bool = False) -> Found:
    """Check the metadata of a changed object; ``any_finalizer`` as for `create`."""
    meta, before = new.get("metadata", {}), old.get("metadata", {})
    yield from _common(meta, any_finalizer)
    if "deletionTimestamp" in before:
        old_finalizers = set(before.get("finalizers", ()))
        added = [name for name in meta.get("finalizers", ()) if name not in old_finalizers]
        if added:
            shown = "[]string{" + ", ".join(f'"{name}"' for name in added) + "}"
            detail = f"no new finalizers can be added if the object is being deleted, found new finalizers {shown}"
            yield fe.forbidden("metadata.finalizers", detail)
    yield from immutable(new, old)
    if meta.get("generation", 0) < before.get("generation", 0):
        yield fe.invalid("metadata.generation", meta.get("generation", 0), "must not be decremented")


def immutable(new: Json, old: Json) -> Found:
    """Check that immutable metadata fields do not change."""
    meta, before = new.get("metadata", {}), old.get("metadata", {})
    for key in _IMMUTABLE:
        if key in meta and meta[key] != before.get(key):
            yield fe.invalid(f"metadata.{key}", meta[key], IMMUTABLE)
