"""Kinds and objects for tests of pure functions: what a request goes through before it is stored."""

from __future__ import annotations

import copy
from typing import Any

from kube_rules.defaults import apply_defaults, prepare_create
from kube_standin.kinds import KindTable, ServedKind
from kube_standin.schema import schema_for
from tests import manifests

Json = dict[str, Any]
NOW = "2026-01-01T00:00:00Z"
_KINDS = KindTable()


def shape(api_version: str, kind: str) -> ServedKind:
    """The row of a built-in kind; of one that is not served, as it would be."""
    group, _, version = api_version.rpartition("/")
    found = _KINDS.of(api_version, kind)
    return found if found is not None else custom_kind(group, version, kind, custom=False)


def custom_kind(group: str, version: str, kind: str, **more: Any) -> ServedKind:
    """The row of a namespaced custom resource."""
    return ServedKind(
        group, version, kind, f"{kind.lower()}s", kind.lower(), f"{kind}List", True, **{"custom": True, **more}
    )


def stored(body: Json, namespace: str = "w1") -> Json:
    """A body as it is stored after a create without admission: decoded, defaulted, with its first status."""
    kind = shape(body["apiVersion"], body["kind"])
    obj, _, problems = schema_for(kind.api_version, kind.kind).check(copy.deepcopy(body), collect_unknown=False)
    assert not problems
    meta = obj.setdefault("metadata", {})
    if kind.namespaced:
        meta.setdefault("namespace", namespace)
    else:
        meta.pop("namespace", None)
    if "name" not in meta and "generateName" in meta:
        meta["name"] = meta["generateName"][:58] + "abcde"
    apply_defaults(kind, obj)
    if kind.kind != "Node":
        prepare_create(kind, obj, now=NOW)
    return obj


def without_times(value: Any) -> Any:
    """A value without the times of managedFields entries."""
    if isinstance(value, list):
        return [{key: inner for key, inner in entry.items() if key != "time"} for entry in value]
    return value


def pod(name: str = "p", **spec: Any) -> Json:
    """A pod with one container."""
    return manifests.pod(name, **spec)
