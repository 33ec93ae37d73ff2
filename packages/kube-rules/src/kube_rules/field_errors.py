"""Field errors: one validation error each, in the wording of the API server's causes of a 422.

Every constructor takes the path of the field first. Values have upstream's format: strings quoted, objects as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any

import msgspec

from kube_rules.errors import FieldError

_LONGEST = 4096


def shown(value: Any) -> str:
    """Return a value as error texts show it; long values are truncated, so that texts stay bounded."""
    if isinstance(value, str):
        return json.dumps(value if len(value) <= _LONGEST else value[:_LONGEST] + "...", ensure_ascii=False)
    text = ""
    for piece in _ENCODER.iterencode(value):
        text += piece
        if len(text) > _LONGEST:
            return text[:_LONGEST] + "..."
    return text


_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, default=str)


def frozen(value: Any) -> Hashable:
    """Return a hashable form of a JSON value: equal for equal values, computed in time linear in its size.

    As upstream, 1 is neither true nor 1.0.
    """
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value, order="deterministic")
    except (TypeError, ValueError, OverflowError):  # an integer or a text that JSON can write but no decoder reads
        return json.dumps(value, sort_keys=True).encode()


def invalid(field: str, value: Any, detail: str) -> FieldError:
    """Return the error of a malformed value or one that violates a rule."""
    return FieldError(field, f"Invalid value: {shown(value)}: {detail}", "FieldValueInvalid")


def required(field: str, detail: str = "") -> FieldError:
    """Return the error of a missing value."""
    return FieldError(field, f"Required value: {detail}" if detail else "Required value", "FieldValueRequired")


def duplicate(field: str, value: Any, detail: str = "") -> FieldError:
    """Return the error of a repeated value."""
    text = f"Duplicate value: {shown(value)}"
    return FieldError(field, f"{text}: {detail}" if detail else text, "FieldValueDuplicate")


def forbidden(field: str, detail: str) -> FieldError:
    """Return the error of a value that is not allowed here."""
    return FieldError(field, f"Forbidden: {detail}", "FieldValueForbidden")


def not_supported(field: str, value: Any, allowed: Iterable[Any]) -> FieldError:
    """Return the error of a value that is not supported; it lists the allowed values in the given order."""
    names = ", ".join(shown(item) for item in allowed)
    return FieldError(field, f"Unsupported value: {shown(value)}: supported values: {names}", "FieldValueNotSupported")


def too_long(field: str, limit: int) -> FieldError:
    """Return the error of a text of more than `limit` bytes."""
    return FieldError(field, f"Too long: may not be more than {limit} bytes", "FieldValueTooLong")


def too_many(field: str, count: int, limit: int) -> FieldError:
    """Return the error of a list of more than `limit` items."""
    items = "item" if limit == 1 else "items"
    return FieldError(field, f"Too many: {count}: must have at most {limit} {items}", "FieldValueTooMany")


def type_invalid(field: str, value: Any, detail: str) -> FieldError:
    """Return the error of a value of another JSON type."""
    return FieldError(field, f"Invalid value: {shown(value)}: {detail}", "FieldValueTypeInvalid")


def not_found(field: str, value: Any, detail: str = "") -> FieldError:
    """Return the error of a reference to a missing object."""
    text = f"Not found: {shown(value)}"
    return FieldError(field, f"{text}: {detail}" if detail else text, "FieldValueNotFound")


def malformed(field: str, value: str, syntax: Callable[[str], Collection[str]]) -> Collection[FieldError]:
    """Return the errors of a value under `syntax`, a function of `validation.names`."""
    messages = syntax(value)
    return [invalid(field, value, message) for message in messages] if messages else ()


def wanted(field: str, value: str, syntax: Callable[[str], Collection[str]]) -> Collection[FieldError]:
    """Return the errors of a value that must be set and well formed."""
    return malformed(field, value, syntax) if value else (required(field),)


def one_of(field: str, value: str, allowed: Collection[str]) -> Collection[FieldError]:
    """Return the errors of a value that must be set and one of the allowed values."""
    if not value:
        return (required(field),)
    return () if value in allowed else (not_supported(field, value, allowed),)
