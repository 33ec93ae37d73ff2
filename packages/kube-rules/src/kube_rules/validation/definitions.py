"""Rules of CustomResourceDefinitions: names, versions and structural schemas (transcripts 554 to 557)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kube_rules import field_errors as fe
from kube_rules import patterns
from kube_rules.json import Json
from kube_rules.validation import names
from kube_rules.validation import rows as r

_KIND = re.compile(r"[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?", re.ASCII)
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_PATH_STEP = re.compile(r"\.([a-zA-Z_][a-zA-Z0-9_-]*)|\['([^']*)'\]", re.ASCII)
# Words that may not carry structure inside allOf, anyOf, oneOf and not.
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_FORBIDDEN_INSIDE = ("type", "default", "additionalProperties", "nullable", "x-kubernetes-preserve-unknown-fields")


def definition(obj: Json, _: str) -> r.Found:
    """A new definition."""
    spec = obj.get("spec", {})
    if obj.get("metadata", {}).get("name") != f"{spec.get('names', {}).get('plural', '')}.{spec.get('group', '')}":
        yield fe.invalid("metadata.name", obj["metadata"].get("name", ""), 'must be spec.names.plural+"."+spec.group')
    yield from _SPEC(spec, "spec")
    versions = spec.get("versions", ())
    if sum(bool(version.get("storage")) for version in versions) != 1:
        shown = [version.get("name", "") for version in versions]
        yield fe.invalid("spec.versions", shown, "must have exactly one version marked as storage version")
    yield from _versions(versions)


def _domain(spec: Json, path: str) -> r.Found:
    if spec.get("group") and "." not in spec["group"]:
        yield fe.invalid(f"{path}.group", spec["group"], "should be a domain with at least one dot")


def _mixed_case(text: str) -> tuple[str, ...]:
    """The syntax of a kind's name."""
    found = () if _KIND.fullmatch(text) else names.dns1035_label(text.lower())
    return tuple("may have mixed case, but should otherwise match: " + message for message in found)


def _two_kinds(given: Json, path: str) -> r.Found:
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        yield fe.invalid(f"{path}.listKind", given["listKind"], "kind and listKind may not be the same")


_SPEC = r.all_of(
    r.wanted("group", names.subdomain),
    _domain,
    r.enum("scope", ("Cluster", "Namespaced")),
    r.below(
        "names",
        r.wanted("plural", names.dns1035_label),
        r.wanted("singular", names.dns1035_label),
        r.wanted("kind", _mixed_case),
        r.wanted("listKind", _mixed_case),
        _two_kinds,
        r.texts("shortNames", names.dns1035_label),
    ),
)


def _column_type(column: Json, path: str) -> r.Found:
    if column.get("type") not in _COLUMN_TYPES:
        yield fe.invalid(f"{path}.type", column.get("type", ""), f"must be one of {','.join(_COLUMN_TYPES)}")


_COLUMNS = r.listed("additionalPrinterColumns", r.required("name", "jsonPath"), _column_type)


def _versions(versions: list[Json]) -> r.Found:
    from kube_rules.cel import schema_rules  # a plan starts without it

    same = len({repr(version.get("schema")) for version in versions}) <= 1
    name = r.Unique("name").fresh()
    for index, version in enumerate(versions):
        place = f"spec.versions[{index}]"
        yield from fe.wanted(f"{place}.name", version.get("name", ""), names.dns1035_label)
        yield from name(version, place)
        schema = version.get("schema", {}).get("openAPIV3Schema")
        if schema is None:
            yield fe.required(f"{place}.schema.openAPIV3Schema")
        elif index == 0 or not same:
            at = "spec.validation.openAPIV3Schema" if same else f"{place}.schema.openAPIV3Schema"
            yield from structure(schema, at, root=True)
            yield from schema_rules.problems(schema, at)
        yield from _COLUMNS(version, place)
        fields = version.get("selectableFields", ())
        at = "spec.selectableFields" if same else f"{place}.selectableFields"
        if fields and schema is None:
            yield fe.invalid(at, "", "may only be set when validations.schema is included")
        for number, field in enumerate(fields if schema is not None else ()):
            path = field.get("jsonPath", "")
            if not _leads_to_scalar(schema, path):
                detail = "is an invalid path: does not refer to a valid field"
                yield fe.invalid(f"{at}[{number}].jsonPath", path, detail)


