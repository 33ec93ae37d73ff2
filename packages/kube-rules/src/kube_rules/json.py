"""The one type of a JSON object that is read or written as it is: a manifest, a body, a part of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]
"""Names of fields -> values as JSON has them."""


def mapping(value: object) -> Mapping[str, Any]:
    """Return the value if it is a map, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def text(value: object) -> str:
    """Return the value if it is text, else an empty text."""
    return value if isinstance(value, str) else ""
