"""The data of the store: one encoded state of an object, and one change from a state to the next.

Terms: *resource* is a storage key such as ``pods`` or ``scheduling.k8s.io/podgroups``; *revision* is the store-wide
counter, the ``metadata.resourceVersion`` of the object it wrote. Bodies are stored as JSON bytes without ``kind`` and
``apiVersion`` (items of a list have neither, a single object gets them prepended), so that one encoding serves every
reader. Invariant: a ``StoredObject`` never changes; a write creates a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from kube_rules.json import Json

Key = tuple[str, str]
"""(namespace, name); cluster-scoped objects have the namespace ``""``."""

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]

_decode = msgspec.json.Decoder().decode
_NO_LABELS: Mapping[str, str] = {}


class _LabelsOnly(msgspec.Struct):
    labels: dict[str, str] | None = None


class _LabelledOnly(msgspec.Struct):
    metadata: _LabelsOnly


_decode_labels = msgspec.json.Decoder(_LabelledOnly).decode


def field_value(body: Json, path: tuple[str, ...]) -> str:
    """Return the value for a field selector: the text at ``path``; a missing value is ``""``, booleans are words."""
    if path == ("source", "component"):
        # An Event of the newer form has no source; its reporting controller is selected instead (registry/core/event).
        return (body.get("source") or {}).get("component") or body.get("reportingComponent") or ""
    value: Any = body
    for step in path:
        if not isinstance(value, dict):
            return ""
        value = value.get(step)
    if value is None:
        # A missing boolean is selected as "false" (node spec.unschedulable, pod spec.hostNetwork).
        return "false" if path[-1] in ("unschedulable", "hostNetwork") else ""
    if value is True:
        return "true"
    if value is False:
        return "false"
    return str(value)


class StoredObject:
    """One state of one object at one revision: its key, its JSON bytes, and its labels once they were needed."""

    __slots__ = ("_fields", "_labels", "name", "namespace", "raw", "resource", "revision")

    def __init__(self, resource: str, namespace: str, name: str, revision: int, raw: bytes) -> None:
        self.resource = resource
        self.namespace = namespace
        self.name = name
        self.revision = revision
        self.raw = raw
        self._labels: Mapping[str, str] | None = None
        self._fields: dict[str, str] | None = None

    @property
    def key(self) -> Key:
        """Return (namespace, name)."""
        return (self.namespace, self.name)

    @property
    def labels(self) -> Mapping[str, str]:
        """Return the object's labels; do not change them."""
        if self._labels is None:
            self._labels = _decode_labels(self.raw).metadata.labels or _NO_LABELS
        return self._labels

    def field(self, path: str) -> str:
        """Return the text for a field selector on dotted ``path``; cached per path."""
        if path == "metadata.name":
            return self.name
        if path == "metadata.namespace":
            return self.namespace
        if self._fields is None:
            self._fields = {}
        value = self._fields.get(path)
        if value is None:
            value = self._fields[path] = field_value(self.decode(), tuple(path.split(".")))
        return value

    def remember(self, body: Json, paths: tuple[tuple[str, tuple[str, ...]], ...]) -> None:
        """Cache labels and selectable fields from the decoded ``body`` while it is available."""
        self._labels = body["metadata"].get("labels") or _NO_LABELS
        if paths:
            self._fields = {path: field_value(body, steps) for path, steps in paths}

    def decode(self) -> Json:
        """Return a new dict of the object (without kind and apiVersion) that the caller may change."""
        body: Json = _decode(self.raw)
        return body


class StoredChange:
    """A committed write: the new state and the state before.

    For DELETED, ``state`` is the last state with the revision of the deletion. ``previous`` is None for ADDED.
    """

    __slots__ = ("_removal", "previous", "state", "type")

    def __init__(self, type: ChangeType, state: StoredObject, previous: StoredObject | None) -> None:
        self.type = type
        self.state = state
        self.previous = previous
        self._removal: StoredObject | None = None

    @property
    def revision(self) -> int:
        """Return the revision of this change."""
        return self.state.revision

    def left_behind(self) -> StoredObject:
        """Return the state before, with the new revision.

        A watch with a selector sends this as DELETED when the object leaves the selection.
        """
        if self._removal is None:
            before = self.previous
            if before is None:
                raise ValueError("an added object was in no selection before")
            body = before.decode()
            body["metadata"]["resourceVersion"] = str(self.revision)
            raw = msgspec.json.encode(body)
            self._removal = StoredObject(before.resource, before.namespace, before.name, self.revision, raw)
        return self._removal


def as_object(kind: str, api_version: str, state: StoredObject) -> Json:
    """Return the decoded object with its kind and apiVersion in front."""
    out: Json = {"kind": kind, "apiVersion": api_version}
    out.update(state.decode())
    return out
