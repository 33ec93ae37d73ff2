"""Rules of ResourceSlices: the nodes of their devices, and the fields of each device (devices.md 5.4).

Upstream: pkg/apis/resource/validation (validateResourceSliceSpec, validateDevice, validateDeviceAttribute).
"""

from __future__ import annotations

import re
from typing import Any, Final

from kube_rules import field_errors as fe
from kube_rules.json import Json
from kube_rules.quantity import parse
from kube_rules.validation import devices, names, selectors
from kube_rules.validation import rows as r
from kube_rules.validation.request_policies import request_policy

_MOST_DEVICES, _MOST_ADVANCED = 128, 64
"""Maximum number of devices of a slice; lower if devices have taints, counters or lists of values."""
_MOST_ENTRIES, _MOST_VALUES = 32, 48
"""Maximum number of attributes and capacities of a device together, and of the values of its attributes."""
_LONGEST_NAME, _LONGEST_VALUE = 32, 64
_MOST_TAINTS, _MOST_SETS, _MOST_CONSUMED, _MOST_COUNTERS = 16, 8, 2, 32
_MOST_CONDITIONS: Final = 4
_LISTS: Final = ("bools", "ints", "strings", "versions")
_FORMS: Final = ("bool", "int", "string", "version", *_LISTS)
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_PRE: Final = r"(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)"
_SEMVER: Final = re.compile(
    rf"(?:(?:0|[1-9]\d*)\.){{2}}(?:0|[1-9]\d*)(?:-{_PRE}(?:\.{_PRE})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)
_NO_IDENTIFIER: Final = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    "or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
)
_ONE_VALUE: Final = "exactly one value must be specified"


def _places(holder: Json, path: str, names_of: tuple[str, ...], where: str) -> r.Found:
    """Check that the nodes of a slice or device are given in exactly one way."""
    for name in ("allNodes", "perDeviceNodeSelection"):
        if holder.get(name) is False and name in names_of:
            yield fe.invalid(f"{path}.{name}", False, "must be either unset or set to true")
    of_slice = "perDeviceNodeSelection" in names_of
    if (node := holder.get("nodeName")) is not None:
        empty = "must be either unset or set to a non-empty string" if of_slice else "must not be empty"
        yield from fe.malformed(f"{path}.nodeName", node, names.subdomain) if node else ()
        yield from () if node else (fe.invalid(f"{path}.nodeName", node, empty),)
    if (selector := holder.get("nodeSelector")) is not None:
        at = f"{path}.nodeSelector"
        yield from selectors.node_selector(selector, at)
        if of_slice and len(selector.get("nodeSelectorTerms") or ()) != 1:
            terms = selector.get("nodeSelectorTerms")
            yield fe.invalid(f"{at}.nodeSelectorTerms", terms, "must have exactly one node selector term")
    present = [name for name in names_of if holder.get(name) not in (None, "", False)]
    if not present:
        yield fe.required(path, f"exactly one of {where}")
    elif len(present) > 1:
        shown = ", ".join(f"`{name}`" for name in present)
        several = where if "when" in where else f"{where}, but multiple fields are set"
        yield fe.invalid(path, f"{{{shown}}}", f"exactly one of {several}")


_OF_DEVICE: Final = ("nodeName", "nodeSelector", "allNodes")
_OF_SLICE: Final = (*_OF_DEVICE, "perDeviceNodeSelection")
_SLICE_TEXT: Final = ", ".join(f"`{name}`" for name in _OF_SLICE) + " is required"
_DEVICE_TEXT: Final = (
    "`nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the "
    "ResourceSlice spec"
)


def _version(path: str, value: str) -> r.Found:
    if not _SEMVER.fullmatch(value):
        yield fe.invalid(path, value, "must be a string compatible with semver.org spec 2.0.0")
    yield from _short(path, value)


def _short(path: str, value: str) -> r.Found:
    if len(value.encode("utf-8", "replace")) > _LONGEST_VALUE:
        yield fe.too_long(path, _LONGEST_VALUE)


_TEXTS: Final = {"string": _short, "version": _version, "strings": _short, "versions": _version}


def _attribute(attribute: Json, path: str) -> r.Found:
    """Check for one value, or one list of values that is not empty."""
    forms = [form for form in _FORMS if attribute.get(form) is not None]
    for form in forms:
        value, check = attribute[form], _TEXTS.get(form)
        if form in _LISTS:
            if not value:
                yield fe.invalid(f"{path}.{form}", value, "must not be empty if specified")
            for index, item in enumerate(value if check is not None else ()):
                yield from check(f"{path}.{form}[{index}]", item) if check is not None else ()
        elif check is not None:
            yield from check(f"{path}.{form}", value)
    if len(forms) != 1:
        yield fe.invalid(path, attribute if forms else "", _ONE_VALUE)


