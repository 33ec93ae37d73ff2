"""What happens to one value of an object that leaves a cluster: the leaves of the tables in `client.shapes`."""

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
"""Field name to shape, or what to make of a value."""


class Demanded(NamedTuple):
    """A field that the API demands, though what is read has a default for it and leaves it out where it has that."""

    default: Any
    shape: Shape


_UNKNOWN_OWNER: Final = ("example.com/v1", "Owner")


def shaped_by(shape: Shape, data: Any, names: Names) -> Any:
    """Return what of the data may leave, in the form it may leave."""
    if callable(shape):
        return shape(data, names)
    made: Json = {}
    for name, found in data.items():
        inner = shape.get(name)
        if isinstance(inner, Demanded):
            inner = inner.shape
        if inner is not None and found is not None:
            value = shaped_by(inner, found, names)
            if value or name not in _NOTHING_IF_EMPTY:
                made[name] = value
    for name, inner in shape.items():
        if isinstance(inner, Demanded):
            made.setdefault(name, inner.default)
    return made


_NOTHING_IF_EMPTY: Final = frozenset(
    (
        *("annotations", "labels", "requests", "limits", "overhead", "nodeSelector", "capacity", "allocatable"),
        *("matchLabels", "allocatedResources", "disruptedPods", "resources", "conditions", "volumes", "images"),
    )
)
"""Maps and lists for which empty means absent. Others may mean something: `labelSelector: {}` selects everything."""


# --- leaves -----------------------------------------------------------------------------------------------


def request_state(value: str, names: Names) -> str:
    """Return the state of a ProvisioningRequest; of anonymous snapshots its reason and message are left out."""
    state = value.partition(":")[0]
    return value if not names.anonymize else state if state in STATES else ""


def keep(value: Any, names: Names) -> Any:
    """Return a value that no user chose; of anonymous snapshots every text in it that is not public is replaced."""
    if not names.anonymize:
        return value
    if isinstance(value, str):
        return names.word(value)
    if isinstance(value, Mapping):
        return {k if k in field_names() else names.resource(k): keep(found, names) for k, found in value.items()}
    return [keep(item, names) for item in value] if isinstance(value, Sequence) else value


def kept(fields: str) -> dict[str, Leaf]:
    """Return the shape of fields, a list of words, with values that no user chose."""
    return dict.fromkeys(fields.split(), keep)


def driver(value: str, names: Names) -> str:
    """Name a driver."""
    return names.driver(value)


def drivers(value: str, names: Names) -> str:
    """Name drivers, separated by commas."""
    return ",".join(map(names.driver, value.split(",")))


def namespaces(value: str, names: Names) -> str:
    """Name namespaces, separated by commas."""
    return ",".join(names.name(NAMESPACE, item.strip()) for item in value.split(","))


def levels(value: str, names: Names) -> str:
    """Return the topology levels of a list, or the one of a slice, that have the same name everywhere."""
    if not names.anonymize:
        return value
    items = (item.strip().partition("=") for item in value.split(","))
    public = ((level, equals, size) for level, equals, size in items if level in LEVELS or level in KEYS)
    return ",".join(f"{level}{equals}{size if size.isdecimal() else ''}" for level, equals, size in public)


def features(value: Sequence[str], names: Names) -> list[str]:
    """Return those by which pods are placed, where names are replaced."""
    return sorted(decisive(value)) if names.anonymize else list(value)


def _reason(value: str, names: Names) -> str:
    """Return a word in camel case, which has no pseudonym."""
    return value if not names.anonymize or is_public(value) else "Other"


def named(domain: str) -> Leaf:
    """Return a name of a domain."""
    return lambda value, names: names.name(domain, value)


def each(shape: Shape) -> Leaf:
    """Apply a shape to each item of a list."""
    return lambda value, names: [shaped_by(shape, item, names) for item in value]


def one_of(**known: Shape) -> Leaf:
    """Return each item of a list, but for items that have nothing besides a name."""

    def shaped(value: Any, names: Names) -> Any:
        items = [shaped_by(known, item, names) for item in value]
        return [item for item in items if len(item) > 1]

    return shaped


def nothing_of(_value: Any, _names: Names) -> Any:
    """That it is there, and nothing of what it says."""
    return {}


def priority_class(value: str, names: Names) -> str:
    """Return the name of a priority class; those of the system are everywhere the same."""
    return value if value in CLASSES else names.name(PRIORITY, value)


def address(value: str, names: Names) -> str:
    """Return a host address; those that mean every address stay, as they conflict with all."""
    return value if value in ("0.0.0.0", "::") else names.name(ADDRESS, value)


def scheduler(value: str, names: Names) -> str:
    """Name a scheduler; the default one keeps its name."""
    return value if value == o.DEFAULT_SCHEDULER else names.name("scheduler", value)


def labels(value: Mapping[str, str], names: Names) -> Json:
    """Name the keys and values of labels."""
    return {names.key(key): names.value(key, text) for key, text in value.items()}


def label_key(value: str, names: Names) -> str:
    """Name the key of a label."""
    return names.key(value)


