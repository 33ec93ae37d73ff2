"""Conversions of single values of objects in snapshots: the leaves of the tables in `client.shapes`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kube_rules import objects as o
from kube_rules.admission.usage import CLASS_STORAGE
from kube_rules.devices import IMPLICIT
from kube_rules.json import Json
from kube_rules.node_features import decisive
from kube_rules.topology_terms import LEVELS
from reprieve.client.pseudonyms import (
    ADDRESS,
    CLASS,
    DEVICE_CLASS,
    IMAGE,
    NAMESPACE,
    NODE,
    PRIORITY,
    UID,
    Names,
    domain_of,
)
from reprieve.client.public_words import CLASSES, KEYS, field_names, is_public, is_public_owner
from reprieve.decisions.requested_nodes import STATES

Leaf = Callable[[Any, Names], Any]
Shape = Mapping[str, Any] | Leaf
"""Field name to shape, or the function that converts a value."""


class RequiredField(NamedTuple):
    """A field that the API requires although typed objects omit it if it has its default."""

    default: Any
    shape: Shape


_UNKNOWN_OWNER: Final = ("example.com/v1", "Owner")


def shaped_by(shape: Shape, data: Any, names: Names) -> Any:
    """Return the data that a snapshot may have, in its converted form."""
    if callable(shape):
        return shape(data, names)
    result: Json = {}
    for name, field_value in data.items():
        inner = shape.get(name)
        if isinstance(inner, RequiredField):
            inner = inner.shape
        if inner is not None and field_value is not None:
            value = shaped_by(inner, field_value, names)
            if value or name not in _NOTHING_IF_EMPTY:
                result[name] = value
    for name, inner in shape.items():
        if isinstance(inner, RequiredField):
            result.setdefault(name, inner.default)
    return result


_NOTHING_IF_EMPTY: Final = frozenset(
    (
        *("annotations", "labels", "requests", "limits", "overhead", "nodeSelector", "capacity", "allocatable"),
        *("matchLabels", "allocatedResources", "disruptedPods", "resources", "conditions", "volumes", "images"),
    )
)
"""Maps and lists for which empty means absent. Others may be meaningful: `labelSelector: {}` selects everything."""


# --- leaves -----------------------------------------------------------------------------------------------


def request_state(value: str, names: Names) -> str:
    """Return the state of a ProvisioningRequest; anonymous snapshots omit its reason and message."""
    state = value.partition(":")[0]
    return value if not names.anonymize else state if state in STATES else ""


def keep(value: Any, names: Names) -> Any:
    """Return a value that no user chose; in anonymous snapshots every text in it that is not public is replaced."""
    if not names.anonymize:
        return value
    if isinstance(value, str):
        return names.word(value)
    if isinstance(value, Mapping):
        return {k if k in field_names() else names.resource(k): keep(inner, names) for k, inner in value.items()}
    return [keep(item, names) for item in value] if isinstance(value, Sequence) else value


def kept(fields: str) -> dict[str, Leaf]:
    """Return the shape of fields, a list of words, with values that no user chose."""
    return dict.fromkeys(fields.split(), keep)


def driver(value: str, names: Names) -> str:
    """Return the name of a driver."""
    return names.driver(value)


def drivers(value: str, names: Names) -> str:
    """Return the names of drivers, separated by commas."""
    return ",".join(map(names.driver, value.split(",")))


def namespaces(value: str, names: Names) -> str:
    """Return the names of namespaces, separated by commas."""
    return ",".join(names.name(NAMESPACE, item.strip()) for item in value.split(","))


def levels(value: str, names: Names) -> str:
    """Return the public topology levels of a list, or of a slice."""
    if not names.anonymize:
        return value
    items = (item.strip().partition("=") for item in value.split(","))
    public = ((level, equals, size) for level, equals, size in items if level in LEVELS or level in KEYS)
    return ",".join(f"{level}{equals}{size if size.isdecimal() else ''}" for level, equals, size in public)


def features(value: Sequence[str], names: Names) -> list[str]:
    """Return the features that affect the placement of pods; all if names are not replaced."""
    return sorted(decisive(value)) if names.anonymize else list(value)


def _reason(value: str, names: Names) -> str:
    """Return a word in camel case, which has no pseudonym."""
    return value if not names.anonymize or is_public(value) else "Other"


def named(domain: str) -> Leaf:
    """Return a leaf for names of a domain."""
    return lambda value, names: names.name(domain, value)


def each(shape: Shape) -> Leaf:
    """Return a leaf that applies a shape to each item of a list."""
    return lambda value, names: [shaped_by(shape, item, names) for item in value]


def one_of(**fields: Shape) -> Leaf:
    """Return a leaf for the items of a list, without items that have only a name."""

    def shaped(value: Any, names: Names) -> Any:
        items = [shaped_by(fields, item, names) for item in value]
        return [item for item in items if len(item) > 1]

    return shaped


def nothing_of(_value: Any, _names: Names) -> Any:
    """Return an empty object: the field exists, but its content is private."""
    return {}


def priority_class(value: str, names: Names) -> str:
    """Return the name of a priority class; those of the system are public."""
    return value if value in CLASSES else names.name(PRIORITY, value)


def address(value: str, names: Names) -> str:
    """Return a host address; wildcard addresses stay, as they conflict with all others."""
    return value if value in ("0.0.0.0", "::") else names.name(ADDRESS, value)


def scheduler(value: str, names: Names) -> str:
    """Return the name of a scheduler; the default one is public."""
    return value if value == o.DEFAULT_SCHEDULER else names.name("scheduler", value)


def labels(value: Mapping[str, str], names: Names) -> Json:
    """Return the keys and values of labels."""
    return {names.key(key): names.value(key, text) for key, text in value.items()}


def label_key(value: str, names: Names) -> str:
    """Return the key of a label."""
    return names.key(value)


def requirements(value: Sequence[Mapping[str, Any]], names: Names) -> list[Json]:
    """Return matchExpressions; values belong to their key."""
    result = []
    for item in value:
        key, operator = item.get("key", ""), item.get("operator", "")
        if operator in ("Gt", "Lt"):
            names.numeric(key)
        requirement: Json = {"key": names.key(key), "operator": keep(operator, names)}
        if item.get("values"):
            requirement["values"] = [names.value(key, text) for text in item["values"]]
        result.append(requirement)
    return result


def field_requirements(value: Sequence[Mapping[str, Any]], names: Names) -> list[Json]:
    """Return matchFields; only metadata.name exists."""
    shape = {"key": _field, "operator": keep, "values": each(named(NODE))}
    return [shaped_by(shape, item, names) for item in value]


def _field(value: str, names: Names) -> str:
    return value if value == "metadata.name" else names.word(value)


def tainting(*more: str) -> Leaf:
    """Return a leaf for taints or tolerations; a value belongs to its key."""

    def shaped(value: Sequence[Mapping[str, Any]], names: Names) -> list[Json]:
        result = []
        for item in value:
            key = item.get("key", "")
            if item.get("operator") in ("Gt", "Lt"):
                names.numeric(key)
            taint: Json = {name: keep(item[name], names) for name in more if name in item}
            if key:
                taint["key"] = names.key(key)
            if item.get("value"):
                taint["value"] = names.value(key, item["value"])
            result.append(taint)
        return result

    return shaped


def owners(value: Sequence[Mapping[str, Any]], names: Names) -> list[Json]:
    """Return owners by kind and name; a kind that is not public is replaced by a generic one."""
    result = []
    for item in value:
        version, kind = item.get("apiVersion", ""), item.get("kind", "")
        if names.anonymize and not is_public_owner(version, kind):
            version, kind = _UNKNOWN_OWNER
        owner: Json = {"apiVersion": version, "kind": kind}
        owner["name"] = names.name(domain_of(kind), item.get("name", ""))
        owner["uid"] = names.name(UID, item.get("uid", ""))
        if item.get("controller"):
            owner["controller"] = True
        result.append(owner)
    return result


def conditions(*types: str) -> Leaf:
    """Return a leaf for conditions of the given types, without their messages."""
    shape = {"type": lambda value, _names: value, "status": keep, "reason": _reason, "lastTransitionTime": keep}

    def shaped(value: Sequence[Mapping[str, Any]], names: Names) -> list[Json]:
        return [shaped_by(shape, item, names) for item in value if item.get("type") in types]

    return shaped


def image(value: str, names: Names) -> str:
    """Return the name of an image."""
    return names.name(IMAGE, with_tag(value))


def images(value: Sequence[Mapping[str, Any]], names: Names) -> list[Json]:
    """Return the images of a node that pods use."""
    result = []
    for item in value:
        used = [name for name in item.get("names", ()) if with_tag(name) in names.images]
        if used:
            result.append({"names": [image(name, names) for name in used], "sizeBytes": item.get("sizeBytes", 0)})
    return result


def with_tag(image: str) -> str:
    """Return an image with its tag: `nginx` and `nginx:latest` are the same image (kube-scheduler's ImageLocality)."""
    return image if ":" in image.rpartition("/")[2] else image + ":latest"


def devices(value: Any, names: Names) -> Any:
    """Return requests for devices without the drivers' own configuration, which may have any content."""
    return {name: field_value for name, field_value in value.items() if name != "config"}


# --- shapes -----------------------------------------------------------------------------------------------


def amounts(value: Mapping[str, Any], names: Names) -> Json:
    """Return amounts by resource, which may be named after a device class."""
    return {
        IMPLICIT + names.name(DEVICE_CLASS, name.removeprefix(IMPLICIT))
        if name.startswith(IMPLICIT)
        else names.resource(name): keep(amount, names)
        for name, amount in value.items()
    }


def quota_amounts(value: Mapping[str, Any], names: Names) -> Json:
    """Return the amounts of a quota: resources with a prefix, some named after a storage class or a device class."""
    return {_quota_name(name, names): keep(amount, names) for name, amount in value.items()}


def _quota_name(name: str, names: Names) -> str:
    storage_class, _, counted = name.partition(CLASS_STORAGE)
    if counted in ("requests.storage", "persistentvolumeclaims"):
        return names.name(CLASS, storage_class) + CLASS_STORAGE + counted
    if name.startswith(f"requests.{IMPLICIT}"):
        return f"requests.{IMPLICIT}" + names.name(DEVICE_CLASS, name.removeprefix(f"requests.{IMPLICIT}"))
    return names.resource(name)


def scope_requirements(value: Sequence[Mapping[str, Any]], names: Names) -> list[Json]:
    """Return scopeSelector.matchExpressions; the values of the scope PriorityClass are names of classes."""
    result = []
    for item in value:
        requirement: Json = {key: keep(item[key], names) for key in ("scopeName", "operator") if key in item}
        of_classes = item.get("scopeName") == "PriorityClass"
        if item.get("values"):
            leaf = priority_class if of_classes else keep
            requirement["values"] = [leaf(text, names) for text in item["values"]]
        result.append(requirement)
    return result
