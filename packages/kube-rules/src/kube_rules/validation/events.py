"""Rules of events in both groups and of leases (transcripts 509 to 536).

An event is one stored object with two forms; errors name the fields of the core form, as upstream does.
"""

from __future__ import annotations

from typing import Any

from kube_rules import field_errors as fe
from kube_rules.json import Json
from kube_rules.validation import names
from kube_rules.validation.rows import IMMUTABLE, Found, at_least, below, given, required
from kube_rules.versions import EVENT_FIELDS_FROM_CORE

_NEW_GROUP = "events.k8s.io/v1"
_HOME = ("default", "kube-system")
_TEXT_LIMIT = 128
NOTE_LIMIT = 1024
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
    """Return a field by its core name, from either form of the event."""
    if obj.get("apiVersion") == _NEW_GROUP:
        name = EVENT_FIELDS_FROM_CORE.get(name, name)
    return obj.get(name, default)


def event(obj: Json, _: str) -> Found:
    """Check a new event."""
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


def _common(obj: Json) -> Found:
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
    if len(_get(obj, "message")) > NOTE_LIMIT:
        yield fe.invalid("message", "", f"can have at most {NOTE_LIMIT} characters")


_OBSERVED = given("series", required("lastObservedTime"))


def _series(obj: Json) -> Found:
    series = obj.get("series")
    if series is not None and series.get("count", 0) < 2:
        yield fe.invalid("series.count", "", "should be at least 2")
    yield from _OBSERVED(obj, "")


def event_update(new: Json, old: Json) -> Found:
    """Check a change of an event: in the new form only the series may change; the core form is free."""
    yield from _common(new)
    if new.get("apiVersion") != _NEW_GROUP:
        return
    if new.get("series") != old.get("series"):
        yield from _series(new)
    for name in _IMMUTABLE:
        if _get(new, name, None) != _get(old, name, None):
            shown = "reportingController" if name == "reportingComponent" else name
            yield fe.invalid(shown, _get(new, name, None), IMMUTABLE)


def _strategy(spec: Json, path: str) -> Found:
    if spec.get("preferredHolder") and not spec.get("strategy"):
        yield fe.forbidden(f"{path}.preferredHolder", "may only be specified when `strategy` is defined")


lease = below(
    "spec",
    at_least(1, "leaseDurationSeconds", detail="must be greater than 0"),
    at_least(0, "leaseTransitions"),
    _strategy,
)
"""Check the duration and the transitions of a lease."""
