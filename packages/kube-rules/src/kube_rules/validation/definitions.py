"""Rules of CustomResourceDefinitions: names, versions and structural schemas (transcripts 554 to 557)."""

from __future__ import annotations

import re
from typing import Any

from kube_rules import field_errors as fe
from kube_rules import patterns
from kube_rules.json import Json
from kube_rules.validation import names
from kube_rules.validation import rows as r
from kube_rules.validation.schema_extensions import extensions
from kube_rules.validation.webhooks import client_config, review_versions

_KIND = re.compile(r"[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?", re.ASCII)
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_LONGEST_WARNING = 256
_MOST_SELECTABLE = 8
_NOT_SELECTABLE = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
)
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_PATH_STEP = re.compile(r"\.([a-zA-Z_][a-zA-Z0-9_-]*)|\['([^']*)'\]", re.ASCII)
_FREE = ("preserve-unknown-fields", "embedded-resource", "int-or-string")
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_NONE_INSIDE = {
    "empty": ("type", "title", "description", "x-kubernetes-list-map-keys", "x-kubernetes-validations"),
    "undefined": ("additionalProperties", "default", "externalDocs", "x-kubernetes-list-type", "x-kubernetes-map-type"),
    "false": ("nullable", *(f"x-kubernetes-{word}" for word in _FREE)),
}
"""Words that may not occur inside allOf, anyOf, oneOf and not, by their required value."""
_INTEGER_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def definition(obj: Json, _: str) -> r.Found:
    """Check a new definition."""
    spec = obj.get("spec", {})
    if obj.get("metadata", {}).get("name") != f"{spec.get('names', {}).get('plural', '')}.{spec.get('group', '')}":
        yield fe.invalid("metadata.name", obj["metadata"].get("name", ""), 'must be spec.names.plural+"."+spec.group')
    yield from _SPEC(spec, "spec")
    yield from _conversion(spec)
    versions = spec.get("versions", ())
    if sum(bool(version.get("storage")) for version in versions) != 1:
        shown = [version.get("name", "") for version in versions]
        yield fe.invalid("spec.versions", shown, "must have exactly one version marked as storage version")
    yield from _versions(versions)


def _domain(spec: Json, path: str) -> r.Found:
    if spec.get("group") and "." not in spec["group"]:
        yield fe.invalid(f"{path}.group", spec["group"], "should be a domain with at least one dot")


def _mixed_case(text: str) -> tuple[str, ...]:
    """Return the errors of a kind's name."""
    messages = () if _KIND.fullmatch(text) else names.dns1035_label(text.lower())
    return tuple("may have mixed case, but should otherwise match: " + message for message in messages)


def _two_kinds(names_: Json, path: str) -> r.Found:
    if names_.get("kind") and names_.get("kind") == names_.get("listKind"):
        yield fe.invalid(f"{path}.listKind", names_["listKind"], "kind and listKind may not be the same")


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
        r.texts("categories", names.dns1035_label),
    ),
)


def _column_type(column: Json, path: str) -> r.Found:
    if column.get("type") not in _COLUMN_TYPES:
        yield fe.invalid(f"{path}.type", column.get("type", ""), f"must be one of {','.join(_COLUMN_TYPES)}")


def _column_path(column: Json, path: str) -> r.Found:
    yield from _simple_path(column.get("jsonPath", ""), f"{path}.JSONPath")
    if column.get("format") and column["format"] not in _COLUMN_FORMATS:
        yield fe.invalid(f"{path}.format", column["format"], f"must be one of {','.join(_COLUMN_FORMATS)}")


def _simple_path(text: str, path: str, *under: str) -> r.Found:
    """Check a path in dot notation, below one of the fields `under` if given."""
    if not text:
        yield fe.required(path)
    elif not text.startswith("."):
        yield fe.invalid(path, text, "must be a simple json path starting with .")
    elif under and not text.startswith(tuple(f"{name}." for name in under)):
        where = f"either {' or '.join(under)}" if len(under) > 1 else under[0]
        yield fe.invalid(path, text, f"should be a json path under {where}")


_COLUMNS = r.listed("additionalPrinterColumns", r.required("name"), _column_type, _column_path)


def _scale(version: Json, path: str) -> r.Found:
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return
    at = f"{path}.subresources.scale"
    yield from _simple_path(scale.get("specReplicasPath", ""), f"{at}.specReplicasPath", ".spec")
    yield from _simple_path(scale.get("statusReplicasPath", ""), f"{at}.statusReplicasPath", ".status")
    if scale.get("labelSelectorPath"):
        yield from _simple_path(scale["labelSelectorPath"], f"{at}.labelSelectorPath", ".spec", ".status")


def _deprecation(version: Json, path: str) -> r.Found:
    text = version.get("deprecationWarning")
    if text is None:
        return
    place = f"{path}.deprecationWarning"
    if not version.get("deprecated"):
        yield fe.invalid(place, text, "can only be set for deprecated versions")
        return
    if len(text.encode()) > _LONGEST_WARNING:
        yield fe.invalid(place, text, f"must be <= {_LONGEST_WARNING} characters long")
    if not text:
        yield fe.invalid(place, text, "must not be an empty string")
    for index, char in enumerate(text):
        if not char.isprintable():
            detail = "must only contain printable UTF-8 characters; non-printable character found at index"
            yield fe.invalid(place, text, f"{detail} {index}")
            break


