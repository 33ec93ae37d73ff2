"""Rules of one node of a structural schema: unsupported words, and Kubernetes' extensions (``x-kubernetes-``).

Sources: k8s.io/apiextensions-apiserver (apiserver/schema/validation, apis/apiextensions/validation).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kube_rules import field_errors as fe
from kube_rules.json import Json
from kube_rules.validation import rows as r

_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies")
_EMBEDDED, _KEEP, _EITHER = (
    f"x-kubernetes-{name}" for name in ("embedded-resource", "preserve-unknown-fields", "int-or-string")
)
_LIST, _KEYS, _MAP = (f"x-kubernetes-{name}" for name in ("list-type", "list-map-keys", "map-type"))
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_NAMES = {"name", "generateName"}
_OUTSIDE_LISTS = {"atomic", "set", "map"}


def extensions(schema: Json, path: str, *, root: bool) -> r.Found:
    """Check a node itself, without the nodes below it."""
    for word in _UNSUPPORTED:
        if schema.get(word):
            yield fe.forbidden(f"{path}.{word}", f"{word} is not supported")
    if schema.get("type") == "null":
        yield fe.forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if root:
        yield from _at_the_root(schema, path)
    yield from _kinds_of_values(schema, path)
    if root or schema.get(_EMBEDDED):
        yield from _resource(schema, path)
    if schema.get(_EMBEDDED):
        yield from _embedded(schema, path)
    yield from _maps(schema, path)
    yield from _lists(schema, path)
    for index, rule in enumerate(schema.get("x-kubernetes-validations", ())):
        yield from _rule(rule, f"{path}.x-kubernetes-validations[{index}]")


def _at_the_root(schema: Json, path: str) -> r.Found:
    if schema.get("nullable"):
        yield fe.forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    if schema.get("additionalProperties") is not None:
        yield fe.forbidden(f"{path}.additionalProperties", "must not be used at the root")
    properties = schema.get("properties", {})
    for name in ("apiVersion", "kind", "metadata"):
        if "default" in _schema(properties.get(name)):
            place = f"{path}.properties[{name}].default"
            yield fe.forbidden(place, f"must not be set in top-level {name}")
    metadata = _schema(properties.get("metadata"))
    limits = {word for word in metadata if word not in ("type", "default", "properties")}
    words = limits - {"required", "description"}
    if words or not set(metadata.get("properties", {})) <= _NAMES:
        detail = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield fe.forbidden(f"{path}.properties[metadata]", detail)


def _kinds_of_values(schema: Json, path: str) -> r.Found:
    if schema.get(_KEEP) is False:
        yield fe.invalid(f"{path}.{_KEEP}", False, "must be true or undefined")
    if schema.get(_EITHER):
        for word in (_KEEP, _EMBEDDED):
            if schema.get(word):
                yield fe.invalid(f"{path}.{word}", True, f"must be false if {_EITHER} is true")


def _resource(schema: Json, path: str) -> r.Found:
    """Check the fields of every resource."""
    for name, wanted in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        field = schema.get("properties", {}).get(name)
        if isinstance(field, dict) and field.get("type", "") != wanted:
            yield fe.invalid(f"{path}.properties[{name}].type", field.get("type", ""), f"must be {wanted}")
        if isinstance(field, dict) and field.get(_EMBEDDED):
            yield fe.forbidden(f"{path}.properties[{name}].{_EMBEDDED}", "must not be used inside of resource meta")


def _embedded(schema: Json, path: str) -> r.Found:
    kind, detail = schema.get("type", ""), f"must be object if {_EMBEDDED} is true"
    if not kind:
        yield fe.required(f"{path}.type", detail)
    elif kind != "object":
        yield fe.invalid(f"{path}.type", kind, detail)
    if schema.get("additionalProperties") is not None:
        yield fe.forbidden(f"{path}.additionalProperties", f"must not be used if {_EMBEDDED} is set")
    if not schema.get(_KEEP) and not schema.get("properties"):
        yield fe.required(f"{path}.properties", f"must not be empty if {_EMBEDDED} is true without {_KEEP}")


def _typed(schema: Json, path: str, word: str, wanted: str) -> r.Found:
    kind, detail = schema.get("type", ""), f"must be {wanted} if {word} is specified"
    if not kind:
        yield fe.required(f"{path}.type", detail)
    elif kind != wanted:
        yield fe.invalid(f"{path}.type", kind, detail)


def _maps(schema: Json, path: str) -> r.Found:
    kind = schema.get(_MAP)
    if kind is None:
        return
    yield from _typed(schema, path, _MAP, "object")
    if kind not in ("atomic", "granular"):
        yield fe.not_supported(f"{path}.{_MAP}", kind, ("atomic", "granular"))


def _lists(schema: Json, path: str) -> r.Found:
    kind, keys = schema.get(_LIST), schema.get(_KEYS) or ()
    if kind is not None:
        yield from _typed(schema, path, _LIST, "array")
        if kind not in _OUTSIDE_LISTS:
            yield fe.not_supported(f"{path}.{_LIST}", kind, ("atomic", "set", "map"))
    if keys and kind != "map":
        detail = f"must be map if {_KEYS} is non-empty"
        yield fe.required(f"{path}.{_LIST}", detail) if kind is None else fe.invalid(f"{path}.{_LIST}", kind, detail)
    items = _schema(schema.get("items"))
    if kind in ("set", "map") and items.get("nullable"):
        yield fe.forbidden(f"{path}.items.nullable", f"cannot be nullable when {_LIST} is {kind}")
    if kind == "set":
        yield from _items_of_a_set(items, path)
    if kind == "map":
        if "items" not in schema:
            yield fe.required(f"{path}.items", f"must have a schema if {_LIST} is map")
        elif items.get("type") != "object":
            detail = f"must be object if parent array's {_LIST} is map"
            yield fe.invalid(f"{path}.items.type", items.get("type", ""), detail)
        else:
            yield from _keys(list(keys), items, path)


def _items_of_a_set(items: Json, path: str) -> r.Found:
    detail = f"must be atomic as item of a list with {_LIST}=set"
    if items.get("type") == "array" and items.get(_LIST, "atomic") != "atomic":
        yield fe.invalid(f"{path}.items.{_LIST}", items[_LIST], detail)
    if items.get("type") == "object" and items.get(_MAP) != "atomic":
        yield fe.invalid(f"{path}.items.{_MAP}", items.get(_MAP), detail)


def _keys(keys: list[str], items: Json, path: str) -> r.Found:
    """Check the keys of a list of type map: required scalar fields of its items."""
    properties, required, twice = items.get("properties", {}), set(items.get("required", ())), r.repeated(keys)
    unknown = fe.invalid(f"{path}.{_KEYS}", keys, "entries must all be names of item properties")
    doubled = fe.invalid(f"{path}.{_KEYS}", keys, "must not contain duplicate entries")
    for index, key in enumerate(keys):
        field, place = properties.get(key), f"{path}.items.properties[{key}]"
        if not isinstance(field, dict):
            yield unknown
        else:
            if field.get("type") in ("array", "object"):
                detail = f"must be a scalar type if parent array's {_LIST} is map"
                yield fe.invalid(f"{place}.type", "object", detail)
            if key not in required and "default" not in field:
                detail = f"this property is in {_KEYS}, so it must have a default or be a required property"
                yield fe.required(f"{place}.default", detail)
            if field.get("nullable"):
                yield fe.forbidden(f"{place}.nullable", f"this property is in {_KEYS}, so it cannot be nullable")
        if index in twice:
            yield doubled


def _rule(rule: Mapping[str, Any], path: str) -> r.Found:
    """Check the fields of a rule other than its expressions."""
    text, message = str(rule.get("rule", "")).strip(), str(rule.get("message", ""))
    if text and message and not message.strip():
        yield fe.invalid(f"{path}.message", message, "must be non-empty if specified")
    elif text and _broken(message.strip()):
        yield fe.invalid(f"{path}.message", message, "must not contain line breaks")
    elif _broken(text) and not message.strip():
        yield fe.required(f"{path}.message", "message must be specified if rule contains line breaks")
    expression = rule.get("messageExpression", "")
    if expression and not expression.strip():
        yield fe.required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
    if rule.get("reason") is not None and rule["reason"] not in _REASONS:
        yield fe.not_supported(f"{path}.reason", rule["reason"], _REASONS)
    field = rule.get("fieldPath", "")
    if field and not field.strip():
        yield fe.invalid(f"{path}.fieldPath", field, "must be non-empty if specified")
    if _broken(field):
        yield fe.invalid(f"{path}.fieldPath", field, "must not contain line breaks")


def _broken(text: str) -> bool:
    return "\n" in text or "\r" in text


def _schema(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
