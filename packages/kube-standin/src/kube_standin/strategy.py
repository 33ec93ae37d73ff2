"""The server's own decisions about an object on create and update, by kind.

This is the strategy part of kube-apiserver's registries (PrepareForCreate, PrepareForUpdate): which part a write may
change, and which changes count as a new generation. It runs after mutating admission and before validation. Objects are
in the version of the request; all functions change ``new`` in place.
"""

from __future__ import annotations

import copy

from kube_rules.defaults import prepare_create
from kube_rules.json import Json
from kube_standin.kinds import ServedKind

_IDENTITY = ("kind", "apiVersion", "metadata")


def before_create(kind: ServedKind, new: Json, stamp: str) -> None:
    """Set the initial status and generation of a new object; the status in the request has already been dropped."""
    prepare_create(kind, new, now=stamp)
    date_taints(kind, new, None, stamp)
    metadata = new["metadata"]
    if kind.generation:
        metadata["generation"] = 1
    else:
        metadata.pop("generation", None)


def date_taints(kind: ServedKind, new: Json, old: Json | None, stamp: str) -> None:
    """Set missing start times of device taints; a changed effect of a rule starts now (KEP-5055)."""
    spec = new.get("spec") or {}
    if kind.resource == "devicetaintrules.resource.k8s.io":
        taint, before = spec.get("taint") or {}, ((old or {}).get("spec") or {}).get("taint") or {}
        same_time = taint.get("timeAdded") == before.get("timeAdded")
        if old is not None and same_time and taint.get("effect") != before.get("effect"):
            taint["timeAdded"] = stamp
        if taint:
            taint.setdefault("timeAdded", stamp)
    elif kind.resource == "resourceslices.resource.k8s.io":
        for device in spec.get("devices") or ():
            for taint in device.get("taints") or ():
                taint.setdefault("timeAdded", stamp)


def drop_foreign_status(kind: ServedKind, new: Json) -> None:
    """Drop the status of a create request, for kinds with a status subresource."""
    if "status" in kind.subresources and not kind.status_on_create:
        new.pop("status", None)


def restrict(kind: ServedKind, new: Json, old: Json, subresource: str) -> None:
    """Restrict ``new`` to the changes allowed through this subresource; the rest is taken from ``old``."""
    if subresource in ("status", "approval"):
        for key in [key for key in new if key not in _IDENTITY and key != "status"]:
            del new[key]
        for key, value in old.items():
            if key not in _IDENTITY and key != "status":
                new[key] = value
        _restrict_metadata(kind, new["metadata"], old["metadata"])
        if subresource == "approval":
            _restrict_decision(new, old)
        return
    if subresource in _PARTS_OF_PODS and kind.resource == "pods":
        _restrict_pod(new, old, subresource)
        return
    if "status" in kind.subresources and subresource == "":
        if "status" in old:
            new["status"] = old["status"]
        else:
            new.pop("status", None)
    if kind.resource == "namespaces":
        _restrict_namespace(new, old, subresource)


def _restrict_decision(new: Json, old: Json) -> None:
    """Restrict a decision about a certificate to its conditions."""
    certificate = (old.get("status") or {}).get("certificate")
    status = {key: value for key, value in (new.get("status") or {}).items() if key != "certificate"}
    new["status"] = {**status, **({"certificate": certificate} if certificate else {})}


_PARTS_OF_PODS = ("ephemeralcontainers", "resize")
_RESIZED = ("resources", "resizePolicy")


def _restrict_pod(new: Json, old: Json, subresource: str) -> None:
    """Restrict a subresource of pods to its part of the spec."""
    new_spec = new.get("spec") or {}
    spec = {**(old.get("spec") or {})}
    if subresource == "ephemeralcontainers":
        if new_spec.get("ephemeralContainers"):
            spec["ephemeralContainers"] = new_spec["ephemeralContainers"]
        else:
            spec.pop("ephemeralContainers", None)
    else:
        for part in ("containers", "initContainers"):
            before, after = spec.get(part) or [], new_spec.get(part) or []
            if [container.get("name") for container in before] != [container.get("name") for container in after]:
                spec[part] = after  # the rules for resizes refuse it
            elif part in spec:
                spec[part] = [_resized(*pair) for pair in zip(before, after, strict=True)]
        if new_spec.get("resources"):
            spec["resources"] = new_spec["resources"]
    for key in [key for key in new if key not in _IDENTITY]:
        del new[key]
    new.update({key: value for key, value in old.items() if key not in _IDENTITY}, spec=spec)
    managed = new["metadata"].get("managedFields")
    new["metadata"] = {**old["metadata"], **({"managedFields": managed} if managed is not None else {})}


def _resized(old: Json, new: Json) -> Json:
    """Return a container with the resources of another."""
    rest = {key: value for key, value in old.items() if key not in _RESIZED}
    return {**rest, **{key: new[key] for key in _RESIZED if key in new}}


def _restrict_namespace(new: Json, old: Json, subresource: str) -> None:
    """Restrict ``spec.finalizers`` to /finalize, which changes nothing else."""
    if subresource != "finalize":
        new["spec"] = old.get("spec") or {}
        return
    finalizers = (new.get("spec") or {}).get("finalizers")
    for key, value in old.items():
        new[key] = copy.deepcopy(value)
    if finalizers:
        new["spec"]["finalizers"] = finalizers
    else:
        new["spec"].pop("finalizers", None)


def _restrict_metadata(kind: ServedKind, new: Json, old: Json) -> None:
    """Restrict the metadata of a write to /status, per ``ServedKind.status_metadata``."""
    fixed: tuple[str, ...]
    match kind.status_metadata:
        case "reset":
            fixed = ("labels", "annotations", "finalizers", "ownerReferences")
        case "labels-kept":
            fixed = ("labels",)
        case _:
            fixed = ("ownerReferences",) if kind.resource == "pods" else ()
    for key in fixed:
        if key in old:
            new[key] = old[key]
        else:
            new.pop(key, None)


def count_generation(kind: ServedKind, new: Json, old: Json, subresource: str) -> None:
    """Keep the generation, and increment it for a change outside metadata and status."""
    before = old["metadata"].get("generation")
    if before is None and not kind.generation:
        new["metadata"].pop("generation", None)
        return
    generation = before or 1
    if kind.generation and subresource != "status" and kind.resource != "priorityclasses.scheduling.k8s.io":
        status_apart = ("status",) if "status" in kind.subresources else ()
        apart = (*_IDENTITY, *status_apart)
        if any(new.get(key) != old.get(key) for key in {*new, *old} if key not in apart):
            generation += 1
    new["metadata"]["generation"] = generation
