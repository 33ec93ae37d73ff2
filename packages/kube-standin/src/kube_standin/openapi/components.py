"""Schemas of objects in OpenAPI form, for version 3 (`components.schemas`) and version 2 (`definitions`).

Built-in kinds come from the packed definitions, custom resources from their own structural schema. A
*dialect* holds what differs between the versions: how references are written and what may stand beside
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kube_rules.json import Json
from kube_rules.schema import definitions as d
from kube_standin.field_texts import texts_of, type_text
from kube_standin.kinds import ServedKind

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
DELETE_OPTIONS = _META + "DeleteOptions"
STATUS = _META + "Status"
PATCH = _META + "Patch"
WATCH_EVENT = _META + "WatchEvent"
# Needed by every group version: bodies and answers that belong to no kind.
SHARED = (DELETE_OPTIONS, STATUS, PATCH, WATCH_EVENT)
_PATCH_TEXT = (
    "The body of a PATCH request: a JSON patch, a merge patch, a strategic merge patch, or the configuration of a "
    "server-side apply."
)
# Words of a structural schema that OpenAPI v2 has no place for.
_V3_ONLY = frozenset({"oneOf", "anyOf", "allOf", "not", "nullable"})
_PRESERVE = "x-kubernetes-preserve-unknown-fields"


@dataclass(frozen=True)
class Dialect:
    """The syntax of schemas in a version of OpenAPI."""

    prefix: str
    exact: bool
    """Alternatives, null, and keywords beside a reference are allowed (version 3)."""

    def reference(self, name: str) -> Json:
        """Return a reference to a schema by its full name."""
        return {"$ref": self.prefix + name}

    def described(self, name: str, description: str) -> Json:
        """Return a reference with a description beside it, if there is one."""
        if not description:
            return {"allOf": [self.reference(name)]} if self.exact else self.reference(name)
        if self.exact:
            return {"description": description, "allOf": [self.reference(name)]}
        return {"description": description, **self.reference(name)}


V3 = Dialect("#/components/schemas/", exact=True)
V2 = Dialect("#/definitions/", exact=False)


def _special(dialect: Dialect) -> dict[str, Json]:
    """Return the schemas of types that are not plain structs."""
    if dialect.exact:
        quantity: Json = {"oneOf": [{"type": "string"}, {"type": "number"}]}
        either: Json = {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}
        patch: Json = {"oneOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}}]}
        # A time that is not set is answered as null, by kube-apiserver too.
        time: Json = {"type": "string", "format": "date-time", "nullable": True}
    else:
        quantity = {"type": "string"}
        either = {"type": "string", "format": "int-or-string"}
        patch = {"type": "object"}
        time = {"type": "string", "format": "date-time"}
    return {
        d.QUANTITY: quantity,
        d.INT_OR_STRING: either,
        d.TIME: time,
        d.MICRO_TIME: time,
        PATCH: {"description": _PATCH_TEXT, **patch},
    }


def definition(name: str, dialect: Dialect) -> Json:
    """Return the schema of a packed definition."""
    special = _special(dialect).get(name)
    text, field_texts = type_text(name), texts_of(name)
    if special is not None:
        return special if not text else {"description": text, **special}
    body = d.structure()[name]
    out: Json = {"description": text} if text else {}
    for word, value in body.items():
        if word == "properties":
            out["properties"] = {
                field: _placed(spec, field_texts.field(field), dialect) for field, spec in value.items()
            }
        else:
            out[word] = value
    return out


def _placed(spec: Json, description: str, dialect: Dialect) -> Json:
    """Return the schema of a field."""
    if "$ref" in spec:
        out = dialect.described(spec["$ref"], description)
        if dialect.exact:
            out |= {word: value for word, value in spec.items() if word != "$ref"}
        return out
    out = {"description": description} if description else {}
    for word, value in spec.items():
        if word in ("items", "additionalProperties") and isinstance(value, dict):
            out[word] = _inner(value, dialect)
        else:
            out[word] = value
    return out


def _inner(spec: Json, dialect: Dialect) -> Json:
    """Return the schema of an item or a map value."""
    if "$ref" in spec:
        return dialect.reference(spec["$ref"])
    return _placed(spec, "", dialect)


def references(value: Any) -> Iterable[str]:
    """Yield the full names of the packed definitions that a definition refers to."""
    if isinstance(value, dict):
        for word, inner in value.items():
            if word == "$ref" and isinstance(inner, str):
                yield inner
            else:
                yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def closure(roots: Iterable[str]) -> set[str]:
    """Return the packed definitions that are reachable from some of them."""
    todo, reached = list(roots), set[str]()
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo.extend(references(d.structure().get(name, {})))
    return reached


def name_of(kind: ServedKind) -> str:
    """Return the full schema name of a kind: packed, or the reversed group for custom resources."""
    packed = d.definition_names().get((kind.api_version, kind.kind))
    if packed is not None:
        return packed
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def list_name_of(kind: ServedKind) -> str:
    """Return the full schema name of the list of a kind."""
    packed = d.definition_names().get((kind.api_version, kind.list_kind))
    if packed is not None:
        return packed
    return name_of(kind).removesuffix(kind.kind) + kind.list_kind


def gvk(kind: ServedKind, name: str | None = None) -> Json:
    """Return group, version and kind in the form of extensions."""
    return {"group": kind.group, "kind": name or kind.kind, "version": kind.version}


def custom(kind: ServedKind, dialect: Dialect) -> dict[str, Json]:
    """Return the schemas of a custom resource and its list (apiextensions-apiserver, controller/openapi/builder)."""
    schema = _resource(kind, dialect)
    schema["x-kubernetes-group-version-kind"] = [gvk(kind)]
    items: Json = {
        "description": f"List of {kind.plural}.",
        "type": "array",
        "items": dialect.reference(name_of(kind)),
    }
    listed: Json = {
        "description": f"{kind.list_kind} is a list of {kind.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            **_type_meta(),
            "items": items,
            "metadata": dialect.described(d.LIST_META, "Resource version and continue token of the list."),
        },
        "x-kubernetes-group-version-kind": [gvk(kind, kind.list_kind)],
    }
    return {name_of(kind): schema, list_name_of(kind): listed}


def _resource(kind: ServedKind, dialect: Dialect) -> Json:
    """Return the schema of a custom resource.

    Clients of version 2 refuse fields that are not named, so a resource that preserves unknown fields names none there.
    """
    own_schema = ((kind.definition or {}).get("schema") or {}).get("openAPIV3Schema")
    if own_schema is None or (not dialect.exact and own_schema.get(_PRESERVE)):
        return {"type": "object"}
    schema = _placed_custom(own_schema, dialect)
    _name_embedded(schema, dialect)
    schema["properties"] = {**schema.get("properties", {}), **_resource_fields(dialect)}
    return {**schema, "type": "object"}


def _resource_fields(dialect: Dialect) -> Json:
    text = texts_of("io.k8s.api.core.v1.Pod").field("metadata")
    return {**_type_meta(), "metadata": dialect.described(d.OBJECT_META, text)}


def _name_embedded(schema: Json, dialect: Dialect) -> None:
    """Give embedded resources the fields that all resources have, in place."""
    for inner in _below(schema):
        _name_embedded(inner, dialect)
    if schema.get("x-kubernetes-embedded-resource") and (dialect.exact or not schema.get(_PRESERVE)):
        schema["properties"] = {**schema.get("properties", {}), **_resource_fields(dialect)}
        wanted = schema.get("required", [])
        schema["required"] = [*wanted, *(name for name in ("kind", "apiVersion") if name not in wanted)]


def _below(schema: Json) -> list[Json]:
    inside = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    return [inner for inner in inside if isinstance(inner, dict)]


def _type_meta() -> Json:
    texts = texts_of("io.k8s.api.core.v1.Pod")
    return {name: {"description": texts.field(name), "type": "string"} for name in ("apiVersion", "kind")}


def _placed_custom(schema: Json, dialect: Dialect) -> Json:
    """Return a copy of a structural schema, in version 2 without unsupported words (openapi/v2/conversion.go)."""
    out: Json = {}
    exact = dialect.exact
    for word, value in schema.items():
        if not exact and word in _V3_ONLY:
            continue
        if word == "properties":
            out[word] = {name: _placed_custom(inner, dialect) for name, inner in value.items()}
        elif word in ("items", "additionalProperties") and isinstance(value, dict):
            out[word] = _placed_custom(value, dialect)
        elif exact or word != "additionalProperties" or not isinstance(value, bool):
            out[word] = value
    if not exact:
        _reduce(out, schema)
    return out


def _reduce(out: Json, schema: Json) -> None:
    """Remove words that clients of version 2 cannot read: a nullable or untyped node has no type and no parts."""
    nullable, anything = schema.get("nullable"), schema.get(_PRESERVE)
    if nullable or anything:
        out.pop("items", None)
        out.pop("properties", None)
    untyped = nullable or (anything and out.get("type") == "object")
    if untyped or (out.get("type") == "array" and "items" not in out):
        out.pop("type", None)
    properties = {} if nullable or anything else schema.get("properties", {})
    wanted = [name for name in out.get("required", ()) if not properties.get(name, {}).get("nullable")]
    values = schema.get("additionalProperties")
    if not wanted or (isinstance(values, dict) and values.get("nullable")):
        out.pop("required", None)
    else:
        out["required"] = wanted


def schemas(kinds: Iterable[ServedKind], extra: Iterable[str], dialect: Dialect) -> dict[str, Json]:
    """Return all schemas that documents about these kinds refer to, by full name; `extra` are those of operations."""
    roots = {*SHARED, *(name for name in extra if name in d.structure()), d.OBJECT_META, d.LIST_META}
    by_name: dict[str, Json] = {}
    for kind in kinds:
        if kind.custom:
            by_name.update(custom(kind, dialect))
        else:
            roots.add(name_of(kind))
            if (kind.api_version, kind.list_kind) in d.definition_names():
                roots.add(list_name_of(kind))
    for name in closure(roots):
        by_name[name] = definition(name, dialect)
    return dict(sorted(by_name.items()))