def _qualified(name: str, path: str) -> r.Found:
    """Check the name of an attribute or capacity: an identifier, optionally with a domain."""
    parts = name.split("/")
    if len(parts) > 2:
        yield fe.invalid(path, name, "must not contain more than one slash")
        return
    if len(parts) == 2:
        if not parts[0]:
            yield fe.invalid(path, "", "the domain must not be empty")
        else:
            yield from devices.driver_name(parts[0], path)
        if not parts[1]:
            yield fe.invalid(path, "", "the name must not be empty")
            return
    if len(parts[-1]) > _LONGEST_NAME:
        yield fe.too_long(path, _LONGEST_NAME)
    if not _IDENTIFIER.fullmatch(parts[-1]):
        yield fe.invalid(path, parts[-1], _NO_IDENTIFIER)


def _number_of_values(attributes: Json) -> int:
    return sum(sum(len(attribute.get(form) or ()) for form in _LISTS) or 1 for attribute in attributes.values())


def _has(device: Json, path: str) -> r.Found:
    """Check the attributes and capacities of a device; first their number."""
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    if (entries := len(attributes) + len(capacity)) > _MOST_ENTRIES:
        detail = f"the total number of attributes and capacities must not exceed {_MOST_ENTRIES}"
        yield fe.invalid(path, entries, detail)
    if (values := _number_of_values(attributes)) > _MOST_VALUES:
        yield fe.invalid(path, values, f"the total number of attribute values must not exceed {_MOST_VALUES}")
    for name, attribute in attributes.items():
        yield from _qualified(name, f"{path}.attributes")
        yield from _attribute(attribute, f"{path}.attributes[{name}]")
    for name, amount in capacity.items():
        yield from _qualified(name, f"{path}.capacity")
        if amount.get("requestPolicy") is None:
            continue
        at = f"{path}.capacity[{name}].requestPolicy"
        if device.get("allowMultipleAllocations"):
            yield from request_policy(amount, at)
        else:
            yield fe.forbidden(at, "allowMultipleAllocations must be true")


def _counters(holder: Json, path: str) -> r.Found:
    counters = holder.get("counters") or {}
    if not counters:
        yield fe.required(f"{path}.counters")
    elif len(counters) > _MOST_COUNTERS:
        yield fe.too_many(f"{path}.counters", len(counters), _MOST_COUNTERS)
    else:
        for name in counters:
            yield from fe.malformed(f"{path}.counters", name, names.dns_label)


def _binding(device: Json, path: str) -> r.Found:
    """Check the binding conditions of a device: conditions of success and of failure, both or neither."""
    good, bad = "bindingConditions", "bindingFailureConditions"
    stated = {name: device.get(name) or [] for name in (good, bad)}
    successes = set(stated[good])
    for name, values in stated.items():
        if len(values) > _MOST_CONDITIONS:
            yield fe.too_many(f"{path}.{name}", len(values), _MOST_CONDITIONS)
        twice = r.repeated(values)
        for index, value in enumerate(values):
            at = f"{path}.{name}[{index}]"
            yield from fe.malformed(at, value, names.qualified)
            if index in twice:
                yield fe.duplicate(at, value)
            if name == bad and value in successes:
                yield fe.invalid(at, value, f"{bad} must not overlap with {good}")
    for name, partner in ((good, bad), (bad, good)):
        if not stated[name] and stated[partner]:
            yield fe.invalid(f"{path}.{name}", stated[name], f"{name} are required to use {partner}")


def _node_amounts(device: Json, path: str) -> r.Found:
    """Check the device's share of the node's own resources, or its overhead for pods (KEP-5517, "API Validation")."""
    for name, amounts in (device.get("nodeAllocatableResources") or {}).items():
        at = f"{path}.nodeAllocatableResources[{name}]"
        if name not in ("cpu", "memory") and not name.startswith("hugepages-"):
            yield fe.not_supported(at, name, ("cpu", "memory", "hugepages-<size>"))
        mapping, overhead = amounts.get("mapping"), amounts.get("overhead")
        if mapping is None and overhead is None:
            yield fe.required(at, "at least one of `mapping` and `overhead` must be specified")
        if mapping is not None:
            yield from _mapping(mapping, f"{at}.mapping")
        if overhead is not None:
            costs = {part: overhead[part] for part in ("perPod", "perContainer") if overhead.get(part) is not None}
            if not costs:
                yield fe.required(f"{at}.overhead", "at least one of `perPod` and `perContainer` must be specified")
            for part, amount in costs.items():
                if parse(amount).nano < 0:
                    yield fe.invalid(f"{at}.overhead.{part}", amount, "must be greater than or equal to 0")


def _mapping(mapping: Json, path: str) -> r.Found:
    """Check a mapping by the number of devices or by a capacity, not both; a capacity needs its multiplier."""
    key, *parts = ("capacityKey", "capacityMultiplier", "deviceMultiplier")
    by_key, by_capacity, by_count = (mapping.get(part) is not None for part in (key, *parts))
    if by_count == (by_key or by_capacity):
        ways = "exactly one of `deviceMultiplier` or `capacityKey` with `capacityMultiplier` must be specified"
        yield fe.invalid(path, mapping, ways) if by_count else fe.required(path, ways)
    elif by_key != by_capacity:
        yield fe.required(f"{path}.{parts[0] if by_key else key}", "`capacityKey` and `capacityMultiplier` go together")
    if by_key:
        yield from _qualified(mapping[key], f"{path}.{key}")