def _conversion(spec: Json) -> r.Found:
    """Check the conversion between versions; a webhook is called over TLS."""
    conversion = spec.get("conversion")
    if not conversion:
        return
    at, strategy, webhook = "spec.conversion", conversion.get("strategy", ""), conversion.get("webhook") or {}
    yield from fe.one_of(f"{at}.strategy", strategy, ("None", "Webhook"))
    config, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    if strategy != "Webhook":
        for name, value in (("webhookClientConfig", config), ("conversionReviewVersions", versions)):
            if value:
                yield fe.forbidden(f"{at}.{name}", "should not be set when strategy is not set to Webhook")
        return
    if spec.get("preserveUnknownFields"):
        yield fe.invalid(f"{at}.strategy", strategy, "must be None if spec.preserveUnknownFields is true")
    if config is None:
        yield fe.required(f"{at}.webhookClientConfig", "required when strategy is set to Webhook")
    else:
        yield from client_config(config, f"{at}.webhookClientConfig")
    place = f"{at}.conversionReviewVersions"
    yield from review_versions(versions, place) if versions else (fe.required(place),)


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
        yield from _deprecation(version, place)
        yield from _scale(version, place)
        yield from _COLUMNS(version, place)
        fields = version.get("selectableFields", ())
        at = "spec.selectableFields" if same else f"{place}.selectableFields"
        if fields and schema is None:
            yield fe.invalid(at, "", "may only be set when validations.schema is included")
        if schema is not None:
            yield from _selectable(fields, schema, at)


def _selectable(fields: list[Json], schema: Json, path: str) -> r.Found:
    """Check the fields for field selectors: at most eight, each a scalar outside of metadata."""
    seen: set[tuple[str, ...]] = set()
    for number, field in enumerate(fields):
        text, place = field.get("jsonPath", ""), f"{path}[{number}].jsonPath"
        if not text:
            yield fe.required(place)
            continue
        steps, target = _followed(schema, text)
        if not isinstance(target, dict):
            yield fe.invalid(place, text, "is an invalid path: does not refer to a valid field")
            continue
        if steps[:1] == ("metadata",):
            yield fe.invalid(place, text, "must not point to fields in metadata")
        if target.get("type") not in ("string", "boolean", "integer"):
            yield fe.invalid(place, text, _NOT_SELECTABLE)
        if steps in seen:
            yield fe.duplicate(place, text)
        seen.add(steps)
    if len(seen) > _MOST_SELECTABLE:
        yield fe.too_many(path, len(seen), _MOST_SELECTABLE)


def _followed(schema: Any, path: str) -> tuple[tuple[str, ...], Any]:
    """Return the steps of a path and the schema at its end, or None."""
    at, steps = 0, tuple[str, ...]()
    while at < len(path):
        step = _PATH_STEP.match(path, at)
        if step is None or not isinstance(schema, dict):
            return steps, None
        steps = (*steps, step[1] or step[2])
        schema = schema.get("properties", {}).get(steps[-1])
        at = step.end()
    return steps, schema


def structure(schema: Json, path: str, *, root: bool = False) -> r.Found:
    """Check that a schema is structural: every node has a type (innermost errors first, as upstream)."""
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
    yield from extensions(schema, path, root=root)
    if schema.get("x-kubernetes-list-type") == "map" and not schema.get("x-kubernetes-list-map-keys"):
        yield fe.required(f"{path}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map")
    if "$ref" in schema:
        yield fe.forbidden(f"{path}.$ref", "$ref is not supported")
    yield from _all_inside(schema, path)
    yield from _value_words(schema, path)


def _value_words(schema: Json, path: str) -> r.Found:
    """Check words at every depth of a schema: keywords without a linear-time check are refused, as upstream."""
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield fe.forbidden(f"{path}.uniqueItems", detail)
    pattern = schema.get("pattern")
    if pattern is not None:
        try:
            patterns.pattern(pattern)
        except patterns.PatternError as error:
            yield fe.invalid(f"{path}.pattern", pattern, f"must be a valid regular expression, but isn't: {error}")


def _all_inside(schema: Json, path: str, *, structural: bool = True) -> r.Found:
    """Check the schemas in the junctors of a schema; `structural`: outside of junctors, or the first of allOf.

    There, an anyOf of integer and string declares an int-or-string.
    """
    for word in _JUNCTORS:
        if word == "anyOf" and structural and schema.get(word) == _INTEGER_OR_STRING:
            continue
        for index, inner in enumerate(schema.get(word, ())):
            if isinstance(inner, dict):
                first = structural and word == "allOf" and index == 0
                yield from _inside(inner, f"{path}.{word}[{index}]", first=first)
    if isinstance(schema.get("not"), dict):
        yield from _inside(schema["not"], f"{path}.not")


def _inside(schema: Json, path: str, *, first: bool = False) -> r.Found:
    """Check a schema that is part of a junctor, and everything in it: it has no structure of its own."""
    yield from _value_words(schema, path)
    for state, words in _NONE_INSIDE.items():
        for word in words:
            if schema.get(word) if state != "undefined" else schema.get(word) is not None:
                yield fe.forbidden(f"{path}.{word}", f"must be {state} to be structural")
    properties = schema.get("properties", {})
    if "metadata" in properties:
        yield fe.forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")
    for name, inner in properties.items():
        if isinstance(inner, dict):
            yield from _inside(inner, f"{path}.properties[{name}]")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from _inside(schema[word], f"{path}.{word}")
    yield from _all_inside(schema, path, structural=first)


def stored_versions(new: Json, old: Json) -> r.Found:
    """Check that versions of stored objects are not removed."""
    declared = {version.get("name") for version in new.get("spec", {}).get("versions", ())}
    for index, name in enumerate(old.get("status", {}).get("storedVersions", ())):
        if name not in declared:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
                f"{name} from status"
            )
            yield fe.invalid(f"status.storedVersions[{index}]", name, detail)
