"""Request bodies: read with a bound, decoded by Content-Type (JSON, YAML, protobuf)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec
import yaml

from reprieve.controlplane import errors, protobuf
from reprieve.controlplane.errors import StatusError
from reprieve.controlplane.kinds import Kind
from reprieve.controlplane.schema import parse_json_strict
from reprieve.controlplane.schema.strict_json import MAX_DEPTH, MAX_VALUES, deeper, more_values

Json = dict[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

LIMIT = 3 * 1024 * 1024
"""Longest request body in bytes (as upstream)."""

_SWALLOWED = 8 * LIMIT
"""How much of a body that is too long is read and forgotten, so that the client gets to read the answer."""

_YAML_DEPTH = 100
_YAML_NODES = 200_000
_PREVIEW = 30
PATCH_TYPES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}


class Disconnected(Exception):  # noqa: N818 - not a failure: the client went away
    """The client left before its request was complete."""


async def read_body(receive: Receive, content_length: int | None) -> bytes:
    """Return the whole body; raises 413 over the limit."""
    if content_length is not None and content_length > _SWALLOWED:
        raise too_large()
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size <= LIMIT:
            chunks.append(chunk)
        elif size > _SWALLOWED:
            raise too_large()
        if not message.get("more_body"):
            break
    if size > LIMIT:
        raise too_large()
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def too_large() -> StatusError:
    """413 as upstream words it."""
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {LIMIT}")


def media_type(content_type: str) -> str:
    """Return the bare media type, lower case; a missing one means JSON."""
    return content_type.split(";")[0].strip().lower() or "application/json"


def decode_body(raw: bytes, content_type: str, kind: str) -> tuple[Json, list[str]]:
    """Decode an object body into a dict and the paths of duplicate keys; raises 400 and 415."""
    media = media_type(content_type)
    if media == "application/json":
        return _json(raw, kind)
    if media in ("application/yaml", "application/x-yaml"):
        return _object(load_yaml(raw), raw, kind), []
    if media == "application/vnd.kubernetes.protobuf":
        try:
            return protobuf.decode(raw), []
        except protobuf.UnsupportedProtobuf as error:
            raise StatusError(415, "UnsupportedMediaType", str(error)) from error
    raise StatusError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf",
    )


def _json(raw: bytes, kind: str) -> tuple[Json, list[str]]:
    try:
        return parse_json_strict(raw)
    except ValueError as error:
        shown = "<empty>"
        if raw:
            shown = raw[:_PREVIEW].decode("utf-8", "replace") + (" ..." if len(raw) > _PREVIEW else "")
        raise errors.bad_request(
            f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; "
            f"{error} ({shown})"
        ) from error


def _object(value: Any, raw: bytes, kind: str) -> Json:
    if not isinstance(value, dict):
        raise errors.bad_request(
            f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; "
            "yaml: the document is not a mapping"
        )
    return value


def load_yaml(raw: bytes) -> Any:
    """Load one YAML document, bounded in depth and size after aliases are expanded; raises 400."""
    loader = yaml.CSafeLoader(raw)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _bound(node)
        return loader.construct_document(node)
    except yaml.YAMLError as error:
        raise errors.bad_request(f"error converting YAML to JSON: yaml: {error}") from error
    except (RecursionError, ValueError) as error:
        raise errors.bad_request(f"error converting YAML to JSON: {error}") from error
    finally:
        loader.dispose()


def _bound(root: yaml.Node) -> None:
    """Walk the document as it would be expanded and refuse depth and size beyond the limits."""
    seen = 0
    pending: list[tuple[yaml.Node, int]] = [(root, 1)]
    while pending:
        node, depth = pending.pop()
        seen += 1
        if depth > _YAML_DEPTH or seen > _YAML_NODES:
            raise ValueError("nested too deeply or too large")
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                pending.append((key, depth + 1))
                pending.append((value, depth + 1))
        elif isinstance(node, yaml.SequenceNode):
            pending.extend((item, depth + 1) for item in node.value)


def decode_patch(raw: bytes, content_type: str, kind: Kind) -> tuple[str, Any]:
    """Return the patch type and the decoded patch; raises 400 and 415."""
    media = media_type(content_type)
    patch_type = PATCH_TYPES.get(media)
    if patch_type is None:
        raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    if kind.custom and patch_type == "strategic":
        raise StatusError(
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        )
    if patch_type == "apply":
        value = load_yaml(raw) if raw.lstrip()[:1] != b"{" else _patch_json(raw)
        if not isinstance(value, dict):
            raise errors.bad_request("error decoding YAML: the applied configuration must be a mapping")
        return patch_type, value
    value = _patch_json(raw)
    if patch_type == "json":
        if not isinstance(value, list):
            raise errors.bad_request(
                f"error decoding patch: json: cannot unmarshal {_word(value)} into Go value of type "
                "[]handlers.jsonPatchOp"
            )
    elif not isinstance(value, dict):
        raise errors.bad_request(
            f"error decoding patch: json: cannot unmarshal {_word(value)} into Go value of type "
            "map[string]interface {}"
        )
    return patch_type, value


def _word(value: Any) -> str:
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    if isinstance(value, str):
        return "string"
    return "bool" if isinstance(value, bool) else "number"


def _patch_json(raw: bytes) -> Any:
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise errors.bad_request(f"error decoding patch: {error}") from error
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and deeper(value):
        raise errors.bad_request(f"error decoding patch: nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict | list) and more_values(value, raw):
        raise errors.bad_request(f"error decoding patch: more than {MAX_VALUES} values")
    return value