def requirements(value: Sequence[Mapping[str, Any]], names: Names) -> list[Json]:
    """matchExpressions: values belong to their key."""
    result = []
    for item in value:
        key, operator = item.get("key", ""), item.get("operator", "")
        if operator in ("Gt", "Lt"):
            names.numeric(key)
        made: Json = {"key": names.key(key), "operator": keep(operator, names)}
        if item.get("values"):
            made["values"] = [names.value(key, text) for text in item["values"]]
        result.append(made)
    return result


def field_requirements(value: Sequence[Mapping[str, Any]], names: Names) -> list[Json]:
    """matchFields: only metadata.name exists."""
    shape = {"key": _field, "operator": keep, "values": each(named(NODE))}
    return [shaped_by(shape, item, names) for item in value]


def _field(value: str, names: Names) -> str:
    return value if value == "metadata.name" else names.word(value)


def tainting(*more: str) -> Leaf:
    """Taints and tolerations: a value belongs to its key."""

    def shaped(value: Sequence[Mapping[str, Any]], names: Names) -> list[Json]:
        result = []
        for item in value:
            key = item.get("key", "")
            if item.get("operator") in ("Gt", "Lt"):
                names.numeric(key)
            made: Json = {name: keep(item[name], names) for name in more if name in item}
            if key:
                made["key"] = names.key(key)
            if item.get("value"):
                made["value"] = names.value(key, item["value"])
            result.append(made)
        return result

    return shaped


def owners(value: Sequence[Mapping[str, Any]], names: Names) -> list[Json]:
    """Owners by kind and name; a kind that is not public is just an owner."""
    result = []
    for item in value:
        version, kind = item.get("apiVersion", ""), item.get("kind", "")
        if names.anonymize and not is_public_owner(version, kind):
            version, kind = _UNKNOWN_OWNER
        made: Json = {"apiVersion": version, "kind": kind}
        made["name"] = names.name(domain_of(kind), item.get("name", ""))
        made["uid"] = names.name(UID, item.get("uid", ""))
        if item.get("controller"):
            made["controller"] = True
        result.append(made)
    return result


def conditions(*types: str) -> Leaf:
    """Conditions of known types, without the messages."""
    shape = {"type": lambda value, _names: value, "status": keep, "reason": _reason, "lastTransitionTime": keep}

    def shaped(value: Sequence[Mapping[str, Any]], names: Names) -> list[Json]:
        return [shaped_by(shape, item, names) for item in value if item.get("type") in types]

    return shaped


def image(value: str, names: Names) -> str:
    """Name an image."""
    return names.name(IMAGE, with_tag(value))


def images(value: Sequence[Mapping[str, Any]], names: Names) -> list[Json]:
    """Return a node's images, by number, as far as a pod uses them."""
    result = []
    for item in value:
        used = [name for name in item.get("names", ()) if with_tag(name) in names.images]
        if used:
            result.append({"names": [image(name, names) for name in used], "sizeBytes": item.get("sizeBytes", 0)})
    return result


def with_tag(image: str) -> str:
    """`nginx` and `nginx:latest` are one image (kube-scheduler's ImageLocality)."""
    return image if ":" in image.rpartition("/")[2] else image + ":latest"


def devices(value: Any, names: Names) -> Any:
    """Requests for devices without the drivers' own configuration, which may hold anything."""
    return {name: found for name, found in value.items() if name != "config"}


# --- shapes -----------------------------------------------------------------------------------------------


def amounts(value: Mapping[str, Any], names: Names) -> Json:
    """Resources by name, which may be that of a device class."""
    return {
        IMPLICIT + names.name(DEVICE_CLASS, name.removeprefix(IMPLICIT))
        if name.startswith(IMPLICIT)
        else names.resource(name): keep(amount, names)
        for name, amount in value.items()
    }


def quota_amounts(value: Mapping[str, Any], names: Names) -> Json:
    """Amounts of a quota: resources with a prefix, some after the name of a storage class or a device class."""
    return {_quota_name(name, names): keep(amount, names) for name, amount in value.items()}


def _quota_name(name: str, names: Names) -> str:
    storage_class, _, counted = name.partition(CLASS_STORAGE)
    if counted in ("requests.storage", "persistentvolumeclaims"):
        return names.name(CLASS, storage_class) + CLASS_STORAGE + counted
    if name.startswith(f"requests.{IMPLICIT}"):
        return f"requests.{IMPLICIT}" + names.name(DEVICE_CLASS, name.removeprefix(f"requests.{IMPLICIT}"))
    return names.resource(name)


def scope_requirements(value: Sequence[Mapping[str, Any]], names: Names) -> list[Json]:
    """scopeSelector.matchExpressions: the values of the scope PriorityClass are names of classes."""
    result = []
    for item in value:
        made: Json = {key: keep(item[key], names) for key in ("scopeName", "operator") if key in item}
        of_classes = item.get("scopeName") == "PriorityClass"
        if item.get("values"):
            leaf = priority_class if of_classes else keep
            made["values"] = [leaf(text, names) for text in item["values"]]
        result.append(made)
    return result
