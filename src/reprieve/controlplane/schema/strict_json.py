"""Reading a JSON request body: one object, bounded depth, and the paths of keys given twice.

The last of two equal keys wins, as in every other decoder; Strict validation refuses and Warn names the
duplicates.
"""

from __future__ import annotations

import json
from typing import Any

MAX_DEPTH = 200


class _WithDuplicates(dict[str, Any]):
    """An object with keys given more than once; it lives only until the paths are known."""

    duplicates: list[str]


def parse_json_strict(raw: bytes) -> tuple[dict[str, Any], list[str]]:
    """The object in `raw` and the paths (`metadata.name`) of its duplicate keys, in document order.

    Raises:
        ValueError: not JSON, not an object, deeper than 200 levels, or numbers that are none; the text says
        which.
    """
    found = False

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal found
        made = dict(pairs)
        if len(made) == len(pairs):
            return made
        found = True
        marked = _WithDuplicates(made)
        seen: set[str] = set()
        marked.duplicates = []
        for key, _ in pairs:
            if key in seen:
                marked.duplicates.append(key)
            seen.add(key)
        return marked

    try:
        value = json.loads(raw, object_pairs_hook=build, parse_constant=_no_constant)
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
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and _deeper(value, MAX_DEPTH):
        raise ValueError(f"json parse error: nested deeper than {MAX_DEPTH} levels")
    if not found:
        return value, []
    paths: list[str] = []
    return _plain(value, "", paths), paths


def _no_constant(name: str) -> float:
    raise ValueError(f"json parse error: {name} is not JSON")


def _deeper(value: Any, limit: int) -> bool:
    level: list[Any] = [value]
    for _ in range(limit):
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
    """The value with plain dicts; the paths of duplicates go to `paths`."""
    if isinstance(value, dict):
        if isinstance(value, _WithDuplicates):
            paths.extend(f"{path}.{key}" if path else key for key in value.duplicates)
        return {key: _plain(inner, f"{path}.{key}" if path else key, paths) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner, f"{path}[{index}]", paths) for index, inner in enumerate(value)]
    return value
