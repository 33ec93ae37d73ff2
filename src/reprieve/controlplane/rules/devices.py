"""Rules of what is written about devices: classes and selectors, a claim's status, the claims of pod groups.

Upstream: pkg/apis/resource/validation (ValidateResourceClaimStatusUpdate), pkg/apis/scheduling (KEP-5729).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from reprieve.api import device_expressions
from reprieve.api.json import Json
from reprieve.controlplane.rules import names
from reprieve.controlplane.schema import field_errors as fe
from reprieve.controlplane.schema.field_errors import FieldError

_IMMUTABLE = "field is immutable"
_MOST_CONSUMERS = 256
_MOST_GROUP_CLAIMS = 4
_MOST_SELECTORS = 32
_DEVICE = ("driver", "pool", "device", "shareID")


def selectors(given: Sequence[Json], path: str) -> Iterator[FieldError]:
    """Selectors of a class or request: at most 32, each with an expression that compiles and is cheap enough."""
    if len(given) > _MOST_SELECTORS:
        yield fe.too_many(path, len(given), _MOST_SELECTORS)
        return
    for index, selector in enumerate(given):
        place = f"{path}[{index}].cel"
        if selector.get("cel") is None:
            yield fe.required(place)
            continue
        expression = selector["cel"].get("expression", "")
        place += ".expression"
        if len(expression.encode("utf-8", "replace")) > device_expressions.LONGEST:
            yield fe.too_long(place, device_expressions.LONGEST)
            continue
        try:
            device_expressions.parsed(expression)
        except device_expressions.TooComplexError as error:
            yield fe.forbidden(place, str(error))
        except device_expressions.DeviceExpressionError as error:
            yield fe.invalid(place, expression, str(error))


def device_class(obj: Json) -> Iterator[FieldError]:
    """The selectors of a class (ValidateDeviceClass)."""
    yield from selectors((obj.get("spec") or {}).get("selectors") or (), "spec.selectors")


def device_class_update(new: Json, old: Json) -> Iterator[FieldError]:
    """Selectors that stay as they were are not read again: they were taken before (ValidateDeviceClassUpdate)."""
    kept = (old.get("spec") or {}).get("selectors") or ()
    given = (new.get("spec") or {}).get("selectors") or ()
    if given != kept:
        yield from selectors(given, "spec.selectors")


def claim_status(new: Json, old: Json) -> Iterator[FieldError]:
    """An allocation is cleared or stays as it is; only what is allocated is reserved or has devices to report of."""
    after, before = new.get("status") or {}, old.get("status") or {}
    allocation, was = after.get("allocation"), before.get("allocation")
    yield from _consumers(after.get("reservedFor") or [])
    allocated = {_device(one) for one in ((allocation or {}).get("devices") or {}).get("results") or ()}
    for index, device in enumerate(after.get("devices") or ()):
        if _device(device) not in allocated:
            shown = "/".join(str(device.get(name, "")) for name in _DEVICE[:3])
            yield fe.invalid(f"status.devices[{index}]", shown, "must be an allocated device in the claim")
    if after.get("reservedFor") and allocation is None:
        yield fe.forbidden("status.reservedFor", "may not be specified when `allocated` is not set")
    elif new["metadata"].get("deletionTimestamp"):
        known = {one.get("uid") for one in before.get("reservedFor") or ()}
        if any(one.get("uid") not in known for one in after.get("reservedFor") or ()):
            said = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
            yield fe.forbidden("status.reservedFor", said)
    if allocation is not None and was is not None:
        if allocation != was:
            yield fe.invalid("status.allocation", allocation, _IMMUTABLE)
    elif allocation is not None:
        yield from _results(allocation, new.get("spec") or {})


def _device(given: Json) -> tuple[Any, ...]:
    return tuple(given.get(name) or "" for name in _DEVICE)


def _consumers(listed: list[Json]) -> Iterator[FieldError]:
    if len(listed) > _MOST_CONSUMERS:
        yield fe.too_many("status.reservedFor", len(listed), _MOST_CONSUMERS)
    seen: set[str] = set()
    for index, one in enumerate(listed):
        place, uid = f"status.reservedFor[{index}]", one.get("uid") or ""
        for name in ("resource", "name", "uid"):
            if not one.get(name):
                yield fe.required(f"{place}.{name}")
        if uid and uid in seen:
            yield fe.duplicate(place, uid)
        seen.add(uid)


def _results(allocation: Json, spec: Json) -> Iterator[FieldError]:
    """Every device is for a request of the claim, or for an option of one."""
    known = set()
    for request in (spec.get("devices") or {}).get("requests") or ():
        known.add(request.get("name"))
        known |= {f"{request.get('name')}/{one.get('name')}" for one in request.get("firstAvailable") or ()}
    for index, result in enumerate((allocation.get("devices") or {}).get("results") or ()):
        place, name = f"status.allocation.devices.results[{index}]", result.get("request") or ""
        if name not in known:
            yield fe.invalid(f"{place}.request", name, "must be the name of a request in the claim")
        for part in ("driver", "pool", "device"):
            if not result.get(part):
                yield fe.required(f"{place}.{part}")


def group_claims(holder: Json, path: str) -> Iterator[FieldError]:
    """resourceClaims of a PodGroup or of a template for one: named, at most four, each by name or by template."""
    given = holder.get("resourceClaims") or ()
    if len(given) > _MOST_GROUP_CLAIMS:
        yield fe.too_many(f"{path}.resourceClaims", len(given), _MOST_GROUP_CLAIMS)
    seen: set[str] = set()
    for index, claim in enumerate(given):
        place, name = f"{path}.resourceClaims[{index}]", claim.get("name", "")
        if not name:
            yield fe.required(f"{place}.name")
        else:
            for message in names.dns_label(name):
                yield fe.invalid(f"{place}.name", name, message)
        if name in seen:
            yield fe.duplicate(place, name)
        seen.add(name)
        sources = [part for part in ("resourceClaimName", "resourceClaimTemplateName") if part in claim]
        for part in sources:
            for message in names.subdomain(claim[part]):
                yield fe.invalid(f"{place}.{part}", claim[part], message)
        if len(sources) != 1:
            said = "must specify exactly one of: `resourceClaimName`, `resourceClaimTemplateName`"
            yield fe.invalid(place, claim, said)


def group_claim_statuses(new: Json) -> Iterator[FieldError]:
    """status.resourceClaimStatuses of a PodGroup name claims of its spec."""
    known = {one.get("name") for one in (new.get("spec") or {}).get("resourceClaims") or ()}
    for index, one in enumerate((new.get("status") or {}).get("resourceClaimStatuses") or ()):
        if one.get("name") not in known:
            said = "must match the name of an entry in `spec.resourceClaims`"
            yield fe.invalid(f"status.resourceClaimStatuses[{index}].name", one.get("name", ""), said)
