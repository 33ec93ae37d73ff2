"""OpenAPI v3: the index and the document of each group version."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from reprieve.controlplane.openapi import components, operations
from reprieve.controlplane.openapi.components import V3
from reprieve.controlplane.openapi.operations import Operation
from reprieve.controlplane.openapi.served import ServedKind, group_version_path

Json = dict[str, Any]
_ANSWER_TYPES = ("application/json", "application/yaml")
_PATCH_TYPES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)


def index(kinds: Iterable[ServedKind]) -> Json:
    """Which documents there are; the hash in an address changes with its content."""
    by_path: dict[str, list[ServedKind]] = {}
    for kind in kinds:
        by_path.setdefault(group_version_path(kind), []).append(kind)
    return {
        "paths": {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={_digest(found)}"}
            for path, found in sorted(by_path.items())
        }
    }


def _digest(kinds: list[ServedKind]) -> str:
    """A hash of what a document is made from."""
    seed = [
        (k.api_version, k.kind, k.plural, k.namespaced, sorted(k.verbs), sorted(k.subresources), _plain(k.definition))
        for k in kinds
    ]
    text = json.dumps([operations.VERSION, sorted(seed, key=lambda one: one[:2])], sort_keys=True, default=str)
    return hashlib.sha512(text.encode()).hexdigest().upper()


def _plain(definition: Any) -> Any:
    return dict(definition) if definition is not None else None


def document(group_version: str, kinds: Iterable[ServedKind]) -> Json:
    """The document of a group version ("v1", "apps/v1")."""
    chosen = [kind for kind in kinds if kind.api_version == group_version]
    paths, extra = operations.paths(chosen, _path_parameter, _operation)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": operations.VERSION},
        "paths": paths,
        "components": {
            "schemas": components.schemas(chosen, extra, V3),
            "securitySchemes": operations.SECURITY,
        },
        "security": [{"BearerToken": []}],
    }


def _path_parameter(name: str) -> Json:
    return {
        "name": name,
        "in": "path",
        "description": operations.PATH_TEXTS[name],
        "required": True,
        "schema": {"type": "string", "uniqueItems": True},
    }


def _operation(operation: Operation, kind: ServedKind) -> Json:
    out: Json = {
        "tags": [operation.tag],
        "description": operation.description,
        "operationId": operation.operation_id,
        "parameters": [
            {
                "name": parameter.name,
                "in": "query",
                "description": parameter.description,
                "schema": {"type": parameter.type, "uniqueItems": True},
            }
            for parameter in operation.parameters
        ],
        **operations.extensions(operation),
    }
    if operation.body is not None:
        types: tuple[str, ...] = ("application/json",)
        if operation.patch:
            types = tuple(t for t in _PATCH_TYPES if not (kind.custom and "strategic" in t))
        schema = V3.reference(operation.body)
        out["requestBody"] = {"content": {media: {"schema": schema} for media in types}}
        if operation.body_required:
            out["requestBody"]["required"] = True
    answer = _answer(operation)
    out["responses"] = {
        str(code): {
            "description": operations.MEANINGS[code],
            "content": {media: {"schema": answer} for media in _ANSWER_TYPES},
        }
        for code in operation.codes
    }
    refusal = {"schema": V3.reference(components.STATUS)}
    out["responses"]["401"] = {"description": "Unauthorized", "content": {"application/json": refusal}}
    out["responses"]["default"] = {"description": "Refused", "content": {"application/json": refusal}}
    return out


def _answer(operation: Operation) -> Json:
    if len(operation.answers) == 1:
        return V3.reference(operation.answers[0])
    return {"anyOf": [V3.reference(name) for name in operation.answers]}
