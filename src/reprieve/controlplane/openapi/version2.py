"""OpenAPI v2: one document for everything, as older clients ask for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reprieve.controlplane.openapi import components, operations
from reprieve.controlplane.openapi.components import V2
from reprieve.controlplane.openapi.operations import Operation
from reprieve.controlplane.openapi.served import ServedKind

Json = dict[str, Any]
_PRODUCES = ["application/json", "application/yaml"]
_PATCH_TYPES = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
]


def document(kinds: Iterable[ServedKind]) -> Json:
    """The document of all kinds."""
    chosen = list(kinds)
    paths, extra = operations.paths(chosen, _path_parameter, lambda operation, _kind: _operation(operation))
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": operations.VERSION},
        "paths": paths,
        "definitions": components.schemas(chosen, extra, V2),
        "securityDefinitions": operations.SECURITY,
        "security": [{"BearerToken": []}],
    }


def _path_parameter(name: str) -> Json:
    return {
        "uniqueItems": True,
        "type": "string",
        "description": operations.PATH_TEXTS[name],
        "name": name,
        "in": "path",
        "required": True,
    }


def _operation(operation: Operation) -> Json:
    parameters: list[Json] = []
    if operation.body is not None:
        body: Json = {"name": "body", "in": "body", "schema": V2.reference(operation.body)}
        if operation.body_required:
            body["required"] = True
        parameters.append(body)
    parameters.extend(
        {
            "uniqueItems": True,
            "type": parameter.type,
            "description": parameter.description,
            "name": parameter.name,
            "in": "query",
        }
        for parameter in operation.parameters
    )
    answer = V2.reference(operation.answers[0])
    responses: Json = {
        str(code): {"description": operations.MEANINGS[code], "schema": answer} for code in operation.codes
    }
    responses["401"] = {"description": "Unauthorized"}
    return {
        "description": operation.description,
        "consumes": _PATCH_TYPES if operation.patch else ["*/*"],
        "produces": _PRODUCES,
        "schemes": ["https"],
        "tags": [operation.tag],
        "operationId": operation.operation_id,
        "parameters": parameters,
        "responses": responses,
        **operations.extensions(operation),
    }
