"""Warnings about accepted objects: sent as Warning headers on create and update.

Rules and texts: kube-apiserver 1.36 (api/pod warnings).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kube_rules.json import Json
from kube_rules.quantity import NANO, parse
from kube_rules.selectors import PREFERRED, REQUIRED
from kube_rules.validation.metadata import has_domain
from kube_standin.kinds import ServedKind

_NODE_LABELS: Mapping[str, str] = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
}
_TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "pods": (),
    "podtemplates": ("template",),
    "replicationcontrollers": ("spec", "template"),
    "deployments.apps": ("spec", "template"),
    "replicasets.apps": ("spec", "template"),
    "statefulsets.apps": ("spec", "template"),
    "daemonsets.apps": ("spec", "template"),
    "jobs.batch": ("spec", "template"),
}
"""The path of the pod (or template) in a kind."""


def warnings_about(kind: ServedKind, obj: Json, old: Json | None = None) -> list[str]:
    """Return the warnings for the author of ``obj``, which replaces ``old``."""
    if kind.custom:
        return list(_finalizers(obj, old or {"metadata": {}}))
    if old is not None:
        return []
    steps = _TEMPLATES.get(kind.resource)
    if steps is None:
        return []
    holder: Any = obj
    for step in steps:
        holder = (holder or {}).get(step)
    spec = (holder or {}).get("spec") or {}
    return list(_pod_spec(spec, ".".join((*steps, "spec"))))


def _finalizers(obj: Json, old: Json) -> Iterator[str]:
    """Warn about new finalizers of a custom resource that another writer may also use (registry/customresource)."""
    for name in sorted({*obj["metadata"].get("finalizers", ())}.difference(old["metadata"].get("finalizers", ()))):
        if not has_domain(name):
            path = " including a path (/)" if "." in name else ""
            yield (
                f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name{path} to avoid accidental '
                "conflicts with other finalizer writers"
            )


def _pod_spec(spec: Json, path: str) -> Iterator[str]:
    for label in spec.get("nodeSelector") or ():
        if label in _NODE_LABELS:
            yield f"{path}.nodeSelector[{label}]: {_NODE_LABELS[label]}"
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        key = constraint.get("topologyKey")
        if key in _NODE_LABELS:
            yield f"{path}.topologySpreadConstraints[{index}].topologyKey: {key} is {_NODE_LABELS[key]}"
        if "labelSelector" not in constraint:
            yield f"{path}.topologySpreadConstraints[{index}].labelSelector: {_SELECTS_NOTHING}"
    for part in ("podAffinity", "podAntiAffinity"):
        near = (spec.get("affinity") or {}).get(part)
        if near:
            yield from _selecting_nothing(near, f"{path}.affinity.{part}")
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            yield from _duplicate_variables(container, f"{path}.{group}[{index}]")
            yield from _parts_of_bytes(container, f"{path}.{group}[{index}].resources")


_SELECTS_NOTHING = "a null labelSelector results in matching no pod"


def _selecting_nothing(near: Json, path: str) -> Iterator[str]:
    """Warn about terms for other pods that match no pod."""
    for index, term in enumerate(near.get(REQUIRED) or ()):
        if "labelSelector" not in term:
            yield f"{path}.{REQUIRED}[{index}].labelSelector: {_SELECTS_NOTHING}"
    for index, weighted in enumerate(near.get(PREFERRED) or ()):
        if "labelSelector" not in (weighted.get("podAffinityTerm") or {}):
            yield f"{path}.{PREFERRED}[{index}].podAffinityTerm.labelSelector: {_SELECTS_NOTHING}"


def _parts_of_bytes(container: Json, path: str) -> Iterator[str]:
    """Warn about amounts of memory with a fraction of a byte: `m` instead of `M`."""
    for part in ("requests", "limits"):
        amounts = (container.get("resources") or {}).get(part) or {}
        for name in ("memory", "ephemeral-storage"):
            if name in amounts and parse(amounts[name]).nano % NANO:
                yield f'{path}.{part}[{name}]: fractional byte value "{amounts[name]}" is invalid, must be an integer'


def _duplicate_variables(container: Json, path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, variable in enumerate(container.get("env") or ()):
        name = variable.get("name", "")
        if name in seen and not str(variable.get("value", "")).startswith(f"$({name})"):
            yield (f'{path}.env[{index}]: hides previous definition of "{name}", which may be dropped when using apply')
        seen.add(name)