def _leads_to_scalar(schema: Any, path: str) -> bool:
    at = 0
    while at < len(path):
        step = _PATH_STEP.match(path, at)
        if step is None or not isinstance(schema, dict):
            return False
        schema = schema.get("properties", {}).get(step[1] or step[2])
        at = step.end()
    return isinstance(schema, dict) and schema.get("type") in ("string", "boolean", "integer")


def structure(schema: Json, path: str, *, root: bool = False) -> r.Found:
    """Whether a schema is structural: every place has a type (innermost findings first, as upstream)."""
    for name, inner in sorted(schema.get("properties", {}).items()):
        if isinstance(inner, dict):
            yield from structure(inner, f"{path}.properties[{name}]")
    for word in ("items", "additionalProperties"):
        inner = schema.get(word)
        if isinstance(inner, dict):
            yield from structure(inner, f"{path}.{word}")
        elif word == "items" and isinstance(inner, list):
            yield fe.forbidden(f"{path}.items", "items must be a schema object and not an array")
    kind = schema.get("type", "")
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not kind and not (free and not root):
        where = "at the root" if root else "for specified object fields"
        if path.endswith(".items"):
            where = "for specified array items"
        yield fe.required(f"{path}.type", f"must not be empty {where}")
    elif kind and kind not in _TYPES:
        yield fe.not_supported(f"{path}.type", kind, _TYPES)
    elif root and kind and kind != "object":
        yield fe.invalid(f"{path}.type", kind, "must be object at the root")
    if kind == "array" and "items" not in schema:
        yield fe.required(f"{path}.items", "must be specified")
    if "properties" in schema and isinstance(schema.get("additionalProperties"), dict | bool):
        detail = "additionalProperties and properties are mutual exclusive"
        yield fe.forbidden(f"{path}.additionalProperties", detail)
    if schema.get("x-kubernetes-list-type") == "map" and not schema.get("x-kubernetes-list-map-keys"):
        yield fe.required(f"{path}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map")
    if "$ref" in schema:
        yield fe.forbidden(f"{path}.$ref", "$ref is not supported")
    for inner, place in _junctors(schema, path):
        yield from _inside(inner, place, bool(schema.get("x-kubernetes-int-or-string")))
    if isinstance(schema.get("not"), dict):
        yield from _values_inside(schema["not"], f"{path}.not")
    yield from _value_words(schema, path)


def _value_words(schema: Json, path: str) -> r.Found:
    """Words that a schema may have at every depth: what cannot be checked in linear time is refused, as upstream."""
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield fe.forbidden(f"{path}.uniqueItems", detail)
    pattern = schema.get("pattern")
    if pattern is not None:
        try:
            patterns.pattern(pattern)
        except patterns.PatternError as error:
            yield fe.invalid(f"{path}.pattern", pattern, f"must be a valid regular expression, but isn't: {error}")


def _inside(schema: Json, path: str, int_or_string: bool) -> r.Found:
    for word in _FORBIDDEN_INSIDE:
        if word in schema and not (word == "type" and int_or_string):
            yield fe.forbidden(f"{path}.{word}", "must be empty to be structural")
    yield from _values_inside(schema, path)


def _values_inside(schema: Json, path: str) -> r.Found:
    """Rules on values in a schema that is part of a junctor, and in everything in it."""
    yield from _value_words(schema, path)
    for name, inner in schema.get("properties", {}).items():
        if isinstance(inner, dict):
            yield from _values_inside(inner, f"{path}.properties[{name}]")
    for word in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(word), dict):
            yield from _values_inside(schema[word], f"{path}.{word}")
    for inner, place in _junctors(schema, path):
        yield from _values_inside(inner, place)


def _junctors(schema: Json, path: str) -> Iterator[tuple[Json, str]]:
    """Schemas inside allOf, anyOf and oneOf, with their paths."""
    for word in _JUNCTORS:
        for index, inner in enumerate(schema.get(word, ())):
            if isinstance(inner, dict):
                yield inner, f"{path}.{word}[{index}]"


def stored_versions(new: Json, old: Json) -> r.Found:
    """Versions that objects are stored in stay."""
    kept = {version.get("name") for version in new.get("spec", {}).get("versions", ())}
    for index, name in enumerate(old.get("status", {}).get("storedVersions", ())):
        if name not in kept:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
                f"{name} from status"
            )
            yield fe.invalid(f"status.storedVersions[{index}]", name, detail)
