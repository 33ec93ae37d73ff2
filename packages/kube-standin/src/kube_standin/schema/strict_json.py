"""Parsing of a JSON request body: one object, bounded depth, and the paths of repeated keys.

The last of two equal keys wins, as in every other decoder; Strict validation refuses and Warn names the duplicates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

MAX_DEPTH = 200
MAX_VALUES = 200_000
"""Maximum number of values in a body: enough for any real object that fits into etcd, at an acceptable memory cost."""
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class RepeatedFields(NamedTuple):
    """The repeated fields of a body; true if there are any.

    ``texts`` are the problems in the words of strict validation. ``raw`` is their body, if it is JSON.
    """

    texts: Sequence[str] = ()
    raw: bytes = b""

    def __bool__(self) -> bool:
        return bool(self.texts)

    def in_document_order(self, unknown: Sequence[str]) -> list[str]:
        """Return the messages of repeated and of ``unknown`` fields (paths) of a typed object, each once.

        The order is that of sigs.k8s.io/json: the order of a JSON body, nothing inside an unknown field; those of YAML
        come first.
        """
        if not self.raw or not self.texts:
            return [*self.texts, *(f'unknown field "{path}"' for path in unknown)]
        pairs = json.loads(self.raw.decode(), object_pairs_hook=_Pairs)
        return list(dict.fromkeys(_problems(pairs, "", frozenset(unknown))))


class _Pairs(list[tuple[str, Any]]):
    """The fields of an object in their original order."""


def _problems(value: Any, path: str, unknown: frozenset[str]) -> Iterator[str]:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, inner in value:
            below = f"{path}.{key}" if path else key
            if below in unknown:
                yield f'unknown field "{below}"'
                continue
            if key in seen:
                yield f'duplicate field "{below}"'
            seen.add(key)
            yield from _problems(inner, below, unknown)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _problems(inner, f"{path}[{index}]", unknown)


class _WithDuplicates(dict[str, Any]):
    """An object with repeated keys; it exists only until the paths are known."""

    duplicates: list[str]


def parse_json_strict(raw: bytes) -> tuple[dict[str, Any], list[str]]:
    """Return the object in `raw` and the paths (`metadata.name`) of its duplicate keys, in document order.

    Raises:
        ValueError: not JSON, not an object, deeper than 200 levels, or invalid numbers; the text names the problem.
    """
    # Decoded here: json.loads takes bytes in UTF-16 too, and surrogates that no UTF-8 text has.
    try:
        value, paths = plain_json(raw)
    except RecursionError:
        raise ValueError(f"json parse error: nested deeper than {MAX_DEPTH} levels") from None
    except UnicodeDecodeError:
        raise ValueError("json parse error: invalid UTF-8") from None
    except json.JSONDecodeError as error:
        if error.pos >= len(error.doc.rstrip()):
            raise ValueError("json parse error: unexpected end of JSON input") from None
        raise ValueError(f"json parse error: {error.msg} at offset {error.pos}") from None
    if not isinstance(value, dict):
        kind = {list: "array", str: "string", bool: "bool"}.get(type(value), "number" if value is not None else "null")
        raise ValueError(f"json parse error: json: cannot unmarshal {kind} into an object")
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and deeper(value):
        raise ValueError(f"json parse error: nested deeper than {MAX_DEPTH} levels")
    if _SURROGATE.search(raw) and not _encodable(value):
        raise ValueError("json parse error: a string holds half of a surrogate pair")
    if more_values(value, raw):
        raise ValueError(f"json parse error: an object of more than {MAX_VALUES} values")
    return value, paths


def plain_json(raw: bytes) -> tuple[Any, list[str]]:
    """Return the value in `raw` and the paths of its duplicate keys, without further bounds.

    Raises:
        ValueError, RecursionError: not JSON.
    """
    has_duplicates = False

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal has_duplicates
        fields = dict(pairs)
        if len(fields) == len(pairs):
            return fields
        has_duplicates = True
        marked = _WithDuplicates(fields)
        seen: set[str] = set()
        marked.duplicates = []
        for key, _ in pairs:
            if key in seen:
                marked.duplicates.append(key)
            seen.add(key)
        return marked

    value = json.loads(raw.decode(), object_pairs_hook=build, parse_constant=_no_constant)
    if not has_duplicates:
        return value, []
    paths: list[str] = []
    return _plain(value, "", paths), paths


def more_values(value: Any, raw: bytes) -> bool:
    """Return whether a JSON value, read from `raw`, contains more than `MAX_VALUES` values."""
    if raw.count(b",") + raw.count(b"[") + raw.count(b"{") < MAX_VALUES:
        return False
    level: list[Any] = [value]
    count = 1
    while level and count <= MAX_VALUES:
        below: list[Any] = []
        for inner in level:
            inside = inner.values() if isinstance(inner, dict) else inner
            count += len(inner)
            below.extend(v for v in inside if isinstance(v, dict | list))
        level = below
    return count > MAX_VALUES


def _encodable(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _no_constant(name: str) -> float:
    raise ValueError(f"json parse error: {name} is not JSON")


def deeper(value: Any) -> bool:
    """Return whether a JSON value is nested deeper than `MAX_DEPTH`."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for inner in level:
            if isinstance(inner, dict):
                below.extend(v for v in inner.values() if isinstance(v, dict | list))
            else:
                below.extend(v for v in inner if isinstance(v, dict | list))
        if not below:
            return False
        level = below
    return True


def _plain(value: Any, path: str, paths: list[str]) -> Any:
    """Return the value with plain dicts; the paths of duplicates go to `paths`."""
    if isinstance(value, dict):
        if isinstance(value, _WithDuplicates):
            paths.extend(f"{path}.{key}" if path else key for key in value.duplicates)
        return {key: _plain(inner, f"{path}.{key}" if path else key, paths) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner, f"{path}[{index}]", paths) for index, inner in enumerate(value)]
    return value
