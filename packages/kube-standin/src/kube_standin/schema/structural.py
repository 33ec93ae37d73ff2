"""Custom resources: pruning, defaulting and validation by the structural schema of their definition.

The schema is the `openAPIV3Schema` of one version of a CustomResourceDefinition. Terms as there: *embedded
resource*, *preserve unknown fields*, *int-or-string*, *nullable*; `x-kubernetes-validations` are CEL rules
(`schema_rules`). The server's order: prune and check metadata (`decode`), fill in defaults (`default`), then
validate (`validate`).
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from kube_rules import field_errors, patterns
from kube_rules.errors import FieldError
from kube_rules.json import Json
from kube_rules.schema import definitions, nodes, scalars
from kube_rules.schema.correlation import TYPE_META, CorrelatedValue
from kube_rules.schema.decoding import PathWalk, TypeProblem, UnknownBodyField
from kube_rules.schema.nodes import UNTYPED, SchemaNode, SchemaType
from kube_rules.step_budget import StepBudget, TooMuchError
from kube_standin.schema import list_types

MOST_ERRORS = 500
"""Maximum number of errors for one object; checking stops after it."""
DEFAULTS_LIMIT = 3 * 1024 * 1024
"""Bytes (as JSON) that defaults may add to one object."""
SEARCH_LIMIT = 200_000_000
"""Maximum steps of pattern searches for one object (`Pattern.cost`), about a second."""
_STRING = SchemaNode(SchemaType.STRING, "string", atomic=True)
IMPLICIT = ("apiVersion", "kind", "metadata")
_CEL_SKIPPED = FieldError(
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)
_TOO_MUCH = field_errors.forbidden("<nil>", "checking this object against its schema takes too long")
_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: (isinstance(v, int) and not isinstance(v, bool)) or (isinstance(v, float) and v.is_integer()),
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
}


def structural_node(schema: Json, *, root: bool = False) -> SchemaNode:
    """Return the tree of nodes that patching and field ownership walk for a structural schema."""
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        return SchemaNode(SchemaType.INT_OR_STRING, "intstr.IntOrString", atomic=True)
    if kind == "array":
        element = structural_node(schema.get("items", {}))
        list_type: str = schema.get("x-kubernetes-list-type", "atomic")
        defaults = schema.get("items", {}).get("properties", {})
        keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
        return SchemaNode(
            SchemaType.LIST,
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
            return SchemaNode(SchemaType.MAP, "map", element=structural_node(values), atomic=atomic)
        preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or values is True
        fields = {name: structural_node(inner) for name, inner in schema.get("properties", {}).items()}
        if root or schema.get("x-kubernetes-embedded-resource"):
            fields["apiVersion"] = fields["kind"] = _STRING
            fields["metadata"] = nodes.named(definitions.OBJECT_META)
        node = SchemaNode(SchemaType.STRUCT, "object", fields=fields, atomic=atomic, preserve_unknown=preserve)
        if preserve:
            node.element = UNTYPED
        return node
    if kind in ("string", "boolean", "number"):
        return SchemaNode(SchemaType(kind), str(kind), atomic=True)
    if kind == "integer":
        return SchemaNode(SchemaType.INTEGER, "int64", atomic=True)
    return UNTYPED


class DefaultsTooLargeError(Exception):
    """The object with its defaults would be larger than a request may be."""


class _DecodeResult(NamedTuple):
    """The results of decoding: unknown fields in and outside of metadata, and wrong types."""

    unknown: list[UnknownBodyField]
    in_metadata: list[UnknownBodyField]
    problems: list[TypeProblem]


class Structural:
    """Validates objects by a structural schema; created once per version of a definition."""

    def __init__(self, schema: Json) -> None:
        self.schema = schema
        self._has_rules = _contains(schema, ("x-kubernetes-validations",))
        self._has_list_types = _contains(schema, ("x-kubernetes-list-type", "uniqueItems"))
        self._defaulting = _Defaulter(schema)
        self._meta = nodes.named(definitions.OBJECT_META)

    def decode(self, obj: Json) -> tuple[Json, list[UnknownBodyField], list[TypeProblem]]:
        """Return the object without fields that the schema lacks and nulls that it forbids; metadata is checked too."""
        results = _DecodeResult([], [], [])
        pruned = self._prune(self.schema, obj, "", results, resource=True)
        # As customresource_handler orders them: metadata, the fields by path, metadata of embedded resources.
        own = [field for field in results.in_metadata if field.path.startswith("metadata.")]
        embedded = [field for field in results.in_metadata if not field.path.startswith("metadata.")]
        return pruned, [*own, *sorted(results.unknown), *embedded], results.problems

    def _prune(
        self,
        schema: Json,
        value: Any,
        path: str,
        results: _DecodeResult,
        *,
        resource: bool,
    ) -> Any:
        if isinstance(value, list):
            items = schema.get("items")
            if not isinstance(items, dict):
                return value
            embedded = bool(items.get("x-kubernetes-embedded-resource"))
            return [
                self._prune(items, inner, f"{path}[{index}]", results, resource=embedded)
                for index, inner in enumerate(value)
            ]
        if not isinstance(value, dict):
            return value
        properties = schema.get("properties", {})
        additional = schema.get("additionalProperties")
        preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        out: Json = {}
        for key, inner in value.items():
            below = f"{path}.{key}" if path else key
            if resource and key in IMPLICIT:
                implicit = self._implicit(key, inner, below, results)
                if implicit is not None:
                    out[key] = implicit
            elif key in properties or isinstance(additional, dict):
                field = properties.get(key, additional)
                if inner is None and not field.get("nullable") and "default" not in field:
                    continue  # a null where it is not allowed counts as missing (PruneNonNullableNullsWithoutDefaults)
                embedded = bool(field.get("x-kubernetes-embedded-resource"))
                out[key] = self._prune(field, inner, below, results, resource=embedded)
            elif preserve or additional is True:
                out[key] = inner
            else:
                results.unknown.append(UnknownBodyField(below))
        return out

    def _implicit(self, key: str, value: Any, path: str, results: _DecodeResult) -> Any:
        if value is None:
            return None
        walk = PathWalk({})
        node = self._meta if key == "metadata" else _STRING
        cleaned = walk.walk(node, value, path, path, "")
        results.in_metadata.extend(walk.unknown)
        results.problems.extend(walk.problems)
        return cleaned

    def default(self, obj: Json) -> None:
        """Fill in the defaults of the schema, in place; null goes where a default stands and null may not.

        Raises DefaultsTooLargeError.
        """
        self._defaulting.fill(obj)

    def validate(
        self,
        obj: Json,
        old: Json | None = None,
        budget: StepBudget | None = None,
        *,
        status: bool = False,
        tolerated: list[FieldError] | None = None,
    ) -> list[FieldError]:
        """Return what the schema and its CEL rules find in `obj` (in the change, if `old` is given).

        A value that an update leaves unchanged may violate the schema (`kube_rules.schema.correlation`);
        violated rules that an update tolerates go to `tolerated`. An update of the `status` subresource checks the
        status only, but runs all rules.

        Raises TooMuchAtOnceError where the budget is one of the event loop and not enough.
        """
        budget = budget or StepBudget()
        correlated = None if old is None else CorrelatedValue(self.schema, obj, old, budget)
        try:
            if status:
                errors = self._validate_status(obj, correlated, budget)
            else:
                body = {key: value for key, value in obj.items() if key not in IMPLICIT}
                limited = {**body, **_implicit_properties(self.schema, obj)}
                errors = _Validation(budget).of(self.schema, limited, correlated)
            errors.extend(self._duplicates(obj, old, budget))
            if self._has_rules:
                if errors:
                    errors.append(_CEL_SKIPPED)
                else:
                    from kube_rules.cel import schema_rules  # few definitions have rules

                    errors.extend(schema_rules.evaluate(self.schema, obj, old, budget, tolerated))
        except TooMuchError:
            return [_TOO_MUCH]
        return errors

    def _validate_status(self, obj: Json, correlated: CorrelatedValue | None, budget: StepBudget) -> list[FieldError]:
        schema = self.schema.get("properties", {}).get("status")
        if "status" not in obj or not isinstance(schema, dict):
            return []
        errors = _Validation(budget).of(schema, obj["status"], correlated and correlated.key("status"))
        return [
            FieldError(f"status.{error.path}" if error.path else "status", error.message, error.reason)
            for error in errors
        ]

    def _duplicates(self, obj: Json, old: Json | None, budget: StepBudget) -> list[FieldError]:
        """Return errors of duplicate items; an update tolerates all of them if the object had some."""
        if not self._has_list_types:
            return []
        errors = list_types.duplicates(self.schema, obj, budget, MOST_ERRORS)
        if errors and old is not None and list_types.duplicates(self.schema, old, budget, 1):
            return []
        return errors


class _EnoughError(Exception):
    """No more errors are collected."""


class _Validation:
    """The check of one object by its schema: its errors, and the remaining budgets."""

    def __init__(self, budget: StepBudget) -> None:
        self._budget = budget
        self._search = SEARCH_LIMIT
        self._errors: list[FieldError] = []

    def of(self, schema: Json, value: Any, correlated: CorrelatedValue | None = None) -> list[FieldError]:
        """Return the errors in a value; `correlated` is the value with its old value."""
        with suppress(_EnoughError):
            self._ratchet(schema, value, "", self._errors, correlated)
        return self._errors

    def _ratchet(
        self, schema: Json, value: Any, path: str, errors: list[FieldError], correlated: CorrelatedValue | None
    ) -> None:
        """Validate a value, and drop the errors of an unchanged one."""
        before = len(errors)
        try:
            self._validate(schema, value, path, errors, correlated)
        except _EnoughError:
            if correlated is None or not correlated.unchanged():
                raise
        if correlated is not None and len(errors) > before and correlated.unchanged():
            del errors[before:]

    def _validate(
        self, schema: Json, value: Any, path: str, errors: list[FieldError], correlated: CorrelatedValue | None = None
    ) -> None:
        self._budget.spend(1)
        if len(errors) >= MOST_ERRORS:
            raise _EnoughError
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
        if "enum" in schema:
            self._budget.spend(len(schema["enum"]) // 16)
            if value not in schema["enum"]:
                errors.append(field_errors.not_supported(path, value, schema["enum"]))
        if isinstance(value, str):
            self._validate_string(schema, value, path, errors)
        elif isinstance(value, dict):
            self._validate_object(schema, value, path, errors, correlated)
        elif isinstance(value, list):
            self._validate_array(schema, value, path, errors, correlated)
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
        actual = names.get(type(value), "null")
        detail = f'{path} in body must be of type {schema.get("type")}: "{actual}"'
        errors.append(field_errors.type_invalid(path, actual, detail))

    def _validate_string(self, schema: Json, value: str, path: str, errors: list[FieldError]) -> None:
        if "maxLength" in schema and len(value) > schema["maxLength"]:
            errors.append(field_errors.too_long(path, schema["maxLength"]))
        if "minLength" in schema and len(value) < schema["minLength"]:
            detail = f"{path} in body should be at least {schema['minLength']} chars long"
            errors.append(field_errors.invalid(path, value, detail))
        if "pattern" in schema:
            self._match(schema["pattern"], value, path, errors)
        check = _FORMATS.get(schema.get("format", ""))
        if check is not None and not check(value):
            detail = f"{path} in body must be of type {schema['format']}: {field_errors.shown(value)}"
            errors.append(field_errors.invalid(path, value, detail))

    def _match(self, text: str, value: str, path: str, errors: list[FieldError]) -> None:
        """Check that the pattern matches in the value; an invalid pattern (of an older definition) matches."""
        try:
            pattern = patterns.pattern(text)
        except patterns.PatternError:
            return
        cost = pattern.cost(value)
        self._search -= cost
        if self._search < 0:
            errors.append(field_errors.forbidden(path, "searching for the patterns of this object takes too long"))
            raise _EnoughError
        self._budget.spend_search(cost)
        if not pattern.found_in(value):
            errors.append(field_errors.invalid(path, value, f"{path} in body should match '{text}'"))

    def _validate_object(
        self, schema: Json, value: Json, path: str, errors: list[FieldError], correlated: CorrelatedValue | None
    ) -> None:
        properties = schema.get("properties", {})
        additional = schema.get("additionalProperties")
        dot = f"{path}." if path else ""
        if "maxProperties" in schema and len(value) > schema["maxProperties"]:
            errors.append(field_errors.too_many(path, len(value), schema["maxProperties"]))
        if "minProperties" in schema and len(value) < schema["minProperties"]:
            detail = f"{path} in body should have at least {schema['minProperties']} properties"
            errors.append(field_errors.invalid(path, len(value), detail))
        if wanted := schema.get("required"):
            self._budget.spend(len(wanted) // 16)
            errors.extend(field_errors.required(dot + name) for name in wanted if name not in value)
        for key, inner in value.items():
            field = properties.get(key, additional)
            if isinstance(field, dict):
                below = correlated and (path or key not in TYPE_META) and correlated.key(key)
                self._ratchet(field, inner, dot + key, errors, below or None)

    def _validate_array(
        self, schema: Json, value: list[Any], path: str, errors: list[FieldError], correlated: CorrelatedValue | None
    ) -> None:
        items = schema.get("items")
        if isinstance(items, dict):
            for index, inner in enumerate(value):
                self._ratchet(items, inner, f"{path}[{index}]", errors, correlated and correlated.index(index))
        if "maxItems" in schema and len(value) > schema["maxItems"]:
            errors.append(field_errors.too_many(path, len(value), schema["maxItems"]))
        if "minItems" in schema and len(value) < schema["minItems"]:
            detail = f"{path} in body should have at least {schema['minItems']} items"
            errors.append(field_errors.invalid(path, len(value), detail))

    def _validate_junctors(self, schema: Json, value: Any, path: str, errors: list[FieldError]) -> None:
        for inner in schema.get("allOf", ()):
            self._validate(inner, value, path, errors)
        for word, phrase in _JUNCTORS.items():
            if word in schema:
                valid = sum(self._accepts(inner, value, path) for inner in schema[word])
                if valid == 0 or (word == "oneOf" and valid > 1):
                    errors.append(field_errors.invalid(path, "", f"{path} in body must validate {phrase}"))
        if "not" in schema and self._accepts(schema["not"], value, path):
            errors.append(field_errors.invalid(path, "", f"{path} in body must not validate the schema (not)"))

    def _accepts(self, schema: Json, value: Any, path: str) -> bool:
        errors: list[FieldError] = []
        self._validate(schema, value, path, errors)
        self._budget.spend(8 * len(errors))  # the text of an error takes longer than the check
        return not errors


_JUNCTORS = {"anyOf": "at least one schema (anyOf)", "oneOf": "one and only one schema (oneOf)"}


def _implicit_properties(schema: Json, obj: Json) -> Json:
    """Return metadata for a schema that limits it (only name and generateName may be limited)."""
    if "metadata" not in schema.get("properties", {}):
        return {
            name: obj[name] for name in ("apiVersion", "kind") if name in obj and name in schema.get("required", ())
        }
    return {name: obj[name] for name in IMPLICIT if name in obj}


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


class _Defaulter:
    """Fills in the defaults of a schema: only where it has some, and at most as many as a request could contain.

    A default occurs in the schema once and in the object any number of times, so a small definition and a small object
    could make a large one.
    """

    def __init__(self, schema: Json) -> None:
        self._schema = schema
        self._carriers: dict[int, bool] = {}
        self._defaults: dict[int, list[tuple[str, Any, bool, int]]] = {}
        self._carries(schema)

    def _carries(self, schema: Any) -> bool:
        """Return whether a schema contains defaults, after collecting those of each of its nodes."""
        if not isinstance(schema, dict):
            return False
        own: list[tuple[str, Any, bool, int]] = []
        inside = False
        for name, inner in schema.get("properties", {}).items():
            if isinstance(inner, dict) and "default" in inner:
                weight = len(json.dumps(inner["default"], default=str))
                own.append((name, inner["default"], bool(inner.get("nullable")), weight))
            inside |= self._carries(inner)
        for word in ("items", "additionalProperties"):
            inside |= self._carries(schema.get(word))
        if own:
            self._defaults[id(schema)] = own
        carries = self._carriers[id(schema)] = bool(own) or inside
        return carries

    def fill(self, value: Any) -> None:
        """Fill in an object in place. Raises DefaultsTooLargeError."""
        if self._carriers.get(id(self._schema)):
            self._fill(self._schema, value, [DEFAULTS_LIMIT])

    def _fill(self, schema: Json, value: Any, room: list[int]) -> None:
        if isinstance(value, dict):
            for name, default, nullable, weight in self._defaults.get(id(schema), ()):
                _take(room, 1)
                if name not in value or (value[name] is None and not nullable):
                    _take(room, weight)
                    value[name] = copy.deepcopy(default)
            properties = schema.get("properties", {})
            additional = schema.get("additionalProperties")
            for key, below in value.items():
                field = properties.get(key, additional)
                if isinstance(field, dict) and self._carriers.get(id(field)):
                    self._fill(field, below, room)
        elif isinstance(value, list) and self._carriers.get(id(schema.get("items"))):
            for inner in value:
                self._fill(schema["items"], inner, room)


def _take(room: list[int], size: int) -> None:
    room[0] -= size
    if room[0] < 0:
        raise DefaultsTooLargeError


def _contains(schema: Any, words: tuple[str, ...]) -> bool:
    """Return whether one of the words occurs anywhere in a schema."""
    if isinstance(schema, dict):
        if any(word in schema for word in words):
            return True
        return any(_contains(inner, words) for inner in schema.values())
    return isinstance(schema, list) and any(_contains(inner, words) for inner in schema)


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
