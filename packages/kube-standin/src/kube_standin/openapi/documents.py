"""The documents: version 3 per group version with an index, version 2 in one piece for older clients.

Both write the same operations (`operations`) and schemas (`components`); a version differs in where it puts the parts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable

from kube_rules.json import Json
from kube_standin.kinds import ServedKind
from kube_standin.openapi import components, operations
from kube_standin.openapi.components import V2, V3, Dialect
from kube_standin.openapi.operations import Operation, group_version_path
from kube_standin.releases import NEWEST

_SECURITY: Json = {
    "BearerToken": {
        "type": "apiKey",
        "description": "Bearer Token authentication",
        "name": "authorization",
        "in": "header",
    }
}
_MEANINGS = {200: "OK", 201: "Created", 202: "Accepted"}
_PATH_TEXTS = {
    "name": "name of the object",
    "namespace": "object name and auth scope, such as for teams and projects",
}
_ANSWER_TYPES = ("application/json", "application/yaml")
_PATCH_TYPES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)


def v3_index(kinds: Iterable[ServedKind], minor: int | None = None) -> Json:
    """Return the body of /openapi/v3: group versions and the addresses of their documents.

    The hash in an address changes with the content of the document.
    """
    by_path: dict[str, list[ServedKind]] = {}
    for kind in _documented(kinds):
        by_path.setdefault(group_version_path(kind), []).append(kind)
    return {
        "paths": {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={_digest(rows, minor)}"}
            for path, rows in sorted(by_path.items())
        }
    }


def _version(minor: int | None) -> str:
    """Return the release in a document; None stands for that of the rules."""
    return f"1.{NEWEST if minor is None else minor}"


def _documented(kinds: Iterable[ServedKind]) -> list[ServedKind]:
    """Return the kinds with a schema: computed kinds have none here."""
    return [kind for kind in kinds if not kind.computed]


def _digest(kinds: list[ServedKind], minor: int | None) -> str:
    """Return a hash of the input of a document."""
    seed = [
        (k.api_version, k.kind, k.plural, k.namespaced, sorted(k.verbs), sorted(k.subresources), k.definition)
        for k in kinds
    ]
    text = json.dumps([_version(minor), sorted(seed, key=lambda row: row[:2])], sort_keys=True, default=dict)
    return hashlib.sha512(text.encode()).hexdigest().upper()


def v3_document(group_version: str, kinds: Iterable[ServedKind], minor: int | None = None) -> Json:
    """Return the document of one group version, given as "v1" or "apps/v1"."""
    chosen = [kind for kind in _documented(kinds) if kind.api_version == group_version]
    paths, schemas = _content(chosen, V3, _v3_operation)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": _version(minor)},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": _SECURITY},
        "security": [{"BearerToken": []}],
    }


def v2_document(kinds: Iterable[ServedKind], minor: int | None = None) -> Json:
    """Return the body of /openapi/v2."""
    paths, schemas = _content(_documented(kinds), V2, _v2_operation)
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": _version(minor)},
        "paths": paths,
        "definitions": schemas,
        "securityDefinitions": _SECURITY,
        "security": [{"BearerToken": []}],
    }


def _content(
    kinds: list[ServedKind], dialect: Dialect, written: Callable[[Operation, ServedKind], Json]
) -> tuple[Json, dict[str, Json]]:
    """Return the paths of a document, sorted, and the schemas they refer to; `written` writes an operation out."""
    paths: Json = {}
    extra: set[str] = set()
    for kind in kinds:
        for operation in operations.operations(kind):
            extra.update(operation.schemas)
            item = paths.get(operation.path)
            if item is None:
                named = [name for name in _PATH_TEXTS if f"{{{name}}}" in operation.path]
                parameters = [_parameter(dialect, name, "path", "string", _PATH_TEXTS[name]) for name in named]
                item = paths[operation.path] = {"parameters": parameters} if parameters else {}
            item[operation.method] = written(operation, kind)
    return dict(sorted(paths.items())), components.schemas(kinds, extra, dialect)


def _parameter(dialect: Dialect, name: str, where: str, type_: str, description: str) -> Json:
    """Return a parameter of a path (those are required) or of a query."""
    schema: Json = {"type": type_, "uniqueItems": True}
    out: Json = {"name": name, "in": where, "description": description}
    if where == "path":
        out["required"] = True
    return {**out, "schema": schema} if dialect.exact else {**schema, **out}


def _common(operation: Operation, dialect: Dialect) -> Json:
    """Return the common parts of an operation in both versions, with the extensions of Kubernetes."""
    return {
        "tags": [operation.tag],
        "description": operation.description,
        "operationId": operation.operation_id,
        "parameters": [
            _parameter(dialect, parameter.name, "query", parameter.type, parameter.description)
            for parameter in operation.parameters
        ],
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": operation.gvk,
    }


def _v2_operation(operation: Operation, _kind: ServedKind) -> Json:
    out = _common(operation, V2)
    if operation.body is not None:
        body: Json = {"name": "body", "in": "body", "schema": V2.reference(operation.body)}
        if operation.body_required:
            body["required"] = True
        out["parameters"].insert(0, body)
    answer = V2.reference(operation.answers[0])
    responses: Json = {str(code): {"description": _MEANINGS[code], "schema": answer} for code in operation.codes}
    return {
        **out,
        "consumes": list(_PATCH_TYPES) if operation.patch else ["*/*"],
        "produces": list(_ANSWER_TYPES),
        "schemes": ["https"],
        "responses": responses | {"401": {"description": "Unauthorized"}},
    }


def _v3_operation(operation: Operation, kind: ServedKind) -> Json:
    out = _common(operation, V3)
    if operation.body is not None:
        types: tuple[str, ...] = ("application/json",)
        if operation.patch:
            types = tuple(media for media in _PATCH_TYPES if not (kind.custom and "strategic" in media))
        out["requestBody"] = _of_types(V3.reference(operation.body), types)
        if operation.body_required:
            out["requestBody"]["required"] = True
    alternatives = [V3.reference(name) for name in operation.answers]
    answer: Json = alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives}
    refusal = _of_types(V3.reference(components.STATUS), ("application/json",))
    out["responses"] = {
        **{str(code): {"description": _MEANINGS[code], **_of_types(answer, _ANSWER_TYPES)} for code in operation.codes},
        "401": {"description": "Unauthorized", **refusal},
        "default": {"description": "Refused", **refusal},
    }
    return out


def _of_types(schema: Json, types: Iterable[str]) -> Json:
    return {"content": {media: {"schema": schema} for media in types}}
