"""Rules of device objects: classes and selectors, a claim's status, the claims of pod groups.

Upstream: pkg/apis/resource/validation (ValidateResourceClaimStatusUpdate), pkg/apis/scheduling (KEP-5729).
"""

from __future__ import annotations

from typing import Any

from kube_rules import field_errors as fe
from kube_rules.devices import MOST_CONSUMERS
from kube_rules.json import Json
from kube_rules.requests import is_extended_resource
from kube_rules.validation import conditions, names
from kube_rules.validation import rows as r

_DEVICE = ("driver", "pool", "device", "shareID")
_SOURCES = ("resourceClaimName", "resourceClaimTemplateName")
_NAMED = r.required("driver", "pool", "device")


def _expression(selector: Json, path: str) -> r.Found:
    """Check that an expression compiles and is within the cost limit."""
    from kube_rules import device_expressions  # a plan without devices starts without it

    if selector.get("cel") is None:
        return (fe.required(f"{path}.cel"),)
    expression, place = selector["cel"].get("expression", ""), f"{path}.cel.expression"
    if len(expression.encode("utf-8", "replace")) > device_expressions.LONGEST:
        return (fe.too_long(place, device_expressions.LONGEST),)
    try:
        device_expressions.parsed(expression)
    except device_expressions.TooComplexError as error:
        return (fe.forbidden(place, str(error)),)
    except device_expressions.DeviceExpressionError as error:
        return (fe.invalid(place, expression, str(error)),)
    return ()


selectors = r.listed("selectors", _expression, most=32)
"""Check the selectors of a class or request."""


def _extended(name: str) -> tuple[str, ...]:
    """Return the errors of an extended resource's name (core/v1/helper.IsExtendedResourceName)."""
    wrong = names.qualified(f"requests.{name}")
    return () if is_extended_resource(name) and not wrong else ("must be a valid extended resource name", *wrong)


_serving = r.formed("extendedResourceName", _extended, "set")
device_class = r.below("spec", selectors, _serving)
"""Check the selectors of a class, and its extended resource (ValidateDeviceClass)."""


def new_selectors(new: Json, old: Json) -> r.Found:
    """Check changed selectors; unchanged ones were already admitted (ValidateDeviceClassUpdate)."""
    spec, before = r.reach(new, "spec"), r.reach(old, "spec")
    if (spec.get("selectors") or ()) != (before.get("selectors") or ()):
        yield from selectors(spec, "spec")
    if spec.get("extendedResourceName") != before.get("extendedResourceName"):
        yield from _serving(spec, "spec")


_EFFECTS = ("None", "NoExecute", "NoSchedule")
_LONGEST_DRIVER = 63
_LONGEST_POOL = 253


def driver_name(name: str, place: str) -> r.Found:
    """Check the name of a driver, or the domain of an attribute (validateDriverName)."""
    if len(name) > _LONGEST_DRIVER:
        yield fe.too_long(place, _LONGEST_DRIVER)
    yield from fe.wanted(place, name, names.subdomain)


def pool_name(name: str, place: str) -> r.Found:
    """Check the name of a pool: one or more subdomains separated by slashes (validatePoolName)."""
    if not name:
        yield fe.required(place)
        return
    if len(name) > _LONGEST_POOL:
        yield fe.too_long(place, _LONGEST_POOL)
    for part in name.split("/"):
        yield from fe.malformed(place, part, names.subdomain)


def _effect(taint: Json, path: str) -> r.Found:
    effect = taint.get("effect") or ""
    return () if effect in _EFFECTS else fe.one_of(f"{path}.effect", effect, _EFFECTS)


TAINT = (r.formed("key", names.qualified, "always"), r.formed("value", names.label_value), _effect)
"""Checks of a taint of devices (validateDeviceTaint)."""
taint_rule = r.below(
    "spec",
    r.given(
        "deviceSelector",
        r.OptionalField("driver", lambda selector, path: driver_name(selector["driver"], f"{path}.driver")),
        r.OptionalField("pool", lambda selector, path: pool_name(selector["pool"], f"{path}.pool")),
        r.formed("device", names.dns_label, "set"),
    ),
    r.below("taint", *TAINT),
)
"""Check the device selector, and a taint with a label key (ValidateDeviceTaintRule)."""
taint_rule_status = r.below("status", r.OptionalField("conditions", lambda status, path: _conditions(status, path)))
"""Check that there are at most eight conditions (ValidateDeviceTaintRuleStatusUpdate)."""


