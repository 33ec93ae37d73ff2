"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386).

Both return a new object and do not change their input; unchanged parts are shared with it.
"""

from __future__ import annotations

from typing import Any

from kube_rules.json import Json
from kube_standin.patching.errors import MAP, OPERATIONS, FailedTestError, PatchError, go_type, not_unmarshalled
from kube_standin.schema.strict_json import MAX_DEPTH, deeper

MOST_OPERATIONS = 10_000
MAX_COPIED = 3 * 1024 * 1024
"""Approximate number of bytes that the operations of a patch may traverse repeatedly."""


def _rejected() -> PatchError:
    """Return the refusal of a failed operation, equal for all of them (transcripts 245 to 249)."""
    return PatchError(422, "Invalid", "the server rejected our request due to an error in our request")


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_copied(inner) for inner in value]
    return value


def json_patch(obj: Json, ops: Any) -> Json:
    """Return the object after the operations, in order: add, remove, replace, move, copy, test.

    Raises:
        PatchError: 400 if `ops` is not a list of operations, 413 if there are more than 10,000, 422 if one
        fails.
    """
    if not isinstance(ops, list) or not all(isinstance(op, dict) for op in ops):
        raise not_unmarshalled("object" if isinstance(ops, dict) else "value", OPERATIONS)
    if len(ops) > MOST_OPERATIONS:
        raise PatchError(
            413,
            "RequestEntityTooLarge",
            f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(ops)}",
        )
    document: Any = _copied(obj)
    room = MAX_COPIED
    for op in ops:
        kind = op.get("op")
        if kind in ("copy", "test"):
            # Each of them traverses a whole part of the document, and copies can double it repeatedly.
            path = _tokens(op.get("from" if kind == "copy" else "path"))
            room -= len(repr(op)) + weight(_get(document, path, missing=None), room)
            if room < 0:
                raise PatchError(413, "RequestEntityTooLarge", "json patch copies more than 3 MiB")
        document = _operate(document, op)
    if not isinstance(document, dict):
        raise _rejected()
    if deeper(document):
        raise PatchError(422, "Invalid", f"the patched object is nested deeper than {MAX_DEPTH} levels")
    return document


def weight(value: Any, limit: int) -> int:
    """Return the approximate size of a value in bytes of JSON; counting stops above the limit."""
    weight = 0
    pending = [value]
    while pending and weight <= limit:
        current = pending.pop()
        weight += 2
        if isinstance(current, dict):
            weight += sum(map(len, current))
            pending.extend(current.values())
        elif isinstance(current, list):
            pending.extend(current)
        elif isinstance(current, str):
            weight += len(current)
    return weight


def _operate(document: Any, op: Json) -> Any:
    kind, path = op.get("op"), _tokens(op.get("path"))
    if kind in ("add", "replace", "test") and "value" not in op:
        raise _rejected()
    if kind == "add":
        return _add(document, path, _copied(op["value"]))
    if kind == "replace":
        if not path:
            return _copied(op["value"])
        _get(document, path)
        parent, key = _parent(document, path)
        parent[key] = _copied(op["value"])
        return document
    if kind == "remove":
        _remove(document, path)
        return document
    if kind == "test":
        if not _equal(_get(document, path, missing=None), op["value"]):
            refused = _rejected()
            raise FailedTestError(refused.code, refused.reason, refused.message)
        return document
    if kind == "copy":
        return _add(document, path, _copied(_get(document, _tokens(op.get("from")))))
    if kind == "move":
        source = _tokens(op.get("from"))
        if path[: len(source)] == source and len(path) > len(source):
            raise _rejected()
        value = _get(document, source)
        _remove(document, source)
        return _add(document, path, value)
    raise _rejected()


def _equal(left: Any, right: Any) -> bool:
    """Return whether two JSON values are equal: true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)


def _tokens(pointer: Any) -> list[str]:
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise _rejected()
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


_NO_DEFAULT = object()


def _get(document: Any, path: list[str], missing: Any = _NO_DEFAULT) -> Any:
    """Return the value at a path; `missing`, if given, if only the last step does not exist."""
    for depth, token in enumerate(path):
        if isinstance(document, dict) and token in document:
            document = document[token]
        elif isinstance(document, list):
            document = document[_index(token, len(document) - 1)]
        elif missing is not _NO_DEFAULT and depth == len(path) - 1 and isinstance(document, dict):
            return missing
        else:
            raise _rejected()
    return document


def _index(token: str, highest: int) -> int:
    """Return a list index; negative ones count from the end, as in upstream's library."""
    digits = token.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or (len(digits) > 1 and digits[0] == "0") or len(digits) > 9:
        raise _rejected()
    index = int(token)
    if index < 0:
        index += highest + 1
    if not 0 <= index <= highest:
        raise _rejected()
    return index


def _parent(document: Any, path: list[str]) -> tuple[Any, Any]:
    """Return the container of the last step, and its key or index there."""
    container = _get(document, path[:-1])
    if isinstance(container, dict):
        return container, path[-1]
    if isinstance(container, list):
        return container, _index(path[-1], len(container) - 1)
    raise _rejected()


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    container = _get(document, path[:-1])
    if isinstance(container, dict):
        container[path[-1]] = value
    elif isinstance(container, list):
        at = len(container) if path[-1] == "-" else _index(path[-1], len(container))
        container.insert(at, value)
    else:
        raise _rejected()
    return document


def _remove(document: Any, path: list[str]) -> None:
    if not path:
        raise _rejected()
    _get(document, path)
    container, key = _parent(document, path)
    del container[key]


def merge_patch(obj: Json, patch: Any) -> Json:
    """Return the object after a JSON merge patch: null removes, objects merge, everything else replaces.

    Raises:
        PatchError: 400 if the patch is not an object.
    """
    if not isinstance(patch, dict):
        raise not_unmarshalled(go_type(patch), MAP)
    merged: Json = _merge(obj, patch)
    return merged


def _merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    out = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = _merge(out.get(key), value)
    return out
