"""Rules of events in both groups and of leases (transcripts 509 to 536).

An event is one stored object with two faces; findings name the fields of the core form, as upstream does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reprieve.api.json import Json
from reprieve.controlplane.rules import names
from reprieve.controlplane.schema import field_errors as fe
from reprieve.controlplane.schema.field_errors import FieldError

_NEW_GROUP = "events.k8s.io/v1"
_HOME = ("default", "kube-system")
_TEXT_LIMIT = 128
_NOTE_LIMIT = 1024
# Core name -> name in events.k8s.io.
_RENAMED = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_IMMUTABLE = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
)


def _get(obj: Json, name: str, default: Any = "") -> Any:
    """A field by its core name, in whichever form the event is."""
    if obj.get("apiVersion") == _NEW_GROUP:
        name = _RENAMED.get(name, name)
    return obj.get(name, default)


def event(obj: Json) -> Iterator[FieldError]:
    """A new event."""
    yield from _common(obj)
    if obj.get("apiVersion") != _NEW_GROUP:
        return
    yield from _series(obj)
    if not obj.get("eventTime"):
        yield fe.required("eventTime")
    kind = obj.get("type", "")
    if kind not in ("Normal", "Warning"):
        yield fe.invalid("type", "", f"has invalid value: {kind}")
    for name in ("firstTimestamp", "lastTimestamp", "count", "source"):
        if _get(obj, name, None):
            yield fe.invalid(name, "", "needs to be unset")


def _common(obj: Json) -> Iterator[FieldError]:
    new_form = obj.get("apiVersion") == _NEW_GROUP
    namespace = obj.get("metadata", {}).get("namespace", "")
    about = _get(obj, "involvedObject", {}).get("namespace", "")
    if not obj.get("eventTime"):
        fits = namespace in ("", "default") if not about else namespace == about
        if not fits:
            yield fe.invalid("involvedObject.namespace", about, "does not match event.namespace")
        return
    if not about and namespace not in _HOME:
        yield fe.invalid("involvedObject.namespace", about, "does not match event.namespace")
    controller, field = _get(obj, "reportingComponent"), "reportingController" if new_form else "reportingComponent"
    if not controller:
        yield fe.required(field)
    yield from fe.malformed(field, controller, names.qualified)
    for name in ("reportingInstance", "action", "reason"):
        text = obj.get(name, "")
        if not text:
            yield fe.required(name)
        elif len(text) > _TEXT_LIMIT:
            yield fe.invalid(name, "", f"can have at most {_TEXT_LIMIT} characters")
    if len(_get(obj, "message")) > _NOTE_LIMIT:
        yield fe.invalid("message", "", f"can have at most {_NOTE_LIMIT} characters")


def _series(obj: Json) -> Iterator[FieldError]:
    series = obj.get("series")
    if series is not None:
        if series.get("count", 0) < 2:
            yield fe.invalid("series.count", "", "should be at least 2")
        if not series.get("lastObservedTime"):
            yield fe.required("series.lastObservedTime")


def event_update(new: Json, old: Json) -> Iterator[FieldError]:
    """Only the series of an event changes, in the new form; the core form is free."""
    yield from _common(new)
    if new.get("apiVersion") != _NEW_GROUP:
        return
    if new.get("series") != old.get("series"):
        yield from _series(new)
    for name in _IMMUTABLE:
        if _get(new, name, None) != _get(old, name, None):
            shown = "reportingController" if name == "reportingComponent" else name
            yield fe.invalid(shown, _get(new, name, None), "field is immutable")


def lease(obj: Json) -> Iterator[FieldError]:
    """Duration and count of a lease."""
    spec = obj.get("spec", {})
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        yield fe.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0")
    if transitions is not None and transitions < 0:
        yield fe.invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0")
    if spec.get("preferredHolder") and not spec.get("strategy"):
        yield fe.forbidden("spec.preferredHolder", "may only be specified when `strategy` is defined")


def lease_update(new: Json, _: Json) -> Iterator[FieldError]:
    """Every part may change."""
    yield from lease(new)
