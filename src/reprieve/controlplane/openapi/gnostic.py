"""OpenAPI v2 in the protobuf form that kubectl up to 1.28 asks for.

The message types are those of the gnostic project's published interface (openapi.v2.Document); only what a
Kubernetes document uses is written. Vendor extensions carry their value as YAML text (JSON is YAML).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from reprieve.controlplane.protobuf.wire import encode_bytes, encode_number

Json = dict[str, Any]
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}


def _texts(number: int, values: list[str]) -> bytes:
    return b"".join(encode_bytes(number, value) for value in values)


def _text(number: int, value: str) -> bytes:
    return encode_bytes(number, value) if value else b""


def _named(number: int, name: str, value: bytes) -> bytes:
    """An entry of a map, which gnostic writes as a repeated (name, value) message."""
    return encode_bytes(number, encode_bytes(1, name) + encode_bytes(2, value))


def _any(value: Any) -> bytes:
    return encode_bytes(2, json.dumps(value, separators=(",", ":")) + "\n")


def _extensions(number: int, holder: Json) -> bytes:
    return b"".join(
        _named(number, name, _any(value)) for name, value in sorted(holder.items()) if name.startswith("x-")
    )


def document(given: Json) -> bytes:
    """An OpenAPI v2 document, encoded."""
    info = encode_bytes(1, given["info"]["title"]) + encode_bytes(2, given["info"]["version"])
    paths = b"".join(_named(2, path, _path_item(item)) for path, item in given["paths"].items())
    definitions = b"".join(_named(1, name, _schema(body)) for name, body in given["definitions"].items())
    return b"".join(
        (
            encode_bytes(1, given["swagger"]),
            encode_bytes(2, info),
            encode_bytes(8, paths),
            encode_bytes(9, definitions),
            b"".join(encode_bytes(12, _requirement(one)) for one in given.get("security", ())),
            encode_bytes(13, _security(given.get("securityDefinitions", {}))),
        )
    )


def _requirement(given: Json) -> bytes:
    return b"".join(_named(1, name, _texts(1, scopes)) for name, scopes in given.items())


def _security(given: Json) -> bytes:
    out = b""
    for name, scheme in given.items():
        key = (
            encode_bytes(1, scheme["type"])
            + encode_bytes(2, scheme["name"])
            + encode_bytes(3, scheme["in"])
            + encode_bytes(4, scheme["description"])
        )
        out += _named(1, name, encode_bytes(2, key))
    return out


def _path_item(item: Json) -> bytes:
    out = b"".join(
        encode_bytes(number, _operation(item[method])) for method, number in _METHODS.items() if method in item
    )
    return out + b"".join(encode_bytes(9, _parameter(one)) for one in item.get("parameters", ()))


def _operation(given: Json) -> bytes:
    responses = b"".join(_named(1, code, encode_bytes(1, _response(body))) for code, body in given["responses"].items())
    return b"".join(
        (
            _texts(1, given["tags"]),
            _text(3, given["description"]),
            _text(5, given["operationId"]),
            _texts(6, given["produces"]),
            _texts(7, given["consumes"]),
            b"".join(encode_bytes(8, _parameter(one)) for one in given["parameters"]),
            encode_bytes(9, responses),
            _texts(10, given["schemes"]),
            _extensions(13, given),
        )
    )


def _response(given: Json) -> bytes:
    out = encode_bytes(1, given["description"])
    if "schema" in given:
        out += encode_bytes(2, encode_bytes(1, _schema(given["schema"])))
    return out


def _parameter(given: Json) -> bytes:
    """A ParametersItem holding a Parameter: body, query or path."""
    if given["in"] == "body":
        body = (
            encode_bytes(2, given["name"])
            + encode_bytes(3, "body")
            + (encode_number(4, 1) if given.get("required") else b"")
            + encode_bytes(5, _schema(given["schema"]))
        )
        return encode_bytes(1, encode_bytes(1, body))
    shared = (
        (encode_number(1, 1) if given.get("required") else b"")
        + encode_bytes(2, given["in"])
        + _text(3, given["description"])
        + encode_bytes(4, given["name"])
    )
    unique = encode_number(20 if given["in"] == "query" else 19, 1)
    if given["in"] == "query":
        return encode_bytes(1, encode_bytes(2, encode_bytes(3, shared + encode_bytes(6, given["type"]) + unique)))
    return encode_bytes(1, encode_bytes(2, encode_bytes(4, shared + encode_bytes(5, given["type"]) + unique)))


_SCHEMA_WORDS: tuple[tuple[str, Callable[[Any], bytes]], ...] = (
    ("$ref", lambda v: encode_bytes(1, v)),
    ("format", lambda v: encode_bytes(2, v)),
    ("description", lambda v: _text(4, v)),
    ("maxLength", lambda v: encode_number(11, v)),
    ("minLength", lambda v: encode_number(12, v)),
    ("pattern", lambda v: encode_bytes(13, v)),
    ("maxItems", lambda v: encode_number(14, v)),
    ("minItems", lambda v: encode_number(15, v)),
    ("maxProperties", lambda v: encode_number(17, v)),
    ("minProperties", lambda v: encode_number(18, v)),
    ("required", lambda v: _texts(19, v)),
    ("enum", lambda v: b"".join(encode_bytes(20, _any(one)) for one in v)),
    ("additionalProperties", lambda v: encode_bytes(21, encode_bytes(1, _schema(v)))),
    ("type", lambda v: encode_bytes(22, encode_bytes(1, v))),
    ("items", lambda v: encode_bytes(23, encode_bytes(1, _schema(v)))),
    ("properties", lambda v: encode_bytes(25, b"".join(_named(1, n, _schema(s)) for n, s in v.items()))),
)


def _schema(given: Json) -> bytes:
    out = b"".join(write(given[word]) for word, write in _SCHEMA_WORDS if word in given)
    return out + _extensions(31, given)
