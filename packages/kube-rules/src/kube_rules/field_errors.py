"""Field errors: one finding of validation, worded as the API server words the causes of a 422.

Every constructor takes the path of the field first. Values are shown as upstream shows them: strings
quoted, objects as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any

import msgspec

from kube_rules.errors import FieldError

_LONGEST = 4096


def shown(value: Any) -> str:
    """Return a value as error texts show it; a long one is cut, so that a text is bounded whatever was sent."""
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
    """Return a value that stands for a JSON value in a set: equal for equal ones, made in time linear in its size.

    As upstream, 1 is neither true nor 1.0.
    """
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value, order="deterministic")
    except (TypeError, ValueError, OverflowError):  # an integer or a text that JSON can write and no decoder reads
        return json.dumps(value, sort_keys=True).encode()


def invalid(field: str, value: Any, detail: str) -> FieldError:
    """The value is malformed or breaks a rule."""
    return FieldError(field, f"Invalid value: {shown(value)}: {detail}", "FieldValueInvalid")


def required(field: str, detail: str = "") -> FieldError:
    """The field has no value."""
    return FieldError(field, f"Required value: {detail}" if detail else "Required value", "FieldValueRequired")


def duplicate(field: str, value: Any, detail: str = "") -> FieldError:
    """The value was there before."""
    text = f"Duplicate value: {shown(value)}"
    return FieldError(field, f"{text}: {detail}" if detail else text, "FieldValueDuplicate")


def forbidden(field: str, detail: str) -> FieldError:
    """A value may not stand here."""
    return FieldError(field, f"Forbidden: {detail}", "FieldValueForbidden")


def not_supported(field: str, value: Any, allowed: Iterable[Any]) -> FieldError:
    """Not one of the known values; they are listed in the order given."""
    known = ", ".join(shown(item) for item in allowed)
    return FieldError(field, f"Unsupported value: {shown(value)}: supported values: {known}", "FieldValueNotSupported")


def too_long(field: str, limit: int) -> FieldError:
    """Return a text of more than `limit` bytes."""
    return FieldError(field, f"Too long: may not be more than {limit} bytes", "FieldValueTooLong")


def too_many(field: str, count: int, limit: int) -> FieldError:
    """Return a list of more than `limit` items."""
    items = "item" if limit == 1 else "items"
    return FieldError(field, f"Too many: {count}: must have at most {limit} {items}", "FieldValueTooMany")


def type_invalid(field: str, value: Any, detail: str) -> FieldError:
    """Return a value of another JSON type."""
    return FieldError(field, f"Invalid value: {shown(value)}: {detail}", "FieldValueTypeInvalid")


def not_found(field: str, value: Any, detail: str = "") -> FieldError:
    """The value names nothing that exists."""
    text = f"Not found: {shown(value)}"
    return FieldError(field, f"{text}: {detail}" if detail else text, "FieldValueNotFound")


def malformed(field: str, value: str, syntax: Callable[[str], Collection[str]]) -> Collection[FieldError]:
    """Return everything that `syntax`, a function of `validation.names`, finds wrong with the value."""
    messages = syntax(value)
    return [invalid(field, value, message) for message in messages] if messages else ()


def wanted(field: str, value: str, syntax: Callable[[str], Collection[str]]) -> Collection[FieldError]:
    """The value must be there and well formed."""
    return malformed(field, value, syntax) if value else (required(field),)


def one_of(field: str, value: str, allowed: Collection[str]) -> Collection[FieldError]:
    """The value must be there and one of the known ones."""
    if not value:
        return (required(field),)
    return () if value in allowed else (not_supported(field, value, allowed),)
