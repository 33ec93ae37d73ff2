"""Request bodies: read with a size limit, decoded by Content-Type (JSON, YAML, protobuf).

`LIMIT` and `kube_rules.yamltext` limit the cost of a body.  Large bodies are decoded in a thread beside the event loop
(`worker_thread`).  The JSON and YAML decoders build their data in Python, value by value, so they release the GIL every
few milliseconds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from kube_rules.errors import excerpt
from kube_rules.json import Json
from kube_rules.yamltext import RepeatedKey, YamlError, read_document
from kube_standin import errors, protobuf
from kube_standin.errors import StatusError
from kube_standin.kinds import ServedKind
from kube_standin.patching.errors import MAP, OPERATIONS, go_type, not_unmarshalled
from kube_standin.schema import parse_json_strict
from kube_standin.schema.strict_json import (
    MAX_DEPTH,
    MAX_VALUES,
    RepeatedFields,
    deeper,
    more_values,
    plain_json,
)
from kube_standin.write_options import PatchType

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

LIMIT = 3 * 1024 * 1024
"""The longest request body in bytes (as upstream)."""

_SWALLOWED = 8 * LIMIT
"""How many bytes of an oversized body are read and dropped, so that the client can read the response."""

_PREVIEW = 30
_SHOWN_KEYS = 10
_OPERATION = ("op", "path", "from", "value")
PATCH_TYPES: Mapping[str, PatchType] = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}


class Disconnected(Exception):  # noqa: N818 - not a failure: the client disconnected
    """Raised when the client disconnects before its request is complete."""


async def read_body(
    receive: Receive, content_length: int | None, came: Callable[[int], None] = lambda _: None
) -> bytes:
    """Return the whole body; raises 413 over the limit. ``came`` is called with the size of each piece."""
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
        came(len(chunk))
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
    """Return the error 413 with upstream's message."""
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {LIMIT}")


def media_type(content_type: str) -> str:
    """Return the media type without parameters in lower case; without a header it is JSON."""
    return content_type.split(";")[0].strip().lower() or "application/json"


def decode_body(raw: bytes, content_type: str, kind: str) -> tuple[Json, RepeatedFields]:
    """Return an object body as a dict, with its duplicate fields (strict validation); raises 400 and 415."""
    media = media_type(content_type)
    if media == "application/json":
        return _json(raw, kind)
    if media in ("application/yaml", "application/x-yaml"):
        value, repeated = load_yaml(raw)
        return _object(value, kind), _repeated_keys(repeated)
    if media == "application/vnd.kubernetes.protobuf":
        try:
            return protobuf.decode(raw), RepeatedFields()
        except protobuf.UnsupportedProtobuf as error:
            raise StatusError(415, "UnsupportedMediaType", str(error)) from error
    raise StatusError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf",
    )


def _json(raw: bytes, kind: str) -> tuple[Json, RepeatedFields]:
    try:
        value, paths = parse_json_strict(raw)
    except ValueError as error:
        shown = "<empty>"
        if raw:
            shown = raw[:_PREVIEW].decode("utf-8", "replace") + (" ..." if len(raw) > _PREVIEW else "")
        raise errors.bad_request(
            f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; "
            f"{error} ({shown})"
        ) from error
    return value, _duplicates(paths, raw)


def _duplicates(paths: Sequence[str], raw: bytes) -> RepeatedFields:
    return RepeatedFields([f'duplicate field "{path}"' for path in dict.fromkeys(paths)], raw)


def _object(value: Any, kind: str) -> Json:
    if not isinstance(value, dict):
        raise errors.bad_request(
            f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; "
            "yaml: the document is not a mapping"
        )
    return value


def load_yaml(raw: bytes, doing: str = "converting YAML to JSON") -> tuple[Any, list[RepeatedKey]]:
    """Return the data and repeated keys of one YAML document within the limits of `kube_rules.yamltext`; raises 400."""
    try:
        return read_document(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        problem = f"not UTF-8 text: byte {error.start}"
    except YamlError as error:
        problem = str(error) if error.line is None else f"line {error.line}: {error}"
    raise errors.bad_request(f"error {doing}: yaml: {problem}")


def _repeated_keys(repeated: list[RepeatedKey]) -> RepeatedFields:
    """Return the one problem that strict validation reports for all repeated keys."""
    if not repeated:
        return RepeatedFields()
    shown = [f'line {line}: key "{excerpt(key)}" already set in map' for key, line in repeated[:_SHOWN_KEYS]]
    more = [f"and {len(repeated) - _SHOWN_KEYS} more"] if len(repeated) > _SHOWN_KEYS else []
    return RepeatedFields(["\n  ".join(("yaml: unmarshal errors:", *shown, *more))])


def repeated_in_patch(raw: bytes, patch_type: PatchType) -> RepeatedFields:
    """Return the duplicate fields of a decoded patch (patch.go of k8s.io/apiserver)."""
    if patch_type == "json":
        value, paths = plain_json(raw)
        problems = [f'json patch duplicate field "{path}"' for path in dict.fromkeys(paths)]
        for index, operation in enumerate(value):
            unknown = (name for name in operation if name not in _OPERATION) if isinstance(operation, dict) else ()
            problems.extend(f'json patch unknown field "[{index}].{name}"' for name in unknown)
        return RepeatedFields(problems)
    if patch_type != "apply":
        return _duplicates(plain_json(raw)[1], raw)
    if raw.lstrip()[:1] == b"{":
        with suppress(ValueError):  # not JSON, so YAML
            if not plain_json(raw)[1]:
                return RepeatedFields()
    repeated = _repeated_keys(load_yaml(raw, "decoding YAML")[1])
    return RepeatedFields([f"error converting YAML to JSON: {text}" for text in repeated.texts])


def decode_patch(raw: bytes, content_type: str, kind: ServedKind) -> tuple[PatchType, Any]:
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
        value = _applied(raw)
        if not isinstance(value, dict):
            raise errors.bad_request("error decoding YAML: the applied configuration must be a mapping")
        return patch_type, value
    value = _patch_json(raw)
    wanted = OPERATIONS if patch_type == "json" else MAP
    if not isinstance(value, list if patch_type == "json" else dict):
        raise errors.bad_request(not_unmarshalled(go_type(value), wanted).message)
    return patch_type, value


def _applied(raw: bytes) -> Any:
    """Return an apply body: YAML; JSON, which most clients send, is decoded faster."""
    if raw.lstrip()[:1] == b"{":
        try:
            return _patch_json(raw)
        except StatusError:
            pass  # a flow mapping, or an error that is reported below
    return load_yaml(raw, "decoding YAML")[0]


def _patch_json(raw: bytes) -> Any:
    try:
        value = msgspec.json.decode(raw)
    except (ValueError, RecursionError) as error:  # not JSON, or not UTF-8
        raise errors.bad_request(f"error decoding patch: {error}") from error
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and deeper(value):
        raise errors.bad_request(f"error decoding patch: nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict | list) and more_values(value, raw):
        raise errors.bad_request(f"error decoding patch: more than {MAX_VALUES} values")
    return value
