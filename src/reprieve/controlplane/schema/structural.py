"""Custom resources: pruning, defaulting and validation by the structural schema of their definition.

The schema is the `openAPIV3Schema` of one version of a CustomResourceDefinition. Terms as there: *embedded
resource*, *preserve unknown fields*, *int-or-string*, *nullable*; `x-kubernetes-validations` are CEL rules
(`cel_rules`). The server's order: prune and check metadata (`decode`), fill in defaults (`default`), then
validate (`validate`).
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

from reprieve.controlplane.schema import cel_rules, definitions, field_errors, nodes, scalars
from reprieve.controlplane.schema.decoding import Thorough, TypeProblem, UnknownField
from reprieve.controlplane.schema.field_errors import FieldError
from reprieve.controlplane.schema.nodes import Node, Type

Json = dict[str, Any]
_STRING = Node(Type.STRING, "string", atomic=True)
_IMPLICIT = ("apiVersion", "kind", "metadata")
_CEL_SKIPPED = FieldError(
    "FieldValueInvalid",
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)
_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: (isinstance(v, int) and not isinstance(v, bool)) or (isinstance(v, float) and v.is_integer()),
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
}


def structural_node(schema: Json, *, root: bool = False) -> Node:
    """The tree of nodes that patching and field ownership walk for a structural schema."""
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        return Node(Type.INT_OR_STRING, "intstr.IntOrString", atomic=True)
    if kind == "array":
        element = structural_node(schema.get("items", {}))
        list_type: str = schema.get("x-kubernetes-list-type", "atomic")
        defaults = schema.get("items", {}).get("properties", {})
        keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
        return Node(
            Type.LIST,
            "[]" + element.go,
            element=element,
            list_type=list_type,
            list_keys=keys,
            key_defaults=tuple((key, defaults[key]["default"]) for key in keys if "default" in defaults.get(key, ())),
            atomic=list_type == "atomic",
        )
    if kind == "object" or root or "properties" in schema:
        atomic = schema.get("x-kubernetes-map-type") == "atomic"
        values = schema.get("additionalProperties")
        if isinstance(values, dict):
            return Node(Type.MAP, "map", element=structural_node(values), atomic=atomic)
        preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or values is True
        fields = {name: structural_node(inner) for name, inner in schema.get("properties", {}).items()}
        if root or schema.get("x-kubernetes-embedded-resource"):
            fields["apiVersion"] = fields["kind"] = _STRING
            fields["metadata"] = nodes.named(definitions.OBJECT_META)
        node = Node(Type.STRUCT, "object", fields=fields, atomic=atomic, preserve_unknown=preserve)
        if preserve:
            node.element = Node(Type.ANY, "any")
        return node
    if kind in ("string", "boolean", "number"):
        return Node(Type(kind), str(kind), atomic=True)
    if kind == "integer":
        return Node(Type.INTEGER, "int64", atomic=True)
    return Node(Type.ANY, "any")


class Structural:
    """What a structural schema says of one object; made once per version of a definition."""

    def __init__(self, schema: Json) -> None:
        self.schema = schema
        self._patterns: dict[str, re.Pattern[str]] = {}
        self._has_rules = _has_rules(schema)
        self._meta = nodes.named(definitions.OBJECT_META)

    def decode(self, obj: Json) -> tuple[Json, list[UnknownField], list[TypeProblem]]:
        """The object without fields the schema does not have; metadata is checked like everywhere."""
        unknown: list[UnknownField] = []
        problems: list[TypeProblem] = []
        pruned = self._prune(self.schema, obj, "", unknown, problems, resource=True)
        return pruned, unknown, problems

    def _prune(
        self,
        schema: Json,
        value: Any,
        path: str,
        unknown: list[UnknownField],
        problems: list[TypeProblem],
        *,
        resource: bool,
    ) -> Any:
        if isinstance(value, list):
            items = schema.get("items")
            if not isinstance(items, dict):
                return value
            embedded = bool(items.get("x-kubernetes-embedded-resource"))
            return [
                self._prune(items, inner, f"{path}[{index}]", unknown, problems, resource=embedded)
                for index, inner in enumerate(value)
            ]
        if not isinstance(value, dict):
            return value
        properties = schema.get("properties", {})
        others = schema.get("additionalProperties")
        preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        out: Json = {}
        for key, inner in value.items():
            below = f"{path}.{key}" if path else key
            if resource and key in _IMPLICIT:
                kept = self._implicit(key, inner, below, unknown, problems)
                if kept is not None:
                    out[key] = kept
            elif key in properties or isinstance(others, dict):
                field = properties.get(key, others)
                embedded = bool(field.get("x-kubernetes-embedded-resource"))
                out[key] = self._prune(field, inner, below, unknown, problems, resource=embedded)
            elif preserve or others is True:
                out[key] = inner
            else:
                unknown.append(UnknownField(below))
        return out

    def _implicit(
        self, key: str, value: Any, path: str, unknown: list[UnknownField], problems: list[TypeProblem]
    ) -> Any:
        if value is None:
            return None
        walk = Thorough({})
        node = self._meta if key == "metadata" else _STRING
        kept = walk.walk(node, value, path, path, "")
        unknown.extend(walk.unknown)
        problems.extend(walk.problems)
        return kept

    def default(self, obj: Json) -> None:
        """Fill in the defaults of the schema, in place; null goes where a default stands and null may not."""
        _default(self.schema, obj)

    def validate(self, obj: Json, old: Json | None = None) -> list[FieldError]:
        """What the schema and its CEL rules say against `obj` (against the change, if `old` is given)."""
        errors: list[FieldError] = []
        body = {key: value for key, value in obj.items() if key not in _IMPLICIT}
        self._validate(self.schema, {**body, **_implicit_properties(self.schema, obj)}, "", errors)
        if self._has_rules:
            if errors:
                errors.append(_CEL_SKIPPED)
            else:
                errors.extend(cel_rules.evaluate(self.schema, obj, old))
        return errors

    def _validate(self, schema: Json, value: Any, path: str, errors: list[FieldError]) -> None:
        if value is None:
            if schema.get("nullable") or ("type" not in schema and not schema.get("x-kubernetes-int-or-string")):
                return
            self._type_error(schema, value, path, errors)
            return
        if schema.get("x-kubernetes-int-or-string"):
            if isinstance(value, bool) or not isinstance(value, int | str):
                self._type_error({"type": "integer,string"}, value, path, errors)
                return
        elif "type" in schema and not _TYPES[schema["type"]](value):
            self._type_error(schema, value, path, errors)
            return
        if "enum" in schema and value not in schema["enum"]:
            errors.append(field_errors.not_supported(path, value, schema["enum"]))
        if isinstance(value, str):
            self._validate_string(schema, value, path, errors)
        elif isinstance(value, dict):
            self._validate_object(schema, value, path, errors)
        elif isinstance(value, list):
            self._validate_array(schema, value, path, errors)
        elif not isinstance(value, bool):
            _validate_number(schema, value, path, errors)
        self._validate_junctors(schema, value, path, errors)

    @staticmethod
    def _type_error(schema: Json, value: Any, path: str, errors: list[FieldError]) -> None:
        names = {
            bool: "boolean",
            int: "integer",
            float: "number",
            str: "string",
            list: "array",
            dict: "object",
        }
        found = names.get(type(value), "null")
        detail = f'{path} in body must be of type {schema.get("type")}: "{found}"'
        errors.append(field_errors.type_invalid(path, found, detail))

    def _validate_string(self, schema: Json, value: str, path: str, errors: list[FieldError]) -> None:
        if "maxLength" in schema and len(value) > schema["maxLength"]:
            errors.append(field_errors.too_long(path, schema["maxLength"]))
        if "minLength" in schema and len(value) < schema["minLength"]:
            detail = f"{path} in body should be at least {schema['minLength']} chars long"
            errors.append(field_errors.invalid(path, value, detail))
        if "pattern" in schema and not self._matches(schema["pattern"], value):
            detail = f"{path} in body should match '{schema['pattern']}'"
            errors.append(field_errors.invalid(path, value, detail))
        check = _FORMATS.get(schema.get("format", ""))
        if check is not None and not check(value):
            detail = f"{path} in body must be of type {schema['format']}: {field_errors.shown(value)}"
            errors.append(field_errors.invalid(path, value, detail))

    def _matches(self, pattern: str, value: str) -> bool:
        """Whether the pattern is found in the value; a pattern Python cannot read matches everything."""
        if pattern not in self._patterns:
            try:
                self._patterns[pattern] = re.compile(pattern.replace(r"\z", r"\Z"))
            except re.error:
                self._patterns[pattern] = re.compile("")
        return self._patterns[pattern].search(value) is not None

    def _validate_object(self, schema: Json, value: Json, path: str, errors: list[FieldError]) -> None:
        properties = schema.get("properties", {})
        others = schema.get("additionalProperties")
        dot = f"{path}." if path else ""
        if "maxProperties" in schema and len(value) > schema["maxProperties"]:
            errors.append(field_errors.too_many(path, len(value), schema["maxProperties"]))
        if "minProperties" in schema and len(value) < schema["minProperties"]:
            detail = f"{path} in body should have at least {schema['minProperties']} properties"
            errors.append(field_errors.invalid(path, len(value), detail))
        errors.extend(field_errors.required(dot + name) for name in schema.get("required", ()) if name not in value)
        for key, inner in value.items():
            if key in properties:
                self._validate(properties[key], inner, dot + key, errors)
            elif isinstance(others, dict):
                self._validate(others, inner, dot + key, errors)

    def _validate_array(self, schema: Json, value: list[Any], path: str, errors: list[FieldError]) -> None:
        items = schema.get("items")
        if isinstance(items, dict):
            for index, inner in enumerate(value):
                self._validate(items, inner, f"{path}[{index}]", errors)
        if "maxItems" in schema and len(value) > schema["maxItems"]:
            errors.append(field_errors.too_many(path, len(value), schema["maxItems"]))
        if "minItems" in schema and len(value) < schema["minItems"]:
            detail = f"{path} in body should have at least {schema['minItems']} items"
            errors.append(field_errors.invalid(path, len(value), detail))
        keys = schema.get("x-kubernetes-list-map-keys", ())
        defaults = (items or {}).get("properties", {})
        seen: list[Any] = []
        for index, inner in enumerate(value):
            if schema.get("x-kubernetes-list-type") == "map" and isinstance(inner, dict):
                key: Any = {name: inner.get(name, defaults.get(name, {}).get("default")) for name in keys}
            elif schema.get("x-kubernetes-list-type") == "set" or schema.get("uniqueItems"):
                key = inner
            else:
                break
            if key in seen:
                errors.append(field_errors.duplicate(f"{path}[{index}]", key))
            seen.append(key)

    def _validate_junctors(self, schema: Json, value: Any, path: str, errors: list[FieldError]) -> None:
        for inner in schema.get("allOf", ()):
            self._validate(inner, value, path, errors)
        for word, say in _JUNCTORS.items():
            if word in schema:
                valid = sum(self._accepts(inner, value, path) for inner in schema[word])
                if valid == 0 or (word == "oneOf" and valid > 1):
                    errors.append(field_errors.invalid(path, "", f"{path} in body must validate {say}"))
        if "not" in schema and self._accepts(schema["not"], value, path):
            errors.append(field_errors.invalid(path, "", f"{path} in body must not validate the schema (not)"))

    def _accepts(self, schema: Json, value: Any, path: str) -> bool:
        found: list[FieldError] = []
        self._validate(schema, value, path, found)
        return not found


_JUNCTORS = {"anyOf": "at least one schema (anyOf)", "oneOf": "one and only one schema (oneOf)"}


def _implicit_properties(schema: Json, obj: Json) -> Json:
    """metadata for a schema that limits it (name and generateName only may be limited)."""
    if "metadata" not in schema.get("properties", {}):
        return {
            name: obj[name] for name in ("apiVersion", "kind") if name in obj and name in schema.get("required", ())
        }
    return {name: obj[name] for name in _IMPLICIT if name in obj}


def _validate_number(schema: Json, value: float, path: str, errors: list[FieldError]) -> None:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and (value < low or (schema.get("exclusiveMinimum") and value == low)):
        than = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        errors.append(field_errors.invalid(path, value, f"{path} in body should be {than} {low}"))
    if high is not None and (value > high or (schema.get("exclusiveMaximum") and value == high)):
        than = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        errors.append(field_errors.invalid(path, value, f"{path} in body should be {than} {high}"))
    step = schema.get("multipleOf")
    if step and value % step != 0:
        errors.append(field_errors.invalid(path, value, f"{path} in body should be a multiple of {step}"))
    bounds = {"int32": 2**31, "int64": 2**63}.get(schema.get("format", ""))
    if bounds is not None and not -bounds <= value < bounds:
        errors.append(field_errors.invalid(path, value, f"{path} in body must be of type {schema['format']}: {value}"))


def _default(schema: Json, value: Any) -> None:
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        for key, inner in properties.items():
            if "default" in inner and (key not in value or (value[key] is None and not inner.get("nullable"))):
                value[key] = copy.deepcopy(inner["default"])
        others = schema.get("additionalProperties")
        for key, below in value.items():
            if key in properties:
                _default(properties[key], below)
            elif isinstance(others, dict):
                _default(others, below)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for inner in value:
            _default(schema["items"], inner)


def _has_rules(schema: Any) -> bool:
    if isinstance(schema, dict):
        if "x-kubernetes-validations" in schema:
            return True
        return any(_has_rules(inner) for inner in schema.values())
    return isinstance(schema, list) and any(_has_rules(inner) for inner in schema)


def _is_time(text: str) -> bool:
    try:
        scalars.time(text)
    except scalars.ScalarError:
        return False
    return True


def _matcher(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


_FORMATS: dict[str, Callable[[str], bool]] = {
    "date-time": _is_time,
    "date": _matcher(r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"),
    "uuid": _matcher(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"),
    "ipv4": _matcher(r"((25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])(\.|$)){4}"),
    "email": _matcher(r"[^@\s]+@[^@\s]+"),
    "byte": _matcher(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"),
}
