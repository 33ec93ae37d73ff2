"""The type of a JSON object as it is read or written: a manifest, a body, a part of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]
"""Field names -> JSON values."""


def mapping(value: object) -> Mapping[str, Any]:
    """Return the value if it is a map, otherwise an empty map."""
    return value if isinstance(value, Mapping) else {}


def text(value: object) -> str:
    """Return the value if it is text, otherwise an empty text."""
    return value if isinstance(value, str) else ""
