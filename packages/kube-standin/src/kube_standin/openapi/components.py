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
from kube_standin.kinds import ServedKind

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
DELETE_OPTIONS = _META + "DeleteOptions"
STATUS = _META + "Status"
PATCH = _META + "Patch"
WATCH_EVENT = _META + "WatchEvent"
# Needed by every group version: bodies and answers that belong to no kind.
SHARED = (DELETE_OPTIONS, STATUS, PATCH, WATCH_EVENT)
_PATCH_TEXT = (
    "Patch is provided to give a concrete name and type to the Kubernetes PATCH request body: JSON patch, merge "
    "patch, strategic merge patch or the configuration of a server-side apply."
)
# Words of a structural schema that OpenAPI v2 has no place for.
_V3_ONLY = frozenset({"oneOf", "anyOf", "allOf", "not", "nullable", "default", "x-kubernetes-validations"})


@dataclass(frozen=True)
class Dialect:
    """How a version of OpenAPI writes schemas."""

    prefix: str
    exact: bool
    """Alternatives, null, and keywords beside a reference are allowed (version 3)."""

    def reference(self, name: str) -> Json:
        """A reference to a schema by its full name."""
        return {"$ref": self.prefix + name}

    def described(self, name: str, description: str) -> Json:
        """A reference with a description beside it."""
        if self.exact:
            return {"description": description, "allOf": [self.reference(name)]}
        return {"description": description, **self.reference(name)}


V3 = Dialect("#/components/schemas/", exact=True)
V2 = Dialect("#/definitions/", exact=False)


def _special(dialect: Dialect) -> dict[str, Json]:
    """Types that are not plain structs."""
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
    """The schema of a packed definition."""
    special = _special(dialect).get(name)
    text, field_texts = d.descriptions().get(name, ["", {}])
    if special is not None:
        return special if not text else {"description": text, **special}
    body = d.structure()[name]
    out: Json = {"description": text} if text else {}
    for word, value in body.items():
        if word == "properties":
            out["properties"] = {
                field: _placed(spec, field_texts.get(field, ""), dialect) for field, spec in value.items()
            }
        else:
            out[word] = value
    return out


def _placed(spec: Json, description: str, dialect: Dialect) -> Json:
    """The schema of a field."""
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
    """The schema of an item or a map value."""
    if "$ref" in spec:
        return dialect.reference(spec["$ref"])
    return _placed(spec, "", dialect)


def references(value: Any) -> Iterable[str]:
    """Full names of the packed definitions that a definition refers to."""
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
    """The packed definitions that some of them reach."""
    todo, found = list(roots), set[str]()
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo.extend(references(d.structure().get(name, {})))
    return found


def name_of(kind: ServedKind) -> str:
    """Full schema name of a kind: packed, or the reversed group for custom resources."""
    packed = d.definition_names().get((kind.api_version, kind.kind))
    if packed is not None:
        return packed
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def list_name_of(kind: ServedKind) -> str:
    """Full schema name of the list of a kind."""
    packed = d.definition_names().get((kind.api_version, kind.list_kind))
    if packed is not None:
        return packed
    return name_of(kind).removesuffix(kind.kind) + kind.list_kind


def gvk(kind: ServedKind, name: str | None = None) -> Json:
    """Group, version and kind, as extensions carry them."""
    return {"group": kind.group, "kind": name or kind.kind, "version": kind.version}


def custom(kind: ServedKind, dialect: Dialect) -> dict[str, Json]:
    """Schemas of a custom resource and its list."""
    given = ((kind.definition or {}).get("schema") or {}).get("openAPIV3Schema") or {}
    schema = dict(given) if dialect.exact else _reduced(given)
    schema["properties"] = {
        **schema.get("properties", {}),
        **_type_meta(),
        "metadata": dialect.described(d.OBJECT_META, "Standard object's metadata."),
    }
    schema["type"] = "object"
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
            "metadata": dialect.described(d.LIST_META, "Standard list metadata."),
        },
        "x-kubernetes-group-version-kind": [gvk(kind, kind.list_kind)],
    }
    return {name_of(kind): schema, list_name_of(kind): listed}


def _type_meta() -> Json:
    texts = d.descriptions()["io.k8s.api.core.v1.Pod"][1]
    return {name: {"description": texts[name], "type": "string"} for name in ("apiVersion", "kind")}


def _reduced(schema: Json) -> Json:
    """A structural schema in the words of OpenAPI v2."""
    out: Json = {}
    for word, value in schema.items():
        if word in _V3_ONLY:
            continue
        if word == "properties":
            out[word] = {name: _reduced(inner) for name, inner in value.items()}
        elif word in ("items", "additionalProperties") and isinstance(value, dict):
            out[word] = _reduced(value)
        elif word != "additionalProperties" or not isinstance(value, bool):
            out[word] = value
    return out


def schemas(kinds: Iterable[ServedKind], extra: Iterable[str], dialect: Dialect) -> dict[str, Json]:
    """All schemas that documents about these kinds refer to, by full name; `extra` are those of operations."""
    roots = {*SHARED, *(name for name in extra if name in d.structure()), d.OBJECT_META, d.LIST_META}
    made: dict[str, Json] = {}
    for kind in kinds:
        if kind.custom:
            made.update(custom(kind, dialect))
        else:
            roots.add(name_of(kind))
            if (kind.api_version, kind.list_kind) in d.definition_names():
                roots.add(list_name_of(kind))
    for name in closure(roots):
        made[name] = definition(name, dialect)
    return dict(sorted(made.items()))