def _conditions(status: Json, path: str) -> r.Found:
    if len(status["conditions"]) > _MOST_CONDITIONS:
        yield fe.too_many(f"{path}.conditions", len(status["conditions"]), _MOST_CONDITIONS)
    yield from conditions.conditions(status, path)


_MOST_CONDITIONS = 8


def claim_status(new: Json, old: Json) -> r.Found:
    """Check a status: an allocation is cleared or unchanged; reservations and device reports need an allocation."""
    after, before = new.get("status") or {}, old.get("status") or {}
    allocation, was = after.get("allocation"), before.get("allocation")
    yield from _CONSUMERS(after, "status")
    allocated = {_device(item) for item in ((allocation or {}).get("devices") or {}).get("results") or ()}
    for index, device in enumerate(after.get("devices") or ()):
        if _device(device) not in allocated:
            shown = "/".join(str(device.get(name, "")) for name in _DEVICE[:3])
            yield fe.invalid(f"status.devices[{index}]", shown, "must be an allocated device in the claim")
    if after.get("reservedFor") and allocation is None:
        yield fe.forbidden("status.reservedFor", "may not be specified when `allocated` is not set")
    elif new["metadata"].get("deletionTimestamp"):
        reserved_uids = {item.get("uid") for item in before.get("reservedFor") or ()}
        if any(item.get("uid") not in reserved_uids for item in after.get("reservedFor") or ()):
            detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
            yield fe.forbidden("status.reservedFor", detail)
    if allocation is not None and was is not None:
        if allocation != was:
            yield fe.invalid("status.allocation", allocation, r.IMMUTABLE)
    elif allocation is not None:
        yield from _results(allocation, new.get("spec") or {})


def _device(device: Json) -> tuple[Any, ...]:
    return tuple(device.get(name) or "" for name in _DEVICE)


_CONSUMERS = r.listed(
    "reservedFor",
    r.required("resource", "name", "uid"),
    r.Unique("uid", place="", empty=False),
    most=MOST_CONSUMERS,
    stops=False,
)


def _results(allocation: Json, spec: Json) -> r.Found:
    """Check that every device belongs to a request of the claim, or to an option of a request."""
    requests = set()
    for request in (spec.get("devices") or {}).get("requests") or ():
        requests.add(request.get("name"))
        requests |= {f"{request.get('name')}/{item.get('name')}" for item in request.get("firstAvailable") or ()}
    for index, result in enumerate((allocation.get("devices") or {}).get("results") or ()):
        place, name = f"status.allocation.devices.results[{index}]", result.get("request") or ""
        if name not in requests:
            yield fe.invalid(f"{place}.request", name, "must be the name of a request in the claim")
        yield from _NAMED(result, place)


def _one_source(claim: Json, path: str) -> r.Found:
    detail = "must specify exactly one of: `resourceClaimName`, `resourceClaimTemplateName`"
    return r.exactly_one(path, [part for part in _SOURCES if part in claim], detail, detail, claim)


group_claims = r.listed(
    "resourceClaims",
    r.wanted("name", names.dns_label),
    r.Unique("name", place=""),
    *(r.formed(part, names.subdomain, "set") for part in _SOURCES),
    _one_source,
    most=4,
    stops=False,
)
"""Check the claims of a PodGroup or its template: named, at most four, each by name or by template."""


def group_claim_statuses(new: Json, _: Json) -> r.Found:
    """Check that status.resourceClaimStatuses of a PodGroup name claims of its spec."""
    claims = {claim.get("name") for claim in (new.get("spec") or {}).get("resourceClaims") or ()}
    for index, status in enumerate((new.get("status") or {}).get("resourceClaimStatuses") or ()):
        if status.get("name") not in claims:
            detail = "must match the name of an entry in `spec.resourceClaims`"
            yield fe.invalid(f"status.resourceClaimStatuses[{index}].name", status.get("name", ""), detail)
    yield from _CLAIM_STATUSES(new, "")


_CLAIM_STATUSES = r.below(
    "status",
    r.listed(
        "resourceClaimStatuses",
        r.Unique("name", place=""),
        r.formed("resourceClaimName", names.subdomain, "set"),
        most=4,
    ),
)
