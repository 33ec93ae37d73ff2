"""The scale subresource: replicas of a workload as an autoscaling/v1 Scale, for reads and writes.

Built-in kinds have replicas in ``spec.replicas``; the definition of a custom resource names the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kube_rules import field_errors as fe
from kube_rules.json import Json
from kube_rules.selectors import compile_selector
from kube_standin import errors
from kube_standin.kinds import ServedKind, subresource
from kube_standin.registry import ObjectRegistry, Outcome, WriteOptions
from kube_standin.subresource_admission import admit_body
from kube_standin.worker_thread import INLINE

_BUILTIN: Mapping[str, str] = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


def _paths(kind: ServedKind) -> Mapping[str, str]:
    if not kind.custom:
        return _BUILTIN
    subresources = (kind.definition or {}).get("subresources") or {}
    return subresources.get("scale") or _BUILTIN


def _read(obj: Any, path: str) -> Any:
    for step in path.strip(".").split("."):
        obj = obj.get(step) if isinstance(obj, dict) else None
    return obj


def _selector(kind: ServedKind, obj: Json) -> str:
    paths = _paths(kind)
    if "labelSelectorPath" in paths:
        return str(_read(obj, paths["labelSelectorPath"]) or "")
    selector = (obj.get("spec") or {}).get("selector")
    if kind.custom or not selector:
        return ""
    if kind.resource == "replicationcontrollers":
        selector = {"matchLabels": selector}
    written = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    expressions = compile_selector({"matchExpressions": selector.get("matchExpressions") or []})
    written += [(requirement.key, str(requirement)) for requirement in expressions.requirements]
    return ",".join(text for _, text in sorted(written))


def scale_of(kind: ServedKind, obj: Json) -> Json:
    """Return the Scale of an object."""
    paths, metadata = _paths(kind), obj["metadata"]
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Json = {"replicas": _read(obj, paths["statusReplicasPath"]) or 0}
    selector = _selector(kind, obj)
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in shown if key in metadata},
        "spec": {"replicas": _read(obj, paths["specReplicasPath"]) or 0},
        "status": status,
    }


def write_scale_now(
    registry: ObjectRegistry, kind: ServedKind, namespace: str, name: str, scale: Json, options: WriteOptions
) -> Outcome:
    """Stage new replicas from a Scale (its resourceVersion and uid, if set, must be the current ones)."""
    metadata = scale.get("metadata") or {}
    if metadata.get("name", name) != name:
        raise errors.bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
        )
    old = registry.view(kind, registry.existing(kind, namespace, name))
    version = metadata.get("resourceVersion")
    if version and version != old["metadata"]["resourceVersion"]:
        raise errors.conflict(kind.plural, kind.group, name, errors.MODIFIED)
    replicas = _admitted(registry, kind, namespace, name, scale, old, options)
    steps = _paths(kind)["specReplicasPath"].strip(".").split(".")

    def change(obj: Json) -> None:
        holder = obj
        for step in steps[:-1]:
            holder = holder.setdefault(step, {})
        holder[steps[-1]] = replicas

    outcome = registry.modify_now(kind, namespace, name, change, replace(options, off_loop_steps=INLINE), "scale")
    return replace(outcome, object=scale_of(kind, outcome.object), state=None)


def apply_scale_now(
    registry: ObjectRegistry, kind: ServedKind, namespace: str, name: str, scale: Json, options: WriteOptions
) -> Outcome:
    """Stage the replicas of an applied Scale; the manager becomes the owner of the field in the workload."""
    old = registry.view(kind, registry.existing(kind, namespace, name))
    applied: Json = {"metadata": dict(scale.get("metadata") or {})}
    if "replicas" in (scale.get("spec") or {}):
        holder, steps = applied, _paths(kind)["specReplicasPath"].strip(".").split(".")
        for step in steps[:-1]:
            holder = holder.setdefault(step, {})
        holder[steps[-1]] = _admitted(registry, kind, namespace, name, scale, old, options)
    applied |= {"apiVersion": kind.api_version, "kind": kind.kind}
    inline = replace(options, off_loop_steps=INLINE)
    outcome = registry.patch_now(kind, namespace, name, "apply", applied, inline, "scale")
    return replace(outcome, object=scale_of(kind, outcome.object), state=None)


def _admitted(
    registry: ObjectRegistry,
    kind: ServedKind,
    namespace: str,
    name: str,
    scale: Json,
    old: Json,
    options: WriteOptions,
) -> int:
    """Return the replicas of a Scale after validation and webhooks; raises StatusError."""
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        negative = fe.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise errors.unfit("Scale", "autoscaling", name, negative)
    before = scale_of(kind, old)
    requested = {**before, "spec": {"replicas": replicas}}
    bodies = (requested, before)
    admitted = admit_body(registry, "UPDATE", kind, namespace, name, subresource(kind, "scale"), bodies, options)
    admitted_replicas: int = (admitted.get("spec") or {}).get("replicas", 0)
    return admitted_replicas
