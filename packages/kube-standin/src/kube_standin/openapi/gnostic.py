"""OpenAPI v2 in the protobuf form that kubectl requests.

kubectl up to 1.28 needs it for apply, create, diff and explain; later versions for `explain --output
plaintext-openapiv2`. The message types are those of the gnostic project's published interface (openapi.v2.Document);
only the parts that a Kubernetes document uses are written. Vendor extensions carry their value as YAML text (JSON is
YAML).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from kube_rules.json import Json
from kube_standin.kinds import ServedKind
from kube_standin.openapi.documents import v2_document
from kube_standin.protobuf.wire import encode_bytes, encode_number

Write = Callable[[Any], bytes]
"""A value as fields of a message."""


def v2_protobuf(kinds: Iterable[ServedKind], minor: int | None = None) -> bytes:
    """Return the body of /openapi/v2 for clients that ask for its protobuf form."""
    return _DOCUMENT(v2_document(kinds, minor))


def _text(number: int) -> Write:
    return lambda value: encode_bytes(number, value) if value else b""


def _number(number: int) -> Write:
    return lambda value: encode_number(number, int(value)) if value is not False else b""


def _in(number: int, write: Write) -> Write:
    """Return a nested message."""
    return lambda value: encode_bytes(number, write(value))


def _each(write: Write) -> Write:
    """Return a repeated field."""
    return lambda values: b"".join(map(write, values))


def _entries(number: int, write: Write) -> Write:
    """Return a map, which gnostic writes as repeated (name, value) messages."""
    return lambda items: b"".join(
        encode_bytes(number, encode_bytes(1, name) + encode_bytes(2, write(value))) for name, value in items.items()
    )


def _any(value: Any) -> bytes:
    return encode_bytes(2, json.dumps(value, separators=(",", ":")) + "\n")


def _message(words: Mapping[str, Write], obj: Json, extensions: int = 0) -> bytes:
    """Return the existing words of an object; `extensions` is the field number of words that begin with `x-`."""
    out = b"".join(write(obj[word]) for word, write in words.items() if word in obj)
    if extensions:
        out += _entries(extensions, _any)({name: obj[name] for name in sorted(obj) if name.startswith("x-")})
    return out


def _schema(schema: Json) -> bytes:
    return _message(_SCHEMA, schema, 31)


def _parameter(parameter: Json) -> bytes:
    return _PARAMETERS[parameter["in"]](parameter)


# Every table: word of the document -> its encoding, in the order of the field numbers.
_SCHEMA: Mapping[str, Write] = {
    "$ref": _text(1),
    "format": _text(2),
    "description": _text(4),
    "maxLength": _number(11),
    "minLength": _number(12),
    "pattern": _text(13),
    "maxItems": _number(14),
    "minItems": _number(15),
    "maxProperties": _number(17),
    "minProperties": _number(18),
    "required": _each(_text(19)),
    "enum": _each(_in(20, _any)),
    "additionalProperties": _in(21, _in(1, _schema)),
    "type": _in(22, _text(1)),
    "items": _in(23, _in(1, _schema)),
    "properties": _in(25, _entries(1, _schema)),
}
_ABOUT: Mapping[str, Write] = {"required": _number(1), "in": _text(2), "description": _text(3), "name": _text(4)}
_QUERY = {**_ABOUT, "type": _text(6), "uniqueItems": _number(20)}
_PATH = {**_ABOUT, "type": _text(5), "uniqueItems": _number(19)}
_BODY = {"name": _text(2), "in": _text(3), "required": _number(4), "schema": _in(5, _schema)}
_PARAMETERS: Mapping[str, Write] = {
    "body": _in(1, _in(1, partial(_message, _BODY))),
    "query": _in(1, _in(2, _in(3, partial(_message, _QUERY)))),
    "path": _in(1, _in(2, _in(4, partial(_message, _PATH)))),
}
_RESPONSE = {"description": _text(1), "schema": _in(2, _in(1, _schema))}
_OPERATION = {
    "tags": _each(_text(1)),
    "description": _text(3),
    "operationId": _text(5),
    "produces": _each(_text(6)),
    "consumes": _each(_text(7)),
    "parameters": _each(_in(8, _parameter)),
    "responses": _in(9, _entries(1, _in(1, partial(_message, _RESPONSE)))),
    "schemes": _each(_text(10)),
}
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}
_PATH_ITEM = {
    **{method: _in(number, partial(_message, _OPERATION, extensions=13)) for method, number in _METHODS.items()},
    "parameters": _each(_in(9, _parameter)),
}
_KEY = {"type": _text(1), "name": _text(2), "in": _text(3), "description": _text(4)}
_DOCUMENT: Write = partial(
    _message,
    {
        "swagger": _text(1),
        "info": _in(2, partial(_message, {"title": _text(1), "version": _text(2)})),
        "paths": _in(8, _entries(2, partial(_message, _PATH_ITEM))),
        "definitions": _in(9, _entries(1, _schema)),
        "security": _each(_in(12, _entries(1, _each(_text(1))))),
        "securityDefinitions": _in(13, _entries(1, _in(2, partial(_message, _KEY)))),
    },
)