_DEVICE: Final = (
    r.wanted("name", names.dns_label),
    _has,
    r.listed("taints", *devices.TAINT, most=_MOST_TAINTS),
    r.listed(
        "consumesCounters",
        r.wanted("counterSet", names.dns_label),
        _counters,
        r.Unique("counterSet", place=""),
        most=_MOST_CONSUMED,
    ),
    _binding,
    _node_amounts,
)


def _advanced(device: Json) -> bool:
    lists = any(
        attribute.get(form) is not None for attribute in (device.get("attributes") or {}).values() for form in _LISTS
    )
    return lists or bool(device.get("taints") or device.get("consumesCounters"))


def _devices(spec: Json, path: str) -> r.Found:
    """Check that devices have unique names; fewer devices are allowed if they are costly to allocate."""
    devices: list[Any] = spec.get("devices") or []
    if devices and spec.get("sharedCounters"):
        yield fe.invalid(path, "", "only one of `sharedCounters` or `devices` is allowed")
    most = _MOST_ADVANCED if any(map(_advanced, devices)) else _MOST_DEVICES
    apart = bool(spec.get("perDeviceNodeSelection"))

    def where(device: Json, place: str) -> r.Found:
        if apart:
            yield from _places(device, place, _OF_DEVICE, _DEVICE_TEXT)
        elif any(device.get(name) is not None for name in _OF_DEVICE):
            detail = (
                "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true "
                "in the ResourceSlice spec"
            )
            yield fe.invalid(place, None, detail)

    checks = r.listed("devices", *_DEVICE, where, r.Unique("name", empty=False, place=""), most=most)
    yield from checks(spec, path)


_OPERATIONS: Final = ("*", "NodePrepareResources", "NodeUnprepareResources")


def _skipped(spec: Json, path: str) -> r.Found:
    """Check the skipped kubelet operations: a driver that prepares devices must also unprepare them."""
    at, operations = f"{path}.skipNodeOperations", spec.get("skipNodeOperations") or []
    twice = r.repeated(operations)
    for index, name in enumerate(operations):
        yield from fe.one_of(f"{at}[{index}]", name, _OPERATIONS) if name not in _OPERATIONS else ()
        if index in twice:
            yield fe.duplicate(f"{at}[{index}]", name)
    if _OPERATIONS[1] in operations and not {"*", _OPERATIONS[2]} & set(operations):
        detail = "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped"
        yield fe.invalid(at, operations, detail)


def _partition_type(spec: Json, path: str) -> r.Found:
    """Check that the partition attribute is a string on every device that consumes counters."""
    name = spec.get("partitionTypeAttribute")
    if name is None:
        return
    at = f"{path}.partitionTypeAttribute"
    partitions = [
        (index, device) for index, device in enumerate(spec.get("devices") or ()) if device.get("consumesCounters")
    ]
    if not partitions:
        yield fe.invalid(at, name, "may only be set on a slice which declares devices that consume counters")
        return
    wrong = list(_qualified(name, at))
    if "/" not in name:
        wrong.append(fe.invalid(at, name, "a fully qualified name must be a domain and a name separated by a slash"))
    if wrong:
        yield from wrong
        return
    bare = name.removeprefix(f"{spec.get('driver', '')}/")
    for index, device in partitions:
        attributes = device.get("attributes") or {}
        attribute, place = attributes.get(name) or attributes.get(bare), f"{path}.devices[{index}].attributes[{name}]"
        if attribute is None:
            detail = "device consumes counters and `partitionTypeAttribute` names this attribute, so it must be set"
            yield fe.required(place, detail)
        elif attribute.get("string") is None:
            detail = "must be a string value because `partitionTypeAttribute` names this attribute"
            yield fe.invalid(place, attribute, detail)


resource_slice = r.below(
    "spec",
    lambda spec, path: devices.driver_name(spec.get("driver", ""), f"{path}.driver"),
    r.below(
        "pool",
        lambda pool, path: devices.pool_name(pool.get("name", ""), f"{path}.name"),
        r.at_least(1, "resourceSliceCount", detail=r.POSITIVE, missing=0),
        r.at_least(0, "generation", detail="must be greater than or equal to zero"),
    ),
    lambda spec, path: _places(spec, path, _OF_SLICE, _SLICE_TEXT),
    _devices,
    r.listed(
        "sharedCounters",
        r.wanted("name", names.dns_label),
        _counters,
        r.Unique("name", empty=False, place=""),
        most=_MOST_SETS,
    ),
    _partition_type,
    _skipped,
)
"""Check driver, pool, devices and counters of a slice (ValidateResourceSlice)."""
