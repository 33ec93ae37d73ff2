"""Conversion between the version of a request and the version of the storage.

Most kinds have one version, for which both functions return their argument; older versions of other kinds have the same
fields. The two groups of Event share the core form. PodGroup and Workload are stored as v1beta1, CompositePodGroup as
v1alpha3 (see ``kube_rules.versions``), HorizontalPodAutoscaler as v2. Versions of a custom resource have their own
module (``custom_versions``). Objects here have ``apiVersion`` and ``kind``.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from kube_rules import autoscalers
from kube_rules.json import Json
from kube_rules.versions import (
    EVENT_FIELDS_FROM_CORE,
    EVENT_FIELDS_TO_CORE,
    SCHEDULING_GROUP,
    from_internal,
    to_internal,
    with_unexpressed,
)
from kube_standin.kinds import ServedKind
from kube_standin.storage import StoredObject
from kube_standin.storage.model import as_object

_CORE_DEFAULTS: Mapping[str, Any] = {
    "involvedObject": {},
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
_V1_DEFAULTS: Mapping[str, Any] = {
    "eventTime": None,
    "regarding": {},
    "deprecatedSource": {},
    "deprecatedFirstTimestamp": None,
    "deprecatedLastTimestamp": None,
}
_V1_DROPPED_IF_EMPTY = ("reportingController", "reportingInstance")


def _event_to_core(event: Json) -> Json:
    out = {EVENT_FIELDS_TO_CORE.get(key, key): value for key, value in event.items()}
    out["apiVersion"] = "v1"
    complete_event(out)
    return out


def _event_from_core(event: Json) -> Json:
    out = {EVENT_FIELDS_FROM_CORE.get(key, key): value for key, value in event.items()}
    out["apiVersion"] = "events.k8s.io/v1"
    for key, default in _V1_DEFAULTS.items():
        out.setdefault(key, default)
    for key in _V1_DROPPED_IF_EMPTY:
        if out.get(key) == "":
            del out[key]
    return out


def complete_event(event: Json) -> None:
    """Set the fields that a core Event always shows."""
    for key, default in _CORE_DEFAULTS.items():
        event.setdefault(key, copy.copy(default))


def _custom(kind: ServedKind, obj: Json, api_version: str) -> Json:
    if kind.versions is None:
        return {**obj, "apiVersion": api_version}
    return kind.versions.converted({**obj, "apiVersion": obj.get("apiVersion", kind.api_version)}, api_version)


def is_raw(kind: ServedKind, state: StoredObject) -> bool:
    """Return whether the bytes of a stored object can be served unchanged in the version of ``kind``."""
    return not differs(kind) if kind.versions is None else kind.versions.is_raw(kind, state)


def read_stored(kind: ServedKind, state: StoredObject) -> Json:
    """Return a stored object in the version of ``kind``; the caller may change the result."""
    if kind.versions is not None:
        return kind.versions.read(kind, state)
    if not differs(kind):
        return as_object(kind.kind, kind.api_version, state)
    return from_storage(kind, as_object(kind.kind, kind.storage_version, state))


def differs(kind: ServedKind) -> bool:
    """Return whether the stored form of objects of ``kind`` differs from the served form."""
    return kind.api_version != kind.storage_version


def to_storage(kind: ServedKind, obj: Json) -> Json:
    """Return ``obj`` in its storage form (itself if that is the same).

    Raises ``kube_rules.errors.FieldError`` for a value without such a form.
    """
    if not differs(kind):
        return obj
    if kind.resource == "events.events.k8s.io":
        return _event_to_core(obj)
    if kind.custom:
        return _custom(kind, obj, kind.storage_version)
    if kind.group == autoscalers.GROUP:
        return autoscalers.to_v2(obj)
    if kind.group != SCHEDULING_GROUP:
        return {**obj, "apiVersion": kind.storage_version}
    return to_internal({**obj, "apiVersion": kind.api_version, "kind": kind.kind})


def to_stored(kind: ServedKind, obj: Json, state: StoredObject) -> Json:
    """Return the storage form of ``obj``, which replaces ``state``, with fields that the version of ``kind`` lacks.

    Raises ``kube_rules.errors.FieldError`` like ``to_storage``.
    """
    stored_form = to_storage(kind, obj)
    if not differs(kind):
        return stored_form
    if kind.group == autoscalers.GROUP:
        return autoscalers.with_status_of(stored_form, state.decode())
    if kind.group != SCHEDULING_GROUP:
        return stored_form
    return with_unexpressed(stored_form, as_object(kind.kind, kind.storage_version, state), kind.api_version)


def from_storage(kind: ServedKind, obj: Json) -> Json:
    """Return a stored object in the version of ``kind`` (itself if that is the same).

    A custom resource may be in any version: during admission it is in the version of the request.
    """
    if kind.custom:
        present = obj.get("apiVersion", kind.api_version)
        return obj if present == kind.api_version else _custom(kind, obj, kind.api_version)
    if not differs(kind):
        return obj
    if kind.resource == "events.events.k8s.io":
        return _event_from_core(obj)
    if kind.group == autoscalers.GROUP:
        return autoscalers.to_v1(obj)
    if kind.group != SCHEDULING_GROUP:
        return {**obj, "apiVersion": kind.api_version}
    return from_internal(obj, kind.api_version)
